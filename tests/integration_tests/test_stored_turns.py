"""A turn that is stored in its middle, and goes on elsewhere: checkpoints and JSON."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.load import dumpd, dumps, load, loads
from langchain_core.messages import (
    AnyMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import TypeAdapter

from tests.integration_tests.play import (
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    text,
    user,
)
from tests.rotation import rotated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:The function `load:Warning")

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo and Rome?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
THANKS = {"messages": [HumanMessage("Thank you.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}

OpenSaver = Callable[[], AbstractContextManager[Any]]
OpenAsyncSaver = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["memory", "sqlite"])
def open_saver(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSaver:
    """Opens one and the same store, as each run of a program would."""
    if request.param == "memory":
        saver = InMemorySaver()
        return lambda: nullcontext(saver)
    return lambda: SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db"))


@pytest.fixture(params=["memory", "sqlite"])
def open_async_saver(request: pytest.FixtureRequest, tmp_path: Path) -> OpenAsyncSaver:
    if request.param == "memory":
        saver = InMemorySaver()
        return lambda: nullcontext(saver)
    return lambda: AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db"))


def _agent(play: Play, saver: Any, **more: Any) -> Any:
    return create_agent(play.model(), tools=[get_weather], checkpointer=saver, **more)


def _play_two_turns(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME), before="Let me look.")
    play.says("Sunny in both.")
    play.says("You are welcome.")


def _second_turn(play: Play, messages: Any, *, streamed: bool = False) -> Any:
    """What the second question of the play above sends."""
    oslo, rome = play.ids(messages)
    answer = [text("Sunny in both.", play.signature(2))]
    if streamed and play.is_gemini_3:
        answer = [text("Sunny in both."), text("", play.signature(2))]
    return request(
        user(QUESTION),
        model(
            "Let me look.",
            call("get_weather", OSLO, oslo, play.signature(1)),
            call("get_weather", ROME, rome),
        ),
        user(
            result("get_weather", "Sunny in Oslo", oslo),
            result("get_weather", "Sunny in Rome", rome),
        ),
        model(*answer),
        user("Thank you."),
    )


def test_a_thread_goes_on_in_a_new_program(play: Play, open_saver: OpenSaver) -> None:
    _play_two_turns(play)
    with open_saver() as saver:
        _agent(play, saver).invoke(ASKED, THREAD)
    with open_saver() as saver:
        state = _agent(play, saver).invoke(THANKS, THREAD)
    assert play.sent[2] == _second_turn(play, state["messages"])
    assert state["messages"][-1].content == "You are welcome."


async def test_a_thread_goes_on_in_a_new_async_program(
    play: Play, open_async_saver: OpenAsyncSaver
) -> None:
    _play_two_turns(play)
    async with open_async_saver() as saver:
        await _agent(play, saver).ainvoke(ASKED, THREAD)
    async with open_async_saver() as saver:
        state = await _agent(play, saver).ainvoke(THANKS, THREAD)
    assert play.sent[2] == _second_turn(play, state["messages"])
    assert state["messages"][-1].content == "You are welcome."


def test_a_streamed_thread_goes_on_in_a_new_program(play: Play, open_saver: OpenSaver) -> None:
    _play_two_turns(play)
    with open_saver() as saver:
        list(_agent(play, saver).stream(ASKED, THREAD, stream_mode="messages"))
    with open_saver() as saver:
        agent = _agent(play, saver)
        list(agent.stream(THANKS, THREAD, stream_mode="messages"))
        messages = agent.get_state(THREAD).values["messages"]
    assert play.sent[2] == _second_turn(play, messages, streamed=True)


async def test_a_thread_of_v1_messages_goes_on_in_a_new_async_program(
    play: Play, open_async_saver: OpenAsyncSaver
) -> None:
    _play_two_turns(play)
    for asked in (ASKED, THANKS):
        async with open_async_saver() as saver:
            chat = play.model(output_version="v1")
            agent: Any = create_agent(chat, tools=[get_weather], checkpointer=saver)
            state = await agent.ainvoke(asked, THREAD)
    assert play.sent[2] == _second_turn(play, state["messages"])


def test_a_turn_that_stopped_before_its_tools_goes_on_in_a_new_program(
    play: Play, open_saver: OpenSaver
) -> None:
    _play_two_turns(play)
    with open_saver() as saver:
        _agent(play, saver, interrupt_before=["tools"]).invoke(ASKED, THREAD)
    assert len(play.sent) == 1
    with open_saver() as saver:
        _agent(play, saver).invoke(None, THREAD)
    with open_saver() as saver:
        state = _agent(play, saver).invoke(THANKS, THREAD)
    assert play.sent[2] == _second_turn(play, state["messages"])


def test_a_thread_that_is_forked_sends_what_its_own_past_holds(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    play.says("Sunny again.")
    agent = _agent(play, InMemorySaver())
    agent.invoke(ASKED, THREAD)
    before_tools = next(past for past in agent.get_state_history(THREAD) if past.next == ("tools",))
    state = agent.invoke(None, before_tools.config)
    (oslo,) = play.ids(state["messages"])
    assert state["messages"][-1].content == "Sunny again."
    assert (
        play.sent[2]
        == play.sent[1]
        == request(
            user(QUESTION),
            model(call("get_weather", OSLO, oslo, play.signature(1))),
            user(result("get_weather", "Sunny in Oslo", oslo)),
        )
    )


def _through_dicts(messages: list[Any]) -> Any:
    return messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))


def _through_dumps(messages: list[Any]) -> Any:
    return loads(dumps(messages), allowed_objects="core")


def _through_dumpd(messages: list[Any]) -> Any:
    return load(json.loads(json.dumps(dumpd(messages))), allowed_objects="core")


def _through_pydantic(messages: list[Any]) -> Any:
    kinds = TypeAdapter(list[AnyMessage])
    return kinds.validate_json(kinds.dump_json(messages))


def _through_msgpack(messages: list[Any]) -> Any:
    serde = JsonPlusSerializer()
    return serde.loads_typed(serde.dumps_typed(messages))


def _through_pickle(messages: list[Any]) -> Any:
    return pickle.loads(pickle.dumps(messages))


STORES = {
    "dicts": _through_dicts,
    "dumps": _through_dumps,
    "dumpd": _through_dumpd,
    "pydantic": _through_pydantic,
    "msgpack": _through_msgpack,
    "pickle": _through_pickle,
}


@rotated(store=STORES, version=["v0", "v1"], is_streamed={"whole": False, "streamed": True})
def test_messages_stored_between_two_results_go_on_as_if_they_had_not_been(
    play: Play, store: Any, version: str, is_streamed: bool
) -> None:
    _play_two_turns(play)

    def ask(messages: list[Any]) -> Any:
        bound: Any = play.model(output_version=version).bind_tools([get_weather])
        if not is_streamed:
            return bound.invoke(messages)
        chunks = list(bound.stream(messages))
        return sum(chunks[1:], chunks[0])

    history: list[Any] = [HumanMessage(QUESTION)]
    history.append(ask(history))
    oslo, rome = play.ids(history)
    history = store([*history, ToolMessage("Sunny in Rome", tool_call_id=rome)])
    history = store([*history, ToolMessage("Sunny in Oslo", tool_call_id=oslo)])
    history = store([*history, ask(history)])
    history.append(ask([*history, HumanMessage("Thank you.")]))
    assert play.sent[2] == _second_turn(play, history, streamed=is_streamed)
    assert history[-1].text == "You are welcome."
