"""What the references of a JSON schema point to, and which of them lead back to themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS
from langchain_gemini_tools.wire.schema.walk import definition_name, pointers, subschemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from referencing._core import Resolver

    from langchain_gemini_tools.wire.shapes import JsonSchema

_INDEX = re.compile(r"\d{1,9}")


def resolve(document: Mapping[str, Any], reference: str) -> Any:
    """Return what a path such as `#/$defs/Pet` points to.

    Raises:
        InvalidToolError: It points outside the document, or to nothing.
    """
    address, _, path = reference.partition("#")
    if address or (path and not path.startswith("/")):
        raise InvalidToolError(
            f"The schema refers to {reference!r}, which is not part of it. Gemini does not read "
            "other documents: put the definition under '$defs' and refer to it as '#/$defs/...'."
        )
    node: Any = document
    for key in _keys(path):
        node = _step(node, key, reference)
    return node


def leads_to_schema(document: Mapping[str, Any], reference: str) -> bool:
    """Return whether a path leads to a place where the document contains a schema."""
    if not reference.startswith("#"):
        return False
    node: Any = document
    is_schema = True  # not a list or an object of schemas
    for key in _keys(reference[1:]):
        keyword = KEYWORDS.get(key) or KEYWORDS.get(f"${key}")  # `#/defs/...`
        nesting = keyword.nesting if keyword else "none"
        if is_schema and nesting == "none":
            return False
        try:
            node = _step(node, key, reference)
        except InvalidToolError:
            return False
        is_schema = not is_schema or nesting == "schema"
    return is_schema and isinstance(node, (dict, bool))


def _keys(path: str) -> list[str]:
    return [unquote(key).replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _step(node: object, key: str, reference: str) -> Any:
    if isinstance(node, Mapping):
        for spelling in (key, f"${key}"):  # Gemini's Schema message has `#/defs/...`
            if spelling in node:
                return node[spelling]
    if isinstance(node, (list, tuple)) and _INDEX.fullmatch(key) and int(key) < len(node):
        return node[int(key)]
    raise InvalidToolError(f"The schema refers to {reference!r}, which it does not define.")


class Locator:
    """Rewrites the references of one document as paths from its root.

    Paths are rewritten here. Addresses (`$id`) and names (`$anchor`) are left to `referencing`,
    which is only loaded for documents that use them.
    """

    def __init__(self, document: JsonSchema) -> None:
        self._document = document

    def locate(self, part: JsonSchema) -> str:
        """Return the reference of a schema as a path; as it is, if it cannot be found.

        Raises:
            InvalidToolError: The document defines the name more than once.
        """
        reference: str = part["$ref"]
        address, _, fragment = reference.partition("#")
        is_path = not fragment or fragment.startswith("/")
        if not address and is_path and not self._has_inner_addresses:
            return reference
        own, resolver = self._resource_of(part)
        if not address and is_path:
            inside = f"#{own}{fragment}"
            return inside if leads_to_schema(self._document, inside) else reference
        if not is_path:
            self._reject_ambiguous(fragment, reference)
        for base in (resolver, self._resources[0][1]):
            found = self._find(base, address if is_path else reference)
            if found is not None:
                return f"#{found}{fragment if is_path else ''}"
        return reference

    @cached_property
    def _has_inner_addresses(self) -> bool:
        parts = subschemas(self._document)
        return any("$id" in part for part in parts if part is not self._document)

    @cached_property
    def _pointers(self) -> dict[int, str]:
        return {id(part): pointer for pointer, part in pointers(self._document)}

    @cached_property
    def _resources(self) -> list[tuple[str, Resolver[Any]]]:
        """The path and the resolver of the document, then of every part with an address."""
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012

        root = DRAFT202012.create_resource(self._document)
        registry = Registry().with_resource(root.id() or "", root).crawl()
        found = [("", registry.resolver(root.id() or ""))]
        for pointer, part in pointers(self._document):
            if "$id" in part and pointer:
                around = next(r for path, r in reversed(found) if _is_inside(pointer, path))
                resource = DRAFT202012.create_resource(part)
                found.append((pointer, around.in_subresource(resource)))
        return found

    def _resource_of(self, part: JsonSchema) -> tuple[str, Resolver[Any]]:
        pointer = self._pointers.get(id(part), "")
        around = [each for each in self._resources if _is_inside(pointer, each[0])]
        return around[-1]

    def _find(self, base: Resolver[Any], reference: str) -> str | None:
        from referencing.exceptions import Unresolvable

        try:
            return self._pointers.get(id(base.lookup(reference).contents))
        except (Unresolvable, ValueError):
            return None

    def _reject_ambiguous(self, name: str, reference: str) -> None:
        # Which one of them is meant depends on the way that leads to the reference.
        parts = subschemas(self._document)
        if sum(part.get("$dynamicAnchor") == name for part in parts) > 1:
            raise InvalidToolError(
                f"The schema refers to {reference!r}, which it defines more than once."
            )


def _is_inside(pointer: str, path: str) -> bool:
    return pointer == path or pointer.startswith(f"{path}/")


def references(schema: object) -> list[JsonSchema]:
    """Return the references in a schema, at any depth, definitions left out."""
    parts = subschemas(schema, with_definitions=False)
    return [part for part in parts if isinstance(part.get("$ref"), str)]


def reference_graph(document: JsonSchema) -> dict[str, set[str]]:
    """Return, for every reference that the document follows, the references in its target."""
    graph: dict[str, set[str]] = {}
    pending = [part["$ref"] for part in references(document)]
    while pending:
        reference = pending.pop()
        if reference not in graph:
            target = resolve(document, reference)
            graph[reference] = {part["$ref"] for part in references(target)}
            pending.extend(graph[reference])
    return graph


def cyclic_references(graph: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the references that lead back to themselves, and so cannot be written out."""
    return frozenset(start for start in graph if start in reachable(graph, start))


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return everything that a way of one step or more leads to."""
    seen: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(graph.get(node, ()))
    return seen


def endless_definitions(document: Mapping[str, Any]) -> list[str]:
    """Return the definitions that no finite value matches: each value contains another one."""
    definitions = document.get("$defs") or {}
    ends: set[str] = set()
    while more := {n for n in definitions.keys() - ends if _can_end(definitions[n], ends)}:
        ends |= more
    return [name for name in definitions if name not in ends]


def _can_end(schema: object, ends: set[str]) -> bool:
    """Return whether a value of this schema can end, given the definitions whose values can."""
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        return definition_name(schema) in ends
    match schema.get("type", "object"):
        case "object" | ["object"]:
            needed = [each for _, each in needed_properties(schema)]
        case "array" | ["array"]:
            needed = needed_items(schema)
        case _:
            needed = []
    choices = schema.get("anyOf") or schema.get("oneOf") or [True]
    return all(_can_end(child, ends) for child in needed) and any(
        _can_end(choice, ends) for choice in choices
    )


def needed_properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the names and schemas of the required properties."""
    properties = schema.get("properties") or {}
    return ((name, properties[name]) for name in schema.get("required") or () if name in properties)


def needed_items(schema: Mapping[str, Any]) -> list[Any]:
    """Return schemas of items that an array cannot do without; `items` is listed once."""
    return [*schema.get("prefixItems", ()), schema.get("items")][: schema.get("minItems", 0)]
