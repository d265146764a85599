"""Walks over JSON schemas: what is inside them, where references lead, and which lead back.

A property may be called `$ref`, `items` or `type`, and an `enum`, a `default` or an example may
contain anything that looks like a schema. Every walk therefore goes through these functions, which
follow what the table says about each keyword and nothing else.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, Keyword, keywords_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from langchain_gemini_tools.wire.shapes import JsonSchema


class Child(NamedTuple):
    """A schema directly inside another one."""

    schema: Any
    """A schema: an object or a boolean."""
    keyword: Keyword
    """The keyword that contains it."""
    name: str = ""
    """Its key in an object of schemas, or its index in a list of schemas."""

    def place(self, parent: str) -> str:
        """Return the parameter that it describes, such as `filters[].tag`.

        Args:
            parent: The parameter that the schema around it describes.
        """
        if self.keyword.about == "item":
            return f"{parent}[]"
        if self.name and self.keyword.about != "same":
            return f"{parent}.{self.name}" if parent else self.name
        return parent


_NESTED = {name: row for name, row in KEYWORDS.items() if row.has_schemas}


def children(schema: object) -> list[Child]:
    """Return the schemas directly inside a schema, in its own order."""
    found: list[Child] = []
    if isinstance(schema, dict):
        for name, value in schema.items():
            if keyword := _NESTED.get(name):
                found += _children(keyword, value)
    return found


def _children(keyword: Keyword, value: object) -> list[Child]:
    if keyword.value == "schema":
        return [Child(value, keyword)]
    if keyword.value == "schemas" and isinstance(value, list):
        return [Child(item, keyword, str(index)) for index, item in enumerate(value)]
    if keyword.value == "schema map" and isinstance(value, dict):
        return [Child(item, keyword, name) for name, item in value.items()]
    return []


def map_children(schema: Mapping[str, Any], change: Callable[[Child], Any]) -> JsonSchema:
    """Return a copy of a schema with every schema directly inside it changed.

    Called by `change` for the schemas further inside, it works top-down or bottom-up.
    """
    return {
        name: map_value(_NESTED[name], value, change) if name in _NESTED else value
        for name, value in schema.items()
    }


def map_value(keyword: Keyword, value: Any, change: Callable[[Child], Any]) -> Any:
    """Return the value of a keyword with every schema directly inside it changed."""
    match keyword.value:
        case "schema":
            return change(Child(value, keyword))
        case "schemas":
            return [change(Child(item, keyword, str(n))) for n, item in enumerate(value)]
        case "schema map":
            return {name: change(Child(item, keyword, name)) for name, item in value.items()}
    return value


def without_properties(schema: JsonSchema, names: Collection[str]) -> JsonSchema:
    """Return the schema of an object without some of its properties; a copy if it has them."""
    properties = schema.get("properties") or {}
    if properties.keys().isdisjoint(names):
        return schema
    left = {name: item for name, item in properties.items() if name not in names}
    required = [name for name in schema.get("required") or () if name not in names]
    return {**schema, "properties": left, "required": required}


def subschemas(schema: object, *, with_definitions: bool = True) -> list[JsonSchema]:
    """Return a schema and every schema inside it, at any depth; booleans are left out.

    Args:
        schema: The schema.
        with_definitions: Whether to look into `$defs` and `definitions`.
    """
    found: list[JsonSchema] = []
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            found.append(part)
            pending += [
                child.schema
                for child in reversed(children(part))
                if with_definitions or child.keyword.kind != "definitions"
            ]
    return found


def pointers(schema: object, start: str = "") -> Iterator[tuple[str, JsonSchema]]:
    """Iterate over the same schemas, each with its JSON pointer."""
    if isinstance(schema, dict):
        yield start, schema
    for child in children(schema):
        pointer = f"{start}/{child.keyword.name}"
        if child.keyword.value != "schema":
            pointer += "/" + child.name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
        yield from pointers(child.schema, pointer)


def same_value(
    schema: object, definitions: Mapping[str, Any], followed: set[str] | None = None
) -> Iterator[JsonSchema]:
    """Iterate over a cleaned schema and every schema inside it that describes the same value.

    Args:
        schema: The schema.
        definitions: The definitions that it may refer to; each is visited once.
        followed: Definitions that were visited already.
    """
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [child.schema for child in children(schema) if child.keyword.about == "same"]
    followed = set() if followed is None else followed
    definition = definition_name(schema)
    if definition in definitions and definition not in followed:
        followed.add(definition)
        inner.append(definitions[definition])
    for each in inner:
        yield from same_value(each, definitions, followed)


class TooLargeError(Exception):
    """Writing the references of a schema out made it too large."""


def definition_name(schema: Mapping[str, Any]) -> str:
    """Return the definition that a cleaned schema refers to, "" if it refers to none."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def unused_name(wanted: str, definitions: Mapping[str, Any]) -> str:
    """Return a name for another definition: the wanted one, with a number if it is taken."""
    name, number = wanted, len(definitions)
    while name in definitions:
        name = f"{wanted}_{number}"
        number += 1
    return name


@dataclass(frozen=True)
class Part:
    """One schema inside the schema of a function's parameters, and where it is."""

    schema: JsonSchema
    path: str = ""
    """The parameter, such as `filters[].tag`; empty for the parameters as a whole."""
    depth: int = 0
    described: frozenset[str] | None = None
    """The keys that this schema, or one about the same object, describes; None where any key is
    described, or none is required."""
    definition: str = ""
    """The definition that it is, if a reference led to it."""

    @property
    def undescribed(self) -> list[str]:
        """The keys that are required and not described anywhere."""
        if self.described is None:
            return []
        return sorted({*self.schema.get("required", ())} - self.described)


def parts(schema: JsonSchema) -> Iterator[Part]:
    """Iterate over the parts of a cleaned schema; a definition is where it is first referred to."""
    definitions = schema.get("$defs") or {}
    return _parts(Part(schema, described=_described_keys(schema, definitions)), definitions, set())


def _parts(part: Part, definitions: Mapping[str, Any], entered: set[str]) -> Iterator[Part]:
    yield part
    inner: list[Part] = []
    for keyword in keywords_in(part.schema):
        if keyword.kind != "definitions":
            for child in _children(keyword, part.schema[keyword.name]):
                inner += _inner_part(child, part, definitions)
    for each in inner:
        yield from _parts(each, definitions, entered)
    definition = definition_name(part.schema)
    if definition in definitions and definition not in entered:
        entered.add(definition)
        found = replace(part, schema=definitions[definition], definition=definition)
        yield from _parts(found, definitions, entered)


def _inner_part(child: Child, parent: Part, definitions: Mapping[str, Any]) -> list[Part]:
    if not isinstance(child.schema, dict):
        return []
    if child.keyword.about != "same":
        described = _described_keys(child.schema, definitions)
    else:
        described = None if child.keyword.is_condition else parent.described
    return [Part(child.schema, child.place(parent.path), parent.depth + 1, described)]


def _described_keys(schema: JsonSchema, definitions: Mapping[str, Any]) -> frozenset[str] | None:
    about_it = list(same_value(schema, definitions))
    rows = [row for part in about_it for row in keywords_in(part)]
    if any(row.about == "other keys" for row in rows):
        return None
    return frozenset(name for part in about_it for name in part.get("properties") or ())


# References

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
        if is_schema and not (keyword and keyword.has_schemas):
            return False
        try:
            node = _step(node, key, reference)
        except InvalidToolError:
            return False
        is_schema = not is_schema or (keyword is not None and keyword.value == "schema")
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


def references(schema: object) -> list[JsonSchema]:
    """Return the references in a schema, at any depth, definitions left out."""
    parts = subschemas(schema, with_definitions=False)
    return [part for part in parts if isinstance(part.get("$ref"), str)]


def reference_graph(document: Any) -> dict[str, set[str]]:
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
    return frozenset(start for start in graph if start in _reachable(graph, start))


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
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
            needed = [each for _, each in _needed_properties(schema)]
        case "array" | ["array"]:
            needed = _needed_items(schema)
        case _:
            needed = []
    choices = schema.get("anyOf") or schema.get("oneOf") or [True]
    return all(_can_end(child, ends) for child in needed) and any(
        _can_end(choice, ends) for choice in choices
    )


def _needed_properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the names and schemas of the required properties."""
    properties = schema.get("properties") or {}
    return ((name, properties[name]) for name in schema.get("required") or () if name in properties)


def _needed_items(schema: Mapping[str, Any]) -> list[Any]:
    """Return schemas of items that an array cannot do without; `items` is listed once."""
    return [*schema.get("prefixItems", ()), schema.get("items")][: schema.get("minItems", 0)]


class _Step(NamedTuple):
    """One definition needs another one, by a required property or directly."""

    source: str
    target: str
    owner: JsonSchema
    """The schema that requires the property; empty if there is none."""
    name: str
    """The property."""


def loosen_loops(schema: JsonSchema) -> JsonSchema:
    """Make optional what closes a loop of required properties between definitions.

    The reference: "Cyclic references are unrolled to a limited degree and, as such, may only be
    used within non-required properties. (Nullable properties are not sufficient.)" The error of the
    API is milder: "ref loops are only supported if they include optional or nullable property
    values, or a potentially-zero-length array items, but a ref loop of required fields was found at
    $defs.And.left". A choice with another way out (`left: Leaf | And`) is rejected by both. So
    where every way back to a definition is required, the property that closes the loop is sent as
    optional, and its description says that it is not. An array that may be empty ends a loop.

    This only concerns the JSON Schema form: prompts, and the Schema message, which has no
    references, keep what the user required.

    Returns:
        A copy, or the schema itself if it has no such loop. What no finite value matches
        stays: the lint reports it.
    """
    endless = set(endless_definitions(schema))
    if not _steps_of_loops(schema.get("$defs") or {}, endless):
        return schema
    definitions: JsonSchema = copy.deepcopy(schema["$defs"])
    for is_any_accepted in (False, True):  # first where the property itself offers another way out
        for step in _steps_of_loops(definitions, endless):
            if is_any_accepted or _offers_a_choice(step):
                _loosen(step.owner, step.name)
    return {**schema, "$defs": definitions}


def _steps_of_loops(definitions: JsonSchema, endless: set[str]) -> list[_Step]:
    steps = [
        step
        for source in definitions.keys() - endless
        for step in _steps(source, definitions[source], {}, "")
    ]
    needs: dict[str, set[str]] = {}
    for step in steps:
        needs.setdefault(step.source, set()).add(step.target)
    return [
        step
        for step in steps
        if step.owner and step.source in {step.target, *_reachable(needs, step.target)}
    ]


def _steps(source: str, schema: Any, owner: JsonSchema, name: str) -> Iterator[_Step]:
    """Iterate over the definitions that a value of this schema needs, in any of its choices."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield _Step(source, definition_name(schema), owner, name)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(keyword) or ():
            yield from _steps(source, choice, owner, name)
    for item in _needed_items(schema):
        yield from _steps(source, item, owner, name)
    for needed, child in _needed_properties(schema):
        yield from _steps(source, child, schema, needed)


def _offers_a_choice(step: _Step) -> bool:
    schema = step.owner["properties"][step.name]
    return len(schema.get("anyOf") or schema.get("oneOf") or ()) > 1


def _loosen(owner: JsonSchema, name: str) -> None:
    if name not in owner.get("required", ()):
        return  # two ways lead through it
    owner["required"] = [other for other in owner["required"] if other != name]
    if not owner["required"]:
        del owner["required"]
    schema = owner["properties"][name]
    if "$ref" in schema:  # nothing may stand beside it
        schema = {"anyOf": [schema]}
    description = f"{schema.get('description', '')} Always give this.".lstrip()
    owner["properties"][name] = {**schema, "description": description}
