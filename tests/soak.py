"""`make soak`: thousands of calls with faults, hundreds at once, and what they leave open.

A model is used as a long-running service would use it: in four ways, with tools, against a server
that is overloaded, cuts connections and falls silent; streams are abandoned, tasks cancelled,
models dropped. Memory, files, threads and tasks are counted after a warm-up and at the end. The
emulator is in the same process, so both ends of each connection are in the count.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools import ChatGemini, errors
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from langchain_gemini_tools.testing.fake.answer import Memory
from tests.integration_tests.play import get_weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake.script import Fault

CALLS = int(os.environ.get("SOAK_CALLS", "5000"))
AT_ONCE = int(os.environ.get("SOAK_AT_ONCE", "500"))
QUESTION = "What is the weather in Oslo?"

FAULTS: list[Fault | None] = [
    *[None] * 8,
    faults.overloaded(),
    faults.too_many_requests(retry_seconds=0),
    faults.cut_before_headers(),
    faults.cut_connection(after=0),
    faults.html_page(),
    faults.gzipped(),
    faults.split_anywhere(50),
]


@dataclass(frozen=True)
class Held:
    """What the process has open or in memory."""

    megabytes: float
    files: int
    threads: int
    tasks: int

    @classmethod
    def now(cls, tasks: int = 0) -> Held:
        """Count once everything that is being closed has been closed."""
        for _ in range(20):
            gc.collect()
            time.sleep(0.05)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        files = len(list(Path("/proc/self/fd").iterdir()))
        return cls(megabytes, files, threading.active_count(), tasks)

    def __str__(self) -> str:
        return (
            f"{self.megabytes:.0f} MB, {self.files} files and sockets, {self.threads} threads, "
            f"{self.tasks} tasks"
        )


class Service:
    """A model in use, and a server that fails now and then."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.chat = self.new_model()
        self.bound = self.chat.bind_tools([get_weather])
        self.calls = 0
        self._dice = random.Random(7)

    def new_model(self, **settings: Any) -> ChatGemini:
        named: dict[str, Any] = {"model": "gemini-3.8-flash", "api_key": API_KEY}
        return ChatGemini(**named | {"base_url": self.emulator.url, "max_retries": 2} | settings)

    async def work(self, calls: int) -> int:
        """Make some calls one after the other, and return the number of tasks that are left."""
        for number in range(calls):
            self.forget()
            if fault := self._dice.choice(FAULTS):
                self.emulator.reply("Sunny in Oslo.", fault=fault)
            with contextlib.suppress(errors.GeminiToolsError):
                await self._one(number)
            self.calls += 1
        await self.chat.aclose()
        return len(asyncio.all_tasks()) - 1

    async def _one(self, number: int) -> None:
        match number % 10:
            case 0 | 1:
                await asyncio.to_thread(self.bound.invoke, QUESTION)
            case 2 | 3:
                await self.bound.ainvoke(QUESTION)
            case 4:
                await asyncio.to_thread(lambda: list(self.bound.stream(QUESTION)))
            case 5 | 6:
                async for _ in self.bound.astream(QUESTION):
                    pass
            case 7:
                await self._abandon()
            case 8:
                await self._cancel()
            case _:
                await self._drop(number)

    async def _abandon(self) -> None:
        stream: Any = self.bound.astream(QUESTION)
        async for _ in stream:
            break
        await stream.aclose()
        await asyncio.to_thread(lambda: next(iter(self.bound.stream(QUESTION)), None))

    async def _cancel(self) -> None:
        self.emulator.forget_replies()
        self.emulator.reply("Sunny.", fault=faults.slow_first_byte(0.2))
        task = asyncio.ensure_future(self.bound.ainvoke(QUESTION))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _drop(self, number: int) -> None:
        if number % 50 == 9:  # a client of the SDK takes its time
            await self.new_model().ainvoke(QUESTION)
        else:
            await self.bound.ainvoke(QUESTION)

    def forget(self) -> None:
        """Delete the requests and replies that the emulator keeps."""
        self.emulator.requests.clear()
        self.emulator.forget_replies()
        self.emulator.memory = Memory()

    def many_threads(self, count: int) -> int:
        """Make calls at once, one per thread; return how many got the right answer."""
        questions = [f"Question {number}?" for number in range(count)]
        with ThreadPoolExecutor(count) as threads:
            answers = list(threads.map(lambda asked: self.chat.invoke(asked).text, questions))
        self.chat.close()
        return sum(asked in answer for asked, answer in zip(questions, answers, strict=True))

    async def many_tasks(self, count: int) -> int:
        """Make calls at once in one event loop; return how many got the right answer."""
        questions = [f"Question {number}?" for number in range(count)]
        answers = await asyncio.gather(*(self.chat.ainvoke(asked) for asked in questions))
        await self.chat.aclose()
        return sum(q in answer.text for q, answer in zip(questions, answers, strict=True))


def timed(name: str, run: Callable[[], Any]) -> Any:
    """Return the result with the time that it took."""
    start = time.monotonic()
    result = run()
    print(f"{name}: {result} ({time.monotonic() - start:.1f} s)", flush=True)
    return result


def main() -> int:
    """Make all calls, print the counts, and report whether anything grew."""
    logging.disable(logging.WARNING)  # each retry is logged; here there are thousands
    # Random numbers are 0, and so are the pauses between retries, which would take minutes.
    random.setstate((3, (0,) * 624 + (624,), None))
    with Emulator() as emulator:
        service = Service(emulator)
        asyncio.run(service.work(max(CALLS // 10, 50)))
        service.many_threads(AT_ONCE)
        asyncio.run(service.many_tasks(AT_ONCE))
        service.forget()
        before = Held.now()
        print(f"after a warm-up of {service.calls + 2 * AT_ONCE} calls: {before}", flush=True)
        tasks = timed(f"{CALLS} mixed calls, tasks left", lambda: asyncio.run(service.work(CALLS)))
        threads = timed(
            f"{AT_ONCE} threads at once, right answers", lambda: service.many_threads(AT_ONCE)
        )
        loop = timed(
            f"{AT_ONCE} calls of one loop at once, right answers",
            lambda: asyncio.run(service.many_tasks(AT_ONCE)),
        )
        service.forget()
        after = Held.now(tasks)
        print(f"after {service.calls + 4 * AT_ONCE} calls: {after}", flush=True)
    is_flat = (
        after.files <= before.files + 2
        and after.threads <= before.threads
        and after.tasks == 0
        and after.megabytes < before.megabytes * 1.1 + 10
    )
    is_right = threads == loop == AT_ONCE
    print("flat" if is_flat and is_right else "NOT FLAT")
    return 0 if is_flat and is_right else 1


if __name__ == "__main__":
    sys.exit(main())
