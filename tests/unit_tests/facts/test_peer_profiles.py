"""Our profiles beside those that langchain-google-genai ships, which come from models.dev.

A development test: it reads the data file of the package, if that is installed here or in the
environment of the benchmarks, and copies nothing. Every difference is in `EXPLAINED`, with the
reason why ours is as it is.
"""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import pytest

from langchain_gemini_tools.facts.models import profile_of

ROOT = Path(__file__).parents[3]
NOT_CHAT = ("embedding", "-live-", "omni")
"""Models that generateContent does not serve, or that do not write."""
NOT_COMPARED = {"name", "status", "release_date", "last_updated", "open_weights", "attachment"}
NOT_COMPARED |= {"pdf_tool_message"}  # the peer says nothing about it

DRAWS = ["gemini-2.5-flash-image", "gemini-3-pro-image", "gemini-3-pro-image-preview"]
DRAWS += ["gemini-3.1-flash-image", "gemini-3.1-flash-image-preview", "gemini-3.1-flash-lite-image"]
SPEAKS = ["gemini-2.5-flash-preview-tts", "gemini-2.5-pro-preview-tts"]
SPEAKS += ["gemini-3.1-flash-tts-preview"]
GEMINI_2_5 = ["gemini-2.5-computer-use-preview-10-2025", "gemini-2.5-flash"]
GEMINI_2_5 += ["gemini-2.5-flash-lite", "gemini-2.5-pro"]
GEMMA = ["gemma-4-26b-a4b-it", "gemma-4-31b-it"]
LEVELS = ["reasoning_effort_levels"]
LEVELS_AND_DEFAULT = [*LEVELS, "reasoning_effort_default"]

EXPLAINED: list[tuple[list[str], list[str], str]] = [
    (
        [*DRAWS, *SPEAKS],
        ["tool_choice", "image_tool_message"],
        "The peer sets both for every name; these models do not call functions.",
    ),
    (
        [*SPEAKS, *GEMMA, "gemini-2.5-computer-use-preview-10-2025"],
        ["pdf_inputs"],
        "The peer sets it for every name; models.dev lists no documents for these.",
    ),
    (SPEAKS, ["image_url_inputs"], "The peer sets it for every name; they accept text alone."),
    (
        [*DRAWS, *SPEAKS, "gemini-2.5-computer-use-preview-10-2025"],
        ["structured_output"],
        "The peer says nothing, except no for gemini-3.1-flash-lite-image. Reported: "
        "gemini-2.5-flash-image rejects JSON output, and pydantic-ai requests it from those of "
        "Gemini 3. Speech models write nothing.",
    ),
    (
        ["gemini-3.1-flash-lite-image"],
        ["tool_calling"],
        'Reported: "Function calling is not enabled for models/gemini-3.1-flash-lite-image".',
    ),
    (
        ["gemini-2.5-flash-image"],
        ["reasoning_output"],
        'Reported by pydantic-ai: "Thinking is not enabled for this model".',
    ),
    (
        ["gemini-3-pro-image-preview", "gemini-3.1-flash-image-preview"],
        ["max_input_tokens", "max_output_tokens"],
        "The peer has other numbers for the preview than for the model; ours are the model's.",
    ),
    (
        ["gemini-3.1-flash-image"],
        ["video_inputs"],
        "The peer has video for the model but not for its preview: not proven.",
    ),
    (
        ["gemini-3.1-flash-image", "gemini-3.1-flash-lite-image"],
        LEVELS_AND_DEFAULT,
        "The peer has them for the preview alone. Documented and reported: minimal and high.",
    ),
    (GEMINI_2_5, LEVELS, "The peer sends no budget for a level; ours does."),
    (
        ["gemini-3.7-flash", "gemini-3.8-flash"],
        LEVELS_AND_DEFAULT,
        "The peer has none yet. Documented and reported: minimal is an error, medium the default.",
    ),
    (GEMMA, LEVELS, "The peer has none. Reported: minimal and high are accepted, low is an error."),
    (
        ["gemini-3.5-flash-lite", "gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.8-flash"],
        ["temperature"],
        "Documented: ignored from these models on. The peer removes it from requests, too.",
    ),
]


def peer_profiles() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("langchain_google_genai")
    folders = [*(spec.submodule_search_locations or ())] if spec else []
    found = [Path(folder) / "data" / "_profiles.py" for folder in folders]
    found += ROOT.glob(
        ".venv-peer/lib/python*/site-packages/langchain_google_genai/data/_profiles.py"
    )
    if not found:
        pytest.skip(
            "langchain-google-genai is installed neither here nor in .venv-peer (make bench)"
        )
    every: dict[str, dict[str, Any]] = runpy.run_path(str(found[0]))["_PROFILES"]
    return {
        name: profile
        for name, profile in every.items()
        if name.startswith(("gemini-", "gemma-"))
        and not any(each in name for each in NOT_CHAT)
        # A profile without limits is an overlay on one that models.dev no longer has.
        and "max_input_tokens" in profile
    }


def differences() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for name, peers in peer_profiles().items():
        ours: dict[str, Any] = {**profile_of(name)}
        keys = (ours.keys() | peers.keys()) - NOT_COMPARED
        found |= {(name, key) for key in keys if ours.get(key) != peers.get(key)}
    return found


def test_every_difference_from_the_peers_profiles_is_explained() -> None:
    explained = {(name, key) for names, keys, _ in EXPLAINED for name in names for key in keys}
    assert differences() - explained == set()


def test_every_explanation_is_about_a_difference() -> None:
    found = differences()
    for names, keys, reason in EXPLAINED:
        assert found & {(name, key) for name in names for key in keys}, reason
        assert {name for name, key in found if key in keys} >= set(names), reason
