"""Content blocks -> parts, whichever dialect they are written in.

LangChain v0 and v1, OpenAI, Anthropic, langchain-google-genai, our own, and parts as the API
spells them. A block that has no part is refused by name, never left out in silence.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from langchain_gemini_tools.errors import InvalidInputError, UnsupportedBlockError
from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.blocks import extras_of, type_of
from langchain_gemini_tools.facts.json_values import AS_TEXT, dump_json
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
"""Tools that OpenAI or Anthropic ran on their side, whatever they call the next one."""
_LONGEST_WORD = 2_000
_CACHE_MARKS = {"cachePoint", "cache_point"}
"""Amazon's blocks that only say what to cache."""
_RAW_PARTS = {
    "inlineData": "inlineData",
    "inline_data": "inlineData",
    "fileData": "fileData",
    "file_data": "fileData",
}
_RAW_KEYS = {"mime_type": "mimeType", "file_uri": "fileUri", "display_name": "displayName"}


def render_input_block(block: str | dict[str, Any], role: str) -> gemini.Part | None:
    """A block of a user's or a tool's message; `None` for an empty text.

    Raises:
        UnsupportedBlockError: Gemini has no part for this block.
    """
    if isinstance(block, str):
        return {"text": block} if block else None
    if len(block) == 1 and block.keys() <= _CACHE_MARKS:
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


def render_reply_block(block: str | dict[str, Any], message: AIMessage) -> gemini.Part | None:
    """A block of an AI message that is no call; `None` when it holds nothing to send.

    Signatures are Gemini's only where Gemini wrote the message: another vendor's must not reach it.
    What has no part is told as text: an answer that somebody else gave cannot be asked for again.
    """
    if isinstance(block, str):
        return render_input_block(block, "ai")
    is_ours = message.response_metadata.get("model_provider") in _GOOGLE
    match block:
        case {"type": "non_standard", "value": dict(value)}:
            return render_reply_block(value, message)
        case {"type": "text", "text": str(text), "extras": {replay.PART_FIELDS: dict(fields)}}:
            return cast("gemini.Part", {"text": text, **fields})
        case {"type": "text", "text": str(text), "extras": {"signature": str(signed)}} if is_ours:
            return {"text": text, "thoughtSignature": signed}
        case {"type": str(kind)} if kind in block_types.THOUGHTS:
            return _render_thinking(block, is_ours=is_ours)
        case {"type": "refusal", "refusal": str(text)}:
            return {"text": text}
        case {"type": "executable_code", "executable_code": code}:
            return {"executableCode": {"code": code, **_kept(block, "language", "id")}}
        case {"type": "code_execution_result", "code_execution_result": output}:
            return _render_code_result(output, block.get("outcome"), block.get("tool_call_id"))
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


def _render_thinking(block: dict[str, Any], *, is_ours: bool) -> gemini.Part | None:
    """LangChain's, Anthropic's, Mistral's, Amazon's or OpenAI's word for what a model thought."""
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
            text = ""  # kept, or encrypted, by another vendor for itself alone
        case {"type": "thinking"} if "thinking" not in block:
            text = ""  # somebody took it out
        case _:
            return _render_foreign(block)
    signature = block.get("signature") or extras_of(block).get("signature")
    signed = signature if is_ours and isinstance(signature, str) else None
    if not text and not signed:
        return None
    part: gemini.Part = {"text": text, "thought": True}
    return {**part, "thoughtSignature": signed} if signed else part


def _joined_texts(items: list[Any]) -> str:
    return "\n".join(str(item.get("text", "")) for item in items if isinstance(item, dict))


def _render_code_result(output: Any, outcome: Any, call_id: str | None) -> gemini.Part:
    # Code that prints nothing has no `output`: the API leaves out what is empty.
    # And stores that know no integers give a number back as another kind of number.
    is_number = isinstance(outcome, (int, float, Decimal))
    word = next((w for n, w in _OUTCOMES.items() if n == outcome), None) if is_number else outcome
    told = {"outcome": word, "output": output, **_kept({"id": call_id}, "id")}
    return {"codeExecutionResult": {key: value for key, value in told.items() if value}}


def _render_foreign(block: dict[str, Any]) -> gemini.Part:
    """What another vendor ran, or wrote in a way of its own: told as text."""
    told = {key: value for key, value in block.items() if key not in {"index", "extras"}}
    with suppress(RecursionError):  # the writer of JSON says what is wrong
        told = _without_sealed(told)
    return {"text": dump_json(told, AS_TEXT)}


def _without_sealed(value: Any) -> Any:
    """The value without what its vendor encrypted for itself alone, and without bytes of files."""
    if isinstance(value, list):
        return [_without_sealed(item) for item in value]
    if isinstance(value, str) and len(value) > _LONGEST_WORD and " " not in value:
        return f"({len(value)} characters)"
    if not isinstance(value, dict):
        return value
    return {
        key: _without_sealed(item)
        for key, item in value.items()
        if not str(key).startswith("encrypted_")
    }


def _render_raw(block: dict[str, Any]) -> gemini.Part | None:
    """A part as the API spells it, in either case of its keys."""
    for key, wire_key in _RAW_PARTS.items():
        if isinstance(data := block.get(key), dict):
            fields = {_RAW_KEYS.get(k, k): v for k, v in data.items()}
            if isinstance(fields.get("data"), (bytes, bytearray)):
                fields["data"] = base64.b64encode(fields["data"]).decode("ascii")
            part: dict[str, Any] = {wire_key: fields}
            return cast("gemini.Part", part)
    return None


def _kept(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: values[key] for key in keys if values.get(key) and not _is_own(values[key])}


def _is_own(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(replay.OWN_ID)
