from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.models import Backend

SEARCH: dict[str, Any] = {"googleSearch": {}}
FLAG = {"includeServerSideToolInvocations": True}
JSON = {"responseMimeType": "application/json"}


def calling(**config: Any) -> dict[str, Any]:
    return {"functionCallingConfig": config}


@pytest.mark.parametrize("mode", ["AUTO", "ANY", "NONE", "VALIDATED"])
def test_every_mode_passes(mode: str) -> None:
    check(ask(tools=[WEATHER], toolConfig=calling(mode=mode)))


@pytest.mark.parametrize("mode", ["ANY", "VALIDATED"])
def test_allowed_names_go_with_any_and_validated(mode: str) -> None:
    config = calling(mode=mode, allowedFunctionNames=["get_weather"])
    check(ask(tools=[WEATHER], toolConfig=config))


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
    check(ask(model=model, backend=backend, **fields))
