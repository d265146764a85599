"""Batch jobs and their files. `vertex_batches` has the files of Vertex AI.

What is recorded, of the Developer API: creating a job (inline), polling it (PENDING, RUNNING,
SUCCEEDED), the counts, both copies of an inline output, the name of an output file, successful
lines, uploads in two steps, and deleting a file. What is inferred from the SDK, the documentation
and public threads: failed items, FAILED, EXPIRED and CANCELLED jobs, lists, `:cancel`, deleting a
job, tools in a batch, and 429 on create. Each place says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.responses import (
    Cut,
    JsonObject,
    Outgoing,
    Refusal,
    read_page,
    reading,
    whole,
)
from langchain_gemini_tools.testing.fake.rules.payload import read_payload
from langchain_gemini_tools.testing.fake.vertex_batches import (
    RPC_CODES,
    VERTEX_TIME,
    find_path,
    numbered,
    read_job,
    read_rows,
    render_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from langchain_gemini_tools.testing.fake.request import Request

_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main."
_TIME = "2026-11-16T12:00:00.000000000Z"
_FINAL = ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
_UPLOADED = re.compile(r"\bfiles/up\d{6}$")
_MAX_INLINE_BYTES = 20_000_000
"""Documented: "inline requests up to 20MB"."""


@dataclass
class FakeFile:
    """An uploaded file, or the output of a job."""

    name: str
    data: bytes = b""
    mime_type: str = ""
    display_name: str = ""
    is_output: bool = False

    def describe(self) -> JsonObject:
        """Return the file's JSON, as recorded for uploads.

        The address is the real API's: requests refer to the file by it, or by the name.
        """
        shown: JsonObject = {"name": self.name, "mimeType": self.mime_type}
        if self.display_name:
            shown["displayName"] = self.display_name
        return shown | {
            "sizeBytes": str(len(self.data)),
            "createTime": _TIME,
            "updateTime": _TIME,
            "expirationTime": "2026-11-18T12:00:00.000000000Z",
            "uri": f"https://generativelanguage.googleapis.com/v1beta/{self.name}",
            "state": "ACTIVE",
            "source": "GENERATED" if self.is_output else "UPLOADED",
        }


@dataclass
class FakeBatch:
    """One job of the Developer API."""

    name: str
    model: str
    display_name: str | None
    items: list[tuple[JsonObject, JsonObject]]
    """What identifies each request (`{"key": ...}` or `{"metadata": ...}`), and its body."""
    input_file: str | None = None
    webhook: Any = None
    states: deque[str] = field(default_factory=deque)
    """The states of the next polls; the last one is repeated."""
    state: str = "PENDING"
    results: list[JsonObject] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.state in _FINAL

    @property
    def output_file(self) -> str:
        return f"files/batch-{self.name.removeprefix('batches/')}"

    @property
    def failed(self) -> int:
        return sum("error" in each for each in self.results)

    def describe(self, *, is_listed: bool = False) -> JsonObject:
        """Return what create, get and list return: a long-running operation (recorded)."""
        counts = {
            "requestCount": len(self.items),
            "successfulRequestCount": len(self.results) - self.failed,
            "failedRequestCount": self.failed,
            "pendingRequestCount": 0 if self.is_final else len(self.items),
        }
        metadata: JsonObject = {
            "@type": f"{_TYPE}GenerateContentBatch",
            "model": f"models/{self.model}",
            "createTime": _TIME,
            "updateTime": _TIME,
            # Recorded: numbers are strings, and zeros are left out.
            "batchStats": {name: str(count) for name, count in counts.items() if count},
            "state": f"BATCH_STATE_{self.state}",
            "name": self.name,
        }
        if self.display_name is not None:
            metadata["displayName"] = self.display_name
        if self.input_file:
            metadata["inputConfig"] = {"fileName": self.input_file}
        operation: JsonObject = {"name": self.name, "metadata": metadata}
        if not self.is_final:
            return operation
        operation["done"] = True
        if self.state == "FAILED":  # inferred: google.longrunning.Operation
            return operation | {"error": {"code": 13, "message": "The batch job failed."}}
        if self.state == "SUCCEEDED" and not is_listed:
            output: JsonObject = {"inlinedResponses": {"inlinedResponses": self.results}}
            if self.input_file:
                output = {"responsesFile": self.output_file}
            metadata["output"] = output  # recorded: the output is there twice
            operation["response"] = {"@type": f"{_TYPE}GenerateContentBatchOutput", **output}
        return operation


@dataclass(kw_only=True)
class VertexBatch(FakeBatch):
    """One job of Vertex AI."""

    body: JsonObject
    """The request that created it."""
    error: JsonObject | None = None
    output: str | None = None
    """The folder with the results."""

    def describe(self, *, is_listed: bool = False) -> JsonObject:
        """Return what create, get and list return."""
        shown: JsonObject = {
            "name": self.name,
            **self.body,
            "state": f"JOB_STATE_{self.state}",
            "createTime": VERTEX_TIME,
            "updateTime": VERTEX_TIME,
            "modelVersionId": "1",
        }
        if self.is_final:
            succeeded = len(self.results) - self.failed
            counts = {"successfulCount": succeeded, "failedCount": self.failed}
            shown["completionStats"] = {key: str(count) for key, count in counts.items() if count}
        if self.output:
            shown["outputInfo"] = {"gcsOutputDirectory": self.output}
        if self.state == "CANCELLED":
            shown["error"] = {"code": 1, "message": "CANCELED"}
        return shown | ({"error": self.error} if self.error else {})


class Batches:
    """The jobs and files of an emulator, and what goes wrong with them.

    Args:
        answer: Answers one request of a job: the response, or a refusal.
    """

    def __init__(self, answer: Callable[[str, JsonObject, str], JsonObject]) -> None:
        self.jobs: dict[str, FakeBatch] = {}
        self.files: dict[str, FakeFile] = {}
        self.answered: Counter[str] = Counter()
        """How often each request was answered, by its body."""
        self.created = 0
        self.polls_until_done = 2
        """How many polls a job needs: the last one finishes it."""
        self.shuffles = False
        """Return results in another order than the requests (reported)."""
        self.bucket_folder: Path | None = None
        """A folder that replaces Cloud Storage, for jobs of Vertex AI."""
        self.result_files = 1
        """In how many files Vertex AI writes the results of a job."""
        self.echoes_siblings = True
        """Whether Vertex AI returns the other fields beside a request (reported)."""
        self.rows_before_end = 0
        """How many rows a job of Vertex AI has finished when it fails, expires or is cancelled."""
        self._answer = answer
        self._refusals: dict[str, deque[Refusal]] = {}
        self._lost: Counter[str] = Counter()
        self._endings: deque[str] = deque()
        self._fails: Callable[[int, JsonObject], JsonObject | None] = lambda _number, _body: None
        self._uploads: dict[str, FakeFile] = {}
        self._uploaded = 0

    # What goes wrong

    def refuse(self, operation: str, code: int = 429, times: int = 1) -> None:
        """Refuse the next requests: `create`, `get`, `list`, `upload` or `download`.

        For `create`, 429 counts enqueued tokens (reported; the message is inferred).
        """
        words = "Resource has been exhausted (e.g. check quota)." if code == 429 else "Try later."
        queue = self._refusals.setdefault(operation, deque())
        queue.extend(Refusal(words, code) for _ in range(times))

    def forgive(self) -> None:
        """Refuse no more requests."""
        self._refusals.clear()

    def lose(self, operation: str, times: int = 1) -> None:
        """Do what the next requests ask for, and cut the connection before the reply."""
        self._lost[operation] += times

    def end(self, *states: str) -> None:
        """End the next jobs with these states, such as `EXPIRED`, `FAILED` or `CANCELLED`."""
        self._endings.extend(states)

    def fail_items(self, fails: Callable[[int, JsonObject], JsonObject | None]) -> None:
        """Fail items: the function gets their number and body, and returns a Status or None."""
        self._fails = fails

    # Requests

    def serve(self, operation: str, request: Request, name: str, url: str) -> Outgoing:
        """Answer one request for a job or a file."""
        if queue := self._refusals.get(operation):
            raise queue.popleft()
        outgoing = self._serve(operation, request, name, url)
        if self._lost[operation]:
            self._lost[operation] -= 1
            return replace(outgoing, before=(Cut(),))
        return outgoing

    def _serve(self, operation: str, request: Request, name: str, url: str) -> Outgoing:
        match operation:
            case "create" if request.backend == "vertex":
                return whole(200, self._create_vertex(request, name).describe())
            case "create":
                return whole(200, self._create(request).describe())
            case "get":
                return whole(200, self._poll(self._job(name)).describe())
            case "list":
                return whole(200, self._list(request))
            case "cancel":
                return whole(200, self._cancel(self._job(name)))
            case "delete":
                return whole(200, self._delete(self._job(name)))
            case "upload":
                return self._upload(request, url)
            case "download":
                return whole(200, self._file(name).data, "application/jsonl")
            case "get_file":
                return whole(200, self._file(name).describe())
            case "list_files":
                return whole(200, self._list_files(request))
            case _:
                del self.files[self._file(name).name]
                return whole(200, {})

    def _cancel(self, job: FakeBatch) -> JsonObject:
        if isinstance(job, VertexBatch):
            if job.is_final:
                raise Refusal("The job has ended.", 400, status="FAILED_PRECONDITION")
            job.state, job.states = "CANCELLING", deque(["CANCELLED"])
        elif not job.is_final:
            self._finish(job, "CANCELLED")
        return {}

    def _delete(self, job: FakeBatch) -> JsonObject:
        is_vertex = isinstance(job, VertexBatch)
        if is_vertex and not job.is_final:
            words = "The job has not ended."
            raise Refusal(words, 400, status="FAILED_PRECONDITION", evidence="documented")
        del self.jobs[job.name]
        return {"name": f"{job.name}/operations/1", "done": True} if is_vertex else {}

    def _job(self, name: str) -> FakeBatch:
        name = numbered(name)
        if name not in self.jobs:  # inferred
            raise Refusal("Requested entity was not found.", 404, evidence="inferred")
        return self.jobs[name]

    def _file(self, name: str) -> FakeFile:
        if name not in self.files:  # reported: 403, not 404
            words = f"You do not have permission to access the File {name.removeprefix('files/')} "
            raise Refusal(f"{words}or it may not exist.", 403)
        return self.files[name]

    def _create(self, request: Request) -> FakeBatch:
        body = read_payload(request.raw, message="BatchGenerateContentRequest")
        batch = body.get("batch") or {}
        source = batch.get("inputConfig") or {}
        if file_name := source.get("fileName"):
            items = list(_read_lines(self._file(file_name).data))
        else:
            if len(request.raw) > _MAX_INLINE_BYTES:
                raise Refusal("Request payload size exceeds the limit.", 400, evidence="inferred")
            inline = (source.get("requests") or {}).get("requests") or []
            with reading():
                items = [({"metadata": each.get("metadata")}, each["request"]) for each in inline]
        if not items:
            raise Refusal("The batch has no requests.", 400, evidence="inferred")
        self.created += 1
        job = FakeBatch(
            f"batches/{self.created:06d}job",
            request.model,
            batch.get("displayName"),
            items,
            file_name,
            batch.get("webhookConfig"),
        )
        return self._start(job)

    def _create_vertex(self, request: Request, place: str) -> FakeBatch:
        if self.bucket_folder is None:
            words = "FakeGemini has no bucket. Give it a folder: FakeGemini(bucket_folder=...)."
            raise Refusal(words, 501)
        body, source = read_job(request.body)
        rows, error = read_rows(self.bucket_folder, source)
        self.created += 1
        job = VertexBatch(
            f"{numbered(place)}/{self.created:019d}",
            body["model"].rpartition("/")[2],
            body["displayName"],
            rows,
            body=body,
            error=error,
        )
        return self._start(job)

    def _start(self, job: FakeBatch) -> FakeBatch:
        ending = self._endings.popleft() if self._endings else "SUCCEEDED"
        if isinstance(job, VertexBatch) and job.error:
            ending = "FAILED"
        job.states = deque([*["RUNNING"] * (self.polls_until_done - 1), ending])
        self.jobs[job.name] = job
        return job

    def _poll(self, job: FakeBatch) -> FakeBatch:
        if not job.is_final:
            state = job.states.popleft()
            if state in _FINAL:
                self._finish(job, state)
            else:
                job.state = state
        return job

    def _finish(self, job: FakeBatch, state: str) -> None:
        job.state = state
        # Developer API, documented: an expired job has no results; inferred: nor has a failed or
        # cancelled one. Vertex AI, documented: what is finished is kept.
        rows = self.rows_before_end if isinstance(job, VertexBatch) else 0
        if state == "SUCCEEDED":
            rows = len(job.items)
        job.results = [
            self._result(job, number, identity, body)
            for number, (identity, body) in enumerate(job.items[:rows])
        ]
        requests = [body for _, body in job.items[:rows]]
        if self.shuffles:
            job.results.reverse()
            requests.reverse()
        if isinstance(job, VertexBatch) and requests:
            self._write_rows(job, requests)
        elif job.input_file and state == "SUCCEEDED":
            name = job.output_file
            lines = b"".join(json.dumps(each).encode() + b"\n" for each in job.results)
            self.files[name] = FakeFile(name, lines, "application/jsonl", is_output=True)

    def _write_rows(self, job: VertexBatch, requests: list[JsonObject]) -> None:
        prefix = job.body["outputConfig"]["gcsDestination"]["outputUriPrefix"]
        job.output = f"{prefix}/prediction-model-{VERTEX_TIME}"
        lines = render_rows(requests, job.results, echoes_siblings=self.echoes_siblings)
        is_whole = job.state in ("SUCCEEDED", "PARTIALLY_SUCCEEDED")
        folder = job.output if is_whole else f"{job.output}/incremental_predictions"
        many = self.result_files
        for number in range(many):
            name = "predictions.jsonl" if many == 1 else f"predictions_{number + 1:05d}.jsonl"
            path = find_path(self.bucket_folder, f"{folder}/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(lines[number::many]))

    def _result(
        self, job: FakeBatch, number: int, identity: JsonObject, body: JsonObject
    ) -> JsonObject:
        named = {name: value for name, value in identity.items() if value is not None}
        # A failed item has a google.rpc.Status with small numbers (SDK, reported).
        if failure := self._fails(number, body):
            return {"error": failure, **named}
        try:
            response = self._answer(job.model, body, job.name)
        except Refusal as refusal:
            code = RPC_CODES.get(refusal.code, 2)
            return {"error": {"code": code, "message": refusal.message}, **named}
        self.answered[json.dumps(body, sort_keys=True)] += 1
        return {"response": response, **named}

    def _list(self, request: Request) -> JsonObject:
        """Newest first, without outputs (SDK, notebook; not recorded)."""
        query = request.query
        start, size = read_page(query)
        is_vertex = request.backend == "vertex"
        jobs = [
            job for job in reversed(self.jobs.values()) if isinstance(job, VertexBatch) == is_vertex
        ]
        if named := re.fullmatch(r'display_name="(.*)"', query.get("filter", "")):  # documented
            jobs = [job for job in jobs if job.display_name == named[1]]
        page: JsonObject = {
            "batchPredictionJobs" if is_vertex else "operations": [
                job.describe(is_listed=True) for job in jobs[start : start + size]
            ]
        }
        if start + size < len(jobs):
            page["nextPageToken"] = str(start + size)
        return page

    def check_files(self, contents: Iterable[JsonObject]) -> None:
        """Refuse a file that was uploaded here and deleted. Other files are not checked."""
        for content in contents:
            for part in content.get("parts", []):
                address = part.get("fileData", {}).get("fileUri", "")
                if found := _UPLOADED.search(address):
                    self._file(found[0])

    def _list_files(self, request: Request) -> JsonObject:
        """Recorded for a single file. Newest first, and pages: inferred."""
        start, size = read_page(request.query)
        files = [each.describe() for each in reversed(self.files.values())]
        page: JsonObject = {"files": files[start : start + size]} if files else {}
        return page | ({"nextPageToken": str(start + size)} if start + size < len(files) else {})

    def _upload(self, request: Request, url: str) -> Outgoing:
        """Serve an upload: `start` returns an address, `upload, finalize` gets the bytes."""
        command = request.headers.get("x-goog-upload-command", "")
        if command == "start":
            given = (request.body or {}).get("file") or {}
            self._uploaded += 1
            name = f"files/up{self._uploaded:06d}"
            mime_type = request.headers.get("x-goog-upload-header-content-type", "")
            shown = given.get("display_name") or given.get("displayName") or ""
            self._uploads[name] = FakeFile(name, mime_type=mime_type, display_name=shown)
            address = f"{url}/upload/v1beta/files?upload_id={name}&upload_protocol=resumable"
            headers = {"x-goog-upload-status": "active", "x-goog-upload-url": address}
            return replace(whole(200, b""), headers=headers)
        upload = self._uploads.get(request.query.get("upload_id", ""))
        if upload is None:
            words = (
                "FakeGemini has only resumable uploads: X-Goog-Upload-Command: start comes first."
            )
            raise Refusal(words, 501)
        upload.data += request.raw
        if "finalize" not in command:
            return replace(whole(200, b""), headers={"x-goog-upload-status": "active"})
        self.files[upload.name] = self._uploads.pop(upload.name)
        done = whole(200, {"file": upload.describe()})
        return done.with_headers(x_goog_upload_status="final")


def _read_lines(data: bytes) -> Iterable[tuple[JsonObject, JsonObject]]:
    """Yield the requests of an input file: `{"key": "a", "request": {...}}` (documented)."""
    for number, line in enumerate(filter(bytes.strip, data.splitlines()), start=1):
        try:
            item = json.loads(line)
            yield {"key": item.get("key")}, item["request"]
        except (ValueError, KeyError, AttributeError) as error:
            words = f"Failed to parse line {number} of the input file."
            raise Refusal(words, 400, evidence="inferred") from error
