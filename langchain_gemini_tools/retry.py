"""When a failed request is repeated, and what is reported to LangChain's callbacks meanwhile.

Errors know whether the same request may succeed later (`is_retryable`); this module knows no status
codes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.exceptions import ModelError, ModelTimeoutError

from langchain_gemini_tools.errors import FEEDBACK_ERRORS
from langchain_gemini_tools.facts.environment import delays_are_off
from langchain_gemini_tools.facts.locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from tenacity import RetryCallState

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_SUMMARY_SECONDS = 60.0


class RetryLog:
    """Logs each retry at DEBUG, and at WARNING the first one and a summary once a minute.

    A run over thousands of inputs meets the same rate limit hundreds of times.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = ForkSafeLock()
        self._summaries: dict[str, tuple[float, int]] = {}
        """For each model, when the last summary was logged, and the retries since then."""

    def add(self, model: str, retry: str, error: str) -> None:
        """Log a retry.

        Args:
            model: The name of the model.
            retry: Which retry it is, and when.
            error: The text of the error.
        """
        _logger.debug("%s: %s: %s", model, retry, error)
        with self._lock:
            last, count = self._summaries.get(model, (-math.inf, 0))
            now = self._now()
            is_due = now - last >= _SUMMARY_SECONDS
            self._summaries[model] = (now, 0) if is_due else (last, count + 1)
        if is_due:
            more = f" ({count} more since the last message)" if count else ""
            _logger.warning("%s: %s%s: %s", model, retry, more, error)


_LOG = RetryLog()


_MAX_POLL_SECONDS = 30.0


@dataclass(frozen=True)
class RetryPolicy:
    """Repeats a failed request after a random, growing delay, or after the delay the API asks for.

    These errors are final: errors that are not retryable, timeouts (the caller's time is used up),
    daily quotas, a requested delay beyond `max_delay_seconds`, and `FEEDBACK_ERRORS`, which
    `ChatGemini` handles by sending the request again with feedback.
    """

    max_retries: int
    """How many requests may follow the first one."""
    max_delay_seconds: float = 60.0
    initial_delay_seconds: float = 1.0
    reports: RunReports | None = None
    """Where each retry is reported before its delay. Without it, retries are only logged."""
    sleep: Callable[[float], object] = time.sleep
    asleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    """Returns a random number from 0 to 1."""
    model: str = "Gemini"
    """The name in log messages."""
    log: RetryLog = _LOG

    def call(self, function: Callable[[], Result]) -> Result:
        """Call the function, again after each error that is not final; return its result."""
        for attempt in range(1, self.max_retries + 1):
            try:
                return function()
            except ModelError as error:
                delay = self._delay_after(error, attempt)
                self.report(attempt, error, delay)
            self.sleep(delay)
        return function()

    async def acall(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """`call` for a coroutine function."""
        for attempt in range(1, self.max_retries + 1):
            try:
                return await function()
            except ModelError as error:
                delay = self._delay_after(error, attempt)
                await self.areport(attempt, error, delay)
            await self.asleep(delay)
        return await function()

    def open_stream(self, function: Callable[[], Generator[Result]]) -> Generator[Result]:
        """Yield the items of the generator that the function returns.

        The function is called again as in `call` until there is a first item. After that, every
        error is final: a second stream would repeat the beginning.
        """
        items, first = self.call(lambda: _start(function()))
        with closing(items):
            yield from first
            yield from items

    async def aopen_stream(
        self, function: Callable[[], AsyncGenerator[Result]]
    ) -> AsyncGenerator[Result]:
        """`open_stream` for an asynchronous generator."""
        items, first = await self.acall(lambda: _astart(function()))
        async with aclosing(items):
            for item in first:
                yield item
            async for item in items:
                yield item

    def _delay_after(self, error: ModelError, attempt: int) -> float:
        """Return the seconds to wait before this retry, or raise the error if it is final."""
        asked: float | None = getattr(error, "retry_after", None)
        if not error.is_retryable or isinstance(error, (ModelTimeoutError, *FEEDBACK_ERRORS)):
            raise error
        if asked is not None and asked > self.max_delay_seconds:
            error.add_note(
                f"Not retried: the API asks for a delay of {asked:g} s, which is longer than "
                f"max_retry_delay ({self.max_delay_seconds:g} s)."
            )
            raise error
        delay = max(asked or 0.0, self.exponential_backoff(attempt))
        if _is_replayed(error) or delays_are_off():
            delay = 0.0
        # The text, not the error: a log handler that keeps the error keeps its frames.
        retry = f"retry {attempt} of {self.max_retries} in {delay:.1f} s"
        self.log.add(self.model, retry, str(error))
        return delay

    def exponential_backoff(self, attempt: int) -> float:
        """Return a random delay up to a limit that doubles with each retry.

        With full jitter, clients that failed at the same time do not retry at the same time.
        """
        doublings = min(attempt - 1, 64)  # 1,024 of them are not a float
        longest = min(self.initial_delay_seconds * 2.0**doublings, self.max_delay_seconds)
        return self.jitter() * longest

    def poll_delay(self, attempt: int) -> float:
        """Return the seconds before something that takes long is read again."""
        if delays_are_off():
            return 0.0
        longest = min(self.initial_delay_seconds * 1.5 ** min(attempt - 1, 20), _MAX_POLL_SECONDS)
        return longest * (1.0 + self.jitter()) / 2

    def report(self, attempt: int, error: Exception, delay: float) -> None:
        """Report a retry to LangChain's callbacks."""
        if self.reports:
            self.reports.retry(attempt, error, delay)

    async def areport(self, attempt: int, error: Exception, delay: float) -> None:
        """Report as `report` does, on the running loop, which handlers may need."""
        if self.reports:
            await self.reports.aretry(attempt, error, delay)

    def report_status(self, status: dict[str, Any]) -> None:
        """Report the id and the status of an interaction in the background."""
        if self.reports:
            self.reports.status(status)

    async def areport_status(self, status: dict[str, Any]) -> None:
        """Report as `report_status` does, on the running loop."""
        if self.reports:
            await self.reports.astatus(status)


def _is_replayed(error: ModelError) -> bool:
    """Return whether the response comes from a cassette, where waiting is pointless."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers is not None and headers.get("x-cassette") == "replayed"


RETRY_EVENT = "gemini_retry"
"""Name of the custom event that reports a retry of a stream."""
STATUS_EVENT = "gemini_interaction"
"""Name of the custom event that reports an interaction in the background."""


@dataclass(frozen=True)
class RunReports:
    """Reports what happens during a call to LangChain's callbacks.

    langchain-core streams without handing over its run manager. Then the chain, agent or graph that
    streams the model gets custom events (`on_custom_event`). Without one, nothing is reported.

    The sync methods are for sync calls, the async ones for calls on an event loop.
    """

    run_manager: Any
    """A `CallbackManagerForLLMRun`, for async calls an `AsyncCallbackManagerForLLMRun`, or None."""

    def retry(self, attempt: int, error: Exception, delay: float) -> None:
        """Report a retry: to `on_retry` as tenacity's state, or as a custom event."""
        if self.run_manager:
            self.run_manager.on_retry(_retry_state(attempt, error, delay))
        else:
            _report_to_parent(RETRY_EVENT, _retry_event(attempt, error, delay))

    async def aretry(self, attempt: int, error: Exception, delay: float) -> None:
        """Report as `retry` does, on the running loop."""
        if self.run_manager:
            await self.run_manager.on_retry(_retry_state(attempt, error, delay))
        else:
            await _areport_to_parent(RETRY_EVENT, _retry_event(attempt, error, delay))

    def status(self, status: dict[str, Any]) -> None:
        """Report the status of an interaction as a custom event of the model's run."""
        from langchain_core.callbacks import CallbackManager

        if run := self.run_manager:
            manager = CallbackManager(run.handlers, tags=run.tags, metadata=run.metadata)
            manager.on_custom_event(STATUS_EVENT, status, run_id=run.run_id)
        else:
            _report_to_parent(STATUS_EVENT, status)

    async def astatus(self, status: dict[str, Any]) -> None:
        """Report as `status` does, on the running loop."""
        from langchain_core.callbacks import AsyncCallbackManager

        if run := self.run_manager:
            manager = AsyncCallbackManager(run.handlers, tags=run.tags, metadata=run.metadata)
            await manager.on_custom_event(STATUS_EVENT, status, run_id=run.run_id)
        else:
            await _areport_to_parent(STATUS_EVENT, status)


def _report_to_parent(name: str, data: dict[str, Any]) -> None:
    from langchain_core.callbacks import dispatch_custom_event

    with suppress(RuntimeError):  # without a parent run
        dispatch_custom_event(name, data)


async def _areport_to_parent(name: str, data: dict[str, Any]) -> None:
    from langchain_core.callbacks import adispatch_custom_event

    with suppress(RuntimeError):  # without a parent run
        await adispatch_custom_event(name, data)


def _retry_state(attempt: int, error: Exception, delay: float) -> RetryCallState:
    from tenacity import RetryCallState, Retrying

    state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = attempt
    state.upcoming_sleep = delay
    state.set_exception((type(error), error, error.__traceback__))
    return state


def _retry_event(attempt: int, error: Exception, delay: float) -> dict[str, Any]:
    return {"attempt": attempt, "delay_seconds": delay, "error": str(error)}


def _start(items: Generator[Result]) -> tuple[Generator[Result], list[Result]]:
    """Return the generator and its first item, in a list that is empty if there is none."""
    return items, list(islice(items, 1))


async def _astart(items: AsyncGenerator[Result]) -> tuple[AsyncGenerator[Result], list[Result]]:
    async for item in items:
        return items, [item]
    return items, []
