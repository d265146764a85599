"""Interactions and events that no server should send still give a message or a typed error."""

from __future__ import annotations

import base64
import functools
import io
import json
import operator
import wave
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_gemini_tools.errors import (
    FailedInteractionError,
    GeminiServerError,
    GeminiToolsError,
    MalformedToolCallError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.json_values import decode_json
from langchain_gemini_tools.interactions.response import EventDecoder, decode_interaction
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response

CONTEXT = ResponseContext("gemini-3.8-flash", is_interaction=True)
_TYPES = "thought model_output function_call google_search_call code_execution_result text image"
_DELTAS = "arguments_delta thought_summary thought_signature text_annotation_delta"
_KEYS = "type text content summary signature arguments result id name annotations url start_index"
_MORE_KEYS = "end_index data mime_type uri queries error code is_error call_id"
WORDS = st.sampled_from(["", *f"{_TYPES} {_DELTAS}".split()])
KEYS = st.sampled_from(f"{_KEYS} {_MORE_KEYS}".split())
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS: Any = st.dictionaries(KEYS, VALUES, max_size=5)
_NAMES = [
    "step.start",
    "step.delta",
    "step.stop",
    "content.start",
    "content.delta",
    "error",
    "other",
]
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"event_type": st.sampled_from(_NAMES) | VALUES, "step": OBJECTS, "delta": OBJECTS},
        optional={
            "index": st.integers(0, 1) | VALUES,
            "content": VALUES,
            "error": VALUES,
            "usage": VALUES,
            "metadata": VALUES,
        },
    ),
    max_size=8,
)


@given(st.lists(OBJECTS, max_size=4), VALUES, VALUES)
def test_any_steps_give_a_message_or_a_typed_error(
    steps: list[Any], status: Any, errors: Any
) -> None:
    body = {"status": status, "steps": steps, "errors": errors, "usage": {"total_tokens": status}}
    with suppress(GeminiToolsError):
        parse_response(decode_interaction(body, None), CONTEXT)


@given(EVENTS)
@example([{"event_type": []}])
def test_any_events_give_chunks_or_a_typed_error(events: list[Any]) -> None:
    decode, parser = EventDecoder(None), StreamParser(CONTEXT)
    end = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}
    with suppress(GeminiToolsError):
        for event in [*events, end, end]:
            for response in decode(event):
                parser.feed(response)
        parser.finish()


def read(*steps: Any, **fields: Any) -> AIMessage:
    """Return the message of a whole interaction."""
    body = {"id": "v1_a", "status": "completed", "steps": [*steps], **fields}
    message = parse_response(decode_interaction(body, None), CONTEXT).generations[0].message
    assert isinstance(message, AIMessage)
    return message


def stream(*events: Any, **end: Any) -> Any:
    """Return the message of a stream with these events before the last one."""
    decode, parser = EventDecoder(None), StreamParser(CONTEXT)
    ended = {"id": "v1_a", "status": "completed", **end}
    last = {"event_type": "interaction.completed", "interaction": ended}
    decoded = [each for event in [*events, last] for each in decode(event)]
    chunks = [chunk.message for each in decoded for chunk in parser.feed(each)]
    return functools.reduce(operator.add, [*chunks, *(end.message for end in parser.finish())])


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index, **fields}


HELLO = {"type": "text", "text": "Hello"}
WEB = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 5}
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "a list": ({"type": "model_output", "content": [HELLO]},),
    "one content": ({"type": "model_output", "content": HELLO},),
    "a string": ({"type": "model_output", "content": "Hello"},),
    "a content instead of a step": (HELLO,),
    "an empty thought": ({"type": "thought"}, {"type": "model_output", "content": [HELLO]}),
    "another field": ({"type": "model_output", "content": [{**HELLO, "new": 1}], "new": 2},),
    "an unknown citation": (
        {"type": "model_output", "content": [{**HELLO, "annotations": [{"type": "new"}, None]}]},
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_text_is_found_in_every_form(name: str) -> None:
    assert read(*OUTPUTS[name]).text == "Hello"
    assert stream(steps=[*OUTPUTS[name]]).text == "Hello"


def test_the_form_before_steps_is_read() -> None:
    thought = {"type": "thought", "signature": "c2ln", "summary": "Hm."}
    call = {"type": "function_call", "id": "c", "name": "f", "arguments": {"x": 1}}
    message = read(outputs=[thought, HELLO, call], status="requires_action")
    assert message.text == "Hello"
    assert [each["args"] for each in message.tool_calls] == [{"x": 1}]
    kept = message.additional_kwargs["__gemini_steps__"]["steps"]
    assert kept == [thought, {"type": "model_output", "content": [HELLO]}, call]
    streamed = stream(
        {"event_type": "interaction.start", "interaction": {"id": "v1_a"}},
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "Hel"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "lo"}},
        {"event_type": "content.stop", "index": 0},
        {"event_type": "content.start", "index": 1, "content": {**call, "arguments": {}}},
        {"event_type": "content.delta", "index": 1, "delta": call},
        {"event_type": "content.stop", "index": 1},
        {"event_type": "interaction.complete", "interaction": {"status": "requires_action"}},
    )
    assert streamed.text == "Hello"
    assert [each["args"] for each in streamed.tool_calls] == [{"x": 1}]


STREAMS: dict[str, list[dict[str, Any]]] = {
    "in pieces": [
        start(0, "model_output"),
        delta(0, "text", text="Hel"),
        delta(0, "text", text="lo"),
        stop(0),
    ],
    "from the start": [
        start(0, "model_output", content=[{"type": "text", "text": "Hel"}]),
        delta(0, "text", text="lo"),
        stop(0),
    ],
    "without a zero": [
        {"event_type": "step.start", "step": {"type": "model_output"}},
        {"event_type": "step.delta", "delta": HELLO},
        {"event_type": "step.stop"},
    ],
    "with an index as text": [
        {"event_type": "step.start", "index": "0", "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": "0", "delta": HELLO},
    ],
    "with unknown deltas": [
        start(0, "model_output"),
        delta(0, "fog"),
        {"event_type": "step.delta", "index": 0, "delta": "fog"},
        delta(0, "text", text="Hello"),
        stop(0),
        stop(0),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_streamed_text_is_found_in_every_form(name: str) -> None:
    message = stream(*STREAMS[name])
    assert message.text == "Hello"
    [step] = message.additional_kwargs["__gemini_steps__"]["steps"]
    assert step == {"type": "model_output", "content": [HELLO]}


@pytest.mark.parametrize("is_late", [False, True])
def test_citations_may_come_before_or_after_the_text(is_late: bool) -> None:
    notes = delta(0, "text_annotation_delta", annotations=[WEB])
    text = delta(0, "text", text="Hello")
    events = [text, notes] if is_late else [notes, text]
    streamed = stream(start(0, "model_output"), *events, stop(0))
    whole = read({"type": "model_output", "content": [{**HELLO, "annotations": [WEB]}]})
    assert streamed.response_metadata["grounding_metadata"]["grounding_supports"]
    assert streamed.response_metadata == whole.response_metadata
    assert streamed.additional_kwargs == whole.additional_kwargs


def test_audio_keeps_its_rate() -> None:
    audio = {"type": "audio", "data": "AAAAAA==", "mime_type": "audio/l16"}
    sound = audio | {"sample_rate": 16000, "channels": 2}
    whole: Any = read({"type": "model_output", "content": [sound]})
    pieces: Any = stream(start(0, "model_output"), {**delta(0, "audio"), "delta": sound}, stop(0))
    for message in (whole, pieces):
        [block] = message.content
        with wave.open(io.BytesIO(base64.b64decode(block["base64"]))) as file:
            assert (file.getframerate(), file.getnchannels()) == (16000, 2)


def test_a_picture_in_a_thought_is_not_one_of_the_answer() -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"}
    message: Any = read({"type": "thought", "summary": [picture]}, HELLO)
    assert message.text == "Hello"
    assert message.content[0]["type"] == "gemini_part"
    assert message.content[0]["part"]["thought"] is True


def test_thoughts_are_never_part_of_the_answer() -> None:
    message = stream(
        start(0, "thought"),
        delta(0, "text", text="Secretly. "),
        delta(0, "thought_summary", content="Quietly. "),
        delta(0, "thought_summary", content={"type": "text", "text": "Hm."}),
        stop(0),
        start(1, "model_output"),
        delta(1, "text", text="Hello"),
    )
    assert message.text == "Hello"
    assert message.content[0]["thinking"] == "Secretly. Quietly. Hm."


def test_arguments_of_a_builtin_tool_are_put_together() -> None:
    message = stream(
        start(0, "mcp_server_tool_call", id="m", name="look", server_name="w"),
        delta(0, "arguments_delta", arguments='{"x": '),
        delta(0, "arguments_delta", arguments="1}"),
        stop(0),
    )
    [step] = message.additional_kwargs["__gemini_steps__"]["steps"]
    assert step["arguments"] == {"x": 1}


def test_calls_that_overlap_are_separated() -> None:
    message = stream(
        start(0, "function_call", id="a", name="f"),
        start(1, "function_call", id="b", name="g"),
        delta(1, "arguments_delta", arguments='{"y": '),
        delta(0, "arguments_delta", arguments='{"x": '),
        start(2, "model_output"),
        delta(2, "text", text="Hello"),
        delta(1, "arguments_delta", arguments="2}"),
        delta(0, "arguments_delta", arguments="1}"),
        stop(0),
        stop(2),
        stop(1),
        status="requires_action",
    )
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    assert calls == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]
    assert message.text == "Hello"


def test_the_end_of_an_interaction_ends_its_steps() -> None:
    """Servers in between may leave out `step.stop`; what arrived is the same without it."""
    events = [
        start(0, "google_search_call", id="s", arguments={"queries": ["q"]}),
        start(1, "function_call", id="a", name="f"),
        delta(1, "arguments_delta", arguments='{"x": 1}'),
        start(2, "function_call", id="b", name="g", arguments={"y": 2}),
    ]
    message = stream(*events, status="requires_action")
    whole = stream(*events[:1], stop(0), *events[1:3], stop(1), events[3], stop(2))
    assert (
        message.additional_kwargs["__gemini_steps__"]
        == (whole.additional_kwargs["__gemini_steps__"])
    )
    assert message.content[-1]["type"] == "gemini_part"
    assert [call["args"] for call in message.tool_calls] == [{"x": 1}, {"y": 2}]
    with pytest.raises(MalformedToolCallError, match="ended inside the arguments"):
        stream(*events, status="incomplete")


@pytest.mark.parametrize("arguments", ['{"x": 1}', [1], 5, True])
def test_arguments_that_are_not_an_object_are_an_error_in_both_ways(arguments: Any) -> None:
    call = {"type": "function_call", "id": "c", "name": "f", "arguments": arguments}
    with pytest.raises(MalformedToolCallError, match="'f' are not a JSON object"):
        read(call)
    with pytest.raises(MalformedToolCallError, match="'f' are not a JSON object"):
        stream({"event_type": "step.start", "index": 0, "step": call}, stop(0))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_huge_integer_is_text_in_both_ways(size: int) -> None:
    text = '{"wei": 123456789012345678901234, "note": "\\"9 123456789012345678901234", "n": -1.5}'
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    deltas = [delta(0, "arguments_delta", arguments=piece) for piece in pieces]
    called = {"id": "c", "name": "f"}
    streamed = stream(start(0, "function_call", **called), *deltas, stop(0))
    body = json.dumps({"id": "v1_a", "status": "completed", "steps": []})
    step = f'{{"type": "function_call", "id": "c", "name": "f", "arguments": {text}}}'
    whole = decode_json(body.replace("[]", f"[{step}]").encode())
    assert streamed.tool_calls == read(*whole["steps"]).tool_calls
    assert streamed.tool_calls[0]["args"]["wei"] == "123456789012345678901234"
    assert JsonPlusSerializer().dumps_typed(streamed)


DEEP = f'{{"a": {"[" * 150}{"]" * 150}}}'


@pytest.mark.parametrize("arguments", ['{"a": "\\ud800"}', '{"\\ud800": 1}', DEEP])
def test_streamed_arguments_that_no_message_can_contain_are_malformed(arguments: str) -> None:
    events = [start(0, "function_call", id="c", name="f"), stop(0)]
    events.insert(1, delta(0, "arguments_delta", arguments=arguments))
    with pytest.raises(MalformedToolCallError, match="'f' are not a JSON object"):
        stream(*events)


def test_a_call_without_a_name_is_an_error_in_both_ways() -> None:
    with pytest.raises(MalformedToolCallError, match="has no name"):
        read({"type": "function_call", "id": "c", "arguments": {}})
    with pytest.raises(MalformedToolCallError, match="has no name"):
        stream(start(0, "function_call", id="c"), stop(0))


def test_an_output_with_an_error_is_not_an_answer() -> None:
    error = {"code": 13, "message": "The tool broke."}
    with pytest.raises(FailedInteractionError, match="The tool broke") as failure:
        read({"type": "model_output", "content": [HELLO], "error": error})
    assert failure.value.partial
    assert failure.value.partial.text == "Hello"


def test_an_error_event_without_an_error_is_one() -> None:
    with pytest.raises(GeminiServerError):
        stream({"event_type": "error"})


def test_counts_of_an_earlier_event_are_used_if_the_last_has_none() -> None:
    text = [start(0, "model_output"), delta(0, "text", text="Hello")]
    message = stream(*text, stop(0, usage={"total_tokens": 9}))
    assert message.usage_metadata["total_tokens"] == 9
    message = stream(*text, stop(0, usage={"total_tokens": 9}), usage={"total_tokens": 12})
    assert message.usage_metadata["total_tokens"] == 12


def test_steps_that_are_no_list_are_unreadable() -> None:
    with pytest.raises(UnreadableResponseError, match="not a list of objects"):
        decode_interaction({"steps": ["text"]}, None)
