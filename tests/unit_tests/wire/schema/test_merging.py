"""What has to hold together, said by one schema where one can say it."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.schema.cleaning import clean_schema
from langchain_gemini_tools.wire.schema.words import tell_in_words

Schema = dict[str, Any]

MERGED: dict[str, tuple[Any, Schema]] = {
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
def test_two_schemas_become_one(given: Any, sent: Schema) -> None:
    assert clean_schema(given) == sent


INNER: dict[str, tuple[Schema, Schema]] = {
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
def test_what_is_told_in_words_stays_where_another_description_stands_outside(
    inner: Schema, sent: Schema
) -> None:
    referring = {"$ref": "#/$defs/it", "description": "Price.", "$defs": {"it": inner}}
    assert tell_in_words(clean_schema(referring)) == sent
    assert tell_in_words(clean_schema({"allOf": [inner], "description": "Price."})) == sent


def test_of_two_exclusive_limits_the_tighter_one_is_told() -> None:
    limits = [{"type": "number", "exclusiveMinimum": least} for least in (0, 2, 1)]
    sent = {"type": "number", "minimum": 2, "description": "Must be greater than 2."}
    assert tell_in_words(clean_schema({"allOf": limits})) == sent
