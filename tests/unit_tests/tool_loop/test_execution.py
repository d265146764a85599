"""Threads and tasks: in parallel, with timeouts, cancelled, and cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.types import Command, interrupt

from langchain_gemini_tools import ToolLoop, tools_from_specs
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import Edit, Pause, Reject, result_of
from langchain_gemini_tools.tool_loop.events import (
    LoopFinished,
    ToolCallEnded,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallTimedOut,
)
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls, human, tool_texts
from tests.unit_tests.tool_loop.virtual_time import run_virtually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools import ToolLoopResult


def _loop(tools: list[Any], *asked: Any, **options: Any) -> ToolLoop:
    """One turn with these calls, then an answer."""
    return ToolLoop(ScriptedModel(replies=[calls(*asked), "Done."]), tools, **options)


def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.fixture(autouse=True)
def no_stray_threads() -> Iterator[None]:
    """Every thread that a test starts comes to its end."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if "asyncio" not in thread.name:  # the default executor of the test's own loop
            thread.join(5)
            assert not thread.is_alive()


def _meeting(people: int) -> Any:
    """A tool that returns only when so many calls of it run at the same time."""
    barrier = threading.Barrier(people)

    def meet(name: str) -> str:
        """Wait for the others."""
        barrier.wait(10)
        return name

    return meet


def test_a_model_with_bound_tools_is_rejected() -> None:
    model = ScriptedModel(replies=[])
    bound = model.bind_tools([tool(echo)])
    with pytest.raises(InvalidOptionError, match="already has bound tools"):
        ToolLoop(bound, [echo])


def test_a_runnable_without_bind_tools_is_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="RunnableLambda has no `bind_tools`"):
        ToolLoop(RunnableLambda(echo), [echo])
    with pytest.raises(NotImplementedError):
        ToolLoop(FakeListChatModel(responses=["Hi"]), [echo])


def test_options_bound_to_the_model_are_kept() -> None:
    model = ScriptedModel(replies=[calls(call("echo", text="x")), "Done."])
    bound = model.bind(temperature=0.5).with_config(tags=["cold"])
    ToolLoop(bound, [echo]).invoke("Hi", seed=7)
    assert [asked.options for asked in model.asked] == [{"temperature": 0.5, "seed": 7}] * 2
    assert [asked.tools for asked in model.asked] == [["echo"]] * 2


def test_fallbacks_are_used_and_keep_their_options() -> None:
    first = ScriptedModel(replies=[ValueError("busy")] * 2)
    second = ScriptedModel(replies=[calls(call("echo", text="x")), "Done."])
    model = first.bind(seed=1).with_fallbacks([second.bind(seed=2)])
    assert ToolLoop(model, [echo]).invoke("Hi").text == "Done."
    for asked, seed in ((first.asked, 1), (second.asked, 2)):
        assert [(each.tools, each.options) for each in asked] == [(["echo"], {"seed": seed})] * 2


async def test_calls_of_a_turn_run_side_by_side() -> None:
    asked = [call("meet", str(n), name=f"{n}") for n in range(4)]
    expected = [(f"{n}", "success", f"{n}") for n in range(4)]
    result = await asyncio.to_thread(_loop([_meeting(4)], *asked).invoke, "Hi")
    assert tool_texts(result) == expected
    assert tool_texts(await _loop([_meeting(4)], *asked).ainvoke("Hi")) == expected


@pytest.mark.parametrize("limited_by", ["option", "config"])
async def test_no_more_calls_run_at_a_time_than_allowed(limited_by: str) -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def work(number: int) -> int:
        """Work."""
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.005)
        with lock:
            now[0] -= 1
        return number

    asked = [call("work", f"{n}", number=n) for n in range(9)]
    options: Any = {"max_concurrency": 2} if limited_by == "option" else {}
    config: Any = {"max_concurrency": 2} if limited_by == "config" else {}
    expected = [(f"{n}", "success", f"{n}") for n in range(9)]
    assert tool_texts(_loop([work], *asked, **options).invoke("Hi", config)) == expected
    assert tool_texts(await _loop([work], *asked, **options).ainvoke("Hi", config)) == expected
    assert most == [2]


def _hanging() -> tuple[Any, threading.Event, list[str]]:
    """A tool that hangs until it is released, and what it wrote after that."""
    released, written = threading.Event(), []

    def hang(text: str) -> str:
        """Hang."""
        released.wait(10)
        written.append(text)
        return text

    return hang, released, written


LATE = "Tool 'hang' did not finish within 0.02 s. Whether it had an effect is not known."


def test_a_timeout_is_reported_and_a_late_result_is_ignored() -> None:
    hang, released, written = _hanging()
    asked = [call("hang", "1", text="late"), call("echo", "2", text="x")]
    loop = _loop([hang, echo], *asked, tool_timeout={"hang": 0.02})
    seen = list(loop.events("Hi"))
    before = _finished(seen)
    assert tool_texts(before) == [("1", "error", LATE), ("2", "success", "x")]
    (timed_out,) = [event for event in seen if isinstance(event, ToolCallTimedOut)]
    assert timed_out.duration >= 0.02
    assert isinstance(timed_out.record.error, TimeoutError)
    released.set()
    _wait_for(lambda: written == ["late"])
    assert tool_texts(before) == [("1", "error", LATE), ("2", "success", "x")]


async def test_a_thread_that_takes_too_long_is_abandoned_in_async_code() -> None:
    hang, released, _ = _hanging()
    asked = [call("hang", "1", text="late"), call("echo", "2", text="x")]
    result = await _loop([hang, echo], *asked, tool_timeout={"hang": 0.02}).ainvoke("Hi")
    assert tool_texts(result) == [("1", "error", LATE), ("2", "success", "x")]
    released.set()


def test_an_async_tool_that_takes_too_long_is_cancelled_in_sync_code() -> None:
    cancelled = threading.Event()

    async def hang(text: str) -> str:
        """Hang."""
        try:
            await asyncio.sleep(10)
        finally:
            cancelled.set()
        return text

    # Long enough for the tool to begin on a busy machine: what never began is not cancelled.
    result = _loop([hang], call("hang", text="late"), tool_timeout=0.5).invoke("Hi")
    assert [record.status for record in result.calls] == ["timed_out"]
    assert cancelled.wait(10)


def test_an_async_tool_that_takes_too_long_is_cancelled() -> None:
    cleaned = []

    async def hang(text: str) -> str:
        """Hang."""
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(text)
        return text

    async def run() -> ToolLoopResult:
        loop = _loop([hang], call("hang", "1", text="a"), call("hang", "2", text="b"))
        return await loop.ainvoke("Hi")

    result: ToolLoopResult = run_virtually(run())
    words = "Tool 'hang' did not finish within 30 s. Whether it had an effect is not known."
    assert tool_texts(result) == [("1", "error", words), ("2", "error", words)]
    assert [record.duration for record in result.calls] == [30.0, 30.0]
    assert cleaned == ["a", "b"]


def test_the_end_of_a_turn_does_not_interrupt_a_tool_that_cleans_up() -> None:
    cleaned = []

    async def hang() -> None:
        """Hang, and take a while to clean up."""
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.5)
            cleaned.append("hang")

    async def work() -> None:
        """End while the other one cleans up."""
        await asyncio.sleep(1.2)

    async def run() -> ToolLoopResult:
        timeouts = {"hang": 1.0}
        loop = _loop([hang, work], call("hang", "1"), call("work", "2"), tool_timeout=timeouts)
        return await loop.ainvoke("Hi")

    result: ToolLoopResult = run_virtually(run())
    assert [record.status for record in result.calls] == ["timed_out", "succeeded"]
    assert cleaned == ["hang"]


def test_a_tool_is_cancelled_at_its_timeout_and_not_at_the_end_of_the_turn() -> None:
    ended_at = []

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(3600)
        finally:
            ended_at.append(asyncio.get_running_loop().time())
        return ""

    async def work() -> str:
        """Work."""
        await asyncio.sleep(20)
        return "done"

    loop = _loop([hang, work], call("hang", "1"), call("work", "2"), tool_timeout={"hang": 5})
    result = run_virtually(loop.ainvoke("Hi"))
    assert [record.status for record in result.calls] == ["timed_out", "succeeded"]
    assert ended_at == [5.0]


def test_a_result_that_came_together_with_an_interrupt_is_kept() -> None:
    async def stop() -> str:
        """Stop."""
        await asyncio.sleep(1)
        raise _Boom

    async def work() -> str:
        """Work."""
        await asyncio.sleep(1)
        return "done"

    async def run() -> ToolLoopResult | None:
        with pytest.raises(_Boom) as caught:
            await _loop([stop, work], call("stop", "1"), call("work", "2")).ainvoke("Hi")
        return result_of(caught.value)

    result: ToolLoopResult = run_virtually(run())
    assert tool_texts(result) == [("2", "success", "done")]
    assert result.pending == [call("stop", "1")]


def test_an_async_tool_that_ignores_cancelling_does_not_delay_the_run() -> None:
    released = asyncio.Event()

    async def stubborn() -> str:
        """Never give up."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return "late"

    async def run() -> ToolLoopResult:
        result = await _loop([stubborn], call("stubborn"), tool_timeout=5).ainvoke("Hi")
        assert asyncio.get_running_loop().time() == 6.0  # a second to clean up, no more
        released.set()
        await asyncio.sleep(1)
        return result

    result: ToolLoopResult = run_virtually(run())
    assert [record.status for record in result.calls] == ["timed_out"]
    assert result.text == "Done."


async def test_a_sync_run_works_where_an_event_loop_runs_already() -> None:
    async def await_(text: str) -> str:
        """Say it again."""
        await asyncio.sleep(0)
        return text

    assert tool_texts(_loop([await_], call("await_", text="x")).invoke("Hi")) == [
        ("1", "success", "x")
    ]


def test_a_tool_without_a_timeout_can_run_for_long() -> None:
    async def think() -> str:
        """Think."""
        await asyncio.sleep(86400)
        return "42"

    loop = _loop([think], call("think"), tool_timeout=None)
    assert tool_texts(run_virtually(loop.ainvoke("Hi"))) == [("1", "success", "42")]


def test_waiting_for_a_free_slot_does_not_count_as_running() -> None:
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(20)
        return number

    asked = [call("work", f"{n}", number=n) for n in range(4)]
    result = run_virtually(_loop([work], *asked, max_concurrency=1).ainvoke("Hi"))
    assert [record.status for record in result.calls] == ["succeeded"] * 4


@pytest.mark.parametrize("is_remote", [False, True], ids=["function", "remote tool"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_threads_that_hang_are_bounded(is_async: bool, is_remote: bool) -> None:
    hang, released, written = _hanging()
    if is_remote:  # it may turn out to be async only when it is called
        spec = {"name": "hang", "description": "Hang.", "parameters": {"type": "object"}}
        function = hang
        (hang,) = tools_from_specs([spec], lambda _, args: function(**args))
    asked = [call("hang", f"{n}", text="x") for n in range(12)]
    model = ScriptedModel(replies=[calls(*asked), "Done.", "Done."])
    loop = ToolLoop(model, [hang], tool_timeout=0.02, max_concurrency=4)
    before = set(threading.enumerate())
    result = asyncio.run(loop.ainvoke("Hi")) if is_async else loop.invoke("Hi")
    statuses = [record.status for record in result.calls]
    assert statuses == ["timed_out"] * 8 + ["skipped"] * 4
    assert tool_texts(result)[-1] == (
        "11",
        "error",
        "Not executed: too many earlier calls of tool 'hang' timed out and are still running.",
    )
    released.set()
    _wait_for(lambda: len(written) == 8)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    again = loop.invoke([human("Hi"), calls(call("hang", "12", text="y"))])
    assert again.calls[0].attempts == 1


def test_the_interpreter_does_not_wait_for_a_tool_that_hangs() -> None:
    script = """
import time
from langchain_gemini_tools import ToolLoop
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls

def hang() -> str:
    'Hang.'
    time.sleep(600)
    return ''

model = ScriptedModel(replies=[calls(call('hang')), 'Done.'])
print(ToolLoop(model, [hang], tool_timeout=0.01).invoke('Hi').text)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Done.\n"


def test_context_variables_reach_sync_and_async_tools() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    def who() -> str:
        """Who."""
        return user.get()

    async def awho() -> str:
        """Who."""
        return user.get()

    user.set("eve")
    asked = [call("who", "1"), call("awho", "2")]
    expected = [("1", "success", "eve"), ("2", "success", "eve")]
    assert tool_texts(_loop([who, awho], *asked).invoke("Hi")) == expected
    assert tool_texts(asyncio.run(_loop([who, awho], *asked).ainvoke("Hi"))) == expected


class _Boom(BaseException):
    """Not a failure of a tool."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, _Boom])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_an_interrupt_in_a_tool_ends_a_sync_run(kind: type[BaseException], is_async: bool) -> None:
    async def arun() -> str:
        raise kind

    def run() -> str:
        raise kind

    form: Any = {"coroutine": arun} if is_async else {"func": run}
    stop = StructuredTool.from_function(**form, name="stop", description="Stop.")
    asked = [call("echo", "1", text="x"), call("stop", "2")]
    with pytest.raises(kind) as caught:
        _loop([echo, stop], *asked, max_concurrency=1).invoke("Hi")
    result = result_of(caught.value)
    assert result is not None
    assert tool_texts(result) == [("1", "success", "x")]
    assert result.pending == [call("stop", "2")]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, _Boom])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_an_interrupt_in_a_tool_ends_an_async_run(
    kind: type[BaseException], is_async: bool
) -> None:
    async def arun() -> str:
        raise kind

    def run() -> str:
        raise kind

    form: Any = {"coroutine": arun} if is_async else {"func": run}
    stop = StructuredTool.from_function(**form, name="stop", description="Stop.")
    with pytest.raises(kind):
        asyncio.run(_loop([stop], call("stop")).ainvoke("Hi"))


class _BothWays(BaseTool):
    """A tool that async code runs in a thread, although it has an `_arun`."""

    name: str = "stop"
    description: str = "Stop."
    is_async: bool = False
    error: Any

    def _run(self) -> str:
        raise self.error

    async def _arun(self) -> str:
        return "never"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, _Boom])
def test_an_interrupt_in_the_thread_of_a_tool_with_both_versions_has_the_result(
    kind: type[BaseException],
) -> None:
    with pytest.raises(kind) as caught:
        asyncio.run(_loop([_BothWays(error=kind())], call("stop")).ainvoke("Hi"))
    result = result_of(caught.value)
    assert result is not None
    assert result.pending == [call("stop")]


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError("x")], ids=repr)
async def test_the_error_in_the_thread_of_a_tool_with_both_versions_is_kept(error: Any) -> None:
    result = await _loop([_BothWays(error=error)], call("stop")).ainvoke("Hi")
    assert result.calls[0].error is error


async def test_an_error_in_the_cleanup_after_a_timeout_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> str:
        """Fail."""
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("cleanup")

    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0.2)
        return "ok"

    loop = _loop([fail, wait], call("fail", "1"), call("wait", "2"), tool_timeout={"fail": 0.05})
    result = await loop.ainvoke("Hi")
    assert [record.status for record in result.calls] == ["timed_out", "succeeded"]
    gc.collect()
    assert caplog.text == ""


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_ends_a_run_whose_tool_goes_on() -> None:
    hang, released, written = _hanging()

    def interrupt(text: str) -> str:
        """Do as the keyboard does."""
        os.kill(os.getpid(), signal.SIGINT)
        return str(hang(text))

    with pytest.raises(KeyboardInterrupt) as caught:
        _loop([interrupt], call("interrupt", text="x")).invoke("Hi")
    result = result_of(caught.value)
    assert result is not None
    assert result.pending == [call("interrupt", text="x")]
    assert written == []
    released.set()


def test_an_interrupt_in_a_task_group_ends_a_run() -> None:
    def stop() -> str:
        """Stop."""
        raise BaseExceptionGroup("tasks", [OSError(), KeyboardInterrupt()])

    with pytest.raises(BaseExceptionGroup):
        _loop([stop], call("stop")).invoke("Hi")


def test_an_interrupt_of_a_graph_reaches_the_graph() -> None:
    def ask(text: str) -> str:
        """Ask somebody."""
        return str(interrupt(text))

    def run(state: dict[str, str]) -> dict[str, str]:
        return {"answer": _loop([ask], call("ask", text="Really?")).invoke("Hi").text}

    graph: Any = StateGraph(dict)
    graph.add_node("run", run).set_entry_point("run")
    app = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    paused = app.invoke({"question": "Hi"}, config)
    assert [found.value for found in paused["__interrupt__"]] == ["Really?"]
    assert app.invoke(Command(resume="Yes."), config)["answer"] == "Done."


def test_a_loop_can_be_copied() -> None:
    loop = _loop([echo], call("echo", text="x"))
    assert copy.deepcopy(loop).invoke("Hi").text == "Done."


async def test_a_tool_that_raises_stop_iteration_has_failed() -> None:
    """A future of an event loop cannot have this exception: a run that used one would hang."""

    def find(text: str) -> str:
        """Find something."""
        return next(each for each in ["a", "b"] if each == text)

    expected = [("1", "error", "Tool 'find' failed: StopIteration")]
    asked = call("find", text="x")
    assert tool_texts(await asyncio.to_thread(_loop([find], asked).invoke, "Hi")) == expected
    assert tool_texts(await _loop([find], asked).ainvoke("Hi")) == expected
    with pytest.raises(RuntimeError, match="StopIteration"):
        await _loop([echo], call("echo", text="x"), approve={"echo": find}).ainvoke("Hi")


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
def test_a_tool_that_cancels_itself_has_failed(error: type[BaseException]) -> None:
    async def give_up() -> str:
        """Give up."""
        raise error

    result = run_virtually(_loop([give_up], call("give_up")).ainvoke("Hi"))
    assert [record.status for record in result.calls] == ["failed"]
    result = _loop([give_up], call("give_up")).invoke("Hi")
    assert [record.status for record in result.calls] == ["failed"]


async def test_cancelling_a_run_cancels_its_tools() -> None:
    started, ended = asyncio.Event(), []

    async def hang(text: str) -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(text)
        return text

    asked = [call("hang", "1", text="a"), call("hang", "2", text="b")]
    run = asyncio.create_task(_loop([hang], *asked).ainvoke("Hi"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["a", "b"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("way", ["cancelled", "timed out"])
def test_the_error_of_a_cancelled_run_has_the_result_so_far(way: str) -> None:
    async def quick() -> str:
        """Be quick."""
        return "done"

    async def slow() -> str:
        """Be slow."""
        await asyncio.sleep(20)
        return "late"

    async def run() -> ToolLoopResult | None:
        loop = _loop([quick, slow], call("quick", "1"), call("slow", "2"))
        task = asyncio.create_task(loop.ainvoke("Hi"))
        try:
            if way == "timed out":
                async with asyncio.timeout(10):
                    await task
            asyncio.get_running_loop().call_later(10, task.cancel)
            await task
        except (asyncio.CancelledError, TimeoutError) as error:
            return result_of(error)
        return None

    result: ToolLoopResult = run_virtually(run())
    assert tool_texts(result) == [("1", "success", "done")]
    assert result.pending == [call("slow", "2")]


async def test_closing_an_async_stream_early_cancels_the_tools() -> None:
    ended = []

    async def hang(text: str) -> str:
        """Hang."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(text)
        return text

    events = _loop([hang], call("hang", text="a")).aevents("Hi")
    async with contextlib.aclosing(events) as seen:  # type: ignore[type-var]
        async for event in seen:
            if isinstance(event, ToolCallStarted):
                await asyncio.sleep(0)
                break
    assert ended == ["a"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_closing_a_stream_early_abandons_the_tools() -> None:
    started, cancelled = threading.Event(), threading.Event()
    hang, released, written = _hanging()

    async def ahang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return ""

    loop = _loop([hang, ahang], call("hang", "1", text="a"), call("ahang", "2"))
    events: Any = loop.events("Hi")
    assert [type(next(events)).__name__ for _ in range(6)][-1] == "ToolCallStarted"
    assert started.wait(10)
    events.close()
    assert cancelled.wait(10)
    released.set()
    _wait_for(lambda: written == ["a"])


def _failing(times: int) -> tuple[Any, list[float]]:
    """An async tool that fails so often, and when it was called."""
    at: list[float] = []

    @tool
    async def flaky(text: str) -> str:
        """Fail at first."""
        at.append(asyncio.get_running_loop().time())
        if len(at) <= times:
            raise ConnectionError(f"try {len(at)}")
        return text

    return flaky, at


def test_a_repeatable_tool_is_retried_with_growing_pauses() -> None:
    flaky, at = _failing(2)
    loop = _loop(
        [flaky], call("flaky", text="x"), repeatable=["flaky"], backoff=lambda failed: 10 * failed
    )

    async def run() -> list[Any]:
        return [event async for event in loop.aevents("Hi")]

    seen = run_virtually(run())
    result = _finished(seen)
    assert tool_texts(result) == [("1", "success", "x")]
    assert at == [0.0, 10.0, 30.0]
    assert (result.calls[0].attempts, result.calls[0].duration) == (3, 30.0)
    retried = [event for event in seen if isinstance(event, ToolCallRetried)]
    assert [(e.attempt, e.delay, str(e.error)) for e in retried] == [
        (1, 10, "try 1"),
        (2, 20, "try 2"),
    ]


@pytest.mark.parametrize(
    "declared",
    [
        {"metadata": {"idempotent": True}},
        {"extras": {"idempotent": True}},
        {"metadata": {"idempotentHint": True}},
        {"metadata": {"readOnlyHint": True}},
    ],
    ids=str,
)
def test_a_tool_can_declare_itself_safe_to_repeat(declared: dict[str, Any]) -> None:
    flaky, at = _failing(1)
    loop = _loop([flaky.model_copy(update=declared)], call("flaky", text="x"))
    assert tool_texts(run_virtually(loop.ainvoke("Hi"))) == [("1", "success", "x")]
    assert 0.25 <= at[1] - at[0] <= 0.5


def test_other_tools_are_not_retried() -> None:
    for metadata in (None, {"idempotent": False}, {"idempotent": "yes"}):
        flaky, at = _failing(1)
        flaky.metadata = metadata
        result = run_virtually(_loop([flaky], call("flaky", text="x")).ainvoke("Hi"))
        assert [record.status for record in result.calls] == ["failed"]
        assert len(at) == 1


def test_retries_end_and_the_last_failure_is_reported() -> None:
    flaky, at = _failing(9)
    loop = _loop([flaky], call("flaky", text="x"), repeatable={"flaky"}, max_retries=3)
    result = run_virtually(loop.ainvoke("Hi"))
    assert tool_texts(result) == [("1", "error", "Tool 'flaky' failed: ConnectionError: try 4")]
    assert len(at) == result.calls[0].attempts == 4


def test_permanent_failures_are_not_retried() -> None:
    ran = []

    @tool(extras={"idempotent": True})
    def refuse(number: int) -> str:
        """Refuse."""
        ran.append(number)
        raise ToolException("No.")

    asked = [call("refuse", "1", number=1), call("refuse", "2", number="x")]
    result = _loop([refuse], *asked).invoke("Hi")
    assert [record.attempts for record in result.calls] == [1, 1]
    assert ran == [1]


def test_a_retried_call_in_threads_has_only_its_last_result() -> None:
    hang, released, written = _hanging()
    attempts = []

    def slow_at_first(text: str) -> str:
        """Be slow at first."""
        attempts.append(text)
        return hang(text) if len(attempts) == 1 else "fast"

    loop = _loop(
        [slow_at_first],
        call("slow_at_first", text="slow"),
        repeatable={"slow_at_first"},
        tool_timeout=0.2,
        backoff=lambda _: 0,
    )
    result = loop.invoke("Hi")
    released.set()
    _wait_for(lambda: written == ["slow"])
    assert tool_texts(result) == [("1", "success", "fast")]
    assert result.calls[0].attempts == len(attempts) >= 2


DECISIONS: Any = [
    (True, ("1", "success", "x")),
    (False, ("1", "error", "This call was rejected.")),
    (Reject("Too expensive."), ("1", "error", "This call was rejected: Too expensive.")),
    (Edit({"text": "y"}), ("1", "success", "y")),
]


@pytest.mark.parametrize(("decision", "answer"), DECISIONS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync hook", "async hook"])
async def test_a_tool_with_a_hook_needs_approval(
    decision: Any, answer: Any, is_async: bool
) -> None:
    asked_for = []

    async def adecide(asked: Any) -> Any:
        return decide(asked)

    def decide(asked: Any) -> Any:
        asked_for.append(asked)
        return decision

    def free(text: str) -> str:
        """Need no approval."""
        return text

    asked = [call("echo", "1", text="x"), call("free", "2", text="z")]
    hooks = {"echo": adecide if is_async else decide}
    loop = _loop([echo, free], *asked, approve=hooks)
    result = await asyncio.to_thread(loop.invoke, "Hi")
    assert tool_texts(result) == [answer, ("2", "success", "z")]
    assert tool_texts(await _loop([echo, free], *asked, approve=hooks).ainvoke("Hi")) == tool_texts(
        result
    )
    assert asked_for == [call("echo", "1", text="x")] * 2
    assert result.messages[1].tool_calls == asked  # type: ignore[attr-defined]


async def test_a_hook_that_returns_a_coroutine_is_awaited_on_the_event_loop_of_the_run() -> None:
    """A hook that waits for a person uses queues and events of one event loop."""
    asked_on = []

    async def ask_somebody() -> bool:
        asked_on.append(asyncio.get_running_loop())
        return True

    hooks = {"echo": lambda _: ask_somebody()}
    result = await _loop([echo], call("echo", text="x"), approve=hooks).ainvoke("Hi")
    assert tool_texts(result) == [("1", "success", "x")]
    assert asked_on == [asyncio.get_running_loop()]


def test_nothing_of_a_turn_runs_before_all_its_approvals_are_given() -> None:
    order: list[str] = []

    def act(text: str) -> str:
        """Act."""
        order.append(f"run {text}")
        return text

    def approve(asked: Any) -> bool:
        order.append(f"ask {asked['args']['text']}")
        assert threading.current_thread() is threading.main_thread()
        return True

    asked = [call("act", "1", text="a"), call("act", "2", text="b")]
    _loop([act], *asked, approve={"act": approve}, max_concurrency=1).invoke("Hi")
    assert order == ["ask a", "ask b", "run a", "run b"]


async def test_a_run_can_pause_for_approval_and_continue_later() -> None:
    ran = []

    def act(text: str) -> str:
        """Act."""
        ran.append(text)
        return text

    asked = [call("echo", "1", text="x"), call("act", "2", text="a"), call("nope", "3")]
    loop = _loop([act, echo], *asked, approve={"act": lambda _: Pause()})
    result = await loop.ainvoke("Hi")
    assert (result.stop_reason, result.text, result.turns) == ("awaiting_approval", "", 1)
    assert result.pending == asked
    assert (tool_texts(result), result.calls, ran) == ([], [], [])
    model = ScriptedModel(replies=["Done."])
    again = ToolLoop(model, [act, echo], approve={"act": lambda _: True})
    after = again.invoke(list(result.messages))
    assert [answer[:2] for answer in tool_texts(after)] == [
        ("1", "success"),
        ("2", "success"),
        ("3", "error"),
    ]
    assert ran == ["a"]
    assert after.text == "Done."


async def test_the_calls_of_a_turn_end_after_its_approvals_and_not_if_it_pauses() -> None:
    def act(text: str) -> str:
        """Act."""
        return text

    def kinds(events: list[Any]) -> list[str]:
        return [type(event).__name__ for event in events if isinstance(event, ToolCallEnded)]

    asked = [call("nope", "1"), call("echo", "2", text="x"), call("act", "3", text="y")]
    for decision, expected in (
        (True, ["ToolCallSkipped", "ToolCallRejected", "ToolCallFinished"]),
        (Pause(), []),
    ):
        ended_before: list[str] = []
        seen: list[Any] = []

        def decide(_: Any, decision: Any = decision) -> Any:
            ended_before.extend(kinds(seen))  # noqa: B023 - called in this round
            return decision

        hooks = {"echo": lambda _: False, "act": decide}
        for event in _loop([echo, act], *asked, approve=hooks).events("Hi"):
            seen.append(event)  # noqa: PERF402 - the hook reads it meanwhile
        assert (kinds(seen), ended_before) == (expected, [])
        seen = []
        async for event in _loop([echo, act], *asked, approve=hooks).aevents("Hi"):
            seen.append(event)
        assert (kinds(seen), ended_before) == (expected, [])


def test_a_hook_that_returns_another_type_is_an_error() -> None:
    loop = _loop([echo], call("echo", text="x"), approve={"echo": lambda _: "yes"})
    with pytest.raises(TypeError, match="hook of 'echo' must return a bool, Reject, Edit or Pause"):
        loop.invoke("Hi")


async def test_a_hook_that_changes_the_call_changes_nothing() -> None:
    def decide(asked: Any) -> bool:
        asked["args"]["text"] += "!"
        asked["args"]["list"].append(1)
        asked["name"] = "other"
        return True

    def repeat(text: str, list: list[int]) -> str:  # noqa: A002
        """Repeat."""
        return f"{text} {list}"

    def asked() -> Any:
        return call("repeat", text="x", list=[])

    for is_async in (False, True):
        loop = _loop([repeat], asked(), approve={"repeat": decide})
        result = await loop.ainvoke("Hi") if is_async else loop.invoke("Hi")
        assert tool_texts(result) == [("1", "success", "x []")]
        assert result.messages[1].tool_calls == [asked()]  # type: ignore[attr-defined]
        assert result.calls[0].call == asked()


async def test_edited_arguments_may_contain_objects_that_cannot_be_copied() -> None:
    lock = threading.Lock()

    @tool
    def hold(text: str, lock: Any = None) -> str:
        """Hold."""
        return f"{text} {type(lock).__name__} {id(lock)}"

    hooks = {"hold": lambda _: Edit({"text": "y", "lock": lock})}
    answer = ("1", "success", f"y lock {id(lock)}")
    for cache in (False, True):
        loop = _loop([hold], call("hold", text="x"), approve=hooks, cache=cache)
        assert tool_texts(await loop.ainvoke("Hi")) == [answer]
    assert tool_texts(_loop([hold], call("hold", text="x"), approve=hooks).invoke("Hi")) == [answer]


@pytest.mark.parametrize("args", [None, "text", [("text", "y")]])
def test_an_edit_without_arguments_is_an_error_and_nothing_runs(args: Any) -> None:
    ran = []

    def act(text: str) -> str:
        """Act."""
        ran.append(text)
        return text

    loop = _loop([act], call("act", text="x"), approve={"act": lambda _: Edit(args)})
    with pytest.raises(TypeError, match="Edit needs a dict of all arguments, not "):
        loop.invoke("Hi")
    assert ran == []


@pytest.mark.parametrize("cache", [False, True])
async def test_a_call_that_is_nested_too_deep_does_not_end_the_run(cache: bool) -> None:
    nested: Any = []
    for _ in range(5_000):
        nested = [nested]

    def count(value: Any) -> str:
        """Count."""
        return "counted"

    message = AIMessage.model_construct(content="", tool_calls=[call("count", value=nested)])
    asked = [human("Hi"), message]
    for is_async in (False, True):
        loop = ToolLoop(ScriptedModel(replies=["Done."]), [count], cache=cache)
        result = await loop.ainvoke(asked) if is_async else loop.invoke(asked)
        assert [record.call["name"] for record in result.calls] == ["count"]
        assert result.text == "Done."


async def test_a_failing_hook_ends_the_run_and_keeps_the_messages() -> None:
    def fail(_: Any) -> bool:
        raise PermissionError("nobody there")

    def loop() -> ToolLoop:
        return _loop([echo], call("echo", text="x"), approve={"echo": fail})

    for run in (asyncio.to_thread(loop().invoke, "Hi"), loop().ainvoke("Hi")):
        with pytest.raises(PermissionError) as caught:
            await run
        result = result_of(caught.value)
        assert result is not None
        assert result.pending == [call("echo", text="x")]


def _finished(seen: list[Any]) -> ToolLoopResult:
    assert isinstance(seen[-1], LoopFinished)
    return seen[-1].result


def _wait_for(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("It did not come to pass.")
