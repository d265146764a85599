"""`Driver` runs many agents: each until it calls the model, then all calls as one wave.

The sync and async methods differ only by `async` and `await`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import sys
import time
import uuid
import weakref
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables.config import ContextThreadPoolExecutor

from langchain_gemini_tools.batch.agents import AgentResults, count_of, usage_of
from langchain_gemini_tools.batch.graph_runner import (
    AgentStep,
    GraphRunner,
    aopen_sqlite,
    check_graph,
    flush_sqlite,
    open_sqlite,
    resume_with,
)
from langchain_gemini_tools.batch.loop_runner import LoopRunner
from langchain_gemini_tools.batch.waves import Tally, WaveJob, Waves
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiNotFoundError,
    GeminiTimeoutError,
    InvalidOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from langchain_gemini_tools.batch.agents import RunOptions, Wave
    from langchain_gemini_tools.batch.inputs import BatchSource

    Runner = GraphRunner | LoopRunner

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_MAX_FRUITLESS = 3
"""After this many waves whose jobs returned nothing, the run ends with an error."""


class Driver:
    """One call of `run_in_batches`.

    Args:
        agent: A compiled graph, or a `ToolLoop`.
        inputs: An iterable; each item is what the agent's `invoke` accepts.
        options: All other arguments of `run_in_batches`.

    Raises:
        InvalidOptionError: The agent cannot run in batches.
    """

    def __init__(self, agent: Any, inputs: Iterable[Any], options: RunOptions) -> None:
        self._options = options
        self._inputs = inputs
        self._runner = self._make_runner(agent)
        self._waves = Waves(options["path"], self._runner.kind, options["storage"])
        self._resume = dict(options["resume"] or {})
        seconds = options["timeout_seconds"]
        self._end = None if seconds is None else time.monotonic() + seconds
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

    def _make_runner(self, agent: Any) -> Runner:
        options, session = self._options, uuid.uuid4().hex
        if _is_loop(agent):
            unused = {name: options[name] for name in ("checkpointer", "context", "resume")}
            for name, value in unused.items():
                if value is not None:
                    raise InvalidOptionError(f"A ToolLoop does not use {name}. Leave it out.")
            return LoopRunner(agent, options["config"], session, self._offer)
        checkpointer = options["checkpointer"]
        check_graph(agent, checkpointer)
        if checkpointer is None and not isinstance(agent.checkpointer, bool):
            checkpointer = agent.checkpointer
        agent = agent.copy({"checkpointer": checkpointer})
        return GraphRunner(agent, options["config"], options["context"], session, self._offer)

    # The run, sync and async

    def run(self) -> AgentResults:
        """Run all agents."""
        with contextlib.ExitStack() as stack, self._opened():
            if isinstance(self._runner, GraphRunner):
                if self._runner.agent.checkpointer is None:
                    self._use(stack.enter_context(open_sqlite(self._database)))
                self._runner.result(0)  # fails if the checkpointer is an async one
            else:
                self._runner.open(self._waves.path)
                stack.callback(self._runner.close)
            self._each(self._starts(), self._start)
            self._end_inputs()
            while self._is_waiting():
                for model, agent in self._unknown_models():
                    self._check_known(model, self._runner.nudge(agent))
                wave = self._wave()
                for job in self._jobs(wave):
                    with self._explaining(wave):
                        job.wait(**self._waiting_options())
                tally = Tally(wave)
                self._each(self._deliveries(wave, tally), self._deliver)
                self._end_wave(tally)
            return self._results(stack.pop_all(), self._unfinished())

    async def arun(self) -> AgentResults:
        """Run all agents on the running event loop."""
        if isinstance(self._runner, LoopRunner):  # it runs async tools itself
            return await asyncio.to_thread(self.run)
        runner = self._runner
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
            # Results are read later, by code that may not close an async checkpointer.
            self._use(results.enter_context(open_sqlite(self._database)))
            return self._results(results.pop_all(), unfinished)

    @property
    def _graph(self) -> GraphRunner:
        assert isinstance(self._runner, GraphRunner)  # noqa: S101 - a loop runs in a thread
        return self._runner

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        with self._waves.folder.lock(creates=True):
            try:
                self._waves.open()
                self._runner.run_id = self._waves.run_id
                self._runner.sent = self._waves.sent_agents()
                if wave := self._waves.current:
                    self._still_waiting = set()
                    self._in_wave = {key for _, key, _ in self._waves.waiting(wave)}
                yield
            finally:
                self._waves.close()

    @property
    def _database(self) -> Path:
        return self._waves.path / "checkpoints.sqlite"

    def _use(self, checkpointer: Any) -> None:
        self._graph.agent = self._graph.agent.copy({"checkpointer": checkpointer})

    def _each(self, items: Iterable[_T], work: Callable[[_T], None]) -> None:
        """Call `work` with every item, in threads."""
        running: set[Future[None]] = set()
        with ContextThreadPoolExecutor(self._options["max_concurrency"]) as pool:
            try:
                for item in items:
                    running.add(pool.submit(work, item))
                    if len(running) > 2 * self._options["max_concurrency"]:
                        done, running = wait(running, return_when=FIRST_COMPLETED)
                        for future in done:
                            future.result()
                for future in running:
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    async def _aeach(self, items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
        """Call `work` with every item, in tasks."""
        running: set[asyncio.Future[None]] = set()
        try:
            for item in items:
                running.add(asyncio.ensure_future(work(item)))
                if len(running) >= self._options["max_concurrency"]:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for future in done:
                        future.result()
            await asyncio.gather(*running)
        finally:
            for future in running:
                future.cancel()

    # Starting

    def _starts(self) -> Iterator[tuple[int, Any, bool]]:
        """Yield the number of each input, the input, and whether an earlier call had the same."""
        for index, given in enumerate(self._inputs):
            is_known = self._waves.check_input(index, self._encode(index, given))
            self._count = index + 1
            yield index, copy.deepcopy(given), is_known  # LangGraph gives messages ids, in place

    def _encode(self, index: int, given: Any) -> bytes:
        try:
            return self._runner.encode(given)
        except Exception as error:  # any error of a serializer, or of a conversion to messages
            raise InvalidOptionError(
                f"Input {index} cannot be stored: {str(error).strip().rstrip('.')}. Pass what the "
                "agent's invoke accepts, without objects such as functions or locks."
            ) from error

    def _start(self, item: tuple[int, Any, bool]) -> None:
        index, given, is_known = item
        if is_known:
            step = self._runner.recover(index, given, self._in_wave)
        else:
            step = self._runner.run(index, given)
        self._note(index, self._resumed(index, step))

    async def _astart(self, item: tuple[int, Any, bool]) -> None:
        index, given, is_known = item
        if is_known:
            step = await self._graph.arecover(index, given, self._in_wave)
        else:
            step = await self._graph.arun(index, given)
        self._note(index, await self._aresumed(index, step))

    def _resumed(self, index: int, step: AgentStep) -> AgentStep:
        """Pass the user's answers to an agent that waits for them."""
        while answers := self._answers_to(step):
            step = self._graph.run(index, resume_with(answers), keeps_failures=True)
        return step

    async def _aresumed(self, index: int, step: AgentStep) -> AgentStep:
        while answers := self._answers_to(step):
            step = await self._graph.arun(index, resume_with(answers), keeps_failures=True)
        return step

    def _answers_to(self, step: AgentStep) -> dict[str, Any]:
        ids = [each.id for each in step.interrupts]
        return {key: self._resume.pop(key) for key in ids if key in self._resume}

    def _note(self, index: int, step: AgentStep) -> None:
        """Store what an agent waits for, or its outcome."""
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
        """Return whether there is a wave to send or to deliver."""
        if self._waves.current:
            return True
        return self._waves.has_pending and len(self._waves.waves) < self._options["max_waves"]

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

    def _check_known(self, model: str, step: AgentStep) -> None:
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
                f"Wave {wave.number + 1} has not ended within "
                f"{self._options['timeout_seconds']:g} s. It continues to run: make the same call "
                "again later."
            ) from error

    def _waiting_options(self) -> dict[str, Any]:
        left = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        return {"poll_seconds": self._options["poll_seconds"], "timeout_seconds": left}

    # Delivering

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
        self._note(index, self._resumed(index, self._runner.deliver(index, answers)))

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
                f"The last {self._fruitless} waves returned no responses. Look at the batch "
                "jobs, and make the same call again to continue."
            )

    def _show(self, text: str) -> None:
        if self._options["progress"]:
            sys.stderr.write(f"{text}\n")

    def _unfinished(self) -> dict[int, Exception]:
        """Return an error for each agent that waits for a wave that is not sent."""
        error = BatchJobError(
            f"The agent still waits after {len(self._waves.waves)} waves. Call again with a higher "
            "max_waves to continue."
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
            logger.warning(
                "No agent called a ChatGemini, so nothing was sent to the batch service."
            )
        errors = {**unfinished, **self._errors}
        results = AgentResults(
            self._runner, self._count, errors, self._paused, self._waves.waves, is_async=is_async
        )
        weakref.finalize(results, stack.close)
        return results


def _is_loop(agent: Any) -> bool:
    # Not imported: if the agent is a loop, the module is loaded.
    module = sys.modules.get("langchain_gemini_tools.tool_loop")
    return module is not None and isinstance(agent, module.ToolLoop)
