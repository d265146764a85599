"""`trace`: show a run in a terminal, a notebook, a file or a diagram.

HTML has no scripts, no links, no external fonts: `<details>` folds. All text is escaped, and the
page's content security policy forbids loading or running anything. Images are part of the page.
Without the styles, as on sites that strip them, the tree is a list of lists.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from langchain_core.tracers.context import register_configure_hook

from langchain_gemini_tools.display.callbacks import RunClock
from langchain_gemini_tools.display.outline import Outliner
from langchain_gemini_tools.display.run import TracedRun, read_run
from langchain_gemini_tools.display.safe_text import replace_unencodable
from langchain_gemini_tools.display.tree import render_mermaid, render_plain, render_tree

if TYPE_CHECKING:
    from rich.console import RenderableType

    from langchain_gemini_tools.display.outline import Node

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


_LIGHT = """
--ink:#1f2328;--soft:#667080;--line:#e3e6eb;--paper:#fff;--well:#f6f7f9;--model:#2f5fd0;
--tool:#8a3fb3;--good:#1f7a45;--bad:#c0282d;--odd:#95610a;--badwell:#fdf1f0;--oddwell:#fdf6e7;
"""
_DARK = """
--ink:#e4e7ec;--soft:#98a2b3;--line:#343b46;--paper:#15181d;--well:#1e232a;--model:#85a9ff;
--tool:#d3a0f0;--good:#72cf97;--bad:#ff8d88;--odd:#e6b75c;--badwell:#33201f;--oddwell:#30291a;
"""
_STYLE = f"""
.lgt-trace{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{.lgt-trace{{{_DARK}}}}}
[data-jp-theme-light="true"] .lgt-trace,.vscode-light .lgt-trace{{{_LIGHT}}}
[data-jp-theme-light="false"] .lgt-trace,.vscode-dark .lgt-trace{{{_DARK}}}
.lgt-trace{{color:var(--ink);background:var(--paper);font:14px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;max-width:64rem;padding:.75rem 1rem;
border:1px solid var(--line);border-radius:10px;overflow-wrap:anywhere;text-align:left}}
.lgt-trace details,.lgt-trace .row{{margin:.2rem 0}}
.lgt-trace.lgt-trace ul.in{{margin:0 0 0 .4rem;padding:0 0 0 1rem;list-style:none;
border-left:1px solid var(--line)}}
.lgt-trace.lgt-trace ul.in>li{{margin:0;padding:0}}
.lgt-trace summary,.lgt-trace .head{{display:flex;gap:0 .9rem;align-items:baseline;
position:relative;border-radius:6px}}
.lgt-trace summary{{cursor:pointer;list-style:none}}
.lgt-trace summary::-webkit-details-marker{{display:none}}
.lgt-trace summary::before{{content:"▸";color:var(--soft);width:.9rem;margin-right:-.7rem;flex:none;
font-size:11px}}
.lgt-trace details[open]>summary::before{{content:"▾"}}
.lgt-trace summary:hover{{background:var(--well)}}
.lgt-trace summary:focus-visible{{outline:2px solid var(--model)}}
.lgt-trace .what{{flex:1 1 0;min-width:0}}
.lgt-trace .label{{font-weight:600}}
.lgt-trace .said{{white-space:pre-wrap}}
.lgt-trace .facts{{color:var(--soft);font-size:12px;font-variant-numeric:tabular-nums;
text-align:right;max-width:60%}}
.lgt-trace.lgt-trace code,.lgt-trace .k-call>*>.what,.lgt-trace .k-server>*>.what>.label{{
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:12.5px;background:none;color:inherit;border:0;padding:0;margin:0}}
.lgt-trace .label{{color:inherit;margin-right:.35em}}
.lgt-trace .k-call>*>.what>.label{{margin-right:0}}
.lgt-trace.lgt-trace code.lines{{display:block;white-space:pre-wrap;background:var(--well);
border-radius:6px;padding:.4rem .6rem;margin:.15rem 0;max-height:22rem;overflow:auto}}
.lgt-trace.timed .facts{{margin-right:8rem}}
.lgt-trace .scale{{position:absolute;right:.3rem;bottom:.4rem;width:7rem;display:flex;
justify-content:space-between;color:var(--soft);font-size:10px}}
.lgt-trace .scale::before{{content:"0"}}
.lgt-trace .scale::after{{content:attr(data-end)}}
.lgt-trace img{{display:block;max-height:9rem;max-width:100%;border-radius:6px;margin:.2rem 0}}
.lgt-trace .bar{{position:absolute;right:.3rem;top:.5rem;width:7rem;height:6px;border-radius:3px;
background:var(--well);overflow:hidden}}
.lgt-trace .bar>i{{display:block;height:100%;min-width:3px;border-radius:3px;
background:var(--model)}}
.lgt-trace .k-call>*>.bar>i{{background:var(--tool)}}
.lgt-trace .k-run>summary{{font-size:15px;padding-bottom:.4rem;margin-bottom:.5rem;
border-bottom:1px solid var(--line);border-radius:0}}
.lgt-trace.lgt-trace .k-run>ul.in{{margin-left:0;padding-left:0;border:0}}
.lgt-trace .k-run>ul.in>li>*{{margin:.55rem 0}}
.lgt-trace .k-run>ul.in>li>.row>.head{{padding-left:1.1rem}}
.lgt-trace .k-turn>summary>.what>.label{{color:var(--model)}}
.lgt-trace .k-call>*>.what>.label,.lgt-trace .k-server>*>.what>.label{{color:var(--tool)}}
.lgt-trace .k-result>*>.what>.label,.lgt-trace .k-structured>*>.what>.label{{color:var(--good)}}
.lgt-trace .k-thinking,.lgt-trace .k-raw,.lgt-trace .k-source,
.lgt-trace .k-arguments>*>.what>.label{{color:var(--soft)}}
.lgt-trace .k-thinking .label,.lgt-trace .k-raw .label,.lgt-trace .k-source .label,
.lgt-trace .k-arguments .label{{font-weight:400}}
.lgt-trace .k-thinking .said{{font-style:italic}}
.lgt-trace .t-bad>.head,.lgt-trace .t-bad>.head code{{background:var(--badwell)}}
.lgt-trace .t-odd>.head{{background:var(--oddwell)}}
.lgt-trace .in .t-bad>.head,.lgt-trace .in .t-odd>.head{{padding:.1rem .6rem}}
.lgt-trace .t-bad>*>.what>.label{{color:var(--bad)}}
.lgt-trace .t-odd>*>.what>.label{{color:var(--odd)}}
@media (max-width:44rem){{.lgt-trace .bar,.lgt-trace .scale{{display:none}}
.lgt-trace.timed .facts{{margin-right:0}}}}
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_LATEST_BAR = 0.97
"""Where the last bar starts, so that its smallest width is visible."""
_CODE_KINDS = {"call", "result", "arguments", "server", "structured", "raw"}


def render_fragment(root: Node, *, unfold: bool) -> str:
    """Return the tree as a piece of HTML with its styles."""
    timed = " timed" if root.scale else ""
    tree = _render_node(root, unfold=unfold)
    return f'<style>{_STYLE}</style><div class="lgt-trace{timed}">{tree}</div>'


def render_page(root: Node, *, unfold: bool) -> str:
    """Return the tree as a self-contained HTML document."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>Run of {_escape(root.label)}</title>"
        "<style>body{margin:1.5rem auto;max-width:66rem;padding:0 1rem}</style>"
        f"</head><body>{render_fragment(root, unfold=unfold)}</body></html>\n"
    )


def _render_node(node: Node, *, unfold: bool) -> str:
    classes = f"k-{node.kind} t-{node.tone}"
    rows = [_render_node(child, unfold=unfold) for child in node.children]
    gap = "" if node.kind == "call" else " "
    what = _label(node) + (gap + _text(node) if node.text and not node.is_folded else "")
    head = f'<span class="what">{what}</span> {_facts(node)}{_bar(node)}{_scale(node)}'
    if node.is_folded:
        rows.insert(0, f'<div class="said">{_escape(node.text)}</div>')
    if node.image:
        rows.insert(0, f'<img alt="{_escape(node.text)}" src="{_escape(node.image)}">')
    if not rows:
        return f'<div class="row {classes}"><div class="head">{head}</div></div>'
    is_open = " open" if unfold or not node.is_folded else ""
    below = "\n".join(f"<li>{row}</li>" for row in rows)
    summary = f'<summary>{head}</summary>\n<ul class="in">{below}</ul>'
    return f'<details class="{classes}"{is_open}>{summary}</details>'


def _label(node: Node) -> str:
    return f'<b class="label">{node.mark}{_escape(node.label)}</b>' if node.label else ""


def _text(node: Node) -> str:
    text = _escape(node.text)
    if node.kind not in _CODE_KINDS:
        return f'<span class="said">{text}</span>'
    return f'<code class="lines">{text}</code>' if "\n" in text else f"<code>{text}</code>"


def _facts(node: Node) -> str:
    facts = [f"{node.size:,} characters"] if node.is_folded else node.facts
    return f'<span class="facts">{_escape(" · ".join(facts))}</span>' if facts else ""


def _bar(node: Node) -> str:
    if node.bar is None:
        return ""
    start, length = min(node.bar[0], _LATEST_BAR), node.bar[1]
    style = f"margin-left:{start * 100:.2f}%;width:{length * 100:.2f}%"
    return f'<span class="bar"><i style="{style}"></i></span>'


def _scale(node: Node) -> str:
    """Return the times at both ends of the bars."""
    if not node.scale:
        return ""
    return f'<span class="scale" data-end="{_escape(node.scale)}"></span>'


def _escape(text: str) -> str:
    return escape(text, quote=True)
