"""Where a JSON schema holds other schemas, and what its references point to.

A property may be called `$ref`, `items` or `type`: only these tables say where a keyword stands and
where a name, and every walk over a schema goes through them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from langchain_gemini_tools.errors import InvalidToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INDEX = re.compile(r"\d{1,9}")

ONE_SCHEMA = frozenset(
    {
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
LIST_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAP_OF_SCHEMAS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)


def subschemas(schema: Any) -> Iterator[Any]:
    """Every schema that stands directly inside this one."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in ONE_SCHEMA:
            yield value
        elif keyword in LIST_OF_SCHEMAS and isinstance(value, list):
            yield from value
        elif keyword in MAP_OF_SCHEMAS and isinstance(value, dict):
            yield from value.values()


def resolve(document: dict[str, Any], reference: str) -> Any:
    """The schema that `reference` points to.

    Raises:
        InvalidToolError: It points outside the document, or to nothing.
    """
    if reference == "#" or reference.startswith("#/"):
        node: Any = document
        for segment in reference.split("/")[1:]:
            node = _step(node, unquote(segment).replace("~1", "/").replace("~0", "~"), reference)
        return node
    for candidate in _walk(document):
        if reference in (candidate.get("$id"), f"#{candidate.get('$anchor')}"):
            return candidate
    raise InvalidToolError(
        f"The schema refers to {reference!r}, which is not part of it. Gemini reads no other "
        "documents: put the definition under '$defs' and refer to it as '#/$defs/...'."
    )


def _step(node: Any, key: str, reference: str) -> Any:
    if isinstance(node, dict):
        # Gemini's own Schema message spells it `#/defs/...`.
        for spelling in (key, f"${key}"):
            if spelling in node:
                return node[spelling]
    if isinstance(node, list) and _INDEX.fullmatch(key) and int(key) < len(node):
        return node[int(key)]
    raise InvalidToolError(f"The schema refers to {reference!r}, which it does not define.")


def _walk(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for child in subschemas(schema):
        yield from _walk(child)


def references(schema: Any) -> set[str]:
    """Every reference that stands in `schema`, at any depth, definitions left out."""
    if not isinstance(schema, dict):
        return set()
    body = {key: value for key, value in schema.items() if key not in {"$defs", "definitions"}}
    found = {body["$ref"]} if isinstance(body.get("$ref"), str) else set()
    return found.union(*(references(child) for child in subschemas(body)))


def reference_graph(document: dict[str, Any]) -> dict[str, set[str]]:
    """For every reference that the document follows, the references in what it points to."""
    graph: dict[str, set[str]] = {}
    pending = list(references(document))
    while pending:
        reference = pending.pop()
        if reference not in graph:
            graph[reference] = references(resolve(document, reference))
            pending.extend(graph[reference])
    return graph


def cyclic_references(graph: dict[str, set[str]]) -> frozenset[str]:
    """The references that lead back to themselves, and so cannot be written out."""
    return frozenset(start for start in graph if start in _reachable(graph, start))


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = list(graph[start])
    while pending:
        reference = pending.pop()
        if reference not in seen:
            seen.add(reference)
            pending.extend(graph[reference])
    return seen


def endless_definitions(document: Mapping[str, Any]) -> list[str]:
    """The definitions that no finite value fits, as each value has to hold another of them."""
    definitions = document.get("$defs") or {}
    ends: set[str] = set()
    while more := {n for n in definitions.keys() - ends if _can_end(definitions[n], ends)}:
        ends |= more
    return [name for name in definitions if name not in ends]


def _can_end(schema: Any, ends: set[str]) -> bool:
    """Whether a value of this schema can end, given the definitions whose values can."""
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2] in ends
    match schema.get("type", "object"):
        case "object" | ["object"]:
            properties = schema.get("properties") or {}
            needed = [properties[name] for name in schema.get("required", ()) if name in properties]
        case "array" | ["array"] if length := schema.get("minItems"):
            needed = [*schema.get("prefixItems", ()), schema.get("items")][:length]
        case _:
            needed = []
    choices = schema.get("anyOf") or schema.get("oneOf") or [True]
    return all(_can_end(child, ends) for child in needed) and any(
        _can_end(choice, ends) for choice in choices
    )
