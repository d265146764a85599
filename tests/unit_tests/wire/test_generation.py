from __future__ import annotations

import enum
from typing import Any

import pytest
from google.genai import types
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidOptionError
from tests.rotation import rotated
from tests.unit_tests.wire.requests import GEMINI_2, GEMINI_3, Json, sent

GEMINI_2_0 = "gemini-2.0-flash"
JSON = "application/json"
TEXT = {"type": "string"}


class Place(BaseModel):
    city: str


class Town(TypedDict):
    city: str


class Thinking(BaseModel):
    """Shaped as the SDK's own `types.ThinkingConfig`."""

    thinking_budget: int | None = Field(default=None, serialization_alias="thinkingBudget")
    include_thoughts: bool | None = Field(default=None, serialization_alias="includeThoughts")


class Level(enum.Enum):
    HIGH = "MEDIA_RESOLUTION_HIGH"


def config(model: str = GEMINI_3, **options: Any) -> Json:
    body = sent([HumanMessage("Look!")], model, **options)
    return body.get("generationConfig", {})  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"temperature": 0}, {"temperature": 0}, id="zero is a value"),
        pytest.param({"temperature": None}, {}, id="None is none"),
        pytest.param({"top_p": 0.5, "top_k": 3}, {"topP": 0.5, "topK": 3}, id="sampling"),
        pytest.param({"max_tokens": 9}, {"maxOutputTokens": 9}, id="max_tokens"),
        pytest.param({"max_output_tokens": 9}, {"maxOutputTokens": 9}, id="max_output_tokens"),
        pytest.param({"seed": 0}, {"seed": 0}, id="seed"),
        pytest.param(
            {"presence_penalty": 0.1, "frequency_penalty": 0.2},
            {"presencePenalty": 0.1, "frequencyPenalty": 0.2},
            id="penalties",
        ),
        pytest.param({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}, id="stop"),
        pytest.param({"stop": []}, {}, id="no stop"),
        pytest.param({"stop_sequences": "a"}, {"stopSequences": ["a"]}, id="one stop"),
        pytest.param({"n": 1}, {}, id="one candidate"),
        pytest.param(
            {"response_modalities": ["TEXT", "IMAGE"]},
            {"responseModalities": ["TEXT", "IMAGE"]},
            id="modalities",
        ),
        pytest.param(
            {"response_modalities": ["text", "Image"]},
            {"responseModalities": ["TEXT", "IMAGE"]},
            id="modalities, in lower case",
        ),
        pytest.param(
            {"response_logprobs": True, "logprobs": 2},
            {"responseLogprobs": True, "logprobs": 2},
            id="logprobs",
        ),
        pytest.param(
            {"logprobs": 2}, {"responseLogprobs": True, "logprobs": 2}, id="logprobs alone"
        ),
        pytest.param(
            {"media_resolution": "low"},
            {"mediaResolution": "MEDIA_RESOLUTION_LOW"},
            id="resolution",
        ),
        pytest.param(
            {"media_resolution": Level.HIGH},
            {"mediaResolution": "MEDIA_RESOLUTION_HIGH"},
            id="resolution, an enum",
        ),
        pytest.param(
            {"max_tokens": 9, "generation_config": {"top_k": 3, "maxOutputTokens": 5}, "top_k": 1},
            {"topK": 1, "maxOutputTokens": 5},
            id="the API's own names in either spelling, and what is said last",
        ),
    ],
)
def test_options_become_the_generation_config(options: Json, expected: Json) -> None:
    assert config(**options) == expected


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        pytest.param(GEMINI_3, {"thinking_level": "LOW"}, {"thinkingLevel": "low"}, id="a level"),
        pytest.param(
            GEMINI_3, {"reasoning_effort": "high"}, {"thinkingLevel": "high"}, id="an effort"
        ),
        pytest.param(
            GEMINI_2, {"reasoning_effort": "low"}, {"thinkingBudget": 1024}, id="an effort on 2"
        ),
        pytest.param(GEMINI_2, {"thinking_budget": 0}, {"thinkingBudget": 0}, id="a budget"),
        pytest.param(
            GEMINI_3, {"include_thoughts": False}, {"includeThoughts": False}, id="thoughts"
        ),
        pytest.param(
            GEMINI_3,
            {"thinking_config": {"thinking_budget": 5, "includeThoughts": True}},
            {"thinkingBudget": 5, "includeThoughts": True},
            id="a config, in either spelling",
        ),
        pytest.param(
            GEMINI_3,
            {"thinking_config": Thinking(thinking_budget=5), "include_thoughts": True},
            {"thinkingBudget": 5, "includeThoughts": True},
            id="a config of the SDK",
        ),
    ],
)
def test_thinking_is_requested_as_the_model_accepts_it(
    model: str, options: Json, expected: Json
) -> None:
    assert config(model, **options) == {"thinkingConfig": expected}


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    ("options", "has_schema"),
    [
        pytest.param({"response_mime_type": JSON}, False, id="a type"),
        pytest.param({"response_format": {"type": "json_object"}}, False, id="json_object"),
        pytest.param({"response_schema": SCHEMA}, True, id="a schema"),
        pytest.param({"response_schema": Place}, True, id="pydantic"),
        pytest.param({"response_schema": Town}, True, id="typed dict"),
        pytest.param({"response_format": Place}, True, id="pydantic as format"),
        pytest.param({"response_format": SCHEMA}, True, id="a schema as format"),
        pytest.param(
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            True,
            id="json_schema of chat",
        ),
        pytest.param(
            {"response_format": {"type": "json_schema", "name": "p", "schema": SCHEMA}},
            True,
            id="json_schema of responses",
        ),
    ],
)
def test_the_output_format_is_json(options: Json, has_schema: bool) -> None:
    found = config(**options)
    assert found.pop("responseMimeType") == JSON
    schema = found.pop("responseJsonSchema", None)
    assert found == {}
    assert (schema is not None) == has_schema
    if schema is not None:
        assert schema["properties"]["city"]["type"] == "string"
        assert schema["required"] == ["city"]


def test_text_needs_no_output_format() -> None:
    assert config(response_format={"type": "text"}) == {}


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        pytest.param(GEMINI_3, {"n": 2}, "n=2", id="candidates on 3"),
        pytest.param(GEMINI_2, {"reasoning_effort": "huge"}, "'huge' is not valid", id="an effort"),
        pytest.param(GEMINI_3, {"response_format": {"type": "yaml"}}, "yaml", id="a form"),
        pytest.param(
            GEMINI_3,
            {"response_format": {"type": "json_schema", "json_schema": {"name": "p"}}},
            "is not valid",
            id="a form without its schema",
        ),
        pytest.param(
            GEMINI_3,
            {"stop": list("abcdef")},
            "stop has 6 sequences, and the API accepts 5",
            id="stop",
        ),
        pytest.param(
            "gemma-3-27b-it",
            {"response_mime_type": JSON, "tool_calling": "native"},
            "does not support JSON output",
            id="JSON of Gemma",
        ),
    ],
)
def test_options_that_cannot_work_are_rejected(model: str, options: Json, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        config(model, **options)


def test_several_candidates_are_requested_from_models_that_support_them() -> None:
    assert config(GEMINI_2, n=2) == {"candidateCount": 2}


HARM = "HARM_CATEGORY_HARASSMENT"


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"category": HARM, "threshold": "BLOCK_NONE"}, id="one"),
        pytest.param(
            types.SafetySetting(
                category=types.HarmCategory(HARM),
                threshold=types.HarmBlockThreshold.BLOCK_NONE,
            ),
            id="one of the SDK",
        ),
        pytest.param({HARM: "BLOCK_NONE"}, id="a mapping"),
        pytest.param([{"category": HARM, "threshold": "BLOCK_NONE"}], id="a list"),
    ],
)
def test_safety_settings_are_the_apis_list(settings: Any) -> None:
    body = sent([HumanMessage("Look!")], safety_settings=settings)
    assert body["safetySettings"] == [{"category": HARM, "threshold": "BLOCK_NONE"}]


@pytest.mark.parametrize(
    ("effort", "message"), [("none", "always thinks"), ("xhigh", "use 'none', 'minimal'")]
)
def test_an_effort_that_gemini_3_does_not_know_is_rejected(effort: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        sent([HumanMessage("Hello")], GEMINI_3, reasoning_effort=effort)


SPELLINGS: dict[str, Any] = {
    "reasoning_effort": lambda level: {"reasoning_effort": level},
    "thinking_level": lambda level: {"thinking_level": level.upper()},
    "thinking_config": lambda level: {"thinking_config": {"thinking_level": level}},
    "the SDK's config": lambda level: {
        "thinking_config": types.ThinkingConfig(thinking_level=level.upper())
    },
    "generation_config": lambda level: {
        "generation_config": {"thinkingConfig": {"thinkingLevel": level}}
    },
}
LEVELS = [
    ("gemini-3.7-flash", "minimal", "low"),
    ("gemini-3.8-flash", "minimal", "low"),
    ("gemini-3.1-pro-preview", "minimal", "low"),
    ("gemini-3-pro-preview", "medium", "low"),
    ("gemini-4-argon", "minimal", "low"),
    ("gemini-9-flash", "minimal", "low"),
    ("gemini-3.1-flash-image", "low", "minimal"),
    ("gemma-4-31b-it", "medium", "minimal"),
]


@rotated(case=LEVELS, spelling=SPELLINGS)
def test_a_level_that_the_model_does_not_have_is_rejected_with_one_that_works(
    case: tuple[str, str, str], spelling: Any
) -> None:
    name, level, lowest = case
    with pytest.raises(InvalidOptionError, match=f"{level!r} is not supported") as caught:
        config(name, **spelling(level))
    assert f"use thinking_level={lowest!r}" in str(caught.value)
    found = config(name, **spelling(lowest))
    assert found["thinkingConfig"]["thinkingLevel"].lower() == lowest


@pytest.mark.parametrize("name", ["gemini-3-flash-preview", "gemini-3.5-flash", "gemini-3.6-flash"])
def test_minimal_is_sent_to_models_that_have_it(name: str) -> None:
    assert config(name, reasoning_effort="minimal") == {
        "thinkingConfig": {"thinkingLevel": "minimal"}
    }


def test_nothing_is_rejected_for_a_name_that_may_be_any_model() -> None:
    preview = ChatGemini(model="gemini-flash-latest").preview("Hi", thinking_level="minimal")
    assert preview.body["generationConfig"] == {"thinkingConfig": {"thinkingLevel": "minimal"}}


BUDGETS: dict[str, Json] = {
    "thinking_budget": {"thinking_budget": 0},
    "reasoning_effort": {"reasoning_effort": "none"},
    "thinking_config": {"thinking_config": {"thinkingBudget": 0}},
    "generation_config": {"generation_config": {"thinking_config": {"thinking_budget": 0}}},
}


@rotated(
    options=BUDGETS,
    case=[
        ("gemini-2.5-pro", "reasoning_effort='minimal'"),
        ("gemini-3.1-pro-preview", "thinking_level='low'"),
        ("gemini-4-argon", "thinking_level='low'"),
    ],
)
def test_thinking_is_not_turned_off_where_it_cannot_be(
    options: Json, case: tuple[str, str]
) -> None:
    name, advice = case
    with pytest.raises(InvalidOptionError) as caught:
        config(name, **options)
    assert advice in str(caught.value)


def test_the_advice_for_2_5_pro_works() -> None:
    found = config("gemini-2.5-pro", reasoning_effort="minimal")
    assert found == {"thinkingConfig": {"thinkingBudget": 512}}


def test_vertex_ai_turns_the_thinking_of_3_1_pro_off() -> None:
    chat = ChatGemini(model="gemini-3.1-pro-preview", vertexai=True)
    body = chat.preview("Hi", thinking_budget=0).body
    assert body["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}


@pytest.mark.parametrize("name", ["gemini-4-argon", "gemma-4-31b-it"])
def test_a_budget_is_rejected_where_only_levels_exist(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="this model has levels, not budgets"):
        config(name, thinking_budget=1024)


def test_a_budget_is_rejected_if_the_model_does_not_think() -> None:
    with pytest.raises(InvalidOptionError, match="thinking_budget=100 is not supported"):
        config("gemini-2.5-flash-image", thinking_budget=100)
    assert config("gemini-2.5-flash-image", thinking_budget=0) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.5, "top_p": 0.9, "top_k": 3},
        {"generation_config": {"temperature": 0.5, "topP": 0.9, "top_k": 3}},
    ],
)
def test_sampling_is_sent_only_to_models_that_follow_it(options: Json) -> None:
    assert config("gemini-3.5-flash", **options) == {"temperature": 0.5, "topP": 0.9, "topK": 3}
    assert config("gemini-3.6-flash", **options, seed=1) == {"seed": 1}


def test_speech_models_are_asked_for_audio() -> None:
    speech = "gemini-2.5-flash-preview-tts"
    assert config(speech) == {"responseModalities": ["AUDIO"]}
    assert config(speech, response_modalities=["AUDIO"]) == {"responseModalities": ["AUDIO"]}
    with pytest.raises(InvalidOptionError, match=r"JSON output\. Use another model"):
        config(speech, response_mime_type=JSON)


def test_argon_has_no_explicit_caches() -> None:
    with pytest.raises(InvalidOptionError, match="gemini-4-argon does not support cached_content"):
        config("gemini-4-argon", cached_content="cachedContents/x")


@pytest.mark.parametrize("settings", ["off", 3, ["off"], [3]])
def test_invalid_safety_settings_are_rejected(settings: Any) -> None:
    with pytest.raises(InvalidOptionError, match="safety_settings"):
        sent([HumanMessage("Look!")], safety_settings=settings)


@pytest.mark.parametrize("effort", [{"reasoning_effort": "low"}, {"thinking_level": "high"}])
def test_an_effort_is_rejected_if_the_model_does_not_think(effort: Json) -> None:
    with pytest.raises(InvalidOptionError, match=r"reasoning_effort.* does not think"):
        config(GEMINI_2_0, **effort)


def test_no_effort_is_accepted_if_the_model_does_not_think() -> None:
    assert config(GEMINI_2_0, reasoning_effort="none") == {}


def test_a_schema_beside_plain_text_is_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="JSON schema structured output is only supported"):
        config(response_schema=Place, response_mime_type="text/plain")


def test_log_probabilities_that_are_also_refused_are_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="logprobs=2 requires response_logprobs=True"):
        config(logprobs=2, response_logprobs=False)


@pytest.mark.parametrize("place", ["model", "call", "call over model"])
def test_false_asks_for_no_log_probabilities(place: str) -> None:
    fields: dict[str, Any] = {"model": {"logprobs": False}, "call over model": {"logprobs": 3}}
    model = ChatGemini(model="gemini-2.5-flash", **fields.get(place, {}))
    options: dict[str, Any] = {} if place == "model" else {"logprobs": False}
    body = model.preview("Hi", **options).body
    assert "generationConfig" not in body


@pytest.mark.parametrize("option", ["response_schema", "response_format"])
def test_a_list_of_a_class_is_a_schema_of_the_output(option: str) -> None:
    place = {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}
    cities = {"type": "array", "items": place}
    sent_format = {"responseMimeType": JSON, "responseJsonSchema": cities}
    options: Json = {option: list[Place]}
    assert config(**options) == sent_format
