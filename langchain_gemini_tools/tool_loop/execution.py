"""Invoke the model, and run the tool calls of a turn: sync tools in threads, async ones in tasks.

Threads cannot be stopped. So they are daemons, which the interpreter does not wait for; the results
of abandoned threads are ignored; and `Threads` counts those that are still running.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import threading
import time
from collections import defaultdict
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import Runnable, RunnableBinding, RunnableWithFallbacks
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.toolbox import has_async_hook, runs_async, runs_sync
from langchain_gemini_tools.tool_loop.turn import Raised, ToolFuture, copy_call

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Generator,
        Mapping,
    )

    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.events import Approver
    from langchain_gemini_tools.tool_loop.run import Run, Settings
    from langchain_gemini_tools.tool_loop.toolbox import LoopTool
    from langchain_gemini_tools.tool_loop.turn import TurnCalls

    Options = Mapping[str, object]
    """Keyword arguments for the model."""
    ThreadFuture = concurrent.futures.Future[Any]

ChatModel = Runnable[Any, Any]
"""A chat model, or a binding or fallbacks of chat models."""

MAX_ABANDONED = 8
"""A tool with this many abandoned threads still running is not started again."""

GRACE_SECONDS = 1.0
"""How long the run waits for cancelled tasks to clean up."""

POLL_SECONDS = 1.0
"""The longest wait of a sync run. A Ctrl-C that arrives just before a wait is seen after it."""

_abandoned_tasks: set[asyncio.Future[Any]] = set()


class BoundModel:
    """The model with its tools; they are bound once for each tool choice."""

    def __init__(self, model: ChatModel, settings: Settings) -> None:
        self._model = model
        self._tools = settings.box.declared
        self._bound: dict[str | None, ChatModel] = {}
        self._model_for(settings.first_choice, {})  # fail early

    def invoke(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: Options
    ) -> Generator[None]:
        """Invoke the model for the next turn; yield when there are new events."""
        run.start_turn()
        yield
        model, messages = self._model_for(run.tool_choice(), config), run.messages
        if streams:
            chunks: list[BaseMessage] = []
            stream = cast("Generator[BaseMessage]", model.stream(messages, config, **options))
            with closing(stream):
                for chunk in stream:
                    chunks.append(chunk)
                    _emit_events(chunk, run)
                    yield
            run.add_message(_join(chunks))
        else:
            run.add_message(model.invoke(messages, config, **options))
        yield

    async def ainvoke(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: Options
    ) -> AsyncGenerator[None]:
        """Invoke the model for the next turn; yield when there are new events."""
        run.start_turn()
        yield
        model, messages = self._model_for(run.tool_choice(), config), run.messages
        if streams:
            chunks: list[BaseMessage] = []
            stream = cast("AsyncGenerator[BaseMessage]", model.astream(messages, config, **options))
            async with aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    _emit_events(chunk, run)
                    yield
            run.add_message(_join(chunks))
        else:
            run.add_message(await model.ainvoke(messages, config, **options))
        yield

    def _model_for(self, choice: str | None, config: RunnableConfig) -> ChatModel:
        model = _configured(config, self._model)
        if model is not self._model:
            return _bind(model, self._tools, choice)
        if choice not in self._bound:
            self._bound[choice] = _bind(model, self._tools, choice)
        return self._bound[choice]


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
            f"An object of type {type(model).__name__} has no `bind_tools`. Pass the chat model "
            "itself."
        )
    options = {} if choice is None else {"tool_choice": choice}
    return cast("ChatModel", model.bind_tools(tools, **options))


def _emit_events(chunk: BaseMessage, run: Run) -> None:
    """Emit the events of a chunk; tool calls first, because then its text is not the answer."""
    kind = "tool_call_chunks" if isinstance(chunk, AIMessageChunk) else "tool_calls"
    for call in getattr(chunk, kind, []):
        if call["name"]:
            run.emit(run.event(events.ToolCallAnnounced, name=call["name"]))
    if chunk.text:
        run.emit(run.event(events.TextDelta, text=str(chunk.text)))


def _join(chunks: list[BaseMessage]) -> BaseMessage:
    """Join chunks to one message; a model that does not stream yields a complete one."""
    first = chunks[0]
    return first + chunks[1:] if isinstance(first, AIMessageChunk) else chunks[-1]


class Threads:
    """Runs tools in threads, and counts the abandoned ones that are still running, by tool."""

    def __init__(self) -> None:
        self._abandoned: defaultdict[str, list[threading.Thread]] = defaultdict(list)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Threads], tuple[()]]:
        return Threads, ()  # threads cannot be pickled

    def start(self, name: str, work: Callable[[], object]) -> ThreadFuture | None:
        """Run a tool in a thread; return None if too many threads of this tool are abandoned."""
        with self._lock:
            alive = [thread for thread in self._abandoned[name] if thread.is_alive()]
            self._abandoned[name] = alive
        if len(alive) >= MAX_ABANDONED:
            return None
        future, thread = run_in_thread(name, work)

        def count(ended: ThreadFuture) -> None:
            with self._lock:
                if ended.cancelled():
                    self._abandoned[name].append(thread)

        future.add_done_callback(count)
        return future


def run_in_thread(name: str, work: Callable[[], object]) -> tuple[ThreadFuture, threading.Thread]:
    """Run a function in a new daemon thread with the caller's context variables.

    The result of a cancelled future is ignored. A coroutine runs in an event loop of the thread,
    and is cancelled with the future.
    """
    future: ThreadFuture = concurrent.futures.Future()

    def run() -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # it was cancelled
            try:
                output = work()
                if inspect.iscoroutine(output):
                    output = _run_coroutine(output, future)
            except BaseException as error:  # noqa: BLE001 - raised where the result is used
                future.set_exception(error)
            else:
                future.set_result(output)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"tool {name}", daemon=True)
    thread.start()
    return future, thread


def _run_coroutine(coroutine: Coroutine[Any, Any, object], future: ThreadFuture) -> object:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(coroutine)

        def cancel(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(task.cancel)

        future.add_done_callback(cancel)
        return loop.run_until_complete(task)


def run_tools(run: Run, threads: Threads, config: RunnableConfig) -> Generator[None]:
    """Run the tool calls of the turn, each in a thread; yield when there are new events."""
    calls = cast("TurnCalls", run.calls)
    for slot in calls.to_approve():
        hook = run.settings.approve[slot.call["name"]]
        calls.decide(slot, _decide(hook, copy_call(slot.call)))

    def start(tool: BaseTool, call: ToolCall) -> ThreadFuture | None:
        return threads.start(tool.name, lambda: _invoke_in_thread(tool, call, config))

    try:
        while not calls.is_paused:
            calls.start_due(start)
            yield
            if calls.is_settled:
                break
            seconds = min(calls.seconds_to_wait(), POLL_SECONDS)
            if running := cast("list[ThreadFuture]", [*calls.running.values()]):
                concurrent.futures.wait(running, seconds, concurrent.futures.FIRST_COMPLETED)
            else:
                time.sleep(seconds)
            calls.update()
    finally:
        calls.stop()
    run.finish_calls()
    yield


async def arun_tools(run: Run, threads: Threads, config: RunnableConfig) -> AsyncGenerator[None]:
    """Run the tool calls of the turn in tasks, sync tools in threads; yield as `run_tools` does."""
    calls = cast("TurnCalls", run.calls)
    for slot in calls.to_approve():
        hook = run.settings.approve[slot.call["name"]]
        calls.decide(slot, await _adecide(hook, copy_call(slot.call)))
    has_ended = asyncio.Event()
    on_end = _setter(has_ended)

    def start(tool: BaseTool, call: ToolCall) -> ToolFuture | None:
        if (future := _astart(tool, call, threads, config)) is not None:
            future.add_done_callback(on_end)
        return future

    try:
        while not calls.is_paused:
            calls.start_due(start)
            yield
            if calls.is_settled:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(calls.seconds_to_wait()):
                    await has_ended.wait()
            has_ended.clear()
            calls.update()
            await asyncio.sleep(0)  # so that `threads` counts what was cancelled
    finally:
        calls.stop()
        await _wait_for_cleanup(calls.cancelled)
    run.finish_calls()
    yield


def _decide(hook: Approver, call: ToolCall) -> object:
    """Return the decision of an approval hook, which runs in the caller's thread."""
    decision = hook(call)
    if not inspect.iscoroutine(decision):
        return decision
    future, _ = run_in_thread(call["name"], lambda: decision)
    try:
        return future.result()
    finally:
        future.cancel()


async def _adecide(hook: Approver, call: ToolCall) -> object:
    """Return the decision of an approval hook; a sync hook runs in a thread."""
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
        return await cast("Awaitable[object]", hook(call))
    # In a list, because the thread would run a coroutine, which belongs to this event loop.
    future, _ = run_in_thread(call["name"], lambda: [hook(call)])
    await _wait_for_thread(future)
    (decision,) = future.result()
    return await decision if inspect.isawaitable(decision) else decision


def _invoke_in_thread(tool: BaseTool, call: ToolCall, config: RunnableConfig) -> object:
    """Return the result, or a coroutine if the tool is only async."""
    if not runs_sync(tool):
        return tool.ainvoke(call, config)
    try:
        return tool.invoke(call, config)
    except NotImplementedError:  # how tool classes without `_run` behave
        if not has_async_hook(tool):
            raise
        return tool.ainvoke(call, config)


def _astart(
    tool: BaseTool, call: ToolCall, threads: Threads, config: RunnableConfig
) -> ToolFuture | None:
    if runs_async(tool):
        return asyncio.ensure_future(tool.ainvoke(call, config))
    future = threads.start(tool.name, lambda: tool.invoke(call, config))
    if future is None or not has_async_hook(tool):
        return future
    return asyncio.ensure_future(_with_async_fallback(future, tool, call, config))


async def _with_async_fallback(
    future: ThreadFuture, tool: BaseTool, call: ToolCall, config: RunnableConfig
) -> object:
    """Return the thread's result; run the tool in the event loop if it has no sync version."""
    await _wait_for_thread(future)
    error = future.exception()
    if isinstance(error, NotImplementedError):
        return await tool.ainvoke(call, config)
    return future.result() if error is None else Raised(error)


async def _wait_for_thread(future: ThreadFuture) -> None:
    """Wait until a thread has ended; cancel its future if this is cancelled.

    A `wrap_future` would never end if the thread raised a StopIteration.
    """
    has_ended = asyncio.Event()
    future.add_done_callback(_setter(has_ended))
    try:
        await has_ended.wait()
    finally:
        future.cancel()


def _setter(event: asyncio.Event) -> Callable[[object], None]:
    """Return a callback for futures that sets the event, from any thread."""
    loop = asyncio.get_running_loop()

    def on_end(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(event.set)

    return on_end


async def _wait_for_cleanup(futures: Collection[ToolFuture]) -> None:
    """Wait a limited time for cancelled tasks to clean up.

    They are not cancelled again, because that would interrupt the cleanup.
    """
    unfinished: list[asyncio.Future[Any]] = []
    for task in futures:
        if isinstance(task, asyncio.Future) and task.done():
            _forget(task)
        elif isinstance(task, asyncio.Future):
            unfinished.append(task)
            _abandoned_tasks.add(task)
            task.add_done_callback(_forget)
    if unfinished:
        await asyncio.wait(unfinished, timeout=GRACE_SECONDS)


def _forget(task: asyncio.Future[Any]) -> None:
    """Ignore how a task ended; asyncio logs an exception that nothing reads."""
    _abandoned_tasks.discard(task)
    if not task.cancelled():
        task.exception()
