"""Every rule is listed, with its evidence."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from langchain_gemini_tools.testing.__main__ import main
from langchain_gemini_tools.testing.fake import rules
from langchain_gemini_tools.testing.fake.refusal import Evidence
from langchain_gemini_tools.testing.fake.rules.listing import list_rules, render_rules

if TYPE_CHECKING:
    import pytest

FOLDER = Path(str(rules.__file__)).parent


def test_rules_are_listed_with_their_words_and_their_evidence() -> None:
    found = {(rule.module, rule.evidence, rule.message) for rule in list_rules()}
    assert {
        ("generation", "documented", "At most five stop sequences"),
        ("generation", "reported", "thinking_config is not supported."),
        ("json_schemas", "documented", "…: … beside $ref …"),
        ("payload", "reported", "…: Cannot find field."),
        ("schemas", "reported", "missing field."),
        ("turns", "inferred", "The last turn is a call of the model"),
    } <= found
    recorded = {rule.module for rule in list_rules() if rule.evidence == "recorded"}
    assert recorded == {"contents", "door", "interactions"}
    assert {rule.evidence for rule in list_rules()} == set(get_args(Evidence))


def test_no_module_and_no_refusal_is_left_out() -> None:
    modules = {rule.module for rule in list_rules()}
    words = {rule.message for rule in list_rules()}
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text())
        raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
        assert not raised or path.stem in modules | {"listing", "__init__"}, path.name
    assert len(words) > 80


def test_the_list_in_the_package_is_current() -> None:
    """`make figures` writes it."""
    text = (FOLDER.parent / "RULES.txt").read_text(encoding="utf-8")
    assert text == render_rules(list_rules()) + "\n"


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--rules"]) == 0
    printed = capsys.readouterr().out
    assert printed == render_rules(list_rules()) + "\n"
    assert "\n  recorded    models/… is not found for API version …" in printed
