"""The clock watches real runs of LangChain; whose times they are is what matters, not how long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from langchain_gemini_tools import RunClock, trace
from tests.unit_tests.display.runs import answer, call

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


class ScriptedModel(GenericFakeChatModel):
    """Returns scripted messages, whatever tools are bound."""

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        return self


@tool
def wait(name: str) -> str:
    """Wait a little."""
    return f"{name} waited"


def _agent() -> Any:
    calls = [call("wait", "a", name="Ada"), call("wait", "b", name="Bob")]
    model = ScriptedModel(messages=iter([answer(tool_calls=calls), answer("Done.")]))
    return create_agent(model, tools=[wait])


def _timed(clock: RunClock, result: Any) -> list[bool]:
    run = trace(result, clock).run
    times = [turn.milliseconds for turn in run.turns] + [made.milliseconds for made in run.calls]
    return [milliseconds is not None for milliseconds in times]


def test_every_response_and_tool_call_of_an_agent_is_timed() -> None:
    clock = RunClock()
    result = _agent().invoke({"messages": "Wait"}, config={"callbacks": [clock]})
    assert _timed(clock, result) == [True] * 4


async def test_also_in_an_event_loop() -> None:
    clock = RunClock()
    result = await _agent().ainvoke({"messages": "Wait"}, config={"callbacks": [clock]})
    assert _timed(clock, result) == [True] * 4


def test_the_first_token_of_a_stream_is_timed() -> None:
    clock = RunClock()
    model = GenericFakeChatModel(messages=iter(["one two three"]))
    chunks = list(model.stream("Count", config={"callbacks": [clock]}))
    span = clock.message_span(chunks[0].id)
    assert span
    assert span.milliseconds is not None
    assert span.first_token_milliseconds is not None
    assert span.first_token_milliseconds <= span.milliseconds
    assert _timed(clock, chunks) == [True]


def test_another_run_with_the_same_call_ids_has_its_own_times() -> None:
    ticks = iter([0.0, 1.0, 10.0, 12.0])
    clock = RunClock(now=lambda: next(ticks))
    for _ in range(2):
        run_id = uuid4()
        clock.on_tool_start({}, "", run_id=run_id)
        clock.on_tool_end(ToolMessage("done", tool_call_id="call_0"), run_id=run_id)
    only_the_last = [answer(tool_calls=[call("wait", "call_0")])]
    assert trace(only_the_last, clock).run.calls[0].milliseconds == 2000
    both = [answer(tool_calls=[call("wait", "call_0")]) for _ in range(2)]
    assert [made.milliseconds for made in trace(both, clock).run.calls] == [1000, 2000]


def test_the_memory_of_a_clock_is_bounded() -> None:
    clock = RunClock(max_calls=3)
    for number in range(10):
        run_id = uuid4()
        clock.on_tool_start({}, "", run_id=run_id, tool_call_id=f"call_{number}")
        clock.on_tool_end("done", run_id=run_id)
        clock.on_chat_model_start({}, [], run_id=uuid4())  # never ends
    assert [bool(clock.tool_call_spans(f"call_{number}")) for number in range(10)] == [
        False
    ] * 7 + [True] * 3


@pytest.mark.parametrize("tell", ["on_llm_error", "on_tool_error"])
def test_ends_without_a_start_are_ignored(tell: str) -> None:
    clock = RunClock()
    getattr(clock, tell)(ValueError("late"), run_id=uuid4())
    assert clock.message_span(None) is None
    assert clock.tool_call_spans(None) == []


def test_many_threads_share_a_clock() -> None:
    clock = RunClock()

    def work(name: str) -> None:
        for _ in range(50):
            run_id = uuid4()
            clock.on_tool_start({}, "", run_id=run_id, tool_call_id=name)
            clock.on_tool_end("done", run_id=run_id)

    threads = [threading.Thread(target=work, args=[f"call_{n % 2}"]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(clock.tool_call_spans(name)) for name in ("call_0", "call_1")] == [200, 200]
