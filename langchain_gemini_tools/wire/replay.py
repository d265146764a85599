"""What an AIMessage keeps for the next request: call signatures and the order of its parts.

An AIMessage separates text, blocks and tool calls; Gemini requires its parts back unchanged, each
with its thought signature (https://ai.google.dev/gemini-api/docs/thought-signatures). `response.py`
writes a `PartLog`, `contents.py` reads it back. Everything is plain JSON in `additional_kwargs`, on
one chunk of a stream, so that it survives chunk merging, checkpoints and JSON.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from langchain_gemini_tools.facts.blocks import CALL_SIGNATURE, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.messages import AIMessage, ToolCall

    from langchain_gemini_tools.wire import shapes as gemini

CALL_SIGNATURES = "__gemini_function_call_thought_signatures__"
"""`{tool_call_id: signature}`; the key is shared with langchain-google-genai."""

FUNCTION_CALL = "function_call"
"""`{"name", "arguments"}` of the last tool call, for code that is older than `tool_calls`. It is
never sent, and it is on the last chunk of a stream only: LangChain would concatenate its texts."""

PART_LOG = "__gemini_parts__"
"""`{"response.part number": entry}`, only if content and tool calls do not determine the parts. The
keys name the response because LangChain merges messages, and their logs with them."""

STEPS = "__gemini_steps__"
"""`{"steps": [...], "sum": "..."}`: the steps of the Interactions API as they came, and a check sum
of the text and the calls that they were parsed into. The steps are sent back as long as both fit.
"""

RAW_STEPS = "rawSteps"
"""Field in which a decoded response carries its steps to the parser."""

STEP = "interactionStep"
"""Field of a part that is a whole step, which only the Interactions API accepts back."""

VERTEXAI = "vertexai"
"""Key in `response_metadata`: whether Vertex AI responded, or the Developer API."""

SKIP_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Documented bypass for calls that never had a signature (another vendor's, or hand-made)."""

UNKNOWN_TOOL = "unknown_tool"
"""The name of an invalid call whose own name could not be parsed."""
OWN_ID = "lc_part_"
"""Prefix of block ids that the API did not assign; they are not sent."""

PART_FIELDS = "gemini_part_fields"
"""Key in the `extras` of a text block: the other fields of its part."""


@dataclass
class PartLog:
    """The parts of one response, in order: `text` by length, `block` one each, `call` by id."""

    is_needed: bool = False
    """Whether the order is not content, then calls, or a part has something to remember."""
    _entries: list[gemini.JsonObject] = field(default_factory=list)
    _open_text: gemini.JsonObject | None = None
    """The last entry, if it is an unsigned text."""
    _has_call: bool = False

    def add_text(self, text: str, signature: str | None) -> None:
        """Add a text part; adjacent unsigned texts count as one, as in a stream."""
        if self._open_text is not None and signature is None:
            self._open_text["text"] += len(text)
            return
        entry: gemini.JsonObject = {"text": len(text)}
        if signature is not None:
            entry |= {"signature": signature, "sum": _check_sum(text)}
        self._entries.append(entry)
        self._open_text = entry if signature is None else None
        self.is_needed |= self._has_call or signature is not None

    def add_block(self, signature: str | None = None, kind: str = "") -> None:
        """Add a part that is a separate block in `content`, with its kind."""
        self.is_needed |= self._has_call or signature is not None
        signed = {} if signature is None else {"signature": signature, "kind": kind}
        self._entries.append({"block": 1, **signed})
        self._open_text = None

    def add_call(
        self, call_id: str, wire_name: str | None = None, tool_name: str | None = None
    ) -> None:
        """Add a function call, with the name that the model used if it is not the tool's."""
        self.is_needed |= wire_name is not None
        self._has_call, self._open_text = True, None
        renamed = {} if wire_name is None else {"name": wire_name, "tool": tool_name}
        self._entries.append({"call": call_id, **renamed})

    def dump(self, prefix: str) -> gemini.JsonObject:
        """Return the entry of `additional_kwargs`.

        Args:
            prefix: A name for the response that no other response has.
        """
        entries = {f"{prefix}.{number}": entry for number, entry in enumerate(self._entries)}
        return {PART_LOG: entries}


def dump_function_call(calls: Sequence[ToolCall]) -> gemini.JsonObject:
    """Return the entry of `additional_kwargs` for the last of these calls, if there is one."""
    if not calls:
        return {}
    return {FUNCTION_CALL: {"name": calls[-1]["name"], "arguments": json.dumps(calls[-1]["args"])}}


def part_log_of(message: AIMessage) -> list[gemini.JsonObject] | None:
    """Return the log of a message, if any; empty if it is not the log of one response."""
    log = message.additional_kwargs.get(PART_LOG)
    if log is None:
        return None
    try:
        entries = {(*_split_key(key), key): dict(entry) for key, entry in log.items()}
    except (AttributeError, TypeError, ValueError):
        return []
    is_of_one_response = len({prefix for prefix, _, _ in entries}) == 1
    return [entries[key] for key in sorted(entries)] if is_of_one_response else []


def _split_key(key: str) -> tuple[str, int]:
    prefix, _, number = key.rpartition(".")
    return prefix, int(number)


def dump_steps(
    steps: list[gemini.JsonObject], text: str, calls: Iterable[tuple[str, str, Any]]
) -> gemini.JsonObject:
    """Return the entry of `additional_kwargs` that keeps steps for the next request.

    Args:
        steps: The steps as they came.
        text: The text that they were parsed into.
        calls: Id, name and arguments of the calls.
    """
    return {STEPS: {"steps": steps, "sum": _sum_of(text, calls)}} if steps else {}


def steps_of(
    message: AIMessage, calls: Iterable[tuple[str, str, Any]]
) -> list[gemini.JsonObject] | None:
    """Return the steps of a message; `None` if it has none, or was changed since they came."""
    match message.additional_kwargs.get(STEPS):
        case {"steps": list(steps), "sum": str(known)}:
            is_intact = all(isinstance(step, dict) for step in steps)
            is_same = known == _sum_of(str(message.text), calls)
            return steps if is_intact and is_same else None
    return None


def _sum_of(text: str, calls: Iterable[tuple[str, str, Any]]) -> str:
    return _check_sum(json.dumps([text, [*map(list, calls)]], sort_keys=True, default=str))


def call_signatures_of(message: AIMessage) -> gemini.JsonObject:
    """Return the thought signatures of a message's calls, by tool call id."""
    signatures = message.additional_kwargs.get(CALL_SIGNATURES)
    return signatures if isinstance(signatures, dict) else _signatures_in_blocks(message)


def _signatures_in_blocks(message: AIMessage) -> gemini.JsonObject:
    """Return those in blocks beside the calls, in order: their `index` is that of the block."""
    if isinstance(message.content, str):
        return {}
    signed: list[Any] = [
        block
        for block in map(unwrapped, message.content)
        if isinstance(block, dict) and block.get("type") == CALL_SIGNATURE
    ]
    pairs = zip(message.tool_calls, signed, strict=False)
    return {call["id"] or "": block.get("signature") for call, block in pairs}


def as_signature(value: object) -> str | None:
    """Return a signature as it is sent, in base64; `None` if it is not one."""
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode("ascii")
    return value if isinstance(value, str) and value else None


def without_signatures(parts: Iterable[gemini.Part]) -> list[gemini.Part]:
    """Return parts without signatures, and without empty texts, which only carried one."""
    bare = [{k: value for k, value in part.items() if k != "thoughtSignature"} for part in parts]
    return [cast("gemini.Part", part) for part in bare if part != {"text": ""}]


def skip_signatures(contents: Sequence[gemini.Content]) -> list[gemini.Content]:
    """Return contents whose signatures are not validated: calls are marked, others have none.

    Parts of server tools keep theirs: the API rejects them without it.
    """
    unsigned = [{**content, "parts": _skipped(content["parts"])} for content in contents]
    return [cast("gemini.Content", content) for content in unsigned if content["parts"]]


def _skipped(parts: Iterable[gemini.Part]) -> list[gemini.Part]:
    skipped: list[gemini.Part] = []
    for part in parts:
        if "thoughtSignature" not in part or is_server_part(part):
            skipped.append(part)
        elif "functionCall" in part:
            skipped.append({**part, "thoughtSignature": SKIP_SIGNATURE})
        else:
            skipped += without_signatures([part])
    return skipped


def without_call_ids(contents: Sequence[gemini.Content]) -> list[gemini.Content]:
    """Return contents without ids of calls and results: these are in the same order."""
    bare = [{**each, "parts": [_without_id(part) for part in each["parts"]]} for each in contents]
    return cast("list[gemini.Content]", bare)


def _without_id(part: gemini.Part) -> gemini.Part:
    kind = next((kind for kind in ("functionCall", "functionResponse") if kind in part), None)
    if kind is None:
        return part
    fields = cast("gemini.JsonObject", part)
    bare = {key: value for key, value in fields[kind].items() if key != "id"}
    return cast("gemini.Part", {**fields, kind: bare})


_SERVER_PARTS = ("toolCall", "toolResponse", STEP)
_MEDIA_STEPS = (None, "TOOL_TYPE_UNSPECIFIED", "MEDIA_PROCESSING")


def is_server_part(part: gemini.Part) -> bool:
    """Return whether this is a call or result of a tool that the API ran itself."""
    return any(kind in part for kind in _SERVER_PARTS)


def without_media_steps(parts: list[gemini.Part]) -> list[gemini.Part]:
    """Return the parts without steps of agentic media processing.

    The API rejects them: "Tool type of tool_call part does not match with tool call context"
    (reported by langchain-google-genai). Responses omit the type of these steps.
    """
    steps = [_step(part, "toolCall") for part in parts]
    ids = {str(step.get("id")) for step in steps if step and step.get("toolType") in _MEDIA_STEPS}
    return [part for part in parts if _step_id(part) not in ids]


def _step_id(part: gemini.Part) -> object:
    step = _step(part, "toolCall") or _step(part, "toolResponse")
    return str(step.get("id")) if step else None


def _step(part: gemini.Part, kind: str) -> gemini.JsonObject:
    step: Any = part.get(kind)
    return step if isinstance(step, dict) else {}


def server_part_as_text(part: gemini.Part) -> gemini.Part:
    """Return the part as text, for a model that does not accept such parts."""
    kept = {key: value for key, value in part.items() if key in _SERVER_PARTS}
    return {"text": json.dumps(kept, ensure_ascii=False)}


def _check_sum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


class _DoesNotFitError(Exception):
    """The message has changed since the log was written."""


def restore_order(
    log: Iterable[gemini.JsonObject],
    parts: list[gemini.Part],
    calls: dict[str, gemini.Part],
) -> list[gemini.Part] | None:
    """Return parts and calls in the order in which the model wrote them.

    Args:
        log: Entries of `part_log_of`.
        parts: The parts of `content` in order, without calls.
        calls: Rendered calls by tool call id.

    Returns:
        The parts with signatures in place, or `None` if the message no longer matches its log.
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
    """Parts that have not been placed yet; plain texts may be consumed piece by piece."""

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


def _signed(part: gemini.Part, entry: gemini.JsonObject) -> gemini.Part:
    """Return the part with its signature, which is valid only for the part it was issued for."""
    signature = entry.get("signature")
    if not _is_text(signature):
        return part
    if "text" in entry:
        is_same = entry.get("sum", _check_sum(part["text"])) == _check_sum(part["text"])
    else:
        is_same = entry["kind"] in part if _is_text(entry.get("kind")) else "text" not in part
    if not is_same:
        raise _DoesNotFitError
    return {**part, "thoughtSignature": signature}


def _named(part: gemini.Part, entry: gemini.JsonObject) -> gemini.Part:
    """Return the call under the name that the model used, unless the tool has changed since."""
    name, call = entry.get("name"), part["functionCall"]
    if not _is_text(name) or entry.get("tool", call["name"]) != call["name"]:
        return part
    return {**part, "functionCall": {**call, "name": name}}


def _is_text(value: object) -> TypeGuard[str]:
    """Return whether an entry of the log is intact: stores may change the messages they keep."""
    return isinstance(value, str) and value != ""
