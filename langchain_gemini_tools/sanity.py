"""JSON as it came -> values that messages, checkpoints and logs can hold.

Any server may answer. What no message could keep is refused here, before it is anybody's answer;
what can be mended without a loss of meaning is mended. The client sees to it while it reads.
"""

from __future__ import annotations

import marshal
import re
from typing import Any

from langchain_gemini_tools.errors import UnreadableReplyError

JsonContainer = dict[str, Any] | list[Any]

MAX_DEPTH = 100
"""Levels of a reply. Pydantic writes about 250 to JSON; a message adds some of its own."""

_HALF_CHARACTER = re.compile(rb"\xed[\xa0-\xbf]")


def mend(value: JsonContainer) -> None:
    """Replace, in place, halves of characters: no JSON, store or log could be written with them.

    Raises:
        UnreadableReplyError: The value is nested too deep.
    """
    # Python's own format tells in a moment that a value has nothing of the kind: only halves of
    # characters hold such bytes there, and few brackets cannot be nested deep. Version 2 of it
    # writes every object and list with its bracket.
    try:
        told = marshal.dumps(value, 2)
    except ValueError:
        raise too_deep() from None
    refuse_deep(value, told)
    if b"\xed" in told and _HALF_CHARACTER.search(told):
        _mend_characters(value)


def refuse_deep(value: JsonContainer, written: bytes) -> None:
    """Raise when a reply is nested too deep.

    Args:
        value: The reply.
        written: Its JSON, or another form that writes the same brackets: few are never deep.

    Raises:
        UnreadableReplyError: It is.
    """
    if written.count(b"{") + written.count(b"[") > MAX_DEPTH and is_deep(value):
        raise too_deep()


def is_deep(value: JsonContainer) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        held = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for items in held for item in items if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def too_deep() -> UnreadableReplyError:
    """The error for a reply that is nested too deep; another try would bring the same."""
    error = UnreadableReplyError(f"The reply is nested more than {MAX_DEPTH} levels deep.")
    error.is_retryable = False
    return error


def _mend_characters(reply: JsonContainer) -> None:
    pending: list[Any] = [reply]
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
