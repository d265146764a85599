"""Schemas in other spellings than JSON Schema 2020-12."""

from __future__ import annotations

import enum
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.read import plain_json
from langchain_gemini_tools.wire.tools.bind import bind_tools

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

SPELLINGS: dict[str, tuple[Any, JsonSchema]] = {
    "a tuple of draft 7": (
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1},
    ),
    "more items than a tuple of draft 7 has": (
        {"additionalItems": {"type": "integer"}, "items": [{"type": "string"}]},
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    ),
    "no more items, and no tuple that they could follow": (
        {"type": "array", "additionalItems": False},
        {"type": "array"},
    ),
    "no more items beside items of one kind": (
        {"type": "array", "additionalItems": False, "items": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}},
    ),
    "required of draft 3": (
        {"properties": {"a": {"required": True}, "b": {"required": False}}, "required": ["c"]},
        {"properties": {"a": {}, "b": {}}, "required": ["c", "a"]},
    ),
    "dependencies of draft 7": (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
    ),
    "a default of a Python type is its JSON": (
        {"type": "string", "default": date(2024, 1, 2)},
        {"type": "string", "default": "2024-01-02"},
    ),
    "a default without a JSON form goes": (
        {"type": "string", "default": object()},
        {"type": "string"},
    ),
    "Gemini's Schema message": (
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
                "e": {"type": "string", "examples": ["x"]},
                "any": {},
            },
            "propertyOrdering": ["n", "t"],
        },
    ),
}


@pytest.mark.parametrize(("given", "sent"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_spelling_is_read(given: Any, sent: JsonSchema) -> None:
    assert clean_schema(given) == sent


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        ((1, {"a": {2.5}}), [1, {"a": [2.5]}]),
        (MappingProxyType({1: None}), {"1": None}),
        (Decimal("1.5"), "1.5"),
        ({"b", "a"}, ["a", "b"]),
    ],
)
def test_python_values_become_json(value: Any, plain: Any) -> None:
    assert plain_json(value) == plain


def test_a_value_without_a_json_form_is_rejected() -> None:
    with pytest.raises(InvalidToolError, match="which has no JSON form"):
        plain_json([object()])


@pytest.mark.parametrize("count", [-1, 1.5, "many", [1], float("nan"), float("inf")])
def test_a_count_that_is_not_a_whole_number_is_rejected(count: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"'minItems' must be a whole number, not "):
        clean_schema({"type": "array", "minItems": count})


def test_a_whole_number_is_a_count_however_it_is_written() -> None:
    schema = {"type": "array", "minItems": 2.0, "maxItems": "3"}
    assert clean_schema(schema) == {"type": "array", "minItems": 2, "maxItems": 3}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"anyOf": 3}, "'anyOf' must be a list of schemas, not 3."),
        ({"oneOf": {}}, "'oneOf' must be a list of schemas, not {}."),
        ({"properties": "x"}, "'properties' must be an object, not 'x'."),
        ({"properties": ["x"]}, "'properties' must be an object, not ['x']."),
        ({"required": "a"}, "'required' must be a list of names, not 'a'."),
        ({"required": [1]}, "'required' must be a list of names, not [1]."),
        ({"enum": "abc"}, "'enum' must be a list, not 'abc'."),
        ({"type": 3}, "'type' must be a string or a list of strings, not 3."),
        (
            {"type": ["string", "int"]},
            "type 'int' is not valid; use one of array, boolean, integer, null, number, object, "
            "string.",
        ),
        ({"$ref": 3}, "'$ref' must be a string, not 3."),
        ({"minimum": "1"}, "'minimum' must be a number, not '1'."),
        ({"minimum": True}, "'minimum' must be a number, not True."),
        ({"multipleOf": False}, "'multipleOf' must be a number, not False."),
        ({"description": ["x"]}, "'description' must be a string, not ['x']."),
        (3, "expected a JSON schema, got 3."),
    ],
)
def test_a_keyword_with_a_wrong_value_is_rejected_with_its_place(schema: Any, message: str) -> None:
    filters = {"type": "array", "items": {"properties": {"tag": schema}}}
    tool = {"name": "find", "parameters": {"type": "object", "properties": {"filters": filters}}}
    with pytest.raises(InvalidToolError) as error:
        bind_tools([tool])
    assert str(error.value) == f"Tool 'find', parameter 'filters[].tag': {message}"


def test_an_error_about_the_whole_schema_has_no_parameter() -> None:
    with pytest.raises(InvalidToolError) as error:
        clean_schema({"type": 3})
    assert str(error.value) == "'type' must be a string or a list of strings, not 3."


def test_a_type_may_be_written_with_capitals() -> None:
    assert clean_schema({"type": ["String", "NULL"]}) == {"type": ["string", "null"]}


def test_the_type_any_of_draft_3_is_not_a_limit() -> None:
    assert clean_schema({"type": "any", "description": "What you like."}) == {
        "description": "What you like."
    }


def test_a_required_object_of_draft_3_may_have_required_properties() -> None:
    street = {"type": "string", "required": True}
    home = {"type": "object", "properties": {"street": street}, "required": True}
    cleaned = clean_schema({"type": "object", "properties": {"home": home}, "required": True})
    assert cleaned == {
        "type": "object",
        "properties": {
            "home": {
                "type": "object",
                "properties": {"street": {"type": "string"}},
                "required": ["street"],
            }
        },
        "required": ["home"],
    }


def test_an_empty_list_of_properties_is_an_empty_object() -> None:
    assert clean_schema({"type": "object", "properties": [], "$defs": []}) == {
        "type": "object",
        "properties": {},
    }
