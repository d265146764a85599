"""Whatever comes in, the rules answer with a refusal or not at all: they never break."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.brain import think
from langchain_gemini_tools.testing.fake.memory import Memory
from langchain_gemini_tools.testing.fake.models import Backend, Model
from langchain_gemini_tools.testing.fake.refusal import Refusal
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.testing.fake.rules.payload import read_message

SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Rome"]},
        "days": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "next": {"$ref": "#/$defs/Next"},
    },
    "required": ["city", "days"],
    "$defs": {"Next": {"type": "array", "items": {"$ref": "#/$defs/Next"}}},
}
FULL: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Weather in Oslo?"}]},
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"id": "1", "name": "f", "args": {"city": "Oslo"}},
                    "thoughtSignature": SKIP,
                }
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "1",
                        "name": "f",
                        "response": {"output": 1},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
                    }
                },
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "f", "parametersJsonSchema": SCHEMA},
                {
                    "name": "g",
                    "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
                },
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]},
        "includeServerSideToolInvocations": True,
    },
    "generationConfig": {
        "temperature": 0.5,
        "stopSequences": ["x"],
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside."""
    match value:
        case dict():
            items = list(value.items())
        case list():
            items = list(enumerate(value))
        case _:
            items = []
    inside = [place for key, item in items for place in places(item, (*path, key))]
    return [path, *inside] if path else inside


def replaced(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    body = deepcopy(FULL)
    target = body
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return body


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "type", "name", "$ref", "items", "anyOf", "enum", "x"]),
            children,
            max_size=3,
        )
    ),
    max_leaves=6,
)
models = st.sampled_from([Model("gemini-3-flash", (3, 0)), Model("gemini-2.5-flash", (2, 5))])
backends: st.SearchStrategy[Backend] = st.sampled_from(["gemini", "vertex"])


def test_the_request_is_a_good_one_to_begin_with() -> None:
    check(Ask(read_message(FULL), Model("gemini-3-flash", (3, 0))))


@given(st.sampled_from(places(FULL)), values, models, backends)
def test_one_wrong_value_breaks_nothing(
    path: tuple[Any, ...], value: Any, model: Model, backend: Backend
) -> None:
    with contextlib.suppress(Refusal):
        ask = Ask(read_message(replaced(path, value), backend=backend), model, backend)
        check(ask, Memory())
        think(ask)
