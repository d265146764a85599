"""`AgentResults`: what `run_in_batches` returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, overload

from langchain_core.runnables import RunnableConfig

from langchain_gemini_tools.batch.waves import Wave


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


class _Reader(Protocol):
    """What reads the result of one agent."""

    agent: Any

    def result(self, index: int) -> Any: ...

    async def aresult(self, index: int) -> Any: ...


class AgentResults(Sequence[Any]):
    """What has become of each agent, in the order of the inputs.

    An item is what `invoke` returns; an exception, if the agent failed; or a `PausedAgent`, if it
    waits for a person. Items are read from the checkpointer when they are used, so that memory
    stays flat. `print` shows how many there are of each, and what they cost.
    """

    def __init__(  # noqa: PLR0913
        self,
        runner: _Reader,
        count: int,
        errors: Mapping[int, Exception],
        paused: Iterable[int],
        waves: Sequence[Wave],
        *,
        is_async: bool = False,
    ) -> None:
        self._runner = runner
        self._count = count
        self.errors = dict(sorted(errors.items()))
        """The errors of the agents that failed, by the number of the input."""
        self._paused = sorted(paused)
        self.waves = tuple(waves)
        """The waves, with their counts."""
        self._is_async = is_async

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
        known = [Decimal(wave.dollars) for wave in self.waves if wave.dollars is not None]
        return sum(known, Decimal(0)) if known else None

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
        if number in self.errors:
            return self.errors[number]
        if self._is_async:
            return await self._runner.aresult(number)
        return await asyncio.to_thread(self._runner.result, number)

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
    from langchain_gemini_tools.display.cost import Cost

    tokens_in, tokens_out = (
        sum(wave.input_tokens for wave in waves),
        sum(wave.output_tokens for wave in waves),
    )
    known = [Decimal(wave.dollars) for wave in waves if wave.dollars is not None]
    price = f" · {Cost(sum(known, Decimal(0)))} at batch price" if known else ""
    return f"{tokens_in:,} → {tokens_out:,} tokens{price}"
