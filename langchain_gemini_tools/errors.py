"""Every failure a caller may want to tell apart.

* GeminiToolsError
  * RefusedError (ValueError)            refused before anything was sent; the message says the way out
    * UnsupportedBlockError              a message holds a block that Gemini has no part for
    * InvalidHistoryError                the messages cannot be sent in this order
    * InvalidToolError                   a tool that Gemini could not be told about
    * UnknownToolError                   `tool_choice` names a tool that is not bound
    * InvalidOptionError                 an argument, or a combination of them, that cannot work
  * ReplyError (ModelError)              the API answered 200, but not with an answer
    * BlockedError                       the prompt or the answer was blocked
    * EmptyReplyError                    there is nothing in it
    * MalformedCallError                 the model tried to call a tool and failed
    * TruncatedStreamError               the stream ended in the middle
    * UnreadableReplyError               what came back is not a reply of this API
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import AIMessage


class GeminiToolsError(Exception):
    """Base of everything this package raises on purpose."""


class RefusedError(GeminiToolsError, ModelInvalidRequestError, ValueError):
    """Refused before anything was sent, because the API could only have refused it later."""


class UnsupportedBlockError(RefusedError):
    """A message holds a content block that Gemini has no part for.

    Raised before anything is sent: without the block, the model would answer a question
    nobody asked.
    """

    def __init__(self, block_type: str, role: str, supported: Collection[str]) -> None:
        super().__init__(
            f"Gemini has no part for a {block_type!r} block in a {role} message. "
            f"Supported here: {', '.join(sorted(supported))}."
        )


class InvalidHistoryError(RefusedError):
    """The messages cannot be sent as they are, and repairing them was not allowed."""


class InvalidToolError(RefusedError):
    """A tool, or a set of tools, that Gemini cannot be told about."""


class UnknownToolError(RefusedError):
    """A tool choice names a tool that is not bound."""

    def __init__(self, name: str, bound: Collection[str]) -> None:
        known = ", ".join(map(repr, bound)) if bound else "none"
        super().__init__(f"tool_choice names {name!r}, which is not bound. Bound tools: {known}.")


class InvalidOptionError(RefusedError):
    """An argument, or a combination of arguments, that cannot work."""


class ReplyError(GeminiToolsError, ModelError):
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


class BlockedError(ReplyError):
    """The prompt or the answer was blocked."""


class EmptyReplyError(ReplyError):
    """The reply holds neither an answer nor a reason for its absence."""

    is_retryable: ClassVar[bool] = True


class MalformedCallError(ReplyError):
    """The model tried to call a tool, and what it wrote is not a call."""

    is_retryable: ClassVar[bool] = True


class TruncatedStreamError(ReplyError, ModelConnectionError):
    """The stream ended before the answer did."""


class UnreadableReplyError(ReplyError, ModelAPIError):
    """What came back is not a reply of this API."""

    def __init__(self, message: str, *, body: Any = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.body = body
