"""Parameters whose names the API does not take: renamed wherever a schema speaks of them."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.lint import find_problems, reject_unusable_tools
from langchain_gemini_tools.wire.tools.names import render_parameter_name
from langchain_gemini_tools.wire.tools.tool import (
    bind_tools,
    renamed_parameters_of,
    render_tools,
)

GEMINI_3 = capabilities_of("gemini-3-flash-preview")
TEXT = {"type": "string"}
USER = {"user-id": TEXT, "email": TEXT, "on": {"type": "boolean"}}
ID = render_parameter_name("user-id")

SCHEMAS: dict[str, dict[str, Any]] = {
    "a choice of what is required": {
        "properties": USER,
        "additionalProperties": False,
        "anyOf": [{"required": ["user-id"]}, {"required": ["email"]}],
    },
    "one of two": {
        "properties": USER,
        "oneOf": [{"required": ["user-id"]}, {"required": ["email"]}],
    },
    "all of several": {
        "properties": USER,
        "allOf": [
            {"anyOf": [{"required": ["user-id"]}, {"required": ["email"]}]},
            {"not": {"required": ["user-id", "on"]}},
        ],
    },
    "what must not be": {"properties": USER, "not": {"required": ["user-id", "email"]}},
    "what needs another": {"properties": USER, "dependentRequired": {"user-id": ["email"]}},
    "what is needed by another": {"properties": USER, "dependentRequired": {"email": ["user-id"]}},
    "what needs a schema": {
        "properties": USER,
        "dependentSchemas": {"user-id": {"properties": {"user-id": {"minLength": 2}}}},
    },
    "a condition": {
        "properties": USER,
        "if": {"required": ["user-id"]},
        "then": {"required": ["on"]},
        "else": {"properties": {"user-id": False}, "required": ["email"]},
    },
    "a pattern of names": {"properties": USER, "propertyNames": {"pattern": "^[a-z-]+$"}},
    "a choice of objects": {
        "anyOf": [
            {"type": "object", "properties": {"user-id": TEXT}, "required": ["user-id"]},
            {"type": "object", "properties": {"email": TEXT}, "required": ["email"]},
        ]
    },
}

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"user-id": "7"},
    {"user-id": "77", "on": True},
    {"email": "a@b.c"},
    {"user-id": "7", "email": "a@b.c"},
    {"user-id": 7, "email": "a@b.c", "on": False},
    {"user-id": "7", "OTHER": 1},
]


def declared(schema: dict[str, Any]) -> Any:
    bound = bind_tools([{"name": "find", "description": "Finds.", "parameters": schema}])
    reject_unusable_tools(bound, GEMINI_3)
    return render_tools(bound)[0]["functionDeclarations"][0]["parametersJsonSchema"]


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_the_renamed_arguments_fit_where_the_users_did(schema: dict[str, Any]) -> None:
    sent = declared({"type": "object", **schema})
    assert "user-id" not in str(sent)
    for arguments in ARGUMENTS:
        renamed = {render_parameter_name(name): value for name, value in arguments.items()}
        fits = Draft202012Validator(schema).is_valid(arguments)
        assert Draft202012Validator(sent).is_valid(renamed) == fits, arguments


def test_a_default_and_an_order_use_the_names_that_are_sent() -> None:
    sent = declared(
        {
            "type": "object",
            "properties": USER,
            "propertyOrdering": ["email", "user-id", "on"],
            "default": {"user-id": "7"},
        }
    )
    assert sent["propertyOrdering"] == ["email", ID, "on"]
    assert sent["default"] == {ID: "7"}


def test_names_that_are_allowed_one_by_one_are_those_that_are_sent() -> None:
    schema = {"properties": USER, "propertyNames": {"enum": ["user-id", "email"]}}
    sent = Draft202012Validator(declared({"type": "object", **schema}))
    assert sent.is_valid({ID: "7", "email": "a@b.c"})
    assert not sent.is_valid({ID: "7", "phone": "1"})


def test_names_inside_of_a_parameter_stay() -> None:
    inner = {"type": "object", "properties": USER, "required": ["user-id"]}
    users = {"type": "array", "items": inner}
    sent = declared({"type": "object", "properties": {"user-id": inner, "users": users}})
    assert sent["properties"] == {ID: inner, "users": users}


def test_a_definition_is_renamed_where_it_is_about_the_arguments_only() -> None:
    node = {
        "type": "object",
        "properties": {"user-id": TEXT, "next": {"$ref": "#/$defs/Node"}},
        "required": ["user-id"],
    }
    one = {"type": "object", "properties": {"email": TEXT}, "required": ["email"]}
    schema = {"type": "object", "anyOf": [{"$ref": "#/$defs/Node"}, one], "$defs": {"Node": node}}
    sent = Draft202012Validator(declared(schema))
    assert sent.is_valid({ID: "7", "next": {"user-id": "8"}})
    assert not sent.is_valid({ID: "7", "next": {ID: "8"}})
    assert not sent.is_valid({"user-id": "7"})


def test_a_renamed_parameter_of_a_choice_leads_back_and_is_reported() -> None:
    schema = {"type": "object", **SCHEMAS["a choice of objects"]}
    bound = bind_tools([{"name": "find", "description": "Finds.", "parameters": schema}])
    assert renamed_parameters_of(bound) == {"find": {"user-id": ID}}
    reported = [(item.code, item.parameter) for item in find_problems(bound, GEMINI_3)]
    assert reported == [("renamed", "user-id")]


@pytest.mark.parametrize("order", [["user-id", ID], [ID, "user-id"]])
def test_two_parameters_with_the_same_name_after_renaming_are_rejected_with_both(
    order: list[str],
) -> None:
    schema = {"type": "object", "properties": dict.fromkeys(order, TEXT)}
    with pytest.raises(InvalidToolError, match=f"'{order[1]}': after renaming, '{order[0]}'"):
        declared(schema)
