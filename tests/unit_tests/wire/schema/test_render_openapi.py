"""The API's Schema message: one rule a test, then what holds for every schema."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.wire.schema.clean import clean_parameters, clean_schema
from langchain_gemini_tools.wire.schema.render import (
    render_openapi_parameters,
    render_openapi_schema,
)
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.unit_tests.testing.fake.requests import ask
from tests.unit_tests.wire.schema.test_meaning import (
    DOCUMENTS,
    EVERY_VALUE,
    NAMES,
    TEXTS,
    VALUES,
    every_kind,
    fits,
    some,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

FREE_KEY = {"type": "STRING", "description": "Stands for any key and value of your choice."}
FREE_OBJECT: JsonSchema = {"type": "OBJECT", "properties": {"any_key": FREE_KEY}}
SCALARS = [{"type": "STRING"}, {"type": "NUMBER"}, {"type": "BOOLEAN"}]
ANY_ITEM = {"anyOf": [*SCALARS, FREE_OBJECT]}
ANYTHING: JsonSchema = {
    "anyOf": [
        {"type": "STRING", "nullable": True},
        *SCALARS[1:],
        {"type": "ARRAY", "items": ANY_ITEM},
        FREE_OBJECT,
    ]
}


def rendered(schema: Any) -> JsonSchema:
    """What a schema as a user gives it becomes."""
    return render_openapi_schema(clean_schema(schema))


# One rule a test


@pytest.mark.parametrize(
    ("given_type", "sent"),
    [
        pytest.param({"type": "string"}, {"type": "STRING"}, id="string"),
        pytest.param({"type": "integer"}, {"type": "INTEGER"}, id="integer"),
        pytest.param({"type": "number"}, {"type": "NUMBER"}, id="number"),
        pytest.param({"type": "boolean"}, {"type": "BOOLEAN"}, id="boolean"),
        pytest.param(
            {"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, id="or null"
        ),
        pytest.param(
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            {"type": "INTEGER", "nullable": True},
            id="optional, as Pydantic says it",
        ),
        pytest.param(
            {"type": ["integer", "string", "null"], "description": "Which."},
            {
                "anyOf": [
                    {"type": "INTEGER", "nullable": True, "description": "Which."},
                    {"type": "STRING"},
                ]
            },
            id="several types, and nothing stands beside anyOf",
        ),
        pytest.param(
            {"type": "null"},
            {"type": "STRING", "nullable": True, "description": "Must be null."},
            id="null",
        ),
        pytest.param({}, ANYTHING, id="anything"),
        pytest.param(True, ANYTHING, id="true"),
        pytest.param({"type": "any"}, ANYTHING, id="the type of draft 3 for anything"),
        pytest.param(
            {"minimum": 3, "minLength": 2},
            {
                "anyOf": [
                    {"type": "STRING", "minLength": 2, "nullable": True},
                    {"type": "NUMBER", "minimum": 3},
                    *ANYTHING["anyOf"][2:],
                ]
            },
            id="anything, within limits",
        ),
    ],
)
def test_a_schema_has_one_type_or_is_a_choice_of_such(given_type: Any, sent: JsonSchema) -> None:
    assert rendered(given_type) == sent


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        pytest.param({"const": "a"}, {"type": "STRING", "enum": ["a"]}, id="const"),
        pytest.param({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}, id="strings"),
        pytest.param(
            {"enum": ["a", None]},
            {"type": "STRING", "enum": ["a"], "nullable": True},
            id="a string or null",
        ),
        pytest.param(
            {"type": "integer", "enum": [1, 2]},
            {"type": "INTEGER", "description": "One of: 1, 2."},
            id="integers",
        ),
        pytest.param(
            {"const": 1.5, "description": "Rate."},
            {"type": "NUMBER", "description": "Rate. One of: 1.5."},
            id="a number",
        ),
        pytest.param(
            {"const": True}, {"type": "BOOLEAN", "description": "Must be true."}, id="true"
        ),
        pytest.param(
            {"enum": ["", "é"]},
            {"type": "STRING", "description": 'One of: "", "é".'},
            id="an empty string, which the API takes in no enum",
        ),
        pytest.param(
            {"enum": ["a", 1]},
            {
                "anyOf": [
                    {"type": "INTEGER", "description": 'One of: "a", 1.'},
                    {"type": "STRING", "enum": ["a"]},
                ]
            },
            id="mixed",
        ),
    ],
)
def test_an_enum_contains_strings_and_other_values_are_described(
    values: JsonSchema, sent: JsonSchema
) -> None:
    assert rendered(values) == sent


@pytest.mark.parametrize(
    ("array", "sent"),
    [
        pytest.param({"type": "array"}, {"type": "ARRAY", "items": ANY_ITEM}, id="without items"),
        pytest.param(
            {"type": "array", "items": {}}, {"type": "ARRAY", "items": ANY_ITEM}, id="empty items"
        ),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
            {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": 1, "maxItems": 3},
            id="of integers",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {
                "type": "ARRAY",
                "items": {"type": "STRING"},
                "description": "All items are different.",
            },
            id="a set",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "uniqueItems": False},
            {"type": "ARRAY", "items": {"type": "STRING"}},
            id="not a set",
        ),
        pytest.param(
            {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "number"}],
                "minItems": 2,
                "maxItems": 2,
            },
            {
                "type": "ARRAY",
                "items": {"type": "NUMBER"},
                "minItems": 2,
                "maxItems": 2,
                "description": 'Items in order: [{"type": "number"}, {"type": "number"}].',
            },
            id="a pair",
        ),
        pytest.param(
            {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            {
                "type": "ARRAY",
                "items": {"type": "STRING"},
                "maxItems": 1,
                "description": 'Items in order: [{"type": "string"}].',
            },
            id="a tuple of draft 7",
        ),
        pytest.param(
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "string"}],
                "items": {"type": "integer"},
            },
            {
                "type": "ARRAY",
                "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
                "description": 'Items in order: [{"type": "string"}, {"type": "string"}].',
            },
            id="a tuple with more items",
        ),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "integer"}]},
            {
                "type": "ARRAY",
                "items": {"anyOf": [{"type": "INTEGER"}, *ANY_ITEM["anyOf"]]},
                "description": 'Items in order: [{"type": "integer"}].',
            },
            id="a tuple that goes on as it likes",
        ),
    ],
)
def test_every_array_has_items(array: JsonSchema, sent: JsonSchema) -> None:
    assert rendered(array) == sent


@pytest.mark.parametrize(
    ("given_object", "sent"),
    [
        pytest.param({"type": "object"}, FREE_OBJECT, id="free"),
        pytest.param({"type": "object", "additionalProperties": True}, FREE_OBJECT, id="open"),
        pytest.param(
            {"type": "object", "additionalProperties": {}}, FREE_OBJECT, id="open, as Pydantic says"
        ),
        pytest.param(
            {
                "type": "object",
                "patternProperties": {"^x": {"type": "string"}, "^n": {"type": "integer"}},
                "additionalProperties": False,
            },
            {
                "type": "OBJECT",
                "properties": {
                    "any_key": {
                        "anyOf": [
                            {
                                "type": "STRING",
                                "description": "Stands for any key that matches ^x or ^n.",
                            },
                            {"type": "INTEGER"},
                        ]
                    }
                },
                "description": (
                    'Keys by pattern: {"^x": {"type": "string"}, "^n": {"type": "integer"}}.'
                ),
            },
            id="closed but for patterns",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": False},
            {
                "type": "OBJECT",
                "properties": {
                    "any_key": {
                        "type": "STRING",
                        "description": "Leave it out: this object has no keys.",
                    }
                },
            },
            id="empty",
        ),
        pytest.param(
            {"additionalProperties": {"type": "integer", "description": "Points."}},
            {
                "type": "OBJECT",
                "properties": {
                    "any_key": {
                        "type": "INTEGER",
                        "description": "Stands for any key of your choice. Points.",
                    }
                },
            },
            id="a map",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": ["integer", "string"]}},
            {
                "type": "OBJECT",
                "properties": {
                    "any_key": {
                        "anyOf": [
                            {
                                "type": "INTEGER",
                                "description": "Stands for any key of your choice.",
                            },
                            {"type": "STRING"},
                        ]
                    }
                },
            },
            id="a map of several types",
        ),
        pytest.param(
            {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
            {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}},
                "description": "No other keys.",
            },
            id="closed",
        ),
        pytest.param(
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
            {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}},
                "description": 'Other keys: {"type": "integer"}.',
            },
            id="with others of one type",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["b", "c"],
                "propertyOrdering": ["b", "a"],
                "minProperties": 1,
                "maxProperties": 3,
            },
            {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
                "required": ["b"],
                "propertyOrdering": ["b", "a"],
                "minProperties": 1,
                "maxProperties": 3,
                "description": "Required keys: c.",
            },
            id="required names without a schema are described",
        ),
        pytest.param(
            {"type": "object", "properties": {"type": {"type": "string"}, "items": True}},
            {"type": "OBJECT", "properties": {"type": {"type": "STRING"}, "items": ANYTHING}},
            id="named like keywords",
        ),
    ],
)
def test_every_object_has_properties(given_object: JsonSchema, sent: JsonSchema) -> None:
    assert rendered(given_object) == sent


@pytest.mark.parametrize(
    ("limited", "sent"),
    [
        pytest.param(
            {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9},
            {"type": "STRING", "pattern": "^a", "minLength": 1, "maxLength": 9},
            id="of a string",
        ),
        pytest.param(
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "format": "int64"},
            {"type": "INTEGER", "minimum": 1, "maximum": 9, "format": "int64"},
            id="of an integer",
        ),
        pytest.param(
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "format": "double"},
            {
                "type": "NUMBER",
                "minimum": 0,
                "format": "double",
                "description": "Must be greater than 0. Multiple of: 0.5.",
            },
            id="of a number",
        ),
        pytest.param(
            {"type": "string", "format": "date-time"},
            {"type": "STRING", "format": "date-time"},
            id="a format that the API knows",
        ),
        pytest.param(
            {"type": "string", "format": "uri", "description": "Where.", "minimum": 5},
            {"type": "STRING", "description": 'Where. Format: "uri".'},
            id="a format that it refuses",
        ),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"type": "null"}], "format": "uri", "maxLength": 5},
            {
                "type": "STRING",
                "maxLength": 5,
                "nullable": True,
                "description": 'Format: "uri".',
            },
            id="beside a choice",
        ),
        pytest.param(
            {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
            {"type": "STRING", "description": 'Encoding: "base64". Media type: "image/png".'},
            id="of a file",
        ),
    ],
)
def test_limits_and_formats_pass_where_there_is_a_field(
    limited: JsonSchema, sent: JsonSchema
) -> None:
    assert rendered(limited) == sent


@pytest.mark.parametrize(
    ("given_default", "sent"),
    [
        pytest.param(
            {"type": "integer", "default": 0}, {"type": "INTEGER", "default": 0}, id="a zero"
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "default": []},
            {"type": "ARRAY", "items": {"type": "STRING"}, "default": []},
            id="an empty list",
        ),
        pytest.param({"type": "string", "default": None}, {"type": "STRING"}, id="null is none"),
        pytest.param(
            {"type": ["string", "integer"], "default": 5},
            {"anyOf": [{"type": "STRING", "description": "Default: 5."}, {"type": "INTEGER"}]},
            id="of a choice",
        ),
    ],
)
def test_a_default_is_kept(given_default: JsonSchema, sent: JsonSchema) -> None:
    assert rendered(given_default) == sent


def test_words_that_a_person_wrote_are_kept() -> None:
    depth = {"type": "integer", "title": "Search depth", "description": "How deep."}
    assert rendered({"type": "object", "properties": {"n": depth}}) == {
        "type": "OBJECT",
        "properties": {
            "n": {"type": "INTEGER", "title": "Search depth", "description": "How deep."}
        },
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        pytest.param(
            {
                "description": "A pet.",
                "oneOf": [
                    {"properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
                    {
                        "description": "Barks.",
                        "properties": {"kind": {"const": "dog"}},
                        "required": ["kind"],
                    },
                ],
                "discriminator": {"propertyName": "kind"},
            },
            {
                "anyOf": [
                    {
                        "type": "OBJECT",
                        "properties": {"kind": {"type": "STRING", "enum": ["cat"]}},
                        "required": ["kind"],
                        "description": "A pet.",
                    },
                    {
                        "type": "OBJECT",
                        "properties": {"kind": {"type": "STRING", "enum": ["dog"]}},
                        "required": ["kind"],
                        "description": "Barks.",
                    },
                ]
            },
            id="a discriminated union",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a"],
                "anyOf": [{"required": ["b"]}, {"properties": {"c": {"type": "integer"}}}],
            },
            {
                "anyOf": [
                    {
                        "type": "OBJECT",
                        "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
                        "required": ["a", "b"],
                    },
                    {
                        "type": "OBJECT",
                        "properties": {
                            "a": {"type": "STRING"},
                            "b": {"type": "STRING"},
                            "c": {"type": "INTEGER"},
                        },
                        "required": ["a"],
                    },
                ]
            },
            id="what stands beside holds for each",
        ),
        pytest.param(
            {
                "anyOf": [
                    {"type": ["string", "null"]},
                    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                ]
            },
            {
                "anyOf": [
                    {"type": "STRING", "nullable": True},
                    {"type": "INTEGER"},
                    {"type": "STRING"},
                ]
            },
            id="a choice of choices is one choice",
        ),
        pytest.param(
            {
                "anyOf": [{"type": "string"}, {"type": "integer"}],
                "oneOf": [{"minLength": 1}, {"minimum": 1}],
                "not": {"const": "a"},
            },
            {
                "anyOf": [
                    {
                        "type": "STRING",
                        "description": 'Also one of: [{"minLength": 1}, {"minimum": 1}]. '
                        'Not: {"type": "string", "enum": ["a"]}.',
                    },
                    {"type": "INTEGER"},
                ]
            },
            id="a second choice is described",
        ),
    ],
)
def test_a_choice_stands_alone(choice: JsonSchema, sent: JsonSchema) -> None:
    assert rendered(choice) == sent


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        pytest.param({"not": {"required": ["a"]}}, 'Not: {"required": ["a"]}.', id="not"),
        pytest.param(
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
            'If: {"required": ["a"]}. Then: {"required": ["b"]}. Else: {"required": ["c"]}.',
            id="if, then, else",
        ),
        pytest.param(
            {"patternProperties": {"^x": {"type": "string"}}},
            'Keys by pattern: {"^x": {"type": "string"}}.',
            id="patternProperties",
        ),
        pytest.param(
            {"propertyNames": {"pattern": "^x"}}, 'Every key: {"pattern": "^x"}.', id="names"
        ),
        pytest.param(
            {"dependentRequired": {"a": ["b"]}},
            'Keys that need other keys: {"a": ["b"]}.',
            id="dependentRequired",
        ),
        pytest.param(
            {"dependentSchemas": {"a": {"required": ["b"]}}},
            'Keys that need more: {"a": {"required": ["b"]}}.',
            id="dependentSchemas",
        ),
        pytest.param({"unevaluatedProperties": False}, "No other keys.", id="unevaluated"),
    ],
)
def test_what_has_no_field_moves_into_the_description(keyword: JsonSchema, words: str) -> None:
    given_object = {"type": "object", "properties": {"a": {"type": "string"}}, **keyword}
    assert rendered({"description": "Said.", **given_object}) == {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING"}},
        "description": f"Said. {words}",
    }


# References


def test_references_are_written_out() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "description": "A point."}
    schema = {
        "type": "object",
        "properties": {
            "start": {"$ref": "#/$defs/Point", "description": "Where it starts."},
            "end": {"$ref": "#/$defs/Point"},
        },
        "$defs": {"Point": point},
    }
    sent = {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}}
    assert rendered(schema) == {
        "type": "OBJECT",
        "properties": {
            "start": {**sent, "description": "Where it starts."},
            "end": {**sent, "description": "A point."},
        },
    }


class Tree(BaseModel):
    """A tree."""

    name: str
    children: list[Tree] = []


def test_recursion_is_cut_with_a_note() -> None:
    child = {
        "type": "OBJECT",
        "properties": {"any_key": FREE_KEY},
        "description": "An object of the same form as the Tree around it.",
    }
    tree: JsonSchema = {
        "type": "OBJECT",
        "properties": {
            "name": {"type": "STRING"},
            "children": {"type": "ARRAY", "items": child, "default": []},
        },
        "required": ["name"],
        "description": "A tree.",
    }
    children = {"type": "ARRAY", "items": tree, "default": []}
    assert render_openapi_parameters(clean_parameters(Tree) or {}) == {
        **tree,
        "properties": {"name": {"type": "STRING"}, "children": children},
    }


def test_recursion_of_something_else_than_an_object_stays_open() -> None:
    value = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Value"}}]}
    schema = {"properties": {"v": {"$ref": "#/$defs/Value"}}, "$defs": {"Value": value}}
    first, *others = ANYTHING["anyOf"]
    note = "A value of the same form as the Value around it."
    assert rendered(schema)["properties"]["v"] == {
        "anyOf": [
            {"type": "STRING"},
            {"type": "ARRAY", "items": {"anyOf": [{**first, "description": note}, *others]}},
        ]
    }


def test_keywords_next_to_a_kept_reference_still_apply() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "string"}},
        "required": ["value"],
    }
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/Node", "required": ["next"]}},
        "$defs": {"Node": node},
    }
    sent = rendered(schema)["properties"]["n"]
    assert sent["required"] == ["next", "value"]
    assert list(sent["properties"]) == ["next", "value"]


def test_the_description_of_a_reference_names_it() -> None:
    schema = {
        "properties": {"name": {"type": "string"}},
        "additionalProperties": {"$ref": "#"},
    }
    assert rendered(schema)["description"] == 'Other keys: {"$ref": "root"}.'


def test_definitions_that_all_contain_each_other_do_not_explode() -> None:
    names = [f"N{n}" for n in range(12)]
    members = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    definitions = {name: {"type": "object", "properties": members} for name in names}
    schema = {"type": "object", "properties": members, "$defs": definitions}
    sent = rendered(schema)
    assert len(json.dumps(sent)) < 200_000
    assert list(sent["properties"]) == names
    assert list(sent["properties"]["N0"]["properties"]) == names
    accept(render_openapi_parameters(clean_schema(schema)))


def test_a_definition_that_is_too_large_is_described_by_its_keys() -> None:
    definitions: JsonSchema = {"D0": {"type": "object", "properties": {"leaf": {"type": "string"}}}}
    for n in range(1, 30):
        inner = {"$ref": f"#/$defs/D{n - 1}"}
        definitions[f"D{n}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    schema = {"properties": {"d": {"$ref": "#/$defs/D29"}}, "$defs": definitions}
    sent = json.dumps(rendered(schema))
    assert len(sent) < 200_000
    assert "An object of the form D21. Its keys: a, b." in sent


# The parameters of a function


def test_a_function_without_arguments_has_no_parameters() -> None:
    bound = bind_tools([{"name": "now", "parameters": {"type": "object", "properties": {}}}])
    assert render_tools(bound, form="openapi") == [{"functionDeclarations": [{"name": "now"}]}]


def test_a_function_with_free_arguments_has_parameters() -> None:
    assert render_openapi_parameters({"type": "object", "additionalProperties": True}) == (
        FREE_OBJECT
    )


STRINGS = {"id": {"type": "string"}, "email": {"type": "string"}, "by": {"type": "string"}}


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        pytest.param(
            [{"required": ["id"]}, {"required": ["email", "by"]}],
            'Give at least the keys of one of these: ["id"] or ["email", "by"].',
            id="each needs others",
        ),
        pytest.param([{"required": ["id"]}, {"maxProperties": 1}], None, id="one needs none"),
        pytest.param(
            [{"required": ["id", "by"]}, {"properties": {"x": {}}, "required": ["by", "x"]}],
            'Give the keys of one of these: ["id", "email", "by"], at least ["id", "by"] or '
            '["id", "email", "by", "x"], at least ["by", "x"].',
            id="one has more keys",
        ),
    ],
)
def test_choices_of_parameters_say_what_each_of_them_needs(
    choices: list[JsonSchema], words: str | None
) -> None:
    schema = {"type": "object", "properties": STRINGS, "anyOf": choices}
    sent = render_openapi_parameters(clean_parameters(schema) or {}) or {}
    assert sent.get("description") == words


def test_a_choice_between_sets_of_parameters_becomes_one_object() -> None:
    schema = {
        "type": "object",
        "anyOf": [
            {
                "properties": {"id": {"type": "integer"}, "all": {"type": "boolean"}},
                "required": ["id", "all"],
            },
            {
                "description": "By name.",
                "properties": {"name": {"type": "string"}, "id": {"type": "string"}},
                "required": ["id"],
            },
        ],
    }
    sent = render_openapi_parameters(clean_parameters(schema) or {})
    assert sent == {
        "type": "OBJECT",
        "properties": {
            "id": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
            "all": {"type": "BOOLEAN"},
            "name": {"type": "STRING"},
        },
        "required": ["id"],
        "description": 'By name. Give the keys of one of these: ["id", "all"] or ["name", "id"].',
    }


def test_a_bound_tool_is_rendered_once_and_its_declaration_is_the_callers_own() -> None:
    bound = bind_tools([{"name": "find", "parameters": {"properties": {"q": {}}}}])
    [first] = render_tools(bound, form="openapi")
    [second] = render_tools(bound, form="openapi")
    assert second == first
    assert (
        second["functionDeclarations"][0]["parameters"]
        is (first["functionDeclarations"][0]["parameters"])
    )
    first["functionDeclarations"][0]["name"] = "spoiled"
    assert render_tools(bound, form="openapi") == [second]
    assert "parametersJsonSchema" in render_tools(bound)[0]["functionDeclarations"][0]


# Every schema

PLAIN = st.recursive(
    st.one_of(
        some(
            {"type": "string"},
            minLength=st.integers(0, 2),
            maxLength=st.integers(1, 3),
            pattern=st.sampled_from(["^a", "[0-9]"]),
        ),
        some({"type": "string"}, enum=st.lists(TEXTS.filter(bool), min_size=1, unique=True)),
        some({"type": "integer"}, minimum=st.integers(-3, 3), exclusiveMaximum=st.integers(-3, 3)),
        some({"type": ["number", "null"]}, minimum=st.integers(-3, 3)),
        some({"type": "boolean"}),
        some({"enum": ["a", None, "b"]}),
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda properties, data: {
                "type": "object",
                "properties": properties,
                "required": data.sample(sorted(properties), data.randint(0, len(properties))),
            },
            st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3),
            st.randoms(use_true_random=False),
        ),
        some({"type": "array"}, minItems=st.integers(0, 2), maxItems=st.integers(0, 3)).flatmap(
            lambda array: inner.map(lambda items: {**array, "items": items})
        ),
        some({}, anyOf=st.lists(inner, min_size=1, max_size=3)).filter(bool),
    ),
    max_leaves=8,
)


@given(DOCUMENTS, st.lists(VALUES, min_size=1, max_size=12))
@every_kind(EVERY_VALUE)
@example({"type": "array", "prefixItems": [{"type": "string"}], "items": {}}, [["a", 5]])
@example({"enum": ["", "a"]}, ["", "a"])
@example({"type": "null"}, [None])
def test_a_value_that_fits_what_was_given_fits_what_is_sent(
    schema: JsonSchema, values: list[Any]
) -> None:
    sent = as_json_schema(rendered(schema))
    for value in values:
        if fits(value, schema):
            assert fits(value, sent), (value, sent)


@given(PLAIN, st.lists(VALUES, min_size=1, max_size=12))
def test_what_the_message_has_fields_for_means_exactly_the_same(
    schema: JsonSchema, values: list[Any]
) -> None:
    sent = as_json_schema(rendered(schema))
    for value in values:
        assert fits(value, sent) == fits(value, schema), (value, sent)


@given(DOCUMENTS)
@every_kind()
def test_the_api_accepts_every_schema(schema: JsonSchema) -> None:
    parameters = {"type": "object", "properties": {"p": schema}, "$defs": schema["$defs"]}
    accept(render_openapi_parameters(clean_schema(parameters)))
    root = clean_parameters({**schema, "type": "object"})
    # Where no object fits at all, there are no parameters to speak of.
    if root and (sent := render_openapi_parameters(root)):
        accept(sent)


@given(DOCUMENTS)
@every_kind()
def test_what_is_sent_is_plain_json_and_equal_for_equal_input(schema: JsonSchema) -> None:
    cleaned = clean_schema(schema)
    before = copy.deepcopy(cleaned)
    sent = render_openapi_schema(cleaned)
    assert cleaned == before
    assert json.loads(json.dumps(sent, allow_nan=False)) == sent
    assert json.dumps(render_openapi_schema(before)) == json.dumps(sent)


ANNOTATIONS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-5, 5),
    float: st.floats(-5, 5),
    str: st.text(max_size=3),
    bool: st.booleans(),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Literal[1, 2]: st.sampled_from([1, 2]),
    Literal["a", 1]: st.sampled_from(["a", 1]),
    dict[str, Any]: st.dictionaries(st.sampled_from(NAMES), st.integers() | st.text(max_size=3)),
    Any: st.integers() | st.text(max_size=3) | st.none(),
    Tree: st.builds(lambda name: {"name": name, "children": [{"name": name}]}, st.text(max_size=3)),
}
Kind = tuple[Any, st.SearchStrategy[Any]]


def combined(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    def of_one(one: Kind) -> st.SearchStrategy[Kind]:
        kind, values = one
        return st.sampled_from(
            [
                (list.__class_getitem__(kind), st.lists(values, max_size=2)),
                (kind | None, values | st.none()),
                (dict.__class_getitem__((str, kind)), st.dictionaries(st.just("type"), values)),
            ]
        )

    def of_two(one: Kind, two: Kind) -> list[Kind]:
        kinds = (one[0], two[0])
        return [
            (tuple.__class_getitem__(kinds), st.tuples(one[1], two[1])),
            (one[0] | two[0], one[1] | two[1]),
        ]

    return inner.flatmap(of_one) | st.builds(of_two, inner, inner).flatmap(st.sampled_from)


TYPED = st.recursive(st.sampled_from(list(ANNOTATIONS.items())), combined, max_leaves=4)


@given(st.data())
def test_what_a_pydantic_model_accepts_matches_what_is_sent(data: st.DataObject) -> None:
    fields = data.draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), TYPED, min_size=1))
    model: type[BaseModel] = create_model(  # type: ignore[call-overload]
        "Drawn", **{n: (kind, Field(description="A field.")) for n, (kind, _) in fields.items()}
    )
    sent = render_openapi_parameters(clean_parameters(model) or {})
    accept(sent)
    values = {name: data.draw(strategy) for name, (_, strategy) in fields.items()}
    plain = json.loads(json.dumps(values))
    model.model_validate(plain)
    assert fits(plain, as_json_schema(sent)), sent


def accept(parameters: JsonSchema | None) -> None:
    """Put a function with these parameters before the API's rules, on both backends."""
    assert parameters is not None
    assert parameters["type"] == "OBJECT"
    declaration = {"name": "f", "parameters": parameters, "response": parameters}
    tools = [{"functionDeclarations": [declaration]}]
    check(ask(tools=tools))
    check(ask(tools=tools, backend="vertex"))


PASSED = (
    "pattern", "enum", "required", "minimum", "maximum", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties",
)  # fmt: skip


def as_json_schema(message: Any) -> JsonSchema:
    """A Schema message in the words of JSON Schema; what stands for anything is anything."""
    if _without_words(message) in (_without_words(ANYTHING), _without_words(ANY_ITEM)):
        return {}
    if "anyOf" in message:
        return {"anyOf": [as_json_schema(choice) for choice in message["anyOf"]]}
    schema = {key: message[key] for key in PASSED if key in message}
    schema["type"] = message["type"].lower()
    properties = dict(message.get("properties", {}))
    if (key := properties.pop("any_key", None)) not in (None, FREE_KEY):
        schema["additionalProperties"] = as_json_schema(key)
    if "properties" in message:
        schema["properties"] = {name: as_json_schema(child) for name, child in properties.items()}
    if "items" in message:
        schema["items"] = as_json_schema(message["items"])
    return {"anyOf": [schema, {"type": "null"}]} if message.get("nullable") else schema


def _without_words(message: Any) -> Any:
    if isinstance(message, list):
        return [_without_words(item) for item in message]
    if not isinstance(message, dict):
        return message
    return {key: _without_words(item) for key, item in message.items() if key != "description"}
