"""What tests of the whole model share."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.integration_tests.play import Play
from tests.rotation import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel


@pytest.fixture(params=["gemini-3.8-flash", "gemini-2.5-flash"])
def play(
    request: pytest.FixtureRequest, emulator: Emulator, make_model: MakeModel
) -> Iterator[Play]:
    """A scripted conversation for each generation of models; no request may be refused."""
    yield Play(emulator, make_model, request.param)
    assert emulator.refusals == []
    assert emulator.pending_replies == 0


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each HTTP library that is installed; with aiohttp beside it, which must change nothing."""
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", request.param)
    return str(request.param)


@pytest.fixture
def no_pauses() -> Iterator[None]:
    """Random numbers are 0, and so the pauses between retries: nothing of ours is replaced."""
    before = random.getstate()
    random.setstate((3, (0,) * 624 + (624,), None))
    assert random.random() == 0
    yield
    random.setstate(before)


@pytest.fixture
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits before a retry, or before it asks for a job again."""
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "off")


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
