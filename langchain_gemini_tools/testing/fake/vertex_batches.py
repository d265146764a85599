"""Batch jobs of Vertex AI, whose requests and results are files in a bucket.

Nothing of it is recorded. Documented (Google's pages "Batch inference from Cloud Storage" and
`projects.locations.batchPredictionJobs`): the request that creates a job and its reply, the states,
the counts as strings, lines `{"request": ...}`, result lines with `status`, `processed_time`,
`request` and `response`, `null` in echoed requests, the text of a failed line, rows that are kept
when a job is cancelled, and that only jobs that have ended can be deleted. Reported (a provider's
published notes on its production traffic, 2026-09): other fields beside `request` are echoed, rows
come in another order, the folder `prediction-model-TIME`, cancelling a job that has ended, jobs
that fail because a bucket does not exist, and rows that cannot be imported. Inferred: the names of
several files, and the texts of failed lines other than `Bad Request`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.responses import JsonObject, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIME = "2026-11-16T12:00:00.000000Z"
_PROJECT_NUMBER = "123456789012"
_MAX_LEVELS = 15
_HTTP_CODES = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503}
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMPORT = (
    "Failed to import data. Please check 'Prepare input' section of the batch predictions "
    "documentation. "
)


def numbered(name: str) -> str:
    """The name of a job with the number of the project, as replies have it."""
    return re.sub(r"^projects/[^/]+", f"projects/{_PROJECT_NUMBER}", name)


@dataclass
class Bucket:
    """A folder that replaces Cloud Storage: `gs://bucket/a` is `folder/bucket/a`."""

    folder: Path

    def path(self, url: str) -> Path:
        return self.folder / url.removeprefix("gs://")

    def read(self, url: str) -> bytes | None:
        """The content of a file; None when there is none."""
        path = self.path(url)
        return path.read_bytes() if path.is_file() else None

    def write(self, url: str, content: bytes) -> None:
        path = self.path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@dataclass
class VertexJob:
    """The part of a job that only Vertex AI has."""

    body: JsonObject
    """The request that created it."""
    bucket: Bucket
    error: JsonObject | None = None
    output: str | None = None
    """The folder with the results."""

    @property
    def source(self) -> str:
        (uri,) = self.body["inputConfig"]["gcsSource"]["uris"]
        return str(uri)

    def read_rows(self) -> list[tuple[JsonObject, JsonObject]]:
        """The other fields of each line, and its request; sets `error` if the import fails."""
        if (data := self.bucket.read(self.source)) is None:
            name = self.source.removeprefix("gs://").partition("/")[0]
            self.error = {
                "code": 9,
                "message": f"Failed to get GCS bucket location for {name}. Please check that the "
                "bucket exists and permissions are set correctly.",
            }
            return []
        rows = [json.loads(line) for line in data.splitlines() if line.strip()]
        for row in rows:
            if problem := next(_find_problems(row), None):
                self.error = {"code": 3, "message": f"{_IMPORT}{problem}"}
                return []
        return [
            ({name: value for name, value in row.items() if name != "request"}, row["request"])
            for row in rows
        ]

    def write_rows(
        self,
        results: list[tuple[JsonObject, JsonObject]],
        *,
        files: int,
        echoes_siblings: bool,
        is_incremental: bool,
    ) -> None:
        """Write requests with their results: as rows of a table, with one column for each field."""
        prefix = self.body["outputConfig"]["gcsDestination"]["outputUriPrefix"]
        self.output = f"{prefix}/prediction-model-{_TIME}"
        columns: Any = None
        for request, _ in results:
            columns = _joined(columns, request)
        lines = []
        for request, result in results:
            row: JsonObject = {
                "status": "",
                "processed_time": "2026-11-16T12:00:00.000+00:00",
                "request": _padded(request, columns),
                "response": result.get("response", {}),
            }
            if "error" in result:
                row["status"] = render_status(result["error"])
            if echoes_siblings:
                row |= {k: v for k, v in result.items() if k not in ("response", "error")}
            lines.append(json.dumps(row, sort_keys=True).encode() + b"\n")
        folder = f"{self.output}/incremental_predictions" if is_incremental else self.output
        for number in range(files):
            name = "predictions.jsonl" if files == 1 else f"predictions_{number + 1:05d}.jsonl"
            self.bucket.write(f"{folder}/{name}", b"".join(lines[number::files]))

    def describe(self, name: str, state: str, counts: dict[str, int]) -> JsonObject:
        """The job's JSON."""
        shown: JsonObject = {
            "name": name,
            **self.body,
            "state": f"JOB_STATE_{state}",
            "createTime": _TIME,
            "updateTime": _TIME,
            "modelVersionId": "1",
        }
        if counts:
            shown["completionStats"] = {key: str(count) for key, count in counts.items() if count}
        if self.output:
            shown["outputInfo"] = {"gcsOutputDirectory": self.output}
        if state == "CANCELLED":
            shown["error"] = {"code": 1, "message": "CANCELED"}
        return shown | ({"error": self.error} if self.error else {})


def read_job(body: Any, folder: Path | None) -> VertexJob:
    """The job that a request asks for."""
    if folder is None:
        raise Refusal("The emulator has no bucket: set `batches.bucket_folder` to a folder.", 501)
    given = body if isinstance(body, dict) else {}
    source, target = given.get("inputConfig") or {}, given.get("outputConfig") or {}
    uris = (source.get("gcsSource") or {}).get("uris") or []
    prefix = (target.get("gcsDestination") or {}).get("outputUriPrefix") or ""
    formats = {source.get("instancesFormat"), target.get("predictionsFormat")}
    is_complete = given.get("displayName") and given.get("model") and len(uris) == 1
    if not is_complete or formats != {"jsonl"} or not f"{uris[0]}".startswith("gs://"):
        raise Refusal("The batch prediction job is not complete.", 400, evidence="inferred")
    if not prefix.startswith("gs://"):
        raise Refusal("The output is not in Cloud Storage.", 400, evidence="inferred")
    return VertexJob(given, Bucket(folder))


def render_status(error: JsonObject) -> str:
    """The text of a failed line: `Bad Request: {"error": {...}}` (documented)."""
    if "text" in error:
        return str(error["text"])
    code = _HTTP_CODES.get(error["code"], 500)
    refusal = Refusal(error["message"], code)
    phrase = "Client Closed Request" if code == 499 else HTTPStatus(code).phrase
    return f"{phrase}: {json.dumps(refusal.body)}"


def _find_problems(value: Any, path: str = "", level: int = 0) -> Iterator[str]:
    """What the import cannot store in a table (reported)."""
    if isinstance(value, list):
        for each in value:
            yield from _find_problems(each, path, level)
    elif isinstance(value, dict):
        if not value:
            yield f"Cannot store struct '{path.lstrip('.')}' with no fields."
        if level > _MAX_LEVELS:
            found = f"at least {level} compared to the maximum allowed level of {_MAX_LEVELS}"
            yield f"Schema nested too deeply, {found}."
        for name, each in value.items():
            if not _COLUMN.fullmatch(name):
                yield f'Invalid field name "{name}".'
            yield from _find_problems(each, f"{path}.{name}", level + 1)


def _joined(columns: Any, value: Any) -> Any:
    """The columns of a table for a value."""
    if isinstance(value, dict):
        known = columns if isinstance(columns, dict) else {}
        return known | {name: _joined(known.get(name), each) for name, each in value.items()}
    if isinstance(value, list):
        for each in value:
            columns = _joined(columns, each)
    return columns


def _padded(value: Any, columns: Any) -> Any:
    """The value with `null` in the columns that it does not have."""
    if isinstance(value, list):
        return [_padded(each, columns) for each in value]
    if isinstance(value, dict) and isinstance(columns, dict):
        return {name: _padded(value.get(name), each) for name, each in columns.items()}
    return value
