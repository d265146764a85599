"""`BatchJob`: the inputs of one call, sent through Gemini's batch service.

Each step is stored before the next one begins, under the folder's lock.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import shutil
import tempfile
import time
import uuid
import weakref
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_gemini_tools.batch.folder import Folder, JobPart, Manifest
from langchain_gemini_tools.batch.items import (
    compare_inputs,
    evaluate_all,
    find_unanswered,
    read_results,
    render_inputs,
)
from langchain_gemini_tools.batch.service import KNOWN_STATES, BatchStatus, make_service
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiAPIError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiRateLimitError,
    GeminiTimeoutError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.environment import delays_are_off

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.folder import Lines
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.batch.service import JobReport

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_MAX_UNREADABLE = 20
"""After this many polls, about eight minutes, results that cannot be read are an error."""


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
        if path is None:
            path = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        self._source = source
        self._folder = Folder(path)
        self._service = make_service(source, webhooks, storage)
        self._config = config
        self._unreadable: Counter[int] = Counter()
        """How often the results of a part could not be read, by its number."""
        self._odd_states: set[str] = set()

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

    @property
    def status(self) -> BatchStatus:
        """What was known after the last `poll`."""
        return BatchStatus.of(self._folder.require())

    # Inputs

    def prepare(self, inputs: Iterable[Any] | None) -> None:
        """Write the requests to the folder, or compare them with those that are there.

        Args:
            inputs: An iterable; each item is what `invoke` accepts. None uses the folder as it is.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one in the folder.
        """
        folder, model = self._folder, self._source.model
        lines = None if inputs is None else render_inputs(self._source, inputs)
        with folder.lock(creates=lines is not None):
            manifest = folder.require() if lines is None else folder.load()
            self._service.check_folder(manifest, folder.path)
            # The requests, which are compared, do not name the model.
            if manifest and not manifest.parts[0].is_foreign and manifest.model != model:
                raise InvalidOptionError(
                    f"The batch job at {folder.path} uses {manifest.model}, not {model}. "
                    "Use another path for another job."
                )
            if lines is None:
                return
            if manifest:
                compare_inputs(lines, folder, manifest)
            else:
                self._write(lines)

    def _write(self, lines: Lines) -> None:
        parts = self._folder.write_requests(
            map(self._service.check_request, lines), 0, self._service.limits, is_range=True
        )
        if not parts:
            raise InvalidOptionError("The batch job has no inputs. Pass at least one.")
        count = sum(part.count for part in parts)
        manifest = Manifest(uuid.uuid4().hex, self._source.model, count, parts=tuple(parts))
        self._folder.save(replace(manifest, storage=self._service.storage))

    def adopt(self, name: str) -> None:
        """Use a job of the service that was created elsewhere.

        Args:
            name: `batches/...`, or `projects/.../batchPredictionJobs/...` on Vertex AI.
        """
        self._service.check_name(name)
        with self._folder.lock(creates=True):
            if (manifest := self._folder.load()) is None:
                part = JobPart(0, 0, job=name, state="PENDING", is_intended=True, is_foreign=True)
                run, model = uuid.uuid4().hex, self._source.model
                self._folder.save(Manifest(run, model, 0, parts=(part,)))
            elif name not in [part.job for part in manifest.parts]:
                raise InvalidOptionError(
                    f"{self._folder.path} belongs to other jobs than {name}. Use another path."
                )

    def preview(self, count: int = 3) -> list[dict[str, Any]]:
        """Return the first lines that are sent: each has a key and a `request`.

        Args:
            count: How many.
        """
        lines = islice(self._folder.read_all_requests(self._folder.require()), count)
        return [json.loads(self._service.render_line(index, body)) for index, body in lines]

    # Sending

    def submit(self) -> None:
        """Create the jobs that do not exist yet.

        If the API refuses one because too many tokens are enqueued (429), it is created by a later
        `poll`, as long as another job is running.
        """
        with self._folder.lock():
            manifest = self._folder.require()
            for part in manifest.parts:
                if part.job is None and not part.is_collected:
                    manifest = self._submit(manifest, part)

    def _submit(self, manifest: Manifest, part: JobPart) -> Manifest:
        display_name = f"{manifest.run}-{part.number}"
        if manifest.is_cancelled:
            return self._give_up(manifest, part, display_name)
        self._folder.check_requests(part)
        uploaded = self._service.upload(self._folder, part, display_name)
        if uploaded != part:
            part = uploaded
            manifest = self._save_part(manifest, part)
        body = self._service.render(self._folder, part, display_name)
        may_exist = part.is_intended
        part = replace(part, is_intended=True)
        manifest = self._save_part(manifest, part)
        try:
            report = self._service.create(body, display_name, may_exist=may_exist)
        except GeminiRateLimitError as error:
            if not any(other.job and not other.is_collected for other in manifest.parts):
                error.add_note(
                    "For batch jobs, the limit counts the tokens of all jobs that have not ended. "
                    "The requests are stored: make the same call again later."
                )
                raise
            logger.warning("A batch job is not created before others have ended: %s", str(error))
            return manifest
        return self._save_part(manifest, report.noted_in(part))

    def _give_up(self, manifest: Manifest, part: JobPart, display_name: str) -> Manifest:
        """Cancel a job whose creation may have been lost; end a part that has no job."""
        if part.is_intended and (found := self._service.find(display_name)):
            manifest = self._save_part(manifest, found.noted_in(part))
            self._service.cancel(found.name)
            return manifest
        with self._folder.replacing(self._folder.results_path(part.number).name):
            pass  # no results
        return self._save_part(manifest, replace(part, state="CANCELLED", is_collected=True))

    def _save_part(self, manifest: Manifest, part: JobPart) -> Manifest:
        manifest = manifest.with_part(part)
        self._folder.save(manifest)
        return manifest

    def _send_again(self, manifest: Manifest, lines: Lines) -> Manifest:
        """Store the manifest with further parts for these requests, and create their jobs."""
        number = len(manifest.parts)
        parts = self._folder.write_requests(lines, number, self._service.limits, is_range=False)
        manifest = replace(manifest, parts=(*manifest.parts, *parts))
        self._folder.save(manifest)
        for part in parts:
            manifest = self._submit(manifest, part)
        return manifest

    # Collecting

    def poll(self) -> BatchStatus:
        """Ask the service once, collect what has finished, and send what has to follow.

        Failed items that can be sent again, responses that are not complete, and inputs of expired
        jobs go into a further job.
        """
        with self._folder.lock():
            later = GeminiNotFoundError, UnreadableResponseError, BatchJobError
            return BatchStatus.of(self._each_part(self._folder.require(), self._poll_part, *later))

    def _each_part(
        self,
        manifest: Manifest,
        work: Callable[[Manifest, JobPart], Manifest],
        *later: type[Exception],
    ) -> Manifest:
        """Call `work` with each part; raise the first of some errors only after the last part."""
        failure: Exception | None = None
        for number in range(len(manifest.parts)):
            try:
                manifest = work(manifest, manifest.parts[number])
            except later as error:
                failure = failure or error
                manifest = self._folder.require()
        if failure:
            raise failure
        return manifest

    def _poll_part(self, manifest: Manifest, part: JobPart) -> Manifest:
        if part.is_collected:
            return manifest
        if part.job is None:
            return self._submit(manifest, part)
        try:
            report = self._service.get(part.job)
        except GeminiNotFoundError as error:
            error.add_note(
                f"The API has no {part.job}. It may have been deleted, or the key belongs to "
                "another project. Use another path to send the inputs again."
            )
            raise
        if report.state not in KNOWN_STATES | self._odd_states:
            self._odd_states.add(report.state)
            logger.warning(
                "%s is in the state %r, which this version does not know. It counts as running.",
                report.name,
                report.state,
            )
        part = report.noted_in(part)
        manifest = self._save_part(manifest, part)
        return self._collect(manifest, part, report) if report.is_final else manifest

    def _collect(self, manifest: Manifest, part: JobPart, report: JobReport) -> Manifest:
        """Store the results of a job, and prepare the requests that follow from them."""
        try:
            with self._folder.replacing(self._folder.results_path(part.number).name) as file:
                self._service.write_results(self._folder, part, report, file)
        except (GeminiNotFoundError, GeminiPermissionError) as error:
            # A job can be SUCCEEDED before its results are readable.
            self._unreadable[part.number] += 1
            if self._unreadable[part.number] < _MAX_UNREADABLE:
                logger.warning("The results of %s cannot be read yet: %s", part.job, str(error))
                return manifest
            self._unreadable[part.number] = 0
            error.add_note(
                f"The results of {part.job} cannot be read: the API may have deleted them. Make "
                "the same call again later. Use another path to send the inputs again."
            )
            raise
        part = replace(part, is_collected=True)
        results = self._folder.results(part)
        if part.is_foreign:
            manifest = replace(manifest, count=results.count)
        manifest = manifest.with_part(part)
        return self._send_again(manifest, self._follow_ups(manifest, part))

    def _follow_ups(self, manifest: Manifest, part: JobPart) -> Lines:
        """Yield the requests that follow from the results of a part."""
        if not manifest.is_cancelled:
            for index, outcome in evaluate_all(self._source, self._folder, manifest, part):
                if outcome.next_body:
                    yield index, outcome.next_body

    # Ending

    def cancel(self) -> None:
        """Cancel the jobs. What they have finished is kept; `resend` sends the rest again."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=True)
            self._folder.save(manifest)
            self._each_part(manifest, self._cancel_part, GeminiAPIError)

    def _cancel_part(self, manifest: Manifest, part: JobPart) -> Manifest:
        if part.job and not part.is_collected:
            self._service.cancel(part.job)
        elif not part.is_collected:
            manifest = self._submit(manifest, part)
        return manifest

    def resend(self) -> None:
        """Send the inputs that have an error in place of a result again."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=False)
            if manifest.parts[0].is_foreign:
                raise InvalidOptionError(
                    f"{manifest.parts[0].job} was created elsewhere, so its requests are not known "
                    "here. Send the inputs as a new job."
                )
            lines = find_unanswered(self._source, self._folder, manifest)
            self._send_again(manifest, lines)

    def delete(self) -> None:
        """Delete the jobs, the uploaded requests, and results in a bucket. The folder is kept.

        What does not exist at the service any more is skipped.
        """
        with self._folder.lock():
            for part in self._folder.require().parts:
                if part.job:
                    with suppress(GeminiNotFoundError):
                        self._service.delete(part.job)
                self._service.delete_files(part)

    # Without blocking the event loop

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
        yield from read_results(self._source, self._folder, self._config)

    async def aresults(
        self, *, wait: bool = True, **waiting: Any
    ) -> AsyncIterator[tuple[int, Result | Exception]]:
        """Iterate as `results` does, without blocking the event loop."""
        if wait:
            await self.async_wait(**waiting)
        found = read_results(self._source, self._folder, self._config)
        while batch := await asyncio.to_thread(lambda: list(islice(found, 100))):
            for item in batch:
                yield item


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
