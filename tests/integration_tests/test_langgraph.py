"""LangGraph with ChatGemini: the prebuilt agent, `ToolNode`, and a graph written by hand."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState, create_react_agent
from langgraph.types import Command

from langchain_gemini_tools import trace
from tests.integration_tests.play import (
    WEATHER,
    Play,
    call,
    get_weather,
    graph_by_hand,
    model,
    request,
    result,
    text,
    user,
)

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo and Rome?"
ASKED = {"messages": [HumanMessage(QUESTION)]}


@tool
def note(what: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Write something down."""
    return f"{what}: {len(state['messages'])} messages"


@tool
def move(place: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Go somewhere."""
    arrived = ToolMessage(f"Now in {place}", tool_call_id=tool_call_id)
    return Command(update={"messages": [arrived]})


NOTE = {
    "name": "note",
    "description": "Write something down.",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"what": {"type": "string"}},
        "required": ["what"],
    },
}


def _play_two_steps(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.calls(("note", {"what": "Sunny"}), before="I write it down.")
    play.says("Sunny in both.")


def _two_steps_on_the_wire(play: Play, messages: Any) -> list[Any]:
    """The three requests of the play above."""
    oslo, rome, noted = play.ids(messages)
    asked = [user(QUESTION)]
    first = [
        *asked,
        model(call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)),
        user(
            result("get_weather", "Sunny in Oslo", oslo),
            result("get_weather", "Sunny in Rome", rome),
        ),
    ]
    second = [
        *first,
        model("I write it down.", call("note", {"what": "Sunny"}, noted, play.signature(2))),
        user(result("note", "Sunny: 5 messages", noted)),
    ]
    return [request(*contents, tools=(WEATHER, NOTE)) for contents in (asked, first, second)]


def _graph(chat: Any) -> Any:
    return graph_by_hand(chat, [get_weather, note])


def _react(chat: Any) -> Any:
    return create_react_agent(chat, [get_weather, note])


def _react_with_bound_tools(chat: Any) -> Any:
    """`create_react_agent` counts and names the tools that are bound already."""
    return create_react_agent(chat.bind_tools([get_weather, note]), [get_weather, note])


AGENTS = pytest.mark.parametrize(
    "build", [_react, _react_with_bound_tools, _graph], ids=["react", "react, bound", "by hand"]
)


@AGENTS
def test_each_step_is_sent_with_all_before_it(play: Play, build: Any) -> None:
    _play_two_steps(play)
    state = build(play.model()).invoke(ASKED)
    assert play.sent == _two_steps_on_the_wire(play, state["messages"])
    assert state["messages"][-1].content == "Sunny in both."


@AGENTS
async def test_each_step_is_sent_the_same_from_async_code(play: Play, build: Any) -> None:
    _play_two_steps(play)
    state = await build(play.model()).ainvoke(ASKED)
    assert play.sent == _two_steps_on_the_wire(play, state["messages"])
    assert state["messages"][-1].content == "Sunny in both."


@AGENTS
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_each_step_is_sent_the_same_when_tokens_are_streamed(
    play: Play, build: Any, version: str
) -> None:
    _play_two_steps(play)
    words = ""
    messages: Any = []
    agent = build(play.model(output_version=version))
    for mode, event in agent.stream(ASKED, stream_mode=["messages", "values"]):
        if mode == "values":
            messages = event["messages"]
        elif isinstance(event[0], AIMessageChunk):
            words += event[0].text
    assert all(asked.is_stream for asked in play.emulator.requests)
    assert play.sent == _two_steps_on_the_wire(play, messages)
    assert words == "I write it down.Sunny in both."


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_trace_shows_the_messages_that_an_agent_streamed(play: Play, subgraphs: bool) -> None:
    play.emulator.reply(calls=[("get_weather", OSLO)])
    play.emulator.reply("Sunny in Oslo.")
    agent: Any = create_agent(play.model(), [get_weather])
    streamed = list(agent.stream(ASKED, stream_mode="messages", subgraphs=subgraphs))
    lines = [line for line in str(trace(streamed)).splitlines() if line.startswith(tuple("├│└ "))]
    assert [re.sub(r"  [\d.]+ m?s.*", "", line) for line in lines] == [
        "├── turn 1",
        '│   └── get_weather(city="Oslo")',
        "│       └── result  Sunny in Oslo",
        "└── turn 2",
        "    └── Sunny in Oslo.",
    ]


async def test_each_step_is_sent_the_same_under_astream_events(play: Play) -> None:
    _play_two_steps(play)
    ends = [
        event["data"]["output"]
        async for event in _react(play.model()).astream_events(ASKED, version="v2")
        if event["event"] == "on_chat_model_end"
    ]
    assert play.sent == _two_steps_on_the_wire(play, ends)


def test_a_tool_may_send_the_graph_elsewhere(play: Play) -> None:
    """A tool that returns a `Command` writes its own tool message."""
    play.calls(("move", {"place": "Oslo"}))
    play.says("Here we are.")
    state = create_react_agent(play.model(), [move]).invoke(ASKED)
    (call_id,) = play.ids(state["messages"])
    declared = {
        "name": "move",
        "description": "Go somewhere.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
    }
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("move", {"place": "Oslo"}, call_id, play.signature(1))),
        user(result("move", "Now in Oslo", call_id)),
        tools=[declared],
    )


def test_a_prompt_and_a_format_of_the_prebuilt_agent_are_sent(play: Play) -> None:
    """`response_format` there is one more call, with `with_structured_output`."""
    schema = {
        "title": "Report",
        "description": "A weather report.",
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    play.says("Sunny in Oslo.")
    play.calls(("Report", OSLO))
    agent = create_react_agent(
        play.model(), [get_weather], prompt="Be brief.", response_format=schema
    )
    state = agent.invoke(ASKED)
    assert state["structured_response"] == OSLO
    parameters = {key: schema[key] for key in ("type", "properties", "required")}
    declared: Any = {
        "name": "Report",
        "description": "A weather report.",
        "parametersJsonSchema": parameters,
    }
    forced = {"mode": "ANY", "allowedFunctionNames": ["Report"]}
    # From Gemini 3.6 on, a request does not end with a turn of the model.
    continued = [user("(Continue.)")] if "3.8" in play.name else []
    first, second = play.sent
    assert first == request(user(QUESTION), systemInstruction={"parts": [{"text": "Be brief."}]})
    assert second == request(
        user(QUESTION),
        model(text("Sunny in Oslo.", play.signature(1))),
        *continued,
        tools=[declared],
        toolConfig={"functionCallingConfig": forced},
    )
