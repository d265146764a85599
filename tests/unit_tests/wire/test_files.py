from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidInputError
from tests.unit_tests.wire.asking import GEMINI_2, GEMINI_3, Json, calling, result, sent, tool_call

LARGE = "QUJD-_+/" * 400_000
SMALL = "QUJDRA=="
ASK = HumanMessage("Look!")


def image(data: str, **fields: Any) -> Json:
    return {"type": "image", "base64": data, "mime_type": "image/png", **fields}


def inline(data: str) -> Json:
    return {"inlineData": {"mimeType": "image/png", "data": data}}


def test_large_and_small_files_are_sent_in_their_places() -> None:
    text: Any = {"type": "text", "text": "One."}
    said = [text, image(LARGE), image(SMALL), image(LARGE[8:])]
    body = sent([HumanMessage(said), AIMessage("Nice."), HumanMessage([image(LARGE[16:])])])
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "One."}, *map(inline, (LARGE, SMALL, LARGE[8:]))]},
        {"role": "model", "parts": [{"text": "Nice."}]},
        {"role": "user", "parts": [inline(LARGE[16:])]},
    ]


def answered(model: str) -> list[Json]:
    """What is sent after two tools have returned a file each."""
    answers = [result("a", [image(LARGE)]), result("b", [image(SMALL)])]
    body = sent([ASK, calling(tool_call("a"), tool_call("b")), *answers], model)
    return body["contents"][-1]["parts"]  # type: ignore[no-any-return]


def test_a_large_file_of_a_tool_is_sent_inside_of_its_response() -> None:
    inside = [part["functionResponse"]["parts"] for part in answered(GEMINI_3)]
    assert inside == [[inline(LARGE)], [inline(SMALL)]]


def test_a_large_file_of_a_tool_is_sent_behind_the_responses() -> None:
    files = [part for part in answered(GEMINI_2) if "inlineData" in part]
    assert files == [inline(LARGE), inline(SMALL)]


def test_a_file_that_the_model_made_goes_back_and_the_message_stays_as_it_was() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": LARGE}, "newField": 1}
    made = AIMessage([{"type": "gemini_part", "part": part}])
    body = ChatGemini(model=GEMINI_3).preview([ASK, made, ASK]).body
    assert body["contents"][1]["parts"] == [part]
    assert made.content == [{"type": "gemini_part", "part": {**inline(LARGE), "newField": 1}}]


@pytest.mark.parametrize(
    "part",
    [
        {"functionResponse": None},
        {"functionResponse": {"parts": [None, LARGE, inline(SMALL)]}},
        {"functionResponse": [1]},
        {"functionResponse": 5},
        {"inlineData": None},
        {"inlineData": {"data": 1}},
        {"inlineData": {"data": LARGE}, "functionResponse": {"parts": [inline(LARGE)]}},
    ],
    ids=lambda part: str(part)[:40],
)
def test_a_part_that_is_echoed_may_have_any_shape(part: Json) -> None:
    made = AIMessage([{"type": "gemini_part", "part": part}])
    body = ChatGemini(model=GEMINI_3).preview([ASK, made, ASK]).body
    assert body["contents"][1]["parts"] == [part]


def test_a_part_that_contains_itself_is_refused() -> None:
    part: Json = {"functionResponse": {"parts": []}}
    part["functionResponse"]["parts"].append(part)
    made = AIMessage("")
    made.content = [{"type": "gemini_part", "part": part}]
    with pytest.raises(InvalidInputError, match="contains itself"):
        ChatGemini(model=GEMINI_3).preview([ASK, made, ASK])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(LARGE + '"', id="quote"),
        pytest.param(LARGE + "\\", id="backslash"),
        pytest.param(LARGE + "\0", id="null"),
        pytest.param(LARGE + "\u00e9", id="accent"),
        pytest.param(LARGE + "\ud83d\ude00", id="two halves of a character"),
    ],
)
def test_what_is_no_base64_is_written_as_any_text(data: str) -> None:
    body = ChatGemini(model=GEMINI_3).preview([HumanMessage([image(data)])]).body
    whole = data.encode("utf-16", "surrogatepass").decode("utf-16")
    assert body["contents"][0]["parts"] == [inline(whole)]


TEXT = "hello \u00e9 " * 400_000


@pytest.mark.parametrize(
    ("messages", "copies"),
    [
        pytest.param([HumanMessage([image(LARGE)])], 1.8, id="file in a message"),
        pytest.param(
            [ASK, calling(tool_call("a")), result("a", [image(LARGE)])], 1.8, id="file in a result"
        ),
        pytest.param([HumanMessage([image(LARGE + "\0")])], 3.2, id="broken base64"),
        pytest.param([HumanMessage(TEXT)], 3.2, id="text"),
        pytest.param([HumanMessage([{"type": "text", "text": TEXT}])], 3.2, id="text in a block"),
        pytest.param([SystemMessage(TEXT), ASK], 3.2, id="text of the system"),
        pytest.param([ASK, calling(tool_call("a")), result("a", TEXT)], 3.2, id="text in a result"),
        pytest.param(
            [ASK, calling(tool_call("a")), result("a", json.dumps({"page": [TEXT]}))],
            5.2,
            id="JSON in a result",
        ),
    ],
)
def test_memory_for_what_is_large(messages: list[Any], copies: float) -> None:
    model = ChatGemini(model=GEMINI_3)
    size = len(model.preview(messages).encoded)
    tracemalloc.start()
    model.preview(messages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < copies * size
