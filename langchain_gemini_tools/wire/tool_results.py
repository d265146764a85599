"""Tool messages -> functionResponse parts.

`split_result` separates the text of a result from its media, for native and prompted calling alike.
A file that cannot be sent does not stop the conversation: the result says so in its text. The user
cannot change what a tool returned, and a checkpointer would send it again in every later turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.facts.blocks import TEXTS, Block, Content
from langchain_gemini_tools.facts.json_values import AS_TEXT, decode_result, dump_json
from langchain_gemini_tools.wire.media import (
    has_media,
    plain_text_of,
    render_media,
    why_rejected,
)

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini

_INLINE_RESULT_TYPES = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "application/pdf",
    "text/plain",
}
"""What `functionResponse.parts` may contain:
https://ai.google.dev/gemini-api/docs/function-calling"""


@dataclass(frozen=True)
class SplitResult:
    """The content of a tool message, with its media set apart."""

    content: Content
    """The text, or a list of objects that are not content blocks."""
    media: list[Block]

    @property
    def text(self) -> str:
        """The content as text."""
        return _as_text(self.content)

    @property
    def value(self) -> Any:
        """The content as a JSON value: objects and arrays decoded, any other text unchanged."""
        return decode_result(self.content) if isinstance(self.content, str) else self.content


@dataclass(frozen=True)
class RenderedResult(SplitResult):
    """A split result whose media are rendered; problems with files are in its content."""

    files: list[gemini.Part]
    """The parts of the media that can be sent."""
    problems: list[str]
    """Why other media cannot be sent."""


def render_split(content: Content) -> RenderedResult:
    """Split the content of a tool message, and render its media.

    Args:
        content: The content of the message.
    """
    split = split_result(content)
    files: list[gemini.Part] = []
    problems: list[str] = []
    for block in split.media:
        try:
            part = render_media(block)
        except InvalidInputError as error:
            problems.append(_first_sentence(str(error)))
            continue
        if reason := why_rejected(part):
            problems.append(reason)
        else:
            files.append(part)
    text = split.content
    if problems:
        notes = [f"(Not attached: {problem})" for problem in problems]
        text = "\n".join([*([split.text] if split.text else []), *notes])
    return RenderedResult(text, split.media, files, problems)


def _first_sentence(text: str) -> str:
    """Return what is wrong, without the advice for developers that follows it."""
    return text.partition(". ")[0].rstrip(".") + "."


def split_result(content: Content) -> SplitResult:
    """Split the content of a tool message into text and media blocks.

    A block that is neither text nor media becomes JSON text.
    """
    if isinstance(content, str):
        # Decode only what may be blocks: a result may be long.
        is_candidate = content.startswith("[{") and '"lc_' in content
        blocks = decode_result(content) if is_candidate else None
        if blocks is None or not _are_dumped_blocks(blocks):
            return SplitResult(content, [])
        content = blocks
    objects = [block for block in content if isinstance(block, dict)]
    if objects and not any(isinstance(block.get("type"), str) for block in objects):
        return SplitResult(content, [])
    texts: list[str] = []
    media: list[Block] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in TEXTS:
            texts.append(str(block.get("text", "")))
        elif not has_media(block):
            texts.append(_as_text(block.get("json", block)))
        elif (text := plain_text_of(block)) is not None:
            texts.append(text)
        else:
            media.append(block)
    return SplitResult("\n".join(texts), media)


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
    call_id, name, value = call["id"], call["name"], rendered.value
    key = "error" if result.status == "error" else "output"
    if not rendered.files:
        return render_response(call_id, name, {key: value}), []
    inside: list[gemini.Part] = []
    after: list[gemini.Part] = []
    for part in rendered.files:
        fits = capabilities.accepts_media_in_function_response and _is_inline_result(part)
        (inside if fits else after).append(part)
    if value == "":
        value = f"{len(rendered.files)} file(s), {'attached' if inside else 'see below'}."
    is_bare = is_whole and isinstance(value, dict) and key == "output"
    response = render_response(call_id, name, value if is_bare else {key: value})
    if inside:
        response["functionResponse"]["parts"] = inside
    if after:
        after.insert(0, {"text": f"Files returned by {name} (call {call_id}):"})
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


def render_response(call_id: str, name: str, response: gemini.JsonObject) -> gemini.Part:
    """Render the response to one call; `name` is always the name in the call."""
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def _are_dumped_blocks(value: Any) -> TypeGuard[list[str | Block]]:
    """Whether these are content blocks made by LangChain, which classic agents dump as JSON."""
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
    return "inlineData" in part and part["inlineData"]["mimeType"] in _INLINE_RESULT_TYPES
