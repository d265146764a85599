"""Every answer that is none, or only some of one: blocked, cut, malformed, empty, unheard of.

Whole or streamed, the same thing happens; nothing is ever an empty string without a reason.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from google.oauth2.credentials import Credentials
from langchain_core import exceptions as core

from langchain_gemini_tools import errors
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN
from tests.integration_tests.invoking import ask
from tests.integration_tests.play import get_weather
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

CALL = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}
UNKNOWN_PART = {"hologram": {"mimeType": "model/hologram", "data": "aGk="}}


@dataclass(frozen=True)
class Refused:
    """A reply that raises."""

    reply: dict[str, Any]
    error: type[errors.ResponseError]
    line: str
    requests: int = 1
    """2: asked once more, with feedback."""
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class Taken:
    """A reply that is an answer, and tells what is wrong with it."""

    reply: dict[str, Any]
    text: str
    metadata: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def _no_candidates(**fields: Any) -> dict[str, Any]:
    return {"body": {"usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5}, **fields}}


def _ended(reason: str, *parts: dict[str, Any], message: str | None = None) -> dict[str, Any]:
    return {"parts": parts, "finish_reason": reason, "finish_message": message, "signed": False}


UNREADABLE_CALL = {"id": "c1", "name": "get_weather", "args": "Oslo"}
UNREADABLE_CAUSE = (
    f"a call has no name, or its arguments are not an object: {json.dumps(UNREADABLE_CALL)}"
)
MORE_TOKENS = "Thinking counts as output: increase max_output_tokens, or lower reasoning_effort."
REFUSED = {
    "blocked-prompt": Refused(
        _no_candidates(promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
        errors.BlockedError,
        "The prompt was blocked: PROHIBITED_CONTENT.",
    ),
    "blocked-prompt-with-words": Refused(
        _no_candidates(
            promptFeedback={"blockReason": "MODEL_ARMOR", "blockReasonMessage": "Template 7."}
        ),
        errors.BlockedError,
        "The prompt was blocked: MODEL_ARMOR (Template 7.).",
    ),
    "safety-without-text": Refused(
        _ended("SAFETY"),
        errors.BlockedError,
        "The response was withheld (SAFETY).",
        reason="SAFETY",
    ),
    "recitation-without-text": Refused(
        _ended("RECITATION", message="It quotes."),
        errors.BlockedError,
        "The response was withheld (RECITATION: It quotes.).",
        reason="RECITATION",
        message="It quotes.",
    ),
    "unknown-reason-without-text": Refused(
        _ended("SOLAR_FLARE"),
        errors.BlockedError,
        "The response was withheld (SOLAR_FLARE).",
        reason="SOLAR_FLARE",
    ),
    "malformed-call": Refused(
        _ended("MALFORMED_FUNCTION_CALL", message="print(get_weather("),
        errors.MalformedToolCallError,
        "The model did not make a valid tool call (MALFORMED_FUNCTION_CALL: print(get_weather().",
        requests=2,
        reason="MALFORMED_FUNCTION_CALL",
        message="print(get_weather(",
    ),
    "malformed-call-beside-a-call": Refused(
        _ended("MALFORMED_FUNCTION_CALL", CALL),
        errors.MalformedToolCallError,
        "The model did not make a valid tool call (MALFORMED_FUNCTION_CALL).",
        requests=2,
        reason="MALFORMED_FUNCTION_CALL",
    ),
    "call-with-arguments-that-are-not-an-object": Refused(
        _ended("STOP", CALL, {"functionCall": UNREADABLE_CALL}),
        errors.MalformedToolCallError,
        f"The model did not make a valid tool call ({UNREADABLE_CAUSE}).",
        requests=2,
        reason="STOP",
        message=UNREADABLE_CAUSE,
    ),
    "unexpected-call-without-a-call": Refused(
        _ended("UNEXPECTED_TOOL_CALL", message="Who?"),
        errors.MalformedToolCallError,
        "The model did not make a valid tool call (UNEXPECTED_TOOL_CALL: Who?).",
        requests=2,
        reason="UNEXPECTED_TOOL_CALL",
        message="Who?",
    ),
    "unexpected-call-with-a-call": Refused(
        _ended("UNEXPECTED_TOOL_CALL", CALL, message="Who?"),
        errors.MalformedToolCallError,
        "The model did not make a valid tool call (UNEXPECTED_TOOL_CALL: Who?).",
        requests=2,
        reason="UNEXPECTED_TOOL_CALL",
        message="Who?",
    ),
    "safety-with-a-call": Refused(
        _ended("SAFETY", CALL),
        errors.BlockedError,
        "The response was withheld (SAFETY). Its tool calls must not be executed.",
        reason="SAFETY",
    ),
    "max-tokens-with-a-call": Refused(
        _ended("MAX_TOKENS", CALL),
        errors.TruncatedResponseError,
        "The response is not complete (MAX_TOKENS). More tool calls may have followed, so these "
        "must not be executed. Increase max_output_tokens.",
        reason="MAX_TOKENS",
    ),
    "max-tokens-with-nothing": Refused(
        _ended("MAX_TOKENS") | {"usage": {"thoughtsTokenCount": 3071}},
        errors.TruncatedResponseError,
        "The response was truncated (MAX_TOKENS) before its first word, after 3071 tokens of "
        f"thinking. {MORE_TOKENS}",
        reason="MAX_TOKENS",
    ),
    "max-tokens-with-thoughts-alone": Refused(
        _ended("MAX_TOKENS", {"text": "Hm.", "thought": True}) | {"usage": {"totalTokenCount": 5}},
        errors.TruncatedResponseError,
        f"The response was truncated (MAX_TOKENS) before its first word. {MORE_TOKENS}",
        reason="MAX_TOKENS",
    ),
    "missing-signature": Refused(
        _ended("MISSING_THOUGHT_SIGNATURE"),
        errors.MalformedToolCallError,
        "The model did not make a valid tool call (MISSING_THOUGHT_SIGNATURE).",
        requests=2,
        reason="MISSING_THOUGHT_SIGNATURE",
    ),
    "nothing-in-it": Refused(
        _ended("STOP"),
        errors.EmptyResponseError,
        "The response is empty (STOP).",
        requests=2,
        reason="STOP",
    ),
    "an-empty-text": Refused(
        _ended("STOP", {"text": ""}),
        errors.EmptyResponseError,
        "The response is empty (STOP).",
        requests=2,
        reason="STOP",
    ),
}

TAKEN = {
    "safety-with-text": Taken(
        _ended("SAFETY", {"text": "First, take"}), "First, take", {"finish_reason": "SAFETY"}
    ),
    "max-tokens-with-text": Taken(
        _ended("MAX_TOKENS", {"text": "It is"}), "It is", {"finish_reason": "MAX_TOKENS"}
    ),
    "unknown-reason-with-text": Taken(
        _ended("SOLAR_FLARE", {"text": "It is"}, message="Cycle 25."),
        "It is",
        {"finish_reason": "SOLAR_FLARE", "finish_message": "Cycle 25."},
    ),
    "unknown-part-beside-text": Taken(
        _ended("STOP", {"text": "Look:"}, UNKNOWN_PART), "Look:", {"finish_reason": "STOP"}
    ),
    "unknown-part-alone": Taken(_ended("STOP", UNKNOWN_PART), "", {"finish_reason": "STOP"}),
}


@rotated(name=list(REFUSED), way=WAYS)
async def test_an_unusable_response_is_raised_with_its_reason(
    emulator: Emulator, make_model: MakeModel, name: str, way: str
) -> None:
    case = REFUSED[name]
    for _ in range(case.requests):
        emulator.reply(**case.reply)
    chat = make_model(max_retries=2).bind_tools([get_weather])
    with pytest.raises(case.error) as raised:
        await ask(chat, way)
    assert isinstance(raised.value, core.ModelError)
    error: Any = raised.value
    assert str(error) == case.line
    assert (error.finish_reason, error.finish_message) == (case.reason, case.message)
    assert error.partial.text == ""
    assert error.partial.tool_calls == []
    assert len(emulator.requests) == case.requests
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.__dict__) == (type(error), error.__dict__)


@rotated(way=WAYS)
async def test_no_candidates_are_asked_for_once_more(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """A stream without any is one that was cut, and the same request is tried again."""
    for _ in range(3):
        emulator.reply(**_no_candidates())
    is_stream = way.endswith("stream")
    with pytest.raises(
        errors.TruncatedStreamError if is_stream else errors.EmptyResponseError
    ) as raised:
        await ask(make_model(max_retries=2), way)
    assert isinstance(raised.value, core.ModelError)
    assert len(emulator.requests) == (3 if is_stream else 2)


@rotated(way=WAYS, options=[{"on_malformed": "return"}, {"max_retries": 0}])
async def test_a_response_that_is_truncated_before_it_starts_can_be_returned(
    emulator: Emulator, make_model: MakeModel, way: str, options: dict[str, Any]
) -> None:
    emulator.reply(**_ended("MAX_TOKENS"))
    answer = await ask(make_model(**options), way)
    assert answer.text == ""
    expected = {"finish_reason": "MAX_TOKENS", "empty_response": True}
    assert expected.items() <= answer.response_metadata.items()


@rotated(name=list(TAKEN), way=WAYS)
async def test_a_response_that_ended_unusually_says_how(
    emulator: Emulator, make_model: MakeModel, name: str, way: str
) -> None:
    case = TAKEN[name]
    emulator.reply(**case.reply)
    answer = await ask(make_model(max_retries=2).bind_tools([get_weather]), way)
    assert answer.text == case.text
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == case.calls
    assert answer.invalid_tool_calls == []
    assert case.metadata.items() <= answer.response_metadata.items()
    assert answer.response_metadata.get("empty_response", False) is (
        "empty_response" in case.metadata
    )
    assert len(emulator.requests) == 1
    if "unknown-part" in name:
        shown = [b["value"] for b in answer.content_blocks if b["type"] == "non_standard"]
        assert [value["part"] for value in shown] == [UNKNOWN_PART]


# A call that MAX_TOKENS cut while its arguments were streaming (Vertex AI).


@rotated(reason=["MAX_TOKENS", "STOP", None], way=STREAMS)
async def test_a_call_cut_inside_its_arguments_is_not_a_call(
    emulator: Emulator, make_model: MakeModel, reason: str | None, way: str
) -> None:
    begun = {
        "functionCall": {
            "name": "get_weather",
            "partialArgs": [{"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}],
            "willContinue": True,
        }
    }
    events: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [begun]}}]},
        {"candidates": [{"finishReason": reason} if reason else {}]},
    ]
    emulator.reply(events=events)
    chat = make_model(
        max_retries=2,
        vertexai=True,
        project="p",
        location="global",
        api_key=None,
        credentials=Credentials(ACCESS_TOKEN),  # type: ignore[no-untyped-call]
    )
    seen: list[Any] = []
    with pytest.raises(errors.ResponseError) as raised:
        await ask(chat.bind_tools([get_weather]), way, seen)
    assert isinstance(raised.value, core.ModelError)
    assert raised.value.partial is not None
    assert raised.value.partial.tool_calls == []
    assert len(emulator.requests) == 1
