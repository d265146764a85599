"""The tree of a run, and its forms: plain text, terminal (with rich), HTML and mermaid.

HTML has no scripts, no links, no external fonts: `<details>` folds. All text is escaped, and the
page's content security policy forbids loading or running anything. Images are part of the page.
Without the styles, as on sites that strip them, the tree is a list of lists.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text
    from rich.tree import Tree

Tone = Literal["plain", "bad", "odd"]
"""`bad`: something failed. `odd`: something is missing or unusual."""


@dataclass
class Node:
    """One line of the tree and the lines below it.

    `label` says what it is; `text` is its content, which may have several lines. A folded node is
    collapsed at first; `size` is its number of characters. `bar` is the share of the run's time
    before it and during it. `scale` is the run's time, for the bars; `image` is a data URL.
    """

    kind: str
    label: str = ""
    text: str = ""
    facts: list[str] = field(default_factory=list)
    tone: Tone = "plain"
    is_folded: bool = False
    size: int = 0
    bar: tuple[float, float] | None = None
    scale: str = ""
    image: str = ""
    children: list[Node] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """The mark before the label, for output without colours."""
        return {"bad": "✗ ", "odd": "! "}.get(self.tone, "")


_FOLDED_CHARS = 50
"""How much of a folded text is shown."""

_LABEL_STYLES = {
    "run": "bold",
    "said": "bold cyan",
    "turn": "bold blue",
    "call": "bold magenta",
    "thinking": "dim italic",
    "server": "magenta",
    "source": "dim",
    "result": "green",
    "structured": "bold green",
    "raw": "dim",
}
_TONE_STYLES = {"bad": "bold red", "odd": "bold yellow"}
_TEXT_STYLES = {"thinking": "dim italic", "raw": "dim", "source": "dim"}

_LINE_CHARS = 76
"""What fits a terminal of 80 columns beside the branches of the tree."""

_SAFE_MARKS = set(" ,:·–→…_/()=?!'≥")
_LABEL_CHARS = 60


# Plain text


def render_plain(root: Node, *, width: int, max_lines: int, unfold: bool) -> str:
    """Return the tree as plain text with its branches, wrapped at `width`."""
    return "\n".join(_plain_lines(root, width, max_lines, unfold=unfold))


def _plain_lines(node: Node, width: int, max_lines: int, *, unfold: bool) -> Iterator[str]:
    for line in _shown_lines(node, max_lines, unfold=unfold):
        yield from textwrap.wrap(line, max(width, 40), replace_whitespace=False, tabsize=4) or [""]
    for child in node.children:
        is_last = child is node.children[-1]
        first, *others = _plain_lines(child, width - 4, max_lines, unfold=unfold)
        yield ("└── " if is_last else "├── ") + first
        yield from ((("    " if is_last else "│   ") + line).rstrip() for line in others)


def _shown_lines(node: Node, max_lines: int, *, unfold: bool) -> list[str]:
    """Return the lines of a node: label, text and facts. Long texts end with a notice."""
    text = node.text
    if node.is_folded and not unfold:
        text = _fold(text, node.size)
    lines = text.split("\n")
    if len(lines) > max_lines:
        left_out = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"… ({left_out:,} more lines)"]
    if len(lines) > 1 and node.label:
        return [*_with_facts(_title(node).rstrip(), node), *lines]
    return [*_with_facts(f"{_title(node)}{lines[0]}".rstrip(), node), *lines[1:]]


def _title(node: Node) -> str:
    """Return the label and the space between it and the text."""
    marked = f"{node.mark}{node.label}"
    return f"{marked}  " if node.label and node.text and node.kind != "call" else marked


def _with_facts(line: str, node: Node) -> list[str]:
    """Return the line with its facts, or the facts below it if both are too long for one line."""
    facts = " · ".join(node.facts)
    if not facts:
        return [line]
    joined = f"{line}  {facts}"
    return [joined] if len(joined) <= _LINE_CHARS else [line, facts]


def _fold(text: str, size: int) -> str:
    first = " ".join(text.split())
    if len(first) <= _FOLDED_CHARS:
        return first
    return f"{first[:_FOLDED_CHARS].rstrip()}… ({size:,} characters)"


# Terminal


def render_tree(root: Node, *, max_lines: int, unfold: bool) -> Tree:
    """Return the tree as a rich renderable. All text is literal, so rich finds no markup in it."""
    from rich.tree import Tree

    tree = Tree(_styled(root, max_lines, unfold=unfold), guide_style="dim")
    tree.children = [
        render_tree(child, max_lines=max_lines, unfold=unfold) for child in root.children
    ]
    return tree


def _styled(node: Node, max_lines: int, *, unfold: bool) -> Text:
    from rich.text import Text

    lines = _shown_lines(node, max_lines, unfold=unfold)
    facts = " · ".join(node.facts)
    text = Text("\n".join(lines), style=_TEXT_STYLES.get(node.kind, ""), overflow="fold")
    label_style = _TONE_STYLES.get(node.tone) or _LABEL_STYLES.get(node.kind, "")
    text.stylize(label_style, 0, len(_title(node).rstrip()))
    if facts:
        end = len(lines[0])
        if not lines[0].endswith(facts):
            end += 1 + len(facts)
        text.stylize("not bold not italic dim", end - len(facts), end)
    return text


# Mermaid


def render_mermaid(root: Node) -> str:
    """Return a mermaid flowchart of the run, from top to bottom.

    In labels, every character that is not a letter, a digit or a safe mark is written as its code,
    so that no label can end early.
    """
    lines = ["flowchart TD"]
    classes: dict[str, list[str]] = {}
    before: list[str] = []
    for number, step in enumerate(root.children):
        name = f"s{number}"
        lines.append(f"  {name}{_shape(step)}")
        lines += [f"  {earlier} --> {name}" for earlier in before]
        before = [name]
        for place, call in enumerate(child for child in step.children if child.kind == "call"):
            lines += _tool_call_lines(f"{name}c{place}", name, call)
            before = [f"{name}c{place}"] if place == 0 else [*before, f"{name}c{place}"]
            _add_class(classes, f"{name}c{place}", call)
        _add_class(classes, name, step)
    lines.append("  classDef bad stroke:#c0282d,stroke-width:2px")
    lines.append("  classDef odd stroke:#b7791f,stroke-width:2px,stroke-dasharray:4")
    lines += [f"  class {','.join(names)} {tone}" for tone, names in sorted(classes.items())]
    return "\n".join(lines) + "\n"


def _tool_call_lines(name: str, turn: str, call: Node) -> list[str]:
    label = _mermaid_label(f"{call.label}{call.text}", *map(_summary, call.children))
    facts = " · ".join(call.facts)
    arrow = f'-->|"{_mermaid_escape(facts)}"|' if facts else "-->"
    return [f'  {name}[["{label}"]]', f"  {turn} {arrow} {name}"]


def _shape(step: Node) -> str:
    if step.kind != "turn":
        label = _mermaid_label(*map(_summary, [step, *step.children]))
        return f'(["{label}"])'
    said = [child.text for child in step.children if child.kind == "text"]
    facts = " · ".join(step.facts)
    below = f"<br/>{_mermaid_escape(facts)}" if facts else ""
    return f'["{_mermaid_label(step.label, *said)}{below}"]'


def _summary(node: Node) -> str:
    return f"{node.label}: {node.text}" if node.label and node.text else node.label or node.text


def _add_class(classes: dict[str, list[str]], name: str, node: Node) -> None:
    tones = {node.tone, *(child.tone for child in node.children if child.kind != "call")}
    for tone in ("bad", "odd"):
        if tone in tones:
            classes.setdefault(tone, []).append(name)
            return


def _mermaid_label(*lines: str) -> str:
    return "<br/>".join(_mermaid_escape(_shorten(line)) for line in lines if line)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_CHARS else f"{line[:_LABEL_CHARS].rstrip()}…"


def _mermaid_escape(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _SAFE_MARKS else f"#{ord(char)};" for char in text
    )


# HTML

_LIGHT = """
--ink:#1f2328;--soft:#667080;--line:#e3e6eb;--paper:#fff;--well:#f6f7f9;--model:#2f5fd0;
--tool:#8a3fb3;--good:#1f7a45;--bad:#c0282d;--odd:#95610a;--badwell:#fdf1f0;--oddwell:#fdf6e7;
"""
_DARK = """
--ink:#e4e7ec;--soft:#98a2b3;--line:#343b46;--paper:#15181d;--well:#1e232a;--model:#85a9ff;
--tool:#d3a0f0;--good:#72cf97;--bad:#ff8d88;--odd:#e6b75c;--badwell:#33201f;--oddwell:#30291a;
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
    return f'<style>{_style()}</style><div class="lgt-trace{timed}">{tree}</div>'


@cache
def _style() -> str:
    sheet = Path(__file__).with_name("trace.css").read_text(encoding="utf-8")
    return sheet.replace("/*light*/", _LIGHT).replace("/*dark*/", _DARK)


def render_page(root: Node, *, unfold: bool) -> str:
    """Return the tree as a self-contained HTML document."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>Trace: {escape(root.label)}</title>"
        "<style>body{margin:1.5rem auto;max-width:66rem;padding:0 1rem}</style>"
        f"</head><body>{render_fragment(root, unfold=unfold)}</body></html>\n"
    )


def _render_node(node: Node, *, unfold: bool) -> str:
    classes = f"k-{node.kind} t-{node.tone}"
    rows = [_render_node(child, unfold=unfold) for child in node.children]
    gap = "" if node.kind == "call" else " "
    what = _html_label(node) + (gap + _html_text(node) if node.text and not node.is_folded else "")
    head = (
        f'<span class="what">{what}</span> {_html_facts(node)}{_html_bar(node)}{_html_scale(node)}'
    )
    if node.is_folded:
        rows.insert(0, f'<div class="said">{escape(node.text)}</div>')
    if node.image:
        rows.insert(0, f'<img alt="{escape(node.text)}" src="{escape(node.image)}">')
    if not rows:
        return f'<div class="row {classes}"><div class="head">{head}</div></div>'
    is_open = " open" if unfold or not node.is_folded else ""
    below = "\n".join(f"<li>{row}</li>" for row in rows)
    summary = f'<summary>{head}</summary>\n<ul class="in">{below}</ul>'
    return f'<details class="{classes}"{is_open}>{summary}</details>'


def _html_label(node: Node) -> str:
    return f'<b class="label">{node.mark}{escape(node.label)}</b>' if node.label else ""


def _html_text(node: Node) -> str:
    text = escape(node.text)
    if node.kind not in _CODE_KINDS:
        return f'<span class="said">{text}</span>'
    return f'<code class="lines">{text}</code>' if "\n" in text else f"<code>{text}</code>"


def _html_facts(node: Node) -> str:
    facts = [f"{node.size:,} characters"] if node.is_folded else node.facts
    return f'<span class="facts">{escape(" · ".join(facts))}</span>' if facts else ""


def _html_bar(node: Node) -> str:
    if node.bar is None:
        return ""
    start, length = min(node.bar[0], _LATEST_BAR), node.bar[1]
    style = f"margin-left:{start * 100:.2f}%;width:{length * 100:.2f}%"
    return f'<span class="bar"><i style="{style}"></i></span>'


def _html_scale(node: Node) -> str:
    """Return the times at both ends of the bars."""
    if not node.scale:
        return ""
    return f'<span class="scale" data-end="{escape(node.scale)}"></span>'
