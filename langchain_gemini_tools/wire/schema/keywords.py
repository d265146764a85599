"""Every JSON Schema keyword that the package knows, one row each.

To support a keyword, change how it is sent, or drop it, edit its row: reading, cleaning, both
renderings, the prompt for models without function calling and the lint all read this table. A
keyword without a row is removed from schemas.

For `parametersJsonSchema` and `responseJsonSchema` the API reference says: "While the full JSON
Schema may be sent, not all features are supported. Specifically, only the following properties are
supported: $id $defs $ref $anchor type format title description enum (for strings and numbers) items
prefixItems minItems maxItems minimum maximum anyOf oneOf (interpreted the same as anyOf) properties
additionalProperties required", and `propertyOrdering`. Other keywords are accepted all the same:
recorded requests with `pattern`, `minLength`, `uniqueItems`, `default` and the like got a 200.

The rows are in the order in which descriptions mention what cannot be sent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_gemini_tools.facts.json_values import snake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire.shapes import JsonSchema


TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
"""The types of JSON Schema."""


class Keyword(NamedTuple):
    """What the package knows about one keyword."""

    name: str
    kind: Literal["assertion", "applicator", "annotation", "reference", "definitions"]
    """An annotation does not restrict values: of two annotations the outer one is kept."""
    value: Literal[
        "any", "literal", "text", "number", "limit", "count", "flag", "list", "names", "type"
    ] = "any"
    """The values it accepts, for keywords without subschemas. A literal may be null; a limit is a
    number, or the flag of draft 4; names are a list of strings, or the flag of draft 3."""
    nesting: Literal["none", "schema", "list", "map"] = "none"
    """Whether the value is a schema, a list of schemas, or an object of schemas."""
    about: Literal["", "same", "property", "other keys", "item", "key", "content"] = ""
    """What its subschemas describe: the same value again, a named property, properties without a
    name, items of an array, property names, or the content of a string."""
    is_condition: bool = False
    """Whether its subschema is only tested: a looser one would forbid or require more."""
    names: Literal["", "keys", "list", "lists by key", "value", "values"] = ""
    """Where the value mentions property names. In a "value" they are the keys of an object."""
    spellings: tuple[str, ...] = ()
    """Other names that are read as this keyword."""
    merge: Literal["", "max", "min", "union", "both", "each", "types", "values", "or"] = ""
    """How the values of two schemas that both apply become one; "" if they cannot."""
    group: str = ""
    """Keywords of one group only have a meaning together, so that they stay in one schema."""
    json_schema: Literal["followed", "accepted", "rewritten", "worded", "removed"] = "accepted"
    """As JSON Schema: Gemini follows it, accepts it but may ignore it, cleaning replaces it, the
    description states it, or it is not sent."""
    is_checked_by_lint: bool = False
    """Whether `check_tools` warns that Gemini may ignore the keyword."""
    openapi: tuple[str, ...] = ()
    """As OpenAPI: the types of the Schema message that have a field of this name."""
    applies_to_choices: bool = False
    """Whether, beside `anyOf`, the Schema message repeats it in every choice."""
    wording: str = ""
    """The sentence that states it in a description where no field can; `{}` is the value."""
    prompt: str | None = None
    """The phrase that states it in a prompt; `{}` is the value. "" where a prompt describes it in
    another way, None where a prompt shows it as JSON."""


def _number(name: str, merge: Literal["max", "min"], prompt: str) -> Keyword:
    return Keyword(
        name,
        "assertion",
        "number",
        merge=merge,
        json_schema="followed",
        openapi=("INTEGER", "NUMBER"),
        applies_to_choices=True,
        prompt=prompt,
    )


def _exclusive(name: str, merge: Literal["max", "min"], word: str, prompt: str) -> Keyword:
    return Keyword(
        name,
        "assertion",
        "limit",
        merge=merge,
        json_schema="worded",
        wording=f"Must be {word} than {{}}.",
        prompt=prompt,
    )


def _count(name: str, openapi: str, prompt: str, *, is_followed: bool = False) -> Keyword:
    return Keyword(
        name,
        "assertion",
        "count",
        spellings=(snake(name),),
        merge="max" if name.startswith("min") else "min",
        json_schema="followed" if is_followed else "accepted",
        is_checked_by_lint=not is_followed,
        openapi=(openapi,),
        applies_to_choices=True,
        prompt=prompt,
    )


_ROWS = (
    # Any type
    Keyword(
        "type",
        "assertion",
        "type",
        merge="types",
        json_schema="followed",
        applies_to_choices=True,
        prompt="",
    ),
    Keyword(
        "enum",
        "assertion",
        "list",
        names="values",
        merge="values",
        json_schema="followed",
        applies_to_choices=True,
        prompt="",
    ),
    Keyword("const", "assertion", "literal", names="value", json_schema="rewritten", prompt=""),
    Keyword("nullable", "assertion", json_schema="rewritten"),
    # Numbers
    _number("minimum", "max", "at least {}"),
    _exclusive("exclusiveMinimum", "max", "greater", "more than {}"),
    _number("maximum", "min", "at most {}"),
    _exclusive("exclusiveMaximum", "min", "less", "less than {}"),
    Keyword(
        "multipleOf",
        "assertion",
        "number",
        is_checked_by_lint=True,
        wording="Multiple of: {}.",
        prompt="a multiple of {}",
    ),
    # Strings
    _count("minLength", "STRING", "at least {} characters"),
    _count("maxLength", "STRING", "at most {} characters"),
    Keyword(
        "pattern",
        "assertion",
        "text",
        is_checked_by_lint=True,
        openapi=("STRING",),
        applies_to_choices=True,
        prompt="matching {}",
    ),
    Keyword(
        "format",
        "assertion",
        "text",
        json_schema="followed",
        applies_to_choices=True,
        wording="Format: {}.",
        prompt="format {}",
    ),
    Keyword("contentEncoding", "assertion", wording="Encoding: {}."),
    Keyword("contentMediaType", "assertion", wording="Media type: {}."),
    Keyword(
        "contentSchema",
        "applicator",
        nesting="schema",
        about="content",
        wording="Schema of the content: {}.",
    ),
    # Arrays
    _count("minItems", "ARRAY", "at least {} items", is_followed=True),
    _count("maxItems", "ARRAY", "at most {} items", is_followed=True),
    Keyword(
        "uniqueItems",
        "assertion",
        "flag",
        spellings=("unique_items",),
        merge="or",
        is_checked_by_lint=True,
        wording="All items are different.",
        prompt="no item twice",
    ),
    Keyword(
        "items",
        "applicator",
        nesting="schema",
        about="item",
        merge="both",
        json_schema="followed",
        applies_to_choices=True,
        prompt="",
    ),
    Keyword(
        "prefixItems",
        "applicator",
        nesting="list",
        about="item",
        spellings=("prefix_items",),
        json_schema="followed",
        applies_to_choices=True,
        wording="Items in order: {}.",
        prompt="",
    ),
    Keyword(
        "contains",
        "applicator",
        nesting="schema",
        about="item",
        is_condition=True,
        group="contains",
        is_checked_by_lint=True,
        wording="Contains: {}.",
    ),
    Keyword(
        "minContains", "assertion", group="contains", wording="At least this many of them: {}."
    ),
    Keyword("maxContains", "assertion", group="contains", wording="At most this many of them: {}."),
    Keyword(
        "unevaluatedItems",
        "applicator",
        nesting="schema",
        about="item",
        is_checked_by_lint=True,
        wording="Other items: {}.",
    ),
    # Objects
    _count("minProperties", "OBJECT", "at least {} keys"),
    _count("maxProperties", "OBJECT", "at most {} keys"),
    Keyword(
        "properties",
        "applicator",
        nesting="map",
        about="property",
        names="keys",
        merge="each",
        json_schema="followed",
        applies_to_choices=True,
        prompt="",
    ),
    Keyword(
        "required",
        "assertion",
        "names",
        names="list",
        merge="union",
        json_schema="followed",
        applies_to_choices=True,
        prompt="",
    ),
    Keyword(
        "propertyOrdering",
        "assertion",  # about the properties, so that it stays beside them
        names="list",
        spellings=("property_ordering",),
        merge="union",
        json_schema="followed",
        prompt="",
    ),
    Keyword(
        "additionalProperties",
        "applicator",
        nesting="schema",
        about="other keys",
        spellings=("additional_properties",),
        merge="both",
        json_schema="followed",
        wording="Other keys: {}.",
        prompt="",
    ),
    Keyword(
        "unevaluatedProperties",
        "applicator",
        nesting="schema",
        about="other keys",
        is_checked_by_lint=True,
        wording="Other keys: {}.",
    ),
    Keyword(
        "patternProperties",
        "applicator",
        nesting="map",
        about="other keys",
        merge="each",
        is_checked_by_lint=True,
        wording="Keys by pattern: {}.",
    ),
    Keyword(
        "propertyNames",
        "applicator",
        nesting="schema",
        about="key",
        merge="both",
        is_checked_by_lint=True,
        wording="Every key: {}.",
    ),
    Keyword(
        "dependentRequired",
        "assertion",
        names="lists by key",
        is_checked_by_lint=True,
        wording="Keys that need other keys: {}.",
    ),
    Keyword(
        "dependentSchemas",
        "applicator",
        nesting="map",
        about="same",
        names="keys",
        merge="each",
        is_checked_by_lint=True,
        wording="Keys that need more: {}.",
    ),
    # Combinations
    Keyword(
        "anyOf",
        "applicator",
        nesting="list",
        about="same",
        spellings=("any_of",),
        json_schema="followed",
        prompt="",
    ),
    Keyword(
        "oneOf",
        "applicator",
        nesting="list",
        about="same",
        spellings=("one_of",),
        json_schema="followed",
        wording="Also one of: {}.",
        prompt="",
    ),
    Keyword(
        "allOf",
        "applicator",
        nesting="list",
        about="same",
        spellings=("all_of",),
        is_checked_by_lint=True,
        wording="Also all of: {}.",
    ),
    Keyword(
        "not",
        "applicator",
        nesting="schema",
        about="same",
        is_condition=True,
        is_checked_by_lint=True,
        wording="Not: {}.",
    ),
    Keyword(
        "if",
        "applicator",
        nesting="schema",
        about="same",
        is_condition=True,
        group="if",
        is_checked_by_lint=True,
        wording="If: {}.",
    ),
    Keyword("then", "applicator", nesting="schema", about="same", group="if", wording="Then: {}."),
    Keyword("else", "applicator", nesting="schema", about="same", group="if", wording="Else: {}."),
    # Annotations
    Keyword("title", "annotation", "text", json_schema="followed", prompt=""),
    Keyword("description", "annotation", "text", json_schema="followed", prompt=""),
    Keyword("default", "annotation", "literal", names="value", wording="Default: {}.", prompt=""),
    Keyword(
        "examples",
        "annotation",
        names="values",
        json_schema="worded",
        wording="Examples: {}.",
        prompt="",
    ),
    Keyword(
        "deprecated", "annotation", "flag", json_schema="worded", wording="Deprecated.", prompt=""
    ),
    # References. Cleaning writes them out, except for those that lead back to themselves.
    Keyword(
        "$ref",
        "reference",
        "text",
        about="same",
        spellings=("ref", "$dynamicRef", "$recursiveRef"),  # the same inside one document
        json_schema="followed",
        prompt="",
    ),
    Keyword(
        "$defs", "definitions", nesting="map", spellings=("defs",), json_schema="removed", prompt=""
    ),
    Keyword("definitions", "definitions", nesting="map", json_schema="removed", prompt=""),
)

KEYWORDS: dict[str, Keyword] = {row.name: row for row in _ROWS}
"""The rows by name. Keywords without a row (`$schema`, `$comment`, `discriminator`, `readOnly`,
`x-...`) do not restrict values, or no longer do once references are written out (`$id`)."""

_ORDER = {name: position for position, name in enumerate(KEYWORDS)}


def keywords_in(schema: Mapping[str, Any]) -> list[Keyword]:
    """Return the keywords of a schema, in the order of the table."""
    names = sorted(schema.keys() & KEYWORDS.keys(), key=_ORDER.__getitem__)
    return [KEYWORDS[name] for name in names]


def constraints(schema: Mapping[str, Any]) -> JsonSchema:
    """Return what a schema says apart from its annotations."""
    return {
        name: value
        for name, value in schema.items()
        if name not in KEYWORDS or KEYWORDS[name].kind != "annotation"
    }


def say(keyword: Keyword, value: object) -> str:
    """Return the sentence that states a keyword in a description.

    Args:
        keyword: The keyword.
        value: Its value; a sentence without `{}` is for the value true alone.
    """
    if "{}" not in keyword.wording:
        return keyword.wording if value is True else ""
    return keyword.wording.format(write(value))


def write(value: object) -> str:
    """Return a value as a description shows it."""
    return json.dumps(value, ensure_ascii=False)
