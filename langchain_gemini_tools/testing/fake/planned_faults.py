"""What a test plans to go wrong with the next requests."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langchain_gemini_tools.testing.fake import faults
from langchain_gemini_tools.testing.fake.script import Reply

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.script import Fault


@dataclass
class _PendingFault:
    """Something that goes wrong with the next requests."""

    name: str
    times: int | None
    skip: int
    fault: Fault | None = None
    """Changes the reply, which is used up. It waits for a stream."""
    instead: Reply | None = None
    """Goes out instead of the reply, which is kept for the next request."""


class PlannedFaults:
    """What goes wrong with the next requests, in the order given.

    A fault that replaces a reply keeps the reply for the next request. To add a fault to a certain
    reply, script it with `reply(..., fault=...)`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[_PendingFault] = []

    @property
    def unmet_faults(self) -> list[str]:
        """The names of the faults that have not occurred."""
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
        """Make the next requests fail with an HTTP error. They do not use up replies.

        Args:
            status: The HTTP status.
            message: The message of the error; by default that of the API.
            times: How many requests fail; None for every request from now on.
            skip: How many requests pass before that.
            retry_after: The delay in seconds that the API asks for, as `RetryInfo`. `ChatGemini`
                does not wait for it inside the block.
        """
        if not isinstance(status, int) or not 400 <= status <= 599:
            raise ValueError(f"status must be an HTTP error such as 503, not {status!r}.")
        if not isinstance(retry_after, int | float | None):
            raise TypeError(f"retry_after must be a number of seconds, not {retry_after!r}.")
        fault = faults.http_failure(status, message, retry_after=retry_after)
        self._plan(f"fail({status})", times, skip, instead=Reply(fault=fault))

    def hang(self, seconds: float = 600, *, times: int | None = 1, skip: int = 0) -> None:
        """Make the next requests wait for a response, until the client's timeout or the end.

        They do not use up replies. A client that waits longer gets a 504. To delay a reply, script
        it with `reply(..., fault=faults.slow_first_byte(seconds))`.
        """
        late = faults.both(faults.deadline_exceeded(), faults.slow_first_byte(seconds))
        self._plan("hang()", times, skip, instead=Reply(fault=late))

    def reset(self, *, times: int | None = 1, skip: int = 0) -> None:
        """Close the connections of the next requests without a response."""
        self._plan("reset()", times, skip, instead=Reply(fault=faults.cut_before_headers()))

    def cut_stream(self, after: int = 1, *, times: int | None = 1, skip: int = 0) -> None:
        """Close the connection of the next stream after that many events."""
        self._plan("cut_stream()", times, skip, fault=faults.cut_connection(after))

    def slow(self, seconds: float = 0.05, *, times: int | None = 1, skip: int = 0) -> None:
        """Pause before each event of the next stream."""
        self._plan("slow()", times, skip, fault=faults.slow_events(seconds))

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
        self._plan("malformed_call()", times, skip, instead=reply)

    def block(self, reason: str = "SAFETY", *, times: int | None = 1, skip: int = 0) -> None:
        """Block the answers to the next requests, for instance for `RECITATION`."""
        self._plan("block()", times, skip, instead=Reply(finish_reason=reason))

    def block_prompt(
        self, reason: str = "PROHIBITED_CONTENT", *, times: int | None = 1, skip: int = 0
    ) -> None:
        """Block the prompts of the next requests: there is no answer."""
        usage = {"promptTokenCount": 1, "totalTokenCount": 1}
        body = {"promptFeedback": {"blockReason": reason}, "usageMetadata": usage}
        self._plan("block_prompt()", times, skip, instead=Reply(body=body))

    def empty(self, *, times: int | None = 1, skip: int = 0) -> None:
        """Answer the next requests with nothing."""
        self._plan("empty()", times, skip, instead=Reply())

    def _plan(self, name: str, times: int | None, skip: int, **what: Any) -> None:
        for argument, count in {"times": times, "skip": skip}.items():
            if count is not None and not (isinstance(count, int) and count >= 0):
                raise ValueError(f"{argument} must be a number of requests, not {count!r}.")
        with self._lock:
            self._faults.append(_PendingFault(name, times, skip, **what))

    def _next_fault(self, *, is_stream: bool) -> _PendingFault | None:
        for pending in self._faults:
            if pending.times == 0 or (pending.fault and not is_stream):
                continue
            if pending.skip:
                pending.skip -= 1
                return None
            if pending.times is not None:
                pending.times -= 1
            return pending
        return None
