from __future__ import annotations

from typing import Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from pydantic import BaseModel, ValidationError

from langchain_gemini_tools.structured_output import json_parser, tools_parser


class City(BaseModel):
    name: str
    people: int = 0


OSLO = '{"name": "Oslo", "people": 7}'
CUT = OSLO[:15]
every_schema = pytest.mark.parametrize(
    "schema", [City, City.model_json_schema()], ids=["pydantic", "json-schema"]
)


@every_schema
@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "STOP"])
@pytest.mark.parametrize(
    "cut", [CUT, OSLO[:-1], f"```json\n{CUT}", f"Here:\n```\n{OSLO[:-1]}\n```", "I do not know."]
)
def test_json_that_was_cut_is_not_completed(schema: Any, reason: str, cut: str) -> None:
    answer = AIMessage(cut, response_metadata={"finish_reason": reason})
    with pytest.raises(OutputParserException, match=f"ended with {reason} and without complete J"):
        json_parser(schema).invoke(answer)


@every_schema
@pytest.mark.parametrize("reason", ["MAX_TOKENS", "STOP"])
def test_a_stream_of_json_that_was_cut_ends_with_an_error(schema: Any, reason: str) -> None:
    ending = AIMessageChunk(content="", response_metadata={"finish_reason": reason})
    objects = json_parser(schema).transform(iter([AIMessageChunk(content=CUT), ending]))
    with pytest.raises(OutputParserException, match=reason):
        list(objects)


@every_schema
@pytest.mark.parametrize(
    "ending",
    [
        {"finish_reason": "SAFETY"},
        {"finish_reason": "RECITATION"},
        {"finish_reason": "NEVER_SEEN", "model_provider": "google_genai"},
        {"finish_reason": "STOP", "block_reason": "PROHIBITED_CONTENT"},
    ],
)
def test_whole_json_of_a_response_that_was_withheld_is_not_used(schema: Any, ending: Any) -> None:
    answer = AIMessage(OSLO, response_metadata=ending)
    reason = ending.get("block_reason") or ending["finish_reason"]
    with pytest.raises(OutputParserException, match=f"{reason}.*is not used"):
        json_parser(schema).invoke(answer)
    pieces = [AIMessageChunk(content=OSLO), AIMessageChunk(content="", response_metadata=ending)]
    with pytest.raises(OutputParserException, match=f"{reason}.*is not used"):
        list(json_parser(schema).transform(iter(pieces)))


@every_schema
@pytest.mark.parametrize("reason", ["MAX_TOKENS", "STOP", "length", "end_turn", "a word of others"])
def test_an_object_with_closed_brackets_is_whole_after_a_limit(schema: Any, reason: str) -> None:
    answer = AIMessage(OSLO, response_metadata={"finish_reason": reason})
    assert dict(json_parser(schema).invoke(answer)) == {"name": "Oslo", "people": 7}


def test_a_number_before_a_limit_may_go_on() -> None:
    cut = AIMessage("12", response_metadata={"finish_reason": "MAX_TOKENS"})
    with pytest.raises(OutputParserException, match=r"MAX_TOKENS.*is not used: 12"):
        json_parser(int).invoke(cut)
    whole = AIMessage("12", response_metadata={"finish_reason": "STOP"})
    assert json_parser(int).invoke(whole) == 12


@every_schema
def test_json_without_a_reason_has_to_be_whole_as_well(schema: Any) -> None:
    with pytest.raises(OutputParserException):
        json_parser(schema).invoke(AIMessage(CUT))


@every_schema
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{OSLO}\n```",
        f"Here it is:\n```json\n{OSLO}\n```\nAnything else?",
        f"```\n{OSLO}",
        f"{OSLO}\n\nAnything else?",
        f"\n  {OSLO}  ",
    ],
)
def test_whole_json_may_stand_in_a_fence_or_before_other_text(schema: Any, text: str) -> None:
    answer = AIMessage(text, response_metadata={"finish_reason": "STOP"})
    assert dict(json_parser(schema).invoke(answer)) == {"name": "Oslo", "people": 7}


@every_schema
def test_a_line_break_inside_of_a_json_text_is_taken(schema: Any) -> None:
    found = json_parser(schema).invoke(AIMessage('{"name": "Os\nlo", "people": 7}'))
    assert dict(found) == {"name": "Os\nlo", "people": 7}


@every_schema
def test_a_stream_shows_json_as_it_grows(schema: Any) -> None:
    pieces = [AIMessageChunk(content=OSLO[:-2]), AIMessageChunk(content=OSLO[-2:])]
    ending = AIMessageChunk(content="", response_metadata={"finish_reason": "STOP"})
    objects = list(json_parser(schema).transform(iter([*pieces, ending])))
    assert dict(objects[-1]) == {"name": "Oslo", "people": 7}


def test_a_stream_of_json_that_does_not_fit_its_class_ends_with_an_error() -> None:
    ending = AIMessageChunk(content="{}", response_metadata={"finish_reason": "STOP"})
    with pytest.raises(OutputParserException, match="name"):
        list(json_parser(City).transform(iter([ending])))


@every_schema
@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS"])
def test_json_too_deep_to_read_is_an_answer_that_cannot_be_parsed(schema: Any, reason: str) -> None:
    text = "[" * 100_000
    parser = json_parser(schema)
    answer = AIMessage(text, response_metadata={"finish_reason": reason})
    with pytest.raises(OutputParserException) as raised:
        parser.invoke(answer)
    assert raised.value.llm_output == text
    with pytest.raises(OutputParserException):
        list(parser.transform(iter([AIMessageChunk(content=text)])))


@every_schema
@pytest.mark.parametrize("metadata", [{}, {"finish_reason": "STOP"}, {"finish_reason": "NEW"}])
def test_whole_json_is_read_whatever_it_ended_with(schema: Any, metadata: Any) -> None:
    found = json_parser(schema).invoke(AIMessage(OSLO, response_metadata=metadata))
    assert dict(found) == {"name": "Oslo", "people": 7}


@every_schema
def test_a_call_that_cannot_be_read_is_named(schema: Any) -> None:
    call = {"type": "invalid_tool_call", "name": "City", "args": "{", "id": "1", "error": "Cut."}
    answer = AIMessage("", invalid_tool_calls=[call])
    with pytest.raises(OutputParserException, match="its call of 'City' is invalid: Cut"):
        tools_parser(schema, "City").invoke(answer)


def test_a_stream_of_a_call_that_does_not_fit_its_class_ends_with_an_error() -> None:
    call = tool_call_chunk(name="City", args="{}", id="1", index=0)
    chunk = AIMessageChunk(content="", tool_call_chunks=[call])
    ending = AIMessageChunk(content="", response_metadata={"finish_reason": "STOP"})
    with pytest.raises(ValidationError):
        list(tools_parser(City, "City").transform(iter([chunk, ending])))
