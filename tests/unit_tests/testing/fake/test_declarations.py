from __future__ import annotations

from typing import Any

import pytest

from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GET_WEATHER,
    ask,
    refusal_of,
    refused,
    why_refused,
)

NAME_RULE = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
    "(a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64."
)


def declared(*declarations: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"functionDeclarations": list(declarations)}]


@pytest.mark.parametrize("name", ["f", "_f", "a.b-c_d9", "x" * 64])
def test_good_names_pass(name: str) -> None:
    assert why_refused(ask(tools=declared({"name": name}))) is None


@pytest.mark.parametrize("name", ["", "9f", "get weather", "naïve", "a:b", "x" * 65, "a/b"])
def test_bad_names_are_rejected(name: str) -> None:
    body = refusal_of(ask(tools=declared(GET_WEATHER, {"name": name}))).body
    path = "GenerateContentRequest.tools[0].function_declarations[1].name"
    assert body == refused(f"* {path}: {NAME_RULE}\n")


def test_every_bad_name_is_reported() -> None:
    message = refusal_of(ask(tools=declared({"name": "a b"}, {"name": "c d"}))).message
    assert message.count(NAME_RULE) == 2


def test_a_name_declared_twice_is_rejected_across_tools() -> None:
    tools = [*declared(GET_WEATHER), *declared(GET_WEATHER)]
    assert refusal_of(ask(tools=tools)).body == refused(
        "Duplicate function declaration found: get_weather"
    )


def test_512_functions_pass_and_513_do_not() -> None:
    functions = [{"name": f"f{number}"} for number in range(513)]
    assert why_refused(ask(tools=declared(*functions[:512]))) is None
    assert refusal_of(ask(tools=declared(*functions))).body == refused(
        "The GenerateContentRequest proto is invalid:\n"
        "  * tools[0].function_declarations: [FIELD_INVALID] "
        "At most 512 function declarations can be specified."
    )


def test_two_schemas_for_the_same_parameters_are_rejected() -> None:
    both = GET_WEATHER | {"parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
    refusal = refusal_of(ask(tools=declared(both)))
    assert refusal.body == refused(CATCH_ALL)
    assert "exclude each other" in refusal.why


def test_behavior_belongs_to_the_live_api() -> None:
    refusal = refusal_of(ask(tools=declared(GET_WEATHER | {"behavior": "BLOCKING"})))
    assert refusal.body == refused(CATCH_ALL)


STRING = {"type": "STRING"}


def parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]


def json_parameters(schema: Any) -> list[dict[str, Any]]:
    return [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}]


def with_property(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "OBJECT", "properties": {"data": schema}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(
            with_property({"type": "OBJECT"}),
            ".properties[data].properties: should be non-empty for OBJECT type",
            id="object-without-properties",
        ),
        pytest.param(
            with_property({"type": "STRING", "properties": {"a": STRING}}),
            ".properties[data].properties: only allowed for OBJECT type",
            id="properties-of-a-string",
        ),
        pytest.param(
            with_property({"type": "STRING", "required": ["a"]}),
            ".properties[data].required: only allowed for OBJECT type",
            id="required-of-a-string",
        ),
        pytest.param(
            with_property({"type": "ARRAY"}),
            ".properties[data].items: missing field.",
            id="array-without-items",
        ),
        pytest.param(
            with_property({"type": "STRING", "items": STRING}),
            ".properties[data].items: field predicate failed: $type == Type.ARRAY",
            id="items-of-a-string",
        ),
        pytest.param(
            with_property(STRING) | {"required": ["date"]},
            ".required[0]: property is not defined",
            id="required-but-not-there",
        ),
        pytest.param(
            with_property({"type": "INTEGER", "enum": ["1"]}),
            ".properties[data].enum: only allowed for STRING type",
            id="enum-of-numbers",
        ),
        pytest.param(
            with_property({"type": "STRING", "enum": ["a", ""]}),
            ".properties[data].enum[1]: cannot be empty",
            id="empty-enum-value",
        ),
        pytest.param(
            with_property({"type": "STRING", "format": "uri"}),
            ".properties[data].format: only 'enum' and 'date-time' are supported for STRING type",
            id="unknown-format",
        ),
    ],
)
def test_what_a_schema_may_not_say(schema: dict[str, Any], problem: str) -> None:
    path = "GenerateContentRequest.tools[0].function_declarations[0].parameters"
    assert refusal_of(ask(tools=parameters(schema))).body == refused(f"* {path}{problem}\n")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(
            {"anyOf": [with_property(STRING)]},
            "`parameters` schema should be of type OBJECT.",
            id="no-object",
        ),
        pytest.param(
            with_property({"anyOf": [STRING, {"type": "INTEGER"}], "description": "Either."}),
            "`parameters.data` schema specified other fields alongside any_of. "
            "When using any_of, it must be the only field set.",
            id="beside-any-of",
        ),
        pytest.param(
            with_property({"type": "ARRAY", "items": with_property({"nullable": True})}),
            "`parameters.data.items.data` schema didn't specify the schema type field.",
            id="no-type",
        ),
    ],
)
def test_what_only_vertex_rejects(schema: dict[str, Any], problem: str) -> None:
    assert why_refused(ask(tools=parameters(schema))) is None
    assert refusal_of(ask(tools=parameters(schema), backend="vertex")).body == refused(
        f"Unable to submit request because `f` functionDeclaration {problem} Learn more: "
        "https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling"
    )


def test_parameters_may_be_an_empty_object() -> None:
    assert (
        why_refused(ask(tools=parameters({"type": "OBJECT", "properties": {}, "required": []})))
        is None
    )


def test_a_response_schema_keeps_the_same_rules() -> None:
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY"}}
    assert refusal_of(ask(generationConfig=config)).body == refused(
        "* GenerateContentRequest.generation_config.response_schema.items: missing field.\n"
    )


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "object"}, id="no-parameters"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": ["string", "null"], "minLength": 1}}},
            id="list-of-types",
        ),
        pytest.param(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"next": {"$ref": "#"}, "a": {"$ref": "#/$defs/A"}},
                "required": ["a"],
                "$defs": {"A": {"type": "integer", "exclusiveMinimum": 0}},
            },
            id="references",
        ),
    ],
)
def test_json_schemas_may_say_much(schema: dict[str, Any]) -> None:
    assert why_refused(ask(tools=json_parameters(schema))) is None


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param("object", "not an object", id="not-an-object"),
        pytest.param({"type": "string"}, "not of type object", id="not-of-type-object"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "strnig"}}},
            "no type 'strnig'",
            id="no-such-type",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}},
            "leads nowhere",
            id="dangling-reference",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A", "description": "An A."}},
                "$defs": {"A": {"type": "string"}},
            },
            "beside $ref",
            id="description-beside-reference",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"enum": [True]}}},
            "strings or numbers",
            id="enum-of-booleans",
        ),
    ],
)
def test_what_a_json_schema_may_not_say(schema: Any, why: str) -> None:
    refusal = refusal_of(ask(tools=json_parameters(schema)))
    assert refusal.body == refused(CATCH_ALL)
    assert why in refusal.why


def test_a_schema_that_is_too_deep_is_rejected_with_its_name() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    assert refusal_of(ask(tools=json_parameters(schema))).body == refused(
        "FunctionDeclaration 'f' in the request exceeds the maximum allowed nesting depth."
    )


def loop(inner: Any) -> dict[str, Any]:
    """A schema whose definition A holds itself in a required property, in this way."""
    held = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": held},
    }


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param({"$ref": "#/$defs/A"}, id="endless"),
        pytest.param({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, id="or-null"),
        pytest.param({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}, id="a-choice"),
        pytest.param(
            {"type": "array", "items": {"$ref": "#/$defs/A"}, "minItems": 1}, id="not-empty"
        ),
    ],
)
def test_a_loop_of_required_properties_is_rejected(inner: Any) -> None:
    assert refusal_of(ask(tools=json_parameters(loop(inner)))).body == refused(
        "ref loops are only supported if they include optional or nullable property values, or a "
        "potentially-zero-length array items, but a ref loop of required fields was found at "
        "$defs.A"
    )


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param({"type": "array", "items": {"$ref": "#/$defs/A"}}, id="a-list"),
        pytest.param({"type": "object", "properties": {"b": {"$ref": "#/$defs/A"}}}, id="optional"),
    ],
)
def test_a_loop_that_may_end_is_taken(inner: Any) -> None:
    assert why_refused(ask(tools=json_parameters(loop(inner)))) is None


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        pytest.param({"type": "object", "required": ["a"]}, "top-level", id="top"),
        pytest.param(
            {"type": "object", "properties": {"x": {"properties": {}, "required": ["a"]}}},
            "properties.x",
            id="inside",
        ),
    ],
)
def test_a_required_property_without_a_schema_is_rejected(schema: Any, where: str) -> None:
    expected = refused(f"schema at {where} requires unspecified property 'a'")
    assert refusal_of(ask(tools=json_parameters(schema))).body == expected
