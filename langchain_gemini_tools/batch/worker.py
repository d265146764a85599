"""`JobWorker` prepares the requests of a folder, creates its jobs, and collects their results."""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from langchain_gemini_tools.batch.folder import JobPart, Manifest
from langchain_gemini_tools.batch.items import evaluate, schema_rewriter
from langchain_gemini_tools.batch.service import KNOWN_STATES
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiRateLimitError,
    InvalidOptionError,
    UnreadableResponseError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.batch.folder import Folder
    from langchain_gemini_tools.batch.items import BatchSource, ItemOutcome
    from langchain_gemini_tools.batch.service import DeveloperService, JobReport
    from langchain_gemini_tools.batch.vertex import VertexService

    Lines = Iterable[tuple[int, bytes]]
    """The numbers of inputs and the bodies of their requests."""

logger = logging.getLogger(__name__)

_MAX_UNREADABLE = 20
"""After this many polls, about eight minutes, results that cannot be read are an error."""


def check_inputs(inputs: Any) -> None:
    """Reject a single input, and what has no order: each letter of a text would be a request.

    Raises:
        InvalidOptionError: It is not an iterable of inputs.
    """
    is_one = isinstance(inputs, str | bytes | Mapping | BaseModel)
    if is_one or isinstance(inputs, set | frozenset) or not isinstance(inputs, Iterable):
        raise InvalidOptionError(
            f"inputs must be a list or another ordered iterable, not {type(inputs).__name__}. "
            "Each item is an input that invoke accepts."
        )


class JobWorker:
    """The steps of a batch job. Each is stored before the next one begins, under the folder's lock.

    Args:
        source: Renders inputs and reads results.
        folder: The state of the job.
        service: What answers the requests.
    """

    def __init__(
        self, source: BatchSource, folder: Folder, service: DeveloperService | VertexService
    ) -> None:
        self._source = source
        self._folder = folder
        self._service = service
        self._unreadable: Counter[int] = Counter()
        """How often the results of a part could not be read, by its number."""
        self._odd_states: set[str] = set()

    # Inputs

    def prepare(self, inputs: Iterable[Any] | None) -> None:
        """Write the requests to the folder, or compare them with those that are there.

        Args:
            inputs: An iterable; each item is what `invoke` accepts. None uses the folder as it is.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one in the folder.
        """
        folder, model = self._folder, self._source.model
        if inputs is not None:
            check_inputs(inputs)
        rewrite = schema_rewriter(self._source.template)
        with folder.lock(creates=inputs is not None):
            manifest = folder.load() if inputs is not None else folder.require()
            self._service.check_folder(manifest, folder.path)
            # The requests, which are compared, do not name the model.
            if manifest and not manifest.parts[0].is_foreign and manifest.model != model:
                raise InvalidOptionError(
                    f"The batch job at {folder.path} uses {manifest.model}, not {model}. "
                    "Use another path for another job."
                )
            if inputs is None:
                return
            lines = ((index, rewrite(body)) for index, body in self._render(inputs))
            if manifest:
                self._compare(manifest, lines)
            else:
                self._write(lines)

    def _render(self, inputs: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        for index, each in enumerate(inputs):
            try:
                body = self._source.render(each).encoded
            except Exception as error:
                error.add_note(f"This is input {index} of the batch job. Nothing was sent.")
                raise
            yield index, body

    def _write(self, lines: Lines) -> None:
        parts = self._folder.write_requests(
            map(self._service.check_request, lines), 0, self._service.limits, is_range=True
        )
        if not parts:
            raise InvalidOptionError("The batch job has no inputs. Pass at least one.")
        count = sum(part.count for part in parts)
        manifest = Manifest(uuid.uuid4().hex, self._source.model, count, parts=tuple(parts))
        self._folder.save(replace(manifest, storage=self._service.storage))

    def _compare(self, manifest: Manifest, lines: Iterator[tuple[int, bytes]]) -> None:
        count = 0
        # The stored lines first: `zip` would drop an input that has none.
        for before, line in zip(self._stored(manifest), lines, strict=False):
            count += 1
            if line != before:
                raise InvalidOptionError(
                    f"Input {line[0]} differs from that of the batch job at {self._folder.path}: "
                    "its messages, the tools or the options have changed. Use another path for "
                    "another job."
                )
        if count < manifest.count or next(lines, None) is not None:
            fewer_or_more = f"only {count:,}" if count < manifest.count else "more"
            raise InvalidOptionError(
                f"The batch job at {self._folder.path} has {manifest.count:,} inputs, and "
                f"{fewer_or_more} were passed. Use another path for another job."
            )

    def _stored(self, manifest: Manifest) -> Iterator[tuple[int, bytes]]:
        for part in manifest.parts:
            if part.first is not None:
                yield from self._folder.read_requests(part)

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
        lines = islice(self._stored(self._folder.require()), count)
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
        return self._save_part(manifest, _reported(part, report))

    def _give_up(self, manifest: Manifest, part: JobPart, display_name: str) -> Manifest:
        """Cancel a job whose creation may have been lost; end a part that has no job."""
        if part.is_intended and (found := self._service.find(display_name)):
            manifest = self._save_part(manifest, _reported(part, found))
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

    def _poll(self) -> Manifest:
        """Ask the service once, collect what has finished, and send what has to follow."""
        failure: Exception | None = None
        with self._folder.lock():
            manifest = self._folder.require()
            for number in range(len(manifest.parts)):
                part = manifest.parts[number]
                try:
                    if part.job is None and not part.is_collected:
                        manifest = self._submit(manifest, part)
                    elif part.job and not part.is_collected:
                        manifest = self._poll_part(manifest, part, part.job)
                except (GeminiNotFoundError, UnreadableResponseError, BatchJobError) as error:
                    failure = failure or error  # after the other jobs, which have results
                    manifest = self._folder.require()
        if failure:
            raise failure
        return manifest

    def _poll_part(self, manifest: Manifest, part: JobPart, name: str) -> Manifest:
        try:
            report = self._service.get(name)
        except GeminiNotFoundError as error:
            error.add_note(
                f"The API has no {name}. It may have been deleted, or the key belongs to another "
                "project. Use another path to send the inputs again."
            )
            raise
        if report.state not in KNOWN_STATES | self._odd_states:
            self._odd_states.add(report.state)
            logger.warning(
                "%s is in the state %r, which this version does not know. It counts as running.",
                report.name,
                report.state,
            )
        part = _reported(part, report)
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
            for index, outcome in self._outcomes(manifest, self._folder.inputs_of(part)):
                if outcome.next_body:
                    yield index, outcome.next_body

    def _outcomes(
        self, manifest: Manifest, indexes: Iterable[int]
    ) -> Iterator[tuple[int, ItemOutcome]]:
        """Iterate over inputs with their outcomes, without those that a job is still to answer."""
        later: dict[int, list[JobPart]] = {}
        for part in manifest.parts:
            if part.first is None:
                for index in self._folder.inputs_of(part):
                    later.setdefault(index, []).append(part)
        for index in indexes:
            first = manifest.find_part(index)
            parts = [first, *later.get(index, ())]
            if all(part.is_collected for part in parts):
                lines = [self._folder.results(part).read(index) or part for part in parts]
                body = partial(self._folder.first_request, first, index)
                yield index, evaluate(self._source, lines, None if first.is_foreign else body)

    def _first_request(self, manifest: Manifest, index: int) -> bytes:
        return self._folder.first_request(manifest.find_part(index), index)

    # Ending

    def cancel(self) -> None:
        """Cancel the jobs. What they have finished is kept; `resend` sends the rest again."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=True)
            self._folder.save(manifest)
            for part in manifest.parts:
                if part.job and not part.is_collected:
                    self._service.cancel(part.job)
                elif not part.is_collected:
                    manifest = self._submit(manifest, part)

    def resend(self) -> None:
        """Send the inputs that have no result again, such as those of a cancelled job."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=False)
            if manifest.parts[0].is_foreign:
                raise InvalidOptionError(
                    f"{manifest.parts[0].job} was created elsewhere, so its requests are not known "
                    "here. Send the inputs as a new job."
                )
            lines = (
                (index, outcome.next_body or self._first_request(manifest, index))
                for index, outcome in self._outcomes(manifest, range(manifest.count))
                if outcome.error
            )
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


def _reported(part: JobPart, report: JobReport) -> JobPart:
    return replace(
        part,
        job=report.name,
        state=report.state,
        counts=dict(report.counts),
        error=report.error,
    )
