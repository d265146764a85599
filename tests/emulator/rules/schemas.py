"""Gemini's own `Schema` message: `parameters` and `responseSchema`. Paths go by property name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.refusal import JsonObject

Problem = tuple[str, str]


def parameters_problems(schema: JsonObject, path: str) -> Iterator[Problem]:
    """The problems of a function's `parameters`.

    "should be non-empty for OBJECT type" was said here too, once. Recorded on 2.0, 2.5 and 3, on
    both backends: `{"type": "OBJECT", "properties": {}}` is a function without parameters.
    """
    if schema.get("type") != "OBJECT" or schema.get("properties"):
        yield from schema_problems(schema, path)


def schema_problems(schema: JsonObject, path: str) -> Iterator[Problem]:
    """Everything that the API would not take in this schema: where, and in its words."""
    kind = schema.get("type", "TYPE_UNSPECIFIED")
    yield from _object_problems(schema, kind, path)
    yield from _array_problems(schema, kind, path)
    if "enum" in schema and kind != "STRING":
        yield f"{path}.enum", "only allowed for STRING type"
    for number, value in enumerate(schema.get("enum", [])):
        if value == "":
            yield f"{path}.enum[{number}]", "cannot be empty"
    if kind == "STRING" and schema.get("format") not in (None, "", "enum", "date-time"):
        yield f"{path}.format", "only 'enum' and 'date-time' are supported for STRING type"
    for number, choice in enumerate(schema.get("anyOf", [])):
        yield from schema_problems(choice, f"{path}.any_of[{number}]")


def _object_problems(schema: JsonObject, kind: str, path: str) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    if kind == "OBJECT":
        if not properties:
            yield f"{path}.properties", "should be non-empty for OBJECT type"
        for number, name in enumerate(schema.get("required", [])):
            if properties and name not in properties:
                yield f"{path}.required[{number}]", "property is not defined"
    else:
        for key in ("properties", "required"):
            if schema.get(key):
                yield f"{path}.{key}", "only allowed for OBJECT type"
    for name, child in properties.items():
        yield from schema_problems(child, f"{path}.properties[{name}]")


def _array_problems(schema: JsonObject, kind: str, path: str) -> Iterator[Problem]:
    if kind == "ARRAY" and "items" not in schema:
        yield f"{path}.items", "missing field."
    elif kind != "ARRAY" and "items" in schema:
        yield f"{path}.items", "field predicate failed: $type == Type.ARRAY"
    elif "items" in schema:
        yield from schema_problems(schema["items"], f"{path}.items")
