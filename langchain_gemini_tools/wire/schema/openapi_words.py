"""What the Schema message has no field for, in words for the description."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Schema = dict[str, Any]

_NAMES = {
    "format": "Format",
    "multipleOf": "Multiple of",
    "contentEncoding": "Encoding",
    "contentMediaType": "Media type",
    "contentSchema": "Schema of the content",
    "prefixItems": "Items in order",
    "contains": "Contains",
    "minContains": "At least so many of them",
    "maxContains": "At most so many of them",
    "unevaluatedItems": "Other items",
    "additionalProperties": "Other keys",
    "unevaluatedProperties": "Other keys",
    "patternProperties": "Keys by pattern",
    "propertyNames": "Every key",
    "dependentRequired": "Keys that need other keys",
    "dependentSchemas": "Keys that need more",
    "oneOf": "Also one of",
    "allOf": "Also all of",
    "not": "Not",
    "if": "If",
    "then": "Then",
    "else": "Else",
}
"""Keywords that become words, and the words."""

_OPEN = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties"})
"""Where an empty schema says nothing."""


def tell_the_rest(schema: Schema, branches: Sequence[Schema]) -> str:
    """The description: the schema's own, its first branch's, then what no field says."""
    own, first = schema.get("description"), branches[0].get("description")
    told = [own, None if first == own else first, *_sentences(schema, branches)]
    return " ".join(text for text in told if text)


def _sentences(schema: Schema, branches: Sequence[Schema]) -> Iterator[str]:
    values = schema.get("enum")
    if values and all(branch.get("enum") != values for branch in branches):
        yield f"One of: {', '.join(map(_written, values))}."
    if schema.get("uniqueItems") is True:
        yield "All items are different."
    for key, words in _NAMES.items():
        if key in schema and not _is_said(key, schema, branches):
            no_others = schema[key] is False and words.startswith("Other")
            yield f"No {words.lower()}." if no_others else f"{words}: {_written(schema[key])}."
    if required := [name for name in schema.get("required", ()) if not _has(name, branches)]:
        yield f"Required keys: {', '.join(required)}."
    if schema.get("default") is not None and "default" not in branches[0]:
        yield f"Default: {_written(schema['default'])}."


def _is_said(key: str, schema: Schema, branches: Sequence[Schema]) -> bool:
    """Whether a field says it, or there is nothing to say."""
    if key == "oneOf":
        return "anyOf" not in schema
    if key == "additionalProperties" and not schema.get("properties"):
        return "anyOf" not in schema  # the key that stands for any key says it
    if schema[key] is True or (schema[key] == {} and key in _OPEN):
        return True
    return any(branch.get(key) == schema[key] for branch in branches)


def _has(name: str, branches: Sequence[Schema]) -> bool:
    return any(name in branch.get("required", ()) for branch in branches)


def _written(value: Any) -> str:
    # References stay only where something holds itself, and is known by its name.
    return json.dumps(value, ensure_ascii=False).replace('"#/$defs/', '"')
