"""The responses to one input -> its result, or the request that has to follow.

An input may take several jobs: a failed item is sent again, a long response is continued, and a
malformed one is sent once more with feedback. All of it follows from the responses so far, so
nothing but them is stored. `Outcomes` finds the responses in the folder, `Evaluator` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.batch.folder import RequestReader, ResultReader
from langchain_gemini_tools.batch.service import SUCCESSFUL_STATES
from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    BatchJobError,
    GeminiAPIError,
    ResponseError,
    UnreadableResponseError,
    map_api_error,
)
from langchain_gemini_tools.wire.hops import find_next_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.batch.folder import Folder, Manifest, Part
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.wire.request import RenderedRequest

    JsonObject = dict[str, Any]

MAX_HOPS = 64
_UNKNOWN = (500, "UNKNOWN")
_HTTP_STATUS = {
    1: (499, "CANCELLED"),
    2: _UNKNOWN,
    3: (400, "INVALID_ARGUMENT"),
    4: (504, "DEADLINE_EXCEEDED"),
    5: (404, "NOT_FOUND"),
    7: (403, "PERMISSION_DENIED"),
    8: (429, "RESOURCE_EXHAUSTED"),
    9: (400, "FAILED_PRECONDITION"),
    13: (500, "INTERNAL"),
    14: (503, "UNAVAILABLE"),
    16: (401, "UNAUTHENTICATED"),
}
"""google.rpc.Code, which items use -> HTTP status and name."""
_CANCELLED = 499
"""Single items are reported to fail with it although no one cancelled the job: sending helps."""


@dataclass(frozen=True)
class Missing:
    """A job ended without a response to the input."""

    state: str
    error: JsonObject | None = None
    is_resent: bool = True

    def to_error(self) -> BatchJobError:
        """Return the error that stands in place of the result."""
        reason = f": {self.error.get('message')}" if self.error else ""
        error = BatchJobError(
            f"The batch job ended as {self.state} without a response to this input{reason}. "
            "job.resend() sends it again."
        )
        error.is_retryable = self.is_resent
        return error


@dataclass(frozen=True)
class Outcome:
    """What the attempts for one input have led to: a result, an error, or one more request."""

    result: ChatResult | None = None
    error: Exception | None = None
    next_body: bytes | None = None


class Evaluator:
    """Evaluates the attempts of inputs of one job.

    Args:
        template: A request with the options of the job.
        client: Redacts what errors quote.
    """

    def __init__(self, template: RenderedRequest, client: GeminiClient) -> None:
        self._template = template
        self._client = client
        self._max_failures = template.invocation.max_retries
        self._continues = template.invocation.continues_automatically

    def evaluate(
        self,
        attempts: Sequence[JsonObject | Missing],
        first_body: Callable[[], bytes] | None,
    ) -> Outcome:
        """Return what the attempts for one input have led to.

        Args:
            attempts: The lines of the results, oldest first.
            first_body: Reads the first request; None if it is not known, as for a job that was
                created elsewhere. Then nothing follows.
        """
        request, failures = self._template, 0
        hops: list[Any] = []
        outcome: Outcome | None = None
        for attempt in attempts:
            if request is self._template and first_body and len(attempts) > 1:
                request = replace(request, encoded=first_body())
            if (error := _error_in(attempt, self._client)) is not None:
                failures += 1
                outcome = Outcome(error=error)
                if first_body and error.is_retryable and failures <= self._max_failures:
                    if request is self._template:
                        request = replace(request, encoded=first_body())
                    token = find_next_token(hops[-1]) if hops else None
                    outcome = Outcome(error=error, next_body=request.continued(token))
                else:
                    hops, request = [], self._template  # `resend` sends the first request
                continue
            hops.append(attempt["response"])  # type: ignore[index]
            token = find_next_token(hops[-1])
            if first_body and token and self._continues and len(hops) < MAX_HOPS:
                if request is self._template:
                    request = replace(request, encoded=first_body())
                outcome = Outcome(error=_unfinished(), next_body=request.continued(token))
                continue
            outcome, request = self._parse(request, hops, first_body)
            hops = []
        return outcome or Outcome(
            error=BatchJobError("The batch job has no response to this input.")
        )

    def _parse(
        self, request: RenderedRequest, hops: list[Any], first_body: Callable[[], bytes] | None
    ) -> tuple[Outcome, RenderedRequest]:
        try:
            with request.naming_tools(), self._client.redacting_errors():
                return Outcome(result=request.parse(hops[0], hops[1:])), request
        except FEEDBACK_ERRORS as failure:
            invocation = request.invocation
            if not first_body or request.is_second_try or not invocation.retries_with_feedback:
                return Outcome(error=failure), request
            if request is self._template:
                request = replace(request, encoded=first_body())
            second = request.with_feedback(failure)
            return Outcome(error=failure, next_body=second.encoded), second
        except (ResponseError, GeminiAPIError) as error:
            return Outcome(error=error), request


def _unfinished() -> BatchJobError:
    return BatchJobError(
        "The response is not complete, and nothing continues it, because the batch job was "
        "cancelled. job.resend() continues it."
    )


def _error_in(
    attempt: JsonObject | Missing, client: GeminiClient
) -> GeminiAPIError | UnreadableResponseError | None:
    """Return the error of an item; None if it has a response."""
    if isinstance(attempt, Missing):
        return attempt.to_error()
    if isinstance(attempt.get("response"), dict):
        return None
    # Others have seen `status` instead of `error`.
    status = attempt.get("error") or attempt.get("status")
    if isinstance(status, str):
        status = {"message": status}
    if not isinstance(status, dict):
        return UnreadableResponseError("A result of the batch job has no response and no error.")
    given = status.get("code")
    given = given if isinstance(given, int) else 2
    # Items of Vertex AI have the HTTP status itself.
    code, name = (given, "UNKNOWN") if given >= 400 else _HTTP_STATUS.get(given, _UNKNOWN)
    details = {"error": {"status": name, **status, "code": code}}
    error = map_api_error(code, client.redacted(details))
    if code == _CANCELLED:
        error.is_retryable = True
    return error


class Outcomes:
    """What has become of the inputs of a folder.

    Args:
        folder: The state of the job.
        evaluator: Reads the responses.
    """

    def __init__(self, folder: Folder, evaluator: Evaluator) -> None:
        self._folder = folder
        self._evaluator = evaluator
        self._readers: dict[int, ResultReader] = {}
        self._requests: RequestReader | None = None

    def of(self, manifest: Manifest, indexes: Iterable[int]) -> Iterator[tuple[int, Outcome]]:
        """Iterate over inputs with their outcomes, without those that a job is still to answer."""
        later = self._later_parts(manifest)
        for index in indexes:
            numbers = [_first_part(manifest, index), *later.get(index, ())]
            parts = [manifest.parts[number] for number in numbers]
            if all(part.is_collected for part in parts):
                yield index, self._evaluate(manifest, parts, index)

    def first_request(self, manifest: Manifest, index: int) -> bytes:
        """Return the body of the first request for an input."""
        if self._requests is None:
            self._requests = RequestReader(self._folder, manifest.parts)
        return self._requests.read(index)

    def reader(self, part: Part) -> ResultReader:
        """Return the results of a part that has been collected."""
        if part.number not in self._readers:
            self._readers[part.number] = ResultReader(self._folder, part)
        return self._readers[part.number]

    def _later_parts(self, manifest: Manifest) -> dict[int, list[int]]:
        """Return the parts beyond the first ones that send an input again, by its number."""
        later: dict[int, list[int]] = {}
        for part in manifest.parts:
            if part.first is None and not part.is_foreign:
                for index, _ in self._folder.read_requests(part.number):
                    later.setdefault(index, []).append(part.number)
        return later

    def _evaluate(self, manifest: Manifest, parts: list[Part], index: int) -> Outcome:
        lines = [self.reader(part).read(index) or _missing(part) for part in parts]
        is_known = not parts[0].is_foreign
        body = (lambda: self.first_request(manifest, index)) if is_known else None
        return self._evaluator.evaluate(lines, body)


def _first_part(manifest: Manifest, index: int) -> int:
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
