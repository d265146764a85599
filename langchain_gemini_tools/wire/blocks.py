"""Content blocks of all dialects -> parts.

The dialects are LangChain v0 and v1, OpenAI, Anthropic, langchain-google-genai, this package and
Gemini's own parts. A block that has no part is rejected with its type, never dropped.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from langchain_gemini_tools.errors import InvalidInputError, UnsupportedBlockError
from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.blocks import Block, extras_of, type_of
from langchain_gemini_tools.facts.json_values import AS_TEXT, camel, dump_json, snake
from langchain_gemini_tools.wire import replay
from langchain_gemini_tools.wire.media import render_media

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from langchain_gemini_tools.wire import shapes as gemini

_GOOGLE = {"google_genai", "google_vertexai"}
_OUTCOMES = {1: "OUTCOME_OK", 2: "OUTCOME_FAILED", 3: "OUTCOME_DEADLINE_EXCEEDED"}
_FOREIGN_SERVER_TOOLS = re.compile(
    r"server_tool_call_chunk|\w+_(call|call_output|tool_use|tool_result)"
    r"|server_tool_result|mcp_list_tools|mcp_approval_(request|response)"
)
"""Tools that OpenAI or Anthropic ran, including future ones."""
_MAX_WORD_LENGTH = 2_000
_CACHE_MARKERS = {"cachePoint", "cache_point"}
"""Amazon's blocks that only mark what to cache."""
_RAW_PARTS = {
    **dict.fromkeys(("inlineData", "inline_data"), "data"),
    **dict.fromkeys(("fileData", "file_data"), "fileUri"),
}
"""Parts as the API spells them, and the field that each must have."""


def render_input_block(block: str | Block, role: str) -> gemini.Part | None:
    """Render a block of a user or system message; `None` for an empty text.

    Raises:
        UnsupportedBlockError: Gemini has no part for this block.
    """
    if isinstance(block, str):
        return {"text": block} if block else None
    if len(block) == 1 and block.keys() <= _CACHE_MARKERS:
        return None
    kind = type_of(block)
    if kind in block_types.TEXTS or ("type" not in block and isinstance(block.get("text"), str)):
        return {"text": str(block["text"])} if block.get("text") else None
    if kind in block_types.MEDIA:
        return render_media(block)
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return render_input_block(block["value"], role)
    if kind == block_types.GEMINI_PART and isinstance(block.get("part"), dict):
        return cast("gemini.Part", block["part"])
    if "type" not in block and (raw := _render_raw(block)):
        return raw
    raise UnsupportedBlockError(
        kind or str(block.get("type")), role, {*block_types.MEDIA, *block_types.TEXTS}
    )


def render_model_block(block: str | Block, message: AIMessage) -> gemini.Part | None:
    """Render a block of an AI message that is not a call; `None` if there is nothing to send.

    Signatures are sent only if Gemini wrote the message: it rejects those of other vendors. A block
    without a part is sent as text, because the user cannot change what another model wrote.
    """
    if isinstance(block, str):
        return render_input_block(block, "ai")
    is_ours = message.response_metadata.get("model_provider") in _GOOGLE
    match block:
        case {"type": "non_standard", "value": dict(value)}:
            return render_model_block(value, message)
        case {"type": "text", "text": str(text), "extras": {replay.PART_FIELDS: dict(fields)}}:
            return cast("gemini.Part", {"text": text, **fields})
        case {"type": "text", "text": str(text), "extras": {"signature": str(signed)}} if is_ours:
            return {"text": text, "thoughtSignature": signed}
        case {"type": str(kind)} if kind in block_types.THOUGHTS:
            return _render_thinking(block, is_ours=is_ours)
        case {"type": block_types.REFUSAL, "refusal": str(text)}:
            is_written = text and not block_types.is_derived_refusal(block)
            return {"text": text} if is_written else None
        case {"type": "executable_code", "executable_code": code}:
            return {"executableCode": {"code": code, **_kept(block, "language", "id")}}
        case {"type": "code_execution_result", "code_execution_result": output}:
            return _render_code_result(output, block.get("outcome"), block.get("tool_call_id"))
        case {"type": "server_tool_call", "name": "media_processing"} | {
            "type": "server_tool_result",
            "extras": {"block_type": "media_processing"},
        }:
            return None  # of langchain-google-genai; see `without_media_steps`
        case {"type": "server_tool_call", "name": "code_interpreter", "args": dict(args)} if (
            is_ours
        ):
            code = {"code": args.get("code", ""), **_kept({**args, **block}, "language", "id")}
            return {"executableCode": code}
        case {"type": "server_tool_result", "output": output} if is_ours:
            outcome = extras_of(block).get("outcome", 1)
            return _render_code_result(output, outcome, block.get("tool_call_id"))
        case {"type": "image_generation_call", "result": str(image)} if image:  # OpenAI
            kind = f"image/{block.get('output_format') or 'png'}"
            return render_media({"type": "image", "base64": image, "mime_type": kind})
        case {"type": str(kind)} if _FOREIGN_SERVER_TOOLS.fullmatch(kind):
            return _render_foreign(block)
    try:
        return render_input_block(block, "ai")
    except InvalidInputError:
        return _render_foreign(block)


def _render_thinking(block: Block, *, is_ours: bool) -> gemini.Part | None:
    """Render a thought of LangChain, Anthropic, Mistral, Amazon or OpenAI."""
    match block:
        case (
            {"thinking": str(text)}
            | {"reasoning": str(text)}
            | {"reasoning_content": {"text": str(text)}}
        ):
            pass
        case {"thinking": list(texts)} | {"summary": list(texts)}:
            text = _joined_texts(texts)
        case {"type": "reasoning" | "reasoning_content" | "redacted_thinking"}:
            text = ""  # stored or encrypted by another vendor
        case {"type": "thinking"} if "thinking" not in block:
            text = ""  # it was removed
        case _:
            return _render_foreign(block)
    signature = block.get("signature") or extras_of(block).get("signature")
    signed = signature if is_ours and isinstance(signature, str) else None
    if not text and not signed:
        return None
    part: gemini.Part = {"text": text, "thought": True}
    return {**part, "thoughtSignature": signed} if signed else part


def _joined_texts(items: list[object]) -> str:
    return "\n".join(str(item.get("text", "")) for item in items if isinstance(item, dict))


def _render_code_result(output: object, outcome: object, call_id: str | None) -> gemini.Part:
    # Code that prints nothing has no `output`: the API omits empty fields. Databases without
    # integers return the outcome as another type of number.
    is_number = isinstance(outcome, (int, float, Decimal))
    word = next((w for n, w in _OUTCOMES.items() if n == outcome), None) if is_number else outcome
    if outcome is None:  # the API requires one; early versions of langchain-google-genai had none
        word = "OUTCOME_OK"
    result = {"outcome": word, "output": output, **_kept({"id": call_id}, "id")}
    return {"codeExecutionResult": {key: value for key, value in result.items() if value}}


def _render_foreign(block: Block) -> gemini.Part:
    """Render another vendor's block as JSON text."""
    shown = {key: value for key, value in block.items() if key not in {"index", "extras"}}
    with suppress(RecursionError):  # `dump_json` reports the cause
        shown = _without_opaque(shown)
    return {"text": dump_json(shown, AS_TEXT)}


def _without_opaque(value: Any) -> Any:
    """Return a value without encrypted fields and without the bytes of files."""
    if isinstance(value, list):
        return [_without_opaque(item) for item in value]
    if isinstance(value, str) and len(value) > _MAX_WORD_LENGTH and " " not in value:
        return f"({len(value)} characters)"
    if not isinstance(value, dict):
        return value
    return {
        key: _without_opaque(item)
        for key, item in value.items()
        if not str(key).startswith("encrypted_")
    }


def _render_raw(block: Block) -> gemini.Part | None:
    """Render a part as the API spells it, with keys in either case; `None` if it is not one.

    Raises:
        InvalidInputError: It has no data or location, or fields that such a part does not have.
    """
    key = next((key for key in block if key in _RAW_PARTS and isinstance(block[key], dict)), None)
    if key is None:
        return None
    content = _RAW_PARTS[key]
    fields = {camel(str(name)): value for name, value in block[key].items() if value is not None}
    if unknown := sorted(fields.keys() - {content, "mimeType"}):
        raise InvalidInputError(
            f"A block with {key!r} has the field {unknown[0]!r}, which not every backend accepts. "
            f"Remove it, or send the part unchanged: {{'type': '{block_types.GEMINI_PART}', "
            "'part': {...}}."
        )
    if not isinstance(given := fields.get(content), (str, bytes, bytearray)) or not given:
        raise InvalidInputError(
            f"A block with {key!r} has no {content!r}. Add it, or remove the block."
        )
    is_file_name = content == "fileUri" and ":" not in str(given)  # of the Files API
    source = {"file_id" if is_file_name else snake(content): given}
    return render_media({**block, "type": "media", "mime_type": fields.get("mimeType"), **source})


def _kept(values: Block, *keys: str) -> Block:
    return {key: values[key] for key in keys if values.get(key) and not _is_own(values[key])}


def _is_own(value: object) -> bool:
    return isinstance(value, str) and value.startswith(replay.OWN_ID)
