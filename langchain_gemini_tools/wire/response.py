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
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    FailedInteractionError,
    GeminiAPIError,
    MalformedToolCallError,
    ResponseError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.blocks import NOT_RELEASED
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use
from langchain_gemini_tools.facts.finish_reasons import CONTINUATION
from langchain_gemini_tools.wire.metadata import (
    Metadata,
    MetadataParser,
    find_unreleasable,
    generation_info,
    parse_usage,
)
from langchain_gemini_tools.wire.parts import PartParser
from langchain_gemini_tools.wire.pieces import (
    OUTPUT_V1,
    PROVIDER,
    Piece,
    ToolCallPiece,
    assemble,
    invalidate_calls,
    last_call,
    render_audio,
    render_chunks,
    render_unreleased,
    text_of,
)
from langchain_gemini_tools.wire.replay import (
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
        """Return whether a response is returned although its calls must not be executed."""
        return self.returns_failures or (self.returns_hops and finish_reason == CONTINUATION)

    @property
    def may_return_calls(self) -> bool:
        """Whether `returns` may be true, so that all calls have to wait for the finish reason."""
        return self.returns_failures or self.returns_hops


class _CandidateParser:
    """Parses one candidate. `feed` each body, then `finish`."""

    def __init__(self, context: ResponseContext) -> None:
        self._context = context
        self._parts = PartParser(
            context.tool_names,
            context.parameter_names,
            runs_remote_tools=context.runs_remote_tools,
        )
        self._metadata = MetadataParser()
        self._steps: list[gemini.JsonObject] = []

    def feed(self, response: gemini.Response, candidate: gemini.JsonObject | None) -> list[Piece]:
        self._metadata.feed(response, candidate)
        if RAW_STEPS in response:
            self._steps += response[RAW_STEPS] or ()
        return self._parts.feed(candidate or {}, response.get("responseId"))

    def end_hop(self) -> None:
        """Let the next body, if there is one, continue the response in another hop."""
        self._metadata.end_hop(text_of(self._parts.pieces))

    def finish(self) -> _Candidate:
        """Return what has arrived."""
        audio = self._parts.finish()
        pieces = self._parts.pieces
        return _Candidate(
            context=self._context,
            parts=self._parts,
            audio=audio,
            text=text_of(pieces),
            is_empty=not any(piece.is_shown for piece in pieces),
            metadata=self._metadata.finish(),
            steps=self._steps,
        )


@dataclass
class _Candidate:
    """A candidate as far as it has arrived: whether it can be used, and its message."""

    context: ResponseContext
    parts: PartParser
    audio: list[Piece]
    """The pieces that were complete only at the end."""
    text: str
    is_empty: bool
    metadata: Metadata
    steps: list[gemini.JsonObject]
    written: list[ToolCallPiece] = field(default_factory=list)
    """Calls that were written as text, known after `check`."""

    def check(self) -> None:
        """Raise if this is not a usable response, with what has arrived."""
        context, calls = self.context, self.parts.calls
        if context.returns_hops and self.metadata.finish_reason == CONTINUATION:
            return
        try:
            calls.check_complete()
            self.metadata.check(
                has_calls=bool(calls.ids),
                is_empty=self.is_empty,
                rejects_empty=context.rejects_empty,
                is_interaction=context.is_interaction,
            )
            if calls.unreadable:
                cause = "a call has no name, or its arguments are not an object"
                raise self._malformed_error(f"{cause}: {calls.unreadable:.200}")
            may_be_call = self.metadata.is_complete and not calls.ids
            finder = context.written_calls if may_be_call else None
            if finder and (found := finder.find(self.text)):
                raise self._written_error(found)
        except ResponseError as error:
            is_failed = isinstance(error, FailedInteractionError)
            is_returned = isinstance(error, FEEDBACK_ERRORS) or calls.ids
            if context.returns_failures and is_returned and not is_failed:
                return
            error.partial = self.partial()
            raise

    def _written_error(self, found: Sequence[WrittenCall]) -> MalformedToolCallError:
        """Return the error for calls that were written as text, and keep them as `written`."""
        names = self.context.tool_names
        for number, (name, text) in enumerate(found):
            tool = names.get(name, name) if name else UNKNOWN_TOOL
            call = ToolCallPiece(number, str(uuid.uuid4()), tool, fragment=text)
            self.written.append(call)
        shown = f"{found[0].text:.200}"
        return self._malformed_error(
            f"a function call was written as text instead of being made: {shown}"
        )

    def _malformed_error(self, cause: str) -> MalformedToolCallError:
        return MalformedToolCallError(
            f"The model did not make a valid tool call ({cause}).",
            finish_reason=self.metadata.finish_reason,
            finish_message=cause,
        )

    @property
    def releases_calls(self) -> bool:
        """Whether the tool calls may be executed: only those of a complete response."""
        return self.metadata.is_complete and self.parts.calls.unfinished is None

    @property
    def is_audio(self) -> bool:
        """Whether the content is audio alone, in standard blocks."""
        blocks = [piece.block for piece in self.parts.pieces]
        return bool(blocks) and all(block and block["type"] == "audio" for block in blocks)

    def cited_block(self) -> list[str | dict[Any, Any]]:
        """Return an empty text block that core merges, with its citations, into the first text.

        Core translates chunk by chunk, and knows the citations only when the last one arrives.
        """
        has_arguments = False
        for piece in self.parts.pieces:
            has_arguments |= piece.is_fragment and not self.context.may_return_calls
            if piece.text:
                # Core counts blocks without an index by changes of their type.
                return [{"type": "text", "text": "", "index": int(has_arguments)}]
            if piece.block and piece.block["type"] == "text":
                return [{"type": "text", "text": "", "index": piece.block["index"]}]
        return []

    def response_metadata(self) -> gemini.JsonObject:
        flag = {"empty_response": True} if self.is_empty else {}
        # Only the backend that issued a thought signature can read it.
        author = {"model_provider": PROVIDER, VERTEXAI: self.context.vertexai}
        form = OUTPUT_V1 if self.is_audio else {}
        fields = self.metadata.render(self.context.model, self.text)
        return {**author, **form, **fields, **flag}

    def message(self) -> AIMessage:
        """Return the message; its calls are invalid if they must not be executed."""
        message = self._whole_message()
        if message.tool_calls and not self.releases_calls:
            return invalidate_calls(message, NOT_RELEASED)
        if message.tool_calls:
            message.additional_kwargs |= dump_function_call(message.tool_calls)
        return message

    def partial(self) -> AIMessage:
        """Return the message so far, with calls that cannot be executed."""
        return invalidate_calls(self._whole_message())

    def _whole_message(self) -> AIMessage:
        whole = assemble(self.parts.pieces)
        return AIMessage(
            content=whole.content,
            tool_calls=whole.tool_calls,
            invalid_tool_calls=[*whole.invalid_tool_calls, *map(_written_call, self.written)],
            additional_kwargs=whole.additional_kwargs
            | self.parts.dump_log()
            | (self._dump_steps(whole.tool_calls) if self.steps else {}),
            response_metadata=self.response_metadata(),
            usage_metadata=parse_usage(self.metadata.usage, self.context.prior_usage),
        )

    def additional_kwargs(self) -> gemini.JsonObject:
        """Return those that apply to the whole message, for the last chunk of a stream."""
        pieces = self.parts.pieces
        called = last_call(pieces) if self.parts.calls.ids and self.releases_calls else {}
        steps = self._dump_steps(assemble(pieces).tool_calls) if self.steps else {}
        return self.parts.dump_log() | steps | called

    def _dump_steps(self, calls: Iterable[ToolCall]) -> gemini.JsonObject:
        named = ((call["id"] or "", call["name"], call["args"]) for call in calls)
        return dump_steps(self.steps, self.text, named)


def _written_call(call: ToolCallPiece) -> InvalidToolCall:
    return invalid_tool_call(
        name=call.name,
        args=f"{NOT_RELEASED}{call.fragment}",
        id=call.id,
        error="Not executed: the call was written as text.",
    )


def find_unreleasable_calls(message: AIMessage) -> ResponseError | None:
    """Return why tool calls of a message of ours must not be executed; `None` if they may be."""
    keys = ("finish_reason", "finish_message", "block_reason")
    return find_unreleasable(*map(message.response_metadata.get, keys))


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
    candidates = _candidates(response)
    if not candidates:
        check_is_response(response)
    generations: list[ChatGeneration] = []
    withheld: list[ResponseError] = []
    for candidate in candidates or (None,):
        parser = _CandidateParser(context)
        parser.feed(response, candidate)
        for hop in later_hops:
            parser.end_hop()
            parser.feed(hop, next(iter(_candidates(hop)), None))
        parsed = parser.finish()
        try:
            parsed.check()
        except ResponseError as error:
            withheld.append(error)
            continue
        message = parsed.message()
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
        candidate = candidates[0] if candidates else None
        if any(each.get("index") for each in candidates):
            raise UnreadableResponseError(
                "The stream contains a second candidate, but one was requested."
            )
        pieces = self._candidate.feed(response, candidate)
        pieces = [piece for piece in pieces if piece.call is None or not self._hold(piece)]
        if self._gate:
            pieces = self._release_text(pieces, self._gate)
        return render_chunks(pieces)

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
        candidate = self._candidate.finish()
        with self.keeping_partial():
            candidate.metadata.check_stream_ended()
        candidate.check()
        metadata = candidate.response_metadata()
        is_cited = self._streams_blocks and "grounding_metadata" in metadata
        last = AIMessageChunk(
            content=candidate.cited_block() if is_cited else "",
            additional_kwargs=candidate.additional_kwargs(),
            response_metadata=metadata,
            usage_metadata=parse_usage(candidate.metadata.usage, candidate.context.prior_usage),
            chunk_position="last",
        )
        info = generation_info(last.response_metadata)
        audio = [render_audio(piece, is_v1=candidate.is_audio) for piece in candidate.audio]
        end = ChatGenerationChunk(message=last, generation_info=info)
        return [*audio, *self._render_held(candidate), end]

    def _render_held(self, candidate: _Candidate) -> list[ChatGenerationChunk]:
        text = render_chunks(self._text)
        if candidate.releases_calls and not candidate.written:
            return [*text, *render_chunks(self._held)]
        unreleased = [Piece(call=call) for call in candidate.written] or self._held
        return [*text, render_unreleased(unreleased)] if unreleased else text

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Put what has arrived on the `partial` of an error that is raised inside."""
        try:
            yield
        except (GeminiAPIError, ResponseError) as error:
            if isinstance(error, TruncatedStreamError):
                self._check_is_response()
            error.partial = error.partial or self.partial()
            raise

    def _check_is_response(self) -> None:
        metadata = self._candidate.finish().metadata
        if not metadata.saw_candidate and not metadata.usage:
            check_is_response(metadata.fields)

    def partial(self) -> AIMessage | None:
        """Return the message so far, with calls that cannot be executed; `None` if it is empty."""
        candidate = self._candidate.finish()
        return None if candidate.is_empty else candidate.partial()


_OF_A_RESPONSE = frozenset(
    {"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime"}
)
"""Every response of Gemini with something in it has one of these fields."""


def check_is_response(fields: Mapping[str, Any]) -> None:
    """Reject the JSON of another server, such as a gateway that explains itself with status 200."""
    if fields and fields.keys().isdisjoint(_OF_A_RESPONSE):
        shown = redact(json.dumps(fields), secrets_in_use())[:200]  # never a part of a secret
        raise UnreadableResponseError(
            f"The response is not one of Gemini: {shown}. Check base_url.", body=fields
        )


def _candidates(response: gemini.Response) -> list[gemini.JsonObject]:
    candidates = response.get("candidates") or []
    if not isinstance(candidates, list) or not {*map(type, candidates)} <= {dict}:
        raise UnreadableResponseError(
            "The response's `candidates` are not a list of objects.", body=response
        )
    return candidates
