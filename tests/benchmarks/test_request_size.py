"""How many bytes an agent sends on a thread of 200 tool turns, through each API."""

from __future__ import annotations

import itertools
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing import FakeGemini

TURNS = 200
ANSWER = "Four degrees and rain until noon, then clouds. Wind from the west."
OPTIONS: dict[str, dict[str, Any]] = {
    "generate_content": {},
    "interactions": {"api": "interactions"},
    "interactions, use_previous_interaction": {
        "api": "interactions",
        "use_previous_interaction": True,
    },
}


def get_weather(city: str) -> str:
    """Current weather in a city."""
    raise NotImplementedError(city)


def request_sizes(**options: Any) -> list[int]:
    """Return the size of each request of one thread, in bytes."""
    with FakeGemini() as gemini:
        model = ChatGemini(model="gemini-3.8-flash", **options).bind_tools([get_weather])
        history: list[Any] = [HumanMessage("Weather in 200 cities, one after the other?")]
        for number in range(TURNS):
            gemini.reply(calls=[("get_weather", {"city": f"City {number:03d}"})])
            history.append(model.invoke(history))
            [call] = history[-1].tool_calls
            history.append(ToolMessage(ANSWER, tool_call_id=call["id"]))
        gemini.reply("Rain in most of them.")
        model.invoke(history)
        assert gemini.refusals == []
        return [len(request.raw) for request in gemini.requests]


def test_only_stored_interactions_keep_the_request_constant_in_size() -> None:
    sizes = {name: request_sizes(**options) for name, options in OPTIONS.items()}
    for name, each in sizes.items():
        print(f"{name:40} last request {each[-1]:8,} bytes, all {sum(each) / 1e6:6.2f} MB")
    stored, *whole = (sizes[name] for name in reversed(OPTIONS))
    assert len(set(stored[1:])) == 1
    assert stored[-1] < 2 * stored[0]
    for each in whole:
        growth = [after - before for before, after in itertools.pairwise(each[1:])]
        assert min(growth) > len(ANSWER)
        assert each[-1] > 100 * stored[-1]
