"""What happens during a run, step by step, as `ToolLoop.events` tells it.

`at` never falls: seconds since the run began. Each call that is asked for ends in exactly one of
the events that carry a `record`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, ToolCall

from langchain_gemini_tools.tool_loop.result import ToolCallRecord, ToolLoopResult


@dataclass(frozen=True)
class LoopEvent:
    """Base of all events.

    Attributes:
        at: Seconds since the run began.
        turn: The turn it belongs to, counted from 1; 0 before the model was asked.
    """

    at: float
    turn: int


@dataclass(frozen=True)
class TurnStarted(LoopEvent):
    """The model is asked."""


@dataclass(frozen=True)
class TextDelta(LoopEvent):
    """The model said a piece of text. Whether it belongs to the answer is not known yet."""

    text: str


@dataclass(frozen=True)
class ToolCallAnnounced(LoopEvent):
    """The model began to ask for a call: the text of this turn is not the answer."""

    name: str | None


@dataclass(frozen=True)
class TurnFinished(LoopEvent):
    """The model's message is complete."""

    message: AIMessage
    duration: float


@dataclass(frozen=True)
class ToolCallStarted(LoopEvent):
    """A call was started; `attempt` counts from 1."""

    call: ToolCall
    attempt: int


@dataclass(frozen=True)
class ToolCallRetried(LoopEvent):
    """An attempt failed and there will be another one, after `delay` seconds."""

    call: ToolCall
    attempt: int
    delay: float
    error: BaseException


@dataclass(frozen=True)
class ToolCallEnded(LoopEvent):
    """Base of the events that end a call."""

    record: ToolCallRecord

    @property
    def call(self) -> ToolCall:
        """The call that ended."""
        return self.record.call

    @property
    def duration(self) -> float:
        """How many seconds it took."""
        return self.record.duration


@dataclass(frozen=True)
class ToolCallFinished(ToolCallEnded):
    """The tool gave a result."""


@dataclass(frozen=True)
class ToolCallCached(ToolCallEnded):
    """The result of an identical call of this run was used again."""


@dataclass(frozen=True)
class ToolCallFailed(ToolCallEnded):
    """The tool failed; the model is told."""


@dataclass(frozen=True)
class ToolCallTimedOut(ToolCallEnded):
    """The tool took too long; the model is told, and a late result goes nowhere."""


@dataclass(frozen=True)
class ToolCallRejected(ToolCallEnded):
    """The approval hook denied the call; the model is told."""


@dataclass(frozen=True)
class ToolCallSkipped(ToolCallEnded):
    """The call was not started: an unknown tool, unreadable arguments; the model is told."""


@dataclass(frozen=True)
class LimitReached(LoopEvent):
    """The turns are used up, and the model still asks for these calls."""

    pending: Sequence[ToolCall]


@dataclass(frozen=True)
class LoopFinished(LoopEvent):
    """The run is over; always the last event."""

    result: ToolLoopResult
