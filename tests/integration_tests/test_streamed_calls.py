"""Arguments that arrive in pieces: one whole call, whichever way a stream is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools import ChatGemini
from tests.replay_server import ReplayServer, add_up

if TYPE_CHECKING:
    from collections.abc import Iterator


def event(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}


def piece(value: str | None = None, **fields: Any) -> dict[str, Any]:
    given = [{"jsonPath": "$.city", "stringValue": value, "willContinue": True}]
    return {"functionCall": fields | ({"partialArgs": given} if value else {})}


STREAM = [
    event({"text": "One "}),
    event({"text": "moment."}, piece(name="look", id="a", willContinue=True)),
    event(piece("Os", willContinue=True)),
    event(piece("lo", willContinue=True)),
    event(piece(), {"functionCall": {"name": "listen", "args": {"to": "rain"}, "id": "b"}}),
    event({"text": ""}, finishReason="STOP"),
]
CALLS = [("look", {"city": "Oslo"}, "a"), ("listen", {"to": "rain"}, "b")]


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with ReplayServer() as running:
        running.answer(STREAM)
        yield running


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_pieces_of_arguments_add_up_to_one_call(server: ReplayServer, version: str) -> None:
    with make_model(server, version) as model:
        message = add_up(list(model.stream("hi")))
    assert summaries_of(message.content_blocks) == [("One moment.",), *CALLS]
    assert [(call["name"], call["args"], call["id"]) for call in message.tool_calls] == CALLS


def test_pieces_of_arguments_are_shown_as_pieces(server: ReplayServer) -> None:
    with make_model(server, "v1") as model:
        blocks: list[Any] = [block for chunk in model.stream("hi") for block in chunk.content]
    pieces = [block["args"] for block in blocks if block["type"] == "tool_call_chunk"]
    assert "".join(pieces) == '{"city":"Oslo"}'


def test_events_contain_the_same_calls(server: ReplayServer) -> None:
    with make_model(server, "v0") as model:
        message = model.stream_events("hi", version="v3").output
    assert summaries_of(message.content_blocks) == [("One moment.",), *CALLS]


def make_model(server: ReplayServer, version: str) -> ChatGemini:
    return ChatGemini(
        model="gemini-3.8-flash",
        api_key="key",
        base_url=server.url,
        max_retries=0,
        output_version=version,
    )


def summaries_of(blocks: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (block["text"],) if block["type"] == "text" else (block["name"], block["args"], block["id"])
        for block in blocks
    ]
