"""`invoke`, streams of both content versions and `stream_events` v3: one reply, one message."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from langchain_gemini_tools.wire.replay import CALL_SIGNATURES
from tests.integration_tests.play import JsonObject, call, get_weather, text

if TYPE_CHECKING:
    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

SIGNATURE = base64.b64encode(b"\xfb\xff\xbf of a call").decode()
LATER_SIGNATURE = base64.b64encode(b"\xfb\xff\xbf of a later part").decode()
THOUGHT: JsonObject = {"text": "The user asks about weather.", "thought": True}
OSLO = call("get_weather", {"city": "Oslo"}, "first", SIGNATURE)
ROME = call("get_weather", {"city": "Rome"}, "second")
CODE = {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}
SERVER_ID = {"id": "search1", "toolType": "GOOGLE_SEARCH_WEB"}


@dataclass(frozen=True)
class Case:
    """One reply, and what a user reads in it."""

    parts: list[JsonObject]
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Ids and cities."""
    call_signatures: dict[str, str] = field(default_factory=dict)
    streamed: list[JsonObject] | None = None
    """The parts of the stream, where the emulator, like Gemini, cuts the reply otherwise."""


CASES = {
    "text": Case(
        [text("Hello to you.", SIGNATURE)],
        text="Hello to you.",
        streamed=[text("Hello to you."), text("", SIGNATURE)],
    ),
    "thought and text": Case(
        [THOUGHT, text("Hello to you.", SIGNATURE)],
        text="Hello to you.",
        reasoning=THOUGHT["text"],
        streamed=[THOUGHT, text("Hello to you."), text("", SIGNATURE)],
    ),
    "calls": Case(
        [OSLO, ROME],
        calls=[("first", "Oslo"), ("second", "Rome")],
        call_signatures={"first": SIGNATURE},
    ),
    "thought and calls": Case(
        [THOUGHT, OSLO, ROME],
        reasoning=THOUGHT["text"],
        calls=[("first", "Oslo"), ("second", "Rome")],
        call_signatures={"first": SIGNATURE},
    ),
    "text before calls": Case(
        [text("Let me look."), OSLO, ROME],
        text="Let me look.",
        calls=[("first", "Oslo"), ("second", "Rome")],
        call_signatures={"first": SIGNATURE},
    ),
    "text between calls": Case(
        [OSLO, text("And the other one."), ROME],
        text="And the other one.",
        calls=[("first", "Oslo"), ("second", "Rome")],
        call_signatures={"first": SIGNATURE},
    ),
    "a thought between signed calls": Case(
        [OSLO, THOUGHT, ROME | {"thoughtSignature": LATER_SIGNATURE}],
        reasoning=THOUGHT["text"],
        calls=[("first", "Oslo"), ("second", "Rome")],
        call_signatures={"first": SIGNATURE, "second": LATER_SIGNATURE},
    ),
    "code and its output": Case(
        [THOUGHT, CODE | {"thoughtSignature": SIGNATURE}, OUTPUT, text("It is 42.", SIGNATURE)],
        text="It is 42.",
        reasoning=THOUGHT["text"],
        streamed=[
            THOUGHT,
            CODE | {"thoughtSignature": SIGNATURE},
            OUTPUT,
            text("It is 42."),
            text("", SIGNATURE),
        ],
    ),
    "a server tool and a call": Case(
        [
            {"toolCall": SERVER_ID | {"args": {"q": "x"}}, "thoughtSignature": LATER_SIGNATURE},
            {"toolResponse": SERVER_ID | {"response": {"a": 1}}, "thoughtSignature": SIGNATURE},
            text("Found."),
            OSLO,
        ],
        text="Found.",
        calls=[("first", "Oslo")],
        call_signatures={"first": SIGNATURE},
    ),
}

Way = Callable[[Any, Any], Awaitable[BaseMessage]]


async def _invoke(runnable: Any, asked: Any) -> Any:
    return runnable.invoke(asked)


async def _ainvoke(runnable: Any, asked: Any) -> Any:
    return await runnable.ainvoke(asked)


async def _stream(runnable: Any, asked: Any) -> Any:
    chunks = list(runnable.stream(asked))
    return sum(chunks[1:], chunks[0])


async def _astream(runnable: Any, asked: Any) -> Any:
    chunks = [chunk async for chunk in runnable.astream(asked)]
    return sum(chunks[1:], chunks[0])


async def _events(runnable: Any, asked: Any) -> Any:
    return runnable.stream_events(asked, version="v3").output


async def _aevents(runnable: Any, asked: Any) -> Any:
    stream = await runnable.astream_events(asked, version="v3")
    return await stream.output


async def _stored(runnable: Any, asked: Any) -> Any:
    message = await _stream(runnable, asked)
    return messages_from_dict(messages_to_dict([message]))[0]


WAYS: dict[str, tuple[Way, JsonObject]] = {
    "invoke": (_invoke, {}),
    "ainvoke": (_ainvoke, {}),
    "invoke, streaming": (_invoke, {"streaming": True}),
    "invoke, v1": (_invoke, {"output_version": "v1"}),
    "stream": (_stream, {}),
    "astream": (_astream, {}),
    "stream, v1": (_stream, {"output_version": "v1"}),
    "astream, v1": (_astream, {"output_version": "v1"}),
    "stream, stored": (_stored, {}),
    "stream, v1, stored": (_stored, {"output_version": "v1"}),
    "events": (_events, {}),
    "aevents": (_aevents, {}),
    "events, v1": (_events, {"output_version": "v1"}),
}
_WHOLE = {"invoke", "ainvoke", "invoke, v1"}
USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 18,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_of_calling_gives_the_same_message(
    emulator: Emulator, make_model: MakeModel, way: str, case: Case
) -> None:
    emulator.reply(parts=case.parts, usage=USAGE)
    ask, settings = WAYS[way]
    model = make_model(**settings)
    message = await ask(model.bind_tools([get_weather]), "Weather?")
    assert isinstance(message, AIMessage)
    assert _seen(message) == {
        "text": case.text,
        "reasoning": case.reasoning,
        "calls": [
            {"type": "tool_call", "name": "get_weather", "args": {"city": city}, "id": call_id}
            for call_id, city in case.calls
        ],
        "invalid calls": [],
        "blocks of calls": [call_id for call_id, _ in case.calls],
        "call signatures": case.call_signatures,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 8,
            "total_tokens": 18,
            "output_token_details": {"reasoning": 3},
        },
        "finish_reason": "STOP",
        "model_name": "gemini-3.8-flash",
        "model_provider": "google_genai",
    }
    streamed = case.streamed if case.streamed and way not in _WHOLE else case.parts
    assert _sent_back(model, message) == streamed


def _seen(message: AIMessage) -> JsonObject:
    blocks: Any = message.content_blocks
    return {
        "text": message.text,
        "reasoning": "".join(b["reasoning"] for b in blocks if b["type"] == "reasoning"),
        "calls": message.tool_calls,
        "invalid calls": message.invalid_tool_calls,
        "blocks of calls": [block["id"] for block in blocks if block["type"] == "tool_call"],
        "call signatures": message.additional_kwargs.get(CALL_SIGNATURES, {}),
        "usage": message.usage_metadata,
        **{
            key: message.response_metadata.get(key)
            for key in ("finish_reason", "model_name", "model_provider")
        },
    }


def _sent_back(model: ChatGemini, message: AIMessage) -> list[Any]:
    """The parts that the next request holds for this message."""
    results: list[BaseMessage] = [
        ToolMessage("Sunny", tool_call_id=str(c["id"])) for c in message.tool_calls
    ]
    more = results or [HumanMessage("Thank you.")]
    rendered = model.preview([HumanMessage("Weather?"), message, *more])
    assert rendered.repairs == []
    return list(rendered.body["contents"][1]["parts"])
