"""Walks over schemas follow keywords, and never mistake a name or a value for one.

References are written out, except for those that lead back to themselves.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.walk import (
    children,
    map_children,
    parts,
    pointers,
    same_value,
    subschemas,
)
from langchain_gemini_tools.wire.tools.bind import bind_tools

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

TEXT = {"type": "string"}
TRAP = {"items": {"type": "trap"}, "$ref": "#/trap"}
SCHEMA = {
    "type": "object",
    "properties": {"items": TEXT, "anyOf": {"items": {"type": "integer"}}},
    "enum": [TRAP],
    "const": TRAP,
    "default": TRAP,
    "examples": [TRAP],
    "x-unknown": TRAP,
    "anyOf": [{"not": {"required": ["a"]}}, True],
    "$defs": {"a/b": {"title": "A"}},
}


def test_children_are_what_a_keyword_contains() -> None:
    assert [(child.keyword.name, child.name, child.schema) for child in children(SCHEMA)] == [
        ("properties", "items", TEXT),
        ("properties", "anyOf", {"items": {"type": "integer"}}),
        ("anyOf", "0", {"not": {"required": ["a"]}}),
        ("anyOf", "1", True),
        ("$defs", "a/b", {"title": "A"}),
    ]


def test_subschemas_are_found_at_any_depth() -> None:
    found = subschemas(SCHEMA)
    assert found[0] is SCHEMA
    assert found[1:] == [
        TEXT,
        {"items": {"type": "integer"}},
        {"type": "integer"},
        {"not": {"required": ["a"]}},
        {"required": ["a"]},
        {"title": "A"},
    ]
    assert {"title": "A"} not in subschemas(SCHEMA, with_definitions=False)
    assert subschemas(True) == []


def test_a_schema_nested_deeper_than_the_stack_is_walked() -> None:
    deep: dict[str, object] = {}
    for _ in range(50_000):
        deep = {"items": deep}
    assert len(subschemas(deep)) == 50_001


def test_pointers_are_escaped() -> None:
    assert [pointer for pointer, _ in pointers(SCHEMA)] == [
        "",
        "/properties/items",
        "/properties/anyOf",
        "/properties/anyOf/items",
        "/anyOf/0",
        "/anyOf/0/not",
        "/$defs/a~1b",
    ]


def test_children_are_replaced_in_a_copy() -> None:
    replaced = map_children(SCHEMA, lambda child: child.keyword.name)
    assert replaced == {
        **SCHEMA,
        "properties": {"items": "properties", "anyOf": "properties"},
        "anyOf": ["anyOf", "anyOf"],
        "$defs": {"a/b": "$defs"},
    }
    assert SCHEMA["anyOf"] == [{"not": {"required": ["a"]}}, True]


def test_schemas_about_the_same_value_are_found_behind_references() -> None:
    definitions = {"Node": {"anyOf": [{"$ref": "#/$defs/Node"}, {"properties": {"b": TEXT}}]}}
    schema = {"properties": {"a": TEXT}, "if": {"required": ["a"]}, "$ref": "#/$defs/Node"}
    assert list(same_value(schema, definitions)) == [
        schema,
        {"required": ["a"]},
        definitions["Node"],
        {"$ref": "#/$defs/Node"},
        {"properties": {"b": TEXT}},
    ]


def test_parts_have_a_path_and_definitions_are_where_they_are_first_used() -> None:
    schema = {
        "properties": {
            "filters": {"type": "array", "items": {"properties": {"tag": TEXT}}},
            "tree": {"$ref": "#/$defs/Tree"},
        },
        "anyOf": [{"required": ["tree"]}],
        "$defs": {"Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}}}},
    }
    assert [(part.path, part.depth) for part in parts(schema)] == [
        ("", 0),
        ("filters", 1),
        ("filters[]", 2),
        ("filters[].tag", 3),
        ("tree", 1),
        ("tree", 1),
        ("tree.left", 2),
        ("", 1),
    ]
    assert [part.path for part in parts(schema) if part.definition == "Tree"] == ["tree"]


def test_a_part_knows_the_required_keys_that_are_not_described() -> None:
    schema = {
        "properties": {"a": TEXT},
        "required": ["a", "b"],
        "anyOf": [{"properties": {"c": TEXT}, "required": ["c", "d"]}],
        "not": {"required": ["e"]},
    }
    assert [part.undescribed for part in parts(schema)] == [["b"], [], ["d"], [], []]
    [whole, *_] = parts({"required": ["b"], "patternProperties": {"^b": TEXT}})
    assert whole.undescribed == []


# References

TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}

REFERENCES: dict[str, tuple[Any, JsonSchema]] = {
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
    "a schema of OpenAPI's components is read like every other": (
        {
            "properties": {"x": {"$ref": "#/components/schemas/P"}},
            "components": {
                "schemas": {
                    "P": {
                        "type": "OBJECT",
                        "properties": {
                            "pair": {"type": "array", "items": [TEXT, {"type": "STRING"}]},
                            "other": {"$ref": "#/components/schemas/Q", "required": True},
                        },
                    },
                    "Q": {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}]},
                }
            },
        },
        {
            "properties": {
                "x": {
                    "type": "object",
                    "properties": {
                        "pair": {"type": "array", "prefixItems": [TEXT, TEXT]},
                        "other": {"anyOf": [TEXT, {"type": "integer"}]},
                    },
                    "required": ["other"],
                }
            }
        },
    ),
    "a cycle of components becomes one of definitions": (
        {
            "properties": {"x": {"$ref": "#/components/schemas/Tree"}},
            "components": {
                "schemas": {
                    "Tree": {
                        "type": "OBJECT",
                        "properties": {"left": {"$ref": "#/components/schemas/Tree"}},
                    }
                }
            },
        },
        {"properties": {"x": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
    ),
    "two of one name in different places": (
        {
            "properties": {"x": {"$ref": "#/$defs/P"}, "y": {"$ref": "#/components/schemas/P"}},
            "$defs": {"P": TEXT},
            "components": {"schemas": {"P": {"type": "integer"}}},
        },
        {"properties": {"x": TEXT, "y": {"type": "integer"}}},
    ),
    "a name that is taken, also with a number": (
        {
            "properties": {"x": {"$ref": "#/components/schemas/P"}},
            "$defs": {"P": TEXT, "P_2": TEXT},
            "components": {"schemas": {"P": {"type": "integer"}}},
        },
        {"properties": {"x": {"type": "integer"}}},
    ),
    "cycles whose names are taken, also with a number": (
        {
            "properties": {
                "x": {"$ref": "#/$defs/P"},
                "y": {"$ref": "#/$defs/P_2"},
                "P": {"properties": {"p": {"$ref": "#/properties/P"}}},
            },
            "$defs": {
                "P": {"properties": {"x": {"$ref": "#/$defs/P"}}},
                "P_2": {"properties": {"y": {"$ref": "#/$defs/P_2"}}},
            },
        },
        {
            "properties": {
                "x": {"$ref": "#/$defs/P"},
                "y": {"$ref": "#/$defs/P_2"},
                "P": {"properties": {"p": {"$ref": "#/$defs/P_3"}}},
            },
            "$defs": {
                "P": {"properties": {"x": {"$ref": "#/$defs/P"}}},
                "P_2": {"properties": {"y": {"$ref": "#/$defs/P_2"}}},
                "P_3": {"properties": {"p": {"$ref": "#/$defs/P_3"}}},
            },
        },
    ),
    "an item of a tuple, as it was written": (
        {
            "properties": {
                "a": {"type": "array", "items": [TEXT, {"type": "integer"}]},
                "b": {"$ref": "#/properties/a/items/1"},
            }
        },
        {
            "properties": {
                "a": {"type": "array", "prefixItems": [TEXT, {"type": "integer"}]},
                "b": {"type": "integer"},
            }
        },
    ),
    "a choice in another spelling": (
        {
            "properties": {
                "a": {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}]},
                "b": {"$ref": "#/properties/a/any_of/0"},
            }
        },
        {"properties": {"a": {"anyOf": [TEXT, {"type": "integer"}]}, "b": TEXT}},
    ),
    "its own address before the place": (
        {
            "$id": "http://x/s.json",
            "properties": {"a": {"$ref": "http://x/s.json#/definitions/p"}},
            "definitions": {"p": TEXT},
        },
        {"properties": {"a": TEXT}},
    ),
    "its own address of draft 4": (
        {
            "id": "http://x/s.json#",
            "properties": {"a": {"$ref": "http://x/s.json#/shared/p"}},
            "shared": {"p": {"type": "STRING"}},
        },
        {"properties": {"a": TEXT}},
    ),
    "a place in a part with an address": (
        {
            "properties": {"a": {"$ref": "http://x/p.json#/$defs/q"}},
            "$defs": {"p": {"$id": "http://x/p.json", "$defs": {"q": TEXT}}},
        },
        {"properties": {"a": TEXT}},
    ),
    "an address relative to that of the document": (
        {
            "$id": "http://x/schemas/s.json",
            "properties": {"a": {"$ref": "/schemas/p.json"}, "b": {"$ref": "p.json#q"}},
            "$defs": {
                "p": {"$id": "p.json", "type": "null", "$defs": {"q": {**TEXT, "$anchor": "q"}}}
            },
        },
        {"properties": {"a": {"type": "null"}, "b": TEXT}},
    ),
    "a path inside a part with an address starts at the part": (
        {
            "properties": {"a": {"$ref": "http://x/p.json"}},
            "$defs": {
                "p": {
                    "$id": "http://x/p.json",
                    "properties": {"b": {"$ref": "#/$defs/q"}, "c": {"$ref": "#/$defs/r"}},
                    "$defs": {"q": TEXT},
                },
                "q": {"type": "integer"},
                "r": {"type": "null"},
            },
        },
        {"properties": {"a": {"properties": {"b": TEXT, "c": {"type": "null"}}}}},
    ),
    "an address that is a path": (
        {"properties": {"a": {"$id": "#/properties/a", **TEXT}, "b": {"$ref": "#/properties/a"}}},
        {"properties": {"a": TEXT, "b": TEXT}},
    ),
    "names of draft 4": (
        {"properties": {"x": {"$ref": "#n"}}, "definitions": {"a": {"id": "#n", "type": "null"}}},
        {"properties": {"x": {"type": "null"}}},
    ),
    "dynamic references": (
        {
            "properties": {"x": {"$dynamicRef": "#node"}},
            "$defs": {"Node": {"$dynamicAnchor": "node", "type": "string"}},
        },
        {"properties": {"x": TEXT}},
    ),
    "recursive references of draft 2019-09": (
        {"type": "object", "properties": {"child": {"$recursiveRef": "#"}}},
        {
            "type": "object",
            "properties": {"child": {"$ref": "#/$defs/root"}},
            "$defs": {
                "root": {"type": "object", "properties": {"child": {"$ref": "#/$defs/root"}}}
            },
        },
    ),
    "a property that has the name of a keyword": (
        {
            "properties": {"items": TEXT, "x": {"$ref": "#/properties/items"}},
        },
        {"properties": {"items": TEXT, "x": TEXT}},
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
def test_a_reference(given: Any, sent: JsonSchema) -> None:
    assert clean_schema(given) == sent


def test_a_reference_to_nowhere_is_named() -> None:
    with pytest.raises(InvalidToolError, match=r"'#/\$defs/Gone', which it does not define"):
        clean_schema({"properties": {"x": {"$ref": "#/$defs/Gone"}}})


@pytest.mark.parametrize("reference", ["#/title", "#/required", "#/required/0", "s#/title"])
def test_a_reference_to_something_else_than_a_schema_is_named(reference: str) -> None:
    schema = {"$id": "s", "title": "T", "properties": {"x": {"$ref": reference}}, "required": ["x"]}
    with pytest.raises(InvalidToolError, match=r"refers to '#/\w+(/0)?', which is not a schema"):
        clean_schema(schema)


def test_an_ambiguous_dynamic_reference_is_rejected() -> None:
    nodes = {name: {"$dynamicAnchor": "node", "type": "string"} for name in "ab"}
    with pytest.raises(InvalidToolError, match="'#node', which it defines more than once"):
        clean_schema({"properties": {"x": {"$dynamicRef": "#node"}}, "$defs": nodes})


DUPLICATES: dict[str, tuple[str, JsonSchema, JsonSchema]] = {
    "a name": ("#n", {"$anchor": "n"}, {"$anchor": "n"}),
    "a name, once as a dynamic one": ("#n", {"$anchor": "n"}, {"$dynamicAnchor": "n"}),
    "an address": ("p.json", {"$id": "p.json"}, {"$id": "p.json"}),
    "a part of an address": ("p.json#/not", {"$id": "p.json"}, {"$id": "p.json"}),
}


@pytest.mark.parametrize(("reference", "one", "other"), DUPLICATES.values(), ids=DUPLICATES)
def test_a_tool_that_defines_a_name_in_two_ways_is_rejected(
    reference: str, one: JsonSchema, other: JsonSchema
) -> None:
    parameters = {
        "type": "object",
        "properties": {"x": {"$ref": reference}, "y": {**TEXT, "not": {}, **one}},
        "$defs": {"z": {"type": "integer", "not": {}, **other}},
    }
    text = f"Tool 'find': .*{reference!r}, which it defines more than once. Rename one"
    with pytest.raises(InvalidToolError, match=text):
        bind_tools([{"name": "find", "description": "Find.", "parameters": parameters}])


def test_names_may_repeat_in_copies_and_under_other_addresses() -> None:
    named = {**TEXT, "$anchor": "n"}
    schema = {
        "properties": {"x": {"$ref": "#n"}, "y": named},
        "$defs": {"copy": named, "other": {"$id": "p", "not": {"$anchor": "n"}}},
    }
    assert clean_schema(schema) == {"properties": {"x": TEXT, "y": TEXT}}


def test_an_unused_definition_may_refer_to_nothing() -> None:
    schema = {"properties": {"x": TEXT}, "$defs": {"P": {"$ref": "#/components/schemas/Gone"}}}
    assert clean_schema(schema) == {"properties": {"x": TEXT}}


@pytest.mark.parametrize("index", ["²", "1" * 5000, "7"])
def test_a_reference_to_no_item_of_a_list_is_named(index: str) -> None:
    with pytest.raises(InvalidToolError, match="which it does not define"):
        clean_schema({"properties": {"x": {"$ref": f"#/anyOf/{index}"}}, "anyOf": [{}]})


@pytest.mark.parametrize("address", ["https://example.com/schema.json", "http://[", "urn:x#n"])
def test_a_reference_to_another_document_is_rejected_with_a_solution(address: str) -> None:
    with pytest.raises(InvalidToolError, match=r"put the definition under '\$defs'"):
        clean_schema({"$id": address[:-1], "properties": {"x": {"$ref": address}}})


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


def test_only_addresses_and_names_load_the_library_for_them() -> None:
    script = (
        "import sys\n"
        "from langchain_gemini_tools.wire.schema.clean import clean_schema\n"
        "defined = {'$id': 'http://x/s', '$defs': {'a': {'type': 'null'}}}\n"
        "clean_schema({**defined, 'properties': {'a': {'$ref': '#/$defs/a'}}})\n"
        "print('referencing' in sys.modules)\n"
        "clean_schema({**defined, 'properties': {'a': {'$ref': 's#/$defs/a'}}})\n"
        "print('referencing' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
