"""Parts of a response -> pieces of a message: text, blocks, tool calls.

`PartParser` parses one candidate, part after part. It does not know whether the parts came in one
body or in a stream, so a streamed message adds up to exactly the same message.
"""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.messages.tool import invalid_tool_call, tool_call

from langchain_gemini_tools.errors import MalformedToolCallError, UnreadableResponseError
from langchain_gemini_tools.facts.blocks import GEMINI_PART
from langchain_gemini_tools.wire.audio import PcmParser, audio_block, parse_pcm_format
from langchain_gemini_tools.wire.partial_args import ArgumentsWriter
from langchain_gemini_tools.wire.replay import (
    CALL_SIGNATURES,
    OWN_ID,
    PART_FIELDS,
    PartLog,
    dump_function_call,
)
from langchain_gemini_tools.wire.tools.names import render_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import InvalidToolCall, ToolCall

    from langchain_gemini_tools.facts.blocks import Block, Content
    from langchain_gemini_tools.wire import shapes as gemini

_OUTCOMES = {"OUTCOME_OK": 1, "OUTCOME_FAILED": 2, "OUTCOME_DEADLINE_EXCEEDED": 3}
"""LangChain's translator expects the integer 1 for success; unknown outcomes stay text."""

_TEXT_FIELDS = {"text", "thought", "thoughtSignature"}
_INVENTED_PREFIXES = ("default_api.", "default_api:")


@dataclass(slots=True)
class ToolCallPiece:
    """A tool call: complete `args`, or a `fragment` of their JSON text."""

    index: int
    id: str
    name: str | None
    args: gemini.JsonObject | None = None
    fragment: str = ""


@dataclass(slots=True)
class Piece:
    """What one part adds to a message."""

    text: str = ""
    block: Block | None = None
    call: ToolCallPiece | None = None
    signature: str | None = None
    """Thought signature of `call`."""

    @property
    def is_plain_text(self) -> bool:
        """Whether this is only text."""
        return self.block is None and self.call is None

    @property
    def is_whole_call(self) -> bool:
        """Whether this is a call with all its arguments."""
        return self.call is not None and self.call.args is not None

    @property
    def is_shown(self) -> bool:
        """Whether the user sees this; thoughts and empty texts are not shown."""
        if self.block is None:
            return True
        return self.block["type"] != "thinking" and self.block.get("text") != ""


@dataclass
class Assembly:
    """Pieces put together: the fields of a message."""

    content: Content = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    invalid_tool_calls: list[InvalidToolCall] = field(default_factory=list)
    additional_kwargs: gemini.JsonObject = field(default_factory=dict)


@dataclass(slots=True)
class _StreamedCall:
    """A call whose arguments arrive in pieces."""

    call: gemini.JsonObject
    """Its first piece."""
    name: str
    writer: ArgumentsWriter
    piece: ToolCallPiece | None
    """`None` while it may repeat a call with the same id. Nothing is shown of it until it ends."""
    fragments: list[str] = field(default_factory=list)
    signature: str | None = None

    @property
    def api_id(self) -> object:
        return self.call.get("id")

    def feed(self, call: gemini.JsonObject) -> str:
        """Return the JSON text that a piece adds to the arguments."""
        text = self.writer.feed_whole(call.get("args")) + self.writer.feed(call.get("partialArgs"))
        text += self.writer.feed_text(call.get("argsText"))
        if not call.get("willContinue"):
            text += self.writer.finish()
        self.fragments.append(text)
        return text


class PartParser:
    """Parses the parts of one candidate in order.

    Args:
        tool_names: The bound tools: name in the request -> the user's name.
        parameter_names: Renamed parameters: the tool's name -> name in the request -> the user's
            name.
        runs_remote_tools: Whether the API may call MCP servers itself. Calls of undeclared
            functions are then made by the API and are not tool calls.
    """

    def __init__(
        self,
        tool_names: Mapping[str, str],
        parameter_names: Mapping[str, Mapping[str, str]] | None = None,
        *,
        runs_remote_tools: bool = False,
    ) -> None:
        self.response_id: object = None
        """The API's id of the response, once it is known."""
        self._log = PartLog()
        self._tool_names = tool_names
        self._parameter_names = parameter_names or {}
        self._runs_remote_tools = runs_remote_tools
        self._call_ids: set[str] = set()
        self._ended_calls: dict[str, ToolCallPiece] = {}
        """Calls that have ended, by id: of several with the API's id, the first one."""
        self._keys_by_id: dict[str, set[str]] = {}
        """What all calls say, for ids that have arrived more than once."""
        self._signed_ids: set[str] = set()
        self._partial: _StreamedCall | None = None
        self._block_count = 0
        self._open_block: Block | None = None
        self._code_id: str | None = None
        self._audio = PcmParser()

    @property
    def call_count(self) -> int:
        """How many tool calls have begun."""
        return len(self._call_ids)

    @property
    def has_open_call(self) -> bool:
        """Whether the arguments of a call have not ended."""
        return self._partial is not None

    @property
    def has_audio(self) -> bool:
        """Whether there is audio that `finish` returns."""
        return bool(self._audio)

    def finish(self) -> list[Piece]:
        """Return what is complete only at the end of a response: audio."""
        return [self._add_block(block, None, "inlineData") for block in self._audio.finish()]

    def parse(self, part: gemini.JsonObject) -> Piece | None:
        """Return the piece that a part adds, or `None` if it adds nothing to the message."""
        if not isinstance(part, dict):
            raise UnreadableResponseError(
                f"The response contains a part that is not an object: {part!r:.200}"
            )
        if len(part) == 1 and isinstance(text := part.get("text"), str):
            return self._parse_text(text, None)  # as in nearly all events of a stream
        signature = _text(part.get("thoughtSignature"))
        match part:
            case {"functionCall": dict(call)} if not self._is_remote(call):
                return self._parse_call(call, signature)
            case {"functionCall": str() | int() | float() | list()}:
                raise UnreadableResponseError(
                    f"The response contains a function call that is not an object: {part!r:.200}"
                )
            case {"text": str(text)} if set(part) <= _TEXT_FIELDS:
                return self._parse_text(text, signature, is_thought=bool(part.get("thought")))
            case {"text": str(text)} if not part.get("thought"):
                return self._parse_annotated_text(text, part)
            case {"thoughtSignature": _} if len(part) == 1:
                return self._parse_text("", signature)
            case {} if not part:
                return None
            case {"inlineData": {"mimeType": str(mime), "data": str(data)}} if (
                form := parse_pcm_format(mime)
            ):
                self._audio.feed(form, data)
                return None
            case _:
                return self._parse_block_part(part)

    def dump_log(self) -> gemini.JsonObject:
        """Return the entry of `additional_kwargs` for the next request; see `replay.py`."""
        return self._log.dump(self._unique_prefix) if self._log.is_needed else {}

    @cached_property
    def _unique_prefix(self) -> str:
        """A prefix for indexes in this response: LangChain merges blocks with equal indexes."""
        if isinstance(self.response_id, str) and self.response_id:
            return f"{zlib.crc32(self.response_id.encode()):08x}"
        return uuid.uuid4().hex[:8]

    def check_complete(self) -> None:
        """Raise if the arguments of a call have not ended."""
        if self._partial:
            raise MalformedToolCallError(
                f"The response ended inside the arguments of a call to {self._partial.name!r}."
            )

    # Text

    def _parse_text(
        self, text: str, signature: str | None, *, is_thought: bool = False
    ) -> Piece | None:
        if not text and signature is None:
            return None
        if is_thought:
            return self._continue_block("thinking", text, signature)
        if self._block_count:
            return self._continue_block("text", text, signature)
        self._log.add_text(text, signature)
        return Piece(text=text) if text else None

    def _parse_annotated_text(self, text: str, part: gemini.JsonObject) -> Piece:
        """Parse text with unknown fields; the block keeps them for the next request."""
        self._open_block = None
        self._log.add_block()
        fields = {key: value for key, value in part.items() if key != "text"}
        block = {"type": "text", "text": text, "extras": {PART_FIELDS: fields}}
        return Piece(block={**block, "index": self._next_index()})

    def _continue_block(self, kind: str, text: str, signature: str | None) -> Piece | None:
        """Add to the open block of this kind, or open one; a signed part is a separate block."""
        block = self._open_block
        if block is None or block["type"] != kind or signature is not None:
            block = {"type": kind, "index": self._next_index()}
            self._open_block = None if signature is not None else block
            self._log.add_block()
        piece = {**block, kind: text}
        if signature is not None:
            piece |= {"signature": signature} if kind == "thinking" else _extras(signature)
        return Piece(block=piece)

    # Blocks

    def _parse_block_part(self, part: gemini.JsonObject) -> Piece:
        block, signature = _parse_block(part)
        kind = next((key for key in part if key not in _TEXT_FIELDS), "")
        return self._add_block(block, signature, kind)

    def _add_block(self, block: Block, signature: str | None, kind: str) -> Piece:
        self._open_block = None
        self._log.add_block(signature, kind)
        index = self._next_index()
        # Gemini 2 gives code no id. Ours connects LangChain's blocks of call and result, and is not
        # sent back.
        if block["type"] == "executable_code":
            self._code_id = None if "id" in block else index
            block.setdefault("id", index)
        elif block["type"] == "code_execution_result" and self._code_id:
            block.setdefault("tool_call_id", self._code_id)
        return Piece(block={**block, "index": index})

    def _next_index(self) -> str:
        # A string, because core numbers blocks itself; with the prefix "lc_" it merges chunks.
        self._block_count += 1
        return f"{OWN_ID}{self._unique_prefix}_{self._block_count}"

    # Tool calls

    def _is_remote(self, call: gemini.JsonObject) -> bool:
        return self._runs_remote_tools and _text(call.get("name")) not in self._tool_names

    def _parse_call(self, call: gemini.JsonObject, signature: str | None) -> Piece | None:
        self._open_block = None
        if self._partial and not self._is_continued_by(call):
            self.check_complete()
        if self._partial:
            return self._continue_call(self._partial, call, signature)
        if not call:
            return None  # the end of a call that has already ended
        if not (call.get("willContinue") or "partialArgs" in call):
            return self._parse_whole_call(call, signature)
        self._partial = self._begin_streamed(call)
        return self._continue_call(self._partial, call, signature)

    def _is_continued_by(self, call: gemini.JsonObject) -> bool:
        assert self._partial  # noqa: S101 - the caller has checked
        return not call.get("name") or call.get("id") == self._partial.api_id

    def _parse_whole_call(self, call: gemini.JsonObject, signature: str | None) -> Piece | None:
        name, args, text = self._user_name(call.get("name")), call.get("args"), ""
        if name and (args is None or isinstance(args, dict)):
            args = args or {}  # some servers omit empty arguments
            if names := self._parameter_names.get(name):
                args = {names.get(key, key): value for key, value in args.items()}
        else:
            # Core would repair anything that starts like JSON into a valid call, and would search
            # a long text for JSON in quadratic time. At the bracket it gives up.
            args, text = None, f"not a function call]: {json.dumps(call)}"
        api_id = _text(call.get("id"))
        if api_id in self._ended_calls and self._is_repeated(api_id, name, args, text):
            return None
        added = self._add_call(call, name, args, text)
        self._ended_calls[added.id] = added
        return self._sign(added, signature)

    def _is_repeated(
        self, api_id: str, name: str | None, args: gemini.JsonObject | None, text: str
    ) -> bool:
        """Return whether a call with a known id has arrived before, and remember it.

        The model's second call has another id, or at least other arguments.
        """
        if (keys := self._keys_by_id.get(api_id)) is None:
            first = self._ended_calls[api_id]
            keys = self._keys_by_id[api_id] = {_key_of(first.name, first.args, first.fragment)}
        count = len(keys)
        keys.add(_key_of(name, args, text))
        return len(keys) == count

    def _begin_streamed(self, call: gemini.JsonObject) -> _StreamedCall:
        name = self._user_name(call.get("name"))
        if not name:
            raise UnreadableResponseError(
                "The response contains arguments without a function call."
            )
        writer = ArgumentsWriter(self._parameter_names.get(name))
        may_be_repeated = _text(call.get("id")) in self._ended_calls
        piece = None if may_be_repeated else self._add_call(call, name)
        return _StreamedCall(call, name, writer, piece)

    def _continue_call(
        self, streamed: _StreamedCall, call: gemini.JsonObject, signature: str | None
    ) -> Piece | None:
        is_first = not streamed.fragments
        fragment = streamed.feed(call)
        if not call.get("willContinue"):
            self._partial = None
        if streamed.piece is None:
            streamed.signature = streamed.signature or signature
            return None if self._partial else self._end_possible_repetition(streamed)
        if self._partial is None:
            text = "".join(streamed.fragments)
            self._ended_calls[streamed.piece.id] = replace(streamed.piece, fragment=text)
        name = streamed.name if is_first else None
        piece = replace(streamed.piece, name=name, fragment=fragment)
        return self._sign(piece, signature)

    def _end_possible_repetition(self, streamed: _StreamedCall) -> Piece | None:
        """Return a call that was held back because of its id, unless it is a repetition."""
        text = "".join(streamed.fragments)
        args = _parse_fragment(text)
        if self._is_repeated(str(streamed.api_id), streamed.name, args, text):
            return None
        text = "" if args is not None else text
        added = self._add_call(streamed.call, streamed.name, args, text)
        return self._sign(added, streamed.signature)

    def _sign(self, call: ToolCallPiece, signature: str | None) -> Piece:
        """Sign a call only once: LangChain would concatenate the signatures of its pieces."""
        if signature is None or call.id in self._signed_ids:
            return Piece(call=call)
        self._signed_ids.add(call.id)
        return Piece(call=call, signature=signature)

    def _add_call(
        self,
        call: gemini.JsonObject,
        name: str | None,
        args: gemini.JsonObject | None = None,
        fragment: str = "",
    ) -> ToolCallPiece:
        """Count a call, give it a unique id, and log it."""
        index, call_id = len(self._call_ids), self._unique_id(call)
        wire_name: Any = call.get("name")
        if name == wire_name or not name or self._tool_names.get(wire_name) == name:
            self._log.add_call(call_id)
        else:
            self._log.add_call(call_id, wire_name, render_name(name))
        return ToolCallPiece(index, call_id, name, args, fragment)

    def _unique_id(self, call: gemini.JsonObject) -> str:
        """Return the API's id, or a new one if it is missing or not unique in this message."""
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self._call_ids:
            call_id = str(uuid.uuid4())
        self._call_ids.add(call_id)
        return call_id

    def _user_name(self, wire_name: object) -> str | None:
        """Return the bound tool's name, without a prefix that the model invented."""
        if not isinstance(wire_name, str):
            return None
        if wire_name not in self._tool_names and wire_name.startswith(_INVENTED_PREFIXES):
            for prefix in _INVENTED_PREFIXES:
                if (bare := wire_name.removeprefix(prefix)) in self._tool_names:
                    return self._tool_names[bare]
        return self._tool_names.get(wire_name, wire_name)


_DATA_FIELDS = {"text", "inlineData", "fileData", "executableCode", "codeExecutionResult"}


def split_calls(parts: list[gemini.JsonObject]) -> list[gemini.JsonObject]:
    """Split parts that have both data and a function call, as some proxies write them."""
    try:
        if sum(map(len, parts)) == len(parts) or not any(map(_is_mixed, parts)):
            return parts  # most parts have one field
    except TypeError:
        return parts  # `parse` rejects what is not an object
    split: list[gemini.JsonObject] = []
    for part in parts:
        of_call = {"functionCall", "thoughtSignature"} if _is_mixed(part) else set()
        call = {key: value for key, value in part.items() if key in of_call}
        rest = {key: value for key, value in part.items() if key not in of_call}
        split += [rest, call] if call else [part]
    return split


def _is_mixed(part: gemini.JsonObject) -> bool:
    return "functionCall" in part and not _DATA_FIELDS.isdisjoint(part)


def assemble(pieces: Sequence[Piece]) -> Assembly:
    """Put pieces together as LangChain adds up the chunks of a stream."""
    text = "".join(piece.text for piece in pieces)
    whole = Assembly(content=text)
    if blocks := merge_blocks(pieces):
        # In a stream, what precedes the first block is a chunk with a string, even an empty one.
        starts_with_block = _first_streamed(pieces).block is not None
        whole.content = [*blocks] if starts_with_block else [text, *blocks]
    _add_calls(whole, merge_calls(pieces))
    if signatures := call_signatures(pieces):
        whole.additional_kwargs[CALL_SIGNATURES] = signatures
    return whole


def _first_streamed(pieces: Sequence[Piece]) -> Piece:
    """Return the piece that a stream shows first: whole calls, and what follows them, wait."""
    is_held = False
    for piece in pieces:
        is_held |= piece.is_whole_call
        if piece.call is None or not is_held:
            return piece
    return pieces[0]


def text_of(pieces: Iterable[Piece]) -> str:
    """Return the text of these pieces, without thoughts."""
    blocks = [piece.block or {"type": "text", "text": piece.text} for piece in pieces]
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def merge_blocks(pieces: Iterable[Piece]) -> list[Block]:
    """Return the blocks of these pieces, with continuations joined."""
    blocks: dict[str, Block] = {}
    for block in [piece.block for piece in pieces if piece.block is not None]:
        if (known := blocks.get(block["index"])) is None:
            blocks[block["index"]] = dict(block)
        else:
            known[block["type"]] += block[block["type"]]
    return list(blocks.values())


def merge_calls(pieces: Iterable[Piece]) -> list[ToolCallPiece]:
    """Return the tool calls of these pieces, with continued arguments joined."""
    calls: dict[int, ToolCallPiece] = {}
    more: dict[int, list[str]] = {}
    for call in [piece.call for piece in pieces if piece.call is not None]:
        if calls.setdefault(call.index, call) is not call:
            more.setdefault(call.index, []).append(call.fragment)
    for index, fragments in more.items():  # joined once: adding each would be quadratic
        first = calls[index]
        calls[index] = replace(first, fragment="".join([first.fragment, *fragments]))
    return list(calls.values())


def call_signatures(pieces: Iterable[Piece]) -> dict[str, str]:
    """Return the thought signatures of the calls in these pieces, by tool call id."""
    return {piece.call.id: piece.signature for piece in pieces if piece.call and piece.signature}


def last_call(pieces: Sequence[Piece]) -> gemini.JsonObject:
    """Return the entry of `additional_kwargs` for the last valid call; see `FUNCTION_CALL`."""
    whole = Assembly()
    last = next((piece.call for piece in reversed(pieces) if piece.call), None)
    _add_calls(whole, [last] if last and last.args is not None else merge_calls(pieces))
    return dump_function_call(whole.tool_calls)


def _add_calls(whole: Assembly, calls: Iterable[ToolCallPiece]) -> None:
    for call in calls:
        args = call.args if call.args is not None else _parse_fragment(call.fragment)
        if args is not None and call.name:
            whole.tool_calls.append(tool_call(name=call.name, args=args, id=call.id))
        else:
            whole.invalid_tool_calls.append(
                invalid_tool_call(name=call.name, args=call.fragment, id=call.id, error=None)
            )


def _key_of(name: str | None, args: gemini.JsonObject | None, text: str) -> str:
    """Return what calls with the same tool and arguments have in common."""
    parsed = _parse_fragment(text) if args is None else args
    return json.dumps([name, text if parsed is None else parsed], sort_keys=True)


def _parse_fragment(text: str) -> gemini.JsonObject | None:
    try:
        args = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return args if isinstance(args, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _extras(signature: str) -> gemini.JsonObject:
    return {"extras": {"signature": signature}}


def _parse_block(part: gemini.JsonObject) -> tuple[Block, str | None]:
    """Return a block that LangChain's `content_blocks` understands, and the part's signature.

    A part that LangChain has no block for is kept whole, including its signature.
    """
    match dict(part):
        case {"executableCode": dict(code), **rest} if _is_plain(rest) and set(code) <= {
            "code",
            "language",
            "id",
        }:
            block = {"type": "executable_code", "executable_code": code.get("code", "")}
            block |= {key: code[key] for key in ("language", "id") if key in code}
        case {"codeExecutionResult": dict(result), **rest} if _is_plain(rest) and set(result) <= {
            "outcome",
            "output",
            "id",
        }:
            block = {"type": "code_execution_result"}
            block |= {"code_execution_result": result.get("output", "")}
            outcome = str(result.get("outcome", "OUTCOME_UNSPECIFIED"))
            block |= {"outcome": _OUTCOMES.get(outcome, outcome)}
            block |= {"tool_call_id": result["id"]} if "id" in result else {}
        case {"inlineData": {"mimeType": str(mime), "data": str(data), **more}, **rest} if (
            _is_plain(rest) and data and not more
        ):
            block = _parse_blob(mime, data)
        case _:
            return {"type": GEMINI_PART, "part": dict(part)}, None
    return block, _text(part.get("thoughtSignature"))


def _is_plain(rest: gemini.JsonObject) -> bool:
    return set(rest) <= {"thoughtSignature"}


def _parse_blob(mime_type: str, data: str) -> Block:
    if mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
    if mime_type.startswith("audio/"):
        return audio_block(data, mime_type)
    return {"type": "media", "mime_type": mime_type, "data": data}
