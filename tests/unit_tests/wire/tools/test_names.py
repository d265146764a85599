"""Names on the wire, the way back to the user's names, and names in the API's errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.wire.tools.names import (
    function_names,
    name_places,
    names_by_wire_name,
    render_name,
)
from langchain_gemini_tools.wire.tools.tool import Tool

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
    bound = [
        Tool("Get weather"),
        Tool("googleSearch", builtin={"googleSearch": {}}),
        Tool("search"),
    ]
    assert function_names(bound) == ["Get weather", "search"]
    assert names_by_wire_name(bound) == {"Get_weather_498ebfb0": "Get weather", "search": "search"}


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
