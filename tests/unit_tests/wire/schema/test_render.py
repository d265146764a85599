"""Schemas are rendered in the JSON Schema form of the API, with names that it accepts."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from langchain_gemini_tools import check_tools
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules.declarations import check_json_schema
from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.render import render_json_schema
from langchain_gemini_tools.wire.schema.walk import loosen_loops
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.lint import find_problems, reject_unusable_tools
from langchain_gemini_tools.wire.tools.tool import (
    render_parameter_name,
    render_tools,
)

NODE = {"$ref": "#/$defs/Node"}
NULL = {"type": "null"}
TEXT = {"type": "string"}


class Link(BaseModel):
    url: str
    next: Link | None


def follow(link: Link) -> str:
    """Follow a link."""
    return link.url


def definitions_sent(**definitions: Any) -> dict[str, Any]:
    """What is sent of the definitions; the first one is the parameter's."""
    first = {"$ref": f"#/$defs/{next(iter(definitions))}"}
    given = {"type": "object", "properties": {"x": first}, "$defs": definitions}
    sent = loosen_loops(clean_schema(given))
    check_json_schema(sent, "f", is_parameters=True)
    defined: dict[str, Any] = sent["$defs"]
    return defined


def node(next_node: Any, *, required: bool = True) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"next": next_node}}
    return {**schema, "required": ["next"]} if required else schema


def test_a_required_property_that_closes_a_loop_is_sent_as_optional_and_described_as_required() -> (
    None
):
    given = {"anyOf": [NODE, NULL], "description": "The rest."}
    described = "The rest. Always give this."
    sent = node({"anyOf": [NODE, NULL], "description": described}, required=False)
    assert definitions_sent(Node=node(given)) == {"Node": sent}


def test_a_choice_with_another_way_out_is_still_a_loop_for_the_api() -> None:
    definitions = {
        "And": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/Filter"}, "name": TEXT},
            "required": ["left", "name"],
        },
        "Filter": {"anyOf": [{"$ref": "#/$defs/And"}, TEXT]},
    }
    left = {"anyOf": [{"$ref": "#/$defs/Filter"}], "description": "Always give this."}
    assert definitions_sent(**definitions) == {
        "And": {
            "type": "object",
            "properties": {"left": left, "name": TEXT},
            "required": ["name"],
        },
        "Filter": definitions["Filter"],
    }


def test_of_two_ways_back_the_one_with_a_choice_is_made_optional() -> None:
    page = node({"$ref": "#/$defs/Node"})
    book = {**node({"anyOf": [{"$ref": "#/$defs/Page"}, NULL]})}
    sent = definitions_sent(Page=page, Node=book)
    assert "required" not in sent["Node"]
    assert sent["Page"] == page


@pytest.mark.parametrize(
    "next_node",
    [
        pytest.param({"type": "array", "items": NODE}, id="a list that may be empty"),
        pytest.param({"type": "object", "properties": {"y": NODE}}, id="optional further in"),
        pytest.param({"type": "object", "additionalProperties": NODE}, id="an open object"),
    ],
)
def test_a_way_back_that_may_stay_empty_keeps_its_required(next_node: Any) -> None:
    assert definitions_sent(Node=node(next_node)) == {"Node": node(next_node)}


@pytest.mark.parametrize("least", [2, 2.0, 10**12])
def test_a_list_that_must_not_be_empty_keeps_a_loop_required(least: float) -> None:
    items = {"type": "array", "items": {"anyOf": [NODE, NULL]}, "minItems": least}
    sent = node({**items, "description": "Always give this."}, required=False)
    assert definitions_sent(Node=node(items)) == {"Node": sent}


def test_only_what_is_sent_as_json_schema_is_made_optional() -> None:
    tools = bind_tools([follow])
    [bound] = tools
    properties = bound["function"]["parameters"]["$defs"]["Link"]["properties"]
    by_form = [
        render_tools(tools, form=form)[0]["functionDeclarations"][0]
        for form in ("json_schema", "openapi")
    ]
    assert "description" not in properties["next"]
    assert bound["function"]["parameters"]["$defs"]["Link"]["required"] == ["url", "next"]
    assert by_form[0]["parametersJsonSchema"]["$defs"]["Link"]["required"] == ["url"]
    assert by_form[1]["parameters"]["properties"]["link"]["required"] == ["url", "next"]


def test_a_schema_without_such_loops_is_not_copied() -> None:
    plain = clean_schema({"type": "object", "properties": {"x": TEXT}})
    tree = clean_schema({"properties": {"x": NODE}, "$defs": {"Node": node({"items": NODE})}})
    assert loosen_loops(plain) is plain
    assert loosen_loops(tree) is tree


def test_the_root_of_a_schema_is_in_no_loop_and_stays_as_it_was_given() -> None:
    class Chain(BaseModel):
        next: Chain | None

    sent = loosen_loops(clean_schema(Chain))
    assert sent["required"] == ["next"]
    assert "description" not in sent["properties"]["next"]
    assert "required" not in sent["$defs"]["Chain"]


def test_an_endless_definition_stays_and_is_reported() -> None:
    given = {"type": "object", "properties": {"x": NODE}, "$defs": {"Node": node(NODE)}}
    sent = loosen_loops(clean_schema(given))
    assert sent["$defs"] == {"Node": node(NODE)}
    with pytest.raises(Refusal, match="ref loop of required fields"):
        check_json_schema(sent, "f", is_parameters=True)
    report = check_tools([{"name": "f", "description": "F.", "parameters": given}])
    assert [finding.code for finding in report.errors] == ["endless"]


@pytest.mark.parametrize("model", ["gemma-3-27b-it", "gemini-1.5-pro"])
def test_check_tools_is_silent_where_nothing_is_made_optional(model: str) -> None:
    assert check_tools([follow], model=model).findings == ()


def test_check_tools_names_the_parameter_that_was_made_optional() -> None:
    assert [str(finding) for finding in check_tools([follow]).findings] == [
        "Tool 'follow', parameter 'link.next': it leads back to itself, which Gemini accepts in "
        "optional parameters only. It is sent as optional, and its description says that it is "
        "required. Give it a default, or validate it yourself."
    ]


# Parameters whose names the API does not accept

GEMINI_3 = capabilities_of("gemini-3.8-flash")
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
    assert bound.renamed_parameters == {"find": {"user-id": ID}}
    reported = [(item.code, item.parameter) for item in find_problems(bound, GEMINI_3)]
    assert reported == [("renamed", "user-id")]


@pytest.mark.parametrize("order", [["user-id", ID], [ID, "user-id"]])
def test_two_parameters_with_the_same_name_after_renaming_are_rejected_with_both(
    order: list[str],
) -> None:
    schema = {"type": "object", "properties": dict.fromkeys(order, TEXT)}
    with pytest.raises(InvalidToolError, match=f"'{order[1]}': after renaming, '{order[0]}'"):
        declared(schema)


# Required properties without a schema


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"properties": {"a": TEXT}, "required": ["a", "b"]},
            {"properties": {"a": TEXT, "b": {}}, "required": ["a", "b"]},
            id="beside others",
        ),
        pytest.param(
            {"properties": {"rows": {"type": "array", "items": {"required": ["id"]}}}},
            {
                "properties": {
                    "rows": {
                        "type": "array",
                        "items": {"required": ["id"], "properties": {"id": {}}},
                    }
                }
            },
            id="inside",
        ),
        pytest.param(
            {"properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {
                "properties": {"a": TEXT},
                "anyOf": [
                    {"required": ["a"], "properties": {"a": {}}},
                    {"required": ["b"], "properties": {"b": {}}},
                ],
            },
            id="in choices",
        ),
        pytest.param(
            {"additionalProperties": TEXT, "required": ["a"]},
            {"additionalProperties": TEXT, "required": ["a"], "properties": {"a": TEXT}},
            id="any name",
        ),
    ],
)
def test_required_properties_get_a_schema(given: Any, expected: Any) -> None:
    sent = render_json_schema({"type": "object", **given})
    assert sent == {"type": "object", **expected}
    check_json_schema(sent, "f", is_parameters=True)
    assert render_json_schema(sent) is sent
