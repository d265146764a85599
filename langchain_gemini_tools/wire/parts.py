"""Parts of a response -> pieces of a message: text, blocks, audio, tool calls.

`PartParser` parses one candidate, part after part. It does not know whether the parts came in one
body or in a stream, so a streamed message adds up to exactly the same message.

Speech models return raw samples (`audio/L16;codec=pcm;rate=24000`), which no player opens; a stream
returns them in pieces. They are joined at the end of the response, after a WAV header.
"""

from __future__ import annotations

import base64
import binascii
import io
import uuid
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.facts.blocks import GEMINI_PART
from langchain_gemini_tools.wire.function_calls import CallParser
from langchain_gemini_tools.wire.pieces import Piece
from langchain_gemini_tools.wire.replay import OWN_ID, PART_FIELDS, PartLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.facts.blocks import Block
    from langchain_gemini_tools.wire import shapes as gemini

_OUTCOMES = {"OUTCOME_OK": 1, "OUTCOME_FAILED": 2, "OUTCOME_DEADLINE_EXCEEDED": 3}
"""LangChain's translator expects the integer 1 for success; unknown outcomes stay text."""

_TEXT_FIELDS = {"text", "thought", "thoughtSignature"}


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
        parameter_names: Mapping[str, Mapping[str, str]],
        *,
        runs_remote_tools: bool,
    ) -> None:
        self._log = PartLog()
        self.calls = CallParser(tool_names, parameter_names, self._log)
        self.pieces: list[Piece] = []
        """All pieces so far."""
        self._tool_names = tool_names
        self._has_remote = runs_remote_tools
        self._response_id: object = None
        self._block_count = 0
        self._open_block: Block | None = None
        self._code_id: str | None = None
        self._samples: list[tuple[PcmFormat, bytearray]] = []

    def feed(self, candidate: gemini.JsonObject, response_id: object) -> list[Piece]:
        """Return the pieces of a candidate, or of one event of it.

        Args:
            candidate: The candidate; empty if the body has none.
            response_id: The API's id of the response, if it is known.
        """
        self._response_id = self._response_id or response_id
        content = candidate.get("content") or {}
        parts = content.get("parts") or [] if isinstance(content, dict) else content
        if not isinstance(parts, list):
            raise UnreadableResponseError("The response's `parts` are not a list.", body=candidate)
        part = parts[0] if len(parts) == 1 else None
        if isinstance(part, dict) and len(part) == 1:  # as in nearly every event of a stream
            piece = self._parse(part)
            pieces = [piece] if piece else []
        else:
            pieces = [piece for part in _tidy(parts) if (piece := self._parse(part))]
        self.pieces += pieces
        return pieces

    def finish(self) -> list[Piece]:
        """Return what is complete only at the end of a response: one WAV file for each format."""
        if not self._samples:
            return []
        runs, self._samples = self._samples, []
        blocks = [_audio_block(_wav(form, samples), "audio/wav") for form, samples in runs]
        pieces = [self._add_block(block, None, "inlineData") for block in blocks]
        self.pieces += pieces
        return pieces

    def _parse(self, part: gemini.JsonObject) -> Piece | None:
        """Return the piece that a part adds, or `None` if it adds nothing to the message."""
        if not isinstance(part, dict):
            raise UnreadableResponseError(
                f"The response contains a part that is not an object: {part!r:.200}"
            )
        if len(part) == 1 and isinstance(text := part.get("text"), str):
            return self._parse_text(text, None)
        signature = _text(part.get("thoughtSignature"))
        match part:
            case {"functionCall": dict(call)} if not (self._has_remote and self._is_remote(call)):
                self._open_block = None
                return self.calls.parse(call, signature)
            case {"functionCall": str() | int() | float() | list()}:
                raise UnreadableResponseError(
                    f"The response contains a function call that is not an object: {part!r:.200}"
                )
            case {"text": str(text)} if set(part) <= _TEXT_FIELDS:
                return self._parse_text(text, signature, is_thought=bool(part.get("thought")))
            case {"text": str(text)} if not part.get("thought"):
                return self._parse_annotated_text(text, part)
            case {"thoughtSignature": _} if len(part) == 1:
                # A step of agentic media processing, as Vertex AI reports it (recorded by
                # pydantic-ai). Sent back, it is "Invalid thought signature".
                return None
            case {} if all(value is None for value in part.values()):
                return None
            case {"inlineData": {"mimeType": str(mime), "data": str(data)}} if (
                form := parse_pcm_format(mime)
            ):
                self._add_samples(form, data)
                return None
            case _:
                return self._parse_block_part(part)

    def dump_log(self) -> gemini.JsonObject:
        """Return the entry of `additional_kwargs` for the next request; see `replay.py`."""
        return self._log.dump(self._unique_prefix) if self._log.is_needed else {}

    @cached_property
    def _unique_prefix(self) -> str:
        """A prefix for indexes in this response: LangChain merges blocks with equal indexes."""
        if isinstance(self._response_id, str) and self._response_id:
            return f"{zlib.crc32(self._response_id.encode()):08x}"
        return uuid.uuid4().hex[:8]

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
            signed = {"signature": signature}
            piece |= signed if kind == "thinking" else {"extras": signed}
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

    def _add_samples(self, form: PcmFormat, data: str) -> None:
        try:
            samples = base64.b64decode(data.replace("-", "+").replace("_", "/"))
        except (ValueError, binascii.Error):
            raise UnreadableResponseError(
                "The response contains audio that is not base64."
            ) from None
        if not self._samples or self._samples[-1][0] != form:
            self._samples.append((form, bytearray()))
        self._samples[-1][1].extend(samples)

    def _is_remote(self, call: gemini.JsonObject) -> bool:
        return _text(call.get("name")) not in self._tool_names


_DATA_FIELDS = {"text", "inlineData", "fileData", "executableCode", "codeExecutionResult"}


def _tidy(parts: list[gemini.JsonObject]) -> list[gemini.JsonObject]:
    """Return parts as the API writes them.

    Some proxies write both data and a function call into one part, or all fields of the SDK's
    types, those without a value as `null`.
    """
    try:
        if sum(map(len, parts)) == len(parts) or not any(map(_is_untidy, parts)):
            return parts  # most parts have one field
    except (AttributeError, TypeError):
        return parts  # `parse` rejects what is not an object
    return [tidy for part in parts for tidy in _split(part)]


def _is_untidy(part: gemini.JsonObject) -> bool:
    return None in part.values() or ("functionCall" in part and not _DATA_FIELDS.isdisjoint(part))


def _split(given: gemini.JsonObject) -> list[gemini.JsonObject]:
    """Return a part without nulls; as two parts if it has both data and a function call."""
    if not isinstance(given, dict):
        return [given]
    part = {key: value for key, value in given.items() if value is not None}
    of_call = [key for key in ("functionCall", "thoughtSignature") if key in part]
    rest = {key: value for key, value in part.items() if key not in of_call}
    is_mixed = "functionCall" in part and not _DATA_FIELDS.isdisjoint(rest)
    return [rest, {key: part[key] for key in of_call}] if is_mixed else [part]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


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
        return _audio_block(data, mime_type)
    return {"type": "media", "mime_type": mime_type, "data": data}


# Audio

_PCM_TYPES = {"audio/l16", "audio/pcm"}
_DEFAULT_RATE = 24_000
_SAMPLE_BYTES = 2


@dataclass(frozen=True)
class PcmFormat:
    """How raw samples are to be read: 16 bits, little-endian."""

    rate: int = _DEFAULT_RATE
    """Samples per second."""
    channels: int = 1


def parse_pcm_format(mime_type: str) -> PcmFormat | None:
    """Return the format of raw samples by their MIME type; `None` for any other type."""
    kind, *parameters = (each.strip().lower() for each in mime_type.split(";"))
    if kind not in _PCM_TYPES:
        return None
    numbers = {
        name: int(value)
        for name, _, value in (each.partition("=") for each in parameters)
        if value.isascii() and value.isdigit() and int(value)
    }
    return PcmFormat(numbers.get("rate", _DEFAULT_RATE), numbers.get("channels", 1))


def _audio_block(data: str, mime_type: str) -> Block:
    """Return LangChain's standard block for audio in base64."""
    return {"type": "audio", "base64": data, "mime_type": mime_type}


def _wav(form: PcmFormat, samples: bytearray) -> str:
    import wave  # only speech models need it

    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(form.channels)
        writer.setsampwidth(_SAMPLE_BYTES)
        writer.setframerate(form.rate)
        writer.writeframes(samples)
    return base64.b64encode(file.getvalue()).decode("ascii")
