"""What an AIMessage carries for the next request: call signatures, the order of its parts.

An AIMessage keeps text, blocks and tool calls apart; Gemini wants its parts back as they came, each
with its own thought signature (https://ai.google.dev/gemini-api/docs/thought-signatures). Both
halves of that memory live here: `response.py` writes a `PartLog`, `contents.py` reads it back.
Everything is plain JSON in `additional_kwargs`, on one chunk of a stream, so that it survives
chunk merging, checkpoints and JSON.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_core.messages import AIMessage

    from langchain_gemini_tools.wire import shapes as gemini

CALL_SIGNATURES = "__gemini_function_call_thought_signatures__"
"""`{tool_call_id: signature}`; the key is shared with langchain-google-genai."""

PART_LOG = "__gemini_parts__"
"""`{"answer.part number": entry}`, only where content and tool calls do not tell the parts by
themselves. The answer is in it because LangChain merges messages, and their logs with them."""

VERTEXAI = "vertexai"
"""In `response_metadata`: whether Vertex AI answered, or the Developer API."""

SKIP_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Documented bypass for calls that never had a signature (another vendor's, or hand-made)."""

OWN_ID = "lc_part_"
"""How an id of a block begins that the API did not give, and is not told."""

PART_FIELDS = "gemini_part_fields"
"""Key in the `extras` of a text block: what stood beside the text in its part."""


@dataclass
class PartLog:
    """The parts of one reply, in order: `text` by length, `block` one each, `call` by id."""

    is_needed: bool = False
    """Whether the order is another one than content, then calls, or a part has to be remembered."""
    _entries: list[dict[str, Any]] = field(default_factory=list)
    _has_call: bool = False

    def add_text(self, text: str, signature: str | None) -> None:
        """Note a text part; unsigned neighbours count as one, as the pieces of a stream must."""
        self.is_needed |= self._has_call or signature is not None
        last = self._entries[-1] if self._entries else {}
        if "text" in last and "signature" not in last and signature is None:
            last["text"] += len(text)
        elif signature is None:
            self._entries.append({"text": len(text)})
        else:
            entry = {"text": len(text), "signature": signature, "sum": _check_sum(text)}
            self._entries.append(entry)

    def add_block(self, signature: str | None = None, kind: str = "") -> None:
        """Note a part that stands in `content` as a block of its own, and of what kind it is."""
        self.is_needed |= self._has_call or signature is not None
        signed = {} if signature is None else {"signature": signature, "kind": kind}
        self._entries.append({"block": 1, **signed})

    def add_call(
        self, call_id: str, wire_name: str | None = None, tool_name: str | None = None
    ) -> None:
        """Note a function call, with the name the model used where that is not the tool's."""
        self.is_needed |= wire_name is not None
        self._has_call = True
        renamed = {} if wire_name is None else {"name": wire_name, "tool": tool_name}
        self._entries.append({"call": call_id, **renamed})

    def dump(self, answer: str) -> dict[str, Any]:
        """What goes into `additional_kwargs`.

        Args:
            answer: A name that no other answer has.
        """
        entries = {f"{answer}.{number}": entry for number, entry in enumerate(self._entries)}
        return {PART_LOG: entries}


def part_log_of(message: AIMessage) -> list[dict[str, Any]] | None:
    """The log that came with a message, if any; empty where it is not that of one answer."""
    log = message.additional_kwargs.get(PART_LOG)
    if log is None:
        return None
    try:
        entries = {(*_split_key(key), key): dict(entry) for key, entry in log.items()}
    except (AttributeError, TypeError, ValueError):
        return []
    is_of_one = len({answer for answer, _, _ in entries}) == 1
    return [entries[key] for key in sorted(entries)] if is_of_one else []


def _split_key(key: str) -> tuple[str, int]:
    answer, _, number = key.rpartition(".")
    return answer, int(number)


def call_signatures_of(message: AIMessage) -> dict[str, Any]:
    """What came with a message as thought signatures of its calls, by tool call id."""
    signatures = message.additional_kwargs.get(CALL_SIGNATURES)
    return signatures if isinstance(signatures, dict) else {}


def without_signatures(parts: Iterable[gemini.Part]) -> list[gemini.Part]:
    """Parts as another line of models takes them; empty texts were there for their signature."""
    bare = [{k: value for k, value in part.items() if k != "thoughtSignature"} for part in parts]
    return [cast("gemini.Part", part) for part in bare if part != {"text": ""}]


_SERVER_PARTS = ("toolCall", "toolResponse")


def is_server_part(part: gemini.Part) -> bool:
    """Whether this is a call that Google's side made by itself, or what came of it."""
    return any(kind in part for kind in _SERVER_PARTS)


def tell_server_part(part: gemini.Part) -> gemini.Part:
    """The same in words, for a model that does not take such parts."""
    told = {key: value for key, value in part.items() if key in _SERVER_PARTS}
    return {"text": json.dumps(told, ensure_ascii=False)}


def _check_sum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


class _DoesNotFitError(Exception):
    """The message was changed since the log was written."""


def restore_order(
    log: Iterable[dict[str, Any]],
    parts: list[gemini.Part],
    calls: dict[str, gemini.Part],
) -> list[gemini.Part] | None:
    """Lay out parts and calls as the model wrote them.

    Args:
        log: Entries of `part_log_of`.
        parts: What `content` renders to, in order, without calls.
        calls: Rendered calls by tool call id.

    Returns:
        The parts with signatures in place, or `None` when the message no longer fits its log.
    """
    rest = _Remaining(parts)
    pending = dict(calls)
    ordered: list[gemini.Part] = []
    try:
        for entry in log:
            if "call" in entry:
                ordered.append(_named(pending.pop(entry["call"]), entry))
            elif "text" in entry:
                ordered.append(_signed({"text": rest.take_text(int(entry["text"]))}, entry))
            else:
                ordered.append(_signed(rest.take_part(), entry))
    except (_DoesNotFitError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if pending or rest.has_more() else ordered


class _Remaining:
    """Parts not yet laid out; plain texts may be taken piece by piece."""

    def __init__(self, parts: list[gemini.Part]) -> None:
        self._parts: Iterator[gemini.Part] = iter(parts)
        self._text = ""

    def take_text(self, length: int) -> str:
        while len(self._text) < length:
            part = next(self._parts, None)
            if part is None or set(part) != {"text"}:
                raise _DoesNotFitError
            self._text += part["text"]
        taken, self._text = self._text[:length], self._text[length:]
        return taken

    def take_part(self) -> gemini.Part:
        part = next(self._parts, None)
        if part is None or self._text:
            raise _DoesNotFitError
        return part

    def has_more(self) -> bool:
        return bool(self._text) or any(part.get("text") != "" for part in self._parts)


def _signed(part: gemini.Part, entry: dict[str, Any]) -> gemini.Part:
    """The part with its signature, which belongs to what it was given for, and to nothing else."""
    signature = entry.get("signature")
    if not _is_told(signature):
        return part
    if "text" in entry:
        is_same = entry.get("sum", _check_sum(part["text"])) == _check_sum(part["text"])
    else:
        is_same = entry["kind"] in part if _is_told(entry.get("kind")) else "text" not in part
    if not is_same:
        raise _DoesNotFitError
    return {**part, "thoughtSignature": signature}


def _named(part: gemini.Part, entry: dict[str, Any]) -> gemini.Part:
    """The call under the model's own name for the tool, unless it is another tool's by now."""
    name, call = entry.get("name"), part["functionCall"]
    if not _is_told(name) or entry.get("tool", call["name"]) != call["name"]:
        return part
    return {**part, "functionCall": {**call, "name": name}}


def _is_told(value: Any) -> TypeGuard[str]:
    """Whether a note of the log is one: whatever stores messages may change them."""
    return isinstance(value, str) and value != ""
