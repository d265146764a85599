"""Schemas in other spellings than JSON Schema 2020-12."""

from __future__ import annotations

import enum
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.cleaning import clean_schema
from langchain_gemini_tools.wire.schema.reading import plain_json

Schema = dict[str, Any]

SPELLINGS: dict[str, tuple[Any, Schema]] = {
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
                "e": {"type": "string", "examples": ["x"]},
                "any": {},
            },
            "propertyOrdering": ["n", "t"],
        },
    ),
}


@pytest.mark.parametrize(("given", "sent"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_spelling_is_read(given: Any, sent: Schema) -> None:
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


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(InvalidToolError, match="JSON has no form for"):
        plain_json([object()])


@pytest.mark.parametrize("count", [-1, 1.5, "many", [1], float("nan"), float("inf")])
def test_a_count_that_counts_nothing_is_refused_by_its_keyword(count: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"'minItems' is .*, and has to be a whole number"):
        clean_schema({"type": "array", "minItems": count})


def test_a_whole_number_is_a_count_however_it_is_written() -> None:
    schema = {"type": "array", "minItems": 2.0, "maxItems": "3"}
    assert clean_schema(schema) == {"type": "array", "minItems": 2, "maxItems": 3}
