"""Every error that this package raises.

* GeminiToolsError                   base of all of them
  * InvalidInputError                rejected before anything was sent (also a ValueError)
    * UnsupportedBlockError          a message contains a block that Gemini has no part for
    * InvalidHistoryError            the messages cannot be sent in this order
    * InvalidToolError               a tool that cannot be declared to Gemini
    * UnknownToolError               `tool_choice` names a tool that is not bound
    * InvalidOptionError             an argument, or a combination of arguments, that is not valid
    * MediaFetchError                the media at a URL in a message was not fetched
  * ResponseError                    the API responded with 200, but the response is not usable
    * BlockedError                   the prompt or the response was blocked
    * EmptyResponseError             the response has no content; retryable
    * FailedInteractionError         the interaction failed, was cancelled or did not end
    * MalformedToolCallError         the model wrote a tool call that is not valid; retryable
    * TruncatedResponseError         the response has tool calls or no text, and did not end
    * TruncatedStreamError           the stream ended too early; retryable
    * UnreadableResponseError        the response is not JSON of this API; retryable
  * GeminiAPIError                   the API rejected the request, failed, or was not reached
    * GeminiInvalidRequestError      400 and other 4xx: the request is wrong
      * GeminiContextOverflowError   the input is longer than the model accepts
    * GeminiAuthenticationError      no API key, a wrong one (400), or a wrong token (401)
    * GeminiPermissionError          403: the credentials do not allow this
    * GeminiNotFoundError            404: the model, a job or a file does not exist
    * GeminiRateLimitError           429: a quota is used up (see `is_daily_quota`); retryable
    * GeminiServerError              5xx, 408, 499: the API failed; retryable
    * GeminiConnectionError          no connection (also a ConnectionError); retryable
    * GeminiTimeoutError             no response in time (also a TimeoutError); retryable
    * BatchJobError                  a batch job ended without a response to an input

`is_retryable` says whether the same request may succeed later.

Every class also inherits the class of `langchain_core.exceptions` for its condition. The error for
an error response of the API is also an instance of the SDK's `google.genai.errors.ClientError`,
`ServerError` or `APIError`. That base is added when the error is raised, because loading the SDK
takes longer than loading the rest of this package.
"""

from __future__ import annotations

import re
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

from langchain_gemini_tools.facts.http import ErrorBody

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import AIMessage

    from langchain_gemini_tools.facts.json_values import JsonObject


__all__ = [
    "BatchJobError",
    "BlockedError",
    "EmptyResponseError",
    "FailedInteractionError",
    "GeminiAPIError",
    "GeminiAuthenticationError",
    "GeminiConnectionError",
    "GeminiContextOverflowError",
    "GeminiInvalidRequestError",
    "GeminiNotFoundError",
    "GeminiPermissionError",
    "GeminiRateLimitError",
    "GeminiServerError",
    "GeminiTimeoutError",
    "GeminiToolsError",
    "InvalidHistoryError",
    "InvalidInputError",
    "InvalidOptionError",
    "InvalidToolError",
    "MalformedToolCallError",
    "MediaFetchError",
    "ResponseError",
    "TruncatedResponseError",
    "TruncatedStreamError",
    "UnknownToolError",
    "UnreadableResponseError",
    "UnsupportedBlockError",
]


class GeminiToolsError(Exception):
    """Base of every error that this package raises on purpose."""

    is_retryable = False
    """Whether the same request may succeed later."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is not called, because some constructors have other arguments than the text. A
        # joined class cannot be imported, but its two bases can.
        ours, sdk_name = type(self).__dict__.get("_bases", (type(self), None))
        return _rebuild, (ours, sdk_name, self.args, self.__dict__)


class InvalidInputError(GeminiToolsError, ModelInvalidRequestError, ValueError):
    """The input was rejected before anything was sent, because the API would reject it."""


class UnsupportedBlockError(InvalidInputError):
    """A message contains a content block that Gemini does not support.

    Blocks are never dropped silently: without the block, the model would respond to something else.
    """

    def __init__(self, block_type: str | None, role: str, supported: Collection[str]) -> None:
        problem = (
            f"A content block of a message of type {role!r} has no 'type'."
            if block_type is None
            else f"Gemini does not support {block_type!r} blocks in {role} messages."
        )
        super().__init__(f"{problem} Supported types: {', '.join(sorted(supported))}.")


class InvalidHistoryError(InvalidInputError):
    """The messages cannot be sent as they are, and `on_broken_history` does not allow repairs."""


class InvalidToolError(InvalidInputError):
    """A tool, or a set of tools, that cannot be declared to Gemini."""


class UnknownToolError(InvalidInputError):
    """A tool choice names a tool that is not bound."""

    def __init__(self, name: str, bound: Collection[str]) -> None:
        known = ", ".join(map(repr, bound)) or "none"
        super().__init__(f"tool_choice names {name!r}, which is not bound. Bound tools: {known}.")


class InvalidOptionError(InvalidInputError):
    """An argument, or a combination of arguments, that is not valid."""


class MediaFetchError(InvalidInputError):
    """The media at a URL was not fetched: unsafe, too large, too slow, or not media."""


class ResponseError(GeminiToolsError, ModelError):
    """The API responded with status 200, but the response is not usable.

    Attributes:
        finish_reason: The finish reason of the API, if there is one.
        finish_message: The explanation of the API, if there is one.
        partial: The part of the message that had arrived, if any.
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
    """The prompt or the response was blocked.

    A blocked response without tool calls is returned, if it has text: `finish_reason` says why it
    stopped.
    """


class EmptyResponseError(ResponseError):
    """The response has no content, and no reason why."""

    is_retryable = True


class FailedInteractionError(ResponseError):
    """The interaction ended without an answer: it failed, was cancelled, or reached its budget.

    This includes an interaction that is still running when its response ends, and one with a status
    that this version does not know. `finish_reason` is the status. `partial` is what had arrived,
    with the id of the interaction in its metadata.
    """


class MalformedToolCallError(ResponseError):
    """The model tried to call a tool, but what it wrote is not a valid tool call.

    This includes a call that was written as text; `partial` and `finish_message` show it.
    """

    is_retryable = True


FEEDBACK_ERRORS = (MalformedToolCallError, EmptyResponseError)
"""Mistakes of the model. Repeating the request does not help; sending it with feedback may."""


class TruncatedResponseError(ResponseError):
    """The response has tool calls, but stopped before its end, or does not say how it ended.

    More calls may have followed, so none is released for execution. Increase `max_output_tokens`
    if the reason is MAX_TOKENS. A truncated response without tool calls is returned, unless it has
    no text: thinking can use all tokens.
    """


class TruncatedStreamError(ResponseError, ModelConnectionError):
    """The stream ended before the response was complete."""

    is_retryable = True


class UnreadableResponseError(ResponseError, ModelAPIError):
    """The response is not JSON of this API.

    Attributes:
        body: The beginning of the response, redacted.
    """

    is_retryable = True

    def __init__(self, message: str, *, body: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.body = body


def missing_status(body: Any) -> UnreadableResponseError:
    """Return the error for a response that does not say whether its interaction has ended."""
    return UnreadableResponseError("The response is not an interaction: no status.", body=body)


class GeminiAPIError(GeminiToolsError, ModelError):
    """The API rejected the request, failed, or could not be reached.

    Attributes:
        code: The HTTP status; for an error inside a stream, the code in its body.
        status: The status of the API, such as `RESOURCE_EXHAUSTED`.
        message: The explanation of the API.
        details: The whole body of the response.
        response: The HTTP response, without the headers of the request.
        model: The model that was called, for an error response of the API.
        retry_after: The seconds to wait, if the API asks for a delay.
        request_id: The id to quote to Google's support, if there is one.
        is_daily_quota: Whether a quota per day is used up: waiting a minute does not help.
        partial: The part of the message that had arrived, if a stream had begun, or if another
            request was to continue it.
        interaction_id: The interaction in the background that had started.
    """

    interaction_id: str | None = None

    def __init__(
        self,
        text: str,
        *,
        code: int | None = None,
        details: Any = None,
        response: Any = None,
    ) -> None:
        # `super().__init__` would call the SDK's constructor in a joined class.
        Exception.__init__(self, text)
        error = ErrorBody(details, getattr(response, "headers", {}))
        self.code = code
        self.status: str | None = error.status
        self.message: str | None = error.message
        self.details = details
        self.response = response
        self.retry_after = error.retry_after
        self.request_id = error.request_id
        self.is_daily_quota = error.is_daily_quota
        if self.is_daily_quota or error.is_out_of_funds:
            self.is_retryable = False
        self.partial: AIMessage | None = None
        self.model: str | None = None

    def name_model(self, model: str) -> None:
        """Add the model to the text of an error response.

        Args:
            model: The model that was called.
        """
        if self.code is None or self.model:
            return
        self.model = model
        status = f" ({self.status})" if self.status else ""
        self.args = (f"Error calling model {model!r}{status}: {self}", *self.args[1:])


class GeminiInvalidRequestError(GeminiAPIError, ModelInvalidRequestError):
    """The API rejected the request as invalid."""


class GeminiContextOverflowError(GeminiInvalidRequestError, ContextOverflowError):
    """The input is longer than the model accepts."""


class GeminiAuthenticationError(GeminiAPIError, ModelAuthenticationError):
    """The credentials are missing, or the API did not accept them."""


class GeminiPermissionError(GeminiAPIError, ModelPermissionDeniedError):
    """The credentials are valid, but do not allow this request."""


class GeminiNotFoundError(GeminiAPIError, ModelNotFoundError):
    """What the request names, such as the model, does not exist in this version of the API."""


class GeminiRateLimitError(GeminiAPIError, ModelRateLimitError):
    """A quota is used up; see `is_daily_quota` and `retry_after`.

    Used up credits and a reached spending cap are not retryable.
    """

    is_retryable = True


class GeminiServerError(GeminiAPIError, ModelAPIError):
    """The API failed; the same request may succeed later."""

    is_retryable = True


class GeminiConnectionError(GeminiAPIError, ModelConnectionError, ConnectionError):
    """The API could not be reached, or the connection was lost."""

    is_retryable = True


class GeminiTimeoutError(GeminiAPIError, ModelTimeoutError, TimeoutError):
    """No response arrived in time. `max_retries` does not repeat it: the time is used up."""

    is_retryable = True


class BatchJobError(GeminiAPIError, ModelAPIError):
    """A batch job failed, expired or was cancelled, and has no response to an input."""


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
    # The server cancelled the request; the same one succeeds: python-genai issue 2506
    499: GeminiServerError,
}


def map_api_error(code: int | None, details: Any, response: Any = None) -> GeminiAPIError:
    """Return the error for an error response of the API.

    Args:
        code: The HTTP status, or None if it was 200 and the body contains the error.
        details: The body as JSON; see `facts/error_bodies.py`.
        response: The HTTP response, for its headers.
    """
    error = ErrorBody(details, getattr(response, "headers", {}))
    code = code or error.code
    sdk_name = {4: "ClientError", 5: "ServerError"}.get(code // 100, "APIError")
    return _joined(_class_for(code, error), sdk_name)(
        error.describe(code), code=code, details=details, response=response
    )


def _class_for(code: int, error: ErrorBody) -> type[GeminiAPIError]:
    if code == 400:
        message, reason = error.message or "", error.reason or ""
        # At the Developer API a bad key is a 400: "API key not valid. Please pass a valid API key."
        if reason.startswith("API_KEY_") or message.startswith("API key not valid"):
            return GeminiAuthenticationError
        if _OVERFLOW.search(message):
            return GeminiContextOverflowError
    if code in _CLASS_OF_CODE:
        return _CLASS_OF_CODE[code]
    if 400 <= code < 500:
        return GeminiInvalidRequestError
    return GeminiServerError if code >= 500 else GeminiAPIError


_JOINED: dict[tuple[type[GeminiAPIError], str], type[GeminiAPIError]] = {}


def _joined(ours: type[GeminiAPIError], sdk_name: str) -> type[GeminiAPIError]:
    """Return a class with our class and the SDK's as bases: `except` of either catches it."""
    if (ours, sdk_name) not in _JOINED:
        from google.genai import errors as sdk_errors

        namespace = {name: ours.__dict__[name] for name in ("__module__", "__doc__")}
        bases = (ours, getattr(sdk_errors, sdk_name))
        joined = type(ours.__name__, bases, namespace | {"_bases": (ours, sdk_name)})
        # Another thread may have added it: there must be one class for each pair.
        _JOINED.setdefault((ours, sdk_name), cast("type[GeminiAPIError]", joined))
    return _JOINED[ours, sdk_name]


def _rebuild(
    ours: type[GeminiToolsError], sdk_name: str | None, args: tuple[Any, ...], state: JsonObject
) -> GeminiToolsError:
    cls = _joined(cast("type[GeminiAPIError]", ours), sdk_name) if sdk_name else ours
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error
