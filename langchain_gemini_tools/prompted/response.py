"""Parse responses with tool calls in their text into messages, complete or streamed.

`ChunkParser` turns the chunks of a response into chunks without the lines of the protocol. A
complete response is parsed as a single chunk, so both give the same message. `TextParser` decides
what the calls are worth: a call of a declared tool with matching arguments becomes a tool call,
anything else that was intended as a call becomes an invalid tool call with a reason.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from langchain_gemini_tools.facts.blocks import blocks_of, type_of
from langchain_gemini_tools.facts.json_values import with_stored_ints
from langchain_gemini_tools.prompted.output import BrokenToolCall, ParsedPiece
from langchain_gemini_tools.prompted.parser import ToolCallParser
from langchain_gemini_tools.prompted.prompt import REASONS, UNUSABLE, protocol_name
from langchain_gemini_tools.prompted.tool_arguments import find_mismatch
from langchain_gemini_tools.prompted.words import MARKER, RESULT_MARKER
from langchain_gemini_tools.wire.blocks import render_split
from langchain_gemini_tools.wire.replay import UNKNOWN_TOOL
from langchain_gemini_tools.wire.tools.choice import ToolChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import ToolCallChunk, ToolMessage

    from langchain_gemini_tools.facts.blocks import Block, Content
    from langchain_gemini_tools.wire.shapes import JsonSchema

RAW_TEXT = "raw_text"
"""Key in `response_metadata`: the text as the model wrote it."""

_INVALID = 1_000
_UNDECLARED = 10_000
"""Offsets of call indexes. LangChain merges chunks with equal indexes, and blocks have some too."""

_MAX_REASONS = 5
_FENCE = "```"


@dataclass(frozen=True)
class PromptedTools:
    """The prompted tools of one request, and which of them may or must be called."""

    schemas: Mapping[str, JsonSchema | None] = field(default_factory=dict)
    """Declared tool -> schema of its arguments; `None` if it has no arguments."""
    choice: ToolChoice = field(default_factory=ToolChoice)
    expects_json: bool = False
    """Whether the prompt asked for a JSON response."""
    results: Sequence[ToolMessage] = ()
    """The tool results of the conversation, from which a model may repeat calls."""

    @property
    def parses_calls(self) -> bool:
        """Whether text may contain calls; with the choice NONE, it is always text."""
        return bool(self.schemas) and self.choice.mode != "NONE"


@dataclass(frozen=True)
class CheckedToolCall:
    """A tool call from the text of a response, after validation."""

    index: int
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

    def chunk(self) -> ToolCallChunk:
        """Return the complete call as a chunk."""
        index = self.index if self.is_valid else self.index + _INVALID
        return tool_call_chunk(name=self.name, args=self.args, id=self.id, index=index)


class TextParser:
    """Parses text into text and validated, numbered tool calls."""

    def __init__(self, tools: PromptedTools) -> None:
        self.calls: list[CheckedToolCall] = []
        self._texts: list[str] = []
        self._own_text = OwnText()
        self._tools = tools
        self._names = {protocol_name(name): name for name in tools.schemas}
        self._parser: ToolCallParser | FenceRemover | None = None
        if tools.parses_calls:
            results = (render_split(result.content).text for result in tools.results)
            self._parser = ToolCallParser(self._names, results)
        elif tools.expects_json:
            self._parser = FenceRemover()

    @property
    def raw_text(self) -> str:
        """All text so far, as the model wrote it."""
        return "".join(self._texts)

    def feed(self, text: str) -> list[str | CheckedToolCall]:
        """Return what is final after some more text."""
        self._texts.append(text)
        return self._parse(self._own_text.feed(text) if self._tools.parses_calls else text)

    def finish(self) -> list[str | CheckedToolCall]:
        """Return what the end of the text makes final."""
        rest = self._parse(self._own_text.finish()) if self._tools.parses_calls else []
        return rest + [
            self._check(piece) for piece in (self._parser.finish() if self._parser else [])
        ]

    def _parse(self, text: str) -> list[str | CheckedToolCall]:
        if self._parser is None:
            return [text] if text else []
        return [self._check(piece) for piece in self._parser.feed(text)]

    def _check(self, piece: ParsedPiece) -> str | CheckedToolCall:
        if isinstance(piece, str):
            return piece
        if isinstance(piece, BrokenToolCall):
            name = self._names.get(piece.name or "", piece.name)
            return self._add(name or UNKNOWN_TOOL, piece.text, piece.reason)
        name = self._names[piece.name]
        try:
            args = json.dumps(with_stored_ints(piece.args))
            mismatch = find_mismatch(piece.args, self._tools.schemas[name])
        except RecursionError:
            return self._add(name, piece.text, "The arguments are nested too deep.")
        if (allowed := self._tools.choice.names) and name not in allowed:
            names = ", ".join(map(protocol_name, allowed))
            reason = f"{piece.name} may not be called now. You may call: {names}."
            return self._add(name, piece.text, reason)
        if mismatch:
            reason = f"The arguments do not fit {piece.name}. {mismatch} It was not executed."
            return self._add(name, piece.text, reason)
        return self._add(name, args, None)

    def _add(self, name: str, text: str, reason: str | None) -> CheckedToolCall:
        args = text if reason is None else f"{UNUSABLE}{text}"
        call = CheckedToolCall(len(self.calls), str(uuid.uuid4()), name, args, reason)
        self.calls.append(call)
        return call


class OwnText:
    """Ends the text where the model begins to write a tool result itself.

    The request has a stop sequence for it, unless the user has set as many as the API allows. Some
    servers ignore it. What follows is based on an invented result: more calls, or an answer.
    """

    _END = f"\n{RESULT_MARKER}"

    def __init__(self) -> None:
        self._held = "\n"
        """The end of the text, if a result may begin there; at first a line break before it."""
        self._is_first = True
        self._has_ended = False

    def feed(self, text: str) -> str:
        """Return the text that is final."""
        if self._has_ended:
            return ""
        text = self._held + text
        before, end, _ = text.partition(self._END)
        self._has_ended = bool(end)
        lengths = range(min(len(before), len(self._END)), 0, -1)
        held = 0 if end else next((n for n in lengths if self._END.startswith(before[-n:])), 0)
        self._held = before[len(before) - held :]
        return self._without_first_break(before[: len(before) - held])

    def finish(self) -> str:
        """Return the text that was held back."""
        rest, self._held = self._held, ""
        return self._without_first_break(rest)

    def _without_first_break(self, text: str) -> str:
        if not text or not self._is_first:
            return text
        self._is_first = False
        return text[1:]


class FenceRemover:
    """Removes a code fence around a JSON response; other text is unchanged."""

    def __init__(self) -> None:
        self._held = ""
        self._is_fenced: bool | None = None

    def feed(self, text: str) -> list[str]:
        """Return the text that is final: everything except a fence or what may become one."""
        self._held += text
        if self._is_fenced is None and not self._skip_opening():
            return []
        end = len(self._held)
        if self._is_fenced:  # the last characters may be the closing fence
            end = len(self._held.rstrip().rstrip("`").rstrip())
        final, self._held = self._held[:end], self._held[end:]
        return [final] if final else []

    def finish(self) -> list[str]:
        """Return the remaining text without the closing fence."""
        rest, self._held = self._held, ""
        if self._is_fenced:
            rest = rest.rstrip().removesuffix(_FENCE).rstrip()
        return [rest] if rest else []

    def _skip_opening(self) -> bool:
        """Skip the line of an opening fence; return whether it is known if there is one."""
        start = self._held.lstrip()
        if not start or (_FENCE.startswith(start[:3]) and len(start) < 3):
            return False
        if not start.startswith(_FENCE):
            self._is_fenced = False
            return True
        _, newline, rest = start.partition("\n")
        if not newline:
            return False
        self._is_fenced, self._held = True, rest
        return True


def find_failure(calls: Sequence[CheckedToolCall], choice: ToolChoice) -> str | None:
    """Return why a response with these calls is not what was requested; `None` if it is."""
    if choice.mode == "NONE" or any(call.is_valid for call in calls):
        return None
    reasons = _join_reasons([call.reason for call in calls if call.reason])
    if choice.mode != "ANY":
        return reasons or None
    required = " or ".join(map(protocol_name, choice.names)) or "a tool"
    return f"It had to call {required}. {reasons or f'There is no {MARKER} line in it.'}"


def _join_reasons(reasons: Sequence[str]) -> str:
    """Join the first distinct reasons: a model that repeats itself makes hundreds of calls."""
    distinct = list(dict.fromkeys(reasons))
    more = f" And {len(distinct) - _MAX_REASONS} more." if len(distinct) > _MAX_REASONS else ""
    return " ".join(distinct[:_MAX_REASONS]) + more


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
    whole: Any = first + others
    assert isinstance(whole, AIMessageChunk)  # noqa: S101 - LangChain's annotation is wider
    return whole


class ChunkParser:
    """Parses the chunks of a response into chunks without the protocol, one for each call.

    Chunks are held back until one of them can be used, so that an unusable response can be
    requested again. If a call is required, that is a valid call; otherwise any text.
    """

    def __init__(self, tools: PromptedTools) -> None:
        self._parser = TextParser(tools)
        self._tools = tools
        self._held: list[AIMessageChunk] = []
        self.calls = self._parser.calls
        """The calls so far."""
        self.has_started = not tools.parses_calls
        """Whether `feed` may have returned a chunk."""
        self._text_block: Block | None = None

    def feed(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        """Return the chunks that are final after this one."""
        self._held += [
            part for block in blocks_of(chunk.content) for part in self._parse(block, chunk)
        ]
        self._held += self._native_calls(chunk)
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
        rest = self._chunks(self._parser.finish(), last)
        may_differ = self._tools.parses_calls or self._tools.expects_json
        raw = {RAW_TEXT: self._parser.raw_text} if may_differ else {}
        metadata = last.response_metadata | raw
        end = last.model_copy(update={"content": self._content(""), "response_metadata": metadata})
        return [*self._held, *rest, end]

    def _parse(self, block: str | Block, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        text = block if isinstance(block, str) else block.get("text")
        if not isinstance(text, str) or type_of(block) != "text":
            return [AIMessageChunk(content=[block], response_metadata=_provider(chunk))]
        self._text_block = block if isinstance(block, dict) else None
        return self._chunks(self._parser.feed(text), chunk)

    def _chunks(
        self, pieces: Sequence[str | CheckedToolCall], source: AIMessageChunk
    ) -> list[AIMessageChunk]:
        """Return a chunk for each piece."""
        return [
            AIMessageChunk(content=self._content(piece), response_metadata=_provider(source))
            if isinstance(piece, str)
            else AIMessageChunk(
                content=self._content(""),
                tool_call_chunks=[piece.chunk()],
                additional_kwargs=_reasons(piece),
                # LangChain's translators drop invalid calls; without a provider they are kept.
                response_metadata=_provider(source) if piece.is_valid else {},
            )
            for piece in pieces
        ]

    def _native_calls(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        """Return function calls that the model made although no functions were declared."""
        calls = [call.copy() for call in chunk.tool_call_chunks]
        for call in calls:
            call["index"] = _UNDECLARED + (call["index"] or 0)
        if not calls:
            return []
        return [
            AIMessageChunk(
                content=self._content(""),
                tool_call_chunks=calls,
                additional_kwargs=chunk.additional_kwargs,
                response_metadata=_provider(chunk),
            )
        ]

    def _content(self, text: str) -> Content:
        """Return text in the form of the response's text: a string, or more of its last block."""
        if self._text_block is None:
            return text
        return [self._text_block | {"text": text}] if text else []


def _provider(source: AIMessageChunk) -> dict[str, str]:
    """Return the metadata that every chunk may repeat; the last chunk has the others."""
    key = "model_provider"
    return {key: source.response_metadata[key]} if key in source.response_metadata else {}


def _reasons(call: CheckedToolCall) -> dict[str, dict[str, str]]:
    return {REASONS: {call.id: call.reason}} if call.reason else {}
