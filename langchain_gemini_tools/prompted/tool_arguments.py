"""Describe the arguments of a tool to a model, write sample arguments, and validate arguments.

    - city: string, required. Name of the city.
    - days: integer (at least 1, at most 7), optional, default 3.
    - stops: array of objects, optional.
      - place: string, required.

The description leaves nothing out: keywords without a wording are shown as JSON. Recursive schemas
are described once and then referred to by their name.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.prompted.words import escape_protocol
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, keywords_in, write
from langchain_gemini_tools.wire.schema.walk import children, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    from langchain_gemini_tools.prompted.values import Json
    from langchain_gemini_tools.wire.shapes import JsonSchema


_AS_JSON = frozenset(name for name, keyword in KEYWORDS.items() if keyword.prompt is None)
"""Keywords that the sentences below do not describe."""
_ONE_OF = ("anyOf", "oneOf")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")

_MAX_REFERENCES = 50
_MAX_ITEMS = 5
_MAX_TEXT = 200
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_MAX_ERRORS = 5
_MAX_LENGTH = 200


# Description


def describe_parameters(schema: JsonSchema | None) -> list[str]:
    """Return the lines that describe a tool's arguments and the types they refer to."""
    if not schema:
        return ["No arguments: write {}."]
    lines = _objects({**schema, "additionalProperties": None}, 0)
    if extra := _extra_keys(schema):
        lines.append(f"- any other key: {extra}")
    if limits := _limits(schema):
        lines.append(f"- the arguments together: {', '.join(limits)}")
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    for name, definition in definitions.items():
        lines += [f"Type {_one_line(name)}: {_sentence(definition)}", *_objects(definition, 0)]
    return lines


def _properties(schema: JsonSchema, depth: int) -> list[str]:
    lines: list[str] = []
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        mark = "required" if name in required else "optional"
        lines.append(f"{'  ' * depth}- {_key(name)}: {_sentence(part, mark)}")
        lines += _objects(part, depth + 1)
    described = schema.get("properties", {})
    undescribed = [name for name in required if name not in described]
    return lines + [f"{'  ' * depth}- {_key(name)}: anything, required." for name in undescribed]


def _sentence(schema: object, mark: str = "") -> str:
    """Describe one value: type, limits, mark, default, description and examples."""
    if not isinstance(schema, dict):
        return f"{_type(schema)}{f', {mark}' if mark else ''}."
    parts = [_type(schema), *([mark] if mark else [])]
    if "default" in schema:
        parts.append(f"default {_write(schema['default'])}")
    text = f"{', '.join(parts)}."
    if description := _one_line(schema.get("description")):
        text += f" {description}"
    if examples := schema.get("examples"):
        text += f" Examples: {', '.join(map(_write, examples))}."
    return f"{text} Deprecated." if schema.get("deprecated") else text


def _type(schema: object) -> str:
    """Describe the type and the limits of a value."""
    if schema is True or schema == {}:
        return "anything"
    if not isinstance(schema, dict):
        return "nothing is allowed"
    limits = ", ".join(_limits(schema))
    return f"{_bare_type(schema)} ({limits})" if limits else _bare_type(schema)


def _bare_type(schema: JsonSchema) -> str:
    if "$ref" in schema:
        return _one_line(schema["$ref"]).rpartition("/")[2] or "the arguments again"
    if "const" in schema:
        return _write(schema["const"])
    if "enum" in schema:
        return " or ".join(map(_write, schema["enum"]))
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


def _array(schema: JsonSchema) -> str:
    if prefix := schema.get("prefixItems"):
        return f"array of exactly: {', '.join(map(_type, prefix))}"
    items = schema.get("items")
    if not items or items is True:
        return "array"
    inner = _type(items)
    has_plural = inner in {"string", "integer", "number", "object"}
    return f"array of {inner}s" if has_plural else f"array of ({inner})"


def _limits(schema: JsonSchema) -> list[str]:
    limits: list[str] = []
    for keyword in keywords_in(schema):
        value = schema[keyword.name]
        if keyword.prompt and value is not False:
            # A pattern keeps its spaces.
            is_text = isinstance(value, str)
            text = escape_protocol(" ".join(value.splitlines())) if is_text else _write(value)
            limits.append(keyword.prompt.format(text))
    if schema.get("additionalProperties") is False and schema.get("properties"):
        limits.append("no other keys")
    if rest := {name: value for name, value in schema.items() if name in _AS_JSON}:
        limits.append(_write(rest))
    return limits


def _extra_keys(schema: JsonSchema) -> str:
    extra = schema.get("additionalProperties")
    return _type(extra) if isinstance(extra, dict) else ""


def _objects(schema: object, depth: int) -> list[str]:
    """Describe the objects inside a value."""
    if not isinstance(schema, dict):
        return []
    lines = _properties(schema, depth)
    options = [option for key in _ONE_OF for option in schema.get(key, ())]
    with_keys = [option for option in options if _objects(option, 0)]
    for number, option in enumerate(with_keys, 1):
        if len(with_keys) > 1:
            title = _one_line(option.get("title")) or f"object {number}"
            lines.append(f"{'  ' * depth}- if it is {title}: {_sentence(option)}")
            lines += _objects(option, depth + 1)
        else:
            lines += _objects(option, depth)
    for child in children(schema):
        if child.keyword.name not in _AS_JSON and child.keyword.about in {"item", "other keys"}:
            lines += _objects(child.schema, depth)
    return lines


def _key(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else _write(name)


def _write(value: object) -> str:
    """Write a value of a schema as JSON. The schema may come from an untrusted server."""
    return escape_protocol(write(value))


def _one_line(text: object) -> str:
    return escape_protocol(" ".join(str(text or "").split()))


# Samples


def sample_arguments(schema: JsonSchema | None) -> dict[str, Json]:
    """Return sample arguments: the required ones, or the first if none is required."""
    if not schema:
        return {}
    sampler = _Sampler(schema)
    try:
        args = sampler.sample_object(schema)
        first = next(iter(schema.get("properties", {}).items()), None)
        return {first[0]: sampler.sample(first[1], first[0])} if first and not args else args
    except _EndlessError:
        return {}


class _EndlessError(Exception):
    """Every value of this schema contains another one of it, or is far too large."""


class _Sampler:
    """Writes values for the parts of a schema.

    Examples, defaults and enums of the schema come first, as its author would write them. Recursive
    values end as early as the schema allows.
    """

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._open: list[str] = []
        self._left = _MAX_REFERENCES

    def sample(self, schema: object, name: str = "text") -> Any:
        """Return a value of this schema.

        Raises:
            _EndlessError: Every value contains another one of it.
        """
        if not isinstance(schema, dict):
            schema = {}
        if isinstance(path := schema.get("$ref"), str):
            return self._follow(path, name)
        if examples := schema.get("examples"):
            return examples[0]
        if schema.get("default") is not None:
            return schema["default"]
        if "const" in schema:
            return schema["const"]
        if values := schema.get("enum"):
            return values[0]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._sample_choice(options, name)
        return self._sample_kind(schema, name)

    def sample_object(self, schema: JsonSchema) -> dict[str, Json]:
        """Return an object with the required keys."""
        properties = schema.get("properties", {})
        return {
            name: self.sample(properties.get(name, {}), name) for name in schema.get("required", ())
        }

    def _follow(self, path: str, name: str) -> Any:
        self._left -= 1
        if path in self._open or self._left < 0:
            raise _EndlessError
        target: object = {}
        with suppress(InvalidToolError):
            target = resolve(self._root, path)
        self._open.append(path)
        try:
            return self.sample(target, name)
        finally:
            self._open.pop()

    def _sample_choice(self, options: list[object], name: str) -> Any:
        """Return a value of the first finite option; null comes last, as it shows least."""
        for option in sorted(options, key=lambda option: option == {"type": "null"}):
            try:
                return self.sample(option, name)
            except _EndlessError:
                continue
        raise _EndlessError

    def _sample_kind(self, schema: JsonSchema, name: str) -> Json:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                return self.sample_object(schema)
            case "array":
                return self._sample_array(schema)
            case "integer":
                return int(_number(schema))
            case "number":
                return _number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return _string(schema, name)

    def _sample_array(self, schema: JsonSchema) -> list[Json]:
        least = int(schema.get("minItems", 0))
        try:
            if prefix := schema.get("prefixItems"):
                return [self.sample(item) for item in prefix]
            return [self.sample(schema.get("items", {}))] * min(max(1, least), _MAX_ITEMS)
        except _EndlessError:
            if least:
                raise
            return []


def _number(schema: JsonSchema) -> float:
    if "multipleOf" in schema:
        return float(schema["multipleOf"])
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2) - 1)
    if low > high and {"exclusiveMinimum", "exclusiveMaximum"} & schema.keys():
        least = schema.get("exclusiveMinimum", schema.get("minimum", high))
        most = schema.get("exclusiveMaximum", schema.get("maximum", high))
        return float(least + most) / 2
    number: float = min(max(low, 1), high)
    return number


def _string(schema: JsonSchema, name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), f"<{name}>")
    text = text.ljust(min(int(schema.get("minLength", 0)), _MAX_TEXT), ".")
    longest = schema.get("maxLength")
    return text if longest is None else text[: int(longest)]


# Validation


def find_mismatch(value: Any, schema: JsonSchema | None) -> str | None:
    """Explain why arguments, or a response, do not match a schema; `None` if they do.

    Nothing is converted: `"3"` is not an integer. A tool without a schema has no arguments. If the
    schema is invalid or has unresolvable references, or a number is too large to be checked, the
    value counts as matching, and validation is left to the tool.
    """
    if schema is None:
        return f"It takes no arguments: {', '.join(map(repr, value))}." if value else None
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        validator = _compiled(json.dumps(schema, default=str))
        errors = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
        messages = list(dict.fromkeys(map(_describe_error, errors)))
    except (SchemaError, Unresolvable, RecursionError, ArithmeticError, ValueError, re.error):
        return None
    more = f" And {len(messages) - _MAX_ERRORS} more." if len(messages) > _MAX_ERRORS else ""
    return " ".join(messages[:_MAX_ERRORS]) + more if messages else None


@lru_cache(maxsize=256)
def _compiled(schema_text: str) -> Validator:
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    schema = json.loads(schema_text)
    # Without formats: a `pattern` in another regex dialect must not disable all validation.
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    check_pattern = Draft202012Validator.VALIDATORS["pattern"]

    def check_readable_pattern(*check: Any) -> Iterator[ValidationError]:
        with suppress(re.error):
            yield from check_pattern(*check)

    lenient = extend(Draft202012Validator, {"pattern": check_readable_pattern})  # type: ignore[no-untyped-call]
    validator: Validator = lenient(schema)
    return validator


def _describe_error(error: ValidationError) -> str:
    place = error.json_path.removeprefix("$").removeprefix(".")
    message = error.message
    if len(message) > _MAX_LENGTH:
        message = f"{message[:_MAX_LENGTH]}…"
    return f"{place}: {message}." if place else f"{message}."
