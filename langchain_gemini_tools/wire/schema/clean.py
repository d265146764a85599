"""JSON Schema -> the part of it that Gemini follows, with the same meaning.

A keyword outside the API's list (see `keywords`) is replaced by keywords inside it where that is
possible, and is otherwise sent as it is: one function per rule, see `RULES`. No rule changes which
values match, so that every rule may also be applied below `not` and `if`. What only a description
can state stays here, and is stated when the schema is rendered: see `render`.

`allOf` is not in the list, and nothing may stand beside a `$ref`. Both are written out where one
schema can say the same (`merge_schemas`); where none can, they stay apart. References that lead
back to themselves stay, with their definitions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, constraints, describe, say
from langchain_gemini_tools.wire.schema.python_types import plain_schema
from langchain_gemini_tools.wire.schema.read import is_generated_title, read_schema
from langchain_gemini_tools.wire.schema.walk import (
    Child,
    TooLargeError,
    cyclic_references,
    endless_definitions,
    map_children,
    reference_graph,
    resolve,
    unused_name,
)
from langchain_gemini_tools.wire.tools.bind import is_specification, read_specification

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.wire.shapes import JsonSchema

# Writing references out can make a small schema huge. Beyond this many subschemas, far more than a
# tool written by hand has, definitions stay definitions.
_MAX_SUBSCHEMAS = 5_000

_APART = ("$ref", "nullable")
_SENT = frozenset(name for name, row in KEYWORDS.items() if row.kind != "definitions")


def clean_parameters(schema: Any) -> JsonSchema | None:
    """Return the cleaned schema of a function's arguments; None for a function without any.

    Its title is dropped: the function's name says as much.

    Raises:
        InvalidToolError: It is not a schema, or does not describe an object.
    """
    cleaned = clean_schema({} if schema is None else schema)
    if isinstance(schema, Mapping) and not constraints(cleaned) and _has_unknown_keys(schema):
        raise InvalidToolError(
            f"{schema!r:.200} is not a schema: it has no keyword that Gemini knows. Describe "
            "parameters under 'properties'."
        )
    cleaned.pop("title", None)
    if cleaned.get("additionalProperties") == {}:
        cleaned["additionalProperties"] = True
    if "object" not in (types := cleaned.get("type", "object")):
        raise InvalidToolError(f"its parameters must be an object, not of type {types!r}.")
    cleaned = {"type": "object", **cleaned} | {"type": "object"}
    return None if _accepts_nothing(cleaned) else cleaned


def _has_unknown_keys(schema: Mapping[str, Any]) -> bool:
    """Return whether something in it is neither a keyword nor information about the schema."""
    read = read_schema(schema)
    others = () if isinstance(read, bool) else read.keys() - KEYWORDS.keys()
    return any(not name.startswith(("$", "x-")) for name in others)


def _accepts_nothing(schema: JsonSchema) -> bool:
    # "should be non-empty for OBJECT type": a function without arguments has no schema at all.
    # `additionalProperties: true` alone is different: the model may give any argument.
    return {name for name, value in constraints(schema).items() if value} <= {"type"}


def clean_response_schema(schema: Any) -> JsonSchema:
    """Return the cleaned schema of a response: of the model's, or of a function's.

    Args:
        schema: A schema, or the specification of a function, whose arguments are used.

    Raises:
        InvalidToolError: It is not a schema.
    """
    if isinstance(schema, Mapping) and is_specification(schema):
        specified = read_specification(schema)
        if specified.parameters is None:
            raise InvalidToolError(
                f"{dict(schema)!r} is a function named {specified.name!r} without parameters, not "
                "a schema. Describe the fields of the response under 'properties'."
            )
        schema = specified.parameters
    cleaned = clean_schema(schema)
    if isinstance(schema, Mapping) and schema and not cleaned:
        raise InvalidToolError(
            f"{schema!r:.200} is not a schema: it has no keyword that Gemini knows."
        )
    if endless := endless_definitions(cleaned):
        raise InvalidToolError(
            f"The definition {endless[0]!r} requires itself without end. Make it optional, or a "
            "list."
        )
    return cleaned


def clean_schema(schema: Any) -> JsonSchema:
    """Return a copy of a schema in keywords that Gemini accepts, matched by the same values.

    Raises:
        InvalidToolError: It is not a schema, or refers to something outside itself.
    """
    document = read_schema(plain_schema(schema))
    graph = reference_graph(document)
    try:
        return _Cleaner(document, cyclic_references(graph), _MAX_SUBSCHEMAS).clean()
    except TooLargeError:
        return _Cleaner(document, frozenset(graph), math.inf).clean()


class _Cleaner:
    """Cleans one document: writes its references out, except for those that would never end."""

    def __init__(self, document: Any, kept: frozenset[str], limit: float) -> None:
        self._document = document
        self._kept = kept
        self._left = limit
        self._definitions: JsonSchema = {}
        self._names: dict[str, str] = {}

    def clean(self) -> JsonSchema:
        cleaned = self._clean(self._document)
        followed: set[str] = set()
        while (reference := cleaned.get("$ref", "")) and reference not in followed:
            # The root has to be an object itself, so its own reference is followed once.
            followed.add(reference)
            cleaned = dict(self._definitions[_last_segment(reference)])
        if self._definitions:
            cleaned["$defs"] = self._definitions
        return cleaned

    def _clean(self, schema: Any, name: str = "") -> JsonSchema:
        """Clean one subschema; `name` is the property or definition it belongs to, if any."""
        self._left -= 1
        if self._left < 0:
            raise TooLargeError
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        is_reference = isinstance(schema.get("$ref"), str)
        cleaned = self._clean_reference(schema) if is_reference else self._clean_keywords(schema)
        if is_generated_title(cleaned.get("title"), name):
            del cleaned["title"]
        return cleaned

    def _clean_keywords(self, schema: JsonSchema) -> JsonSchema:
        sent = {name: value for name, value in schema.items() if name in _SENT}
        cleaned = map_children(sent, self._clean_child)
        for rule in RULES:
            rule(cleaned)
        return cleaned

    def _clean_child(self, child: Child) -> JsonSchema | bool:
        if child.keyword.value == "schema" and isinstance(child.schema, bool):
            return child.schema
        return self._clean(child.schema, child.name if child.keyword.value == "schema map" else "")

    def _clean_reference(self, schema: JsonSchema) -> JsonSchema:
        """Write a reference out, or keep it, and add what stands beside it."""
        reference = schema["$ref"]
        is_kept = reference in self._kept
        target = {"$ref": self._define(reference)} if is_kept else self._clean_target(reference)
        cleaned = self._clean({key: schema[key] for key in schema if key not in _APART})
        cleaned["allOf"] = [target, *cleaned.get("allOf", [])]
        _write_out_all_of(cleaned)
        cleaned["nullable"] = schema.get("nullable", False)
        _allow_null(cleaned)
        return cleaned

    def _clean_target(self, reference: str) -> JsonSchema:
        return self._clean(resolve(self._document, reference), _last_segment(reference))

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            wanted = re.sub(r"\W", "_", _last_segment(reference)) or "root"
            name = unused_name(wanted, self._definitions)
            self._names[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # known before it is cleaned, as it leads back to itself
            self._definitions[name] = self._clean_target(reference)
        return self._names[reference]


def _last_segment(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].removeprefix("#")


# The rules for one schema

EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""The exclusive limits, and the inclusive ones in the same direction."""

_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}
_LISTED = ("string", "integer", "number")
"""The types of values that Gemini accepts in an `enum`."""


def type_of(value: object) -> str:
    """Return JSON Schema's name for the type of a value."""
    return "null" if value is None else _TYPE_NAMES.get(type(value), "array")


def _is_finite(value: object) -> bool:
    """Return whether JSON can express every number in a value."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _matches_type(value: Any, names: list[str]) -> bool:
    name = type_of(value)
    is_whole = name == "integer" or (name == "number" and value == int(value))
    return not names or name in names or (is_whole and bool({"integer", "number"} & set(names)))


def _split_enum(schema: JsonSchema) -> None:
    """Give an `enum` a type and only strings and numbers; other values get their own schema.

    Null becomes a type, and so do both booleans together. A `const` is an `enum` of one value.
    """
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if not isinstance(values := schema.get("enum"), list):
        return
    if not _is_finite(values):
        raise InvalidToolError(f"The enum {values!r} contains numbers that have no JSON form.")
    names = _types(schema)
    if names and set(names) <= {"integer", "number"}:
        values = _as_numbers(values)
    possible = [value for value in values if _matches_type(value, names)]
    if schema.pop("nullable", False) and None not in possible:
        possible.append(None)
    if not possible:
        return  # no value matches: the user's contradiction stays as it is
    del schema["enum"]
    schema.pop("type", None)
    branches = _enum_branches(possible, names)
    if len(branches) == 1:
        schema.update(branches[0])
    elif "anyOf" in schema:
        schema["allOf"] = [*schema.get("allOf", []), {"anyOf": branches}]
    else:
        schema["anyOf"] = branches


def _enum_branches(values: list[Any], names: list[str]) -> list[JsonSchema]:
    branches: list[JsonSchema] = []
    if listed := [value for value in values if type_of(value) in _LISTED]:
        kinds = [name for name in names or sorted(set(map(type_of, listed))) if name in _LISTED]
        branches.append({**_type(kinds), "enum": listed})
    if booleans := [value for value in values if isinstance(value, bool)]:
        is_one = len(set(booleans)) == 1
        branches.append({"type": "boolean"} | ({"enum": booleans[:1]} if is_one else {}))
    branches += [
        {"type": type_of(value), "enum": [value]}
        for value in values
        if isinstance(value, (dict, list))
    ]
    return [*branches, {"type": "null"}] if None in values else branches


def _as_numbers(values: list[Any]) -> list[Any]:
    # Gemini's Schema message only has strings: `{"type": "INTEGER", "enum": ["1", "2"]}`.
    try:
        return [json.loads(value) if isinstance(value, str) else value for value in values]
    except (ValueError, RecursionError):
        return values


def _types(schema: JsonSchema) -> list[str]:
    names = schema.get("type", [])
    return [names] if isinstance(names, str) else list(names)


def _type(names: list[str]) -> JsonSchema:
    return {"type": names[0] if len(names) == 1 else names} if names else {}


def _allow_null(schema: JsonSchema) -> None:
    """`nullable` -> null as one of the types: the keyword is OpenAPI's, not JSON Schema's."""
    if not schema.pop("nullable", False) or "null" in _types(schema):
        return
    limits = constraints(schema)
    if not limits:
        return  # every value is allowed, null included
    if _types(schema) and not limits.keys() & {"enum", "anyOf", "oneOf", "allOf", "not", "if"}:
        names = [*_types(schema), "null"]
        del schema["type"]  # it moves to the end, where recorded requests have it
        schema["type"] = names
        return
    for keyword in limits:
        del schema[keyword]
    branches = limits["anyOf"] if limits.keys() == {"anyOf"} else [limits]
    null = [] if any("null" in _types(branch) for branch in branches) else [{"type": "null"}]
    schema["anyOf"] = [*branches, *null]


def settle_limits(schema: JsonSchema) -> None:
    """Keep the tighter lower and upper limit; `exclusiveMinimum` of integers is a `minimum`."""
    if schema.keys().isdisjoint(EXCLUSIVE):
        return
    for exclusive, inclusive in EXCLUSIVE.items():
        step, tighter = (1, max) if inclusive == "minimum" else (-1, min)
        limit = schema.pop(exclusive, None)
        if limit is True:  # draft 4: a flag beside the limit
            limit = schema.pop(inclusive, None)
        if limit is None or limit is False or not _is_finite(limit):
            continue
        if set(_types(schema)) - {"null"} == {"integer"}:
            limit = (math.floor(limit) if step > 0 else math.ceil(limit)) + step
            schema[inclusive] = tighter(limit, schema.get(inclusive, limit))
        elif tighter(limit, schema.get(inclusive, limit)) == limit:
            schema.pop(inclusive, None)
            schema[exclusive] = limit


_MAY_SAY_NOTHING = frozenset({"minimum", "maximum", "deprecated", "examples", "required"})


def _drop_what_says_nothing(schema: JsonSchema) -> None:
    """Drop infinite limits, `deprecated: false`, and examples and names that list nothing."""
    for name in schema.keys() & _MAY_SAY_NOTHING:
        match name:
            case "minimum" | "maximum":
                says_nothing = not _is_finite(schema[name])
            case "deprecated":
                says_nothing = schema[name] is not True
            case _:
                says_nothing = not (isinstance(schema[name], list) and schema[name])
        if says_nothing:
            del schema[name]


def _describe_infinity(schema: JsonSchema) -> None:
    """State a default and examples that contain infinity in words: JSON has no such number."""
    for name in ("default", "examples"):
        if name in schema and not _is_finite(schema[name]):
            describe(schema, say(KEYWORDS[name], schema.pop(name)))


def _close_tuple(schema: JsonSchema) -> None:
    """`items: false` after `prefixItems` -> `maxItems`, which is followed."""
    if schema.get("items") is False:
        del schema["items"]
        length = len(schema.get("prefixItems", []))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    elif schema.get("items") is True:
        schema["items"] = {}


def _write_out_all_of(schema: JsonSchema) -> None:
    """`allOf` -> one schema that says the same; it stays only where there is none."""
    if not isinstance(parts := schema.pop("allOf", None), list):
        return
    apart = []
    for part in parts:
        merged = None if "$ref" in part else merge_schemas(schema, part)
        schema.update(merged or {})
        apart += [part] if merged is None else []
    if len(apart) == 1 and "$ref" in apart[0] and not schema:
        schema.update(apart.pop())
    elif apart and "anyOf" not in schema:
        schema["anyOf"] = [apart.pop(0)]  # one of one: the listed keyword that adds a schema
    if apart:
        schema["allOf"] = apart


RULES: tuple[Callable[[JsonSchema], None], ...] = (
    _write_out_all_of,
    _split_enum,
    settle_limits,
    _drop_what_says_nothing,
    _describe_infinity,
    _close_tuple,
    _allow_null,
)
"""The rules for one schema, in the order in which they are applied."""


# Two schemas that both apply


def merge_schemas(first: JsonSchema, second: JsonSchema) -> JsonSchema | None:
    """Return one schema for the values that match both, with the annotations of the first.

    None where no single schema says the same.
    """
    if not first or not second or first == second:
        return dict(first or second)
    if _must_stay_apart(first, second):
        return None
    merged = dict(first)
    for name, value in second.items():
        keyword = KEYWORDS.get(name)
        if name not in merged:
            merged[name] = value
        elif merged[name] != value and (keyword is None or keyword.kind != "annotation"):
            combine = _COMBINE.get(keyword.merge) if keyword else None
            combined = combine(merged[name], value) if combine else None
            if combined is None:
                return None
            merged[name] = combined
    return merged


def _must_stay_apart(first: JsonSchema, second: JsonSchema) -> bool:
    return (
        "$ref" in first
        or "$ref" in second
        or not _groups(first).isdisjoint(_groups(second))
        or _tuples_meet(first, second)
        or _closes_on(first, second)
        or _closes_on(second, first)
    )


def _groups(schema: JsonSchema) -> set[str]:
    return {KEYWORDS[name].group for name in schema if name in KEYWORDS} - {""}


def _tuples_meet(first: JsonSchema, second: JsonSchema) -> bool:
    arrays = {"items", "prefixItems", "unevaluatedItems"}
    meet = arrays & first.keys() and arrays & second.keys()
    return bool(meet) and bool({"prefixItems", "unevaluatedItems"} & (first.keys() | second.keys()))


def _closes_on(closed: JsonSchema, other: JsonSchema) -> bool:
    """Return whether `closed` restricts properties that it does not name and `other` does."""
    if "unevaluatedProperties" in closed:
        return True
    if closed.get("additionalProperties", True) in (True, {}):
        return False
    if "patternProperties" in closed or "patternProperties" in other:
        return True
    return not other.get("properties", {}).keys() <= closed.get("properties", {}).keys()


def _both(first: Any, second: Any) -> JsonSchema:
    """Return one schema for what matches both, with `allOf` where nothing shorter says it."""
    schemas = [{} if schema is True else schema for schema in (first, second)]
    if False in schemas:
        return {"not": {}}
    merged = merge_schemas(*schemas)
    return {"allOf": schemas} if merged is None else merged


def _each(first: JsonSchema, second: JsonSchema) -> JsonSchema:
    merged = dict(first)
    for name, schema in second.items():
        merged[name] = _both(merged[name], schema) if name in merged else schema
    return merged


def _common_types(first: Any, second: Any) -> Any:
    left, right = ([item] if isinstance(item, str) else item for item in (first, second))
    common = [name for name in left if name in right or (name == "integer" and "number" in right)]
    if "number" in left and "integer" in right and "integer" not in common:
        common.append("integer")
    return common[0] if len(common) == 1 else common or None


def _common_values(first: list[Any], second: list[Any]) -> list[Any] | None:
    return [item for item in first if any(_same_json(item, other) for other in second)] or None


def _same_json(first: object, second: object) -> bool:
    """Compare as JSON does: 1 is 1.0, but never true."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": max,
    "min": min,
    "or": lambda first, second: first or second,
    "union": lambda first, second: [*first, *(name for name in second if name not in first)],
    "types": _common_types,
    "values": _common_values,
    "both": _both,
    "each": _each,
}
"""The values of `Keyword.merge`."""
