"""What Gemini does not follow, expressed with what it follows: rule by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.render import describe_the_rest

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

RULES: dict[str, tuple[Any, JsonSchema]] = {
    "a const is an enum of one": ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    "a const keeps its type": (
        {"const": 3, "type": "number"},
        {"type": "number", "enum": [3]},
    ),
    "a const null is the type null": ({"const": None}, {"type": "null"}),
    "an enum of integers stays one": (
        {"enum": [1, 2], "type": "integer"},
        {"enum": [1, 2], "type": "integer"},
    ),
    "a mixed enum gets its types": (
        {"enum": ["a", 1]},
        {"type": ["integer", "string"], "enum": ["a", 1]},
    ),
    "null in an enum stands beside it": (
        {"enum": ["a", None], "description": "A letter."},
        {
            "description": "A letter.",
            "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}],
        },
    ),
    "both booleans are the type": ({"enum": [True, False]}, {"type": "boolean"}),
    "one boolean is described": (
        {"const": True},
        {"type": "boolean", "description": "Must be true."},
    ),
    "an object in an enum is described": (
        {"enum": [{"a": 1}]},
        {"type": "object", "description": 'Must be {"a": 1}.'},
    ),
    "an exclusive limit of integers moves by one": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        {"type": "integer", "minimum": 1, "maximum": 9},
    ),
    "an exclusive limit of numbers is described": (
        {"type": "number", "exclusiveMinimum": 0.5, "description": "A rate."},
        {"type": "number", "minimum": 0.5, "description": "A rate. Must be greater than 0.5."},
    ),
    "the tighter limit wins": (
        {"type": "number", "exclusiveMinimum": 0, "minimum": 2},
        {"type": "number", "minimum": 2},
    ),
    "draft 4 has a flag for exclusive": (
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        {"type": "integer", "minimum": 1},
    ),
    "limits, patterns and formats stay": (
        {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "format": "email"},
        {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "format": "email"},
    ),
    "what is not listed but may be sent stays": (
        {"type": "integer", "multipleOf": 5, "not": {"const": 10}},
        {"type": "integer", "multipleOf": 5, "not": {"type": "integer", "enum": [10]}},
    ),
    "a condition stays exact": (
        {"if": {"properties": {"gift": {"const": True}}}, "then": {"required": ["message"]}},
        {
            "if": {"properties": {"gift": {"type": "boolean", "const": True}}},
            "then": {"required": ["message"]},
        },
    ),
    "a limit that is denied stays exact": (
        {"not": {"type": "number", "exclusiveMinimum": 2}},
        {"not": {"type": "number", "exclusiveMinimum": 2}},
    ),
    "an object that is denied stays exact": (
        {"not": {"enum": [{"a": 1}, "b"]}},
        {
            "not": {
                "anyOf": [
                    {"type": "string", "enum": ["b"]},
                    {"type": "object", "const": {"a": 1}},
                ]
            }
        },
    ),
    "an item that is counted stays exact": (
        {"contains": {"const": False}, "maxContains": 1},
        {"contains": {"type": "boolean", "const": False}, "maxContains": 1},
    ),
    "choices that Gemini reads as anyOf are described": (
        {"oneOf": [{"const": True}, {"type": "number", "exclusiveMaximum": 1}]},
        {
            "oneOf": [
                {"type": "boolean", "description": "Must be true."},
                {"type": "number", "maximum": 1, "description": "Must be less than 1."},
            ]
        },
    ),
    "type lists stay": ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    "a typed map stays": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    "anything goes": (True, {}),
    "a property that may be anything": (
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {}}},
    ),
    "an array without items stays": ({"type": "array"}, {"type": "array"}),
    "examples are described": (
        {"type": "string", "description": "A city.", "examples": ["Rome", "Oslo"]},
        {"type": "string", "description": 'A city. Examples: "Rome", "Oslo".'},
    ),
    "what says nothing about a value goes": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "x",
            "$comment": "y",
            "x-order": 1,
            "readOnly": True,
            "type": "string",
            "$defs": {"Unused": {"type": "integer"}},
        },
        {"type": "string"},
    ),
    "an infinite default is described": (
        {"type": "number", "default": float("inf"), "maximum": float("inf")},
        {"type": "number", "description": "Default: Infinity."},
    ),
    "an empty list of required names goes": (
        {"type": "object", "required": []},
        {"type": "object"},
    ),
    "a nullable enum": (
        {"type": "STRING", "enum": ["a", "b"], "nullable": True},
        {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
    ),
    "properties named like keywords": (
        {
            "type": "object",
            "title": "Things",
            "properties": {
                "title": {"title": "Title", "type": "string"},
                "type": {"type": "string", "const": "a"},
                "items": {"type": "array", "items": {"type": "string"}},
                "properties": {"type": "object", "properties": {"$ref": {"type": "string"}}},
                "required": {"type": "boolean"},
                "const": {"type": "integer"},
                "nullable": {"type": "integer"},
                "any_of": {"type": "integer"},
                "x-id": {"type": "integer"},
                "allOf": {"type": "integer"},
                "default": {"type": "integer"},
            },
            "required": ["title", "required"],
        },
        {
            "type": "object",
            "title": "Things",
            "properties": {
                "title": {"type": "string"},
                "type": {"type": "string", "enum": ["a"]},
                "items": {"type": "array", "items": {"type": "string"}},
                "properties": {"type": "object", "properties": {"$ref": {"type": "string"}}},
                "required": {"type": "boolean"},
                "const": {"type": "integer"},
                "nullable": {"type": "integer"},
                "any_of": {"type": "integer"},
                "x-id": {"type": "integer"},
                "allOf": {"type": "integer"},
                "default": {"type": "integer"},
            },
            "required": ["title", "required"],
        },
    ),
}


@pytest.mark.parametrize(("given", "sent"), RULES.values(), ids=RULES)
def test_a_rule(given: Any, sent: JsonSchema) -> None:
    assert describe_the_rest(clean_schema(given)) == sent


@pytest.mark.parametrize("value", ["[" * 100_000, "1" * 5000], ids=["deep", "long"])
def test_a_string_that_is_not_a_number_is_not_a_value_of_a_number(value: str) -> None:
    sent = clean_schema({"type": "integer", "enum": [value]})
    assert sent["type"] == "integer"


def test_values_that_have_no_json_form_are_rejected() -> None:
    with pytest.raises(InvalidToolError, match="have no JSON form"):
        clean_schema({"enum": [1.0, float("nan")]})


MERGED: dict[str, tuple[Any, JsonSchema]] = {
    "one allOf is the schema itself": (
        {"allOf": [{"type": "string", "description": "Inner."}], "description": "Outer."},
        {"description": "Outer.", "type": "string"},
    ),
    "several allOf become one object": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
            ]
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    ),
    "allOf that contradict in words only keep the tighter": (
        {"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 3}]},
        {"type": "integer", "minimum": 3},
    ),
    "allOf that no schema says stays": (
        {"pattern": "a", "allOf": [{"pattern": "b"}, {"pattern": "c"}]},
        {"pattern": "a", "anyOf": [{"pattern": "b"}], "allOf": [{"pattern": "c"}]},
    ),
    "an object closed against the other one is not merged": (
        {
            "allOf": [
                {"properties": {"a": {}}, "additionalProperties": False},
                {"properties": {"b": {}}},
            ]
        },
        {
            "properties": {"a": {}},
            "additionalProperties": False,
            "anyOf": [{"properties": {"b": {}}}],
        },
    ),
}


@pytest.mark.parametrize(("given", "sent"), MERGED.values(), ids=MERGED)
def test_two_schemas_become_one(given: Any, sent: JsonSchema) -> None:
    assert clean_schema(given) == sent


INNER: dict[str, tuple[JsonSchema, JsonSchema]] = {
    "an exclusive limit": (
        {"type": "number", "exclusiveMinimum": 0, "description": "Inner."},
        {"description": "Price. Must be greater than 0.", "type": "number", "minimum": 0},
    ),
    "the only value": (
        {"const": True},
        {"description": "Price. Must be true.", "type": "boolean"},
    ),
    "examples": (
        {"type": "number", "examples": [1, 2], "deprecated": True},
        {"description": "Price. Examples: 1, 2. Deprecated.", "type": "number"},
    ),
}


@pytest.mark.parametrize(("inner", "sent"), INNER.values(), ids=INNER)
def test_a_described_keyword_stays_where_another_description_is_outside(
    inner: JsonSchema, sent: JsonSchema
) -> None:
    referring = {"$ref": "#/$defs/it", "description": "Price.", "$defs": {"it": inner}}
    assert describe_the_rest(clean_schema(referring)) == sent
    assert describe_the_rest(clean_schema({"allOf": [inner], "description": "Price."})) == sent


def test_of_two_exclusive_limits_the_tighter_one_is_described() -> None:
    limits = [{"type": "number", "exclusiveMinimum": least} for least in (0, 2, 1)]
    sent = {"type": "number", "minimum": 2, "description": "Must be greater than 2."}
    assert describe_the_rest(clean_schema({"allOf": limits})) == sent
