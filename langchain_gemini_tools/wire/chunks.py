"""Pieces of a response -> the chunks of a stream.

Chunks are made as core would make them, without core's search for tool calls in each of them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from langchain_gemini_tools.wire.parts import (
    Piece,
    ToolCallPiece,
    call_signatures,
    merge_blocks,
    merge_calls,
)
from langchain_gemini_tools.wire.replay import CALL_SIGNATURES, NOT_RELEASED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import ToolCall, ToolCallChunk

    from langchain_gemini_tools.wire import shapes as gemini

_Content = str | list[str | dict[Any, Any]]

PROVIDER = "google_genai"
"""Core selects the translator to standard content blocks by this name."""

OUTPUT_V1 = {"output_version": "v1"}
"""Core's translator for our provider does not know audio blocks: it is to leave them unchanged."""

_FRAGMENT_INDEX = 1_000
"""Far from the indexes that core gives to text blocks: blocks with equal indexes are merged."""

_BLANK = AIMessageChunk(content="")


def group_runs(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Group pieces that fit into one chunk: texts, blocks, or arguments of an incomplete call."""
    runs: list[list[Piece]] = []
    last: tuple[bool, bool] | None = None
    has_block = False
    for piece in pieces:
        has_block |= piece.block is not None
        kind = (is_fragment(piece), has_block)
        if kind != last:
            runs.append([])
        runs[-1].append(piece)
        last = kind
    return runs


def is_fragment(piece: Piece) -> bool:
    """Return whether a piece is part of the arguments of a tool call."""
    return piece.call is not None and not piece.is_whole_call


def render_piece(piece: Piece) -> ChatGenerationChunk:
    """Render a chunk of one piece, as nearly all are."""
    if piece.is_plain_text:
        return ChatGenerationChunk(message=_whole_chunk(piece.text, [], {}))
    return render_chunk([piece])


def render_chunk(pieces: Sequence[Piece]) -> ChatGenerationChunk:
    """Render a run of pieces as one chunk."""
    blocks = merge_blocks(pieces)
    signatures = call_signatures(pieces)
    content: _Content = [*blocks] if blocks else "".join(piece.text for piece in pieces)
    kept = {CALL_SIGNATURES: signatures} if signatures else {}
    # Either all pieces of a run are fragments, or none is.
    render = fragment_chunk if is_fragment(pieces[0]) else _whole_chunk
    return ChatGenerationChunk(message=render(content, merge_calls(pieces), kept))


def render_audio(piece: Piece, *, is_v1: bool) -> ChatGenerationChunk:
    """Render a WAV file; as standard content if there is nothing else."""
    generation = render_chunk([piece])
    if is_v1:
        generation.message.response_metadata |= OUTPUT_V1
    return generation


def render_unreleased(pieces: Sequence[Piece]) -> ChatGenerationChunk:
    """Render a chunk with calls that must not be executed; merged, they are invalid calls."""
    calls = [
        replace(call, fragment=NOT_RELEASED + _arguments_text(call)) for call in merge_calls(pieces)
    ]
    signatures = call_signatures(pieces)
    kept = {CALL_SIGNATURES: signatures} if signatures else {}
    return ChatGenerationChunk(message=fragment_chunk("", calls, kept))


def _arguments_text(call: ToolCallPiece) -> str:
    return call.fragment if call.args is None else json.dumps(call.args)


def _whole_chunk(
    content: _Content, calls: Sequence[ToolCallPiece], additional_kwargs: gemini.JsonObject
) -> AIMessageChunk:
    """Return a chunk whose tool calls, if any, have all their arguments."""
    # The same as core's constructor, without core's search for calls, which takes as long as
    # parsing the event. Every list and dict is new: a copy shares those that are not replaced.
    fields: gemini.JsonObject = {"content": content, "additional_kwargs": additional_kwargs}
    fields["response_metadata"] = {"model_provider": PROVIDER}
    fields["tool_calls"] = [_tool_call(call) for call in calls] if calls else []
    fields["tool_call_chunks"] = [_tool_call_chunk(call) for call in calls] if calls else []
    fields["invalid_tool_calls"] = []
    return _BLANK.model_copy(update=fields)


def _tool_call(call: ToolCallPiece) -> ToolCall:
    return tool_call(name=call.name or "", args={**(call.args or {})}, id=call.id)


def _tool_call_chunk(call: ToolCallPiece) -> ToolCallChunk:
    text = json.dumps(call.args)
    return tool_call_chunk(name=call.name, args=text, id=call.id, index=call.index)


def fragment_chunk(
    content: _Content, calls: Sequence[ToolCallPiece], additional_kwargs: gemini.JsonObject
) -> AIMessageChunk:
    """Return a chunk with some of the arguments of tool calls."""
    # Core's translator for our provider shows the first fragment as if it were the whole call.
    # Without the provider, core shows fragments as `tool_call_chunk`.
    chunks = [
        tool_call_chunk(
            name=call.name, args=call.fragment, id=call.id, index=call.index + _FRAGMENT_INDEX
        )
        for call in calls
    ]
    if any(call.name for call in calls):
        return AIMessageChunk(
            content=content, tool_call_chunks=chunks, additional_kwargs=additional_kwargs
        )
    # A piece from the middle of the arguments is not JSON. Core would look for JSON in it again
    # after dropping each of its characters, which takes quadratic time.
    fields: gemini.JsonObject = {"content": content, "additional_kwargs": additional_kwargs}
    fields |= {"tool_call_chunks": chunks, "tool_calls": [], "invalid_tool_calls": []}
    return _BLANK.model_copy(update=fields | {"response_metadata": {}})
