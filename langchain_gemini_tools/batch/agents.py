"""`run_in_batches`: many agents at the price of batches, in waves.

Every agent runs until it calls the model. What they wait for goes into one batch job, and each
agent goes on with its answer, runs its tools, and calls the model again.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import sys
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, Required, TypedDict, TypeVar, Unpack

from langchain_core.runnables.config import ContextThreadPoolExecutor, RunnableConfig

from langchain_gemini_tools.batch.agent_results import (
    AgentResults,
    PausedAgent,
    count_of,
    usage_of,
)
from langchain_gemini_tools.batch.graph_runner import (
    GraphRunner,
    Step,
    aopen_sqlite,
    check_graph,
    flush_sqlite,
    open_sqlite,
    resume_with,
)
from langchain_gemini_tools.batch.job import check_seconds
from langchain_gemini_tools.batch.loop_runner import LoopRunner
from langchain_gemini_tools.batch.waves import Tally, Wave, WaveJob, Waves
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiNotFoundError,
    GeminiTimeoutError,
    InvalidOptionError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.batch.inputs import BatchSource

    Runner = GraphRunner | LoopRunner

__all__ = ["AgentResults", "PausedAgent", "Wave", "arun_in_batches", "run_in_batches"]

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_MAX_FRUITLESS = 3
"""After so many waves whose jobs returned nothing, the run ends with an error."""


def run_in_batches(  # noqa: PLR0913
    agent: Any,
    inputs: Iterable[Any],
    *,
    path: str | os.PathLike[str],
    checkpointer: Any = None,
    config: RunnableConfig | None = None,
    context: Any = None,
    resume: Mapping[str, Any] | None = None,
    storage: str | None = None,
    max_waves: int = 100,
    max_concurrency: int = 16,
    poll_seconds: float = 30.0,
    timeout_seconds: float | None = None,
    progress: bool = True,
) -> AgentResults:
    """Run an agent for many inputs through Gemini's batch service: at half the price, in waves.

    Each agent runs until it calls the model. All calls go into one batch job, a wave. Then every
    agent goes on with its answer, runs its tools, and calls the model again, until none waits.

    The folder at `path` and the checkpointer are the state of the run. After a crash, the same call
    goes on where it was: nothing is sent twice, and only tools that were running when the process
    ended run again. Agents that failed are tried again.

    Example:
        ```python
        agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools)
        inputs = [{"messages": question} for question in questions]
        results = run_in_batches(agent, inputs, path="runs/research")
        print(results)
        for result in results:  # in the order of the inputs
            if isinstance(result, Exception): ...
        ```

    Args:
        agent: A compiled LangGraph graph whose models are `ChatGemini`, such as that of
            `create_agent`; or a `ToolLoop`.
        inputs: What the agent's `invoke` accepts, each.
        path: The folder of the run. It is created, and has to stay until the end.
        checkpointer: LangGraph's checkpointer. By default that of the agent, or an SQLite file in
            the folder. A `ToolLoop` has none.
        config: Callbacks, tags, metadata and `configurable` values for each agent.
        context: The graph's static context.
        resume: Answers to the agents' own interrupts, by the ids of the interrupts.
        storage: `gs://bucket/prefix` for requests and results, on Vertex AI only.
        max_waves: How many waves the whole run may have. Agents that still wait after that have a
            `BatchJobError`; the same call with a higher number goes on.
        max_concurrency: How many agents run their tools at a time.
        poll_seconds: The time between two questions about a job.
        timeout_seconds: How long to wait for jobs; by default until the end.
        progress: Write a line about each wave to stderr.

    Raises:
        InvalidOptionError: The inputs differ from those at `path`, or the agent cannot run so.
        GeminiTimeoutError: The time is over. Make the same call again later.
        BatchJobError: A job failed or was cancelled. Make the same call again.
        GeminiAPIError: The API did not create a job. Make the same call again.
    """
    driver = _Driver(
        agent,
        inputs,
        path=path,
        checkpointer=checkpointer,
        config=config,
        context=context,
        resume=resume,
        storage=storage,
        max_waves=max_waves,
        max_concurrency=max_concurrency,
        poll_seconds=poll_seconds,
        timeout_seconds=timeout_seconds,
        progress=progress,
    )
    return driver.run()


class RunOptions(TypedDict, total=False):
    """The arguments of `run_in_batches` beside the agent and the inputs."""

    path: Required[str | os.PathLike[str]]
    checkpointer: Any
    config: RunnableConfig | None
    context: Any
    resume: Mapping[str, Any] | None
    storage: str | None
    max_waves: int
    max_concurrency: int
    poll_seconds: float
    timeout_seconds: float | None
    progress: bool


async def arun_in_batches(
    agent: Any, inputs: Iterable[Any], **options: Unpack[RunOptions]
) -> AgentResults:
    """Run as `run_in_batches` does, on the running event loop.

    Agents and tools run with their async methods, so a checkpointer has to be an async one. Read
    the results with `async for`, or with `await results.aget(index)`.

    Args:
        agent: See `run_in_batches`.
        inputs: See `run_in_batches`.
        **options: The other arguments of `run_in_batches`.
    """
    driver = _Driver(agent, inputs, **options)
    if isinstance(driver.runner, LoopRunner):  # it runs async tools itself
        return await asyncio.to_thread(driver.run)
    return await driver.arun()


class _Driver:
    """One call of `run_in_batches`."""

    def __init__(  # noqa: PLR0913
        self,
        agent: Any,
        inputs: Iterable[Any],
        *,
        path: str | os.PathLike[str],
        checkpointer: Any = None,
        config: RunnableConfig | None = None,
        context: Any = None,
        resume: Mapping[str, Any] | None = None,
        storage: str | None = None,
        max_waves: int = 100,
        max_concurrency: int = 16,
        poll_seconds: float = 30.0,
        timeout_seconds: float | None = None,
        progress: bool = True,
    ) -> None:
        is_iterable = isinstance(inputs, Iterable) and not isinstance(inputs, (str, Mapping))
        _check("inputs", inputs, is_iterable, "a list or an iterator of inputs")
        for name, value in {"max_waves": max_waves, "max_concurrency": max_concurrency}.items():
            _check(name, value, isinstance(value, int) and value >= 1, "an integer of at least 1")
        check_seconds("poll_seconds", poll_seconds)
        if timeout_seconds is not None:
            check_seconds("timeout_seconds", timeout_seconds)
        is_mapping = resume is None or isinstance(resume, Mapping)
        _check("resume", resume, is_mapping, "a dict of ids of interrupts to answers")
        _check_config(config)
        session = uuid.uuid4().hex
        self.runner: Runner
        if _is_loop(agent):
            unused = {"checkpointer": checkpointer, "context": context, "resume": resume}
            for name, value in unused.items():
                if value is not None:
                    raise InvalidOptionError(f"A ToolLoop does not use {name}. Leave it out.")
            self.runner = LoopRunner(agent, config, session, self._offer)
        else:
            check_graph(agent, checkpointer)
            if checkpointer is None and not isinstance(agent.checkpointer, bool):
                checkpointer = agent.checkpointer
            agent = agent.copy({"checkpointer": checkpointer})
            self.runner = GraphRunner(agent, config, context, session, self._offer)
        self._inputs = inputs
        self._waves = Waves(path, self.runner.kind, storage)
        self._resume = dict(resume or {})
        self._max_waves = max_waves
        self._max_concurrency = max_concurrency
        self._poll_seconds = poll_seconds
        self._timeout_seconds = timeout_seconds
        self._end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._shows_progress = progress
        self._sources: dict[str, BatchSource] = {}
        self._count = 0
        self._errors: dict[int, Exception] = {}
        self._paused: set[int] = set()
        self._in_wave: set[str] = set()
        """The ids of the requests in a wave that an earlier process has begun."""
        self._still_waiting: set[str] | None = None
        """Those of them that agents still wait for. None for a wave of this process, all of whose
        requests are waited for."""
        self._fruitless = 0

    # The run, sync and async

    def run(self) -> AgentResults:
        """Run all agents."""
        with contextlib.ExitStack() as stack, self._opened():
            if isinstance(self.runner, GraphRunner):
                if self.runner.agent.checkpointer is None:
                    self._use(stack.enter_context(open_sqlite(self._database)))
                self.runner.result(0)  # fails if the checkpointer is an async one
            else:
                self.runner.open(self._waves.path)
                stack.callback(self.runner.close)
            self._each(self._starts(), self._start)
            self._end_inputs()
            while self._is_waiting():
                for model, agent in self._unknown_models():
                    self._check_known(model, self.runner.nudge(agent))
                wave = self._wave()
                for job in self._jobs(wave):
                    with self._explaining(wave):
                        job.wait(**self._waiting_options())
                tally = Tally(wave)
                self._each(self._deliveries(wave, tally), self._deliver)
                self._end_wave(tally)
            return self._results(stack.pop_all(), self._unfinished())

    async def arun(self) -> AgentResults:
        """Run all agents of a graph on the running event loop."""
        runner = self._graph
        async with contextlib.AsyncExitStack() as stack:
            opened = self._opened()
            await asyncio.to_thread(opened.__enter__)
            stack.push(opened.__exit__)
            is_own = runner.agent.checkpointer is None
            if is_own:
                self._use(await stack.enter_async_context(aopen_sqlite(self._database)))
            await runner.aresult(0)  # fails if the checkpointer is a sync one
            await self._aeach(self._starts(), self._astart)
            self._end_inputs()
            while self._is_waiting():
                for model, agent in self._unknown_models():
                    self._check_known(model, await runner.anudge(agent))
                wave = await asyncio.to_thread(self._wave)
                for job in await asyncio.to_thread(self._jobs, wave):
                    with self._explaining(wave):
                        await job.async_wait(**self._waiting_options())
                tally = Tally(wave)
                await self._aeach(self._deliveries(wave, tally), self._adeliver)
                await asyncio.to_thread(self._end_wave, tally)
            unfinished = self._unfinished()
        if not is_own:
            return self._results(contextlib.ExitStack(), unfinished, is_async=True)
        with contextlib.ExitStack() as results:
            # Results are read later, and maybe by no one who closes an async checkpointer.
            self._use(results.enter_context(open_sqlite(self._database)))
            return self._results(results.pop_all(), unfinished)

    @property
    def _graph(self) -> GraphRunner:
        assert isinstance(self.runner, GraphRunner)  # noqa: S101 - a loop runs in a thread
        return self.runner

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        with self._waves.folder.lock(creates=True):
            self._waves.open()
            self.runner.run_id = self._waves.run_id
            self.runner.sent = self._waves.sent_agents()
            if wave := self._waves.current:
                self._still_waiting = set()
                self._in_wave = {key for _, key, _ in self._waves.waiting(wave)}
            try:
                yield
            finally:
                self._waves.close()

    @property
    def _database(self) -> Path:
        return self._waves.path / "checkpoints.sqlite"

    def _use(self, checkpointer: Any) -> None:
        self._graph.agent = self._graph.agent.copy({"checkpointer": checkpointer})

    def _each(self, items: Iterable[_T], work: Callable[[_T], None]) -> None:
        """Do the same with all items, in threads."""
        running: set[Future[None]] = set()
        with ContextThreadPoolExecutor(self._max_concurrency) as pool:
            try:
                for item in items:
                    running.add(pool.submit(work, item))
                    if len(running) > 2 * self._max_concurrency:
                        done, running = wait(running, return_when=FIRST_COMPLETED)
                        for future in done:
                            future.result()
                for future in running:
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    async def _aeach(self, items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
        """Do the same with all items, in tasks."""
        running: set[asyncio.Future[None]] = set()
        try:
            for item in items:
                running.add(asyncio.ensure_future(work(item)))
                if len(running) >= self._max_concurrency:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for future in done:
                        future.result()
            await asyncio.gather(*running)
        finally:
            for future in running:
                future.cancel()

    # Starting

    def _starts(self) -> Iterator[tuple[int, Any, bool]]:
        """Yield the number of each input, the input, and whether an earlier call had it."""
        for index, given in enumerate(self._inputs):
            is_known = self._waves.check_input(index, self.runner.encode(given))
            self._count = index + 1
            yield index, copy.deepcopy(given), is_known  # LangGraph gives messages ids, in place

    def _start(self, item: tuple[int, Any, bool]) -> None:
        index, given, is_known = item
        if is_known:
            step = self.runner.recover(index, given, self._in_wave)
        else:
            step = self.runner.run(index, given)
        self._note(index, self._resumed(index, step))

    async def _astart(self, item: tuple[int, Any, bool]) -> None:
        index, given, is_known = item
        if is_known:
            step = await self._graph.arecover(index, given, self._in_wave)
        else:
            step = await self._graph.arun(index, given)
        self._note(index, await self._aresumed(index, step))

    def _resumed(self, index: int, step: Step) -> Step:
        """Hand the user's answers to an agent that waits for them."""
        while answers := self._answers_to(step):
            step = self._graph.run(index, resume_with(answers), keeps_failures=True)
        return step

    async def _aresumed(self, index: int, step: Step) -> Step:
        while answers := self._answers_to(step):
            step = await self._graph.arun(index, resume_with(answers), keeps_failures=True)
        return step

    def _answers_to(self, step: Step) -> dict[str, Any]:
        ids = [each.id for each in step.interrupts]
        return {key: self._resume.pop(key) for key in ids if key in self._resume}

    def _note(self, index: int, step: Step) -> None:
        """Keep what an agent waits for, or what has become of it."""
        if step.error is not None:
            self._errors[index] = step.error
        if step.requests:
            self._waves.add(index, step.requests)
        if step.in_wave and self._still_waiting is not None:
            self._still_waiting |= set(step.in_wave)
        if step.interrupts and not step.requests:
            self._paused.add(index)

    def _end_inputs(self) -> None:
        self._waves.end_inputs(self._count)
        for key in self._resume:
            logger.warning("resume names %s, but no agent waits for its answer.", key)

    # Sending

    def _offer(self, source: BatchSource) -> None:
        model = source.template.invocation.model
        known = self._sources.setdefault(model, source)
        if known.client.settings != source.client.settings:
            raise InvalidOptionError(
                f"The agent has two models {model!r} with different keys, addresses or connection "
                "settings. In a run in batches, they have to be equal."
            )

    def _is_waiting(self) -> bool:
        """Return whether there is a wave to send or to hand out."""
        if self._waves.current:
            return True
        return self._waves.has_pending and len(self._waves.waves) < self._max_waves

    def _needed(self, wave: Wave) -> dict[str, int]:
        """Return the models of a wave whose answers are waited for, and an agent that waits."""
        still = self._still_waiting
        found: dict[str, int] = {}
        for agent, key, model in self._waves.waiting(wave):
            if still is None or key in still:
                found.setdefault(model, agent)
        return found

    def _unknown_models(self) -> list[tuple[str, int]]:
        """Return the models that were not called yet in this process, and an agent for each."""
        if wave := self._waves.current:
            unsent = self._waves.unsent_models(wave)
            needed = {model: a for model, a in self._needed(wave).items() if model in unsent}
        else:
            needed = self._waves.pending_models
        return [(model, agent) for model, agent in needed.items() if model not in self._sources]

    def _check_known(self, model: str, step: Step) -> None:
        if model not in self._sources:
            if step.error is not None:
                raise step.error
            raise InvalidOptionError(
                f"The run has requests for {model}, which the agent does not call any more. Use "
                "the same agent as before, or another path."
            )

    def _wave(self) -> Wave:
        """Return the wave that was begun, or begin one."""
        return self._waves.current or self._waves.begin(self._sources)

    def _jobs(self, wave: Wave) -> list[WaveJob]:
        """Create the jobs of a wave, and return those that have not ended."""
        needed = self._needed(wave)
        sources = {model: self._sources[model] for model in needed if model in self._sources}
        jobs = self._waves.jobs(wave, sources)
        for job in jobs:
            job.submit()
        if jobs:
            self._show(f"wave {wave.number + 1}: {count_of(wave.requests, 'request')} sent")
        return jobs

    @contextlib.contextmanager
    def _explaining(self, wave: Wave) -> Iterator[None]:
        try:
            yield
        except GeminiNotFoundError as error:
            self._waves.explain_gone(error, wave)
            raise
        except GeminiTimeoutError as error:
            if self._end is None or time.monotonic() < self._end:
                raise
            raise GeminiTimeoutError(
                f"Wave {wave.number + 1} has not ended within {self._timeout_seconds:g} s. It goes "
                "on: make the same call again later."
            ) from error

    def _waiting_options(self) -> dict[str, Any]:
        left = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        return {"poll_seconds": self._poll_seconds, "timeout_seconds": left}

    # Handing out

    def _deliveries(self, wave: Wave, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the agents of a wave with the answers that they wait for, by request."""
        still = self._still_waiting
        for agent, answers in self._waves.answers(wave):
            for answer in answers:
                tally.add(answer)
            waiting = [a for a in answers if still is None or a.request.id in still]
            found = {
                a.request.id: {"line": a.line, "call": a.request.call}
                for a in waiting
                if a.line is not None
            }
            if found:
                yield agent, found
            elif waiting:
                self._waves.add(agent, [answer.request for answer in waiting])

    def _deliver(self, item: tuple[int, dict[str, Any]]) -> None:
        index, answers = item
        self._note(index, self._resumed(index, self.runner.deliver(index, answers)))

    async def _adeliver(self, item: tuple[int, dict[str, Any]]) -> None:
        index, answers = item
        step = await self._graph.adeliver(index, answers)
        self._note(index, await self._aresumed(index, step))

    def _end_wave(self, tally: Tally) -> None:
        wave = tally.wave()
        self._still_waiting = None
        if self._database.exists():
            flush_sqlite(self._database)
        self._waves.end(wave)
        self._show(f"{wave} · in all {usage_of(self._waves.waves)}")
        self._waves.check_ended_well(wave)
        self._fruitless = self._fruitless + 1 if tally.is_fruitless else 0
        if self._fruitless >= _MAX_FRUITLESS:
            raise BatchJobError(
                f"The last {self._fruitless} waves brought no answer. Look at the batch jobs, and "
                "make the same call again to go on."
            )

    def _show(self, text: str) -> None:
        if self._shows_progress:
            sys.stderr.write(f"{text}\n")

    def _unfinished(self) -> dict[int, Exception]:
        """Return an error for each agent that waits for a wave that is not sent."""
        error = BatchJobError(
            f"The agent still waits after {len(self._waves.waves)} waves. Call again with a higher "
            "max_waves to go on."
        )
        return dict.fromkeys(self._waves.pending_agents(), error)

    def _results(
        self,
        stack: contextlib.ExitStack,
        unfinished: Mapping[int, Exception],
        *,
        is_async: bool = False,
    ) -> AgentResults:
        if not self._waves.waves:
            logger.warning("No agent has called a ChatGemini in batches.")
        errors = {**unfinished, **self._errors}
        results = AgentResults(
            self.runner, self._count, errors, self._paused, self._waves.waves, is_async=is_async
        )
        weakref.finalize(results, stack.close)
        return results


def _check(name: str, value: object, is_valid: bool, expected: str) -> None:  # noqa: FBT001
    if not is_valid:
        raise InvalidOptionError(f"{name} must be {expected}, not {value!r}.")


def _check_config(config: Any) -> None:
    _check("config", config, config is None or isinstance(config, Mapping), "a RunnableConfig")
    configurable = (config or {}).get("configurable") or {}
    for name in ("thread_id", "checkpoint_id", "checkpoint_ns", "run_id"):
        if name in configurable or name in (config or {}):
            raise InvalidOptionError(
                f"config has {name}, but each agent needs its own. Leave it out: run_in_batches "
                "sets it."
            )


def _is_loop(agent: Any) -> bool:
    # Not imported: who has a loop has loaded it.
    module = sys.modules.get("langchain_gemini_tools.tool_loop")
    return module is not None and isinstance(agent, module.ToolLoop)
