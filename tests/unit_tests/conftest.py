"""Unit tests open no sockets; what needs the emulator is an integration test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_socket

from tests.properties import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

load_profile()


@pytest.fixture(autouse=True)
def no_sockets() -> Iterator[None]:
    """Refuse every socket but the pair that an event loop wakes itself with."""
    pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()
