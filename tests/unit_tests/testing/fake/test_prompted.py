"""A Gemma that parses its tools from a prompt that the package wrote."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake.ask import Ask, Model
from langchain_gemini_tools.testing.fake.brain import think
from langchain_gemini_tools.testing.fake.prompted import read_prompted
from langchain_gemini_tools.wire.tools.bind import bind_tools
from tests.unit_tests.prompted.test_prompt import get_weather, now

GEMMA = "gemma-3-27b-it"


class Stop(BaseModel):
    place: str
    hours: float | None = None


class Route(BaseModel):
    """A route."""

    stops: list[Stop] = Field(min_length=2)
    name: str
    kind: str | int = "x"


def _ask(question: str, *tools: Any, config: Any = None, **options: Any) -> Ask:
    body: Any = ChatGemini(model=GEMMA).preview(question, tools=tools, **options).body
    return Ask(body | ({"generationConfig": config} if config else {}), Model(GEMMA, gemma=3))


def _answer(ask: Ask) -> str:
    return "".join(part["text"] for part in think(ask).parts)


def test_tools_are_parsed_from_the_prompt_as_they_were_bound() -> None:
    ask = read_prompted(_ask("Hi", Route))
    assert ask is not None
    [declaration] = ask.declarations
    properties = declaration["parametersJsonSchema"]["properties"]
    assert declaration["parametersJsonSchema"]["required"] == ["stops", "name"]
    assert properties["kind"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert properties["stops"]["minItems"] == 2
    assert properties["stops"]["items"]["required"] == ["place"]
    assert bind_tools([Route])[0]["function"]["name"] == declaration["name"]


@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        (
            None,
            'TOOL_CALL: get_weather({"city": "Oslo"})\nTOOL_CALL: get_weather({"city": "Rome"})',
        ),
        ("now", "TOOL_CALL: now({})"),
        (["now"], "TOOL_CALL: now({})"),
        ("none", "Hello! How can I help you today? You said: Weather in Oslo and Rome?."),
    ],
)
def test_it_follows_the_choice(choice: Any, answer: str) -> None:
    ask = _ask("Weather in Oslo and Rome?", get_weather, now, tool_choice=choice)
    assert _answer(ask) == answer


def test_calls_are_truncated_like_text() -> None:
    ask = _ask("Weather in Oslo?", get_weather, config={"maxOutputTokens": 6})
    answer = think(ask)
    assert (answer.parts, answer.finish_reason) == (
        [{"text": "TOOL_CALL: get_weather({"}],
        "MAX_TOKENS",
    )


def test_json_is_returned_if_the_prompt_asks_for_it() -> None:
    assert _answer(_ask("Route 66", response_schema=Stop)) == '{"place": "The place."}'
