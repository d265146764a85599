"""Any spelling of a schema -> one copy in the keywords of JSON Schema 2020-12.

Users write schemas in several spellings: Gemini's Schema message (`STRING`, `any_of`, `ref`),
OpenAPI 3.0 (`nullable`), JSON Schema drafts 3 to 2020-12. The result is a deep copy in plain JSON,
so that every later step meets one spelling. `nullable` stays, because its meaning depends on the
keywords beside it. Values that a keyword cannot have are rejected here with the parameter's name;
the API only says "Request contains an invalid argument".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from pydantic_core import PydanticSerializationError, to_jsonable_python

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, TYPES, Keyword
from langchain_gemini_tools.wire.schema.walk import (
    leads_to_schema,
    map_value,
    pointers,
    references,
    resolve,
    subschemas,
    unused_name,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

_SPELLINGS = {spelling: row.name for row in KEYWORDS.values() for spelling in row.spellings}


def read_schema(schema: Any) -> JsonSchema | bool:
    """Return a deep copy of a schema as plain JSON in the keywords of JSON Schema 2020-12.

    Raises:
        InvalidToolError: It is not a schema, or contains something that JSON cannot express.
    """
    document = _read(schema)
    if isinstance(document, dict):
        _read_targets(document, schema)
    return document


def _read_targets(document: JsonSchema, given: Mapping[str, Any]) -> None:
    """Make every reference of the document a path to a schema that was read."""
    read: dict[str, str] = {}
    pending: list[Any] = [document]
    locator = _Locator(document)
    while pending:
        for part in references(pending.pop()):
            reference = locator.locate(part)
            if reference not in read:
                read[reference] = _read_target(document, given, reference)
                pending.append(resolve(document, read[reference]))
                if read[reference] != reference:
                    locator = _Locator(document)  # a definition was added
            part["$ref"] = read[reference]


def _read_target(document: JsonSchema, given: Mapping[str, Any], reference: str) -> str:
    """Return a path to the same schema, which becomes a definition if it was not read so far.

    OpenAPI has schemas in `components`, and a path may use a spelling that was replaced.
    """
    if leads_to_schema(document, reference):
        return reference
    target = resolve(given, reference)
    if not isinstance(target, (Mapping, bool)):
        raise InvalidToolError(f"The schema refers to {reference!r}, which is not a schema.")
    definitions = document.setdefault("$defs", {})
    name = unused_name(re.sub(r"\W", "_", reference.rpartition("/")[2]), definitions)
    definitions[name] = _read(target)
    return f"#/$defs/{name}"


class _Locator:
    """Rewrites the references of one document as paths from its root."""

    def __init__(self, document: JsonSchema) -> None:
        self._document = document

    def locate(self, part: JsonSchema) -> str:
        """Return the reference of a schema as a path; as it is, if nothing has its address.

        Raises:
            InvalidToolError: The document defines the address or the name more than once.
        """
        reference: str = part["$ref"]
        address, _, fragment = reference.partition("#")
        is_path = not fragment or fragment.startswith("/")
        if not address and is_path and not self._has_inner_addresses:
            return reference
        base = self._places.bases[id(part)]
        if not address and is_path:
            inside = f"#{base.pointer}{fragment}"
            return inside if leads_to_schema(self._document, inside) else reference
        for around in (base.address, _address(self._document)):
            target = _join(around, address)
            found = self._places.targets.get(target if is_path else f"{target}#{fragment}", [])
            differ = any(other.schema != found[0].schema for other in found)
            if differ or self._is_dynamic(fragment):
                raise InvalidToolError(
                    f"The schema refers to {reference!r}, which it defines more than once. Rename "
                    "one of them."
                )
            if found:
                return f"#{found[0].pointer}{fragment if is_path else ''}"
        return reference

    def _is_dynamic(self, name: str) -> bool:
        # Which one of several is meant depends on the way that leads to the reference.
        names = [part.get("$dynamicAnchor") for part in subschemas(self._document)]
        return names.count(name) > 1

    @cached_property
    def _has_inner_addresses(self) -> bool:
        return any("$id" in part for part in subschemas(self._document)[1:])

    @cached_property
    def _places(self) -> _Places:
        around = [_Base("", _address(self._document))]
        places = _Places({}, {})
        for pointer, part in pointers(self._document):
            while not f"{pointer}/".startswith(f"{around[-1].pointer}/"):
                around.pop()
            if "$id" in part and pointer:
                around.append(_Base(pointer, _join(around[-1].address, _address(part))))
            base = places.bases[id(part)] = around[-1]
            names = [part[name] for name in ("$anchor", "$dynamicAnchor") if name in part]
            targets = [f"{base.address}#{name}" for name in names]
            targets += [base.address] if pointer == base.pointer else []
            for target in targets:
                places.targets.setdefault(target, []).append(_Target(pointer, part))
        return places


def _address(schema: JsonSchema) -> str:
    return str(schema.get("$id", "")).partition("#")[0]


def _join(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:  # such as `http://[`
        return address


class _Base(NamedTuple):
    """The innermost schema with an address around another schema."""

    pointer: str
    address: str


class _Target(NamedTuple):
    """A schema to which a reference may lead."""

    pointer: str
    schema: JsonSchema


class _Places(NamedTuple):
    """Where the schemas of a document are."""

    bases: dict[int, _Base]
    """By the identity of the schema."""
    targets: dict[str, list[_Target]]
    """By their addresses, and by the addresses of their names. Copies have the same ones."""


def _read(schema: object, place: str = "") -> JsonSchema | bool:
    """Read one schema at any depth; `place` is the parameter that it describes, for errors."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidToolError(f"{_at(place)}expected a JSON schema, got {schema!r}.")
    read: JsonSchema = {}
    for key, value in schema.items():
        name = str(_SPELLINGS.get(key, key))
        keyword = KEYWORDS.get(name)
        # A dumped SDK object has every field, unset ones as None.
        if value is None and (keyword is None or keyword.value != "literal"):
            continue
        if name != key and name in schema:
            continue
        if name == "required" and isinstance(value, bool):
            continue  # about the property as a whole: see `_lift_required`
        if keyword is None:
            _read_other_drafts(read, name, value, place)
        else:
            _read_keyword(read, keyword, value, place)
    _lift_required(read, schema.get("properties"))
    # Until draft 2019-09 it describes the items after a tuple, and means nothing without one.
    others = read.pop("additionalItems", None)
    if others is not None and "prefixItems" in read:
        read.setdefault("items", others)
    return read


def _lift_required(read: JsonSchema, properties: object) -> None:
    # Draft 3, and a common slip: `required: true` inside a property instead of the object's list.
    for name, item in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(item, Mapping) and item.get("required") is True:
            names = read.setdefault("required", [])
            names += [] if name in names else [str(name)]


def _read_keyword(read: JsonSchema, keyword: Keyword, value: Any, place: str) -> None:
    """Read a keyword of JSON Schema 2020-12."""
    if keyword.name == "items" and isinstance(value, (list, tuple)):  # until draft 2019-09
        keyword = KEYWORDS["prefixItems"]
    _check_value(keyword, value, place)
    if keyword.value == "schema map":
        value = {str(name): item for name, item in dict(value).items()}
    if keyword.has_schemas:
        read[keyword.name] = map_value(
            keyword, value, lambda child: _read(child.schema, child.place(place))
        )
    elif keyword.value == "type":
        _read_type(read, value, place)
    elif keyword.value == "count":
        read[keyword.name] = _read_count(keyword.name, value, place)
    elif keyword.name == "default":
        with suppress(InvalidToolError):  # what JSON cannot express, the model cannot write either
            read["default"] = plain_json(value)
    else:
        read[keyword.name] = plain_json(value)


def _read_other_drafts(read: JsonSchema, name: str, value: object, place: str) -> None:
    """Read what JSON Schema 2020-12 writes in another way, or does not know."""
    match name, value:
        case "additionalItems", _:
            read[name] = _read(value, f"{place}[]")
        case "dependencies", Mapping():
            _read_dependencies(read, value)
        case "example", _:
            read["examples"] = [plain_json(value)]
        case (("$id" | "id"), str()) if value.startswith("#"):  # until draft 7
            if "/" not in value:
                read["$anchor"] = value[1:]
        case "id", str():  # until draft 4
            read["$id"] = value
        case (("$id" | "$anchor" | "$dynamicAnchor"), _) if not isinstance(value, str):
            return
        case _:
            read[name] = plain_json(value)


def _read_dependencies(read: JsonSchema, value: Mapping[str, Any]) -> None:
    # Draft 7 has one keyword where later drafts have two.
    for name, item in value.items():
        if isinstance(item, (list, tuple)):
            read.setdefault("dependentRequired", {})[name] = plain_json(item)
        else:
            read.setdefault("dependentSchemas", {})[name] = _read(item)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _is_text(value: object) -> bool:
    return isinstance(value, (str, Enum))


def _are_texts(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value))


_ACCEPTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    # PHP writes an empty object as an empty list.
    "schema map": ("an object", lambda value: isinstance(value, Mapping) or value == []),
    "schemas": ("a list of schemas", _is_list),
    "list": ("a list", _is_list),
    "text": ("a string", _is_text),
    "number": ("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
    "limit": ("a number", lambda value: isinstance(value, (int, float))),
    "names": ("a list of names", lambda value: isinstance(value, bool) or _are_texts(value)),
    "type": ("a string or a list of strings", lambda value: _is_text(value) or _are_texts(value)),
}
"""For values of keywords: what they are called, and how they are recognized."""


def _check_value(keyword: Keyword, value: object, place: str) -> None:
    accepted = _ACCEPTED.get(keyword.value)
    if accepted and not accepted[1](value):
        raise InvalidToolError(
            f"{_at(place)}{keyword.name!r} must be {accepted[0]}, not {value!r}."
        )


def _at(place: str) -> str:
    """Return the start of a sentence about a parameter; nothing for the schema as a whole."""
    return f"parameter {place!r}: " if place else ""


def _read_count(name: str, value: Any, place: str) -> int:
    # The API writes 64-bit integers as strings: a dumped Schema message has `"minItems": "1"`.
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or (isinstance(value, float) and value != count):
        raise InvalidToolError(f"{_at(place)}{name!r} must be a whole number, not {value!r}.")
    return count


def _read_type(read: JsonSchema, value: Any, place: str) -> None:
    value = plain_json(value)
    names = value if isinstance(value, list) else [value]
    names = [name.lower() for name in names if name != "TYPE_UNSPECIFIED"]
    if "any" in names:
        return  # draft 3
    if unknown := [name for name in names if name not in TYPES]:
        raise InvalidToolError(
            f"{_at(place)}type {unknown[0]!r} is not valid; use one of {', '.join(TYPES)}."
        )
    if names:
        read["type"] = names if isinstance(value, list) else names[0]


_PLAIN = frozenset({str, int, float, bool, type(None)})


def plain_json(value: object) -> Any:
    """Return a deep copy of a value as plain JSON; enums, dates, models etc. in their JSON form.

    Raises:
        InvalidToolError: It has no JSON form.
    """
    if type(value) in _PLAIN:
        return value
    match value:
        case Mapping():
            return {str(key): plain_json(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_json(item) for item in value]
        case AbstractSet():
            return sorted((plain_json(item) for item in value), key=repr)
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidToolError(f"The schema contains {value!r}, which has no JSON form.") from error


class KnownSchema(dict[str, Any]):
    """A schema that is read once and never changed: that of a class or of a function."""

    @cached_property
    def text(self) -> str:
        """Its JSON."""
        return json.dumps(self)


def schema_text(schema: object) -> str:
    """Return a schema's JSON.

    Raises:
        TypeError, ValueError: It contains more than JSON, such as a default object.
    """
    return schema.text if isinstance(schema, KnownSchema) else json.dumps(schema)
