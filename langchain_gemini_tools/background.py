"""Start an interaction in the background, or find it by its id, and read it until it has ended.

- A start whose reply was lost is not repeated: the interaction may run. A start that the API
  rejected is retried as usual. So is each read.
- The time between two reads grows from 1 to 30 seconds.
- A stream that is cut is resumed after the last event that had an id. Without one, it fails.
- The id and the status are reported after the start and each read.
- After `background_timeout`, or if the caller is cancelled or interrupted, the interaction is
  cancelled. After any other error it goes on; its id is in a note of the error. It also goes on if
  the reader of a stream stops reading.

The sync and async methods differ only by `async` and `await`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from langchain_core.exceptions import ModelError, ModelTimeoutError

from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiConnectionError,
    GeminiServerError,
    GeminiTimeoutError,
    GeminiToolsError,
    TruncatedStreamError,
    UnreadableResponseError,
    missing_status,
)
from langchain_gemini_tools.facts.finish_reasons import INTERACTION_COMPLETED, RUNNING
from langchain_gemini_tools.wire.metadata import truncated_stream_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire import shapes as gemini

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 10.0
"""How long a caller that has given up waits for the request that cancels."""

_MAY_HAVE_STARTED = (
    GeminiConnectionError,
    GeminiServerError,
    GeminiTimeoutError,
    TruncatedStreamError,
    UnreadableResponseError,
)


class BackgroundRun:
    """One interaction in the background. Use it once.

    Args:
        client: What sends the requests.
        retries: Applies to each read, and to a start that was rejected.
        interaction_id: The interaction to read; `None` starts one.
        timeout_seconds: How long it may take; `None` for any time.
    """

    def __init__(
        self,
        client: GeminiClient,
        retries: RetryPolicy,
        interaction_id: str | None,
        timeout_seconds: float | None,
    ) -> None:
        self._client = client
        self._retries = retries
        self._name = interaction_id
        self._reads = 0
        """Reads, or in a stream attempts to resume it, since the last event with an id."""
        self._status: dict[str, Any] = {}
        """What is reported: the id and the status."""
        self._event_id: str | None = None
        self._seen: set[str] = set()
        """The ids of all events so far, in case that a resumed stream repeats some."""
        self._is_resumed = False
        self._has_ended = False
        self._is_overdue = False
        self._timeout_seconds = timeout_seconds
        self._started = time.monotonic()

    def run(self, sending: dict[str, Any]) -> gemini.JsonObject:
        """Start the interaction, if it has not been started, and return it when it has ended.

        Args:
            sending: The arguments of the client's `send`.

        Raises:
            GeminiTimeoutError: It did not end in time, and was cancelled.
            GeminiAPIError: It could not be started or read.
        """
        try:
            with self._finalizing_errors():
                is_new = self._name is None
                response = self._client.send(**sending) if is_new else self._read(sending)
                while self._is_running(response):
                    self._retries.report_status(self._status)
                    self._retries.sleep(self._delay())
                    response = self._read(sending)
                self._retries.report_status(self._status)
        except (GeminiTimeoutError, KeyboardInterrupt) as error:
            if self._cancels_after(error):
                self._cancel(sending)
            raise
        return response

    async def arun(self, sending: dict[str, Any]) -> gemini.JsonObject:
        """Run as `run` does, on the running event loop."""
        try:
            with self._finalizing_errors():
                is_new = self._name is None
                sent = self._client.asend(**sending) if is_new else self._aread(sending)
                response = await sent
                while self._is_running(response):
                    await self._retries.areport_status(self._status)
                    await self._retries.asleep(self._delay())
                    response = await self._aread(sending)
                await self._retries.areport_status(self._status)
        except (GeminiTimeoutError, asyncio.CancelledError, KeyboardInterrupt) as error:
            if self._cancels_after(error):
                await self._acancel(sending)
            raise
        return response

    def stream(self, sending: dict[str, Any]) -> Generator[gemini.JsonObject]:
        """Start the interaction and yield its events. A stream that is cut is resumed.

        One that has been started is yielded as a whole.

        Args:
            sending: The arguments of the client's `stream`.

        Raises:
            GeminiTimeoutError: It did not end in time, and was cancelled.
            GeminiAPIError: It could not be started, or its stream not be resumed.
            TruncatedStreamError: The stream was cut, and its events have no ids.
        """
        if self._name is not None:
            yield self.run(sending)
            return
        event: Any = None
        while not self._has_ended:
            try:
                if self._event_id is not None:
                    self._retries.sleep(self._delay())
                with closing(self._client.stream(**self._streaming(sending))) as events:
                    for event in filter(self._is_new, events):
                        if self._receive(event):
                            self._retries.report_status(self._status)
                        yield event
                self._check_end()
            except (ModelError, KeyboardInterrupt) as error:
                if self._cancels_after(error):
                    self._cancel(sending)
                if not self._resumes_after(error):
                    raise
            finally:
                event = None  # tracebacks would show it

    async def astream(self, sending: dict[str, Any]) -> AsyncGenerator[gemini.JsonObject]:
        """Stream as `stream` does, on the running event loop."""
        if self._name is not None:
            yield await self.arun(sending)
            return
        event: Any = None
        while not self._has_ended:
            try:
                if self._event_id is not None:
                    await self._retries.asleep(self._delay())
                async with aclosing(self._client.astream(**self._streaming(sending))) as events:
                    async for event in events:
                        if not self._is_new(event):
                            continue
                        if self._receive(event):
                            await self._retries.areport_status(self._status)
                        yield event
                self._check_end()
            except (ModelError, asyncio.CancelledError, KeyboardInterrupt) as error:
                if self._cancels_after(error):
                    await self._acancel(sending)
                if not self._resumes_after(error):
                    raise
            finally:
                event = None

    # Errors

    @contextmanager
    def _finalizing_errors(self) -> Iterator[None]:
        try:
            yield
        except ModelError as error:
            self._finalize(error)
            raise

    def _finalize(self, error: ModelError) -> None:
        """Prevent that an error leads to a second interaction, and say how to find the first."""
        if self._name is not None:
            error.is_retryable = False
            if isinstance(error, GeminiAPIError):
                error.interaction_id = self._name
            error.add_note(f"The option interaction_id={self._name!r} reads its result.")
        elif isinstance(error, _MAY_HAVE_STARTED):
            error.is_retryable = False
            error.add_note("The interaction may have started, so the request was not repeated.")

    def _resumes_after(self, error: BaseException) -> bool:
        """Decide whether a stream that failed is resumed."""
        if not isinstance(error, ModelError):
            return False
        is_late = isinstance(error, ModelTimeoutError)  # of one wait: `_delay` has the last word
        can_help = is_late or (error.is_retryable and self._reads <= self._retries.max_retries)
        if self._event_id is None or self._is_overdue or not can_help:
            self._finalize(error)
            return False
        logger.warning(
            "Interaction %s: the stream was interrupted and is resumed: %s", self._name, str(error)
        )
        return True

    def _check_end(self) -> None:
        if not self._has_ended:
            raise truncated_stream_error()

    def _cancels_after(self, error: BaseException) -> bool:
        """Return whether the caller has given up, in contrast to a request that failed."""
        is_given_up = self._is_overdue or not isinstance(error, ModelError)
        return is_given_up and self._name is not None

    # State

    def _is_running(self, response: gemini.JsonObject) -> bool:
        """Take the id and the status from a response; whether the interaction has not ended.

        Raises:
            UnreadableResponseError: The response has no status, or a running interaction no id.
        """
        name, status = response.get("id"), response.get("status")
        if status is None:
            raise missing_status(response)
        self._status = {"interaction_id": name, "status": status}
        if status not in RUNNING:
            return False
        if not isinstance(name, str):
            error = UnreadableResponseError(
                "The interaction runs in the background, but the API returned no id for it.",
                body=response,
            )
            error.is_retryable = False  # another start would be another interaction
            raise error
        self._name = name
        logger.info("Interaction %s is %s.", name, status)
        return True

    def _is_new(self, event: gemini.JsonObject) -> bool:
        known = event.get("event_id")
        return not self._is_resumed or not isinstance(known, str) or known not in self._seen

    def _receive(self, event: gemini.JsonObject) -> bool:
        """Take from an event what is needed to resume after it; whether it has the status."""
        interaction = event.get("interaction")
        if isinstance(interaction, dict) and interaction.get("id"):
            self._is_running({"status": "in_progress", **interaction})
        if isinstance(known := event.get("event_id"), str) and known and self._name:
            self._event_id = known
            self._seen.add(known)
            self._reads = 0
        self._has_ended |= event.get("event_type") == INTERACTION_COMPLETED
        if not self._has_ended:
            self._check_deadline()
        return isinstance(interaction, dict)

    def _delay(self) -> float:
        """Return the seconds until the next read.

        Raises:
            GeminiTimeoutError: The time is used up.
        """
        self._reads += 1
        delay = self._retries.poll_delay(self._reads)
        left = self._check_deadline()
        return delay if left is None else min(delay, left)

    def _check_deadline(self) -> float | None:
        """Return the seconds that are left; `None` without a limit.

        Raises:
            GeminiTimeoutError: The time is used up.
        """
        if self._timeout_seconds is None:
            return None
        if (left := self._started + self._timeout_seconds - time.monotonic()) <= 0:
            self._is_overdue = True
            raise GeminiTimeoutError(
                f"The interaction {self._name} did not end within background_timeout "
                f"({self._timeout_seconds:g} s) and was cancelled."
            )
        return left

    # Requests

    def _cancel(self, sending: dict[str, Any]) -> None:
        with self._logging_failure():
            self._client.send(**self._cancelling(sending))

    async def _acancel(self, sending: dict[str, Any]) -> None:
        with self._logging_failure(), suppress(asyncio.CancelledError):
            await asyncio.shield(self._client.asend(**self._cancelling(sending)))

    @contextmanager
    def _logging_failure(self) -> Iterator[None]:
        try:
            yield
        except GeminiToolsError as error:
            text = "Interaction %s could not be cancelled and may still be running: %s"
            logger.warning(text, self._name, str(error))

    def _read(self, sending: dict[str, Any]) -> gemini.JsonObject:
        return self._retries.call(partial(self._client.send, **self._reading(sending)))

    async def _aread(self, sending: dict[str, Any]) -> gemini.JsonObject:
        return await self._retries.acall(partial(self._client.asend, **self._reading(sending)))

    def _streaming(self, sending: dict[str, Any]) -> dict[str, Any]:
        """Return the request that starts the stream, or the one that resumes it."""
        if self._event_id is None:
            return sending
        self._is_resumed = True
        query = urlencode({"stream": "true", "last_event_id": self._event_id})
        reading = self._reading(sending)
        return {**reading, "path": f"{reading['path']}?{query}"}

    def _reading(self, sending: dict[str, Any]) -> dict[str, Any]:
        path = f"{sending['path']}/{self._name}"
        return {**sending, "body": b"", "path": path, "method": "GET"}

    def _cancelling(self, sending: dict[str, Any]) -> dict[str, Any]:
        path = f"{sending['path']}/{self._name}/cancel"
        limit = sending["timeout_seconds"] or _CANCEL_SECONDS
        seconds = min(limit, _CANCEL_SECONDS)
        return {**sending, "body": b"", "path": path, "timeout_seconds": seconds}
