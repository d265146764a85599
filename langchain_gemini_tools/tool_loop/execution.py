"""Invoke the model, and run the tool calls of a turn: sync tools in threads, async ones in tasks.

Threads cannot be stopped. So they are daemons, which the interpreter does not wait for; the results
of abandoned threads are ignored; and `Threads` counts those that are still running.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections import defaultdict
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableBinding, RunnableWithFallbacks
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.settings import has_async_hook, runs_async, runs_sync
from langchain_gemini_tools.tool_loop.turn import Attempt, AttemptOutcome, TurnCalls, prepare

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Generator,
        Iterator,
        Mapping,
    )

    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.events import LoopEvent
    from langchain_gemini_tools.tool_loop.run import Run, ToolUse
    from langchain_gemini_tools.tool_loop.settings import Approver, ChatModel, LoopTool, Settings

    Options = Mapping[str, object]
    """Keyword arguments for the model."""
    _Coroutine = Coroutine[Any, Any, object]
    _Future = asyncio.Future[AttemptOutcome]

MAX_ABANDONED = 8
"""A tool with this many abandoned threads still running is not started again."""

GRACE_SECONDS = 1.0
"""How long the run waits for cancelled tasks to clean up."""

POLL_SECONDS = 1.0
"""The longest wait of a sync run. A Ctrl-C that arrives just before a wait is seen after it."""

_Inbox = queue.SimpleQueue[tuple[Attempt, AttemptOutcome]]

_abandoned_tasks: set[_Future] = set()


class BoundModel:
    """The model with its tools; they are bound once for each tool choice."""

    def __init__(self, model: ChatModel, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._bound: dict[ToolUse, ChatModel] = {}
        self._model_for("forced" if settings.forced_first else "auto", {})  # fail early

    def invoke(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: Options
    ) -> Iterator[events.LoopEvent]:
        """Invoke the model for the next turn and yield the events."""
        yield run.start_turn()
        model, messages = self._model_for(run.tool_use(), config), run.messages
        if not streams:
            yield from run.add_message(model.invoke(messages, config, **options))
            return
        chunks: list[BaseMessage] = []
        stream = cast("Generator[BaseMessage]", model.stream(messages, config, **options))
        with closing(stream):
            for chunk in stream:
                chunks.append(chunk)
                yield from _events_of(chunk, run)
        yield from run.add_message(_join(chunks))

    async def ainvoke(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: Options
    ) -> AsyncGenerator[events.LoopEvent]:
        """Invoke the model for the next turn and yield the events."""
        yield run.start_turn()
        model, messages = self._model_for(run.tool_use(), config), run.messages
        if not streams:
            for event in run.add_message(await model.ainvoke(messages, config, **options)):
                yield event
            return
        chunks: list[BaseMessage] = []
        stream = cast("AsyncGenerator[BaseMessage]", model.astream(messages, config, **options))
        async with aclosing(stream):
            async for chunk in stream:
                chunks.append(chunk)
                for event in _events_of(chunk, run):
                    yield event
        for event in run.add_message(_join(chunks)):
            yield event

    def _model_for(self, use: ToolUse, config: RunnableConfig) -> ChatModel:
        model = _configured(config, self._model)
        if model is not self._model:
            return self._bind(model, use)
        if use not in self._bound:
            self._bound[use] = self._bind(model, use)
        return self._bound[use]

    def _bind(self, model: ChatModel, use: ToolUse) -> ChatModel:
        forced = self._settings.forced_first
        name = forced if isinstance(forced, str) else "any"
        choices: dict[ToolUse, str | None] = {"auto": None, "off": "none", "forced": name}
        return _bind(model, self._settings.box.declared, choices[use])


def _configured(config: RunnableConfig, model: ChatModel) -> ChatModel:
    """Return the model that the config selects; tools are bound to that one."""
    if isinstance(model, DynamicRunnable):
        return model.prepare(config)[0]
    if isinstance(model, RunnableBinding):
        chosen = _configured(merge_configs(model.config, config), model.bound)
        if chosen is not model.bound:
            return chosen.bind(**model.kwargs).with_config(model.config)
    return model


def _bind(model: ChatModel, tools: list[LoopTool], choice: str | None) -> ChatModel:
    """Bind the tools and keep the options that are already bound to the model."""
    if not tools:
        return model
    if isinstance(model, RunnableBinding):
        if "tools" in model.kwargs:
            raise InvalidOptionError(
                "The model already has bound tools, which the loop cannot run. Pass the model "
                "without `bind_tools`, and pass all tools to the loop."
            )
        # `RunnableBinding.bind_tools` calls the inner model's and loses the bound options.
        bound = _bind(model.bound, tools, choice).bind(**model.kwargs)
        return bound.with_config(model.config)
    if isinstance(model, RunnableWithFallbacks):
        # Its `bind_tools` loses the fallbacks, or the options that are bound to them.
        first, *others = (_bind(each, tools, choice) for each in model.runnables)
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    if not hasattr(model, "bind_tools"):
        raise InvalidOptionError(
            f"A {type(model).__name__} has no `bind_tools`. Pass the chat model itself."
        )
    options = {} if choice is None else {"tool_choice": choice}
    return cast("ChatModel", model.bind_tools(tools, **options))


def _events_of(chunk: BaseMessage, run: Run) -> Iterator[events.LoopEvent]:
    """Yield the events of a chunk; tool calls first, because then its text is not the answer."""
    kind = "tool_call_chunks" if isinstance(chunk, AIMessageChunk) else "tool_calls"
    for call in getattr(chunk, kind, []):
        if call["name"]:
            yield run.event(events.ToolCallAnnounced, name=call["name"])
    if chunk.text:
        yield run.event(events.TextDelta, text=str(chunk.text))


def _join(chunks: list[BaseMessage]) -> BaseMessage:
    """Join chunks to one message; a model that does not stream yields a complete one."""
    first = chunks[0]
    return first + chunks[1:] if isinstance(first, AIMessageChunk) else chunks[-1]


class Worker:
    """Runs a function in a new daemon thread with the caller's context variables."""

    def __init__(
        self, name: str, work: Callable[[], object], deliver: Callable[[AttemptOutcome], None]
    ) -> None:
        self._work = work
        self._deliver = deliver
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._cancel: Callable[[], object] = lambda: None
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name=f"tool {name}", daemon=True
        )
        self.thread.start()

    def abandon(self) -> None:
        """Cancel the work if possible, and ignore its result."""
        with self._lock:
            self._is_abandoned = True
            self._cancel()

    def _run(self) -> None:
        try:
            output = self._work()
            if inspect.iscoroutine(output):
                output = self._run_coroutine(output)
            outcome = AttemptOutcome(output)
        except BaseException as error:  # noqa: BLE001 - raised where the result is used
            outcome = AttemptOutcome(error=error)
        with self._lock:
            if not self._is_abandoned:
                self._deliver(outcome)

    def _run_coroutine(self, coroutine: _Coroutine) -> object:
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
    """The abandoned threads of a loop that are still running, by tool."""

    def __init__(self) -> None:
        self._abandoned: defaultdict[str, list[threading.Thread]] = defaultdict(list)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Threads], tuple[()]]:
        return Threads, ()  # threads cannot be pickled

    def may_start(self, name: str) -> bool:
        """Return whether another call of a tool may be started."""
        with self._lock:
            return len(self._alive(name)) < MAX_ABANDONED

    def abandon(self, name: str, worker: Worker) -> None:
        """Abandon a call of a tool."""
        worker.abandon()
        with self._lock:
            self._abandoned[name] = [*self._alive(name), worker.thread]

    def _alive(self, name: str) -> list[threading.Thread]:
        return [thread for thread in self._abandoned[name] if thread.is_alive()]


def run_turn(turn: TurnCalls, threads: Threads, config: RunnableConfig) -> Iterator[LoopEvent]:
    """Run the tool calls of a turn, each in a thread, and yield the events."""
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
                longest = POLL_SECONDS if seconds is None else min(seconds, POLL_SECONDS)
                attempt, outcome = inbox.get(timeout=longest)
            except queue.Empty:
                for attempt in turn.expire(running):
                    threads.abandon(attempt.tool.name, running.pop(attempt))
            else:
                running.pop(attempt, None)  # missing if it finished just as it timed out
                turn.settle(attempt, outcome)
    finally:
        for attempt, worker in running.items():
            threads.abandon(attempt.tool.name, worker)
        with contextlib.suppress(queue.Empty):
            while True:
                turn.settle_late(*inbox.get_nowait())


async def arun_turn(
    turn: TurnCalls, threads: Threads, config: RunnableConfig
) -> AsyncGenerator[LoopEvent]:
    """Run the tool calls of a turn in tasks, sync tools in threads, and yield the events."""
    running: dict[Attempt, _Future] = {}
    cancelled: list[_Future] = []
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
                await asyncio.sleep(0)  # so that `threads` counts it before the next one starts
    finally:
        for attempt, future in running.items():
            if future.done():
                turn.settle_late(attempt, _outcome(future))
            future.cancel()
        await _wait_for_cleanup([*cancelled, *running.values()])


def decide(hook: Approver, call: ToolCall) -> object:
    """Return the decision of an approval hook, which runs in the caller's thread."""
    decision = hook(call)
    if not inspect.iscoroutine(decision):
        return decision
    inbox: queue.SimpleQueue[AttemptOutcome] = queue.SimpleQueue()
    worker = Worker(call["name"], lambda: decision, inbox.put)
    try:
        return _value(inbox.get())
    finally:
        worker.abandon()


async def adecide(hook: Approver, call: ToolCall) -> object:
    """Return the decision of an approval hook; a sync hook runs in a thread."""
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
        return await cast("Awaitable[object]", hook(call))
    # In a list, because the thread would run a coroutine, which belongs to this event loop.
    future, worker = _in_thread(call["name"], lambda: [hook(call)])
    try:
        (decision,) = cast("list[object]", _value(await future))
    finally:
        worker.abandon()
    return await decision if inspect.isawaitable(decision) else decision


def _start(attempt: Attempt, turn: TurnCalls, config: RunnableConfig, inbox: _Inbox) -> Worker:
    tool, call = attempt.tool, prepare(attempt, turn.settings)
    return Worker(
        tool.name,
        lambda: _run_in_thread(tool, call, config),
        lambda outcome: inbox.put((attempt, outcome)),
    )


def _run_in_thread(tool: BaseTool, call: ToolCall, config: RunnableConfig) -> object:
    """Return the result, or a coroutine if the tool is only async."""
    if not runs_sync(tool):
        return tool.ainvoke(call, config)
    try:
        return tool.invoke(call, config)
    except NotImplementedError:  # how tool classes without `_run` behave
        if not has_async_hook(tool):
            raise
        return tool.ainvoke(call, config)


def _astart(attempt: Attempt, turn: TurnCalls, threads: Threads, config: RunnableConfig) -> _Future:
    tool, call = attempt.tool, prepare(attempt, turn.settings)
    if runs_async(tool):
        return asyncio.ensure_future(_attempt(tool.ainvoke(call, config)))
    future, worker = _in_thread(tool.name, lambda: tool.invoke(call, config))
    future.add_done_callback(
        lambda ended: threads.abandon(tool.name, worker) if ended.cancelled() else None
    )
    if has_async_hook(tool):
        return asyncio.ensure_future(_with_async_fallback(future, tool, call, config))
    return future


async def _with_async_fallback(
    future: _Future, tool: BaseTool, call: ToolCall, config: RunnableConfig
) -> AttemptOutcome:
    """Return the thread's outcome; run the tool in the event loop if it has no sync version."""
    outcome = await future
    if isinstance(outcome.error, NotImplementedError):
        return await _attempt(tool.ainvoke(call, config))
    return outcome


async def _attempt(work: _Coroutine) -> AttemptOutcome:
    try:
        return AttemptOutcome(await work)
    except Exception as error:  # noqa: BLE001 - the turn decides what it means
        return AttemptOutcome(error=error)


def _in_thread(name: str, work: Callable[[], object]) -> tuple[_Future, Worker]:
    """Run a function in a thread and return a future of the running event loop."""
    loop = asyncio.get_running_loop()
    future: _Future = loop.create_future()

    def settle(outcome: AttemptOutcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def deliver(outcome: AttemptOutcome) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(settle, outcome)

    return future, Worker(name, work, deliver)


async def _wait(futures: Collection[_Future], seconds: float | None) -> None:
    """Wait until one of the futures is done, or until the time is over."""
    if futures:
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds or 0)


def _outcome(future: _Future) -> AttemptOutcome:
    if future.cancelled():
        return AttemptOutcome(error=asyncio.CancelledError("The tool cancelled itself."))
    error = future.exception()
    return future.result() if error is None else AttemptOutcome(error=error)


def _value(outcome: AttemptOutcome) -> object:
    if outcome.error is not None:
        raise outcome.error
    return outcome.output


async def _wait_for_cleanup(futures: Collection[_Future]) -> None:
    """Wait a limited time for cancelled futures to clean up.

    They are not cancelled again, because that would interrupt the cleanup.
    """
    unfinished = [future for future in futures if not future.done()]
    for future in unfinished:
        _abandoned_tasks.add(future)
        future.add_done_callback(_forget)
    if unfinished:
        await asyncio.wait(unfinished, timeout=GRACE_SECONDS)


def _forget(future: _Future) -> None:
    _abandoned_tasks.discard(future)
    if not future.cancelled():
        future.exception()
