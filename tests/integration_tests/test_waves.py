"""Agents in waves of batch jobs: what is sent, what comes back, and what people are asked."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import operator
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    dynamic_prompt,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_gemini_tools import (
    ToolLoop,
    ToolLoopResult,
    arun_in_batches,
    errors,
    run_in_batches,
)
from langchain_gemini_tools.batch import driver, graph_runner
from langchain_gemini_tools.batch.agents import PausedAgent, RunOptions
from langchain_gemini_tools.batch.waves import WaveJob
from langchain_gemini_tools.testing import Reply
from langchain_gemini_tools.testing.fake import API_KEY
from langchain_gemini_tools.tool_loop import IncompleteRunError
from tests.integration_tests.play import get_weather

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

CITIES = ["Oslo", "Rome", "Lima"]
ASKED: list[Any] = [{"messages": f"Weather in {city}?"} for city in CITIES]


@pytest.fixture(autouse=True)
def _without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "off")


@pytest.fixture
def make_model(make_model: MakeModel) -> Any:
    """Models that retry, as models do by default."""
    return lambda **settings: make_model(**{"max_retries": 6} | settings)


def sent(emulator: Emulator) -> list[int]:
    """The number of requests in each job."""
    return [len(job.items) for job in emulator.batches.jobs.values()]


def check_nothing_else(emulator: Emulator) -> None:
    """Every request went through a batch, was accepted, and was answered once."""
    assert not [r for r in emulator.requests if "generateContent" in r.path]
    assert {refusal.code for refusal in emulator.refusals} <= {403, 429}
    assert set(emulator.batches.answered.values()) <= {1}


# What is sent and returned


def test_an_agent_gives_what_invoke_gives_at_one_job_per_turn(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = create_agent(make_model(), [get_weather], system_prompt="Be brief.")
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)
    for city, state in zip(CITIES, results, strict=True):
        question, call, result, answer = state["messages"]
        assert question.text == f"Weather in {city}?"
        assert call.tool_calls[0]["args"] == {"city": city}
        assert call.response_metadata["finish_reason"] == "STOP"
        assert result.text == f"Sunny in {city}"
        assert f"Sunny in {city}" in answer.text
        assert answer.usage_metadata["total_tokens"] > 0
    single = agent.invoke(ASKED[0])["messages"]
    assert [type(each) for each in single] == [type(each) for each in results[0]["messages"]]
    # The bodies are those of `invoke`, apart from the form of schemas that is safe in batches.
    first = next(iter(emulator.batches.jobs.values())).items[0][1]
    live = next(r.body for r in emulator.requests if "generateContent" in r.path)
    assert first["contents"] == live["contents"]
    assert first["systemInstruction"] == live["systemInstruction"]
    assert "parameters" in first["tools"][0]["functionDeclarations"][0]
    assert str(results).startswith("3 done · 2 waves, 6 requests · ")
    assert str(results).endswith("at batch price")
    shown = capsys.readouterr().err.splitlines()
    assert [line.split(" · ")[0] for line in shown] == [
        "wave 1: 3 requests sent",
        "wave 1: 3 of 3",
        "wave 2: 3 requests sent",
        "wave 2: 3 of 3",
    ]


def test_the_price_is_half_of_the_standard_price(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    from langchain_gemini_tools.display.traced import find_cost

    results = run_in_batches(create_agent(make_model(), []), ASKED, path=tmp_path, progress=False)
    usages = [state["messages"][-1].usage_metadata for state in results]
    costs = [
        find_cost(usage, "gemini-3.8-flash", "google_genai", uses_server_tools=False).dollars
        for usage in usages
    ]
    assert results.dollars == sum(filter(None, costs)) / 2
    assert results.input_tokens == sum(usage["input_tokens"] for usage in usages)


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    is_sunny: bool


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_structured_output_is_parsed(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, strategy: Any
) -> None:
    for city in CITIES:
        emulator.reply(structured={"city": city, "is_sunny": True})
    agent = create_agent(make_model(), response_format=strategy(Weather))
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert [state["structured_response"] for state in results] == [
        Weather(city=city, is_sunny=True) for city in CITIES
    ]
    check_nothing_else(emulator)


def test_a_streaming_model_waits_too(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(streaming=True), [get_weather])
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert [type(each).__name__ for each in results[0]["messages"]] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "AIMessage",
    ]
    assert "Sunny in Oslo" in results[0]["messages"][-1].text
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


def test_an_agent_with_several_models_sends_one_job_for_each(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    expert = create_agent(make_model(model="gemini-2.5-flash"), name="expert")
    fast = make_model()

    def choose(state: MessagesState) -> str:
        return "expert" if "Rome" in state["messages"][0].text else "fast"

    graph = StateGraph(MessagesState)
    graph.add_node("expert", expert)
    graph.add_node("fast", lambda state: {"messages": [fast.invoke(state["messages"])]})
    graph.add_conditional_edges(START, choose)
    results = run_in_batches(graph.compile(), ASKED, path=tmp_path)
    jobs = {job.model: len(job.items) for job in emulator.batches.jobs.values()}
    assert jobs == {"gemini-3.8-flash": 2, "gemini-2.5-flash": 1}
    assert results.waves[0].requests == 3
    assert all(isinstance(state["messages"][-1], AIMessage) for state in results)
    check_nothing_else(emulator)


def test_two_models_of_one_name_and_different_keys_are_rejected(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    one, other = make_model(), make_model(api_key="another-key")
    graph = StateGraph(MessagesState)
    graph.add_node("one", lambda state: {"messages": [one.invoke(state["messages"])]})
    graph.add_node("other", lambda state: {"messages": [other.invoke(state["messages"])]})
    graph.add_edge(START, "one")
    graph.add_edge("one", "other")
    (result,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert isinstance(result, errors.InvalidOptionError)
    assert "different keys" in str(result)


# Agents of several parts


def test_sub_agents_wait_in_parallel(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    expert: Any = create_agent(make_model(), [get_weather])

    @tool
    def ask_expert(city: str) -> str:
        """Ask the expert about the weather in a city."""
        state = expert.invoke({"messages": f"Weather in {city}?"})
        return str(state["messages"][-1].text)

    calls = [("ask_expert", {"city": "Oslo"}), ("ask_expert", {"city": "Rome"})]
    emulator.reply(calls=calls)
    agent = create_agent(make_model(), [ask_expert])
    (state,) = run_in_batches(agent, [{"messages": "Ask the expert."}], path=tmp_path)
    # The agent, both experts twice, and the agent again.
    assert sent(emulator) == [1, 2, 2, 1]
    results = [each.text for each in state["messages"] if isinstance(each, ToolMessage)]
    assert "Sunny in Oslo" in results[0]
    assert "Sunny in Rome" in results[1]
    check_nothing_else(emulator)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_sub_agent_with_its_own_thread_is_called_at_once_with_a_warning(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, is_async: bool
) -> None:
    expert: Any = create_agent(make_model())

    def node(state: MessagesState) -> Any:
        return expert.invoke(state, {"configurable": {"thread_id": "1"}})

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    with pytest.warns(UserWarning, match=r"standard price.*thread_id"):  # noqa: PT031
        if is_async:
            await arun_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
        else:
            run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert sent(emulator) == []
    assert len([r for r in emulator.requests if "generateContent" in r.path]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expert.invoke(ASKED[0])  # not in a run


class _Map(TypedDict):
    cities: list[str]
    answers: Annotated[list[str], operator.add]


def test_parallel_nodes_wait_together(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()

    def ask(state: Any) -> Any:
        return {"answers": [model.invoke(f"Say {state['city']}.").text]}

    graph = StateGraph(_Map)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(
        START, lambda state: [Send("ask", {"city": city}) for city in state["cities"]], ["ask"]
    )
    given = [{"cities": CITIES, "answers": []}, {"cities": ["Bern"], "answers": []}]
    results = run_in_batches(graph.compile(), given, path=tmp_path)
    assert sent(emulator) == [4]
    for city, answer in zip(CITIES, results[0]["answers"], strict=True):
        assert city in answer
    assert "Bern" in results[1]["answers"][0]


def test_calls_of_one_node_in_another_order_are_an_error_and_not_mixed_up(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    first, later = ["Weather", "Food"], ["Food", "Weather"]
    orders = itertools.chain([first], itertools.repeat(later))

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke(f"{about} in Oslo?") for about in next(orders)]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    (result,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert isinstance(result, errors.InvalidOptionError)
    assert "Send" in str(result)


def test_a_node_may_make_its_calls_in_threads(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """As a `ToolNode` or a `RunnableParallel` does."""
    model = make_model()
    rome_has_asked = threading.Event()
    begun: list[str] = []

    def describe(city: str) -> str:
        begun.append(city)
        if begun.count(city) == 2 and city == "Oslo":  # the node is run again: Oslo asks last
            rome_has_asked.wait(10)
        try:
            return str(model.invoke(f"Describe {city}.").text)
        finally:
            if len(begun) > 2:
                rome_has_asked.set()

    def node(state: MessagesState) -> Any:
        return {"messages": RunnableLambda(describe).batch(CITIES[:2])}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    (state,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    *_, oslo, rome = state["messages"]
    assert "Describe Oslo" in oslo.text
    assert "Describe Rome" in rome.text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


class Place(BaseModel):
    """A place."""

    city: str


class Food(BaseModel):
    """What people eat."""

    dish: str


def test_calls_in_threads_that_ask_the_same_get_their_own_answers(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """They differ only by their schemas: each answer belongs to one of them."""
    model = make_model()
    schemas: list[Any] = [Place, Food]
    begun: list[str] = []

    def extract(schema: Any) -> str:
        begun.append(schema.__name__)  # the first one asks last when the node is run again
        time.sleep(0.2 if (schema is Place) == (begun.count(schema.__name__) == 2) else 0.0)
        found = model.with_structured_output(schema, method="json_schema").invoke("Cod in Oslo.")
        return type(found).__name__

    def node(state: MessagesState) -> Any:
        return {"messages": RunnableLambda(extract).batch(schemas)}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    (state,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert [message.text for message in state["messages"][1:]] == ["Place", "Food"]
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


def test_tools_of_a_loop_that_ask_the_same_get_their_own_answers(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    begun: list[str] = []

    @tool
    def extract(kind: str) -> str:
        """Extract one kind of thing."""
        begun.append(kind)
        time.sleep(0.2 if begun == ["Place"] else 0.0)  # the first one asks last
        schema: Any = Place if kind == "Place" else Food
        found = model.with_structured_output(schema, method="json_schema").invoke("Cod in Oslo.")
        return type(found).__name__

    emulator.reply(calls=[("extract", {"kind": "Place"}), ("extract", {"kind": "Food"})])
    (result,) = run_in_batches(ToolLoop(model, [extract]), ["Extract."], path=tmp_path)
    assert [record.message.text for record in result.calls] == ["Place", "Food"]
    assert sent(emulator) == [1, 1, 1, 1]
    check_nothing_else(emulator)


@pytest.mark.parametrize("tool_is_async", [True, False])
async def test_an_async_node_may_make_its_calls_at_the_same_time(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, tool_is_async: bool
) -> None:
    """A `ToolNode` does not wait for its other tools when one of them is interrupted."""
    model = make_model()
    begun: list[str] = []

    def seconds_before(city: str) -> float:
        begun.append(city)  # Oslo asks first; when the node is run again, it asks last
        return 0.2 if (city == "Oslo") == (begun.count(city) == 2) else 0.0

    def describe(city: str) -> str:
        """Describe a city."""
        time.sleep(seconds_before(city))
        return str(model.invoke(f"Describe {city}.").text)

    async def adescribe(city: str) -> str:
        """Describe a city."""
        await asyncio.sleep(seconds_before(city))
        return str((await model.ainvoke(f"Describe {city}.")).text)

    calls: Any = [{"name": "describe", "args": {"city": city}, "id": city} for city in CITIES[:2]]
    described = StructuredTool.from_function(
        describe, coroutine=adescribe if tool_is_async else None
    )
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([described]))
    graph.add_edge(START, "tools")
    asked = [{"messages": [AIMessage("", tool_calls=calls)]}]
    results = await arun_in_batches(graph.compile(), asked, path=tmp_path)
    *_, oslo, rome = (await results.aget(0))["messages"]
    assert "Describe Oslo" in oslo.text
    assert "Describe Rome" in rome.text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


async def test_calls_at_the_same_time_may_have_the_time_in_their_system_prompts(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_runner, "_PATIENCE_SECONDS", 1.0)
    model = make_model()
    ticks = itertools.count()
    begun: list[str] = []

    async def describe(city: str) -> str:
        """Describe a city."""
        begun.append(city)  # Oslo asks first; when the node is run again, it asks last
        await asyncio.sleep(0.2 if (city == "Oslo") == (begun.count(city) > 1) else 0.0)
        clock = SystemMessage(f"It is {next(ticks)} o'clock.")
        return str((await model.ainvoke([clock, HumanMessage(f"Describe {city}.")])).text)

    calls: Any = [{"name": "describe", "args": {"city": city}, "id": city} for city in CITIES[:2]]
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([StructuredTool.from_function(coroutine=describe)]))
    graph.add_edge(START, "tools")
    asked = [{"messages": [AIMessage("", tool_calls=calls)]}]
    results = await arun_in_batches(graph.compile(), asked, path=tmp_path)
    *_, oslo, rome = (await results.aget(0))["messages"]
    assert "Describe Oslo" in oslo.text
    assert "Describe Rome" in rome.text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


def test_a_call_that_the_node_does_not_make_again_is_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    ticks = itertools.count()

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke(f"It is {next(ticks)} o'clock.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    for _ in range(2):  # nothing more is sent, and paid for
        (result,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
        assert isinstance(result, errors.InvalidOptionError)
        assert "keep times and random values out of the messages" in str(result)
        assert sent(emulator) == [1]


def test_calls_one_after_the_other_in_one_node_work(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()

    def node(state: MessagesState) -> Any:
        first = model.invoke("Say one.")
        return {"messages": [first, model.invoke(f"{first.text} Say two.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    (state,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert len(state["messages"]) == 3
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


def _answered_by_hand(model: Any, question: str) -> str:
    messages: list[Any] = [HumanMessage(question)]
    while (reply := model.bind_tools([get_weather]).invoke(messages)).tool_calls:
        calls = reply.tool_calls
        results = [
            ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in calls
        ]
        messages += [reply, *results]
    return str(reply.text)


def _answered_by_a_loop(model: Any, question: str) -> str:
    return str(ToolLoop(model, [get_weather]).invoke(question).messages[-1].text)


@pytest.mark.parametrize("answer", [_answered_by_hand, _answered_by_a_loop])
def test_a_node_may_contain_a_loop_although_calls_have_no_ids(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, answer: Any
) -> None:
    """Gemini 2.5 and Vertex AI give calls no ids, and the node is run again for each answer."""
    model = make_model(model="gemini-2.5-flash")

    def node(state: MessagesState) -> Any:
        return {"messages": answer(model, state["messages"][-1].text)}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    asked = [{"messages": "Weather in Oslo and Rome?"}]
    (state,) = run_in_batches(graph.compile(), asked, path=tmp_path)
    assert "Sunny in Rome" in state["messages"][-1].text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


# Middleware


def test_middleware_runs_as_usual_and_times_may_be_in_the_system_prompt(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    seen: list[int] = []
    ticks = iter(range(100))

    class Counting(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            seen.append(len(state["messages"]))

    @dynamic_prompt
    def clock(request: Any) -> str:
        return f"It is {next(ticks)} o'clock."

    agent = create_agent(make_model(), [get_weather], middleware=[Counting(), clock])
    (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert seen == [2, 4]
    assert "Sunny in Oslo" in state["messages"][-1].text
    assert sent(emulator) == [1, 1]


@pytest.mark.parametrize("way", ["middleware", "with_fallbacks", "with_retry"])
def test_a_call_that_waits_is_not_taken_for_a_failure(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, way: str
) -> None:
    first, second = make_model(), make_model(model="gemini-2.5-flash")
    if way == "middleware":
        middleware = [ModelFallbackMiddleware(second), ModelRetryMiddleware(initial_delay=0)]
        agent: Any = create_agent(first, middleware=middleware)
    else:
        model: Any = (
            first.with_fallbacks([second])
            if way == "with_fallbacks"
            else first.with_retry(wait_exponential_jitter=False)
        )
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_edge(START, "model")
        agent = graph.compile()
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert [state["messages"][-1].response_metadata["model_name"] for state in results] == [
        "gemini-3.8-flash"
    ] * 3
    assert [job.model for job in emulator.batches.jobs.values()] == ["gemini-3.8-flash"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", ["node", "tool", "sub-agent", "fallback", "other error"])
async def test_code_that_catches_a_waiting_call_gets_its_answer(  # noqa: PLR0917
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    place: str,
    is_async: bool,
) -> None:
    model = make_model(streaming=place == "sub-agent")
    expert: Any = create_agent(model, name="expert")
    fallback = model.with_fallbacks([FakeListChatModel(responses=["Sorry."])])

    def ask(question: str) -> str:
        """Ask an expert."""
        try:
            if place == "sub-agent":
                return str(expert.invoke({"messages": question})["messages"][-1].text)
            return str((fallback if place == "fallback" else model).invoke(question).text)
        except Exception as error:
            if place == "other error":
                raise RuntimeError from error
            return "Sorry."

    graph = StateGraph(MessagesState)
    graph.add_node("node", lambda _: {"messages": [AIMessage(ask("Say one."))]})
    graph.add_edge(START, "node")
    agent: Any = graph.compile()
    if place == "tool":
        emulator.reply(calls=[("ask", {"question": "Say one."})])
        agent = create_agent(model, [ask])
    if is_async:
        results = await arun_in_batches(agent, ASKED[:1], path=tmp_path)
    else:
        results = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert not results.errors
    assert "Say one" in results[0]["messages"][-1].text
    assert "Sorry" not in str(results[0])
    assert sent(emulator) == ([1, 1, 1] if place == "tool" else [1])
    check_nothing_else(emulator)
    assert "except GraphBubbleUp: raise" in caplog.text
    assert "Say one" not in caplog.text


def test_a_fallback_answers_for_a_model_that_fails(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    def fail(_: int, body: Any) -> Any:
        is_first = list(emulator.batches.jobs.values())[-1].model == "gemini-3.8-flash"
        return {"code": 3, "message": "Bad."} if is_first else None

    emulator.batches.fail_items(fail)
    fallback = ModelFallbackMiddleware(make_model(model="gemini-2.5-flash"))
    agent = create_agent(make_model(), middleware=[fallback])
    (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert state["messages"][-1].response_metadata["model_name"] == "gemini-2.5-flash"
    assert [job.model for job in emulator.batches.jobs.values()] == [
        "gemini-3.8-flash",
        "gemini-2.5-flash",
    ]


def test_a_fallback_answers_after_a_restart(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    def fail(_: int, body: Any) -> Any:
        is_first = list(emulator.batches.jobs.values())[-1].model == "gemini-3.8-flash"
        return {"code": 3, "message": "Bad."} if is_first else None

    emulator.batches.fail_items(fail)
    fallback = ModelFallbackMiddleware(make_model(model="gemini-2.5-flash"))
    agent = create_agent(make_model(), middleware=[fallback])
    run_in_batches(agent, ASKED[:1], path=tmp_path, max_waves=1)
    (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert isinstance(state, dict), state
    assert state["messages"][-1].response_metadata["model_name"] == "gemini-2.5-flash"
    assert [job.model for job in emulator.batches.jobs.values()] == [
        "gemini-3.8-flash",
        "gemini-2.5-flash",
    ]


# People


def test_an_agent_that_asks_a_person_waits_and_the_others_go_on(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    runs: list[str] = []

    @tool
    def send_mail(city: str) -> str:
        """Send a mail to a city."""
        runs.append(city)
        return f"Sent to {city}."

    asking = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    agent = create_agent(make_model(), [send_mail, get_weather], middleware=[asking])
    given: list[Any] = [{"messages": 'Send a mail to "Oslo".'}, *ASKED[1:]]
    results = run_in_batches(agent, given, path=tmp_path)
    paused = results[0]
    assert isinstance(paused, PausedAgent)
    assert paused.interrupts[0].value["action_requests"][0]["name"] == "send_mail"
    assert results.agent.get_state(paused.config).values["messages"]
    assert "Sunny in Rome" in results[1]["messages"][-1].text
    assert str(results).startswith("2 done · 1 waiting for a person · 2 waves")
    assert runs == []
    again = run_in_batches(agent, given, path=tmp_path)  # it still waits, and nothing is sent
    assert [each.index for each in again.paused] == [0]
    assert sent(emulator) == [3, 2]
    answer = {paused.interrupts[0].id: {"decisions": [{"type": "approve"}]}}
    done = run_in_batches(agent, given, path=tmp_path, resume=answer)
    assert runs == ["Oslo"]
    assert "Sent to Oslo" in done[0]["messages"][-1].text
    assert sent(emulator) == [3, 2, 1]
    run_in_batches(agent, given, path=tmp_path, resume=answer)  # the same call again
    assert runs == ["Oslo"]
    check_nothing_else(emulator)


def test_the_answer_of_a_person_is_not_taken_for_one_of_the_model(
    make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    runs = itertools.count()

    def node(state: MessagesState) -> Any:
        is_first = next(runs) == 0  # then in another order
        said = interrupt("Go on?") if is_first else model.invoke("Hello!").text
        return {"messages": said}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    agent = graph.compile()
    (paused,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    answers = {question.id: "Yes." for question in paused.interrupts}
    (result,) = run_in_batches(agent, ASKED[:1], path=tmp_path, resume=answers)
    assert isinstance(result, errors.InvalidOptionError)
    assert "belongs to another call" in str(result)


def test_a_person_may_be_asked_after_a_call_with_the_time_in_its_system_prompt(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    ticks = itertools.count()

    def node(state: MessagesState) -> Any:
        clock = SystemMessage(f"It is {next(ticks)} o'clock.")
        said = model.invoke([clock, HumanMessage("Describe Oslo.")])
        return {"messages": [said, interrupt("Go on?")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    agent = graph.compile()
    (paused,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    answers = {question.id: "Yes." for question in paused.interrupts}
    (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path, resume=answers)
    *_, said, answer = state["messages"]
    assert "Describe Oslo" in said.text
    assert answer.text == "Yes."
    assert sent(emulator) == [1]
    check_nothing_else(emulator)


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_answer_that_led_to_an_error_can_be_replaced(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, is_async: bool
) -> None:
    asks = HumanInTheLoopMiddleware(interrupt_on={"get_weather": True})
    agent = create_agent(make_model(), [get_weather], middleware=[asks])
    asked: list[Any] = [{"messages": "Weather in Oslo and Rome?"}]

    async def run(**options: Any) -> Any:
        if is_async:
            results = await arun_in_batches(agent, asked, path=tmp_path, **options)
            return await results.aget(0)
        (result,) = run_in_batches(agent, asked, path=tmp_path, **options)
        return result

    approve = {"type": "approve"}
    (question,) = (await run()).interrupts
    failed = await run(resume={question.id: {"decisions": [approve]}})
    assert "does not match number of hanging tool calls (2)" in str(failed)
    state = await run(resume={question.id: {"decisions": [approve, approve]}})
    assert "Sunny in Rome" in state["messages"][-1].text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


def test_a_person_may_also_answer_through_langgraph(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    from langgraph.types import Command, interrupt

    @tool
    def ask_person(city: str) -> str:
        """Ask a person about a city."""
        return str(interrupt(f"{city}?"))

    saver = InMemorySaver()
    agent = create_agent(make_model(), [ask_person])
    given = [{"messages": 'Ask a person about "Oslo".'}]
    options: Any = {"path": tmp_path, "checkpointer": saver}
    (paused,) = run_in_batches(agent, given, **options).paused
    resumed = agent.copy({"checkpointer": saver}).invoke(Command(resume="Rain"), paused.config)
    assert resumed["__interrupt__"]  # the next call of the model waits
    (state,) = run_in_batches(agent, given, **options)
    assert "Rain" in state["messages"][-1].text
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


def test_an_answer_that_no_agent_waits_for_is_reported(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_in_batches(create_agent(make_model()), ASKED, path=tmp_path, resume={"abc": True})
    assert "resume names abc" in caplog.text


# Failures


def test_an_agent_that_fails_has_its_error_in_place_and_is_tried_again_by_the_next_call(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    broken = True

    def get_weather(city: str) -> str:
        """Current weather in a city."""
        if broken and city == "Rome":
            raise LookupError(city)
        return f"Found {city}"

    agent = create_agent(make_model(), [get_weather])
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert isinstance(results[1], LookupError)
    assert results.errors.keys() == {1}
    assert str(results).startswith("2 done · 1 failed")
    assert sent(emulator) == [3, 2]
    broken = False
    again = run_in_batches(agent, ASKED, path=tmp_path)
    assert "Found Rome" in again[1]["messages"][-1].text
    assert again[0] == results[0]
    assert sent(emulator) == [3, 2, 1]
    check_nothing_else(emulator)


async def test_an_error_that_counts_as_false_is_shown(tmp_path: Path) -> None:
    class EmptyError(Exception):
        def __len__(self) -> int:
            return 0

    def fail(state: MessagesState) -> Any:
        raise EmptyError

    graph: Any = StateGraph(MessagesState).add_node("fail", fail).add_edge(START, "fail")
    results = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert isinstance(results[0], EmptyError)
    assert isinstance(await results.aget(0), EmptyError)


def test_an_error_beside_a_waiting_call_is_shown(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()

    def broken(state: MessagesState) -> Any:
        model.invoke("Say one.")
        raise LookupError

    def waiting(state: MessagesState) -> Any:
        return {"messages": [model.invoke("Say two."), model.invoke("Say three.")]}

    graph = StateGraph(MessagesState)
    for node in (broken, waiting):
        graph.add_node(node)
        graph.add_edge(START, node.__name__)
    (result,) = run_in_batches(graph.compile(), ASKED[:1], path=tmp_path)
    assert isinstance(result, LookupError)
    assert sent(emulator) == [2]


def test_the_limit_of_waves_is_an_error_in_place_and_can_be_raised(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(), [get_weather])
    results = run_in_batches(agent, ASKED, path=tmp_path, max_waves=1)
    assert {type(result) for result in results} == {errors.BatchJobError}
    assert "max_waves" in str(results[0])
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert not results.errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


def test_other_inputs_at_the_same_path_are_rejected(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(), [get_weather])
    run_in_batches(agent, ASKED, path=tmp_path)
    others = [*ASKED[:2], {"messages": "Weather in Bern?"}]
    for given, words in [
        (others, "Input 2 differs"),
        (ASKED[:2], "fewer inputs"),
        ([*ASKED, ASKED[0]], "more inputs"),
    ]:
        with pytest.raises(errors.InvalidOptionError, match=words):
            run_in_batches(agent, given, path=tmp_path)
    assert sent(emulator) == [3, 3]
    with pytest.raises(errors.InvalidOptionError, match="no inputs"):
        run_in_batches(agent, [], path=tmp_path / "empty")


def test_an_input_that_cannot_be_stored_is_named(make_model: MakeModel, tmp_path: Path) -> None:
    given = HumanMessage("Hi", additional_kwargs={"lock": lambda: None})
    agent, loop = create_agent(make_model(), [get_weather]), ToolLoop(make_model())
    for runs, inputs in [(agent, [*ASKED[:1], {"messages": [given]}]), (loop, ["Hi", None])]:
        with pytest.raises(errors.InvalidOptionError, match="Input 1 cannot be stored: "):
            run_in_batches(runs, inputs, path=tmp_path / type(runs).__name__)


def test_messages_as_inputs_may_be_passed_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """LangGraph gives messages ids, in place."""
    given = [{"messages": [HumanMessage("Weather in Oslo?")]}]
    agent = create_agent(make_model(), [get_weather])
    run_in_batches(agent, given, path=tmp_path)
    (state,) = run_in_batches(agent, given, path=tmp_path)
    assert "Sunny in Oslo" in state["messages"][-1].text
    assert sent(emulator) == [1, 1]


def test_texts_with_lone_surrogates_are_answered_once(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return f"Sunny in {city}, says a file with \udce4."

    agent = create_agent(make_model(), [get_weather])
    asked = [{"messages": "Weather in Oslo? \ud83d"}]
    results = run_in_batches(agent, asked, path=tmp_path, progress=False)
    assert "Sunny in Oslo" in results[0]["messages"][-1].text
    assert sent(emulator) == [1, 1]


def test_a_checkpointer_without_the_agents_is_rejected_before_anything_is_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(), [get_weather])
    saver = InMemorySaver()
    run_in_batches(agent, ASKED, path=tmp_path, checkpointer=saver, max_waves=1)
    with pytest.raises(errors.InvalidOptionError, match="same checkpointer"):
        run_in_batches(agent, ASKED, path=tmp_path, checkpointer=InMemorySaver())
    assert not run_in_batches(agent, ASKED, path=tmp_path, checkpointer=saver).errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": "Weather?"}, "inputs"),
        ({"inputs": {"messages": "Weather?"}}, "inputs"),
        ({"inputs": None}, "inputs"),
        ({"path": None}, "path"),
        ({"path": __file__}, "folder"),
        ({"max_waves": 0}, "max_waves"),
        ({"max_waves": "3"}, "max_waves"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"poll_seconds": -1}, "poll_seconds"),
        ({"poll_seconds": "x"}, "poll_seconds"),
        ({"timeout_seconds": -1}, "timeout_seconds"),
        ({"timeout_seconds": "1"}, "timeout_seconds"),
        ({"resume": "yes"}, "resume"),
        ({"config": ["x"]}, "config"),
        ({"config": {"configurable": {"thread_id": "1"}}}, "thread_id"),
        ({"config": {"run_id": 1}}, "run_id"),
        ({"inputs": "Hello"}, "iterable, not str"),
        ({"inputs": b"Hello"}, "iterable, not bytes"),
        ({"inputs": {"one", "two"}}, "iterable, not set"),
        ({"inputs": HumanMessage("Hello")}, "iterable, not HumanMessage"),
        ({"inputs": 3}, "iterable, not int"),
        ({"checkpointer": True}, "checkpointer"),
        ({"checkpointer": "a.db"}, "checkpointer"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_stored(
    make_model: MakeModel, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    given: Any = {"inputs": ASKED, "path": tmp_path / "run"} | options
    with pytest.raises(errors.InvalidOptionError, match=words):
        run_in_batches(create_agent(make_model()), **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options", [{"checkpointer": InMemorySaver()}, {"context": 1}, {"resume": {"a": 1}}]
)
def test_what_a_loop_does_not_use_is_rejected(
    make_model: MakeModel, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=f"ToolLoop.*{next(iter(options))}"):
        run_in_batches(ToolLoop(make_model()), ["Hello"], path=tmp_path, **options)


def test_what_cannot_run_in_batches_is_rejected(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    with pytest.raises(errors.InvalidOptionError, match="compiled LangGraph agent"):
        run_in_batches(model, ASKED, path=tmp_path)
    stopping = create_agent(model, [get_weather], interrupt_before=["tools"])
    with pytest.raises(errors.InvalidOptionError, match="fixed nodes"):
        run_in_batches(stopping, ASKED, path=tmp_path)
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    with pytest.raises(errors.InvalidOptionError, match="langgraph-checkpoint-sqlite"):
        run_in_batches(create_agent(model), ASKED, path=tmp_path)


def test_an_api_without_batches_is_an_error_in_place(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(api="interactions"))
    (result,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert isinstance(result, errors.InvalidOptionError)
    assert emulator.requests == []


def test_a_checkpointer_of_the_other_kind_is_rejected_before_anything_is_sent(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model())
    with SqliteSaver.from_conn_string(":memory:") as saver, pytest.raises(NotImplementedError):
        asyncio.run(arun_in_batches(agent, ASKED, path=tmp_path, checkpointer=saver))
    assert emulator.requests == []


# Long and malformed responses


def test_a_long_response_is_continued_in_the_next_wave(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    text = "One two three four five six seven eight nine."
    emulator.reply_long(text, hop_size=1)
    agent = create_agent(make_model(model="gemini-4-flash"))
    (state,) = run_in_batches(agent, [{"messages": "Count."}], path=tmp_path)
    assert state["messages"][-1].text == text
    assert len(sent(emulator)) > 1
    assert len(state["messages"]) == 2


def test_a_malformed_response_is_sent_again_with_feedback(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.reply(parts=[], finish_reason="MALFORMED_FUNCTION_CALL", finish_message="Bad call.")
    agent = create_agent(make_model(), [get_weather])
    (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    assert "Sunny in Oslo" in state["messages"][-1].text
    assert sent(emulator) == [1, 1, 1]
    second = list(emulator.batches.jobs.values())[1].items[0][1]
    assert "could not be used" in str(second["contents"][-1])


# Callbacks


class _Seen(BaseCallbackHandler):
    def __init__(self) -> None:
        self.ends: list[Any] = []
        self.errors: list[BaseException] = []

    def on_llm_end(self, response: Any, **_: Any) -> None:
        self.ends.append(response.generations[0][0].message)

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self.errors.append(error)


@pytest.mark.parametrize("is_async", [False, True])
async def test_callbacks_see_an_interrupted_call_and_then_its_answer(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, is_async: bool
) -> None:
    seen = _Seen()
    agent = create_agent(make_model())
    options: Any = {"path": tmp_path, "config": {"callbacks": [seen]}}
    with get_usage_metadata_callback() as usage:
        if is_async:
            await arun_in_batches(agent, ASKED[:1], **options)
        else:
            run_in_batches(agent, ASKED[:1], **options)
    interrupted, answered = seen.ends
    assert interrupted.response_metadata == {"interrupted": "The call waits for a batch job."}
    assert answered.text
    assert seen.errors == []
    (counted,) = usage.usage_metadata.values()
    assert counted["total_tokens"] == answered.usage_metadata["total_tokens"]


def test_a_streaming_model_shows_callbacks_the_interrupt_as_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """LangChain hands no run to `_stream`, so it cannot be ended there."""
    seen = _Seen()
    agent = create_agent(make_model(streaming=True))
    run_in_batches(agent, ASKED[:1], path=tmp_path, config={"callbacks": [seen]})
    assert [type(error) for error in seen.errors] == [GraphInterrupt]
    assert [bool(message.text) for message in seen.ends] == [True]


def test_no_key_is_stored(emulator: Emulator, make_model: MakeModel, tmp_path: Path) -> None:
    headers = {"x-goog-user-secret": "a-private-header"}
    agent = create_agent(make_model(additional_headers=headers), [get_weather])
    assert not run_in_batches(agent, ASKED, path=tmp_path).errors
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"Weather in Oslo?" in stored
    assert API_KEY.encode() not in stored
    assert b"a-private-header" not in stored


# Async


@pytest.mark.parametrize("saver", ["default", "memory", "async sqlite"])
async def test_agents_run_on_an_event_loop(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, saver: str
) -> None:
    @tool
    async def weather(city: str) -> str:
        """Current weather in a city."""
        return f"Sunny in {city}"

    agent = create_agent(make_model(), [weather])
    if saver == "async sqlite":
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "own.db")) as own:
            results = await arun_in_batches(agent, ASKED, path=tmp_path / "run", checkpointer=own)
            states = [state async for state in results]
    else:
        given = InMemorySaver() if saver == "memory" else None
        results = await arun_in_batches(agent, ASKED, path=tmp_path / "run", checkpointer=given)
        states = [state async for state in results]
        assert await results.aget(-1) == states[-1]
    for city, state in zip(CITIES, states, strict=True):
        assert f"Sunny in {city}" in state["messages"][-1].text
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


async def test_a_cancelled_async_run_stops_its_agents_and_frees_the_folder(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    started, ended = asyncio.Event(), list[str]()
    is_slow = True

    @tool
    async def weather(city: str) -> str:
        """Current weather in a city."""
        started.set()
        try:
            if is_slow:
                await asyncio.Event().wait()
        finally:
            ended.append(city)
        return f"Sunny in {city}"

    agent = create_agent(make_model(), [weather])
    run = asyncio.ensure_future(arun_in_batches(agent, ASKED, path=tmp_path))
    await asyncio.wait_for(started.wait(), 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended
    is_slow = False
    results = await arun_in_batches(agent, ASKED, path=tmp_path)
    assert not results.errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


async def test_an_async_run_that_waits_for_a_job_can_be_cancelled(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.polls_until_done = 100_000
    agent = create_agent(make_model(), [get_weather])
    run = asyncio.ensure_future(arun_in_batches(agent, ASKED, path=tmp_path))
    while not any(request.method == "GET" for request in emulator.requests):  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    for job in emulator.batches.jobs.values():
        while len(job.states) > 1:
            job.states.popleft()
    emulator.batches.polls_until_done = 1
    results = await arun_in_batches(agent, ASKED, path=tmp_path)
    assert not results.errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


async def test_an_async_run_leaves_the_threads_of_the_event_loop_to_the_agents(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    # LangGraph runs a tool that is not async in a thread of the event loop.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    agent = create_agent(make_model(), [get_weather])
    runs = [arun_in_batches(agent, ASKED, path=tmp_path / str(number)) for number in range(3)]
    for results in await asyncio.wait_for(asyncio.gather(*runs), 30):
        assert not results.errors
    assert sent(emulator) == [3] * 6


async def test_a_cancelled_async_run_that_is_still_sending_ends_before_its_event_loop(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_sending, may_go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(driver, "_CANCEL_SECONDS", 0.01)
    submit = WaveJob.submit

    def submit_slowly(job: WaveJob) -> None:
        is_sending.set()
        may_go_on.wait(30)
        submit(job)

    monkeypatch.setattr(WaveJob, "submit", submit_slowly)
    agent = create_agent(make_model(), [get_weather])

    async def main() -> None:
        run = asyncio.ensure_future(arun_in_batches(agent, ASKED, path=tmp_path))
        await asyncio.to_thread(is_sending.wait, 30)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        asyncio.get_running_loop().call_later(0.1, may_go_on.set)

    before = set(threading.enumerate())
    await asyncio.to_thread(asyncio.run, main())
    assert not [each for each in set(threading.enumerate()) - before if "aiosqlite" in str(each)]
    results = run_in_batches(agent, ASKED, path=tmp_path)
    assert not results.errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


async def test_an_async_run_goes_on_after_a_sync_one(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(), [get_weather])
    run_in_batches(agent, ASKED, path=tmp_path, max_waves=1)
    results = await arun_in_batches(agent, ASKED, path=tmp_path)
    assert not results.errors
    assert len(results) == 3
    assert sent(emulator) == [3, 3]


# ToolLoop


def test_a_loop_gives_what_invoke_gives(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    loop = ToolLoop(make_model(), [get_weather])
    asked = [f"Weather in {city}?" for city in CITIES]
    results = run_in_batches(loop, asked, path=tmp_path)
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)
    for city, result in zip(CITIES, results, strict=True):
        assert isinstance(result, ToolLoopResult)
        assert f"Sunny in {city}" in result.answer()
        assert result.turns == 2
        assert [len(result.messages), len(result.new_messages)] == [4, 3]
        assert [(call.turn, call.status) for call in result.calls] == [(1, "succeeded")]
        usages = [m.usage_metadata for m in result.messages if isinstance(m, AIMessage)]
        assert result.usage is not None
        assert result.usage["total_tokens"] == sum(u["total_tokens"] for u in usages if u)
    again = run_in_batches(loop, asked, path=tmp_path)
    assert list(again) == list(results)
    assert sent(emulator) == [3, 3]
    live = loop.invoke(asked[0])
    assert [type(m) for m in live.messages] == [type(m) for m in results[0].messages]


async def test_a_loop_runs_async_tools(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    @tool
    async def weather(city: str) -> str:
        """Current weather in a city."""
        return f"Sunny in {city}"

    loop = ToolLoop(make_model(), [weather])
    results = await arun_in_batches(loop, ["Weather in Oslo?"], path=tmp_path)
    assert [("Sunny in Oslo" in result.text) async for result in results] == [True]


@pytest.mark.parametrize("on_limit", ["raise", "return"])
def test_the_turns_of_a_loop_are_counted_across_waves(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, on_limit: Any
) -> None:
    for _ in range(3):
        emulator.reply(calls=[("get_weather", {"city": "Oslo"})])
    loop = ToolLoop(make_model(), [get_weather], max_turns=3, on_limit=on_limit)
    (result,) = run_in_batches(loop, ["Weather?"], path=tmp_path)
    assert sent(emulator) == [1, 1, 1]
    if on_limit == "raise":
        assert isinstance(result, IncompleteRunError)
        assert "its limit of 3 turns" in str(result)
        assert result.tool_loop_result.turns == 3
    else:
        assert result.stop_reason == "turn_limit"
        assert result.turns == 3
        assert len(result.pending) == 1


def test_nothing_else_of_the_step_runs_again_when_an_answer_is_replaced(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    begun: list[str] = []

    def ask(state: MessagesState) -> Any:
        said = model.invoke("Describe Oslo.")
        if (answer := interrupt("Go on?")) != "Yes.":
            raise ValueError(answer)
        return {"messages": [said, answer]}

    def send_mail(state: MessagesState) -> Any:
        begun.append("mail")
        return {"messages": ["Sent."]}

    graph = StateGraph(MessagesState)
    for node in (ask, send_mail):
        graph.add_node(node)
        graph.add_edge(START, node.__name__)
    agent = graph.compile()
    (paused,) = run_in_batches(agent, ASKED[:1], path=tmp_path)
    for answer in ("No.", "Maybe.", "Yes."):
        answers = {question.id: answer for question in paused.interrupts}
        (state,) = run_in_batches(agent, ASKED[:1], path=tmp_path, resume=answers)
        assert isinstance(state, ValueError if answer != "Yes." else dict)
    assert {"Yes.", "Sent."} < {message.text for message in state["messages"]}
    assert begun == ["mail"]
    assert sent(emulator) == [1]
    check_nothing_else(emulator)


DESCRIBED: Any = [("describe", {"city": city}) for city in CITIES]


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_tools_of_a_loop_may_call_the_model(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, is_interrupted: bool
) -> None:
    model = make_model()
    others_have_asked = threading.Barrier(len(CITIES))
    begun: list[str] = []

    @tool
    def describe(city: str) -> str:
        """Describe a city."""
        begun.append(city)
        if len(begun) <= len(CITIES):  # in parallel; the last one asks first
            others_have_asked.wait(10)
            time.sleep(CITIES[::-1].index(city) / 50)
        return str(model.invoke(f"Describe {city}.").text)

    emulator.reply(calls=DESCRIBED)
    loop = ToolLoop(model, [describe], max_turns=2)
    for waves in range(1, 5) if is_interrupted else ():
        (stopped,) = run_in_batches(loop, ["Describe them."], path=tmp_path, max_waves=waves)
        assert isinstance(stopped, errors.BatchJobError)
    (result,) = run_in_batches(loop, ["Describe them."], path=tmp_path)
    assert isinstance(result, ToolLoopResult)
    assert (result.stop_reason, result.turns) == ("answered", 2)
    for record, city in zip(result.calls, CITIES, strict=True):
        assert f"Describe {city}." in record.message.text
    assert sent(emulator) == [1, 1, 1, 1, 1]
    check_nothing_else(emulator)


def test_a_tool_of_a_loop_may_ask_the_same_in_several_roles_with_the_time(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    ticks = itertools.count()
    roles = ["critic", "fan"]

    @tool
    def describe(city: str) -> str:
        """Describe a city."""
        said = []
        for role in roles:
            clock = SystemMessage(f"You are a {role}. It is {next(ticks)} o'clock.")
            said.append(str(model.invoke([clock, HumanMessage(f"Describe {city}.")]).text))
        return ", ".join(said)

    emulator.reply(calls=DESCRIBED[:1])
    emulator.script(*(Reply(role) for role in roles))
    (result,) = run_in_batches(ToolLoop(model, [describe]), ["Describe it."], path=tmp_path)
    bodies = [body for job in emulator.batches.jobs.values() for _, body in job.items]
    asked = [body["systemInstruction"]["parts"][0]["text"][:14] for body in bodies[1:3]]
    assert asked == ["You are a crit", "You are a fan."]
    assert result.calls[0].message.text == "critic, fan"
    assert sent(emulator) == [1, 1, 1, 1]
    check_nothing_else(emulator)


def test_a_tool_of_a_loop_that_does_not_repeat_its_call_is_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    ticks = itertools.count()

    @tool
    def describe(city: str) -> str:
        """Describe a city."""
        return str(model.invoke(f"Describe {city} at {next(ticks)} o'clock.").text)

    emulator.reply(calls=DESCRIBED[:1])
    loop = ToolLoop(model, [describe])
    for _ in range(2):
        (result,) = run_in_batches(loop, ["Describe it."], path=tmp_path)
        assert isinstance(result, errors.InvalidOptionError)
        assert "keep times and random values out of the messages" in str(result)
        assert sent(emulator) == [1, 1]


def test_an_artifact_that_is_not_json_is_stored_as_text(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    circular: list[Any] = []
    circular.append(circular)
    artifacts = {"Oslo": {(1, 2): 3}, "Rome": circular, "Lima": {"now": 1j}}

    @tool(response_format="content_and_artifact")
    def get_weather(city: str) -> tuple[str, Any]:
        """Current weather in a city."""
        return f"Sunny in {city}", artifacts[city]

    asked = [f"Weather in {city}?" for city in CITIES]
    results = run_in_batches(ToolLoop(make_model(), [get_weather]), asked, path=tmp_path)
    stored = [call.message.artifact for result in results for call in result.calls]
    assert stored == [{"(1, 2)": 3}, [["[[...]]"]], {"now": "1j"}]


def test_a_loop_that_would_answer_at_its_limit_is_rejected(
    make_model: MakeModel, tmp_path: Path
) -> None:
    loop = ToolLoop(make_model(), [get_weather], on_limit="answer")
    with pytest.raises(errors.InvalidOptionError, match="on_limit"):
        run_in_batches(loop, ["Weather?"], path=tmp_path)


def test_items_of_a_loop_that_fail_are_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    failures = iter([{"code": 13, "message": "It failed."}])
    emulator.batches.fail_items(lambda _number, _body: next(failures, None))
    loop = ToolLoop(make_model(), [get_weather])
    (result,) = run_in_batches(loop, ["Weather in Oslo?"], path=tmp_path)
    assert "Sunny in Oslo" in result.answer()
    assert sent(emulator) == [1, 1, 1]


def test_a_loop_whose_state_is_gone_is_not_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    run_in_batches(ToolLoop(make_model()), ["Hello"], path=tmp_path)
    (tmp_path / "loops.sqlite").unlink()
    with pytest.raises(errors.InvalidOptionError, match=r"loops\.sqlite has no state for input 0"):
        run_in_batches(ToolLoop(make_model()), ["Hello"], path=tmp_path)
    assert sent(emulator) == [1]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, GraphInterrupt])
def test_tools_of_a_loop_that_have_ended_do_not_run_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, failure: type[BaseException]
) -> None:
    ran: list[str] = []
    failures = iter([failure()])

    @tool
    def count() -> str:
        """Count."""
        ran.append("count")
        return "1"

    @tool
    def explode() -> str:
        """Explode, once."""
        ran.append("explode")
        for error in failures:
            raise error
        return "2"

    emulator.reply(calls=[("count", {}), ("explode", {})])
    emulator.reply("Done.")
    loop = ToolLoop(make_model(), [count, explode], max_concurrency=1)
    with contextlib.suppress(KeyboardInterrupt):
        (result,) = run_in_batches(loop, ["Hello"], path=tmp_path)
        assert isinstance(result, failure)
    (result,) = run_in_batches(loop, ["Hello"], path=tmp_path)
    assert ran == ["count", "explode", "explode"]
    assert (result.answer(), result.turns, len(result.calls)) == ("Done.", 2, 2)
    assert sent(emulator) == [1, 1]
    check_nothing_else(emulator)


@pytest.mark.parametrize("name", ["loops.sqlite", "wave-00000/waiting.jsonl"])
@pytest.mark.parametrize("content", [b"x\n", b"0 {\n", b"[0]\n", b"0 []\n"])
def test_a_damaged_file_is_named(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, name: str, content: bytes
) -> None:
    loop = ToolLoop(make_model())
    run_in_batches(loop, ["Hello"], path=tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.InvalidOptionError, match=f"{name} is damaged"):
        list(run_in_batches(loop, ["Hello"], path=tmp_path))
    assert sent(emulator) == [1]


def test_a_path_belongs_to_a_loop_or_to_an_agent(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    run_in_batches(ToolLoop(make_model()), ["Hello"], path=tmp_path)
    with pytest.raises(
        errors.InvalidOptionError, match="run of a ToolLoop, not of a LangGraph agent"
    ):
        run_in_batches(create_agent(make_model()), ["Hello"], path=tmp_path)


def test_both_ways_to_run_have_the_same_options() -> None:
    parameters = inspect.signature(run_in_batches).parameters.values()
    named = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert RunOptions.__annotations__.keys() == named


async def test_an_unknown_option_is_rejected_in_async_code_as_well(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="max_wave"):
        await arun_in_batches(None, [], path=tmp_path, max_wave=1)  # type: ignore[call-arg]
