"""Both forms of a schema are taken by the API: JSON Schema, and the API's own Schema message.

Every tool here is sent to the emulator in both forms, on both backends' rules.
"""

from __future__ import annotations

import enum
import json
from datetime import datetime  # noqa: TC003 - the tools' annotations are read at runtime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import pytest
from google.genai import types
from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from langchain_gemini_tools.errors import GeminiInvalidRequestError
from langchain_gemini_tools.testing.fake import faults
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.integration_tests.test_recorded_declarations import each_declaration
from tests.unit_tests.testing.fake.requests import ask

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

JsonObject = dict[str, Any]


# Functions


def plain(city: str, days: int = 3, *, exact: bool = False) -> str:
    """The weather.

    Args:
        city: Where.
        days: How far.
        exact: No rounding.
    """
    return f"{city}{days}{exact}"


def unions(
    either: int | str,
    maybe: list[int] | None = None,
    literal: Literal["a", "b"] | None = None,
    mixed: Literal[1, "two", True] | None = None,
) -> None:
    """All kinds of unions."""


def containers(
    *,
    anything: Any,
    pair: tuple[float, float],
    several: tuple[int, ...],
    names: set[str],
    scores: dict[str, float],
    free: dict[str, Any],
    rows: list[list[str]],
    bare: list,  # type: ignore[type-arg]
    when: datetime,
) -> None:
    """All kinds of containers."""


def nothing() -> None:
    """Takes nothing."""


# Classes


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Colour(enum.Enum):
    RED = "red"
    NONE = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str | None = None


class Tree(BaseModel):
    """A tree."""

    value: Annotated[str, Field(min_length=1, pattern="^[a-z]+$")]
    children: list[Tree] = []
    parent: Tree | None = None


class Order(BaseModel):
    """Orders things."""

    model_config = ConfigDict(extra="forbid")

    title: str
    type: Level
    colour: Colour = Colour.RED
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    pets: list[Cat | Dog] = []
    tree: Tree | None = None
    by_name: dict[str, Tree] = {}
    ratio: float = Field(gt=0, lt=1, multiple_of=0.1)


class Row(TypedDict):
    """A row."""

    key: Annotated[str, ..., "The key."]
    value: NotRequired[int | None]


CITY: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
ODD: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "constant": {"const": 5},
        "tuple": {"type": "array", "items": [{"type": "string"}, {"$ref": "#/definitions/x"}]},
        "open": True,
        "list": {"type": "array"},
        "map": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "empty": {"type": "object", "properties": {}, "additionalProperties": False},
        "exclusive": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "if": {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}},
        "all": {"allOf": [{"$ref": "#/definitions/x"}, {"maximum": 9}], "description": "All."},
        "null": {"type": "null"},
        "uri": {"type": "string", "format": "uri", "examples": ["http://x"]},
    },
    "required": ["constant", "absent"],
    "definitions": {"x": {"type": "integer", "title": "X"}},
}
ROOT_CHOICE: JsonObject = {
    "type": "object",
    "oneOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ],
}


@tool
def decorated(query: str, limit: Annotated[int, "At most."] = 5) -> str:
    """Looks up."""
    return query * limit


TOOLS: dict[str, Any] = {
    "a function": plain,
    "unions": unions,
    "containers": containers,
    "nothing": nothing,
    "a decorated function": decorated,
    "a class": Order,
    "a class that holds itself": Tree,
    "a TypedDict": Row,
    "args_schema as a class": StructuredTool.from_function(
        lambda **_: "", name="order", description="Orders.", args_schema=Order
    ),
    "args_schema as a dict": StructuredTool(name="odd", description="Odd.", args_schema=ODD),
    "OpenAI": {"type": "function", "function": {"name": "odd", "parameters": ODD}},
    "OpenAI Responses": {"type": "function", "name": "odd", "parameters": ODD, "strict": True},
    "Anthropic": {"name": "odd", "input_schema": ODD},
    "MCP": {"name": "odd", "inputSchema": ODD, "outputSchema": CITY},
    "Bedrock": {"toolSpec": {"name": "odd", "inputSchema": {"json": ODD}}},
    "Amazon Q": {"toolSpecification": {"name": "odd", "input_schema": {"schema": ODD}}},
    "Gemini": {"functionDeclarations": [{"name": "odd", "parametersJsonSchema": ODD}]},
    "an argument list": {
        "name": "listed",
        "parameters": [{"name": "a", "type": "string", "required": True}, {"name": "b"}],
    },
    "a JSON schema": {"title": "odd", **ODD},
    "a choice at the root": {"name": "either", "parameters": ROOT_CHOICE},
    "free at the root": {
        "name": "free",
        "parameters": {"type": "object", "additionalProperties": True},
    },
    "google-genai": types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name="typed",
                parameters=types.Schema(
                    type=types.Type.OBJECT,
                    properties={
                        "a": types.Schema(type=types.Type.STRING, nullable=True, enum=["x"]),
                        "b": types.Schema(any_of=[types.Schema(type=types.Type.INTEGER)]),
                    },
                    required=["a"],
                ),
            )
        ]
    ),
}
each_tool = pytest.mark.parametrize("given", TOOLS.values(), ids=TOOLS.keys())


def sent_in(form: str | None, given: list[Any], emulator: Emulator, make: MakeModel) -> JsonObject:
    """The tools as the emulator got them, and it answered."""
    make(tool_schema=form).bind_tools(given).invoke("Hello")
    assert emulator.refusals == []
    return emulator.last.body  # type: ignore[no-any-return]


def declared(body: JsonObject) -> list[JsonObject]:
    return [item for tool in body["tools"] for item in tool.get("functionDeclarations", [])]


@each_tool
def test_a_tool_is_taken_in_both_forms_with_the_same_names(
    given: Any, emulator: Emulator, make_model: MakeModel
) -> None:
    [in_json] = declared(sent_in(None, [given], emulator, make_model))
    [in_openapi] = declared(sent_in("openapi", [given], emulator, make_model))
    assert "parameters" not in in_json
    assert "parametersJsonSchema" not in in_openapi
    for key in ("name", "description"):
        assert in_openapi.get(key) == in_json.get(key)
    schema, message = in_json.get("parametersJsonSchema"), in_openapi.get("parameters")
    assert (schema is None) == (message is None)
    if schema and message and schema.get("properties"):
        empty = {name for name in schema.get("required", []) if not schema["properties"][name]}
        # A required property that had no schema is a sentence in the other form.
        described = schema["properties"].keys() - (empty - message["properties"].keys())
        assert message["properties"].keys() == described
        required = [name for name in schema.get("required", []) if name in described]
        assert message.get("required", []) == required


@each_tool
def test_vertex_accepts_both_forms_as_well(given: Any) -> None:
    for form in ("json_schema", "openapi"):
        tools: Any = render_tools(bind_tools([given]), form=form)
        check(ask(tools=json.loads(json.dumps(tools)), backend="vertex"))


@each_tool
@pytest.mark.parametrize("form", [None, "openapi"])
def test_a_builtin_tool_beside_it_changes_nothing_about_a_declaration(
    given: Any, form: str | None, emulator: Emulator, make_model: MakeModel
) -> None:
    alone = sent_in(form, [given], emulator, make_model)
    beside = sent_in(form, [given, {"google_search": {}}], emulator, make_model)
    assert beside["tools"] == [*alone["tools"], {"googleSearch": {}}]


def test_all_tools_together_are_taken_in_both_forms(
    emulator: Emulator, make_model: MakeModel
) -> None:
    bound = {item["function"]["name"]: item for item in bind_tools(TOOLS.values())}
    for form in (None, "openapi"):
        body = sent_in(form, list(bound.values()), emulator, make_model)
        assert [item["name"] for item in declared(body)] == list(bound)


@pytest.mark.parametrize(
    ("model", "form", "field"),
    [
        ("gemini-3.8-flash", None, "parametersJsonSchema"),
        ("gemini-2.5-flash", None, "parametersJsonSchema"),
        ("gemini-1.5-pro", None, "parameters"),
        ("gemini-1.5-pro", "json_schema", "parametersJsonSchema"),
        ("gemini-3.8-flash", "openapi", "parameters"),
    ],
)
def test_the_model_chooses_the_form_and_the_user_may_choose_another(
    model: str, form: str | None, field: str, make_model: MakeModel
) -> None:
    chat = make_model(model=model, tool_schema=form)
    bound = chat.bind_tools([plain])
    [sent] = declared(dict(chat.preview("Hello", **bound.kwargs).body))
    assert field in sent


def test_the_form_may_be_chosen_for_one_call(emulator: Emulator, make_model: MakeModel) -> None:
    make_model().bind_tools([plain], tool_schema="openapi").invoke("Hello")
    assert declared(emulator.last.body)[0]["parameters"] == {
        "type": "OBJECT",
        "properties": {
            "city": {"type": "STRING", "description": "Where."},
            "days": {"type": "INTEGER", "description": "How far.", "default": 3},
            "exact": {"type": "BOOLEAN", "description": "No rounding.", "default": False},
        },
        "required": ["city"],
    }


@pytest.mark.parametrize("form", [None, "openapi"])
def test_a_call_in_either_form_comes_back_and_is_answered(
    form: str | None, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(calls=[("decorated", {"query": "a", "limit": 2})])
    emulator.reply("Found.")
    bound = make_model(tool_schema=form).bind_tools([decorated])
    answer = bound.invoke("Look up a.")
    [call] = answer.tool_calls
    result = decorated.invoke(call)
    assert result.content == "aa"
    assert bound.invoke(["Look up a.", answer, result]).text == "Found."
    assert emulator.refusals == []


@each_declaration
def test_a_recorded_declaration_is_taken_in_the_other_form(recorded: JsonObject) -> None:
    bound = bind_tools([{"functionDeclarations": [recorded]}])
    tools = json.loads(json.dumps(render_tools(bound, form="openapi")))
    check(ask(tools=tools))
    check(ask(tools=tools, backend="vertex"))
    [sent] = declared({"tools": tools})
    assert "parametersJsonSchema" not in sent
    [default] = declared({"tools": render_tools(bound)})
    described = default.get("parametersJsonSchema", {}).get("properties", {})
    assert list(sent.get("parameters", {}).get("properties", {})) == list(described)
    assert sent.get("parameters", {}).get("required", []) == (
        default.get("parametersJsonSchema", {}).get("required", [])
    )


def test_an_endpoint_that_knows_only_the_older_form_is_an_error_with_the_way_out(
    emulator: Emulator, make_model: MakeModel
) -> None:
    words = (
        'Invalid JSON payload received. Unknown name "parametersJsonSchema" at '
        "'tools[0].function_declarations[0]': Cannot find field."
    )
    emulator.reply("never sent", fault=faults.http_error(400, words))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    given = {"name": "f", "description": "F.", "parameters": schema}
    with pytest.raises(GeminiInvalidRequestError, match='pass tool_schema="openapi"'):
        make_model().bind_tools([given]).invoke("Hi")
