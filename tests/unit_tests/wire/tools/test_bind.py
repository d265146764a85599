"""One function in the dialect of every vendor is one declaration."""

from __future__ import annotations

import copy
import importlib.util
import json
from typing import Annotated, Any, NotRequired

import pytest
from google.genai import types
from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, tool
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from langchain_gemini_tools import ChatGemini, check_tools
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools import bind
from langchain_gemini_tools.wire.tools.bind import bind_tools
from tests.figures import modules_with

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

DESCRIPTION = "The weather of a city."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Which city."},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["city"],
}
BOUND = {
    "type": "function",
    "function": {"name": "get_weather", "description": DESCRIPTION, "parameters": SCHEMA},
}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA}
NAMED: dict[str, Any] = {"name": "get_weather", "description": DESCRIPTION}
GEMINI_SCHEMA = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "description": "Which city."},
        "days": {"type": "INTEGER", "minimum": 1, "maximum": 7},
    },
    "required": ["city"],
}


class GetWeather(BaseModel):
    """The weather of a city."""

    city: str = Field(description="Which city.")
    days: int = Field(ge=1, le=7)


class Forecast(TypedDict):
    """The weather of a city."""

    city: Annotated[str, ..., "Which city."]
    days: NotRequired[Annotated[int, Field(ge=1, le=7)]]


class McpTool(BaseModel):
    """As `mcp.types.Tool` is: a Pydantic model with camelCase fields."""

    name: str
    title: str | None = None
    description: str | None = None
    inputSchema: dict[str, Any]  # noqa: N815
    outputSchema: dict[str, Any] | None = None  # noqa: N815
    annotations: dict[str, Any] | None = None


def get_weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
    """The weather of a city.

    Args:
        city: Which city.
    """
    return f"{city} {days}"


DIALECTS: dict[str, Any] = {
    "what we bind": BOUND,
    "openai chat": {"type": "function", "function": {**NAMED, "parameters": SCHEMA}},
    "openai chat, strict": {
        "type": "function",
        "function": {**NAMED, "parameters": SCHEMA, "strict": True},
    },
    "openai chat without a type": {"function": {**NAMED, "parameters": SCHEMA}},
    "openai responses": {"type": "function", **NAMED, "parameters": SCHEMA, "strict": None},
    "bare": {**NAMED, "parameters": SCHEMA},
    "titled json schema": {"title": "get_weather", "description": DESCRIPTION, **SCHEMA},
    "anthropic": {**NAMED, "input_schema": SCHEMA},
    "anthropic, custom": {"type": "custom", **NAMED, "input_schema": SCHEMA},
    "mcp dict": {**NAMED, "inputSchema": DRAFT_7, "annotations": {"readOnlyHint": True}},
    "mcp object": McpTool(**NAMED, title="Weather", inputSchema=DRAFT_7),
    "bedrock": {"toolSpec": {**NAMED, "inputSchema": {"json": DRAFT_7}}},
    "amazon q": {"toolSpecification": {**NAMED, "inputSchema": {"json": json.dumps(DRAFT_7)}}},
    "amazon q, snake case": {"tool_specification": {**NAMED, "input_schema": {"schema": DRAFT_7}}},
    "argument list": {
        **NAMED,
        "parameters": [
            {"name": "city", "type": "string", "description": "Which city.", "required": True},
            {"name": "days", "type": "integer", "minimum": 1, "maximum": 7, "required": False},
        ],
    },
    "names of arguments": {
        **NAMED,
        "parameters": {
            "city": {"type": "string", "description": "Which city.", "required": True},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "required": False},
        },
    },
    "cohere": {
        **NAMED,
        "parameter_definitions": {
            "city": {"type": "str", "description": "Which city.", "required": True},
            "days": {"type": "int", "minimum": 1, "maximum": 7},
        },
    },
    "cohere on oracle": {
        **NAMED,
        "parameterDefinitions": {
            "city": {"type": "str", "description": "Which city.", "isRequired": True},
            "days": {"type": "int", "minimum": 1, "maximum": 7, "isRequired": False},
        },
    },
    "openapi parameters": {
        **NAMED,
        "parameters": [
            {
                "name": "city",
                "in": "query",
                "required": True,
                "description": "Which city.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            {"name": "days", "in": "query", "schema": SCHEMA["properties"]["days"]},
        ],
    },
    "openai format": {"type": "json_schema", "json_schema": {**NAMED, "schema": SCHEMA}},
    "openai format, responses": {"type": "json_schema", **NAMED, "schema": SCHEMA, "strict": True},
    "json schema with a name": {**SCHEMA, **NAMED},
    "gemini, json schema": {"functionDeclarations": [{**NAMED, "parametersJsonSchema": SCHEMA}]},
    "gemini, snake case": {"function_declarations": [{**NAMED, "parameters_json_schema": SCHEMA}]},
    "gemini, schema": {"function_declarations": [{**NAMED, "parameters": GEMINI_SCHEMA}]},
    "gemini, bare declaration": {**NAMED, "parametersJsonSchema": SCHEMA},
    "gemini, other fields unset": {
        "functionDeclarations": [{**NAMED, "parameters": GEMINI_SCHEMA, "behavior": None}],
        "codeExecution": None,
    },
    "openai in gemini": {"function_declarations": [{"function": {**NAMED, "parameters": SCHEMA}}]},
    "sdk declaration": types.FunctionDeclaration(**NAMED, parameters_json_schema=SCHEMA),
    "sdk tool": types.Tool(
        function_declarations=[types.FunctionDeclaration(**NAMED, parameters_json_schema=SCHEMA)]
    ),
    "sdk schema": types.FunctionDeclaration(
        **NAMED,
        parameters=types.Schema(
            type=types.Type.OBJECT,
            properties={
                "city": types.Schema(type=types.Type.STRING, description="Which city."),
                "days": types.Schema(type=types.Type.INTEGER, minimum=1, maximum=7),
            },
            required=["city"],
        ),
    ),
    "langchain tool with a dict": StructuredTool(
        name="get_weather", description=DESCRIPTION, args_schema=DRAFT_7, func=get_weather
    ),
    "langchain tool in gemini's dict": {
        "function_declarations": [
            StructuredTool(name="get_weather", description=DESCRIPTION, args_schema=SCHEMA)
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("given", DIALECTS.values(), ids=DIALECTS)
def test_a_dialect(given: Any) -> None:
    before = copy.deepcopy(given)
    assert [*bind_tools([given])] == [BOUND]
    assert given == before


@pytest.mark.parametrize("given", DIALECTS.values(), ids=DIALECTS)
def test_what_is_bound_is_bound_to_itself(given: Any) -> None:
    [bound] = bind_tools([given])
    assert [*bind_tools([bound])] == [bound]
    assert [*bind_tools([bound.to_dict()])] == [bound]


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list", {"type": "array"}),
        ("dict", {"type": "object"}),
        ("List[str]", {"type": "array", "items": {"type": "string"}}),
        ("list[Optional[int]]", {"type": "array", "items": {"type": "integer"}}),
        ("Dict[str, int]", {"type": "object"}),
        ("Optional[float]", {"type": "number"}),
        ("number", {"type": "number"}),
    ],
)
def test_a_python_type_is_read(said: str, sent: Any) -> None:
    [bound] = bind_tools([{"name": "f", "parameter_definitions": {"a": {"type": said}}}])
    assert bound["function"]["parameters"] == {"type": "object", "properties": {"a": sent}}


@pytest.mark.parametrize(
    "names",
    [
        {"type": {"type": "string"}, "description": {"type": "string"}},
        {"items": {"type": "array", "items": {"type": "string"}}, "city": {"type": "string"}},
        {"not": {"type": "string"}, "kind": {"enum": ["a", "b"], "type": "string"}},
        {"default": {"description": "The value to use."}},
    ],
)
def test_arguments_may_have_the_names_of_keywords(names: Any) -> None:
    [bound] = bind_tools([{"name": "f", "parameters": names}])
    assert bound["function"]["parameters"] == {"type": "object", "properties": names}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"type": {"type": "string"}}},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^a": {"type": "string"}}},
        {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]},
    ],
)
def test_a_schema_without_a_type_is_not_a_mapping_of_names(schema: Any) -> None:
    assert bind_tools([{"name": "f", "parameters": schema}]) == bind_tools(
        [{"name": "f", "parameters": {"type": "object", **schema}}]
    )


def with_default(days: int) -> dict[str, Any]:
    schema = copy.deepcopy(SCHEMA)
    schema["properties"]["days"]["default"] = days
    return {**BOUND, "function": {**NAMED, "parameters": schema}}


@pytest.mark.parametrize("given", [get_weather, tool(get_weather, parse_docstring=True)])
def test_a_python_function_says_the_same_and_its_default(given: Any) -> None:
    assert [*bind_tools([given])] == [with_default(1)]


def test_a_pydantic_class_says_the_same_under_its_own_name() -> None:
    required = {**SCHEMA, "required": ["city", "days"]}
    function = {"name": "GetWeather", "description": DESCRIPTION, "parameters": required}
    assert [*bind_tools([GetWeather])] == [{"type": "function", "function": function}]


def test_a_typed_dict_says_the_same_under_its_own_name() -> None:
    function = {"name": "Forecast", "description": DESCRIPTION, "parameters": SCHEMA}
    assert [*bind_tools([Forecast])] == [{"type": "function", "function": function}]


def test_several_declarations_are_several_tools() -> None:
    tool = {
        "functionDeclarations": [{"name": "a"}, get_weather, {"name": "b"}],
        "googleSearch": {},
    }
    assert [*bind_tools([tool])] == [
        {"type": "function", "function": {"name": "a"}},
        with_default(1),
        {"type": "function", "function": {"name": "b"}},
        {"googleSearch": {}},
    ]


RESPONSE = {"type": "object", "properties": {"celsius": {"type": "number"}}}


@pytest.mark.parametrize(
    "given",
    [
        {"name": "f", "responseJsonSchema": RESPONSE},
        {"name": "f", "response_json_schema": {**RESPONSE, "$schema": "x"}},
        {
            "name": "f",
            "response": {"type": "OBJECT", "properties": {"celsius": {"type": "NUMBER"}}},
        },
        {"name": "f", "inputSchema": {"type": "object"}, "outputSchema": RESPONSE},
        McpTool(name="f", inputSchema={"type": "object"}, outputSchema=RESPONSE),
        types.FunctionDeclaration(name="f", response_json_schema=RESPONSE),
    ],
)
def test_a_response_schema_is_kept(given: Any) -> None:
    assert [*bind_tools([given])] == [
        {"type": "function", "function": {"name": "f", "response_schema": RESPONSE}}
    ]


def test_nulls_inside_of_an_sdk_declaration_are_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": None}}}
    [bound] = bind_tools([types.FunctionDeclaration(name="f", parameters_json_schema=schema)])
    assert bound["function"]["parameters"] == schema


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"type": "object", "properties": {}}, "needs a 'title'"),
        ({"type": "array", "items": {"type": "string"}}, "needs a 'title'"),
        ({"anyOf": [{"type": "object"}]}, "needs a 'title'"),
        ({}, "An empty dict is neither a function"),
        ({"name": ""}, "must be a non-empty string"),
        ({"name": "f", "description": 5}, "Tool 'f': its description must be a string, not 5"),
        ({"type": "function"}, "with the keys 'type' is neither a function, which has a name"),
        ({1: {}}, "with the keys 1 is neither a function"),
        ({"name": "f", "behavior": "NON_BLOCKING"}, "only the Live API"),
        ({"name": "f", "parameters": [{"type": "string"}]}, "Tool 'f': Every argument.*a 'name'"),
        (
            {"name": "f", "parameters": {"type": "string"}},
            "Tool 'f': its parameters must be an object",
        ),
        (
            {"name": "f", "parameter": {"type": "object"}},
            "Tool 'f'.*under 'parameter'.*'parameters'",
        ),
        ({"name": "f", "args": {"a": {"type": "string"}}}, "Tool 'f'.*under 'args'"),
        ({"name": "f", "parameters": {"$ref": "#/$defs/X"}}, "Tool 'f': The schema refers to"),
        ({"name": "f", "parameters": {"a": {"type": "str"}}}, "Tool 'f'.*type 'str' is not valid"),
        (
            {"name": "f", "parameter_definitions": {"a": {"type": "date"}}},
            "type 'date' is not valid",
        ),
        ({"name": "f", "parameter_definitions": {"a": "str"}}, "Tool 'f'.*'a'.*got 'str'"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_its_name(given: Any, reason: str) -> None:
    with pytest.raises(InvalidToolError, match=reason):
        bind_tools([given])


class Toolkit(BaseToolkit):
    def get_tools(self) -> list[BaseTool]:
        return []


def test_a_toolkit_in_place_of_its_tools_is_rejected_with_the_way_out() -> None:
    with pytest.raises(InvalidToolError, match=r"Pass its tools: `get_tools\(\)` returns them"):
        bind_tools([Toolkit()])


ACME = bind.Dialect(
    "Acme",
    wrappers=("acmeSkill",),
    parameters=("inputs", "acme_inputs"),
    responses=("acme_output",),
    read=lambda inputs: {name: {"type": kind} for name, kind in inputs.items()},
)
ACME_SKILL = {
    "acmeSkill": {
        "name": "get_weather",
        "description": DESCRIPTION,
        "inputs": {"city": "string", "days": "integer"},
        "acme_output": {"type": "object", "properties": {"celsius": {"type": "number"}}},
    }
}


def test_a_row_is_all_that_a_dialect_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidToolError, match="'acmeSkill'"):
        bind_tools([ACME_SKILL])
    monkeypatch.setattr(bind, "DIALECTS", (*bind.DIALECTS, ACME))
    inputs = {"city": {"type": "string"}, "days": {"type": "integer"}}
    declaration = {
        **NAMED,
        "parametersJsonSchema": {"type": "object", "properties": inputs},
        "responseJsonSchema": RESPONSE,
    }
    requests = []

    def respond(request: Any) -> Any:
        requests.append(json.loads(request.content))
        call = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo", "days": 2}}}
        candidate = {"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}
        return hx.Response(200, json={"candidates": [candidate]})

    transport = {"transport": hx.MockTransport(respond)}
    model = ChatGemini(model="gemini-3.8-flash", api_key="unreal", client_args=transport)
    message = model.bind_tools([ACME_SKILL], tool_choice="get_weather").invoke("Weather in Oslo?")
    assert requests[0]["tools"] == [{"functionDeclarations": [declaration]}]
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("get_weather", {"city": "Oslo", "days": 2})
    ]
    assert check_tools([ACME_SKILL]).ok
    structured = model.with_structured_output(ACME_SKILL)
    assert structured.invoke("Weather in Oslo?") == {"city": "Oslo", "days": 2}
    assert requests[1]["tools"] == requests[0]["tools"]


@pytest.mark.parametrize("key", ["toolSpec", "tool_specification", "parameter_definitions"])
def test_the_keys_of_a_dialect_are_in_one_module(key: str) -> None:
    assert modules_with(key) == {"wire/tools/bind.py"}


def test_a_mark_of_what_amazon_should_cache_is_left_out() -> None:
    given = [{"toolSpec": NAMED}, {"cachePoint": {"type": "default"}}]
    assert [tool.name for tool in bind_tools(given)] == ["get_weather"]
