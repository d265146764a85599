"""Two schemas that must both hold, written as one.

`allOf` is not among the keywords that Gemini follows, and nothing may stand beside a `$ref`. Both
are written out where one schema can say the same; where none can, the caller keeps them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

ANNOTATIONS = frozenset({"default", "deprecated", "description", "examples", "title"})

# Keywords that only mean something together with their neighbours.
_FAMILIES = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
)


def merge_schemas(first: Schema, second: Schema) -> Schema | None:
    """One schema for what satisfies both, in `first`'s words; None where none says the same."""
    if not first or not second or first == second:
        return dict(first or second)
    if _needs_to_stay_apart(first, second):
        return None
    merged = dict(first)
    for keyword, value in second.items():
        if keyword not in merged:
            merged[keyword] = value
        elif keyword not in ANNOTATIONS and merged[keyword] != value:
            combine = _COMBINE.get(keyword)
            combined = combine(merged[keyword], value) if combine else None
            if combined is None:
                return None
            merged[keyword] = combined
    return merged


def _needs_to_stay_apart(first: Schema, second: Schema) -> bool:
    return (
        "$ref" in first
        or "$ref" in second
        or any(family & first.keys() and family & second.keys() for family in _FAMILIES)
        or _tuples_meet(first, second)
        or _closes_on(first, second)
        or _closes_on(second, first)
    )


def _tuples_meet(first: Schema, second: Schema) -> bool:
    arrays = {"items", "prefixItems", "unevaluatedItems"}
    meet = arrays & first.keys() and arrays & second.keys()
    return bool(meet) and bool({"prefixItems", "unevaluatedItems"} & (first.keys() | second.keys()))


def _closes_on(closed: Schema, other: Schema) -> bool:
    """Whether `closed` judges properties that it does not name and `other` does."""
    if "unevaluatedProperties" in closed:
        return True
    if closed.get("additionalProperties", True) in (True, {}):
        return False
    if "patternProperties" in closed or "patternProperties" in other:
        return True
    return not other.get("properties", {}).keys() <= closed.get("properties", {}).keys()


def both(first: Any, second: Any) -> Schema:
    """One schema for what satisfies both, with `allOf` where nothing shorter says the same."""
    schemas = [{} if schema is True else schema for schema in (first, second)]
    if False in schemas:
        return {"not": {}}
    merged = merge_schemas(*schemas)
    return {"allOf": schemas} if merged is None else merged


def _both_everywhere(first: Schema, second: Schema) -> Schema:
    merged = dict(first)
    for name, schema in second.items():
        merged[name] = both(merged[name], schema) if name in merged else schema
    return merged


def _common_types(first: Any, second: Any) -> Any:
    left, right = ([item] if isinstance(item, str) else item for item in (first, second))
    common = [name for name in left if name in right or (name == "integer" and "number" in right)]
    if "number" in left and "integer" in right and "integer" not in common:
        common.append("integer")
    return common[0] if len(common) == 1 else common or None


def _common_values(first: list[Any], second: list[Any]) -> list[Any] | None:
    return [item for item in first if any(same_json(item, other) for other in second)] or None


def same_json(first: Any, second: Any) -> bool:
    """Equality as JSON has it: 1 is 1.0, but never true."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _union(first: list[str], second: list[str]) -> list[str]:
    return [*first, *(name for name in second if name not in first)]


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "type": _common_types,
    "enum": _common_values,
    "required": _union,
    "propertyOrdering": _union,
    "properties": _both_everywhere,
    "patternProperties": _both_everywhere,
    "dependentSchemas": _both_everywhere,
    "additionalProperties": both,
    "items": both,
    "propertyNames": both,
    "uniqueItems": lambda first, second: first or second,
    "exclusiveMinimum": max,
    "minimum": max,
    "minItems": max,
    "minLength": max,
    "minProperties": max,
    "exclusiveMaximum": min,
    "maximum": min,
    "maxItems": min,
    "maxLength": min,
    "maxProperties": min,
}
