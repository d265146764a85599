"""Batch jobs of Vertex AI: requests and results are files in the user's bucket.

The service copies the other fields of a line, beside `request`, to the line of its result. Google
does not document it; users of the API report it, for failed lines as well. So each line has a
`custom_id`. The echoed request itself identifies a line only if that is missing: the service
imports the lines as rows of a table, returns them in another order, and adds `null` for fields of
other rows.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.batch.folder import Limits, decode_line
from langchain_gemini_tools.batch.service import (
    PAGE_SIZE,
    SUCCESSFUL_STATES,
    BatchService,
    JobReport,
    as_object,
    checked_name,
    parse_counts,
    parse_state,
)
from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiConnectionError,
    GeminiInvalidRequestError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiToolsError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use
from langchain_gemini_tools.facts.json_values import decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from langchain_gemini_tools.batch.folder import Folder, JobPart, Manifest
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.client import SdkClient
    from langchain_gemini_tools.facts.json_values import JsonObject


logger = logging.getLogger(__name__)

_ID = "custom_id"
# Not only digits: the import reads "007" as the number 7 (reported).
_OUR_ID = re.compile(r"input-(\d{1,17})")
_STORAGE = re.compile(r"gs://[^/\s]+(/.*)?")
_JOB_NAME = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/batchPredictionJobs/[^/]+")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_LEVELS = 15
_NO_ARGUMENTS = re.compile(rb'"functionCall":\{((?:"id":"[^"]*",)?"name":"[^"]*"),"args":\{\}')
_REQUESTS = "requests.jsonl"
_BUFFER_BYTES = 1 << 20
_EXTRA = "pip install 'langchain-gemini-tools[vertex-batch]'"
_COUNTS = {"successful": "successfulCount", "failed": "failedCount", "pending": "incompleteCount"}


class VertexService(BatchService):
    """Batch jobs of Vertex AI.

    Args:
        source: The model and its options.
        storage: `gs://bucket/prefix`; None for a job that exists already.
    """

    limits = Limits(max_requests=200_000, max_bytes=950_000_000)
    """Documented: 200,000 requests, and 1 GB for a file."""
    _jobs_field = "batchPredictionJobs"

    def __init__(self, source: BatchSource, storage: str | None) -> None:
        super().__init__(source)
        if source.template.body.get("cachedContent"):
            raise InvalidOptionError(
                "Batch jobs on Vertex AI have no context caches. Use the model without "
                "cached_content, or the Gemini Developer API."
            )
        if source.template.invocation.tier_headers:
            raise InvalidOptionError(
                "Batch jobs on Vertex AI have no service tiers. Leave service_tier out."
            )
        self._has_warned = False
        self.storage = _check_storage(storage) if storage is not None else None
        self._bucket = _Bucket(source.client.settings.credentials)
        if self.storage:
            self._bucket.open(self.storage)  # before inputs are rendered

    def check_folder(self, manifest: Manifest | None, path: object) -> None:
        """Use the storage of a folder; require one for a new job."""
        if manifest is None:
            if self.storage is None:
                raise InvalidOptionError(
                    "On Vertex AI, a batch job needs a place in your bucket for requests and "
                    "results. Pass storage='gs://bucket/prefix'."
                )
            return
        if not manifest.is_on_vertexai:
            raise InvalidOptionError(
                f"The batch job at {path} belongs to the Gemini Developer API, not to Vertex AI. "
                "Use another path for another job."
            )
        if self.storage and manifest.storage and self.storage != manifest.storage:
            raise InvalidOptionError(
                f"The batch job at {path} uses {manifest.storage}, not {self.storage}. Leave "
                "storage out, or use another path for another job."
            )
        self.storage = manifest.storage or self.storage

    def check_name(self, name: str) -> None:
        """Reject the name of a job that this model cannot reach."""
        if not isinstance(name, str) or not (match := _JOB_NAME.fullmatch(name)):
            raise InvalidOptionError(
                f"{name!r} is not the name of a batch job of Vertex AI, such as "
                "projects/my-project/locations/global/batchPredictionJobs/123."
            )
        here = self._client.settings.location
        if here and here != match["location"]:
            # The SDK looks for the job in its own location and ignores the one in the name.
            raise InvalidOptionError(
                f"{name} is a job in {match['location']}, and the model uses {here}. Make the "
                f"model with location={match['location']!r}."
            )

    def check_request(self, line: tuple[int, bytes]) -> tuple[int, bytes]:
        """Warn of a request that the import is reported to reject, with the whole job."""
        index, body = line
        if self._has_warned:
            return line
        if found := next(_find_import_problems(decode_json(_importable(body))), None):
            self._has_warned = True
            logger.warning(
                "Input %d of the batch job: %s. Vertex AI imports requests into a table. "
                "It is reported to fail the whole job in this case. Change the request, or use "
                "the Gemini Developer API.",
                index,
                found,
            )
        return line

    # The files

    def upload(self, folder: Folder, part: JobPart, display_name: str) -> JobPart:
        """Write the requests to the bucket, unless they are there."""
        if part.file:
            return part
        url = f"{self.storage}/{display_name}/{_REQUESTS}"

        def write() -> None:
            with self._bucket.writing(url) as target:
                for index, body in folder.read_requests(part):
                    target.write(self.render_line(index, body))

        self._retries.call(write)
        return replace(part, file=url)

    def render(self, folder: Folder, part: JobPart, display_name: str) -> bytes:  # noqa: ARG002
        """Render a `BatchPredictionJob`."""
        source = str(part.file)
        destination = f"{source.removesuffix(_REQUESTS)}results"
        return encode_json(
            {
                "displayName": display_name,
                "model": _model_path(self._model),
                "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [source]}},
                "outputConfig": {
                    "predictionsFormat": "jsonl",
                    "gcsDestination": {"outputUriPrefix": destination},
                },
            }
        )

    def render_line(self, index: int, body: bytes) -> bytes:
        """Render `{"custom_id": ..., "request": ...}`."""
        return b'{"%b":"input-%d","request":%b}\n' % (_ID.encode(), index, _importable(body))

    def _copy_results(
        self, folder: Folder, part: JobPart, report: JobReport, target: BinaryIO
    ) -> None:
        """Copy the results from the bucket, with our keys and without the requests."""
        files = self._bucket.find_predictions(report.output) if report.output else []
        if not files and report.state in SUCCESSFUL_STATES:
            raise GeminiNotFoundError(f"There are no predictions*.jsonl in {report.output}.")
        keys = _Keys(folder, part)
        for lines in files:
            target.writelines(keys.rewrite(line) for line in lines)

    def delete_files(self, part: JobPart) -> None:
        """Delete the requests and the results in the bucket."""
        if part.file and part.file.endswith(f"/{_REQUESTS}"):
            self._bucket.delete(part.file.removesuffix(f"/{_REQUESTS}"))

    # The jobs

    def cancel(self, name: str) -> None:
        """Cancel a job, unless it has ended."""
        try:
            super().cancel(name)
        except GeminiInvalidRequestError as error:
            if error.status != "FAILED_PRECONDITION":
                raise

    def delete(self, name: str) -> None:
        """Delete a job that has ended."""
        try:
            super().delete(name)
        except GeminiInvalidRequestError as error:
            error.add_note("Vertex AI deletes only jobs that have ended: cancel the job first.")
            raise

    def _create(self, sdk: SdkClient) -> object:
        # Source and destination are replaced by those in our body.
        return sdk.batches.create(
            model=self._model, src=f"gs://b/{_REQUESTS}", config={"dest": "gs://b/results"}
        )

    def _list(self, sdk: SdkClient, display_name: str, token: str | None) -> object:
        named = f'display_name="{display_name}"'
        return sdk.batches.list(
            config={"page_size": PAGE_SIZE, "page_token": token, "filter": named}
        )

    def _parse_job(self, job: JsonObject) -> JobReport:
        name = checked_name(job.get("name"))
        output = as_object(job.get("outputInfo")).get("gcsOutputDirectory")
        if output is not None and not (isinstance(output, str) and _STORAGE.fullmatch(output)):
            # fsspec would read files of this machine, or of any server.
            raise UnreadableResponseError(
                f"The gcsOutputDirectory of {name} is {output!r:.200}, which is not in Cloud "
                "Storage. Make the same call again later."
            )
        counts = parse_counts(job.get("completionStats"), _COUNTS)
        return JobReport(
            name=name,
            state=parse_state(job.get("state")),
            display_name=job.get("displayName"),
            counts=counts | {"request": sum(counts.values())} if counts else {},
            output=output,
            error=as_object(job.get("error")) or None,
        )


def _check_storage(storage: str) -> str:
    if not isinstance(storage, str) or not _STORAGE.fullmatch(storage):
        raise InvalidOptionError(
            f"storage={storage!r} is not a place in Cloud Storage. Use 'gs://bucket/prefix'."
        )
    return storage.rstrip("/")


def _model_path(model: str) -> str:
    """Return the name of a model as the SDK writes it for Vertex AI."""
    if model.startswith(("projects/", "models/", "publishers/")):
        return model
    publisher, _, name = model.rpartition("/")
    return f"publishers/{publisher or 'google'}/models/{name}"


def _find_import_problems(value: Any, path: str = "request", level: int = 1) -> Iterator[str]:
    """Yield what a table cannot store: empty objects, some names, and deep nesting (reported)."""
    if isinstance(value, list):
        for position, each in enumerate(value):
            yield from _find_import_problems(each, f"{path}[{position}]", level)
    elif isinstance(value, dict):
        if not value:
            yield f"{path} is an empty object"
        if level > _MAX_LEVELS:
            yield f"{path} is nested in more than {_MAX_LEVELS} objects"
        for name, each in value.items():
            if not _COLUMN.fullmatch(name):
                yield f"{path} has a field {name!r}, whose name has not only letters, digits and _"
            yield from _find_import_problems(each, f"{path}.{name}", level + 1)


def _importable(body: bytes) -> bytes:
    """Remove empty arguments of function calls, which are optional."""
    # Text that a user wrote cannot match: quotes inside of strings are escaped.
    return _NO_ARGUMENTS.sub(rb'"functionCall":{\1', body) if b'"args":{}' in body else body


class _Keys:
    """Finds the input of each line of the results, and renders the line with its number."""

    def __init__(self, folder: Folder, part: JobPart) -> None:
        self._folder = folder
        self._part = part
        self._by_request: dict[bytes, deque[int]] | None = None

    def rewrite(self, line: bytes) -> bytes:
        if not line.strip():
            return b""
        try:
            found = decode_line(line)
        except UnreadableResponseError:
            return line.rstrip(b"\n") + b"\n"  # reported when the results are read
        key = self._key_of(found)
        kept: JsonObject = {"key": str(key)} if key is not None else {}
        status = found.get("status")
        if isinstance(status, str) and status:
            kept["error"] = _parse_status(status)
        elif "response" in found:
            kept["response"] = found["response"]
        return encode_json(kept, is_large=True) + b"\n"

    def _key_of(self, line: JsonObject) -> int | None:
        if ours := _OUR_ID.fullmatch(str(line.get(_ID))):
            return int(ours[1])
        if self._part.is_foreign:
            return None
        if self._by_request is None:
            self._by_request = {}
            for index, body in self._folder.read_requests(self._part):
                self._by_request.setdefault(_digest(json.loads(body)), deque()).append(index)
        # Equal requests may get each other's response.
        waiting = self._by_request.get(_digest(line.get("request")))
        return waiting.popleft() if waiting else None


def _digest(request: Any) -> bytes:
    """Return a digest that does not depend on the order of keys, and not on empty values."""
    text = json.dumps(_without_empty(request), sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _parse_status(status: str) -> JsonObject:
    """Read `Bad Request: {"error": {"code": 400, ...}}` (documented); other texts are kept."""
    name, brace, rest = status.partition("{")
    with suppress(ValueError, UnreadableResponseError):
        decoded = decode_json((brace + rest).encode("utf-8", "surrogatepass"))
        error = as_object(as_object(decoded).get("error"))
        if isinstance(error.get("code"), int):
            return error
    code = 400 if name.startswith("Bad Request") else 500
    return {"code": code, "message": status}


class _Bucket:
    """Files in Cloud Storage, through fsspec.

    Args:
        credentials: Credentials of `google.auth`; with None, fsspec finds some.
    """

    def __init__(self, credentials: object) -> None:
        # The name of the argument is that of gcsfs.
        self._options = {"token": credentials} if credentials else {}

    def open(self, url: str) -> tuple[Any, str]:
        """Return fsspec's file system, and the path in it.

        Raises:
            InvalidOptionError: fsspec, or gcsfs, is not installed.
        """
        try:
            from fsspec.core import url_to_fs

            with _mapping_errors(url):
                system, path = url_to_fs(url, **self._options)
        except ImportError as error:
            raise InvalidOptionError(
                f"Batch jobs on Vertex AI read and write your bucket with gcsfs: {_EXTRA}."
            ) from error
        return system, path

    @contextmanager
    def writing(self, url: str) -> Iterator[BinaryIO]:
        """Write a file, which exists once it is complete."""
        system, path = self.open(url)
        with _mapping_errors(url), system.open(path, "wb") as file:
            yield file

    def find_predictions(self, url: str) -> list[Iterator[bytes]]:
        """Return the lines of each file with results in a folder.

        While a job runs, results come in further files, which have `incremental_predictions` in
        their path (reported). They count only if the job ended without the others.
        """
        system, path = self.open(url)
        with _mapping_errors(url):
            system.invalidate_cache()
            names = sorted(name for name in system.find(path) if name.endswith(".jsonl"))
        final = [name for name in names if re.search(r"/predictions[^/]*$", name)]
        final = [name for name in final if "/incremental_" not in name]
        chosen = final or [name for name in names if "predictions" in name]
        return [_read_lines(system, name, url) for name in chosen]

    def delete(self, url: str) -> None:
        """Delete a folder, if it exists."""
        system, path = self.open(url)
        with suppress(GeminiNotFoundError), _mapping_errors(url):
            system.invalidate_cache()
            system.rm(path, recursive=True)


def _read_lines(system: Any, path: str, url: str) -> Iterator[bytes]:
    with _mapping_errors(url), system.open(path, "rb") as file:
        yield from io.BufferedReader(file, _BUFFER_BYTES)


@contextmanager
def _mapping_errors(url: str) -> Iterator[None]:
    """Map errors of the storage to ours, some of which are retried."""
    try:
        yield
    except (GeminiToolsError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001 - of fsspec, gcsfs, aiohttp or google.auth
        ours = _map_error(error, url)
        # Tracebacks print the cause as well.
        ours.__cause__ = error if redact(repr(error), secrets_in_use()) == repr(error) else None
    else:
        return
    raise ours


def _map_error(error: Exception, url: str) -> GeminiAPIError:
    code = getattr(error, "code", None)  # of gcsfs
    reason = redact(str(error) or type(error).__name__, secrets_in_use())
    if isinstance(error, FileNotFoundError):
        return GeminiNotFoundError(f"{url} does not exist: {reason}")
    if isinstance(error, PermissionError) or code in (401, 403):
        return GeminiPermissionError(f"Access to {url} is denied: {reason}")
    return GeminiConnectionError(f"{url} cannot be read or written: {reason}")
