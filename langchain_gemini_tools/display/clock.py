"""`RunClock`: how long each answer and each tool call took.

Messages do not carry times, so somebody has to look at a clock while a run goes on. This callback
handler does, and `trace(result, clock)` finds the times again by message id and tool call id.
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
    """When one call began and ended, in seconds of one clock."""

    start: float
    end: float | None = None
    first_token: float | None = None
    retries: int = 0

    @property
    def milliseconds(self) -> float | None:
        """How long it took, or `None` while it runs."""
        return None if self.end is None else (self.end - self.start) * 1000

    @property
    def first_token_milliseconds(self) -> float | None:
        """How long a streamed answer took to begin."""
        return None if self.first_token is None else (self.first_token - self.start) * 1000


class RunClock(BaseCallbackHandler):
    """Measures the model calls and tool calls of runs, for `trace`.

    ```python
    clock = RunClock()
    result = agent.invoke({"messages": question}, config={"callbacks": [clock]})
    print(trace(result, clock))
    ```

    One clock may watch many runs, from many threads and event loops at once.

    Args:
        max_calls: Calls to remember; the oldest are forgotten, so that a clock may stay in a
            service for ever.
        now: Where the time comes from, in seconds.
    """

    run_inline = True  # in the event loop itself: a thread would only add its own waiting time

    def __init__(
        self, max_calls: int = 10_000, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._max_calls = max_calls
        self._now = now
        self._lock = Lock()
        self._running: OrderedDict[UUID, tuple[Span, str | None]] = OrderedDict()
        self._answers: OrderedDict[str, deque[Span]] = OrderedDict()
        self._calls: OrderedDict[str, deque[Span]] = OrderedDict()

    def answer(self, message_id: str | None) -> Span | None:
        """The span of the model call that gave the message with this id."""
        with self._lock:
            spans = self._answers.get(message_id or "")
            return spans[-1] if spans else None

    def calls(self, tool_call_id: str | None) -> list[Span]:
        """The spans of the tool calls with this id, oldest first: ids may repeat between turns."""
        with self._lock:
            return list(self._calls.get(tool_call_id or "", ()))

    def on_chat_model_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Start a model call."""
        self._start(run_id, None)

    def on_llm_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Start a model call."""
        self._start(run_id, None)

    def on_llm_new_token(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Note when a streamed answer begins."""
        with self._lock:
            span = self._running.get(run_id, (None, None))[0]
            if span and span.first_token is None:
                span.first_token = self._now()

    def on_retry(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Count one more try of a model call or tool call."""
        with self._lock:
            if span := self._running.get(run_id, (None, None))[0]:
                span.retries += 1

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """End a model call; its messages have ids by now."""
        span, _id = self._end(run_id)
        messages = [getattr(made, "message", None) for row in response.generations for made in row]
        for message in messages:
            message_id = getattr(message, "id", None)
            if span and message_id:
                self._keep(self._answers, message_id, span)

    def on_llm_error(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Forget a model call that gave no message."""
        self._end(run_id)

    def on_tool_start(self, *_: Any, run_id: UUID, **more: Any) -> None:
        """Start a tool call."""
        self._start(run_id, more.get("tool_call_id"))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """End a tool call."""
        answered = output.tool_call_id if isinstance(output, ToolMessage) else None
        self._end_tool(run_id, answered)

    def on_tool_error(self, *_: Any, run_id: UUID, **more: Any) -> None:
        """End a tool call that failed."""
        self._end_tool(run_id, more.get("tool_call_id"))

    def _start(self, run_id: UUID, call_id: str | None) -> None:
        with self._lock:
            self._running[run_id] = (Span(self._now()), call_id)
            if len(self._running) > self._max_calls:  # calls whose end was never told
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
            self._keep(self._calls, call_id, span)

    def _keep(self, table: OrderedDict[str, deque[Span]], key: str, span: Span) -> None:
        with self._lock:
            table.setdefault(key, deque(maxlen=self._max_calls)).append(span)
            table.move_to_end(key)
            if len(table) > self._max_calls:
                table.popitem(last=False)
