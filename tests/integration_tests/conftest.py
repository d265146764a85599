"""What tests of the whole model share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration_tests.play import Play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import MakeModel
    from tests.emulator import Emulator


@pytest.fixture(params=["gemini-3-flash-preview", "gemini-2.5-flash"])
def play(
    request: pytest.FixtureRequest, emulator: Emulator, make_model: MakeModel
) -> Iterator[Play]:
    """A scripted conversation with each generation of models, said to its end, nothing refused."""
    yield Play(emulator, make_model, request.param)
    assert emulator.refusals == []
    assert emulator.pending_replies == 0
