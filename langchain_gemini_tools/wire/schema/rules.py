"""What Gemini does not follow, expressed with what it follows: one function per rule.

A keyword outside the API's list (see `keywords`) is replaced by keywords inside it where that is
possible, and is otherwise sent as it is. No rule changes which values match, so that every rule may
also be applied below `not` and `if`. What only a description can state stays here, and is stated
when the schema is rendered: see `render`.

`allOf` is not in the list, and nothing may stand beside a `$ref`. Both are written out where one
schema can say the same (`merge_schemas`); where none can, they stay apart.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, constraints, say, write
from langchain_gemini_tools.wire.schema.read import is_finite

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.wire.shapes import JsonSchema

EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""The exclusive limits, and the inclusive ones in the same direction."""

_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def describe(schema: JsonSchema, sentence: str) -> None:
    """Add a sentence to the description of a schema, unless it is there already."""
    description = schema.get("description", "")
    if sentence and sentence not in description:
        schema["description"] = f"{description} {sentence}".lstrip()


def type_of(value: object) -> str:
    """Return JSON Schema's name for the type of a value."""
    return "null" if value is None else _TYPE_NAMES.get(type(value), "array")


def _replace_const(schema: JsonSchema) -> None:
    """`const` -> an `enum` of one value: only `enum` is followed."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]


def _matches_type(value: Any, names: list[str]) -> bool:
    name = type_of(value)
    is_whole = name == "integer" or (name == "number" and value == int(value))
    return not names or name in names or (is_whole and bool({"integer", "number"} & set(names)))


def _split_enum(schema: JsonSchema) -> None:
    """Give an `enum` a type and only strings and numbers; other values get their own schema.

    Null becomes a type, and so do both booleans together.
    """
    if not isinstance(values := schema.get("enum"), list):
        return
    if not is_finite(values):
        raise InvalidToolError(f"The enum {values!r} contains numbers that have no JSON form.")
    names = _types(schema)
    if _is_numeric(schema):
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
    listed = [value for value in values if type_of(value) in {"string", "integer", "number"}]
    if listed:
        branch: JsonSchema = {}
        kinds = names or sorted({type_of(value) for value in listed})
        _set_types(branch, [name for name in kinds if name in {"string", "integer", "number"}])
        branches.append({**branch, "enum": listed})
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


def _set_types(schema: JsonSchema, names: list[str]) -> None:
    schema.pop("type", None)
    if names:
        schema["type"] = names[0] if len(names) == 1 else names


def _is_numeric(schema: JsonSchema) -> bool:
    return bool(_types(schema)) and set(_types(schema)) <= {"integer", "number"}


def allow_null(schema: JsonSchema) -> None:
    """`nullable` -> null as one of the types: the keyword is OpenAPI's, not JSON Schema's."""
    if not schema.pop("nullable", False) or "null" in _types(schema):
        return
    limits = constraints(schema)
    if not limits:
        return  # every value is allowed, null included
    if _types(schema) and not limits.keys() & {"enum", "anyOf", "oneOf", "allOf", "not", "if"}:
        _set_types(schema, [*_types(schema), "null"])
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
        if limit is None or limit is False or not is_finite(limit):
            continue
        if set(_types(schema)) - {"null"} == {"integer"}:
            limit = (math.floor(limit) if step > 0 else math.ceil(limit)) + step
            schema[inclusive] = tighter(limit, schema.get(inclusive, limit))
        elif tighter(limit, schema.get(inclusive, limit)) == limit:
            schema.pop(inclusive, None)
            schema[exclusive] = limit


def _drop_infinity(schema: JsonSchema) -> None:
    """An infinite limit is none; elsewhere, as JSON has no such number, it is described."""
    for limit in EXCLUSIVE.values():
        if not is_finite(schema.get(limit)):
            del schema[limit]
    if not is_finite(schema.get("default")):
        describe(schema, say(KEYWORDS["default"], schema.pop("default")))
    if not is_finite(schema.get("examples")):
        describe_examples(schema)


def _close_tuple(schema: JsonSchema) -> None:
    """`items: false` after `prefixItems` -> `maxItems`, which is followed."""
    if schema.get("items") is False:
        del schema["items"]
        length = len(schema.get("prefixItems", []))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    elif schema.get("items") is True:
        schema["items"] = {}


def describe_examples(schema: JsonSchema) -> None:
    """Move `examples` into the description: Gemini ignores the keyword, but not the text."""
    if examples := schema.pop("examples", None):
        listed = ", ".join(map(write, examples))
        describe(schema, KEYWORDS["examples"].wording.format(listed))


def _drop_empty_annotations(schema: JsonSchema) -> None:
    """Drop examples that are not a list, or empty, and `deprecated: false`."""
    if not isinstance(examples := schema.get("examples"), list) or not examples:
        schema.pop("examples", None)
    if schema.get("deprecated") is not True:
        schema.pop("deprecated", None)


def write_out_all_of(schema: JsonSchema) -> None:
    """`allOf` -> one schema that says the same; it stays only where there is none."""
    if not isinstance(parts := schema.pop("allOf", None), list):
        return
    apart = [part for part in parts if "$ref" in part or not _merge_into(schema, part)]
    if len(apart) == 1 and "$ref" in apart[0] and not schema:
        schema.update(apart.pop())
    elif apart and "anyOf" not in schema:
        schema["anyOf"] = [apart.pop(0)]  # one of one: the listed keyword that adds a schema
    if apart:
        schema["allOf"] = apart


def _merge_into(schema: JsonSchema, part: JsonSchema) -> bool:
    merged = merge_schemas(schema, part)
    schema.update(merged or {})
    return merged is not None


def _drop_empty_required(schema: JsonSchema) -> None:
    """An empty list requires nothing, and draft 4 forbids it."""
    if not schema.get("required", True):
        del schema["required"]


RULES: tuple[Callable[[JsonSchema], None], ...] = (
    write_out_all_of,
    _replace_const,
    _split_enum,
    settle_limits,
    _drop_empty_annotations,
    _drop_infinity,
    _close_tuple,
    _drop_empty_required,
    allow_null,
)
"""The rules for one schema, in the order in which they are applied."""


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


def _union(first: list[str], second: list[str]) -> list[str]:
    return [*first, *(name for name in second if name not in first)]


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": max,
    "min": min,
    "or": lambda first, second: first or second,
    "union": _union,
    "types": _common_types,
    "values": _common_values,
    "both": _both,
    "each": _each,
}
"""The values of `Keyword.merge`."""
