"""The API's operations on batch jobs, read from the server's own JSON.

The SDK's types drop the counts and the error of a job, and never call a partly successful one done.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import GeminiRateLimitError, UnreadableResponseError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from langchain_gemini_tools.client import GeminiClient, SdkClient
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire.request import RenderedRequest

    JsonObject = dict[str, Any]

SUCCESSFUL_STATES = frozenset({"SUCCEEDED", "PARTIALLY_SUCCEEDED"})
FINAL_STATES = SUCCESSFUL_STATES | {"FAILED", "CANCELLED", "EXPIRED"}
_PAGE_SIZE = 100
_JSONL = "application/jsonl"


@dataclass(frozen=True)
class JobReport:
    """What the API says about a job."""

    name: str
    state: str
    """Without its prefix: `PENDING`, `RUNNING`, `SUCCEEDED`, ..."""
    display_name: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """`request`, `successful`, `failed` and `pending`, as far as the API counts them."""
    output_file: str | None = None
    inline: list[JsonObject] | None = field(default=None, repr=False)
    error: JsonObject | None = None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended, and its results can be read.

        A job can be SUCCEEDED before it names its results.
        """
        has_results = self.output_file is not None or self.inline is not None
        return self.state in FINAL_STATES and (has_results or self.state not in SUCCESSFUL_STATES)


def parse_job(operation: JsonObject) -> JobReport:
    """Read the long-running operation that stands for a job."""
    metadata = _object(operation.get("metadata"))
    name = operation.get("name") or metadata.get("name")
    if not isinstance(name, str):
        raise UnreadableResponseError("The API returned a batch job without a name.")
    output = _object(operation.get("response")) or _object(metadata.get("output"))
    inline = _object(output.get("inlinedResponses")).get("inlinedResponses")
    stats = _object(metadata.get("batchStats"))
    return JobReport(
        name=name,
        state=str(metadata.get("state") or "").rpartition("STATE_")[2],
        display_name=metadata.get("displayName"),
        counts={
            key.removesuffix("RequestCount").removesuffix("Count"): int(count)
            for key, count in stats.items()
            if str(count).isdecimal()
        },
        output_file=output.get("responsesFile"),
        inline=inline if isinstance(inline, list) else None,
        error=_object(operation.get("error")) or None,
    )


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


class BatchService:
    """The operations, with the credentials, the timeout and the retries of a model."""

    def __init__(
        self, client: GeminiClient, template: RenderedRequest, retries: RetryPolicy
    ) -> None:
        invocation = template.invocation
        self._client = client
        self._model = invocation.model
        self._retries = retries
        self._options: JsonObject = {
            "timeout_seconds": invocation.timeout_seconds,
            "headers": invocation.headers,
        }

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

    def _create(self, sdk: SdkClient) -> object:
        return sdk.batches.create(model=self._model, src="files/replaced")  # by our body

    def find(self, display_name: str) -> JobReport | None:
        """Return the job with a name of ours; None if the API lists none."""
        return self._retries.call(partial(self._find, display_name))

    def _find(self, display_name: str) -> JobReport | None:
        token: str | None = None
        while True:
            page = self._send(partial(_list, token=token))
            for operation in page.get("operations") or ():
                job = self._parse(operation)
                if job.display_name == display_name:
                    return job
            token = page.get("nextPageToken")
            if not token:
                return None

    def get(self, name: str) -> JobReport:
        """Return the state of a job."""
        return self._parse(self._call(lambda sdk: sdk.batches.get(name=name)))

    def cancel(self, name: str) -> None:
        """Cancel a job; what it has finished may still be returned."""
        self._call(lambda sdk: sdk.batches.cancel(name=name))

    def delete(self, name: str) -> None:
        """Delete a job, and what it has returned."""
        self._call(lambda sdk: sdk.batches.delete(name=name))

    def delete_file(self, name: str) -> None:
        """Delete an uploaded file."""
        self._call(lambda sdk: sdk.files.delete(name=name))

    def upload(self, path: Path, display_name: str) -> str:
        """Upload requests, and return the name of the file."""
        upload = partial(
            self._client.upload, str(path), display_name=display_name, mime_type=_JSONL
        )
        return self._retries.call(upload)

    def download(self, name: str, target: BinaryIO) -> None:
        """Download results; after a failure, from their beginning."""

        def attempt() -> None:
            target.seek(0)
            target.truncate()
            self._client.download(name, target.write, **self._options)

        self._retries.call(attempt)

    def _parse(self, operation: JsonObject) -> JobReport:
        report = parse_job(operation)
        return (
            replace(report, error=self._client.redacted(report.error)) if report.error else report
        )

    def _call(self, call: Callable[[SdkClient], object], body: bytes | None = None) -> JsonObject:
        return self._retries.call(partial(self._send, call, body))

    def _send(self, call: Callable[[SdkClient], object], body: bytes | None = None) -> JsonObject:
        return self._client.call_sdk(call, body, **self._options)


def _list(sdk: SdkClient, token: str | None) -> object:
    return sdk.batches.list(config={"page_size": _PAGE_SIZE, "page_token": token})


def render_batch(source: bytes, display_name: str, webhooks: Mapping[str, Any] | None) -> bytes:
    """Render the request that creates a job.

    Args:
        source: The JSON of its `inputConfig`.
        display_name: Its name.
        webhooks: The `webhookConfig` of the API.
    """
    fields = {"displayName": display_name}
    more = {"webhookConfig": webhooks} if webhooks else {}
    return b'{"batch":%b,"inputConfig":%b}}' % (encode_json({**fields, **more})[:-1], source)
