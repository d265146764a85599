"""deepagents with ChatGemini: files, sub-agents, and what each of them is sent.

deepagents pins google-genai below 3, so that it lives in an environment of its own:
`make test-deepagents`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from tests.integration_tests.play import (
    WEATHER,
    Play,
    call,
    get_weather,
    model,
    result,
    user,
)

if TYPE_CHECKING:
    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

deepagents = pytest.importorskip(
    "deepagents", reason="deepagents needs google-genai below 3: make test-deepagents"
)

OSLO = {"city": "Oslo"}
QUESTION = "Weather in Oslo?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
NOTE = {"file_path": "/notes.txt", "content": "Oslo"}
TASK = {"description": "Weather in Oslo?", "subagent_type": "forecaster"}


def _agent(play: Play) -> Any:
    return _deep_agent(play.model())


def _deep_agent(chat: ChatGemini) -> Any:
    forecaster = {
        "name": "forecaster",
        "description": "Knows the weather.",
        "system_prompt": "Forecast.",
        "tools": [get_weather],
    }
    return deepagents.create_deep_agent(
        model=chat, tools=[get_weather], system_prompt="Be brief.", subagents=[forecaster]
    )


def _play(play: Play) -> None:
    play.calls(("write_file", NOTE), before="I write it down.")
    play.calls(("task", TASK))
    play.calls(("get_weather", OSLO))
    play.says("Sunny in Oslo.")
    play.calls(("read_file", {"file_path": "/notes.txt"}))
    play.says("Sunny.")


def _check_run(play: Play, state: Any) -> None:
    """Every content of the six requests, the sub-agent's in the middle."""
    write, task, read = [c["id"] for m in state["messages"] for c in getattr(m, "tool_calls", [])]
    written, answered, found = [m.content for m in state["messages"] if m.type == "tool"]
    asked = [user(QUESTION)]
    first = [
        *asked,
        model("I write it down.", call("write_file", NOTE, write, play.signature(1))),
        user(result("write_file", written, write)),
    ]
    second = [
        *first,
        model(call("task", TASK, task, play.signature(2))),
        user(result("task", "Sunny in Oslo.", task)),
    ]
    third = [
        *second,
        model(call("read_file", {"file_path": "/notes.txt"}, read, play.signature(5))),
        user(result("read_file", found, read)),
    ]
    inner = play.sent[3]["contents"][-1]["parts"][0]["functionResponse"]["id"]
    forecast = [
        user("Weather in Oslo?"),
        model(call("get_weather", OSLO, inner, play.signature(3))),
        user(result("get_weather", "Sunny in Oslo", inner)),
    ]
    assert answered == "Sunny in Oslo."
    assert "Oslo" in found
    assert [body["contents"] for body in play.sent] == [
        asked,
        first,
        forecast[:1],
        forecast,
        second,
        third,
    ]
    declared = [body["tools"][0]["functionDeclarations"] for body in play.sent]
    assert all(WEATHER in declarations for declarations in declared)
    names = [{item["name"] for item in declarations} for declarations in declared]
    assert ["task" in name for name in names] == [True, True, False, False, True, True]
    assert state["files"]["/notes.txt"]["content"] == "Oslo"
    assert state["messages"][-1].text == "Sunny."


def test_files_and_sub_agents_work(play: Play) -> None:
    _play(play)
    _check_run(play, _agent(play).invoke(ASKED))


async def test_files_and_sub_agents_work_from_async_code(play: Play) -> None:
    _play(play)
    _check_run(play, await _agent(play).ainvoke(ASKED))


def test_files_and_sub_agents_work_while_tokens_are_streamed(play: Play) -> None:
    _play(play)
    state: Any = {}
    for path, mode, event in _agent(play).stream(
        ASKED, stream_mode=["messages", "values"], subgraphs=True
    ):
        if mode == "values" and not path:
            state = event
    assert all(asked.is_stream for asked in play.emulator.requests)
    _check_run(play, state)


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_files_and_sub_agents_work_with_prompted_tools(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    gemma = make_model(model="gemma-3-27b-it")
    written = f"TOOL_CALL: write_file({json.dumps(NOTE)})"
    asked = f"TOOL_CALL: task({json.dumps(TASK)})"
    emulator.reply(written)
    emulator.reply(asked)
    emulator.reply('TOOL_CALL: get_weather({"city": "Oslo"})')
    emulator.reply("Sunny in Oslo.")
    emulator.reply("Sunny.")
    agent = _deep_agent(gemma)
    if way == "stream":
        *_, state = agent.stream(ASKED, stream_mode="values")
    else:
        state = agent.invoke(ASKED) if way == "invoke" else await agent.ainvoke(ASKED)
    assert emulator.refusals == []
    assert emulator.pending_replies == 0
    contents = [request.body["contents"] for request in emulator.requests]
    assert [len(each) for each in contents] == [1, 3, 1, 3, 5]
    assert contents[3][1:] == [
        model('TOOL_CALL: get_weather({"city": "Oslo"})'),
        user("TOOL_RESULT: get_weather #1\nSunny in Oslo\nEND_TOOL_RESULT\n"),
    ]
    assert contents[4][1] == model(written)
    assert contents[4][3:] == [
        model(asked),
        user("TOOL_RESULT: task #1\nSunny in Oslo.\nEND_TOOL_RESULT\n"),
    ]
    assert state["files"]["/notes.txt"]["content"] == "Oslo"
    assert state["messages"][-1].text == "Sunny."
