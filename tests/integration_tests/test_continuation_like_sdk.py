"""Long answers, read by this package and by google-genai from the same server: no difference.

The SDK continues by itself from version 2.30 on.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import types

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from tests.rotation import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_core.messages import AIMessage

pytestmark = pytest.mark.skipif(
    "automatic_continuation" not in types.GenerateContentConfig.model_fields,
    reason="This google-genai does not continue by itself.",
)

ARGON = "gemini-4-argon"
QUESTION = "Write a book, then look up the weather."
TEXT = "It was a dark and stormy night; the rain fell in torrents, except at intervals."
DECLARATION: dict[str, Any] = {
    "name": "get_weather",
    "description": "Look up the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALL = ("get_weather", {"city": "Oslo"})


@dataclass(frozen=True)
class Seen:
    """What a client sent, and what it made of the responses."""

    requests: list[tuple[str, str | None]]
    """Path and token of each request."""
    text: str
    calls: list[tuple[str | None, Any]]
    thoughts: str
    signatures: list[str]
    finish_reason: str
    usage: dict[str, int]
    prompt_count: int
    """Of the first request."""


def _thoughts() -> list[dict[str, Any]]:
    return [
        {"text": "First a hero, ", "thought": True},
        {"text": "then a storm.", "thought": True},
        {"text": TEXT},
        {"functionCall": {"name": CALL[0], "args": CALL[1]}},
        {"functionCall": {"name": CALL[0], "args": {"city": "Rome"}}},
    ]


def _scripted(emulator: Emulator) -> None:
    """Three requests with usage of every kind."""
    tokens = ["Zmlyc3Q=", "c2Vjb25k", None]
    for number, token in enumerate(tokens, 1):
        usage = {
            "promptTokenCount": 10 * number,
            "candidatesTokenCount": number,
            "thoughtsTokenCount": 7,
            "toolUsePromptTokenCount": number if number > 1 else None,
            "cachedContentTokenCount": 3,
            "totalTokenCount": 100 * number,
        }
        emulator.reply(
            f"Chapter {number}. ",
            finish_reason="CONTINUATION" if token else "STOP",
            usage=usage,
            candidate={"continuationToken": token} if token else {},
        )


SCRIPTS: dict[str, Callable[[Emulator], None]] = {
    "one request": lambda emulator: emulator.reply_long(TEXT, hop_size=100),
    "text and a call": lambda emulator: emulator.reply_long(TEXT, calls=[CALL], hop_size=1),
    "thoughts and calls": lambda emulator: emulator.reply_long(parts=_thoughts(), hop_size=2),
    "kinds of usage": _scripted,
    "the token limit": lambda emulator: emulator.reply_long(
        TEXT, hop_size=2, finish_reason="MAX_TOKENS"
    ),
}
CUTS: dict[str, Callable[[Emulator], None]] = {
    "cut after a token": lambda emulator: emulator.reply_long(
        TEXT,
        calls=[CALL],
        hop_size=100,
        first_checkpoint=0,
        faults=[faults.cut_connection(after=2)],
    ),
    "cut twice": lambda emulator: emulator.reply_long(
        TEXT,
        calls=[CALL],
        hop_size=3,
        first_checkpoint=0,
        faults=[faults.cut_connection(after=1), faults.cut_connection(after=2)],
    ),
    "ended without a finish reason": lambda emulator: emulator.reply_long(
        TEXT, hop_size=4, first_checkpoint=1, faults=[faults.ended_early()]
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_long_answer_is_the_same_as_the_sdks(script: str, way: str) -> None:
    ours, sdks = await _compare(SCRIPTS[script], way)
    assert ours == sdks


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("script", CUTS)
async def test_a_resumed_answer_is_the_same_as_the_sdks(script: str, way: str) -> None:
    ours, sdks = await _compare(CUTS[script], way)
    assert ours == sdks
    assert len(ours.requests) > 1
    assert ours.text == TEXT


async def _compare(script: Callable[[Emulator], None], way: str) -> tuple[Seen, Seen]:
    seen = []
    for client in (_ours, _sdks):
        with Emulator() as emulator:
            emulator.memory.salt = 0  # the same signatures for both
            script(emulator)
            seen.append(await client(emulator, way))
            assert emulator.refusals == []
    return seen[0], seen[1]


def _requests(emulator: Emulator) -> list[tuple[str, str | None]]:
    bodies = [dict(request.body) for request in emulator.requests]
    tokens = [body.pop("continuationToken", None) for body in bodies]
    assert all(body == bodies[0] for body in bodies)
    method = [request.path.rpartition(":")[2] for request in emulator.requests]
    return list(zip(method, tokens, strict=True))


async def _ours(emulator: Emulator, way: str) -> Seen:
    with ChatGemini(
        model=ARGON, api_key=API_KEY, base_url=emulator.url, on_malformed="return"
    ) as chat:
        model: Any = chat.bind_tools([DECLARATION])
        match way:
            case "invoke":
                message = await asyncio.to_thread(model.invoke, QUESTION)
            case "ainvoke":
                message = await model.ainvoke(QUESTION)
            case "stream":
                message = _sum(await asyncio.to_thread(lambda: list(model.stream(QUESTION))))
            case _:
                message = _sum([chunk async for chunk in model.astream(QUESTION)])
        # What is sent back has every signature in its place.
        body = chat.preview([("human", QUESTION), message, ("human", "Go on.")]).body
    parts: Any = body["contents"][1]["parts"]
    raw = message.response_metadata["raw_usage"]
    return Seen(
        requests=_requests(emulator),
        text=message.text,
        calls=[(call["name"], call["args"]) for call in message.tool_calls],
        thoughts="".join(_thinking(message)),
        signatures=[part["thoughtSignature"] for part in parts if "thoughtSignature" in part],
        finish_reason=message.response_metadata["finish_reason"],
        usage={key: value for key, value in raw.items() if key.endswith("Count")},
        prompt_count=message.response_metadata.get(
            "initial_prompt_token_count", raw["promptTokenCount"]
        ),
    )


def _sum(chunks: list[Any]) -> AIMessage:
    whole: AIMessage = functools.reduce(operator.add, chunks)
    return whole


def _thinking(message: AIMessage) -> Iterable[str]:
    for block in message.content:
        if isinstance(block, dict) and block["type"] == "thinking":
            yield block["thinking"]


async def _sdks(emulator: Emulator, way: str) -> Seen:
    options = types.HttpOptions(base_url=emulator.url, api_version="v1beta")
    client = genai.Client(api_key=API_KEY, http_options=options)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[_declaration()])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked: dict[str, Any] = {"model": ARGON, "contents": QUESTION, "config": config}
    models, amodels = client.models, client.aio.models
    match way:
        case "invoke":
            chunks = [await asyncio.to_thread(lambda: models.generate_content(**asked))]
        case "ainvoke":
            chunks = [await amodels.generate_content(**asked)]
        case "stream":
            chunks = await asyncio.to_thread(lambda: list(models.generate_content_stream(**asked)))
        case _:
            chunks = [chunk async for chunk in await amodels.generate_content_stream(**asked)]
    await client.aio.aclose()
    client.close()
    return _read(emulator, chunks)


def _declaration() -> types.FunctionDeclaration:
    return types.FunctionDeclaration(
        name=DECLARATION["name"],
        description=DECLARATION["description"],
        parameters_json_schema=DECLARATION["parameters"],
    )


def _read(emulator: Emulator, chunks: list[types.GenerateContentResponse]) -> Seen:
    candidates: list[Any] = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
    contents = [candidate.content for candidate in candidates if candidate.content]
    parts = [part for content in contents for part in content.parts or []]
    usage: Any = chunks[-1].usage_metadata
    counts = usage.model_dump(exclude_none=True, by_alias=True)
    return Seen(
        requests=_requests(emulator),
        text="".join(part.text for part in parts if part.text and not part.thought),
        calls=[(p.function_call.name, p.function_call.args) for p in parts if p.function_call],
        thoughts="".join(part.text for part in parts if part.text and part.thought),
        signatures=[_text(p.thought_signature) for p in parts if p.thought_signature],
        finish_reason=candidates[-1].finish_reason.value,
        usage={key: value for key, value in counts.items() if key.endswith("Count")},
        prompt_count=usage.initial_prompt_token_count,
    )


def _text(signature: bytes) -> str:
    return base64.b64encode(signature).decode()
