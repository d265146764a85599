"""Histories so long that their beginning is written before their end is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_gemini_tools import ChatGemini
from tests.unit_tests.wire.asking import (
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
def test_all_calls_since_the_user_last_spoke_are_signed(count: int) -> None:
    unsigned = [ASK, *turns(count, signed=False)]
    assert contents(unsigned) == [user("Look!"), *rendered(count, SKIP)]
    assert contents(unsigned, GEMINI_2) == [user("Look!"), *rendered(count, "")]


def test_a_call_that_is_made_again_word_for_word_is_signed_again() -> None:
    again = [calling(tool_call("a", q=1)), result("a")]
    assert contents([ASK, *again, *again]) == [
        user("Look!"),
        *[model(call("a", sign=SKIP, q=1)), user(response("a", "found"))] * 2,
    ]


@pytest.mark.parametrize("count", COUNTS)
def test_calls_of_older_turns_are_left_alone(count: int) -> None:
    messages = [ASK, *turns(count, signed=False), HumanMessage("And?"), *turns(count, signed=False)]
    *older, last = rendered(count, "")
    spoken = {"role": "user", "parts": [*last["parts"], {"text": "And?"}]}
    assert contents(messages) == [user("Look!"), *older, spoken, *rendered(count, SKIP)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_result_finds_its_call_however_late_it_comes(count: int) -> None:
    late = result("first", "late")
    messages = [ASK, calling(tool_call("first")), ASK, *turns(count), late]
    assert contents(messages)[1:3] == [
        model(call("first")),
        user(response("first", "late"), "Look!"),
    ]
    assert contents(messages)[3:] == rendered(count)
    assert repairs(messages) == [("late_result", len(messages) - 1)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_call_that_is_never_answered_is_answered_in_its_place(count: int) -> None:
    messages = [ASK, calling(tool_call("first")), ASK, *turns(count)]
    assert repairs(messages) == [("unanswered_call", 1)]
    assert contents(messages)[3:] == rendered(count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", [GEMINI_3, GEMINI_2])
def test_both_ends_are_filled(count: int, name: str) -> None:
    messages = [*turns(count), AIMessage("Done.")]
    found = contents(messages, name)
    assert found[0] == user("(The beginning of this conversation was left out.)")
    assert found[-2:] == [model("Done."), user("(Continue.)")]
    assert repairs(messages) == [("starts_with_model", 0), ("ends_with_model", 2 * count)]


def test_repairs_are_told_in_the_order_of_the_messages() -> None:
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


def test_an_echoed_call_without_a_name_is_no_call_of_the_message() -> None:
    echoed = {"type": "gemini_part", "part": {"functionCall": {"id": "a"}}}
    message = calling(tool_call("a"), content=[echoed])
    body = ChatGemini(model=GEMINI_3).preview([ASK, message, result("a")]).body
    assert {"id": "a"} in [part["functionCall"] for part in body["contents"][1]["parts"]]
    assert response("a", "found") in body["contents"][2]["parts"]


def test_what_a_system_message_says_precedes_the_word_about_a_lost_beginning() -> None:
    messages = [SystemMessage("Be brief."), *turns(40)]
    body = sent(messages, convert_system_message_to_human=True)
    assert body["contents"] == [
        user("Be brief.", "(The beginning of this conversation was left out.)"),
        *rendered(40),
    ]
