"""What a run of a `ToolLoop` yields: its events, every tool call, and its result.

Also the decisions about tool calls that an approval hook returns.

Every tool call ends with exactly one event that has a `record`. The last event of a run is
`LoopFinished`, unless an exception ends the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.facts.finish_reasons import finish_reason_of

__all__ = [
    "LimitReached",
    "LoopEvent",
    "LoopFinished",
    "TextDelta",
    "ToolCallAnnounced",
    "ToolCallCached",
    "ToolCallEnded",
    "ToolCallFailed",
    "ToolCallFinished",
    "ToolCallRejected",
    "ToolCallRetried",
    "ToolCallSkipped",
    "ToolCallStarted",
    "ToolCallTimedOut",
    "TurnFinished",
    "TurnStarted",
]


@dataclass(frozen=True)
class LoopEvent:
    """Base class of all events.

    Attributes:
        at: Seconds since the run began; never decreases from one event to the next.
        turn: The turn of the event, counted from 1; 0 before the model was first invoked.
    """

    at: float
    turn: int


@dataclass(frozen=True)
class TurnStarted(LoopEvent):
    """The model is being invoked."""


@dataclass(frozen=True)
class TextDelta(LoopEvent):
    """The model streamed a piece of text. It is not known yet whether it is part of the answer."""

    text: str


@dataclass(frozen=True)
class ToolCallAnnounced(LoopEvent):
    """The model began to write a tool call, so the text of this turn is not the answer."""

    name: str | None


@dataclass(frozen=True)
class TurnFinished(LoopEvent):
    """The model's message has arrived."""

    message: AIMessage
    duration: float


@dataclass(frozen=True)
class ToolCallStarted(LoopEvent):
    """A tool call was started; `attempt` counts from 1."""

    call: ToolCall
    attempt: int


@dataclass(frozen=True)
class ToolCallRetried(LoopEvent):
    """An attempt failed; the next one starts after `delay` seconds.

    The error is not in the `repr`: it may contain credentials or injected values.
    """

    call: ToolCall
    attempt: int
    delay: float
    error: BaseException = field(repr=False)


@dataclass(frozen=True)
class ToolCallEnded(LoopEvent):
    """Base class of the events that end a tool call."""

    record: ToolCallRecord

    @property
    def call(self) -> ToolCall:
        """The tool call that ended."""
        return self.record.call

    @property
    def duration(self) -> float:
        """How many seconds it took."""
        return self.record.duration


@dataclass(frozen=True)
class ToolCallFinished(ToolCallEnded):
    """The tool returned a result."""


@dataclass(frozen=True)
class ToolCallCached(ToolCallEnded):
    """The result of an identical call in this run was reused."""


@dataclass(frozen=True)
class ToolCallFailed(ToolCallEnded):
    """The tool failed. The error is reported to the model."""


@dataclass(frozen=True)
class ToolCallTimedOut(ToolCallEnded):
    """The tool took too long. This is reported to the model; a late result is ignored."""


@dataclass(frozen=True)
class ToolCallRejected(ToolCallEnded):
    """The approval hook rejected the call. This is reported to the model."""


@dataclass(frozen=True)
class ToolCallSkipped(ToolCallEnded):
    """The call was not started, e.g. the tool is unknown. The reason is reported to the model."""


@dataclass(frozen=True)
class LimitReached(LoopEvent):
    """`max_turns` was reached, and the model still makes these calls, which are not run."""

    pending: Sequence[ToolCall]


@dataclass(frozen=True)
class LoopFinished(LoopEvent):
    """The run is over; always the last event."""

    result: ToolLoopResult


StopReason = Literal[
    "answered",
    "returned_directly",
    "answered_at_limit",
    "turn_limit",
    "awaiting_approval",
    "truncated",
    "blocked",
    "incomplete",
    "empty",
    "failed",
]
"""Why a run stopped.

- `answered`: the model gave a complete answer without another tool call.
- `returned_directly`: tools with `return_direct` gave the answer.
- `answered_at_limit`: `max_turns` was reached, and with `on_limit="answer"` the model answered
  with what it knew by then.
- `turn_limit`: `max_turns` was reached without an answer.
- `awaiting_approval`: an approval hook returned `Pause`; continue with the messages
  in another run.
- `truncated`: the answer reached the token limit.
- `blocked`: the provider withheld the answer, or the model declined to give one.
- `incomplete`: the finish reason does not say that the answer is complete, such as a tool call that
  the provider rejected, or a reason of Gemini's that this package does not know.
- `empty`: the model's message has no content.
- `failed`: an exception ended the run; see `result_of`.
"""

ToolCallStatus = Literal["succeeded", "cached", "failed", "timed_out", "rejected", "skipped"]
"""How a tool call ended. `skipped`: it was never started; its message says why."""


@dataclass(frozen=True)
class Reject:
    """Do not run the call; report the rejection and its reason to the model."""

    reason: str | None = None


@dataclass(frozen=True)
class Edit:
    """Run the call with these arguments instead of the model's."""

    args: dict[str, Any]

    def __post_init__(self) -> None:
        """Check the type: other values would run the tool with unintended arguments."""
        if not isinstance(self.args, dict):
            raise TypeError(f"Edit needs a dict of all arguments, not {type(self.args).__name__}.")


@dataclass(frozen=True)
class Pause:
    """Stop the run before the calls of this turn, so that another run can continue it later."""


Decision = bool | Reject | Edit | Pause
"""What an approval hook returns: `True` runs the call, `False` rejects it without a reason."""

Approver = Callable[[ToolCall], Decision | Awaitable[Decision]]


_ANSWERED: frozenset[StopReason] = frozenset({"answered", "returned_directly", "answered_at_limit"})

_EXPLANATIONS: dict[StopReason, str] = {
    "turn_limit": "The run reached its limit of {counted} without an answer.",
    "awaiting_approval": "The run is waiting for the approval of {pending}.",
    "truncated": "The answer reached the token limit ({finish_reason}).",
    "blocked": "The answer was withheld ({finish_reason}).",
    "incomplete": "The answer may be incomplete ({finish_reason}).",
    "empty": "The model's message is empty.",
    "failed": "The run failed in turn {turns}.",
}


@dataclass(frozen=True)
class ToolCallRecord:
    """One tool call of a run and how it ended.

    Attributes:
        turn: The turn whose message made the call, counted from 1; 0 if the input did.
        call: Name, arguments and id. If an approval hook edited the arguments, these are the
            edited ones.
        status: How it ended.
        message: The tool message that the model gets.
        attempts: How often it was started.
        duration: Seconds from the first start to the end, pauses included; 0 if never started.
        error: The last exception of the tool, if it failed. Not in the `repr`, because it may
            contain credentials or injected values; the message contains neither.
    """

    turn: int
    call: ToolCall
    status: ToolCallStatus
    message: ToolMessage
    attempts: int = 0
    duration: float = 0.0
    error: BaseException | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ToolLoopResult:
    """The result of a run.

    Attributes:
        messages: The input followed by every message of the run: a history to continue with.
        new_messages: The messages of the run without the input.
        stop_reason: Why the run stopped; see `StopReason`.
        turns: How often the model was invoked.
        calls: Every tool call, in the order of the messages.
        pending: Tool calls in the messages that have no result yet. A run that gets these messages
            as its input runs them first.
        usage: The token usage of all turns together; None if the model reported none.
    """

    messages: Sequence[BaseMessage]
    new_messages: Sequence[BaseMessage]
    stop_reason: StopReason
    turns: int
    calls: Sequence[ToolCallRecord] = ()
    pending: Sequence[ToolCall] = ()
    usage: UsageMetadata | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the run ended with a complete answer."""
        return self.stop_reason in _ANSWERED

    @property
    def message(self) -> AIMessage | ToolMessage | None:
        """The last message of the run; None if there is none."""
        return self.new_messages[-1] if self.new_messages else None  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """The text of the answer. It may be truncated: check `stop_reason`, or use `answer()`.

        Empty if the last message makes tool calls or is a tool's result.
        """
        if self.stop_reason == "returned_directly":
            turn = self.calls[-1].turn
            return "\n".join(str(c.message.text) for c in self.calls if c.turn == turn)
        if self.message is None or self.message.type != "ai" or self.message.tool_calls:
            return ""
        return str(self.message.text)

    def answer(self) -> str:
        """Return the text of a complete answer.

        Raises:
            IncompleteRunError: The run stopped without a complete answer.
        """
        if not self.is_answered:
            raise IncompleteRunError(self)
        return self.text


class IncompleteRunError(GeminiToolsError):
    """A run stopped without a complete answer where only an answer could be returned.

    Attributes:
        tool_loop_result: The result so far; pass its `messages` to another run to continue.
    """

    def __init__(self, result: ToolLoopResult) -> None:
        last = result.message
        text = _EXPLANATIONS[result.stop_reason].format(
            turns=result.turns,
            counted="1 turn" if result.turns == 1 else f"{result.turns} turns",
            pending=", ".join(repr(call["name"]) for call in result.pending),
            finish_reason=finish_reason_of(last) if isinstance(last, AIMessage) else None,
        )
        super().__init__(f"{text} The messages are in this error's `tool_loop_result`.")
        self.tool_loop_result = result


def result_of(error: BaseException) -> ToolLoopResult | None:
    """Return the result so far of the run that an exception ended, or None if there is none.

    Pass its `messages` to another run to continue where this one stopped.

    Args:
        error: The exception, or one that was raised because of it.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        seen.add(id(link))
        found = getattr(link, "tool_loop_result", None)
        if isinstance(found, ToolLoopResult):
            return found
        links = (link.__context__, link.__cause__)  # `asyncio.timeout` raises another error
        waiting += [each for each in links if each is not None and id(each) not in seen]
    return None
