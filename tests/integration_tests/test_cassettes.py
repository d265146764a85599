"""The cassettes of this repository: they replay in every way, and say what the emulator says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.__main__ import audit
from langchain_gemini_tools.testing.files import DEVELOPER_API
from tests.rotation import rotated
from tests.scenarios import FOLDER, SCENARIOS, Actor, Scenario, record, seen, stage

if TYPE_CHECKING:
    from pathlib import Path

every_scenario = pytest.mark.parametrize("found", SCENARIOS.values(), ids=SCENARIOS)


async def replayed(found: Scenario, way: str) -> Any:
    """What is seen of a scenario without key and network; every answer in the file is used."""
    async with cassette(found.path) as tape:
        actor = Actor(way)
        result = seen(await found.play(actor))
        assert (tape.is_replaying, tape.unused) == (True, [])
        for model in actor.made:
            await model.aclose()
    return result


@pytest.mark.block_network
@rotated(found=SCENARIOS, way=["sync", "async"])
async def test_every_cassette_replays_with_the_network_blocked(
    found: Scenario, way: str, library: str
) -> None:
    assert await replayed(found, way)


@every_scenario
async def test_a_replay_and_the_live_emulator_give_equal_messages(found: Scenario) -> None:
    if is_of_the_api(found.path):
        pytest.skip(f"{found.path.name} was recorded against the API, which answers differently")
    for way in ("sync", "async"):
        with stage(found, way) as actor:
            assert await replayed(found, way) == seen(await found.play(actor))


@every_scenario
def test_a_cassette_contains_what_is_sent_today(found: Scenario, tmp_path: Path) -> None:
    """Cassettes are frozen; this notices that a request has changed."""
    if is_of_the_api(found.path):
        pytest.skip(f"{found.path.name} was recorded against the API, which answers differently")
    record(found, tmp_path / "new.yaml")
    new = (tmp_path / "new.yaml").read_text()
    assert new == found.path.read_text(), f"Run `make record`: {found.name} is not what it was."


def is_of_the_api(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip() == f"recorded_against: {DEVELOPER_API}"


def test_there_is_one_file_for_each_scenario() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SCENARIOS)


def test_no_cassette_contains_a_secret_and_each_says_where_it_comes_from() -> None:
    assert audit([FOLDER.parent]) == []
