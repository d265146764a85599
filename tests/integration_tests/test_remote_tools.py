"""Tools that live in another process, behind JSON lines or HTTP, driven by every executor."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tools import ToolException

from langchain_gemini_tools import ToolLoop, tools_from_specs
from tests.integration_tests.executors import classic_executor, tool_node_graph
from tests.integration_tests.mcp_worlds import serving
from tests.integration_tests.play import Play, result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

JsonObject = dict[str, Any]

WORKER = Path(__file__).with_name("registry_worker.py")
LIST: JsonObject = {}
GONE = '{"error": "The worker is gone."}'


@contextmanager
def stdio_worker() -> Iterator[Any]:
    """A function that asks the worker over its pipes, one question at a time."""
    command = [sys.executable, str(WORKER)]
    turn = threading.Lock()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin
        assert process.stdout
        questions, answers = process.stdin, process.stdout

        def ask(question: JsonObject) -> Any:
            with turn:
                questions.write(json.dumps(question).encode() + b"\n")
                return json.loads(answers.readline() or GONE)

        try:
            yield ask
        finally:
            process.kill()


@contextmanager
def http_worker() -> Iterator[Any]:
    """A function that posts to the worker."""
    with serving(WORKER) as url:

        def ask(question: JsonObject) -> Any:
            with urllib.request.urlopen(url, json.dumps(question).encode(), timeout=60) as reply:
                return json.load(reply)

        yield ask


@asynccontextmanager
async def async_worker() -> AsyncIterator[Any]:
    """An async function that asks the worker over its pipes."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, str(WORKER), **pipes)
    turn = asyncio.Lock()

    async def ask(question: JsonObject) -> Any:
        assert process.stdin
        assert process.stdout
        async with turn:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            return json.loads(await process.stdout.readline() or GONE)

    try:
        yield ask
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def result_of(reply: JsonObject) -> Any:
    """What a worker's reply holds; its error is for the model to read."""
    if "error" in reply:
        raise ToolException(reply["error"])
    return reply["result"]


def tools_of(ask: Any) -> Any:
    def call(name: str, args: JsonObject) -> Any:
        try:
            return result_of(ask({"name": name, "args": args}))
        except OSError as error:
            raise ToolException("The registry cannot be reached.") from error

    return tools_from_specs(ask(LIST)["specs"], call)


WORKERS = {"stdio": stdio_worker, "http": http_worker}
each_worker = pytest.mark.parametrize("worker", WORKERS.values(), ids=WORKERS)

CALLS: tuple[tuple[str, JsonObject], ...] = (
    ("add", {"numbers": [1, 2.5]}),
    ("find", {"name": "Ada", "config": {"deep": True}}),
    ("find", {"name": "Nobody"}),
    ("add", {}),
)
RESULTS: tuple[JsonObject, ...] = (
    {"output": "3.5"},
    {"output": {"name": "Ada", "config": {"deep": True}}},
    {"error": "There is no such person."},
    {"error": "add() missing 1 required positional argument: 'numbers'"},
)
GO: Any = {"messages": [HumanMessage("Go.")]}


def play_calls(play: Play) -> None:
    play.calls(*CALLS)
    play.says("Done.")


def results_sent(play: Play, step: int = 1) -> tuple[JsonObject, ...]:
    """What the model was answered in a request, counted from 1."""
    parts = play.sent[step]["contents"][-1]["parts"]
    assert [part["functionResponse"]["name"] for part in parts] == [name for name, _ in CALLS]
    return tuple(part["functionResponse"]["response"] for part in parts)


@each_worker
def test_an_agent_calls_tools_of_another_process(play: Play, worker: Any) -> None:
    play_calls(play)
    with worker() as ask:
        agent: Any = create_agent(play.model(), tools_of(ask))
        state = agent.invoke(GO)
    assert results_sent(play) == RESULTS
    assert state["messages"][-1].text == "Done."


@each_worker
async def test_an_async_agent_calls_a_sync_registry(play: Play, worker: Any) -> None:
    play_calls(play)
    with worker() as ask:
        agent: Any = create_agent(play.model(), tools_of(ask))
        await agent.ainvoke(GO)
    assert results_sent(play) == RESULTS


async def test_an_async_agent_calls_an_async_registry(play: Play) -> None:
    play_calls(play)
    async with async_worker() as ask:

        async def call(name: str, args: JsonObject) -> Any:
            return result_of(await ask({"name": name, "args": args}))

        tools = tools_from_specs((await ask(LIST))["specs"], call)
        agent: Any = create_agent(play.model(), tools)
        async for _ in agent.astream(GO, stream_mode="messages"):
            pass
    assert results_sent(play) == RESULTS


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_loop_calls_tools_of_another_process(play: Play, way: str) -> None:
    play_calls(play)
    with stdio_worker() as ask:
        loop = ToolLoop(play.model(), tools_of(ask))
        if way == "invoke":
            outcome = await asyncio.to_thread(loop.invoke, "Go.")
        else:
            outcome = await loop.ainvoke("Go.")
    assert results_sent(play) == RESULTS
    assert outcome.messages[-1].text == "Done."


def test_a_sync_loop_calls_an_async_registry(play: Play) -> None:
    play_calls(play)
    with http_worker() as ask:

        async def call(name: str, args: JsonObject) -> Any:
            return result_of(await asyncio.to_thread(ask, {"name": name, "args": args}))

        ToolLoop(play.model(), tools_from_specs(ask(LIST)["specs"], call)).invoke("Go.")
    assert results_sent(play) == RESULTS


def test_the_classic_executor_calls_tools_of_another_process(play: Play) -> None:
    play_calls(play)
    with stdio_worker() as ask:
        executor = classic_executor(play.model(), tools_of(ask))
        output = executor.invoke({"input": "Go."})["output"]
    assert output == "Done."
    words = [{"output": next(iter(value.values()))} for value in RESULTS]
    assert results_sent(play) == tuple(words)


def test_a_graph_with_a_tool_node_calls_tools_of_another_process(play: Play) -> None:
    play_calls(play)
    with stdio_worker() as ask:
        tool_node_graph(play.model(), tools_of(ask)).invoke(GO)
    assert results_sent(play) == RESULTS


@each_worker
def test_a_worker_that_dies_is_reported_to_the_model_which_continues(
    play: Play, worker: Any
) -> None:
    play.calls(("die", {}))
    play.calls(("add", {"numbers": [1]}))
    play.says("The tools are gone.")
    with worker() as ask:
        agent: Any = create_agent(play.model(), tools_of(ask))
        state = agent.invoke(GO)
    assert state["messages"][-1].text == "The tools are gone."
    gone = "The worker is gone." if worker is stdio_worker else "The registry cannot be reached."
    dead, after = play.ids(state["messages"])
    assert play.sent[1]["contents"][-1]["parts"] == [result("die", gone, dead, "error")]
    [part] = play.sent[2]["contents"][-1]["parts"]
    words = part["functionResponse"]["response"]["error"]
    assert part == result("add", words, after, "error")


def test_other_exceptions_than_tool_exceptions_are_left_to_the_executor(play: Play) -> None:
    def call(name: str, args: JsonObject) -> Any:
        raise ConnectionResetError("The worker is gone.")

    tools = tools_from_specs([{"name": "add", "description": "Add."}], call)
    play.calls(("add", {}))
    raising: Any = create_agent(play.model(), tools)
    with pytest.raises(ConnectionResetError, match="The worker is gone"):
        raising.invoke(GO)
    play.calls(("add", {}))
    play.says("Gone.")
    telling: Any = create_agent(
        play.model(), tools, middleware=[ToolRetryMiddleware(max_retries=0)]
    )
    assert telling.invoke(GO)["messages"][-1].text == "Gone."
    [part] = play.sent[-1]["contents"][-1]["parts"]
    assert "The worker is gone." in part["functionResponse"]["response"]["error"]
