"""The fields of `ChatGemini`, and what editors and type checkers are given of them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest
from google.genai import types
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps, loads
from pydantic import BaseModel

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments, FieldSynonyms
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM
from langchain_gemini_tools.media_fetch import FetchLimits

FIELDS = ChatGemini.model_fields
OURS = FIELDS.keys() - BaseChatModel.model_fields.keys()
ARGUMENTS = get_type_hints(ChatGeminiArguments)
TYPED_MORE_EXACTLY = {
    "google_api_key",
    "reasoning_effort",
    "thinking_config",
    "response_modalities",
    "media_resolution",
    "image_config",
    "speech_config",
    "safety_settings",
}
"""Fields that are validated in other ways than by their types, or that accept more."""


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_field_has_a_description(name: str) -> None:
    description = FIELDS[name].description or ""
    assert description.endswith((".", "…"))
    assert description[0].isupper() or description[0] == "`"


def test_every_argument_is_typed_under_all_of_its_names() -> None:
    assert ARGUMENTS.keys() == (FIELDS.keys() | FIELDS_BY_SYNONYM) - {"model", "model_name"}


def test_every_other_name_of_a_field_is_typed_for_reading() -> None:
    assert get_type_hints(FieldSynonyms) == {
        name: FIELDS[field].annotation for name, field in FIELDS_BY_SYNONYM.items()
    }


def test_arguments_have_the_types_of_their_fields() -> None:
    named = {name: FIELDS_BY_SYNONYM.get(name, name) for name in ARGUMENTS}
    assert {
        name: ARGUMENTS[name]
        for name, field in named.items()
        if field not in TYPED_MORE_EXACTLY and ARGUMENTS[name] != FIELDS[field].annotation
    } == {}


def test_synonyms_have_one_type() -> None:
    for synonym, field in FIELDS_BY_SYNONYM.items():
        assert ARGUMENTS.get(synonym) == ARGUMENTS.get(field)


def test_the_signature_shows_the_documented_names() -> None:
    shown = inspect.signature(ChatGemini).parameters
    documented = {"google_api_key": "api_key", "max_output_tokens": "max_tokens"}
    assert shown.keys() == {documented.get(name, name) for name in FIELDS}
    assert {parameter.kind for parameter in shown.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_a_subclass_has_the_same_arguments() -> None:
    class Mine(ChatGemini):
        more: int = 0

    options: dict[str, Any] = {"model": "m", "more": 1, "max_completion_tokens": 9}
    assert (Mine(**options).max_output_tokens, Mine(**options).more) == (9, 1)
    assert inspect.signature(Mine).parameters.keys() > {"api_key", "max_tokens", "more"}


# Reading, comparing and storing


class Place(BaseModel):
    city: str


SDK_OBJECTS: dict[str, Any] = {
    "thinking_config": types.ThinkingConfig(thinking_budget=5, include_thoughts=True),
    "image_config": types.ImageConfig(aspect_ratio="1:1"),
    "speech_config": types.SpeechConfig(language_code="de-DE"),
    "safety_settings": [
        types.SafetySetting(
            category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
            threshold=types.HarmBlockThreshold.OFF,
        )
    ],
    "response_modalities": [types.Modality.TEXT],
    "media_resolution": types.MediaResolution.MEDIA_RESOLUTION_LOW,
    "response_schema": Place,
    "fetch_urls": FetchLimits(max_bytes=5),
    "model_kwargs": {"generation_config": types.GenerationConfig(top_k=2)},
    "extra_body": {"newField": types.ImageConfig(aspect_ratio="1:1")},
}


def make(**arguments: Any) -> ChatGemini:
    return ChatGemini(model="gemini-3-flash-preview", api_key="not-used", **arguments)


@pytest.mark.parametrize(("synonym", "field"), FIELDS_BY_SYNONYM.items())
def test_a_field_can_be_read_and_set_under_every_name(synonym: str, field: str) -> None:
    chat = make(thinking_level="low", max_tokens=9, stop_sequences=["a"], candidate_count=1)
    assert getattr(chat, synonym) == getattr(chat, field)
    assert getattr(chat.bind(), synonym) == getattr(chat, field)
    changed = make()
    setattr(changed, synonym, getattr(chat, field))
    assert getattr(changed, field) == getattr(chat, field)


def test_a_name_that_does_not_exist_cannot_be_read() -> None:
    with pytest.raises(AttributeError, match="thinking_levels"):
        _ = make().thinking_levels  # type: ignore[attr-defined]


def test_models_with_equal_fields_are_equal() -> None:
    assert make(**SDK_OBJECTS) == make(**SDK_OBJECTS)
    assert make(temperature=0.1) != make(temperature=0.2)
    assert make() != "gemini-3-flash-preview"


def test_types_of_the_sdk_are_stored_as_dicts() -> None:
    config = make(thinking_config=SDK_OBJECTS["thinking_config"]).thinking_config
    assert config == {"include_thoughts": True, "thinking_budget": 5}


@pytest.mark.parametrize("name", SDK_OBJECTS)
@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_a_model_with_objects_of_the_sdk_survives_json(name: str) -> None:
    chat = make(**{name: SDK_OBJECTS[name]})
    stored = dumps(chat)
    assert "not_implemented" not in stored
    assert "not-used" not in stored
    restored = loads(
        stored,
        allowed_objects=[ChatGemini],
        valid_namespaces=["langchain_gemini_tools"],
        secrets_map={"GOOGLE_API_KEY": "not-used"},
    )
    assert restored.preview("Hi").body == chat.preview("Hi").body
    if name not in {"response_schema", "model_kwargs", "extra_body"}:  # those are dicts now
        assert restored == chat


def test_a_repr_has_no_secrets() -> None:
    chat = ChatGemini(
        model="gemini-3-flash-preview",
        api_key="secret-1",
        additional_headers={"Authorization": "secret-2"},
        default_metadata=[("x-token", "secret-3")],
        client_args={"headers": {"x-token": "secret-4"}},
    )
    assert "secret" not in repr(chat) + repr(chat.bind(temperature=0)) + repr(chat.api_key)


@pytest.mark.parametrize(
    "name",
    [
        "ComputerUse",
        "Environment",
        "HarmBlockThreshold",
        "HarmCategory",
        "MediaResolution",
        "Modality",
    ],
)
def test_types_of_the_sdk_can_be_imported_from_the_package(name: str) -> None:
    assert getattr(langchain_gemini_tools, name) is getattr(types, name)
    assert name in dir(langchain_gemini_tools)
