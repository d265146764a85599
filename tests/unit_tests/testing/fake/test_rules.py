"""Every rule is listed with its evidence; and for any input, the rules pass it or refuse it."""

from __future__ import annotations

import ast
import contextlib
from copy import deepcopy
from typing import TYPE_CHECKING, Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.testing.__main__ import main
from langchain_gemini_tools.testing.fake.answer import Memory
from langchain_gemini_tools.testing.fake.ask import Ask, Backend, Model
from langchain_gemini_tools.testing.fake.brain import think
from langchain_gemini_tools.testing.fake.responses import Evidence, Refusal
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.testing.fake.rules.payload import read_message
from tests.fake_rules import FOLDER, list_rules, render_rules
from tests.unit_tests.testing.fake.requests import why_refused

if TYPE_CHECKING:
    import pytest


def test_rules_are_listed_with_their_words_and_their_evidence() -> None:
    found = {(rule.module, rule.evidence, rule.message) for rule in list_rules()}
    assert {
        ("generation", "reported", "the number of stop_sequences must not exceed 5"),
        ("generation", "reported", "thinking_config is not supported."),
        ("declarations", "documented", "…: … beside $ref …"),
        ("payload", "reported", "…: Cannot find field."),
        ("declarations", "reported", "missing field."),
        ("contents", "inferred", "The last turn is a call of the model"),
    } <= found
    recorded = {rule.module for rule in list_rules() if rule.evidence == "recorded"}
    assert recorded == {"contents", "interactions", "payload"}
    assert {rule.evidence for rule in list_rules()} == set(get_args(Evidence))


def test_no_module_and_no_refusal_is_left_out() -> None:
    modules = {rule.module for rule in list_rules()}
    words = {rule.message for rule in list_rules()}
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text())
        raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
        assert not raised or path.stem in modules | {"__init__"}, path.name
    assert len(words) > 80


def test_the_list_in_the_package_is_current() -> None:
    """`make figures` writes it."""
    text = (FOLDER.parent / "RULES.txt").read_text(encoding="utf-8")
    assert text == render_rules(list_rules()) + "\n"


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--rules"]) == 0
    printed = capsys.readouterr().out
    assert printed == render_rules(list_rules()) + "\n"
    assert "\n  recorded    models/… is not found for API version …" in printed


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
    assert why_refused(Ask(read_message(FULL), Model("gemini-3-flash", (3, 0)))) is None


@given(st.sampled_from(places(FULL)), values, models, backends)
def test_one_wrong_value_raises_nothing_but_a_refusal(
    path: tuple[Any, ...], value: Any, model: Model, backend: Backend
) -> None:
    with contextlib.suppress(Refusal):
        ask = Ask(read_message(replaced(path, value), backend=backend), model, backend)
        check(ask, Memory())
        think(ask)
