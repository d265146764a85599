"""The fields of `ChatGemini`, and what editors and type checkers are given of them."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pytest
from google.genai import types
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps, loads
from pydantic import BaseModel, Field, SecretStr, ValidationError

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments, FieldSynonyms
from langchain_gemini_tools.errors import InvalidOptionError
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


def test_the_signature_shows_types_without_their_validation() -> None:
    class Mine(ChatGemini):
        share: Annotated[float, Field(gt=0)] = 1.0

    for model, name, annotation in (
        (ChatGemini, "temperature", float | None),
        (ChatGemini, "model", str),
        (Mine, "temperature", float | None),
        (Mine, "share", float),
    ):
        assert inspect.signature(model).parameters[name].annotation == annotation
    assert "Annotated" not in str(inspect.signature(ChatGemini))
    assert inspect.signature(ChatGemini).parameters["temperature"].default is None


def test_a_subclass_has_the_same_arguments() -> None:
    class Mine(ChatGemini):
        more: int = 0

    options: dict[str, Any] = {"model": "m", "more": 1, "max_completion_tokens": 9}
    assert (Mine(**options).max_output_tokens, Mine(**options).more) == (9, 1)
    assert inspect.signature(Mine).parameters.keys() > {"api_key", "max_tokens", "more"}


def test_only_a_constructor_of_a_subclass_may_have_positional_arguments() -> None:
    class Named(ChatGemini):
        def __init__(self, name: str, **arguments: Any) -> None:
            super().__init__(model=name, **arguments)

    assert Named("gemini-3.8-flash", temperature=1).model == "gemini-3.8-flash"
    positional: Any = ChatGemini
    with pytest.raises(TypeError, match=r"use ChatGemini\(model='gemini-3.8-flash'\)"):
        positional("gemini-3.8-flash")


@pytest.mark.parametrize("name", ["location", "project", "api_version"])
@pytest.mark.parametrize(
    "value", ["evil.example/#", "evil.example?", "user@evil.example", "a/../b", "..", "a\r\nb"]
)
def test_a_part_of_the_address_cannot_change_the_host(name: str, value: str) -> None:
    """The location is written into the host that receives the credentials."""
    fields: dict[str, Any] = {name: value}
    with pytest.raises(ValidationError, match=name):
        ChatGemini(model="gemini-3.8-flash", **fields)


@pytest.mark.parametrize("project", ["my-project-1", "example.com:my-project", "123456789"])
@pytest.mark.parametrize("location", ["global", "us-central1", "eu"])
def test_every_form_of_a_project_and_a_location_is_accepted(project: str, location: str) -> None:
    chat = ChatGemini(model="gemini-3.8-flash", project=project, location=location)
    assert (chat.project, chat.location) == (project, location)


NEW_FIELDS = """
    moon_phase: Annotated[str | None, BODY] = Field(default=None, description="The moon.")
    tide_level: Annotated[int | None, GENERATION] = Field(default=None, ge=0, description="Tide.")
"""
USE = """
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidOptionError

fields = {"moon_phase": "full", "tide_level": 3}
sent = {"moonPhase": "full", "generationConfig": {"tideLevel": 3}}

def body(model, **options):
    shown = model.preview("Hi", **options).body
    return {key: shown[key] for key in shown if key != "contents"}

model = ChatGemini(model="gemini-3.8-flash")
assert body(model) == {}
assert body(ChatGemini(model="gemini-3.8-flash", **fields)) == sent
assert body(ChatGemini(model="gemini-3.8-flash", model_kwargs=fields)) == sent
assert body(model.bind(**fields)) == sent
assert body(model, **fields) == sent
assert body(model, moon_phase="full", generation_config={"tideLevel": 3}) == sent
try:
    model.preview("Hi", tide_level=-1)
except InvalidOptionError as error:
    assert "tide_level" in str(error)
else:
    raise AssertionError
"""


def test_a_field_is_all_that_an_option_needs(tmp_path: Path) -> None:
    """The type in `arguments.py` is for editors; the tests above hold it to the field."""
    package = Path(langchain_gemini_tools.__file__).parent
    without_caches = shutil.ignore_patterns("__pycache__")
    copied = shutil.copytree(package, tmp_path / package.name, ignore=without_caches)
    source = (copied / "fields.py").read_text()
    (copied / "fields.py").write_text(
        re.sub(r"(?=\n    model_kwargs: )", lambda _: NEW_FIELDS.rstrip(), source, count=1)
    )
    run = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""


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
    "response_schema": list[Place],
    "fetch_urls": FetchLimits(max_bytes=5),
    "model_kwargs": {"generation_config": types.GenerationConfig(top_k=2)},
    "extra_body": {"newField": types.ImageConfig(aspect_ratio="1:1")},
}


def make(**arguments: Any) -> ChatGemini:
    return ChatGemini(model="gemini-3.8-flash", api_key="not-used", **arguments)


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
    assert make() != "gemini-3.8-flash"


def test_none_beside_a_value_under_another_name_is_not_a_second_value() -> None:
    for options in (
        {"max_tokens": None, "max_output_tokens": 5},
        {"max_output_tokens": 5, "max_tokens": None},
    ):
        assert make(**options).max_output_tokens == 5
    key = ChatGemini(model="gemini-3.8-flash", api_key=None, google_api_key="other").google_api_key
    assert key
    assert key.get_secret_value() == "other"


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


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
@pytest.mark.parametrize(("options", "seconds"), [({}, 1200), ({"timeout": 600}, 600)])
def test_a_stored_model_keeps_the_time_limit_that_suits_it(
    options: dict[str, Any], seconds: float
) -> None:
    stored = dumps(ChatGemini(model="gemini-4-argon", **options))
    restored = loads(
        stored, allowed_objects=[ChatGemini], valid_namespaces=["langchain_gemini_tools"]
    )
    assert restored.preview("Hi").invocation.timeout_seconds == seconds


def test_a_repr_has_no_secrets() -> None:
    chat = ChatGemini(
        model="gemini-3.8-flash",
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


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("code_execution", 'It is a tool: use bind_tools([{"code_execution": {}}]).'),
        ("google_search", 'It is a tool: use bind_tools([{"google_search": {}}]).'),
        ("function_call", "Use tool_choice."),
        ("tools", "Use bind_tools."),
        ("system_instruction", "Put a SystemMessage before the other messages."),
        ("system_prompt", "Put a SystemMessage before the other messages."),
        ("system", "Put a SystemMessage before the other messages."),
        ("config", "Pass its settings under their own names, such as temperature=0.5."),
        ("json_mode", "Use with_structured_output, or response_mime_type='application/json'."),
        ("region", "Use location."),
        ("endpoint", "Use base_url."),
        ("extra_headers", "Use additional_headers."),
        ("routing_config", "Pass it to a call inside generation_config={...}."),
        ("model_armor_config", "Use extra_body={'modelArmorConfig': ...}."),
        ("temprature", "Did you mean 'temperature'?"),
        ("max_token", "Did you mean 'max_tokens'?"),
        ("topK", "Did you mean 'top_k'?"),
        ("systemInstruction", "Put a SystemMessage before the other messages."),
        ("budget_tokens", "Use thinking_budget."),
        ("proxies", "Use client_args={'proxy': ...} on the model."),
        ("http_client", "Use client_args on the model: the arguments of its HTTP client."),
        ("flying_carpet", None),
    ],
)
def test_an_unknown_argument_gets_its_real_replacement_or_no_hint(
    argument: str, hint: str | None
) -> None:
    expected = f"ChatGemini has no option {argument!r}." + (f" {hint}" if hint else "")
    options: dict[str, Any] = {argument: True}
    with pytest.raises(ValueError, match=re.escape(f"{expected} [")):
        ChatGemini(model="gemini-3.8-flash", **options)
    if argument != "tools":
        with pytest.raises(InvalidOptionError, match=re.escape(expected) + "$"):
            ChatGemini(model="gemini-3.8-flash").preview("Hi", **options)


class Proxied(ChatGemini):
    """A model with narrower types."""

    google_api_key: SecretStr | None = Field(default=None, alias="api_key")
    base_url: str = "https://proxy.example"
    safety_settings: list[Any] | None = None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("base_url", "https://user:password@proxy.example", "must not contain a user"),
        ("api_key", "a\nkey", "The API key is not valid"),
    ],
)
def test_subclasses_inherit_the_checks_of_fields(name: str, value: str, message: str) -> None:
    given: Any = {name: value}
    with pytest.raises(ValidationError, match=message):
        Proxied(model="gemini-2.5-flash", **given)


def test_subclasses_store_sdk_types_as_dicts() -> None:
    setting = types.SafetySetting.model_validate(
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}
    )
    model = Proxied(model="gemini-2.5-flash", safety_settings=[setting])
    assert model.safety_settings == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
