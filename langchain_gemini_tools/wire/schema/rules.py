"""What Gemini does not follow, said with what it follows: one function a rule.

For `parametersJsonSchema` and `responseJsonSchema` the reference says: "While the full JSON Schema
may be sent, not all features are supported. Specifically, only the following properties are
supported: $id $defs $ref $anchor type format title description enum (for strings and numbers) items
prefixItems minItems maxItems minimum maximum anyOf oneOf (interpreted the same as anyOf) properties
additionalProperties required", and `propertyOrdering`. "If $ref is set on a sub-schema, no other
properties, except for than those starting as a $, may be set." So a keyword outside the list is
said with keywords inside it where that is possible (`RULES`, one function a rule), and otherwise
sent as it is: recorded requests with `pattern`, `minLength`, `uniqueItems`, `default` and the like
were answered with 200. No rule changes which values fit, so that all of them hold below `not` and
`if`, too. What can only be told in words is kept here, and told when it is sent: see `words`.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.merging import ANNOTATIONS, merge_schemas
from langchain_gemini_tools.wire.schema.reading import is_finite

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

# Everything else is no keyword of JSON Schema, or says nothing about a value: `$schema`,
# `$comment`, `$id` and `$anchor` (references are written out), `discriminator` (every branch says
# its own value), `readOnly`, `x-...`, and the definitions that nothing refers to.
KEPT = frozenset(
    {
        "$ref", "additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding",
        "contentMediaType", "contentSchema", "default", "dependentRequired", "dependentSchemas",
        "deprecated", "description", "else", "enum", "examples", "exclusiveMaximum",
        "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength",
        "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties",
        "minimum", "multipleOf", "not", "nullable", "oneOf", "pattern", "patternProperties",
        "prefixItems", "properties", "propertyNames", "propertyOrdering", "required", "then",
        "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip


def tell(schema: Schema, sentence: str) -> None:
    """Say in words what no keyword says."""
    description = schema.get("description", "")
    if sentence and sentence not in description:
        schema["description"] = f"{description} {sentence}".lstrip()


def written(value: Any) -> str:
    """A value as a description shows it."""
    return json.dumps(value, ensure_ascii=False)


def _replace_const(schema: Schema) -> None:
    """`const` -> an `enum` of one value: only `enum` is followed."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]


_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def type_of(value: Any) -> str:
    """JSON Schema's name for the type of a value."""
    return "null" if value is None else _TYPE_NAMES.get(type(value), "array")


def _fits_type(value: Any, names: list[str]) -> bool:
    name = type_of(value)
    whole = name == "integer" or (name == "number" and value == int(value))
    return not names or name in names or (whole and bool({"integer", "number"} & set(names)))


def _split_enum(schema: Schema) -> None:
    """`enum` holds strings and numbers, and has a type; every other value has a schema of its own.

    Null is a type then, and so are both booleans.
    """
    if not isinstance(values := schema.get("enum"), list):
        return
    if not is_finite(values):
        raise InvalidToolError(f"The schema allows {values!r}; JSON has no form for some of them.")
    names = _types(schema)
    if _is_numeric(schema):
        values = _as_numbers(values)
    possible = [value for value in values if _fits_type(value, names)]
    if schema.pop("nullable", False) and None not in possible:
        possible.append(None)
    if not possible:
        return  # nothing fits: the user's contradiction stays as it is
    del schema["enum"]
    schema.pop("type", None)
    branches = _enum_branches(possible, names)
    if len(branches) == 1:
        schema.update(branches[0])
    elif "anyOf" in schema:
        schema["allOf"] = [*schema.get("allOf", []), {"anyOf": branches}]
    else:
        schema["anyOf"] = branches


def _enum_branches(values: list[Any], names: list[str]) -> list[Schema]:
    branches: list[Schema] = []
    listed = [value for value in values if type_of(value) in {"string", "integer", "number"}]
    if listed:
        branch: Schema = {}
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
    # Gemini's Schema message has strings only: `{"type": "INTEGER", "enum": ["1", "2"]}`.
    try:
        return [json.loads(value) if isinstance(value, str) else value for value in values]
    except (ValueError, RecursionError):
        return values


def _types(schema: Schema) -> list[str]:
    names = schema.get("type", [])
    return [names] if isinstance(names, str) else list(names)


def _set_types(schema: Schema, names: list[str]) -> None:
    schema.pop("type", None)
    if names:
        schema["type"] = names[0] if len(names) == 1 else names


def _is_numeric(schema: Schema) -> bool:
    return bool(_types(schema)) and set(_types(schema)) <= {"integer", "number"}


def allow_null(schema: Schema) -> None:
    """`nullable` -> null as one of the types: the keyword is OpenAPI's, not JSON Schema's."""
    if not schema.pop("nullable", False) or "null" in _types(schema):
        return
    constraints = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if not constraints:
        return  # everything is allowed, null too
    if _types(schema) and not constraints.keys() & {"enum", "anyOf", "oneOf", "allOf", "not", "if"}:
        _set_types(schema, [*_types(schema), "null"])
        return
    for keyword in constraints:
        del schema[keyword]
    alone = constraints.keys() == {"anyOf"}
    branches = constraints["anyOf"] if alone else [constraints]
    null = [] if any("null" in _types(branch) for branch in branches) else [{"type": "null"}]
    schema["anyOf"] = [*branches, *null]


def settle_limits(schema: Schema) -> None:
    """One lower and one upper limit, the tighter; `exclusiveMinimum` of integers is a `minimum`."""
    for exclusive, inclusive, step, tighter in (
        ("exclusiveMinimum", "minimum", 1, max),
        ("exclusiveMaximum", "maximum", -1, min),
    ):
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


def _drop_infinity(schema: Schema) -> None:
    """Infinity is no limit, and elsewhere it can only be told: JSON has no such number."""
    for keyword in ("minimum", "maximum"):
        if not is_finite(schema.get(keyword)):
            del schema[keyword]
    if not is_finite(schema.get("default")):
        tell(schema, f"Default: {written(schema.pop('default'))}.")
    if not is_finite(schema.get("examples")):
        tell_examples(schema)


def _close_tuple(schema: Schema) -> None:
    """`items: false` after `prefixItems` -> `maxItems`, which is followed."""
    if schema.get("items") is False:
        del schema["items"]
        length = len(schema.get("prefixItems", []))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    elif schema.get("items") is True:
        schema["items"] = {}


def tell_examples(schema: Schema) -> None:
    """`examples` are not read, but a model learns from them."""
    if examples := schema.pop("examples", None):
        tell(schema, f"Examples: {', '.join(map(written, examples))}.")


def _drop_empty_words(schema: Schema) -> None:
    """Examples that are no list, or none, and `deprecated: false` say nothing."""
    if not isinstance(examples := schema.get("examples"), list) or not examples:
        schema.pop("examples", None)
    if schema.get("deprecated") is not True:
        schema.pop("deprecated", None)


def write_out_all_of(schema: Schema) -> None:
    """`allOf` -> one schema that says the same; it stays only where there is none."""
    if not isinstance(parts := schema.pop("allOf", None), list):
        return
    apart = [part for part in parts if "$ref" in part or not _merge_into(schema, part)]
    if len(apart) == 1 and "$ref" in apart[0] and not schema:
        schema.update(apart.pop())
    elif apart and "anyOf" not in schema:
        schema["anyOf"] = [apart.pop(0)]  # one of one: the listed keyword that says "this too"
    if apart:
        schema["allOf"] = apart


def _merge_into(schema: Schema, part: Schema) -> bool:
    merged = merge_schemas(schema, part)
    schema.update(merged or {})
    return merged is not None


def _drop_empty_required(schema: Schema) -> None:
    """No names are required by an empty list, which draft 4 forbids. Names stay as given."""
    if not isinstance(schema.get("required", ""), list) or not schema["required"]:
        schema.pop("required", None)


RULES: tuple[Callable[[Schema], None], ...] = (
    write_out_all_of,
    _replace_const,
    _split_enum,
    settle_limits,
    _drop_empty_words,
    _drop_infinity,
    _close_tuple,
    _drop_empty_required,
    allow_null,
)
