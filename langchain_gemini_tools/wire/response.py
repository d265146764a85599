"""Responses -> AIMessage, the events of a stream -> AIMessageChunks.

`parse_response` and `StreamParser` share `PartParser` (the parts) and `MetadataParser` (everything
around them), so that both give the same message.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import add_usage
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    GeminiAPIError,
    ResponseError,
    UnreadableResponseError,
)
from langchain_gemini_tools.wire.metadata import MetadataParser, parse_usage
from langchain_gemini_tools.wire.parts import (
    PartParser,
    Piece,
    ToolCallPiece,
    assemble,
    call_signatures,
    merge_blocks,
    merge_calls,
    text_of,
)
from langchain_gemini_tools.wire.replay import CALL_SIGNATURES, VERTEXAI

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import ToolCall, ToolCallChunk
    from langchain_core.messages.ai import UsageMetadata

    from langchain_gemini_tools.wire import shapes as gemini

_Content = str | list[str | dict[Any, Any]]

PROVIDER = "google_genai"
"""Core selects the translator to standard content blocks by this name."""

_FRAGMENT_INDEX = 1_000
"""Far from the indexes that core gives to text blocks: blocks with equal indexes are merged."""

_BLANK = AIMessageChunk(content="")


@dataclass(frozen=True)
class ResponseContext:
    """What parsing a response needs from its request."""

    model: str
    tool_names: Mapping[str, str] = field(default_factory=dict)
    """Bound tools: name in the request -> the user's name."""
    parameter_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Renamed parameters: the tool's name -> name in the request -> the user's name."""
    vertexai: bool = False
    runs_remote_tools: bool = False
    """Whether the API may call MCP servers itself."""
    returns_failures: bool = False
    """Whether malformed responses are returned instead of raised."""
    rejects_empty: bool = False
    """Whether a response that is complete but empty is an error."""
    prior_usage: UsageMetadata | None = None
    """The usage of a failed first attempt, which is added to that of the response."""


class _CandidateParser:
    """One candidate, as far as it has been parsed."""

    def __init__(self, context: ResponseContext) -> None:
        self.parts = PartParser(
            context.tool_names,
            context.parameter_names,
            runs_remote_tools=context.runs_remote_tools,
        )
        self.metadata = MetadataParser(context.model)
        self._context = context
        self._pieces: list[Piece] = []

    def feed(self, response: gemini.Response, candidate: gemini.JsonObject | None) -> list[Piece]:
        self.metadata.feed(response, candidate)
        self.parts.response_id = self.parts.response_id or response.get("responseId")
        pieces = [piece for part in _parts(candidate) if (piece := self.parts.parse(part))]
        self._pieces += pieces
        return pieces

    def check(self) -> None:
        """Raise if this is not a usable response, with what has arrived."""
        try:
            self.parts.check_complete()
            self.metadata.check(
                has_calls=bool(self.parts.call_count),
                is_empty=self.is_empty(),
                rejects_empty=self._context.rejects_empty,
            )
        except ResponseError as error:
            if self._context.returns_failures and isinstance(error, FEEDBACK_ERRORS):
                return
            error.partial = self.partial()
            raise

    def is_empty(self) -> bool:
        return not any(piece.is_shown for piece in self._pieces)

    def response_metadata(self) -> gemini.JsonObject:
        flag = {"empty_response": True} if self.is_empty() else {}
        # Only the backend that issued a thought signature can read it.
        author = {"model_provider": PROVIDER, VERTEXAI: self._context.vertexai}
        return {**author, **self.metadata.metadata(text_of(self._pieces)), **flag}

    def message(self) -> AIMessage:
        whole = assemble(self._pieces)
        return AIMessage(
            content=whole.content,
            tool_calls=whole.tool_calls,
            invalid_tool_calls=whole.invalid_tool_calls,
            additional_kwargs=whole.additional_kwargs | self.parts.dump_log(),
            response_metadata=self.response_metadata(),
            usage_metadata=self.usage(),
        )

    def usage(self) -> UsageMetadata | None:
        """Return the usage of this response and of the failed attempt before it."""
        usage, prior = parse_usage(self.metadata.usage), self._context.prior_usage
        return add_usage(usage, prior) if usage and prior else usage or prior

    def partial(self) -> AIMessage:
        """Return the message so far, with calls that cannot be executed."""
        return invalidate_calls(self.message())


def invalidate_calls(message: AIMessage) -> AIMessage:
    """Turn the tool calls of a failed response into invalid ones, in place."""
    message.invalid_tool_calls += [
        invalid_tool_call(
            name=call["name"],
            args=json.dumps(call["args"]),
            id=call["id"],
            error="Not executed: the response with this call failed.",
        )
        for call in message.tool_calls
    ]
    message.tool_calls = []
    return message


def parse_response(response: gemini.Response, context: ResponseContext) -> ChatResult:
    """Parse a whole response: each candidate becomes a generation, usage is on the first.

    If some of several candidates are not usable, `llm_output["withheld"]` says why.

    Raises:
        ResponseError: No candidate is usable.
    """
    generations: list[ChatGeneration] = []
    withheld: list[ResponseError] = []
    for candidate in _candidates(response) or (None,):
        parser = _CandidateParser(context)
        parser.feed(response, candidate)
        try:
            parser.check()
        except ResponseError as error:
            withheld.append(error)
            continue
        message = parser.message()
        if generations:
            message.usage_metadata = None
        generations.append(ChatGeneration(message=message))
    if not generations:
        raise withheld[0]
    output = {"withheld": [str(error) for error in withheld]} if withheld else {}
    return ChatResult(generations=generations, llm_output=output)


class StreamParser:
    """Parses the events of one stream into chunks. `feed` each event, then `finish` once.

    Chunks have content, calls and call signatures as they arrive. What must not be added up (usage,
    finish reason, model name, order of parts) is on the chunk that `finish` returns.
    """

    def __init__(self, context: ResponseContext) -> None:
        self._candidate = _CandidateParser(context)

    def feed(self, response: gemini.Response) -> list[ChatGenerationChunk]:
        """Return the chunks of an event: none, one, or several if text is followed by blocks."""
        candidates = _candidates(response)
        for candidate in candidates:
            if candidate.get("index"):
                raise UnreadableResponseError(
                    "The stream contains a second candidate, but one was requested."
                )
        pieces = self._candidate.feed(response, candidates[0] if candidates else None)
        if len(pieces) == 1:
            return [_render_piece(pieces[0])]
        return [_render_chunk(run) for run in _runs(pieces)]

    def finish(self) -> list[ChatGenerationChunk]:
        """Return the last chunk, with everything that applies to the whole message.

        Raises:
            ResponseError: What arrived is not a usable response; it is in the error's `partial`.
        """
        with self.keeping_partial():
            self._candidate.metadata.check_stream_ended()
        self._candidate.check()
        last = AIMessageChunk(
            content="",
            additional_kwargs=self._candidate.parts.dump_log(),
            response_metadata=self._candidate.response_metadata(),
            usage_metadata=self._candidate.usage(),
            chunk_position="last",
        )
        return [ChatGenerationChunk(message=last)]

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Put what has arrived on the `partial` of an error that is raised inside."""
        try:
            yield
        except (GeminiAPIError, ResponseError) as error:
            if error.partial is None and not self._candidate.is_empty():
                error.partial = self._candidate.partial()
            raise


def _runs(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Group pieces that fit into one chunk: texts, blocks, or arguments of an incomplete call."""
    runs: list[list[Piece]] = []
    last: tuple[bool, bool] | None = None
    has_block = False
    for piece in pieces:
        has_block |= piece.block is not None
        kind = (_is_fragment(piece), has_block)
        if kind != last:
            runs.append([])
        runs[-1].append(piece)
        last = kind
    return runs


def _is_fragment(piece: Piece) -> bool:
    return piece.call is not None and piece.call.args is None


def _render_piece(piece: Piece) -> ChatGenerationChunk:
    """Render a chunk of one piece, as nearly all are."""
    if piece.is_plain_text:
        return ChatGenerationChunk(message=_whole_chunk(piece.text, [], {}))
    if piece.call is None or piece.call.args is None:
        return _render_chunk([piece])
    signed = {CALL_SIGNATURES: {piece.call.id: piece.signature}} if piece.signature else {}
    return ChatGenerationChunk(message=_whole_chunk("", [piece.call], signed))


def _render_chunk(pieces: Sequence[Piece]) -> ChatGenerationChunk:
    blocks = merge_blocks(pieces)
    signatures = call_signatures(pieces)
    content: _Content = [*blocks] if blocks else "".join(piece.text for piece in pieces)
    kept = {CALL_SIGNATURES: signatures} if signatures else {}
    # Either all pieces of a run are fragments, or none is.
    render = _fragment_chunk if _is_fragment(pieces[0]) else _whole_chunk
    return ChatGenerationChunk(message=render(content, merge_calls(pieces), kept))


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


def _fragment_chunk(
    content: _Content, calls: Sequence[ToolCallPiece], additional_kwargs: gemini.JsonObject
) -> AIMessageChunk:
    """Return a chunk with some of the arguments of tool calls."""
    # Core's translator for our provider shows the first fragment as if it were the whole call.
    # Without the provider, core shows fragments as `tool_call_chunk`.
    return AIMessageChunk(
        content=content,
        tool_call_chunks=[
            tool_call_chunk(
                name=call.name,
                args=call.fragment,
                id=call.id,
                index=call.index + _FRAGMENT_INDEX,
            )
            for call in calls
        ],
        additional_kwargs=additional_kwargs,
    )


def _candidates(response: gemini.Response) -> list[gemini.JsonObject]:
    candidates = response.get("candidates") or []
    if not isinstance(candidates, list) or [c for c in candidates if not isinstance(c, dict)]:
        raise UnreadableResponseError(
            "The response's `candidates` are not a list of objects.", body=response
        )
    return candidates


def _parts(candidate: gemini.JsonObject | None) -> list[gemini.JsonObject]:
    content = (candidate or {}).get("content") or {}
    parts = content.get("parts") or [] if isinstance(content, dict) else content
    if not isinstance(parts, list):
        raise UnreadableResponseError("The response's `parts` are not a list.", body=candidate)
    return parts
