"""Token counts: Gemini's usageMetadata -> LangChain's UsageMetadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from langchain_gemini_tools.errors import UnreadableResponseError

if TYPE_CHECKING:
    from collections.abc import Mapping


_DIGITS = re.compile(r"\d{1,18}")


def parse_count(reply: Mapping[str, Any]) -> int:
    """How many tokens `:countTokens` counted.

    Raises:
        UnreadableResponseError: It tells something else.
    """
    told = reply.get("totalTokens", 0)  # a zero is left out
    count = _parse_count(told)
    if count is None or count < 0:
        raise UnreadableResponseError(f"The reply's `totalTokens` are no count: {told!r:.80}")
    return count


def parse_usage(usage: Mapping[str, Any]) -> UsageMetadata | None:
    """LangChain's counts, or `None` when the API told none.

    LangChain's `input_tokens` is the sum of all input, so the prompt that server-side tools added
    counts; its `output_tokens` is the sum of all output, so thoughts count.
    """
    if not usage:
        return None
    tool_use = _count(usage, "toolUsePromptTokenCount")
    thoughts = _count(usage, "thoughtsTokenCount")
    input_tokens = _count(usage, "promptTokenCount") + tool_use
    output_tokens = _count(usage, "candidatesTokenCount") + thoughts
    input_details = _modalities(usage.get("promptTokensDetails"))
    output_details = _modalities(usage.get("candidatesTokensDetails"))
    if "cachedContentTokenCount" in usage:
        input_details["cache_read"] = _count(usage, "cachedContentTokenCount")
    if "toolUsePromptTokenCount" in usage:
        input_details["tool_use_prompt"] = tool_use
    if "thoughtsTokenCount" in usage:
        output_details["reasoning"] = thoughts
    counts = UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=_count(usage, "totalTokenCount") or input_tokens + output_tokens,
    )
    if input_details:
        counts["input_token_details"] = cast("InputTokenDetails", input_details)
    if output_details:
        counts["output_token_details"] = cast("OutputTokenDetails", output_details)
    return counts


def _modalities(details: Any) -> dict[str, int]:
    """Counts by modality, without text: text is what remains."""
    counts: dict[str, int] = {}
    for detail in details if isinstance(details, list) else []:
        modality = str(detail.get("modality") or "").lower() if isinstance(detail, dict) else ""
        if modality and modality != "text":
            counts[modality] = counts.get(modality, 0) + _count(detail, "tokenCount")
    return counts


def _count(counts: Mapping[str, Any], key: str) -> int:
    return _parse_count(counts.get(key)) or 0


def _parse_count(told: Any) -> int | None:
    """A count; proto JSON may also write a number as text."""
    match told:
        case bool():
            return None
        case int(count):
            return count
        case str(digits) if _DIGITS.fullmatch(digits):
            return int(digits)
    return None
