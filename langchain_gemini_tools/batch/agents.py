"""`run_in_batches`: many agents at the price of batches, in waves; its arguments and results.

Every agent runs until it calls the model. What they wait for goes into one batch job, and each
agent continues with its response, runs its tools, and calls the model again. `driver` does it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack, cast, overload

from langchain_core.runnables import RunnableConfig

from langchain_gemini_tools.batch.items import check_inputs
from langchain_gemini_tools.batch.job import check_seconds
from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from langchain_gemini_tools.batch.runner import Runner

__all__ = ["AgentResults", "PausedAgent", "Wave", "arun_in_batches", "run_in_batches"]


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
    agent continues with its response, runs its tools, and calls the model again, until all are
    done.

    The folder at `path` and the checkpointer are the state of the run. After a crash, the same call
    continues where it stopped: nothing is sent twice, and only tools that were running when the
    process ended run again. Agents that failed are tried again.

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
        inputs: An iterable; each item is what the agent's `invoke` accepts.
        path: The folder of the run. It is created. Keep it until the run has ended.
        checkpointer: LangGraph's checkpointer. By default that of the agent, or an SQLite file in
            the folder. A `ToolLoop` has none.
        config: Callbacks, tags, metadata and `configurable` values for each agent.
        context: The graph's static context.
        resume: Answers to the agents' own interrupts, by the ids of the interrupts.
        storage: `gs://bucket/prefix` for requests and results, on Vertex AI only.
        max_waves: How many waves the whole run may have. Agents that still wait after that have a
            `BatchJobError`; the same call with a higher number continues.
        max_concurrency: How many agents run their tools at a time.
        poll_seconds: The time between two polls of a job.
        timeout_seconds: How long to wait for jobs; by default until the end.
        progress: Write a line about each wave to stderr.

    Raises:
        InvalidOptionError: The inputs differ from those at `path`, or the agent cannot run
            in batches.
        GeminiTimeoutError: The time is over. Make the same call again later.
        BatchJobError: A job failed or was cancelled. Make the same call again.
        GeminiAPIError: The API did not create a job. Make the same call again.
    """
    from langchain_gemini_tools.batch.driver import Driver

    options = RunOptions(
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
    _check_arguments(inputs, options)
    return Driver(agent, inputs, options).run()


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
    from langchain_gemini_tools.batch.driver import Driver

    given = inspect.signature(run_in_batches).bind(agent, inputs, **options)
    given.apply_defaults()
    checked = cast("RunOptions", given.kwargs)
    _check_arguments(inputs, checked)
    return await Driver(agent, inputs, checked).arun()


def _check(name: str, value: object, is_valid: bool, expected: str) -> None:  # noqa: FBT001
    if not is_valid:
        raise InvalidOptionError(f"{name} must be {expected}, not {value!r}.")


def _check_arguments(inputs: Any, options: RunOptions) -> None:
    check_inputs(inputs)
    limits = {"max_waves": options["max_waves"], "max_concurrency": options["max_concurrency"]}
    for name, value in limits.items():
        _check(name, value, isinstance(value, int) and value >= 1, "an integer of at least 1")
    check_seconds("poll_seconds", options["poll_seconds"])
    if options["timeout_seconds"] is not None:
        check_seconds("timeout_seconds", options["timeout_seconds"])
    is_mapping = options["resume"] is None or isinstance(options["resume"], Mapping)
    _check("resume", options["resume"], is_mapping, "a dict of ids of interrupts to answers")
    _check_config(options["config"])


def _check_config(config: Any) -> None:
    _check("config", config, config is None or isinstance(config, Mapping), "a RunnableConfig")
    configurable = (config or {}).get("configurable") or {}
    for name in ("thread_id", "checkpoint_id", "checkpoint_ns", "run_id"):
        if name in configurable or name in (config or {}):
            raise InvalidOptionError(
                f"config has {name}, but each agent needs its own. Leave it out: run_in_batches "
                "sets it."
            )


@dataclass(frozen=True)
class Wave:
    """One wave: the requests that were sent together, and what they cost."""

    number: int
    requests: int
    models: tuple[str, ...]
    """The model of each job."""
    is_done: bool = False
    """Whether all its answers were delivered to the agents."""
    answered: int = 0
    failed: int = 0
    """Requests that the service did not answer. They are sent again, unless they are invalid."""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: str | None = None
    """The price, at half of the standard price; None if `genai-prices` is not installed."""

    def __str__(self) -> str:
        failed = f", {self.failed:,} without an answer" if self.failed else ""
        tokens = f"{self.input_tokens:,} → {self.output_tokens:,} tokens"
        return f"wave {self.number + 1}: {self.answered:,} of {self.requests:,}{failed} · {tokens}"


@dataclass(frozen=True)
class PausedAgent:
    """An agent that waits for a person.

    Pass the answers to the next call of `run_in_batches`: `resume={interrupt.id: answer}`.
    """

    index: int
    """The number of its input."""
    interrupts: tuple[Any, ...]
    """What it asks: LangGraph's `Interrupt`s, with `id` and `value`."""
    config: RunnableConfig
    """Its config, to read its state: `results.agent.get_state(paused.config)`."""


class AgentResults(Sequence[Any]):
    """The outcome of each agent, in the order of the inputs.

    An item is what `invoke` returns; an exception, if the agent failed; or a `PausedAgent`, if it
    waits for a person. Items are read from the checkpointer when they are used, so that memory
    does not grow with their number. `print` shows how many there are of each, and what they cost.
    """

    def __init__(
        self,
        runner: Runner,
        count: int,
        errors: Mapping[int, Exception],
        paused: Iterable[int],
        waves: Sequence[Wave],
    ) -> None:
        self._runner = runner
        self._count = count
        self.errors = dict(sorted(errors.items()))
        """The errors of the agents that failed, by the number of the input."""
        self._paused = sorted(paused)
        self.waves = tuple(waves)
        """The waves, with their counts."""

    @property
    def agent(self) -> Any:
        """The agent, with its checkpointer."""
        return self._runner.agent

    @property
    def paused(self) -> list[Any]:
        """The agents that wait for a person: each a `PausedAgent`."""
        return [self[index] for index in self._paused]

    @property
    def input_tokens(self) -> int:
        """The input tokens of all requests."""
        return sum(wave.input_tokens for wave in self.waves)

    @property
    def output_tokens(self) -> int:
        """The output tokens of all requests."""
        return sum(wave.output_tokens for wave in self.waves)

    @property
    def dollars(self) -> Decimal | None:
        """The price in a batch, half of the standard one; None without `genai-prices`."""
        return _dollars_of(self.waves)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        number = range(self._count)[index]
        return self.errors[number] if number in self.errors else self._runner.result(number)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(self._count))

    async def aget(self, index: int) -> Any:
        """Return an item, without blocking the event loop.

        Args:
            index: The number of the input.
        """
        number = range(self._count)[index]
        return self.errors[number] if number in self.errors else await self._runner.aresult(number)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for number in range(self._count):
            yield await self.aget(number)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __str__(self) -> str:
        counts = {
            "done": self._count - len(self.errors) - len(self._paused),
            "failed": len(self.errors),
            "waiting for a person": len(self._paused),
        }
        agents = " · ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        requests = count_of(sum(wave.requests for wave in self.waves), "request")
        waves = count_of(len(self.waves), "wave")
        return f"{agents} · {waves}, {requests} · {usage_of(self.waves)}"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def usage_of(waves: Sequence[Wave]) -> str:
    """Return the tokens and the price of waves, as text."""
    from langchain_gemini_tools.display.traced import Cost

    tokens_in = sum(wave.input_tokens for wave in waves)
    tokens_out = sum(wave.output_tokens for wave in waves)
    dollars = _dollars_of(waves)
    price = "" if dollars is None else f" · {Cost(dollars)} at batch price"
    return f"{tokens_in:,} → {tokens_out:,} tokens{price}"


def _dollars_of(waves: Sequence[Wave]) -> Decimal | None:
    known = [Decimal(wave.dollars) for wave in waves if wave.dollars is not None]
    return sum(known, Decimal(0)) if known else None
