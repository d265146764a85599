"""Start an interaction in the background, and read it until it has ended.

- A start whose reply was lost is not repeated: the interaction may run. A start that the API
  rejected is retried as usual. So is each read.
- The time between two reads grows from 1 to 30 seconds.
- After `background_timeout`, or if the caller is cancelled or interrupted, the interaction is
  cancelled. After any other error it goes on; its id is in a note of the error.

The sync and async methods differ only by `async` and `await`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiConnectionError,
    GeminiServerError,
    GeminiTimeoutError,
    GeminiToolsError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.request import RenderedRequest

logger = logging.getLogger(__name__)

_MAY_HAVE_STARTED = (GeminiConnectionError, GeminiServerError, GeminiTimeoutError)


class BackgroundRun:
    """One interaction in the background. Use it once.

    Args:
        request: The request.
        client: What sends it.
        retries: Applies to each read, and to a start that was rejected.
    """

    def __init__(
        self, request: RenderedRequest, client: GeminiClient, retries: RetryPolicy
    ) -> None:
        self._request = request
        self._client = client
        self._retries = retries
        self._name: str | None = None
        self._reads = 0
        self._is_overdue = False
        timeout = request.background_timeout_seconds
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def run(self, sending: dict[str, Any]) -> gemini.JsonObject:
        """Start the interaction and return it when it has ended.

        Args:
            sending: The arguments of the client's `send`.

        Raises:
            GeminiTimeoutError: It did not end in time, and was cancelled.
            GeminiAPIError: It could not be started or read.
        """
        with self._starting():
            response = self._client.send(**sending)
        try:
            with self._naming_interaction():
                while self._is_running(response):
                    self._retries.sleep(self._delay())
                    read = partial(self._client.send, **self._reading(sending))
                    response = self._retries.call(read)
        except (GeminiTimeoutError, KeyboardInterrupt) as error:
            if self._cancels_after(error):
                with suppress(GeminiToolsError):
                    self._client.send(**self._cancelling(sending))
            raise
        return response

    async def arun(self, sending: dict[str, Any]) -> gemini.JsonObject:
        """Run as `run` does, on the running event loop."""
        with self._starting():
            response = await self._client.asend(**sending)
        try:
            with self._naming_interaction():
                while self._is_running(response):
                    await self._retries.asleep(self._delay())
                    read = partial(self._client.asend, **self._reading(sending))
                    response = await self._retries.acall(read)
        except (GeminiTimeoutError, asyncio.CancelledError, KeyboardInterrupt) as error:
            if self._cancels_after(error):
                with suppress(GeminiToolsError, asyncio.CancelledError):
                    await asyncio.shield(self._client.asend(**self._cancelling(sending)))
            raise
        return response

    @contextmanager
    def _starting(self) -> Iterator[None]:
        try:
            yield
        except _MAY_HAVE_STARTED as error:
            error.is_retryable = False
            error.add_note("It is not known whether the interaction has started: not repeated.")
            raise

    @contextmanager
    def _naming_interaction(self) -> Iterator[None]:
        try:
            yield
        except GeminiAPIError as error:
            error.is_retryable = False  # another start would be another interaction
            error.interaction_id = self._name
            error.add_note(f"model.client.interactions.get(id={self._name!r}) reads its result.")
            raise

    def _is_running(self, response: gemini.JsonObject) -> bool:
        name = self._request.running_interaction(response)
        if name is not None:
            self._name = name
            logger.info("Interaction %s is %s.", name, response.get("status"))
        return name is not None

    def _cancels_after(self, error: BaseException) -> bool:
        """Whether the caller has given up, in contrast to one read that took too long."""
        return self._is_overdue or not isinstance(error, GeminiTimeoutError)

    def _delay(self) -> float:
        """Return the seconds until the next read.

        Raises:
            GeminiTimeoutError: The time is used up.
        """
        self._reads += 1
        delay = self._retries.poll_delay(self._reads)
        if self._deadline is None:
            return delay
        if (left := self._deadline - time.monotonic()) <= 0:
            self._is_overdue = True
            raise GeminiTimeoutError(
                f"The interaction {self._name} did not end within background_timeout "
                f"({self._request.background_timeout_seconds:g} s) and is cancelled."
            )
        return min(delay, left)

    def _reading(self, sending: dict[str, Any]) -> dict[str, Any]:
        path = f"{sending['path']}/{self._name}"
        return {**sending, "body": b"", "path": path, "method": "GET"}

    def _cancelling(self, sending: dict[str, Any]) -> dict[str, Any]:
        return {**sending, "body": b"", "path": f"{sending['path']}/{self._name}/cancel"}
