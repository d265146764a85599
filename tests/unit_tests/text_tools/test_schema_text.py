from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.text_tools.schema_text import describe_parameters

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


def test_a_schema_that_holds_itself_is_described_once_by_name() -> None:
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


def test_keys_that_are_not_described_are_told() -> None:
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
