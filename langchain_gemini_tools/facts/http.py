"""What HTTP carries beside our bodies: headers that can be sent, and the body of an error response.

An error response has a code, a message, details and a delay; google.rpc codes are here as well.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.facts.json_values import JsonObject


# Headers

_NOT_IN_A_HEADER = re.compile(r"[^\t -~]|^\s|\s\Z")


def find_invalid_character(value: str) -> str | None:
    """Describe the first character that a header cannot contain, without showing the value."""
    if not (found := _NOT_IN_A_HEADER.search(value)):
        return None
    from unicodedata import name

    character = f"U+{ord(found[0]):04X}, {name(found[0], 'a control character')}"
    return f"character {found.start() + 1} of {len(value)} is {character}, which cannot be sent"


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADERS_OF_HTTP = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that describe the body and the connection. With other values the request would break."""


def check_headers(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return headers that can be sent; the message of the error has no values.

    Raises:
        ValueError: A header cannot be sent, or it is not for users to set.
    """
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name of a header.")
        if name.lower() in _HEADERS_OF_HTTP:
            raise ValueError(f"The header {name!r} is set for each request. Leave it out.")
        if reason := find_invalid_character(value):
            raise ValueError(f"The header {name!r} is not valid: {reason}. Copy it again.")
    return headers


# Error responses

_UNKNOWN = (500, "UNKNOWN")
_RPC_CODES = {
    1: (499, "CANCELLED"),
    2: _UNKNOWN,
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    6: (409, "ALREADY_EXISTS"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    10: (409, "ABORTED"),
    11: (400, "OUT_OF_RANGE"),
    12: (501, "UNIMPLEMENTED"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    15: (500, "DATA_LOSS"),
    16: (401, "UNAUTHENTICATED"),
}
"""google.rpc.Code -> HTTP status and name."""
_CODE_OF_STATUS = {status: code for code, status in _RPC_CODES.values()}
# The Interactions API has a word in `code`. The first is recorded, the second documented; of the
# others only the HTTP status is known.
_CODE_OF_WORD = {"invalid_request": 400, "gateway_timeout": 504} | {
    status.lower(): code for status, code in _CODE_OF_STATUS.items()
}

# "Your prepayment credits are depleted. ...", "Your project has exceeded its monthly spending cap."
_OUT_OF_FUNDS = re.compile(r"credits are depleted|exceeded its (monthly )?spending cap")

_FIELDS = ("code", "details", "message", "status")
_EXPLANATIONS = ("message", "error_description", "detail")
"""Fields in which gateways explain the word in `error`."""
_SHOWN_LENGTH = 300


def find_http_status(code: object) -> tuple[int, str]:
    """Return the HTTP status and the name of a code in a body: google.rpc's, or HTTP's."""
    if not isinstance(code, int):
        return _UNKNOWN
    return (code, "UNKNOWN") if code >= 400 else _RPC_CODES.get(code, _UNKNOWN)


def parse_error_body(text: str, reason: str = "") -> Any:
    """Return the body of an error as JSON; an HTML page becomes `{"error": {"message": ...}}`."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if isinstance(parsed, dict):
        return parsed
    return {"error": {"message": _readable(text) or reason or "The response has no body."}}


def contains_error(value: Any) -> bool:
    """Return whether a JSON value that came with status 200 is an error nevertheless.

    An interaction that says why it failed is a response, not an error.
    """
    return any(map(_is_error, value)) if isinstance(value, list) else _is_error(value)


def _is_error(value: Any) -> bool:
    if not isinstance(value, dict) or not value.get("error"):
        return False
    return not {"id", "status"} <= value.keys()


class ErrorBody:
    """The error in a body, whatever the shape of the body.

    Args:
        details: The body as JSON.
        headers: The headers of the response, with names in lower case.
    """

    def __init__(self, details: Any, headers: Mapping[str, str]) -> None:
        self._error = error = _error_object(details)
        self._headers = headers
        self.status = _text(error.get("status"))
        """The status of the API, such as `RESOURCE_EXHAUSTED`."""
        self.message = _text(error.get("message")) or _other_fields(error)

    @property
    def code(self) -> int:
        """The HTTP status that the body states; 500 if there is none."""
        code = self._error.get("code")
        if isinstance(code, int) and 300 <= code < 600:
            return code
        if isinstance(code, str) and code in _CODE_OF_WORD:
            return _CODE_OF_WORD[code]
        return _CODE_OF_STATUS.get(str(self._error.get("status")), 500)

    @property
    def reason(self) -> str | None:
        """The reason of ErrorInfo, such as `API_KEY_INVALID`."""
        return _text(self._detail("ErrorInfo").get("reason"))

    @property
    def request_id(self) -> str | None:
        """The id to quote to Google's support."""
        return self._detail("RequestInfo").get("requestId") or self._headers.get("x-request-id")

    @property
    def is_daily_quota(self) -> bool:
        """Whether a quota per day is used up."""
        quotas = _listed(self._detail("QuotaFailure"), "violations")
        return any("PerDay" in str(quota.get("quotaId")) for quota in quotas)

    @property
    def is_out_of_funds(self) -> bool:
        """Whether prepaid credits are used up, or a project has reached its spending cap."""
        return bool(_OUT_OF_FUNDS.search(self.message or ""))

    @property
    def retry_after(self) -> float | None:
        """The seconds of RetryInfo in the body ("26s"), else of Retry-After."""
        given = self._detail("RetryInfo").get("retryDelay") or self._headers.get("retry-after")
        try:
            seconds = float(str(given).removesuffix("s"))
            return None if math.isnan(seconds) else max(seconds, 0.0)
        except ValueError:
            pass
        try:
            date = parsedate_to_datetime(str(given))
            date = date if date.tzinfo else date.replace(tzinfo=UTC)  # "-0000" is UTC as well
            return max((date - datetime.now(UTC)).total_seconds(), 0.0)
        except (ValueError, TypeError, OverflowError):
            return None

    def describe(self, code: int) -> str:
        """Return one line: code, status, message, the invalid fields, the delay."""
        given = self._error.get("message") or self.message or "no explanation"
        message = " ".join(str(given).split())
        text = " ".join(filter(None, [str(code), self.status])) + f": {message}"
        for found in _listed(self._detail("BadRequest"), "fieldViolations"):
            description = " ".join(str(found.get("description", "?")).split())
            if description not in message:  # the message often repeats the violations
                text += f" [{found.get('field', '?')}: {description}]"
        delay = self.retry_after
        return text if delay is None else f"{text} [retry after {delay:g} s]"

    def _detail(self, kind: str) -> JsonObject:
        """Return the first detail of this google.rpc type, or an empty dict."""
        for detail in _listed(self._error, "details"):
            if str(detail.get("@type")).endswith(f"google.rpc.{kind}"):
                return detail
        return {}


def _error_object(details: Any) -> JsonObject:
    if isinstance(details, list):
        details = next(filter(contains_error, details), None)
    if not isinstance(details, dict):
        return {}
    error = details.get("error", details)
    return error if isinstance(error, dict) else _flagged_error(details, error)


def _flagged_error(details: JsonObject, error: object) -> JsonObject:
    """Return an error that is a word or a flag, with what a gateway writes beside it."""
    beside = {name: value for name, value in details.items() if name != "error"}
    if not (error and isinstance(error, str)):
        return beside or {"message": str(error)}
    explanations = (_text(beside.get(name)) for name in _EXPLANATIONS)
    return {"message": ": ".join([error, *filter(None, explanations)])}


def _other_fields(error: JsonObject) -> str | None:
    """Return what an error without a message says in fields of its own, as some gateways write."""
    other = {name: error[name] for name in error if name not in _FIELDS}
    return json.dumps(other, ensure_ascii=False)[:_SHOWN_LENGTH] if other else None


def _listed(found: JsonObject, key: str) -> list[JsonObject]:
    items = found.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _readable(text: str) -> str:
    """Return the title of an HTML page, else its text."""
    # Tags do not contain "<": so each character is read once, whatever the page contains.
    title = re.search(r"<title[^<>]*>([^<]+)", text, re.IGNORECASE)
    words = title[1] if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(words.split())[:_SHOWN_LENGTH]
