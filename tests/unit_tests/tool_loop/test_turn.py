"""The calls of one turn, without threads, tasks or a clock: every order of events is at hand."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.tool_loop.execution import run_in_thread
from langchain_gemini_tools.tool_loop.run import Run
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls

if TYPE_CHECKING:
    from langchain_gemini_tools.tool_loop.turn import TurnCalls


@tool
def work(key: str) -> str:
    """Work."""
    return key


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class _Turn:
    """A turn whose attempts end when a test says so."""

    def __init__(self, *keys: str, **options: Any) -> None:
        self.clock = _Clock()
        settings = ToolLoop(ScriptedModel(replies=[]), [work], **options).settings
        asked = calls(*[call("work", key, key=key) for key in keys])
        turn = Run(settings, [asked], self.clock).calls
        assert turn is not None
        self.calls: TurnCalls = turn
        self._started: list[tuple[str, Future[Any]]] = []

    def start(self) -> list[tuple[str, Future[Any]]]:
        """Start what is due, and return the ids and futures of these calls."""
        self._started = []
        self.calls.start_due(self._start)
        return self._started

    def _start(self, _: object, call: Any) -> Future[Any]:
        self._started.append((call["id"], Future()))
        return self._started[-1][1]

    def texts(self) -> list[tuple[str, str]]:
        records = self.calls.records()
        return [(record.status, str(record.message.text)) for record in records]


def _result(text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id="any", name="work")


def _count_steps(turn: _Turn) -> int:
    """Count the bytecode instructions that looking for due calls takes."""
    steps = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        turn.start()
    finally:
        sys.settrace(before)
    return steps


def test_looking_for_due_calls_takes_steps_in_proportion_to_the_calls() -> None:
    few, many = (_Turn(*map(str, range(n)), max_concurrency=1000) for n in (50, 400))
    for turn in (few, many):
        turn.start()
    assert _count_steps(many) < 2 * 8 * _count_steps(few)


def test_a_result_after_the_timeout_is_ignored() -> None:
    turn = _Turn("a")
    ((_, future),) = turn.start()
    assert turn.calls.seconds_to_wait() == 30.0
    turn.clock.now += 30
    turn.calls.update()
    before = turn.texts()
    with pytest.raises(InvalidStateError):
        future.set_result(_result("late"))
    turn.calls.update()
    assert turn.texts() == before
    assert before[0][0] == "timed_out"


def test_a_result_that_came_in_the_moment_of_the_timeout_is_kept() -> None:
    class Late(Future[Any]):
        def cancel(self) -> bool:
            self.set_result(_result("just in time"))
            return super().cancel()

    turn = _Turn("a")
    turn.calls.start_due(lambda _tool, _call: Late())
    turn.clock.now += 30
    turn.calls.update()
    assert turn.texts() == []
    turn.calls.update()
    assert turn.texts() == [("succeeded", "just in time")]


def test_a_result_of_an_earlier_attempt_is_ignored() -> None:
    turn = _Turn("a", repeatable=["work"], backoff=lambda _: 2.0)
    turn.start()
    turn.clock.now += 30
    turn.calls.update()
    assert (turn.start(), turn.calls.seconds_to_wait()) == ([], 2.0)
    turn.clock.now += 2
    ((_, second),) = turn.start()
    turn.calls.update()
    assert turn.texts() == []
    second.set_result(_result("of the second attempt"))
    turn.calls.update()
    assert turn.texts() == [("succeeded", "of the second attempt")]
    assert turn.calls.is_settled


def test_a_timer_may_fire_a_moment_early() -> None:
    turn = _Turn("a", repeatable=["work"], backoff=lambda _: 2.0)
    ((_, first),) = turn.start()
    turn.clock.now += 30 - 1e-9
    turn.calls.update()
    assert first.cancelled()
    turn.clock.now += 2 - 1e-9
    assert len(turn.start()) == 1


def test_a_retry_without_a_free_slot_does_not_shorten_the_wait() -> None:
    turn = _Turn("a", "b", repeatable=["work"], max_concurrency=1, backoff=lambda _: 2.0)
    ((_, first),) = turn.start()
    first.set_exception(ValueError())
    turn.calls.update()
    ((_, second),) = turn.start()
    turn.clock.now += 5
    assert turn.start() == []
    assert turn.calls.seconds_to_wait() == 25.0
    second.set_result(_result("b"))
    turn.calls.update()
    assert [call_id for call_id, _ in turn.start()] == ["a"]


def test_a_retry_without_a_pause_is_due_at_once() -> None:
    turn = _Turn("a", repeatable=["work"], backoff=lambda _: 0.0)
    turn.clock.now = 0.0
    ((_, first),) = turn.start()
    first.set_exception(ValueError())
    turn.calls.update()
    assert turn.calls.seconds_to_wait() == 0.0


def test_stopping_keeps_the_results_that_have_arrived() -> None:
    turn = _Turn("a", "b", "c")
    (_, first), (_, second), (_, third) = turn.start()
    second.set_result(_result("b"))
    third.set_exception(KeyboardInterrupt())
    turn.calls.stop()
    assert first.cancelled()
    assert turn.texts() == [("succeeded", "b")]
    assert [pending["id"] for pending in turn.calls.pending()] == ["a", "c"]


def test_abandoned_work_has_no_result() -> None:
    begin = threading.Event()
    future, thread = run_in_thread("work", lambda: begin.wait(10))
    assert future.cancel()
    begin.set()
    thread.join(10)
    assert future.cancelled()
