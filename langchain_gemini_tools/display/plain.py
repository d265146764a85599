"""The tree as plain text: for files, logs, and where rich is not installed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.display.outline import Node

FOLDED_CHARS = 50
"""What is shown of a folded text: enough to know what one would open."""


def render_plain(root: Node, *, width: int, max_lines: int, unfold: bool) -> str:
    """The tree with its branches drawn, lines wrapped at `width`."""
    lines = shown_lines(root, max_lines=max_lines, unfold=unfold)
    head = _wrap(lines, width)
    return "\n".join([*head, *_branches(root, width, max_lines, unfold)])


def shown_lines(node: Node, *, max_lines: int, unfold: bool) -> list[str]:
    """A node's own lines: label, text and facts; long texts end in a note of what is left out."""
    text = node.text
    if node.is_folded and not unfold:
        text = _fold(text, node.size)
    lines = text.split("\n")
    if len(lines) > max_lines:
        left_out = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"… ({left_out:,} more lines)"]
    if len(lines) > 1 and node.label:
        return [f"{title(node)}{_facts(node)}".rstrip(), *lines]
    return [f"{title(node)}{lines[0]}{_facts(node)}".rstrip(), *lines[1:]]


def title(node: Node) -> str:
    """The label, and what stands between it and the text."""
    marked = f"{node.mark}{node.label}"
    return f"{marked}  " if node.label and node.text and node.kind != "call" else marked


def _facts(node: Node) -> str:
    return "  " + " · ".join(node.facts) if node.facts else ""


def _fold(text: str, size: int) -> str:
    first = " ".join(text.split())
    if len(first) <= FOLDED_CHARS:
        return first
    return f"{first[:FOLDED_CHARS].rstrip()}… ({size:,} characters)"


def _branches(node: Node, width: int, max_lines: int, unfold: bool) -> Iterator[str]:  # noqa: FBT001
    for child in node.children:
        is_last = child is node.children[-1]
        lines = _wrap(shown_lines(child, max_lines=max_lines, unfold=unfold), width - 4)
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
