"""`trace`: one object that shows a run, in a terminal, a notebook, a file or a diagram."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from langchain_gemini_tools.display.clock import RunClock
from langchain_gemini_tools.display.encoding import forgiving
from langchain_gemini_tools.display.mermaid import render_mermaid
from langchain_gemini_tools.display.outline import Outliner
from langchain_gemini_tools.display.page import render_fragment, render_page
from langchain_gemini_tools.display.plain import render_plain
from langchain_gemini_tools.display.run import Run, read_run

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 100


def trace(
    source: Any,
    clock: RunClock | None = None,
    *,
    max_chars: int = 2000,
    max_lines: int = 16,
    unfold: bool = False,
) -> Trace:
    """Show a run as a tree: turns, calls with arguments, results, time, tokens and cost.

    ```python
    clock = RunClock()
    result = agent.invoke({"messages": question}, config={"callbacks": [clock]})
    trace(result, clock).show()               # in colours; in a notebook the value itself is enough
    trace(result, clock).to_html("run.html")  # a file to send to somebody
    ```

    Costs come from the tables of `genai-prices`: "n/a" where it knows no price, "≥" before a sum in
    which something is missing (a model without a price, searches that are billed apart).

    What is shown is what the messages say: mind whom you send it to. Strings shaped like Google's
    credentials, bearer tokens and private keys are hidden; other secrets cannot be told from text.
    Control characters and marks that turn text around are shown as what they are.

    Args:
        source: Messages (one, a list, the chunks of a stream), an agent's state
            (`{"messages": [...]}`), the result of a `ToolLoop`, the answer of
            `with_structured_output(..., include_raw=True)`, or an error with what had arrived.
        clock: A `RunClock` that was among the callbacks of the run; without it times are "–".
        max_chars: Longer texts are cut, with a note of how much is left out.
        max_lines: The same for lines, in text and terminal.
        unfold: Show thoughts, system messages and raw answers in full.

    Raises:
        TypeError: There are no messages in `source`.
    """
    return Trace(read_run(source, clock), max_chars=max_chars, max_lines=max_lines, unfold=unfold)


class Trace:
    """A run, ready to be looked at. Made by `trace`.

    `str()` is plain text; rich, Jupyter and IPython find their own form by themselves.
    """

    def __init__(self, run: Run, *, max_chars: int, max_lines: int, unfold: bool) -> None:
        self.run = run
        self._root = Outliner(run, max_chars).render()
        self._max_lines = max_lines
        self._unfold = unfold

    def show(self, file: TextIO | None = None) -> None:
        """Print the tree: in colours where rich is installed and the terminal has them."""
        out = forgiving(file or sys.stdout)
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
        """A page that needs nothing else, written to `path` or returned; it holds no script."""
        page = render_page(self._root, unfold=self._unfold)
        if path is None:
            return page
        written = Path(path)
        written.write_text(page, encoding="utf-8")
        return written

    def to_mermaid(self) -> str:
        """A flowchart of the run, for Markdown and https://mermaid.js.org."""
        return render_mermaid(self._root)

    def __str__(self) -> str:
        return render_plain(
            self._root, width=_WIDTH, max_lines=self._max_lines, unfold=self._unfold
        )

    def __repr__(self) -> str:
        return f"<Trace: {' · '.join(self._root.facts)}>"

    def __rich__(self) -> RenderableType:
        from langchain_gemini_tools.display.terminal import render_tree

        return render_tree(self._root, max_lines=self._max_lines, unfold=self._unfold)

    def _repr_html_(self) -> str:
        return render_fragment(self._root, unfold=self._unfold)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}
