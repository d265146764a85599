"""Bound tools: what they are, what is rejected, what is sent, and under which names."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.bind import bind_tools, plain_tools
from langchain_gemini_tools.wire.tools.choice import ToolChoice
from langchain_gemini_tools.wire.tools.lint import reject_unusable_tools
from langchain_gemini_tools.wire.tools.tool import (
    BoundTools,
    Tool,
    name_places,
    render_name,
    render_parameter_name,
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


def test_bound_tools_stay_bound_in_copies_and_pickles() -> None:
    bound = bind_tools([WEATHER, SEARCH])
    assert (len(bound.functions), len(bound.builtin)) == (1, 1)
    for copied in (pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound), copy.copy(bound)):
        assert bind_tools(copied) is copied
        assert (copied, hash(copied)) == (bound, hash(bound))
        assert render_tools(copied) == render_tools(bound)


def test_pickles_of_bound_tools_do_not_depend_on_their_use() -> None:
    """joblib and Dask recognize what they have seen by its pickle."""
    bound = bind_tools([WEATHER, SEARCH])
    before = pickle.dumps(bound)
    assert render_tools(bound)
    assert [*bound.user_names, *bound.user_parameters] == ["get_weather"]
    assert pickle.dumps(bound) == before


def test_no_tools_are_no_tools() -> None:
    assert render_tools(BoundTools()) == []


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
    assert render_tools(bound) == render_tools(BoundTools(bound[:2]))


def test_two_different_tools_of_one_name_are_rejected() -> None:
    bound = bind_tools([WEATHER, {"name": "now"}, {"name": "now", "description": "The time."}])
    with pytest.raises(InvalidToolError, match="Tool 'now': two different tools have this name"):
        reject_unusable_tools(bound, GEMINI_3)


def test_more_functions_than_gemini_accepts_are_rejected() -> None:
    bound = bind_tools({"name": f"f{n}"} for n in range(513))
    reject_unusable_tools(BoundTools(bound[:512]), GEMINI_3)
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


# Names

VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@pytest.mark.parametrize("name", ["get_weather", "_private", "a.b-c", "A" * 64])
def test_a_valid_name_is_sent_as_it_is(name: str) -> None:
    assert render_name(name) == name


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("21st_magic", "_21st_magic_223895e4"),
        ("Get weather", "Get_weather_498ebfb0"),
        ("mcp:search", "mcp_search_e6083a89"),
        ("größe", "gr__e_d353a267"),
        ("a" * 65, "a" * 55 + "_635361c4"),
    ],
)
def test_any_other_name_gets_a_readable_one(name: str, sent: str) -> None:
    assert render_name(name) == sent


@given(st.text(min_size=1))
def test_every_name_becomes_valid_and_stays_so(name: str) -> None:
    assert VALID.fullmatch(render_name(name))
    assert render_name(render_name(name)) == render_name(name)


def test_names_that_differ_in_a_replaced_character_stay_apart() -> None:
    assert render_name("a b") != render_name("a/b")


def test_the_bound_tools_lead_back_to_the_users_names() -> None:
    bound = BoundTools(
        [
            Tool("Get weather"),
            Tool("googleSearch", builtin={"googleSearch": {}}),
            Tool("search"),
        ]
    )
    assert [*bound.functions] == ["Get weather", "search"]
    assert bound.user_names == {"Get_weather_498ebfb0": "Get weather", "search": "search"}


# Names in the API's errors

FILTER = {
    "type": "object",
    "properties": {"tag": {"type": "string"}, "size": {"anyOf": [{}, {"properties": {"cm": {}}}]}},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "filters": {"type": "array", "items": FILTER},
        "7": {"type": "string"},
    },
}
TOOLS: list[dict[str, Any]] = [
    {"googleSearch": {}},
    {
        "functionDeclarations": [
            {"name": "now"},
            {
                "name": "find",
                "parametersJsonSchema": SCHEMA,
                "responseJsonSchema": {"properties": {"hits": {}}},
            },
            {"name": "find_old", "parameters": SCHEMA, "response": {"properties": {"hits": {}}}},
        ]
    },
]


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        pytest.param("", "", id="the tool"),
        pytest.param(".name", "", id="its name"),
        pytest.param(".parameters", "", id="its parameters"),
        pytest.param(".parameters.properties", "", id="all of its properties"),
        pytest.param(".parameters.properties[0].value", ", parameter 'query'", id="by position"),
        pytest.param(".parameters.properties[query]", ", parameter 'query'", id="by name"),
        pytest.param(
            ".parameters.properties[7].type", ", parameter '7'", id="a name that is a number"
        ),
        pytest.param(
            ".parameters.properties[1].value.items", ", parameter 'filters[]'", id="items"
        ),
        pytest.param(
            ".parameters.properties[filters].items.properties[tag].format",
            ", parameter 'filters[].tag'",
            id="in items, by name",
        ),
        pytest.param(
            ".parameters.properties[1].value.items.properties[1].value.any_of[1].properties[0].value",
            ", parameter 'filters[].size.cm'",
            id="in any_of, by position",
        ),
        pytest.param(
            ".parameters.properties[1].value.items.properties[1].value.any_of[9].type",
            ", parameter 'filters[].size'",
            id="a choice that is not there",
        ),
        pytest.param(
            ".parameters_json_schema.properties[0].value", ", parameter 'query'", id="its own field"
        ),
        pytest.param(
            ".parametersJsonSchema.properties.query", "", id="a path of another form is left alone"
        ),
        pytest.param(".response.properties[0].value", ", parameter 'hits'", id="the response"),
        pytest.param(".parameters.properties[²]", ", parameter '²'", id="a digit that counts not"),
        pytest.param(
            ".parameters.properties[1].value.any_of[²].type", ", parameter 'filters'", id="nor here"
        ),
    ],
)
@pytest.mark.parametrize(("number", "name"), [(1, "find"), (2, "find_old")])
def test_a_place_is_named(rest: str, named: str, number: int, name: str) -> None:
    for words in (
        f'Invalid JSON payload received. Unknown name "const" at '
        f"'tools[1].function_declarations[{number}]{rest}': Cannot find field.",
        f"* GenerateContentRequest.tools[1].function_declarations[{number}]{rest}: missing field.",
        f"tools[1].functionDeclarations[{number}]{rest}",
    ):
        assert name_places(words, TOOLS) == [f"tool {name!r}{named}"]


@pytest.mark.parametrize(
    "message",
    [
        "Request contains an invalid argument.",
        "tools[1].function_declarations[3].name: bad",
        "tools[0].function_declarations[0].name: bad",
        "tools[2].function_declarations[0].name: bad",
        f"tools[{'1' * 5000}].function_declarations[0].name: bad",
        "contents[1].parts[0].function_response.name: Name cannot be empty.",
    ],
)
def test_what_points_nowhere_names_nothing(message: str) -> None:
    assert name_places(message, TOOLS) == []


def test_every_place_is_named_once_and_in_order() -> None:
    message = "\n".join(
        f"* GenerateContentRequest.tools[1].function_declarations[{place}: missing field."
        for place in ("2].parameters.properties[filters].items", "0].name", "0].name", "1].name")
    )
    assert name_places(message, TOOLS) == [
        "tool 'find_old', parameter 'filters[]'",
        "tool 'now'",
        "tool 'find'",
    ]
