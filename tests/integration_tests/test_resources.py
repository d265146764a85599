"""Nothing is left behind: sockets, files, threads and tasks are counted before and after.

The emulator lives in the same process, so both ends of each connection and the thread that serves
it are in the count.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools import ChatGemini, errors
from langchain_gemini_tools.testing.fake import API_KEY, faults
from tests.integration_tests.invoking import QUESTION, ask
from tests.rotation import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake import Emulator

OPEN_FILES = Path("/proc/self/fd")
pytestmark = [
    pytest.mark.usefixtures("no_pauses"),
    pytest.mark.skipif(not OPEN_FILES.exists(), reason="counts open files in /proc"),
]


ONE_CONNECTION = 2
"""The two ends of a connection that stays open for the next model with equal settings."""


class Held:
    """How many files and threads this process holds, compared with the beginning."""

    def __init__(self) -> None:
        gc.collect()
        self.at_first = self._count()

    def _count(self) -> tuple[int, int]:
        return len(os.listdir(OPEN_FILES)), threading.active_count()  # noqa: PTH208

    def beyond(self, *, allowed: int = 0) -> tuple[int, int]:
        """How many more there are now, once the other ends have noticed; (0, 0) is flat."""
        gc.collect()
        more = (0, 0)
        for _ in range(200):
            now = self._count()
            more = now[0] - self.at_first[0], now[1] - self.at_first[1]
            if more[0] <= allowed and more[1] <= allowed:
                return 0, 0
            time.sleep(0.025)
        return more


@pytest.fixture
def held(emulator: Emulator) -> Iterator[Held]:
    """Counted after a first model has loaded what is loaded once."""
    with new_model(emulator) as first:
        first.invoke(QUESTION)
        asyncio.run(ask(first, "astream"))
    del first
    gc.collect()  # what earlier tests left behind is not ours to count
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        time.sleep(0.1)
        yield Held()
        gc.collect()
    assert [str(w.message) for w in warned if w.category is ResourceWarning] == []


def new_model(emulator: Emulator, **settings: Any) -> ChatGemini:
    """A model that only the test refers to."""
    named = {"model": "gemini-3.8-flash", "api_key": API_KEY, "base_url": emulator.url}
    return ChatGemini(**named | {"max_retries": 0} | settings)


def test_models_that_are_dropped_leave_nothing_open(emulator: Emulator, held: Held) -> None:
    async def use(chat: ChatGemini) -> None:
        for way in WAYS:
            await ask(chat, way)

    for _ in range(10):
        asyncio.run(use(new_model(emulator)))
    assert len(emulator.requests) == 2 + 40
    assert held.beyond(allowed=ONE_CONNECTION) == (0, 0)
    closing = new_model(emulator)
    closing.client  # noqa: B018 - shares the connection that the others left
    closing.close()
    assert held.beyond() == (0, 0)


def test_models_that_failed_leave_nothing_open(emulator: Emulator, held: Held) -> None:
    async def fail(chat: ChatGemini) -> None:
        for way in WAYS:
            for fault in (faults.overloaded(), faults.cut_connection(), faults.html_page()):
                emulator.reply("Sunny in Oslo.", fault=fault)
                with pytest.raises(errors.GeminiAPIError):
                    await ask(chat, way)

    for _ in range(5):
        asyncio.run(fail(new_model(emulator)))
    assert held.beyond(allowed=ONE_CONNECTION) == (0, 0)


def test_streams_that_are_abandoned_leave_nothing_open(emulator: Emulator, held: Held) -> None:
    """The server is silent: who does not hang up is seen."""
    chat = new_model(emulator)
    for _ in range(10):
        emulator.reply("Sunny in Oslo.", fault=faults.stall(60, after=1))
        assert next(iter(chat.stream(QUESTION))).text
    assert held.beyond() == (0, 0)


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "forgotten"])
def test_async_streams_that_are_abandoned_leave_nothing_open(
    emulator: Emulator, held: Held, closes: bool
) -> None:
    async def abandon() -> int:
        chat = new_model(emulator)
        for _ in range(10):
            emulator.reply("Sunny in Oslo.", fault=faults.stall(60, after=1))
            stream: Any = chat.astream(QUESTION)
            async for _chunk in stream:
                break
            if closes:
                await stream.aclose()
            del stream
            await asyncio.sleep(0)
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if len(asyncio.all_tasks()) == 1:
                break
        return len(asyncio.all_tasks())

    assert asyncio.run(abandon()) == 1
    assert held.beyond() == (0, 0)


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
def test_cancelled_tasks_leave_nothing_open(emulator: Emulator, held: Held, way: str) -> None:
    async def cancel() -> int:
        chat = new_model(emulator, max_retries=2)
        await chat.ainvoke(QUESTION)
        for _ in range(10):
            emulator.reply("Sunny in Oslo.", fault=faults.slow_first_byte(60))
        before = len(emulator.requests)
        tasks = [asyncio.create_task(ask(chat, way)) for _ in range(10)]
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if len(emulator.requests) == before + 10:
                break
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}
        assert len(emulator.requests) == before + 10
        assert held.beyond(allowed=5) == (0, 0)  # the loop's own, and one connection kept
        return len(asyncio.all_tasks())

    assert asyncio.run(cancel()) == 1
    assert held.beyond() == (0, 0)


def test_loops_that_are_gone_leave_nothing_open(emulator: Emulator, held: Held) -> None:
    chat = new_model(emulator)
    for _ in range(10):
        asyncio.run(ask(chat, "ainvoke"))
        asyncio.run(ask(chat, "astream"))
    assert held.beyond() == (0, 0)


def test_loops_that_were_closed_without_an_end_are_let_go(emulator: Emulator) -> None:
    """Their sockets cannot be closed; they go when the loop is collected, with a warning."""
    chat = new_model(emulator)
    asyncio.run(ask(chat, "ainvoke"))
    held = Held()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(10):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(ask(chat, "ainvoke"))
            loop.close()
        del loop
        chat.close()
        assert held.beyond() == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_works_and_leaves_the_parents_connections_alone(
    emulator: Emulator, held: Held
) -> None:
    chat = new_model(emulator)
    chat.invoke(QUESTION)
    connected = Held()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: this process has threads
        for _ in range(3):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if chat.invoke(QUESTION).text else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
            assert chat.invoke(QUESTION).text
    assert connected.beyond() == (0, 0)
    chat.close()
    del chat
    assert held.beyond() == (0, 0)


def test_three_hundred_mixed_calls_keep_no_more_open_than_the_first_few(
    emulator: Emulator, held: Held
) -> None:
    flaws = [None, faults.overloaded(), None, faults.cut_connection(after=0), faults.gzipped()]

    async def run() -> None:
        chat = new_model(emulator, max_retries=2)
        after_some: Held | None = None
        for number in range(300):
            emulator.reply("Sunny in Oslo.", fault=flaws[number % len(flaws)])
            answer = await ask(chat, WAYS[number % len(WAYS)])
            assert answer.text
            if number == 40:
                after_some = Held()
        assert after_some is not None
        assert after_some.beyond(allowed=4) == (0, 0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
    assert held.beyond(allowed=ONE_CONNECTION) == (0, 0)


HUNDRED = [f"Question {number}?" for number in range(100)]


def test_a_hundred_threads_at_once_get_their_own_answers(emulator: Emulator, held: Held) -> None:
    chat = new_model(emulator)

    def run(number: int) -> str:
        if number % 2:
            return chat.invoke(HUNDRED[number]).text
        return "".join(chunk.text for chunk in chat.stream(HUNDRED[number]))

    with ThreadPoolExecutor(100) as threads:
        answers = list(threads.map(run, range(100)))
    assert all(map(str.__contains__, answers, HUNDRED))
    chat.close()
    assert held.beyond() == (0, 0)


def test_a_hundred_calls_of_one_loop_get_their_own_answers(emulator: Emulator, held: Held) -> None:
    async def run() -> list[str]:
        chat = new_model(emulator)

        async def one(number: int) -> str:
            if number % 2:
                return (await chat.ainvoke(HUNDRED[number])).text
            return "".join([chunk.text async for chunk in chat.astream(HUNDRED[number])])

        return await asyncio.gather(*map(one, range(100)))

    answers = asyncio.run(run())
    assert all(map(str.__contains__, answers, HUNDRED))
    assert held.beyond() == (0, 0)
