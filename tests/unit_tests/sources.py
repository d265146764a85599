"""The files of the package, for tests that each fact is in one place."""

from __future__ import annotations

from pathlib import Path

import langchain_gemini_tools

PACKAGE = Path(langchain_gemini_tools.__file__).parent


def product_modules() -> list[Path]:
    """Every module but those of the fake server, which reads the facts a second time on purpose."""
    server = PACKAGE / "testing" / "fake"
    return [path for path in sorted(PACKAGE.rglob("*.py")) if server not in path.parents]
