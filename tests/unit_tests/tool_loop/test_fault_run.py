"""Random faults, seed by seed: nothing lost, nothing doubled, nothing left running, no hang.

`tests/properties.py` decides how many seeds are run; `make fuzz` runs a thousand.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import ToolException

from langchain_gemini_tools import ToolLoop, ToolLoopResult
from langchain_gemini_tools.tool_loop import IncompleteRunError, result_of
from langchain_gemini_tools.tool_loop.events import (
    LoopEvent,
    LoopFinished,
    ToolCallEnded,
    ToolCallStarted,
)
from tests.properties import SEEDS
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls
from tests.unit_tests.tool_loop.virtual_time import VirtualLoop, run_virtually

if TYPE_CHECKING:
    from collections.abc import Iterator

STRIDE = 1 if SEEDS >= 1000 else 9
TIMEOUT = 5.0


class Faults:
    """A random model and tools, and what the tools did."""

    def __init__(self, seed: int, *, in_threads: bool = False) -> None:
        self.chance = random.Random(seed)
        self.in_threads = in_threads
        self.unit = 0.001 if in_threads else 1.0
        self.began: list[str] = []
        self.completed: list[str] = []
        self.busy = 0
        self.lock = threading.Lock()
        self.plans: dict[str, Any] = {}
        self.turns = self.chance.randint(1, 5)

    def replies(self) -> list[Any]:
        """Turns of calls to tools that are there and that are not; then an answer."""
        turns: list[Any] = []
        for turn in range(self.turns):
            asked = []
            for number in range(self.chance.randint(1, 6)):
                call_id = f"{turn}.{number}"
                name = self.chance.choice(["work", "work", "work", "again", "nope"])
                self.plans[call_id] = self._plan()
                asked.append(call(name, call_id, key=call_id))
            turns.append(calls(*asked, text=self.chance.choice(["", "Let me see."])))
        if self.chance.random() < 0.1:
            turns[self.chance.randrange(len(turns))] = ConnectionError("The model is gone.")
        return [*turns, "Done."]

    def _plan(self) -> tuple[str, float]:
        kind = self.chance.choice(["fine", "fine", "fails", "refuses", "slow", "hangs", "cancels"])
        longest = {"slow": 4.0, "hangs": 30.0}.get(kind, 0.5)
        return kind, self.chance.uniform(longest / 2, longest) * self.unit

    def _begin(self, key: str) -> tuple[str, float]:
        with self.lock:
            self.began.append(key)
        return self.plans[key]  # type: ignore[no-any-return]

    def _end(self, key: str, kind: str) -> str:
        if kind == "fails":
            raise ValueError(key)
        if kind == "refuses":
            raise ToolException(key)
        if kind == "cancels":
            raise asyncio.CancelledError(key)
        with self.lock:
            self.completed.append(key)
        return f"result of {key}"

    async def awork(self, key: str) -> str:
        kind, seconds = self._begin(key)
        self.busy += 1
        try:
            for _ in range(3):
                await asyncio.sleep(seconds / 3)
        finally:
            self.busy -= 1
        return self._end(key, kind)

    def work_in_thread(self, key: str) -> str:
        kind, seconds = self._begin(key)
        time.sleep(seconds)
        return self._end(key, kind)

    def loop(self) -> ToolLoop:
        async def work(key: str) -> str:
            """Work."""
            return await self.awork(key)

        async def again(key: str) -> str:
            """Work, and again if need be."""
            return await self.awork(key)

        def twork(key: str) -> str:
            """Work."""
            return self.work_in_thread(key)

        tools: list[Any] = [work, again]
        if self.in_threads:
            twork.__name__ = "work"
            tools = [twork, again]
        return ToolLoop(
            ScriptedModel(replies=self.replies()),
            tools,
            max_turns=self.chance.choice([2, 10]),
            on_limit=self.chance.choice(["raise", "return", "answer"]),
            max_concurrency=self.chance.randint(1, 6),
            tool_timeout=TIMEOUT * self.unit,
            repeatable=["again"],
            backoff=lambda failed: failed * self.unit,
            cache=self.chance.random() < 0.3,
        )


def check(faults: Faults, result: ToolLoopResult, events: list[LoopEvent] | None = None) -> None:
    """Each call that was asked for has one answer or is pending, and it is the right one."""
    answers: dict[str, ToolMessage] = {}
    asked: list[str] = []
    for message in result.new_messages:
        if isinstance(message, AIMessage):
            asked += [str(each["id"]) for each in message.tool_calls]
        elif isinstance(message, ToolMessage):
            assert message.tool_call_id not in answers
            answers[message.tool_call_id] = message
    pending = [str(each["id"]) for each in result.pending]
    assert [key for key in asked if key in answers] == list(answers)
    assert sorted([*answers, *pending]) == sorted(asked)
    assert [record.call["id"] for record in result.calls] == list(answers)
    for record in result.calls:
        key = str(record.call["id"])
        assert record.message is answers[key]
        if record.status == "succeeded":
            assert record.message.text == f"result of {key}"
            assert faults.completed.count(key) == 1 or record.attempts > 1
        else:
            assert record.message.status == "error"
        assert (record.status == "skipped") == (record.attempts == 0)
        assert faults.began.count(key) == record.attempts or faults.in_threads
    if result.stop_reason == "answered":
        assert (result.text, pending) == ("Done.", [])
    if events is not None:
        _check_events(result, events)


def _check_events(result: ToolLoopResult, events: list[LoopEvent]) -> None:
    times = [event.at for event in events]
    assert times == sorted(times)
    ended = [event.record for event in events if isinstance(event, ToolCallEnded)]
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert sorted(map(id, ended)) == sorted(map(id, result.calls))
    assert len(started) == sum(record.attempts for record in result.calls)


async def _drain(loop: ToolLoop, events: list[LoopEvent]) -> ToolLoopResult:
    events.extend([event async for event in loop.aevents("Hi")])
    last = events[-1]
    assert isinstance(last, LoopFinished)
    return last.result


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_fault_loses_or_doubles_a_result(seed: int) -> None:
    faults, events = Faults(seed), list[LoopEvent]()
    try:
        result = run_virtually(_drain(faults.loop(), events))
    except (ConnectionError, IncompleteRunError) as error:
        found = result_of(error)
        assert found is not None
        check(faults, found)
    else:
        check(faults, result, events)


class _Interrupted(VirtualLoop):
    """Cancels a task after so many steps of the event loop."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.victim: asyncio.Task[Any] | None = None

    def _run_once(self) -> None:
        if self.victim is not None:
            self.steps -= 1
            if self.steps == 0:
                self.victim.cancel()
        super()._run_once()  # type: ignore[misc]


def _cancel_after(steps: int, seed: int, way: str) -> bool:
    """Cancel a run after so many steps; whether it had ended by then."""
    faults = Faults(seed)
    tool_loop = faults.loop()

    async def run() -> None:
        try:
            if way == "ainvoke":
                await tool_loop.ainvoke("Hi")
            else:
                await _drain(tool_loop, [])
        except (ConnectionError, IncompleteRunError):
            pass
        except asyncio.CancelledError as error:
            if said := result_of(error):  # there is none if the run had not begun
                check(faults, said)
            raise

    async def main() -> bool:
        event_loop = asyncio.get_running_loop()
        assert isinstance(event_loop, _Interrupted)
        event_loop.victim = task = asyncio.create_task(run())
        await asyncio.wait([task])
        event_loop.victim = None
        began, completed = len(faults.began), len(faults.completed)
        assert faults.busy == 0
        await asyncio.sleep(1000)  # core closes the model's stream in a task of its own
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert (len(faults.began), len(faults.completed)) == (began, completed)
        if task.cancelled():
            return False
        task.result()
        return True

    with asyncio.Runner(loop_factory=lambda: _Interrupted(steps)) as runner:
        return runner.run(main())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_run_can_be_cancelled_at_any_step(seed: int) -> None:
    chance = random.Random(seed)
    _cancel_after(chance.randint(1, 150), seed, chance.choice(["ainvoke", "aevents"]))


@pytest.mark.parametrize("way", ["ainvoke", "aevents"])
@pytest.mark.parametrize("seed", range(max(1, SEEDS // 60)))
def test_a_run_can_be_cancelled_at_every_step(seed: int, way: str) -> None:
    steps, has_ended = 1, False
    while not has_ended:
        has_ended = _cancel_after(steps, seed, way)
        steps += STRIDE
    assert steps > 10


@pytest.fixture
def no_stray_threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.usefixtures("no_stray_threads")
@pytest.mark.parametrize("way", ["sync", "async", "closed"])
@pytest.mark.parametrize("seed", range(max(1, SEEDS // 6)))
def test_no_fault_in_a_thread_loses_or_doubles_a_result(seed: int, way: str) -> None:
    faults, events = Faults(seed, in_threads=True), list[LoopEvent]()
    loop = faults.loop()
    try:
        if way == "async":
            result = asyncio.run(_drain(loop, events))
        else:
            seen = loop.events("Hi")
            for event in seen:
                events.append(event)
                if way == "closed" and faults.chance.random() < 0.1:
                    seen.close()  # type: ignore[attr-defined]
                    return
            last = events[-1]
            assert isinstance(last, LoopFinished)
            result = last.result
    except (ConnectionError, IncompleteRunError) as error:
        found = result_of(error)
        assert found is not None
        check(faults, found)
    else:
        check(faults, result, events)


async def test_two_hundred_turns_of_five_calls_put_every_result_in_its_place() -> None:
    def work(key: str) -> str:
        """Work."""
        return f"result of {key}"

    async def awork(key: str) -> str:
        """Work."""
        await asyncio.sleep(0)
        return f"result of {key}"

    ids = [[f"{turn}.{number}" for number in range(5)] for turn in range(200)]
    replies = [
        calls(*[call("work" if n % 2 else "awork", key, key=key) for n, key in enumerate(turn)])
        for turn in ids
    ]
    expected = [(key, f"result of {key}") for turn in ids for key in turn]

    def loop() -> ToolLoop:
        return ToolLoop(ScriptedModel(replies=[*replies, "Done."]), [work, awork], max_turns=201)

    sync = await asyncio.to_thread(loop().invoke, "Hi")
    for result in (sync, await loop().ainvoke("Hi")):
        found = [
            (message.tool_call_id, str(message.text))
            for message in result.messages
            if isinstance(message, ToolMessage)
        ]
        assert found == expected
        assert (result.turns, result.text, len(result.calls)) == (201, "Done.", 1000)
