"""Why a model stopped: one table for Gemini and for the other vendors whose messages we accept.

The response parser, `ToolLoop` and `trace` read this table. To support a new finish reason, add a
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import AIMessage

Outcome = Literal[
    "complete", "truncated", "blocked", "bad_call", "failed", "unspecified", "unknown"
]
"""What a finish reason says about the response.

- `complete`: the model finished what it was writing.
- `truncated`: more would have followed.
- `blocked`: something was withheld.
- `bad_call`: the model tried to call a tool and failed.
- `failed`: the interaction ended without an answer; what it has said so far is not one.
- `unspecified`: the response gives no reason.
- `unknown`: the response gives a reason that is not in the table.
"""

UNEXPECTED_TOOL_CALL = "UNEXPECTED_TOOL_CALL"
"""The model called a function that was not declared."""
CONTINUATION = "CONTINUATION"
"""The request has reached its token limit; the same request with a token continues it."""
REQUIRES_CONTINUATION = "requires_continuation"
"""The same of the Interactions API."""
RUNNING = ("queued", "in_progress")
"""Statuses of an interaction that has not ended."""
INTERACTION_COMPLETED = "interaction.completed"
"""The event that ends the stream of an interaction, whatever its status is."""

Vendor = Literal["gemini", "other"]


@dataclass(frozen=True)
class FinishReason:
    """One finish reason and its meaning."""

    name: str
    outcome: Outcome
    explanation: str
    vendor: Vendor = "gemini"

    @property
    def is_complete(self) -> bool:
        """Whether the response is complete. Only then may its tool calls be executed.

        Without a reason, or with one that is not in the table, a response of Gemini is not: Gemini
        always gives a reason, and adds reasons for responses that went wrong. Other vendors have
        their own words, and some give none.
        """
        if self.outcome in {"unknown", "unspecified"}:
            return self.vendor == "other"
        return self.outcome == "complete"


def _rows(
    outcome: Outcome,
    explanation: str,
    *names: str,
    vendor: Vendor = "gemini",
) -> list[FinishReason]:
    return [FinishReason(name, outcome, explanation, vendor) for name in names]


def _statuses(outcome: Outcome, explanation: str, *names: str) -> list[FinishReason]:
    """Rows for statuses, which are words that other vendors use as well."""
    return _rows(outcome, explanation, *names, vendor="other")


_TABLE = [
    # Gemini: https://ai.google.dev/api/generate-content#FinishReason
    *_rows("complete", "The response is complete.", "STOP"),
    *_rows("unspecified", "The API gave no finish reason.", "FINISH_REASON_UNSPECIFIED"),
    *_rows("truncated", "The response reached the token limit.", "MAX_TOKENS"),
    *_rows("truncated", "The response continues in another request.", CONTINUATION),
    *_rows("blocked", "The safety filters withheld the response.", "SAFETY", "IMAGE_SAFETY"),
    *_rows("blocked", "The response was flagged for recitation.", "RECITATION", "IMAGE_RECITATION"),
    *_rows("blocked", "The response was in an unsupported language.", "LANGUAGE"),
    *_rows("blocked", "The response contained a forbidden term.", "BLOCKLIST"),
    *_rows(
        "blocked",
        "The response may contain prohibited content.",
        *("PROHIBITED_CONTENT", "IMAGE_PROHIBITED_CONTENT"),
    ),
    *_rows("blocked", "The response may contain personal data.", "SPII"),
    *_rows("blocked", "Model Armor withheld the response.", "MODEL_ARMOR"),
    *_rows("blocked", "An escalation rule filtered the request.", "ESCALATION"),
    *_rows(
        "blocked",
        "The account is limited or disabled after violations of the Prohibited Use Policy.",
        "PUP_LIMITED_DISABLED",
    ),
    *_rows("blocked", "The API stopped for an unstated reason.", "OTHER", "IMAGE_OTHER"),
    *_rows("blocked", "The model was expected to generate an image and did not.", "NO_IMAGE"),
    *_rows(
        "bad_call",
        "The model wrote a malformed tool call.",
        *("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"),
    ),
    *_rows("bad_call", "The model called a tool that was not available.", UNEXPECTED_TOOL_CALL),
    *_rows("bad_call", "The model made too many tool calls.", "TOO_MANY_TOOL_CALLS"),
    *_rows("bad_call", "A thought signature was missing.", "MISSING_THOUGHT_SIGNATURE"),
    # Statuses of Gemini's Interactions API, in addition to "completed", which OpenAI has as well
    *_statuses("complete", "The model waits for the results of its tool calls.", "requires_action"),
    *_statuses("truncated", "The response reached the token limit.", "incomplete"),
    *_statuses("truncated", "The response continues in another request.", REQUIRES_CONTINUATION),
    *_statuses("failed", "The interaction reached its budget.", "budget_exceeded"),
    *_statuses("failed", "The interaction is still running.", *RUNNING),
    *_statuses("failed", "The interaction failed.", "failed"),
    *_statuses("failed", "The interaction was cancelled.", "cancelled"),
    # OpenAI, Anthropic, Bedrock, Mistral, Cohere, DeepSeek, Ollama, Hugging Face
    *_rows(
        "complete",
        "The response is complete.",
        *("stop", "end_turn", "stop_sequence", "STOP_SEQUENCE", "eos", "eos_token"),
        *("completed", "COMPLETE", "tool_calls", "tool_use", "TOOL_CALL", "function_call"),
        vendor="other",
    ),
    *_rows(
        "truncated",
        "The response reached the token limit.",
        *("length", "max_tokens", "max_output_tokens"),
        *("model_length", "model_context_window_exceeded"),
        vendor="other",
    ),
    *_rows("truncated", "The response continues in another request.", "pause_turn", vendor="other"),
    *_rows(
        "blocked",
        "The response was withheld.",
        *("content_filter", "content_filtered", "refusal", "guardrail_intervened"),
        vendor="other",
    ),
    *_rows(
        "blocked",
        "The provider stopped with an error.",
        *("error", "ERROR", "TIMEOUT", "insufficient_system_resource"),
        vendor="other",
    ),
    *_rows(
        "bad_call",
        "The model wrote a malformed tool call.",
        *("malformed_tool_use", "malformed_model_output"),
        vendor="other",
    ),
]

FINISH_REASONS: Mapping[str, FinishReason] = {row.name: row for row in _TABLE}

_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""Where integrations put the reason in `response_metadata`."""


def lookup(reason: str | None, vendor: Vendor = "other") -> FinishReason:
    """Return what a finish reason means.

    Args:
        reason: The reason as the vendor spells it, or `None` if the response has none.
        vendor: Whose reason it is if the table does not have it.
    """
    if reason is None:
        return FinishReason("", "unspecified", "The response has no finish reason.", vendor)
    if row := FINISH_REASONS.get(reason):
        return row
    explanation = f"The finish reason {reason!r} is not known to this version."
    return FinishReason(reason, "unknown", explanation, vendor)


def finish_of(message: AIMessage) -> FinishReason:
    """Return what the finish reason of a message means, whichever vendor the message is from."""
    vendor: Vendor = "gemini" if is_from_gemini(message) else "other"
    return lookup(finish_reason_of(message), vendor)


def is_from_gemini(message: AIMessage) -> bool:
    """Return whether Gemini wrote this message, so that an unknown reason is one of Gemini's."""
    provider = str(message.response_metadata.get("model_provider") or "")
    return provider.startswith("google")


def finish_reason_of(message: AIMessage) -> str | None:
    """Return the finish reason that a message of any vendor carries in its metadata."""
    metadata: Mapping[str, Any] = message.response_metadata
    if metadata.get("status") == "incomplete":  # OpenAI's Responses API
        return str((metadata.get("incomplete_details") or {}).get("reason"))
    return next((str(metadata[key]) for key in _REASON_KEYS if metadata.get(key)), None)
