"""What all tests share: a clean environment, and a local Gemini."""

from __future__ import annotations

import gc
import logging
import os
import signal
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["pytester", "tests.cases"]

_LEAKS = ("GOOGLE_", "GEMINI_", "VERTEX", "LANGSMITH_", "LANGCHAIN_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_KEPT = ("GEMINI_RECORDINGS", "GEMINI_RECORDINGS_MORE", "LANGCHAIN_TESTS_USER_AGENT")
_LONGEST = (
    "test_notebooks.py",
    "test_type_checkers.py",
    "test_batch_job.py",
    "test_mcp_servers.py",
    "test_recorded_replies.py",
    "test_users_project.py",
    "test_recorded_histories.py",
    "test_secrets.py",
    "test_fake_gemini_plugin.py",
    "test_resources.py",
    "test_standard.py",
)
"""The files that take longest. With several processes they come first: none waits for the last."""


def pytest_collection_finish() -> None:
    """Take modules and collected tests, which stay to the end, out of the garbage collection.

    There are millions of such objects; each full collection would visit them all.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first in the processes of pytest-xdist, each of which takes files."""
    if hasattr(config, "workerinput"):
        rank = {name: place for place, name in enumerate(_LONGEST)}
        items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


class MakeModel(Protocol):
    """Makes a model that talks to the emulator, with any field set otherwise."""

    def __call__(self, **overrides: Any) -> ChatGemini: ...


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, projects, tracing and proxies of the machine stay outside."""
    for name in list(os.environ):
        is_leak = name.upper().startswith(_LEAKS) or name.lower() in _PROXIES
        if is_leak and name not in _KEPT:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def every_retry_is_logged() -> Iterator[None]:
    """Users see the first retry and summaries; tests count them all."""
    log = logging.getLogger("langchain_gemini_tools.retry")
    log.setLevel(logging.DEBUG)
    yield
    log.setLevel(logging.NOTSET)


@pytest.fixture
def keyboard() -> Iterator[None]:
    """Let Ctrl-C interrupt tests and what they start; background jobs of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A strict local Gemini, fresh for each test."""
    with Emulator() as running:
        yield running


@pytest.fixture
def make_model(emulator: Emulator) -> Iterator[MakeModel]:
    """Models that talk to the emulator and try once; closed after the test."""
    made: list[ChatGemini] = []

    def make(**overrides: Any) -> ChatGemini:
        settings: dict[str, Any] = {
            "model": "gemini-3.8-flash",
            "api_key": API_KEY,
            "base_url": emulator.url,
            "max_retries": 0,
        }
        made.append(ChatGemini(**(settings | overrides)))
        return made[-1]

    yield make
    for model in made:
        model.close()


@pytest.fixture
def model(make_model: MakeModel) -> ChatGemini:
    """A Gemini 3 that talks to the emulator."""
    return make_model()
