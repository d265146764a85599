"""Every Python block of the README runs, and prints what the README says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.emulator.server import API_KEY, Emulator

if TYPE_CHECKING:
    import pytest

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def test_every_block_prints_what_the_readme_shows(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)
    blocks = _BLOCK.findall(README.read_text())
    names: dict[str, Any] = {"__name__": "readme"}
    shown: list[str] = []
    printed: list[str] = []
    for number, (language, text) in enumerate(blocks):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, f"README block {number}", "exec"), names)
            if output.getvalue():
                printed.append(output.getvalue().rstrip("\n"))
        elif language == "text":
            shown.append(text.rstrip("\n"))
    assert printed == shown
    assert len(printed) == 6
    assert not emulator.refusals


def test_the_readme_stays_short() -> None:
    assert README.read_text().count("\n") < 200
