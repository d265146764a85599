"""Walks over schemas follow keywords, and never mistake a name or a value for one."""

from __future__ import annotations

from langchain_gemini_tools.wire.schema.walk import (
    children,
    definition_paths,
    map_children,
    parts,
    pointers,
    same_value,
    subschemas,
)

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
    assert definition_paths(schema) == {"Tree": "tree"}


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
