from __future__ import annotations

import functools
import json
import operator
import string
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk

from langchain_gemini_tools.prompted.prompt import (
    REASONS,
    PromptedTools,
    render_ai_message,
    render_tool_prompt,
)
from langchain_gemini_tools.prompted.request import (
    RAW_TEXT,
    ChunkParser,
    find_failure,
    parse_message,
)
from langchain_gemini_tools.prompted.tool_arguments import find_mismatch, sample_arguments
from langchain_gemini_tools.wire.tools.choice import ToolChoice
from langchain_gemini_tools.wire.tools.tool import Tool

Json = dict[str, Any]

CITY: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
TOOLS = PromptedTools({"get_weather": CITY, "now": None})
OSLO = 'TOOL_CALL: get_weather({"city": "Oslo"})'


def read(text: str, tools: PromptedTools = TOOLS) -> AIMessage:
    return parse_message(AIMessage(text, response_metadata={"finish_reason": "STOP"}), tools)[0]


def seen(message: AIMessage) -> Json:
    """What a user sees, without ids."""
    reasons = message.additional_kwargs.get(REASONS, {})
    return {
        "content": message.content,
        "calls": [(call["name"], call["args"]) for call in message.tool_calls],
        "invalid": [
            (call["name"], call["args"], reasons[call["id"]]) for call in message.invalid_tool_calls
        ],
        "raw": message.response_metadata.get(RAW_TEXT),
    }


def test_text_around_calls_is_content_and_calls_are_tool_calls() -> None:
    text = f"Let me see.\n{OSLO}\nAnd:\nTOOL_CALL: now({{}})\nThat is all."
    message = read(text)
    assert seen(message) == {
        "content": "Let me see.\nAnd:\nThat is all.",
        "calls": [("get_weather", {"city": "Oslo"}), ("now", {})],
        "invalid": [],
        "raw": text,
    }
    ids = [call["id"] for call in message.tool_calls]
    assert len(set(ids)) == 2
    assert all(ids)
    assert message.response_metadata["finish_reason"] == "STOP"


@pytest.mark.parametrize(
    "text",
    ["TOOL_CALL: now", "TOOL_CALL: now\nPlease wait.", "- TOOL_CALL: `now`", "TOOL_CALL: now."],
)
def test_a_call_without_arguments_may_be_a_name(text: str) -> None:
    assert seen(read(text))["calls"] == [("now", {})]


def test_a_name_is_not_a_call_with_arguments() -> None:
    (invalid,) = seen(read("TOOL_CALL: get_weather"))["invalid"]
    assert invalid[:2] == ("get_weather", "unusable call]: get_weather")


INVENTED = "TOOL_RESULT: get_weather #1\nSunny\nEND_TOOL_RESULT\n"


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"{OSLO}\n{INVENTED}TOOL_CALL: now({{}})", "", ["get_weather"]),
        (f"{OSLO}\n{INVENTED}It is sunny in Oslo.", "", ["get_weather"]),
        (f"Let me see.\n{INVENTED}It is sunny.", "Let me see.", []),
        (f"{INVENTED}TOOL_CALL: now({{}})", "", []),
        ("I never write TOOL_RESULT: myself.\n", "I never write TOOL_RESULT: myself.\n", []),
        ("\nTOOL_\nTOOL_RESULT", "\nTOOL_\nTOOL_RESULT", []),
        ("\n", "\n", []),
    ],
)
def test_nothing_after_a_result_that_the_model_invented_is_used(
    text: str, content: str, calls: list[str]
) -> None:
    message = read(text)
    assert message.text.rstrip() == content.rstrip()
    assert [call["name"] for call in message.tool_calls] == calls
    assert message.response_metadata[RAW_TEXT] == text
    parser = ChunkParser(TOOLS)
    pieces = [chunk for letter in text for chunk in parser.feed(AIMessageChunk(content=letter))]
    last = AIMessageChunk(content="", response_metadata={"finish_reason": "STOP"})
    whole = functools.reduce(operator.add, [*pieces, *parser.finish(last)])
    assert seen(whole) == seen(message)


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("get_wether({})", "get_wether", "There is no tool named 'get_wether'. The tools are: get"),
        ("get_weather({})", "get_weather", "fit get_weather. 'city' is a required property."),
        (
            'get_weather({"city": "Oslo", "days": "3"})',
            "get_weather",
            "days: '3' is not of type 'integer'. It was not executed.",
        ),
        ('now({"zone": "UTC"})', "now", "It takes no arguments: 'zone'."),
        ('get_weather({"city": "Os', "get_weather", "The text ended in the middle of this call"),
        ('get_weather({"city": })', "get_weather", "cannot be read"),
        ("{}", "unknown_tool", "cannot be read"),
    ],
    ids=["undeclared", "missing", "wrong type", "arguments of none", "cut", "broken", "nothing"],
)
def test_what_cannot_be_executed_is_an_invalid_call_with_a_reason(
    text: str, name: str, reason: str
) -> None:
    message = read(f"TOOL_CALL: {text}")
    [invalid] = message.invalid_tool_calls
    assert message.tool_calls == []
    assert invalid["name"] == name
    assert invalid["id"]
    assert str(invalid["args"]).startswith("unusable call]: ")
    assert text in str(invalid["args"])
    assert reason in str(invalid["error"])
    assert message.additional_kwargs[REASONS] == {invalid["id"]: invalid["error"]}


def test_a_declared_tool_that_is_not_allowed_now_is_not_called() -> None:
    tools = PromptedTools(TOOLS.schemas, ToolChoice("ANY", ("now",)))
    [invalid] = read(OSLO, tools).invalid_tool_calls
    assert invalid["error"] == "get_weather may not be called now. You may call: now."


def test_with_the_choice_none_text_stays_text() -> None:
    message = read(f"I would write\n{OSLO}", PromptedTools(TOOLS.schemas, ToolChoice("NONE")))
    assert message.content == f"I would write\n{OSLO}"
    assert message.tool_calls == []
    assert message.response_metadata == {"finish_reason": "STOP"}


def test_arguments_nested_too_deep_are_an_invalid_call() -> None:
    deep = "[" * 50_000 + "]" * 50_000
    message = read(f'TOOL_CALL: get_weather({{"city": "Oslo", "x": {deep}}})')
    assert message.tool_calls == []
    assert len(message.invalid_tool_calls) == 1


@pytest.mark.parametrize(
    ("text", "choice", "failure"),
    [
        (OSLO, ToolChoice("ANY"), None),
        ("Hello.", ToolChoice(), None),
        ("Hello.", ToolChoice("ANY"), "It had to call a tool. There is no TOOL_CALL: line in it."),
        (
            "Hello.",
            ToolChoice("ANY", ("now",)),
            "It had to call now. There is no TOOL_CALL: line in it.",
        ),
        (
            OSLO,
            ToolChoice("ANY", ("now",)),
            "It had to call now. get_weather may not be called now. You may call: now.",
        ),
        (
            'TOOL_CALL: now({"a": 1})',
            ToolChoice(),
            "The arguments do not fit now. It takes no arguments: 'a'. It was not executed.",
        ),
        (f'{OSLO}\nTOOL_CALL: now({{"a": 1}})', ToolChoice("ANY"), None),
        (
            "\n".join([OSLO] * 300),
            ToolChoice("ANY", ("now",)),
            "It had to call now. get_weather may not be called now. You may call: now.",
        ),
        (
            "\n".join(f'TOOL_CALL: now({{"a{number}": 1}})' for number in range(300)),
            ToolChoice(),
            " ".join(
                f"The arguments do not fit now. It takes no arguments: 'a{number}'. It was not "
                "executed."
                for number in range(5)
            )
            + " And 295 more.",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_response_fails_if_it_is_not_what_was_requested(
    text: str, choice: ToolChoice, failure: str | None
) -> None:
    _, calls = parse_message(AIMessage(text), PromptedTools(TOOLS.schemas, choice))
    assert find_failure(calls, choice) == failure


ANSWERS = [
    "Hello to you.",
    OSLO,
    f"Let me see.\n\n{OSLO}\nTOOL_CALL: now({{}})\n\nWait.",
    'TOOL_CALL: get_weather({"city": "a) TOOL_CALL: now({})"})',
    f"{OSLO}\nTOOL_CALL: get_wether({{}})\nTOOL_CALL: now(",
    "```tool_code\nprint(get_weather(city='Oslo'))\n```",
    "Sure.\nTOOL_CALL: get_weather({})",
]


@pytest.mark.parametrize("mode", ["AUTO", "ANY", "NONE"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_stream_adds_up_to_the_whole_wherever_it_is_split(answer: str, mode: Any) -> None:
    tools = PromptedTools(TOOLS.schemas, ToolChoice(mode))
    whole = seen(read(answer, tools))
    for size in (1, 2, 3, 5, 8, 13):
        pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
        chunks = _stream(pieces, tools)
        merged = functools.reduce(operator.add, chunks)
        assert seen(merged) == whole
        indices = [call["index"] for chunk in chunks for call in chunk.tool_call_chunks]
        assert [index % 1000 for index in indices if index is not None] == list(range(len(indices)))


def test_thought_blocks_stay_blocks_and_text_blocks_are_parsed() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "index": "lc_part_1"}
    text = {"type": "text", "text": f"Well.\n{OSLO}", "index": "lc_part_2"}
    message, _ = parse_message(AIMessage([thought, text]), TOOLS)
    assert message.content == [thought, text | {"text": "Well."}]
    assert [call["args"] for call in message.tool_calls] == [{"city": "Oslo"}]
    pieces = [[thought], [text | {"text": "We"}], [text | {"text": f"ll.\n{OSLO}"}]]
    merged: Any = functools.reduce(operator.add, _stream(pieces, TOOLS))
    assert merged.content == message.content


def test_a_native_function_call_is_kept() -> None:
    reader = ChunkParser(TOOLS)
    call: Any = {"name": "f", "args": "{}", "id": "1", "index": 0, "type": "tool_call_chunk"}
    chunks = reader.feed(AIMessageChunk(content=f"{OSLO}\n", tool_call_chunks=[call]))
    merged = functools.reduce(operator.add, [*chunks, *reader.finish(AIMessageChunk(content=""))])
    assert [each["name"] for each in merged.tool_calls] == ["get_weather", "f"]


def test_text_streams_unless_a_required_call_is_still_missing() -> None:
    pieces = ["Let me ", "see.", f"\n{OSLO}\n", "Done."]

    def shown(choice: ToolChoice) -> list[str]:
        reader = ChunkParser(PromptedTools(TOOLS.schemas, choice))
        return ["".join(c.text for c in reader.feed(AIMessageChunk(content=p))) for p in pieces]

    assert shown(ToolChoice()) == ["Let me", " see.", "", "\nDone."]
    assert shown(ToolChoice("ANY")) == ["", "", "Let me see.", "\nDone."]


def _stream(pieces: list[Any], tools: PromptedTools) -> list[AIMessageChunk]:
    reader = ChunkParser(tools)
    chunks = [chunk for piece in pieces for chunk in reader.feed(AIMessageChunk(content=piece))]
    return [*chunks, *reader.finish(AIMessageChunk(content="", chunk_position="last"))]


@pytest.mark.parametrize("name", ["get_weather", "nothing"])
def test_a_model_that_repeats_its_call_is_parsed_in_linear_time(name: str) -> None:
    def steps(count: int) -> int:
        made = 0

        def see(*_: object) -> None:
            nonlocal made
            made += 1

        answer = f'TOOL_CALL: {name}({{"city": "Oslo"}})\n' * count
        sys.setprofile(see)
        try:
            read(answer)
        finally:
            sys.setprofile(None)
        return made

    steps(1)  # what is loaded at first use
    assert steps(200) < 3 * steps(100)


# Any tools, any arguments

NAMES = st.text(string.ascii_letters + string.digits + "_-.ü ", min_size=1, max_size=12).filter(
    lambda name: name[0].isalpha() and name == name.strip()
)
KEYS = st.text(min_size=1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(NAMES, st.dictionaries(KEYS, VALUES, max_size=4)), min_size=1, max_size=4
)


@given(CALLS, st.text(string.ascii_letters + " .,", max_size=20))
def test_any_tools_and_any_arguments_survive_a_round_trip(
    calls: list[tuple[str, Json]], text: str
) -> None:
    written = AIMessage(
        text,
        tool_calls=[
            {"name": name, "args": args, "id": f"{n}"} for n, (name, args) in enumerate(calls)
        ],
    )
    tools = PromptedTools({name: {"type": "object"} for name, _ in calls})
    message = read(render_ai_message(written).text, tools)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
    assert message.invalid_tool_calls == []
    assert message.content == text.strip()


TYPES: list[Json] = [
    {"type": "string", "minLength": 9},
    {"type": "string", "format": "date", "maxLength": 12},
    {"type": "integer", "minimum": 5, "maximum": 6},
    {"type": "integer", "exclusiveMinimum": -4, "exclusiveMaximum": 0},
    {"type": "number", "multipleOf": 0.5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    {"type": "number", "minimum": -0.5, "exclusiveMaximum": 0},
    {"type": "number", "exclusiveMaximum": 0},
    {"type": "boolean"},
    {"enum": ["x", 2]},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
]
SCHEMAS = st.recursive(
    st.sampled_from(TYPES),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 2}, inner)
        | st.builds(
            lambda named: {"type": "object", "properties": named, "required": [*named]},
            st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=3))
def test_the_example_of_a_prompt_is_a_valid_call_of_the_users_tool(properties: Json) -> None:
    schema: Json = {"type": "object", "properties": properties, "required": [*properties]}
    assert find_mismatch(sample_arguments(schema), schema) is None
    prompt = render_tool_prompt([Tool("f", parameters=schema)], ToolChoice())
    example = f"TOOL_CALL: f({json.dumps(sample_arguments(schema), ensure_ascii=False)})"
    assert example in prompt.splitlines()
