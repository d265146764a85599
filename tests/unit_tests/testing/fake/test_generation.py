from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GEMINI_2,
    GEMINI_3,
    WEATHER,
    ask,
    refusal_of,
    refused,
    why_refused,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Backend


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
            GEMINI_3,
            {"stopSequences": list("abcdef")},
            "the number of stop_sequences must not exceed 5",
            id="six-stop-sequences",
        ),
        pytest.param(
            GEMINI_3,
            {"temperature": 2.1},
            "temperature must be in the range [0.0, 2.0]",
            id="temperature",
        ),
        pytest.param(GEMINI_3, {"topP": 9}, "top_p must be in the range [0.0, 1.0]", id="top-p"),
        pytest.param(
            GEMINI_2,
            {"candidateCount": 9},
            "candidate_count must be in the range [1, 8]",
            id="nine-candidates",
        ),
        pytest.param(GEMINI_3, {"maxOutputTokens": 0}, CATCH_ALL, id="no-output"),
        pytest.param(
            "gemini-2.5-pro",
            {"thinkingConfig": {"thinkingBudget": 50}},
            "The thinking budget 50 is invalid. Please choose a value between 128 and 32768.",
            id="small-budget-on-2.5-pro",
        ),
        pytest.param(
            "gemini-2.5-flash-lite",
            {"thinkingConfig": {"thinkingBudget": 256}},
            "The thinking budget 256 is invalid. Please choose a value between 512 and 24576.",
            id="small-budget-on-2.5-flash-lite",
        ),
        pytest.param(
            GEMINI_2,
            {"thinkingConfig": {"thinkingBudget": 32000}},
            "The thinking budget 32000 is invalid. Please choose a value between 0 and 24576.",
            id="large-budget-on-2.5-flash",
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
            "Thinking level MINIMAL is not supported for this model. Please retry with other "
            "thinking level.",
            id="minimal-on-pro",
        ),
        pytest.param(
            "gemini-3.8-flash",
            {"thinkingConfig": {"thinkingLevel": "minimal"}},
            "Thinking level MINIMAL is not supported for this model. Please retry with other "
            "thinking level.",
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
        pytest.param(GEMINI_2, {"temperature": 2, "topP": 1, "maxOutputTokens": 9**9}, id="most"),
        pytest.param(GEMINI_2, {"temperature": 0, "topP": 0, "maxOutputTokens": 1}, id="least"),
        *(
            pytest.param(
                name, {"thinkingConfig": {"thinkingBudget": budget}}, id=f"{name} {budget}"
            )
            for name, budgets in {
                "gemini-2.5-pro": (-1, 128, 32768),
                "gemini-2.5-flash": (-1, 50, 24576),
                "gemini-2.5-flash-lite": (-1, 0, 512),
                "gemini-3.5-flash": (-1, 0, 65535),
            }.items()
            for budget in budgets
        ),
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
    assert why_refused(ask(model=model, generationConfig=config)) is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"temperature": 99}, "a temperature value of 99 but the supported range is from 0 "),
        ({"maxOutputTokens": 0}, "value of 0 but the supported range is from 1 (inclusive) to 6"),
        ({"thinkingConfig": {"thinkingBudget": 30000}}, "supported values are integers from 1 to"),
    ],
)
def test_vertex_names_the_supported_range(config: dict[str, Any], words: str) -> None:
    request = ask(model=GEMINI_2, backend="vertex", generationConfig=config)
    assert words in refusal_of(request).message


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
    assert why_refused(ask(model=GEMMA)) is None
    assert refusal_of(ask(model=GEMMA, **fields)).body == refused(message)


def test_gemma_4_calls_functions() -> None:
    assert why_refused(ask(model="gemma-4-31b-it", tools=[WEATHER])) is None


SEARCH: dict[str, Any] = {"googleSearch": {}}
FLAG = {"includeServerSideToolInvocations": True}
JSON = {"responseMimeType": "application/json"}


def calling(**config: Any) -> dict[str, Any]:
    return {"functionCallingConfig": config}


@pytest.mark.parametrize("mode", ["AUTO", "ANY", "NONE", "VALIDATED"])
def test_every_mode_passes(mode: str) -> None:
    assert why_refused(ask(tools=[WEATHER], toolConfig=calling(mode=mode))) is None


@pytest.mark.parametrize("mode", ["ANY", "VALIDATED"])
def test_allowed_names_go_with_any_and_validated(mode: str) -> None:
    config = calling(mode=mode, allowedFunctionNames=["get_weather"])
    assert why_refused(ask(tools=[WEATHER], toolConfig=config)) is None


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(calling(mode="AUTO", allowedFunctionNames=["get_weather"]), id="with-auto"),
        pytest.param(calling(mode="NONE", allowedFunctionNames=["get_weather"]), id="with-none"),
        pytest.param(calling(allowedFunctionNames=["get_weather"]), id="without-mode"),
        pytest.param(calling(mode="ANY", allowedFunctionNames=[]), id="empty"),
        pytest.param(calling(mode="ANY", allowedFunctionNames=["get_time"]), id="undeclared"),
    ],
)
def test_undeclared_allowed_names_are_rejected(config: dict[str, Any]) -> None:
    assert refusal_of(ask(tools=[WEATHER], toolConfig=config)).body == refused(CATCH_ALL)


def test_vertex_streams_arguments_only_in_streams() -> None:
    config = calling(streamFunctionCallArguments=True)
    request = ask(tools=[WEATHER], toolConfig=config, backend="vertex")
    assert why_refused(replace(request, is_stream=True)) is None
    assert refusal_of(request).message == (
        "Unable to submit request because streaming function call is not supported in unary API. "
        "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
    )


def test_a_config_without_functions_is_rejected() -> None:
    assert refusal_of(ask(toolConfig=calling(mode="AUTO"))).body == refused(
        "Function calling config is set without function_declarations."
    )


def test_validated_came_with_2_5() -> None:
    config = calling(mode="VALIDATED")
    refusal = refusal_of(ask(tools=[WEATHER], toolConfig=config, model="gemini-2.0-flash"))
    assert refusal.body == refused(CATCH_ALL)


def test_an_empty_tool_is_rejected() -> None:
    assert refusal_of(ask(tools=[{"functionDeclarations": []}])).body == refused(
        "* GenerateContentRequest.tools[0].tool_type: "
        "required one_of 'tool_type' must have one initialized field\n"
    )


@pytest.mark.parametrize(
    ("model", "backend", "fields", "message"),
    [
        pytest.param(
            GEMINI_2,
            "gemini",
            {"tools": [WEATHER, SEARCH]},
            "Tool use with function calling is unsupported",
            id="2-developer-builtin-and-functions",
        ),
        pytest.param(
            GEMINI_2,
            "gemini",
            {"tools": [WEATHER, SEARCH], "toolConfig": FLAG},
            f"Tool call context circulation is not enabled for models/{GEMINI_2}",
            id="2-developer-with-flag",
        ),
        pytest.param(
            GEMINI_2,
            "vertex",
            {"tools": [WEATHER, SEARCH]},
            "Multiple tools are supported only when they are all search tools.",
            id="2-vertex-builtin-and-functions",
        ),
        pytest.param(
            GEMINI_3,
            "gemini",
            {"tools": [WEATHER, SEARCH]},
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools "
            "with Function calling.",
            id="3-developer-without-flag",
        ),
        pytest.param(
            GEMINI_2,
            "gemini",
            {"tools": [WEATHER], "generationConfig": JSON},
            "Function calling with a response mime type: 'application/json' is unsupported",
            id="2-json-and-functions",
        ),
        pytest.param(
            GEMINI_2,
            "gemini",
            {"tools": [SEARCH], "generationConfig": JSON},
            "Tool use with a response mime type: 'application/json' is unsupported",
            id="2-json-and-builtin",
        ),
        pytest.param(
            GEMINI_3,
            "gemini",
            {"tools": [{"googleMaps": {}}], "generationConfig": JSON},
            "Google Maps tool with a response mime type: 'application/json' is unsupported",
            id="3-json-and-maps",
        ),
        pytest.param(
            GEMINI_3,
            "gemini",
            {"tools": [WEATHER], "cachedContent": "cachedContents/x"},
            "CachedContent can not be used with GenerateContent request setting "
            "system_instruction, tools or tool_config.\n\nProposed fix: move those values to "
            "CachedContent from GenerateContent request.",
            id="cached-content-and-tools",
        ),
        pytest.param(
            GEMINI_3,
            "vertex",
            {"tools": [WEATHER], "cachedContent": "cachedContents/x"},
            "Tool config, tools and system instruction should not be set in the request when using "
            "cached content.",
            id="vertex-cached-content-and-tools",
        ),
    ],
)
def test_what_does_not_go_together(
    model: str, backend: Backend, fields: dict[str, Any], message: str
) -> None:
    assert refusal_of(ask(model=model, backend=backend, **fields)).body == refused(message)


@pytest.mark.parametrize(
    ("model", "backend", "fields"),
    [
        pytest.param(
            GEMINI_3, "gemini", {"tools": [WEATHER, SEARCH], "toolConfig": FLAG}, id="3-with-flag"
        ),
        pytest.param(GEMINI_3, "vertex", {"tools": [WEATHER, SEARCH]}, id="3-vertex"),
        pytest.param(
            GEMINI_3, "gemini", {"tools": [WEATHER], "generationConfig": JSON}, id="3-json"
        ),
        pytest.param(GEMINI_2, "gemini", {"tools": [SEARCH]}, id="2-builtin-alone"),
    ],
)
def test_what_goes_together(model: str, backend: Backend, fields: dict[str, Any]) -> None:
    assert why_refused(ask(model=model, backend=backend, **fields)) is None
