"""A LangGraph graph written by hand, with a checkpointer, on `api="interactions"`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

THREAD: Any = {"configurable": {"thread_id": "t"}}
ROUND = ["user_input", "thought", "function_call", "function_result", "thought", "model_output"]


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


def new_graph(chat: Any, saver: Any) -> Any:
    """Return a new graph of the model and its tools; sync and async."""
    bound = chat.bind_tools([get_weather])

    def ask(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def aask(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", RunnableLambda(ask, aask))
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def run(chat: Any, way: str, database: str, question: str) -> tuple[list[Any], str]:
    """Ask in a new graph; return the messages of the thread, and the text as it was streamed."""
    given = {"messages": [HumanMessage(question)]}
    pieces: list[Any] = []
    if way in {"invoke", "stream"}:
        with SqliteSaver.from_conn_string(database) as saver:
            graph = new_graph(chat, saver)
            if way == "invoke":
                graph.invoke(given, THREAD)
            else:
                pieces = list(graph.stream(given, THREAD, stream_mode="messages"))
            messages = graph.get_state(THREAD).values["messages"]
    else:
        async with AsyncSqliteSaver.from_conn_string(database) as asaver:
            graph = new_graph(chat, asaver)
            if way == "ainvoke":
                await graph.ainvoke(given, THREAD)
            else:
                stream = graph.astream(given, THREAD, stream_mode="messages")
                pieces = [piece async for piece in stream]
            messages = (await graph.aget_state(THREAD)).values["messages"]
    chunks = [piece for piece, _ in pieces if isinstance(piece, AIMessageChunk)]
    return messages, "".join(str(chunk.text) for chunk in chunks)


def sent_types(body: Json) -> list[str]:
    return [step["type"] for step in body["input"]]


@pytest.mark.parametrize("stored", [False, True], ids=["stateless", "stored"])
@rotated(way=WAYS)
async def test_a_thread_goes_on_in_a_new_graph_from_its_checkpoint(
    way: str, stored: bool, make_model: MakeModel, emulator: Emulator, tmp_path: Path
) -> None:
    database = str(tmp_path / "threads.sqlite")
    for city in ("Oslo", "Rome"):
        emulator.reply(calls=[("get_weather", {"city": city})])
        emulator.reply(f"It is sunny in {city}.", chunks=3)
    for city in ("Oslo", "Rome"):
        chat = make_model(api="interactions", use_previous_interaction=stored)
        messages, streamed = await run(chat, way, database, f"Weather in {city}?")
        assert messages[-1].text == f"It is sunny in {city}."
        assert streamed == (messages[-1].text if "stream" in way else "")

    bodies: list[Json] = [request.body for request in emulator.requests]
    assert emulator.refusals == []
    assert all(body.get("stream", False) is ("stream" in way) for body in bodies)
    assert all(body["store"] is stored for body in bodies)
    if stored:
        assert [sent_types(body) for body in bodies] == [["user_input"], ["function_result"]] * 2
        ids = [message.response_metadata.get("interaction_id") for message in messages[1::2]]
        # The second graph has the ids from the checkpoint alone.
        assert [body.get("previous_interaction_id") for body in bodies] == [None, *ids[:3]]
        return
    whole = ROUND * 2
    assert [sent_types(body) for body in bodies] == [whole[:end] for end in (1, 4, 7, 10)]
    # Each request repeats the one before it, as the checkpoint has kept it.
    for before, after in itertools.pairwise(bodies):
        assert after["input"][: len(before["input"])] == before["input"]
