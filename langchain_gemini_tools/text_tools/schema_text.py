"""JSON Schema -> lines that a model without function calling can read.

    - city: string, required. Name of the city.
    - days: integer (at least 1, at most 7), optional, default 3.
    - stops: array of objects, optional.
      - place: string, required.

Nothing of a schema is left out: what has no words here is shown as JSON. Schemas that hold
themselves are described once, by name.
"""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_gemini_tools.text_tools.protocol import harmless

Schema = dict[str, Any]

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "format {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}
_ONE_OF = ("anyOf", "oneOf")
_TOLD = {
    *_LIMITS,
    *_ONE_OF,
    "type",
    "title",
    "description",
    "default",
    "enum",
    "const",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalProperties",
    "uniqueItems",
    "propertyOrdering",
    "examples",
    "deprecated",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
}
"""Keywords that have words of their own below, or that say nothing to a model."""


def describe_parameters(schema: Schema | None) -> list[str]:
    """The lines of a tool's arguments, and of the types that they refer to by name."""
    if not schema:
        return ["No arguments: write {}."]
    lines = _children({**schema, "additionalProperties": None}, 0)
    if extra := _extra_keys(schema):
        lines.append(f"- any other key: {extra}")
    if limits := _limits(schema):
        lines.append(f"- the arguments together: {', '.join(limits)}")
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    for name, definition in definitions.items():
        lines += [f"Type {name}: {_sentence(definition)}", *_children(definition, 0)]
    return lines


def _properties(schema: Schema, depth: int) -> list[str]:
    lines: list[str] = []
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        mark = "required" if name in required else "optional"
        lines.append(f"{'  ' * depth}- {_key(name)}: {_sentence(part, mark)}")
        lines += _children(part, depth + 1)
    described = schema.get("properties", {})
    undescribed = [name for name in required if name not in described]
    return lines + [f"{'  ' * depth}- {_key(name)}: anything, required." for name in undescribed]


def _sentence(schema: Any, mark: str = "") -> str:
    """Type, limits, mark and default of one value, then its description and examples."""
    if not isinstance(schema, dict):
        return f"{_type(schema)}{f', {mark}' if mark else ''}."
    said = [_type(schema), *([mark] if mark else [])]
    if "default" in schema:
        said.append(f"default {_json(schema['default'])}")
    text = f"{', '.join(said)}."
    if description := _one_line(schema.get("description")):
        text += f" {description}"
    if examples := schema.get("examples"):
        text += f" Examples: {', '.join(harmless(_json(example)) for example in examples)}."
    return f"{text} Deprecated." if schema.get("deprecated") else text


def _type(schema: Any) -> str:
    """A value's type with its limits, in a few words."""
    if schema is True or schema == {}:
        return "anything"
    if not isinstance(schema, dict):
        return "nothing is allowed"
    limits = ", ".join(_limits(schema))
    return f"{_bare_type(schema)} ({limits})" if limits else _bare_type(schema)


def _bare_type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2] or "the arguments again"
    if "const" in schema:
        return _json(schema["const"])
    if "enum" in schema:
        return " or ".join(map(_json, schema["enum"]))
    for key in _ONE_OF:
        if options := schema.get(key):
            return " or ".join(dict.fromkeys(map(_type, options)))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_bare_type({**schema, "type": one}) for one in kind)
    if kind == "array" or (kind is None and "items" in schema):
        return _array(schema)
    if kind == "object" or (kind is None and "properties" in schema):
        extra = "" if schema.get("properties") else _extra_keys(schema)
        return f"object with values: {extra}" if extra else "object"
    return str(kind) if kind else "anything"


def _array(schema: Schema) -> str:
    if prefix := schema.get("prefixItems"):
        return f"array of exactly: {', '.join(map(_type, prefix))}"
    items = schema.get("items")
    if not items or items is True:
        return "array"
    inner = _type(items)
    return (
        f"array of {inner}s"
        if inner in {"string", "integer", "number", "object"}
        else (f"array of ({inner})")
    )


def _limits(schema: Schema) -> list[str]:
    said = [
        words.format(value if isinstance(value := schema[key], str) else _json(value))
        for key, words in _LIMITS.items()
        if key in schema
    ]
    if schema.get("uniqueItems"):
        said.append("no item twice")
    if schema.get("additionalProperties") is False and schema.get("properties"):
        said.append("no other keys")
    if rest := _untold(schema):
        said.append(rest)
    return said


def _untold(schema: Schema) -> str:
    """What has no words here, as JSON."""
    rest = {key: value for key, value in schema.items() if key not in _TOLD}
    return _json(rest) if rest else ""


def _extra_keys(schema: Schema) -> str:
    extra = schema.get("additionalProperties")
    return _type(extra) if isinstance(extra, dict) else ""


def _children(schema: Any, depth: int) -> list[str]:
    """The lines of whatever has keys of its own inside a value."""
    if not isinstance(schema, dict):
        return []
    lines = _properties(schema, depth)
    options = [option for key in _ONE_OF for option in schema.get(key, ())]
    with_keys = [option for option in options if _has_keys(option)]
    for number, option in enumerate(with_keys, 1):
        if len(with_keys) > 1:
            title = _one_line(option.get("title")) or f"object {number}"
            lines.append(f"{'  ' * depth}- if it is {title}: {_sentence(option)}")
            lines += _children(option, depth + 1)
        else:
            lines += _children(option, depth)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        lines += _children(inner, depth)
    for inner in schema.get("prefixItems", ()):
        lines += _children(inner, depth)
    return lines


def _has_keys(schema: Any) -> bool:
    return bool(_children(schema, 0))


def _key(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _json(name)


def _one_line(text: Any) -> str:
    return harmless(" ".join(str(text or "").split()))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
