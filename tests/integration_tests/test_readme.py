"""Every Python block of the README runs, and prints what the README says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments
from langchain_gemini_tools.demo import recording
from langchain_gemini_tools.testing.fake.server import API_KEY, Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_PRICE = re.compile(r"\$[\d.]+")


def _programs() -> Iterator[tuple[str, str]]:
    """Each program with the output that stands behind it."""
    blocks: list[tuple[str, str]] = _BLOCK.findall(README.read_text())
    for number, (language, program) in enumerate(blocks):
        if language == "python":
            following = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            yield program, following[1] if following[0] == "text" else ""


def _run(program: str, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "README", "exec"), names)
    return output.getvalue()


def _without_prices(text: str) -> str:
    """Prices are those of the installed table."""
    return _PRICE.sub("$N", text).rstrip("\n")


def test_every_block_prints_what_the_readme_shows(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block without a key, the others with the emulator's; a marked test passes there."""
    names: dict[str, Any] = {"__name__": "readme"}
    shown: list[str] = []
    for number, (program, output) in enumerate(_programs()):
        if number == 1:
            monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)
        shown.append(output)
        assert _without_prices(_run(program, names)) == _without_prices(output)
    assert len([output for output in shown if output]) == 7
    names["test_the_agent_asks_for_both_cities"]()
    assert not emulator.refusals


def test_the_readme_stays_short() -> None:
    assert README.read_text().count("\n") < 300


def test_every_argument_that_the_readme_names_exists() -> None:
    known = {*ChatGemini.model_fields, *ChatGeminiArguments.__annotations__}
    rows = re.search(r"\| arguments \|.*?\n\n", README.read_text(), re.DOTALL)
    assert rows is not None
    named = re.findall(r"`(\w+)`", rows[0])
    assert len(named) > 40
    assert set(named) <= known


def test_the_error_about_an_unknown_recording_lists_the_others() -> None:
    with pytest.raises(
        ValueError, match=r"'first' is not a recording .*; use one of .*first_agent"
    ):
        recording("first")
