"""Render requests whose prompt describes the tools, and parse their responses.

`render_prompted` is the counterpart of `wire.request.render_request` for models without function
calling, and its result is used in the same way: it parses the response, complete or streamed, and
can be sent again with feedback.
"""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    GeminiAPIError,
    MalformedToolCallError,
    ResponseError,
)
from langchain_gemini_tools.facts.blocks import NOT_RELEASED, UNUSABLE, blocks_of, type_of
from langchain_gemini_tools.facts.json_values import with_stored_ints
from langchain_gemini_tools.prompted.parser import ToolCallParser
from langchain_gemini_tools.prompted.prompt import (
    REASONS,
    PromptedTools,
    protocol_name,
    render_instructions,
    render_turn,
)
from langchain_gemini_tools.prompted.text import (
    BrokenToolCall,
    FenceRemover,
    OwnText,
    ParsedToolCall,
)
from langchain_gemini_tools.prompted.tool_arguments import find_mismatch
from langchain_gemini_tools.prompted.words import MARKER
from langchain_gemini_tools.wire.blocks import render_split
from langchain_gemini_tools.wire.history import read_history
from langchain_gemini_tools.wire.pieces import invalidate_call_chunks, invalidate_calls
from langchain_gemini_tools.wire.replay import FUNCTION_CALL, UNKNOWN_TOOL, dump_function_call
from langchain_gemini_tools.wire.request import RenderedRequest, render_request
from langchain_gemini_tools.wire.response import StreamParser, find_unreleasable_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage, ToolCallChunk

    from langchain_gemini_tools.facts.blocks import Block, Content
    from langchain_gemini_tools.prompted.text import ParsedPiece
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.tools.choice import ToolChoice

logger = logging.getLogger(__name__)

RAW_TEXT = "raw_text"
"""Key in `response_metadata`: the text as the model wrote it."""

_INVALID = 1_000
_UNDECLARED = 10_000
"""Offsets of call indexes. LangChain merges chunks with equal indexes, and blocks have some too."""

_MAX_REASONS = 5


def render_prompted(messages: Sequence[BaseMessage], invocation: Invocation) -> PromptedRequest:
    """Render a request without function declarations.

    Functions are described in the prompt. Built-in tools are sent as usual: the API runs them.

    Args:
        messages: Any history, including messages of other models.
        invocation: The resolved options.

    Raises:
        InvalidInputError: The API would reject the input, or has no form for it.
    """
    instructions = render_instructions(invocation)
    # After the user's system messages. The blank lines separate texts that the model reads as one.
    lead = "\n\n" if read_history(messages).system else ""
    system = [SystemMessage(f"{lead}{text.strip()}\n\n") for text in instructions.texts]
    request = render_request([*messages, *system], instructions.rest, render_turn)
    if logger.isEnabledFor(logging.DEBUG):
        _log_contents([request.body.get("systemInstruction", {}), *request.body["contents"]])
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return PromptedRequest(
        encoded=request.encoded,
        repairs=request.repairs,
        context=request.context,
        invocation=invocation,
        tools=replace(instructions.tools, results=results),
    )


@dataclass(frozen=True, kw_only=True)
class PromptedRequest(RenderedRequest):
    """A request whose prompt describes the tools; the text of the response calls them."""

    tools: PromptedTools = field(default_factory=PromptedTools)

    def parse(
        self, response: gemini.Response, later_hops: Sequence[gemini.Response] = ()
    ) -> ChatResult:
        """Parse a complete response; failed candidates are withheld if others succeeded.

        Raises:
            ResponseError: All candidates failed.
        """
        with _parsing_partial(self.tools):
            result = super().parse(response, later_hops)
        usage = getattr(result.generations[0].message, "usage_metadata", None)
        generations: list[ChatGeneration] = []
        failures: list[ResponseError] = []
        for generation in result.generations:
            message, calls = parse_message(cast("AIMessage", generation.message), self.tools)
            if self.returns(message) and find_unreleasable_calls(message):
                message = invalidate_calls(message, NOT_RELEASED)
            message.additional_kwargs |= dump_function_call(message.tool_calls)
            _log_response(message, calls)
            message.usage_metadata = None if generations else usage
            if failure := self.failure(calls, message):
                failures.append(failure)
            else:
                info = generation.generation_info
                generations.append(ChatGeneration(message=message, generation_info=info))
        if not generations:
            raise failures[0]
        withheld = [*(result.llm_output or {}).get("withheld", ()), *map(str, failures)]
        return ChatResult(
            generations=generations,
            llm_output={"withheld": withheld} if withheld else result.llm_output,
        )

    def stream_parser(self) -> StreamParser:
        """Return a parser for the events of a streamed response."""
        return PromptedStreamParser(self)

    def returns(self, message: AIMessage) -> bool:
        """Return whether a message is returned although its calls must not be executed."""
        return self.context.returns(message.response_metadata.get("finish_reason"))

    def failure(self, calls: Sequence[CheckedToolCall], partial: AIMessage) -> ResponseError | None:
        """Return the error for a response that must not be returned to the caller.

        If a call is required, it must be there. If the model may choose, a response with only
        invalid calls is requested once more; the second one is returned, so that the caller sees it
        and the next turn reports the errors to the model.
        """
        if self.returns(partial):
            return None
        if partial.tool_calls and (error := find_unreleasable_calls(partial)):
            error.partial = invalidate_calls(partial)
            return error
        reason = partial.response_metadata.get("finish_reason")
        choice = self.tools.choice
        called = {call["name"] for call in partial.tool_calls}  # also those that are not text
        is_missing = called.isdisjoint(choice.names or called)
        explanation = find_failure(calls, choice) if is_missing else None
        retries = self.context.rejects_empty and not self.is_second_try
        if explanation and (choice.mode == "ANY" or retries):
            return MalformedToolCallError(
                f"The model did not make a valid tool call ({reason}). {explanation}",
                finish_reason=reason,
                finish_message=explanation,
                partial=partial,
            )
        left = partial.content or partial.tool_calls or partial.invalid_tool_calls
        if partial.response_metadata.get(RAW_TEXT) and not left and self.context.rejects_empty:
            text = f"The response is empty ({reason})."
            return EmptyResponseError(text, finish_reason=reason, partial=partial)
        return None

    def with_feedback(self, failure: ResponseError) -> RenderedRequest:
        """Return the request followed by the failed response and an explanation."""
        raw_text = failure.partial.response_metadata.get(RAW_TEXT) if failure.partial else None
        if not raw_text or not isinstance(failure, MalformedToolCallError):
            return super().with_feedback(failure)
        cause = failure.finish_message or failure.finish_reason
        text = f"Your last message could not be used. {cause} Write it again."
        more: list[gemini.Content] = [
            {"role": "model", "parts": [{"text": raw_text}]},
            {"role": "user", "parts": [{"text": text}]},
        ]
        _log_contents(more)
        return self.second_try([*self.body["contents"], *more], failure)


class PromptedStreamParser(StreamParser):
    """Parses the events of a stream into chunks, with tool calls from the text."""

    def __init__(self, request: PromptedRequest) -> None:
        super().__init__(request.context)
        self._request = request
        self._parser = ChunkParser(request.tools)
        self._calls: list[AIMessageChunk] = []
        """Chunks with calls, which wait until it is known whether they may be executed."""

    def feed(self, response: gemini.Response) -> list[ChatGenerationChunk]:
        """Return the chunks that an event adds, without the protocol."""
        return [ChatGenerationChunk(message=chunk) for chunk in self._parse(super().feed(response))]

    def _parse(self, generations: Sequence[ChatGenerationChunk]) -> list[AIMessageChunk]:
        native = [cast("AIMessageChunk", generation.message) for generation in generations]
        chunks = [chunk for each in native for chunk in self._parser.feed(each)]
        if self._request.context.may_return_calls:
            self._calls += [chunk for chunk in chunks if chunk.tool_call_chunks]
            chunks = [chunk for chunk in chunks if not chunk.tool_call_chunks]
        return chunks

    def finish(self) -> list[ChatGenerationChunk]:
        """Return the last chunks, including those that were held back.

        Raises:
            ResponseError: The response is not usable.
        """
        has_started = self._parser.has_started
        *native, last = super().finish()
        first = self._parse(native)
        end = self._parser.finish(cast("AIMessageChunk", last.message))
        chunks = [*first, *self._calls, *end]
        _log_response(chunks[-1], self._parser.calls)
        if not has_started:
            partial = cast("AIMessage", message_chunk_to_message(join_chunks(chunks)))
            if failure := self._request.failure(self._parser.calls, partial):
                raise failure
        valid = [call for call in self._parser.calls if call.is_valid]
        if error := find_unreleasable_calls(chunks[-1]):
            if valid and not self._request.returns(chunks[-1]):
                raise error
            chunks = [*map(invalidate_call_chunks, chunks)]
        elif valid:
            called = {"name": valid[-1].name, "arguments": valid[-1].args}
            chunks[-1].additional_kwargs[FUNCTION_CALL] = called
        generations = [ChatGenerationChunk(message=chunk) for chunk in chunks]
        generations[-1].generation_info = last.generation_info
        return generations

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Set `partial` of an error to what has arrived, without the protocol."""
        with _parsing_partial(self._request.tools), super().keeping_partial():
            yield

    def partial(self) -> AIMessage | None:
        """Return the message so far, without the protocol."""
        return _parse_partial(super().partial(), self._request.tools)


@contextmanager
def _parsing_partial(tools: PromptedTools) -> Iterator[None]:
    """Remove the protocol from the partial message of an error."""
    try:
        yield
    except (GeminiAPIError, ResponseError) as error:
        error.partial = _parse_partial(error.partial, tools)
        raise


def _parse_partial(message: AIMessage | None, tools: PromptedTools) -> AIMessage | None:
    if message is None or RAW_TEXT in message.response_metadata:
        return message
    return invalidate_calls(parse_message(message, tools)[0])


def _log_contents(contents: Sequence[Any]) -> None:
    for content in filter(None, contents):
        text = "\n".join(part.get("text", "(a file)") for part in content["parts"])
        logger.debug("Prompt, %s:\n%s", content.get("role", "system"), text)


def _log_response(last: AIMessage, calls: Sequence[CheckedToolCall]) -> None:
    if raw_text := last.response_metadata.get(RAW_TEXT):
        logger.debug("Response text:\n%s", raw_text)
    for call in calls:
        if call.reason:
            logger.debug("Tool call %s, invalid: %s", call.args.removeprefix(UNUSABLE), call.reason)
        else:
            logger.debug("Tool call %s(%s), valid", call.name, call.args)


@dataclass(frozen=True)
class CheckedToolCall:
    """A tool call from the text of a response, after validation."""

    id: str
    name: str
    args: str
    """JSON; for an invalid call its text, with a prefix that is not JSON."""
    reason: str | None
    """Why the call is invalid."""

    @property
    def is_valid(self) -> bool:
        """Whether the call may be executed."""
        return self.reason is None


def find_failure(calls: Sequence[CheckedToolCall], choice: ToolChoice) -> str | None:
    """Return why a response with these calls is not what was requested; `None` if it is."""
    if choice.mode == "NONE" or any(call.is_valid for call in calls):
        return None
    # A model that repeats itself makes hundreds of calls.
    distinct = list(dict.fromkeys(call.reason for call in calls if call.reason))
    more = f" And {len(distinct) - _MAX_REASONS} more." if len(distinct) > _MAX_REASONS else ""
    reasons = " ".join(distinct[:_MAX_REASONS]) + more
    if choice.mode != "ANY":
        return reasons or None
    required = " or ".join(map(protocol_name, choice.names)) or "a tool"
    return f"It had to call {required}. {reasons or f'There is no {MARKER} line in it.'}"


def parse_message(
    message: AIMessage, tools: PromptedTools
) -> tuple[AIMessage, list[CheckedToolCall]]:
    """Parse the text of a complete message; return the message with its tool calls, and those."""
    parser = ChunkParser(tools)
    chunks = parser.feed(AIMessageChunk(content=message.content))
    whole = join_chunks([*chunks, *parser.finish(AIMessageChunk(content=""))])
    reasons = whole.additional_kwargs.get(REASONS, {})
    parsed = message.model_copy(
        update={
            "content": whole.content,
            "tool_calls": [*message.tool_calls, *whole.tool_calls],
            "invalid_tool_calls": [
                *message.invalid_tool_calls,
                *({**call, "error": reasons[call["id"]]} for call in whole.invalid_tool_calls),
            ],
            "additional_kwargs": message.additional_kwargs | whole.additional_kwargs,
            "response_metadata": message.response_metadata | whole.response_metadata,
        }
    )
    return parsed, parser.calls


def join_chunks(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    """Join the chunks of a response in one step.

    Every addition parses all calls again, and a model that repeats itself makes thousands.
    """
    first, *others = chunks
    return first + others


class ChunkParser:
    """Parses the chunks of a response into chunks without the protocol, one for each call.

    A complete response is parsed as a single chunk, so both give the same message. What was
    intended as a call, but does not fit a declared tool, becomes an invalid call with a reason.

    Chunks are held back until one of them can be used, so that an unusable response can be
    requested again. If a call is required, that is a valid call; otherwise any text.
    """

    def __init__(self, tools: PromptedTools) -> None:
        self.calls: list[CheckedToolCall] = []
        """The calls so far."""
        self.has_started = not tools.parses_calls
        """Whether `feed` may have returned a chunk."""
        self._tools = tools
        self._names = {protocol_name(name): name for name in tools.schemas}
        self._filter: OwnText | FenceRemover | None = None
        self._parser: ToolCallParser | None = None
        if tools.parses_calls:
            results = (render_split(result.content).text for result in tools.results)
            self._filter, self._parser = OwnText(), ToolCallParser(self._names, results)
        elif tools.expects_json:
            self._filter = FenceRemover()
        self._held: list[AIMessageChunk] = []
        self._texts: list[str] = []
        self._text_block: Block | None = None

    def feed(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        """Return the chunks that are final after this one."""
        for block in blocks_of(chunk.content):
            self._held += self._parse(block, chunk)
        if chunk.tool_call_chunks:
            self._held.append(self._undeclared_calls(chunk))
        if not self.has_started:
            self.has_started = any(call.is_valid for call in self.calls) or (
                self._tools.choice.mode != "ANY" and any(held.text.strip() for held in self._held)
            )
        if not self.has_started:
            return []
        held, self._held = self._held, []
        return held

    def finish(self, last: AIMessageChunk) -> list[AIMessageChunk]:
        """Return the chunks that were held back, and the last chunk.

        Args:
            last: The last chunk of the response, with usage and metadata.
        """
        rest = self._chunks(self._parse_text(self._filter.finish() if self._filter else ""), last)
        rest += self._chunks(self._parser.finish() if self._parser else [], last)
        raw = {RAW_TEXT: "".join(self._texts)} if self._filter else {}
        metadata = last.response_metadata | raw
        end = last.model_copy(update={"content": self._content(""), "response_metadata": metadata})
        return [*self._held, *rest, end]

    def _parse(self, block: str | Block, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        text = block if isinstance(block, str) else block.get("text")
        if not isinstance(text, str) or type_of(block) != "text":
            return [_chunk([block], chunk)]
        self._text_block = block if isinstance(block, dict) else None
        self._texts.append(text)
        text = self._filter.feed(text) if self._filter else text
        return self._chunks(self._parse_text(text), chunk)

    def _parse_text(self, text: str) -> list[ParsedPiece]:
        return self._parser.feed(text) if self._parser else [text]

    def _chunks(
        self, pieces: Sequence[ParsedPiece], source: AIMessageChunk
    ) -> list[AIMessageChunk]:
        """Return a chunk for each piece."""
        chunks: list[AIMessageChunk] = []
        for piece in pieces:
            if isinstance(piece, str):
                chunks += [_chunk(self._content(piece), source)] if piece else []
                continue
            call = self._check(piece)
            index = len(self.calls) + (0 if call.is_valid else _INVALID)
            self.calls.append(call)
            written = tool_call_chunk(name=call.name, args=call.args, id=call.id, index=index)
            reasons = {} if call.is_valid else {REASONS: {call.id: call.reason}}
            # LangChain's translators drop invalid calls; without a provider they are kept.
            provider = source if call.is_valid else None
            chunks.append(_chunk(self._content(""), provider, [written], reasons))
        return chunks

    def _check(self, piece: ParsedToolCall | BrokenToolCall) -> CheckedToolCall:
        """Validate a call against the tools and their schemas."""
        name = self._names.get(piece.name or "", piece.name) or UNKNOWN_TOOL
        bare = self._names.get(piece.text.strip("`*.")) if isinstance(piece, BrokenToolCall) else ""
        if bare and self._tools.schemas[bare] is None:
            name, piece = bare, ParsedToolCall(bare, {}, piece.text)  # the parentheses are missing
        reason = self._find_fault(name, piece)
        args = f"{UNUSABLE}{piece.text}"
        if reason is None and isinstance(piece, ParsedToolCall):
            args = json.dumps(with_stored_ints(piece.args))
        return CheckedToolCall(str(uuid.uuid4()), name, args, reason)

    def _find_fault(self, name: str, call: ParsedToolCall | BrokenToolCall) -> str | None:
        """Return why a call must not be executed; `None` if it may be."""
        if isinstance(call, BrokenToolCall):
            return call.reason
        if (allowed := self._tools.choice.names) and name not in allowed:
            names = ", ".join(map(protocol_name, allowed))
            return f"{call.name} may not be called now. You may call: {names}."
        if mismatch := find_mismatch(call.args, self._tools.schemas[name]):
            return f"The arguments do not fit {call.name}. {mismatch} It was not executed."
        return None

    def _undeclared_calls(self, chunk: AIMessageChunk) -> AIMessageChunk:
        """Return function calls that the model made although no functions were declared."""
        calls = [call.copy() for call in chunk.tool_call_chunks]
        for call in calls:
            call["index"] = _UNDECLARED + (call["index"] or 0)
        return _chunk(self._content(""), chunk, calls, chunk.additional_kwargs)

    def _content(self, text: str) -> Content:
        """Return text in the form of the response's text: a string, or more of its last block."""
        if self._text_block is None:
            return text
        return [self._text_block | {"text": text}] if text else []


def _chunk(
    content: Content,
    source: AIMessageChunk | None,
    calls: Sequence[ToolCallChunk] = (),
    additional_kwargs: Mapping[str, Any] | None = None,
) -> AIMessageChunk:
    """Return a chunk with the provider of another; the last chunk has the other metadata."""
    provider = source.response_metadata.get("model_provider") if source else None
    return AIMessageChunk(
        content=content,
        tool_call_chunks=[*calls],
        additional_kwargs={**(additional_kwargs or {})},
        response_metadata={"model_provider": provider} if provider else {},
    )
