"""`JobWorker` creates the jobs of a folder, polls them, and collects their results."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_gemini_tools.batch.service import KNOWN_STATES
from langchain_gemini_tools.errors import (
    BatchJobError,
    GeminiAPIError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiRateLimitError,
    InvalidOptionError,
    UnreadableResponseError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_gemini_tools.batch.folder import Folder, JobPart, Manifest
    from langchain_gemini_tools.batch.items import Outcomes
    from langchain_gemini_tools.batch.service import BatchService, JobReport

logger = logging.getLogger(__name__)

_MAX_UNREADABLE = 20
"""After this many polls, about eight minutes, results that cannot be read are an error."""


class JobWorker:
    """Creates, polls and collects the jobs of a folder.

    Each step is stored before the next one begins, and each method holds the folder's lock.
    """

    def __init__(self, folder: Folder, service: BatchService, outcomes: Outcomes) -> None:
        self._folder = folder
        self._service = service
        self._outcomes = outcomes
        self._unreadable: Counter[int] = Counter()
        """How often the results of a part could not be read, by its number."""
        self._odd_states: set[str] = set()

    def submit(self) -> None:
        """Create the jobs that do not exist yet."""
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

    def poll(self) -> Manifest:
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
        self._report_state(report)
        part = _reported(part, report)
        manifest = self._save_part(manifest, part)
        return self._collect(manifest, part, report) if report.is_final else manifest

    def _report_state(self, report: JobReport) -> None:
        if report.state not in KNOWN_STATES | self._odd_states:
            self._odd_states.add(report.state)
            logger.warning(
                "%s is in the state %r, which this version does not know. It counts as running.",
                report.name,
                report.state,
            )

    def _collect(self, manifest: Manifest, part: JobPart, report: JobReport) -> Manifest:
        """Store the results of a job, and prepare the requests that follow from them."""
        try:
            with self._folder.replacing(self._folder.results_path(part.number).name) as file:
                self._service.write_results(self._folder, part, report, file)
        except (GeminiNotFoundError, GeminiPermissionError) as error:
            # A job can be SUCCEEDED before its results are readable.
            self._count_unreadable(part, error)
            return manifest
        part = replace(part, is_collected=True)
        results = self._outcomes.reader(part)
        if part.is_foreign:
            manifest = replace(manifest, count=results.foreign_count)
        manifest = manifest.with_part(part)
        return self._send_again(manifest, self._follow_ups(manifest, part))

    def _send_again(self, manifest: Manifest, lines: Iterable[tuple[int, bytes]]) -> Manifest:
        """Store the manifest with further parts for these requests, and create their jobs."""
        number = len(manifest.parts)
        parts = self._folder.write_requests(lines, number, self._service.limits, is_range=False)
        manifest = replace(manifest, parts=(*manifest.parts, *parts))
        self._folder.save(manifest)
        for part in parts:
            manifest = self._submit(manifest, part)
        return manifest

    def _count_unreadable(self, part: JobPart, error: GeminiAPIError) -> None:
        self._unreadable[part.number] += 1
        if self._unreadable[part.number] >= _MAX_UNREADABLE:
            self._unreadable[part.number] = 0
            error.add_note(
                f"The results of {part.job} cannot be read: the API may have deleted them. Make "
                "the same call again later. Use another path to send the inputs again."
            )
            raise error
        logger.warning("The results of %s cannot be read yet: %s", part.job, str(error))

    def _follow_ups(self, manifest: Manifest, part: JobPart) -> Iterator[tuple[int, bytes]]:
        if manifest.is_cancelled or part.is_foreign:
            return
        for index, outcome in self._outcomes.of(manifest, self._inputs_of(part)):
            if outcome.next_body:
                yield index, outcome.next_body

    def _inputs_of(self, part: JobPart) -> Iterable[int]:
        if part.first is not None:
            return range(part.first, part.first + part.count)
        return [index for index, _ in self._folder.read_requests(part.number)]

    def cancel(self) -> None:
        """Cancel the jobs."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=True)
            self._folder.save(manifest)
            for part in manifest.parts:
                if part.job and not part.is_collected:
                    self._service.cancel(part.job)
                elif not part.is_collected:
                    manifest = self._submit(manifest, part)

    def resend(self) -> None:
        """Send the inputs that have no result again."""
        with self._folder.lock():
            manifest = replace(self._folder.require(), is_cancelled=False)
            if manifest.parts[0].is_foreign:
                raise InvalidOptionError(
                    f"{manifest.parts[0].job} was created elsewhere, so its requests are not known "
                    "here. Send the inputs as a new job."
                )
            lines = (
                (index, outcome.next_body or self._outcomes.first_request(manifest, index))
                for index, outcome in self._outcomes.of(manifest, range(manifest.count))
                if outcome.error
            )
            self._send_again(manifest, lines)

    def delete(self) -> None:
        """Delete the jobs and their files at the service, if they exist."""
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
