"""Tool messages -> functionResponse parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.media import MEDIA_TYPES, render_media

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage

    from langchain_gemini_tools.capabilities import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini

_INLINE_RESULT_TYPES = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "application/pdf",
    "text/plain",
}
"""What `functionResponse.parts` takes: https://ai.google.dev/gemini-api/docs/function-calling"""


def render_result(
    result: ToolMessage, *, call_id: str, name: str, capabilities: Capabilities
) -> tuple[gemini.Part, list[gemini.Part]]:
    """Render a tool message as a functionResponse, and the media that must follow all responses.

    Args:
        result: The tool message.
        call_id: The id of the call it answers, as sent.
        name: The name in that call, as sent.
        capabilities: Whether the model takes media inside a response.
    """
    value, media = _split_content(result.content)
    inside: list[gemini.Part] = []
    after: list[gemini.Part] = []
    for part in media:
        fits = capabilities.takes_media_in_function_response and _is_inline_result(part)
        (inside if fits else after).append(part)
    key = "error" if result.status == "error" else "output"
    if value == "" and media:
        value = f"{len(media)} file(s), {'attached' if inside else 'see below'}."
    response = render_response(call_id, name, {key: value})
    if inside:
        response["functionResponse"]["parts"] = inside
    if after:
        after.insert(0, {"text": f"Files returned by {name} (call {call_id}):"})
    return response, after


def render_response(call_id: str, name: str, response: gemini.JsonObject) -> gemini.Part:
    """Render the answer to one call; `name` is always the call's."""
    answer: gemini.FunctionResponse = {"id": call_id, "name": name, "response": response}
    return {"functionResponse": answer}


def _split_content(content: str | list[str | dict[str, Any]]) -> tuple[Any, list[gemini.Part]]:
    """A result's value and its media."""
    if isinstance(content, str):
        return _parse_json(content), []
    if any(isinstance(block, dict) and "type" not in block for block in content):
        return content, []  # a tool's own list of objects, not blocks
    texts: list[str] = []
    media: list[gemini.Part] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block["type"] == "text":
            texts.append(str(block.get("text", "")))
        elif block["type"] in MEDIA_TYPES:
            part = render_media(block)
            if "text" in part:
                texts.append(part["text"])
            else:
                media.append(part)
        else:
            texts.append(json.dumps(block.get("json", block), ensure_ascii=False, default=str))
    return _parse_json("\n".join(texts)), media


def _parse_json(text: str) -> Any:
    """JSON objects and arrays as values; everything else stays the text it is.

    A number, `true`, `null` or `NaN` may be text that happens to look like JSON, and a long number
    would lose digits on the way.
    """
    if text[:1] not in "{[" and text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (dict, list)) else text


def _is_inline_result(part: gemini.Part) -> bool:
    return "inlineData" in part and part["inlineData"]["mimeType"] in _INLINE_RESULT_TYPES
