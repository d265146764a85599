"""The API's operations on batch jobs, read from the server's own JSON.

The SDK's types drop the counts and the error of a job, and never report a partly successful one
as done. `BatchService` is what both backends share, `DeveloperService` the Gemini Developer API;
Vertex AI is in `vertex.py`.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.batch.folder import Limits, parse_number, render_line
from langchain_gemini_tools.errors import (
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiRateLimitError,
    InvalidInputError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from langchain_gemini_tools.batch.folder import Folder, JobPart, Manifest
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.batch.vertex import VertexService
    from langchain_gemini_tools.client import SdkClient
    from langchain_gemini_tools.facts.json_values import JsonObject


SUCCESSFUL_STATES = frozenset({"SUCCEEDED", "PARTIALLY_SUCCEEDED"})
RESENT_STATES = SUCCESSFUL_STATES | {"EXPIRED"}
"""Inputs that a job in one of these states has left out are sent again."""
FINAL_STATES = SUCCESSFUL_STATES | {"FAILED", "CANCELLED", "EXPIRED"}
KNOWN_STATES = FINAL_STATES | {
    *("UNSPECIFIED", "PENDING", "QUEUED", "RUNNING", "CANCELLING", "PAUSED", "UPDATING"),
}
PAGE_SIZE = 100
_STATE = re.compile(r"[A-Z0-9_]{1,60}")
_NAME = re.compile(r"batches/[\w-]+")
_FILE = re.compile(r"files/[\w-]+")
_MAX_INLINE = Limits(max_requests=20, max_bytes=1_000_000)
"""More is sent as a file. 20 MB are documented, but all results come back in one response, twice,
and a job with 1.2 GB of results is reported to be unreadable."""
_COUNTS = {
    "request": "requestCount",
    "successful": "successfulRequestCount",
    "failed": "failedRequestCount",
    "pending": "pendingRequestCount",
}
_UPLOAD_SECONDS = 40 * 3600.0
"""How long an uploaded file is used; the API deletes it after 48 hours."""


@dataclass(frozen=True)
class JobReport:
    """What the API says about a job."""

    name: str
    state: str
    """Without its prefix: `PENDING`, `RUNNING`, `SUCCEEDED`, ..."""
    display_name: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """`request`, `successful`, `failed` and `pending`, if the API counts them."""
    output: str | None = None
    """Where the results are: the name of a file, or of a folder in a bucket."""
    inline: list[JsonObject] | None = field(default=None, repr=False)
    error: JsonObject | None = None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL_STATES

    def noted_in(self, part: JobPart) -> JobPart:
        """Return the part of a folder with what is kept of the report."""
        return replace(
            part, job=self.name, state=self.state, counts=dict(self.counts), error=self.error
        )


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


def as_object(value: Any) -> JsonObject:
    """Return a JSON object of the API; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def checked_name(name: Any) -> str:
    """Return the name of a job.

    Raises:
        UnreadableResponseError: There is none.
    """
    if not isinstance(name, str):
        raise UnreadableResponseError("The API returned a batch job without a name.")
    return name


def parse_state(state: Any) -> str:
    """Return a state without its prefix, `BATCH_STATE_` or `JOB_STATE_`."""
    name = str(state or "").rpartition("STATE_")[2]
    return name if _STATE.fullmatch(name) else "UNSPECIFIED"


def parse_counts(stats: Any, fields: Mapping[str, str]) -> dict[str, int]:
    """Return the counts of a job by our names; not those that are missing, or -1 (unknown)."""
    found = {name: parse_number(as_object(stats).get(key)) for name, key in fields.items()}
    return {name: count for name, count in found.items() if count is not None}


class BatchService(ABC):
    """The operations, with the credentials, the timeout and the retries of a model.

    `DeveloperService` and `VertexService` add those that differ: which folders and names they
    accept, where requests and results are, and how a job is described.
    """

    limits: Limits
    storage: str | None = None
    """The place of requests and results in a bucket, on Vertex AI."""
    _jobs_field: str
    """Where a page of the list has its jobs."""

    def __init__(self, source: BatchSource) -> None:
        invocation = source.template.invocation
        self._client = source.client
        self._model = source.model
        self._retries = source.retries
        self._options: JsonObject = {
            "timeout_seconds": invocation.timeout_seconds,
            "headers": invocation.headers,
        }

    def check_request(self, line: tuple[int, bytes]) -> tuple[int, bytes]:
        """Return an input's number and request, which are about to be stored."""
        return line

    @abstractmethod
    def _create(self, sdk: SdkClient) -> object:
        """Call the method of the SDK that creates a job; it writes the address and the headers."""

    @abstractmethod
    def _list(self, sdk: SdkClient, display_name: str, token: str | None) -> object:
        """Call the method of the SDK that returns one page of the jobs that may have the name."""

    @abstractmethod
    def _parse_job(self, job: JsonObject) -> JobReport:
        """Read what the API says about a job."""

    @abstractmethod
    def _copy_results(
        self, folder: Folder, part: JobPart, report: JobReport, target: BinaryIO
    ) -> None:
        """Write the results of a job that has ended as lines with keys."""

    def write_results(
        self, folder: Folder, part: JobPart, report: JobReport, target: BinaryIO
    ) -> None:
        """Write the results of a job that has ended as lines with keys; again after a failure.

        Raises:
            GeminiNotFoundError, GeminiPermissionError: They cannot be read, perhaps not yet.
        """
        has_results = report.output is not None or report.inline is not None
        if report.state in SUCCESSFUL_STATES and not has_results:
            raise GeminiNotFoundError(f"{report.name} is {report.state}, but names no results.")

        def attempt() -> None:
            target.seek(0)
            target.truncate()
            self._copy_results(folder, part, report, target)

        self._retries.call(attempt)

    def create(self, batch: bytes, display_name: str, *, may_exist: bool) -> JobReport:
        """Create a job, unless it exists already.

        The API has no idempotency key: the same request twice makes two jobs and two bills. So the
        list of jobs is searched for the name before a second attempt.

        Args:
            batch: The JSON of the request.
            display_name: A name that only this job has.
            may_exist: Whether an earlier attempt may have created it.
        """

        def attempt() -> JobReport:
            nonlocal may_exist
            before = may_exist
            if may_exist and (found := self._find(display_name)):
                return found
            may_exist = True
            try:
                return self._parse(self._send(self._create, batch))
            except GeminiRateLimitError:
                may_exist = before  # refused: this attempt has created nothing
                raise

        return self._retries.call(attempt)

    def find(self, display_name: str) -> JobReport | None:
        """Return the job with this name; None if the API lists none."""
        return self._retries.call(partial(self._find, display_name))

    def _find(self, display_name: str) -> JobReport | None:
        token: Any = None
        seen: set[str] = set()
        while True:
            page = self._send(partial(self._list, display_name=display_name, token=token))
            jobs = page.get(self._jobs_field)
            for listed in jobs if isinstance(jobs, list) else ():
                with suppress(
                    UnreadableResponseError
                ):  # a job without a name was created elsewhere
                    job = self._parse(as_object(listed))
                    if job.display_name == display_name:
                        return job
            token = page.get("nextPageToken")
            if not token:
                return None
            if not isinstance(token, str) or token in seen:
                raise UnreadableResponseError(
                    f"The API's list of batch jobs does not end: its page {len(seen) + 1} refers "
                    "to an earlier one. Make the same call again later."
                )
            seen.add(token)

    def get(self, name: str) -> JobReport:
        """Return the state of a job."""
        report = self._parse(self._call(lambda sdk: sdk.batches.get(name=name)))
        # Vertex AI replaces the id of a project with its number.
        if report.name.rpartition("/")[2] != name.rpartition("/")[2]:
            with self._client.redacting_errors():
                raise UnreadableResponseError(
                    f"The API was asked for the batch job {name} and returned {report.name:.200}. "
                    "Make the same call again later."
                )
        return report

    def cancel(self, name: str) -> None:
        """Cancel a job; what it has finished may still be returned."""
        self._call(lambda sdk: sdk.batches.cancel(name=name))

    def delete(self, name: str) -> None:
        """Delete a job."""
        self._call(lambda sdk: sdk.batches.delete(name=name))

    def _parse(self, job: JsonObject) -> JobReport:
        with self._client.redacting_errors():
            report = self._parse_job(job)
        return (
            replace(report, error=self._client.redacted(report.error)) if report.error else report
        )

    def _call(self, call: Callable[[SdkClient], object], body: bytes | None = None) -> JsonObject:
        return self._retries.call(partial(self._send, call, body))

    def _send(self, call: Callable[[SdkClient], object], body: bytes | None = None) -> JsonObject:
        return self._client.call_sdk(call, body, **self._options)


class DeveloperService(BatchService):
    """Batch jobs of the Gemini Developer API: requests inline or in an uploaded file.

    Args:
        source: The model and its options.
        webhooks: The `webhookConfig` of the API.
    """

    limits = Limits(max_requests=200_000, max_bytes=1_900_000_000)
    """2 GB are documented for a file. A job with fewer requests loses less when it expires."""
    _jobs_field = "operations"

    def __init__(self, source: BatchSource, webhooks: Mapping[str, Any] | None) -> None:
        super().__init__(source)
        self._webhooks = webhooks

    def check_folder(self, manifest: Manifest | None, path: object) -> None:
        """Reject the folder of a job of Vertex AI."""
        if manifest and manifest.is_on_vertexai:
            raise InvalidOptionError(
                f"The batch job at {path} belongs to Vertex AI, not to the Gemini Developer API. "
                "Use another path for another job."
            )

    def check_name(self, name: str) -> None:
        """Reject the name of a job of Vertex AI."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOptionError(
                f"{name!r} is not the name of a batch job of the Gemini Developer API, such as "
                "batches/123. For a job of Vertex AI, make the model with vertexai=True."
            )

    def upload(self, folder: Folder, part: JobPart, display_name: str) -> JobPart:
        """Upload the requests, unless they are sent inline or have just been uploaded."""
        if _is_inline(part) or time.time() - part.uploaded_at <= _UPLOAD_SECONDS:
            return part
        upload = partial(
            self._client.upload,
            str(folder.requests_path(part.number)),
            display_name=f"{display_name}.jsonl",
            mime_type="application/jsonl",
        )
        return replace(part, file=self._retries.call(upload), uploaded_at=time.time())

    def render(self, folder: Folder, part: JobPart, display_name: str) -> bytes:
        """Render `{"batch": {...}}`, with the requests or the name of their file."""
        fields = {"displayName": display_name}
        more = {"webhookConfig": self._webhooks} if self._webhooks else {}
        if _is_inline(part):
            lines = b",".join(
                b'{"request":%b,"metadata":{"key":"%d"}}' % (body, index)
                for index, body in folder.read_requests(part)
            )
            source = b'{"requests":{"requests":[%b]}}' % lines
        else:
            source = encode_json({"fileName": part.file})
        return b'{"batch":%b,"inputConfig":%b}}' % (encode_json({**fields, **more})[:-1], source)

    def render_line(self, index: int, body: bytes) -> bytes:
        """Render `{"key": ..., "request": ...}`, as in the folder."""
        return render_line(index, body)

    def _copy_results(
        self,
        folder: Folder,  # noqa: ARG002
        part: JobPart,  # noqa: ARG002
        report: JobReport,
        target: BinaryIO,
    ) -> None:
        """Write the results in the report, or download them."""
        if report.output is None:
            target.writelines(encode_json(item) + b"\n" for item in report.inline or ())
        else:
            # Not inside of `download`: a full disk is not a failed connection.
            target.writelines(self._client.download(report.output, **self._options))

    def delete_files(self, part: JobPart) -> None:
        """Delete the uploaded requests. The API deletes the results with the job."""
        if part.file:
            delete = partial(_delete_file, name=part.file)
            # Reported: for a file that does not exist, the API says that access is denied.
            with suppress(GeminiNotFoundError, GeminiPermissionError):
                self._call(delete)

    def _create(self, sdk: SdkClient) -> object:
        return sdk.batches.create(model=self._model, src="files/replaced")  # by our body

    def _list(self, sdk: SdkClient, display_name: str, token: str | None) -> object:  # noqa: ARG002
        return sdk.batches.list(config={"page_size": PAGE_SIZE, "page_token": token})

    def _parse_job(self, job: JsonObject) -> JobReport:
        """Read the long-running operation that represents a job."""
        metadata = as_object(job.get("metadata"))
        name = checked_name(job.get("name") or metadata.get("name"))
        output = as_object(job.get("response")) or as_object(metadata.get("output"))
        inline = as_object(output.get("inlinedResponses")).get("inlinedResponses")
        file = output.get("responsesFile")
        if file is not None and not (isinstance(file, str) and _FILE.fullmatch(file)):
            raise UnreadableResponseError(
                f"The responsesFile of {name} is {file!r:.200}, not the name of a file. Make the "
                "same call again later."
            )
        error = as_object(job.get("error")) or None
        state = parse_state(metadata.get("state"))
        if job.get("done") is True and state not in FINAL_STATES:
            state = "FAILED" if error else "SUCCEEDED"
        return JobReport(
            name=name,
            state=state,
            display_name=metadata.get("displayName"),
            counts=parse_counts(metadata.get("batchStats"), _COUNTS),
            output=file,
            inline=inline if isinstance(inline, list) else None,
            error=error,
        )


def _is_inline(part: JobPart) -> bool:
    return part.count <= _MAX_INLINE.max_requests and part.size <= _MAX_INLINE.max_bytes


def _delete_file(sdk: SdkClient, name: str) -> object:
    return sdk.files.delete(name=name)


def make_service(
    source: BatchSource, webhooks: Mapping[str, Any] | None, storage: str | None
) -> DeveloperService | VertexService:
    """Return the service that a model uses, after checking the options that only one of them has.

    Raises:
        InvalidOptionError: An option is not valid, or belongs to the other backend.
    """
    if webhooks is not None:
        _check_webhooks(webhooks)
    if not source.client.settings.vertexai:
        if storage is not None:
            raise InvalidOptionError(
                "storage is for Vertex AI: the Gemini Developer API keeps requests and results "
                "itself. Leave it out, or make the model with vertexai=True."
            )
        return DeveloperService(source, webhooks)
    if webhooks is not None:
        raise InvalidOptionError(
            "Batch jobs on Vertex AI have no webhooks. Leave them out; job.wait() and job.poll() "
            "show the end of a job."
        )
    from langchain_gemini_tools.batch.vertex import VertexService

    return VertexService(source, storage)


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
