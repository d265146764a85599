"""References: written out, except for those that lead back to themselves."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.cleaning import clean_schema

Schema = dict[str, Any]
TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}

REFERENCES: dict[str, tuple[Any, Schema]] = {
    "a reference is written out, its neighbours win": (
        {
            "properties": {"home": {"$ref": "#/$defs/Address", "description": "Home."}},
            "$defs": {"Address": {"title": "Address", "type": "object", "description": "Any."}},
        },
        {"properties": {"home": {"description": "Home.", "type": "object"}}},
    ),
    "a cycle stays, with its definition": (
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
    ),
    "a cycle at the root is followed once": (
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
        {**TREE, "$defs": {"Tree": TREE}},
    ),
    "a cycle with neighbours is one of one": (
        {
            "properties": {"tree": {"$ref": "#/$defs/Tree", "description": "A tree."}},
            "$defs": {"Tree": TREE},
        },
        {
            "properties": {"tree": {"description": "A tree.", "anyOf": [{"$ref": "#/$defs/Tree"}]}},
            "$defs": {"Tree": TREE},
        },
    ),
    "a document that refers to itself": (
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"child": {"$ref": "#/$defs/root"}},
            "$defs": {
                "root": {"type": "object", "properties": {"child": {"$ref": "#/$defs/root"}}}
            },
        },
    ),
    "draft 7 definitions, escaped": (
        {
            "properties": {"x": {"$ref": "#/definitions/a~1b"}},
            "definitions": {"a/b": {"type": "null"}},
        },
        {"properties": {"x": {"type": "null"}}},
    ),
    "anchors": (
        {
            "properties": {"x": {"$ref": "#here"}},
            "$defs": {"a": {"$anchor": "here", "type": "null"}},
        },
        {"properties": {"x": {"type": "null"}}},
    ),
}


@pytest.mark.parametrize(("given", "sent"), REFERENCES.values(), ids=REFERENCES)
def test_a_reference(given: Any, sent: Schema) -> None:
    assert clean_schema(given) == sent


def test_a_reference_to_nowhere_is_named() -> None:
    with pytest.raises(InvalidToolError, match=r"'#/\$defs/Gone', which it does not define"):
        clean_schema({"properties": {"x": {"$ref": "#/$defs/Gone"}}})


@pytest.mark.parametrize("index", ["²", "1" * 5000, "7"])
def test_a_reference_to_no_item_of_a_list_is_named(index: str) -> None:
    with pytest.raises(InvalidToolError, match="which it does not define"):
        clean_schema({"properties": {"x": {"$ref": f"#/anyOf/{index}"}}, "anyOf": [{}]})


def test_a_reference_to_another_document_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidToolError, match=r"put the definition under '\$defs'"):
        clean_schema({"properties": {"x": {"$ref": "https://example.com/schema.json"}}})


def test_definitions_stay_definitions_when_writing_them_out_would_never_end() -> None:
    """Each level uses the next one three times: written out, there are millions."""
    levels = {
        f"L{n}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/$defs/L{n + 1}"} for key in "abc"},
        }
        for n in range(15)
    }
    cleaned = clean_schema({"$ref": "#/$defs/L0", "$defs": {**levels, "L15": {"type": "string"}}})
    assert cleaned == {**levels["L0"], "$defs": {**levels, "L15": {"type": "string"}}}
