"""Responses -> AIMessage, the events of a stream -> AIMessageChunks.

`parse_response` and `StreamParser` share `PartParser` (the parts) and `MetadataParser` (everything
around them), so that both give the same message.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import add_usage
from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    FailedInteractionError,
    GeminiAPIError,
    MalformedToolCallError,
    ResponseError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.finish_reasons import CONTINUATION
from langchain_gemini_tools.wire.chunks import (
    OUTPUT_V1,
    PROVIDER,
    fragment_chunk,
    group_runs,
    is_fragment,
    render_audio,
    render_chunk,
    render_piece,
    render_unreleased,
)
from langchain_gemini_tools.wire.metadata import (
    MetadataParser,
    find_unreleasable,
    generation_info,
    parse_usage,
)
from langchain_gemini_tools.wire.parts import (
    PartParser,
    Piece,
    ToolCallPiece,
    assemble,
    last_call,
    split_calls,
    text_of,
)
from langchain_gemini_tools.wire.replay import (
    FUNCTION_CALL,
    NOT_RELEASED,
    RAW_STEPS,
    UNKNOWN_TOOL,
    VERTEXAI,
    dump_function_call,
    dump_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import InvalidToolCall, ToolCall
    from langchain_core.messages.ai import UsageMetadata

    from langchain_gemini_tools.wire import shapes as gemini


class WrittenCall(NamedTuple):
    """A tool call that the model wrote as text instead of making it."""

    name: str | None
    text: str


class TextGate(Protocol):
    """Decides whether the text of a stream may still become a written call."""

    def holds(self, text: str) -> bool:
        """Return whether the text up to here has to be held back."""


class WrittenCalls(Protocol):
    """Finds written calls; see `prompted.written_calls`."""

    def find(self, text: str) -> list[WrittenCall]:
        """Return the calls if the text is a call; none if it is an answer."""

    def gate(self) -> TextGate:
        """Return what decides how long the text of a stream is held back."""


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
    """Whether malformed responses, and those with calls that must not be executed, are returned
    instead of raised."""
    returns_hops: bool = False
    """Whether a response that ends with CONTINUATION is returned, although it has tool calls."""
    rejects_empty: bool = False
    """Whether a response that is complete but empty is an error."""
    streams_blocks: bool = False
    """Whether core translates each chunk into content blocks (`output_version="v1"`)."""
    is_interaction: bool = False
    """Whether finish reasons are statuses of the Interactions API. One that is not known is then
    not the end of an answer, even if there is text."""
    written_calls: WrittenCalls | None = None
    """Finds calls in the text of a response; `None` if no functions are bound."""
    prior_usage: UsageMetadata | None = None
    """The usage of a failed first attempt, which is added to that of the response."""

    def returns(self, finish_reason: str | None) -> bool:
        """Whether a response is returned although its calls must not be executed."""
        return self.returns_failures or (self.returns_hops and finish_reason == CONTINUATION)

    @property
    def may_return_calls(self) -> bool:
        """Whether `returns` may be true, so that all calls have to wait for the finish reason."""
        return self.returns_failures or self.returns_hops


class _CandidateParser:
    """One candidate, as far as it has been parsed."""

    def __init__(self, context: ResponseContext) -> None:
        self.parts = PartParser(
            context.tool_names,
            context.parameter_names,
            runs_remote_tools=context.runs_remote_tools,
        )
        self.metadata = MetadataParser(context.model)
        self.written: list[ToolCallPiece] = []
        """Calls that were written as text, known after `check`."""
        self._context = context
        self._pieces: list[Piece] = []
        self._steps: list[gemini.JsonObject] = []

    def feed(self, response: gemini.Response, candidate: gemini.JsonObject | None) -> list[Piece]:
        self.metadata.feed(response, candidate)
        self.parts.response_id = self.parts.response_id or response.get("responseId")
        self._steps += response.get(RAW_STEPS) or ()
        pieces = [piece for part in _parts(candidate) if (piece := self.parts.parse(part))]
        self._pieces += pieces
        return pieces

    def end_hop(self) -> None:
        """Let the next body, if there is one, continue the response in another hop."""
        self.metadata.end_hop(text_of(self._pieces))

    def finish(self) -> list[Piece]:
        """Return the pieces that are complete only at the end of the response."""
        pieces = self.parts.finish()
        self._pieces += pieces
        return pieces

    def check(self) -> None:
        """Raise if this is not a usable response, with what has arrived."""
        reason = self.metadata.finish_reason
        if reason == CONTINUATION and self._context.returns_hops:
            return
        try:
            self.parts.check_complete()
            self.metadata.check(
                has_calls=bool(self.parts.call_count),
                is_empty=self.is_empty(),
                rejects_empty=self._context.rejects_empty,
                is_interaction=self._context.is_interaction,
            )
            self._check_written()
        except ResponseError as error:
            is_failed = isinstance(error, FailedInteractionError)
            is_returned = isinstance(error, FEEDBACK_ERRORS) or self.parts.call_count
            if self._context.returns_failures and is_returned and not is_failed:
                return
            error.partial = self.partial()
            raise

    def _check_written(self) -> None:
        """Raise if a complete response is a call that was written as text."""
        finder = self._context.written_calls
        if not finder or self.parts.call_count or self.metadata.find_unreleasable():
            return
        found = finder.find(text_of(self._pieces))
        names = self._context.tool_names
        self.written = [
            ToolCallPiece(
                number,
                str(uuid.uuid4()),
                names.get(name or "", name or UNKNOWN_TOOL),
                fragment=f"{NOT_RELEASED}{text}",
            )
            for number, (name, text) in enumerate(found)
        ]
        if found:
            shown = f"{found[0].text:.200}"
            cause = f"a function call was written as text instead of being made: {shown}"
            raise MalformedToolCallError(
                f"The model did not make a valid tool call ({cause}).",
                finish_reason=self.metadata.finish_reason,
                finish_message=cause,
            )

    @property
    def releases_calls(self) -> bool:
        """Whether the tool calls may be executed: only those of a complete response."""
        return not self.parts.has_open_call and self.metadata.find_unreleasable() is None

    def is_empty(self) -> bool:
        return not self.parts.has_audio and not any(piece.is_shown for piece in self._pieces)

    def is_audio(self) -> bool:
        """Return whether the content is audio alone, in standard blocks."""
        blocks = [piece.block for piece in self._pieces]
        return bool(blocks) and all(block and block["type"] == "audio" for block in blocks)

    def cited_block(self) -> list[str | dict[Any, Any]]:
        """Return an empty text block that core merges, with its citations, into the first text.

        Core translates chunk by chunk, and knows the citations only when the last one arrives.
        """
        has_arguments = False
        for piece in self._pieces:
            has_arguments |= is_fragment(piece) and not self._context.may_return_calls
            if piece.text:
                # Core counts blocks without an index by changes of their type.
                return [{"type": "text", "text": "", "index": int(has_arguments)}]
            if piece.block and piece.block["type"] == "text":
                return [{"type": "text", "text": "", "index": piece.block["index"]}]
        return []

    def response_metadata(self) -> gemini.JsonObject:
        flag = {"empty_response": True} if self.is_empty() else {}
        # Only the backend that issued a thought signature can read it.
        author = {"model_provider": PROVIDER, VERTEXAI: self._context.vertexai}
        form = OUTPUT_V1 if self.is_audio() else {}
        return {**author, **form, **self.metadata.metadata(text_of(self._pieces)), **flag}

    def message(self) -> AIMessage:
        """Return the message; its calls are invalid if they must not be executed."""
        message = self._whole_message()
        if message.tool_calls and not self.releases_calls:
            return invalidate_calls(message, NOT_RELEASED)
        message.additional_kwargs |= dump_function_call(message.tool_calls)
        return message

    def additional_kwargs(self) -> gemini.JsonObject:
        """Return those that apply to the whole message, for the last chunk of a stream."""
        is_called = self.parts.call_count and self.releases_calls
        called = last_call(self._pieces) if is_called else {}
        steps = self._dump_steps(assemble(self._pieces).tool_calls) if self._steps else {}
        return self.parts.dump_log() | steps | called

    def _dump_steps(self, calls: Iterable[ToolCall]) -> gemini.JsonObject:
        named = ((call["id"] or "", call["name"], call["args"]) for call in calls)
        return dump_steps(self._steps, text_of(self._pieces), named)

    def partial(self) -> AIMessage:
        """Return the message so far, with calls that cannot be executed."""
        self.finish()
        return invalidate_calls(self._whole_message())

    def _whole_message(self) -> AIMessage:
        whole = assemble(self._pieces)
        return AIMessage(
            content=whole.content,
            tool_calls=whole.tool_calls,
            invalid_tool_calls=[*whole.invalid_tool_calls, *map(_written_call, self.written)],
            additional_kwargs=whole.additional_kwargs
            | self.parts.dump_log()
            | (self._dump_steps(whole.tool_calls) if self._steps else {}),
            response_metadata=self.response_metadata(),
            usage_metadata=self.usage(),
        )

    def usage(self) -> UsageMetadata | None:
        """Return the usage of this response and of the failed attempt before it."""
        usage, prior = parse_usage(self.metadata.usage), self._context.prior_usage
        return add_usage(usage, prior) if usage and prior else usage or prior


def _written_call(call: ToolCallPiece) -> InvalidToolCall:
    return invalid_tool_call(
        name=call.name,
        args=call.fragment,
        id=call.id,
        error="Not executed: the call was written as text.",
    )


def invalidate_calls(message: AIMessage, prefix: str = "") -> AIMessage:
    """Turn the tool calls of a failed response into invalid ones, in place.

    Args:
        message: The message of the response.
        prefix: What to put before the arguments.
    """
    message.invalid_tool_calls += [
        invalid_tool_call(
            name=call["name"],
            args=prefix + json.dumps(call["args"]),
            id=call["id"],
            error="Not executed: the response with this call failed.",
        )
        for call in message.tool_calls
    ]
    message.tool_calls = []
    message.additional_kwargs.pop(FUNCTION_CALL, None)
    return message


def find_unreleasable_calls(message: AIMessage) -> ResponseError | None:
    """Return why tool calls of a message of ours must not be executed; `None` if they may be."""
    keys = ("finish_reason", "finish_message", "block_reason")
    return find_unreleasable(*map(message.response_metadata.get, keys))


def invalidate_call_chunks(chunk: AIMessageChunk) -> AIMessageChunk:
    """Return a chunk whose tool calls stay invalid when it is merged with others."""
    if not chunk.tool_calls:
        return chunk
    calls = [
        tool_call_chunk(
            name=call["name"],
            args=f"{NOT_RELEASED}{call['args']}",
            id=call["id"],
            index=call["index"],
        )
        for call in chunk.tool_call_chunks
    ]
    return AIMessageChunk(
        content=chunk.content, tool_call_chunks=calls, additional_kwargs=chunk.additional_kwargs
    )


def parse_response(
    response: gemini.Response,
    context: ResponseContext,
    later_hops: Sequence[gemini.Response] = (),
) -> ChatResult:
    """Parse a whole response: each candidate becomes a generation, usage is on the first.

    If some of several candidates are not usable, `llm_output["withheld"]` says why.

    Args:
        response: The response.
        context: What is known from its request.
        later_hops: The responses that continue its only candidate.

    Raises:
        ResponseError: No candidate is usable.
    """
    generations: list[ChatGeneration] = []
    withheld: list[ResponseError] = []
    for candidate in _candidates(response) or (None,):
        parser = _CandidateParser(context)
        parser.feed(response, candidate)
        for hop in later_hops:
            parser.end_hop()
            parser.feed(hop, next(iter(_candidates(hop)), None))
        parser.finish()
        try:
            parser.check()
        except ResponseError as error:
            withheld.append(error)
            continue
        message = parser.message()
        if generations:
            message.usage_metadata = None
        info = generation_info(message.response_metadata)
        generations.append(ChatGeneration(message=message, generation_info=info))
    if not generations:
        raise withheld[0]
    output = {"withheld": [str(error) for error in withheld]} if withheld else {}
    return ChatResult(generations=generations, llm_output=output)


class StreamParser:
    """Parses the events of one response into chunks. `feed` each event, then `finish` once.

    A long response is several streams; `end_hop` separates them.

    Chunks have content and the pieces of streamed arguments as they arrive. Whole calls wait until
    the response has ended well, so that a response with calls that must not be executed can be
    requested again. After pieces of arguments, such a response raises before its last chunk:
    executors only see the merged message. If failures are returned, all calls wait. Text that may
    be a call waits too.

    What must not be added up (usage, finish reason, model name, order of parts) is on the last
    chunk. Audio waits for the end as well: the header of a WAV file has its length.
    """

    def __init__(self, context: ResponseContext) -> None:
        self._candidate = _CandidateParser(context)
        self._held: list[Piece] = []
        """Calls that are not released yet."""
        self._holds_fragments = context.may_return_calls
        self._streams_blocks = context.streams_blocks
        self._gate = context.written_calls.gate() if context.written_calls else None
        self._text: list[Piece] = []
        """Pieces that may be the start of a written call."""

    def feed(self, response: gemini.Response) -> list[ChatGenerationChunk]:
        """Return the chunks of an event: none, one, or several if text is followed by blocks."""
        candidates = _candidates(response)
        for candidate in candidates:
            if candidate.get("index"):
                raise UnreadableResponseError(
                    "The stream contains a second candidate, but one was requested."
                )
        pieces = self._candidate.feed(response, candidates[0] if candidates else None)
        pieces = [piece for piece in pieces if piece.call is None or not self._hold(piece)]
        if self._gate:
            pieces = self._release_text(pieces, self._gate)
        if len(pieces) == 1:
            return [render_piece(pieces[0])]
        return [render_chunk(run) for run in group_runs(pieces)]

    def end_hop(self) -> None:
        """Let the next event, if there is one, begin another hop of the same response."""
        self._candidate.end_hop()

    def _release_text(self, pieces: list[Piece], gate: TextGate) -> list[Piece]:
        """Return the pieces that cannot be part of a written call, with those held back before."""
        text = text_of(pieces)
        if (self._text or text) and gate.holds(text):
            self._text += pieces
            return []
        released, self._text = [*self._text, *pieces] if self._text else pieces, []
        return released

    def _hold(self, piece: Piece) -> bool:
        """Hold a call back, if it is a whole one or follows one that is held back."""
        if not (piece.is_whole_call or self._held or self._holds_fragments):
            return False
        self._held.append(piece)
        return True

    def finish(self) -> list[ChatGenerationChunk]:
        """Return audio and calls, then the last chunk, which applies to the whole message.

        Raises:
            ResponseError: What arrived is not a usable response; it is in the error's `partial`.
        """
        with self.keeping_partial():
            self._candidate.metadata.check_stream_ended()
        rest = self._candidate.finish()
        self._candidate.check()
        metadata = self._candidate.response_metadata()
        is_cited = self._streams_blocks and "grounding_metadata" in metadata
        last = AIMessageChunk(
            content=self._candidate.cited_block() if is_cited else "",
            additional_kwargs=self._candidate.additional_kwargs(),
            response_metadata=metadata,
            usage_metadata=self._candidate.usage(),
            chunk_position="last",
        )
        info = generation_info(last.response_metadata)
        audio = [render_audio(piece, is_v1=self._candidate.is_audio()) for piece in rest]
        end = ChatGenerationChunk(message=last, generation_info=info)
        return [*audio, *self._render_held(), end]

    def _render_held(self) -> list[ChatGenerationChunk]:
        text = [render_chunk(run) for run in group_runs(self._text)]
        if written := self._candidate.written:
            return [*text, ChatGenerationChunk(message=fragment_chunk("", written, {}))]
        if self._candidate.releases_calls:
            return [*text, *(render_chunk(run) for run in group_runs(self._held))]
        return [*text, render_unreleased(self._held)] if self._held else text

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Put what has arrived on the `partial` of an error that is raised inside."""
        try:
            yield
        except (GeminiAPIError, ResponseError) as error:
            error.partial = error.partial or self.partial()
            raise

    def partial(self) -> AIMessage | None:
        """Return the message so far, with calls that cannot be executed; `None` if it is empty."""
        return None if self._candidate.is_empty() else self._candidate.partial()


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
    return split_calls(parts)
