"""What no message, log line or error may show: keys, tokens, and whatever is shaped like them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# API keys (AIza…, AQ.…), OAuth tokens (ya29.…), and any bearer token.
_SHAPES = re.compile(r"AIza[\w-]{10,}|AQ\.[\w-]{20,}|ya29\.[\w.-]+|(?<=Bearer )[\w.~+/=-]{8,}")
_SECRET_HEADERS = re.compile(r"auth|key|token|cookie|secret|password", re.IGNORECASE)


def scrub(text: str, secrets: Collection[str] = ()) -> str:
    """The text without these secrets and without anything shaped like a key or a token."""
    for secret in secrets:
        # As it is, as a header is sent, and as Python writes a key with a line break in it.
        for form in (secret, secret.strip(), repr(secret)[1:-1]):
            if len(form) >= 8:  # shorter ones are no secrets, and would tear up unrelated words
                text = text.replace(form, "[redacted]")
    return _SHAPES.sub("[redacted]", text)


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The values of those headers that are credentials."""
    found = [value for name, value in headers.items() if _SECRET_HEADERS.search(name)]
    return [value.removeprefix("Bearer ") for value in found if value]
