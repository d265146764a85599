"""Whole schemas are cleaned; `test_clean_rules` has the rules for a single schema."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import pytest
from google.genai import types
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.clean import (
    clean_parameters,
    clean_response_schema,
    clean_schema,
)
from langchain_gemini_tools.wire.schema.read import is_generated_title
from langchain_gemini_tools.wire.tools.bind import bind_tools

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema


def test_what_is_not_a_schema_is_rejected() -> None:
    with pytest.raises(InvalidToolError, match="is not a schema"):
        clean_schema("string")
    with pytest.raises(InvalidToolError, match="expected a JSON schema"):
        clean_schema({"items": "string"})


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
    assert clean_response_schema(Owner) == {
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
    cleaned = clean_response_schema(schema)
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


def test_a_pydantic_v1_class_is_accepted() -> None:
    assert clean_response_schema(OldMovie) == {
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
        {"title": "Args", "description": "None.", "$schema": "http://json-schema.org/schema#"},
        {"all_of": [], "any_of": None, "required": []},
        {"$defs": {}, "definitions": {}, "x-order": 1},
    ],
)
def test_a_function_without_arguments_has_no_schema(nothing: Any) -> None:
    assert clean_parameters(nothing) is None


def test_a_function_with_free_arguments_has_one() -> None:
    free = {"type": "object", "additionalProperties": True}
    assert clean_parameters(free) == free
    assert clean_parameters({"type": "object", "additionalProperties": {}}) == free


def test_arguments_are_an_object_even_where_it_is_not_said() -> None:
    assert clean_parameters({"properties": {"a": {"type": "string"}}}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
    }


@pytest.mark.parametrize("beside", [{"description": "Where."}, {"town": 5}])
def test_parameters_that_are_not_a_schema_are_rejected(beside: dict[str, Any]) -> None:
    tool = {"name": "find", "parameters": {"city": {"type": "string"}, **beside}}
    with pytest.raises(InvalidToolError, match=r"Tool 'find': .*'city'.* is not a schema"):
        bind_tools([tool])


def test_arguments_of_another_type_are_rejected() -> None:
    with pytest.raises(InvalidToolError, match="must be an object"):
        clean_parameters({"type": "array", "items": {"type": "string"}})


def test_a_cached_schema_cannot_be_spoiled() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": ["x"]}}}
    clean_schema(schema)["properties"]["a"]["default"].append("y")
    assert clean_schema(schema) == schema


TITLES: dict[str, tuple[Any, JsonSchema]] = {
    "a title that a person wrote stays": (
        {"properties": {"id": {"title": "Customer number"}, "page_size": {"title": "Page Size"}}},
        {"properties": {"id": {"title": "Customer number"}, "page_size": {}}},
    ),
}


@pytest.mark.parametrize(("given", "sent"), TITLES.values(), ids=TITLES)
def test_a_title(given: Any, sent: JsonSchema) -> None:
    assert clean_schema(given) == sent


@pytest.mark.parametrize(
    ("title", "name", "is_generated"),
    [
        ("Page Size", "page_size", True),
        ("Pagesize", "pageSize", True),
        ("Address", "Address", True),
        ("Address", "shop__models__Address", True),
        ("Box[int]", "Box_int_", True),
        ("Size", "page_size", False),
        ("Anything", "", False),
        (None, "a", False),
    ],
)
def test_a_generated_title_repeats_the_name(title: Any, name: str, is_generated: bool) -> None:
    assert is_generated_title(title, name) is is_generated
