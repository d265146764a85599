"""A call whose tools go as text: `text_tools` between LangChain's messages and the wire.

`render_prompted` is what `wire.request.render_request` is for models with function calling, and
what it returns is used in the same way: it parses the answer, whole or streamed, and can be sent
again with feedback.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    GeminiAPIError,
    MalformedToolCallError,
    ResponseError,
)
from langchain_gemini_tools.prompted.history import render_conversation
from langchain_gemini_tools.prompted.instructions import render_instructions
from langchain_gemini_tools.text_tools.calling import (
    RAW_TEXT,
    ReadCall,
    StreamReader,
    TextTools,
    find_failure,
    join_chunks,
    read_message,
)
from langchain_gemini_tools.wire.request import RenderedRequest, check_repairs, render_request
from langchain_gemini_tools.wire.response import StreamParser, without_valid_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.invocation import Invocation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PromptedRequest(RenderedRequest):
    """A request whose tools are described in its text, and whose answer calls them in text."""

    text_tools: TextTools = field(default_factory=TextTools)

    def parse(self, reply: gemini.Response) -> ChatResult:
        """Parse the whole reply; of several candidates, those that failed are withheld."""
        with _reading_partial(self.text_tools):
            result = super().parse(reply)
        usage = getattr(result.generations[0].message, "usage_metadata", None)
        generations: list[ChatGeneration] = []
        withheld: list[ResponseError] = []
        for generation in result.generations:
            message, calls = read_message(_ai_message(generation.message), self.text_tools)
            _tell_answer(message, calls)
            message.usage_metadata = None if generations else usage
            if failure := self.failure(calls, message):
                withheld.append(failure)
            else:
                generations.append(ChatGeneration(message=message))
        if not generations:
            raise withheld[0]
        told = [*(result.llm_output or {}).get("withheld", ()), *map(str, withheld)]
        return ChatResult(
            generations=generations, llm_output={"withheld": told} if told else result.llm_output
        )

    def stream_parser(self) -> StreamParser:
        """What the events of a streamed reply are fed to."""
        return PromptedStreamParser(self)

    def failure(self, calls: Sequence[ReadCall], partial: AIMessage) -> ResponseError | None:
        """The error for an answer that may not be handed over.

        A call that is demanded has to be there. Where it is the model's choice, an answer with
        nothing but invalid calls is asked for once more; the second one is handed over, for the
        caller to see and for the model to be told in the next turn.
        """
        if self.context.returns_failures:
            return None
        reason = partial.response_metadata.get("finish_reason")
        found = find_failure(calls, self.text_tools.choice)
        is_demanded = self.text_tools.choice.mode == "ANY"
        if found and (is_demanded or (self.context.refuses_empty and not self.is_second_try)):
            return MalformedToolCallError(
                f"The model did not make a valid call ({reason}). {found}",
                finish_reason=reason,
                finish_message=found,
                partial=partial,
            )
        said = partial.response_metadata.get(RAW_TEXT)
        left = partial.content or partial.tool_calls or partial.invalid_tool_calls
        if said and not left and self.context.refuses_empty:
            return EmptyResponseError(
                f"The answer is empty ({reason}).", finish_reason=reason, partial=partial
            )
        return None

    def with_feedback(self, failure: ResponseError) -> RenderedRequest:
        """The same request, followed by the failed answer and what was wrong with it."""
        said = failure.partial.response_metadata.get(RAW_TEXT) if failure.partial else None
        if not said or not isinstance(failure, MalformedToolCallError):
            return super().with_feedback(failure)
        told = f"Your last message could not be used. {failure.finish_message} Write it again."
        more: list[gemini.Content] = [
            {"role": "model", "parts": [{"text": said}]},
            {"role": "user", "parts": [{"text": told}]},
        ]
        _tell_contents(more)
        return self.second_try([*self.body["contents"], *more], failure)


class PromptedStreamParser(StreamParser):
    """Events of one stream -> chunks, with calls where the text had them."""

    def __init__(self, request: PromptedRequest) -> None:
        super().__init__(request.context)
        self._request = request
        self._reader = StreamReader(request.text_tools)

    def feed(self, reply: gemini.Response) -> list[ChatGenerationChunk]:
        """The chunks that an event adds, without protocol."""
        return [
            ChatGenerationChunk(message=chunk)
            for generation in super().feed(reply)
            for chunk in self._reader.feed(_ai_chunk(generation.message))
        ]

    def finish(self) -> list[ChatGenerationChunk]:
        """The last chunks, with everything that was held back.

        Raises:
            ResponseError: What arrived may not be taken for an answer.
        """
        has_begun = self._reader.has_begun
        [last] = super().finish()
        chunks = self._reader.finish(_ai_chunk(last.message))
        _tell_answer(chunks[-1], self._reader.calls)
        if not has_begun:
            partial = _ai_message(message_chunk_to_message(join_chunks(chunks)))
            if failure := self._request.failure(self._reader.calls, partial):
                raise failure
        return [ChatGenerationChunk(message=chunk) for chunk in chunks]

    @contextmanager
    def keeping_partial(self) -> Iterator[None]:
        """Whatever fails inside, what has arrived is on the error's `partial`, without protocol."""
        with _reading_partial(self._request.text_tools), super().keeping_partial():
            yield


@contextmanager
def _reading_partial(text_tools: TextTools) -> Iterator[None]:
    """An error that carries a message from the wire carries one without protocol from here on."""
    try:
        yield
    except (GeminiAPIError, ResponseError) as error:
        if error.partial is not None and RAW_TEXT not in error.partial.response_metadata:
            error.partial = without_valid_calls(read_message(error.partial, text_tools)[0])
        raise


def render_prompted(messages: Sequence[BaseMessage], invocation: Invocation) -> PromptedRequest:
    """Render one LangChain call as a Gemini call without function calling.

    Built-in tools stay what they are; functions go into the text.

    Args:
        messages: Any history, also one that other models wrote.
        invocation: The resolved options.

    Raises:
        InvalidInputError: Something that the API would refuse, or that it has no form for.
    """
    told = render_instructions(invocation)
    conversation, repairs = render_conversation(messages)
    check_repairs(repairs, invocation)
    # Behind the user's own; blank lines keep texts apart that the model reads as one.
    has_system = any(isinstance(message, SystemMessage) for _, message in conversation)
    lead = "\n\n" if has_system else ""
    texts = [SystemMessage(f"{lead}{text.strip()}\n\n") for text in told.texts]
    conversation += [(len(messages), text) for text in texts]
    request = render_request([message for _, message in conversation], told.rest)
    _tell_prompt(request)
    positions = [position for position, _ in conversation]
    later = [
        replace(found, position=positions[found.position])
        for found in request.repairs
        if found.kind != "joined"  # results and what follows them, as it has to be
    ]
    return PromptedRequest(
        encoded=request.encoded,
        repairs=[*repairs, *(repair for repair in later if repair not in repairs)],
        context=request.context,
        invocation=invocation,
        text_tools=told.text_tools,
    )


# What is told at the level DEBUG


def _tell_prompt(request: RenderedRequest) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    body = request.body
    contents = [*body["contents"]]
    if "systemInstruction" in body:
        contents.insert(0, {"role": "system", **body["systemInstruction"]})  # type: ignore[typeddict-item]
    _tell_contents(contents)


def _tell_contents(contents: Sequence[gemini.Content]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for content in contents:
        text = "\n".join(part.get("text", "(a file)") for part in content["parts"])
        logger.debug("Prompt, %s:\n%s", content["role"], text)


def _tell_answer(last: AIMessage, calls: Sequence[ReadCall]) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    if raw_text := last.response_metadata.get(RAW_TEXT):
        logger.debug("Answer as it came:\n%s", raw_text)
    for call in calls:
        verdict = f"not to be executed: {call.reason}" if call.reason else "to be executed"
        logger.debug("Call %s(%s), %s", call.name, call.args, verdict)


def _ai_message(message: BaseMessage) -> AIMessage:
    assert isinstance(message, AIMessage)  # noqa: S101 - the wire gives no other
    return message


def _ai_chunk(message: BaseMessage) -> AIMessageChunk:
    assert isinstance(message, AIMessageChunk)  # noqa: S101 - the wire gives no other
    return message
