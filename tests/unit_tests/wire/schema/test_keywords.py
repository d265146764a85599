"""A schema that is none is refused by tool, parameter and keyword, when it is bound."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.cleaning import clean_schema
from langchain_gemini_tools.wire.tools.declarations import bind_tools


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"anyOf": 3}, "'anyOf' is 3, and has to be a list of schemas."),
        ({"oneOf": {}}, "'oneOf' is {}, and has to be a list of schemas."),
        ({"properties": "x"}, "'properties' is 'x', and has to be an object."),
        ({"properties": ["x"]}, "'properties' is ['x'], and has to be an object."),
        ({"required": "a"}, "'required' is 'a', and has to be a list of names."),
        ({"required": [1]}, "'required' is [1], and has to be a list of names."),
        ({"enum": "abc"}, "'enum' is 'abc', and has to be a list."),
        ({"type": 3}, "'type' is 3, and has to be a text, or a list of texts."),
        (
            {"type": ["string", "int"]},
            "there is no type 'int'; there are array, boolean, integer, null, number, object, "
            "string.",
        ),
        ({"$ref": 3}, "'$ref' is 3, and has to be a text."),
        ({"minimum": "1"}, "'minimum' is '1', and has to be a number."),
        ({"minimum": True}, "'minimum' is True, and has to be a number."),
        ({"multipleOf": False}, "'multipleOf' is False, and has to be a number."),
        ({"description": ["x"]}, "'description' is ['x'], and has to be a text."),
        (3, "3 stands where a JSON schema is expected."),
    ],
)
def test_a_keyword_with_a_value_of_another_kind_is_refused_by_name(schema: Any, words: str) -> None:
    filters = {"type": "array", "items": {"properties": {"tag": schema}}}
    tool = {"name": "find", "parameters": {"type": "object", "properties": {"filters": filters}}}
    with pytest.raises(InvalidToolError) as error:
        bind_tools([tool])
    assert str(error.value) == f"Tool 'find': parameter 'filters[].tag': {words}"


def test_what_is_wrong_with_the_whole_names_no_parameter() -> None:
    with pytest.raises(InvalidToolError) as error:
        clean_schema({"type": 3})
    assert str(error.value) == "'type' is 3, and has to be a text, or a list of texts."


def test_a_type_may_be_written_with_capitals() -> None:
    assert clean_schema({"type": ["String", "NULL"]}) == {"type": ["string", "null"]}


def test_the_type_of_draft_3_for_anything_is_no_limit() -> None:
    assert clean_schema({"type": "any", "description": "What you like."}) == {
        "description": "What you like."
    }


def test_an_empty_list_of_properties_is_an_empty_object() -> None:
    assert clean_schema({"type": "object", "properties": [], "$defs": []}) == {
        "type": "object",
        "properties": {},
    }
