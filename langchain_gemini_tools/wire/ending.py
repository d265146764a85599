"""Everything in a reply that is not a part: usage, finish reason, metadata, and what they mean.

`Ending` is fed every body that belongs to one answer: one for a whole reply, many for a stream.
The API repeats most of these fields in each event, so the last value seen of each is what holds;
citations and log probabilities it shares out over the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import (
    BlockedError,
    EmptyResponseError,
    MalformedToolCallError,
    TruncatedStreamError,
)
from langchain_gemini_tools.facts.finish_reasons import lookup
from langchain_gemini_tools.facts.models import reads_signatures_of
from langchain_gemini_tools.facts.spelling import snake
from langchain_gemini_tools.wire.citations import is_citable, parse_grounding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire import shapes as gemini

_RENAMED = {"modelVersion": "model_name"}
_NOT_METADATA = {"candidates", "usageMetadata", "content", "index"}
_SHARED_OUT = {"citationMetadata", "logprobsResult"}
"""Of these each event tells what belongs to its own text."""


class Ending:
    """What holds for one answer as a whole."""

    def __init__(self, model: str) -> None:
        self.usage: dict[str, Any] = {}
        self._model = model
        self._fields: dict[str, Any] = {}
        self._saw_candidate = False

    @property
    def finish_reason(self) -> str | None:
        """The API's own word for why it stopped."""
        reason = self._fields.get("finishReason")
        return None if reason is None else str(reason)

    def read(self, reply: gemini.Response, candidate: Mapping[str, Any] | None) -> None:
        """Take in one body and the candidate in it."""
        usage = reply.get("usageMetadata")
        if isinstance(usage, dict):
            is_whole = None not in usage.values()
            self.usage |= usage if is_whole else {k: v for k, v in usage.items() if v is not None}
        self._saw_candidate |= candidate is not None
        fields = self._fields
        for source in (reply, candidate or {}):
            for key, value in source.items():
                if key in _NOT_METADATA or value is None:
                    continue
                is_word = isinstance(value, (str, int, float))
                fields[key] = value if is_word else _later(key, fields.get(key), value)

    def metadata(self, text: str = "") -> dict[str, Any]:
        """What goes into `response_metadata`: everything the API told, in LangChain's spelling.

        Args:
            text: What the answer says, where citations are placed.
        """
        fields = {_RENAMED.get(key) or snake(key): value for key, value in self._fields.items()}
        if "grounding_metadata" in fields:
            grounding = parse_grounding(fields.pop("grounding_metadata"), text)
            key = "grounding_metadata" if is_citable(grounding) else "unreadable_grounding_metadata"
            fields[key] = grounding
        match fields.get("prompt_feedback"):
            case {"blockReason": reason}:
                fields["block_reason"] = reason
        if self.usage:
            fields["raw_usage"] = self.usage
        if not reads_signatures_of(self._model, str(fields.get("model_name", ""))):
            # The name that was asked for stands for another line of models: both are its authors.
            fields["requested_model"] = self._model
        return {"model_name": self._model, **fields}

    def check_complete(self) -> None:
        """Raise when a stream stopped before the answer did.

        A stream cut between two events ends normally as far as HTTP can tell.
        """
        if self.finish_reason is None and not self._block_reason:
            raise TruncatedStreamError(
                "The stream ended without a finish reason: the answer is not complete. "
                "What had arrived is on this error's `partial`."
            )

    def check(self, *, has_calls: bool, is_empty: bool, refuses_empty: bool = False) -> None:
        """Raise when what was read may not be taken for an answer.

        Args:
            has_calls: Whether a call was read.
            is_empty: Whether nothing was read that says anything.
            refuses_empty: Whether an end without a word, and without a reason for that, is one.
        """
        reason, message = self.finish_reason, self._fields.get("finishMessage")
        finish = lookup(reason, "gemini")
        told = f"{reason}: {message}" if message else f"{reason}"
        details: dict[str, Any] = {"finish_reason": reason, "finish_message": message}
        if is_empty and not self._saw_candidate and not self._block_reason:
            raise EmptyResponseError("The reply is empty: no candidates and no reason given.")
        if is_empty and self._block_reason:
            raise BlockedError(f"The prompt was blocked: {self._block_reason}.", **details)
        if finish.outcome == "bad_call" and (finish.is_unusable or not has_calls):
            raise MalformedToolCallError(
                f"The model did not make a valid call ({told}).", **details
            )
        if is_empty and finish.is_complete and refuses_empty:
            raise EmptyResponseError(f"The answer is empty ({told}).", **details)
        if is_empty and finish.outcome in {"blocked", "unknown"}:
            raise BlockedError(f"The answer was withheld ({told}).", **details)

    @property
    def _block_reason(self) -> str | None:
        feedback = self._fields.get("promptFeedback")
        if not isinstance(feedback, dict) or not feedback.get("blockReason"):
            return None
        explanation = feedback.get("blockReasonMessage")
        return f"{feedback['blockReason']}" + (f" ({explanation})" if explanation else "")


def _later(key: str, before: Any, now: Any) -> Any:
    """What holds of a field after one more event; an empty value takes nothing back."""
    if before is not None and now in ({}, []):
        return before
    if not isinstance(before, dict) or not isinstance(now, dict):
        return now
    if key not in _SHARED_OUT:
        return {**before, **now}
    return {**before, **{name: _longer(before.get(name), value) for name, value in now.items()}}


def _longer(before: Any, now: Any) -> Any:
    """Two lists in a row, unless the second one repeats the first."""
    if not isinstance(before, list) or not isinstance(now, list):
        return now
    return now if now[: len(before)] == before else [*before, *now]
