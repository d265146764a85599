from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.text_tools.validation import find_misfit

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {
        "Stop": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Stop"}, "place": {"type": "string"}},
        }
    },
}


@pytest.mark.parametrize(
    ("args", "misfit"),
    [
        ({"city": "Oslo", "days": 2, "stops": [{"next": {"place": "A"}}]}, None),
        ({}, "'city' is a required property."),
        ({"city": "Oslo", "days": "2"}, "days: '2' is not of type 'integer'."),
        ({"city": None}, "city: None is not of type 'string'."),
        (
            {"city": 1, "days": 0},
            "city: 1 is not of type 'string'. days: 0 is less than the minimum of 1.",
        ),
        (
            {"city": "Oslo", "stops": [{"next": {"place": 3}}]},
            "stops[0].next.place: 3 is not of type 'string'.",
        ),
        (
            {"city": "Oslo", "town": "Oslo"},
            "Additional properties are not allowed ('town' was unexpected).",
        ),
    ],
    ids=["fits", "missing", "no coercion", "null", "two", "deep inside", "unknown"],
)
def test_what_does_not_fit_is_told_with_its_place(args: Any, misfit: str | None) -> None:
    assert find_misfit(args, SCHEMA) == misfit


def test_many_misfits_are_counted_and_long_ones_cut() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    told = find_misfit({f"k{number}": "x" * 500 for number in range(9)}, schema)
    assert told is not None
    assert told.endswith(" And 4 more.")
    assert len(told) < 1500


def test_a_tool_without_a_schema_takes_nothing() -> None:
    assert find_misfit({}, None) is None
    assert find_misfit({"a": 1}, None) == "It takes no arguments: 'a'."


@pytest.mark.parametrize("schema", [{"type": 12}, {"$ref": "#/$defs/Gone"}])
def test_a_schema_that_is_none_holds_nobody_back(schema: dict[str, Any]) -> None:
    assert find_misfit({"a": 1}, schema) is None


def test_a_pattern_of_another_language_holds_back_neither_it_nor_what_stands_beside_it() -> None:
    name = {"type": "string", "pattern": r"^\p{L}+$"}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    assert find_misfit({"name": "Ada"}, schema) is None
    assert find_misfit({"name": 1}, schema) == "name: 1 is not of type 'string'."
    assert find_misfit({}, schema) == "'name' is a required property."


def test_a_pattern_that_can_be_read_is_checked() -> None:
    schema = {"type": "object", "properties": {"name": {"pattern": "^[a-z]+$"}}}
    assert find_misfit({"name": "Ada"}, schema) == "name: 'Ada' does not match '^[a-z]+$'."


@pytest.mark.parametrize("schema", [{"multipleOf": 0.1}, {"type": "string"}])
def test_a_number_beyond_all_bounds_is_left_to_the_tool(schema: dict[str, Any]) -> None:
    assert find_misfit({"a": 10**5000}, {"properties": {"a": schema}}) is None
