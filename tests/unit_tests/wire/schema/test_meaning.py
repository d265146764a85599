"""The same values fit the schema that was given and the one that is kept; all fit what is sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.render import describe_the_rest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_gemini_tools.wire.shapes import JsonSchema

Test = TypeVar("Test", bound=Callable[..., Any])

# Names that are keywords too: a property may have any of them.
NAMES = ["title", "type", "items", "properties", "required", "enum", "a", "page_size"]
WORDS = st.sampled_from(["Title", "Page Size", "A", "something else"])
TEXTS = st.sampled_from(["", "a", "b", "ab", "abc", "a1", "2024-01-01"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([-1.5, 0.0, 0.5, 2.0])


def annotated(schemas: st.SearchStrategy[JsonSchema]) -> st.SearchStrategy[JsonSchema]:
    words = st.fixed_dictionaries(
        {},
        optional={
            "title": WORDS,
            "description": WORDS,
            "default": st.none() | TEXTS,
            "examples": st.lists(TEXTS, max_size=2),
            "$comment": WORDS,
            "readOnly": st.booleans(),
        },
    )
    return st.builds(lambda schema, said: {**schema, **said}, schemas, words)


def some(fixed: JsonSchema, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonSchema]:
    constants = {key: st.just(value) for key, value in fixed.items()}
    return st.fixed_dictionaries(constants, optional=optional)


SCALARS = st.one_of(
    some(
        {"type": "string"},
        minLength=st.integers(0, 2),
        maxLength=st.integers(1, 3),
        pattern=st.sampled_from(["^a", "[0-9]"]),
        format=st.sampled_from(["date", "uri"]),
        enum=st.lists(TEXTS, min_size=1, max_size=3, unique=True),
    ),
    some(
        {"type": "integer"},
        minimum=st.integers(-3, 3),
        maximum=st.integers(-3, 3),
        exclusiveMinimum=NUMBERS,
        exclusiveMaximum=NUMBERS,
        multipleOf=st.integers(1, 3),
    ),
    some(
        {"type": "number"},
        minimum=NUMBERS,
        maximum=NUMBERS,
        exclusiveMinimum=NUMBERS,
        exclusiveMaximum=NUMBERS,
    ),
    some({"type": "boolean"}),
    some({"type": "null"}),
    some({}, const=st.none() | st.booleans() | TEXTS | NUMBERS),
    some({}, enum=st.just([{"a": 1}, [1], True, "a"])),
    some({}, enum=st.just([True, "a", False, None, 2])),
    some({}, enum=st.lists(st.none() | TEXTS | NUMBERS, min_size=1, max_size=4, unique_by=repr)),
    some({"type": ["string", "null"]}, enum=st.just(["a", None]), maxLength=st.integers(0, 3)),
    some({"type": ["integer", "string"]}, minimum=NUMBERS),
    st.just({}),
)
REFERENCES = st.sampled_from(["#/$defs/leaf", "#/$defs/pair", "#/$defs/tree", "#/$defs/whole"]).map(
    lambda reference: {"$ref": reference}
)


def compound(inner: st.SearchStrategy[JsonSchema]) -> st.SearchStrategy[JsonSchema]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        some(
            {"type": "object"},
            properties=st.dictionaries(st.sampled_from(NAMES), inner | st.booleans(), max_size=3),
            required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
            additionalProperties=st.booleans() | inner,
            minProperties=st.integers(0, 2),
        ),
        some(
            {"type": "array"},
            items=inner | st.booleans(),
            minItems=st.integers(0, 2),
            maxItems=st.integers(0, 3),
            uniqueItems=st.booleans(),
        ),
        some(
            {"type": "array"},
            prefixItems=branches,
            items=inner | st.just(False),
        ),
        some({}, anyOf=branches),
        some({}, oneOf=branches),
        some({}, allOf=branches),
        some({"type": "object"}, allOf=branches, required=st.just(["a"])),
        some({"type": "array"}, contains=inner, maxContains=st.integers(0, 1)),
        some({}, **{"not": inner}),
        some({}, **{"if": inner, "then": inner, "else": inner}),
        some({"type": "object"}, patternProperties=st.dictionaries(st.just("^t"), inner)),
    )


SCHEMAS = st.recursive(annotated(SCALARS | REFERENCES), compound, max_leaves=8).flatmap(
    lambda schema: annotated(st.just(schema))
)
DEFINITIONS = {
    "leaf": {"title": "leaf", "type": "string", "maxLength": 2, "description": "A leaf."},
    "pair": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/leaf", "description": "Left."}},
        "additionalProperties": False,
    },
    "tree": {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["items"],
    },
    "whole": {"type": "object", "properties": {"a": {"$ref": "#"}}},
    "unused": {"type": "integer"},
}
DOCUMENTS = SCHEMAS.map(lambda schema: {**schema, "$defs": DEFINITIONS})
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


LEAF: JsonSchema = {"$ref": "#/$defs/leaf"}
EVERY_KIND: tuple[JsonSchema, ...] = (
    {"type": "string", "minLength": 1, "maxLength": 2, "title": "Title", "description": "A"},
    {"type": "string", "pattern": "^a", "default": "a", "examples": ["a", "b"]},
    {"type": "string", "format": "date", "$comment": "A", "readOnly": True},
    {"type": "string", "enum": ["a", "abc"], "default": None},
    {"type": "integer", "minimum": 0, "maximum": 2, "multipleOf": 2},
    {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2},
    {"type": "number", "minimum": -1.5, "exclusiveMaximum": 0.5},
    {"type": "number", "exclusiveMinimum": -1.5, "minimum": 0.5, "maximum": 2.0},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"], "enum": ["a", None], "maxLength": 0},
    {"type": ["integer", "string"], "minimum": 1},
    {"const": None},
    {"const": True},
    {"const": 2.0, "description": "A"},
    {"const": {"a": 1}},
    {"enum": [{"a": 1}, [1], True, "a"]},
    {"enum": [True, "a", False, None, 2]},
    {},
    LEAF,
    {"$ref": "#/$defs/pair"},
    {"$ref": "#/$defs/tree", "description": "A", "title": "Title"},
    {"$ref": "#/$defs/whole", "title": "A"},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "type"]},
    {"type": "object", "properties": {"title": True, "a": False}, "additionalProperties": False},
    {"type": "object", "properties": {"type": LEAF}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": LEAF, "minProperties": 1},
    {"type": "object", "patternProperties": {"^t": {"type": "string"}}},
    {"type": "array", "items": LEAF, "minItems": 1, "maxItems": 1},
    {"type": "array", "items": False},
    {"type": "array", "items": True, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    {"type": "array", "prefixItems": [LEAF], "items": {"type": "integer"}},
    {"type": "array", "contains": {"type": "integer"}, "maxContains": 1},
    {"type": "array", "contains": LEAF, "maxContains": 0},
    {"anyOf": [{"type": "integer", "minimum": 1}, LEAF, {"type": "null"}], "title": "A"},
    {"anyOf": [{"type": "array", "items": {"anyOf": [{"const": 1}, {"enum": ["a", None]}]}}, {}]},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 1}]},
    {"oneOf": [{"const": "a"}, {"const": "b", "description": "A"}, {"const": None}]},
    {"allOf": [LEAF, {"minLength": 1}, {"pattern": "^a"}]},
    {"allOf": [{"type": "integer", "minimum": 0}, {"type": "number", "maximum": 1}]},
    {"type": "object", "allOf": [{"properties": {"a": LEAF}}, {"minProperties": 1}]},
    {"type": "object", "required": ["a"], "allOf": [{"$ref": "#/$defs/pair"}]},
    {"not": {"type": "string"}},
    {"not": {"enum": [{"a": 1}, 1]}},
    {"not": LEAF},
    {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "integer"}},
    {"if": LEAF, "then": {"const": "a"}},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"a": {"const": 1}}}}},
    {"type": "object", "properties": {"items": {"type": "array", "items": {"enum": [1, "a"]}}}},
)
"""Each keyword, and each place of a schema within another, that the strategies draw from."""
EVERY_VALUE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1.5, 0.5, "", "a", "b", "ab", "abc", "2024-01-01"),
    *([], [1], [1, 1], ["a"], ["abc"], ["a", 5], ["a", 5, 6], [None]),
    *({}, {"a": 1}, {"a": 2}, {"a": "a"}, {"a": "abc"}, {"a": 1, "type": "abc"}, {"title": 1}),
    *({"items": []}, {"items": [{"items": []}]}, {"items": [1]}, {"a": {"a": 1}}, {"type": 1}),
)


def every_kind(*values: Sequence[Any]) -> Callable[[Test], Test]:
    """Run a property on each kind of schema, besides what it draws: few draws miss some."""

    def decorate(test: Test) -> Test:
        for schema in EVERY_KIND:
            test = example({**schema, "$defs": DEFINITIONS}, *values)(test)
        return test

    return decorate


CONDITIONS = {"not", "if", "contains"}


def fits(value: Any, schema: JsonSchema) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


@given(DOCUMENTS, st.lists(VALUES, min_size=1, max_size=12))
@every_kind(EVERY_VALUE)
@example({"type": "object", "properties": {"$ref": {"const": 1}}}, [{"$ref": 1}, {"$ref": 2}])
@example({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"a": 1, "b": 2}, 5])
def test_a_value_fits_what_is_sent_exactly_when_it_fits_what_was_given(
    schema: JsonSchema, values: list[Any]
) -> None:
    kept = clean_schema(schema)
    for value in values:
        assert fits(value, kept) == fits(value, schema), (value, kept)


@given(DOCUMENTS, st.lists(VALUES, min_size=1, max_size=12))
@every_kind(EVERY_VALUE)
@example(
    {
        "if": {"properties": {"a": {"const": True}}, "required": ["a"]},
        "then": {"required": ["b"]},
    },
    [{"a": False}],
)
@example({"not": {"exclusiveMinimum": 2}}, [2])
@example({"not": {"enum": [{"a": 1}]}}, [{"a": 2}])
@example({"oneOf": [{"const": True}, {"const": False}]}, [True, False])
def test_a_value_that_fits_what_was_given_fits_what_is_sent_as_gemini_reads_it(
    schema: JsonSchema, values: list[Any]
) -> None:
    sent = describe_the_rest(clean_schema(schema))
    assume("$defs" not in sent)  # a definition is sent once, for conditions and for all else
    for value in values:
        if fits(value, schema):
            assert fits(value, read_by_gemini(sent)), (value, sent)


def read_by_gemini(sent: Any) -> Any:
    """`oneOf` outside of conditions as `anyOf`: "interpreted the same"."""
    if isinstance(sent, list):
        return [read_by_gemini(item) for item in sent]
    if not isinstance(sent, dict):
        return sent
    read = {
        key: value if key in CONDITIONS else read_by_gemini(value) for key, value in sent.items()
    }
    if isinstance(choices := read.get("oneOf"), list):
        del read["oneOf"]
        read["allOf"] = [*read.get("allOf", []), {"anyOf": choices}]
    return read


@given(DOCUMENTS)
@every_kind()
def test_what_is_sent_is_plain_json_and_cleaning_it_again_changes_nothing(
    schema: JsonSchema,
) -> None:
    sent = clean_schema(schema)
    assert json.loads(json.dumps(sent, allow_nan=False)) == sent
    assert clean_schema(sent) == sent


@given(DOCUMENTS)
@every_kind()
def test_the_callers_schema_is_not_changed_and_nothing_of_it_is_shared(schema: JsonSchema) -> None:
    before = copy.deepcopy(schema)
    first = clean_schema(schema)
    spoil(first)
    assert schema == before
    assert json.dumps(clean_schema(schema)) == json.dumps(clean_schema(before))


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoiled"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoiled")


@given(DOCUMENTS)
@every_kind()
def test_nothing_stands_beside_a_reference(schema: JsonSchema) -> None:
    for found in schemas_in(describe_the_rest(clean_schema(schema))):
        if "$ref" in found:
            assert set(found) <= {"$ref", "$defs"}


@given(DOCUMENTS)
@every_kind()
def test_only_conditions_contain_what_gemini_cannot_read(schema: JsonSchema) -> None:
    for found in schemas_in(describe_the_rest(clean_schema(schema)), CONDITIONS):
        assert not found.keys() & {"const", "exclusiveMinimum", "exclusiveMaximum", "examples"}


def schemas_in(schema: Any, but_below: Collection[str] = ()) -> list[JsonSchema]:
    found = [schema] if isinstance(schema, dict) else []
    for keyword, value in schema.items() if found else ():
        if keyword in but_below:
            children: list[Any] = []
        elif keyword in {"properties", "$defs", "patternProperties"}:
            children = list(value.values())
        elif keyword in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            children = value
        elif keyword in {"items", "additionalProperties", "not", "if", "then", "else", "contains"}:
            children = [value]
        else:
            children = []
        for child in children:
            found += schemas_in(child, but_below)
    return found
