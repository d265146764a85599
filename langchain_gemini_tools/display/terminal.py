"""The tree for a terminal, by rich. Texts are `Text` objects, so nothing in them is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.display.plain import shown_lines, title

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from langchain_gemini_tools.display.outline import Node

_LABELS = {
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
_TONES = {"bad": "bold red", "odd": "bold yellow"}
_TEXTS = {"thinking": "dim italic", "raw": "dim", "source": "dim"}


def render_tree(root: Node, *, max_lines: int, unfold: bool) -> Tree:
    """The tree as a rich renderable."""
    from rich.tree import Tree

    tree = Tree(_render_node(root, max_lines, unfold=unfold), guide_style="dim")
    _grow(tree, root, max_lines, unfold=unfold)
    return tree


def _grow(tree: Tree, node: Node, max_lines: int, *, unfold: bool) -> None:
    for child in node.children:
        branch = tree.add(_render_node(child, max_lines, unfold=unfold))
        _grow(branch, child, max_lines, unfold=unfold)


def _render_node(node: Node, max_lines: int, *, unfold: bool) -> Text:
    from rich.text import Text

    label = title(node)
    lines = shown_lines(node, max_lines=max_lines, unfold=unfold)
    facts = " · ".join(node.facts)
    text = Text("\n".join(lines), style=_TEXTS.get(node.kind, ""), overflow="fold")
    text.stylize(_TONES.get(node.tone) or _LABELS.get(node.kind, ""), 0, len(label.rstrip()))
    if facts:
        end = len(lines[0])
        text.stylize("not bold not italic dim", end - len(facts), end)
    return text
