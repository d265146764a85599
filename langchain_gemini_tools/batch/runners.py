"""What runs one agent of many from one call of its model to the next: LangGraph, or `ToolLoop`.

A LangGraph agent keeps its state in a checkpointer. A `ToolLoop` has none: its messages are
appended to a file.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict, messages_to_dict
from langchain_core.messages.ai import add_usage
from langchain_core.runnables.config import merge_configs

from langchain_gemini_tools.batch.agent_calls import (
    CONFIG_KEY,
    REQUEST_TYPE,
    GraphStep,
    PauseKeeper,
    is_in_run,
)
from langchain_gemini_tools.batch.agent_results import PausedAgent
from langchain_gemini_tools.batch.waves import Request
from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.inputs import BatchSource
    from langchain_gemini_tools.tool_loop import ToolLoop, ToolLoopResult

    JsonObject = dict[str, Any]
    OnOffer = Callable[[BatchSource], None]


@dataclass(frozen=True)
class Step:
    """Where an agent has come to: it waits, it has failed, or it is done."""

    requests: tuple[Request, ...] = ()
    """The requests that it waits for, except for those of the current wave."""
    interrupts: tuple[Any, ...] = ()
    """The user's own interrupts."""
    error: Exception | None = None
    in_wave: tuple[str, ...] = ()
    """The ids of the requests of the current wave that it waits for."""


def _request_of(key: str, question: JsonObject) -> Request:
    return Request(key, question["model"], str(question["body"]).encode(), list(question["call"]))


def _lost(where: str, index: int, remedy: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"{where} no state for input {index}, for which requests were sent before. {remedy} To "
        "begin again, use another path."
    )


def _is_ours(interrupt: Any) -> bool:
    value = interrupt.value
    return isinstance(value, dict) and value.get("type") == REQUEST_TYPE


# LangGraph


def _key_of(interrupt: Any) -> str:
    """Return what identifies an interrupt in a thread."""
    return f"{interrupt.id}-{interrupt.value['number']}" if _is_ours(interrupt) else interrupt.id


class GraphRunner:
    """Runs the threads of a LangGraph agent.

    Args:
        agent: The compiled graph, with its checkpointer.
        config: Callbacks, tags and so on for each thread.
        context: The graph's static context.
        session: Differs between two runs of the program.
        on_offer: Receives what sends requests.
    """

    kind = "agent"

    def __init__(
        self,
        agent: Any,
        config: RunnableConfig | None,
        context: Any,
        session: str,
        on_offer: OnOffer,
    ) -> None:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        self.agent = agent
        self._config = config or {}
        self._more = {} if context is None else {"context": context}
        self._session = session
        self._on_offer = on_offer
        self._serializer = JsonPlusSerializer()
        self.run_id = ""
        self.sent: set[int] = set()

    def encode(self, given: Any) -> bytes:
        """Return the bytes by which an input is compared."""
        return self._serializer.dumps_typed(given)[1]

    def config(self, index: int, asker: object = True) -> RunnableConfig:  # noqa: FBT002
        """Return the config of an agent's thread."""
        configurable = {**self._config.get("configurable", {}), CONFIG_KEY: asker}
        configurable["thread_id"] = f"{self.run_id}-{index}"
        return {**self._config, "configurable": configurable}

    # Steps

    def _arguments(self, index: int, *, keeps_failures: bool) -> JsonObject:
        asker = GraphStep(self._session, self._on_offer, keeps_failures)
        config = merge_configs(self.config(index, asker), {"callbacks": [PauseKeeper()]})
        return {"config": config, "stream_mode": "updates", "durability": "sync", **self._more}

    def run(self, index: int, given: Any, *, keeps_failures: bool = False) -> Step:
        """Run a thread until it waits or ends."""
        found: list[Any] = []
        token = is_in_run.set(True)
        try:
            for update in self.agent.stream(
                given, **self._arguments(index, keeps_failures=keeps_failures)
            ):
                found += update.get("__interrupt__", ())
        except Exception as error:  # noqa: BLE001 - any error of the user's nodes and tools
            return Step(error=error)
        finally:
            is_in_run.reset(token)
        return _step_of(found)

    async def arun(self, index: int, given: Any, *, keeps_failures: bool = False) -> Step:
        """Run a thread as `run` does, on the event loop."""
        found: list[Any] = []
        token = is_in_run.set(True)
        try:
            async for update in self.agent.astream(
                given, **self._arguments(index, keeps_failures=keeps_failures)
            ):
                found += update.get("__interrupt__", ())
        except Exception as error:  # noqa: BLE001 - any error of the user's nodes and tools
            return Step(error=error)
        finally:
            is_in_run.reset(token)
        return _step_of(found)

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> Step:
        """Hand answers to a thread, by the keys of its requests, and run it."""
        return self.run(index, self._resuming(answers))

    async def adeliver(self, index: int, answers: Mapping[str, JsonObject]) -> Step:
        """Hand answers to a thread as `deliver` does, on the event loop."""
        return await self.arun(index, self._resuming(answers))

    def _resuming(self, answers: Mapping[str, JsonObject]) -> Any:
        return resume_with(
            {
                key.rpartition("-")[0]: {**answer, "session": self._session}
                for key, answer in answers.items()
            }
        )

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> Step:
        """Find out where a thread has come to, and run it if it can go on."""
        state = self.agent.get_state(self.config(index))
        plan = self._plan(index, given, state, in_wave)
        return plan if isinstance(plan, Step) else self.run(index, plan[0])

    async def arecover(self, index: int, given: Any, in_wave: Collection[str]) -> Step:
        """Find out as `recover` does, on the event loop."""
        state = await self.agent.aget_state(self.config(index))
        plan = self._plan(index, given, state, in_wave)
        return plan if isinstance(plan, Step) else await self.arun(index, plan[0])

    def _plan(
        self, index: int, given: Any, state: Any, in_wave: Collection[str]
    ) -> Step | tuple[Any]:
        """Return where a thread is, or what it has to be run with."""
        if state.created_at is None:
            if index in self.sent:
                raise _lost("The checkpointer has", index, "Pass the same checkpointer as before.")
            return (given,)
        if not state.tasks:  # `state.next` is also empty if it was killed before a checkpoint
            return Step()
        found = list(state.interrupts)
        if sent := tuple(key for key in map(_key_of, found) if key in in_wave):
            return Step(in_wave=sent)  # after the wave, its other interrupts are there again
        waiting = {each.id for each in found}
        is_stopped = waiting and all(
            task.result is not None
            or (task.error is None and waiting & {each.id for each in task.interrupts})
            for task in state.tasks
        )
        if not is_stopped:
            return (None,)  # it was killed, or has failed
        return _step_of(found)

    def nudge(self, index: int) -> Step:
        """Let a thread repeat the call that it waits for."""
        return self.run(index, None, keeps_failures=True)

    async def anudge(self, index: int) -> Step:
        """Let a thread repeat the call, on the event loop."""
        return await self.arun(index, None, keeps_failures=True)

    # Results

    def result(self, index: int) -> Any:
        """Return what `invoke` would return, or a `PausedAgent`."""
        return self._read(index, self.agent.get_state(self.config(index)))

    async def aresult(self, index: int) -> Any:
        """Return the result, on the event loop."""
        return self._read(index, await self.agent.aget_state(self.config(index)))

    def _read(self, index: int, state: Any) -> Any:
        if state.interrupts:
            return PausedAgent(index, tuple(state.interrupts), self.config(index))
        channels = self.agent.output_channels
        if isinstance(channels, str):
            return state.values
        return {key: state.values[key] for key in channels if key in state.values}


def resume_with(answers: Mapping[str, Any]) -> Any:
    """Return the input that resumes a thread, by the ids of its interrupts."""
    from langgraph.types import Command

    return Command(resume=dict(answers))


def _step_of(found: list[Any]) -> Step:
    ours = tuple(_request_of(_key_of(each), each.value) for each in found if _is_ours(each))
    return Step(ours, tuple(each for each in found if not _is_ours(each)))


_FAST_COMMITS = "PRAGMA synchronous=NORMAL"
"""A commit survives the end of the process. `flush_sqlite` makes it survive that of the machine."""


@contextmanager
def open_sqlite(path: Path) -> Iterator[Any]:
    """Open LangGraph's checkpointer for a file.

    Raises:
        InvalidOptionError: It is not installed.
    """
    _check_sqlite()
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.conn.execute(_FAST_COMMITS)
        yield saver


@asynccontextmanager
async def aopen_sqlite(path: Path) -> AsyncIterator[Any]:
    """Open LangGraph's async checkpointer for a file."""
    _check_sqlite()
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.conn.execute(_FAST_COMMITS)
        yield saver


def flush_sqlite(path: Path) -> None:
    """Write all commits to the disk."""
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")


def _check_sqlite() -> None:
    try:
        import langgraph.checkpoint.sqlite  # noqa: F401
    except ImportError:
        raise InvalidOptionError(
            "run_in_batches keeps the state of agents in a checkpointer. Install "
            "langgraph-checkpoint-sqlite, or pass checkpointer=..."
        ) from None


def check_graph(agent: Any, checkpointer: Any) -> None:
    """Reject what is not a compiled graph or a checkpointer, and graphs that stop at fixed nodes.

    Raises:
        InvalidOptionError: It cannot run in batches.
    """
    if not all(hasattr(agent, name) for name in ("get_state", "copy", "output_channels")):
        raise InvalidOptionError(
            f"run_in_batches needs a compiled LangGraph agent or a ToolLoop, not a "
            f"{type(agent).__name__}."
        )
    from langgraph.checkpoint.base import BaseCheckpointSaver

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


# ToolLoop


class LoopPause(BaseException):
    """A loop waits for a batch job. Not an `Exception`, so that nothing handles it."""

    def __init__(self, question: JsonObject) -> None:
        super().__init__("The loop waits for a batch job.")
        self.question = question


@dataclass
class LoopStep:
    """The asker of one step of a loop: it knows the answers to the first call."""

    session: str
    on_offer: OnOffer
    answers: list[JsonObject]
    keeps_failures: bool = False
    pauses: type[BaseException] = LoopPause
    _used: int = 0

    def offer(self, source: BatchSource) -> None:
        """Receive what sends requests of this model."""
        self.on_offer(source)

    def ask(self, question: JsonObject) -> JsonObject:
        """Return the next answer, or stop the loop."""
        self._used += 1
        if self._used > len(self.answers):
            raise LoopPause(question)
        return self.answers[self._used - 1]

    def keep(self, answer: JsonObject) -> None:  # noqa: ARG002
        """Return an answer again: it is that of the next call."""
        self._used -= 1


@dataclass(frozen=True)
class _LoopState:
    """A run of a loop before a call of the model, or at its end."""

    messages: list[JsonObject]
    given: int
    """How many of the messages are the input."""
    turns: int = 0
    answers: tuple[JsonObject, ...] = ()
    """What is known for the next call."""
    stop_reason: str | None = None


class LoopRunner:
    """Runs a `ToolLoop` for each input, and keeps their messages in `loops.jsonl`.

    Args:
        loop: The loop.
        config: Callbacks, tags and so on for each run.
        session: Differs between two runs of the program.
        on_offer: Receives what sends requests.
    """

    kind = "loop"

    def __init__(
        self, loop: ToolLoop, config: RunnableConfig | None, session: str, on_offer: OnOffer
    ) -> None:
        if loop.settings.on_limit == "answer":
            raise InvalidOptionError(
                "A ToolLoop with on_limit='answer' cannot run in batches. Use 'return' or 'raise'."
            )
        self.agent = loop
        self._config = config or {}
        self._session = session
        self._on_offer = on_offer
        self._lock = threading.Lock()
        self._places: dict[int, int] = {}
        self.run_id = ""
        self.sent: set[int] = set()

    def open(self, path: Path) -> None:
        """Read where the loops are. What a killed process has half written is dropped."""
        self._file = (path / "loops.jsonl").open("ab+")
        self._file.seek(0)
        position = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self._places[int(line[: line.index(b" ")])] = position
            position += len(line)
        self._file.truncate(position)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def encode(self, given: Any) -> bytes:
        """Return the bytes by which an input is compared."""
        return _encode(messages_to_dict(self._parse(given)))

    @staticmethod
    def _parse(given: Any) -> list[BaseMessage]:
        from langchain_gemini_tools.tool_loop.run import parse_input

        return parse_input(given)

    def _load(self, index: int) -> _LoopState:
        with self._lock:
            self._file.seek(self._places[index])
            line = self._file.readline()
        return _LoopState(**json.loads(line[line.index(b" ") :]))

    def _store(self, index: int, state: _LoopState) -> None:
        line = b"%d %b\n" % (index, _encode(vars(state)))
        with self._lock:
            self._file.seek(0, 2)
            self._places[index] = self._file.tell()
            self._file.write(line)
            self._file.flush()

    # Steps

    def run(self, index: int, given: Any) -> Step:
        """Begin a loop."""
        messages = messages_to_dict(self._parse(given))
        return self._run(index, _LoopState(messages, len(messages)))

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> Step:
        """Hand the answer to a loop, and run it until its next call."""
        state = self._load(index)
        (answer,) = answers.values()
        known = (*state.answers, {**answer, "session": self._session})
        return self._run(index, replace(state, answers=known))

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> Step:
        """Find out where a loop has come to, and render its request again."""
        if index not in self._places:
            if index in self.sent:
                raise _lost("loops.jsonl has", index, "Restore it.")
            return self.run(index, given)
        state = self._load(index)
        if state.stop_reason:
            return Step()
        if (key := _loop_key(index, state)) in in_wave:
            return Step(in_wave=(key,))
        return self._run(index, state)

    def nudge(self, index: int) -> Step:
        """Let a loop repeat the call that it waits for."""
        return self._run(index, self._load(index))

    def _run(self, index: int, state: _LoopState) -> Step:
        from langchain_gemini_tools.tool_loop import result_of

        asker = LoopStep(self._session, self._on_offer, list(state.answers))
        configurable = {**self._config.get("configurable", {}), CONFIG_KEY: asker}
        config: RunnableConfig = {**self._config, "configurable": configurable}
        loop = copy.copy(self.agent)
        left = loop.settings.max_turns - state.turns
        loop.settings = replace(loop.settings, max_turns=left)
        messages = messages_from_dict(state.messages)
        try:
            result = loop.invoke(messages, config)
        except LoopPause as pause:
            result = cast("ToolLoopResult", result_of(pause))
            if result.new_messages:
                state = _LoopState(
                    messages_to_dict(result.messages), state.given, state.turns + result.turns - 1
                )
            self._store(index, state)
            return Step((_request_of(_loop_key(index, state), pause.question),))
        except Exception as error:  # noqa: BLE001 - any error of the run
            self._store(index, state)
            return Step(error=error)
        self._store(
            index,
            _LoopState(
                messages_to_dict(result.messages),
                state.given,
                state.turns + result.turns,
                stop_reason=result.stop_reason,
            ),
        )
        return Step()

    # Results

    def result(self, index: int) -> ToolLoopResult:
        """Return what `invoke` would return. Of tool calls, it has no times and no exceptions."""
        from langchain_gemini_tools.tool_loop import ToolCallRecord, ToolLoopResult

        state = self._load(index)
        messages = messages_from_dict(state.messages)
        new, records, usage, turn = messages[state.given :], [], None, 0
        calls: dict[str | None, tuple[int, ToolCall]] = {}
        for message in new:
            if isinstance(message, AIMessage):
                turn += 1
                usage = add_usage(usage, message.usage_metadata)
                calls |= {call["id"]: (turn, call) for call in message.tool_calls}
            elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
                number, call = calls.pop(message.tool_call_id)
                status = "succeeded" if message.status == "success" else "failed"
                records.append(ToolCallRecord(number, call, cast("Any", status), message))
        return ToolLoopResult(
            messages=messages,
            new_messages=new,
            stop_reason=cast("Any", state.stop_reason or "failed"),
            turns=state.turns,
            calls=records,
            pending=[call for _, call in calls.values()],
            usage=usage if any(isinstance(each, AIMessage) for each in new) else None,
        )

    async def aresult(self, index: int) -> ToolLoopResult:
        """Return the result, without blocking the event loop."""
        return await asyncio.to_thread(self.result, index)


def _loop_key(index: int, state: _LoopState) -> str:
    return f"{index}-{state.turns}-{len(state.answers)}"


def _encode(value: Any) -> bytes:
    # Artifacts of tools may be any objects. Only their text is kept.
    return json.dumps(value, default=str).encode()
