"""What the real API rejects, rejected with its messages. A request in, a `Refusal` out.

`payload` reads JSON against the protos. Each other module checks one aspect of a request
that was read. A rule whose message is not known refuses with "Request contains an invalid argument"
and says in `Refusal.why` what is wrong. Where a documented rule contradicts a recorded exchange,
the recording wins, and a comment says so. `list_rules` reads all rules with their evidence from
the source, so that none is left out.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from langchain_gemini_tools.testing.fake.answer import Foreign, Memory
from langchain_gemini_tools.testing.fake.responses import Evidence, Refusal
from langchain_gemini_tools.testing.fake.rules.contents import check_contents, check_turns
from langchain_gemini_tools.testing.fake.rules.declarations import check_declarations
from langchain_gemini_tools.testing.fake.rules.generation import (
    check_generation,
    check_tool_config,
    check_tools,
)
from langchain_gemini_tools.testing.fake.rules.signatures import (
    check_continuation,
    check_signatures,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask


__all__ = ["check"]


def check(
    ask: Ask,
    memory: Memory | None = None,
    *,
    accepts_foreign: Foreign = False,
    judge: Callable[[Refusal], None] | None = None,
) -> None:
    """Refuse what Gemini would refuse.

    Args:
        ask: The request, read.
        memory: What this emulator has sent so far; signatures are compared with it.
        accepts_foreign: Accept signatures that the memory does not know, as for recorded requests;
            or a function that decides.
        judge: Called with each refusal; raises it, or lets the broken rule pass. None raises all.

    Raises:
        Refusal: A rule is broken; the first one is raised.
    """
    sent = memory or Memory()
    checks: list[Callable[[], None]] = [
        lambda: check_continuation(ask, sent),
        lambda: check_contents(ask),
        lambda: check_generation(ask),
        lambda: check_declarations(ask),
        lambda: check_tools(ask),
        lambda: check_tool_config(ask),
        lambda: check_turns(ask),
        lambda: check_signatures(ask, sent, accepts_foreign=accepts_foreign),
    ]
    run_checks(checks, judge)


def run_checks(
    checks: Iterable[Callable[[], None]], judge: Callable[[Refusal], None] | None
) -> None:
    """Run checks in order; `judge` decides about the refusals."""
    for one in checks:
        try:
            one()
        except Refusal as refusal:
            if judge is None:
                raise
            judge(refusal)


_FOLDER = Path(__file__).parent
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
    """One thing that is refused."""

    module: str
    line: int
    message: str
    """The message of the API, with `…` for what varies; ours if it only says "invalid argument"."""
    evidence: Evidence


def list_rules() -> list[Rule]:
    """Every rule, by module and place."""
    paths = sorted(path for path in _FOLDER.glob("*.py") if path != Path(__file__))
    found = [rule for path in paths for rule in _rules_in(path)]
    unique = {(rule.module, rule.message, rule.evidence): rule for rule in reversed(found)}
    return sorted(unique.values(), key=lambda rule: (rule.module, rule.line))


def render_rules(rules: Iterable[Rule]) -> str:
    """The rules as text, one line each, under their modules."""
    lines = ["What FakeGemini refuses, and how we know that Gemini does:", ""]
    lines += [f"  {name:<11} {_EXPLANATIONS[name]}" for name in get_args(Evidence)]
    module = ""
    for rule in rules:
        if rule.module != module:
            module = rule.module
            lines += ["", f"{module}: {_purpose(module)}"]
        lines.append(f"  {rule.evidence:<11} {rule.message}")
    return "\n".join(lines)


def _purpose(module: str) -> str:
    docstring = ast.get_docstring(ast.parse((_FOLDER / f"{module}.py").read_text("utf-8"))) or ""
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
    """The message and the evidence of a refusal: a call, or a problem that is yielded."""
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
