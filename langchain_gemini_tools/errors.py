"""Every failure a caller may want to tell apart.

* GeminiToolsError
  * InvalidInputError (ValueError)            refused before anything was sent; says the way out
    * UnsupportedBlockError              a message holds a block that Gemini has no part for
    * InvalidHistoryError                the messages cannot be sent in this order
    * InvalidToolError                   a tool that Gemini could not be told about
    * UnknownToolError                   `tool_choice` names a tool that is not bound
    * InvalidOptionError                 an argument, or a combination of them, that cannot work
    * MediaFetchError                    what a URL in a message names was not fetched
  * ResponseError (ModelError)              the API answered 200, but not with an answer
    * BlockedError                       the prompt or the answer was blocked
    * EmptyResponseError                    there is nothing in it
    * MalformedToolCallError                 the model tried to call a tool and failed
    * TruncatedStreamError               the stream ended in the middle
    * UnreadableResponseError               what came back is not a reply of this API
  * GeminiAPIError (ModelError)          the API refused or failed, or could not be reached
    * GeminiInvalidRequestError          400 and the other 4xx: the request itself is wrong
      * GeminiContextOverflowError       the input is longer than the model takes
    * GeminiAuthenticationError          no key, a wrong key (a 400), a wrong token (401)
    * GeminiPermissionError              403: the key is good, but not for this
    * GeminiNotFoundError                404: no such model here
    * GeminiRateLimitError               429; `is_daily_quota` tells whether waiting helps today
    * GeminiServerError                  5xx and 408: the same request may succeed later
    * GeminiConnectionError              no answer arrived (also a builtin ConnectionError)
    * GeminiTimeoutError                 no answer arrived in time (also a builtin TimeoutError)

Each class of the API also inherits the class of `langchain_core.exceptions` for its condition. What
the API answered with is besides an instance of the SDK's own `google.genai.errors.ClientError`,
`ServerError` or `APIError`: that class is joined when the error is made, because loading the SDK
takes longer than loading everything else here.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_core.messages import AIMessage


class GeminiToolsError(Exception):
    """Base of everything this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by a call of the class: some constructors take other things than the text. And a
        # joined class cannot be imported by its name; its two halves can.
        ours, sdk_name = type(self).__dict__.get("_halves", (type(self), None))
        return _rebuild, (ours, sdk_name, self.args, self.__dict__)


class InvalidInputError(GeminiToolsError, ModelInvalidRequestError, ValueError):
    """Refused before anything was sent, because the API could only have refused it later."""


class UnsupportedBlockError(InvalidInputError):
    """A message holds a content block that Gemini has no part for.

    Raised before anything is sent: without the block, the model would answer a question
    nobody asked.
    """

    def __init__(self, block_type: str, role: str, supported: Collection[str]) -> None:
        super().__init__(
            f"Gemini has no part for a {block_type!r} block in a {role} message. "
            f"Supported here: {', '.join(sorted(supported))}."
        )


class InvalidHistoryError(InvalidInputError):
    """The messages cannot be sent as they are, and repairing them was not allowed."""


class InvalidToolError(InvalidInputError):
    """A tool, or a set of tools, that Gemini cannot be told about."""


class UnknownToolError(InvalidInputError):
    """A tool choice names a tool that is not bound."""

    def __init__(self, name: str, bound: Collection[str]) -> None:
        known = ", ".join(map(repr, bound)) if bound else "none"
        super().__init__(f"tool_choice names {name!r}, which is not bound. Bound tools: {known}.")


class InvalidOptionError(InvalidInputError):
    """An argument, or a combination of arguments, that cannot work."""


class MediaFetchError(InvalidInputError):
    """What a URL in a message names was not fetched: unsafe, too large, too slow, or no media."""


class ResponseError(GeminiToolsError, ModelError):
    """The API answered, but not with something that may be taken for an answer.

    Attributes:
        finish_reason: The API's own word for it, where it gave one.
        finish_message: The API's explanation, where it gave one.
        partial: What had arrived until then, if anything.
    """

    def __init__(
        self,
        message: str,
        *,
        finish_reason: str | None = None,
        finish_message: str | None = None,
        partial: AIMessage | None = None,
    ) -> None:
        super().__init__(message)
        self.finish_reason = finish_reason
        self.finish_message = finish_message
        self.partial = partial


class BlockedError(ResponseError):
    """The prompt or the answer was blocked."""


class EmptyResponseError(ResponseError):
    """The reply holds neither an answer nor a reason for its absence."""

    is_retryable = True


class MalformedToolCallError(ResponseError):
    """The model tried to call a tool, and what it wrote is not a call."""

    is_retryable = True


FEEDBACK_ERRORS = (MalformedToolCallError, EmptyResponseError)
"""What the model got wrong: asking again helps if it is told so, not by repeating the request."""


class TruncatedStreamError(ResponseError, ModelConnectionError):
    """The stream ended before the answer did."""


class UnreadableResponseError(ResponseError, ModelAPIError):
    """What came back is not a reply of this API."""

    def __init__(self, message: str, *, body: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.body = body


class GeminiAPIError(GeminiToolsError, ModelError):
    """The API refused or failed, or could not be reached.

    Attributes:
        code: The HTTP status; in a stream that had begun well, the one named in the body.
        status: The API's word for it, such as `RESOURCE_EXHAUSTED`.
        message: The API's own explanation.
        details: The whole body of the answer.
        response: The HTTP response, without what was sent.
        retry_after: The seconds to wait, where the API said so.
        request_id: What to quote to Google's support, where the API gave one.
        is_daily_quota: A quota per day is used up: waiting a minute does not help.
        partial: What had arrived until then, where a stream had begun.
    """

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        details: Any = None,
        response: Any = None,
    ) -> None:
        # Not `super().__init__`: with the SDK's class joined that would be the SDK's constructor.
        Exception.__init__(self, text)
        headers: Mapping[str, str] = getattr(response, "headers", {})
        error = _error_object(details)
        self.code = code
        self.status: str | None = _text(error.get("status"))
        self.message: str | None = _text(error.get("message"))
        self.details = details
        self.response = response
        self.retry_after = _retry_after(error, headers)
        request_id = _detail(error, "RequestInfo").get("requestId")
        self.request_id: str | None = request_id or headers.get("x-request-id")
        quotas = _listed(_detail(error, "QuotaFailure"), "violations")
        self.is_daily_quota = any("PerDay" in str(quota.get("quotaId")) for quota in quotas)
        if self.is_daily_quota:
            self.is_retryable = False
        self.partial: AIMessage | None = None


class GeminiInvalidRequestError(GeminiAPIError, ModelInvalidRequestError):
    """The API refused the request as wrong."""


class GeminiContextOverflowError(GeminiInvalidRequestError, ContextOverflowError):
    """The input is longer than the model takes."""


class GeminiAuthenticationError(GeminiAPIError, ModelAuthenticationError):
    """There are no credentials, or the API did not accept them."""


class GeminiPermissionError(GeminiAPIError, ModelPermissionDeniedError):
    """The credentials are good, but not for this."""


class GeminiNotFoundError(GeminiAPIError, ModelNotFoundError):
    """There is no such model, or not under this version of the API."""


class GeminiRateLimitError(GeminiAPIError, ModelRateLimitError):
    """A quota is used up; `is_daily_quota` and `retry_after` tell for how long."""


class GeminiServerError(GeminiAPIError, ModelAPIError):
    """The API failed; the same request may succeed later."""


class GeminiConnectionError(GeminiAPIError, ModelConnectionError, ConnectionError):
    """The API could not be reached, or the connection broke."""


class GeminiTimeoutError(GeminiAPIError, ModelTimeoutError, TimeoutError):
    """No answer arrived in time. Not repeated inside the call, whose time is up."""


# "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."; Vertex:
# "... but model only supports up to 32768."; older models: "input context is too long".
_OVERFLOW = re.compile(
    r"token count .{0,40}exceeds|exceeds the maximum number of (input )?tokens"
    r"|model only supports up to \d+|input (context )?is too long"
    r"|context (length|window).{0,20}exceed",
    re.IGNORECASE,
)

_CLASS_OF_CODE: dict[int, type[GeminiAPIError]] = {
    401: GeminiAuthenticationError,
    403: GeminiPermissionError,
    404: GeminiNotFoundError,
    408: GeminiServerError,
    429: GeminiRateLimitError,
}

# google.rpc.Code -> HTTP, for errors inside a stream that give only the word.
_CODE_OF_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def map_api_error(code: int | None, details: Any, response: Any = None) -> GeminiAPIError:
    """The error for an answer of the API that is an error.

    Args:
        code: The HTTP status, or None when it was 200 and the body says otherwise.
        details: The body: JSON as `parse_error_body` gives it.
        response: The HTTP response, for its headers.
    """
    error = _error_object(details)
    code = code or _code_in(error)
    sdk_name = {4: "ClientError", 5: "ServerError"}.get(code // 100, "APIError")
    retry_after = _retry_after(error, getattr(response, "headers", {}))
    return _joined(_class_for(code, error), sdk_name)(
        _describe(code, error, retry_after), code=code, details=details, response=response
    )


def parse_error_body(text: str, reason: str = "") -> Any:
    """The JSON of an error's body; a proxy's page becomes `{"error": {"message": its words}}`."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if isinstance(parsed, dict):
        return parsed
    return {"error": {"message": _readable(text) or reason or "The answer has no body."}}


def holds_error(reply: Any) -> bool:
    """Whether a JSON value that came with status 200 is an error all the same."""
    replies = reply if isinstance(reply, list) else [reply]
    return any(isinstance(each, dict) and bool(each.get("error")) for each in replies)


def _class_for(code: int, error: dict[str, Any]) -> type[GeminiAPIError]:
    message = str(error.get("message") or "")
    if code == 400:
        # At the Developer API a bad key is a 400: "API key not valid. Please pass a valid API key."
        reason = str(_detail(error, "ErrorInfo").get("reason"))
        if reason.startswith("API_KEY_") or message.startswith("API key not valid"):
            return GeminiAuthenticationError
        if _OVERFLOW.search(message):
            return GeminiContextOverflowError
    if code in _CLASS_OF_CODE:
        return _CLASS_OF_CODE[code]
    if 400 <= code < 500:
        return GeminiInvalidRequestError
    return GeminiServerError if code >= 500 else GeminiAPIError


def _code_in(error: dict[str, Any]) -> int:
    code = error.get("code")
    if isinstance(code, int) and 300 <= code < 600:
        return code
    return _CODE_OF_STATUS.get(str(error.get("status")), 500)


def _describe(code: int, error: dict[str, Any], retry_after: float | None) -> str:
    """One readable line: code, word, message, the fields at fault, the delay asked for."""
    message = " ".join(str(error.get("message") or "no explanation").split())
    text = " ".join(filter(None, [str(code), _text(error.get("status"))])) + f": {message}"
    for found in _listed(_detail(error, "BadRequest"), "fieldViolations"):
        description = " ".join(str(found.get("description", "?")).split())
        if description not in message:  # the message often is the list of violations already
            text += f" [{found.get('field', '?')}: {description}]"
    return text if retry_after is None else f"{text} [retry after {retry_after:g} s]"


def _error_object(details: Any) -> dict[str, Any]:
    """The object that has the message, whichever shape the body has."""
    if isinstance(details, list):
        details = next(filter(holds_error, details), None)
    if not isinstance(details, dict):
        return {}
    error = details.get("error", details)
    return error if isinstance(error, dict) else {"message": str(error)}


def _detail(error: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first of the error's details that has this google.rpc type."""
    for detail in _listed(error, "details"):
        if str(detail.get("@type")).endswith(f"google.rpc.{kind}"):
            return detail
    return {}


def _listed(found: dict[str, Any], key: str) -> list[dict[str, Any]]:
    items = found.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _retry_after(error: dict[str, Any], headers: Mapping[str, str]) -> float | None:
    """The seconds to wait: RetryInfo in the body ("26s"), else Retry-After (seconds or a date)."""
    given = _detail(error, "RetryInfo").get("retryDelay") or headers.get("retry-after") or ""
    try:
        seconds = float(str(given).removesuffix("s"))
        return None if math.isnan(seconds) else max(seconds, 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(str(given)) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _readable(text: str) -> str:
    """What a person would read on a page: its title, else its words; at most 300 characters."""
    # No tag holds "<": whatever the page is made of, each of its characters is looked at once.
    title = re.search(r"<title[^<>]*>([^<]+)", text, re.IGNORECASE)
    words = title[1] if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(words.split())[:300]


_JOINED: dict[tuple[type[GeminiAPIError], str], type[GeminiAPIError]] = {}


def _joined(ours: type[GeminiAPIError], sdk_name: str) -> type[GeminiAPIError]:
    """Our class and the SDK's in one, so that an `except` of either kind catches it."""
    if (ours, sdk_name) not in _JOINED:
        from google.genai import errors as sdk_errors

        own = {name: ours.__dict__[name] for name in ("__module__", "__doc__")}
        bases = (ours, getattr(sdk_errors, sdk_name))
        joined = type(ours.__name__, bases, own | {"_halves": (ours, sdk_name)})
        # Another thread may have been faster: one pair is one class, or `except` would miss some.
        _JOINED.setdefault((ours, sdk_name), cast("type[GeminiAPIError]", joined))
    return _JOINED[ours, sdk_name]


def _rebuild(
    ours: type[GeminiToolsError], sdk_name: str | None, args: tuple[Any, ...], state: dict[str, Any]
) -> GeminiToolsError:
    cls = _joined(cast("type[GeminiAPIError]", ours), sdk_name) if sdk_name else ours
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error
