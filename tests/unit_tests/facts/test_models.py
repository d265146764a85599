from __future__ import annotations

from dataclasses import replace

import pytest

from langchain_gemini_tools.facts.models import Capabilities, capabilities_of, profile_of

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
def test_the_family_of_2_5_thinks_by_budget_and_keeps_functions_apart(name: str) -> None:
    found = capabilities_of(name)
    assert found.calls_functions
    assert found.thinks
    assert found.validates_calls
    assert found.takes_several_candidates
    assert not found.checks_call_signatures
    assert not found.takes_media_in_function_response
    assert not found.combines_builtin_tools_with_functions
    assert not found.combines_json_output_with_functions
    assert not found.thinks_by_level


def test_the_model_that_uses_a_computer_takes_screenshots_in_responses() -> None:
    name = "gemini-2.5-computer-use-preview-10-2025"
    family = capabilities_of("gemini-2.5-flash")
    assert capabilities_of(name) == replace(family, takes_media_in_function_response=True)


@pytest.mark.parametrize("name", ["gemini-2.0-flash", "gemini-1.5-pro", "gemini-1.0-pro-001"])
def test_older_families_do_not_think_nor_validate(name: str) -> None:
    found = capabilities_of(name)
    assert found.calls_functions
    assert not found.thinks
    assert not found.validates_calls


@pytest.mark.parametrize("name", ["gemma-3-27b-it", "models/gemma-3n-e4b-it", "gemma-2-9b-it"])
def test_early_gemmas_take_neither_tools_nor_instructions_nor_json(name: str) -> None:
    found = capabilities_of(name)
    assert not found.calls_functions
    assert not found.takes_system_instruction
    assert not found.takes_json_output


def test_a_profile_tells_agents_what_the_model_can_do() -> None:
    profile = profile_of("gemini-3-flash-preview")
    assert profile["tool_calling"]
    assert profile["structured_output"]
    assert profile["max_input_tokens"] == 1_048_576
    assert profile["reasoning_effort_levels"] == ["minimal", "low", "medium", "high"]
    assert not profile_of("gemma-3-27b-it")["tool_calling"]
    assert "reasoning_effort_levels" not in profile_of("gemini-2.0-flash")


def test_a_profile_belongs_to_who_asked() -> None:
    profile_of("gemini-3-flash-preview")["tool_calling"] = False
    assert profile_of("gemini-3-flash-preview")["tool_calling"]
