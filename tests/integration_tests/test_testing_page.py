"""Every program of the page about tests runs as it stands there, alone and without a key."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from langchain_gemini_tools.testing import FakeGemini

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
_PROGRAM = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
PROGRAMS: list[tuple[str, str]] = _PROGRAM.findall(PAGE.read_text())


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=range(1, len(PROGRAMS) + 1))
def test_a_program_prints_what_the_page_shows(program: str, output: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "testing.md", "exec"), names)
    assert printed.getvalue() == output
    if test := names.get("test_my_agent"):
        with FakeGemini() as fake_gemini:
            test(fake_gemini)


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) == 4
