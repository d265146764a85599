"""`GraphRunner` runs one of many LangGraph agents from one call of its model to the next.

The checkpointer keeps its state. LangGraph has to be installed to import this module.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import RESUME
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, interrupt

from langchain_gemini_tools.batch import is_in_run
from langchain_gemini_tools.batch.agents import PausedAgent
from langchain_gemini_tools.batch.runner import (
    FAST_COMMITS,
    REQUEST_TYPE,
    AgentStep,
    Asker,
    Runner,
    is_same_call,
    lost_state,
    no_same_call,
    request_of,
)
from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping
    from contextlib import ExitStack
    from pathlib import Path
    from uuid import UUID

    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.agents import RunOptions
    from langchain_gemini_tools.batch.driver import LoopBridge
    from langchain_gemini_tools.batch.runner import Offer
    from langchain_gemini_tools.facts.json_values import JsonObject

_T = TypeVar("_T")

_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05


@dataclass
class GraphStep(Asker):
    """The asker of one step of a LangGraph thread: it stops the thread by an interrupt."""

    pauses = GraphInterrupt
    is_strict: bool = False
    """Whether the next answer must be that to this call, or to one with the same messages."""
    by_messages: bool = False
    """Whether a call is the same if only its messages are."""
    patience_seconds: float = 0.0
    """How long `wait_for_others` waits, at most."""
    _raised: dict[str, BaseException] = field(default_factory=dict)
    """The interrupt of each task. On resuming, LangGraph would confuse a second one with the
    first, for instance that of a fallback, which handles the interrupt like an error."""
    _kept: dict[str, list[JsonObject]] = field(default_factory=dict)
    """The answers of each task to calls that it has not made yet in this step."""
    _answered: Counter[str] = field(default_factory=Counter)
    """How many answers each task has used. LangGraph before 1.2.20 gives all interrupts of a
    task the same id."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: JsonObject, *, or_another: bool = False) -> JsonObject:
        """Return the answer with which the thread was resumed, or interrupt the thread.

        LangGraph returns the answers of a task in their order. The calls of threads inside of a
        task, such as those of a `ToolNode`, have none, so they find theirs by what they ask.
        """
        task = _find_task()
        with self._lock:
            kept = self._kept.setdefault(task, [])
            if fitting := [answer for answer in kept if self._fits(answer, question)]:
                exact = [each for each in fitting if each["call"] == question["call"]]
                kept.remove(found := (exact or fitting)[0])
                return found
            if task in self._raised:
                raise self._raised[task]
            while not self._fits(answer := self._next_answer(task, question), question):
                if or_another:
                    break
                kept.append(answer)
            return answer

    def _fits(self, answer: JsonObject, question: JsonObject) -> bool:
        asked, call = answer["call"], question["call"]
        is_same = asked == call or (self.by_messages and is_same_call(asked, call))
        return is_same or self.is_strict

    def _next_answer(self, task: str, question: JsonObject) -> JsonObject:
        question = {**question, "number": self._answered[task]}
        try:
            answer: JsonObject = interrupt(question)
            is_of_person = not _is_of_model(answer)
            while is_of_person and self._kept[task] and not self.by_messages:
                interrupt(question)  # until no answer is left: the step is repeated by messages
        except GraphInterrupt as raised:
            self._raised[task] = raised
            raise
        if is_of_person:
            raise no_same_call()
        self._answered[task] += 1
        return answer

    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the call to which it belongs."""
        self._kept.setdefault(_find_task(), []).append(answer)

    def wait_for_others(self) -> None:
        """Wait a limited time for other calls of the task that have answers.

        LangGraph ends a task at its first interrupt. In async code, its coroutines and the threads
        of its sync tools may still run then.
        """
        for pause in self._pauses():
            time.sleep(pause)

    async def await_others(self) -> None:
        """Wait as `wait_for_others` does, without blocking the event loop."""
        for pause in self._pauses():
            await asyncio.sleep(pause)

    def _pauses(self) -> Iterator[float]:
        kept, end = self._kept.get(_find_task()), time.monotonic() + self.patience_seconds
        while kept and time.monotonic() < end:
            yield _PAUSE_SECONDS

    @property
    def has_answers_left(self) -> bool:
        """Whether a task waits, and has an answer to a call that it did not make again."""
        return any(self._kept.get(task) for task in self._raised)


def _is_of_model(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() >= {"call", "line", "session"}


def _find_task() -> str:
    config = var_child_runnable_config.get() or {}
    return str(config.get("configurable", {}).get("checkpoint_ns"))


class _CaughtInterrupt(GraphInterrupt):
    def __repr__(self) -> str:  # LangChain logs it
        return (
            "A node or a tool caught the exception that makes a model call wait for its batch job. "
            "It is raised again. Add `except GraphBubbleUp: raise` (of langgraph.errors) before "
            "`except Exception`."
        )


class PauseKeeper(BaseCallbackHandler):
    """Raises the interrupt of a waiting call again where a node or a tool of the user catches it.

    Otherwise they would continue without the answer. LangGraph stores nothing of a node that is
    interrupted.
    """

    raise_error = True
    run_inline = True

    def __init__(self) -> None:
        self._root: UUID | None = None
        self._pauses: dict[UUID | None, BaseException] = {}
        """The interrupts with which runs have to end."""

    def on_chain_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Note the run of the whole thread, whose interrupts LangGraph handles."""
        self._root = self._root or run_id

    def on_llm_end(
        self,
        response: LLMResult,  # noqa: ARG002
        *,
        parent_run_id: UUID | None = None,
        pause: BaseException | None = None,
        **_: Any,
    ) -> None:
        """Note a call that waits."""
        if pause is not None:
            self._pauses[parent_run_id] = pause

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Pass an interrupt on to the parent."""
        pause = self._take(run_id)
        if isinstance(error, GraphInterrupt):
            self._pauses[parent_run_id] = error
        elif pause is not None and isinstance(error, Exception):  # raised because of the interrupt
            self._raise(pause, parent_run_id)

    def on_chain_end(
        self,
        outputs: Any,  # noqa: ARG002
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        """Raise an interrupt that was caught."""
        if (pause := self._take(run_id)) is not None:
            self._raise(pause, parent_run_id)

    on_llm_error = on_tool_error = on_chain_error

    def on_tool_end(self, output: Any, **about: Any) -> None:
        """Raise an interrupt that was caught."""
        self.on_chain_end(output, **about)

    def _take(self, run_id: UUID) -> BaseException | None:
        pause = self._pauses.pop(run_id, None)
        return None if run_id == self._root else pause

    def _raise(self, pause: BaseException, parent_run_id: UUID | None) -> None:
        self._pauses[parent_run_id] = pause
        raise _CaughtInterrupt(*pause.args)


def _is_ours(interrupt: Any) -> bool:
    value = interrupt.value
    return isinstance(value, dict) and value.get("type") == REQUEST_TYPE


def _key_of(interrupt: Any) -> str:
    """Return what identifies an interrupt in a thread."""
    return f"{interrupt.id}-{interrupt.value['number']}" if _is_ours(interrupt) else interrupt.id


class GraphRunner(Runner):
    """Runs the threads of a compiled LangGraph graph.

    Raises:
        InvalidOptionError: The agent cannot run in batches.
    """

    kind = "agent"
    database = "checkpoints.sqlite"

    def __init__(self, agent: Any, options: RunOptions, offer: Offer) -> None:
        checkpointer, context = options["checkpointer"], options["context"]
        _check_graph(agent, checkpointer)
        if checkpointer is None and not isinstance(agent.checkpointer, bool):
            checkpointer = agent.checkpointer
        super().__init__(agent.copy({"checkpointer": checkpointer}), options, offer)
        self._has_file = checkpointer is None
        self._more = {} if context is None else {"context": context}
        self._serializer = JsonPlusSerializer()
        self._reads_async = False
        self._has_varied = False
        """Whether an agent did not repeat a whole request, such as one with the time."""
        self._patience_seconds = _PATIENCE_SECONDS

    def open(self, path: Path, stack: ExitStack) -> None:
        """Open an SQLite file, unless there is a checkpointer; check the kind of the checkpointer.

        A run needs one with sync methods, an async run one with async methods.
        """
        if self._has_file:
            if self.bridge:
                opened = stack.enter_context(_entered(_aopen_sqlite(path), self.bridge))
            else:
                opened = stack.enter_context(_open_sqlite(path))
            self.agent = self.agent.copy({"checkpointer": opened})
        self.result(0)

    def open_results(self, path: Path, stack: ExitStack) -> None:
        """Prepare for code that reads the results later."""
        self._reads_async = self.bridge is not None and not self._has_file
        is_reopened = self.bridge is not None and self._has_file
        self.bridge = None
        if is_reopened:  # that code may not close an async checkpointer
            stack.close()
            self.open(path, stack)

    def encode(self, given: Any) -> bytes:
        """Return the bytes by which an input is compared."""
        return self._serializer.dumps_typed(given)[1]

    def _config_of(self, index: int, asker: object = True) -> RunnableConfig:  # noqa: FBT002
        thread = {"thread_id": f"{self.run_id}-{index}"}
        return {**self.config, "configurable": {**self.configurable(asker), **thread}}

    # Steps

    def run(self, index: int, given: Any) -> AgentStep:
        """Run a thread until it waits or ends."""
        return self._resumed(index, self._run(index, given))

    def _run(
        self, index: int, given: Any, *, keeps_failures: bool = False, is_strict: bool = False
    ) -> AgentStep:
        asker = GraphStep(
            self.session,
            self.offer,
            keeps_failures,
            is_strict,
            by_messages=self._has_varied,
            patience_seconds=self._patience_seconds if self.bridge else 0.0,
        )
        config = merge_configs(self._config_of(index, asker), {"callbacks": [PauseKeeper()]})
        options = {"config": config, "stream_mode": "updates", "durability": "sync", **self._more}
        token = is_in_run.set(True)
        try:
            if self.bridge:
                updates = self.bridge.run(_collect(self.agent.astream(given, **options)))
            else:
                updates = list(self.agent.stream(given, **options))
        except Exception as error:  # noqa: BLE001 - any error of the user's nodes and tools
            return AgentStep(error=error)
        finally:
            is_in_run.reset(token)
        if asker.has_answers_left and not asker.by_messages:
            self._has_varied = True
            return self._run(index, None, keeps_failures=keeps_failures)
        if asker.has_answers_left:  # repeated, so that an error is the state of the thread
            self._patience_seconds /= 2  # many agents may have the same error
            return self._run(index, None, keeps_failures=True, is_strict=True)
        return _step_of([each for update in updates for each in update.get("__interrupt__", ())])

    def _resumed(self, index: int, step: AgentStep) -> AgentStep:
        """Pass the user's answers to a thread that waits for them."""
        ids = [each.id for each in step.interrupts if each.id in self.user_answers]
        if not ids:
            return step
        given: Any = Command(resume={key: self.user_answers.pop(key) for key in ids})
        return self._resumed(index, self._run(index, given, keeps_failures=True))

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> AgentStep:
        """Pass answers to a thread, by the ids of its requests, and run it."""
        named = {
            key.rpartition("-")[0]: {**answer, "session": self.session}
            for key, answer in answers.items()
        }
        return self.run(index, Command(resume=named))

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> AgentStep:
        """Find out how far a thread is, and run it if it can continue."""
        state = self._state(index)
        if state.created_at is None:
            if index in self.sent:
                raise lost_state(
                    "The checkpointer has", index, "Pass the same checkpointer as before."
                )
            return self.run(index, given)
        if not state.tasks:  # `state.next` is also empty if it was killed before a checkpoint
            return AgentStep()
        found = list(state.interrupts)
        if sent := tuple(key for key in map(_key_of, found) if key in in_wave):
            return AgentStep(in_wave=sent)  # after the wave, its other interrupts are there again
        if self._replace_answers(index, state):
            return self.run(index, None)
        waiting = {each.id for each in found}
        is_stopped = waiting and all(
            task.result is not None
            or (task.error is None and waiting & {each.id for each in task.interrupts})
            for task in state.tasks
        )
        # Otherwise it was killed, or has failed.
        return self._resumed(index, _step_of(found)) if is_stopped else self.run(index, None)

    def _replace_answers(self, index: int, state: Any) -> bool:
        """Replace answers of the user that have led to errors; return whether there were any.

        The tasks keep their other answers, and nothing that has ended in this step runs again.
        """
        failed = {
            task.id: each.id
            for task in state.tasks
            for each in task.interrupts
            if task.error and each.id in self.user_answers
        }
        if not failed:
            return False
        saver, count = self.agent.checkpointer, len(self.user_answers)
        saved = self._call(saver.get_tuple, saver.aget_tuple, self._config_of(index))
        for task, channel, values in saved.pending_writes or ():
            if channel != RESUME or task not in failed:
                continue
            if places := [n for n, each in enumerate(values) if not _is_of_model(each)]:
                values[places[-1]] = self.user_answers.pop(failed[task])
                writes = [(RESUME, values)]
                self._call(saver.put_writes, saver.aput_writes, saved.config, writes, task)
        return len(self.user_answers) < count

    def _call(self, work: Any, awork: Any, *arguments: Any) -> Any:
        return self.bridge.run(awork(*arguments)) if self.bridge else work(*arguments)

    def nudge(self, index: int) -> AgentStep:
        """Make a thread repeat the call that it waits for."""
        return self._run(index, None, keeps_failures=True)

    # Results

    def _state(self, index: int) -> Any:
        return self._call(self.agent.get_state, self.agent.aget_state, self._config_of(index))

    def result(self, index: int) -> Any:
        """Return what `invoke` would return, or a `PausedAgent`."""
        return self._read(index, self._state(index))

    async def aresult(self, index: int) -> Any:
        """Return the result, without blocking the event loop."""
        if not self._reads_async:
            return await super().aresult(index)
        return self._read(index, await self.agent.aget_state(self._config_of(index)))

    def _read(self, index: int, state: Any) -> Any:
        if state.interrupts:
            return PausedAgent(index, tuple(state.interrupts), self._config_of(index))
        channels = self.agent.output_channels
        if isinstance(channels, str):
            return state.values
        return {key: state.values[key] for key in channels if key in state.values}


async def _collect(updates: AsyncIterator[_T]) -> list[_T]:
    return [update async for update in updates]


def _step_of(found: list[Any]) -> AgentStep:
    ours = tuple(request_of(_key_of(each), each.value) for each in found if _is_ours(each))
    return AgentStep(ours, tuple(each for each in found if not _is_ours(each)))


@contextmanager
def _entered(opened: Any, bridge: LoopBridge) -> Iterator[Any]:
    """Enter an async context manager from another thread than that of its event loop."""
    value = bridge.run(opened.__aenter__())
    try:
        yield value
    finally:
        bridge.run(opened.__aexit__(None, None, None), is_last=True)


@contextmanager
def _open_sqlite(path: Path) -> Iterator[Any]:
    """Open LangGraph's checkpointer for a file."""
    with _requiring_sqlite():
        from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.conn.execute(FAST_COMMITS)
        yield saver


@asynccontextmanager
async def _aopen_sqlite(path: Path) -> AsyncIterator[Any]:
    """Open LangGraph's async checkpointer for a file."""
    with _requiring_sqlite():
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.conn.execute(FAST_COMMITS)
        yield saver


@contextmanager
def _requiring_sqlite() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise InvalidOptionError(
            "run_in_batches keeps the state of agents in a checkpointer. Install "
            "langgraph-checkpoint-sqlite, or pass checkpointer=..."
        ) from None


def _check_graph(agent: Any, checkpointer: Any) -> None:
    """Reject what is not a checkpointer, and graphs that stop at fixed nodes."""
    if not (checkpointer is None or isinstance(checkpointer, BaseCheckpointSaver)):
        raise InvalidOptionError(
            "checkpointer must be one of LangGraph's, such as SqliteSaver or PostgresSaver, not "
            f"{checkpointer!r}. Without one, run_in_batches makes an SQLite file."
        )
    for name in ("interrupt_before_nodes", "interrupt_after_nodes"):
        if nodes := getattr(agent, name, None):
            raise InvalidOptionError(
                f"The agent stops at fixed nodes ({name}={nodes!r}), and a run in batches cannot "
                "see whether such a stop was approved. Use interrupt() or "
                "HumanInTheLoopMiddleware."
            )
