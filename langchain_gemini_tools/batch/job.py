"""`BatchJob`: the inputs of one call, sent through Gemini's batch service."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
import time
import weakref
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_gemini_tools.batch.folder import Folder
from langchain_gemini_tools.batch.items import ItemReporter
from langchain_gemini_tools.batch.service import make_service
from langchain_gemini_tools.batch.worker import JobWorker
from langchain_gemini_tools.errors import BatchJobError, GeminiTimeoutError, InvalidOptionError
from langchain_gemini_tools.facts.environment import delays_are_off

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.folder import Manifest
    from langchain_gemini_tools.batch.items import BatchSource, ItemOutcome

Result = TypeVar("Result")


@dataclass(frozen=True)
class BatchStatus:
    """How far a batch job is, by the counts of the service."""

    total: int
    succeeded: int = 0
    failed: int = 0
    """Failed items that can be sent again are sent again in a further job."""
    states: Mapping[str, str] = field(default_factory=dict)
    """The state of each job at the service, by its name."""
    is_done: bool = False

    def __str__(self) -> str:
        failed = f" · {self.failed:,} failed" if self.failed else ""
        state = "done" if self.is_done else ", ".join(dict.fromkeys(self.states.values()))
        return f"{self.succeeded:,}/{self.total:,}{failed} · {state or 'not sent'}"

    @classmethod
    def of(cls, manifest: Manifest) -> BatchStatus:
        """Return what the state of a folder says."""
        parts = manifest.parts
        total = manifest.count or sum(part.counts.get("request", 0) for part in parts)
        # More than there are inputs, if results could not be read and were sent again.
        succeeded = sum(part.counts.get("successful", 0) for part in parts)
        failed = sum(part.counts.get("failed", 0) for part in parts)
        # What failed in one job is sent again in a later one.
        resent = sum(part.count for part in parts if part.first is None and not part.is_foreign)
        return cls(
            total=total,
            succeeded=min(succeeded, total),
            failed=max(failed - resent, 0),
            states={part.job or f"part {part.number}": part.state for part in parts},
            is_done=manifest.is_collected,
        )


class BatchJob(JobWorker, Generic[Result]):
    """Inputs that Gemini's batch service answers, at half the price, within a day.

    `ChatGemini.batch_job` returns one. The folder at `path` is its state: after a crash, the same
    call continues where it stopped. One process at a time works on it; others wait.

    Example:
        ```python
        job = model.batch_job(questions, path="runs/answers")
        for index, result in job.results():
            if isinstance(result, Exception): ...
        ```
    """

    def __init__(
        self,
        source: BatchSource,
        path: str | os.PathLike[str] | None = None,
        *,
        webhooks: Mapping[str, Any] | None = None,
        storage: str | None = None,
        config: RunnableConfig | None = None,
    ) -> None:
        if path is None:
            path = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        super().__init__(source, Folder(path), make_service(source, webhooks, storage))
        self._config = config

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={str(self._folder.path)!r}, names={self.names!r})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "A BatchJob cannot be pickled. Its folder is its state: pass the path and the model to "
            "the other process, and call model.batch_job(path=...) there."
        )

    @property
    def names(self) -> list[str]:
        """The names of the jobs at the service: `model.batch_job(name=...)` finds them."""
        manifest = self._folder.load()
        return [part.job for part in manifest.parts if part.job] if manifest else []

    def poll(self) -> BatchStatus:
        """Ask the service once, collect what has finished, and send what has to follow.

        Failed items that can be sent again, responses that are not complete, and inputs of expired
        jobs go into a further job.
        """
        return BatchStatus.of(self._poll())

    @property
    def status(self) -> BatchStatus:
        """What was known after the last `poll`."""
        return BatchStatus.of(self._folder.require())

    async def asubmit(self) -> None:
        """Submit as `submit` does, without blocking the event loop."""
        await asyncio.to_thread(self.submit)

    async def apoll(self) -> BatchStatus:
        """Poll as `poll` does, without blocking the event loop."""
        return await asyncio.to_thread(self.poll)

    async def acancel(self) -> None:
        """Cancel as `cancel` does, without blocking the event loop."""
        await asyncio.to_thread(self.cancel)

    async def aresend(self) -> None:
        """Resend as `resend` does, without blocking the event loop."""
        await asyncio.to_thread(self.resend)

    async def adelete(self) -> None:
        """Delete as `delete` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete)

    # Waiting

    def wait(
        self,
        *,
        poll_seconds: float = 30.0,
        timeout_seconds: float | None = None,
        on_poll: Callable[[BatchStatus], object] | None = None,
    ) -> BatchStatus:
        """Poll until all inputs have a result or an error.

        Args:
            poll_seconds: The time between two polls. The first ones follow sooner.
            timeout_seconds: How long to wait; by default until the end. 0 polls once.
            on_poll: Called with the status after each poll, for a progress bar.

        Raises:
            GeminiTimeoutError: The time is over. The job continues to run; call `wait` again.
        """
        for pause in _pauses(poll_seconds, timeout_seconds):
            status = self.poll()
            if on_poll:
                on_poll(status)
            if status.is_done:
                return status
            time.sleep(pause)
        raise self._out_of_time(timeout_seconds)

    async def async_wait(
        self,
        *,
        poll_seconds: float = 30.0,
        timeout_seconds: float | None = None,
        on_poll: Callable[[BatchStatus], object] | None = None,
    ) -> BatchStatus:
        """Wait as `wait` does, without blocking the event loop."""
        for pause in _pauses(poll_seconds, timeout_seconds):
            status = await asyncio.to_thread(self.poll)
            if on_poll:
                on_poll(status)
            if status.is_done:
                return status
            await asyncio.sleep(pause)
        raise self._out_of_time(timeout_seconds)

    def _out_of_time(self, seconds: float | None) -> GeminiTimeoutError:
        return GeminiTimeoutError(
            f"The batch job has not ended within {seconds:g} s. It continues to run: call "
            "wait or results again, in this process or in another one."
        )

    # Results

    def results(
        self, *, wait: bool = True, **waiting: Any
    ) -> Iterator[tuple[int, Result | Exception]]:
        """Iterate over the number of each input and its result, in the order of the inputs.

        An input that failed has its typed error in place of a result.

        Args:
            wait: Wait for the end. Otherwise inputs without a result so far are left out.
            **waiting: Arguments of `wait`.
        """
        if wait:
            self.wait(**waiting)
        yield from self._results()

    async def aresults(
        self, *, wait: bool = True, **waiting: Any
    ) -> AsyncIterator[tuple[int, Result | Exception]]:
        """Iterate as `results` does, without blocking the event loop."""
        if wait:
            await self.async_wait(**waiting)
        found = self._results()
        while batch := await asyncio.to_thread(lambda: list(islice(found, 100))):
            for item in batch:
                yield item

    def _results(self) -> Iterator[tuple[int, Any]]:
        manifest = self._folder.require()
        part = manifest.parts[0]
        if part.is_foreign and part.is_collected and not manifest.count:
            raise BatchJobError(f"{part.job} ended as {part.state} without results{part.reason}.")
        reporter = ItemReporter(self._source, self._config)
        for index, outcome in self._outcomes(manifest, range(manifest.count)):
            if outcome.next_body and not manifest.is_collected:
                continue
            if reporter.is_heard:
                body = b"{}" if part.is_foreign else self._first_request(manifest, index)
                reporter.report(body, outcome)
            yield index, self._finish(outcome)

    def _finish(self, outcome: ItemOutcome) -> Any:
        if outcome.result is None:
            return outcome.error
        message = outcome.result.generations[0].message
        try:
            return self._source.finish(message)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - any error of a user's validator
            return error


def _pauses(longest: float, timeout_seconds: float | None) -> Iterator[float]:
    """Yield the seconds to wait after each poll, once or until the time is over."""
    check_seconds("poll_seconds", longest)
    if timeout_seconds is not None:
        check_seconds("timeout_seconds", timeout_seconds)
    is_off = delays_are_off()
    end = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
    pause, is_first = min(1.0, longest), True
    while (left := end - time.monotonic()) > 0 or is_first:
        yield 0.0 if is_off else min(pause, max(left, 0.0))
        pause, is_first = min(pause * 1.5, longest), False


def check_seconds(name: str, seconds: Any) -> None:
    """Reject what is not a number of seconds.

    Raises:
        InvalidOptionError: It is not.
    """
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidOptionError(
            f"{name}={seconds!r} is not a number of seconds. Use a number that is not negative."
        )
