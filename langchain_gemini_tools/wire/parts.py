"""Parts of a reply -> pieces of a message: text, blocks, tool calls.

`PartReader` reads one candidate, part after part. It does not know whether the parts came in one
body or over a stream, which is why a streamed answer adds up to exactly the whole one.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages.tool import invalid_tool_call, tool_call

from langchain_gemini_tools.errors import MalformedCallError, UnreadableReplyError
from langchain_gemini_tools.wire.partial_args import ArgumentsWriter
from langchain_gemini_tools.wire.replay import CALL_SIGNATURES, PART_BLOCK, PartLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.messages import InvalidToolCall, ToolCall

_OUTCOMES = {"OUTCOME_OK": 1, "OUTCOME_FAILED": 2, "OUTCOME_DEADLINE_EXCEEDED": 3}
"""LangChain's translator takes the integer 1 for success; other outcomes keep their word."""

_INVENTED_PREFIXES = ("default_api.", "default_api:")


@dataclass
class CallPiece:
    """A tool call, or some of its arguments: whole `args`, or a `fragment` of their JSON text."""

    index: int
    id: str
    name: str | None
    args: dict[str, Any] | None = None
    fragment: str = ""


@dataclass
class Piece:
    """What one part adds to the message."""

    text: str = ""
    block: dict[str, Any] | None = None
    call: CallPiece | None = None
    signature: str | None = None
    """Thought signature of `call`."""

    @property
    def is_answer(self) -> bool:
        """Whether this says anything to the user; thoughts and empty texts do not."""
        if self.block is None:
            return True
        return self.block["type"] != "thinking" and self.block.get("text") != ""


@dataclass
class Assembly:
    """Pieces put together: what a message is made of."""

    content: str | list[str | dict[str, Any]] = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    invalid_tool_calls: list[InvalidToolCall] = field(default_factory=list)
    additional_kwargs: dict[str, Any] = field(default_factory=dict)


class PartReader:
    """Reads the parts of one candidate in order.

    Args:
        tool_names: The bound tools: name on the wire -> the user's name.
        runs_remote_tools: Whether the request let the API call MCP servers by itself. Calls of
            undeclared functions are then the server's business and no tool calls.
    """

    def __init__(self, tool_names: Mapping[str, str], *, runs_remote_tools: bool = False) -> None:
        self.log = PartLog()
        self._tool_names = tool_names
        self._runs_remote_tools = runs_remote_tools
        self._call_ids: set[str] = set()
        self._partial: tuple[CallPiece, ArgumentsWriter] | None = None
        self._block_count = 0
        self._open_block: dict[str, Any] | None = None

    @property
    def call_count(self) -> int:
        """How many calls have begun."""
        return len(self._call_ids)

    def read(self, part: Mapping[str, Any]) -> Piece | None:
        """The piece that a part adds, or `None` when it adds nothing a user would see."""
        if not isinstance(part, dict):
            raise UnreadableReplyError(f"The reply holds a part that is no object: {part!r:.200}")
        match part:
            case {"functionCall": dict(call)} if not self._is_remote(call):
                return self._read_call(call, part.get("thoughtSignature"))
            case {"text": str(text)} if set(part) <= {"text", "thought", "thoughtSignature"}:
                return self._read_text(text, part)
            case _:
                return self._read_block(part)

    def check_complete(self) -> None:
        """Raise when a call began and never ended."""
        if self._partial:
            name = self._partial[0].name
            raise MalformedCallError(f"The reply ended inside the arguments of a call to {name!r}.")

    # text

    def _read_text(self, text: str, part: Mapping[str, Any]) -> Piece | None:
        signature = part.get("thoughtSignature")
        if part.get("thought"):
            return self._continue_block("thinking", text, signature)
        if not text and signature is None:
            return None
        if self._block_count:
            return self._continue_block("text", text, signature)
        self.log.add_text(text, signature)
        return Piece(text=text) if text else None

    def _continue_block(self, kind: str, text: str, signature: str | None) -> Piece | None:
        """Add to the open block of this kind, or open one; a signed part is a block of its own."""
        block = self._open_block
        if block is None or block["type"] != kind or signature is not None:
            block = {"type": kind, "index": self._next_index()}
            self._open_block = None if signature is not None else block
            self.log.add_block()
        piece = {**block, kind: text}
        if signature is not None:
            piece |= {"signature": signature} if kind == "thinking" else _extras(signature)
        return Piece(block=piece)

    # blocks

    def _read_block(self, part: Mapping[str, Any]) -> Piece:
        self._open_block = None
        block, signature = _parse_block(part)
        self.log.add_block(signature)
        return Piece(block={**block, "index": self._next_index()})

    def _next_index(self) -> str:
        # A string, because core numbers blocks without an index itself; "lc_" makes chunks merge.
        self._block_count += 1
        return f"lc_part_{self._block_count}"

    # calls

    def _is_remote(self, call: Mapping[str, Any]) -> bool:
        return self._runs_remote_tools and call.get("name") not in self._tool_names

    def _read_call(self, call: dict[str, Any], signature: str | None) -> Piece:
        self._open_block = None
        if self._partial and not call.get("name"):
            return self._continue_call(call)
        self.check_complete()
        piece = self._begin_call(call)
        return Piece(call=piece, signature=signature)

    def _begin_call(self, call: dict[str, Any]) -> CallPiece:
        wire_name = call.get("name")
        name = self._user_name(wire_name) if isinstance(wire_name, str) else None
        begun = CallPiece(index=len(self._call_ids), id=self._unique_id(call), name=name)
        self.log.add_call(begun.id, wire_name if self._is_renamed(wire_name, name) else None)
        args = call.get("args")
        if call.get("willContinue") or "partialArgs" in call:
            writer = ArgumentsWriter()
            begun.fragment = writer.feed(call.get("partialArgs") or [])
            if call.get("willContinue"):
                self._partial = (begun, writer)
            else:
                begun.fragment += writer.finish()
        elif name and (args is None or isinstance(args, dict)):
            begun.args = args or {}
        else:
            # Core would repair anything that begins like JSON into a valid call.
            begun.fragment = f"not a function call: {json.dumps(call)}"
        return begun

    def _continue_call(self, call: dict[str, Any]) -> Piece:
        assert self._partial  # noqa: S101 - the caller has just looked
        begun, writer = self._partial
        fragment = writer.feed(call.get("partialArgs") or [])
        if not call.get("willContinue"):
            fragment += writer.finish()
            self._partial = None
        return Piece(call=CallPiece(begun.index, begun.id, None, fragment=fragment))

    def _unique_id(self, call: dict[str, Any]) -> str:
        """The API's id; our own where it gave none or gave it twice in this message."""
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self._call_ids:
            call_id = str(uuid.uuid4())
        self._call_ids.add(call_id)
        return call_id

    def _user_name(self, wire_name: str) -> str:
        """The bound tool's name, without a prefix that the model made up."""
        if wire_name not in self._tool_names:
            for prefix in _INVENTED_PREFIXES:
                if (bare := wire_name.removeprefix(prefix)) in self._tool_names:
                    return self._tool_names[bare]
        return self._tool_names.get(wire_name, wire_name)

    def _is_renamed(self, wire_name: Any, name: str | None) -> bool:
        return name != wire_name and self._tool_names.get(wire_name) != name


def assemble(pieces: Iterable[Piece]) -> Assembly:
    """Put pieces together the way LangChain adds up the chunks of a stream."""
    whole = Assembly()
    calls: dict[int, CallPiece] = {}
    signatures: dict[str, str] = {}
    text: list[str] = []
    blocks: dict[str, dict[str, Any]] = {}
    has_text_first = False
    for piece in pieces:
        if piece.block is not None:
            _merge_block(blocks, piece.block)
        elif piece.call is not None:
            _merge_call(calls, piece.call)
            if piece.signature:
                signatures.setdefault(piece.call.id, piece.signature)
            has_text_first |= not blocks
        else:
            text.append(piece.text)
            has_text_first = True
    whole.content = "".join(text)
    if blocks:
        whole.content = [whole.content, *blocks.values()] if has_text_first else [*blocks.values()]
    _add_calls(whole, calls.values())
    if signatures:
        whole.additional_kwargs[CALL_SIGNATURES] = signatures
    return whole


def _merge_block(blocks: dict[str, dict[str, Any]], block: dict[str, Any]) -> None:
    known = blocks.get(block["index"])
    if known is None:
        blocks[block["index"]] = dict(block)
    else:
        known[block["type"]] += block[block["type"]]


def _merge_call(calls: dict[int, CallPiece], call: CallPiece) -> None:
    known = calls.get(call.index)
    if known is None:
        calls[call.index] = CallPiece(call.index, call.id, call.name, call.args, call.fragment)
    else:
        known.fragment += call.fragment


def _add_calls(whole: Assembly, calls: Iterable[CallPiece]) -> None:
    for call in calls:
        args = call.args if call.args is not None else _parse_fragment(call.fragment)
        if args is not None and call.name:
            whole.tool_calls.append(tool_call(name=call.name, args=args, id=call.id))
        else:
            whole.invalid_tool_calls.append(
                invalid_tool_call(name=call.name, args=call.fragment, id=call.id, error=None)
            )


def _parse_fragment(text: str) -> dict[str, Any] | None:
    try:
        args = json.loads(text)
    except ValueError:
        return None
    return args if isinstance(args, dict) else None


def _extras(signature: str) -> dict[str, Any]:
    return {"extras": {"signature": signature}}


def _parse_block(part: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """A block that LangChain's `content_blocks` understands, and the signature to remember for it.

    What LangChain has no block for keeps its whole part, signature included.
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
            outcome = result.get("outcome", "OUTCOME_UNSPECIFIED")
            block |= {"outcome": _OUTCOMES.get(outcome, outcome)}
            block |= {"tool_call_id": result["id"]} if "id" in result else {}
        case {"inlineData": {"mimeType": str(mime), "data": str(data), **more}, **rest} if (
            _is_plain(rest) and not more
        ):
            block = _parse_blob(mime, data)
        case _:
            return {"type": PART_BLOCK, "part": dict(part)}, None
    return block, part.get("thoughtSignature")


def _is_plain(rest: Mapping[str, Any]) -> bool:
    return set(rest) <= {"thoughtSignature"}


def _parse_blob(mime_type: str, data: str) -> dict[str, Any]:
    if mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
    return {"type": "media", "mime_type": mime_type, "data": data}
