"""Long histories, whose start is encoded before their end is known, and large files."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidInputError
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    SKIP,
    Json,
    call,
    calling,
    contents,
    model,
    repairs,
    response,
    result,
    sent,
    tool_call,
    user,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

ASK = HumanMessage("Look!")
SIGNATURES = "__gemini_function_call_thought_signatures__"
COUNTS = [1, 15, 16, 17, 31, 32, 33, 100]


def turns(count: int, signed: bool = True) -> list[BaseMessage]:
    return [
        message
        for number in range(count)
        for message in (
            calling(
                tool_call(f"call_{number}"),
                additional_kwargs={SIGNATURES: {f"call_{number}": "c2ln"}} if signed else {},
            ),
            result(f"call_{number}", f"result {number}"),
        )
    ]


def rendered(count: int, sign: str = "c2ln") -> list[Json]:
    return [
        content
        for number in range(count)
        for content in (
            model(call(f"call_{number}", sign=sign)),
            user(response(f"call_{number}", f"result {number}")),
        )
    ]


@pytest.mark.parametrize("count", COUNTS)
def test_every_turn_is_sent_in_its_place(count: int) -> None:
    assert contents([ASK, *turns(count)]) == [user("Look!"), *rendered(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_all_calls_since_the_last_user_text_are_signed(count: int) -> None:
    unsigned = [ASK, *turns(count, signed=False)]
    assert contents(unsigned) == [user("Look!"), *rendered(count, SKIP)]
    assert contents(unsigned, GEMINI_2) == [user("Look!"), *rendered(count, "")]


def test_a_repeated_call_is_signed_again() -> None:
    again = [calling(tool_call("a", q=1)), result("a")]
    assert contents([ASK, *again, *again]) == [
        user("Look!"),
        *[model(call("a", sign=SKIP, q=1)), user(response("a", "found"))] * 2,
    ]


@pytest.mark.parametrize("count", COUNTS)
def test_calls_of_older_turns_are_unchanged(count: int) -> None:
    messages = [ASK, *turns(count, signed=False), HumanMessage("And?"), *turns(count, signed=False)]
    older, current = rendered(count, ""), rendered(count, SKIP)
    assert contents(messages) == [user("Look!"), *older, user("And?"), *current]


@pytest.mark.parametrize("count", COUNTS)
def test_a_late_result_is_moved_to_its_call(count: int) -> None:
    late = result("first", "late")
    messages = [ASK, calling(tool_call("first")), ASK, *turns(count), late]
    assert contents(messages)[1:4] == [
        model(call("first")),
        user(response("first", "late")),
        user("Look!"),
    ]
    assert contents(messages)[4:] == rendered(count)
    assert repairs(messages) == [("late_result", len(messages) - 1)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_call_without_a_result_gets_an_error_in_its_place(count: int) -> None:
    messages = [ASK, calling(tool_call("first")), ASK, *turns(count)]
    assert repairs(messages) == [("unanswered_call", 1)]
    assert contents(messages)[4:] == rendered(count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["gemini-3.8-flash", "gemini-3.5-flash-lite"])
def test_user_texts_are_added_at_both_ends(count: int, name: str) -> None:
    messages = [*turns(count), AIMessage("Done.")]
    found = contents(messages, name)
    assert found[0] == user("(The beginning of this conversation was left out.)")
    assert found[-2:] == [model("Done."), user("(Continue.)")]
    assert repairs(messages, name) == [("starts_with_model", 0), ("ends_with_model", 2 * count)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
def test_a_last_model_turn_is_sent_where_models_continue_it(count: int, name: str) -> None:
    messages = [*turns(count), AIMessage("Done.")]
    assert contents(messages, name)[-1] == model("Done.")
    assert repairs(messages, name) == [("starts_with_model", 0)]


def test_repairs_are_in_the_order_of_the_messages() -> None:
    messages = [
        calling(tool_call("open")),
        ASK,
        AIMessage(""),
        ASK,
        ASK,
        *turns(2),
        result("lost"),
        AIMessage("Done."),
    ]
    found = [repair.position for repair in ChatGemini(model=GEMINI_3).preview(messages).repairs]
    assert found == sorted(found)
    assert repairs(messages)[0] == ("starts_with_model", 0)


def test_an_echoed_call_without_a_name_is_not_a_call_of_the_message() -> None:
    echoed = {"type": "gemini_part", "part": {"functionCall": {"id": "a"}}}
    message = calling(tool_call("a"), content=[echoed])
    body = ChatGemini(model=GEMINI_3).preview([ASK, message, result("a")]).body
    assert {"id": "a"} in [part["functionCall"] for part in body["contents"][1]["parts"]]
    assert response("a", "found") in body["contents"][2]["parts"]


def test_system_text_precedes_the_note_about_a_trimmed_start() -> None:
    messages = [SystemMessage("Be brief."), *turns(40)]
    body = sent(messages, convert_system_message_to_human=True)
    assert body["contents"] == [
        user("Be brief.", "(The beginning of this conversation was left out.)"),
        *rendered(40),
    ]


# Large files

LARGE = "QUJD-_+/" * 400_000
SMALL = "QUJDRA=="


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


def test_a_large_file_of_a_tool_is_sent_inside_its_response() -> None:
    inside = [part["functionResponse"]["parts"] for part in answered(GEMINI_3)]
    assert inside == [[inline(LARGE)], [inline(SMALL)]]


def test_a_large_file_of_a_tool_is_sent_after_the_responses() -> None:
    files = [part for part in answered(GEMINI_2) if "inlineData" in part]
    assert files == [inline(LARGE), inline(SMALL)]


def test_a_generated_file_is_sent_back_and_the_message_is_unchanged() -> None:
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


def test_a_part_that_contains_itself_is_rejected() -> None:
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
def test_data_that_is_not_base64_is_encoded_like_any_text(data: str) -> None:
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
def test_memory_for_large_messages(messages: list[Any], copies: float) -> None:
    model = ChatGemini(model=GEMINI_3)
    size = len(model.preview(messages).encoded)
    tracemalloc.start()
    model.preview(messages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < copies * size
