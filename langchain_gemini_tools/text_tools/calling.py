"""Answers in text -> messages with tool calls, whole or in pieces. Start reading here.

`StreamReader` turns the chunks of an answer into chunks without the protocol's lines; a whole
answer is one chunk to it, which is why both give the same message. What the calls are worth is
decided in `CallReader`: a call of a declared tool with arguments that fit becomes a tool call,
everything else that was meant as one an invalid tool call with a reason.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from langchain_gemini_tools.text_tools.conversation import REASONS, UNKNOWN_TOOL, UNUSABLE
from langchain_gemini_tools.text_tools.json_text import JsonText
from langchain_gemini_tools.text_tools.names import written_name
from langchain_gemini_tools.text_tools.parser import BrokenCall, Piece, TextToolParser
from langchain_gemini_tools.text_tools.prompt import Choice
from langchain_gemini_tools.text_tools.protocol import CALL
from langchain_gemini_tools.text_tools.validation import find_misfit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import ToolCallChunk

RAW_TEXT = "raw_text"
"""In `response_metadata`: the answer as the model wrote it."""

_INVALID = 1_000
_UNDECLARED = 10_000
"""Away from the numbers of other calls, and of blocks: equal numbers would be merged."""

_MAX_REASONS = 5


@dataclass(frozen=True)
class TextTools:
    """The tools of one call, and which of them may or have to be called."""

    schemas: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """Every declared tool and the schema of its arguments; `None` for one that takes none."""
    choice: Choice = field(default_factory=Choice)
    wants_json: bool = False
    """Whether the answer was asked to be JSON, in words."""

    @property
    def reads_calls(self) -> bool:
        """Whether text may hold calls; where none is wanted, it is text whatever it looks like."""
        return bool(self.schemas) and self.choice.mode != "NONE"

    @property
    def changes_text(self) -> bool:
        """Whether an answer may be shown otherwise than it was written."""
        return self.reads_calls or self.wants_json


@dataclass(frozen=True)
class ReadCall:
    """A call that stood in an answer."""

    index: int
    id: str
    name: str
    args: str
    """JSON; of a call that may not be executed its text, behind a word that is no JSON."""
    reason: str | None
    """Why it may not be executed."""

    @property
    def is_valid(self) -> bool:
        """Whether it may be executed."""
        return self.reason is None

    def chunk(self) -> ToolCallChunk:
        """The call as a piece of a message, whole."""
        index = self.index if self.is_valid else self.index + _INVALID
        return tool_call_chunk(name=self.name, args=self.args, id=self.id, index=index)


class CallReader:
    """Text in; text, and calls that were checked and numbered, out."""

    def __init__(self, tools: TextTools) -> None:
        self.calls: list[ReadCall] = []
        self._texts: list[str] = []
        self._tools = tools
        self._names = {written_name(name): name for name in tools.schemas}
        self._parser: TextToolParser | JsonText | None = None
        if tools.reads_calls:
            self._parser = TextToolParser(self._names)
        elif tools.wants_json:
            self._parser = JsonText()

    @property
    def raw_text(self) -> str:
        """Everything that was read."""
        return "".join(self._texts)

    def feed(self, text: str) -> list[str | ReadCall]:
        """What is certain after some more text."""
        self._texts.append(text)
        if self._parser is None:
            return [text] if text else []
        return [self._check(piece) for piece in self._parser.feed(text)]

    def finish(self) -> list[str | ReadCall]:
        """What the end of the text settles."""
        return [self._check(piece) for piece in self._parser.finish()] if self._parser else []

    def _check(self, piece: Piece) -> str | ReadCall:
        if isinstance(piece, str):
            return piece
        if isinstance(piece, BrokenCall):
            name = self._names.get(piece.name or "", piece.name)
            return self._add(name or UNKNOWN_TOOL, piece.text, piece.reason)
        name = self._names[piece.name]
        try:
            args = json.dumps(piece.args)
            misfit = find_misfit(piece.args, self._tools.schemas[name])
        except RecursionError:
            return self._add(name, piece.text, "The arguments are nested too deep.")
        if not self._tools.choice.allows(name):
            allowed = ", ".join(map(written_name, self._tools.choice.names))
            reason = f"{piece.name} may not be called now. You may call: {allowed}."
            return self._add(name, piece.text, reason)
        if misfit:
            reason = f"The arguments do not fit {piece.name}. {misfit} It was not executed."
            return self._add(name, piece.text, reason)
        return self._add(name, args, None)

    def _add(self, name: str, text: str, reason: str | None) -> ReadCall:
        args = text if reason is None else f"{UNUSABLE}{text}"
        call = ReadCall(len(self.calls), str(uuid.uuid4()), name, args, reason)
        self.calls.append(call)
        return call


def find_failure(calls: Sequence[ReadCall], choice: Choice) -> str | None:
    """Why an answer with these calls does not do what was asked for; `None` where it does."""
    if choice.mode == "NONE" or any(call.is_valid for call in calls):
        return None
    reasons = _told_once([call.reason for call in calls if call.reason])
    if choice.mode == "AUTO":
        return reasons or None
    wanted = " or ".join(map(written_name, choice.names)) or "a tool"
    return f"It had to call {wanted}. {reasons or f'There is no {CALL} line in it.'}"


def _told_once(reasons: Sequence[str]) -> str:
    """Each reason once, and not too many: a model that repeats itself makes hundreds of calls."""
    told = list(dict.fromkeys(reasons))
    more = f" And {len(told) - _MAX_REASONS} more." if len(told) > _MAX_REASONS else ""
    return " ".join(told[:_MAX_REASONS]) + more


def read_message(message: AIMessage, tools: TextTools) -> tuple[AIMessage, list[ReadCall]]:
    """A whole answer with its calls as tool calls, and those calls."""
    reader = StreamReader(tools)
    begun = reader.feed(AIMessageChunk(content=message.content))
    whole = join_chunks([*begun, *reader.finish(AIMessageChunk(content=""))])
    reasons = whole.additional_kwargs.get(REASONS, {})
    read = message.model_copy(
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
    return read, reader.calls


def join_chunks(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    """All chunks of an answer as one.

    At once: every addition reads all calls again, and a model that repeats itself makes thousands.
    """
    first, *others = chunks
    whole: Any = first + others
    assert isinstance(whole, AIMessageChunk)  # noqa: S101 - core's addition says less
    return whole


class StreamReader:
    """Chunks of an answer -> chunks without protocol, each complete call in one of its own.

    Until there is something that can be used, chunks are held back: an answer that is none can
    then be asked for again. Where a call is demanded, that is a valid call; else it is any text.
    """

    def __init__(self, tools: TextTools) -> None:
        self._reader = CallReader(tools)
        self._tools = tools
        self._held: list[AIMessageChunk] = []
        self._has_begun = not tools.reads_calls
        self._text_block: dict[str, Any] | None = None

    @property
    def calls(self) -> list[ReadCall]:
        """The calls that were read so far."""
        return self._reader.calls

    @property
    def has_begun(self) -> bool:
        """Whether a chunk was given out before the end."""
        return self._has_begun

    def feed(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        """The chunks that one more chunk makes certain."""
        self._held += [piece for block in _blocks(chunk) for piece in self._read(block, chunk)]
        self._held += self._undeclared_calls(chunk)
        if not self._has_begun:
            self._has_begun = any(call.is_valid for call in self.calls) or (
                self._tools.choice.mode != "ANY" and any(held.text.strip() for held in self._held)
            )
        if not self._has_begun:
            return []
        held, self._held = self._held, []
        return held

    def finish(self, last: AIMessageChunk) -> list[AIMessageChunk]:
        """Everything that was still held back, and the last chunk.

        Args:
            last: What the model's own last chunk holds: usage, metadata.
        """
        rest = self._chunks(self._reader.finish(), last)
        raw = {RAW_TEXT: self._reader.raw_text} if self._tools.changes_text else {}
        told = last.response_metadata | raw
        end = last.model_copy(update={"content": self._content(""), "response_metadata": told})
        return [*self._held, *rest, end]

    def _read(self, block: str | dict[str, Any], chunk: AIMessageChunk) -> list[AIMessageChunk]:
        text = block if isinstance(block, str) else block.get("text")
        if not isinstance(text, str) or (isinstance(block, dict) and block.get("type") != "text"):
            return [AIMessageChunk(content=[block], response_metadata=_provider(chunk))]
        self._text_block = block if isinstance(block, dict) else None
        return self._chunks(self._reader.feed(text), chunk)

    def _chunks(
        self, pieces: Sequence[str | ReadCall], source: AIMessageChunk
    ) -> list[AIMessageChunk]:
        """Each piece as a chunk of its own."""
        return [
            AIMessageChunk(content=self._content(piece), response_metadata=_provider(source))
            if isinstance(piece, str)
            else AIMessageChunk(
                content=self._content(""),
                tool_call_chunks=[piece.chunk()],
                additional_kwargs=_reasons(piece),
                # Core's translators leave invalid calls out; without an author, core shows them.
                response_metadata=_provider(source) if piece.is_valid else {},
            )
            for piece in pieces
        ]

    def _undeclared_calls(self, chunk: AIMessageChunk) -> list[AIMessageChunk]:
        """Calls that the model made without text, although nothing was declared to it."""
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

    def _content(self, text: str) -> str | list[str | dict[str, Any]]:
        """Text in the shape that the answer's text has: plain, or more of its latest block."""
        if self._text_block is None:
            return text
        return [self._text_block | {"text": text}] if text else []


def _provider(source: AIMessageChunk) -> dict[str, Any]:
    """Who wrote it, which every chunk may tell; what must not be added up is on the last one."""
    key = "model_provider"
    return {key: source.response_metadata[key]} if key in source.response_metadata else {}


def _blocks(message: AIMessageChunk) -> list[str | dict[str, Any]]:
    content = message.content
    return [content] if isinstance(content, str) else content


def _reasons(call: ReadCall) -> dict[str, Any]:
    return {REASONS: {call.id: call.reason}} if call.reason else {}
