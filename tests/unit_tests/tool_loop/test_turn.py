"""The calls of one turn, without threads, tasks or a clock: every order of events is at hand."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.tool_loop.execution import Worker
from langchain_gemini_tools.tool_loop.turn import Attempt, AttemptOutcome, TurnCalls
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call


@tool
def work(key: str) -> str:
    """Work."""
    return key


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _turn(*keys: str, **options: Any) -> tuple[TurnCalls, _Clock]:
    clock = _Clock()
    settings = ToolLoop(ScriptedModel(replies=[]), [work], **options).settings
    turn = TurnCalls(1, settings, {}, clock, clock.now, lambda _: True)
    turn.add_calls([call("work", key, key=key) for key in keys], [])
    return turn, clock


def _done(attempt: Attempt, text: str) -> AttemptOutcome:
    return AttemptOutcome(ToolMessage(text, tool_call_id=str(attempt.slot.call["id"]), name="work"))


def _tool_texts(turn: TurnCalls) -> list[tuple[str, str]]:
    return [(record.status, str(record.message.text)) for record in turn.records()]


def test_a_result_after_the_timeout_is_ignored() -> None:
    turn, clock = _turn("a")
    (attempt,) = turn.due()
    assert turn.seconds_to_wait() == 30.0
    clock.now += 30
    assert turn.expire([attempt]) == [attempt]
    before = _tool_texts(turn)
    turn.settle(attempt, _done(attempt, "late"))
    assert _tool_texts(turn) == before
    assert before[0][0] == "timed_out"


def test_a_result_of_an_earlier_attempt_is_ignored() -> None:
    turn, clock = _turn("a", repeatable=["work"], backoff=lambda _: 2.0)
    (first,) = turn.due()
    clock.now += 30
    turn.expire([first])
    assert (turn.due(), turn.seconds_to_wait()) == ([], 2.0)
    clock.now += 2
    (second,) = turn.due()
    turn.settle(first, _done(first, "of the first attempt"))
    assert _tool_texts(turn) == []
    turn.settle(second, _done(second, "of the second attempt"))
    assert _tool_texts(turn) == [("succeeded", "of the second attempt")]
    assert turn.is_settled


def test_a_timer_may_fire_a_moment_early() -> None:
    turn, clock = _turn("a", repeatable=["work"], backoff=lambda _: 2.0)
    (first,) = turn.due()
    clock.now += 30 - 1e-9
    assert turn.expire([first]) == [first]
    clock.now += 2 - 1e-9
    assert len(turn.due()) == 1


def test_a_retry_without_a_free_slot_does_not_shorten_the_wait() -> None:
    turn, clock = _turn("a", "b", repeatable=["work"], max_concurrency=1, backoff=lambda _: 2.0)
    (first,) = turn.due()
    turn.settle(first, AttemptOutcome(error=ValueError()))
    (second,) = turn.due()
    clock.now += 5
    assert turn.due() == []
    assert turn.seconds_to_wait() == 25.0
    turn.settle(second, _done(second, "b"))
    assert [attempt.slot for attempt in turn.due()] == [first.slot]


def test_abandoned_work_delivers_nothing() -> None:
    begin, delivered = threading.Event(), list[AttemptOutcome]()
    worker = Worker("work", lambda: begin.wait(10), delivered.append)
    worker.abandon()
    begin.set()
    worker.thread.join(10)
    assert delivered == []
