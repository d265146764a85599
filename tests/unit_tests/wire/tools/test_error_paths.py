"""Places in the API's errors, and the names that stand there."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.tools.error_paths import name_places

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
