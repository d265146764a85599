"""What a schema becomes on its way to Gemini, rule by rule."""

from __future__ import annotations

import enum
from datetime import date
from typing import Annotated, Any, Literal, NotRequired

import pytest
from google.genai import types
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema import (
    clean_schema,
    render_parameters,
    render_response_schema,
)

Schema = dict[str, Any]
TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}

RULES: dict[str, tuple[Any, Schema]] = {
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
    "one boolean is told": (
        {"const": True},
        {"type": "boolean", "description": "Must be true."},
    ),
    "an object in an enum is told": (
        {"enum": [{"a": 1}]},
        {"type": "object", "description": 'Must be {"a": 1}.'},
    ),
    "an exclusive limit of integers moves by one": (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        {"type": "integer", "minimum": 1, "maximum": 9},
    ),
    "an exclusive limit of numbers is told as well": (
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
    "a tuple of draft 7": (
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1},
    ),
    "dependencies of draft 7": (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
    ),
    "an array without items stays": ({"type": "array"}, {"type": "array"}),
    "examples are told": (
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
    "an infinite default is told": (
        {"type": "number", "default": float("inf"), "maximum": float("inf")},
        {"type": "number", "description": "Default: Infinity."},
    ),
    "a default of a Python type is its JSON": (
        {"type": "string", "default": date(2024, 1, 2)},
        {"type": "string", "default": "2024-01-02"},
    ),
    "a default without a JSON form goes": (
        {"type": "string", "default": object()},
        {"type": "string"},
    ),
    "an empty list of required names goes": (
        {"type": "object", "required": []},
        {"type": "object"},
    ),
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
    "a reference is written out, its neighbours win": (
        {
            "properties": {"home": {"$ref": "#/$defs/Address", "description": "Home."}},
            "$defs": {"Address": {"title": "Address", "type": "object", "description": "Any."}},
        },
        {"properties": {"home": {"description": "Home.", "type": "object"}}},
    ),
    "a cycle stays, with its definition": (
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
    ),
    "a cycle at the root is followed once": (
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
        {**TREE, "$defs": {"Tree": TREE}},
    ),
    "a cycle with neighbours is one of one": (
        {
            "properties": {"tree": {"$ref": "#/$defs/Tree", "description": "A tree."}},
            "$defs": {"Tree": TREE},
        },
        {
            "properties": {"tree": {"description": "A tree.", "anyOf": [{"$ref": "#/$defs/Tree"}]}},
            "$defs": {"Tree": TREE},
        },
    ),
    "a document that refers to itself": (
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"child": {"$ref": "#/$defs/root"}},
            "$defs": {
                "root": {"type": "object", "properties": {"child": {"$ref": "#/$defs/root"}}}
            },
        },
    ),
    "draft 7 definitions, escaped": (
        {
            "properties": {"x": {"$ref": "#/definitions/a~1b"}},
            "definitions": {"a/b": {"type": "null"}},
        },
        {"properties": {"x": {"type": "null"}}},
    ),
    "anchors": (
        {
            "properties": {"x": {"$ref": "#here"}},
            "$defs": {"a": {"$anchor": "here", "type": "null"}},
        },
        {"properties": {"x": {"type": "null"}}},
    ),
    "Gemini's own Schema message": (
        {
            "type": "OBJECT",
            "properties": {
                "n": {"type": "INTEGER", "enum": ["1", "2"], "format": "int32"},
                "t": {"type": "ARRAY", "items": {"type": "STRING"}, "min_items": "1"},
                "u": {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
                "p": {"ref": "#/defs/Pet"},
                "e": {"type": "STRING", "example": "x"},
                "any": {"type": "TYPE_UNSPECIFIED"},
            },
            "property_ordering": ["n", "t"],
            "defs": {"Pet": {"type": "STRING", "nullable": True}},
        },
        {
            "type": "object",
            "properties": {
                "n": {"format": "int32", "type": "integer", "enum": [1, 2]},
                "t": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "u": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                "p": {"type": ["string", "null"]},
                "e": {"type": "string", "description": 'Examples: "x".'},
                "any": {},
            },
            "propertyOrdering": ["n", "t"],
        },
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
    "a title that a person wrote stays": (
        {"properties": {"id": {"title": "Customer number"}, "page_size": {"title": "Page Size"}}},
        {"properties": {"id": {"title": "Customer number"}, "page_size": {}}},
    ),
}


@pytest.mark.parametrize(("given", "sent"), RULES.values(), ids=RULES)
def test_a_rule(given: Any, sent: Schema) -> None:
    assert clean_schema(given) == sent


def test_a_reference_to_nowhere_is_named() -> None:
    with pytest.raises(InvalidToolError, match=r"'#/\$defs/Gone', which it does not define"):
        clean_schema({"properties": {"x": {"$ref": "#/$defs/Gone"}}})


def test_a_reference_to_another_document_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidToolError, match=r"put the definition under '\$defs'"):
        clean_schema({"properties": {"x": {"$ref": "https://example.com/schema.json"}}})


def test_numbers_that_json_cannot_hold_are_refused_as_values() -> None:
    with pytest.raises(InvalidToolError, match="JSON has no form"):
        clean_schema({"enum": [1.0, float("nan")]})


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="is no schema"):
        clean_schema("string")
    with pytest.raises(InvalidToolError, match="stands where a JSON schema is expected"):
        clean_schema({"items": "string"})


def test_definitions_stay_definitions_when_writing_them_out_would_never_end() -> None:
    """Each level uses the next one three times: written out, there are millions."""
    levels = {
        f"L{n}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/$defs/L{n + 1}"} for key in "abc"},
        }
        for n in range(15)
    }
    cleaned = clean_schema({"$ref": "#/$defs/L0", "$defs": {**levels, "L15": {"type": "string"}}})
    assert cleaned == {**levels["L0"], "$defs": {**levels, "L15": {"type": "string"}}}


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, gt=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    friends: list[Dog] = []


class Owner(BaseModel):
    """Somebody with a pet."""

    name: Annotated[str, Field(min_length=1, description="Full name.")]
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    colour: Colour | None = None
    point: tuple[float, float] = (0.0, 0.0)
    notes: dict[str, Any] = {}
    title: str | int | None = None


def test_a_pydantic_class_keeps_everything_it_says() -> None:
    dog = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["dog"]},
            "friends": {"type": "array", "items": {"$ref": "#/$defs/Dog"}, "default": []},
        },
        "required": ["kind"],
    }
    assert render_response_schema(Owner) == {
        "type": "object",
        "description": "Somebody with a pet.",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Full name."},
            "pet": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {
                            "kind": {"type": "string", "enum": ["cat"]},
                            "lives": {"type": "integer", "default": 9, "minimum": 1, "maximum": 9},
                        },
                        "required": ["kind"],
                    },
                    {"$ref": "#/$defs/Dog"},
                ]
            },
            "colour": {
                "anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}],
                "default": None,
            },
            "point": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "number"}],
                "minItems": 2,
                "maxItems": 2,
                "default": [0.0, 0.0],
            },
            "notes": {"type": "object", "additionalProperties": True, "default": {}},
            "title": {
                "anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["name", "pet"],
        "$defs": {"Dog": dog},
    }


class Movie(TypedDict):
    """A movie."""

    name: Annotated[str, ..., "The name."]
    year: NotRequired[int]


class OldMovie(BaseModelV1):
    """A movie."""

    name: str
    year: int | None = None


@pytest.mark.parametrize(
    "schema",
    [
        Movie,
        {
            "title": "Movie",
            "description": "A movie.",
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name."},
                "year": {"title": "Year", "type": "integer"},
            },
            "required": ["name"],
        },
        types.Schema(
            type=types.Type.OBJECT,
            description="A movie.",
            properties={
                "name": types.Schema(type=types.Type.STRING, description="The name."),
                "year": types.Schema(type=types.Type.INTEGER),
            },
            required=["name"],
        ),
    ],
    ids=["typed dict", "json schema", "sdk"],
)
def test_a_response_schema_is_the_same_from_everywhere(schema: Any) -> None:
    cleaned = render_response_schema(schema)
    cleaned.pop("title", None)
    assert cleaned == {
        "type": "object",
        "description": "A movie.",
        "properties": {
            "name": {"type": "string", "description": "The name."},
            "year": {"type": "integer"},
        },
        "required": ["name"],
    }


def test_a_pydantic_v1_class_is_taken() -> None:
    assert render_response_schema(OldMovie) == {
        "type": "object",
        "description": "A movie.",
        "properties": {"name": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["name"],
    }


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": {}, "required": []},
        {"type": "object", "properties": {}, "additionalProperties": False, "title": "Args"},
    ],
)
def test_a_function_without_arguments_has_no_schema(nothing: Any) -> None:
    assert render_parameters(nothing) is None


def test_a_function_that_takes_what_the_model_likes_has_one() -> None:
    free = {"type": "object", "additionalProperties": True}
    assert render_parameters(free) == free


def test_arguments_are_an_object_even_where_it_is_not_said() -> None:
    assert render_parameters({"properties": {"a": {"type": "string"}}}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
    }


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(InvalidToolError, match="have to be an object"):
        render_parameters({"type": "array", "items": {"type": "string"}})


def test_a_cached_schema_cannot_be_spoiled() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": ["x"]}}}
    clean_schema(schema)["properties"]["a"]["default"].append("y")
    assert clean_schema(schema) == schema
