"""What no message, log line or error may show: keys, tokens, and whatever is shaped like them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# API keys (AIza…, AQ.…), OAuth tokens (ya29.…), and any bearer token.
_SHAPES = re.compile(r"AIza[\w-]{10,}|AQ\.[\w-]{20,}|ya29\.[\w.-]+|(?<=Bearer )[\w.~+/=-]{8,}")
_SCHEME = re.compile(r"^[A-Za-z-]+ +(?=\S+$)")  # "Bearer ", "Basic "
_HTML_SIGNS = re.compile("[<>&='\"]")
_SECRET_HEADERS = re.compile(r"auth|key|token|cookie|secret|password", re.IGNORECASE)


def scrub(text: str, secrets: Collection[str] = ()) -> str:
    """The text without these secrets and without anything shaped like a key or a token."""
    for secret in secrets:
        # As it is, as a header is sent, as Python writes a key with a line break in it, and as
        # JSON may write it.
        for form in (secret, secret.strip(), repr(secret)[1:-1], *_escaped(secret)):
            if len(form) >= 8:  # shorter ones are no secrets, and would tear up unrelated words
                text = text.replace(form, "[redacted]")
    return _SHAPES.sub("[redacted]", text)


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The values of those headers that are credentials."""
    found = [value for name, value in headers.items() if _SECRET_HEADERS.search(name)]
    return [_SCHEME.sub("", value) for value in found if value]


def _escaped(secret: str) -> list[str]:
    """The secret as servers write it into JSON: Google's escape the signs of HTML."""
    as_html = _HTML_SIGNS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", secret)
    return [as_html, secret.replace("/", "\\/"), as_html.replace("/", "\\/")]
