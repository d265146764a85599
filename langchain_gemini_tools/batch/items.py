"""The responses to one input -> its result, or the request that has to follow.

An input may take several jobs: a failed item is sent again, a long response is continued, and a
malformed one is sent once more with feedback. All of it follows from the responses so far, so only
they are stored. `Outcomes` finds the responses in the folder, `Evaluator` reads them, and
`ItemReporter` shows an item to tracers and token counters as a run of LangChain's callbacks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManager
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import ensure_config

from langchain_gemini_tools.batch.folder import JobPart, RequestReader, ResultReader
from langchain_gemini_tools.batch.service import RESENT_STATES
from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    BatchJobError,
    GeminiAPIError,
    ResponseError,
    UnreadableResponseError,
    map_api_error,
)
from langchain_gemini_tools.facts.error_bodies import find_http_status
from langchain_gemini_tools.wire.hops import find_next_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langchain_core.outputs import ChatResult
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.folder import Folder, Manifest
    from langchain_gemini_tools.batch.inputs import TracedModel
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.wire.request import RenderedRequest


MAX_HOPS = 64


@dataclass(frozen=True)
class ItemOutcome:
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
        attempts: Sequence[JsonObject | JobPart],
        first_body: Callable[[], bytes] | None,
    ) -> ItemOutcome:
        """Return what the attempts for one input have led to.

        Args:
            attempts: The lines of the results, oldest first; a part in place of its line if its job
                ended without one.
            first_body: Reads the first request; None if it is not known, as for a job that was
                created elsewhere. Then nothing follows.
        """
        request, failures = self._template, 0
        hops: list[Any] = []
        outcome: ItemOutcome | None = None
        for attempt in attempts:
            if request is self._template and first_body and len(attempts) > 1:
                request = replace(request, encoded=first_body())
            if (error := _error_in(attempt, self._client)) is not None:
                failures += 1
                outcome = ItemOutcome(error=error)
                if first_body and error.is_retryable and failures <= self._max_failures:
                    if request is self._template:
                        request = replace(request, encoded=first_body())
                    token = find_next_token(hops[-1]) if hops else None
                    outcome = ItemOutcome(error=error, next_body=request.continued(token))
                else:
                    hops, request = [], self._template  # `resend` sends the first request
                continue
            hops.append(attempt["response"])  # type: ignore[index]
            token = find_next_token(hops[-1])
            if first_body and token and self._continues and len(hops) < MAX_HOPS:
                if request is self._template:
                    request = replace(request, encoded=first_body())
                outcome = ItemOutcome(error=_unfinished(), next_body=request.continued(token))
                continue
            outcome, request = self._parse(request, hops, first_body)
            hops = []
        return outcome or ItemOutcome(
            error=BatchJobError("The batch job has no response to this input.")
        )

    def _parse(
        self, request: RenderedRequest, hops: list[Any], first_body: Callable[[], bytes] | None
    ) -> tuple[ItemOutcome, RenderedRequest]:
        try:
            with request.naming_tools(), self._client.redacting_errors():
                return ItemOutcome(result=request.parse(hops[0], hops[1:])), request
        except FEEDBACK_ERRORS as failure:
            invocation = request.invocation
            if not first_body or request.is_second_try or not invocation.retries_with_feedback:
                return ItemOutcome(error=failure), request
            if request is self._template:
                request = replace(request, encoded=first_body())
            second = request.with_feedback(failure)
            return ItemOutcome(error=failure, next_body=second.encoded), second
        except (ResponseError, GeminiAPIError) as error:
            return ItemOutcome(error=error), request


def _unfinished() -> BatchJobError:
    return BatchJobError(
        "The response is not complete, because the batch job was cancelled before the next "
        "request. job.resend() continues it."
    )


def _error_in(
    attempt: JsonObject | JobPart, client: GeminiClient
) -> GeminiAPIError | UnreadableResponseError | None:
    """Return the error of an item; None if it has a response."""
    if isinstance(attempt, JobPart):
        return _missing(attempt)
    if isinstance(attempt.get("response"), dict):
        return None
    # Reported: `status` instead of `error`.
    status = attempt.get("error") or attempt.get("status")
    if isinstance(status, str):
        status = {"message": status}
    if not isinstance(status, dict):
        return UnreadableResponseError("A result of the batch job has no response and no error.")
    # Items have a code of google.rpc, those of Vertex AI the HTTP status itself.
    code, name = find_http_status(status.get("code"))
    details = {"error": {"status": name, **status, "code": code}}
    return map_api_error(code, client.redacted(details))


class Outcomes:
    """The outcomes of the inputs of a folder.

    Args:
        folder: The state of the job.
        evaluator: Reads the responses.
    """

    def __init__(self, folder: Folder, evaluator: Evaluator) -> None:
        self._folder = folder
        self._evaluator = evaluator
        self._readers: dict[int, ResultReader] = {}
        self._requests: RequestReader | None = None

    def of(self, manifest: Manifest, indexes: Iterable[int]) -> Iterator[tuple[int, ItemOutcome]]:
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

    def reader(self, part: JobPart) -> ResultReader:
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

    def _evaluate(self, manifest: Manifest, parts: list[JobPart], index: int) -> ItemOutcome:
        lines = [self.reader(part).read(index) or part for part in parts]
        is_known = not parts[0].is_foreign
        body = (lambda: self.first_request(manifest, index)) if is_known else None
        return self._evaluator.evaluate(lines, body)


def _first_part(manifest: Manifest, index: int) -> int:
    for part in manifest.parts:
        if part.is_foreign or part.covers(index):
            return part.number
    raise LookupError(index)


def _missing(part: JobPart) -> BatchJobError:
    """Return the error for an input to which a job has ended without a response."""
    error = BatchJobError(
        f"The batch job ended as {part.state} without a response to this input{part.reason}. "
        "job.resend() sends it again."
    )
    error.is_retryable = part.state in RESENT_STATES
    return error


class ItemReporter:
    """Reports items to the callbacks that would see an `invoke` of the model at this place.

    Args:
        traced: The model.
        config: Callbacks, tags, metadata and the name of the runs.
    """

    def __init__(self, traced: TracedModel, config: RunnableConfig | None) -> None:
        self._traced = traced
        self._config = ensure_config(config)
        self.is_heard = bool(self._manager().handlers)
        """Whether there are callbacks."""

    def _manager(self) -> CallbackManager:
        """Return a manager for one run: tracers write into its metadata."""
        model, config = self._traced.model, self._config
        return CallbackManager.configure(
            config.get("callbacks"),
            model.callbacks,
            inheritable_tags=config.get("tags"),
            local_tags=model.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **self._traced.metadata},
            local_metadata=model.metadata,
        )

    @cached_property
    def _serialized(self) -> dict[str, Any]:
        serialized: dict[str, Any] = dumpd(self._traced.model)
        return serialized

    def report(self, body: bytes, outcome: ItemOutcome) -> None:
        """Report one item as a run that starts and ends now.

        Args:
            body: The request, from which the texts and tool calls of the conversation are shown.
            outcome: Its outcome.
        """
        (run,) = self._manager().on_chat_model_start(
            self._serialized,
            [_messages(json.loads(body))],
            invocation_params=dict(self._traced.params),
            name=self._config.get("run_name"),
        )
        if outcome.result is not None:
            run.on_llm_end(LLMResult(generations=[[*outcome.result.generations]]))
        elif outcome.error is not None:
            run.on_llm_error(outcome.error, response=LLMResult(generations=[]))


def _messages(body: dict[str, Any]) -> list[BaseMessage]:
    system = _text(body.get("systemInstruction") or {})
    messages: list[BaseMessage] = [SystemMessage(system)] if system else []
    for content in body.get("contents") or ():
        parts = content.get("parts") or ()
        if content.get("role") == "model":
            calls = [_tool_call(part["functionCall"]) for part in parts if "functionCall" in part]
            messages.append(AIMessage(_text(content), tool_calls=calls))
            continue
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += map(_tool_message, results)
        if (text := _text(content)) or not results:
            messages.append(HumanMessage(text))
    return messages


def _tool_call(call: dict[str, Any]) -> ToolCall:
    return ToolCall(name=call["name"], args=call.get("args") or {}, id=_id_of(call))


def _tool_message(result: dict[str, Any]) -> ToolMessage:
    text = json.dumps(result.get("response"), ensure_ascii=False, separators=(",", ":"))
    return ToolMessage(text, name=result["name"], tool_call_id=_id_of(result))


def _id_of(part: dict[str, Any]) -> str:
    return str(part.get("id") or part["name"])


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text") or "" for part in content.get("parts") or ())
