"""Render requests whose prompt describes the tools, and parse their responses.

`render_prompted` is the counterpart of `wire.request.render_request` for models without function
calling, and its result is used in the same way: it parses the response, complete or streamed, and
can be sent again with feedback.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    GeminiAPIError,
    InvalidOptionError,
    MalformedToolCallError,
    ResponseError,
)
from langchain_gemini_tools.prompted import PromptOverhead
from langchain_gemini_tools.prompted.parser.words import RESULT_MARKER
from langchain_gemini_tools.prompted.prompt import (
    render_json_prompt,
    render_tool,
    render_tool_prompt,
    render_turn,
)
from langchain_gemini_tools.prompted.response import (
    RAW_TEXT,
    CheckedToolCall,
    ChunkParser,
    PromptedTools,
    find_failure,
    join_chunks,
    parse_message,
)
from langchain_gemini_tools.wire.generation import (
    JSON,
    MAX_STOP_SEQUENCES,
    OUTPUT_FORMATS,
    render_output_format,
)
from langchain_gemini_tools.wire.history import read_history
from langchain_gemini_tools.wire.pieces import invalidate_call_chunks, invalidate_calls
from langchain_gemini_tools.wire.replay import FUNCTION_CALL, NOT_RELEASED, dump_function_call
from langchain_gemini_tools.wire.request import RenderedRequest, render_request
from langchain_gemini_tools.wire.response import StreamParser, find_unreleasable_calls
from langchain_gemini_tools.wire.tools.choice import ToolChoice
from langchain_gemini_tools.wire.tools.tool import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.invocation import Invocation

logger = logging.getLogger(__name__)


# Rendering


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
    _log_prompt(request)
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return PromptedRequest(
        encoded=request.encoded,
        repairs=request.repairs,
        context=request.context,
        invocation=invocation,
        tools=replace(instructions.tools, results=results),
    )


@dataclass(frozen=True)
class Instructions:
    """The options of an invocation, split into prompt and request."""

    texts: list[str]
    """What the prompt says."""
    tools: PromptedTools
    """What the response is parsed with."""
    rest: Invocation
    """The options that are sent as usual."""


def render_instructions(invocation: Invocation) -> Instructions:
    """Render functions, the choice among them and JSON output as texts of the prompt.

    Args:
        invocation: The resolved options.

    Raises:
        InvalidInputError: The tools or options cannot work.
    """
    tools, choice = invocation.tools, invocation.tool_choice
    functions = choice.declared(tools.functions)
    texts, generation = _render_output_format(invocation, names=list(functions))
    prompted = PromptedTools(
        schemas={name: tool.parameters for name, tool in functions.items()},
        choice=ToolChoice(
            choice.mode if functions else None, choice.names if choice.restricts_by_name else ()
        ),
        expects_json=bool(texts),
    )
    if functions:
        template = invocation.tool_prompt
        texts.append(render_tool_prompt([*functions.values()], prompted.choice, template))
        generation = _with_stop(generation)
    settings = {k: v for k, v in choice.settings.items() if k != "functionCallingConfig"}
    rest = replace(
        invocation,
        tools=tools.builtin,
        tool_choice=ToolChoice(settings=settings),
        generation=generation,
    )
    return Instructions(texts, prompted, rest)


def _with_stop(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Add a stop sequence, if the limit allows it, for models that write results themselves."""
    stop = generation.get("stop") or []
    stops = [stop] if isinstance(stop, str) else list(stop)
    if len(stops) < MAX_STOP_SEQUENCES and RESULT_MARKER not in stops:
        stops.append(RESULT_MARKER)
    return {**generation, "stop": stops}


def _render_output_format(
    invocation: Invocation, *, names: list[str]
) -> tuple[list[str], Mapping[str, Any]]:
    """Render JSON output as a text if the model does not support it; return the other options."""
    given = {key: value for key, value in invocation.generation.items() if value is not None}
    output = {"responseMimeType": given.get("response_mime_type"), **render_output_format(given)}
    if output["responseMimeType"] != JSON:
        return [], invocation.generation
    if names:
        raise InvalidOptionError(
            f"Prompted tools ({', '.join(names)}) cannot be combined with JSON output: the model "
            "could not write tool calls. Use ToolStrategy or method='function_calling', or do not "
            "bind tools."
        )
    if invocation.capabilities.supports_json_output:
        return [], invocation.generation
    others = {key: value for key, value in given.items() if key not in OUTPUT_FORMATS}
    return [render_json_prompt(output.get("responseJsonSchema"))], others


def measure_overhead(
    invocation: Invocation, count: Callable[[str], int] | None = None
) -> PromptOverhead:
    """Count the tokens that the tools add to a request.

    Args:
        invocation: The resolved options.
        count: Counts the tokens of a text; by default they are estimated.
    """
    instructions = render_instructions(invocation)
    count_tokens = count or (lambda text: len(text) // CHARACTERS_PER_TOKEN)
    return PromptOverhead(
        tokens=count_tokens("\n\n".join(instructions.texts)),
        is_exact=count is not None,
        by_tool={
            name: count_tokens(render_tool(tool))
            for name, tool in invocation.tools.functions.items()
            if name in instructions.tools.schemas
        },
    )


# Parsing


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
            message, calls = parse_message(_ai_message(generation.message), self.tools)
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
        explanation = find_failure(calls, self.tools.choice)
        is_required = self.tools.choice.mode == "ANY"
        if explanation and (is_required or (self.context.rejects_empty and not self.is_second_try)):
            return MalformedToolCallError(
                f"The model did not make a valid tool call ({reason}). {explanation}",
                finish_reason=reason,
                finish_message=explanation,
                partial=partial,
            )
        raw_text = partial.response_metadata.get(RAW_TEXT)
        left = partial.content or partial.tool_calls or partial.invalid_tool_calls
        if raw_text and not left and self.context.rejects_empty:
            return EmptyResponseError(
                f"The response is empty ({reason}).", finish_reason=reason, partial=partial
            )
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
        chunks = self._parse(super().feed(response))
        return [ChatGenerationChunk(message=chunk) for chunk in chunks]

    def _parse(self, generations: Sequence[ChatGenerationChunk]) -> list[AIMessageChunk]:
        chunks = [
            chunk
            for generation in generations
            for chunk in self._parser.feed(_ai_chunk(generation.message))
        ]
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
        chunks = [*first, *self._calls, *self._parser.finish(_ai_chunk(last.message))]
        _log_response(chunks[-1], self._parser.calls)
        if not has_started:
            partial = _ai_message(message_chunk_to_message(join_chunks(chunks)))
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
        message = super().partial()
        return _parse_partial(message, self._request.tools) if message else None


@contextmanager
def _parsing_partial(tools: PromptedTools) -> Iterator[None]:
    """Remove the protocol from the partial message of an error."""
    try:
        yield
    except (GeminiAPIError, ResponseError) as error:
        if error.partial is not None and RAW_TEXT not in error.partial.response_metadata:
            error.partial = _parse_partial(error.partial, tools)
        raise


def _parse_partial(message: AIMessage, tools: PromptedTools) -> AIMessage:
    return invalidate_calls(parse_message(message, tools)[0])


def _ai_message(message: BaseMessage) -> AIMessage:
    assert isinstance(message, AIMessage)  # noqa: S101 - `wire` returns no other
    return message


def _ai_chunk(message: BaseMessage) -> AIMessageChunk:
    assert isinstance(message, AIMessageChunk)  # noqa: S101 - `wire` returns no other
    return message


# Logging at level DEBUG


def _log_prompt(request: RenderedRequest) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    body = request.body
    contents = [*body["contents"]]
    if "systemInstruction" in body:
        contents.insert(0, {"role": "system", **body["systemInstruction"]})  # type: ignore[typeddict-item]
    _log_contents(contents)


def _log_contents(contents: Sequence[gemini.Content]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for content in contents:
        text = "\n".join(part.get("text", "(a file)") for part in content["parts"])
        logger.debug("Prompt, %s:\n%s", content["role"], text)


def _log_response(last: AIMessage, calls: Sequence[CheckedToolCall]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    if raw_text := last.response_metadata.get(RAW_TEXT):
        logger.debug("Response text:\n%s", raw_text)
    for call in calls:
        verdict = f"invalid: {call.reason}" if call.reason else "valid"
        logger.debug("Tool call %s(%s), %s", call.name, call.args, verdict)
