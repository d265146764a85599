"""The answers in `tests/data/written_calls`: calls that were written as text, and other answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from langchain_gemini_tools.prompted.written_calls import WrittenCallFinder
from tests.unit_tests.prompted.corpus import read_book

FOLDER = Path(__file__).parents[2] / "data" / "written_calls"


def _load(name: str) -> list[Any]:
    book = read_book(FOLDER / f"{name}.yaml")
    return [
        pytest.param(entry | {"tools": book["tools"]}, id=entry["id"]) for entry in book["answers"]
    ]


each_call = pytest.mark.parametrize("entry", _load("calls"))
each_answer = pytest.mark.parametrize("entry", _load("answers"))


def held_texts(entry: dict[str, Any], step: int) -> list[bool]:
    """Whether the text is held back after each piece of the answer."""
    gate, text = WrittenCallFinder(entry["tools"]).gate(), entry["answer"]
    return [gate.holds(text[start : start + step]) for start in range(0, len(text), step)]


@each_call
def test_a_written_call_is_found(entry: dict[str, Any]) -> None:
    found = WrittenCallFinder(entry["tools"]).find(entry["answer"])
    assert [call.name for call in found] == entry["names"]
    assert all(call.text in entry["answer"] for call in found)


@each_answer
def test_an_answer_is_not_taken_for_a_call(entry: dict[str, Any]) -> None:
    assert WrittenCallFinder(entry["tools"]).find(entry["answer"]) == []


@pytest.mark.parametrize("step", [1, 7, 1000])
@each_call
def test_a_stream_holds_a_written_call_back(entry: dict[str, Any], step: int) -> None:
    held = held_texts(entry, step)
    assert held[-1]
    if not entry.get("streams"):
        assert all(held)


def test_a_stream_holds_only_the_start_of_a_line_back() -> None:
    gate = WrittenCallFinder(["get_weather"]).gate()
    pieces = [
        "I",
        " see.",
        "\n",
        "p",
        "eople",
        " print(default_api",
        ".\n",
        "```",
        "python\n",
        "x = 1",
    ]
    assert [gate.holds(piece) for piece in pieces] == [
        *(False, False, False, True, False, False, False, True, True, False),
    ]


@pytest.mark.parametrize("step", [1, 7])
@each_answer
def test_prose_and_code_stream_on(entry: dict[str, Any], step: int) -> None:
    """Only an answer that contains the notation itself waits for its end."""
    if not any(sign in entry["answer"] for sign in ("default_api", "tool_code", "{", "[")):
        held = held_texts(entry, step)
        assert sum(held) < 20 / step + 1


def test_an_ordinary_answer_does_not_load_the_parser() -> None:
    script = (
        "import sys\n"
        "from langchain_gemini_tools import ChatGemini\n"
        "from langchain_gemini_tools.prompted.written_calls import WrittenCallFinder\n"
        "calls = WrittenCallFinder(['get_weather'])\n"
        "assert calls.find('It is **sunny**.\\n\\n```python\\nx = 1\\n```') == []\n"
        "assert not calls.gate().holds('It is sunny.')\n"
        "print([name for name in sys.modules if 'prompted.parser' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
