"""`BatchJob`: the inputs of one call, sent through Gemini's batch service."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_gemini_tools.batch.callbacks import report_item
from langchain_gemini_tools.batch.folder import (
    Folder,
    Manifest,
    Part,
    RequestReader,
    ResultReader,
)
from langchain_gemini_tools.batch.items import Evaluator, Missing
from langchain_gemini_tools.batch.schema import schema_rewriter
from langchain_gemini_tools.batch.service import (
    SUCCESSFUL_STATES,
    BatchService,
    JobReport,
    render_batch,
)
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiAPIError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiRateLimitError,
    GeminiTimeoutError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import RETRY_DELAYS_VARIABLE
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.items import Outcome
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire.request import RenderedRequest

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1_900_000_000
"""Documented: an input file may have 2 GB."""
MAX_REQUESTS = 200_000
"""Documented for Vertex AI. A smaller job also loses less when it expires."""
MAX_INLINE_REQUESTS = 20
MAX_INLINE_BYTES = 1_000_000
"""More is sent as a file. 20 MB are documented, but all results come back in one response, twice,
and a job with 1.2 GB of results is reported to be unreadable."""
_MAX_UNREADABLE = 20
"""After so many polls, about eight minutes, results that cannot be read are an error."""
_UPLOAD_SECONDS = 40 * 3600.0
"""How long an uploaded file is used; the API deletes it after 48 hours."""


@dataclass(frozen=True)
class BatchSource:
    """A model with its options: what renders inputs and reads results."""

    template: RenderedRequest
    """A request with the options of the job."""
    render: Callable[[Any], RenderedRequest]
    client: GeminiClient
    retries: RetryPolicy
    finish: Callable[[AIMessage], Any] = lambda message: message
    """Turns a message into a result, such as a parsed object."""


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


class BatchJob(Generic[Result]):
    """Inputs that Gemini's batch service answers, at half the price, within a day.

    `ChatGemini.batch_job` returns one. The folder at `path` is its state: after a crash, the same
    call goes on where it was. One process at a time works on it; others wait.

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
        config: RunnableConfig | None = None,
    ) -> None:
        self._source = source
        self._temporary = None if path is not None else tempfile.TemporaryDirectory()
        self._folder = Folder(self._temporary.name if self._temporary else path or "")
        self._webhooks = webhooks
        self._config = config
        self._service = BatchService(source.client, source.template, source.retries)
        self._evaluator = Evaluator(source.template, source.client)
        self._readers: dict[int, ResultReader] = {}
        self._unreadable: Counter[int] = Counter()
        """How often the results of a part could not be read, by its number."""
        self._requests: RequestReader | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={str(self._folder.path)!r}, names={self.names!r})"

    # Preparing

    def prepare(self, inputs: Iterable[Any] | None) -> None:
        """Write the requests to the folder, or compare them with those that are there.

        Args:
            inputs: What `invoke` accepts, each; None goes on with the folder as it is.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one in the folder.
        """
        rewrite = schema_rewriter(self._source.template)
        with self._folder.lock():
            manifest = self._folder.load()
            self._check_model(manifest)
            if inputs is None:
                self._require(manifest)
            elif manifest is None:
                self._write(self._render(inputs, rewrite))
            else:
                self._compare(manifest, self._render(inputs, rewrite))

    def adopt(self, name: str) -> None:
        """Use a job of the service that was created elsewhere.

        Args:
            name: `batches/...`.
        """
        with self._folder.lock():
            if (manifest := self._folder.load()) is None:
                part = Part(0, 0, job=name, state="PENDING", is_intended=True, is_foreign=True)
                model = self._source.template.invocation.model
                self._folder.save(Manifest(uuid.uuid4().hex, model, 0, "", parts=(part,)))
            elif name not in [part.job for part in manifest.parts]:
                raise InvalidOptionError(
                    f"{self._folder.path} belongs to other jobs than {name}. Use another path."
                )

    def _check_model(self, manifest: Manifest | None) -> None:
        """Reject another model: the requests, which are compared, do not name it."""
        model = self._source.template.invocation.model
        if manifest and not manifest.parts[0].is_foreign and manifest.model != model:
            raise InvalidOptionError(
                f"The batch job at {self._folder.path} is one of {manifest.model}, not of {model}. "
                "Use another path for another job."
            )

    def _require(self, manifest: Manifest | None) -> Manifest:
        if manifest is None:
            raise InvalidOptionError(
                f"There is no batch job at {self._folder.path}. Pass its inputs."
            )
        return manifest

    def _render(
        self, inputs: Iterable[Any], rewrite: Callable[[bytes], bytes]
    ) -> Iterator[tuple[int, bytes]]:
        for index, each in enumerate(inputs):
            try:
                body = self._source.render(each).encoded
            except Exception as error:
                error.add_note(f"This is input {index} of the batch job. Nothing was sent.")
                raise
            yield index, rewrite(body)

    def _write(self, lines: Iterable[tuple[int, bytes]]) -> None:
        digest, count = hashlib.sha256(), 0

        def seen() -> Iterator[tuple[int, bytes]]:
            nonlocal count
            for index, body in lines:
                digest.update(body)
                count += 1
                yield index, body

        parts = self._folder.write_requests(
            seen(), 0, is_range=True, max_bytes=MAX_FILE_BYTES, max_count=MAX_REQUESTS
        )
        if not parts:
            raise InvalidOptionError("The batch job has no inputs.")
        model = self._source.template.invocation.model
        run = uuid.uuid4().hex
        self._folder.save(Manifest(run, model, count, digest.hexdigest(), parts=tuple(parts)))

    def _compare(self, manifest: Manifest, lines: Iterator[tuple[int, bytes]]) -> None:
        stored = (
            line
            for part in manifest.parts
            if part.first is not None
            for line in self._folder.read_requests(part.number)
        )
        count = 0
        # The stored lines first: `zip` would drop an input that has none.
        for before, line in zip(stored, lines, strict=False):
            count += 1
            if line != before:
                raise InvalidOptionError(self._difference(f"Input {line[0]} differs from"))
        if count < manifest.count or next(lines, None) is not None:
            raise InvalidOptionError(self._difference("The number of inputs differs from that in"))

    def _difference(self, what: str) -> str:
        return (
            f"{what} the batch job at {self._folder.path}, which has been prepared already: the "
            "messages, the tools or the options are others. Use another path for another job."
        )

    def preview(self, count: int = 3) -> list[dict[str, Any]]:
        """Return the first lines that are sent: `{"key": ..., "request": ...}`.

        Args:
            count: How many.
        """
        import json

        manifest = self._require(self._folder.load())
        lines = (
            {"key": str(index), "request": json.loads(body)}
            for part in manifest.parts
            if part.first is not None
            for index, body in self._folder.read_requests(part.number)
        )
        return [line for _, line in zip(range(count), lines, strict=False)]

    # Sending and collecting

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
        with self._folder.lock():
            manifest = self._require(self._folder.load())
            for part in manifest.parts:
                if part.job is None and not part.is_collected:
                    manifest = self._submit(manifest, part)

    def _submit(self, manifest: Manifest, part: Part) -> Manifest:
        display_name = f"{manifest.run}-{part.number}"
        if manifest.is_cancelled:
            return self._give_up(manifest, part, display_name)
        self._folder.check_requests(part)
        is_inline = part.count <= MAX_INLINE_REQUESTS and part.size <= MAX_INLINE_BYTES
        if not is_inline and time.time() - part.uploaded_at > _UPLOAD_SECONDS:
            path = self._folder.requests_path(part.number)
            file = self._service.upload(path, f"{display_name}.jsonl")
            part = replace(part, file=file, uploaded_at=time.time())
            manifest = self._save_part(manifest, part)
        source = self._inline(part) if is_inline else encode_json({"fileName": part.file})
        body = render_batch(source, display_name, self._webhooks)
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
            logger.warning("A batch job waits until others have ended: %s", str(error))
            return manifest
        return self._save_part(manifest, _reported(part, report))

    def _give_up(self, manifest: Manifest, part: Part, display_name: str) -> Manifest:
        """Cancel a job whose creation may have been lost; end a part that has no job."""
        if part.is_intended and (found := self._service.find(display_name)):
            manifest = self._save_part(manifest, _reported(part, found))
            self._service.cancel(found.name)
            return manifest
        with self._folder.replacing(self._folder.results_path(part.number).name):
            pass  # no results
        return self._save_part(manifest, replace(part, state="CANCELLED", is_collected=True))

    def _inline(self, part: Part) -> bytes:
        lines = b",".join(
            b'{"request":%b,"metadata":{"key":"%d"}}' % (body, index)
            for index, body in self._folder.read_requests(part.number)
        )
        return b'{"requests":{"requests":[%b]}}' % lines

    def _save_part(self, manifest: Manifest, part: Part) -> Manifest:
        manifest = manifest.with_part(part)
        self._folder.save(manifest)
        return manifest

    def poll(self) -> BatchStatus:
        """Ask the service once, collect what has finished, and send what has to follow.

        Failed items that can be sent again, responses that are not complete, and inputs of expired
        jobs go into a further job.
        """
        gone: GeminiNotFoundError | None = None
        with self._folder.lock():
            manifest = self._require(self._folder.load())
            for number in range(len(manifest.parts)):
                part = manifest.parts[number]
                if part.is_collected:
                    continue
                if part.job is None:
                    manifest = self._submit(manifest, part)
                    continue
                try:
                    report = self._service.get(part.job)
                except GeminiNotFoundError as error:
                    error.add_note(f"The API has no {part.job}. Was it deleted, or is the key new?")
                    gone = error
                    continue  # the other jobs have results
                manifest = self._save_part(manifest, _reported(part, report))
                if report.is_final:
                    manifest = self._collect(manifest, manifest.parts[number], report)
        if gone:
            raise gone
        return self._status(manifest)

    def _collect(self, manifest: Manifest, part: Part, report: JobReport) -> Manifest:
        """Store the results of a job, and prepare the requests that follow from them."""
        with self._folder.replacing(self._folder.results_path(part.number).name) as file:
            if report.output_file:
                try:
                    self._service.download(report.output_file, file)
                except (GeminiNotFoundError, GeminiPermissionError) as error:
                    # A job can be SUCCEEDED before its results are readable.
                    self._count_unreadable(part, error)
                    return manifest
            else:
                file.writelines(encode_json(item) + b"\n" for item in report.inline or ())
        part = replace(part, is_collected=True)
        if part.is_foreign:
            reader = self._readers[part.number] = ResultReader(self._folder, part)
            manifest = replace(manifest, count=reader.foreign_count)
        manifest = manifest.with_part(part)
        follow_ups = self._folder.write_requests(
            self._follow_ups(manifest, part),
            len(manifest.parts),
            is_range=False,
            max_bytes=MAX_FILE_BYTES,
            max_count=MAX_REQUESTS,
        )
        manifest = replace(manifest, parts=(*manifest.parts, *follow_ups))
        self._folder.save(manifest)
        for following in follow_ups:
            manifest = self._submit(manifest, following)
        return manifest

    def _count_unreadable(self, part: Part, error: GeminiAPIError) -> None:
        self._unreadable[part.number] += 1
        if self._unreadable[part.number] >= _MAX_UNREADABLE:
            self._unreadable[part.number] = 0
            error.add_note(
                f"The results of {part.job} cannot be read: the API may have deleted them. Make "
                "the same call again later. Use another path to send the inputs again."
            )
            raise error
        logger.warning("The results of %s cannot be read yet: %s", part.job, str(error))

    def _follow_ups(self, manifest: Manifest, part: Part) -> Iterator[tuple[int, bytes]]:
        if manifest.is_cancelled or part.is_foreign:
            return
        attempts = self._attempts(manifest)
        for index in self._inputs_of(part):
            outcome = self._evaluate(manifest, attempts, index)
            if outcome and outcome.next_body:
                yield index, outcome.next_body

    def _inputs_of(self, part: Part) -> Iterable[int]:
        if part.first is not None:
            return range(part.first, part.first + part.count)
        return [index for index, _ in self._folder.read_requests(part.number)]

    def _attempts(self, manifest: Manifest) -> dict[int, list[int]]:
        """Return the parts beyond the first ones that send an input again, by its number."""
        later: dict[int, list[int]] = {}
        for part in manifest.parts:
            if part.first is None and not part.is_foreign:
                for index, _ in self._folder.read_requests(part.number):
                    later.setdefault(index, []).append(part.number)
        return later

    def _evaluate(
        self, manifest: Manifest, later: Mapping[int, list[int]], index: int
    ) -> Outcome | None:
        """Return what has become of an input; None while a job with it is under way."""
        numbers = [_part_of(manifest, index), *later.get(index, ())]
        parts = [manifest.parts[number] for number in numbers]
        if not all(part.is_collected for part in parts):
            return None
        lines = [self._reader(part).read(index) or _missing(part) for part in parts]
        known = None if parts[0].is_foreign else self._request_reader(manifest)
        body = (lambda: known.read(index)) if known else None
        return self._evaluator.evaluate(lines, body)

    def _reader(self, part: Part) -> ResultReader:
        if part.number not in self._readers:
            self._readers[part.number] = ResultReader(self._folder, part)
        return self._readers[part.number]

    def _request_reader(self, manifest: Manifest) -> RequestReader:
        if self._requests is None:
            self._requests = RequestReader(self._folder, manifest.parts)
        return self._requests

    def _status(self, manifest: Manifest) -> BatchStatus:
        parts = manifest.parts
        failed = sum(part.counts.get("failed", 0) for part in parts)
        # What failed in one job is sent again in a later one.
        resent = sum(part.count for part in parts if part.first is None and not part.is_foreign)
        return BatchStatus(
            total=manifest.count or sum(part.counts.get("request", 0) for part in parts),
            succeeded=sum(part.counts.get("successful", 0) for part in parts),
            failed=max(failed - resent, 0),
            states={part.job or f"part {part.number}": part.state for part in parts},
            is_done=all(part.is_collected for part in parts),
        )

    @property
    def status(self) -> BatchStatus:
        """What was known after the last `poll`."""
        return self._status(self._require(self._folder.load()))

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
            timeout_seconds: How long to wait; by default until the end.
            on_poll: Called with the status after each poll, for a progress bar.

        Raises:
            GeminiTimeoutError: The time is over. The job goes on; call `wait` again.
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
            f"The batch job has not ended within {seconds:g} s. It goes on: call wait or results "
            "again, in this process or in another one."
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
        while batch := await asyncio.to_thread(_take, found, 100):
            for item in batch:
                yield item

    def _results(self) -> Iterator[tuple[int, Any]]:
        manifest = self._require(self._folder.load())
        self._check_foreign(manifest)
        later = self._attempts(manifest)
        is_done = all(part.is_collected for part in manifest.parts)
        for index in range(manifest.count):
            outcome = self._evaluate(manifest, later, index)
            if outcome is None or (outcome.next_body and not is_done):
                continue
            yield index, self._finish(manifest, index, outcome)

    def _check_foreign(self, manifest: Manifest) -> None:
        """Raise if a job that was created elsewhere has ended without any result."""
        part = manifest.parts[0]
        if part.is_foreign and part.is_collected and not manifest.count:
            reason = f": {part.error.get('message')}" if part.error else ""
            raise BatchJobError(f"{part.job} ended as {part.state} without results{reason}.")

    def _finish(self, manifest: Manifest, index: int, outcome: Outcome) -> Any:
        if self._config and self._config.get("callbacks"):
            reader = None if manifest.parts[0].is_foreign else self._request_reader(manifest)
            body = reader.read(index) if reader else b"{}"
            report_item(self._config, body, outcome, self._source.template.invocation.model)
        if outcome.result is None:
            return outcome.error
        message = outcome.result.generations[0].message
        try:
            return self._source.finish(message)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - any error of a user's validator
            return error

    # The rest

    def cancel(self) -> None:
        """Cancel the jobs. What they have finished is kept; `resend` sends the rest again."""
        with self._folder.lock():
            manifest = replace(self._require(self._folder.load()), is_cancelled=True)
            self._folder.save(manifest)
            for part in manifest.parts:
                if part.job and not part.is_collected:
                    self._service.cancel(part.job)
                elif not part.is_collected:
                    manifest = self._submit(manifest, part)

    def resend(self) -> None:
        """Send the inputs that have no result again, such as those of a cancelled job."""
        with self._folder.lock():
            manifest = replace(self._require(self._folder.load()), is_cancelled=False)
            if manifest.parts[0].is_foreign:
                raise InvalidOptionError(
                    f"{manifest.parts[0].job} was created elsewhere, so its requests are not known "
                    "here. Send the inputs as a job of their own."
                )
            later, reader = self._attempts(manifest), self._request_reader(manifest)
            lines = (
                (index, outcome.next_body or reader.read(index))
                for index in range(manifest.count)
                if (outcome := self._evaluate(manifest, later, index)) and outcome.error
            )
            parts = self._folder.write_requests(
                lines,
                len(manifest.parts),
                is_range=False,
                max_bytes=MAX_FILE_BYTES,
                max_count=MAX_REQUESTS,
            )
            manifest = replace(manifest, parts=(*manifest.parts, *parts))
            self._folder.save(manifest)
            for part in parts:
                manifest = self._submit(manifest, part)

    def delete(self) -> None:
        """Delete the jobs and the uploaded requests at the service. The folder stays.

        What the service does not have any more is skipped.
        """
        manifest = self._require(self._folder.load())
        for part in manifest.parts:
            if part.job:
                with suppress(GeminiNotFoundError):
                    self._service.delete(part.job)
            if part.file:
                # Of a file that does not exist, the API says that access is denied (reported).
                with suppress(GeminiNotFoundError, GeminiPermissionError):
                    self._service.delete_file(part.file)

    async def asubmit(self) -> None:
        """Submit as `submit` does, without blocking the event loop."""
        await asyncio.to_thread(self.submit)

    async def apoll(self) -> BatchStatus:
        """Poll as `poll` does, without blocking the event loop."""
        return await asyncio.to_thread(self.poll)

    async def acancel(self) -> None:
        """Cancel as `cancel` does, without blocking the event loop."""
        await asyncio.to_thread(self.cancel)

    async def adelete(self) -> None:
        """Delete as `delete` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete)


def _reported(part: Part, report: JobReport) -> Part:
    return replace(
        part,
        job=report.name,
        state=report.state,
        counts=dict(report.counts),
        error=report.error,
    )


def _part_of(manifest: Manifest, index: int) -> int:
    """Return the number of the first part with an input."""
    for part in manifest.parts:
        if part.is_foreign or (
            part.first is not None and part.first <= index < part.first + part.count
        ):
            return part.number
    raise LookupError(index)


def _missing(part: Part) -> Missing:
    # A successful job that leaves out an item is asked for it again, like an expired one.
    is_resent = part.state in SUCCESSFUL_STATES | {"EXPIRED"}
    return Missing(part.state, part.error, is_resent=is_resent)


def _take(items: Iterator[Any], count: int) -> list[Any]:
    return [item for _, item in zip(range(count), items, strict=False)]


def _pauses(longest: float, timeout_seconds: float | None) -> Iterator[float]:
    """Yield the seconds to wait after each poll, until the time is over."""
    is_off = os.environ.get(RETRY_DELAYS_VARIABLE) == "off"
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    pause = min(1.0, longest)
    while end is None or time.monotonic() < end:
        yield 0.0 if is_off else pause
        pause = min(pause * 1.5, longest)
