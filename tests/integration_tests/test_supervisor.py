"""Several agents over one model: a supervisor that hands over, and what each of them is sent."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph_supervisor import create_supervisor

from langchain_gemini_tools.wire.replay import SKIP_SIGNATURE
from tests.integration_tests.play import (
    WEATHER,
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    text,
    user,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
    pytest.mark.filterwarnings("ignore:parallel_tool_calls=False has no effect"),
]

OSLO = {"city": "Oslo"}
QUESTION = "Weather in Oslo, and 1 + 2?"
ASKED = {"messages": [HumanMessage(QUESTION)]}
SYSTEM: Any = {"systemInstruction": {"parts": [{"text": "Hand over."}]}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def _handover(name: str) -> dict[str, str]:
    """A tool without parameters is declared without a schema."""
    return {"name": f"transfer_to_{name}", "description": f"Ask agent '{name}' for help"}


HANDOVERS = [_handover("maths"), _handover("weather")]


def _team(play: Play) -> Any:
    workers: list[Any] = [
        create_agent(play.model(), tools=[get_weather], name="weather"),
        create_agent(play.model(), tools=[add], name="maths"),
    ]
    return create_supervisor(workers, model=play.model(), prompt="Hand over.").compile()


def _play_the_team(play: Play) -> None:
    play.calls(("transfer_to_weather", {}))
    play.calls(("get_weather", OSLO))
    play.says("Sunny in Oslo.")
    play.calls(("transfer_to_maths", {}))
    play.calls(("add", {"a": 1, "b": 2}))
    play.says("It is 3.")
    play.says("Sunny, and 3.")


def _handed_over(play: Play, name: str, call_id: str, step: int) -> list[Any]:
    tool = f"transfer_to_{name}"
    return [
        model(call(tool, {}, call_id, play.signature(step))),
        user(result(tool, f"Successfully transferred to {name}", call_id)),
    ]


def _handed_back(play: Play, answer: str, step: int, call_id: str, *, streamed: bool) -> list[Any]:
    """The graph writes this call itself, so that no model has signed it."""
    tool = "transfer_back_to_supervisor"
    said = [text(answer, play.signature(step))]
    if streamed and play.is_gemini_3:
        said = [text(answer), text("", play.signature(step))]
    skip = SKIP_SIGNATURE if play.is_gemini_3 else None
    return [
        model(*said, "Transferring back to supervisor", call(tool, {}, call_id, skip)),
        user(result(tool, "Successfully transferred back to supervisor", call_id)),
    ]


def _on_the_wire(play: Play, messages: list[Any], *, streamed: bool = False) -> list[Any]:
    """The seven requests of the play above; a worker's own steps stay with the worker."""
    ids = [str(c["id"]) for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
    to_weather, back, to_maths, back_again = ids
    asked = [user(QUESTION)]
    at_weather = [*asked, *_handed_over(play, "weather", to_weather, 1)]
    returned = [*at_weather, *_handed_back(play, "Sunny in Oslo.", 3, back, streamed=streamed)]
    at_maths = [*returned, *_handed_over(play, "maths", to_maths, 4)]
    done = [*at_maths, *_handed_back(play, "It is 3.", 6, back_again, streamed=streamed)]
    # The library keeps its tools in a set: any order will do, and each program has its own.
    handovers = play.sent[0]["tools"][0]["functionDeclarations"]
    assert sorted(handovers, key=lambda declared: declared["name"]) == HANDOVERS
    weather, maths = (_own_call(play, number, step) for number, step in ((1, 2), (4, 5)))
    return [
        request(*asked, tools=handovers, **SYSTEM),
        request(*at_weather),
        request(*at_weather, *weather("get_weather", OSLO, "Sunny in Oslo")),
        request(*returned, tools=handovers, **SYSTEM),
        request(*at_maths, tools=[ADD]),
        request(*at_maths, *maths("add", {"a": 1, "b": 2}, "3"), tools=[ADD]),
        request(*done, tools=handovers, **SYSTEM),
    ]


def _own_call(play: Play, number: int, step: int) -> Any:
    """A worker's call; ids that the API did not give are taken from what was sent."""

    def contents(name: str, args: Any, output: str) -> list[Any]:
        sent = play.sent[number + 1]["contents"][-1]
        call_id = sent["parts"][0]["functionResponse"]["id"]
        return [
            model(call(name, args, call_id, play.signature(step))),
            user(result(name, output, call_id)),
        ]

    return contents


def test_each_agent_is_sent_what_concerns_it(play: Play) -> None:
    _play_the_team(play)
    state = _team(play).invoke(ASKED)
    assert play.sent == _on_the_wire(play, state["messages"])
    assert state["messages"][-1].content == "Sunny, and 3."


async def test_each_agent_is_sent_the_same_from_async_code(play: Play) -> None:
    _play_the_team(play)
    state = await _team(play).ainvoke(ASKED)
    assert play.sent == _on_the_wire(play, state["messages"])


def test_each_agent_is_sent_the_same_when_tokens_are_streamed(play: Play) -> None:
    _play_the_team(play)
    words = ""
    messages: list[Any] = []
    for path, mode, event in _team(play).stream(
        ASKED, stream_mode=["messages", "values"], subgraphs=True
    ):
        if mode == "values" and not path:
            messages = event["messages"]
        elif mode == "messages" and isinstance(event[0], AIMessageChunk):
            words += event[0].text
    assert play.sent == _on_the_wire(play, messages, streamed=True)
    assert words == "Sunny in Oslo.It is 3.Sunny, and 3."
    assert WEATHER in play.sent[1]["tools"][0]["functionDeclarations"]
