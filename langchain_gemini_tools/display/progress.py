"""`BatchProgress`: a bar for many runs, in a terminal, in a notebook, or as lines in a log.

A callback handler only hears of runs, not of how many there will be, so it is told the total. What
it counts are the runs it was given to: an agent's run with all its inner calls is one.
"""

from __future__ import annotations

import atexit
import sys
import time
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from langchain_gemini_tools.display.encoding import forgiving

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE_SECONDS = 5.0
"""How often a log gets a line."""
_UPDATE_SECONDS = 0.1
"""How often a notebook's output is written again."""


@dataclass(frozen=True)
class Counts:
    """How far a batch has come."""

    total: int | None = None
    done: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def finished(self) -> int:
        """Runs that are over, well or badly."""
        return self.done + self.failed

    def __str__(self) -> str:
        of = f"/{self.total:,}" if self.total is not None else ""
        failed = f" · {self.failed:,} failed" if self.failed else ""
        tokens = f"{self.input_tokens:,} → {self.output_tokens:,} tokens"
        return f"{self.finished:,}{of}{failed} · {tokens}"


class BatchProgress(BaseCallbackHandler):
    """Shows how far `batch`, `abatch` or any number of runs have come.

    ```python
    with BatchProgress(len(questions)) as progress:
        answers = model.batch(questions, config={"callbacks": [progress]})
    print(progress.counts)
    ```

    Works with models, chains, agents and `ToolLoop`, from threads and event loops. In a terminal
    the bar is rich's, in a notebook an output that updates itself; where neither is there, a line
    every five seconds goes to `file`. Without a total there are counts and no bar. LangChain runs
    the batch of a sequence (`a | b`) step by step, so that its runs all end together; the tokens
    tell how far it is.

    Args:
        total: How many runs there will be, if that is known.
        description: What stands before the bar.
        file: Where it is shown; stderr, unless given.
    """

    run_inline = True  # counting is quicker than a thread, and keeps the order of events

    def __init__(
        self, total: int | None = None, description: str = "runs", file: TextIO | None = None
    ) -> None:
        self.counts = Counts(total)
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
        """Leave the last state standing. Done by itself when the total is reached."""
        with self._lock:
            if self._view:
                self._view.close(self.counts)
                self._view = None
                atexit.unregister(self.close)

    # Runs begin

    def on_chat_model_start(self, *_: Any, **run: Any) -> None:
        """Note that a run began."""
        self._begin(**run)

    on_llm_start = on_chain_start = on_tool_start = on_retriever_start = on_chat_model_start

    # and end

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Add the tokens of an answer, and count it if it is a run of its own."""
        messages = [getattr(made, "message", None) for row in response.generations for made in row]
        counted = [usage for message in messages if (usage := _usage(message))]
        with self._lock:
            self.counts = replace(
                self.counts,
                input_tokens=self.counts.input_tokens + sum(u["input_tokens"] for u in counted),
                output_tokens=self.counts.output_tokens + sum(u["output_tokens"] for u in counted),
            )
            self._end(run_id)

    def on_chain_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Count a run that went well."""
        with self._lock:
            self._end(run_id)

    on_tool_end = on_retriever_end = on_chain_end

    def on_llm_error(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Count a run that failed."""
        with self._lock:
            self._end(run_id, failed=1)

    on_chain_error = on_tool_error = on_retriever_error = on_llm_error

    def _begin(self, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any) -> None:
        """A run whose parent is not among ours is one that we were given to."""
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
            atexit.register(self.close)  # a bar that nobody closes would leave no cursor behind
        if self._view:
            self._view.show(self.counts)


class _View(Protocol):
    def show(self, counts: Counts) -> None: ...
    def close(self, counts: Counts) -> None: ...


def _choose_view(description: str, file: TextIO) -> _View:
    if file is sys.stderr and (display := _notebook_display()):
        return _NotebookView(description, display)
    file = forgiving(file)
    if file.isatty():
        try:
            return _TerminalView(description, file)
        except ImportError:
            pass
    return _LineView(description, file)


class _TerminalView:
    """rich's bar."""

    def __init__(self, description: str, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[counts]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=file),
        )
        self._task = self._progress.add_task(description, total=None, counts="")
        self._progress.start()

    def show(self, counts: Counts) -> None:
        self._progress.update(
            self._task, total=counts.total, completed=counts.finished, counts=str(counts)
        )

    def close(self, counts: Counts) -> None:
        self.show(counts)
        self._progress.stop()


class _NotebookView:
    """An output of a notebook that is written again, by IPython alone."""

    def __init__(self, description: str, display: Callable[..., Any]) -> None:
        self._description = description
        self._handle = display(_Html("", ""), display_id=True)
        self._next = 0.0

    def show(self, counts: Counts) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _UPDATE_SECONDS
            self._write(counts)

    def close(self, counts: Counts) -> None:
        self._write(counts)

    def _write(self, counts: Counts) -> None:
        from html import escape

        value = f'value="{counts.finished}" max="{counts.total}"' if counts.total else ""
        name = escape(self._description)
        html = f"{name} <progress {value}></progress> {escape(str(counts))}"
        self._handle.update(_Html(html, f"{self._description}: {counts}"))


@dataclass(frozen=True)
class _Html:
    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class _LineView:
    """A line now and then, and one at the end."""

    def __init__(self, description: str, file: TextIO) -> None:
        self._description = description
        self._file = file
        self._next = time.monotonic() + _LINE_SECONDS

    def show(self, counts: Counts) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._write(counts)

    def close(self, counts: Counts) -> None:
        self._write(counts)

    def _write(self, counts: Counts) -> None:
        print(f"{self._description}: {counts}", file=self._file, flush=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display`, where a notebook's kernel runs us. A terminal IPython has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[attr-defined, unused-ignore]

    return display  # type: ignore[no-any-return, unused-ignore]


def _usage(message: Any) -> Any:
    return getattr(message, "usage_metadata", None)
