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
    from referencing._core import Resolver

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
    """Rewrites the references of one document as paths from its root.

    Paths are rewritten here. Addresses (`$id`) and names (`$anchor`) are left to `referencing`,
    which is only loaded for documents that use them.
    """

    def __init__(self, document: JsonSchema) -> None:
        self._document = document

    def locate(self, part: JsonSchema) -> str:
        """Return the reference of a schema as a path; as it is, if it cannot be found.

        Raises:
            InvalidToolError: The document defines the address or the name more than once.
        """
        reference: str = part["$ref"]
        address, _, fragment = reference.partition("#")
        is_path = not fragment or fragment.startswith("/")
        if not address and is_path and not self._has_inner_addresses:
            return reference
        place = self._places[id(part)]
        if not address and is_path:
            inside = f"#{place.base}{fragment}"
            return inside if leads_to_schema(self._document, inside) else reference
        if not is_path:
            self._reject_ambiguous(fragment, reference)
        for resolver in (place.resolver, self._places[id(self._document)].resolver):
            found = self._find(resolver, address if is_path else reference)
            if found is not None and is_path:
                return f"#{self._only(found, '', reference)}{fragment}"
            if found is not None:
                return f"#{self._only(found, fragment, reference)}"
        return reference

    @cached_property
    def _has_inner_addresses(self) -> bool:
        return any("$id" in part for part in subschemas(self._document)[1:])

    @cached_property
    def _places(self) -> dict[int, _Place]:
        """The place of every schema in the document, by its identity."""
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012

        root = DRAFT202012.create_resource(self._document)
        registry = Registry().with_resource(root.id() or "", root).crawl()
        # Parts with an address, innermost last.
        around = [("", root.id() or "", registry.resolver(root.id() or ""))]
        found: dict[int, _Place] = {}
        for pointer, part in pointers(self._document):
            while not f"{pointer}/".startswith(f"{around[-1][0]}/"):
                around.pop()
            if "$id" in part and pointer:
                resource = DRAFT202012.create_resource(part)
                _, address, resolver = around[-1]
                address = urljoin(address, resource.id() or "")
                around.append((pointer, address, resolver.in_subresource(resource)))
            found[id(part)] = _Place(part, pointer, *around[-1])
        return found

    def _find(self, resolver: Resolver[Any], reference: str) -> _Place | None:
        from referencing.exceptions import Unresolvable

        try:
            return self._places.get(id(resolver.lookup(reference).contents))
        except (Unresolvable, ValueError):
            return None

    def _only(self, found: _Place, name: str, reference: str) -> str:
        """Return the pointer of the first schema with this address, or with a name inside it.

        `referencing` returns any of several. They may be copies, but must not differ.
        """
        places = [place for place in self._places.values() if place.address == found.address]
        if name:
            same = [place for place in places if name in place.names]
        else:
            same = [place for place in places if place.pointer == place.base]
        if any(place.schema != found.schema for place in same):
            raise _ambiguous(reference)
        return same[0].pointer if same else found.pointer

    def _reject_ambiguous(self, name: str, reference: str) -> None:
        # Which one of them is meant depends on the way that leads to the reference.
        parts = subschemas(self._document)
        if sum(part.get("$dynamicAnchor") == name for part in parts) > 1:
            raise _ambiguous(reference)


def _ambiguous(reference: str) -> InvalidToolError:
    return InvalidToolError(
        f"The schema refers to {reference!r}, which it defines more than once. Rename one of them."
    )


class _Place(NamedTuple):
    """Where a schema is in its document."""

    schema: JsonSchema
    pointer: str
    base: str
    """The pointer of the innermost schema around it that has an address."""
    address: str
    """The address of that schema."""
    resolver: Resolver[Any]

    @property
    def names(self) -> list[str]:
        """The names of the schema, which are unique at its address."""
        found = (self.schema.get("$anchor"), self.schema.get("$dynamicAnchor"))
        return [name for name in found if name]


def _read(schema: object, place: str = "") -> JsonSchema | bool:
    """Read one schema at any depth; `place` is the parameter that it describes, for errors."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise InvalidToolError(f"{_at(place)}expected a JSON schema, got {schema!r:.200}.")
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
            f"{_at(place)}{keyword.name!r} must be {accepted[0]}, not {value!r:.200}."
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
        raise InvalidToolError(f"{_at(place)}{name!r} must be a whole number, not {value!r:.200}.")
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


def is_generated_title(title: Any, name: str) -> bool:
    """Return whether a title only repeats the name of its property or definition.

    Pydantic writes `page_size` as "Page Size", and a class as its name; a definition's key is the
    name of the class, with its module before it where two classes have the same name.
    """
    if not isinstance(title, str) or not name:
        return False
    if title in (name, name.title().replace("_", " ").strip()):
        return True
    key = re.sub(r"[^A-Za-z0-9.\-_]", "_", title)  # `Box[int]` is defined as `Box_int_`
    return name == key or name.endswith(f"__{key}")


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
        raise InvalidToolError(
            f"The schema contains {value!r:.200}, which has no JSON form."
        ) from error


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
