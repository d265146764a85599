"""The tool calls of one turn: which are due, running, waiting for a retry, or settled.

`TurnCalls` only keeps state: it says what is due and records what happened. `execution` starts
threads and tasks for it, in a sync and in an async version.
"""

from __future__ import annotations

import contextlib
import json
from asyncio import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.tools import ToolException

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.tool_loop import events, tool_messages
from langchain_gemini_tools.tool_loop.events import ToolCallRecord
from langchain_gemini_tools.tool_loop.settings import Edit, Pause, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langchain_core.messages import InvalidToolCall, ToolCall, ToolMessage
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.events import ToolCallStatus
    from langchain_gemini_tools.tool_loop.settings import Settings

Cache = dict[str, "ToolMessage"]
"""The results of a run by tool and arguments."""

_EARLY = 1e-6
"""Event loops may wake up early by the resolution of their clock."""

_ENDINGS: dict[ToolCallStatus, type[events.ToolCallEnded]] = {
    "succeeded": events.ToolCallFinished,
    "cached": events.ToolCallCached,
    "failed": events.ToolCallFailed,
    "timed_out": events.ToolCallTimedOut,
    "rejected": events.ToolCallRejected,
    "skipped": events.ToolCallSkipped,
}


@dataclass(frozen=True)
class AttemptOutcome:
    """The outcome of an attempt: an output or an exception."""

    output: Any = None
    error: BaseException | None = None


@dataclass(eq=False)
class Slot:
    """One tool call and its state."""

    asked: ToolCall
    tool: BaseTool | None = None
    edited: dict[str, Any] | None = None
    attempts: int = 0
    started_at: float = 0.0
    deadline: float | None = None
    is_running: bool = False
    not_before: float | None = None
    record: ToolCallRecord | None = None

    @property
    def call(self) -> ToolCall:
        """The tool call as it runs, with edited arguments if there are any."""
        return self.asked if self.edited is None else {**self.asked, "args": self.edited}


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt to run a tool call."""

    slot: Slot
    number: int

    @property
    def tool(self) -> BaseTool:
        """The tool to run."""
        assert self.slot.tool is not None  # noqa: S101 - only calls with a tool are started
        return self.slot.tool


@dataclass(eq=False)
class TurnCalls:
    """The tool calls of one message.

    Args:
        number: The number of the turn.
        settings: The settings of the loop.
        cache: The results of this run so far; new ones are added to it.
        clock: Returns the current time in seconds.
        since: The time at which the run began.
        may_start: Returns whether another attempt of a tool may be started.
    """

    number: int
    settings: Settings
    cache: Cache
    clock: Callable[[], float]
    since: float
    may_start: Callable[[str], bool]
    slots: list[Slot] = field(default_factory=list)
    is_paused: bool = False
    _events: list[events.LoopEvent] = field(default_factory=list)

    def add_calls(
        self,
        calls: Sequence[ToolCall],
        unreadable: Sequence[InvalidToolCall],
        why_not_run: str | None = None,
    ) -> None:
        """Add the tool calls; those that cannot be run end at once with an error.

        Args:
            calls: The valid calls.
            unreadable: The invalid calls.
            why_not_run: Why none of them may be run, if that is so.
        """
        for call in calls:
            slot = Slot(call, self.settings.box.tools.get(call["name"]))
            self.slots.append(slot)
            if slot.tool is None:
                known = self.settings.box.names()
                self._end_with_error(
                    slot, "skipped", tool_messages.render_unknown(call["name"], known)
                )
        for invalid in unreadable:
            slot = Slot(as_tool_call(invalid))
            self.slots.append(slot)
            reason = why_not_run or tool_messages.render_unreadable(invalid)
            self._end_with_error(slot, "skipped", reason)
        if why_not_run:
            self.skip_all(why_not_run)

    def skip_all(self, reason: str) -> None:
        """End every open tool call with the reason why it is not run."""
        for slot in self._open():
            self._end_with_error(slot, "skipped", reason)

    def to_approve(self) -> Iterator[Slot]:
        """Yield the tool calls that need approval, in order, until a pause."""
        for slot in list(self._open()):
            if slot.call["name"] in self.settings.approve and not self.is_paused:
                yield slot

    def decide(self, slot: Slot, decision: object) -> None:
        """Apply the decision of the approval hook."""
        match decision:
            case True:
                pass
            case False:
                self._end_with_error(slot, "rejected", tool_messages.render_rejection(None))
            case Reject(reason=reason):
                self._end_with_error(slot, "rejected", tool_messages.render_rejection(reason))
            case Edit(args=args):
                slot.edited = args
            case Pause():
                self.is_paused = True
            case _:
                raise TypeError(
                    f"The approval hook of {slot.call['name']!r} must return a bool, Reject, Edit "
                    f"or Pause, not {decision!r}."
                )

    @property
    def is_settled(self) -> bool:
        """Whether every tool call has ended."""
        return not any(self._open())

    def due(self) -> list[Attempt]:
        """Return the attempts to start now."""
        found: list[Attempt] = []
        running = self._running()
        for slot in list(self._open()):
            if running >= self.settings.max_concurrency:
                break
            if slot.is_running or self._waits(slot) or self._end_from_cache(slot):
                continue
            if not self.may_start(slot.call["name"]):
                self._end_with_error(
                    slot,
                    "skipped",
                    f"Not executed: too many earlier calls of tool {slot.call['name']!r} timed out "
                    "and are still running.",
                )
                continue
            found.append(self._start(slot))
            running += 1
        return found

    def settle(self, attempt: Attempt, outcome: AttemptOutcome) -> None:
        """Record the outcome of an attempt; ignore it if the attempt has timed out before.

        Raises:
            BaseException: The exception is not a tool's failure, such as Ctrl-C or an exit.
            InvalidToolError: The tool's output cannot be sent to a model.
        """
        slot = attempt.slot
        if slot.record or not slot.is_running or attempt.number != slot.attempts:
            return
        slot.is_running = False
        if outcome.error is not None:
            if not _is_failure(outcome.error):
                raise outcome.error
            self._fail(slot, "failed", outcome.error)
            return
        message = tool_messages.render_result(
            outcome.output, slot.call, self.settings.max_output_chars, self.settings.inject
        )
        if message.status == "error":
            self._end(slot, "failed", message)
            return
        if key := self._cache_key(slot):
            self.cache[key] = message
        self._end(slot, "succeeded", message)

    def settle_late(self, attempt: Attempt, outcome: AttemptOutcome) -> None:
        """Record an outcome that arrived as the run ended, so that resuming does not repeat it."""
        with contextlib.suppress(BaseException):  # the run already ends with another exception
            self.settle(attempt, outcome)

    def expire(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Return the attempts that have timed out; end their calls or schedule retries."""
        now = self.clock() + _EARLY
        late = [a for a in attempts if a.slot.deadline is not None and a.slot.deadline <= now]
        for attempt in late:
            slot = attempt.slot
            slot.is_running = False
            seconds = self.settings.timeout_of(slot.call["name"])
            self._fail(slot, "timed_out", TimeoutError(f"No result within {seconds:g} s."))
        return late

    def seconds_to_wait(self) -> float | None:
        """Return the seconds until the next timeout or retry; None if there is none."""
        now = self.clock()
        times = [slot.deadline for slot in self.slots if slot.is_running and slot.deadline]
        if self._running() < self.settings.max_concurrency:
            times += [slot.not_before for slot in self._open() if slot.not_before]
        return min(max(0.0, min(times) - now), 3600.0) if times else None

    def take_events(self) -> list[events.LoopEvent]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken

    def records(self) -> list[ToolCallRecord]:
        """Return the records of the ended tool calls, in the order of the message.

        Empty if the run pauses: the next run decides about all of them again.
        """
        return [slot.record for slot in self.slots if slot.record and not self.is_paused]

    def pending(self) -> list[ToolCall]:
        """Return the tool calls that have no result yet."""
        return [slot.asked for slot in self.slots if self.is_paused or not slot.record]

    def _open(self) -> Iterator[Slot]:
        return (slot for slot in self.slots if slot.record is None)

    def _running(self) -> int:
        return sum(slot.is_running for slot in self.slots)

    def _waits(self, slot: Slot) -> bool:
        """Return whether a retry is not due yet, or an identical call is running."""
        if slot.not_before is not None:
            if slot.not_before > self.clock() + _EARLY:
                return True
            slot.not_before = None
        key = self._cache_key(slot)
        return key is not None and any(
            other.is_running and self._cache_key(other) == key
            for other in self.slots
            if other is not slot and other.record is None
        )

    def _end_from_cache(self, slot: Slot) -> bool:
        key = self._cache_key(slot)
        known = self.cache.get(key) if key and not slot.attempts else None
        if known is None:
            return False
        self._end(slot, "cached", known.model_copy(update={"tool_call_id": slot.call["id"]}))
        return True

    def _cache_key(self, slot: Slot) -> str | None:
        name = slot.call["name"]
        if not self.settings.is_cached(name):
            return None
        try:
            return json.dumps([name, slot.call["args"]], sort_keys=True)
        except (TypeError, ValueError, RecursionError):  # edited by a hook, or too deep
            return None

    def _start(self, slot: Slot) -> Attempt:
        now = self.clock()
        seconds = self.settings.timeout_of(slot.call["name"])
        slot.started_at = slot.started_at if slot.attempts else now
        slot.deadline = None if seconds is None else now + seconds
        slot.attempts += 1
        slot.is_running = True
        self._emit(events.ToolCallStarted, call=slot.call, attempt=slot.attempts)
        return Attempt(slot, slot.attempts)

    def _fail(self, slot: Slot, status: ToolCallStatus, error: BaseException) -> None:
        """Schedule a retry if the tool and the failure allow it, or end the call with an error."""
        tool = slot.tool
        assert tool is not None  # noqa: S101 - it was started
        if (
            slot.attempts <= self.settings.retries_of(tool)
            and not isinstance(error, ToolException | InvalidToolError)
            and not tool_messages.is_about_arguments(error, tool)
        ):
            delay = self.settings.backoff(slot.attempts)
            slot.not_before = self.clock() + delay
            self._emit(
                events.ToolCallRetried,
                call=slot.call,
                attempt=slot.attempts,
                delay=delay,
                error=error,
            )
            return
        if status == "timed_out":
            text = tool_messages.render_timeout(tool, self.settings.timeout_of(tool.name) or 0)
        else:
            hidden = self.settings.box.hidden[tool.name]
            text = tool_messages.render_failure(error, tool, hidden, self.settings.inject)
        self._end_with_error(slot, status, text, error)

    def _end_with_error(
        self, slot: Slot, status: ToolCallStatus, text: str, error: BaseException | None = None
    ) -> None:
        message = tool_messages.render_error(slot.call, text, self.settings.max_output_chars)
        self._end(slot, status, message, error)

    def _end(
        self,
        slot: Slot,
        status: ToolCallStatus,
        message: ToolMessage,
        error: BaseException | None = None,
    ) -> None:
        slot.record = ToolCallRecord(
            turn=self.number,
            call=slot.call,
            status=status,
            message=message,
            attempts=slot.attempts,
            duration=self.clock() - slot.started_at if slot.attempts else 0.0,
            error=error,
        )
        self._emit(_ENDINGS[status], record=slot.record)

    def _emit(self, kind: type[events.LoopEvent], **fields: Any) -> None:
        self._events.append(kind(at=self.clock() - self.since, turn=self.number, **fields))


def _is_failure(error: BaseException) -> bool:
    """Return whether an exception is a tool's failure, not meant to stop the program or graph."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_failure, error.exceptions))
    if any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__):
        return False  # LangGraph's interrupts
    return isinstance(error, Exception | CancelledError)


def as_tool_call(invalid: InvalidToolCall) -> ToolCall:
    """Return an invalid tool call as a tool call without arguments."""
    return {"name": invalid["name"] or "", "args": {}, "id": invalid["id"], "type": "tool_call"}


def prepare(attempt: Attempt, settings: Settings) -> ToolCall:
    """Return a copy of the tool call for the tool, with the injected arguments."""
    call = copy_call(attempt.slot.call)
    hidden = settings.box.hidden[call["name"]]
    args = {key: value for key, value in call["args"].items() if key not in hidden}
    given = {key: value for key, value in settings.inject.items() if key in hidden}
    return {"name": call["name"], "args": args | given, "id": call["id"], "type": "tool_call"}


def copy_call(call: ToolCall) -> ToolCall:
    """Return a copy that may be changed; values that are not JSON are shared."""
    try:
        return {**call, "args": _copy_json(call["args"])}
    except RecursionError:
        return {**call, "args": {**call["args"]}}


def _copy_json(value: Any) -> Any:
    match value:
        case dict():
            return {key: _copy_json(item) for key, item in value.items()}
        case list():
            return [_copy_json(item) for item in value]
        case _:
            return value
