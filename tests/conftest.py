"""What every test stands on: an environment without surprises, and a local Gemini."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAKS = ("GOOGLE_", "GEMINI_", "VERTEX", "LANGSMITH_", "LANGCHAIN_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_KEPT = ("GEMINI_RECORDINGS", "LANGCHAIN_TESTS_USER_AGENT")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, projects, tracing and proxies of the machine stay outside."""
    for name in list(os.environ):
        is_leak = name.upper().startswith(_LEAKS) or name.lower() in _PROXIES
        if is_leak and name not in _KEPT:
            monkeypatch.delenv(name)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A strict local Gemini, fresh for each test."""
    with Emulator() as running:
        yield running
