from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GEMINI_2,
    GEMINI_3,
    ask,
    call,
    model,
    refusal_of,
    refused,
    response,
    user,
    why_refused,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Backend


SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def nothing(backend: Backend) -> Ask:
    empty = ask(backend=backend)
    return Ask({}, empty.model, backend)


def test_contents_have_to_be_there() -> None:
    assert refusal_of(nothing("gemini")).body == refused(
        "* GenerateContentRequest.contents: contents is not specified\n"
    )
    assert "at least one contents field is required" in refusal_of(nothing("vertex")).message


def test_parts_have_to_be_there() -> None:
    assert refusal_of(ask(user())).body == refused(
        "* GenerateContentRequest.contents[0].parts: contents.parts must not be empty.\n"
    )
    assert refusal_of(ask(user(), backend="vertex")).body == refused(
        "Unable to submit request because it must include at least one parts field, which "
        "describes the prompt input. Learn more: "
        "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
    )


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({}, id="empty"),
        pytest.param({"thoughtSignature": "AAAA"}, id="signature-alone"),
        pytest.param({"partMetadata": {"a": 1}}, id="metadata-alone"),
    ],
)
def test_a_part_without_data_is_rejected(part: dict[str, Any]) -> None:
    assert refusal_of(ask(user("a"), model("b", part), user("c"))).body == refused(
        "* GenerateContentRequest.contents[1].parts[1].data: "
        "required oneof field 'data' must have one initialized field\n"
    )


def test_an_empty_text_is_a_part() -> None:
    assert why_refused(ask(user(""))) is None
    assert why_refused(ask(user("a"), model(""), user("b"))) is None


@pytest.mark.parametrize("role", ["function", "tool", "system", "assistant", ""])
def test_other_roles_are_rejected(role: str) -> None:
    contents = [user("a"), {"role": role, "parts": [{"text": "b"}]}]
    assert refusal_of(ask(*contents)).body == refused(
        f"Role '{role}' is not supported. Please use a valid role: SYSTEM, USER, ASSISTANT, "
        "DEVELOPER, CONTEXT, USER_CONTEXT, MODEL."
    )
    assert refusal_of(ask(*contents, backend="vertex")).body == refused(
        "Please use a valid role: user, model."
    )


def test_a_response_may_have_the_role_function_on_the_developer_api() -> None:
    answered = {"role": "function", "parts": [response()]}
    assert why_refused(ask(user("a"), model(call(signature=SKIP)), answered)) is None


@pytest.mark.parametrize(
    "mime_type", ["image/png", "application/pdf", "audio/x-wav", "video/mp4", "text/csv"]
)
def test_media_that_pass(mime_type: str) -> None:
    assert why_refused(ask(user({"inlineData": {"mimeType": mime_type, "data": "AAAA"}}))) is None


@pytest.mark.parametrize(
    "mime_type", ["application/zip", "application/json", "image/tiff", "image/jpg"]
)
def test_media_that_do_not(mime_type: str) -> None:
    part = {"inlineData": {"mimeType": mime_type, "data": "AAAA"}}
    assert refusal_of(ask(user(part))).body == refused(f"Unsupported MIME type: {mime_type}")
    assert (
        f"with value {mime_type}, which is not"
        in refusal_of(ask(user(part), backend="vertex")).message
    )


def answered_with(medium: dict[str, Any], name: str) -> Ask:
    return ask(user("a"), model(call(signature=SKIP)), user(response(parts=[medium])), model=name)


def test_media_inside_a_response_came_with_gemini_3() -> None:
    chart = {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "chart"}}
    check(answered_with(chart, GEMINI_3))
    refusal = refusal_of(answered_with(chart, GEMINI_2))
    assert refusal.body == refused(CATCH_ALL)
    assert "came with Gemini 3" in refusal.why


def test_a_function_response_accepts_fewer_media_types_than_a_turn() -> None:
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    assert refusal_of(answered_with(sound, GEMINI_3)).body == refused(
        "Unsupported MIME type: audio/wav"
    )


@pytest.mark.parametrize(
    "uri",
    ["file:///a.png", "http://localhost/a.png", "https://10.0.0.1/a.png", "https://", "a.png"],
)
def test_an_address_that_google_cannot_reach_is_rejected(uri: str) -> None:
    part = {"fileData": {"fileUri": uri, "mimeType": "image/png"}}
    assert refusal_of(ask(user(part))).body == refused(
        "Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible "
        "by Vertex AI."
    )


@pytest.mark.parametrize("uri", ["gs://b/a.png", "https://example.com/a.png", "files/abc-1"])
def test_an_address_that_google_can_reach_is_taken(uri: str) -> None:
    assert why_refused(ask(user({"fileData": {"fileUri": uri, "mimeType": "image/png"}}))) is None


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
    assert why_refused(ask(*contents, model=GEMINI_2)) is None


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
    assert why_refused(ask(user("a"), model("b"), model=name)) is None


def test_2_0_accepts_a_call_without_a_result() -> None:
    assert why_refused(ask(user("a"), model(call()), user("b"), model="gemini-2.0-flash")) is None


def test_server_side_mcp_answers_in_the_models_turn() -> None:
    tools = [{"mcpServers": [{"name": "weather"}]}]
    assert (
        why_refused(
            ask(user("a"), model(call(), response(), "b"), user("c"), model=GEMINI_2, tools=tools)
        )
        is None
    )
