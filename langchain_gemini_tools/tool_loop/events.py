"""The events of a run, as `ToolLoop.events` and `ToolLoop.aevents` yield them.

Every tool call ends with exactly one event that has a `record`. The last event of a run is
`LoopFinished`, unless an exception ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, ToolCall

from langchain_gemini_tools.tool_loop.result import ToolCallRecord, ToolLoopResult

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
    """An attempt failed; the next one starts after `delay` seconds."""

    call: ToolCall
    attempt: int
    delay: float
    error: BaseException


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
