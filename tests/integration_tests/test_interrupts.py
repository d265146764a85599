"""A graph written by hand that asks a person in the middle, and goes on in another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command, interrupt

from tests.integration_tests.play import (
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    user,
)

if TYPE_CHECKING:
    from pathlib import Path

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo and Rome?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ALLOWED: Any = Command(resume={"Oslo": True, "Rome": False})


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints.db")


def _graph(play: Play, saver: Any) -> Any:
    """Model and tools in turn; before the tools run, a person is asked about every city."""
    bound = play.model().bind_tools([get_weather])

    def ask(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def aask(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    def run_tools(state: MessagesState) -> Any:
        calls = getattr(state["messages"][-1], "tool_calls", [])
        allowed = interrupt([item["args"]["city"] for item in calls])
        return {"messages": [_answer(item, allowed[item["args"]["city"]]) for item in calls]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", RunnableLambda(ask, aask))
    graph.add_node("tools", run_tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def _answer(item: Any, is_allowed: bool) -> ToolMessage:
    if is_allowed:
        return ToolMessage(get_weather(**item["args"]), tool_call_id=item["id"])
    return ToolMessage("Nobody may know.", tool_call_id=item["id"], status="error")


def _play(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME), before="Let me look.")
    play.says("Sunny in Oslo.")


def _on_the_wire(play: Play, messages: Any) -> list[Any]:
    oslo, rome = play.ids(messages)
    return [
        request(user(QUESTION)),
        request(
            user(QUESTION),
            model(
                "Let me look.",
                call("get_weather", OSLO, oslo, play.signature(1)),
                call("get_weather", ROME, rome),
            ),
            user(
                result("get_weather", "Sunny in Oslo", oslo),
                result("get_weather", "Nobody may know.", rome, key="error"),
            ),
        ),
    ]


def test_a_person_answers_in_a_new_program(play: Play, database: str) -> None:
    _play(play)
    with SqliteSaver.from_conn_string(database) as saver:
        halted = _graph(play, saver).invoke(ASKED, THREAD)
        assert halted["__interrupt__"][0].value == ["Oslo", "Rome"]
        assert len(play.sent) == 1
    with SqliteSaver.from_conn_string(database) as saver:
        state = _graph(play, saver).invoke(ALLOWED, THREAD)
    assert play.sent == _on_the_wire(play, state["messages"])
    assert state["messages"][-1].content == "Sunny in Oslo."


async def test_a_person_answers_in_a_new_async_program(play: Play, database: str) -> None:
    _play(play)
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        halted = await _graph(play, saver).ainvoke(ASKED, THREAD)
        assert halted["__interrupt__"][0].value == ["Oslo", "Rome"]
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        state = await _graph(play, saver).ainvoke(ALLOWED, THREAD)
    assert play.sent == _on_the_wire(play, state["messages"])


def test_a_person_answers_while_tokens_are_streamed(play: Play, database: str) -> None:
    _play(play)
    words = ""
    messages: Any = []
    for given in (ASKED, ALLOWED):
        with SqliteSaver.from_conn_string(database) as saver:
            for mode, event in _graph(play, saver).stream(
                given, THREAD, stream_mode=["messages", "values"]
            ):
                if mode == "values":
                    messages = event.get("messages", messages)
                elif isinstance(event[0], AIMessageChunk):
                    words += event[0].text
    assert play.sent == _on_the_wire(play, messages)
    assert words == "Let me look.Sunny in Oslo."
