"""Faults in one line, planned for the next requests: `gemini.fail(429, times=2)`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from langchain_gemini_tools.testing.fake import faults
from langchain_gemini_tools.testing.fake.script import Reply

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.script import Fault


@dataclass
class _PendingFault:
    """Something that goes wrong with the next requests."""

    name: str
    fault: Fault | None = None
    """Changes the reply, which is used up."""
    instead: Reply | None = None
    """Goes out instead of the reply, which is kept for the next request."""
    times: int | None = 1
    skip: int = 0
    only_streams: bool = False


class PlannedFaults:
    """What goes wrong with the next requests, in the order given.

    A fault that takes the place of a reply keeps the reply for the next request. To let a certain
    reply go wrong, script it with `reply(..., fault=...)`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[_PendingFault] = []

    @property
    def unmet_faults(self) -> list[str]:
        """The names of the faults that no request has met."""
        return [fault.name for fault in self._faults if fault.times]

    def fail(
        self,
        status: int = 503,
        message: str | None = None,
        *,
        times: int | None = 1,
        skip: int = 0,
        retry_after: float | None = None,
    ) -> None:
        """Let the next requests fail with an HTTP error. They do not use up replies.

        Args:
            status: The HTTP status.
            message: The error's text; by default the API's.
            times: How many requests fail; None for every request from now on.
            skip: How many requests pass before that.
            retry_after: The delay in seconds that the API asks for, as `RetryInfo`. `ChatGemini`
                does not wait for it inside the block.
        """
        fault = faults.http_failure(status, message, retry_after=retry_after)
        self._plan(
            _PendingFault(f"fail({status})", instead=Reply(fault=fault), times=times, skip=skip)
        )

    def hang(self, seconds: float = 600, *, times: int | None = 1, skip: int = 0) -> None:
        """Let the next requests wait for a response, until the client's timeout or the end."""
        fault = faults.slow_first_byte(seconds)
        self._plan(_PendingFault("hang()", instead=Reply("", fault=fault), times=times, skip=skip))

    def reset(self, *, times: int | None = 1, skip: int = 0) -> None:
        """Close the connections of the next requests without a response."""
        reply = Reply(fault=faults.cut_before_headers())
        self._plan(_PendingFault("reset()", instead=reply, times=times, skip=skip))

    def cut_stream(self, after: int = 1, *, times: int | None = 1, skip: int = 0) -> None:
        """Close the connection of the next stream after that many events."""
        fault = faults.cut_connection(after)
        self._plan(
            _PendingFault("cut_stream()", fault=fault, times=times, skip=skip, only_streams=True)
        )

    def slow(self, seconds: float = 0.05, *, times: int | None = 1, skip: int = 0) -> None:
        """Pause before each event of the next stream."""
        fault = faults.slow_events(seconds)
        self._plan(_PendingFault("slow()", fault=fault, times=times, skip=skip, only_streams=True))

    def malformed_call(
        self,
        text: str = "print(default_api.f(",
        *,
        reason: Literal[
            "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"
        ] = "MALFORMED_FUNCTION_CALL",
        times: int | None = 1,
        skip: int = 0,
    ) -> None:
        """Answer the next requests with a tool call that the API could not read."""
        message = f"Malformed function call: {text}"
        reply = Reply(finish_reason=reason, finish_message=message)
        self._plan(_PendingFault("malformed_call()", instead=reply, times=times, skip=skip))

    def block(self, reason: str = "SAFETY", *, times: int | None = 1, skip: int = 0) -> None:
        """Block the answers to the next requests, for instance for `RECITATION`."""
        reply = Reply(finish_reason=reason)
        self._plan(_PendingFault("block()", instead=reply, times=times, skip=skip))

    def block_prompt(
        self, reason: str = "PROHIBITED_CONTENT", *, times: int | None = 1, skip: int = 0
    ) -> None:
        """Block the prompts of the next requests: there is no answer at all."""
        usage = {"promptTokenCount": 1, "totalTokenCount": 1}
        body = {"promptFeedback": {"blockReason": reason}, "usageMetadata": usage}
        self._plan(
            _PendingFault("block_prompt()", instead=Reply(body=body), times=times, skip=skip)
        )

    def empty(self, *, times: int | None = 1, skip: int = 0) -> None:
        """Answer the next requests with nothing."""
        self._plan(_PendingFault("empty()", instead=Reply(), times=times, skip=skip))

    def _plan(self, pending: _PendingFault) -> None:
        with self._lock:
            self._faults.append(pending)

    def _next_fault(self, *, is_stream: bool) -> _PendingFault | None:
        for pending in self._faults:
            if pending.times == 0 or (pending.only_streams and not is_stream):
                continue
            if pending.skip:
                pending.skip -= 1
                return None
            if pending.times is not None:
                pending.times -= 1
            return pending
        return None
