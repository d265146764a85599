from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidInputError, InvalidOptionError
from tests.unit_tests.wire.requests import GEMINI_2, GEMINI_3, Json, calling, sent, tool_call, user

ASK = HumanMessage("Look!")


class Place(BaseModel):
    city: str = "Oslo"


@dataclasses.dataclass
class Point:
    x: int = 1


class Colour(enum.Enum):
    RED = "red"


class Scalar:
    """Has its value as numpy's scalars have theirs."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def tolist(self) -> Any:
        return self._value


def argument(value: Any) -> Any:
    """A value in a call's arguments, as it reaches the wire."""
    body = ChatGemini(model=GEMINI_2).preview([ASK, calling(tool_call("a", v=value)), ASK]).body
    return body["contents"][1]["parts"][0]["functionCall"]["args"]["v"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({"a": [1, None, True, "x"]}, {"a": [1, None, True, "x"]}, id="JSON"),
        pytest.param((1, 2), [1, 2], id="tuple"),
        pytest.param({2, 1}, [1, 2], id="set"),
        pytest.param(float("nan"), "nan", id="NaN"),
        pytest.param(1e999, "inf", id="infinity"),
        pytest.param([-1e999, {"a": float("nan")}], ["-inf", {"a": "nan"}], id="NaN, nested"),
        pytest.param(Place(), {"city": "Oslo"}, id="pydantic"),
        pytest.param([Place(), float("nan")], [{"city": "Oslo"}, "nan"], id="pydantic beside NaN"),
        pytest.param(Point(), {"x": 1}, id="dataclass"),
        pytest.param(Colour.RED, "red", id="enum"),
        pytest.param(dt.date(2026, 1, 2), "2026-01-02", id="date"),
        pytest.param(dt.time(1, 2), "01:02:00", id="time"),
        pytest.param(Decimal("1.10"), "1.10", id="decimal"),
        pytest.param(Decimal(5), 5, id="whole decimal"),
        pytest.param(uuid.UUID(int=1), str(uuid.UUID(int=1)), id="uuid"),
        pytest.param(Scalar(3), 3, id="numpy scalar"),
        pytest.param(Scalar([1.5, float("nan")]), [1.5, "nan"], id="numpy array"),
        pytest.param(
            {1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}, id="JSON's keys"
        ),
        pytest.param(
            {Colour.RED: 1, dt.date(2026, 1, 2): 2, Scalar(3): 3, 1.5: 4},
            {"red": 1, "2026-01-02": 2, "3": 3, "1.5": 4},
            id="other keys",
        ),
        pytest.param(12345678901234567890, 12345678901234567890, id="twenty digits"),
        pytest.param("\ud83d\ude00", "\U0001f600", id="two halves of a character"),
        pytest.param("a\ud800b", "a\ufffdb", id="half of a character"),
    ],
)
def test_values_are_written_as_json(value: Any, written: Any) -> None:
    assert argument(value) == written


def cyclic(*more: Any) -> list[Any]:
    value: list[Any] = [*more]
    value.append(value)
    return value


def deep(*more: Any) -> list[Any]:
    value: list[Any] = [*more]
    for _ in range(10_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(b"abc", "3 raw bytes", id="bytes"),
        pytest.param([bytearray(b"abc"), float("nan")], "3 raw bytes", id="bytes beside NaN"),
        pytest.param(object(), "of type object", id="object"),
        pytest.param(len, "builtin_function", id="function"),
        pytest.param(Place, "contains a class", id="pydantic class"),
        pytest.param(Point, "contains a class", id="dataclass class"),
        pytest.param(1j, "of type complex", id="complex"),
        pytest.param({(1, 2): 3}, "a key of type tuple", id="tuple as key"),
        pytest.param({b"a": 3}, "raw bytes", id="bytes as key"),
        pytest.param(10**5000, "cannot be written as JSON", id="five thousand digits"),
        pytest.param(cyclic(), "contains itself", id="cycle"),
        pytest.param(cyclic(float("nan")), "too deeply", id="cycle beside NaN"),
        pytest.param(deep(), "too deeply", id="deep"),
        pytest.param(deep(float("nan")), "too deeply", id="deep, with NaN"),
    ],
)
def test_values_that_cannot_be_written_as_json_are_rejected(value: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        argument(value)


@pytest.mark.parametrize(
    ("key", "written"), [(1, "1"), (None, "null"), (True, "true"), (2.5, "2.5")]
)
def test_a_field_of_extra_body_may_have_any_key_that_json_has_a_form_for(
    key: Any, written: str
) -> None:
    body = ChatGemini(model=GEMINI_3).preview([ASK], extra_body={key: 2}).body
    assert body == {"contents": [user("Look!")], written: 2}


def test_a_request_shows_its_body() -> None:
    assert "'text': 'Look!'" in repr(ChatGemini(model=GEMINI_3).preview([ASK]))


def test_equal_input_gives_an_equal_request() -> None:
    messages = [
        SystemMessage("A"),
        ASK,
        calling(tool_call(None)),
        ToolMessage("x", tool_call_id=""),
    ]
    assert sent(messages) == sent(messages)


def test_an_ordinary_request_has_nothing_empty_in_it() -> None:
    assert sent([ASK]) == {"contents": [user("Look!")]}


# System messages that go elsewhere


def test_a_model_without_system_instructions_gets_them_as_the_first_text() -> None:
    body = sent([SystemMessage("Be brief."), ASK, SystemMessage("B")], "gemma-3-27b-it")
    assert body == {"contents": [user("Be brief.", "B", "Look!")]}


def test_system_messages_can_be_sent_as_the_users() -> None:
    messages = [AIMessage("Hi"), SystemMessage("Be brief."), ASK]
    body = sent(messages, convert_system_message_to_human=True)
    assert body["contents"][0] == user(
        "Be brief.", "(The beginning of this conversation was left out.)"
    )


# Fields and combinations


def search(query: str) -> str:
    """Search."""
    return query


def test_fields_of_tomorrow_are_merged_into_the_body() -> None:
    extra = {"generationConfig": {"newField": {"a": 1}}, "somethingNew": [1]}
    chat = ChatGemini(model=GEMINI_3, temperature=0.5, extra_body=extra)
    body: Json = dict(chat.preview("Look!").body)
    assert body == {
        "contents": [user("Look!")],
        "generationConfig": {"temperature": 0.5, "newField": {"a": 1}},
        "somethingNew": [1],
    }
    assert extra["generationConfig"] == {"newField": {"a": 1}}


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        pytest.param(
            GEMINI_2,
            {"tools": [search], "response_mime_type": "application/json"},
            r"JSON output with bound tools \(search\)\. Use ToolStrategy or method=",
            id="JSON beside functions on 2",
        ),
        pytest.param(
            GEMINI_2,
            {"tools": [{"google_search": {}}], "response_mime_type": "application/json"},
            r"JSON output with bound tools \(googleSearch\)\. Request the JSON without them",
            id="JSON beside built-in tools on 2",
        ),
        pytest.param(
            GEMINI_3,
            {"tools": [{"google_maps": {}}], "response_mime_type": "application/json"},
            "Developer API does not support JSON output beside google_maps. .*'responseFormat'",
            id="JSON beside Google Maps",
        ),
        pytest.param(
            GEMINI_3,
            {"tools": [search], "cached_content": "cachedContents/1"},
            r"'cachedContents/1' cannot have tools: .*with_context_cache\(.*leave cached_content",
            id="tools beside a cache",
        ),
        pytest.param(
            GEMINI_3,
            {"tools": [search], "extra_body": {"cachedContent": "cachedContents/1"}},
            "must be part of the cache",
            id="tools beside a cache of extra_body",
        ),
        pytest.param(
            "gemma-3-27b-it",
            {"tools": [search], "tool_calling": "native"},
            "does not accept tools. Functions are described in the prompt",
            id="tools for Gemma",
        ),
    ],
)
def test_combinations_that_the_api_rejects_are_not_sent(
    model: str, options: Json, words: str
) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        sent([ASK], model, **options)


def test_json_beside_google_maps_is_sent_to_vertex_ai() -> None:
    model = ChatGemini(model=GEMINI_3, vertexai=True, project="p")
    options: Json = {"tools": [{"google_maps": {}}], "response_mime_type": "application/json"}
    assert model.preview([ASK], **options).body["tools"] == [{"googleMaps": {}}]


def test_the_newer_field_for_json_is_sent_beside_google_maps() -> None:
    config: Json = {"responseFormat": {"text": {"mimeType": "APPLICATION_JSON", "schema": {}}}}
    body = sent([ASK], tools=[{"google_maps": {}}], generation_config=config)
    assert body["generationConfig"] == config


def test_json_beside_functions_is_sent_to_3() -> None:
    body = sent([ASK], tools=[search], response_mime_type="application/json")
    assert body["generationConfig"] == {"responseMimeType": "application/json"}
    assert [tool["name"] for tool in body["tools"][0]["functionDeclarations"]] == ["search"]


def test_a_cache_is_named_and_labels_go_to_both_backends() -> None:
    assert sent([ASK], cached_content="cachedContents/1")["cachedContent"] == "cachedContents/1"
    for vertexai in (False, True):
        chat = ChatGemini(model=GEMINI_3, vertexai=vertexai, project="p", labels={"a": "b"})
        assert chat.preview("Look!").body["labels"] == {"a": "b"}


SEARCH: Json = {"googleSearch": {}}
FUNCTION: Json = {"name": "f", "description": "F."}


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        ([SEARCH], [{"functionDeclarations": [FUNCTION]}, SEARCH]),
        (
            [{"function_declarations": [{"name": "g"}], "google_search": {}}],
            [{"functionDeclarations": [FUNCTION, {"name": "g"}]}, SEARCH],
        ),
        (
            [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}],
            [{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}],
        ),
        ([], [{"functionDeclarations": [FUNCTION]}]),
    ],
)
def test_tools_of_extra_body_join_the_bound_ones(more: list[Json], sent: list[Json]) -> None:
    bound = ChatGemini(model=GEMINI_3).bind_tools([FUNCTION])
    assert bound.preview("Hi", extra_body={"tools": more}).body["tools"] == sent


def test_extra_body_may_use_either_spelling_of_a_field() -> None:
    chat = ChatGemini(model=GEMINI_3, temperature=0.5)
    body = chat.preview("Hi", extra_body={"generation_config": {"topK": 1}}).body
    assert body["generationConfig"] == {"temperature": 0.5, "topK": 1}
    assert "generation_config" not in body
