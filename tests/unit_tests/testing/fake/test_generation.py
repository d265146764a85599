from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GEMINI_2,
    GEMINI_3,
    WEATHER,
    ask,
    refusal_of,
    refused,
)

GEMMA = "gemma-3-27b-it"


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        pytest.param(
            GEMINI_3,
            {"candidateCount": 2},
            "Multiple candidates is not enabled for this model",
            id="two-candidates",
        ),
        pytest.param(
            GEMINI_3,
            {"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 100}},
            "You can only set only one of thinking budget and thinking level.",
            id="level-and-budget",
        ),
        pytest.param(
            GEMINI_2,
            {"thinkingConfig": {"thinkingLevel": "LOW"}},
            "Thinking level is not supported for this model.",
            id="level-on-2.5",
        ),
        pytest.param(
            "gemini-2.0-flash",
            {"thinkingConfig": {"includeThoughts": True}},
            "thinking_config is not supported.",
            id="thinking-on-2.0",
        ),
        pytest.param(
            "gemini-3-pro-preview",
            {"thinkingConfig": {"thinkingLevel": "MINIMAL"}},
            "Thinking level MINIMAL is not supported for this model.",
            id="minimal-on-pro",
        ),
        pytest.param(
            "gemini-3.8-flash",
            {"thinkingConfig": {"thinkingLevel": "minimal"}},
            "'minimal' is not a supported thinking level for this model. Allowed values are: "
            "medium, low, high.",
            id="minimal-on-3.8",
        ),
        pytest.param(
            "gemini-4-argon",
            {"thinkingConfig": {"thinkingBudget": 100}},
            "Thinking budget is not supported for this model.",
            id="budget-on-argon",
        ),
        pytest.param(
            "gemma-4-31b-it",
            {"thinkingConfig": {"thinkingLevel": "low"}},
            "Thinking level is not supported for this model.",
            id="low-on-gemma",
        ),
        pytest.param(
            "gemini-2.5-flash-image",
            {"thinkingConfig": {"thinkingBudget": 0}},
            "Thinking is not enabled for this model",
            id="thinking-on-image",
        ),
        pytest.param(
            "gemini-2.5-flash-preview-tts",
            {},
            "The requested combination of response modalities (TEXT) is not supported by the "
            "model. models/gemini-2.5-flash-preview-tts accepts the following combination of "
            "response modalities:\n* AUDIO\n",
            id="text-of-speech",
        ),
        pytest.param(
            "gemini-2.5-pro",
            {"thinkingConfig": {"thinkingBudget": 0}},
            "Budget 0 is invalid. This model only works in thinking mode.",
            id="no-thinking-on-pro",
        ),
        pytest.param(
            GEMINI_3, {"responseSchema": {"type": "STRING"}}, CATCH_ALL, id="schema-without-json"
        ),
        pytest.param(
            GEMINI_3,
            {
                "responseMimeType": "application/json",
                "responseSchema": {"type": "STRING"},
                "responseJsonSchema": {"type": "string"},
            },
            CATCH_ALL,
            id="two-schemas",
        ),
    ],
)
def test_settings_that_are_rejected(model: str, config: dict[str, Any], message: str) -> None:
    assert refusal_of(ask(model=model, generationConfig=config)).body == refused(message)


@pytest.mark.parametrize(
    ("model", "config"),
    [
        pytest.param(GEMINI_2, {"candidateCount": 2}, id="two-candidates-on-2.5"),
        pytest.param(GEMINI_2, {"thinkingConfig": {"thinkingBudget": 0}}, id="budget-on-2.5"),
        pytest.param(GEMINI_3, {"thinkingConfig": {"thinkingLevel": "high"}}, id="level-on-3"),
        pytest.param(
            "gemini-3.6-flash", {"thinkingConfig": {"thinkingLevel": "minimal"}}, id="minimal-3.6"
        ),
        pytest.param(
            "gemini-3.1-flash-tts-preview", {"responseModalities": ["AUDIO"]}, id="speech"
        ),
        pytest.param(
            GEMINI_3,
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
            id="json-with-schema",
        ),
    ],
)
def test_settings_that_pass(model: str, config: dict[str, Any]) -> None:
    check(ask(model=model, generationConfig=config))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"tools": [WEATHER]}, f"Function calling is not enabled for models/{GEMMA}", id="tools"
        ),
        pytest.param(
            {"systemInstruction": {"parts": [{"text": "Be brief."}]}},
            f"Developer instruction is not enabled for models/{GEMMA}",
            id="system",
        ),
        pytest.param(
            {"generationConfig": {"responseMimeType": "application/json"}},
            f"JSON mode is not enabled for models/{GEMMA}",
            id="json",
        ),
    ],
)
def test_gemma_3_accepts_only_text(fields: dict[str, Any], message: str) -> None:
    check(ask(model=GEMMA))
    assert refusal_of(ask(model=GEMMA, **fields)).body == refused(message)


def test_gemma_4_calls_functions() -> None:
    check(ask(model="gemma-4-31b-it", tools=[WEATHER]))
