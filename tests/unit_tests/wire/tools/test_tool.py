"""Bound tools: what they are, what is rejected, what is sent."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from typing import Annotated, Any

import pytest
from langchain_core.tools import StructuredTool

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.choice import ToolChoice
from langchain_gemini_tools.wire.tools.lint import reject_unusable_tools
from langchain_gemini_tools.wire.tools.names import render_parameter_name
from langchain_gemini_tools.wire.tools.tool import (
    Tool,
    bind_tools,
    plain_tools,
    render_tools,
)

GEMINI_3 = capabilities_of("gemini-3.8-flash")
GEMINI_2_5 = capabilities_of("gemini-2.5-flash")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather.", "parameters": CITY}
SEARCH: dict[str, Any] = {"google_search": {}}


def test_a_bound_tool_reads_like_a_plain_dict() -> None:
    [bound] = bind_tools([WEATHER])
    plain = {"type": "function", "function": WEATHER}
    assert bound == plain
    assert plain == bound
    assert bound.to_dict() == plain
    assert dict(bound) == plain
    assert (bound["type"], bound.get("name"), len(bound)) == ("function", None, 2)
    assert repr(bound) == repr(plain)
    assert json.loads(bound.text) == plain


def test_a_builtin_tool_reads_like_its_own_dict() -> None:
    [bound] = bind_tools([{"google_search": {"exclude_domains": ["a.com"]}}])
    plain = {"googleSearch": {"excludeDomains": ["a.com"]}}
    assert bound == plain
    assert dict(bound) == plain
    assert (len(bound), repr(bound)) == (1, repr(plain))
    assert not bound.is_function


def test_a_tool_is_a_value() -> None:
    [bound] = bind_tools([WEATHER])
    [other] = bind_tools([{"name": "now"}])
    assert {bound, other, Tool("now")} == {bound, other}
    assert copy.copy(bound) is copy.deepcopy(bound) is bound
    twin = pickle.loads(pickle.dumps(bound))
    assert type(twin) is Tool
    assert (twin, hash(twin)) == (bound, hash(bound))
    assert twin.declaration("openapi") == bound.declaration("openapi")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.name = "other"  # type: ignore[misc]


def test_a_bound_tool_is_returned_as_it_is() -> None:
    bound = bind_tools([WEATHER, SEARCH])
    assert bind_tools(bound) is bound
    assert [id(tool) for tool in bind_tools([*bound])] == [id(tool) for tool in bound]


def test_equal_specifications_share_one_tool_and_its_declaration() -> None:
    [bound] = bind_tools([WEATHER])
    [again] = bind_tools([copy.deepcopy(WEATHER)])
    assert again is bound
    assert again.declaration("json_schema") is bound.declaration("json_schema")


def test_the_dict_of_a_tool_can_be_changed_and_bound_again() -> None:
    [bound] = bind_tools([WEATHER])
    changed = bound.to_dict()
    changed["function"]["parameters"]["properties"]["city"] = {"const": "Rome"}
    bound["function"]["parameters"]["properties"]["city"] = {"const": "Oslo"}
    [again] = bind_tools([changed])
    assert again["function"]["parameters"]["properties"] == {
        "city": {"type": "string", "enum": ["Rome"]}
    }
    assert bound["function"] == WEATHER


def test_a_tool_shares_nothing_with_the_schema_that_was_given() -> None:
    schema = copy.deepcopy(CITY)
    [bound] = bind_tools([{**WEATHER, "parameters": schema}])
    schema["properties"]["town"] = {}  # type: ignore[index]
    assert bound["function"] == WEATHER


def test_options_are_shown_with_plain_tools() -> None:
    bound = bind_tools([WEATHER, SEARCH])
    shown = plain_tools({"tools": bound, "temperature": 0})
    assert shown == {"tools": [*bound], "temperature": 0}
    assert [type(tool) for tool in shown["tools"]] == [dict, dict]
    assert plain_tools({"tools": [WEATHER]}) == {"tools": [WEATHER]}


def test_the_extras_of_a_tool_may_have_a_response_schema() -> None:
    given = StructuredTool(
        name="get_weather",
        description="The weather.",
        args_schema=CITY,
        extras={
            "gemini": {"response_schema": {"type": "string", "$comment": "Celsius."}},
            "cache_control": {"type": "ephemeral"},
        },
    )
    assert [*bind_tools([given])] == [
        {"type": "function", "function": {**WEATHER, "response_schema": {"type": "string"}}}
    ]


def test_a_tools_extras_may_define_a_builtin_tool() -> None:
    given = StructuredTool(
        name="search",
        description="-",
        args_schema=CITY,
        extras={"provider_tool_definition": {"google_search": {}}},
    )
    assert [*bind_tools([given])] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    "given",
    [None, 5, "weather", object(), int, [WEATHER], list[int], int | None, Annotated[int, 5]],
)
def test_what_is_not_a_tool_is_rejected(given: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"is not a tool\. Pass a function, a LangChain"):
        bind_tools([given])


def test_functions_go_into_one_tool_and_builtin_tools_follow() -> None:
    bound = bind_tools([SEARCH, WEATHER, {"url_context": {}}, {"name": "now"}])
    assert render_tools(bound) == [
        {
            "functionDeclarations": [
                {
                    "name": "get_weather",
                    "description": "The weather.",
                    "parametersJsonSchema": CITY,
                },
                {"name": "now"},
            ]
        },
        {"googleSearch": {}},
        {"urlContext": {}},
    ]


def test_the_declaration_is_the_same_beside_a_builtin_tool() -> None:
    alone = render_tools(bind_tools([WEATHER]))
    beside = render_tools(bind_tools([WEATHER, SEARCH]))
    assert beside[:1] == alone


def test_a_response_schema_is_declared() -> None:
    bound = bind_tools([{"name": "now", "responseJsonSchema": {"type": "string"}}])
    assert render_tools(bound) == [
        {"functionDeclarations": [{"name": "now", "responseJsonSchema": {"type": "string"}}]}
    ]


def test_no_tools_are_no_tools() -> None:
    assert render_tools([]) == []


def test_a_name_that_the_api_rejects_is_declared_under_another() -> None:
    [tool] = render_tools(bind_tools([{"name": "Get weather"}]))
    assert tool == {"functionDeclarations": [{"name": "Get_weather_498ebfb0"}]}


def test_with_auto_only_the_chosen_functions_are_declared() -> None:
    bound = bind_tools([{"name": "a"}, {"name": "b"}, SEARCH])
    assert render_tools(bound, ToolChoice("AUTO", ("b",))) == [
        {"functionDeclarations": [{"name": "b"}]},
        {"googleSearch": {}},
    ]


@pytest.mark.parametrize("mode", ["ANY", "VALIDATED"])
def test_where_the_api_accepts_names_everything_is_declared(mode: str) -> None:
    bound = bind_tools([{"name": "a"}, {"name": "b"}])
    assert render_tools(bound, ToolChoice(mode, ("b",))) == [
        {"functionDeclarations": [{"name": "a"}, {"name": "b"}]}
    ]


def test_a_tool_that_is_bound_twice_is_declared_once() -> None:
    bound = bind_tools([WEATHER, {"name": "now"}, WEATHER])
    reject_unusable_tools(bound, GEMINI_3)
    assert render_tools(bound) == render_tools(bound[:2])


def test_two_different_tools_of_one_name_are_rejected() -> None:
    bound = bind_tools([WEATHER, {"name": "now"}, {"name": "now", "description": "The time."}])
    with pytest.raises(InvalidToolError, match="Tool 'now': two different tools have this name"):
        reject_unusable_tools(bound, GEMINI_3)


def test_more_functions_than_gemini_accepts_are_rejected() -> None:
    bound = bind_tools({"name": f"f{n}"} for n in range(513))
    reject_unusable_tools(bound[:512], GEMINI_3)
    with pytest.raises(InvalidToolError, match="accepts at most 512 functions, but 513 are bound"):
        reject_unusable_tools(bound, GEMINI_3)


@pytest.mark.parametrize("name", ["page-size", "$filter", "1st", "a" * 65, "größe"])
def test_a_parameter_name_that_gemini_does_not_allow_is_renamed(name: str) -> None:
    schema = {"properties": {name: {"type": "string"}, "q": {}}, "required": [name]}
    bound = bind_tools([{"name": "find", "parameters": schema}])
    reject_unusable_tools(bound, GEMINI_3)
    [declared] = render_tools(bound)[0]["functionDeclarations"]
    renamed = render_parameter_name(name)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", renamed)
    assert declared["parametersJsonSchema"] == {
        "type": "object",
        "properties": {renamed: {"type": "string"}, "q": {}},
        "required": [renamed],
    }
    assert bound[0]["function"]["parameters"]["required"] == [name]


def test_builtin_tools_beside_functions_need_gemini_3() -> None:
    bound = bind_tools([WEATHER, SEARCH])
    reject_unusable_tools(bound, GEMINI_3)
    reject_unusable_tools(bind_tools([WEATHER]), GEMINI_2_5)
    reject_unusable_tools(bind_tools([SEARCH]), GEMINI_2_5)
    with pytest.raises(
        InvalidToolError, match=r"cannot combine .*\(google_search\).*\(get_weather\)"
    ):
        reject_unusable_tools(bound, GEMINI_2_5)
