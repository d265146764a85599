"""What Gemini does not follow, said with what it follows: one function a rule.

For `parametersJsonSchema` and `responseJsonSchema` the reference says: "While the full JSON Schema
may be sent, not all features are supported. Specifically, only the following properties are
supported: $id $defs $ref $anchor type format title description enum (for strings and numbers) items
prefixItems minItems maxItems minimum maximum anyOf oneOf (interpreted the same as anyOf) properties
additionalProperties required", and `propertyOrdering`. "If $ref is set on a sub-schema, no other
properties, except for than those starting as a $, may be set." So a keyword outside the list is
said with keywords inside it where that is possible (`RULES`, one function a rule), told in the
description where it is an exclusive limit or an example, and otherwise sent as it is: recorded
requests with `pattern`, `minLength`, `uniqueItems`, `default` and the like were answered with 200.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema_merging import ANNOTATIONS, merge_schemas
from langchain_gemini_tools.wire.schema_reading import is_finite

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


def _tell(schema: Schema, sentence: str) -> None:
    """Say in words what no keyword says."""
    description = schema.get("description", "")
    if sentence not in description:
        schema["description"] = f"{description} {sentence}".lstrip()


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _replace_const(schema: Schema) -> None:
    """`const` -> an `enum` of one value: only `enum` is followed."""
    if "const" in schema:
        value = schema.pop("const")
        if value is None:
            schema["type"] = "null"
        else:
            schema["enum"] = [value]


_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object"}


def _split_enum(schema: Schema) -> None:
    """`enum` holds strings and numbers and has a type; null stands beside it, as a type."""
    if not isinstance(values := schema.get("enum"), list):
        return
    if not is_finite(values):
        raise InvalidToolError(f"The schema allows {values!r}; JSON has no form for some of them.")
    if None in values:
        null_is_allowed = "null" in _types(schema) or not _types(schema)
        _set_types(schema, [name for name in _types(schema) if name != "null"])
        values = [value for value in values if value is not None]
        schema["nullable"] = null_is_allowed
    if not values:
        del schema["enum"]
        schema["type"] = "null"
        return
    schema["enum"] = _as_numbers(values) if _is_numeric(schema) else values
    if not _types(schema):
        _set_types(schema, sorted({_TYPE_NAMES.get(type(value), "array") for value in values}))


def _as_numbers(values: list[Any]) -> list[Any]:
    # Gemini's Schema message has strings only: `{"type": "INTEGER", "enum": ["1", "2"]}`.
    try:
        return [json.loads(value) if isinstance(value, str) else value for value in values]
    except ValueError:
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


def _include_limits(schema: Schema) -> None:
    """`exclusiveMinimum` -> the next integer as `minimum`, or the same number and a word about it.

    Peers drop exclusive limits, as they are not followed; that loses the limit altogether.
    """
    for exclusive, inclusive, step, word, tighter in (
        ("exclusiveMinimum", "minimum", 1, "greater", max),
        ("exclusiveMaximum", "maximum", -1, "less", min),
    ):
        limit = schema.pop(exclusive, None)
        if limit is True:  # draft 4: a flag beside the limit
            limit = schema.pop(inclusive, None)
        if limit is None or limit is False or not is_finite(limit):
            continue
        if set(_types(schema)) - {"null"} == {"integer"}:
            limit = (math.floor(limit) if step > 0 else math.ceil(limit)) + step
        elif tighter(limit, schema.get(inclusive, limit)) == limit:
            _tell(schema, f"Must be {word} than {_written(limit)}.")
        schema[inclusive] = tighter(limit, schema.get(inclusive, limit))


def _drop_infinity(schema: Schema) -> None:
    """Infinity is no limit, and as a default it can only be told: JSON has no such number."""
    for keyword in ("minimum", "maximum"):
        if not is_finite(schema.get(keyword)):
            del schema[keyword]
    if not is_finite(schema.get("default")):
        _tell(schema, f"Default: {_written(schema.pop('default'))}.")


def _close_tuple(schema: Schema) -> None:
    """`items: false` after `prefixItems` -> `maxItems`, which is followed."""
    if schema.get("items") is False:
        del schema["items"]
        length = len(schema.get("prefixItems", []))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    elif schema.get("items") is True:
        schema["items"] = {}


def _tell_examples(schema: Schema) -> None:
    """`examples` and `deprecated` are not read, but a model learns from them."""
    if isinstance(examples := schema.pop("examples", None), list) and examples:
        _tell(schema, f"Examples: {', '.join(map(_written, examples))}.")
    if schema.pop("deprecated", False) is True:
        _tell(schema, "Deprecated.")


def write_out_all_of(schema: Schema) -> None:
    """`allOf` -> one schema that says the same; it stays only where there is none."""
    if not isinstance(parts := schema.pop("allOf", None), list):
        return
    apart = []
    for part in parts:
        merged = merge_schemas(schema, part)
        if merged is not None:
            schema.update(merged)
        elif "anyOf" not in schema and "$ref" not in schema:
            schema["anyOf"] = [part]  # one of one: the listed keyword that says "this too"
        else:
            apart.append(part)
    if apart:
        schema["allOf"] = apart


def _drop_empty_required(schema: Schema) -> None:
    """No names are required by an empty list, which draft 4 forbids. Names stay as given."""
    if not isinstance(schema.get("required", ""), list) or not schema["required"]:
        schema.pop("required", None)


RULES: tuple[Callable[[Schema], None], ...] = (
    write_out_all_of,
    _replace_const,
    _split_enum,
    _include_limits,
    _drop_infinity,
    _close_tuple,
    _tell_examples,
    _drop_empty_required,
    allow_null,
)
