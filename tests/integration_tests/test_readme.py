"""Every Python block of the README and of the page about tests runs, and prints what is shown."""

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
from langchain_gemini_tools.testing import FakeGemini

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[2] / "README.md"
HOW_TO_TEST = README.parent / "docs" / "how-to" / "testing.md"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_PRICE = re.compile(r"\$[\d.]+")


def _programs(page: Path) -> Iterator[tuple[str, str]]:
    """Each program with the output that stands behind it."""
    blocks: list[tuple[str, str]] = _BLOCK.findall(page.read_text())
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


PROGRAMS = [
    pytest.param(program, output, id=f"{page.stem}-{number}")
    for page in (README, HOW_TO_TEST)
    for number, (program, output) in enumerate(_programs(page))
]


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_every_block_runs_alone_without_a_key_and_prints_what_the_page_shows(
    program: str, output: str
) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    try:
        assert _without_prices(_run(program, names)) == _without_prices(output)
        if test := names.get("test_the_agent_asks_for_both_cities"):
            with FakeGemini():
                test()
        if test := names.get("test_my_agent"):
            with FakeGemini() as fake:
                test(fake)
        gemini = names.get("gemini")
        assert gemini is None or gemini.refusals == []
    finally:
        if "FakeGemini().start()" in program:
            names["gemini"].stop()


def test_most_blocks_show_what_they_print() -> None:
    assert len([output for _, output in _programs(README) if output]) == 8


def test_the_readme_stays_short() -> None:
    assert README.read_text().count("\n") < 420


def test_every_argument_that_the_readme_names_exists() -> None:
    known = {*ChatGemini.model_fields, *ChatGeminiArguments.__annotations__}
    rows = re.search(r"\| arguments \|.*?\n\n", README.read_text(), re.DOTALL)
    assert rows is not None
    named = re.findall(r"`(\w+)`", rows[0])
    assert len(named) > 40
    assert set(named) <= known


def test_the_error_about_an_unknown_recording_lists_the_others() -> None:
    with pytest.raises(
        ValueError, match=r"'first' is not a recording .*; use one of first_agent, packing"
    ):
        recording("first")
