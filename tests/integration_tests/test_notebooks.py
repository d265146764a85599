"""The notebooks, run as by a user without a key or a network."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from tests.notebooks import (
    CASSETTES,
    NOTEBOOKS,
    NotebookError,
    execute,
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


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Future[Any]]:
    """Every notebook as it comes out now."""
    return replays(NOTEBOOKS.values(), tmp_path_factory.mktemp("jupyter"))


@every_notebook
def test_a_replay_gives_the_outputs_that_are_saved(
    name: str, replayed: dict[Path, Future[Any]]
) -> None:
    again = seen(replayed[NOTEBOOKS[name]].result())
    for new, saved in zip(again, seen(read(NOTEBOOKS[name])), strict=True):
        assert new == saved, f"Run `python -m tests.record_notebooks {name}`."


def test_a_notebook_without_a_network_reaches_no_host(tmp_path: Path, emulator: Emulator) -> None:
    """What the test above relies on: here is a server that a kernel could reach."""
    asking = f"import urllib.request as r; r.urlopen({emulator.url!r} + '/v1beta/models?key=1')"
    path = tmp_path / "asking.ipynb"
    path.write_text(notebook_of(asking))
    with pytest.raises(NotebookError, match="Network is disabled"):
        replay(path, tmp_path)
    assert emulator.requests == []
    with pytest.raises(NotebookError, match="HTTP Error 400"):
        execute(path, tmp_path, {})
    assert len(emulator.requests) == 1


def test_with_a_key_the_same_cells_talk_to_the_api(tmp_path: Path, emulator: Emulator) -> None:
    name = "1_first_agent"
    recorded = (CASSETTES / f"{name}.yaml").read_text()
    emulator.reply(calls=[("get_weather", {"city": "Rome"})])
    emulator.reply("19 °C, so I was told.")
    emulator.reply("Nothing.")
    live = {"GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
    outputs = json.dumps(seen(execute(NOTEBOOKS[name], tmp_path, live)), ensure_ascii=False)
    assert "19 °C, so I was told." in outputs
    assert (len(emulator.requests), emulator.pending_replies) == (3, 0)
    assert (CASSETTES / f"{name}.yaml").read_text() == recorded


def test_each_notebook_has_its_script_and_its_cassette() -> None:
    assert list(SCRIPTS) == list(NOTEBOOKS)
    assert sorted(path.stem for path in CASSETTES.iterdir()) == sorted(NOTEBOOKS)


@every_notebook
def test_a_notebook_says_whose_words_it_shows(name: str) -> None:
    with (CASSETTES / f"{name}.yaml").open(encoding="utf-8") as file:
        is_of_the_emulator = "emulator" in file.readline().lower()
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
