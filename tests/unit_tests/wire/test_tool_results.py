from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_gemini_tools.wire.tool_results import split_result
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    Json,
    calling,
    contents,
    result,
    tool_call,
)

ASK = HumanMessage("Look!")
PNG = "iVBORw0KGgo="


def answered(content: Any, model: str = GEMINI_3, **fields: Any) -> list[Json]:
    """The parts that answer a call with this result."""
    messages = [ASK, calling(tool_call("a")), result("a", content, **fields)]
    return [part for content in contents(messages, model)[2:] for part in content["parts"]]


def response(value: Json, **fields: Any) -> Json:
    return {"functionResponse": {"id": "a", "name": "search", "response": value, **fields}}


@pytest.mark.parametrize(
    ("content", "value"),
    [
        pytest.param("sunny", "sunny", id="text"),
        pytest.param("", "", id="nothing"),
        pytest.param("null", "null", id="null"),
        pytest.param("true", "true", id="true"),
        pytest.param("NaN", "NaN", id="NaN"),
        pytest.param("12345678901234567890", "12345678901234567890", id="twenty digits"),
        pytest.param('"quoted"', '"quoted"', id="a JSON text"),
        pytest.param('{"t": 21, "ok": null}', {"t": 21, "ok": None}, id="a JSON object"),
        pytest.param('[1, "two", {}]', [1, "two", {}], id="a JSON array"),
        pytest.param("[]", [], id="an empty JSON array"),
        pytest.param(
            '[{"type": "text", "text": "a", "id": "1"}]',
            [{"type": "text", "text": "a", "id": "1"}],
            id="objects of the tool's own that look like blocks",
        ),
        pytest.param(
            '[{"type": "text", "text": "{\\"t\\": 21}", "id": "lc_1"}]',
            {"t": 21},
            id="LangChain's blocks, dumped by a classic agent",
        ),
        pytest.param(' \n{"t": 21}\n', {"t": 21}, id="a JSON object with space around"),
        pytest.param("{not json}", "{not json}", id="text that begins like JSON"),
        pytest.param('{"t": 21} and more', '{"t": 21} and more', id="JSON and more"),
        pytest.param("[" * 5000, "[" * 5000, id="brackets"),
        pytest.param("[" * 1000 + "]" * 1000, "[" * 1000 + "]" * 1000, id="a thousand levels"),
        pytest.param('{"a":' * 110 + "1" + "}" * 110, '{"a":' * 110 + "1" + "}" * 110, id="deep"),
        pytest.param("[" * 90 + "]" * 90, json.loads("[" * 90 + "]" * 90), id="ninety levels"),
        pytest.param(f"[{'[],' * 200}1]", json.loads(f"[{'[],' * 200}1]"), id="wide, not deep"),
        pytest.param(
            '{"id": 12345678901234567890, "small": -9007199254740992, "x": 1e999, "y": NaN}',
            {"id": "12345678901234567890", "small": -9007199254740992, "x": "1e999", "y": "NaN"},
            id="numbers that a double cannot hold",
        ),
        pytest.param([], "", id="no blocks"),
        pytest.param(["a", "b"], "a\nb", id="a list of texts"),
        pytest.param(
            [{"type": "text", "text": "a", "annotations": None}, "b"], "a\nb", id="text blocks"
        ),
        pytest.param([{"type": "text", "text": '{"t": 21}'}], {"t": 21}, id="JSON in a block"),
        pytest.param([{"t": 21}, {"t": 22}], [{"t": 21}, {"t": 22}], id="objects"),
        pytest.param(["a", {"t": 22}], ["a", {"t": 22}], id="texts and objects"),
        pytest.param([{"type": "json", "json": {"t": 21}}], {"t": 21}, id="a JSON block"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"t": 22}], 'a\n{"t": 22}', id="blocks and objects"
        ),
        pytest.param(
            [{"type": "search_result", "title": "T"}],
            {"type": "search_result", "title": "T"},
            id="a block that is no medium",
        ),
        pytest.param(
            [{"type": "file", "path": "/a"}, {"type": "file", "path": "/b"}],
            '{"type": "file", "path": "/a"}\n{"type": "file", "path": "/b"}',
            id="objects of the tool's own that look like media",
        ),
        pytest.param([{"type": "text-plain", "text": "a page"}], "a page", id="a plain text file"),
    ],
)
def test_a_result_is_sent_as_what_it_is(content: Any, value: Any) -> None:
    assert answered(content) == [response({"output": value})]
    assert answered(content, GEMINI_2) == [response({"output": value})]
    assert answered(content, status="error") == [response({"error": value})]


def test_what_is_not_for_the_model_is_not_sent() -> None:
    fields: Json = {"artifact": {"rows": [1]}, "additional_kwargs": {"name": "other", "lc_data": 1}}
    assert answered("x", name="other", **fields) == [response({"output": "x"})]


IMAGE = {"type": "image", "base64": PNG, "mime_type": "image/png"}
AUDIO = {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}
PDF = {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}
LINK = {"type": "image", "url": "https://example.com/a.png"}

DUMPED = json.dumps([{**IMAGE, "id": "lc_1"}])

IMAGE_PART = {"inlineData": {"mimeType": "image/png", "data": PNG}}
AUDIO_PART = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
PDF_PART = {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}}
LINK_PART = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}}
FILES = {"text": "Files returned by search (call a):"}


@pytest.mark.parametrize(
    ("content", "model", "parts"),
    [
        pytest.param(
            [{"type": "text", "text": "a chart"}, IMAGE, PDF],
            GEMINI_3,
            [response({"output": "a chart"}, parts=[IMAGE_PART, PDF_PART])],
            id="inside the response on 3",
        ),
        pytest.param(
            [IMAGE],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="alone on 3",
        ),
        pytest.param(
            DUMPED,
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="dumped by a classic agent",
        ),
        pytest.param(
            [{"type": "text", "text": "a chart"}, IMAGE, PDF],
            GEMINI_2,
            [response({"output": "a chart"}), FILES, IMAGE_PART, PDF_PART],
            id="after the response on 2",
        ),
        pytest.param(
            [AUDIO],
            GEMINI_3,
            [response({"output": "1 file(s), see below."}), FILES, AUDIO_PART],
            id="of a type that responses do not take",
        ),
        pytest.param(
            [{"type": "text", "text": "t"}, LINK],
            GEMINI_3,
            [response({"output": "t"}), FILES, LINK_PART],
            id="by URL",
        ),
        pytest.param(
            [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="as OpenAI writes it",
        ),
        pytest.param(
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                }
            ],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="as Anthropic writes it",
        ),
    ],
)
def test_media_are_placed_where_the_model_accepts_them(
    content: Any, model: str, parts: list[Json]
) -> None:
    assert answered(content, model) == parts


def test_text_and_media_are_set_apart_in_order() -> None:
    text: Json = {"type": "text", "text": "a"}
    page: Json = {"type": "text-plain", "text": "b"}
    split = split_result([text, IMAGE, page, PDF, {"type": "json", "json": {"t": 21}}])
    assert (split.text, split.media) == ('a\nb\n{"t": 21}', [IMAGE, PDF])


def test_the_text_of_a_result_is_not_changed_by_its_value() -> None:
    split = split_result(' {"t":21}')
    assert (split.text, split.value, split.media) == (' {"t":21}', {"t": 21}, [])


def test_objects_that_are_not_blocks_are_one_value() -> None:
    split = split_result([{"t": 21}, {"t": 22}])
    assert (split.text, split.value) == ('[{"t": 21}, {"t": 22}]', [{"t": 21}, {"t": 22}])


def test_media_follow_all_responses_of_the_turn() -> None:
    messages = [
        ASK,
        calling(tool_call("a"), tool_call("b")),
        result("a", [IMAGE]),
        result("b", "x"),
        HumanMessage("Well?"),
    ]
    sent = contents(messages, GEMINI_2)[2:]
    assert [[next(iter(part)) for part in content["parts"]] for content in sent] == [
        ["functionResponse", "functionResponse"],
        ["text", "inlineData"],
        ["text"],
    ]
