"""The modules of the package whose facts have one place."""

from __future__ import annotations

from pathlib import Path

import langchain_gemini_tools

PACKAGE = Path(langchain_gemini_tools.__file__).parent
FAKE = {PACKAGE / "testing" / "fake", PACKAGE / "testing" / "fake_gemini.py"}
"""The fake server is a second reading of Gemini's rules, so it repeats facts on purpose."""


def modules() -> list[Path]:
    """Every module except those of the fake server."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not FAKE & {path, *path.parents}]
