from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.errors import (
    BlockedError,
    EmptyResponseError,
    MalformedToolCallError,
    ResponseError,
    TruncatedStreamError,
)
from tests.unit_tests.wire.replying import (
    CONTEXT,
    MODEL,
    USAGE,
    Json,
    call,
    chunks,
    event,
    parse,
    reply,
    stream,
    text,
)

ANSWERS = ["STOP", "MAX_TOKENS", "CONTINUATION", "FINISH_REASON_UNSPECIFIED"]
WITHHELD = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "MODEL_ARMOR",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "A_REASON_OF_TOMORROW",
]
FAILED = ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"]
REFUSED = ["UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"]


def ended(reason: str, *parts: Json) -> Json:
    return reply(parts, finishReason=reason, finishMessage="Because.")


@pytest.mark.parametrize("reason", ANSWERS + WITHHELD)
def test_text_is_an_answer_whatever_ended_it(reason: str) -> None:
    for message in (parse(ended(reason, text("So far"))), stream([ended(reason, text("So far"))])):
        assert message.content == "So far"
        assert message.response_metadata["finish_reason"] == reason
        assert message.response_metadata["finish_message"] == "Because."


@pytest.mark.parametrize("reason", ANSWERS)
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([], id="no parts"),
        pytest.param([text("")], id="empty text"),
        pytest.param([{}], id="empty part"),
        pytest.param([text("hm", thought=True)], id="only thoughts"),
    ],
)
def test_an_empty_answer_says_that_it_is_empty(reason: str, parts: list[Json]) -> None:
    for message in (parse(ended(reason, *parts)), stream([ended(reason, *parts)])):
        assert message.response_metadata["empty_response"] is True


@pytest.mark.parametrize("reason", WITHHELD)
def test_an_answer_that_was_withheld_is_an_error_naming_the_reason(reason: str) -> None:
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(BlockedError, match=rf"withheld \({reason}: Because\.\)") as error:
            read(ended(reason))
        assert error.value.finish_reason == reason
        assert error.value.finish_message == "Because."


@pytest.mark.parametrize("reason", FAILED + REFUSED)
def test_a_call_that_failed_is_never_an_answer(reason: str) -> None:
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(MalformedToolCallError, match=f"{reason}: Because.") as error:
            read(ended(reason))
        assert error.value.is_retryable


@pytest.mark.parametrize("reason", FAILED)
def test_what_stands_beside_a_failed_call_is_kept_but_not_to_be_executed(reason: str) -> None:
    with pytest.raises(MalformedToolCallError) as error:
        parse(ended(reason, text("Let me see."), call("a", city="Oslo")))
    partial = error.value.partial
    assert partial is not None
    assert (partial.content, partial.tool_calls) == ("Let me see.", [])
    (found,) = partial.invalid_tool_calls
    assert (found["id"], found["args"]) == ("a", '{"city": "Oslo"}')


@pytest.mark.parametrize("reason", REFUSED)
def test_a_call_that_the_api_doubts_is_handed_over_with_its_reason(reason: str) -> None:
    message = parse(ended(reason, call("a", "unheard_of", sign="U0lH")))
    assert [found["name"] for found in message.tool_calls] == ["unheard_of"]
    assert message.response_metadata["finish_reason"] == reason


@pytest.mark.parametrize(
    ("feedback", "words"),
    [
        pytest.param({"blockReason": "SAFETY"}, "The prompt was blocked: SAFETY.", id="a reason"),
        pytest.param(
            {"blockReason": "OTHER", "blockReasonMessage": "No."},
            r"The prompt was blocked: OTHER \(No\.\)\.",
            id="a reason and its words",
        ),
    ],
)
def test_a_blocked_prompt_is_an_error_naming_the_reason(feedback: Json, words: str) -> None:
    body: Json = {"promptFeedback": feedback, "usageMetadata": USAGE}
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(BlockedError, match=words):
            read(body)


def test_a_reply_without_candidates_and_reason_is_empty() -> None:
    bodies: list[Json] = [{}, {"candidates": []}, {"candidates": None, "promptFeedback": {}}]
    for body in bodies:
        with pytest.raises(EmptyResponseError):
            parse(body)


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([], id="nothing"),
        pytest.param([event(text("It is"))], id="in the text"),
        pytest.param([event(call("a"))], id="after a complete call"),
    ],
)
def test_a_stream_without_a_finish_reason_is_cut(bodies: list[Json]) -> None:
    with pytest.raises(TruncatedStreamError):
        stream(bodies)


def test_a_cut_stream_keeps_what_had_arrived() -> None:
    with pytest.raises(TruncatedStreamError) as error:
        stream([event(text("It is")), event(call("a"))])
    assert error.value.partial is not None
    assert error.value.partial.content == "It is"
    assert error.value.partial.tool_calls == []


# Metadata


def test_metadata_is_everything_the_api_told() -> None:
    body = reply(
        [text("a")],
        finishMessage="Done.",
        safetyRatings=[{"category": "C", "probability": "LOW"}],
        avgLogprobs=-0.5,
        tomorrow={"newField": None},
    )
    body |= {"createTime": "now", "modelStatus": None}
    assert parse(body).response_metadata == {
        "model_provider": "google_genai",
        "vertexai": False,
        "model_name": MODEL,
        "finish_reason": "STOP",
        "finish_message": "Done.",
        "safety_ratings": [{"category": "C", "probability": "LOW"}],
        "avg_logprobs": -0.5,
        "tomorrow": {"newField": None},
        "response_id": "r1",
        "create_time": "now",
        "raw_usage": USAGE,
    }


def test_the_model_is_the_one_asked_where_the_reply_names_none() -> None:
    body = reply([text("a")])
    del body["modelVersion"]
    assert parse(body).response_metadata["model_name"] == CONTEXT.model


def test_fields_that_every_event_repeats_are_told_once() -> None:
    repeated = {"modelVersion": MODEL, "responseId": "r1"}
    bodies = [{**event(text(part)), **repeated} for part in "abc"]
    *middle, last = chunks([*bodies, reply([])])
    assert [chunk.response_metadata for chunk in middle] == [{"model_provider": "google_genai"}] * 3
    assert last.response_metadata["finish_reason"] == "STOP"
    assert last.chunk_position == "last"


def test_grounding_becomes_citations() -> None:
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A", "domain": None}}],
        "groundingSupports": [
            {
                "segment": {"startIndex": 0, "endIndex": 5, "text": "Sunny"},
                "groundingChunkIndices": [0],
            }
        ],
        "webSearchQueries": ["weather"],
    }
    for message in (
        parse(reply([text("Sunny")], groundingMetadata=grounding)),
        stream([event(text("Sunny")), reply([], groundingMetadata=grounding)]),
    ):
        (found,) = message.content_blocks
        assert found["type"] == "text"
        (citation,) = found["annotations"]
        assert citation["type"] == "citation"
        assert (citation["url"], citation["cited_text"]) == ("https://a", "Sunny")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"finishReason": ["STOP"]}, id="finish reason"),
        pytest.param({"groundingMetadata": 5}, id="grounding"),
        pytest.param({"finishMessage": {"a": 1}}, id="finish message"),
    ],
)
def test_fields_of_other_types_spoil_nothing(fields: dict[str, Any]) -> None:
    assert parse(reply([text("a")], **fields)).content == "a"


def test_a_feedback_of_another_type_is_no_reason() -> None:
    assert parse({**reply([text("a")]), "promptFeedback": "fine"}).content == "a"
    with pytest.raises(ResponseError):
        parse({"promptFeedback": ["bad"]})


def telling(said: str, **fields: Any) -> Json:
    """An event in the middle of a stream, with more fields of the candidate."""
    body = event(text(said))
    body["candidates"][0] |= fields
    return body


def test_citations_of_all_events_are_kept() -> None:
    """Each event tells those of its own text; an event that repeats the earlier ones adds none."""
    a, b, c = ({"startIndex": n, "uri": f"https://example.com/{n}"} for n in range(3))
    events = [
        telling("A", citationMetadata={"citationSources": [a]}),
        telling("B", citationMetadata={"citationSources": [b]}),
        telling("C", citationMetadata={"citationSources": [a, b, c]}),
        reply([text("")], citationMetadata={}),
    ]
    assert stream(events).response_metadata["citation_metadata"] == {"citationSources": [a, b, c]}


def test_log_probabilities_of_all_events_are_kept() -> None:
    first, second = [{"token": "A"}], [{"token": "A"}, {"token": "B"}]
    events = [
        telling("A", logprobsResult={"chosenCandidates": [{"token": "I"}]}),
        reply([text("B")], logprobsResult={"chosenCandidates": first + second}),
    ]
    assert stream(events).response_metadata["logprobs_result"] == {
        "chosenCandidates": [{"token": "I"}, *first, *second]
    }


def test_an_empty_field_takes_nothing_back() -> None:
    """Recorded streams send `groundingMetadata: {}` with the events that have none."""
    found = {"webSearchQueries": ["oslo"], "searchEntryPoint": {"renderedContent": "<b>"}}
    events = [
        telling("A", groundingMetadata={}, safetyRatings=[{"category": "X"}]),
        telling("B", groundingMetadata={"webSearchQueries": ["oslo"]}),
        telling("C", groundingMetadata={"searchEntryPoint": {"renderedContent": "<b>"}}),
        reply([text("")], groundingMetadata={}, safetyRatings=[]),
    ]
    told = stream(events).response_metadata
    assert told["safety_ratings"] == [{"category": "X"}]
    assert told["grounding_metadata"] == {
        "web_search_queries": found["webSearchQueries"],
        "search_entry_point": {"rendered_content": "<b>"},
    }
