"""Schemas are rendered in the JSON Schema form of the API."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from langchain_gemini_tools import check_tools
from langchain_gemini_tools.testing.fake.refusal import Refusal
from langchain_gemini_tools.testing.fake.rules.json_schemas import check_json_schema
from langchain_gemini_tools.wire.schema.clean import clean_schema
from langchain_gemini_tools.wire.schema.render import loosen_loops
from langchain_gemini_tools.wire.tools.tool import bind_tools, render_tools

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
    [bound] = bind_tools([follow])
    properties = bound["function"]["parameters"]["$defs"]["Link"]["properties"]
    by_form = [
        render_tools([bound], form=form)[0]["functionDeclarations"][0]
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
