"""The response path: a reply -> AIMessage, the events of a stream -> AIMessageChunks.

`parse_response` and `StreamParser` share `PartReader` (the parts) and `Ending` (everything around
them), so that both give the same message.
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
from langchain_gemini_tools.wire.ending import Ending
from langchain_gemini_tools.wire.parts import (
    CallPiece,
    PartReader,
    Piece,
    assemble,
    call_signatures,
    merge_blocks,
    merge_calls,
    spoken,
)
from langchain_gemini_tools.wire.replay import CALL_SIGNATURES, VERTEXAI
from langchain_gemini_tools.wire.usage import parse_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import ToolCall, ToolCallChunk
    from langchain_core.messages.ai import UsageMetadata

    from langchain_gemini_tools.wire import shapes as gemini

_Content = str | list[str | dict[Any, Any]]

PROVIDER = "google_genai"
"""Core translates our content to standard blocks by this name."""

_FRAGMENT_INDEX = 1_000
"""Away from the numbers that core gives to blocks of text: equal numbers would be merged."""

_BLANK = AIMessageChunk(content="")


@dataclass(frozen=True)
class ResponseContext:
    """What reading a reply takes from the request it answers."""

    model: str
    tool_names: Mapping[str, str] = field(default_factory=dict)
    """Bound tools: name on the wire -> the user's name."""
    parameter_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Parameters with another name on the wire: tool's name -> the wire's -> the user's."""
    vertexai: bool = False
    runs_remote_tools: bool = False
    """Whether the API may call MCP servers by itself."""
    returns_failures: bool = False
    """Whether a malformed answer is handed over like any other."""
    refuses_empty: bool = False
    """Whether an answer that ends well with nothing in it is refused."""
    spent: UsageMetadata | None = None
    """What a first try used up already: it is counted in the answer's usage."""


class _Answer:
    """One candidate, as far as it has been read."""

    def __init__(self, context: ResponseContext) -> None:
        self.reader = PartReader(
            context.tool_names,
            context.parameter_names,
            runs_remote_tools=context.runs_remote_tools,
        )
        self.ending = Ending(context.model)
        self._context = context
        self._pieces: list[Piece] = []

    def read(self, reply: gemini.Response, candidate: Mapping[str, Any] | None) -> list[Piece]:
        self.ending.read(reply, candidate)
        self.reader.response_id = self.reader.response_id or reply.get("responseId")
        pieces = [piece for part in _parts(candidate) if (piece := self.reader.read(part))]
        self._pieces += pieces
        return pieces

    def check(self) -> None:
        """Raise, with what has arrived, when this may not be taken for an answer."""
        try:
            self.reader.check_complete()
            self.ending.check(
                has_calls=bool(self.reader.call_count),
                is_empty=self.is_empty(),
                refuses_empty=self._context.refuses_empty,
            )
        except ResponseError as error:
            if self._context.returns_failures and isinstance(error, FEEDBACK_ERRORS):
                return
            error.partial = self.partial()
            raise

    def is_empty(self) -> bool:
        return not any(piece.is_answer for piece in self._pieces)

    def metadata(self) -> dict[str, Any]:
        flag = {"empty_response": True} if self.is_empty() else {}
        # Thought signatures are read by the backend that gave them, and by no other.
        said = {"model_provider": PROVIDER, VERTEXAI: self._context.vertexai}
        return {**said, **self.ending.metadata(spoken(self._pieces)), **flag}

    def message(self) -> AIMessage:
        whole = assemble(self._pieces)
        return AIMessage(
            content=whole.content,
            tool_calls=whole.tool_calls,
            invalid_tool_calls=whole.invalid_tool_calls,
            additional_kwargs=whole.additional_kwargs | self.reader.dump_log(),
            response_metadata=self.metadata(),
            usage_metadata=self.usage(),
        )

    def usage(self) -> UsageMetadata | None:
        """What this answer cost, with the try before it."""
        usage, spent = parse_usage(self.ending.usage), self._context.spent
        return add_usage(usage, spent) if usage and spent else usage or spent

    def partial(self) -> AIMessage:
        """The message so far; its calls are kept, but not as calls that one could execute."""
        return without_valid_calls(self.message())


def without_valid_calls(message: AIMessage) -> AIMessage:
    """A message that did not end well, its calls turned into invalid ones in place."""
    message.invalid_tool_calls += [
        invalid_tool_call(
            name=call["name"],
            args=json.dumps(call["args"]),
            id=call["id"],
            error="The answer that holds this call did not end well: not to be executed.",
        )
        for call in message.tool_calls
    ]
    message.tool_calls = []
    return message


def parse_response(reply: gemini.Response, context: ResponseContext) -> ChatResult:
    """Parse a whole reply; each candidate becomes a generation, usage is on the first.

    Of several candidates, those that are no answers are left to `llm_output["withheld"]`.

    Raises:
        ResponseError: The reply holds nothing that may be taken for an answer.
    """
    generations: list[ChatGeneration] = []
    withheld: list[ResponseError] = []
    for candidate in _candidates(reply) or (None,):
        answer = _Answer(context)
        answer.read(reply, candidate)
        try:
            answer.check()
        except ResponseError as error:
            withheld.append(error)
            continue
        message = answer.message()
        if generations:
            message.usage_metadata = None
        generations.append(ChatGeneration(message=message))
    if not generations:
        raise withheld[0]
    told = {"withheld": [str(error) for error in withheld]} if withheld else {}
    return ChatResult(generations=generations, llm_output=told)


class StreamParser:
    """Events of one stream -> chunks. `feed` each event, then `finish` once.

    Chunks carry content, calls and call signatures as they come. What must not be added up
    (usage, finish reason, model name, order of parts) is on the chunk that `finish` returns.
    """

    def __init__(self, context: ResponseContext) -> None:
        self._answer = _Answer(context)

    def feed(self, reply: gemini.Response) -> list[ChatGenerationChunk]:
        """The chunks that an event adds: none, one, or more where text turns into blocks."""
        candidates = _candidates(reply)
        for candidate in candidates:
            if candidate.get("index"):
                told = "The stream holds a second candidate; one was asked for."
                raise UnreadableResponseError(told)
        pieces = self._answer.read(reply, candidates[0] if candidates else None)
        if len(pieces) == 1:
            return [_render_piece(pieces[0])]
        return [_render_chunk(run) for run in _runs(pieces)]

    def finish(self) -> list[ChatGenerationChunk]:
        """The last chunk, with everything that holds for the whole message.

        Raises:
            ResponseError: What arrived may not be taken for an answer; it is on `partial`.
        """
        with self.keeping_partial():
            self._answer.ending.check_complete()
        self._answer.check()
        last = AIMessageChunk(
            content="",
            additional_kwargs=self._answer.reader.dump_log(),
            response_metadata=self._answer.metadata(),
            usage_metadata=self._answer.usage(),
            chunk_position="last",
        )
        return [ChatGenerationChunk(message=last)]

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Whatever fails inside, what has arrived until then is on the error's `partial`."""
        try:
            yield
        except (GeminiAPIError, ResponseError) as error:
            if error.partial is None and not self._answer.is_empty():
                error.partial = self._answer.partial()
            raise


def _runs(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces that fit into one chunk: texts, blocks, or arguments of a call that is not whole."""
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
    """The chunk of one piece, as nearly all are."""
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
    # All of a run are fragments, or none.
    render = _fragment_chunk if _is_fragment(pieces[0]) else _whole_chunk
    return ChatGenerationChunk(message=render(content, merge_calls(pieces), kept))


def _whole_chunk(
    content: _Content, calls: Sequence[CallPiece], additional_kwargs: dict[str, Any]
) -> AIMessageChunk:
    """A chunk whose calls, if any, have all their arguments."""
    # What core would make of it, without core's looking for calls: that takes as long as reading
    # the event does. Every list and dict is a new one: a copy shares those that it is not given.
    fields: dict[str, Any] = {"content": content, "additional_kwargs": additional_kwargs}
    fields["response_metadata"] = {"model_provider": PROVIDER}
    fields["tool_calls"] = [_tool_call(call) for call in calls] if calls else []
    fields["tool_call_chunks"] = [_tool_call_chunk(call) for call in calls] if calls else []
    fields["invalid_tool_calls"] = []
    return _BLANK.model_copy(update=fields)


def _tool_call(call: CallPiece) -> ToolCall:
    return tool_call(name=call.name or "", args={**(call.args or {})}, id=call.id)


def _tool_call_chunk(call: CallPiece) -> ToolCallChunk:
    text = json.dumps(call.args)
    return tool_call_chunk(name=call.name, args=text, id=call.id, index=call.index)


def _fragment_chunk(
    content: _Content, calls: Sequence[CallPiece], additional_kwargs: dict[str, Any]
) -> AIMessageChunk:
    """A chunk with some of the arguments of calls."""
    # Core's translator for our provider shows some of a call's arguments as if they were all of
    # them, and never the rest. Without the provider, core shows them as a `tool_call_chunk`.
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


def _candidates(reply: gemini.Response) -> list[dict[str, Any]]:
    candidates = reply.get("candidates") or []
    if not isinstance(candidates, list) or [c for c in candidates if not isinstance(c, dict)]:
        raise UnreadableResponseError(
            "The reply's `candidates` are no list of objects.", body=reply
        )
    return candidates


def _parts(candidate: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    content = (candidate or {}).get("content") or {}
    parts = content.get("parts") or [] if isinstance(content, dict) else content
    if not isinstance(parts, list):
        raise UnreadableResponseError("The reply's `parts` are no list.", body=candidate)
    return parts
