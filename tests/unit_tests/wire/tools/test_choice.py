"""What every way of choosing tools means, and what is sent for it."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from langchain_gemini_tools.errors import InvalidOptionError, UnknownToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.choice import (
    ToolChoice,
    render_tool_config,
    resolve_tool_choice,
)
from langchain_gemini_tools.wire.tools.tool import render_name

GEMINI_3 = capabilities_of("gemini-3.8-flash")
GEMINI_2_5 = capabilities_of("gemini-2.5-flash")
GEMINI_2_0 = capabilities_of("gemini-2.0-flash")
BOUND = bind_tools([{"name": "search"}, {"name": "Get weather"}])
BOTH_KINDS = bind_tools([{"name": "search"}, {"google_search": {}}])
ONLY_BUILTIN = bind_tools([{"google_search": {}}])

SEARCH = ToolChoice("ANY", ("search",))
MEANINGS: dict[str, tuple[Any, ToolChoice]] = {
    "nothing": (None, ToolChoice()),
    "False": (False, ToolChoice()),
    "an empty text": ("", ToolChoice()),
    "an empty list": ([], ToolChoice()),
    "True": (True, ToolChoice("ANY")),
    "auto": ("auto", ToolChoice("AUTO")),
    "any": ("any", ToolChoice("ANY")),
    "required": ("required", ToolChoice("ANY")),
    "none": ("none", ToolChoice("NONE")),
    "validated": ("validated", ToolChoice("VALIDATED")),
    "the API's own word": ("VALIDATED", ToolChoice("VALIDATED")),
    "a name": ("search", SEARCH),
    "a name as the user gave it": ("Get weather", ToolChoice("ANY", ("Get weather",))),
    "a name as it is sent": (render_name("Get weather"), ToolChoice("ANY", ("Get weather",))),
    "names": (["search", "Get weather"], ToolChoice("ANY", ("search", "Get weather"))),
    "openai chat": ({"type": "function", "function": {"name": "search"}}, SEARCH),
    "openai responses": ({"type": "function", "name": "search"}, SEARCH),
    "openai allowed, chat": (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "search"}}],
            },
        },
        SEARCH,
    ),
    "openai allowed, responses": (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "search"}],
        },
        ToolChoice("AUTO", ("search",)),
    ),
    "anthropic auto": ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice("AUTO")),
    "anthropic any": ({"type": "any"}, ToolChoice("ANY")),
    "anthropic none": ({"type": "none"}, ToolChoice("NONE")),
    "anthropic tool": ({"type": "tool", "name": "search"}, SEARCH),
    "bedrock auto": ({"auto": {}}, ToolChoice("AUTO")),
    "bedrock any": ({"any": {}}, ToolChoice("ANY")),
    "bedrock tool": ({"tool": {"name": "search"}}, SEARCH),
    "gemini": (
        {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["search"]}},
        SEARCH,
    ),
    "gemini, snake case": (
        {"function_calling_config": {"mode": "any", "allowed_function_names": ["search"]}},
        SEARCH,
    ),
    "gemini, bare": ({"mode": "Any", "allowed_function_names": ["search"]}, SEARCH),
    "gemini, set of names": ({"mode": "ANY", "allowed_function_names": {"search"}}, SEARCH),
    "gemini, names alone": ({"allowed_function_names": ["search"]}, SEARCH),
    "gemini, no names": ({"mode": "ANY", "allowed_function_names": []}, ToolChoice("ANY")),
    "gemini, unspecified": ({"mode": "MODE_UNSPECIFIED"}, ToolChoice()),
    "gemini, auto with names": (
        {"mode": "AUTO", "allowed_function_names": ["search"]},
        ToolChoice("AUTO", ("search",)),
    ),
    "sdk": (
        types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["search"]
            )
        ),
        SEARCH,
    ),
    "sdk, calling config": (
        types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode.VALIDATED, allowed_function_names=["search"]
        ),
        ToolChoice("VALIDATED", ("search",)),
    ),
    "sdk, mode": (types.FunctionCallingConfigMode.NONE, ToolChoice("NONE")),
}


@pytest.mark.parametrize(("choice", "meaning"), MEANINGS.values(), ids=MEANINGS)
def test_a_choice_means(choice: Any, meaning: ToolChoice) -> None:
    resolved = resolve_tool_choice(choice, BOUND, GEMINI_3)
    assert resolved == meaning
    assert resolve_tool_choice(resolved, BOUND, GEMINI_3) is resolved


GEMINI_DICTS = [key for key in MEANINGS if key.startswith(("gemini", "sdk"))]
WHOLE_CONFIGS = [key for key in GEMINI_DICTS if key in {"gemini", "gemini, snake case", "sdk"}]


@pytest.mark.parametrize("key", WHOLE_CONFIGS)
def test_a_tool_config_means_the_same(key: str) -> None:
    config, meaning = MEANINGS[key]
    assert resolve_tool_choice(None, BOUND, GEMINI_3, config) == meaning


@pytest.mark.parametrize("word", ["any", "auto", "none"])
def test_a_bound_tools_name_beats_a_word(word: str) -> None:
    bound = bind_tools([{"name": word}])
    assert resolve_tool_choice(word, bound, GEMINI_3) == ToolChoice("ANY", (word,))


@pytest.mark.parametrize(
    "choice",
    [
        "serch",
        ["search", "serch"],
        {"type": "function", "function": {"name": "serch"}},
        {"type": "tool", "name": "serch"},
        {"tool": {"name": "serch"}},
        {"mode": "ANY", "allowed_function_names": ["serch"]},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "serch"}]},
    ],
)
def test_an_unknown_name_is_rejected_with_the_bound_ones(choice: Any) -> None:
    with pytest.raises(
        UnknownToolError, match=r"'serch', which is not bound\. .*'search', 'Get weather'"
    ):
        resolve_tool_choice(choice, BOUND, GEMINI_3)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (5, "is not valid"),
        ({"type": "other"}, "is not valid"),
        ({"mode": "sometimes"}, "The mode 'sometimes' is not valid"),
        (
            {"mode": "NONE", "allowed_function_names": ["search"]},
            "cannot be combined with allowed names",
        ),
        ({"type": "function"}, "None is not the name of a tool"),
        ({"type": "tool", "name": 3}, "3 is not the name of a tool"),
        ({"type": "allowed_tools", "allowed_tools": ["search"]}, "allowed tools must be a list"),
        ({"type": "allowed_tools", "tools": "search"}, "must be a list, not 'search'"),
        ({"mode": "ANY", "allowed_function_names": "search"}, "must be a list, not 'search'"),
        ({"function_calling_config": "ANY"}, "function_calling_config must be a dict"),
    ],
)
def test_an_invalid_choice_is_rejected(choice: Any, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        resolve_tool_choice(choice, BOUND, GEMINI_3)


@pytest.mark.parametrize("choice", ["google_search", ["search", "googleSearch"]])
def test_a_tool_that_gemini_runs_cannot_be_required(choice: Any) -> None:
    with pytest.raises(InvalidOptionError, match="its use cannot be required"):
        resolve_tool_choice(choice, BOTH_KINDS, GEMINI_3)


def test_a_required_call_needs_a_tool() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"requires a call \(mode ANY\), but no tool is bound"
    ):
        resolve_tool_choice("any", bind_tools([]), GEMINI_3)
    assert resolve_tool_choice("auto", bind_tools([]), GEMINI_3) == ToolChoice("AUTO")


def test_choice_and_config_add_up() -> None:
    config = {
        "function_calling_config": {"stream_function_call_arguments": True},
        "retrieval_config": {"language_code": "en"},
    }
    choice = resolve_tool_choice("search", BOUND, GEMINI_3, config)
    rendered = render_tool_config(choice, BOUND, GEMINI_3, vertexai=True, streams_arguments=True)
    assert rendered == {
        "functionCallingConfig": {
            "mode": "ANY",
            "allowedFunctionNames": ["search"],
            "streamFunctionCallArguments": True,
        },
        "retrievalConfig": {"languageCode": "en"},
    }


@pytest.mark.parametrize(("choice", "calling"), [(None, None), ("any", {"mode": "ANY"})])
def test_arguments_are_streamed_only_in_streams(choice: Any, calling: Any) -> None:
    """Vertex AI: "streaming function call is not supported in unary API"."""
    config = {"function_calling_config": {"stream_function_call_arguments": True}}
    resolved = resolve_tool_choice(choice, BOUND, GEMINI_3, config)
    rendered = render_tool_config(resolved, BOUND, GEMINI_3, vertexai=True)
    assert rendered == ({"functionCallingConfig": calling} if calling else None)


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "ANY"}),
        ("search", {"mode": "ANY", "allowed_function_names": ["Get weather"]}),
    ],
)
def test_choice_and_config_that_contradict_are_rejected(choice: Any, calling: Any) -> None:
    config = {"function_calling_config": calling}
    with pytest.raises(InvalidOptionError, match="Use only one of them"):
        resolve_tool_choice(choice, BOUND, GEMINI_3, config)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"function_calling": {}}, "tool_config does not have a field functionCalling"),
        ("ANY", "tool_config must be a dict, not 'ANY'"),
    ],
)
def test_a_config_with_an_unknown_field_is_rejected(config: Any, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        resolve_tool_choice(None, BOUND, GEMINI_3, config)


SENT: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "auto": ("auto", {"functionCallingConfig": {"mode": "AUTO"}}),
    "none": ("none", {"functionCallingConfig": {"mode": "NONE"}}),
    "any": ("any", {"functionCallingConfig": {"mode": "ANY"}}),
    "names are those on the wire": (
        ["search", "Get weather"],
        {
            "functionCallingConfig": {
                "mode": "ANY",
                "allowedFunctionNames": ["search", render_name("Get weather")],
            }
        },
    ),
    "auto takes no names": (
        {"mode": "AUTO", "allowed_function_names": ["search"]},
        {"functionCallingConfig": {"mode": "AUTO"}},
    ),
    "validated takes names": (
        {"mode": "VALIDATED", "allowed_function_names": ["search"]},
        {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["search"]}},
    ),
}


@pytest.mark.parametrize(("choice", "sent"), SENT.values(), ids=SENT)
def test_what_is_sent(choice: Any, sent: Any) -> None:
    resolved = resolve_tool_choice(choice, BOUND, GEMINI_2_5)
    assert render_tool_config(resolved, BOUND, GEMINI_2_5) == sent


def test_a_model_that_does_not_validate_gets_auto_and_only_the_named_functions() -> None:
    choice = {"mode": "VALIDATED", "allowed_function_names": ["search"]}
    resolved = resolve_tool_choice(choice, BOUND, GEMINI_2_0)
    assert resolved == ToolChoice("AUTO", ("search",))
    assert [*resolved.declared(BOUND.functions)] == ["search"]
    assert render_tool_config(resolved, BOUND, GEMINI_2_0) == {
        "functionCallingConfig": {"mode": "AUTO"}
    }


def test_without_functions_the_calling_config_is_omitted() -> None:
    assert render_tool_config(ToolChoice("AUTO"), ONLY_BUILTIN, GEMINI_3) is None
    assert render_tool_config(ToolChoice("NONE"), bind_tools([]), GEMINI_3) is None


FLAG: dict[str, Any] = {"includeServerSideToolInvocations": True}


def test_both_kinds_of_tools_set_the_flag_on_the_developer_api_only() -> None:
    nothing = ToolChoice()
    assert render_tool_config(nothing, BOTH_KINDS, GEMINI_3) == FLAG
    assert render_tool_config(nothing, BOTH_KINDS, GEMINI_3, vertexai=True) is None
    assert render_tool_config(nothing, BOUND, GEMINI_3) is None
    calling = {"mode": "ANY", "allowedFunctionNames": ["search"]}
    assert render_tool_config(SEARCH, BOTH_KINDS, GEMINI_3) == {
        "functionCallingConfig": calling,
        "includeServerSideToolInvocations": True,
    }


@pytest.mark.parametrize("bound", [bind_tools([]), BOUND, ONLY_BUILTIN, BOTH_KINDS])
def test_a_history_of_server_tools_sets_the_flag(bound: Any) -> None:
    nothing = ToolChoice()
    assert render_tool_config(nothing, bound, GEMINI_3, has_server_parts=True) == FLAG


@pytest.mark.parametrize("given", [True, False])
def test_the_flag_is_set_whatever_was_given(given: bool) -> None:
    config = {"include_server_side_tool_invocations": given}
    choice = resolve_tool_choice(None, BOTH_KINDS, GEMINI_3, config)
    assert render_tool_config(choice, BOTH_KINDS, GEMINI_3) == FLAG


def test_builtin_tools_alone_cannot_be_required_but_keep_their_settings() -> None:
    config = {"retrieval_config": {"lat_lng": {"latitude": 48.9, "longitude": 2.3}}}
    choice = resolve_tool_choice("required", ONLY_BUILTIN, GEMINI_3, config)
    assert render_tool_config(choice, ONLY_BUILTIN, GEMINI_3) == {
        "retrievalConfig": {"latLng": {"latitude": 48.9, "longitude": 2.3}}
    }


def test_the_flag_is_passed_on_for_builtin_tools_alone() -> None:
    choice = resolve_tool_choice(None, ONLY_BUILTIN, GEMINI_3, FLAG)
    assert render_tool_config(choice, ONLY_BUILTIN, GEMINI_3) == FLAG


def test_the_flag_is_rejected_where_it_does_not_exist() -> None:
    choice = resolve_tool_choice(None, ONLY_BUILTIN, GEMINI_3, FLAG)
    with pytest.raises(InvalidOptionError, match="does not exist on Vertex AI"):
        render_tool_config(choice, ONLY_BUILTIN, GEMINI_3, vertexai=True)
    with pytest.raises(InvalidOptionError, match="does not exist on this model"):
        render_tool_config(choice, ONLY_BUILTIN, GEMINI_2_5)
