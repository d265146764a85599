"""`BatchJob`: the inputs of one call, sent through Gemini's batch service."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_gemini_tools.batch.folder import Folder
from langchain_gemini_tools.batch.inputs import adopt_job, preview_requests, write_inputs
from langchain_gemini_tools.batch.items import Evaluator, ItemReporter, Outcomes
from langchain_gemini_tools.batch.service import DeveloperService
from langchain_gemini_tools.batch.worker import JobWorker
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiTimeoutError,
    InvalidInputError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.environment import delays_are_off
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.folder import Manifest
    from langchain_gemini_tools.batch.inputs import BatchSource
    from langchain_gemini_tools.batch.items import ItemOutcome
    from langchain_gemini_tools.batch.service import BatchService

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


class BatchJob(Generic[Result]):
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
        self._source = source
        if path is None:
            path = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        self._folder = Folder(path)
        self._config = config
        self._service = _make_service(source, webhooks, storage)
        self._outcomes = Outcomes(self._folder, Evaluator(source.template, source.client))
        self._worker = JobWorker(self._folder, self._service, self._outcomes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={str(self._folder.path)!r}, names={self.names!r})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "A BatchJob cannot be pickled. Its folder is its state: pass the path and the model to "
            "the other process, and call model.batch_job(path=...) there."
        )

    # Preparing and sending

    def prepare(self, inputs: Iterable[Any] | None) -> None:
        """Write the requests to the folder, or compare them with those that are there.

        Args:
            inputs: An iterable; each item is what `invoke` accepts. None uses the folder as it is.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one in the folder.
        """
        write_inputs(self._folder, self._service, self._source, inputs)

    def adopt(self, name: str) -> None:
        """Use a job of the service that was created elsewhere.

        Args:
            name: `batches/...`, or `projects/.../batchPredictionJobs/...` on Vertex AI.
        """
        adopt_job(self._folder, self._service, self._source, name)

    def preview(self, count: int = 3) -> list[dict[str, Any]]:
        """Return the first lines that are sent: each has a key and a `request`.

        Args:
            count: How many.
        """
        return preview_requests(self._folder, self._service, count)

    @property
    def names(self) -> list[str]:
        """The names of the jobs at the service: `model.batch_job(name=...)` finds them."""
        manifest = self._folder.load()
        return [part.job for part in manifest.parts if part.job] if manifest else []

    def submit(self) -> None:
        """Create the jobs that do not exist yet.

        If the API refuses one because too many tokens are enqueued (429), it is created by a later
        `poll`, as long as another job is running.
        """
        self._worker.submit()

    def poll(self) -> BatchStatus:
        """Ask the service once, collect what has finished, and send what has to follow.

        Failed items that can be sent again, responses that are not complete, and inputs of expired
        jobs go into a further job.
        """
        return BatchStatus.of(self._worker.poll())

    @property
    def status(self) -> BatchStatus:
        """What was known after the last `poll`."""
        return BatchStatus.of(self._folder.require())

    def cancel(self) -> None:
        """Cancel the jobs. What they have finished is kept; `resend` sends the rest again."""
        self._worker.cancel()

    def resend(self) -> None:
        """Send the inputs that have no result again, such as those of a cancelled job."""
        self._worker.resend()

    def delete(self) -> None:
        """Delete the jobs, the uploaded requests, and results in a bucket. The folder is kept.

        What does not exist at the service any more is skipped.
        """
        self._worker.delete()

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
        _check_foreign(manifest)
        is_foreign = manifest.parts[0].is_foreign
        reporter = ItemReporter(self._source.traced, self._config)
        for index, outcome in self._outcomes.of(manifest, range(manifest.count)):
            if outcome.next_body and not manifest.is_collected:
                continue
            if reporter.is_heard:
                body = b"{}" if is_foreign else self._outcomes.first_request(manifest, index)
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


def _make_service(
    source: BatchSource, webhooks: Mapping[str, Any] | None, storage: str | None
) -> BatchService:
    arguments = (source.client, source.template, source.retries)
    if webhooks is not None:
        _check_webhooks(webhooks)
    if not source.client.settings.vertexai:
        if storage is not None:
            raise InvalidOptionError(
                "storage is for Vertex AI: the Gemini Developer API keeps requests and results "
                "itself. Leave it out, or make the model with vertexai=True."
            )
        return DeveloperService(*arguments, webhooks)
    if webhooks is not None:
        raise InvalidOptionError(
            "Batch jobs on Vertex AI have no webhooks. Leave them out; job.wait() and job.poll() "
            "show the end of a job."
        )
    from langchain_gemini_tools.batch.vertex import VertexService

    return VertexService(*arguments, storage)


def _check_webhooks(webhooks: Any) -> None:
    """Reject what the API cannot receive. The values are not shown: an address may have a key."""
    expected = "Pass one such as {'uris': [...]}."
    if not isinstance(webhooks, Mapping):
        kind = type(webhooks).__name__
        raise InvalidOptionError(f"webhooks must be a dict, not {kind}. {expected}")
    try:
        encode_json({**webhooks})
    except InvalidInputError:
        raise InvalidOptionError(f"webhooks must be a dict of JSON values. {expected}") from None


def _check_foreign(manifest: Manifest) -> None:
    """Raise if a job that was created elsewhere has ended without any result."""
    part = manifest.parts[0]
    if part.is_foreign and part.is_collected and not manifest.count:
        raise BatchJobError(f"{part.job} ended as {part.state} without results{part.reason}.")


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
