"""Graphs, teams and middleware with prompted tools, step by step as sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from langgraph_supervisor import create_supervisor

from langchain_gemini_tools import ToolLoop
from tests.integration_tests.play import get_weather, graph_by_hand, model, user
from tests.integration_tests.test_prompted import prompt_of, second_prompt_of

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

pytestmark = [
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
    pytest.mark.filterwarnings("ignore:parallel_tool_calls=False has no effect"),
]

QUESTION = "Weather in Oslo and Rome?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
OSLO = 'TOOL_CALL: get_weather({"city": "Oslo"})'
ROME = 'TOOL_CALL: get_weather({"city": "Rome"})'


@pytest.fixture
def gemma(make_model: MakeModel) -> ChatGemini:
    return make_model(model="gemma-3-27b-it")


def _result(number: int, text: str, *, tool: str = "get_weather", failed: bool = False) -> str:
    mark = " failed" if failed else ""
    return f"TOOL_RESULT: {tool} #{number}{mark}\n{text}\nEND_TOOL_RESULT\n"


def _sent(emulator: Emulator) -> list[Any]:
    assert emulator.refusals == []
    assert emulator.pending_replies == 0
    return [asked.body["contents"] for asked in emulator.requests]


def _script(emulator: Emulator) -> None:
    emulator.reply(f"Let me look.\n\n{OSLO}\n{ROME}")
    emulator.reply("Sunny in both.")


def _both_steps(chat: ChatGemini) -> list[Any]:
    """The contents of the two requests of the script above."""
    asked = user(prompt_of(chat, get_weather), QUESTION)
    called = model(f"Let me look.\n\n{OSLO}\n{ROME}")
    return [
        [asked],
        [asked, called, user(_result(1, "Sunny in Oslo"), _result(2, "Sunny in Rome"))],
    ]


def _graph(chat: Any, saver: Any) -> Any:
    """It stops before the tools run."""
    return graph_by_hand(chat, [get_weather], checkpointer=saver, interrupt_before=["tools"])


def test_a_stored_graph_continues(emulator: Emulator, gemma: ChatGemini, tmp_path: Path) -> None:
    _script(emulator)
    database = str(tmp_path / "checkpoints.db")
    with SqliteSaver.from_conn_string(database) as saver:
        _graph(gemma, saver).invoke(ASKED, THREAD)
    with SqliteSaver.from_conn_string(database) as saver:
        state = _graph(gemma, saver).invoke(None, THREAD)
    assert state["messages"][-1].content == "Sunny in both."
    assert _sent(emulator) == _both_steps(gemma)


async def test_a_stored_graph_continues_in_async_code(
    emulator: Emulator, gemma: ChatGemini, tmp_path: Path
) -> None:
    _script(emulator)
    database = str(tmp_path / "checkpoints.db")
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        await _graph(gemma, saver).ainvoke(ASKED, THREAD)
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        state = await _graph(gemma, saver).ainvoke(None, THREAD)
    assert state["messages"][-1].content == "Sunny in both."
    assert _sent(emulator) == _both_steps(gemma)


def test_a_graph_that_streams_tokens_sends_the_same(emulator: Emulator, gemma: ChatGemini) -> None:
    _script(emulator)
    graph = _graph(gemma, InMemorySaver())
    words = ""
    for given in (ASKED, None):
        for piece, _ in graph.stream(given, THREAD, stream_mode="messages"):
            words += piece.text if isinstance(piece, AIMessageChunk) else ""
    assert words == "Let me look.Sunny in both."
    assert _sent(emulator) == _both_steps(gemma)


def test_a_person_may_edit_one_call_and_reject_another(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    """The model sees the calls that were executed."""
    emulator.reply(f"{OSLO}\n{ROME}")
    emulator.reply("Sunny in Lima.")
    agent: Any = create_agent(
        gemma,
        tools=[get_weather],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"get_weather": True})],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(ASKED, THREAD)
    lima = {"name": "get_weather", "args": {"city": "Lima"}}
    decisions = [
        {"type": "edit", "edited_action": lima},
        {"type": "reject", "message": "Not Rome."},
    ]
    agent.invoke(Command(resume={"decisions": decisions}), THREAD)
    first, second = _sent(emulator)[1][-1]["parts"]
    assert first["text"].startswith("TOOL_RESULT: get_weather #1\n")
    assert "Sunny in Lima" in first["text"]
    assert second["text"].startswith("TOOL_RESULT: get_weather #2 failed\n")
    assert "Not Rome." in second["text"]


async def test_limits_and_retries_are_reported_in_order(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    tries: list[str] = []

    @tool("get_weather", description="Current weather in a city.")
    def shaky(city: str) -> str:
        tries.append(city)
        if len(tries) == 1:
            raise ConnectionError("No line.")
        return f"Sunny in {city}"

    emulator.reply(f"{OSLO}\n{ROME}")
    emulator.reply("Sunny in Oslo.")
    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    middleware: list[Any] = [retry, ToolCallLimitMiddleware(run_limit=1)]
    agent: Any = create_agent(gemma, tools=[shaky], middleware=middleware)
    state = await agent.ainvoke(ASKED)
    assert tries == ["Oslo", "Oslo"]
    limit = next(m.content for m in state["messages"] if getattr(m, "status", "") == "error")
    assert _sent(emulator)[1][-1] == user(
        _result(1, "Sunny in Oslo"), _result(2, limit, failed=True)
    )


def test_a_summary_replaces_earlier_turns(emulator: Emulator, gemma: ChatGemini) -> None:
    emulator.reply(OSLO)
    emulator.reply("Sunny.")
    emulator.reply("They talked about Oslo.")
    emulator.reply(ROME)
    emulator.reply("Sunny, too.")
    summarize = SummarizationMiddleware(gemma, trigger=("messages", 5), keep=("messages", 1))
    agent: Any = create_agent(
        gemma, tools=[get_weather], middleware=[summarize], checkpointer=InMemorySaver()
    )
    agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]}, THREAD)
    state = agent.invoke({"messages": [HumanMessage("And Rome?")]}, THREAD)
    asked = user(prompt_of(gemma, get_weather), state["messages"][0].text, "And Rome?")
    assert _sent(emulator)[3:] == [
        [asked],
        [asked, model(ROME), user(_result(1, "Sunny in Rome"))],
    ]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_a_supervisor_hands_over_and_gets_the_result_back(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    handover = "TOOL_CALL: transfer_to_weather({})"
    emulator.reply(handover)
    emulator.reply(OSLO)
    emulator.reply("Sunny in Oslo.")
    emulator.reply("It is sunny.")
    worker: Any = create_agent(gemma, tools=[get_weather], name="weather")
    team: Any = create_supervisor([worker], model=gemma, prompt="Hand over.").compile()
    if way == "stream":
        *_, state = team.stream(ASKED, stream_mode="values")
    else:
        state = team.invoke(ASKED) if way == "invoke" else await team.ainvoke(ASKED)
    assert state["messages"][-1].content == "It is sunny."
    sent = _sent(emulator)
    transferred = _result(1, "Successfully transferred to weather", tool="transfer_to_weather")
    at_work = [
        user(prompt_of(gemma, get_weather), QUESTION),
        model(handover),
        user(transferred),
    ]
    assert sent[1] == at_work
    assert sent[2] == [*at_work, model(OSLO), user(_result(1, "Sunny in Oslo"))]
    declared: Any = {"name": "transfer_to_weather", "description": "Ask agent 'weather' for help"}
    back = "Successfully transferred back to supervisor"
    assert sent[3] == [
        user("Hand over.", second_prompt_of(gemma, declared), QUESTION),
        *at_work[1:],
        model(
            "Sunny in Oslo.",
            "Transferring back to supervisor\n\nTOOL_CALL: transfer_back_to_supervisor({})",
        ),
        user(_result(1, back, tool="transfer_back_to_supervisor")),
    ]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_tool_loop_sends_the_same(emulator: Emulator, gemma: ChatGemini, way: str) -> None:
    _script(emulator)
    loop = ToolLoop(gemma, [get_weather])
    if way == "stream":
        assert "".join(loop.stream(QUESTION)) == "Sunny in both."
    else:
        outcome = loop.invoke(QUESTION) if way == "invoke" else await loop.ainvoke(QUESTION)
        assert (outcome.text, outcome.stop_reason) == ("Sunny in both.", "answered")
    assert _sent(emulator) == _both_steps(gemma)
