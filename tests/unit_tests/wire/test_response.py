from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, AIMessageChunk, messages_from_dict, messages_to_dict

from langchain_gemini_tools.errors import GeminiToolsError, UnreadableResponseError
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response
from tests.unit_tests.wire.responses import (
    ANSWER,
    CONTEXT,
    MODEL,
    USAGE,
    Json,
    call,
    chunks,
    event,
    kept,
    one_by_one,
    parse,
    reply,
    seen,
    stream,
    text,
)


def test_a_withheld_candidate_leaves_the_others() -> None:
    body = reply([], finishReason="SAFETY", content={})
    good = {"content": {"parts": [text("one")]}, "finishReason": "STOP", "index": 1}
    body["candidates"].append(good)
    result = parse_response(body, CONTEXT)
    assert [generation.text for generation in result.generations] == ["one"]
    assert result.generations[0].message.usage_metadata is not None  # type: ignore[attr-defined]
    assert result.llm_output == {"withheld": ["The response was withheld (SAFETY)."]}


def test_a_whole_reply_becomes_a_message() -> None:
    body = reply([text("Let me see."), call("a", "weather", sign="U0lH", city="Oslo")])
    assert seen(parse(body)) == {
        "content": "Let me see.",
        "tool_calls": [
            {"type": "tool_call", "id": "a", "name": "weather", "args": {"city": "Oslo"}}
        ],
        "invalid_tool_calls": [],
        "additional_kwargs": {
            "__gemini_function_call_thought_signatures__": {"a": "U0lH"},
            "function_call": {"name": "weather", "arguments": '{"city": "Oslo"}'},
        },
        "response_metadata": {
            "model_provider": "google_genai",
            "vertexai": False,
            "model_name": MODEL,
            "finish_reason": "STOP",
            "response_id": "r1",
            "raw_usage": USAGE,
        },
        "usage_metadata": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
    }


def test_each_candidate_is_a_generation_and_usage_is_counted_once() -> None:
    body = reply([text("one")])
    second = {"content": {"parts": [text("two")]}, "finishReason": "MAX_TOKENS", "index": 1}
    body["candidates"].append(second)
    found = parse_response(body, CONTEXT).generations
    assert [generation.text for generation in found] == ["one", "two"]
    messages = [generation.message for generation in found]
    assert [message.response_metadata["finish_reason"] for message in messages] == [
        "STOP",
        "MAX_TOKENS",
    ]
    counted = [message.usage_metadata for message in messages if isinstance(message, AIMessage)]
    assert counted == [{"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}, None]


def test_a_second_candidate_in_a_stream_is_not_mixed_into_the_first() -> None:
    body = reply([text("one")])
    body["candidates"].append({"content": {"parts": [text("two")]}, "index": 1})
    with pytest.raises(UnreadableResponseError, match="second candidate"):
        stream([body])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({}, id="empty content"),
        pytest.param(None, id="no content"),
        pytest.param({"role": "model"}, id="no parts"),
        pytest.param({"role": "model", "parts": None}, id="null for parts"),
    ],
)
def test_a_content_may_be_missing(content: Any) -> None:
    message = parse(reply([], content=content))
    assert (message.content, message.response_metadata["empty_response"]) == ("", True)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"candidates": 5}, id="candidates"),
        pytest.param({"candidates": ["x"]}, id="a candidate"),
        pytest.param({"candidates": [{"content": "x"}]}, id="a content"),
        pytest.param({"candidates": [{"content": {"parts": "x"}}]}, id="parts"),
        pytest.param({"candidates": [{"content": {"parts": ["x"]}}]}, id="a part"),
    ],
)
def test_what_has_another_shape_is_unreadable(body: Json) -> None:
    for read in (parse, lambda body: stream([body])):
        with pytest.raises(UnreadableResponseError):
            read(body)


def test_text_reaches_the_user_event_by_event() -> None:
    pieces = chunks([event(text("It ")), event(text("is")), reply([text("")])])
    assert [piece.content for piece in pieces] == ["It ", "is", ""]


def test_usage_and_finish_reason_are_on_one_chunk() -> None:
    *middle, last = chunks([event(text("a")), event(text("b")), reply([])])
    assert [piece.usage_metadata for piece in middle] == [None, None]
    assert last.usage_metadata == {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}


# Streamed and whole

SIGNATURES = st.none() | st.sampled_from(["QQ==", "Qg=="])


def with_signature(part: Json, signature: str | None) -> Json:
    return {**part, "thoughtSignature": signature} if signature else part


TEXTS = st.builds(
    lambda said, thought, signature: with_signature(
        text(said, **({"thought": True} if thought else {})), signature
    ),
    st.sampled_from(["", "a", "bc", "é\U0001f600"]),
    st.booleans(),
    SIGNATURES,
)
CALLS = st.builds(
    lambda name, args, signature: with_signature(
        {"functionCall": {"name": name, "args": args}}, signature
    ),
    st.sampled_from(["search", "weather", "default_api.search"]),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 2) | st.text(max_size=2), max_size=2),
    SIGNATURES,
)
OTHERS = st.builds(
    with_signature,
    st.sampled_from(
        [
            {"executableCode": {"code": "1", "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"hologram": {}},
            {"text": "x", "partMetadata": {"k": 1}},
            {},
        ]
    ),
    SIGNATURES,
)


def numbered(parts: list[Json]) -> list[Json]:
    """The parts, with an id for each call."""
    return [
        {**part, "functionCall": {"id": f"c{number}", **part["functionCall"]}}
        if part.get("functionCall", {}).get("name")
        else part
        for number, part in enumerate(parts)
    ]


CALLS_IN_PIECES: st.SearchStrategy[list[Json]] = st.integers(0, 3).map(
    lambda count: [
        {"functionCall": {"name": "search", "willContinue": True}, "thoughtSignature": "QQ=="},
        *(
            {
                "functionCall": {
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": "xy", "willContinue": True}],
                    "willContinue": True,
                }
            }
            for _ in range(count)
        ),
        {"functionCall": {}},
    ]
)
PARTS: st.SearchStrategy[list[Json]] = st.lists(
    (TEXTS | CALLS | OTHERS).map(lambda part: [part]) | CALLS_IN_PIECES, max_size=6
).map(lambda groups: numbered(list(itertools.chain.from_iterable(groups))))


@st.composite
def split_parts(draw: st.DrawFn) -> tuple[list[Json], list[list[Json]]]:
    """Parts, and the same parts over several events, plain texts cut as well."""
    parts = draw(PARTS)
    events: list[list[Json]] = [[]]
    for part in parts:
        pieces = [part]
        if set(part) <= {"text", "thought"} and len(part.get("text", "")) > 1:
            cut = draw(st.integers(0, len(part["text"])))
            pieces = [{**part, "text": part["text"][:cut]}, {**part, "text": part["text"][cut:]}]
        for piece in pieces:
            if draw(st.booleans()):
                events.append([])
            events[-1].append(piece)
    return parts, events


@given(split_parts())
def test_how_the_parts_are_split_over_events_makes_no_difference(
    split: tuple[list[Json], list[list[Json]]],
) -> None:
    parts, events = split
    whole = parse(reply(parts))
    streamed = stream([*(event(*pieces) for pieces in events[:-1]), reply(events[-1])])
    assert seen(streamed) == seen(whole)
    assert standard(streamed) == standard(whole)


def standard(message: AIMessage) -> list[Json]:
    """LangChain's blocks, without the numbers that only chunks have."""
    return [{**block, "index": None} for block in message.content_blocks]


@given(PARTS)
def test_a_message_survives_json(parts: list[Json]) -> None:
    message = parse(reply(parts))
    (restored,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert restored == message
    assert loads(dumps(message), allowed_objects="all") == message


# Anything at all

WORDS = st.sampled_from(
    [
        *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall"),
        *("name", "args", "id", "partialArgs", "jsonPath", "stringValue", "willContinue", "index"),
        *("finishReason", "usageMetadata", "promptTokenCount", "promptFeedback", "blockReason"),
        *("executableCode", "codeExecutionResult", "outcome", "inlineData", "mimeType", "data"),
        *("groundingMetadata", "groundingSupports", "$.a", "STOP", "x"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | WORDS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def broken_replies(draw: st.DrawFn) -> Json:
    """A good reply in which one thing, somewhere, is something else."""
    partial = {
        "functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}
    }
    parts = [text("a"), call("a", sign="QQ=="), partial, draw(OTHERS)]
    body = reply(parts, groundingMetadata={"groundingSupports": [{"segment": {"endIndex": 1}}]})
    body["promptFeedback"] = {"blockReason": "SAFETY"}
    place: Any = body
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(list(keys)))
        deeper = isinstance(place[key], (dict, list)) and place[key]
        if not deeper or draw(st.integers(0, 3)) == 0:
            place[key] = draw(ANYTHING)
            return json.loads(json.dumps(body))  # type: ignore[no-any-return]
        place[key] = dict(place[key]) if isinstance(place[key], dict) else list(place[key])
        place = place[key]


def outcome_of(read: Any) -> tuple[str, Any]:
    try:
        return "message", seen(read())
    except GeminiToolsError as error:
        return "error", type(error)


@given(st.dictionaries(WORDS, ANYTHING, max_size=3) | broken_replies())
@example({"candidates": [{"content": {"parts": [{"functionCall": {"name": ["x"]}}]}}]})
def test_any_json_gives_a_message_or_an_error_of_ours(body: Json) -> None:
    context = ResponseContext("m", {"search": "search"})
    outcome_of(lambda: parse_response(body, context).generations[0].message)
    parser = StreamParser(context)

    def streamed() -> AIMessageChunk:
        for piece in parser.feed(body):
            assert isinstance(piece.message, AIMessageChunk)
        finished = parser.finish()[0].message
        assert isinstance(finished, AIMessageChunk)
        return finished

    outcome_of(streamed)


@pytest.mark.parametrize("output_version", ["v0", "v1"])
def test_signatures_and_order_survive_what_core_does_to_content(output_version: str) -> None:
    parts = [text("hm", thought=True), call("a", sign="QQ=="), text("so", thoughtSignature="Qg==")]
    message = stream(one_by_one(parts))
    if output_version == "v1":
        message = message.model_copy(update={"content": message.content_blocks})
        message.response_metadata["output_version"] = "v1"
    assert kept(message) == {
        "__gemini_function_call_thought_signatures__": {"a": "QQ=="},
        "__gemini_parts__": {
            f"{ANSWER}.0": {"block": 1},
            f"{ANSWER}.1": {"call": "a"},
            f"{ANSWER}.2": {"block": 1},
        },
    }
