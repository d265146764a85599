"""The first look at a schema: one copy, in JSON Schema's own words.

Users write schemas in several spellings: Gemini's Schema message (`STRING`, `any_of`, `ref`),
OpenAPI 3.0 (`nullable`), JSON Schema drafts 4 to 2020-12. What comes out is a deep copy of plain
JSON in the newest draft's keywords, so that every later rule meets one spelling only. `nullable`
stays, because what it means depends on what stands beside it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import at, refuse_wrong_kind
from langchain_gemini_tools.wire.schema.references import (
    LIST_OF_SCHEMAS,
    MAP_OF_SCHEMAS,
    ONE_SCHEMA,
    leads_to_schema,
    referring,
    resolve,
    without_own_address,
)

Schema = dict[str, Any]

_SPELLINGS = {
    "additional_properties": "additionalProperties",
    "all_of": "allOf",
    "any_of": "anyOf",
    "defs": "$defs",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "min_length": "minLength",
    "min_properties": "minProperties",
    "one_of": "oneOf",
    "prefix_items": "prefixItems",
    "property_ordering": "propertyOrdering",
    "ref": "$ref",
    # Inside of one document, these two are the same.
    "$dynamicRef": "$ref",
    "$recursiveRef": "$ref",
    "unique_items": "uniqueItems",
}

# The wire writes 64-bit integers as strings: a dumped Schema message holds `"minItems": "1"`.
_COUNTS = frozenset(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"}
)
_LITERALS = frozenset({"const", "default", "enum", "examples"})

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def read_schema(schema: Any) -> Schema | bool:
    """A deep copy of `schema` as plain JSON in the words of JSON Schema 2020-12.

    Raises:
        InvalidToolError: It is no schema, or holds what JSON cannot.
    """
    document = _read(schema)
    if isinstance(document, dict):
        _read_targets(document, schema)
    return document


def _read_targets(document: Schema, given: Mapping[str, Any]) -> None:
    """See to it that every reference of the document leads to a schema that was read."""
    read: dict[str, str] = {}
    pending: list[Any] = [document]
    while pending:
        for part in referring(pending.pop()):
            reference = without_own_address(document, part["$ref"])
            if reference not in read:
                read[reference] = _read_target(document, given, reference)
                pending.append(resolve(document, read[reference]))
            part["$ref"] = read[reference]


def _read_target(document: Schema, given: Mapping[str, Any], reference: str) -> str:
    """A reference to the same schema, as one of the definitions if it stood elsewhere.

    OpenAPI keeps schemas in `components`, and a path may use a spelling that was not kept.
    """
    if leads_to_schema(document, reference):
        return reference
    target = resolve(given, reference)
    if not isinstance(target, (Mapping, bool)):
        raise InvalidToolError(f"The schema refers to {reference!r}, which is no schema.")
    definitions = document.setdefault("$defs", {})
    name = wanted = re.sub(r"\W", "_", reference.rpartition("/")[2])
    while name in definitions:
        name = f"{wanted}_{len(definitions)}"
    definitions[name] = _read(target)
    return f"#/$defs/{name}"


def _read(schema: Any, place: str = "") -> Schema | bool:
    """One schema at any depth; `place` is the parameter that it is about, for errors."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidToolError(f"{at(place)}{schema!r} stands where a JSON schema is expected.")
    read: Schema = {}
    for key, value in schema.items():
        keyword = str(_SPELLINGS.get(key, key))
        # An SDK object dumped as a whole holds every field, unset ones as None.
        if (value is None and keyword not in _LITERALS) or (keyword != key and keyword in schema):
            continue
        refuse_wrong_kind(keyword, value, place)
        _read_keyword(read, keyword, value, place)
    _lift_required(read)
    # Drafts 4 to 2019-09 say so what follows a tuple; it means nothing without one.
    others = read.pop("additionalItems", None)
    if others is not None and "prefixItems" in read:
        read.setdefault("items", others)
    return read


def _lift_required(read: Schema) -> None:
    # Draft 3, and a common slip: `required: true` inside a property instead of the object's list.
    for name, item in (read.get("properties") or {}).items():
        if (
            isinstance(item, dict)
            and isinstance(item.get("required"), bool)
            and item.pop("required")
        ):
            names = read.get("required", [])
            read["required"] = [*names, *([] if name in names else [name])]


def _read_keyword(read: Schema, keyword: str, value: Any, place: str) -> None:
    match keyword:
        case "type":
            _read_type(read, value, place)
        case "items" if isinstance(value, (list, tuple)):
            # drafts 4 to 2019-09
            read["prefixItems"] = [_read(item, f"{place}[]") for item in value]
        case "additionalItems":
            read[keyword] = _read(value, f"{place}[]")
        case "dependencies" if isinstance(value, Mapping):
            _read_dependencies(read, value)
        case "example":
            read["examples"] = [plain_json(value)]
        case "default":
            _read_default(read, value)
        case "required":
            read["required"] = plain_json(value)
        case _ if keyword in ONE_SCHEMA:
            read[keyword] = _read(value, f"{place}[]" if keyword == "items" else place)
        case _ if keyword in LIST_OF_SCHEMAS:
            read[keyword] = [_read(item, place) for item in value]
        case _ if keyword in MAP_OF_SCHEMAS:
            read[keyword] = {
                str(name): _read(item, f"{place}.{name}".removeprefix("."))
                for name, item in dict(value).items()
            }
        case _ if keyword in _COUNTS:
            read[keyword] = _read_count(keyword, value, place)
        case _:
            read[keyword] = plain_json(value)


def _read_count(keyword: str, value: Any, place: str) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or (isinstance(value, float) and value != count):
        raise InvalidToolError(
            f"{at(place)}{keyword!r} is {value!r}, and has to be a whole number."
        )
    return count


def _read_type(read: Schema, value: Any, place: str) -> None:
    value = plain_json(value)
    names = value if isinstance(value, list) else [value]
    names = [name.lower() for name in names if name != "TYPE_UNSPECIFIED"]
    if "any" in names:
        return  # draft 3
    if unknown := [name for name in names if name not in _TYPES]:
        raise InvalidToolError(
            f"{at(place)}there is no type {unknown[0]!r}; there are {', '.join(sorted(_TYPES))}."
        )
    if names:
        read["type"] = names if isinstance(value, list) else names[0]


def _read_dependencies(read: Schema, value: Mapping[str, Any]) -> None:
    # Draft 7 keeps in one keyword what later drafts keep in two.
    for name, item in value.items():
        if isinstance(item, (list, tuple)):
            read.setdefault("dependentRequired", {})[name] = plain_json(item)
        else:
            read.setdefault("dependentSchemas", {})[name] = _read(item)


def _read_default(read: Schema, value: Any) -> None:
    try:
        read["default"] = plain_json(value)
    except InvalidToolError:
        return  # an object that JSON has no form for: the model could not write it either


def plain_json(value: Any) -> Any:
    """A deep copy of `value` as plain JSON; enums, dates, models and the like by their JSON form.

    Raises:
        InvalidToolError: JSON has no form for it.
    """
    match value:
        case None | bool() | str():
            return value if type(value) in {str, bool, type(None)} else _jsonable(value)
        case int() | float() if type(value) in {int, float}:
            return value
        case Mapping():
            return {str(key): plain_json(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_json(item) for item in value]
        case AbstractSet():
            return sorted((plain_json(item) for item in value), key=repr)
        case _:
            return _jsonable(value)


class KnownSchema(dict[str, Any]):
    """A schema that is read once and never changed: that of a class, or of a function."""

    @cached_property
    def text(self) -> str | None:
        """See `schema_text`."""
        return _text(self)


def schema_text(schema: Any) -> str | None:
    """The schema's JSON; None where it holds more than JSON, such as a default of some class."""
    return schema.text if isinstance(schema, KnownSchema) else _text(schema)


def _text(schema: Any) -> str | None:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError):
        return None


def _jsonable(value: Any) -> Any:
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidToolError(
            f"The schema holds {value!r}, which JSON has no form for."
        ) from error


def is_finite(value: Any) -> bool:
    """Whether JSON can hold every number in `value`."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(is_finite, value.values()))
        case list():
            return all(map(is_finite, value))
        case _:
            return True
