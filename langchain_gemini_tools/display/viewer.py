"""`trace`: show a run in a terminal, a notebook, a file or a diagram."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from langchain_core.tracers.context import register_configure_hook

from langchain_gemini_tools.display.clock import RunClock
from langchain_gemini_tools.display.outline import Outliner
from langchain_gemini_tools.display.page import render_fragment, render_page
from langchain_gemini_tools.display.run import TracedRun, read_run
from langchain_gemini_tools.display.safe_text import replace_unencodable
from langchain_gemini_tools.display.tree import render_mermaid, render_plain, render_tree

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 100

_PROCESS_CLOCK = RunClock()
"""Measures the runs that have no clock. LangChain adds it to the callbacks of every run."""
register_configure_hook(
    ContextVar("langchain_gemini_tools_clock", default=_PROCESS_CLOCK),
    inheritable=True,
    handle_class=RunClock,
)


def trace(
    source: Any,
    clock: RunClock | None = None,
    *,
    max_chars: int = 2000,
    max_lines: int = 16,
    unfold: bool = False,
) -> Trace:
    """Show a run as a tree: turns, tool calls, results, time, tokens and cost.

    ```python
    result = agent.invoke({"messages": question})
    trace(result).show()               # in colours; in a notebook the value itself is enough
    trace(result).to_html("run.html")  # a file to share
    ```

    Once this module is imported, every run of LangChain in the process is measured, so that a trace
    has times. What is not known is left out. Costs come from the tables of `genai-prices`; "≥"
    stands before a sum that is not complete (a model without a price, searches that are billed
    separately).

    A trace shows the content of the messages, so take care with whom you share it. Known
    credentials (the keys in use, and texts that look like API keys, tokens or private keys) are
    redacted; other secrets cannot be recognized. Control characters and marks that reverse text are
    shown as codes.

    Args:
        source: Messages (one, a list, the chunks of a stream), an agent's state
            (`{"messages": [...]}`), the result of a `ToolLoop`, the output of
            `with_structured_output(..., include_raw=True)`, or an error.
        clock: A `RunClock` that was among the callbacks of the run, if there was one.
        max_chars: Longer texts are cut and end with a notice.
        max_lines: The same for lines, in plain text and in a terminal.
        unfold: Show thoughts, system messages and raw responses in full.

    Raises:
        TypeError: `source` has no messages.
    """
    run = read_run(source, clock or _PROCESS_CLOCK, is_clock_of_run=clock is not None)
    return Trace(run, max_chars=max_chars, max_lines=max_lines, unfold=unfold)


class Trace:
    """A run in all its formats. Made by `trace`.

    `str()` is plain text; rich, Jupyter and IPython choose their format automatically.

    Attributes:
        run: The run as values.
    """

    def __init__(self, run: TracedRun, *, max_chars: int, max_lines: int, unfold: bool) -> None:
        self.run = run
        self._root = Outliner(run, max_chars).render()
        self._max_lines = max_lines
        self._unfold = unfold

    def show(self, file: TextIO | None = None) -> None:
        """Print the tree, in colours if rich is installed and the terminal supports them.

        Args:
            file: Where to print it; stdout by default.
        """
        out = replace_unencodable(file or sys.stdout)
        try:
            from rich.console import Console
        except ImportError:
            print(self, file=out)
        else:
            Console(file=out).print(self)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | PathLike[str]) -> Path: ...
    def to_html(self, path: str | PathLike[str] | None = None) -> str | Path:
        """Write a self-contained page without scripts to `path`, or return it as text.

        Args:
            path: The file to write. Without it the page is returned.
        """
        page = render_page(self._root, unfold=self._unfold)
        if path is None:
            return page
        written = Path(path)
        written.write_text(page, encoding="utf-8")
        return written

    def to_mermaid(self) -> str:
        """Return a flowchart of the run for Markdown; see https://mermaid.js.org."""
        return render_mermaid(self._root)

    def __str__(self) -> str:
        return render_plain(
            self._root, width=_WIDTH, max_lines=self._max_lines, unfold=self._unfold
        )

    def __repr__(self) -> str:
        return f"<Trace: {' · '.join(self._root.facts)}>"

    def __rich__(self) -> RenderableType:
        return render_tree(self._root, max_lines=self._max_lines, unfold=self._unfold)

    def _repr_html_(self) -> str:
        return render_fragment(self._root, unfold=self._unfold)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}
