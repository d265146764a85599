"""A reply as it came -> a reply that messages, checkpoints and core's translators can hold.

Any server may answer. What no message could keep is refused here, before it is anybody's answer;
what can be mended without a loss of meaning is mended.
"""

from __future__ import annotations

import marshal
import re
from typing import Any

from langchain_gemini_tools.errors import UnreadableReplyError

MAX_DEPTH = 100
"""Levels of a reply. Pydantic writes about 250 to JSON; a message adds some of its own."""

_HALF_CHARACTER = re.compile(rb"\xed[\xa0-\xbf]")


def mend_reply(reply: Any) -> None:
    """Replace, in place, halves of characters: no JSON, store or log could be written with them.

    Raises:
        UnreadableReplyError: The reply is nested too deep.
    """
    # Python's own format tells in a moment that a reply has nothing of the kind: only halves of
    # characters hold such bytes there, and few brackets cannot be nested deep. Version 2 of it
    # writes every object and list with its bracket.
    try:
        told = marshal.dumps(reply, 2)
    except ValueError:
        raise _too_deep() from None
    if told.count(b"{") + told.count(b"[") > MAX_DEPTH and is_deep(reply):
        raise _too_deep()
    if b"\xed" in told and _HALF_CHARACTER.search(told):
        _mend_characters(reply)


def is_deep(value: dict[str, Any] | list[Any]) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        held = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for items in held for item in items if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def _too_deep() -> UnreadableReplyError:
    error = UnreadableReplyError(f"The reply is nested more than {MAX_DEPTH} levels deep.")
    error.is_retryable = False
    return error


def _mend_characters(reply: Any) -> None:
    pending = [reply]
    while pending:
        value = pending.pop()
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, item in items:
            if isinstance(item, (dict, list)):
                pending.append(item)
            elif isinstance(item, str):
                value[key] = whole_characters(item)
            if isinstance(key, str) and key != (name := whole_characters(key)):
                value[name] = value.pop(key)


def whole_characters(text: str) -> str:
    """The text with the halves of a pair joined, and the replacement character for a lone half."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_citable(grounding: Any) -> bool:
    """Whether core's `content_blocks` can read citations out of this; otherwise it would raise."""
    match grounding:
        case {"grounding_supports": list(supports), **rest}:
            chunks = rest.get("grounding_chunks", [])
        case dict() if "grounding_supports" not in grounding:
            return True
        case _:
            return False
    return _are_chunks(chunks) and all(map(_is_support, supports))


def _are_chunks(chunks: Any) -> bool:
    return isinstance(chunks, list) and all(
        isinstance(chunk, dict)
        and all(isinstance(chunk.get(kind, {}), dict) for kind in ("web", "maps"))
        for chunk in chunks
    )


def _is_support(support: Any) -> bool:
    if not isinstance(support, dict) or not isinstance(support.get("segment", {}), dict):
        return False
    indices = support.get("grounding_chunk_indices", [])
    return isinstance(indices, list) and all(type(index) is int and index >= 0 for index in indices)
