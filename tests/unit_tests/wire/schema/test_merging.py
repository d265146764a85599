"""What has to hold together, said by one schema where one can say it."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.schema.cleaning import clean_schema

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
