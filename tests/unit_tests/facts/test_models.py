from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import langchain_gemini_tools
from langchain_gemini_tools.facts import models
from langchain_gemini_tools.facts.models import (
    FAMILIES,
    Capabilities,
    Family,
    capabilities_of,
    profile_of,
    reads_signatures_of,
)
from tests.unit_tests.sources import product_modules

NEWEST = Capabilities()


@pytest.mark.parametrize(
    "name",
    [
        "gemini-3-flash-preview",
        "gemini-3.1-pro",
        "gemini-4-ultra",
        "gemini-10.5-flash",
        "models/gemini-3-pro",
        "publishers/google/models/gemini-3-pro",
        "gemini-flash-latest",
        "gemini-pro-latest",
        "gemini-live-3-flash",
        "gemma-4-27b-it",
        "tunedModels/mine",
        "projects/p/locations/l/endpoints/123",
        "something-of-tomorrow",
        "",
    ],
)
def test_new_and_unknown_names_get_the_newest_behaviour(name: str) -> None:
    assert capabilities_of(name) == NEWEST


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
    name = "gemini-2.5-computer-use-preview-10-2025"
    family = capabilities_of("gemini-2.5-flash")
    assert capabilities_of(name) == replace(family, accepts_media_in_function_response=True)


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
    slow = replace(NEWEST, thinks=False)
    row = Family("gemini", None, slow, variant="snail")
    monkeypatch.setattr(models, "FAMILIES", (row, *FAMILIES))
    assert capabilities_of("gemini-7-snail") == slow
    assert capabilities_of("gemini-7-hare") == NEWEST


def test_no_other_module_looks_at_the_name_of_a_model() -> None:
    package = Path(langchain_gemini_tools.__file__).parent
    matched = {
        (str(path.relative_to(package)), text)
        for path in product_modules()
        if path != Path(models.__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        for text in _matched_texts(node)
        if re.search(r"gemini-|gemma|learnlm", text)
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
