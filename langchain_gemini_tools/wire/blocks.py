"""Content blocks of all dialects, and the results of tools -> parts.

The dialects are LangChain v0 and v1, OpenAI, Anthropic, langchain-google-genai, this package and
Gemini's own parts. A block that has no part is rejected with its type, never dropped.

`render_split` separates the text of a tool result from its media, for native and prompted calling
alike. A file that cannot be sent does not stop the conversation: the result says so in its text.
The user cannot change what a tool returned, and a checkpointer would send it again in every later
turn.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

from langchain_gemini_tools.errors import InvalidInputError, UnsupportedBlockError
from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.blocks import Block, Content, extras_of, type_of, unwrapped
from langchain_gemini_tools.facts.json_values import (
    AS_TEXT,
    camel,
    decode_result,
    dump_json,
    snake,
)
from langchain_gemini_tools.wire import replay
from langchain_gemini_tools.wire.media import (
    has_media,
    plain_text_of,
    render_media,
    why_rejected,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, ToolMessage

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini

_GOOGLE = {"google_genai", "google_vertexai"}
_NUMBERS = (int, float, Decimal)
_OUTCOMES = {1: "OUTCOME_OK", 2: "OUTCOME_FAILED", 3: "OUTCOME_DEADLINE_EXCEEDED"}
_FOREIGN_SERVER_TOOLS = re.compile(
    r"server_tool_call_chunk|\w+_(call|call_output|tool_use|tool_result)"
    r"|server_tool_result|mcp_list_tools|mcp_approval_(request|response)"
)
"""Tools that OpenAI or Anthropic ran, including future ones."""
_MAX_WORD_LENGTH = 2_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Ids that langchain-google-genai gives to code; those of the API have eight characters."""
_RAW_PARTS = {
    **dict.fromkeys(("inlineData", "inline_data"), "data"),
    **dict.fromkeys(("fileData", "file_data"), "fileUri"),
}
"""Parts as the API spells them, and the field that each must have."""


def render_input(content: Content, role: str) -> list[gemini.Part]:
    """Render the content of a user or system message; empty texts are left out.

    Raises:
        UnsupportedBlockError: Gemini has no part for a block, or a system message is not text.
    """
    if isinstance(content, str):
        return [{"text": content}] if content else []
    parts = [part for block in content if (part := _render_input_block(block, role))]
    if role == "system" and not all("text" in part for part in parts):
        for block in content:
            if (part := _render_input_block(block, role)) and "text" not in part:
                kind = type_of(block) or next(iter(block))
                raise UnsupportedBlockError(kind, role, ["text"])
    return parts


def _render_input_block(block: str | Block, role: str) -> gemini.Part | None:
    """Render a block of a user or system message; `None` for an empty text.

    Raises:
        UnsupportedBlockError: Gemini has no part for this block.
    """
    if isinstance(block, str):
        return {"text": block} if block else None
    if block_types.is_cache_marker(block):
        return None
    kind = type_of(block)
    if kind in block_types.TEXTS or ("type" not in block and isinstance(block.get("text"), str)):
        return {"text": str(block["text"])} if block.get("text") else None
    if kind in block_types.MEDIA:
        part = render_media(block)
        return part if part != {"text": ""} else None
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return _render_input_block(block["value"], role)
    if kind == block_types.GEMINI_PART and isinstance(block.get("part"), dict):
        return cast("gemini.Part", block["part"])
    if "type" not in block and (raw := _render_raw(block)):
        return raw
    supported = ["text"] if role == "system" else [*block_types.MEDIA, *block_types.TEXTS]
    given = block.get("type")
    raise UnsupportedBlockError(kind or (given and str(given)), role, supported)


def render_model_block(block: str | Block, message: AIMessage) -> gemini.Part | None:
    """Render a block of an AI message that is not a call; `None` if there is nothing to send.

    Signatures are sent only if Gemini wrote the message: it rejects those of other vendors. A block
    without a part is sent as text, because the user cannot change what another model wrote.
    """
    if isinstance(block, str):
        return _render_input_block(block, "ai")
    is_ours = message.response_metadata.get("model_provider") in _GOOGLE
    match block:
        case {"type": "text", "text": str(text), "extras": {replay.PART_FIELDS: dict(fields)}}:
            return cast("gemini.Part", {"text": text, **fields})
        case {"type": "text", "text": str(text)} if is_ours and (signed := _signature_of(block)):
            return {"text": text, "thoughtSignature": signed}
        case {"type": str(kind)} if kind in block_types.THOUGHTS:
            return _render_thinking(block, is_ours=is_ours)
        case {"type": block_types.REFUSAL, "refusal": str(text)}:
            is_written = text and not block_types.is_derived_refusal(block)
            return {"text": text} if is_written else None
        case {"type": "executable_code", "executable_code": code}:
            return _render_code(code, block)
        case {"type": "code_execution_result", "code_execution_result": output}:
            return _render_code_result(output, block.get("outcome"), block.get("tool_call_id"))
        case {"type": "server_tool_call", "name": "media_processing"} | {
            "type": "server_tool_result",
            "extras": {"block_type": "media_processing"},
        }:
            return None  # of langchain-google-genai; see `without_media_steps`
        case {"type": "server_tool_call" | "server_tool_result"} if is_ours:
            return _render_server_tool(block)
        case {"type": "image_generation_call", "result": str(image)} if image:  # OpenAI
            kind = f"image/{block.get('output_format') or 'png'}"
            return render_media({"type": "image", "base64": image, "mime_type": kind})
        case {"type": str(kind)} if _FOREIGN_SERVER_TOOLS.fullmatch(kind):
            return _render_foreign(block)
    try:
        part = _render_input_block(block, "ai")
    except InvalidInputError:
        return _render_foreign(block)
    return _with_signature(part, block) if is_ours else part


def _with_signature(part: gemini.Part | None, block: Block) -> gemini.Part | None:
    """Return the part of a file with the signature in its block."""
    signed = _signature_of(block) if type_of(block) in block_types.MEDIA else None
    return {**part, "thoughtSignature": signed} if part and signed else part


def _signature_of(block: Block) -> str | None:
    """Return the signature where this package or langchain-google-genai has put it."""
    places = (block.get("signature"), block.get("thought_signature"))
    return replay.as_signature(next(filter(None, places), extras_of(block).get("signature")))


def _render_server_tool(block: Block) -> gemini.Part:
    """Render a call or a result of a tool that Gemini ran itself: code, or another one."""
    part: Block
    match block:
        case {"type": "server_tool_call", "name": "code_interpreter", "args": dict(args)}:
            return _render_code(args.get("code", ""), {**args, **block})
        case {"type": "server_tool_call", "name": str(name), "args": dict(args)}:
            part = {"toolCall": {"toolType": name.upper(), "args": args, **_kept(block, "id")}}
        case {"output": dict(response), "extras": {"block_type": str(name)}}:
            named = _kept({"id": block.get("tool_call_id")}, "id")
            part = {"toolResponse": {"toolType": name.upper(), "response": response, **named}}
        case {"type": "server_tool_result", "output": output}:
            outcome = extras_of(block).get("outcome", 1)
            return _render_code_result(output, outcome, block.get("tool_call_id"))
        case _:
            return _render_foreign(block)
    signed = _signature_of(block)
    return cast("gemini.Part", {**part, "thoughtSignature": signed} if signed else part)


def _render_thinking(block: Block, *, is_ours: bool) -> gemini.Part | None:
    text = block_types.thought_of(block)
    if text is None:
        return _render_foreign(block)
    signed = _signature_of(block) if is_ours else None
    if not text and not signed:
        return None
    part: gemini.Part = {"text": text, "thought": True}
    return {**part, "thoughtSignature": signed} if signed else part


def _render_code(code: object, values: Block) -> gemini.Part:
    # langchain-google-genai before 4.0 stored the number of the SDK's enum, which has one language.
    if isinstance(values.get("language"), _NUMBERS):
        values = {**values, "language": "PYTHON"}
    return {"executableCode": {"code": code, **_kept(values, "language", "id")}}


def _render_code_result(output: object, outcome: object, call_id: str | None) -> gemini.Part:
    # Code that prints nothing has no `output`: the API omits empty fields. Databases without
    # integers return the outcome as another type of number.
    is_number = isinstance(outcome, _NUMBERS)
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
    if not isinstance(value, str):
        return False
    return value.startswith(replay.OWN_ID) or bool(_UUID.fullmatch(value))


# Results of tools

_INLINE_RESULT_TYPES = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "application/pdf",
    "text/plain",
}
"""What `functionResponse.parts` may contain:
https://ai.google.dev/gemini-api/docs/function-calling"""


class RenderedResult(NamedTuple):
    """The content of a tool message, with its media set apart."""

    content: Content
    """The text, with what is wrong with files; or a list of objects that are not content blocks."""
    files: list[gemini.Part]
    """The parts of the media that can be sent."""
    problems: list[str]
    """Why other media cannot be sent."""

    @property
    def text(self) -> str:
        """The content as text."""
        return _as_text(self.content)

    @property
    def value(self) -> Any:
        """The content as a JSON value: objects and arrays decoded, any other text unchanged."""
        return decode_result(self.content) if isinstance(self.content, str) else self.content


def render_split(content: Content) -> RenderedResult:
    """Split the content of a tool message, and render its media.

    Args:
        content: The content of the message.
    """
    content, media = _split_result(content)
    if not media:
        return RenderedResult(content, [], [])
    files: list[gemini.Part] = []
    problems: list[str] = []
    for block in media:
        try:
            part = render_media(block)
        except InvalidInputError as error:
            problems.append(_first_sentence(str(error)))
            continue
        if reason := why_rejected(part):
            problems.append(reason)
        else:
            files.append(part)
    if problems:
        text = _as_text(content)
        notes = [f"(Not attached: {problem})" for problem in problems]
        content = "\n".join([*([text] if text else []), *notes])
    return RenderedResult(content, files, problems)


def _first_sentence(text: str) -> str:
    """Return what is wrong, without the advice for developers that follows it."""
    return text.partition(". ")[0].rstrip(".") + "."


def _split_result(content: Content) -> tuple[Content, list[Block]]:
    """Split the content of a tool message into text and media blocks.

    A block that is neither text nor media becomes JSON text.
    """
    if isinstance(content, str):
        blocks = decode_result(content) if _may_be_dumped_blocks(content) else None
        if not _are_dumped_blocks(blocks):
            return content, []
        content = blocks
    elif not content:  # a tool returned an empty list: it found nothing
        return content, []
    content = [block for block in map(unwrapped, content) if not block_types.is_cache_marker(block)]
    objects = [block for block in content if isinstance(block, dict)]
    if objects and not any(isinstance(block.get("type"), str) for block in objects):
        return content, []
    texts: list[str] = []
    media: list[Block] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in block_types.TEXTS:
            texts.append(str(block.get("text", "")))
        elif not has_media(block):
            texts.append(_as_text(block.get("json", block)))
        elif (text := plain_text_of(block)) is not None:
            texts.append(text)
        else:
            media.append(block)
    return "\n".join(texts), media


def render_text_result(result: ToolMessage, call: gemini.FunctionCall) -> gemini.Part | None:
    """Render a tool message that is text, as most are; `None` if it may have content blocks.

    Args:
        result: The tool message.
        call: Its call, as sent.
    """
    content = result.content
    if not isinstance(content, str) or _may_be_dumped_blocks(content):
        return None
    key = "error" if result.status == "error" else "output"
    return render_response(call, {key: decode_result(content)})


def render_result(
    result: ToolMessage,
    rendered: RenderedResult,
    call: gemini.FunctionCall,
    capabilities: Capabilities,
    *,
    is_whole: bool = False,
) -> tuple[gemini.Part, list[gemini.Part]]:
    """Render a tool message as a functionResponse, and the media that must follow all responses.

    Args:
        result: The tool message.
        rendered: Its content.
        call: Its call, as sent.
        capabilities: Whether the model accepts media inside a response.
        is_whole: Whether an object is the whole response: computer use reads its `url` there.
    """
    value = rendered.value
    key = "error" if result.status == "error" else "output"
    is_bare = is_whole and isinstance(value, dict) and key == "output"
    if not rendered.files:
        return render_response(call, value if is_bare else {key: value}), []
    inside: list[gemini.Part] = []
    after: list[gemini.Part] = []
    for part in rendered.files:
        fits = capabilities.accepts_media_in_function_response and _is_inline_result(part)
        (inside if fits else after).append(part)
    if value == "":
        value = f"{len(rendered.files)} file(s), {'attached' if inside else 'see below'}."
    response = render_response(call, value if is_bare else {key: value})
    if inside:
        response["functionResponse"]["parts"] = inside
    if after:
        after.insert(0, {"text": f"Files returned by {call['name']} (call {call['id']}):"})
    return response, after


def render_orphan_result(result: ToolMessage, rendered: RenderedResult) -> list[gemini.Part]:
    """Render a tool message without its call: user text that names the call, then media.

    Args:
        result: The tool message.
        rendered: Its content.
    """
    name = result.name or result.additional_kwargs.get("name")
    outcome = "failed" if result.status == "error" else "returned"
    intro = f"Call {result.tool_call_id}{f' of tool {name}' if name else ''} {outcome}:"
    parts: list[gemini.Part] = [{"text": intro}]
    if rendered.text:
        parts.append({"text": rendered.text})
    return [*parts, *rendered.files]


def render_response(call: gemini.FunctionCall, response: gemini.JsonObject) -> gemini.Part:
    """Render the response to one call, with the id and the name of the call as it is sent."""
    return {"functionResponse": {"id": call["id"], "name": call["name"], "response": response}}


def _may_be_dumped_blocks(text: str) -> bool:
    """Return whether it is worth decoding a text to find out; it may be long."""
    return text.startswith("[{") and '"lc_' in text


def _are_dumped_blocks(value: Any) -> TypeGuard[list[str | Block]]:
    """Return whether these are content blocks of LangChain, which classic agents dump as JSON."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(item, dict)
        and isinstance(item.get("type"), str)
        and str(item.get("id")).startswith("lc_")
        for item in value
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value, AS_TEXT)


def _is_inline_result(part: gemini.Part) -> bool:
    """Return whether a file may be inside a response: parts there have no resolution."""
    return part.keys() == {"inlineData"} and part["inlineData"]["mimeType"] in _INLINE_RESULT_TYPES
