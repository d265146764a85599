"""Options of the constructor, `model_kwargs`, `bind` and the call: which of two is sent."""

from __future__ import annotations

import copy
import json
import pickle
from functools import partial
from typing import Any, ClassVar

import pytest
from google.genai import types
from langchain_core.load import dumps, loads
from pydantic import SecretStr, ValidationError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.binding import GeminiBinding
from langchain_gemini_tools.errors import InvalidOptionError

Json = dict[str, Any]

GEMINI_2 = "gemini-2.5-flash"
GEMINI_3 = "gemini-3-flash-preview"
JSON = "application/json"
A: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
B: Json = {"type": "object", "properties": {"b": {"type": "string"}}}
OF_B = {"responseMimeType": JSON, "responseJsonSchema": B}


def thinking(**config: Any) -> Json:
    return {"thinkingConfig": config}


def every(options: Json) -> Json:
    return {"model_kwargs": options}


PAIRS = [
    pytest.param(
        GEMINI_2,
        {"thinking_budget": 1024},
        {"thinking_config": {"thinking_budget": 0}},
        thinking(thinkingBudget=0),
        id="a config over a budget",
    ),
    pytest.param(
        GEMINI_3,
        {"reasoning_effort": "low"},
        {"thinking_config": {"thinkingLevel": "high"}},
        thinking(thinkingLevel="high"),
        id="a config over an effort",
    ),
    pytest.param(
        GEMINI_3,
        {"reasoning_effort": "low"},
        {"thinking_config": types.ThinkingConfig(thinking_budget=5)},
        thinking(thinkingBudget=5),
        id="a config of the SDK over an effort",
    ),
    pytest.param(
        GEMINI_3,
        {"thinking_budget": 5},
        {"thinking_config": {"thinking_level": "newest"}},
        thinking(thinkingLevel="newest"),
        id="a level that is new over a budget",
    ),
    pytest.param(
        GEMINI_3,
        {"thinking_config": {"thinking_level": "newest", "newField": 1}},
        {"thinking_budget": 5},
        thinking(newField=1, thinkingBudget=5),
        id="a budget over a level that is new",
    ),
    pytest.param(
        GEMINI_3,
        {"include_thoughts": True},
        {"thinking_config": {"include_thoughts": False}},
        thinking(includeThoughts=False),
        id="a config over thoughts",
    ),
    pytest.param(
        GEMINI_2,
        {"thinking_config": {"thinking_budget": 100}},
        {"reasoning_effort": "high"},
        thinking(thinkingBudget=24576),
        id="an effort over a config on 2",
    ),
    pytest.param(
        GEMINI_3,
        {"thinking_config": {"thinking_budget": 100}},
        {"reasoning_effort": "high"},
        thinking(thinkingLevel="high"),
        id="an effort over a config",
    ),
    pytest.param(
        GEMINI_3,
        {"thinking_config": {"thinking_budget": 100}},
        {"thinking_config": None},
        None,
        id="none over a config",
    ),
    pytest.param(
        GEMINI_3,
        {"reasoning_effort": "low"},
        {"thinking_budget": None},
        thinking(thinkingLevel="low"),
        id="none says nothing of an effort",
    ),
    pytest.param(
        GEMINI_3,
        {"temperature": 0.1, "reasoning_effort": "low"},
        {
            "generation_config": types.GenerationConfig(
                temperature=0.5,
                stop_sequences=["x"],
                thinking_config=types.ThinkingConfig(thinking_budget=5),
            )
        },
        {"temperature": 0.5, "stopSequences": ["x"], **thinking(thinkingBudget=5)},
        id="a generation config over single options",
    ),
    pytest.param(
        GEMINI_3,
        {"response_schema": A},
        {"generation_config": {"responseSchema": B, "newField": 1}},
        {**OF_B, "newField": 1},
        id="a generation config over a schema",
    ),
    pytest.param(
        GEMINI_3, {"response_schema": A}, {"response_format": B}, OF_B, id="a format over a schema"
    ),
    pytest.param(
        GEMINI_3,
        {"response_schema": A},
        {"response_format": {"type": "text"}},
        None,
        id="text over a schema",
    ),
    pytest.param(
        GEMINI_3,
        {"response_mime_type": JSON},
        {"response_format": {"type": "text"}},
        None,
        id="text over JSON",
    ),
    pytest.param(
        GEMINI_3,
        {"response_schema": A},
        {"response_mime_type": "text/plain"},
        {"responseMimeType": "text/plain"},
        id="a type over a schema",
    ),
    pytest.param(
        GEMINI_3,
        {"response_schema": A},
        {"response_schema": B, "response_mime_type": "text/x.enum"},
        {"responseMimeType": "text/x.enum", "responseJsonSchema": B},
        id="a schema with its type over a schema",
    ),
]


@pytest.mark.parametrize(("model", "farther", "nearer", "sent"), PAIRS)
def test_the_nearer_setting_is_sent_under_whatever_name(
    model: str, farther: Json, nearer: Json, sent: Json | None
) -> None:
    by_call = ChatGemini(model=model, **farther).preview("Hi", **nearer)
    by_keywords = ChatGemini(model=model, **farther, **every(nearer)).preview("Hi")
    over_keywords = ChatGemini(model=model, **every(farther)).preview("Hi", **nearer)
    for preview in (by_call, by_keywords, over_keywords):
        assert preview.body.get("generationConfig") == sent


@pytest.mark.parametrize(
    ("bound", "said", "sent"),
    [
        ({"thinking_budget": 5}, {"reasoning_effort": "low"}, thinking(thinkingLevel="low")),
        ({"reasoning_effort": "low"}, {"thinking_budget": 5}, thinking(thinkingBudget=5)),
        (
            {"thinking_level": types.ThinkingLevel.LOW},
            {"thinking_budget": 5},
            thinking(thinkingBudget=5),
        ),
        (
            {"thinking_config": {"thinking_level": "low"}},
            {"thinking_budget": 5},
            thinking(thinkingBudget=5),
        ),
        (
            {"thinking_config": types.ThinkingConfig(thinking_budget=5)},
            {"thinking_level": "low"},
            thinking(thinkingLevel="low"),
        ),
        (
            {"generation_config": {"thinkingConfig": {"thinkingLevel": "low"}, "topK": 1}},
            {"thinking_config": {"thinkingBudget": 5}},
            {"topK": 1, **thinking(thinkingBudget=5)},
        ),
        ({"generation_config": {"topK": 1}}, {"top_k": 2}, {"topK": 2}),
        ({"top_k": 2}, {"generation_config": {"topK": 1}}, {"topK": 1}),
        ({"response_schema": A}, {"response_format": B}, OF_B),
        ({"response_format": A}, {"response_schema": B}, OF_B),
        ({"stop": ["b"]}, {"stop_sequences": ["c"]}, {"stopSequences": ["c"]}),
        ({"stop_sequences": ["b"]}, {"stop": ["c"]}, {"stopSequences": ["c"]}),
        ({"stop": ["b"]}, {"stop": ["c"]}, {"stopSequences": ["c"]}),
        ({"stop": ["b"]}, {}, {"stopSequences": ["b"]}),
    ],
)
def test_a_call_beats_what_is_bound(bound: Json, said: Json, sent: Json) -> None:
    binding: Any = ChatGemini(model=GEMINI_3).bind(**bound)
    given = {**binding.kwargs, **said}  # as a binding calls what it binds
    assert binding.bound.preview("Hi", **given).body["generationConfig"] == sent


def test_generation_config_of_every_call_gives_way_to_a_call() -> None:
    config = {"generation_config": {"temperature": 0.1, "seed": 7}}
    chat = ChatGemini(model=GEMINI_3, **every(config))
    body = chat.preview("Hi", temperature=0.9).body
    assert body["generationConfig"] == {"temperature": 0.9, "seed": 7}


TWO_EFFORTS: Json = {"thinking_budget": 5, "thinking_level": "low"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param(TWO_EFFORTS, {}, id="fields"),
        pytest.param({"thinking_config": TWO_EFFORTS}, {}, id="a field's config"),
        pytest.param(
            {"thinking_config": {"thinkingLevel": "low"}, "thinking_budget": 5}, {}, id="both"
        ),
        pytest.param({}, {"thinking_config": TWO_EFFORTS}, id="a call's config"),
        pytest.param({}, TWO_EFFORTS, id="a call"),
        pytest.param({}, dict(reversed(TWO_EFFORTS.items())), id="a call, the other way round"),
        pytest.param(
            {},
            {"thinking_level": "low", "thinking_config": {"thinkingBudget": 5}},
            id="a call's both",
        ),
        pytest.param(
            {"thinking_budget": 9},
            {"reasoning_effort": "low", "thinking_budget": 5},
            id="over a field",
        ),
        pytest.param(every(dict(reversed(TWO_EFFORTS.items()))), {}, id="every call"),
    ],
)
def test_a_level_beside_a_budget_applies_with_a_warning(fields: Json, said: Json) -> None:
    chat = ChatGemini(model=GEMINI_3, **fields)
    with pytest.warns(UserWarning, match="'thinking_level' takes precedence"):
        body = chat.preview("Hi", **said).body
    assert body["generationConfig"] == thinking(thinkingLevel="low")


def test_a_level_that_is_bound_beside_a_budget_applies_with_a_warning() -> None:
    argon = ChatGemini(model="gemini-4-argon")  # which rejects a budget
    options: Json = {"thinking_level": "low", "thinking_budget": 5}
    for bind in (argon.bind, argon.bind(seed=1).bind, partial(argon.bind_tools, [])):
        with pytest.warns(UserWarning, match="'thinking_level' takes precedence"):
            bound = bind(**options)
        assert bound.preview("Hi").body["generationConfig"]["thinkingConfig"] == {
            "thinkingLevel": "low"
        }


def test_bound_efforts_look_as_they_were_given() -> None:
    """Tracers, caches and files receive plain values."""
    given: Json = {"thinking_level": "low", "thinking_config": {"include_thoughts": True}}
    bound = ChatGemini(model=GEMINI_3).bind(**given)
    assert (bound.kwargs, repr(bound.kwargs), json.dumps(bound.kwargs)) == (
        given,
        repr(given),
        json.dumps(given),
    )
    ours: Json = {"allowed_objects": [ChatGemini, GeminiBinding]}
    loaded = loads(dumps(bound), valid_namespaces=["langchain_gemini_tools"], **ours)
    for again in (bound, pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound), loaded):
        assert again.preview("Hi", thinking_budget=5).body["generationConfig"] == thinking(
            includeThoughts=True, thinkingBudget=5
        )


def test_a_level_beside_a_budget_applies_on_models_with_budgets_only() -> None:
    with pytest.warns(UserWarning, match="'thinking_budget' is ignored"):
        body = ChatGemini(model=GEMINI_2, **TWO_EFFORTS).preview("Hi").body
    assert body["generationConfig"] == thinking(thinkingBudget=1024)
    with pytest.warns(UserWarning, match="'thinking_budget' is ignored"):
        body = ChatGemini(model=GEMINI_2).preview("Hi", **TWO_EFFORTS).body
    assert body["generationConfig"] == thinking(thinkingBudget=1024)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"thinking_level": "low"}, {"reasoning_effort": "low"}),
        ({"api_key": "k"}, {"google_api_key": SecretStr("k")}),
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
    ],
)
def test_one_value_under_two_names_is_fine_and_two_values_are_not(
    first: Json, second: Json
) -> None:
    ChatGemini(model=GEMINI_3, **first, **second)
    other: Json = dict.fromkeys(second, 7)
    with pytest.raises(ValidationError, match="are names of the same option"):
        ChatGemini(model=GEMINI_3, **first, **other)


def test_two_values_under_two_names_cannot_be_bound() -> None:
    chat = ChatGemini(model=GEMINI_3)
    assert chat.bind(max_tokens=5, max_output_tokens=5).preview("Hi").body["generationConfig"]
    with pytest.raises(InvalidOptionError, match="'max_tokens' and 'max_output_tokens' are names"):
        chat.bind(max_tokens=5, max_output_tokens=6)


@pytest.mark.parametrize("name", ["thinking_config", "generation_config"])
def test_an_invalid_config_is_rejected_with_its_name(name: str) -> None:
    said: Json = {name: "high"}
    with pytest.raises(InvalidOptionError, match=f"{name}='high'"):
        ChatGemini(model=GEMINI_3).preview("Hi", **said)


class Fixed(ChatGemini):
    """A model in which a field has become a class variable."""

    top_k: ClassVar[int | None] = 7  # type: ignore[misc]


def test_an_option_may_be_a_class_variable_of_a_subclass() -> None:
    body = Fixed(model=GEMINI_2, api_key=SecretStr("k")).preview("Hi").body
    assert body["generationConfig"] == {"topK": 7}
