from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake.ask import Ask, Model
from langchain_gemini_tools.testing.fake.brain import places_in, think
from langchain_gemini_tools.testing.fake.prompted import read_prompted
from langchain_gemini_tools.wire.tools.bind import bind_tools
from tests.unit_tests.prompted.test_prompt import get_weather, now
from tests.unit_tests.testing.fake.requests import (
    GEMINI_2,
    WEATHER,
    ask,
    call,
    model,
    response,
    user,
)

MAGIC = {
    "name": "magic_function",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"input": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["input"],
    },
}
NO_ARGUMENTS = {"name": "magic_function_no_args"}
ANSWER = {
    "name": "final_answer",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}
TOOLS = [{"functionDeclarations": [*WEATHER["functionDeclarations"], MAGIC, NO_ARGUMENTS]}]


def calls(*contents: dict[str, Any], mode: str | None = None, **fields: Any) -> list[Any]:
    if mode is not None:
        fields["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    answer = think(ask(*contents, **({"tools": TOOLS} | fields)))
    return [
        (part["functionCall"]["name"], part["functionCall"]["args"])
        for part in answer.parts
        if "functionCall" in part
    ]


def text(*contents: dict[str, Any], **fields: Any) -> str:
    return "".join(part.get("text", "") for part in think(ask(*contents, **fields)).parts)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("What is the weather in Oslo?", [("get_weather", {"city": "Oslo"})]),
        (
            "What is the weather in San Francisco, CA?",
            [("get_weather", {"city": "San Francisco, CA"})],
        ),
        (
            "Weather in Oslo and Rome?",
            [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})],
        ),
        ("What is the value of magic_function(3)?", [("magic_function", {"input": 3})]),
        ("Use magic_function_no_args() please.", [("magic_function_no_args", {})]),
        ("Hello!", []),
    ],
)
def test_a_function_is_called_when_the_prompt_is_about_it(prompt: str, expected: Any) -> None:
    assert calls(user(prompt)) == expected


def test_the_subject_of_a_function_may_be_singular_or_plural() -> None:
    tools = [{"functionDeclarations": [{"name": "search_flights"}, {"name": "get_news"}]}]
    assert calls(user("Is there a new flight to Oslo?"), tools=tools) == [("search_flights", {})]
    assert calls(user("What is in the news?"), tools=tools) == [("get_news", {})]


def test_none_calls_nothing_and_any_always_calls() -> None:
    assert calls(user("Weather in Oslo?"), mode="NONE") == []
    assert calls(user("Hello!"), mode="ANY") == [("magic_function_no_args", {})]


def test_any_keeps_to_the_allowed_names() -> None:
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["magic_function"]}}
    assert calls(user("Hello 5!"), toolConfig=config) == [("magic_function", {"input": 5})]


def test_after_a_response_any_prefers_what_was_not_called_yet() -> None:
    tools = [{"functionDeclarations": [*WEATHER["functionDeclarations"], ANSWER]}]
    question = user("Weather in Oslo?")
    asked = calls(question, tools=tools, mode="ANY")
    called, answered = model(call("get_weather")), user(response("get_weather"))
    assert [name for name, _ in asked] == ["get_weather"]
    assert [name for name, _ in calls(question, called, answered, tools=tools, mode="ANY")] == [
        "final_answer"
    ]


def test_a_text_quotes_the_responses() -> None:
    sunny = response("get_weather", response={"output": "sunny"})
    failed = response("get_weather", response={"error": "station offline"})
    said = text(
        user("Weather in Oslo and Rome?"),
        model(call("get_weather"), call("get_weather")),
        user(sunny, failed),
        tools=TOOLS,
    )
    assert "sunny" in said
    assert "station offline" in said
    assert "you" in said


def test_a_stop_sequence_cuts_the_text() -> None:
    assert "you" in text(user("hi"))
    assert "you" not in text(user("hi"), generationConfig={"stopSequences": ["you"]})
    assert "you" in text(user("hi"), generationConfig={"stopSequences": [""]})


def test_a_limit_cuts_the_text_and_says_so() -> None:
    answer = think(ask(generationConfig={"maxOutputTokens": 2}))
    assert answer.parts == [{"text": "Hello! H"}]
    assert answer.finish_reason == "MAX_TOKENS"


def test_json_output_follows_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "setup": {"type": "string"},
            "rating": {"anyOf": [{"type": "null"}, {"type": "integer", "maximum": 5}]},
            "kind": {"enum": ["pun", "riddle"]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 2},
            "more": {"type": "string"},
        },
        "required": ["setup", "rating", "kind", "tags"],
        "$defs": {"Tag": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
    }
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert json.loads(text(user("Tell me a riddle, rated 9."), generationConfig=config)) == {
        "setup": "The setup.",
        "rating": 5,
        "kind": "riddle",
        "tags": [{}, {}],
    }


def test_json_output_without_a_schema_has_the_quoted_words() -> None:
    config = {"responseMimeType": "application/json"}
    said = text(user("A joke with 'setup' and 'punchline' keys."), generationConfig=config)
    assert json.loads(said) == {"setup": "The setup.", "punchline": "The punchline."}


def test_thoughts_are_shown_when_asked_for_and_counted_always() -> None:
    shown = think(ask(generationConfig={"thinkingConfig": {"includeThoughts": True}}))
    assert [part.get("thought", False) for part in shown.parts] == [True, False]
    assert think(ask()).thoughts_tokens > 0
    off = {"thinkingConfig": {"thinkingBudget": 0}}
    assert think(ask(model=GEMINI_2, generationConfig=off)).thoughts_tokens == 0


@pytest.mark.parametrize(
    ("prompt", "places"),
    [
        ("weather in Oslo, Rome and New York?", ["Oslo", "Rome", "New York"]),
        ("What time is it in San Francisco, CA?", ["San Francisco, CA"]),
        ("what is in there?", []),
    ],
)
def test_places_are_found(prompt: str, places: list[str]) -> None:
    assert places_in(prompt) == places


@pytest.mark.parametrize(
    ("name", "is_answered"), [("gemini-2.5-flash", True), ("gemini-3.5-flash", False)]
)
def test_gemini_3_says_nothing_to_function_responses_beside_text(
    name: str, is_answered: bool
) -> None:
    mixed = ask(user("a"), model(call()), user(response(), "And?"), model=name)
    assert bool(think(mixed).parts) is is_answered
    assert think(ask(user("a"), model(call()), user(response()), user("And?"), model=name)).parts


# A Gemma that parses its tools from a prompt that the package wrote.

GEMMA = "gemma-3-27b-it"


class Stop(BaseModel):
    place: str
    hours: float | None = None


class Route(BaseModel):
    """A route."""

    stops: list[Stop] = Field(min_length=2)
    name: str
    kind: str | int = "x"


def gemma_asked(question: str, *tools: Any, config: Any = None, **options: Any) -> Ask:
    body: Any = ChatGemini(model=GEMMA).preview(question, tools=tools, **options).body
    return Ask(body | ({"generationConfig": config} if config else {}), Model(GEMMA, gemma=3))


def text_of(question: Ask) -> str:
    return "".join(part["text"] for part in think(question).parts)


def test_tools_are_parsed_from_the_prompt_as_they_were_bound() -> None:
    twin = read_prompted(gemma_asked("Hi", Route))
    assert twin is not None
    [declaration] = twin.declarations
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
def test_prompted_calls_follow_the_choice(choice: Any, answer: str) -> None:
    question = gemma_asked("Weather in Oslo and Rome?", get_weather, now, tool_choice=choice)
    assert text_of(question) == answer


def test_prompted_calls_are_truncated_like_text() -> None:
    answer = think(gemma_asked("Weather in Oslo?", get_weather, config={"maxOutputTokens": 6}))
    assert (answer.parts, answer.finish_reason) == (
        [{"text": "TOOL_CALL: get_weather({"}],
        "MAX_TOKENS",
    )


def test_json_is_returned_if_the_prompt_asks_for_it() -> None:
    assert text_of(gemma_asked("Route 66", response_schema=Stop)) == '{"place": "The place."}'


def test_numbers_are_multiples_and_formats_have_samples() -> None:
    fields = {
        "pages": {"type": "integer", "multipleOf": 7},
        "length": {"type": "string", "format": "duration"},
        "host": {"type": "string", "format": "ipv4"},
    }
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    tool = {"name": "print_book", "parametersJsonSchema": schema}
    ((_, args),) = calls(user("Print the book"), tools=[{"functionDeclarations": [tool]}])
    assert args == {"pages": 7, "length": "P1D", "host": "192.0.2.1"}
