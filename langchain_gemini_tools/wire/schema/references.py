"""Where a JSON schema holds other schemas, and what its references point to.

A property may be called `$ref`, `items` or `type`: only these tables say where a keyword stands and
where a name, and every walk over a schema goes through them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from langchain_gemini_tools.errors import InvalidToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def resolve(document: Mapping[str, Any], reference: str) -> Any:
    """What `reference` points to.

    Raises:
        InvalidToolError: It points outside the document, or to nothing.
    """
    address, _, fragment = reference.partition("#")
    resource = _resource(document, address) if address else document
    if resource is not None and (not fragment or fragment.startswith("/")):
        node: Any = resource
        for key in _keys(fragment):
            node = _step(node, key, reference)
        return node
    named = [part for part in _walk(resource) if f"#{fragment}" in _names(part)]
    if len(named) > 1 and named[0].get("$dynamicAnchor") == fragment:
        raise InvalidToolError(
            f"The schema refers to {reference!r}, which it defines more than once."
        )
    if named:
        return named[0]
    raise InvalidToolError(
        f"The schema refers to {reference!r}, which is not part of it. Gemini reads no other "
        "documents: put the definition under '$defs' and refer to it as '#/$defs/...'."
    )


def without_own_address(document: Mapping[str, Any], reference: str) -> str:
    """The reference as it is written inside of the document that it is about."""
    address, _, fragment = reference.partition("#")
    return f"#{fragment}" if address and address in _addresses(document) else reference


def leads_to_schema(document: Mapping[str, Any], reference: str) -> bool:
    """Whether a reference leads to a place where the document holds a schema.

    Names and addresses always do, as only schemas have them; a path may lead anywhere.
    """
    address, _, path = reference.partition("#")
    if not path.startswith("/"):
        return True
    node: Any = _resource(document, address) if address else document
    is_schema = True  # and no list or map of schemas
    for key in _keys(path):
        spelling = f"${key}" if f"${key}" in MAP_OF_SCHEMAS else key  # `#/defs/...`
        if is_schema and spelling not in ONE_SCHEMA | LIST_OF_SCHEMAS | MAP_OF_SCHEMAS:
            return False
        try:
            node = _step(node, key, reference)
        except InvalidToolError:
            return False
        is_schema = not is_schema or spelling in ONE_SCHEMA
    return is_schema and isinstance(node, (dict, bool))


def _keys(path: str) -> list[str]:
    return [unquote(key).replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _resource(document: Mapping[str, Any], address: str) -> Mapping[str, Any] | None:
    """The part of the document that has this address."""
    return next((part for part in _walk(document) if address in _addresses(part)), None)


def _addresses(schema: Mapping[str, Any]) -> list[str]:
    said = (schema.get("$id"), schema.get("id"))  # `id` until draft 4
    return [address.removesuffix("#") for address in said if isinstance(address, str)]


def _names(schema: Mapping[str, Any]) -> list[str]:
    said = (schema.get("$anchor"), schema.get("$dynamicAnchor"))
    return [*(f"#{name}" for name in said if name), *_addresses(schema)]


def _step(node: Any, key: str, reference: str) -> Any:
    if isinstance(node, Mapping):
        # Gemini's own Schema message spells it `#/defs/...`.
        for spelling in (key, f"${key}"):
            if spelling in node:
                return node[spelling]
    if isinstance(node, (list, tuple)) and _INDEX.fullmatch(key) and int(key) < len(node):
        return node[int(key)]
    raise InvalidToolError(f"The schema refers to {reference!r}, which it does not define.")


def _walk(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for child in subschemas(schema):
        yield from _walk(child)


def referring(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of `schema` that is a reference, at any depth, definitions left out."""
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("$ref"), str):
        yield schema
    body = {key: value for key, value in schema.items() if key not in {"$defs", "definitions"}}
    for child in subschemas(body):
        yield from referring(child)


def references(schema: Any) -> set[str]:
    """Every reference that stands in `schema`, at any depth, definitions left out."""
    return {part["$ref"] for part in referring(schema)}


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
