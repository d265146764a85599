"""Interactions and events that no server should send still give a message or a typed error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.errors import GeminiToolsError, UnreadableResponseError
from langchain_gemini_tools.interactions.response import EventDecoder, decode_interaction
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response

CONTEXT = ResponseContext("gemini-3.8-flash")
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
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "event_type": st.sampled_from(["step.start", "step.delta", "step.stop", "other"]),
            "index": st.integers(0, 1),
            "step": OBJECTS,
            "delta": OBJECTS,
        }
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
def test_any_events_give_chunks_or_a_typed_error(events: list[Any]) -> None:
    decode, parser = EventDecoder(None), StreamParser(CONTEXT)
    end = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}
    with suppress(GeminiToolsError):
        for event in [*events, end, end]:
            for response in decode(event):
                parser.feed(response)
        parser.finish()


def test_steps_that_are_no_list_are_unreadable() -> None:
    with pytest.raises(UnreadableResponseError, match="not a list of objects"):
        decode_interaction({"steps": ["text"]}, None)
