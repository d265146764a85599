"""Every program of the README runs as it stands there, alone and without a key."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from langchain_gemini_tools.testing import FakeGemini

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
REPOSITORY = "https://github.com/langchain-gemini-tools/langchain-gemini-tools/"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def _programs() -> Iterator[tuple[str, str]]:
    """Each program with the output that stands behind it."""
    blocks: list[tuple[str, str]] = _BLOCK.findall(README.read_text())
    for number, (language, program) in enumerate(blocks):
        if language == "python":
            following = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            yield program, following[1] if following[0] == "text" else ""


PROGRAMS = [*_programs()]


@pytest.fixture
def stopped_fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop what the programs start."""
    started: list[FakeGemini] = []
    start = FakeGemini.start

    def start_and_note(self: FakeGemini) -> FakeGemini:
        started.append(self)
        return start(self)

    monkeypatch.setattr(FakeGemini, "start", start_and_note)
    yield
    for fake in started:
        assert not fake.refusals
        fake.stop()


@pytest.mark.usefixtures("stopped_fakes")
@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=range(1, len(PROGRAMS) + 1))
def test_a_program_prints_what_the_readme_shows(program: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "README", "exec"), {"__name__": "__main__"})
    if output:
        assert printed.getvalue().rstrip("\n") == output.rstrip("\n")
    else:
        assert "2 turns, 2 calls" in printed.getvalue()


def test_the_readme_shows_the_output_of_all_programs_but_the_first() -> None:
    assert len(PROGRAMS) > 6
    assert [bool(output) for _, output in PROGRAMS] == [False] + [True] * (len(PROGRAMS) - 1)


def test_the_readme_stays_short() -> None:
    assert README.read_text().count("\n") < 320


def test_links_work_on_a_package_index() -> None:
    """There are no files beside the README there."""
    links = [first or second for first, second in _LINK.findall(README.read_text())]
    assert len(links) > 10
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(REPOSITORY):
            path = re.sub(r"^(?:blob|raw)/main/", "", link.removeprefix(REPOSITORY))
            assert (ROOT / path).exists(), link
