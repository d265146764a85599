"""Tool messages -> functionResponse parts."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, TypeGuard

import orjson

from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.json_values import AS_TEXT, LARGE, MAX_DEPTH, dump_json, is_deep
from langchain_gemini_tools.wire.media import has_media, render_media

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini

_MAX_EXACT_INT = 2**53

_INLINE_RESULT_TYPES = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "application/pdf",
    "text/plain",
}
"""What `functionResponse.parts` takes: https://ai.google.dev/gemini-api/docs/function-calling"""


def render_result(
    result: ToolMessage,
    *,
    call_id: str,
    name: str,
    capabilities: Capabilities,
    is_whole: bool = False,
) -> tuple[gemini.Part, list[gemini.Part]]:
    """Render a tool message as a functionResponse, and the media that must follow all responses.

    Args:
        result: The tool message.
        call_id: The id of the call it answers, as sent.
        name: The name in that call, as sent.
        capabilities: Whether the model takes media inside a response.
        is_whole: Whether an object is the whole response: computer use reads its `url` there.
    """
    value, media = _split_content(result.content)
    key = "error" if result.status == "error" else "output"
    if not media:
        return render_response(call_id, name, {key: value}), media
    inside: list[gemini.Part] = []
    after: list[gemini.Part] = []
    for part in media:
        fits = capabilities.takes_media_in_function_response and _is_inline_result(part)
        (inside if fits else after).append(part)
    if value == "":
        value = f"{len(media)} file(s), {'attached' if inside else 'see below'}."
    is_bare = is_whole and isinstance(value, dict) and key == "output"
    response = render_response(call_id, name, value if is_bare else {key: value})
    if inside:
        response["functionResponse"]["parts"] = inside
    if after:
        after.insert(0, {"text": f"Files returned by {name} (call {call_id}):"})
    return response, after


def render_loose_result(result: ToolMessage) -> list[gemini.Part]:
    """Render a tool message whose call is not there: user text that names the call, then media."""
    value, media = _split_content(result.content)
    text = result.content if isinstance(result.content, str) else _text_of(value)
    name = result.name or result.additional_kwargs.get("name")
    outcome = "failed" if result.status == "error" else "returned"
    intro = f"Call {result.tool_call_id}{f' of tool {name}' if name else ''} {outcome}:"
    parts: list[gemini.Part] = [{"text": intro}]
    if text:
        parts.append({"text": text})
    return parts + media


def render_response(call_id: str, name: str, response: gemini.JsonObject) -> gemini.Part:
    """Render the answer to one call; `name` is always the call's."""
    answer: gemini.FunctionResponse = {"id": call_id, "name": name, "response": response}
    return {"functionResponse": answer}


def _split_content(content: str | list[str | dict[str, Any]]) -> tuple[Any, list[gemini.Part]]:
    """A result's value and its media."""
    if isinstance(content, str):
        value = _parse_json(content)
        if not _are_dumped_blocks(value):
            return value, []
        content = value
    objects = [block for block in content if isinstance(block, dict)]
    if objects and not any(isinstance(block.get("type"), str) for block in objects):
        return content, []  # a tool's own list of objects, not blocks
    texts: list[str] = []
    media: list[gemini.Part] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in block_types.TEXTS:
            texts.append(str(block.get("text", "")))
        elif has_media(block):
            part = render_media(block)
            if "text" in part:
                texts.append(part["text"])
            else:
                media.append(part)
        else:
            texts.append(_text_of(block.get("json", block)))
    return _parse_json("\n".join(texts)), media


def _are_dumped_blocks(value: Any) -> TypeGuard[list[str | dict[str, Any]]]:
    """Whether these are blocks that LangChain made, which classic agents dump as JSON."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(item, dict)
        and isinstance(item.get("type"), str)
        and str(item.get("id")).startswith("lc_")
        for item in value
    )


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value, AS_TEXT)


def _parse_json(text: str) -> Any:
    """JSON objects and arrays as values; everything else, and what is very deep, stays text.

    A number, `true`, `null` or `NaN` may be text that happens to look like JSON, and a long number
    would lose digits on the way.
    """
    if text[:1] not in _OPENING and text.lstrip()[:1] not in _OPENING:
        return text
    try:
        value = _read_json(text)
    except (ValueError, RecursionError):
        return text
    if text.count("[") + text.count("{") > MAX_DEPTH and is_deep(value):
        return text  # which the model can read, and every writer of JSON can write
    return value


def _read_json(text: str) -> Any:
    # orjson takes ten times the memory of a text.
    if len(text) < LARGE and not _LONG_NUMBER.search(text):
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # no JSON, or some that Python reads all the same
    return _EXACT.decode(text)


def _exact_int(digits: str) -> int | str:
    """The API keeps numbers as doubles; an id with more digits than fit stays text."""
    value = int(digits)
    return value if -_MAX_EXACT_INT <= value <= _MAX_EXACT_INT else digits


def _exact_float(digits: str) -> float | str:
    return value if math.isfinite(value := float(digits)) else digits


_OPENING = ("{", "[")
_LONG_NUMBER = re.compile("[0-9][0-9]{15}")
"""Where there is none, every parser reads numbers exactly. (`[0-9]{16}` takes twice the time.)"""

_EXACT = json.JSONDecoder(parse_constant=str, parse_int=_exact_int, parse_float=_exact_float)


def _is_inline_result(part: gemini.Part) -> bool:
    return "inlineData" in part and part["inlineData"]["mimeType"] in _INLINE_RESULT_TYPES
