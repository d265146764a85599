"""Everything in a response that is not a part: finish reason, token usage, grounding, metadata.

`MetadataParser` is fed every body that belongs to one candidate: one for a whole response, many for
a stream. The API repeats most of these fields in each event, so the last value of each counts;
citations and log probabilities are spread over the events. Between the hops of a long response,
`hops.py` joins them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages.ai import (
    InputTokenDetails,
    OutputTokenDetails,
    UsageMetadata,
    add_usage,
)

from langchain_gemini_tools.errors import (
    BlockedError,
    EmptyResponseError,
    FailedInteractionError,
    MalformedToolCallError,
    TruncatedResponseError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.finish_reasons import CONTINUATION, lookup
from langchain_gemini_tools.facts.json_values import snake
from langchain_gemini_tools.facts.models import reads_signatures_of
from langchain_gemini_tools.wire.hops import (
    ENDS_OF_A_HOP,
    MAX_COUNT,
    TOKEN,
    EarlierHops,
    block_reason_of,
    has_more,
    shows_output,
    token_of,
)
from langchain_gemini_tools.wire.replay import RAW_STEPS, VERTEXAI

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.facts.finish_reasons import FinishReason
    from langchain_gemini_tools.wire import shapes as gemini

_RENAMED = {"modelVersion": "model_name"}
_NOT_METADATA = {"candidates", "usageMetadata", "content", "index", RAW_STEPS}
_OUR_FIELDS = {"model_provider", VERTEXAI, "requested_model", "raw_usage", "empty_response"}
"""Not copied from a response: core and `replay.py` choose by them how to read the message."""
_SPREAD_OVER_EVENTS = {"citationMetadata", "logprobsResult"}
"""Each event has the items that belong to its own text."""
_NESTED_SNAKE = {"prompt_feedback", "safety_ratings", "url_context_metadata"}
"""Fields whose keys are renamed at every level, as core and applications read them."""
_LISTS = ("grounding_chunks", "grounding_supports", "web_search_queries", "image_search_queries")
"""Of grounding metadata: the API omits empty ones, but applications iterate over them."""
_GENERATION_INFO = ("finish_reason", "model_name", "grounding_metadata", "url_context_metadata")


class MetadataParser:
    """Collects what applies to one candidate as a whole. `feed` each body, then `finish`."""

    def __init__(self) -> None:
        self._usage: gemini.JsonObject = {}
        self._fields: gemini.JsonObject = {}
        self._known: AbstractSet[str] = _NOT_METADATA
        """The keys of `_fields`, and those that are not metadata."""
        self._saw_candidate = False
        self._earlier: EarlierHops | None = None
        self._earlier_text: str | None = None
        """The text of the response, if the next body begins a hop."""

    def feed(self, response: gemini.Response, candidate: gemini.JsonObject | None) -> None:
        """Read one body and the candidate in it."""
        if self._earlier_text is not None:
            self._begin_hop(self._earlier_text)
        usage = response.get("usageMetadata")
        if isinstance(usage, dict):
            has_nulls = None in usage.values()
            self._usage |= {k: v for k, v in usage.items() if v is not None} if has_nulls else usage
        self._saw_candidate |= candidate is not None
        fields = self._fields
        is_plain = not candidate or candidate.keys() <= _NOT_METADATA
        if is_plain and response.keys() <= self._known and fields.items() <= response.items():
            return  # nearly every event of a stream repeats the fields of the first one
        if TOKEN in fields and candidate:
            _drop_old_token(fields, candidate)
        ended = _failed_finish(fields) if "finishReason" in fields else None
        for source in (response,) if is_plain else (response, candidate or {}):
            for key, value in source.items():
                if key not in _NOT_METADATA and value is not None:
                    fields[key] = _updated(key, fields[key], value) if key in fields else value
        if ended:
            fields |= ended
        self._known = fields.keys() | _NOT_METADATA

    def end_hop(self, text: str) -> None:
        """Let the next body, if there is one, begin another hop.

        Args:
            text: The text of the response so far.
        """
        self._earlier_text = text

    def _begin_hop(self, text: str) -> None:
        done, before = self.finish(), self._earlier
        fields = {k: v for k, v in done.fields.items() if k not in ENDS_OF_A_HOP}
        prompt_count = before.prompt_token_count if before else done.usage.get("promptTokenCount")
        self._earlier = EarlierHops(fields, done.usage, text, prompt_count)
        self._fields, self._usage, self._earlier_text = {}, {}, None
        self._known = _NOT_METADATA
        self._saw_candidate = False

    def finish(self) -> Metadata:
        """Return what has arrived so far, over all hops."""
        fields, usage = self._fields, self._usage
        if self._earlier is not None:
            fields, usage = self._earlier.join(fields, usage)
        block_reason = block_reason_of(fields.get("promptFeedback"))
        reason = str(fields["finishReason"]) if "finishReason" in fields else None
        finish = lookup(reason, "gemini")
        return Metadata(
            fields=fields,
            usage=usage,
            finish_reason=reason,
            finish=finish,
            block_reason=block_reason,
            is_complete=finish.is_complete and block_reason is None,
            saw_candidate=self._saw_candidate,
            earlier=self._earlier,
        )


@dataclass(frozen=True)
class Metadata:
    """What applies to one candidate as a whole, as far as it has arrived."""

    fields: gemini.JsonObject
    """All fields of the response and the candidate, in the API's spelling."""
    usage: gemini.JsonObject
    """The API's token counts."""
    finish_reason: str | None
    """The API's own word for why it stopped."""
    finish: FinishReason
    """What it means."""
    block_reason: str | None
    """Why the prompt was blocked, if it was."""
    is_complete: bool
    """Whether the response is complete. Only then may its tool calls be executed."""
    saw_candidate: bool
    """Whether the last hop has a candidate."""
    earlier: EarlierHops | None

    def check_stream_ended(self) -> None:
        """Raise if a stream stopped before the response was complete.

        A stream that is cut between two events ends normally as far as HTTP can tell.
        """
        if self.finish_reason is None and not self.block_reason:
            raise truncated_stream_error()

    def check(
        self, *, has_calls: bool, is_empty: bool, rejects_empty: bool, is_interaction: bool
    ) -> None:
        """Raise if the candidate is not a usable response.

        Args:
            has_calls: Whether it has a tool call; see `find_unreleasable`.
            is_empty: Whether it contains nothing but thoughts and empty texts.
            rejects_empty: Whether a complete or truncated, but empty response is an error.
            is_interaction: Whether the finish reason is the status of an interaction.
        """
        reason, message = self.finish_reason, self.fields.get("finishMessage")
        outcome = self.finish.outcome
        cause = f"{reason}: {message}" if message else f"{reason}"
        details: gemini.JsonObject = {"finish_reason": reason, "finish_message": message}
        lacks_output = is_empty or self.earlier is not None
        if lacks_output and not self.saw_candidate and not self.block_reason:
            raise EmptyResponseError("The response is empty: no candidates and no reason given.")
        if is_empty and self.block_reason:
            raise BlockedError(f"The prompt was blocked: {self._block_cause()}.", **details)
        if outcome == "failed" or (is_interaction and outcome == "unknown"):
            text = f"{self.finish.explanation.removesuffix('.')} ({cause}). "
            raise FailedInteractionError(f"{text}What arrived is in `partial`.", **details)
        blocked = self._block_cause() if has_calls else None
        may_raise = has_calls or outcome == "bad_call"
        if may_raise and (error := find_unreleasable(reason, message, blocked)):
            raise error
        if is_empty and rejects_empty and outcome in {"complete", "unspecified"}:
            raise EmptyResponseError(f"The response is empty ({cause}).", **details)
        if is_empty and rejects_empty and outcome == "truncated":
            thoughts = self.usage.get("thoughtsTokenCount")
            raise TruncatedResponseError(
                f"The response was truncated ({cause}) before its first word"
                + (f", after {thoughts} tokens of thinking" if thoughts else "")
                + ". Thinking counts as output: increase max_output_tokens, or lower "
                "reasoning_effort.",
                **details,
            )
        if is_empty and outcome in {"blocked", "unknown"}:
            raise BlockedError(f"The response was withheld ({cause}).", **details)

    def _block_cause(self) -> str | None:
        """Return why the prompt was blocked, with the API's explanation."""
        if self.block_reason is None:
            return None
        explanation = self.fields["promptFeedback"].get("blockReasonMessage")
        return self.block_reason + (f" ({explanation})" if explanation else "")

    def render(self, model: str, text: str) -> gemini.JsonObject:
        """Return the `response_metadata`: all fields of the response, in LangChain's spelling.

        Args:
            model: The requested model.
            text: The text of the response, in which citations are located.
        """
        fields: gemini.JsonObject = {}
        for key, value in self.fields.items():
            name = _RENAMED.get(key) or snake(key)
            # A field that has our spelling already does not replace one of the API's.
            if name not in _OUR_FIELDS and (name != key or name not in fields):
                fields[name] = value
        if "grounding_metadata" in fields:
            grounding = parse_grounding(fields.pop("grounding_metadata"), text)
            if is_citable(grounding):
                lists: gemini.JsonObject = {name: [] for name in _LISTS} if grounding else {}
                fields["grounding_metadata"] = {**lists, **grounding}
            else:
                fields["unreadable_grounding_metadata"] = grounding
        for key in fields.keys() & _NESTED_SNAKE:
            fields[key] = _snake_keys(fields[key])
        if self.block_reason:
            fields["block_reason"] = self.block_reason
        if self.usage:
            fields["raw_usage"] = self.usage
        if tier := parse_service_tier(self.usage):
            fields["service_tier"] = tier
        if self.earlier is not None:
            fields["initial_prompt_token_count"] = self.earlier.prompt_token_count
        if not reads_signatures_of(model, str(fields.get("model_name", ""))):
            # The requested name is an alias of another line of models: both count as the author.
            fields["requested_model"] = model
        return {"model_name": model, **fields}


def generation_info(metadata: gemini.JsonObject) -> gemini.JsonObject:
    """Return what callbacks and tracers read beside the message.

    Args:
        metadata: The `response_metadata` of the message.
    """
    info = {key: metadata[key] for key in _GENERATION_INFO if key in metadata}
    return {**info, "safety_ratings": metadata.get("safety_ratings", [])}


def truncated_stream_error() -> TruncatedStreamError:
    """Return the error for a stream that ended too early."""
    return TruncatedStreamError(
        "The stream ended without a finish reason, so the response is incomplete. "
        "What arrived is in this error's `partial`."
    )


def _drop_old_token(fields: gemini.JsonObject, candidate: gemini.JsonObject) -> None:
    """Forget a token that does not cover this event."""
    if token_of(candidate) is None and (not has_more(candidate) or shows_output(candidate)):
        del fields[TOKEN]


def _failed_finish(fields: gemini.JsonObject) -> gemini.JsonObject | None:
    """Return how a response ended, if it failed: a later event does not make it complete."""
    reason = str(fields["finishReason"])
    if not reason or lookup(reason, "gemini").outcome in {"complete", "unspecified"}:
        return None
    return {key: fields[key] for key in ("finishReason", "finishMessage") if key in fields}


def find_unreleasable(
    reason: str | None, message: str | None = None, block_reason: str | None = None
) -> ResponseError | None:
    """Return the error for tool calls in a response that is not complete; `None` if it is.

    Args:
        reason: The finish reason.
        message: The API's explanation of the finish reason.
        block_reason: Why the prompt was blocked, if it was.
    """
    finish = lookup(reason, "gemini")
    if finish.is_complete and not block_reason:
        return None
    cause = f"{reason}: {message}" if message else reason or "no finish reason"
    details: gemini.JsonObject = {"finish_reason": reason, "finish_message": message}
    if block_reason:
        text = f"The prompt was blocked: {block_reason}. Its tool calls must not be executed."
        return BlockedError(text, **details)
    if finish.outcome == "bad_call":
        return MalformedToolCallError(
            f"The model did not make a valid tool call ({cause}).", **details
        )
    if finish.outcome in {"blocked", "failed", "unknown"}:
        text = f"The response was withheld ({cause}). Its tool calls must not be executed."
        return BlockedError(text, **details)
    is_too_long = finish.outcome == "truncated" and reason != CONTINUATION
    advice = " Increase max_output_tokens." if is_too_long else ""
    return TruncatedResponseError(
        f"The response is not complete ({cause}). More tool calls may have followed, so these must "
        f"not be executed.{advice}",
        **details,
    )


def _updated(key: str, before: object, now: object) -> object:
    """Return a field's value after one more event; an empty value changes nothing."""
    if now in ({}, []):
        return before
    if not isinstance(before, dict) or not isinstance(now, dict):
        return now
    if key not in _SPREAD_OVER_EVENTS:
        return {**before, **now}
    return {**before, **{name: _extended(before.get(name), value) for name, value in now.items()}}


def _extended(before: object, now: object) -> object:
    """Return both lists in a row, unless the second one repeats the first."""
    if not isinstance(before, list) or not isinstance(now, list):
        return now
    return now if now[: len(before)] == before else [*before, *now]


# Token usage

_DIGITS = re.compile(r"[0-9]{1,15}")


def parse_count(response: gemini.JsonObject) -> int:
    """Return the number of tokens in a response of `:countTokens`.

    Raises:
        UnreadableResponseError: The response has no valid count.
    """
    total = response.get("totalTokens", 0)  # the API omits a zero
    count = _parse_count(total)
    if count is None:
        raise UnreadableResponseError(
            f"The response's `totalTokens` is not a valid count: {total!r:.80}"
        )
    return count


def parse_usage(
    usage: gemini.JsonObject, prior: UsageMetadata | None = None
) -> UsageMetadata | None:
    """Parse usageMetadata into LangChain's token counts; `None` if there is none.

    LangChain's `input_tokens` is the sum of all input, including the prompts that server-side tools
    added; its `output_tokens` is the sum of all output, including thoughts.

    Args:
        usage: The API's token counts.
        prior: The usage of a failed attempt before this response, which is added to them.
    """
    if not usage:
        return prior
    counts = {key: _parse_count(value) or 0 for key, value in usage.items()}
    tool_use = counts.get("toolUsePromptTokenCount", 0)
    thoughts = counts.get("thoughtsTokenCount", 0)
    input_tokens = counts.get("promptTokenCount", 0) + tool_use
    output_tokens = counts.get("candidatesTokenCount", 0) + thoughts
    input_details = _modalities(usage.get("promptTokensDetails"))
    output_details = _modalities(usage.get("candidatesTokensDetails"))
    if "cachedContentTokenCount" in usage:
        input_details["cache_read"] = counts["cachedContentTokenCount"]
    if "toolUsePromptTokenCount" in usage:
        input_details["tool_use_prompt"] = tool_use
    if "thoughtsTokenCount" in usage:
        output_details["reasoning"] = thoughts
    parsed = UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=counts.get("totalTokenCount") or input_tokens + output_tokens,
    )
    if input_details:
        parsed["input_token_details"] = cast("InputTokenDetails", input_details)
    if output_details:
        parsed["output_token_details"] = cast("OutputTokenDetails", output_details)
    return add_usage(parsed, prior) if prior else parsed


_TRAFFIC_TIERS = {
    "ON_DEMAND": "standard",
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
}
"""Vertex AI reports the tier as the type of traffic."""


def parse_service_tier(usage: gemini.JsonObject) -> str | None:
    """Return the tier that a response was billed by; `None` if it does not say.

    The Developer API writes `standard`, in results of batches also `SERVICE_TIER_STANDARD`.
    """
    tier = usage.get("serviceTier")
    if isinstance(tier, str) and tier:
        return tier.lower().removeprefix("service_tier_")
    return _TRAFFIC_TIERS.get(str(usage.get("trafficType")))


def _modalities(details: object) -> dict[str, int]:
    """Return the counts by modality except text, which is the remainder."""
    counts: dict[str, int] = {}
    for detail in details if isinstance(details, list) else []:
        modality = str(detail.get("modality") or "").lower() if isinstance(detail, dict) else ""
        if modality and modality != "text":
            count = _parse_count(detail.get("tokenCount")) or 0
            counts[modality] = counts.get(modality, 0) + count
    return counts


def _parse_count(value: object) -> int | None:
    """Parse a count; proto JSON may also write a number as text."""
    if type(value) is int:  # not a boolean
        return value if 0 <= value <= MAX_COUNT else None
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


# Citations


def parse_grounding(grounding: Any, text: str) -> Any:
    """Return grounding metadata in LangChain's spelling, with segments located in the text.

    LangChain's citations count characters of the text. The API counts bytes of UTF-8, and is off by
    a few after some characters; it also repeats the cited words, whose position in the text is
    reliable.
    """
    known = _snake_keys(grounding)
    supports = known.get("grounding_supports") if isinstance(known, dict) else None
    for support in supports if isinstance(supports, list) else ():
        if isinstance(support, dict) and isinstance(segment := support.get("segment"), dict):
            segment |= _locate(segment, text)
    return known


def _locate(segment: gemini.JsonObject, text: str) -> dict[str, int]:
    start, end = segment.get("start_index", 0), segment.get("end_index")
    if type(start) is not int or type(end) is not int:
        return {}
    raw = text.encode("utf-8", "surrogatepass")
    first = len(raw[:start].decode("utf-8", "ignore"))
    words = segment.get("text")
    if not isinstance(words, str) or not words:
        return {"start_index": first, "end_index": len(raw[:end].decode("utf-8", "ignore"))}
    positions = {text.find(words, first), text.rfind(words, 0, first + len(words))} - {-1}
    first = min(positions, key=lambda position: abs(position - first), default=first)
    return {"start_index": first, "end_index": first + len(words)}


def _snake_keys(value: Any) -> Any:
    """Rename keys as core's translator expects them; it crashes on `None`, and reads `placeId`."""
    if isinstance(value, dict):
        known = {snake(key): _snake_keys(v) for key, v in value.items() if v is not None}
        place = known.get("place_id")
        return {**known, "placeId": place} if "placeId" in value and place else known
    if isinstance(value, list):
        return [_snake_keys(item) for item in value]
    return value


def is_citable(grounding: object) -> bool:
    """Return whether core's `content_blocks` can read the citations; otherwise it would raise."""
    match grounding:
        case {"grounding_supports": list(supports), **rest}:
            chunks = rest.get("grounding_chunks", [])
        case dict() if "grounding_supports" not in grounding:
            return True
        case _:
            return False
    return _are_chunks(chunks) and all(map(_is_support, supports))


def _are_chunks(chunks: object) -> bool:
    return isinstance(chunks, list) and all(
        isinstance(chunk, dict)
        and all(isinstance(chunk.get(kind, {}), dict) for kind in ("web", "maps"))
        for chunk in chunks
    )


def _is_support(support: object) -> bool:
    if not isinstance(support, dict) or not isinstance(support.get("segment", {}), dict):
        return False
    indices = support.get("grounding_chunk_indices", [])
    return isinstance(indices, list) and all(type(index) is int and index >= 0 for index in indices)
