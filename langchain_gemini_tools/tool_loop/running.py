"""Carrying out one turn's calls: threads for sync tools, tasks for async ones.

Threads cannot be stopped. So they are daemons, which no interpreter waits for at its end; what they
deliver after they were abandoned goes nowhere; and `Threads` counts those that are still at it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from langchain_gemini_tools.tool_loop.toolbox import has_async_hook, runs_async, runs_sync
from langchain_gemini_tools.tool_loop.turn import Attempt, Outcome, Turn, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterator

    from langchain_core.messages import ToolCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.events import LoopEvent
    from langchain_gemini_tools.tool_loop.settings import Approver

MAX_ABANDONED = 8
"""How many threads of one tool may be left behind before it is no longer started."""

GRACE_SECONDS = 1.0
"""How long a cancelled task may take to clean up before it is left behind."""

LOOK_UP_SECONDS = 1.0
"""How long a sync run waits at a stretch. A Ctrl-C just before it is seen after it."""

_Inbox = queue.SimpleQueue[tuple[Attempt, Outcome]]

_left_behind: set[asyncio.Future[Any]] = set()


class Worker:
    """One piece of work in a daemon thread of its own, with the caller's context variables."""

    def __init__(
        self, name: str, work: Callable[[], Any], deliver: Callable[[Outcome], None]
    ) -> None:
        self._work = work
        self._deliver = deliver
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._cancel: Callable[[], Any] = lambda: None
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name=f"tool {name}", daemon=True
        )
        self.thread.start()

    def abandon(self) -> None:
        """Give up on the work: cancel it if it can be, and let its result go nowhere."""
        with self._lock:
            self._is_abandoned = True
            self._cancel()

    def _run(self) -> None:
        try:
            output = self._work()
            if inspect.iscoroutine(output):
                output = self._run_coroutine(output)
            outcome = Outcome(output)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            outcome = Outcome(error=error)
        with self._lock:
            if not self._is_abandoned:
                self._deliver(outcome)

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(coroutine)
            with self._lock:
                self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
                if self._is_abandoned:
                    task.cancel()
            try:
                return loop.run_until_complete(task)
            finally:
                with self._lock:
                    self._cancel = lambda: None


class Threads:
    """The threads of a loop: how many of each tool's were abandoned and still run."""

    def __init__(self) -> None:
        self._abandoned: defaultdict[str, list[threading.Thread]] = defaultdict(list)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Threads], tuple[()]]:
        return Threads, ()  # threads stay where they are

    def has_room(self, name: str) -> bool:
        """Whether another call of a tool may be started."""
        with self._lock:
            return len(self._alive(name)) < MAX_ABANDONED

    def abandon(self, name: str, worker: Worker) -> None:
        """Give up on a call of a tool."""
        worker.abandon()
        with self._lock:
            self._abandoned[name] = [*self._alive(name), worker.thread]

    def _alive(self, name: str) -> list[threading.Thread]:
        return [thread for thread in self._abandoned[name] if thread.is_alive()]


def run_turn(turn: Turn, threads: Threads, config: RunnableConfig) -> Iterator[LoopEvent]:
    """Carry out the calls of a turn, each in a thread, and tell what happens."""
    inbox: _Inbox = queue.SimpleQueue()
    running: dict[Attempt, Worker] = {}
    try:
        while True:
            for attempt in turn.due():
                running[attempt] = _start(attempt, turn, config, inbox)
            yield from turn.take_events()
            if turn.is_settled:
                return
            try:
                seconds = turn.seconds_to_wait()
                longest = LOOK_UP_SECONDS if seconds is None else min(seconds, LOOK_UP_SECONDS)
                attempt, outcome = inbox.get(timeout=longest)
            except queue.Empty:
                for attempt in turn.expire(running):
                    threads.abandon(attempt.tool.name, running.pop(attempt))
            else:
                running.pop(attempt, None)  # missing if it came just when its time was up
                turn.settle(attempt, outcome)
    finally:
        for attempt, worker in running.items():
            threads.abandon(attempt.tool.name, worker)
        with contextlib.suppress(queue.Empty):
            while True:
                turn.settle_late(*inbox.get_nowait())


async def arun_turn(
    turn: Turn, threads: Threads, config: RunnableConfig
) -> AsyncGenerator[LoopEvent]:
    """Carry out the calls of a turn as tasks, sync tools in threads, and tell what happens."""
    running: dict[Attempt, asyncio.Future[Outcome]] = {}
    cancelled: list[asyncio.Future[Outcome]] = []
    try:
        while True:
            for attempt in turn.due():
                running[attempt] = _astart(attempt, turn, threads, config)
            for event in turn.take_events():
                yield event
            if turn.is_settled:
                return
            await _wait(running.values(), turn.seconds_to_wait())
            done = [attempt for attempt, future in running.items() if future.done()]
            for attempt in done:
                turn.settle(attempt, _outcome(running.pop(attempt)))
            for attempt in [] if done else turn.expire(running):
                cancelled.append(running.pop(attempt))
                cancelled[-1].cancel()
                await asyncio.sleep(0)  # so that `threads` learns of it before another one is due
    finally:
        for attempt, future in running.items():
            if future.done():
                turn.settle_late(attempt, _outcome(future))
            future.cancel()
        await _let_go([*cancelled, *running.values()])


def ask(hook: Approver, call: ToolCall) -> Any:
    """What an approval hook says, asked in the caller's thread."""
    decision = hook(call)
    if not inspect.iscoroutine(decision):
        return decision
    inbox: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    worker = Worker(call["name"], lambda: decision, inbox.put)
    try:
        return _value(inbox.get())
    finally:
        worker.abandon()


async def aask(hook: Approver, call: ToolCall) -> Any:
    """What an approval hook says; one that is not async is asked in a thread."""
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
        return await cast("Awaitable[Any]", hook(call))
    # In a list, because a coroutine would be run in the thread. It belongs to this event loop.
    future, worker = _in_thread(call["name"], lambda: [hook(call)])
    try:
        decision = _value(await future)[0]
    finally:
        worker.abandon()
    return await decision if inspect.isawaitable(decision) else decision


def _start(attempt: Attempt, turn: Turn, config: RunnableConfig, inbox: _Inbox) -> Worker:
    tool, call = attempt.tool, prepare(attempt, turn.settings)
    return Worker(
        tool.name,
        lambda: _run_in_thread(tool, call, config),
        lambda outcome: inbox.put((attempt, outcome)),
    )


def _run_in_thread(tool: BaseTool, call: ToolCall, config: RunnableConfig) -> Any:
    """The result, or a coroutine that gives it, where the tool has only an async form."""
    if not runs_sync(tool):
        return tool.ainvoke(call, config)
    try:
        return tool.invoke(call, config)
    except NotImplementedError:  # how classes of tools say that `_run` is missing
        if not has_async_hook(tool):
            raise
        return tool.ainvoke(call, config)


def _astart(
    attempt: Attempt, turn: Turn, threads: Threads, config: RunnableConfig
) -> asyncio.Future[Outcome]:
    tool, call = attempt.tool, prepare(attempt, turn.settings)
    if runs_async(tool):
        return asyncio.ensure_future(_attempt(tool.ainvoke(call, config)))
    future, worker = _in_thread(tool.name, lambda: tool.invoke(call, config))
    future.add_done_callback(
        lambda ended: threads.abandon(tool.name, worker) if ended.cancelled() else None
    )
    if has_async_hook(tool):
        return asyncio.ensure_future(_or_awaited(future, tool, call, config))
    return future


async def _or_awaited(
    future: asyncio.Future[Outcome], tool: BaseTool, call: ToolCall, config: RunnableConfig
) -> Outcome:
    """What a thread gives, or the event loop where the tool turns out to have no sync form."""
    outcome = await future
    if isinstance(outcome.error, NotImplementedError):
        return await _attempt(tool.ainvoke(call, config))
    return outcome


async def _attempt(work: Coroutine[Any, Any, Any]) -> Outcome:
    try:
        return Outcome(await work)
    except Exception as error:  # noqa: BLE001 - the turn decides what it means
        return Outcome(error=error)


def _in_thread(name: str, work: Callable[[], Any]) -> tuple[asyncio.Future[Outcome], Worker]:
    """The outcome of work in a thread, for the running event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()

    def settle(outcome: Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def deliver(outcome: Outcome) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, outcome)

    return future, Worker(name, work, deliver)


async def _wait(futures: Collection[asyncio.Future[Outcome]], seconds: float | None) -> None:
    """Wait until one of them is done, or for so many seconds."""
    if futures:
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds or 0)


def _outcome(future: asyncio.Future[Outcome]) -> Outcome:
    if future.cancelled():
        return Outcome(error=asyncio.CancelledError("The tool cancelled itself."))
    error = future.exception()
    return future.result() if error is None else Outcome(error=error)


def _value(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.output


async def _let_go(futures: Collection[asyncio.Future[Outcome]]) -> None:
    """Wait for what was cancelled to clean up, but not for ever.

    Each was cancelled once: a second time would end its cleaning up.
    """
    unfinished = [future for future in futures if not future.done()]
    for future in unfinished:
        _left_behind.add(future)
        future.add_done_callback(_forget)
    if unfinished:
        await asyncio.wait(unfinished, timeout=GRACE_SECONDS)


def _forget(future: asyncio.Future[Outcome]) -> None:
    _left_behind.discard(future)
    if not future.cancelled():
        future.exception()
