"""Types of content blocks in all dialects, accessors for any block, and marks of invalid calls.

The types are tuples rather than sets because a block's `type` may be anything, even a list, which
cannot be looked up in a set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Block = dict[str, Any]
Content = str | list[str | Block]

TEXTS = ("text", "input_text", "output_text")
THOUGHTS = ("thinking", "reasoning", "redacted_thinking", "reasoning_content")
CALL_SIGNATURE = "function_call_signature"
"""A thought signature in a block beside its call, as langchain-google-genai 3.0 stored it."""
CALLS = (
    *("tool_call", "tool_call_chunk", "invalid_tool_call"),
    *("tool_use", "input_json_delta"),  # Anthropic
    *("function_call", "custom_tool_call"),  # OpenAI
    CALL_SIGNATURE,
)
"""Tool calls, which `AIMessage.tool_calls` repeats."""
MEDIA = (
    *("image", "audio", "video", "file", "text-plain"),  # LangChain v1 and v0
    *("image_url", "input_image", "input_audio", "input_file"),  # OpenAI
    "document",  # Anthropic
    *("media", "file_data"),  # langchain-google-genai, and core's translator for Gemini
)

REFUSAL = "refusal"
"""Why a model does not answer, in its own words (OpenAI). LangChain also makes one from Gemini's
finish reason and block reason; see `is_derived_refusal`."""

_CACHE_MARKERS = {"cachePoint", "cache_point"}

GEMINI_PART = "gemini_part"
"""A part of a response that LangChain has no block for, unchanged in the block's `part`."""

NOT_RELEASED = "not executed]: "
"""Prefix of the arguments of a call that must not be executed. LangChain parses the arguments of
invalid calls again when it merges chunks; an unmatched bracket keeps them invalid."""
UNUSABLE = "unusable call]: "
"""Prefix of the text of an invalid prompted call. LangChain repairs anything that could become JSON
into a valid call, in quadratic time; an unmatched bracket stops that at once."""


def blocks_of(content: Content) -> list[str | Block]:
    """Return the content of a message as a list; a string is its only block."""
    return [content] if isinstance(content, str) else content


def unwrapped(block: str | Block) -> str | Block:
    """Return the block inside LangChain's wrapper for blocks that are not standard."""
    match block:
        case {"type": "non_standard", "value": dict(value)}:
            return value
    return block


def type_of(block: str | Mapping[str, Any]) -> str:
    """Return the type of a block; an empty string if it has none, or if that is not a string."""
    kind = "text" if isinstance(block, str) else block.get("type")
    return kind if isinstance(kind, str) else ""


def thought_of(block: Mapping[str, Any]) -> str | None:
    """Return the text of a thought (`THOUGHTS`) of LangChain and of other vendors.

    It is empty if the text was removed or encrypted or is an image. None: the form is unknown.
    """
    match block:
        case (
            {"thinking": str(text)}
            | {"reasoning": str(text)}
            | {"reasoning_content": {"text": str(text)}}
        ):
            return text
        case {"thinking": list(texts)} | {"summary": list(texts)}:
            return "\n".join(str(item.get("text", "")) for item in texts if isinstance(item, dict))
        case {"type": "thinking", "thinking": value} if value is not None:
            return None
    return ""


def is_derived_refusal(block: Mapping[str, Any]) -> bool:
    """Return whether LangChain made a refusal from the metadata: the model wrote no such text."""
    extras = extras_of(block)
    return type_of(block) == REFUSAL and ("finish_reason" in extras or "block_reason" in extras)


def is_cache_marker(block: object) -> bool:
    """Return whether a block or a tool only marks for Amazon what to cache."""
    return isinstance(block, dict) and len(block) == 1 and block.keys() <= _CACHE_MARKERS


def extras_of(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return what LangChain keeps in a block beside its standard fields."""
    extras = block.get("extras")
    return extras if isinstance(extras, dict) else {}
