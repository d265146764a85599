"""Lists what `FakeGemini` refuses, read from the source of its rules, so that none is left out.

`python -m tests.fake_rules` prints what is in `RULES.txt`; `make figures` writes it there.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from langchain_gemini_tools.testing.fake import rules
from langchain_gemini_tools.testing.fake.responses import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path(str(rules.__file__)).parent
_MESSAGE_PLACES = {"Refusal": 0, "invalid": 0, "documented": 0, "_refuse": -1, "_corrupted": -1}
"""The functions that refuse, and which of their arguments is the message."""
_EXPLANATIONS = {
    "recorded": "recorded traffic has such a refusal",
    "documented": "Google's documents state the rule",
    "reported": "users of the API quote the message",
    "inferred": "it follows from the other three; `strict=False` only warns",
}


@dataclass(frozen=True)
class Rule:
    """A kind of request that is refused."""

    module: str
    line: int
    message: str
    """The message of the API, with `…` for what varies; ours if it only says "invalid argument"."""
    evidence: Evidence


def list_rules() -> list[Rule]:
    """Return every rule, in the order of modules and lines."""
    paths = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")
    found = [rule for path in paths for rule in _rules_in(path)]
    unique = {(rule.module, rule.message, rule.evidence): rule for rule in reversed(found)}
    return sorted(unique.values(), key=lambda rule: (rule.module, rule.line))


def render_rules(found: Iterable[Rule]) -> str:
    """Return the rules as text, one line each, under their modules."""
    lines = ["What FakeGemini refuses, and how we know that Gemini does:", ""]
    lines += [f"  {name:<11} {_EXPLANATIONS[name]}" for name in get_args(Evidence)]
    module = ""
    for rule in found:
        if rule.module != module:
            module = rule.module
            lines += ["", f"{module}: {_purpose(module)}"]
        lines.append(f"  {rule.evidence:<11} {rule.message}")
    return "\n".join(lines)


def _purpose(module: str) -> str:
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def _rules_in(path: Path) -> Iterator[Rule]:
    tree = ast.parse(path.read_text("utf-8"))
    texts = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if not (found := _statement(node)):
            continue
        message, evidence = found
        words = _words(texts.get(message.id, message) if isinstance(message, ast.Name) else message)
        if re.search(r"\w{3}", words):
            yield Rule(path.stem, node.lineno, words, evidence)  # type: ignore[attr-defined]


def _statement(node: ast.AST) -> tuple[ast.expr, Evidence] | None:
    """Return the message and the evidence of a refusal: a call, or a problem that is yielded."""
    match node:
        case ast.Yield(value=ast.Tuple(elts=[_, message])):
            return message, "reported"
        case ast.Call(func=ast.Name(id="invalid_request"), args=[ast.Tuple(elts=[_, message])]):
            return message, "reported"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *_]) if (
            name in _MESSAGE_PLACES
        ):
            stated = {each.arg: each.value for each in node.keywords}
            usual = {"invalid": "inferred", "documented": "documented"}.get(name, "reported")
            evidence: Any = ast.literal_eval(stated["evidence"]) if "evidence" in stated else usual
            return node.args[_MESSAGE_PLACES[name]], evidence
    return None


def _words(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return " ".join(text.split())
        case ast.JoinedStr(values=values):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in values]
            return " ".join("".join(map(str, parts)).split())
        case ast.BinOp(left=left, right=right):
            return f"{_words(left)} {_words(right)}".strip()
    return ""


if __name__ == "__main__":
    sys.stdout.write(render_rules(list_rules()) + "\n")
