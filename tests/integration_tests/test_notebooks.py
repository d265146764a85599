"""The notebooks, run as by a user without a key or a network."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.demo import RECORDINGS, recording
from langchain_gemini_tools.testing.__main__ import audit
from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from tests.notebooks import (
    CASSETTES,
    NEEDS,
    NOTEBOOKS,
    NotebookError,
    execute,
    is_runnable,
    read,
    replay,
    replays,
    seen,
)
from tests.record_notebooks import SCRIPTS

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

every_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def notebook_of(code: str) -> str:
    """A notebook with one cell, as its file holds it."""
    empty: dict[str, Any] = {"metadata": {}, "outputs": [], "execution_count": None}
    cell = {"id": "only", "cell_type": "code", "source": code, **empty}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


ALONE = "01_first_agent"
"""This notebook is executed where it is the only file, as in Colab."""


@pytest.fixture(scope="module")
def replayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Any]]:
    """Every notebook that a selected test replays, as it comes out now."""
    names = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "replayed" in item.fixturenames
    ]
    paths = {name: NOTEBOOKS[name] for name in names if is_runnable(name)}
    if ALONE in paths:
        alone = paths[ALONE] = tmp_path_factory.mktemp("alone") / "alone.ipynb"
        alone.write_text(NOTEBOOKS[ALONE].read_text(encoding="utf-8"), encoding="utf-8")
    return replays(paths, tmp_path_factory.mktemp("jupyter"))


@every_notebook
def test_a_replay_gives_the_outputs_that_are_saved(
    name: str, replayed: dict[str, Future[Any]]
) -> None:
    if not is_runnable(name):
        pytest.skip(f"{NEEDS[name]} is not installed: `make test-distributed` does that")
    again = seen(replayed[name].result())
    for new, saved in zip(again, seen(read(NOTEBOOKS[name])), strict=True):
        assert new == saved, f"Run `python -m tests.record_notebooks {name}`."


def test_a_notebook_without_a_network_reaches_this_machine_only(
    tmp_path: Path, emulator: Emulator
) -> None:
    """What the test above relies on, and what `FakeGemini` needs."""
    path = tmp_path / "asking.ipynb"
    here = f"import httpx; httpx.get({emulator.url!r})"
    elsewhere = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    path.write_text(notebook_of(f"{here}\n{elsewhere}"))
    with pytest.raises(NotebookError, match="Network is disabled"):
        replay(path, tmp_path)
    assert len(emulator.requests) == 1
    with pytest.raises(NotebookError) as not_blocked:  # it is an address that nobody has
        execute(path, tmp_path, {})
    assert "Network is disabled" not in str(not_blocked.value)


@every_notebook
def test_the_first_cell_installs_what_is_missing(name: str) -> None:
    [installation, *_] = [cell for cell in read(NOTEBOOKS[name]).cells if cell.cell_type == "code"]
    assert installation.source == INSTALLATION
    assert installation.outputs == []


INSTALLATION = """\
from importlib.util import find_spec

if not find_spec("langchain_gemini_tools"):
    %pip install -q "langchain-gemini-tools[all]" langchain"""


def test_with_a_key_the_same_cells_talk_to_the_api(tmp_path: Path, emulator: Emulator) -> None:
    name = "01_first_agent"
    recorded = CASSETTES[name].read_text()
    emulator.reply(calls=[("get_weather", {"city": "Rome"})])
    emulator.reply("19 °C, so I was told.")
    emulator.reply("Nothing.")
    live = {"GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
    outputs = json.dumps(seen(execute(NOTEBOOKS[name], tmp_path, live)), ensure_ascii=False)
    assert "19 °C, so I was told." in outputs
    assert (len(emulator.requests), emulator.pending_replies) == (3, 0)
    assert CASSETTES[name].read_text() == recorded


def test_each_notebook_has_its_script_and_its_cassette() -> None:
    assert list(SCRIPTS) == list(CASSETTES)
    assert {*CASSETTES.values()} == {*RECORDINGS.iterdir()}
    assert audit([RECORDINGS]) == []


def test_the_error_about_an_unknown_recording_lists_the_others() -> None:
    with pytest.raises(ValueError, match=r"'first' is not a .*; use one of 01_first_agent, 02_"):
        recording("first")


@every_notebook
def test_a_notebook_says_whose_words_it_shows(name: str) -> None:
    is_of_the_emulator = True
    if name in CASSETTES:
        is_of_the_emulator = "emulator" in CASSETTES[name].read_text().split("\n", 1)[0].lower()
    introduction = read(NOTEBOOKS[name]).cells[0].source
    assert ("this project's emulator" in " ".join(introduction.split())) == is_of_the_emulator


@every_notebook
def test_saved_outputs_are_whole_and_of_no_machine(name: str) -> None:
    cells = [cell for cell in read(NOTEBOOKS[name]).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for output in (output for cell in cells for output in cell.outputs):
        assert output.output_type != "error"
        assert output.get("name") != "stderr"
        assert not re.search(r"/(?:tmp|home|root|work|usr)\b|0x[0-9a-f]{6}", json.dumps(output))
