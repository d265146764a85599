from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GEMINI_2,
    ask,
    call,
    model,
    refusal_of,
    refused,
    response,
    user,
)

CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
RESPONSE_ORDER = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param([user("a"), model(call()), user(response())], id="one-call"),
        pytest.param(
            [user("a"), model("Let me see.", call()), user(response(), "And?")], id="with-texts"
        ),
        pytest.param(
            [user("a"), model(call("f")), model(call("g")), user(response("f"), response("g"))],
            id="calls-in-two-contents",
        ),
        pytest.param(
            [user("a"), model(call("f"), call("g")), user(response("f")), user(response("g"))],
            id="responses-in-two-contents",
        ),
        pytest.param(
            [user("a"), model(call()), user(response()), model(call()), user(response())],
            id="two-steps",
        ),
        pytest.param([user("a"), model(call(id="1")), user(response())], id="as-the-sdk-answers"),
        pytest.param([user("a"), user("b"), model("c"), model("d"), user("e")], id="double-turns"),
        pytest.param(
            [
                user("a"),
                model(call("f", id="1"), call("g", id="2")),
                user(response("g", id="2"), response("f", id="1")),
            ],
            id="ids-in-another-order",
        ),
    ],
)
def test_turns_that_are_in_order(contents: list[dict[str, Any]]) -> None:
    check(ask(*contents, model=GEMINI_2))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        pytest.param([model(call()), user(response())], CALL_ORDER, id="starts-with-a-call"),
        pytest.param(
            [user("a"), model("b"), model(call()), user(response())],
            CALL_ORDER,
            id="text-and-call-in-two-contents",
        ),
        pytest.param([user(call())], CALL_ORDER, id="call-of-the-user"),
        pytest.param([user(response())], RESPONSE_ORDER, id="starts-with-a-response"),
        pytest.param(
            [user("a"), model("b"), user(response())], RESPONSE_ORDER, id="response-to-a-text"
        ),
        pytest.param(
            [user("a"), model(call()), user("b", response())],
            RESPONSE_ORDER,
            id="text-before-the-response",
        ),
        pytest.param(
            [user("a"), model(response()), user("b")], RESPONSE_ORDER, id="response-of-the-model"
        ),
        pytest.param([user("a"), model(call()), user("b")], COUNT, id="unanswered"),
        pytest.param([user("a"), model(call(), call()), user(response())], COUNT, id="one-of-two"),
        pytest.param([user("a"), model(call()), user(response(), response())], COUNT, id="twice"),
        pytest.param(
            [user("a"), model(call()), user(response(""))],
            "* GenerateContentRequest.contents[2].parts[0].function_response.name: "
            "Name cannot be empty.\n",
            id="response-without-name",
        ),
        pytest.param([user("a"), model(call("f")), user(response("g"))], CATCH_ALL, id="name"),
        pytest.param(
            [user("a"), model(call("f"), call("g")), user(response("g"), response("f"))],
            CATCH_ALL,
            id="another-order-without-ids",
        ),
        pytest.param(
            [user("a"), model(call(id="1")), user(response(id="2"))], CATCH_ALL, id="another-id"
        ),
        pytest.param(
            [user("a"), model(call()), user(response(id="1"))], CATCH_ALL, id="id-of-no-call"
        ),
        pytest.param(
            [user("a"), model(call(id="1"), call(id="2")), user(response(id="1"), response())],
            CATCH_ALL,
            id="one-id-missing",
        ),
        pytest.param(
            [
                user("a"),
                model(call(id="1"), call(id="1")),
                user(response(id="1"), response(id="1")),
            ],
            CATCH_ALL,
            id="the-same-id-twice",
        ),
        pytest.param([user("a"), model(call())], CATCH_ALL, id="ends-with-a-call"),
        pytest.param(
            [user("a"), model(call()), user(response(willContinue=True))], CATCH_ALL, id="live-only"
        ),
    ],
)
def test_turns_that_are_not(contents: list[dict[str, Any]], message: str) -> None:
    assert refusal_of(ask(*contents, model=GEMINI_2)).body == refused(message)


@pytest.mark.parametrize("name", ["gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-4-argon"])
def test_newer_models_end_with_the_user(name: str) -> None:
    refusal = refusal_of(ask(user("a"), model("b"), model=name))
    assert refusal.body == refused("Requests ending with a model turn are not supported.")


@pytest.mark.parametrize("name", [GEMINI_2, "gemini-3-flash-preview", "gemini-3.5-flash"])
def test_older_models_go_on_with_their_own_turn(name: str) -> None:
    check(ask(user("a"), model("b"), model=name))


def test_2_0_accepts_a_call_without_a_result() -> None:
    check(ask(user("a"), model(call()), user("b"), model="gemini-2.0-flash"))


def test_server_side_mcp_answers_in_the_models_turn() -> None:
    tools = [{"mcpServers": [{"name": "weather"}]}]
    check(ask(user("a"), model(call(), response(), "b"), user("c"), model=GEMINI_2, tools=tools))
