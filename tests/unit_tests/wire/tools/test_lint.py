"""Findings about bound tools: every code, its place and its numbers."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from langchain_gemini_tools import ChatGemini, check_tools, tools_from_specs
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.lint import (
    Finding,
    find_problems,
    reject_unusable_tools,
)

GEMINI_3 = capabilities_of("gemini-3.8-flash")
GEMINI_2_5 = capabilities_of("gemini-2.5-flash")
NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}},
    "required": ["next"],
}


def tool(name: str = "find", description: str = "Finds.", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "parameters": schema}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def found(*tools: Any, capabilities: Any = GEMINI_3) -> list[Finding]:
    return find_problems(bind_tools(tools), capabilities)


# One tool

PLACES: dict[str, tuple[dict[str, Any], Finding]] = {
    "no description": (
        {"name": "find"},
        Finding(
            "warning",
            "no_description",
            "find",
            None,
            "it has no description, so the model has to guess what it does.",
        ),
    ),
    "a tool's name": (
        tool("find it"),
        Finding(
            "warning",
            "renamed",
            "find it",
            None,
            "the API does not accept this name; the model sees 'find_it_8ca89c96'.",
        ),
    ),
    "a parameter's name": (
        {**tool(), "parameters": {"properties": {"page-size": {"type": "integer"}}}},
        Finding(
            "warning",
            "renamed",
            "find",
            "page-size",
            "the API does not accept this name; the model sees 'page_size_99246b77'.",
        ),
    ),
    "an empty enum": (
        tool(filters={"type": "array", "items": {"properties": {"tag": {"enum": []}}}}),
        Finding(
            "error",
            "empty_enum",
            "find",
            "filters[].tag",
            "its enum is empty: no value is valid.",
        ),
    ),
    "a key that is not described": (
        tool(where={"type": "object", "properties": {"a": {}}, "required": ["b", "a", "c"]}),
        Finding(
            "warning",
            "undescribed_key",
            "find",
            "where",
            "'required' has keys that 'properties' does not describe: b, c.",
        ),
    ),
    "it requires itself": (
        {**tool(), "parameters": {"properties": {"n": NODE}, "$defs": {"Node": NODE}}},
        Finding(
            "error",
            "endless",
            "find",
            "n.next",
            "it requires itself without end. Make it optional, or a list.",
        ),
    ),
    "too deep": (
        tool(a=nested(33)),
        Finding(
            "error",
            "too_deep",
            "find",
            None,
            "its schema is 33 levels deep; Gemini rejects more than 32.",
        ),
    ),
    "deep": (
        tool(a=nested(9)),
        Finding(
            "warning",
            "deep",
            "find",
            None,
            "its schema is 9 levels deep; models fill in flat schemas better.",
        ),
    ),
    "a keyword that may be ignored": (
        tool(q={"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "integer"}]}),
        Finding(
            "warning",
            "not_enforced",
            "find",
            "q",
            "Gemini may ignore 'pattern'; validate this argument yourself.",
        ),
    ),
}


@pytest.mark.parametrize(("given", "finding"), PLACES.values(), ids=PLACES.keys())
def test_a_finding_names_its_tool_and_its_parameter(given: Any, finding: Finding) -> None:
    assert found(given) == [finding]


@pytest.mark.parametrize("levels", [1, 8])
def test_a_flat_and_described_tool_has_no_findings(levels: int) -> None:
    assert found(tool(a=nested(levels))) == []


def test_what_may_be_ignored_depends_on_the_form_that_the_model_accepts() -> None:
    code = {"type": "string", "pattern": "^a"}
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    given = bind_tools([tool(code=code, tags=tags)])
    reported = {
        model: [item.message for item in find_problems(given, capabilities_of(model))]
        for model in ("gemini-1.5-flash", "gemini-2.0-flash", "gemini-3.8-flash")
    }
    pattern, unique = (
        f"Gemini may ignore {keyword!r}; validate this argument yourself."
        for keyword in ("pattern", "uniqueItems")
    )
    assert reported == {
        "gemini-1.5-flash": [unique],
        "gemini-2.0-flash": [pattern, unique],
        "gemini-3.8-flash": [pattern, unique],
    }


def test_what_may_be_ignored_depends_on_the_chosen_form(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = tool(code={"type": "string", "pattern": "^a"}, other={"not": {"type": "string"}})
    model = ChatGemini(model="gemini-3.8-flash")
    with caplog.at_level(logging.WARNING):
        model.model_copy(update={"tool_schema": "openapi"}).bind_tools([given])
        model.bind_tools([given], tool_schema="openapi")
    assert {record.getMessage() for record in caplog.records} == {
        "gemini-3.8-flash: Tool 'find', parameter 'other': Gemini may ignore 'not'; validate "
        "this argument yourself."
    }


ITEM = {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    ("given", "keywords"),
    [
        ({**ITEM, "unevaluatedProperties": False}, {"unevaluatedProperties"}),
        ({"type": "array", "unevaluatedItems": {"type": "string"}}, {"unevaluatedItems"}),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "string", "maxLength": 5}}},
            {"patternProperties", "maxLength"},
        ),
        (
            {
                **ITEM,
                "if": {"required": ["x"]},
                "then": {"properties": {"x": {"type": "string", "minLength": 1}}},
                "else": {"properties": {"x": {"type": "string", "pattern": "a"}}},
            },
            {"if", "minLength", "pattern"},
        ),
        (
            {**ITEM, "propertyNames": {"type": "string", "maxLength": 3}},
            {"propertyNames", "maxLength"},
        ),
        (
            {**ITEM, "dependentSchemas": {"x": {"minProperties": 2}}},
            {"dependentSchemas", "minProperties"},
        ),
    ],
)
def test_what_may_be_ignored_is_found_in_every_place(given: Any, keywords: set[str]) -> None:
    items = found(tool(a=given))
    assert {item.code for item in items} == {"not_enforced"}
    assert {item.message.split("'")[1] for item in items} == keywords
    assert {str(item.parameter).partition(".")[0] for item in items} == {"a"}


IDS = {"id": {"type": "string"}, "email": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": IDS, "anyOf": [{"required": ["id"]}, {"required": ["email"]}]},
        {"properties": IDS, "oneOf": [{"anyOf": [{"required": ["id"]}]}, {"required": ["email"]}]},
        {"properties": IDS, "not": {"required": ["id", "email"]}},
        {"properties": IDS, "not": {"required": ["phone"]}},
        {"properties": IDS, "if": {"required": ["id"]}, "then": {"required": ["email"]}},
        {"properties": IDS, "dependentSchemas": {"id": {"required": ["email"]}}},
        {"required": ["id"], "anyOf": [{"properties": IDS}, {"properties": {"id": {}}}]},
        {"patternProperties": {"^x": {"type": "string"}}, "required": ["x1"]},
        {"properties": IDS, "additionalProperties": True, "anyOf": [{"required": ["phone"]}]},
    ],
)
def test_a_key_is_described_by_all_that_is_said_about_its_object(schema: Any) -> None:
    codes = {item.code for item in found(tool(where={"type": "object", **schema}))}
    assert "undescribed_key" not in codes


def test_a_key_of_a_choice_that_is_not_described_is_found() -> None:
    where = {"type": "object", "properties": IDS, "anyOf": [{"required": ["id", "phone"]}]}
    findings = [item for item in found(tool(where=where)) if item.code == "undescribed_key"]
    assert [(item.parameter, item.message) for item in findings] == [
        ("where", "'required' has keys that 'properties' does not describe: phone.")
    ]


def test_a_required_parameter_that_leads_back_to_itself_is_found_at_its_place() -> None:
    link = {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    text = {"type": "string", "description": "Always give this."}
    node = {"type": "object", "properties": {"id": text, "next": link}, "required": ["id", "next"]}
    schema = {"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    items = found({**tool(), "parameters": schema})
    assert [(item.code, item.parameter) for item in items] == [("recursive", "n.next")]


def test_a_description_is_not_mistaken_for_a_loop() -> None:
    assert found(tool(id={"type": "string", "description": "The id. Always give this."})) == []


def test_a_keyword_is_reported_once_per_tool_at_its_first_place() -> None:
    text = {"type": "string", "maxLength": 5}
    places = [
        (item.tool, item.parameter) for item in found(tool(a=text, b=text), tool("two", c=text))
    ]
    assert places == [("find", "a"), ("two", "c")]


@pytest.mark.parametrize(
    "next_node",
    [
        pytest.param({"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}, id="or null"),
        pytest.param({"type": "array", "items": {"$ref": "#/$defs/Node"}}, id="a list"),
        pytest.param(
            {"type": "object", "properties": {"x": {"$ref": "#/$defs/Node"}}}, id="optional"
        ),
        pytest.param(
            {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Node"}]}, id="or something else"
        ),
    ],
)
def test_what_can_end_is_not_endless(next_node: Any) -> None:
    node = {**NODE, "properties": {"next": next_node}}
    schema = {"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    findings = found({**tool(), "parameters": schema})
    assert [item for item in findings if item.level == "error"] == []


@pytest.mark.parametrize(
    "next_node",
    [
        pytest.param({"anyOf": [{"$ref": "#/$defs/Node"}]}, id="the only choice"),
        pytest.param(
            {"anyOf": [{"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Other"}]}, id="every choice"
        ),
        pytest.param(
            {"type": "array", "items": {"$ref": "#/$defs/Node"}, "minItems": 1},
            id="at least one",
        ),
        pytest.param({"$ref": "#/$defs/Other"}, id="by another"),
    ],
)
def test_what_leads_back_whichever_way_it_goes_is_endless(next_node: Any) -> None:
    node = {**NODE, "properties": {"next": next_node}}
    definitions = {"Node": node, "Other": NODE}
    schema = {"properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": definitions}
    errors = [item for item in found({**tool(), "parameters": schema}) if item.level == "error"]
    assert {item.code for item in errors} == {"endless"}
    assert errors[0].parameter == "n"


def test_parameters_that_langchain_reserves_are_found() -> None:
    """As tools of MCP servers come through LangChain's adapters."""

    def call(**arguments: Any) -> list[str]:
        return [*arguments]

    spec = tool(config={"type": "object"}, run_manager={"type": "string"}, page={"type": "integer"})
    given = StructuredTool(
        name="find", description="Finds.", args_schema=spec["parameters"], func=call
    )
    assert given.invoke({"config": {}, "run_manager": "x", "page": 1}) == ["page"]
    message = (
        "LangChain's StructuredTool reserves this name, so the value never reaches the tool. "
        "Rename it."
    )
    assert found(given) == [
        Finding("warning", "reserved_name", "find", name, message)
        for name in ("config", "run_manager")
    ]
    [whole] = tools_from_specs([spec], lambda _, args: [*args])
    assert whole.invoke({"config": {}, "run_manager": "x"}) == ["config", "run_manager"]
    assert found(whole) == []


# All together


def test_two_tools_of_one_name() -> None:
    message = "two different tools have this name; rename one of them."
    assert found(tool(), tool(description="Finds more.")) == [
        Finding("error", "duplicate_name", "find", None, message)
    ]


def test_more_functions_than_the_api_accepts_are_counted() -> None:
    errors = [
        item for item in found(*(tool(f"f{n}") for n in range(513))) if item.code == "too_many"
    ]
    message = "Gemini accepts at most 512 functions, but 513 are bound. Bind fewer."
    assert errors == [Finding("error", "too_many", None, None, message)]


def test_many_functions_are_counted() -> None:
    assert found(*(tool(f"f{n}") for n in range(100))) == []
    assert found(*(tool(f"f{n}") for n in range(101))) == [
        Finding(
            "warning",
            "many_tools",
            None,
            None,
            "101 functions are declared; models choose better from fewer.",
        )
    ]


def test_a_large_set_is_reported_with_its_largest_tools() -> None:
    tools = [tool(f"f{n}", description="x" * 20_000 * n) for n in range(1, 5)]
    tokens = [bound.token_estimate for bound in bind_tools(tools)]
    assert tokens == pytest.approx([5_000 * n for n in range(1, 5)], rel=0.01)
    assert found(*tools) == [
        Finding(
            "warning",
            "large_set",
            None,
            None,
            f"the declarations are about {sum(tokens)} tokens, sent with every request "
            f"(the largest: f4 {tokens[3]}, f3 {tokens[2]}, f2 {tokens[1]}).",
        )
    ]


def test_letters_cost_the_same_in_every_alphabet() -> None:
    [latin, cyrillic] = bind_tools([tool(description="a" * 400), tool(description="я" * 400)])
    assert latin.token_estimate == cyrillic.token_estimate


def test_builtin_tools_and_functions_on_a_model_that_cannot_combine_them() -> None:
    message = (
        "this model cannot combine built-in tools (google_search) with functions (find). "
        "Bind only one kind, or use Gemini 3 or later."
    )
    both: list[Any] = [tool(), {"google_search": {}}]
    assert found(*both) == []
    assert found(*both, capabilities=GEMINI_2_5) == [
        Finding("error", "not_combinable", None, None, message)
    ]


@pytest.mark.parametrize("given", [{"google_search": {}}, {"computer_use": {}}])
def test_builtin_tools_are_rejected_on_a_model_without_them(given: Any) -> None:
    [name] = given
    message = (
        f"this model does not support built-in tools ({name}). Use functions, or a Gemini model."
    )
    gemma = capabilities_of("gemma-3-27b-it")
    assert found(given, capabilities=gemma) == [
        Finding("error", "not_supported", None, None, message)
    ]
    assert not check_tools([given, tool()], "gemma-3-27b-it").ok
    with pytest.raises(InvalidToolError, match="does not support built-in tools"):
        ChatGemini(model="gemma-3-27b-it").bind_tools([given, tool()])


def test_a_tool_that_is_bound_twice_is_reported_once() -> None:
    given = tool(e={"enum": []})
    assert found(given, given) == found(given)
    with pytest.raises(InvalidToolError) as raised:
        reject_unusable_tools(bind_tools([given, given]), GEMINI_3)
    assert str(raised.value).count("no value is valid") == 1


def test_errors_come_first() -> None:
    levels = [item.level for item in found({"name": "a b"}, tool(e={"enum": []}), {"name": "c"})]
    assert levels == ["error", "warning", "warning", "warning"]


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (Finding("error", "x", "find", "a[].b", "bad."), "Tool 'find', parameter 'a[].b': bad."),
        (Finding("error", "x", "find", None, "bad."), "Tool 'find': bad."),
        (Finding("error", "x", None, None, "bad."), "Bad."),
    ],
)
def test_a_finding_reads_as_a_sentence(finding: Finding, words: str) -> None:
    assert str(finding) == words


# Binding


def test_binding_raises_with_every_error() -> None:
    tools = [tool(e={"enum": []}), tool("deep", a=nested(40)), {"name": "odd name"}]
    with pytest.raises(InvalidToolError) as raised:
        ChatGemini(model="gemini-3.8-flash").bind_tools(tools)
    assert str(raised.value) == (
        "Tool 'find', parameter 'e': its enum is empty: no value is valid. "
        "Tool 'deep': its schema is 40 levels deep; Gemini rejects more than 32."
    )


def test_tools_of_a_call_are_rejected_before_they_are_sent() -> None:
    model = ChatGemini(model="gemini-3.8-flash")
    with pytest.raises(InvalidToolError, match="Tool 'find', parameter 'e': its enum is empty"):
        model.preview("Hello", tools=[tool(e={"enum": []})])


def test_a_warning_is_logged_once_however_often_the_tools_are_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ChatGemini(model="gemini-3.8-flash")
    given = [{"name": "now"}, tool(q={"type": "string", "pattern": "^a"})]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            bound = model.bind_tools(given)
            model.preview("Hello", **bound.kwargs)
    assert [record.getMessage() for record in caplog.records] == [
        "gemini-3.8-flash: Tool 'now': it has no description, so the model has to guess what "
        "it does.",
        "gemini-3.8-flash: Tool 'find', parameter 'q': Gemini may ignore 'pattern'; validate "
        "this argument yourself.",
    ]


def test_the_tools_of_a_binding_are_not_bound_again() -> None:
    binding = ChatGemini(model="gemini-3.8-flash").bind_tools([tool()])
    [bound] = binding.kwargs["tools"]
    assert bind_tools([bound])[0] is bound
