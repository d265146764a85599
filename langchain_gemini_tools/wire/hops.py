"""A long response in several requests: how its token is read, and how its metadata is joined.

Gemini 4 ends a request at its token limit with the finish reason CONTINUATION and a token. The same
request with that token continues the response. Each request is a hop; the joined hops are one
response. The SDK joins them in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.facts.finish_reasons import CONTINUATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_gemini_tools.wire import shapes as gemini

TOKEN = "continuationToken"  # noqa: S105 - a field, not a secret
ENDS_OF_A_HOP = frozenset({"finishReason", "finishMessage", TOKEN})
"""Fields that apply to one hop: those of the last hop are those of the response."""

MAX_HOPS = 64
"""Requests for one response. A million tokens at 32,768 per request are 32."""

MAX_COUNT = 10**15 - 1
"""Far above any real count. A sum of larger ones might be too large for message stores."""
_NO_BLOCK_REASON = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
"""The default of the API and of the SDK."""
_ADDED_UP = ("Count", "Sum")
"""How the names of numbers end that are added up over the hops."""
_MERGED_BY = {"safetyRatings": "category"}
"""Lists in which the item of a later hop replaces the one with the same key."""


def token_of(candidate: Mapping[str, Any] | None) -> str | None:
    """Return the token of a candidate, or of one event of it, if the response can be continued.

    In a stream, it covers the output up to and including its event.
    """
    if not candidate or not isinstance(token := candidate.get(TOKEN), str):
        return None
    return token if token and has_more(candidate) else None


def has_more(candidate: Mapping[str, Any]) -> bool:
    """Return whether a candidate has not ended, or has ended with CONTINUATION."""
    return candidate.get("finishReason") in (None, CONTINUATION)


def shows_output(
    candidate: Mapping[str, Any], *, ignoring: Callable[[Any], bool] = lambda _: False
) -> bool:
    """Return whether a candidate, or one event of it, has parts with something in them.

    Args:
        candidate: The candidate.
        ignoring: Which parts do not count.
    """
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return any(part not in ({}, {"text": ""}) and not ignoring(part) for part in parts or ())


def find_next_token(response: gemini.Response) -> str | None:
    """Return the token with which a whole response continues; `None` if it is the last hop.

    Of several candidates, none is continued; nor is the response to a blocked prompt.
    """
    match response.get("candidates"):
        case [dict(candidate)] if token := token_of(candidate):
            return None if block_reason_of(response.get("promptFeedback")) else token
    return None


def block_reason_of(feedback: object) -> str | None:
    """Return why the prompt was blocked, from the `promptFeedback`; `None` if it was not."""
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    return str(reason) if reason and reason not in _NO_BLOCK_REASON else None


@dataclass(frozen=True)
class EarlierHops:
    """What the hops before the current one have said, joined."""

    fields: gemini.JsonObject
    usage: gemini.JsonObject
    text: str
    prompt_token_count: Any
    """That of the first hop: the others count the output before them as well."""

    def join(
        self, fields: gemini.JsonObject, usage: gemini.JsonObject
    ) -> tuple[gemini.JsonObject, gemini.JsonObject]:
        """Return the fields and the usage over all hops.

        Args:
            fields: The fields of the current hop.
            usage: Its token counts.
        """
        key = "groundingMetadata"
        if key in fields:
            moved = _shift_grounding(fields[key], self.text, self.fields.get(key))
            fields = {**fields, key: moved}
        return _join_hops(self.fields, fields), _join_hops(self.usage, usage)


def _shift_grounding(grounding: Any, text: str, before: Any) -> Any:
    """Return the grounding of a later hop, with positions that count from the first hop.

    Args:
        grounding: The `groundingMetadata` of the hop.
        text: The text of the hops before it.
        before: The joined `groundingMetadata` of the hops before it.
    """
    if not isinstance(grounding, dict) or not isinstance(
        supports := grounding.get("groundingSupports"), list
    ):
        return grounding
    chunks = before.get("groundingChunks") if isinstance(before, dict) else None
    offset = len(chunks) if isinstance(chunks, list) else 0
    size = len(text.encode("utf-8", "surrogatepass"))
    shifted = [_shift_support(support, offset, size) for support in supports]
    return {**grounding, "groundingSupports": shifted}


def _shift_support(support: Any, chunk_offset: int, text_offset: int) -> Any:
    match support:
        case {"groundingChunkIndices": list(indices)}:
            moved = [i + chunk_offset if type(i) is int else i for i in indices]
            support = {**support, "groundingChunkIndices": moved}
    match support:
        case {"segment": dict(segment)}:
            ends = {"startIndex": segment.get("startIndex", 0), "endIndex": segment.get("endIndex")}
            moved_ends = {k: v + text_offset for k, v in ends.items() if type(v) is int}
            support = {**support, "segment": {**segment, **moved_ends}}
    return support


def _join_hops(before: Any, now: Any, key: str = "") -> Any:
    """Return the value of a field over two hops.

    Counts are added up, lists are put in a row, and of anything else the later value applies.

    Args:
        before: The value in the hops so far.
        now: The value in the next hop.
        key: The name of the field.
    """
    if before is None or now is None:
        return before if now is None else now
    if isinstance(before, dict) and isinstance(now, dict):
        names = dict.fromkeys([*before, *now])
        return {name: _join_hops(before.get(name), now.get(name), name) for name in names}
    if isinstance(before, list) and isinstance(now, list):
        return _join_lists(before, now, key)
    if key.endswith(_ADDED_UP):
        numbers = [_number(before), _number(now)]
        return now if None in numbers else numbers[0] + numbers[1]
    return now


def _join_lists(before: list[Any], now: list[Any], key: str) -> list[Any]:
    if all(isinstance(item, dict) and "tokenCount" in item for item in [*before, *now]):
        return _by_key(before, now, "modality", _join_hops)
    if merged_by := _MERGED_BY.get(key):
        return _by_key(before, now, merged_by, lambda _, later: later)
    return [*before, *now]


def _by_key(before: list[Any], now: list[Any], key: str, join: Any) -> list[Any]:
    found: dict[str, Any] = {}
    for item in [*before, *now]:
        name = str(item.get(key)) if isinstance(item, dict) else str(item)
        found[name] = join(found[name], item) if name in found else item
    return list(found.values())


def _number(value: object) -> Any:
    """Return a number that can be added up; proto JSON may also write an integer as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if abs(value) <= MAX_COUNT else None
