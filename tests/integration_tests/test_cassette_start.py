"""`cassette(...).start()`: one line at the top of a notebook, whose cells run in any order."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from tests.integration_tests.taping import gemini, interactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_gemini_tools import ChatGemini

pytestmark = pytest.mark.usefixtures("own_folder")

KEY = "GOOGLE_API_KEY"


@pytest.fixture
def recorded(own_folder: Path, model: ChatGemini, emulator: Emulator) -> Iterator[list[str]]:
    """Two answers to one question, in a file of this folder."""
    with cassette("weather", record_mode="all"):
        emulator.reply("Sun.")
        emulator.reply("Rain.")
        answers = [str(model.invoke("Weather?").text) for _ in range(2)]
    yield answers
    tape = cassette("weather")
    tape.start()  # closes what a test has left open
    tape.stop()


def test_requests_are_replayed_until_it_is_stopped(recorded: list[str]) -> None:
    tape = cassette("weather", prefer_live=True)
    tape.start()
    assert [gemini().invoke("Weather?").text for _ in range(2)] == recorded
    assert tape.is_replaying
    tape.stop()
    assert KEY not in os.environ
    tape.stop()


def test_a_cell_can_run_again(recorded: list[str]) -> None:
    cassette("weather", prefer_live=True).start()
    said = [gemini().invoke("Weather?").text for _ in range(3)]
    assert said == [*recorded, recorded[-1]]


def test_the_line_can_run_again(recorded: list[str]) -> None:
    for _ in range(2):
        tape = cassette("weather", prefer_live=True)
        tape.start()
        assert gemini().invoke("Weather?").text == recorded[0]
        assert tape.is_replaying


@pytest.mark.usefixtures("recorded")
def test_with_a_key_that_was_set_since_the_line_uses_the_api(
    monkeypatch: pytest.MonkeyPatch, emulator: Emulator
) -> None:
    cassette("weather", prefer_live=True).start()
    monkeypatch.setenv(KEY, API_KEY)
    tape = cassette("weather", prefer_live=True)
    tape.start()
    emulator.reply("Snow.")
    assert gemini(base_url=emulator.url).invoke("Weather?").text == "Snow."
    assert (tape.is_replaying, os.environ[KEY]) == (False, API_KEY)


def test_what_was_recorded_is_saved_when_the_process_ends(emulator: Emulator) -> None:
    program = (
        "from langchain_gemini_tools import ChatGemini\n"
        "from langchain_gemini_tools.testing import cassette\n"
        "cassette('weather').start()\n"
        "ChatGemini(model='gemini-3.8-flash').invoke('Weather?')\n"
    )
    live = {KEY: API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **live}, check=True)
    assert len(interactions()) == 1
