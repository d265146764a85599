"""Files of batch jobs on Vertex AI: requests and results are lines of files in a bucket.

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
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.responses import JsonObject, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RPC_CODES = {400: 3, 403: 7, 404: 5, 429: 8, 499: 1, 500: 13, 503: 14, 504: 4}
"""HTTP status -> google.rpc.Code, which items use."""
VERTEX_TIME = "2026-11-16T12:00:00.000000Z"
_PROJECT_NUMBER = "123456789012"
_MAX_LEVELS = 15
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def numbered(name: str) -> str:
    """Return the name of a job with the number of the project, as replies have it."""
    return re.sub(r"^projects/[^/]+", f"projects/{_PROJECT_NUMBER}", name)


def find_path(folder: Any, url: str) -> Path:
    """Return the file that replaces one in Cloud Storage: `gs://bucket/a` is `folder/bucket/a`."""
    path: Path = folder / url.removeprefix("gs://")
    return path


def read_job(body: Any) -> tuple[JsonObject, str]:
    """Return the job that a request asks for, and the address of its input."""
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
    return given, str(uris[0])


def read_rows(
    folder: Path, source: str
) -> tuple[list[tuple[JsonObject, JsonObject]], JsonObject | None]:
    """Return the other fields of each line and its request, or the error of the import."""
    path = find_path(folder, source)
    if not path.is_file():
        name = source.removeprefix("gs://").partition("/")[0]
        message = (
            f"Failed to get GCS bucket location for {name}. Please check that the bucket exists "
            "and permissions are set correctly."
        )
        return [], {"code": 9, "message": message}
    rows = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    if problem := next((found for row in rows for found in _find_problems(row)), None):
        message = (
            "Failed to import data. Please check 'Prepare input' section of the batch predictions "
            f"documentation. {problem}"
        )
        return [], {"code": 3, "message": message}
    others = [{k: v for k, v in row.items() if k != "request"} for row in rows]
    return [(other, row["request"]) for other, row in zip(others, rows, strict=True)], None


def render_rows(
    requests: list[JsonObject], results: list[JsonObject], *, echoes_siblings: bool
) -> list[bytes]:
    """Requests with their results: rows of a table, with one column for each field."""
    columns = _join_columns(None, requests)
    lines = []
    for request, result in zip(requests, results, strict=True):
        row: JsonObject = {
            "status": _render_status(result["error"]) if "error" in result else "",
            "processed_time": "2026-11-16T12:00:00.000+00:00",
            "request": _pad(request, columns),
            "response": result.get("response", {}),
        }
        if echoes_siblings:
            row |= {k: v for k, v in result.items() if k not in ("response", "error")}
        lines.append(json.dumps(row, sort_keys=True).encode() + b"\n")
    return lines


def _render_status(error: JsonObject) -> str:
    """Return the text of a failed line: `Bad Request: {"error": {...}}` (documented)."""
    if "text" in error:
        return str(error["text"])
    code = next((http for http, rpc in RPC_CODES.items() if rpc == error["code"]), 500)
    phrase = "Client Closed Request" if code == 499 else HTTPStatus(code).phrase
    return f"{phrase}: {json.dumps(Refusal(error['message'], code).body)}"


def _find_problems(value: Any, path: str = "", level: int = 0) -> Iterator[str]:
    """Yield what the import cannot store in a table (reported)."""
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


def _join_columns(columns: Any, value: Any) -> Any:
    """Return the columns of a table for a value."""
    if isinstance(value, dict):
        known = columns if isinstance(columns, dict) else {}
        return known | {name: _join_columns(known.get(name), each) for name, each in value.items()}
    if isinstance(value, list):
        for each in value:
            columns = _join_columns(columns, each)
    return columns


def _pad(value: Any, columns: Any) -> Any:
    """Return the value with `null` in the columns that it does not have."""
    if isinstance(value, list):
        return [_pad(each, columns) for each in value]
    if isinstance(value, dict) and isinstance(columns, dict):
        return {name: _pad(value.get(name), each) for name, each in columns.items()}
    return value
