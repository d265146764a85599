"""Responses as the API writes them, parsed as a whole and as a stream."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import AIMessage, AIMessageChunk

Json = dict[str, Any]

MODEL = "gemini-3.8-flash"
CONTEXT = ResponseContext(MODEL, {"search": "search", "weather": "weather"})
ANSWER = "0d0e09b1"
"""How blocks and logs of the reply `r1` begin."""
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}


def text(said: str, **fields: Any) -> Json:
    return {"text": said, **fields}


def call(call_id: str | None, name: str = "search", /, *, sign: str = "", **args: Any) -> Json:
    identity = {"id": call_id} if call_id else {}
    part = {"functionCall": {**identity, "name": name, "args": args}}
    return {**part, "thoughtSignature": sign} if sign else part


def reply(parts: Sequence[Any], **candidate: Any) -> Json:
    """A whole reply; fields of the candidate may be replaced."""
    content = {"role": "model", "parts": [*parts]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0, **candidate}],
        "usageMetadata": USAGE,
        "modelVersion": MODEL,
        "responseId": "r1",
    }


def event(*parts: Any) -> Json:
    """One event in the middle of a stream."""
    content = {"role": "model", "parts": [*parts]}
    metadata = {"usageMetadata": USAGE, "responseId": "r1"}
    return {"candidates": [{"content": content, "index": 0}], **metadata}


def parse(body: Json, context: ResponseContext = CONTEXT) -> AIMessage:
    message = parse_response(body, context).generations[0].message
    assert message.type == "ai"
    return message  # type: ignore[return-value]


def chunks(bodies: Iterable[Json], context: ResponseContext = CONTEXT) -> list[AIMessageChunk]:
    parser = StreamParser(context)
    generations = [chunk for body in bodies for chunk in parser.feed(body)]
    return [chunk.message for chunk in (*generations, *parser.finish())]  # type: ignore[misc]


def stream(bodies: Iterable[Json], context: ResponseContext = CONTEXT) -> AIMessageChunk:
    """What the chunks of a stream add up to."""
    return functools.reduce(operator.add, chunks(bodies, context))


def one_by_one(parts: Sequence[Any], **candidate: Any) -> list[Json]:
    """A stream with an event for each part, and one more that ends it."""
    return [*(event(part) for part in parts), reply([], **candidate)]


def kept(message: AIMessage) -> Json:
    """What the message keeps for the next request."""
    return {k: v for k, v in message.additional_kwargs.items() if k != "function_call"}


def seen(message: AIMessage) -> Json:
    """Everything about a message that must not depend on how it came."""
    return {
        "content": message.content,
        "tool_calls": message.tool_calls,
        "invalid_tool_calls": message.invalid_tool_calls,
        "additional_kwargs": message.additional_kwargs,
        "response_metadata": message.response_metadata,
        "usage_metadata": message.usage_metadata,
    }
