from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import (
    BlockedError,
    EmptyResponseError,
    MalformedToolCallError,
    ResponseError,
    TruncatedResponseError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.finish_reasons import FINISH_REASONS
from langchain_gemini_tools.wire.metadata import parse_count, parse_grounding
from langchain_gemini_tools.wire.response import StreamParser
from tests.unit_tests.wire.responses import (
    CONTEXT,
    MODEL,
    USAGE,
    Json,
    call,
    chunks,
    event,
    one_by_one,
    parse,
    reply,
    stream,
    text,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

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
def test_text_is_returned_with_every_finish_reason_but_malformed_ones(reason: str) -> None:
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
def test_an_empty_response_is_marked(reason: str, parts: list[Json]) -> None:
    for message in (parse(ended(reason, *parts)), stream([ended(reason, *parts)])):
        assert message.response_metadata["empty_response"] is True


@pytest.mark.parametrize("reason", WITHHELD)
def test_a_withheld_response_is_an_error_with_the_reason(reason: str) -> None:
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(BlockedError, match=rf"withheld \({reason}: Because\.\)") as error:
            read(ended(reason))
        assert error.value.finish_reason == reason
        assert error.value.finish_message == "Because."


@pytest.mark.parametrize("reason", FAILED + REFUSED)
def test_a_failed_call_is_an_error(reason: str) -> None:
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(MalformedToolCallError, match=f"{reason}: Because.") as error:
            read(ended(reason))
        assert error.value.is_retryable


@pytest.mark.parametrize("reason", FAILED)
def test_calls_beside_a_failed_call_are_kept_but_cannot_be_executed(reason: str) -> None:
    with pytest.raises(MalformedToolCallError) as error:
        parse(ended(reason, text("Let me see."), call("a", city="Oslo")))
    partial = error.value.partial
    assert partial is not None
    assert (partial.content, partial.tool_calls) == ("Let me see.", [])
    (found,) = partial.invalid_tool_calls
    assert (found["id"], found["args"]) == ("a", '{"city": "Oslo"}')


UNRELEASED: dict[str | None, type[ResponseError]] = {
    **dict.fromkeys(FAILED + REFUSED, MalformedToolCallError),
    **dict.fromkeys(WITHHELD, BlockedError),
    **dict.fromkeys(["MAX_TOKENS", "CONTINUATION"], TruncatedResponseError),
    **dict.fromkeys(["FINISH_REASON_UNSPECIFIED", None], TruncatedResponseError),
}


def test_every_reason_of_gemini_but_stop_keeps_calls_from_being_executed() -> None:
    reasons = {name for name, row in FINISH_REASONS.items() if row.vendor == "gemini"}
    assert reasons - UNRELEASED.keys() == {"STOP"}


@pytest.mark.parametrize("reason", UNRELEASED)
def test_a_response_with_calls_that_is_not_complete_is_an_error(reason: str | None) -> None:
    body = reply([call("a", city="Oslo", sign="U0lH")], finishReason=reason)
    for read in (parse, lambda body: stream([body])) if reason else (parse,):
        with pytest.raises(UNRELEASED[reason], match=reason or "no finish reason") as error:
            read(body)
        assert error.value.finish_reason == reason
        partial = error.value.partial
        assert partial is not None
        assert partial.tool_calls == []
        assert [found["args"] for found in partial.invalid_tool_calls] == ['{"city": "Oslo"}']


RETURNING = replace(CONTEXT, returns_failures=True)


@pytest.mark.parametrize("reason", UNRELEASED)
def test_returned_calls_of_an_incomplete_response_are_invalid(reason: str | None) -> None:
    parts = [call("a", city="Oslo", sign="U0lH"), text("So"), call("b")]
    whole = parse(reply(parts, finishReason=reason), RETURNING)
    messages: list[AIMessage] = [whole]
    if reason:  # a stream without a reason was cut
        messages.append(stream(one_by_one(parts, finishReason=reason), RETURNING))
    for message in messages:
        assert (message.content, message.tool_calls) == ("So", [])
        assert message.response_metadata.get("finish_reason") == reason
        assert [(found["id"], found["args"]) for found in message.invalid_tool_calls] == [
            ("a", 'not executed]: {"city": "Oslo"}'),
            ("b", "not executed]: {}"),
        ]
        assert message.additional_kwargs == whole.additional_kwargs


def test_calls_of_a_blocked_prompt_are_an_error() -> None:
    body = reply([call("a")]) | {"promptFeedback": {"blockReason": "SAFETY"}}
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(BlockedError, match="The prompt was blocked: SAFETY"):
            read(body)


def test_a_returned_call_of_streamed_arguments_is_invalid_too() -> None:
    begun = {"name": "search", "id": "a", "willContinue": True}
    begun["partialArgs"] = [{"jsonPath": "$.n", "numberValue": 1}]
    ended_call = {"functionCall": {"id": "a"}}
    for reason, parts in (
        ("SAFETY", [{"functionCall": begun}, ended_call]),
        ("STOP", [{"functionCall": begun}]),  # cut
    ):
        message = stream(one_by_one(parts, finishReason=reason), RETURNING)
        assert message.tool_calls == []
        (found,) = message.invalid_tool_calls
        assert str(found["args"]).startswith('not executed]: {"n":1')


def test_pieces_of_arguments_are_streamed_and_the_end_decides() -> None:
    begun = {"name": "search", "id": "a", "willContinue": True}
    begun["partialArgs"] = [{"jsonPath": "$.n", "numberValue": 1}]
    parser = StreamParser(CONTEXT)
    assert len(parser.feed(event({"functionCall": begun}))) == 1
    parser.feed(reply([{"functionCall": {"id": "a"}}], finishReason="SAFETY"))
    with pytest.raises(BlockedError, match="SAFETY"):
        parser.finish()


def test_whole_calls_wait_for_the_end_and_text_does_not() -> None:
    parser = StreamParser(CONTEXT)
    assert parser.feed(event(call("a"))) == []
    assert [chunk.text for chunk in parser.feed(event(text("So")))] == ["So"]
    assert parser.feed(reply([call("b")])) == []
    calls, last = parser.finish()
    assert [found["id"] for found in calls.message.tool_calls] == ["a", "b"]  # type: ignore[attr-defined]
    assert last.message.response_metadata["finish_reason"] == "STOP"


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
def test_a_blocked_prompt_is_an_error_with_the_reason(feedback: Json, words: str) -> None:
    body: Json = {"promptFeedback": feedback, "usageMetadata": USAGE}
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(BlockedError, match=words):
            read(body)


def test_a_response_without_candidates_and_reason_is_empty() -> None:
    bodies: list[Json] = [{}, {"candidates": []}, {"candidates": None, "promptFeedback": {}}]
    for body in bodies:
        with pytest.raises(EmptyResponseError):
            parse(body)


@pytest.mark.parametrize("reason", ["SAFETY", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "TOMORROW"])
@pytest.mark.parametrize("later", [{"finishReason": "STOP", "finishMessage": "Fine."}, {}])
def test_a_response_that_has_failed_is_not_completed_by_a_later_event(
    reason: str, later: Json
) -> None:
    failed = {"content": {"parts": [call("a", city="Oslo")]}, "finishReason": reason}
    bodies = [{"candidates": [each]} for each in (failed, later)]
    with pytest.raises(ResponseError) as error:
        stream(bodies)
    assert error.value.finish_reason == reason
    message = stream(bodies, RETURNING)
    assert (message.tool_calls, len(message.invalid_tool_calls)) == ([], 1)
    assert message.response_metadata["finish_reason"] == reason


@pytest.mark.parametrize("reason", ["STOP", "FINISH_REASON_UNSPECIFIED", ""])
def test_a_reason_on_every_event_is_replaced_by_the_last_one(reason: str) -> None:
    """Gemini 1.5 wrote STOP on each; some gateways write an empty one."""
    bodies = [
        {"candidates": [{"content": {"parts": [text("Hi")]}, "finishReason": reason}]},
        reply([call("a", city="Oslo")]),
    ]
    assert [found["id"] for found in stream(bodies).tool_calls] == ["a"]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_field_in_our_spelling_does_not_replace_one_of_the_api(is_last: bool) -> None:
    body = reply([text("Hi")], finishReason="SAFETY")
    [candidate] = body["candidates"]
    ours = {"finish_reason": "STOP"}
    body["candidates"] = [{**candidate, **ours} if is_last else {**ours, **candidate}]
    assert parse(body).response_metadata["finish_reason"] == "SAFETY"


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([], id="nothing"),
        pytest.param([event(text("It is"))], id="in the text"),
        pytest.param([event(call("a"))], id="after a complete call"),
    ],
)
def test_a_stream_without_a_finish_reason_is_truncated(bodies: list[Json]) -> None:
    with pytest.raises(TruncatedStreamError):
        stream(bodies)


def test_a_truncated_stream_keeps_what_arrived() -> None:
    with pytest.raises(TruncatedStreamError) as error:
        stream([event(text("It is")), event(call("a"))])
    assert error.value.partial is not None
    assert error.value.partial.content == "It is"
    assert error.value.partial.tool_calls == []


# Metadata


def test_metadata_has_every_field_of_the_response() -> None:
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


def test_prompt_feedback_and_safety_ratings_are_spelled_like_the_rest() -> None:
    rating = {"category": "C", "probabilityScore": 0.5}
    body = reply([text("a")], safetyRatings=[rating])
    body["promptFeedback"] = {"blockReason": "SAFETY", "safetyRatings": [rating]}
    given = parse(body).response_metadata
    rated = [{"category": "C", "probability_score": 0.5}]
    assert given["safety_ratings"] == rated
    assert given["prompt_feedback"] == {"block_reason": "SAFETY", "safety_ratings": rated}
    assert given["block_reason"] == "SAFETY"


@pytest.mark.parametrize("reason", ["BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"])
def test_an_unspecified_block_reason_blocks_nothing(reason: str) -> None:
    body = reply([call("a", "weather", city="Oslo")])
    body["promptFeedback"] = {"blockReason": reason}
    message = parse(body)
    assert [each["name"] for each in message.tool_calls] == ["weather"]
    assert "block_reason" not in message.response_metadata


def test_places_of_maps_are_spelled_like_the_rest_and_cited() -> None:
    place = {"uri": "https://maps.example", "title": "Pippo", "placeId": "places/1"}
    grounding = {
        "groundingChunks": [{"maps": place}],
        "groundingSupports": [
            {"segment": {"endIndex": 5, "text": "Pippo"}, "groundingChunkIndices": [0]}
        ],
    }
    message = parse(reply([text("Pippo")], groundingMetadata=grounding))
    [chunk] = message.response_metadata["grounding_metadata"]["grounding_chunks"]
    assert chunk["maps"]["place_id"] == "places/1"
    [block] = message.content_blocks
    citations: Any = block["annotations"]  # type: ignore[typeddict-item]
    assert citations[0]["extras"]["google_ai_metadata"]["place_id"] == "places/1"


def test_the_requested_model_is_named_if_the_response_names_none() -> None:
    body = reply([text("a")])
    del body["modelVersion"]
    assert parse(body).response_metadata["model_name"] == CONTEXT.model


def test_fields_that_every_event_repeats_are_on_the_last_chunk_only() -> None:
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
def test_fields_of_other_types_are_tolerated(fields: dict[str, Any]) -> None:
    assert parse(reply([text("a")], **fields)).content == "a"


def test_feedback_of_another_type_is_not_a_block_reason() -> None:
    assert parse({**reply([text("a")]), "promptFeedback": "fine"}).content == "a"
    with pytest.raises(ResponseError):
        parse({"promptFeedback": ["bad"]})


def telling(said: str, **fields: Any) -> Json:
    """An event in the middle of a stream, with more fields of the candidate."""
    body = event(text(said))
    body["candidates"][0] |= fields
    return body


def test_citations_of_all_events_are_kept() -> None:
    """Each event has those of its own text; an event that repeats the earlier ones adds none."""
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


def test_an_empty_field_changes_nothing() -> None:
    """Recorded streams send `groundingMetadata: {}` with the events that have none."""
    found = {"webSearchQueries": ["oslo"], "searchEntryPoint": {"renderedContent": "<b>"}}
    events = [
        telling("A", groundingMetadata={}, safetyRatings=[{"category": "X"}]),
        telling("B", groundingMetadata={"webSearchQueries": ["oslo"]}),
        telling("C", groundingMetadata={"searchEntryPoint": {"renderedContent": "<b>"}}),
        reply([text("")], groundingMetadata={}, safetyRatings=[]),
    ]
    given = stream(events).response_metadata
    assert given["safety_ratings"] == [{"category": "X"}]
    assert given["grounding_metadata"] == {
        "web_search_queries": found["webSearchQueries"],
        "search_entry_point": {"rendered_content": "<b>"},
        **{key: [] for key in ("image_search_queries", "grounding_chunks", "grounding_supports")},
    }


# Token usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({}, None, id="empty"),
        pytest.param("many", None, id="no object"),
        pytest.param(
            {"promptTokenCount": 52, "candidatesTokenCount": 30, "totalTokenCount": 82},
            {"input_tokens": 52, "output_tokens": 30, "total_tokens": 82},
            id="the plain counts",
        ),
        pytest.param(
            {"promptTokenCount": 9},
            {"input_tokens": 9, "output_tokens": 0, "total_tokens": 9},
            id="the total is the sum if it is not given",
        ),
        pytest.param(
            {
                "promptTokenCount": 52,
                "candidatesTokenCount": 30,
                "thoughtsTokenCount": 190,
                "totalTokenCount": 272,
            },
            {
                "input_tokens": 52,
                "output_tokens": 220,
                "total_tokens": 272,
                "output_token_details": {"reasoning": 190},
            },
            id="thoughts are output",
        ),
        pytest.param(
            {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 100,
                "candidatesTokenCount": 1,
                "totalTokenCount": 111,
            },
            {
                "input_tokens": 110,
                "output_tokens": 1,
                "total_tokens": 111,
                "input_token_details": {"tool_use_prompt": 100},
            },
            id="what server tools added is input",
        ),
        pytest.param(
            {
                "promptTokenCount": 400,
                "cachedContentTokenCount": 0,
                "totalTokenCount": 400,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 100},
                    {"modality": "AUDIO", "tokenCount": 200},
                    {"modality": "AUDIO", "tokenCount": 50},
                    {"modality": "IMAGE", "tokenCount": 50},
                ],
                "candidatesTokensDetails": [{"modality": "AUDIO"}],
            },
            {
                "input_tokens": 400,
                "output_tokens": 0,
                "total_tokens": 400,
                "input_token_details": {"audio": 250, "image": 50, "cache_read": 0},
                "output_token_details": {"audio": 0},
            },
            id="modalities and cache",
        ),
        pytest.param(
            {
                "promptTokenCount": "7",
                "candidatesTokenCount": None,
                "thoughtsTokenCount": [1],
                "promptTokensDetails": 5,
                "candidatesTokensDetails": ["x", {"modality": None, "tokenCount": 3}],
            },
            {
                "input_tokens": 7,
                "output_tokens": 0,
                "total_tokens": 7,
                "output_token_details": {"reasoning": 0},
            },
            id="counts of other types",
        ),
    ],
)
def test_counts_are_in_langchains_form(usage: Any, expected: Any) -> None:
    body = {**reply([text("a")]), "usageMetadata": usage}
    assert parse(body).usage_metadata == expected
    assert stream([body]).usage_metadata == expected


def test_a_count_with_too_many_digits_is_ignored() -> None:
    body = {**reply([text("a")]), "usageMetadata": {"promptTokenCount": "9" * 5000}}
    assert parse(body).usage_metadata == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize(("given", "count"), [(3, 3), ("3", 3), (0, 0)])
def test_a_token_count_may_be_text(given: Any, count: int) -> None:
    assert parse_count({"totalTokens": given}) == count


def test_a_missing_count_is_zero() -> None:
    assert parse_count({}) == 0  # proto JSON leaves a zero out


@pytest.mark.parametrize("given", [None, "three", [3], {}, True, -1, "9" * 5000])
def test_an_invalid_count_is_an_error(given: Any) -> None:
    with pytest.raises(UnreadableResponseError, match="`totalTokens`"):
        parse_count({"totalTokens": given})


def test_a_stream_reports_the_last_value_of_each_count_once() -> None:
    first = {"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8}
    second = {"promptTokenCount": 7, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    message = stream(
        [
            {**event(text("a")), "usageMetadata": first},
            {**event(call("a")), "usageMetadata": second},
            {**reply([]), "usageMetadata": {"totalTokenCount": 14}},
        ]
    )
    assert message.usage_metadata == {
        "input_tokens": 7,
        "output_tokens": 7,
        "total_tokens": 14,
        "output_token_details": {"reasoning": 3},
    }


def test_a_count_that_is_null_later_keeps_its_value() -> None:
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8}
    message = stream(
        [
            {**event(text("a")), "usageMetadata": counts},
            {**reply([]), "usageMetadata": counts | {"promptTokenCount": None}},
        ]
    )
    assert message.usage_metadata == {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
    assert message.response_metadata["raw_usage"] == counts


@pytest.mark.parametrize(
    ("usage", "tier"),
    [
        ({"serviceTier": "standard"}, "standard"),
        ({"serviceTier": "SERVICE_TIER_STANDARD"}, "standard"),
        ({"serviceTier": "flex", "trafficType": "ON_DEMAND"}, "flex"),
        ({"trafficType": "ON_DEMAND"}, "standard"),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None),
        ({"serviceTier": None}, None),
    ],
)
def test_the_tier_that_was_used_is_in_the_metadata(usage: Json, tier: str | None) -> None:
    whole = {**reply([text("a")]), "usageMetadata": {**USAGE, **usage}}
    for message in (parse(whole), stream([event(text("a")), whole])):
        assert message.response_metadata.get("service_tier") == tier


# Citations

ANSWER = "Åland → the weather 🌤 is fine. Åland is fine."


def grounding(start: int | None, end: int, words: str | None) -> dict[str, Any]:
    segment = {"startIndex": start, "endIndex": end, "text": words}
    return {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }


def in_bytes(words: str, *, after: str = "", drift: int = 0) -> tuple[int, int, str]:
    """Where the API says that these words stand."""
    start = len(ANSWER[: ANSWER.index(words, len(after))].encode()) + drift
    return start, start + len(words.encode()), words


SECOND = "Åland is fine."


@pytest.mark.parametrize("drift", [-3, 0, 2])
@pytest.mark.parametrize("words", ["Åland → the", "the weather 🌤 is fine.", SECOND])
def test_a_citation_points_to_its_words(words: str, drift: int) -> None:
    start, end, said = in_bytes(words, drift=drift)
    given = grounding(max(start, 0), end, said)
    for message in (
        parse(reply([text(ANSWER)], groundingMetadata=given)),
        stream(
            [event(text(ANSWER[:9])), event(text(ANSWER[9:])), reply([], groundingMetadata=given)]
        ),
    ):
        block: Any = message.content_blocks[0]
        [citation] = block["annotations"]
        assert ANSWER[citation["start_index"] : citation["end_index"]] == words
        assert citation["cited_text"] == words


def test_of_repeated_words_the_nearest_ones_are_cited() -> None:
    start, end, words = in_bytes("Åland", after="Åland")
    segment = parse_grounding(grounding(start, end, words), ANSWER)["grounding_supports"][0]
    assert segment["segment"]["start_index"] == ANSWER.rindex("Åland") > 0


@pytest.mark.parametrize(
    ("start", "end", "words", "placed"),
    [
        pytest.param(None, 6, "Åland", (0, 5), id="the beginning"),
        pytest.param(0, 6, None, (0, 5), id="without its words"),
        pytest.param(0, 6, "elsewhere", (0, 9), id="words that are not there"),
        pytest.param(0, 9999, None, (0, len(ANSWER)), id="past the end"),
        pytest.param(1, 6, None, (0, 5), id="inside of a character"),
    ],
)
def test_bytes_are_counted_as_characters(
    start: int | None, end: int, words: str | None, placed: tuple[int, int]
) -> None:
    known = parse_grounding(grounding(start, end, words), ANSWER)
    segment = known["grounding_supports"][0]["segment"]
    assert (segment["start_index"], segment["end_index"]) == placed


@pytest.mark.parametrize(
    ("strange", "kept"),
    [
        (5, 5),
        ({"groundingSupports": 5}, {"grounding_supports": 5}),
        (
            {"groundingSupports": [5, {"segment": 5}, {"segment": {"endIndex": "x"}}]},
            {"grounding_supports": [5, {"segment": 5}, {"segment": {"end_index": "x"}}]},
        ),
    ],
)
def test_malformed_grounding_is_kept(strange: Any, kept: Any) -> None:
    assert parse_grounding(strange, ANSWER) == kept


def test_citations_count_characters_of_the_text_without_thoughts() -> None:
    parts = [
        {"text": "Hm, Åland.", "thought": True},
        text("Å: "),
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        text("sunny"),
    ]
    message = parse(reply(parts, groundingMetadata=grounding(4, 9, "sunny")))
    support = message.response_metadata["grounding_metadata"]["grounding_supports"][0]
    assert support["segment"] == {"start_index": 3, "end_index": 8, "text": "sunny"}
    assert message.text[3:8] == "sunny"


def test_a_response_cannot_change_what_the_package_says_about_it() -> None:
    """Core chooses its translator by `model_provider`, and histories are read by the others."""
    claims = {
        "modelProvider": "openai",
        "vertexai": True,
        "requestedModel": "gemini-2.5-flash",
        "rawUsage": {"promptTokenCount": 1},
        "emptyResponse": True,
    }
    honest = reply([text("Hi")])
    for body in (honest | claims, reply([text("Hi")], **claims)):
        for message in (parse(body), stream([event(text("Hi")) | claims, body])):
            assert message.response_metadata == parse(honest).response_metadata


@pytest.mark.parametrize("count", [2**63, 10**15, "9" * 16, "٣", -1, 1.5, True, None, [1]])
def test_what_is_not_a_count_of_tokens_counts_as_none(count: Any) -> None:
    usage = {**USAGE, "promptTokenCount": count, "totalTokenCount": count}
    found = parse(reply([text("Hi")]) | {"usageMetadata": usage}).usage_metadata
    assert found == {"input_tokens": 0, "output_tokens": 5, "total_tokens": 5}


def test_negative_counts_are_not_passed_on() -> None:
    usage = {
        "promptTokenCount": -5,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": -(10**12),
        "totalTokenCount": -2,
        "promptTokensDetails": [{"modality": "IMAGE", "tokenCount": -7}],
    }
    for message in (parse(reply([text("Hi")]) | {"usageMetadata": usage}),):
        assert message.usage_metadata == {
            "input_tokens": 0,
            "output_tokens": 3,
            "total_tokens": 3,
            "input_token_details": {"image": 0},
            "output_token_details": {"reasoning": 0},
        }
