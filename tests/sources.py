"""The modules of the package whose facts have one place."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import langchain_gemini_tools

PACKAGE = Path(langchain_gemini_tools.__file__).parent
FAKE = {PACKAGE / "testing" / "fake", PACKAGE / "testing" / "fake_gemini.py"}
"""The fake server is a second reading of Gemini's rules, so it repeats facts on purpose."""


def modules() -> list[Path]:
    """Every module except those of the fake server."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not FAKE & {path, *path.parents}]


@functools.cache
def literals_of(path: Path) -> frozenset[str]:
    """Every string literal of a module."""
    nodes = ast.walk(ast.parse(path.read_text()))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


def modules_with(*literals: str) -> set[str]:
    """The modules that contain one of these string literals, except those of the fake server."""
    naming = [path for path in modules() if not literals_of(path).isdisjoint(literals)]
    return {path.relative_to(PACKAGE).as_posix() for path in naming}
