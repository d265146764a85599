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


PlainValue = Literal[
    "any", "literal", "text", "number", "limit", "count", "flag", "list", "names", "type"
]
SchemaValue = Literal["schema", "schemas", "schema map"]


class Keyword(NamedTuple):
    """What the package knows about one keyword."""

    name: str
    value: Literal[PlainValue, SchemaValue] = "any"
    """The values it accepts. A literal may be null; a limit is a number, or the flag of draft 4;
    names are a list of strings, or the flag of draft 3; schemas are a list of schemas."""
    about: Literal["", "same", "property", "other keys", "item", "key", "content"] = ""
    """What its subschemas describe: the same value again, a named property, properties without a
    name, items of an array, property names, or the content of a string."""
    kind: Literal["constraint", "annotation", "reference", "definitions"] = "constraint"
    """An annotation does not restrict values: of two annotations the outer one is kept. Definitions
    are not sent, because references to them are written out."""
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
    sent: Literal["followed", "accepted", "unreliable", "rewritten", "worded"] = "followed"
    """As JSON Schema: Gemini follows it, accepts it, accepts it but may ignore it (`check_tools`
    warns), cleaning replaces it, or the description states it."""
    openapi: tuple[str, ...] | Literal["", "rendered", "partly"] = ""
    """As OpenAPI: the types of the Schema message that have a field of this name; or whether
    `render_openapi_schema` renders it in its own way, wholly or partly."""
    wording: str = ""
    """The sentence that states it in a description where no field can; `{}` is the value."""
    prompt: str | None = None
    """The phrase that states it in a prompt; `{}` is the value. "" where a prompt describes it in
    another way, None where a prompt shows it as JSON."""

    @property
    def has_schemas(self) -> bool:
        """Whether its value is or contains schemas."""
        return self.value.startswith("schema")


def _limit(name: str, merge: Literal["max", "min"], prompt: str) -> Keyword:
    openapi = ("INTEGER", "NUMBER")
    return Keyword(name, "number", merge=merge, openapi=openapi, prompt=prompt)


def _exclusive(name: str, merge: Literal["max", "min"], word: str, prompt: str) -> Keyword:
    wording = f"Must be {word} than {{}}."
    return Keyword(name, "limit", merge=merge, sent="worded", wording=wording, prompt=prompt)


def _count(
    name: str, openapi: str, prompt: str, sent: Literal["followed", "unreliable"] = "unreliable"
) -> Keyword:
    return Keyword(
        name,
        "count",
        spellings=(snake(name),),
        merge="max" if name.startswith("min") else "min",
        sent=sent,
        openapi=(openapi,),
        prompt=prompt,
    )


def _unreliable(
    name: str,
    value: SchemaValue,
    about: Literal["same", "other keys", "item", "key"],
    wording: str,
    **others: Any,
) -> Keyword:
    return Keyword(name, value, about, sent="unreliable", wording=wording, **others)


_ROWS = (
    # Any type
    Keyword("type", "type", merge="types", openapi="rendered", prompt=""),
    Keyword("enum", "list", names="values", merge="values", openapi="rendered", prompt=""),
    Keyword("const", "literal", names="value", sent="rewritten", prompt=""),
    Keyword("nullable", sent="rewritten"),
    # Numbers
    _limit("minimum", "max", "at least {}"),
    _exclusive("exclusiveMinimum", "max", "greater", "more than {}"),
    _limit("maximum", "min", "at most {}"),
    _exclusive("exclusiveMaximum", "min", "less", "less than {}"),
    Keyword(
        "multipleOf",
        "number",
        sent="unreliable",
        wording="Multiple of: {}.",
        prompt="a multiple of {}",
    ),
    # Strings
    _count("minLength", "STRING", "at least {} characters"),
    _count("maxLength", "STRING", "at most {} characters"),
    Keyword("pattern", "text", sent="unreliable", openapi=("STRING",), prompt="matching {}"),
    Keyword("format", "text", openapi="rendered", wording="Format: {}.", prompt="format {}"),
    Keyword("contentEncoding", sent="accepted", wording="Encoding: {}."),
    Keyword("contentMediaType", sent="accepted", wording="Media type: {}."),
    Keyword(
        "contentSchema", "schema", "content", sent="accepted", wording="Schema of the content: {}."
    ),
    # Arrays
    _count("minItems", "ARRAY", "at least {} items", "followed"),
    _count("maxItems", "ARRAY", "at most {} items", "followed"),
    Keyword(
        "uniqueItems",
        "flag",
        spellings=("unique_items",),
        merge="or",
        sent="unreliable",
        wording="All items are different.",
        prompt="no item twice",
    ),
    Keyword("items", "schema", "item", merge="both", openapi="rendered", prompt=""),
    Keyword(
        "prefixItems",
        "schemas",
        "item",
        spellings=("prefix_items",),
        openapi="partly",
        wording="Items in order: {}.",
        prompt="",
    ),
    _unreliable("contains", "schema", "item", "Contains: {}.", is_condition=True, group="contains"),
    Keyword(
        "minContains", group="contains", sent="accepted", wording="At least this many of them: {}."
    ),
    Keyword(
        "maxContains", group="contains", sent="accepted", wording="At most this many of them: {}."
    ),
    _unreliable("unevaluatedItems", "schema", "item", "Other items: {}."),
    # Objects
    _count("minProperties", "OBJECT", "at least {} keys"),
    _count("maxProperties", "OBJECT", "at most {} keys"),
    Keyword(
        "properties",
        "schema map",
        "property",
        names="keys",
        merge="each",
        openapi="rendered",
        prompt="",
    ),
    Keyword("required", "names", names="list", merge="union", openapi="rendered", prompt=""),
    Keyword(
        "propertyOrdering", names="list", spellings=("property_ordering",), merge="union", prompt=""
    ),
    Keyword(
        "additionalProperties",
        "schema",
        "other keys",
        spellings=("additional_properties",),
        merge="both",
        wording="Other keys: {}.",
        prompt="",
    ),
    _unreliable("unevaluatedProperties", "schema", "other keys", "Other keys: {}."),
    _unreliable(
        "patternProperties", "schema map", "other keys", "Keys by pattern: {}.", merge="each"
    ),
    _unreliable("propertyNames", "schema", "key", "Every key: {}.", merge="both"),
    Keyword(
        "dependentRequired",
        names="lists by key",
        sent="unreliable",
        wording="Keys that need other keys: {}.",
    ),
    _unreliable(
        "dependentSchemas",
        "schema map",
        "same",
        "Keys that need more: {}.",
        names="keys",
        merge="each",
    ),
    # Combinations
    Keyword("anyOf", "schemas", "same", spellings=("any_of",), openapi="rendered", prompt=""),
    Keyword(
        "oneOf",
        "schemas",
        "same",
        spellings=("one_of",),
        openapi="rendered",
        wording="Also one of: {}.",
        prompt="",
    ),
    _unreliable("allOf", "schemas", "same", "Also all of: {}.", spellings=("all_of",)),
    _unreliable("not", "schema", "same", "Not: {}.", is_condition=True),
    _unreliable("if", "schema", "same", "If: {}.", is_condition=True, group="if"),
    Keyword("then", "schema", "same", group="if", sent="accepted", wording="Then: {}."),
    Keyword("else", "schema", "same", group="if", sent="accepted", wording="Else: {}."),
    # Annotations
    Keyword("title", "text", kind="annotation", prompt=""),
    Keyword("description", "text", kind="annotation", prompt=""),
    Keyword(
        "default",
        "literal",
        kind="annotation",
        names="value",
        sent="accepted",
        wording="Default: {}.",
        prompt="",
    ),
    Keyword(
        "examples",
        kind="annotation",
        names="values",
        sent="worded",
        wording="Examples: {}.",
        prompt="",
    ),
    Keyword(
        "deprecated", "flag", kind="annotation", sent="worded", wording="Deprecated.", prompt=""
    ),
    # References. Cleaning writes them out, except for those that lead back to themselves.
    Keyword(
        "$ref",
        "text",
        "same",
        kind="reference",
        spellings=("ref", "$dynamicRef", "$recursiveRef"),  # the same inside one document
        openapi="rendered",
        prompt="",
    ),
    Keyword("$defs", "schema map", kind="definitions", spellings=("defs",), prompt=""),
    Keyword("definitions", "schema map", kind="definitions", prompt=""),
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


def say(keyword: Keyword, value: Any) -> str:
    """Return the sentence that states a keyword in a description.

    Args:
        keyword: The keyword.
        value: Its value; a sentence without `{}` is for the value true alone.
    """
    if "{}" not in keyword.wording:
        return keyword.wording if value is True else ""
    values = value if keyword.names == "values" else [value]
    return keyword.wording.format(", ".join(map(write, values)))


def describe(schema: JsonSchema, sentence: str) -> None:
    """Add a sentence to the description of a schema, unless it is there already."""
    description = schema.get("description", "")
    if sentence and sentence not in description:
        schema["description"] = f"{description} {sentence}".lstrip()


def write(value: object) -> str:
    """Return a value as a description shows it."""
    return json.dumps(value, ensure_ascii=False)
