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
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.models import Backend

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
    check(ask(user("")))
    check(ask(user("a"), model(""), user("b")))


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
    check(ask(user("a"), model(call(signature=SKIP)), answered))


@pytest.mark.parametrize(
    "mime_type", ["image/png", "application/pdf", "audio/x-wav", "video/mp4", "text/csv"]
)
def test_media_that_pass(mime_type: str) -> None:
    check(ask(user({"inlineData": {"mimeType": mime_type, "data": "AAAA"}})))


@pytest.mark.parametrize("mime_type", ["application/zip", "application/json", "image/tiff"])
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
    check(ask(user({"fileData": {"fileUri": uri, "mimeType": "image/png"}})))
