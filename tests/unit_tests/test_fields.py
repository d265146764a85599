"""The fields of `ChatGemini`, and what editors and type checkers are given of them."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from langchain_core.language_models import BaseChatModel

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments
from langchain_gemini_tools.errors import InvalidOptionError
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

model = ChatGemini(model="gemini-3-flash-preview")
assert body(model) == {}
assert body(ChatGemini(model="gemini-3-flash-preview", **fields)) == sent
assert body(ChatGemini(model="gemini-3-flash-preview", model_kwargs=fields)) == sent
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


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("code_execution", 'It is a tool: use bind_tools([{"code_execution": {}}]).'),
        ("google_search", 'It is a tool: use bind_tools([{"google_search": {}}]).'),
        ("functions", "Use bind_tools."),
        ("function_call", "Use tool_choice."),
        ("tools", "Use bind_tools."),
        ("system_instruction", "Put a SystemMessage before the other messages."),
        ("extra_headers", "Use additional_headers."),
        ("temprature", "Did you mean 'temperature'?"),
        ("max_token", "Did you mean 'max_tokens'?"),
        ("flying_carpet", None),
    ],
)
def test_an_unknown_argument_gets_its_real_replacement_or_no_hint(
    argument: str, hint: str | None
) -> None:
    expected = f"ChatGemini has no option {argument!r}." + (f" {hint}" if hint else "")
    options: dict[str, Any] = {argument: True}
    with pytest.raises(ValueError, match=re.escape(f"{expected} [")):
        ChatGemini(model="gemini-3-flash-preview", **options)
    if argument != "tools":
        with pytest.raises(InvalidOptionError, match=re.escape(expected) + "$"):
            ChatGemini(model="gemini-3-flash-preview").preview("Hi", **options)
