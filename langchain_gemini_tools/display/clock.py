"""`RunClock`: how long each response of the model and each tool call took.

Messages have no times. This callback handler measures them during a run, and `trace(result, clock)`
looks them up by message id and tool call id.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.outputs import LLMResult


@dataclass
class Span:
    """Start and end of a model call or tool call, in seconds of the clock."""

    start: float
    end: float | None = None
    first_token: float | None = None
    retries: int = 0

    @property
    def milliseconds(self) -> float | None:
        """The duration; `None` while it runs."""
        return None if self.end is None else (self.end - self.start) * 1000

    @property
    def first_token_milliseconds(self) -> float | None:
        """The time until the first token of a streamed response."""
        return None if self.first_token is None else (self.first_token - self.start) * 1000


class RunClock(BaseCallbackHandler):
    """Measure the model calls and tool calls of runs, for `trace`.

    ```python
    clock = RunClock()
    result = agent.invoke({"messages": question}, config={"callbacks": [clock]})
    print(trace(result, clock))
    ```

    One clock can measure many runs, in many threads and event loops at once.

    Args:
        max_calls: How many calls to keep. Older ones are dropped, so that a clock can be used in a
            long-running service.
        now: Returns the time in seconds.
    """

    run_inline = True  # in the event loop itself: a thread would add waiting time

    def __init__(
        self, max_calls: int = 10_000, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._max_calls = max_calls
        self._now = now
        self._lock = Lock()
        self._running: OrderedDict[UUID, tuple[Span, str | None]] = OrderedDict()
        self._messages: OrderedDict[str, deque[Span]] = OrderedDict()
        self._tool_calls: OrderedDict[str, deque[Span]] = OrderedDict()

    def message_span(self, message_id: str | None) -> Span | None:
        """Return the span of the model call that produced a message; None if it was not measured.

        Args:
            message_id: The message's `id`.
        """
        with self._lock:
            spans = self._messages.get(message_id or "")
            return spans[-1] if spans else None

    def tool_call_spans(self, tool_call_id: str | None) -> list[Span]:
        """Return the spans of the tool calls with an id, oldest first; ids may repeat.

        Args:
            tool_call_id: The id in the model's message.
        """
        with self._lock:
            return list(self._tool_calls.get(tool_call_id or "", ()))

    def on_chat_model_start(self, *_: object, run_id: UUID, **__: object) -> None:
        """Start a model call."""
        self._start(run_id, None)

    def on_llm_start(self, *_: object, run_id: UUID, **__: object) -> None:
        """Start a model call."""
        self._start(run_id, None)

    def on_llm_new_token(self, *_: object, run_id: UUID, **__: object) -> None:
        """Register the first token of a streamed response."""
        with self._lock:
            span = self._running.get(run_id, (None, None))[0]
            if span and span.first_token is None:
                span.first_token = self._now()

    def on_retry(self, *_: object, run_id: UUID, **__: object) -> None:
        """Count a retry of a model call or tool call."""
        with self._lock:
            if span := self._running.get(run_id, (None, None))[0]:
                span.retries += 1

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """End a model call, whose messages now have ids."""
        span, _id = self._end(run_id)
        messages = [getattr(made, "message", None) for row in response.generations for made in row]
        for message in messages:
            message_id = getattr(message, "id", None)
            if span and message_id:
                self._keep(self._messages, message_id, span)

    def on_llm_error(self, *_: object, run_id: UUID, **__: object) -> None:
        """Drop a model call that produced no message."""
        self._end(run_id)

    def on_tool_start(self, *_: object, run_id: UUID, **more: Any) -> None:
        """Start a tool call."""
        self._start(run_id, more.get("tool_call_id"))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: object) -> None:
        """End a tool call."""
        answered = output.tool_call_id if isinstance(output, ToolMessage) else None
        self._end_tool(run_id, answered)

    def on_tool_error(self, *_: object, run_id: UUID, **more: Any) -> None:
        """End a tool call that failed."""
        self._end_tool(run_id, more.get("tool_call_id"))

    def _start(self, run_id: UUID, call_id: str | None) -> None:
        with self._lock:
            self._running[run_id] = (Span(self._now()), call_id)
            if len(self._running) > self._max_calls:  # calls whose end was never reported
                self._running.popitem(last=False)

    def _end(self, run_id: UUID) -> tuple[Span | None, str | None]:
        with self._lock:
            span, call_id = self._running.pop(run_id, (None, None))
            if span:
                span.end = self._now()
            return span, call_id

    def _end_tool(self, run_id: UUID, answered: str | None) -> None:
        span, started = self._end(run_id)
        call_id = started or answered
        if span and call_id:
            self._keep(self._tool_calls, call_id, span)

    def _keep(self, table: OrderedDict[str, deque[Span]], key: str, span: Span) -> None:
        with self._lock:
            table.setdefault(key, deque(maxlen=self._max_calls)).append(span)
            table.move_to_end(key)
            if len(table) > self._max_calls:
                table.popitem(last=False)
