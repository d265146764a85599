"""What no message, log line or error may show: keys, tokens, and whatever is shaped like them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_gemini_tools.errors import ResponseError

# API keys (AIza…, AQ.…), OAuth tokens (ya29.…), and any bearer token.
_SHAPES = re.compile(r"AIza[\w-]{10,}|AQ\.[\w-]{20,}|ya29\.[\w.-]+|(?<=Bearer )[\w.~+/=-]{8,}")
_SCHEME = re.compile(r"^[A-Za-z-]+ +(?=\S+$)")  # "Bearer ", "Basic "
# Signs that JSON may escape and need not: Google's servers do so with those of HTML. An escaped
# backslash is passed over: what follows it is no escape.
_NEEDLESS_ESCAPE = re.compile(r"\\\\|\\/|\\u00(?!22|5c|7f)([2-7][0-9a-f])", re.IGNORECASE)
_SECRET_HEADERS = re.compile(r"auth|key|token|cookie|secret|password", re.IGNORECASE)


def scrub(text: str, secrets: Collection[str] = ()) -> str:
    """The text without these secrets and without anything shaped like a key or a token."""
    if "\\" in text:
        text = _NEEDLESS_ESCAPE.sub(_unescape, text)
    for secret in secrets:
        # As it is, as a header is sent, as Python writes a key with a line break in it, and as
        # JSON has to write it.
        for form in (secret, secret.strip(), repr(secret)[1:-1], json.dumps(secret)[1:-1]):
            if len(form) >= 8:  # shorter ones are no secrets, and would tear up unrelated words
                text = text.replace(form, "[redacted]")
    return _SHAPES.sub("[redacted]", text)


def scrub_json(value: Any, secrets: Collection[str] = ()) -> Any:
    """The value with every text in it scrubbed."""
    if isinstance(value, str):
        return scrub(value, secrets)
    if isinstance(value, dict):
        return {scrub_json(key, secrets): scrub_json(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [scrub_json(each, secrets) for each in value]
    return value


def scrub_error(error: ResponseError, secrets: Collection[str]) -> None:
    """Take secrets out of all that an error tells, but not out of the answer on its `partial`."""
    error.args = tuple(scrub_json([*error.args], secrets))
    partial = error.partial
    told = {name: value for name, value in vars(error).items() if name != "partial"}
    vars(error).update(scrub_json(told, secrets))
    if partial is not None:  # beside the answer there are the API's words about it
        partial.response_metadata = scrub_json(partial.response_metadata, secrets)


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The values of those headers that are credentials."""
    found = [value for name, value in headers.items() if _SECRET_HEADERS.search(name)]
    return [_SCHEME.sub("", value) for value in found if value]


def _unescape(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return "/" if escape[0] == "\\/" else escape[0]
