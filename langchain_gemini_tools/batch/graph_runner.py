"""`GraphRunner` runs one of many LangGraph agents from one call of its model to the next.

The checkpointer keeps its state. `loop_runner` does the same for a `ToolLoop`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import merge_configs

from langchain_gemini_tools.batch.agent_calls import (
    CONFIG_KEY,
    REQUEST_TYPE,
    GraphStep,
    PauseKeeper,
    is_in_run,
)
from langchain_gemini_tools.batch.agents import PausedAgent
from langchain_gemini_tools.batch.waves import AgentRequest
from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.agent_calls import Offer
    from langchain_gemini_tools.facts.json_values import JsonObject


@dataclass(frozen=True)
class AgentStep:
    """The state of an agent after a step: it waits, it has failed, or it is done."""

    requests: tuple[AgentRequest, ...] = ()
    """The requests that it waits for, except for those of the current wave."""
    interrupts: tuple[Any, ...] = ()
    """The user's own interrupts."""
    error: Exception | None = None
    in_wave: tuple[str, ...] = ()
    """The ids of the requests of the current wave that it waits for."""


def request_of(key: str, question: JsonObject) -> AgentRequest:
    """Return the request that a question of a model is about."""
    return AgentRequest(
        key, question["model"], str(question["body"]).encode(), list(question["call"])
    )


def lost_state(where: str, index: int, remedy: str) -> InvalidOptionError:
    """Return the error about a state that no longer exists."""
    return InvalidOptionError(
        f"{where} no state for input {index}, for which requests were sent before. {remedy} To "
        "start again, use another path."
    )


def _is_ours(interrupt: Any) -> bool:
    value = interrupt.value
    return isinstance(value, dict) and value.get("type") == REQUEST_TYPE


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
        offer: Receives what sends requests.
    """

    kind = "agent"

    def __init__(
        self,
        agent: Any,
        config: RunnableConfig | None,
        context: Any,
        session: str,
        offer: Offer,
    ) -> None:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        self.agent = agent
        self._config = config or {}
        self._more = {} if context is None else {"context": context}
        self._session = session
        self._offer = offer
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
        asker = GraphStep(self._session, self._offer, keeps_failures)
        config = merge_configs(self.config(index, asker), {"callbacks": [PauseKeeper()]})
        return {"config": config, "stream_mode": "updates", "durability": "sync", **self._more}

    def run(self, index: int, given: Any, *, keeps_failures: bool = False) -> AgentStep:
        """Run a thread until it waits or ends."""
        found: list[Any] = []
        token = is_in_run.set(True)
        try:
            for update in self.agent.stream(
                given, **self._arguments(index, keeps_failures=keeps_failures)
            ):
                found += update.get("__interrupt__", ())
        except Exception as error:  # noqa: BLE001 - any error of the user's nodes and tools
            return AgentStep(error=error)
        finally:
            is_in_run.reset(token)
        return _step_of(found)

    async def arun(self, index: int, given: Any, *, keeps_failures: bool = False) -> AgentStep:
        """Run a thread as `run` does, on the event loop."""
        found: list[Any] = []
        token = is_in_run.set(True)
        try:
            async for update in self.agent.astream(
                given, **self._arguments(index, keeps_failures=keeps_failures)
            ):
                found += update.get("__interrupt__", ())
        except Exception as error:  # noqa: BLE001 - any error of the user's nodes and tools
            return AgentStep(error=error)
        finally:
            is_in_run.reset(token)
        return _step_of(found)

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> AgentStep:
        """Pass answers to a thread, by the keys of its requests, and run it."""
        return self.run(index, self._resuming(answers))

    async def adeliver(self, index: int, answers: Mapping[str, JsonObject]) -> AgentStep:
        """Pass answers to a thread as `deliver` does, on the event loop."""
        return await self.arun(index, self._resuming(answers))

    def _resuming(self, answers: Mapping[str, JsonObject]) -> Any:
        return resume_with(
            {
                key.rpartition("-")[0]: {**answer, "session": self._session}
                for key, answer in answers.items()
            }
        )

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> AgentStep:
        """Find out how far a thread is, and run it if it can continue."""
        state = self.agent.get_state(self.config(index))
        plan = self._plan(index, given, state, in_wave)
        return plan if isinstance(plan, AgentStep) else self.run(index, plan[0])

    async def arecover(self, index: int, given: Any, in_wave: Collection[str]) -> AgentStep:
        """Find out as `recover` does, on the event loop."""
        state = await self.agent.aget_state(self.config(index))
        plan = self._plan(index, given, state, in_wave)
        return plan if isinstance(plan, AgentStep) else await self.arun(index, plan[0])

    def _plan(
        self, index: int, given: Any, state: Any, in_wave: Collection[str]
    ) -> AgentStep | tuple[Any]:
        """Return where a thread is, or what it has to be run with."""
        if state.created_at is None:
            if index in self.sent:
                raise lost_state(
                    "The checkpointer has", index, "Pass the same checkpointer as before."
                )
            return (given,)
        if not state.tasks:  # `state.next` is also empty if it was killed before a checkpoint
            return AgentStep()
        found = list(state.interrupts)
        if sent := tuple(key for key in map(_key_of, found) if key in in_wave):
            return AgentStep(in_wave=sent)  # after the wave, its other interrupts are there again
        waiting = {each.id for each in found}
        is_stopped = waiting and all(
            task.result is not None
            or (task.error is None and waiting & {each.id for each in task.interrupts})
            for task in state.tasks
        )
        if not is_stopped:
            return (None,)  # it was killed, or has failed
        return _step_of(found)

    def nudge(self, index: int) -> AgentStep:
        """Make a thread repeat the call that it waits for."""
        return self.run(index, None, keeps_failures=True)

    async def anudge(self, index: int) -> AgentStep:
        """Repeat the call as `nudge` does, on the event loop."""
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


def _step_of(found: list[Any]) -> AgentStep:
    ours = tuple(request_of(_key_of(each), each.value) for each in found if _is_ours(each))
    return AgentStep(ours, tuple(each for each in found if not _is_ours(each)))


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
            f"{type(agent).__name__}. For a model, use model.batch_job(...)."
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
