"""Structured output: what is sent for each kind of schema and method, and what comes of it."""

from __future__ import annotations

import functools
import operator
import pickle
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NewType, NotRequired

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from pydantic import BaseModel, RootModel
from typing_extensions import TypeAliasType, TypedDict

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidToolError

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

QUESTION = '"Oslo" has 700000 people'


class City(BaseModel):
    """A city."""

    name: str
    people: int


@dataclass
class Town:
    """A town."""

    name: str
    people: int


class Note(TypedDict):
    """A note."""

    name: str
    note: NotRequired[str]


class Place(TypedDict):
    """A place."""

    name: str
    inside: NotRequired[Place]


class Cities(RootModel[list[City]]):
    """Cities."""


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
SENT = SCHEMA
SPECIFICATIONS: dict[str, dict[str, Any]] = {
    "openai": {"type": "function", "function": {"name": "City", "parameters": SCHEMA}},
    "openai format": {"type": "json_schema", "json_schema": {"name": "City", "schema": SCHEMA}},
    "named schema": {"name": "City", "schema": SCHEMA, "strict": True},
    "anthropic": {"name": "City", "description": "A city.", "input_schema": SCHEMA},
    "function": {"name": "City", "description": "A city.", "parameters": SCHEMA},
}


class Seen(BaseCallbackHandler):
    """What a tracer receives about the format."""

    def __init__(self) -> None:
        self.formats: list[Any] = []

    def on_chat_model_start(self, *_: Any, **shown: Any) -> None:
        self.formats.append(shown["options"]["ls_structured_output_format"])


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
@pytest.mark.parametrize("schema", [Note, Place], ids=["NotRequired", "recursive"])
def test_a_typed_dict_may_omit_keys_and_contain_itself(
    make_model: MakeModel, schema: Any, method: Any
) -> None:
    seen = Seen()
    chain = make_model().with_structured_output(schema, method)
    assert chain.invoke(QUESTION, {"callbacks": [seen]})["name"] == "Oslo"
    assert list(chain.stream(QUESTION))[-1]["name"] == "Oslo"
    (shown,) = seen.formats
    assert shown["schema"]["title"] == schema.__name__
    assert shown["kwargs"] == {"method": method}


@pytest.mark.parametrize("method", [None, "function_calling", "json_schema", "json_mode"])
def test_a_dataclass_has_an_instance(make_model: MakeModel, method: Any) -> None:
    chain = make_model().with_structured_output(Town, method)
    town = Town(name="Oslo", people=700000)
    assert chain.invoke(QUESTION) == town
    assert list(chain.stream(QUESTION))[-1] == town


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_tracers_see_the_fields_of_a_dataclass(
    make_model: MakeModel, method: Any, recwarn: pytest.WarningsRecorder
) -> None:
    @dataclass
    class Trip:
        """A trip."""

        name: str
        stops: list[str] = field(default_factory=list)

    seen = Seen()
    chain = make_model().with_structured_output(Trip, method=method)
    assert chain.invoke(QUESTION, {"callbacks": [seen]})
    (shown,) = seen.formats
    assert [*shown["schema"]["properties"]] == ["name", "stops"]
    assert shown["schema"]["title"] == "Trip"
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("function_calling", {"calls": [("Town", {"name": "Oslo"})]}),
        ("json_schema", {"text": '{"name": "Oslo"}'}),
    ],
)
def test_a_dataclass_without_a_field_is_an_error(
    make_model: MakeModel, emulator: Emulator, method: Any, reply: dict[str, Any]
) -> None:
    chain = make_model().with_structured_output(Town, method, include_raw=True)
    emulator.reply(**reply)
    found = chain.invoke(QUESTION)
    assert found["parsed"] is None
    assert isinstance(found["parsing_error"], OutputParserException)
    assert "Town'>: 1 validation error" in str(found["parsing_error"])


def test_a_required_property_needs_no_schema(make_model: MakeModel, emulator: Emulator) -> None:
    """The API rejects a schema that requires a property without describing it."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["size"]}
    emulator.reply('{"name": "Oslo", "size": 7}')
    chain = make_model().with_structured_output(schema, method="json_schema")
    assert chain.invoke(QUESTION) == {"name": "Oslo", "size": 7}
    expected = {**schema, "properties": {"name": {"type": "string"}, "size": {}}}
    assert emulator.requests[0].body["generationConfig"]["responseJsonSchema"] == expected


@pytest.mark.parametrize("title", [{}, {"title": "City"}], ids=["without a title", "with a title"])
def test_an_object_may_be_null(
    make_model: MakeModel, emulator: Emulator, title: dict[str, str]
) -> None:
    seen = Seen()
    schema = {**SCHEMA, **title, "type": ["object", "null"]}
    chain = make_model().with_structured_output(schema, method="json_schema")
    emulator.reply("null")
    assert chain.invoke(QUESTION, {"callbacks": [seen]}) is None
    assert chain.invoke(QUESTION) == {"name": "Oslo"}
    sent = emulator.last.body["generationConfig"]["responseJsonSchema"]
    assert sent["type"] == ["object", "null"]
    (shown,) = seen.formats
    assert shown["schema"]["title"] == title.get("title", "answer")


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
@pytest.mark.parametrize("given", SPECIFICATIONS.values(), ids=SPECIFICATIONS)
def test_the_schema_in_a_specification_is_sent_as_the_format(
    make_model: MakeModel, emulator: Emulator, given: dict[str, Any], method: Any
) -> None:
    answer = make_model().with_structured_output(given, method=method).invoke(QUESTION)
    assert answer == {"name": "Oslo"}
    assert emulator.last.body["generationConfig"]["responseJsonSchema"] == SENT


@pytest.mark.parametrize("given", SPECIFICATIONS.values(), ids=SPECIFICATIONS)
def test_a_specification_is_called_by_default(
    make_model: MakeModel, emulator: Emulator, given: dict[str, Any]
) -> None:
    assert make_model().with_structured_output(given).invoke(QUESTION) == {"name": "Oslo"}
    (tool,) = emulator.last.body["tools"]
    (declared,) = tool["functionDeclarations"]
    assert (declared["name"], declared["parametersJsonSchema"]) == ("City", SENT)


@pytest.mark.parametrize("schema", [SCHEMA, Cities], ids=["without a title", "a list"])
def test_what_cannot_be_a_function_is_json_output_by_default(
    make_model: MakeModel, emulator: Emulator, schema: Any
) -> None:
    assert make_model().with_structured_output(schema).invoke(QUESTION)
    assert "tools" not in emulator.last.body
    assert "responseJsonSchema" in emulator.last.body["generationConfig"]
    with pytest.raises(InvalidToolError):
        make_model().with_structured_output(schema, method="function_calling")


class Endless(BaseModel):
    """A value that contains another one."""

    inner: Endless


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_a_class_that_has_no_finite_value_is_rejected(make_model: MakeModel, method: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"Endless.* requires itself without end. Make it"):
        make_model().with_structured_output(Endless, method)


def test_json_mode_sends_a_schema_that_is_there(make_model: MakeModel, emulator: Emulator) -> None:
    chain = make_model().with_structured_output(City, method="json_mode")
    assert chain.invoke(QUESTION) == City(name="Oslo", people=700000)
    sent = emulator.last.body["generationConfig"]
    assert sent["responseMimeType"] == "application/json"
    assert set(sent["responseJsonSchema"]["properties"]) == {"name", "people"}
    make_model().with_structured_output(method="json_mode").invoke("[1]")
    assert emulator.last.body["generationConfig"] == {"responseMimeType": "application/json"}


WITHOUT_A_CALL: dict[str, tuple[dict[str, Any], str]] = {
    "only thoughts": (
        {"parts": [{"text": "Hm.", "thought": True}], "finish_reason": "MAX_TOKENS"},
        "MAX_TOKENS and without a call of 'City'",
    ),
    "a text": (
        {"parts": [{"text": "A fine city."}]},
        "STOP and without a call of 'City': A fine city.",
    ),
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("schema", [City, City.model_json_schema()], ids=["class", "dict"])
@pytest.mark.parametrize("kind", WITHOUT_A_CALL)
async def test_an_answer_without_the_forced_call_is_an_error(
    make_model: MakeModel, emulator: Emulator, kind: str, schema: Any, way: str
) -> None:
    scripted, shown = WITHOUT_A_CALL[kind]
    model = make_model(on_malformed="return")
    emulator.reply(**scripted)
    with pytest.raises(OutputParserException, match=shown) as raised:
        await answers(model.with_structured_output(schema), way)
    assert raised.value.llm_output == ("A fine city." if kind == "a text" else "")
    emulator.reply(**scripted)
    answer = _added(await answers(model.with_structured_output(schema, include_raw=True), way))
    assert set(answer) == {"raw", "parsed", "parsing_error"}
    assert answer["parsed"] is None
    assert shown in str(answer["parsing_error"])


def test_a_stream_with_raw_gives_the_answer_as_it_comes(make_model: MakeModel) -> None:
    chain = make_model().with_structured_output(City, "json_schema", include_raw=True)
    *pieces, end = chain.stream(QUESTION)
    assert len(pieces) > 1
    assert all(set(piece) == {"raw"} for piece in pieces)
    assert dict(end) == {"parsed": City(name="Oslo", people=700000), "parsing_error": None}


def _added(pieces: list[Any]) -> Any:
    return functools.reduce(operator.add, pieces)


async def answers(chain: Any, way: str) -> list[Any]:
    match way:
        case "invoke":
            return [chain.invoke(QUESTION)]
        case "ainvoke":
            return [await chain.ainvoke(QUESTION)]
        case "stream":
            return list(chain.stream(QUESTION))
        case _:
            return [answer async for answer in chain.astream(QUESTION)]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("disable_streaming", [False, True])
async def test_a_call_is_read_however_it_comes(
    make_model: MakeModel, way: str, disable_streaming: bool
) -> None:
    model = make_model(disable_streaming=disable_streaming)
    city = City(name="Oslo", people=700000)
    assert await answers(model.with_structured_output(City), way) == [city]
    answer = _added(await answers(model.with_structured_output(City, include_raw=True), way))
    assert (answer["parsed"], answer["parsing_error"]) == (city, None)


@pytest.mark.parametrize(
    ("schema", "method", "reason"),
    [
        pytest.param(
            {"googleSearch": {}}, "function_calling", "is not a schema", id="a builtin tool"
        ),
        pytest.param(
            {"what": "ever"}, "json_schema", "it has no keyword that Gemini knows", id="other keys"
        ),
        pytest.param(
            {"name": "f"},
            "json_schema",
            "named 'f' without parameters, not a schema",
            id="only a name",
        ),
    ],
)
def test_a_schema_without_content_is_rejected(schema: Any, method: Any, reason: str) -> None:
    with pytest.raises(InvalidToolError, match=reason):
        ChatGemini(model="gemini-3.8-flash").with_structured_output(schema, method=method)


def test_the_other_name_of_a_schema_is_taken(make_model: MakeModel, emulator: Emulator) -> None:
    make_model().invoke(QUESTION, response_json_schema=SCHEMA)
    assert emulator.last.body["generationConfig"]["responseJsonSchema"] == SENT


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_it_works_in_another_process(method: Any, include_raw: bool, make_model: MakeModel) -> None:
    structured = make_model().with_structured_output(City, method=method, include_raw=include_raw)
    copied = pickle.loads(pickle.dumps(structured))
    copied = type(copied)(first=structured.first, last=copied.last)  # pickles carry no key
    output = copied.invoke(QUESTION)
    assert (output["parsed"] if include_raw else output) == City(name="Oslo", people=700000)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


CITY_SENT = {
    "type": "object",
    "description": "A city.",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
PLAIN_TYPES: dict[str, tuple[Any, dict[str, Any], str, Any]] = {
    "a list of a class": (
        list[City],
        {"type": "array", "items": CITY_SENT},
        '[{"name": "Oslo", "people": 7}]',
        [City(name="Oslo", people=7)],
    ),
    "an enum": (Color, {"type": "string", "enum": ["red", "blue"]}, '"blue"', Color.BLUE),
    "a literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, '"a"', "a"),
    "a union": (
        int | City,
        {"anyOf": [{"type": "integer"}, CITY_SENT]},
        '{"name": "Oslo", "people": 7}',
        City(name="Oslo", people=7),
    ),
    "an alias": (
        TypeAliasType("Place", int | City),
        {"anyOf": [{"type": "integer"}, CITY_SENT]},
        '{"name": "Oslo", "people": 7}',
        City(name="Oslo", people=7),
    ),
    "a new type": (NewType("Age", int), {"type": "integer"}, "7", 7),
    "a mapping": (
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        '{"a": 1}',
        {"a": 1},
    ),
    "a date": (date, {"type": "string", "format": "date"}, '"2026-11-18"', date(2026, 11, 18)),
}


@pytest.mark.parametrize("way", ["invoke", "stream", "raw"])
@pytest.mark.parametrize("name", PLAIN_TYPES)
def test_a_type_without_fields_is_json_output(
    name: str, way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    schema, sent, reply, expected = PLAIN_TYPES[name]
    emulator.reply(reply)
    structured = make_model().with_structured_output(schema, include_raw=way == "raw")
    *_, output = structured.stream(QUESTION) if way == "stream" else [structured.invoke(QUESTION)]
    assert (output["parsed"] if way == "raw" else output) == expected
    config = emulator.requests[-1].body["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseJsonSchema": sent}


def test_json_of_another_type_is_an_error(emulator: Emulator, make_model: MakeModel) -> None:
    emulator.reply('["Oslo"]')
    with pytest.raises(OutputParserException, match=r"not of type list\[int\]") as raised:
        make_model().with_structured_output(list[int]).invoke(QUESTION)
    assert raised.value.llm_output == '["Oslo"]'


def test_a_type_without_fields_cannot_be_a_tool(make_model: MakeModel) -> None:
    with pytest.raises(InvalidToolError, match=r"list\[int\] is not an object.*'json_schema'"):
        make_model().with_structured_output(list[int], method="function_calling")


def test_a_type_that_json_cannot_express_is_rejected(make_model: MakeModel) -> None:
    with pytest.raises(InvalidToolError, match="is not a schema"):
        make_model().with_structured_output(type("Opaque", (), {}))
