"""`Driver` runs many agents: each until it calls the model, then all calls as one wave.

It is written once, for sync and async code: `arun` runs it in a thread, from where the agents are
run on the caller's event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import logging
import sys
import time
import weakref
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables.config import ContextThreadPoolExecutor

from langchain_gemini_tools.batch.agents import AgentResults, count_of, usage_of
from langchain_gemini_tools.batch.loop_runner import LoopRunner
from langchain_gemini_tools.batch.runner import flush_sqlite
from langchain_gemini_tools.batch.waves import Tally, WaveJob, Waves
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiNotFoundError,
    GeminiTimeoutError,
    InvalidOptionError,
)
from langchain_gemini_tools.tool_loop import ToolLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from pathlib import Path

    from langchain_gemini_tools.batch.agents import RunOptions, Wave
    from langchain_gemini_tools.batch.graph_runner import GraphRunner
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.batch.runner import AgentStep

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 5.0
"""How long a cancelled run waits for its thread, which leaves the folder."""
_MAX_FRUITLESS = 3
"""After this many waves whose jobs returned nothing, the run ends with an error."""


class LoopBridge:
    """Runs coroutines on the caller's event loop, for a run that is in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    def run(self, coroutine: Coroutine[Any, Any, _T], *, is_last: bool = False) -> _T:
        """Run a coroutine and return its result, from another thread.

        Args:
            coroutine: The coroutine.
            is_last: Whether it releases something, so that it is not cancelled.
        """
        work = coroutine if is_last else self._cancellable(coroutine)
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None

    async def _cancellable(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        if self._is_cancelled:
            task.cancel()
        try:
            return await task
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        """Cancel what is running, and what is still to come. Called on the event loop."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()


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

    def _make_runner(self, agent: Any) -> GraphRunner | LoopRunner:
        if isinstance(agent, ToolLoop):
            return LoopRunner(agent, self._options, self._offer)
        if not all(hasattr(agent, name) for name in ("get_state", "copy", "output_channels")):
            raise InvalidOptionError(
                f"run_in_batches needs a compiled LangGraph agent or a ToolLoop, not a "
                f"{type(agent).__name__}. For a model, use model.batch_job(...)."
            )
        from langchain_gemini_tools.batch.graph_runner import GraphRunner

        return GraphRunner(agent, self._options, self._offer)

    def run(self) -> AgentResults:
        """Run all agents."""
        with contextlib.ExitStack() as stack, self._opened():
            self._runner.open(self._database, stack)
            self._each(self._starts(), self._start)
            self._end_inputs()
            while self._is_waiting():
                self._find_sources()
                wave = self._waves.current or self._waves.begin(self._sources)
                for job in self._jobs(wave):
                    self._wait(job, wave)
                tally = Tally(wave)
                self._each(self._deliveries(wave, tally), self._deliver)
                self._end_wave(tally)
            self._runner.open_results(self._database, stack)
            return self._results(stack.pop_all())

    async def arun(self) -> AgentResults:
        """Run all agents on the running event loop."""
        if self._runner.kind == "agent":
            self._runner.bridge = LoopBridge()
        bridge = self._runner.bridge
        # Not a thread of the event loop: it has few, and the agents and the jobs need them.
        pool = ContextThreadPoolExecutor(1)
        work = pool.submit(self.run)
        pool.shutdown(wait=False)
        ended = asyncio.wrap_future(work)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if bridge:
                bridge.cancel()
                # `asyncio.run` waits for this before it closes the loop, which `work` still uses.
                asyncio.get_running_loop().run_in_executor(None, wait, [work])
                await asyncio.wait([ended], timeout=_CANCEL_SECONDS)
            raise

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
        return self._waves.path / self._runner.database

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
        self._note(index, step)

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
        for key in self._runner.user_answers:
            logger.warning("resume names %s, but no agent waits for its answer.", key)

    # Sending

    def _offer(self, source: BatchSource) -> None:
        model = source.model
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
        return (
            bool(self._waves.pending_models())
            and len(self._waves.waves) < self._options["max_waves"]
        )

    def _needed(self, wave: Wave) -> dict[str, int]:
        """Return the models of a wave whose answers are waited for, and an agent that waits."""
        still = self._still_waiting
        found: dict[str, int] = {}
        for agent, key, model in self._waves.waiting(wave):
            if still is None or key in still:
                found.setdefault(model, agent)
        return found

    def _find_sources(self) -> None:
        """Make agents repeat their calls of models that were not called yet in this process."""
        if wave := self._waves.current:
            unsent = self._waves.unsent_models(wave)
            needed = {model: a for model, a in self._needed(wave).items() if model in unsent}
        else:
            needed = self._waves.pending_models()
        for model, agent in needed.items():
            step = None if model in self._sources else self._runner.nudge(agent)
            if step and model not in self._sources:
                raise step.error or InvalidOptionError(
                    f"The run has requests for {model}, which the agent does not call any more. "
                    "Use the same agent as before, or another path."
                )

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

    def _wait(self, job: WaveJob, wave: Wave) -> None:
        left = None if self._end is None else max(self._end - time.monotonic(), 0.001)
        options: Any = {"poll_seconds": self._options["poll_seconds"], "timeout_seconds": left}
        try:
            if self._runner.bridge:
                self._runner.bridge.run(job.async_wait(**options))
            else:
                job.wait(**options)
        except GeminiNotFoundError as error:
            error.add_note(self._waves.explain_gone(wave))
            raise
        except GeminiTimeoutError as error:
            if self._end is None or time.monotonic() < self._end:
                raise
            raise GeminiTimeoutError(
                f"Wave {wave.number + 1} has not ended within "
                f"{self._options['timeout_seconds']:g} s. It continues to run: make the same call "
                "again later."
            ) from error

    # Delivering

    def _deliveries(self, wave: Wave, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the agents of a wave with the answers that they wait for, by request."""
        still = self._still_waiting
        for agent, answers in self._waves.answers(wave):
            for answer in answers:
                tally.add(answer)
            waiting = [each for each in answers if still is None or each.id in still]
            found = {
                each.id: {"line": each.line, "call": each.call}
                for each in waiting
                if each.line is not None
            }
            if found:
                yield agent, found
            else:
                self._waves.add(agent, waiting)

    def _deliver(self, item: tuple[int, dict[str, Any]]) -> None:
        index, answers = item
        self._note(index, self._runner.deliver(index, answers))

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

    def _results(self, stack: contextlib.ExitStack) -> AgentResults:
        waves = self._waves.waves
        if not waves:
            logger.warning(
                "No agent called a ChatGemini, so nothing was sent to the batch service."
            )
        error = BatchJobError(
            f"The agent still waits after {len(waves)} waves. Call again with a higher max_waves "
            "to continue."
        )
        errors = {**dict.fromkeys(self._waves.pending_agents(), error), **self._errors}
        results = AgentResults(self._runner, self._count, errors, self._paused, waves)
        weakref.finalize(results, stack.close)
        return results
