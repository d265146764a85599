"""A LangGraph graph written by hand, with a checkpointer, on `api="interactions"`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.integration_tests.play import get_weather, graph_by_hand
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

THREAD: Any = {"configurable": {"thread_id": "t"}}
ROUND = ["user_input", "thought", "function_call", "function_result", "thought", "model_output"]


async def run(chat: Any, way: str, database: str, question: str) -> tuple[list[Any], str]:
    """Ask in a new graph; return the messages of the thread, and the text as it was streamed."""
    given = {"messages": [HumanMessage(question)]}
    pieces: list[Any] = []
    if way in {"invoke", "stream"}:
        with SqliteSaver.from_conn_string(database) as saver:
            graph = graph_by_hand(chat, [get_weather], checkpointer=saver)
            if way == "invoke":
                graph.invoke(given, THREAD)
            else:
                pieces = list(graph.stream(given, THREAD, stream_mode="messages"))
            messages = graph.get_state(THREAD).values["messages"]
    else:
        async with AsyncSqliteSaver.from_conn_string(database) as asaver:
            graph = graph_by_hand(chat, [get_weather], checkpointer=asaver)
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
