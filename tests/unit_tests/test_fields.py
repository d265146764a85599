"""The fields of `ChatGemini`, and what editors and type checkers are given of them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM

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


@pytest.mark.parametrize("name", ["location", "project", "api_version"])
@pytest.mark.parametrize(
    "value", ["evil.example/#", "evil.example?", "user@evil.example", "a/../b", "..", "", "a\r\nb"]
)
def test_a_part_of_the_address_cannot_change_the_host(name: str, value: str) -> None:
    """The location is written into the host that receives the credentials."""
    fields: dict[str, Any] = {name: value}
    with pytest.raises(ValidationError, match=name):
        ChatGemini(model="gemini-3-flash-preview", **fields)


@pytest.mark.parametrize("project", ["my-project-1", "example.com:my-project", "123456789"])
@pytest.mark.parametrize("location", ["global", "us-central1", "eu"])
def test_every_form_of_a_project_and_a_location_is_accepted(project: str, location: str) -> None:
    chat = ChatGemini(model="gemini-3-flash-preview", project=project, location=location)
    assert (chat.project, chat.location) == (project, location)
