"""Descriptions, sample arguments and validation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from langchain_gemini_tools.prompted.tool_arguments import (
    describe_parameters,
    find_mismatch,
    sample_arguments,
)

Json = dict[str, Any]

STRING: Json = {"type": "string"}
STOP: Json = {
    "type": "object",
    "description": "A place\n  to stop.",
    "properties": {"place": STRING, "hours": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["place"],
}

CASES: dict[str, tuple[Json, list[str]]] = {
    "limits": (
        {
            "n": {"type": "integer", "minimum": 1, "maximum": 7, "multipleOf": 2},
            "s": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^a.b$"},
            "d": {"type": "string", "format": "date"},
            "l": {"type": "array", "items": STRING, "minItems": 1, "uniqueItems": True},
        },
        [
            "- n: integer (at least 1, at most 7, a multiple of 2), optional.",
            "- s: string (at least 2 characters, at most 9 characters, matching ^a.b$), optional.",
            "- d: string (format date), optional.",
            "- l: array of strings (at least 1 items, no item twice), optional.",
        ],
    ),
    "values": (
        {
            "e": {"enum": ["a", 1, None], "default": "a"},
            "c": {"const": "x"},
            "any": {},
            "never": False,
        },
        [
            '- e: "a" or 1 or null, optional, default "a".',
            '- c: "x", optional.',
            "- any: anything, optional.",
            "- never: nothing is allowed, optional.",
        ],
    ),
    "examples": (
        {
            "c": {"type": "string", "description": "A city.", "examples": ["Rome", "Oslo"]},
            "old": {"type": "string", "deprecated": True},
        },
        [
            '- c: string, optional. A city. Examples: "Rome", "Oslo".',
            "- old: string, optional. Deprecated.",
        ],
    ),
    "unions": (
        {
            "u": {"anyOf": [STRING, {"type": "null"}], "default": None, "description": "Maybe."},
            "t": {"type": ["string", "integer"]},
            "l": {"type": "array", "items": {"anyOf": [STRING, {"type": "integer"}]}},
        },
        [
            "- u: string or null, optional, default null. Maybe.",
            "- t: string or integer, optional.",
            "- l: array of (string or integer), optional.",
        ],
    ),
    "objects in objects": (
        {
            "route": {
                "type": "object",
                "properties": {"stops": {"type": "array", "items": STOP}, "name": STRING},
                "required": ["stops"],
                "additionalProperties": False,
            },
            "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        [
            "- route: object (no other keys), optional.",
            "  - stops: array of objects, required.",
            "    - place: string, required.",
            "    - hours: number (more than 0), optional.",
            "  - name: string, optional.",
            "- tags: object with values: integer, optional.",
        ],
    ),
    "objects of several kinds": (
        {
            "pet": {
                "anyOf": [
                    {"title": "Cat", "type": "object", "properties": {"lives": STRING}},
                    {"type": "object", "properties": {"tricks": STRING}},
                ]
            }
        },
        [
            "- pet: object, optional.",
            "  - if it is Cat: object.",
            "    - lives: string, optional.",
            "  - if it is object 2: object.",
            "    - tricks: string, optional.",
        ],
    ),
    "names that are no words": (
        {"my key": STRING, "a-b": STRING, "größe": STRING},
        [
            '- "my key": string, optional.',
            '- "a-b": string, optional.',
            "- größe: string, optional.",
        ],
    ),
    "what has no words": (
        {"n": {"type": "integer", "not": {"const": 3}}},
        ['- n: integer ({"not": {"const": 3}}), optional.'],
    ),
    "tuples": (
        {"t": {"type": "array", "prefixItems": [STRING, {"type": "integer"}]}},
        ["- t: array of exactly: string, integer, optional."],
    ),
}


@pytest.mark.parametrize(("properties", "lines"), CASES.values(), ids=CASES)
def test_each_argument_is_a_line(properties: Json, lines: list[str]) -> None:
    assert describe_parameters({"type": "object", "properties": properties}) == lines


def test_a_recursive_schema_is_described_once_under_its_name() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": STRING}}
    schema = {
        "type": "object",
        "properties": {"head": {"$ref": "#/$defs/Node"}},
        "required": ["head"],
        "$defs": {"Node": node},
    }
    assert describe_parameters(schema) == [
        "- head: Node, required.",
        "Type Node: object.",
        "- next: Node, optional.",
        "- v: string, optional.",
    ]


def test_required_keys_without_a_schema_are_listed() -> None:
    schema = {
        "type": "object",
        "required": ["mystery"],
        "additionalProperties": STRING,
        "minProperties": 2,
        "anyOf": [{"required": ["a"]}, {"properties": {"b": STRING}}],
        "dependentRequired": {"a": ["b"]},
    }
    assert describe_parameters(schema) == [
        "- mystery: anything, required.",
        "- if it is object 1: anything.",
        "  - a: anything, required.",
        "- if it is object 2: object.",
        "  - b: string, optional.",
        "- any other key: string",
        '- the arguments together: at least 2 keys, {"dependentRequired": {"a": ["b"]}}',
    ]


def test_a_tool_without_arguments_says_so() -> None:
    assert describe_parameters(None) == ["No arguments: write {}."]


class Tree(BaseModel):
    value: int
    children: list[Tree]


class Link(BaseModel):
    url: str
    next: Link | None


class Leaf(BaseModel):
    kind: Literal["leaf"]
    tag: str


class And(BaseModel):
    kind: Literal["and"]
    left: Annotated[And | Leaf, Field(discriminator="kind")]
    right: Annotated[And | Leaf, Field(discriminator="kind")]


class Search(BaseModel):
    where: And | Leaf


class Ping(BaseModel):
    pong: Pong | int


class Pong(BaseModel):
    ping: Ping | None


class Pair(BaseModel):
    both: Annotated[list[Pair | int], Field(min_length=2)]


LEAF = {"kind": "leaf", "tag": "<tag>"}


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Tree, {"value": 1, "children": [{"value": 1, "children": []}]}),
        (Link, {"url": "<url>", "next": {"url": "<url>", "next": None}}),
        (Search, {"where": {"kind": "and", "left": LEAF, "right": LEAF}}),
        (Ping, {"pong": {"ping": {"pong": 1}}}),
        (Pair, {"both": [{"both": [1, 1]}] * 2}),
    ],
)
def test_a_recursive_example_ends_as_soon_as_it_may(model: type[BaseModel], args: Any) -> None:
    schema = model.model_json_schema()
    if "$ref" in schema:  # the root of a tool's schema is an object itself
        schema |= schema["$defs"][model.__name__]
    assert sample_arguments(schema) == args
    model.model_validate(args)


def test_a_schema_with_countless_values_makes_a_small_example() -> None:
    names = [f"N{number}" for number in range(12)]
    lists = {name: {"type": "array", "items": {"$ref": f"#/$defs/{name}"}} for name in names}
    node = {"type": "object", "properties": lists, "required": names}
    args = sample_arguments({**node, "$defs": dict.fromkeys(names, node)})
    assert list(args) == names
    assert len(str(args)) < 20_000


def test_large_limits_do_not_make_a_large_example() -> None:
    text = {"type": "string", "minLength": 10**12}
    schema = {"properties": {"x": {"type": "array", "items": text, "minItems": 10**12}}}
    assert sample_arguments(schema) == {"x": ["<text>".ljust(200, ".")] * 5}


def test_an_endless_schema_has_no_example() -> None:
    endless = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}
    assert sample_arguments(endless) == {}


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
def test_a_mismatch_is_explained_with_its_place(args: Any, misfit: str | None) -> None:
    assert find_mismatch(args, SCHEMA) == misfit


def test_many_mismatches_are_counted_and_long_ones_shortened() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    mismatch = find_mismatch({f"k{number}": "x" * 500 for number in range(9)}, schema)
    assert mismatch is not None
    assert mismatch.endswith(" And 4 more.")
    assert len(mismatch) < 1500


def test_a_tool_without_a_schema_accepts_no_arguments() -> None:
    assert find_mismatch({}, None) is None
    assert find_mismatch({"a": 1}, None) == "It takes no arguments: 'a'."


@pytest.mark.parametrize("schema", [{"type": 12}, {"$ref": "#/$defs/Gone"}])
def test_an_invalid_schema_rejects_nothing(schema: dict[str, Any]) -> None:
    assert find_mismatch({"a": 1}, schema) is None


def test_a_pattern_in_another_dialect_is_skipped_and_other_keywords_are_checked() -> None:
    name = {"type": "string", "pattern": r"^\p{L}+$"}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    assert find_mismatch({"name": "Ada"}, schema) is None
    assert find_mismatch({"name": 1}, schema) == "name: 1 is not of type 'string'."
    assert find_mismatch({}, schema) == "'name' is a required property."


def test_a_valid_pattern_is_checked() -> None:
    schema = {"type": "object", "properties": {"name": {"pattern": "^[a-z]+$"}}}
    assert find_mismatch({"name": "Ada"}, schema) == "name: 'Ada' does not match '^[a-z]+$'."


@pytest.mark.parametrize("schema", [{"multipleOf": 0.1}, {"type": "string"}])
def test_a_number_too_large_to_check_is_left_to_the_tool(schema: dict[str, Any]) -> None:
    assert find_mismatch({"a": 10**5000}, {"properties": {"a": schema}}) is None
