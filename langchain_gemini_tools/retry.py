"""Which failures are tried again, how often, and how long to wait between.

The errors themselves say whether the same request may succeed later (`is_retryable`); there are no
status codes here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.exceptions import ModelError, ModelTimeoutError

from langchain_gemini_tools.errors import FEEDBACK_ERRORS

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Generator,
        Iterator,
    )

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from tenacity import RetryCallState

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """Repeats a failed request with growing, random pauses, or as the API asks for them.

    Not repeated: what cannot succeed, a timeout (the caller's time is up), a quota per day, what
    the API wants to hear of later than `max_delay_seconds` from now, and an answer that the model
    got wrong: that one is asked for again in other words, elsewhere.
    """

    max_retries: int
    """Requests after the first one; 0 sends one request."""
    max_delay_seconds: float = 60.0
    initial_delay_seconds: float = 1.0
    on_retry: Callable[[int, Exception, float], object] | None = None
    """Called before each pause with the number of the retry, the failure, and the seconds."""
    aon_retry: Callable[[int, Exception, float], Awaitable[object]] | None = None
    """The same for `acall` and `aopen_stream`: awaited on their event loop."""
    sleep: Callable[[float], object] = time.sleep
    asleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    """Numbers from 0 to 1."""

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of the function, called again while its failure allows it."""
        for attempt in range(1, self.max_retries + 1):
            try:
                return function()
            except ModelError as error:
                delay = self._pause_after(error, attempt)
                self.announce(attempt, error, delay)
            self.sleep(delay)
        return function()

    async def acall(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """`call` for a coroutine function."""
        for attempt in range(1, self.max_retries + 1):
            try:
                return await function()
            except ModelError as error:
                delay = self._pause_after(error, attempt)
                await self.aannounce(attempt, error, delay)
            await self.asleep(delay)
        return await function()

    def open_stream(self, function: Callable[[], Iterator[Result]]) -> Generator[Result]:
        """The items of the iterator the function returns, asked again until its first item.

        Once an item has reached the caller, a failure is final: a second try would say the
        beginning twice.
        """
        items, first = self.call(lambda: _begin(function()))
        try:
            yield from first
            yield from items
        finally:
            _close(items)

    async def aopen_stream(
        self, function: Callable[[], AsyncIterator[Result]]
    ) -> AsyncGenerator[Result]:
        """`open_stream` for an asynchronous iterator."""
        items, first = await self.acall(lambda: _abegin(function()))
        try:
            for item in first:
                yield item
            async for item in items:
                yield item
        finally:
            await _aclose(items)

    def _pause_after(self, error: ModelError, attempt: int) -> float:
        """The seconds to wait before this retry; raises the error when it is final."""
        asked: float | None = getattr(error, "retry_after", None)
        if not error.is_retryable or isinstance(error, (ModelTimeoutError, *FEEDBACK_ERRORS)):
            raise error
        if asked is not None and asked > self.max_delay_seconds:
            error.add_note(
                f"Not repeated: the API asks to wait {asked:g} s, longer than the limit of "
                f"{self.max_delay_seconds:g} s."
            )
            raise error
        # Full jitter: many clients that failed together do not come back together.
        ceiling = min(self.initial_delay_seconds * 2.0 ** (attempt - 1), self.max_delay_seconds)
        delay = 0.0 if _is_replayed(error) else max(asked or 0.0, self.jitter() * ceiling)
        # In words: a handler that keeps the error keeps its frames, and so the model.
        told = (attempt, self.max_retries, delay, str(error))
        _logger.warning("Retry %d of %d in %.1f s: %s", *told)
        return delay

    def announce(self, attempt: int, error: Exception, delay: float) -> None:
        """Tell whoever wants to know that there is one request more."""
        if self.on_retry is not None:
            self.on_retry(attempt, error, delay)

    async def aannounce(self, attempt: int, error: Exception, delay: float) -> None:
        """`announce`, for `aon_retry`."""
        if self.aon_retry is not None:
            await self.aon_retry(attempt, error, delay)


def _is_replayed(error: ModelError) -> bool:
    """Whether a recording answered, which says so in a header: nobody gains by waiting for it."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers is not None and headers.get("x-cassette") == "replayed"


def tell_callbacks(
    run_manager: CallbackManagerForLLMRun, attempt: int, error: Exception, delay: float
) -> None:
    """Tell LangChain's callbacks (`on_retry`) of a retry, in the form that they expect."""
    run_manager.on_retry(_retry_state(attempt, error, delay))


async def atell_callbacks(
    run_manager: AsyncCallbackManagerForLLMRun, attempt: int, error: Exception, delay: float
) -> None:
    """`tell_callbacks` on the running loop: a handler may wait for something of this loop."""
    await run_manager.on_retry(_retry_state(attempt, error, delay))


def _retry_state(attempt: int, error: Exception, delay: float) -> RetryCallState:
    from tenacity import RetryCallState, Retrying

    state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = attempt
    state.upcoming_sleep = delay
    state.set_exception((type(error), error, error.__traceback__))
    return state


RETRY_EVENT = "gemini_retry"
"""Name of the custom event that tells of a retry inside a stream."""


def tell_surrounding_run(attempt: int, error: Exception, delay: float) -> None:
    """Tell the callbacks of the chain, agent or graph that streams the model (`on_custom_event`).

    A stream has no run manager to call `on_retry` with. Where nothing surrounds it, nobody can be
    told: `model.stream(..., config)` keeps its callbacks inside langchain-core.
    """
    from langchain_core.callbacks import dispatch_custom_event

    with contextlib.suppress(RuntimeError):  # there is no surrounding run
        dispatch_custom_event(RETRY_EVENT, _retry_event(attempt, error, delay))


async def atell_surrounding_run(attempt: int, error: Exception, delay: float) -> None:
    """`tell_surrounding_run` on the running loop."""
    from langchain_core.callbacks import adispatch_custom_event

    with contextlib.suppress(RuntimeError):  # there is no surrounding run
        await adispatch_custom_event(RETRY_EVENT, _retry_event(attempt, error, delay))


def _retry_event(attempt: int, error: Exception, delay: float) -> dict[str, Any]:
    return {"attempt": attempt, "delay_seconds": delay, "error": str(error)}


def _begin(items: Iterator[Result]) -> tuple[Iterator[Result], list[Result]]:
    """The iterator, and its first item in a list that is empty where there is none."""
    for item in items:
        return items, [item]
    return items, []


async def _abegin(items: AsyncIterator[Result]) -> tuple[AsyncIterator[Result], list[Result]]:
    async for item in items:
        return items, [item]
    return items, []


def _close(items: Any) -> None:
    if close := getattr(items, "close", None):
        close()


async def _aclose(items: Any) -> None:
    if close := getattr(items, "aclose", None):
        await close()
