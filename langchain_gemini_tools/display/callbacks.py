"""Callback handlers: `RunClock` measures a run, `BatchProgress` shows how far many runs are.

Messages have no times. `RunClock` measures them during a run, and `trace(result, clock)` looks them
up by message id and tool call id.

`BatchProgress` is a progress bar of rich, or lines of text where it cannot be shown. A handler
learns about runs as they start, so the total has to be passed in. It counts the runs whose config
has it: the run of an agent counts as one, with all its inner calls.
"""

from __future__ import annotations

import atexit
import io
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock, RLock
from typing import Any, Protocol, Self, TextIO
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.outputs import LLMResult

from langchain_gemini_tools.display.content import replace_unencodable

_LINE_SECONDS = 5.0
"""Time between two lines in a log."""
_UPDATE_SECONDS = 0.1
"""Time between two updates of a notebook's output."""


@dataclass(frozen=True)
class BatchCounts:
    """How many runs of a batch have finished, and their tokens."""

    total: int | None = None
    done: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def finished(self) -> int:
        """The runs that have ended, with or without an error."""
        return self.done + self.failed

    def __str__(self) -> str:
        of = f"/{self.total:,}" if self.total is not None else ""
        failed = f" · {self.failed:,} failed" if self.failed else ""
        has_tokens = self.input_tokens or self.output_tokens  # a batch job counts none
        tokens = f" · {self.input_tokens:,} → {self.output_tokens:,} tokens" if has_tokens else ""
        return f"{self.finished:,}{of}{failed}{tokens}"


class JobStatus(Protocol):
    """The counts of a batch job, as its service reports them."""

    @property
    def total(self) -> int:
        """All inputs."""

    @property
    def succeeded(self) -> int:
        """Inputs with a response."""

    @property
    def failed(self) -> int:
        """Inputs that failed."""

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""


class BatchProgress(BaseCallbackHandler):
    """Show the progress of `batch`, `abatch` or any number of runs.

    ```python
    with BatchProgress(len(questions)) as progress:
        answers = model.batch(questions, config={"callbacks": [progress]})
    print(progress.counts)
    ```

    It works with models, chains, agents and `ToolLoop`, in threads and event loops. Terminals and
    notebooks show rich's progress bar. Without rich (it comes with the extra `display`), and in log
    files, a line is written to `file` every five seconds and at the end. LangChain runs the batch
    of a sequence (`a | b`) step by step, so all its runs end together; until then only the tokens
    change.

    Args:
        total: The number of runs, if it is known.
        description: The text before the bar.
        file: Where to show it; stderr by default.
    """

    run_inline = True  # counting is faster than a thread, and keeps the events in order

    def __init__(
        self, total: int | None = None, description: str = "runs", file: TextIO | None = None
    ) -> None:
        if total is not None and not (isinstance(total, int) and total >= 0):
            raise ValueError(f"total={total!r} is not a number of runs. Use an integer or None.")
        self.counts = BatchCounts(total)
        self._lock = RLock()
        self._open: dict[UUID, bool] = {}
        self._description = description
        self._file = file
        self._view: _View | None = None

    def __enter__(self) -> Self:
        with self._lock:
            self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Show the final counts and stop updating. Called automatically at the total."""
        with self._lock:
            if self._view:
                self._view.close(self.counts)
                self._view = None
                atexit.unregister(self.close)

    def show_job(self, status: JobStatus) -> None:
        """Show the counts of a batch job: `job.wait(on_poll=progress.show_job)`.

        Args:
            status: What `BatchJob.poll` returns.
        """
        with self._lock:
            self.counts = replace(
                self.counts, total=status.total, done=status.succeeded, failed=status.failed
            )
            self._show()
            if status.is_done:
                self.close()

    # Starts of runs

    def on_chat_model_start(self, *_: object, **run: Any) -> None:
        """Register the start of a run."""
        self._begin(**run)

    on_llm_start = on_chain_start = on_tool_start = on_retriever_start = on_chat_model_start

    # Ends of runs

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Add the tokens of a response, and count it if it is a counted run."""
        messages = [getattr(made, "message", None) for row in response.generations for made in row]
        usages = [usage for m in messages if (usage := getattr(m, "usage_metadata", None))]
        with self._lock:
            self.counts = replace(
                self.counts,
                input_tokens=self.counts.input_tokens + sum(u["input_tokens"] for u in usages),
                output_tokens=self.counts.output_tokens + sum(u["output_tokens"] for u in usages),
            )
            self._end(run_id)

    def on_chain_end(self, *_: object, run_id: UUID, **__: object) -> None:
        """Count a run that succeeded."""
        with self._lock:
            self._end(run_id)

    on_tool_end = on_retriever_end = on_chain_end

    def on_llm_error(self, *_: object, run_id: UUID, **__: object) -> None:
        """Count a run that failed."""
        with self._lock:
            self._end(run_id, failed=1)

    on_chain_error = on_tool_error = on_retriever_error = on_llm_error

    def _begin(self, *, run_id: UUID, parent_run_id: UUID | None = None, **_: object) -> None:
        """Register a run; it counts if we do not know its parent."""
        with self._lock:
            self._open[run_id] = parent_run_id not in self._open
            self._show()

    def _end(self, run_id: UUID, *, failed: int = 0) -> None:
        if self._open.pop(run_id, False):
            done, bad = self.counts.done + 1 - failed, self.counts.failed + failed
            self.counts = replace(self.counts, done=done, failed=bad)
        self._show()
        if self.counts.finished == self.counts.total:
            self.close()

    def _show(self) -> None:
        if self._view is None and self.counts.finished != self.counts.total:
            self._view = _choose_view(self._description, self._file or sys.stderr)
            atexit.register(self.close)  # an open bar hides the cursor
        if self._view:
            self._view.show(self.counts)


@dataclass
class _View:
    """Draws the counts, at most once in so many seconds, and at the end."""

    draw: Callable[[BatchCounts], object]
    seconds: float
    stop: Callable[[], object] | None = None
    next_at: float = 0.0

    def show(self, counts: BatchCounts) -> None:
        if time.monotonic() >= self.next_at:
            self.next_at = time.monotonic() + self.seconds
            self.draw(counts)

    def close(self, counts: BatchCounts) -> None:
        self.draw(counts)
        if self.stop:
            self.stop()


def _choose_view(description: str, file: TextIO) -> _View:
    display = _notebook_display() if file is sys.stderr else None
    file = replace_unencodable(file)
    if display or file.isatty():
        with suppress(ImportError):  # no rich
            return _bar(description, file, display)
    lines = _View(
        lambda counts: print(f"{description}: {counts}", file=file, flush=True), _LINE_SECONDS
    )
    lines.next_at = time.monotonic() + _LINE_SECONDS
    return lines


def _bar(description: str, file: TextIO, display: Callable[..., Any] | None) -> _View:
    """Return rich's progress bar: in a terminal, or as an output of IPython that is updated."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        console=Console(file=io.StringIO() if display else file),
    )
    task = bar.add_task(description, total=None, counts="")

    def update(counts: BatchCounts) -> None:
        bar.update(task, total=counts.total, completed=counts.finished, counts=str(counts))

    if not display:
        bar.start()
        return _View(update, 0.0, bar.stop)
    output = display(bar, display_id=True)

    def update_output(counts: BatchCounts) -> None:
        update(counts)
        output.update(bar)

    return _View(update_output, _UPDATE_SECONDS)


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's `display` in a notebook; IPython in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[attr-defined, unused-ignore]

    return display  # type: ignore[no-any-return, unused-ignore]


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

    def on_chat_model_start(self, *_: object, run_id: UUID, **more: Any) -> None:
        """Start a model call or a tool call."""
        with self._lock:
            self._running[run_id] = (Span(self._now()), more.get("tool_call_id"))
            if len(self._running) > self._max_calls:  # calls whose end was never reported
                self._running.popitem(last=False)

    on_llm_start = on_tool_start = on_chat_model_start

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
        messages = [getattr(made, "message", None) for row in response.generations for made in row]
        self._end(run_id, self._messages, *(getattr(message, "id", None) for message in messages))

    def on_llm_error(self, *_: object, run_id: UUID, **__: object) -> None:
        """Drop a model call that produced no message."""
        self._end(run_id, self._messages)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: object) -> None:
        """End a tool call."""
        call_id = output.tool_call_id if isinstance(output, ToolMessage) else None
        self._end(run_id, self._tool_calls, call_id)

    def on_tool_error(self, *_: object, run_id: UUID, **more: Any) -> None:
        """End a tool call that failed."""
        self._end(run_id, self._tool_calls, more.get("tool_call_id"))

    def _end(
        self, run_id: UUID, table: OrderedDict[str, deque[Span]], *found_ids: str | None
    ) -> None:
        """End a call; keep its span under the id of its start, or under those found at its end."""
        with self._lock:
            span, call_id = self._running.pop(run_id, (None, None))
            if span is None:
                return
            span.end = self._now()
            for key in filter(None, [call_id] if call_id else found_ids):
                table.setdefault(key, deque(maxlen=self._max_calls)).append(span)
                table.move_to_end(key)
                if len(table) > self._max_calls:
                    table.popitem(last=False)
