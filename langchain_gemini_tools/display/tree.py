"""The tree of a run as plain text, for a terminal (with rich), and as a mermaid flowchart."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text
    from rich.tree import Tree

    from langchain_gemini_tools.display.outline import Node

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
    lines = _shown_lines(root, max_lines=max_lines, unfold=unfold)
    head = _wrap(lines, width)
    return "\n".join([*head, *_branches(root, width, max_lines, unfold)])


def _shown_lines(node: Node, *, max_lines: int, unfold: bool) -> list[str]:
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


def _branches(node: Node, width: int, max_lines: int, unfold: bool) -> Iterator[str]:  # noqa: FBT001
    for child in node.children:
        is_last = child is node.children[-1]
        lines = _wrap(_shown_lines(child, max_lines=max_lines, unfold=unfold), width - 4)
        side = "    " if is_last else "│   "
        yield ("└── " if is_last else "├── ") + lines[0]
        yield from ((side + line).rstrip() for line in lines[1:])
        yield from (
            (side + line).rstrip() for line in _branches(child, width - 4, max_lines, unfold)
        )


def _wrap(lines: list[str], width: int) -> list[str]:
    return [
        piece
        for line in lines
        for piece in textwrap.wrap(
            line, max(width, 40), replace_whitespace=False, drop_whitespace=True, tabsize=4
        )
        or [""]
    ]


# Terminal


def render_tree(root: Node, *, max_lines: int, unfold: bool) -> Tree:
    """Return the tree as a rich renderable. All text is literal, so rich finds no markup in it."""
    from rich.tree import Tree

    tree = Tree(_styled(root, max_lines, unfold=unfold), guide_style="dim")
    _add_children(tree, root, max_lines, unfold=unfold)
    return tree


def _add_children(tree: Tree, node: Node, max_lines: int, *, unfold: bool) -> None:
    for child in node.children:
        branch = tree.add(_styled(child, max_lines, unfold=unfold))
        _add_children(branch, child, max_lines, unfold=unfold)


def _styled(node: Node, max_lines: int, *, unfold: bool) -> Text:
    from rich.text import Text

    label = _title(node)
    lines = _shown_lines(node, max_lines=max_lines, unfold=unfold)
    facts = " · ".join(node.facts)
    text = Text("\n".join(lines), style=_TEXT_STYLES.get(node.kind, ""), overflow="fold")
    text.stylize(
        _TONE_STYLES.get(node.tone) or _LABEL_STYLES.get(node.kind, ""), 0, len(label.rstrip())
    )
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
    label = _label(f"{call.label}{call.text}", *(_summary(child) for child in call.children))
    facts = " · ".join(call.facts)
    arrow = f'-->|"{_escape(facts)}"|' if facts else "-->"
    return [f'  {name}[["{label}"]]', f"  {turn} {arrow} {name}"]


def _shape(step: Node) -> str:
    if step.kind != "turn":
        return f'(["{_label(_summary(step), *(_summary(child) for child in step.children))}"])'
    said = [child.text for child in step.children if child.kind == "text"]
    facts = " · ".join(step.facts)
    below = f"<br/>{_escape(facts)}" if facts else ""
    return f'["{_label(step.label, *said)}{below}"]'


def _summary(node: Node) -> str:
    return f"{node.label}: {node.text}" if node.label and node.text else node.label or node.text


def _add_class(classes: dict[str, list[str]], name: str, node: Node) -> None:
    tones = {node.tone, *(child.tone for child in node.children if child.kind != "call")}
    for tone in ("bad", "odd"):
        if tone in tones:
            classes.setdefault(tone, []).append(name)
            return


def _label(*lines: str) -> str:
    return "<br/>".join(_escape(_shorten(line)) for line in lines if line)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_CHARS else f"{line[:_LABEL_CHARS].rstrip()}…"


def _escape(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _SAFE_MARKS else f"#{ord(char)};" for char in text
    )
