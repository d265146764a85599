"""The tree as mermaid text: a flow from what was asked, through calls, to the answer.

Every label is quoted, and in it every character that is not a plain letter, digit or harmless mark
is written by its number, so that no label can end itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_gemini_tools.display.outline import Node

_HARMLESS = set(" ,:·–→…_/()=?!'≥")
_LABEL_CHARS = 60


def render_mermaid(root: Node) -> str:
    """A flowchart of the run, top to bottom."""
    lines = ["flowchart TD"]
    classes: dict[str, list[str]] = {}
    before: list[str] = []
    for number, step in enumerate(root.children):
        name = f"s{number}"
        lines.append(f"  {name}{_shape(step)}")
        lines += [f"  {earlier} --> {name}" for earlier in before]
        before = [name]
        for place, call in enumerate(child for child in step.children if child.kind == "call"):
            lines += _call_lines(f"{name}c{place}", name, call)
            before = [f"{name}c{place}"] if place == 0 else [*before, f"{name}c{place}"]
            _mark(classes, f"{name}c{place}", call)
        _mark(classes, name, step)
    lines.append("  classDef bad stroke:#c0282d,stroke-width:2px")
    lines.append("  classDef odd stroke:#b7791f,stroke-width:2px,stroke-dasharray:4")
    lines += [f"  class {','.join(names)} {tone}" for tone, names in sorted(classes.items())]
    return "\n".join(lines) + "\n"


def _call_lines(name: str, turn: str, call: Node) -> list[str]:
    label = _label(f"{call.label}{call.text}", *(_summary(child) for child in call.children))
    facts = " · ".join(fact for fact in call.facts if not fact.startswith("–"))
    arrow = f'-->|"{_escape(facts)}"|' if facts else "-->"
    return [f'  {name}[["{label}"]]', f"  {turn} {arrow} {name}"]


def _shape(step: Node) -> str:
    if step.kind != "turn":
        return f'(["{_label(_summary(step), *(_summary(child) for child in step.children))}"])'
    said = [child.text for child in step.children if child.kind == "text"]
    facts = " · ".join(fact for fact in step.facts if not fact.startswith("–"))
    return f'["{_label(step.label, *said)}<br/>{_escape(facts)}"]'


def _summary(node: Node) -> str:
    return f"{node.label}: {node.text}" if node.label and node.text else node.label or node.text


def _mark(classes: dict[str, list[str]], name: str, node: Node) -> None:
    tones = {node.tone, *(child.tone for child in node.children if child.kind != "call")}
    for tone in ("bad", "odd"):
        if tone in tones:
            classes.setdefault(tone, []).append(name)
            return


def _label(*lines: str) -> str:
    return "<br/>".join(_escape(_cut(line)) for line in lines if line)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_CHARS else f"{line[:_LABEL_CHARS].rstrip()}…"


def _escape(text: str) -> str:
    return "".join(
        char if char.isalnum() or char in _HARMLESS else f"#{ord(char)};" for char in text
    )
