from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from langchain_gemini_tools.facts import models
from langchain_gemini_tools.facts.models import (
    FAMILIES,
    Capabilities,
    Family,
    capabilities_of,
    profile_of,
    reads_signatures_of,
)
from tests.figures import PACKAGE, literals_of, modules

UNKNOWN = Capabilities()


@pytest.mark.parametrize(
    "name",
    ["gemini-4-ultra", "gemini-10.5-flash", "models/gemini-5", "google/models/gemini-3.9-pro"],
)
def test_newer_names_get_the_newest_behaviour(name: str) -> None:
    found = capabilities_of(name)
    assert found == replace(capabilities_of("gemini-3.8-flash"), default_thinking_level=None)
    assert found.thinking_levels == ("low", "medium", "high")
    assert found.ignores_sampling
    assert not found.accepts_prefill


@pytest.mark.parametrize(
    "name",
    [
        "gemini-flash-latest",
        "gemini-pro-latest",
        "tunedModels/mine",
        "projects/p/locations/l/endpoints/123",
        "something-of-tomorrow",
        "",
    ],
)
def test_a_name_without_a_version_may_be_any_model(name: str) -> None:
    assert capabilities_of(name) == UNKNOWN
    assert UNKNOWN.thinking_levels is None
    assert not UNKNOWN.ignores_sampling
    assert "reasoning_effort_levels" not in profile_of(name)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.models])
def test_the_models_of_a_row_find_their_row(family: Family) -> None:
    for name in family.models:
        for spelled in (name, f"models/{name}", f"publishers/google/models/{name}"):
            assert capabilities_of(spelled) is family.capabilities


LOW_TO_HIGH = ("low", "medium", "high")
ALL = ("minimal", *LOW_TO_HIGH)


@pytest.mark.parametrize(
    ("name", "levels", "default"),
    [
        ("gemini-3-flash-preview", ALL, "high"),
        ("gemini-3-pro-preview", ("low", "high"), "high"),
        ("gemini-3.1-flash-lite", ALL, "minimal"),
        ("gemini-3.1-pro-preview-customtools", LOW_TO_HIGH, "high"),
        ("gemini-3.5-flash", ALL, "medium"),
        ("gemini-3.5-flash-lite", ALL, "minimal"),
        ("gemini-3.6-flash", ALL, "medium"),
        ("gemini-3.7-flash", LOW_TO_HIGH, "medium"),
        ("gemini-3.8-flash", LOW_TO_HIGH, "medium"),
        ("gemini-4-argon", LOW_TO_HIGH, "medium"),
        ("gemini-3.1-flash-image-preview", ("minimal", "high"), "minimal"),
        ("gemma-4-31b-it", ("minimal", "high"), None),
    ],
)
def test_a_profile_has_the_reasoning_levels_of_the_model(
    name: str, levels: tuple[str, ...], default: str | None
) -> None:
    profile = profile_of(name)
    assert profile["reasoning_effort_levels"] == [*levels]
    assert profile.get("reasoning_effort_default") == default


@pytest.mark.parametrize(
    ("name", "accepts_prefill", "ignores_sampling"),
    [
        ("gemini-2.5-flash", True, False),
        ("gemini-3.1-pro-preview", True, False),
        ("gemini-3.5-flash", True, False),
        ("gemini-3.5-flash-lite", False, True),
        ("gemini-3.6-flash", False, True),
        ("gemini-4-argon", False, True),
        ("gemma-4-31b-it", False, False),
    ],
)
def test_prefill_and_sampling_ended_with_3_6_and_3_5_flash_lite(
    name: str, accepts_prefill: bool, ignores_sampling: bool
) -> None:
    found = capabilities_of(name)
    assert found.accepts_prefill is accepts_prefill
    assert found.ignores_sampling is ignores_sampling
    assert profile_of(name)["temperature"] is not ignores_sampling


def test_argon_has_one_limit_for_streams_and_a_lower_one_for_the_rest() -> None:
    found = capabilities_of("gemini-4-argon")
    assert (found.max_output_tokens, found.max_unary_output_tokens) == (65_536, 32_768)
    assert not found.accepts_thinking_budget
    assert not found.supports_cached_content


def test_gemma_4_calls_functions_and_sees_but_does_not_hear() -> None:
    profile = profile_of("gemma-4-31b-it")
    assert profile["tool_calling"]
    assert (profile["max_input_tokens"], profile["max_output_tokens"]) == (262_144, 32_768)
    media = [profile[f"{each}_inputs"] for each in ("image", "audio", "video")]  # type: ignore[literal-required]
    assert media == [True, False, False]


@pytest.mark.parametrize("name", ["gemini-2.5-flash-image", "gemini-3-pro-image-preview"])
def test_image_models_draw_and_do_not_call_tools(name: str) -> None:
    profile = profile_of(name)
    assert not profile["tool_calling"]
    assert (profile["text_outputs"], profile["image_outputs"]) == (True, True)


@pytest.mark.parametrize("name", ["gemini-2.5-pro-preview-tts", "gemini-3.1-flash-tts-preview"])
def test_speech_models_speak_and_do_not_write(name: str) -> None:
    profile = profile_of(name)
    assert not profile["tool_calling"]
    assert (profile["text_outputs"], profile["audio_outputs"]) == (False, True)


def test_models_with_long_answers_get_more_time() -> None:
    assert capabilities_of("gemini-4-argon").timeout_seconds == 1200
    assert capabilities_of("gemini-3.8-flash").timeout_seconds == 600


@pytest.mark.parametrize(
    "name",
    ["gemini-2.5-flash", "gemini-2.5-pro-preview-05-06", "models/gemini-2.5-flash-lite"],
)
def test_gemini_2_5_thinks_by_budget_and_keeps_functions_apart(name: str) -> None:
    found = capabilities_of(name)
    assert found.calls_functions
    assert found.thinks
    assert found.validates_calls
    assert found.supports_several_candidates
    assert not found.checks_call_signatures
    assert not found.accepts_media_in_function_response
    assert not found.combines_builtin_tools_with_functions
    assert not found.combines_json_output_with_functions
    assert not found.thinks_by_level


def test_the_computer_use_model_accepts_screenshots_in_responses() -> None:
    found = capabilities_of("gemini-2.5-computer-use-preview-10-2025")
    assert found.accepts_media_in_function_response
    assert found.inputs == ("text", "image")


@pytest.mark.parametrize("name", ["gemini-2.0-flash", "gemini-1.5-pro", "gemini-1.0-pro-001"])
def test_older_families_do_not_think_nor_validate(name: str) -> None:
    found = capabilities_of(name)
    assert found.calls_functions
    assert not found.thinks
    assert not found.validates_calls


@pytest.mark.parametrize("name", ["gemma-3-27b-it", "models/gemma-3n-e4b-it", "gemma-2-9b-it"])
def test_early_gemma_models_accept_neither_tools_nor_instructions_nor_json(name: str) -> None:
    found = capabilities_of(name)
    assert not found.calls_functions
    assert not found.accepts_system_instruction
    assert not found.supports_json_output


def test_a_profile_describes_what_the_model_can_do() -> None:
    profile = profile_of("gemini-3-flash-preview")
    assert profile["tool_calling"]
    assert profile["structured_output"]
    assert profile["max_input_tokens"] == 1_048_576
    assert profile["reasoning_effort_levels"] == ["minimal", "low", "medium", "high"]
    assert not profile_of("gemma-3-27b-it")["tool_calling"]
    assert "reasoning_effort_levels" not in profile_of("gemini-2.0-flash")


def test_each_caller_gets_a_profile_that_it_may_change() -> None:
    profile_of("gemini-3-flash-preview")["tool_calling"] = False
    assert profile_of("gemini-3-flash-preview")["tool_calling"]


@pytest.mark.parametrize(
    ("model", "other", "expected"),
    [
        ("gemini-3-flash-preview", "models/gemini-3.1-pro", True),
        ("gemini-3-flash-preview", "gemini-2.5-flash", False),
        ("gemini-3-flash-preview", "gemma-3-27b-it", False),
        ("gemini-flash-latest", "gemini-2.5-flash", True),
        ("gemini-3-flash-preview", "", True),
    ],
)
def test_signatures_are_valid_within_one_major_version(
    model: str, other: str, expected: bool
) -> None:
    assert reads_signatures_of(model, other) is expected
    assert reads_signatures_of(other, model) is expected


# Adding a family takes one row.


def test_a_new_row_is_a_new_family(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(UNKNOWN, thinks=False)
    row = Family("gemini", None, slow, variant="snail")
    monkeypatch.setattr(models, "FAMILIES", (row, *FAMILIES))
    assert capabilities_of("gemini-7-snail") == slow
    assert capabilities_of("gemini-7-hare") == capabilities_of("gemini-5-hare")


def test_no_other_module_looks_at_the_name_of_a_model() -> None:
    name = re.compile(r"gemini-|gemma|learnlm")
    matched = {
        (str(path.relative_to(PACKAGE)), text)
        for path in modules()
        if path != Path(models.__file__) and any(map(name.search, literals_of(path)))
        for node in ast.walk(ast.parse(path.read_text()))
        for text in _matched_texts(node)
        if name.search(text)
    }
    assert matched == set()


def _matched_texts(node: ast.AST) -> list[str]:
    """Strings that values are compared with: by an operator, a pattern or a method."""
    match node:
        case ast.Compare() | ast.MatchValue() | ast.Dict():
            inner = ast.walk(node)
        case ast.Call(func=ast.Attribute(attr="startswith" | "endswith" | "find" | "get")):
            inner = ast.walk(node)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
            inner = ast.walk(node)
        case _:
            return []
    return [
        item.value
        for item in inner
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
