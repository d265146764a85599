"""Gemini's own `Schema` message: `parameters` and `responseSchema`. Paths go by property name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.refusal import JsonObject

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


def vertex_problem(schema: JsonObject, path: str) -> str | None:
    """What Vertex alone says about a function's `parameters`: the first place, in its words."""
    if path == "parameters" and schema.get("type") != "OBJECT":
        return f"`{path}` schema should be of type OBJECT."
    if "anyOf" in schema and len(schema) > 1:
        return (
            f"`{path}` schema specified other fields alongside any_of. When using any_of, it must "
            "be the only field set."
        )
    if "anyOf" not in schema and "type" not in schema:
        return f"`{path}` schema didn't specify the schema type field."
    children = {f"{path}.{name}": child for name, child in schema.get("properties", {}).items()}
    children |= {f"{path}.items": schema["items"]} if "items" in schema else {}
    children |= {f"{path}.any_of[{n}]": child for n, child in enumerate(schema.get("anyOf", []))}
    found = (vertex_problem(child, place) for place, child in children.items())
    return next(filter(None, found), None)


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
