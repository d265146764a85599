"""Models with equal settings share connections: counted by the server."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.client import sdk
from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.testing import FakeGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from tests.integration_tests.invoking import QUESTION, ask
from tests.rotation import WAYS

if TYPE_CHECKING:
    from tests.conftest import MakeModel

MODEL = "gemini-3.8-flash"


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP libraries close a connection that nothing used for five seconds."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)


@pytest.fixture
def in_worker(monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> bytes:
    """A pickled model whose key is that of the environment."""
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    return pickle.dumps(ChatGemini(model=MODEL, base_url=emulator.url))


def test_unpickled_copies_use_one_connection_one_after_the_other(
    emulator: Emulator, in_worker: bytes
) -> None:
    for _ in range(100):
        pickle.loads(in_worker).invoke(QUESTION)
    assert (len(emulator.requests), emulator.connection_count) == (100, 1)
    last = pickle.loads(in_worker)
    last.invoke(QUESTION)
    last.close()


@pytest.mark.parametrize("way", WAYS)
def test_copies_in_one_event_loop_use_one_connection(
    emulator: Emulator, in_worker: bytes, way: str
) -> None:
    async def run() -> None:
        for _ in range(10):
            await ask(pickle.loads(in_worker), way)
        await pickle.loads(in_worker).aclose()

    asyncio.run(run())
    assert (len(emulator.requests), emulator.connection_count) == (10, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"api_key": "another key, which is long"},
        {"additional_headers": {"x-team": "blue"}},
        {"client_args": {"verify": False}},
        {"timeout": 17},
    ],
    ids=lambda other: next(iter(other)),
)
def test_models_with_other_settings_have_their_own_connections(
    make_model: MakeModel, other: dict[str, Any]
) -> None:
    with Emulator(accepts_any_key=True) as server:
        for settings in ({}, other, {}, other):
            make_model(base_url=server.url, **settings).invoke(QUESTION)
        assert (len(server.requests), server.connection_count) == (4, 2)


def test_the_environment_is_part_of_what_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of both models are the same: the address comes from the environment."""
    with Emulator() as one, Emulator() as two:
        for server in (one, two, one):
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
            ChatGemini(model=MODEL, api_key=API_KEY).invoke(QUESTION)
        assert [len(server.requests) for server in (one, two)] == [2, 1]
        assert [server.connection_count for server in (one, two)] == [1, 1]


def test_the_address_of_a_fake_that_has_stopped_is_not_used_again() -> None:
    with FakeGemini() as one:
        before = ChatGemini(model=MODEL)
        before.invoke(QUESTION)
    with FakeGemini() as two:
        ChatGemini(model=MODEL).invoke(QUESTION)
        assert (len(one.requests), len(two.requests)) == (1, 1)
        with pytest.raises(GeminiToolsError, match="FakeGemini that has stopped"):
            before.invoke(QUESTION)


def test_closing_a_model_leaves_the_connections_of_the_others_open(
    emulator: Emulator, make_model: MakeModel
) -> None:
    first, second = make_model(), make_model()
    twin = first.model_copy()
    for chat in (first, second, twin):
        chat.invoke(QUESTION)
    first.close()
    first.close()
    second.close()
    twin.invoke(QUESTION)
    assert emulator.connection_count == 1
    twin.close()  # the last share
    first.invoke(QUESTION)
    assert emulator.connection_count == 2
    first.close()


def test_closing_a_model_closes_what_many_threads_opened_at_once(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat, start = make_model(), threading.Barrier(8)

    def work(_: int) -> None:
        start.wait()
        chat.invoke(QUESTION)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    chat.invoke(QUESTION)
    opened = emulator.connection_count
    assert opened <= 8
    chat.close()  # all threads had one share
    chat.invoke(QUESTION)
    assert emulator.connection_count == opened + 1


def test_a_pool_without_models_is_closed_after_a_while(
    emulator: Emulator, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "IDLE_SECONDS", 0.0)
    for _ in range(3):
        chat = ChatGemini(model=MODEL, api_key=API_KEY, base_url=emulator.url)
        chat.invoke(QUESTION)
        del chat
        gc.collect()
    assert emulator.connection_count == 3


def test_only_the_newest_pools_stay_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sdk, "MAX_IDLE_POOLS", 2)
    with Emulator(accepts_any_key=True) as server:
        for number in (1, 2, 3, 3, 2, 1):
            settings: Any = {"api_key": f"the key of tenant {number}", "base_url": server.url}
            ChatGemini(model=MODEL, **settings).invoke(QUESTION)
            gc.collect()
        assert server.connection_count == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own_connections(emulator: Emulator, in_worker: bytes) -> None:
    chat = pickle.loads(in_worker)
    chat.invoke(QUESTION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: this process has threads
        child = os.fork()
        if child == 0:
            try:
                texts = [each.invoke(QUESTION).text for each in (chat, pickle.loads(in_worker))]
                os._exit(0 if all(texts) else 1)
            finally:
                os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert emulator.connection_count == 2
    chat.invoke(QUESTION)
    assert emulator.connection_count == 2
    chat.close()
