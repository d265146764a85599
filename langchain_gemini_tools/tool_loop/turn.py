"""The tool calls of one turn: which are due, running, waiting for a retry, or settled.

`TurnCalls` keeps their state, and `execution` starts them in threads and tasks. Both are futures,
with the same methods.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, ToolException

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.tool_loop import events, toolbox
from langchain_gemini_tools.tool_loop.events import Edit, Pause, Reject, ToolCallRecord

if TYPE_CHECKING:
    from langchain_core.messages import InvalidToolCall, ToolMessage

    from langchain_gemini_tools.tool_loop.events import ToolCallStatus
    from langchain_gemini_tools.tool_loop.run import Run

ToolFuture = concurrent.futures.Future[Any] | asyncio.Future[Any]
"""An attempt of a tool call, in a thread or in a task."""


@dataclass(frozen=True)
class Raised:
    """The output of a task for a thread that raised an exception.

    In a task, a StopIteration becomes another exception, and Ctrl-C or an exit stops the event loop
    before the run can attach its result.
    """

    error: BaseException


Start = Callable[[BaseTool, ToolCall], ToolFuture | None]
"""Starts an attempt; returns None if too many threads of this tool are still running."""

_EARLY = 1e-6
"""Event loops may wake up early by the resolution of their clock."""

_LONGEST_WAIT = 3600.0

_ENDINGS: dict[ToolCallStatus, type[events.ToolCallEnded]] = {
    "succeeded": events.ToolCallFinished,
    "cached": events.ToolCallCached,
    "failed": events.ToolCallFailed,
    "timed_out": events.ToolCallTimedOut,
    "rejected": events.ToolCallRejected,
    "skipped": events.ToolCallSkipped,
}


@dataclass(eq=False)
class Slot:
    """One tool call and its state."""

    asked: ToolCall
    edited: dict[str, Any] | None = None
    attempts: int = 0
    started_at: float = 0.0
    deadline: float | None = None
    not_before: float | None = None
    future: ToolFuture | None = None
    record: ToolCallRecord | None = None

    @property
    def call(self) -> ToolCall:
        """The tool call as it runs, with edited arguments if there are any."""
        return self.asked if self.edited is None else {**self.asked, "args": self.edited}


class TurnCalls:
    """The tool calls of one message. Those that cannot be run end at once with an error.

    Args:
        run: The run, which has the settings and the clock, and gets the events.
        calls: The valid calls.
        unreadable: The invalid calls.
        why_not_run: Why none of them may be run, if that is so.
    """

    def __init__(
        self,
        run: Run,
        calls: Sequence[ToolCall],
        unreadable: Sequence[InvalidToolCall],
        why_not_run: str | None = None,
    ) -> None:
        self.is_paused = False
        self.cancelled: list[ToolFuture] = []
        self._run = run
        self._settings = run.settings
        self._slots: list[Slot] = []
        self._events: list[events.LoopEvent] = []
        for call in calls:
            slot = self._add(call)
            if call["name"] not in self._settings.box.tools:
                known = self._settings.box.names()
                self._end_with_error(
                    slot, "skipped", f"There is no tool named {call['name']!r}. Tools: {known}."
                )
        for invalid in unreadable:
            reason = why_not_run or toolbox.render_unreadable(invalid)
            self._end_with_error(self._add(as_tool_call(invalid)), "skipped", reason)
        if why_not_run:
            self.skip_all(why_not_run)

    def skip_all(self, reason: str) -> None:
        """End every open tool call with the reason why it is not run."""
        for slot in self._open():
            self._end_with_error(slot, "skipped", reason)

    def to_approve(self) -> Iterator[Slot]:
        """Yield the tool calls that need approval, in order, until a pause."""
        for slot in self._open():
            if slot.call["name"] in self._settings.approve and not self.is_paused:
                yield slot

    def decide(self, slot: Slot, decision: object) -> None:
        """Apply the decision of the approval hook."""
        match decision:
            case True:
                pass
            case False | Reject(reason=None | ""):
                self._end_with_error(slot, "rejected", "This call was rejected.")
            case Reject(reason=reason):
                self._end_with_error(slot, "rejected", f"This call was rejected: {reason}")
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
        return not self._open()

    @property
    def running(self) -> dict[Slot, ToolFuture]:
        """The attempts that are running."""
        return {slot: slot.future for slot in self._slots if slot.future}

    def start_due(self, start: Start) -> None:
        """Start the attempts that are due."""
        now = self._run.clock()  # those that start together time out together
        free = self._settings.max_concurrency - len(self.running)
        for slot in self._open():
            if free <= 0:
                break
            if not (slot.future or self._waits(slot) or self._end_from_cache(slot)):
                self._start(slot, start, now)
                free -= slot.future is not None
        self.emit_events()

    def emit_events(self) -> None:
        """Emit the events so far. A turn that pauses emits none: its calls have not ended."""
        self._run.emit(*self._events)
        self._events.clear()

    def update(self) -> None:
        """Record the attempts that have ended; if there are none, end those that take too long.

        Raises:
            BaseException: The exception is not a tool's failure, such as Ctrl-C or an exit.
            InvalidToolError: The tool's output cannot be sent to a model.
        """
        ended = {slot: future for slot, future in self.running.items() if future.done()}
        for slot, future in ended.items():
            self._settle(slot, future)
        if not ended:
            self._expire()

    def stop(self) -> None:
        """Cancel what is running.

        A result that arrives as the run ends is recorded, so that resuming does not repeat it.
        """
        for slot, future in self.running.items():
            if not self._cancel(slot, future):
                with contextlib.suppress(BaseException):  # the run ends with another exception
                    self._settle(slot, future)

    def seconds_to_wait(self) -> float:
        """Return the seconds until the next timeout or retry, an hour at most."""
        running = self.running
        times = [slot.deadline for slot in running]
        if len(running) < self._settings.max_concurrency:
            times += [slot.not_before for slot in self._open()]
        next_time = min((time for time in times if time is not None), default=math.inf)
        return min(max(0.0, next_time - self._run.clock()), _LONGEST_WAIT)

    def records(self) -> list[ToolCallRecord]:
        """Return the records of the ended tool calls, in the order of the message.

        Empty if the run pauses: the next run decides about all of them again.
        """
        return [slot.record for slot in self._slots if slot.record and not self.is_paused]

    def pending(self) -> list[ToolCall]:
        """Return the tool calls that have no result yet."""
        return [slot.asked for slot in self._slots if self.is_paused or not slot.record]

    def _add(self, call: ToolCall) -> Slot:
        self._slots.append(Slot(call))
        return self._slots[-1]

    def _open(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.record is None]

    def _waits(self, slot: Slot) -> bool:
        """Return whether a retry is not due yet, or an identical call is running."""
        if slot.not_before is not None:
            if slot.not_before > self._run.clock() + _EARLY:
                return True
            slot.not_before = None
        key = self._cache_key(slot)
        return key is not None and any(self._cache_key(other) == key for other in self.running)

    def _end_from_cache(self, slot: Slot) -> bool:
        key = self._cache_key(slot)
        known = self._run.cache.get(key) if key and not slot.attempts else None
        if known is None:
            return False
        self._end(slot, "cached", known.model_copy(update={"tool_call_id": slot.call["id"]}))
        return True

    def _cache_key(self, slot: Slot) -> str | None:
        name = slot.call["name"]
        if not self._settings.is_cached(name):
            return None
        try:
            return json.dumps([name, slot.call["args"]], sort_keys=True)
        except (TypeError, ValueError, RecursionError):  # edited by a hook, or too deep
            return None

    def _start(self, slot: Slot, start: Start, now: float) -> None:
        name = slot.call["name"]
        slot.future = start(self._settings.box.tools[name], self._prepare(slot))
        if slot.future is None:
            self._end_with_error(
                slot,
                "skipped",
                f"Not executed: too many earlier calls of tool {name!r} timed out and are still "
                "running.",
            )
            return
        seconds = self._settings.timeout_of(name)
        slot.started_at = slot.started_at if slot.attempts else now
        slot.deadline = None if seconds is None else now + seconds
        slot.attempts += 1
        self._add_event(events.ToolCallStarted, call=slot.call, attempt=slot.attempts)

    def _prepare(self, slot: Slot) -> ToolCall:
        """Return a copy of the tool call for the tool, with the injected arguments."""
        call = copy_call(slot.call)
        hidden = self._settings.box.hidden[call["name"]]
        args = {key: value for key, value in call["args"].items() if key not in hidden}
        given = {key: value for key, value in self._settings.inject.items() if key in hidden}
        return {"name": call["name"], "args": args | given, "id": call["id"], "type": "tool_call"}

    def _settle(self, slot: Slot, future: ToolFuture) -> None:
        slot.future = None
        if future.cancelled():
            error: BaseException | None = asyncio.CancelledError("The tool cancelled itself.")
        else:
            error = future.exception()
            if error is None and isinstance(raised := future.result(), Raised):
                error = raised.error
        if error is not None:
            if not _is_failure(error):
                raise error
            self._fail(slot, "failed", error)
            return
        message = toolbox.render_result(
            future.result(), slot.call, self._settings.max_output_chars, self._settings.inject
        )
        if message.status == "error":
            self._end(slot, "failed", message)
            return
        if key := self._cache_key(slot):
            self._run.cache[key] = message
        self._end(slot, "succeeded", message)

    def _expire(self) -> None:
        now = self._run.clock() + _EARLY
        for slot, future in self.running.items():
            if slot.deadline is not None and slot.deadline <= now and self._cancel(slot, future):
                seconds = self._settings.timeout_of(slot.call["name"])
                self._fail(slot, "timed_out", TimeoutError(f"No result within {seconds:g} s."))

    def _cancel(self, slot: Slot, future: ToolFuture) -> bool:
        """Cancel an attempt, whose result is then ignored; return False if it has just ended."""
        if not future.cancel():
            return False
        self.cancelled.append(future)
        slot.future = None
        return True

    def _fail(self, slot: Slot, status: ToolCallStatus, error: BaseException) -> None:
        """Schedule a retry if the tool and the failure allow it, or end the call with an error."""
        tool = self._settings.box.tools[slot.call["name"]]
        if (
            slot.attempts <= self._settings.retries_of(tool)
            and not isinstance(error, ToolException | InvalidToolError)
            and not toolbox.is_about_arguments(error, tool)
        ):
            delay = self._settings.backoff(slot.attempts)
            slot.not_before = self._run.clock() + delay
            self._add_event(
                events.ToolCallRetried,
                call=slot.call,
                attempt=slot.attempts,
                delay=delay,
                error=error,
            )
            return
        if status == "timed_out":
            text = (
                f"Tool {tool.name!r} did not finish within {self._settings.timeout_of(tool.name):g}"
                " s. Whether it had an effect is not known."
            )
        else:
            hidden = self._settings.box.hidden[tool.name]
            text = toolbox.render_failure(error, tool, hidden, self._settings.inject)
        self._end_with_error(slot, status, text, error)

    def _end_with_error(
        self, slot: Slot, status: ToolCallStatus, text: str, error: BaseException | None = None
    ) -> None:
        message = toolbox.render_error(slot.call, text, self._settings.max_output_chars)
        self._end(slot, status, message, error)

    def _end(
        self,
        slot: Slot,
        status: ToolCallStatus,
        message: ToolMessage,
        error: BaseException | None = None,
    ) -> None:
        slot.record = ToolCallRecord(
            turn=self._run.turns,
            call=slot.call,
            status=status,
            message=message,
            attempts=slot.attempts,
            duration=self._run.clock() - slot.started_at if slot.attempts else 0.0,
            error=error,
        )
        self._add_event(_ENDINGS[status], record=slot.record)

    def _add_event(self, kind: type[events.LoopEvent], **fields: Any) -> None:
        self._events.append(self._run.event(kind, **fields))


def _is_failure(error: BaseException) -> bool:
    """Return whether an exception is a tool's failure, not meant to stop the program or graph."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_failure, error.exceptions))
    if any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__):
        return False  # LangGraph's interrupts
    return isinstance(error, Exception | asyncio.CancelledError | GeneratorExit)


def as_tool_call(invalid: InvalidToolCall) -> ToolCall:
    """Return an invalid tool call as a tool call without arguments."""
    return {"name": invalid["name"] or "", "args": {}, "id": invalid["id"], "type": "tool_call"}


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
