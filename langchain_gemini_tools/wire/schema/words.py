"""What no keyword that Gemini follows can say, told in the description as a schema is sent.

These are exclusive limits, `true` or an object as the only value, and examples. Peers drop
exclusive limits; that loses them altogether. What is left in keywords then fits more values than
the user meant, so this is for the wire alone: arguments are checked by the schema as it was before.
"""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_gemini_tools.wire.schema.references import (
    LIST_OF_SCHEMAS,
    MAP_OF_SCHEMAS,
    ONE_SCHEMA,
)
from langchain_gemini_tools.wire.schema.rules import (
    settle_limits,
    tell,
    tell_examples,
    type_of,
    written,
)

Schema = dict[str, Any]

_UNTOLD = re.compile(r'"(?:exclusiveM|examples"|deprecated"|enum": \[[^"\d-])')
"""In a schema's JSON, where something may have to be told."""

_CONDITIONS = frozenset({"contains", "if", "not"})
"""Where a schema that fits more values would forbid more, or demand more. Gemini follows none of
them, so what stands there need not be in keywords that it follows. `oneOf` is no such place: Gemini
reads it as `anyOf`."""


def tell_in_words(schema: Schema) -> Schema:
    """A cleaned schema as it is sent: in keywords that Gemini follows, and in words.

    It is a copy where there is something to tell, which a look at the text says sooner than a walk.
    """
    if not _UNTOLD.search(json.dumps(schema)):
        return schema
    told: Schema = _tell_all(schema, is_condition=False)
    return told


def _tell_all(schema: Any, *, is_condition: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    told: Schema = {}
    for keyword, value in schema.items():
        below = is_condition or keyword in _CONDITIONS
        if keyword in ONE_SCHEMA:
            told[keyword] = _tell_all(value, is_condition=below)
        elif keyword in LIST_OF_SCHEMAS:
            told[keyword] = [_tell_all(item, is_condition=below) for item in value]
        elif keyword in MAP_OF_SCHEMAS:
            told[keyword] = {k: _tell_all(item, is_condition=below) for k, item in value.items()}
        else:
            told[keyword] = value
    _tell_value(told, is_condition=is_condition)
    if not is_condition:
        _tell_limits(told)
    tell_examples(told)
    if told.pop("deprecated", False):
        tell(told, "Deprecated.")
    return told


def _tell_value(schema: Schema, *, is_condition: bool) -> None:
    """An `enum` of one boolean, object or array: Gemini takes strings and numbers only."""
    match schema.get("enum"):
        case [bool() | dict() | list() as value] if schema.get("type") == type_of(value):
            del schema["enum"]
            if is_condition:
                schema["const"] = value
            else:
                tell(schema, f"Must be {written(value)}.")


def _tell_limits(schema: Schema) -> None:
    """An exclusive limit: the same number as `minimum` or `maximum`, and a word about it."""
    settle_limits(schema)
    for exclusive, inclusive, word in (
        ("exclusiveMinimum", "minimum", "greater"),
        ("exclusiveMaximum", "maximum", "less"),
    ):
        if exclusive in schema:
            schema[inclusive] = schema.pop(exclusive)
            tell(schema, f"Must be {word} than {written(schema[inclusive])}.")
