"""One item of a batch: its request, and the responses to it -> its result.

An item is an input of a batch job, or a call of the model inside an agent that runs in batches. It
may take several jobs: a failed item is sent again, a long response is continued, and a malformed
one is sent once more with feedback. All of it follows from the responses so far, so only they are
stored. `evaluate` reads them. `ItemReporter` shows the inputs of a job to tracers and token
counters, as runs of LangChain's callbacks.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
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
from pydantic import BaseModel

from langchain_gemini_tools.batch.folder import JobPart
from langchain_gemini_tools.batch.service import RESENT_STATES
from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    BatchJobError,
    GeminiAPIError,
    InvalidOptionError,
    ResponseError,
    UnreadableResponseError,
    map_api_error,
)
from langchain_gemini_tools.facts.http import find_http_status
from langchain_gemini_tools.facts.json_values import encode_json
from langchain_gemini_tools.wire.function_calls import whole_call
from langchain_gemini_tools.wire.hops import MAX_HOPS, find_next_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import ChatResult
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.folder import Folder, Lines, Manifest
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire.request import RenderedRequest

_JSON_SCHEMA = "responseJsonSchema"


@dataclass(frozen=True)
class BatchSource:
    """A model with its options: what renders inputs and reads results."""

    template: RenderedRequest
    """A request with the options of the job."""
    render: Callable[[Any], RenderedRequest]
    client: GeminiClient
    retries: RetryPolicy
    chat_model: BaseChatModel
    params: Mapping[str, Any] = field(default_factory=dict)
    """The options of the model, as callbacks of `invoke` receive them."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The `ls_*` parameters of the model, for callbacks."""
    finish: Callable[[AIMessage], Any] = lambda message: message
    """Turns a message into a result, such as a parsed object."""

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.template.invocation.model


def schema_rewriter(template: RenderedRequest) -> Callable[[bytes], bytes]:
    """Return a function that replaces the response schema in the bodies of a job.

    In batches, `responseJsonSchema` is reported to give degenerate JSON (0 of 502 responses were
    right), where the older `responseSchema` works. So the schema is sent in that form, which has no
    field for some keywords.

    Raises:
        InvalidOptionError: The other form cannot express the schema.
    """
    config: JsonObject = dict(template.body.get("generationConfig") or {})
    schema = config.get(_JSON_SCHEMA)
    if schema is None:
        return lambda body: body
    # Loads what is known about schemas, which most jobs never need.
    from langchain_gemini_tools.wire.schema.render import (
        find_keywords_without_field,
        render_openapi_schema,
    )

    if lost := find_keywords_without_field(schema):
        raise InvalidOptionError(
            f"A batch job cannot use this response schema, because of {', '.join(lost)}: batches "
            "need Gemini's Schema form, which has no field for it. Change the schema, or use "
            "with_structured_output(..., method='function_calling')."
        )
    rendered = render_openapi_schema(schema)
    before = b'"%b":%b' % (_JSON_SCHEMA.encode(), encode_json(schema))
    after = b'"responseSchema":%b' % encode_json(rendered)

    def rewrite(body: bytes) -> bytes:
        # Text that a user wrote cannot match: quotes inside of strings are escaped.
        if body.count(before) == 1:
            return body.replace(before, after)  # without parsing, for instance, a large image
        decoded = json.loads(body)
        del decoded["generationConfig"][_JSON_SCHEMA]
        decoded["generationConfig"]["responseSchema"] = rendered
        return encode_json(decoded, is_large=True)

    return rewrite


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


def render_inputs(source: BatchSource, inputs: Iterable[Any]) -> Lines:
    """Return the number of each input and its request, which is rendered when it is read.

    Raises:
        InvalidOptionError: The inputs, or their response schema, cannot be used.
    """
    check_inputs(inputs)
    return _render_each(source, inputs, schema_rewriter(source.template))


def _render_each(
    source: BatchSource, inputs: Iterable[Any], rewrite: Callable[[bytes], bytes]
) -> Lines:
    for index, each in enumerate(inputs):
        try:
            body = source.render(each).encoded
        except Exception as error:
            error.add_note(f"This is input {index} of the batch job. Nothing was sent.")
            raise
        yield index, rewrite(body)


def compare_inputs(lines: Lines, folder: Folder, manifest: Manifest) -> None:
    """Compare the requests for inputs with those of the job in a folder.

    Raises:
        InvalidOptionError: They differ.
    """
    count = 0
    # The stored lines first: `zip` would drop an input that has none.
    for before, line in zip(folder.read_all_requests(manifest), lines, strict=False):
        count += 1
        if line != before:
            raise InvalidOptionError(
                f"Input {line[0]} differs from that of the batch job at {folder.path}: its "
                "messages, the tools or the options have changed. Pass the same, or use another "
                "path for another job."
            )
    if count < manifest.count or next(lines, None) is not None:
        passed = f"{count:,}" if count < manifest.count else f"more than {manifest.count:,}"
        raise InvalidOptionError(
            f"The number of inputs is {passed}, but the batch job at {folder.path} has "
            f"{manifest.count:,}. Pass the same inputs, or use another path for another job."
        )


@dataclass(frozen=True)
class ItemOutcome:
    """What the attempts for one input have led to: a result, an error, or one more request."""

    result: ChatResult | None = None
    error: Exception | None = None
    next_body: bytes | None = None


def evaluate(
    source: BatchSource,
    attempts: Sequence[JsonObject | JobPart],
    first_body: Callable[[], bytes] | None,
) -> ItemOutcome:
    """Return what the attempts for one input have led to.

    Args:
        source: The model and its options.
        attempts: The lines of the results, oldest first; a part in place of its line if its job
            ended without one.
        first_body: Reads the first request; None if it is not known, as for a job that was
            created elsewhere. Then nothing follows.
    """
    template, invocation = source.template, source.template.invocation
    second_try: RenderedRequest | None = None
    failures, hops = 0, list[Any]()
    outcome = ItemOutcome(error=BatchJobError("The batch job has no response to this input."))

    def following(error: Exception, token: str | None) -> ItemOutcome:
        request = second_try or replace(template, encoded=first_body() if first_body else b"")
        return ItemOutcome(error=error, next_body=request.continued(token))

    for attempt in attempts:
        if (error := _error_in(attempt, source)) is not None:
            failures += 1
            if first_body and error.is_retryable and failures <= invocation.max_retries:
                outcome = following(error, find_next_token(hops[-1]) if hops else None)
            else:
                outcome = ItemOutcome(error=error)
                hops, second_try = [], None  # `resend` sends the first request
            continue
        hops.append(_with_call_ids(attempt["response"]))  # type: ignore[index]
        token = find_next_token(hops[-1])
        continues = invocation.continues_automatically and len(hops) < MAX_HOPS
        if first_body and token and continues:
            outcome = following(_unfinished(), token)
            continue
        try:
            with template.naming_tools(), source.client.redacting_errors():
                outcome = ItemOutcome((second_try or template).parse(hops[0], hops[1:]))
        except (ResponseError, GeminiAPIError) as failure:
            can_repeat = invocation.retries_with_feedback and not second_try
            if first_body and can_repeat and isinstance(failure, FEEDBACK_ERRORS):
                second_try = replace(template, encoded=first_body()).with_feedback(failure)
                outcome = ItemOutcome(error=failure, next_body=second_try.encoded)
            else:
                outcome = ItemOutcome(error=failure)
                second_try = None  # as above
        hops = []
    return outcome


def _with_call_ids(response: JsonObject) -> JsonObject:
    """Return a response whose calls have ids.

    Gemini 2.5 and Vertex AI send none. With ids that follow from the response, results are the same
    at every reading, and so are the requests that a program makes of them after a crash.
    """
    if all(call.get("id") for call in _calls_in(response)):
        return response
    content, named = json.dumps(response, sort_keys=True), deepcopy(response)
    for number, call in enumerate(_calls_in(named)):
        call["id"] = call.get("id") or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number} {content}"))
    return named


def _calls_in(response: JsonObject) -> Iterator[JsonObject]:
    match response:
        case {"candidates": [{"content": {"parts": list(parts)}}, *_]}:
            yield from (part["functionCall"] for part in parts if whole_call(part))


def _unfinished() -> BatchJobError:
    return BatchJobError(
        "The response is not complete, because the batch job was cancelled before the next "
        "request. job.resend() continues it."
    )


def _error_in(
    attempt: JsonObject | JobPart, source: BatchSource
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
    error = map_api_error(code, source.client.redacted(details))
    source.template.name_tools(error)
    return error


def _missing(part: JobPart) -> BatchJobError:
    """Return the error for an input to which a job has ended without a response."""
    error = BatchJobError(
        f"The batch job ended as {part.state} without a response to this input{part.reason}. "
        "job.resend() sends it again."
    )
    error.is_retryable = part.state in RESENT_STATES
    return error


def evaluate_all(
    source: BatchSource, folder: Folder, manifest: Manifest, part: JobPart | None = None
) -> Iterator[tuple[int, ItemOutcome]]:
    """Iterate over inputs with their outcomes, without those that a job is still to answer.

    Args:
        source: The model and its options.
        folder: The requests and results.
        manifest: The jobs.
        part: The part whose inputs are meant; None for all inputs.
    """
    later: dict[int, list[JobPart]] = {}
    for each in manifest.parts:
        if each.first is None:
            for index in folder.inputs_of(each):
                later.setdefault(index, []).append(each)
    for index in folder.inputs_of(part) if part else range(manifest.count):
        first = manifest.find_part(index)
        parts = [first, *later.get(index, ())]
        if all(each.is_collected for each in parts):
            lines = [folder.results(each).read(index) or each for each in parts]
            body = partial(folder.first_request, first, index)
            yield index, evaluate(source, lines, None if first.is_foreign else body)


def find_unanswered(source: BatchSource, folder: Folder, manifest: Manifest) -> Lines:
    """Yield the requests for the inputs that have an error in place of a result."""
    for index, outcome in evaluate_all(source, folder, manifest):
        if isinstance(_finish(source, outcome), Exception):
            first = manifest.find_part(index)
            yield index, outcome.next_body or folder.first_request(first, index)


def read_results(
    source: BatchSource, folder: Folder, config: RunnableConfig | None
) -> Iterator[tuple[int, Any]]:
    """Iterate over the number of each input and its result or error; report them to callbacks.

    Raises:
        BatchJobError: The job was created elsewhere, and has ended without results.
    """
    manifest = folder.require()
    part = manifest.parts[0]
    if part.is_foreign and part.is_collected and not manifest.count:
        raise BatchJobError(f"{part.job} ended as {part.state} without results{part.reason}.")
    reporter = ItemReporter(source, config)
    for index, outcome in evaluate_all(source, folder, manifest):
        if outcome.result is not None:
            _complete(outcome.result, source.chat_model.output_version)
        if reporter.is_heard:
            first = manifest.find_part(index)
            body = b"{}" if first.is_foreign else folder.first_request(first, index)
            reporter.report(body, outcome)
        yield index, _finish(source, outcome)


def _complete(result: ChatResult, output_version: str | None) -> None:
    """Change a result in place as langchain-core does in `invoke`."""
    for generation in result.generations:
        message = generation.message
        metadata = {**(generation.generation_info or {}), **message.response_metadata}
        message.response_metadata = metadata
        if output_version == "v1":
            metadata = {**metadata, "output_version": "v1"}
            blocks = {"content": message.content_blocks, "response_metadata": metadata}
            generation.message = message.model_copy(update=blocks)


def _finish(source: BatchSource, outcome: ItemOutcome) -> Any:
    """Return the result of an input, such as a parsed object, or its error."""
    if outcome.result is None:
        return outcome.error
    message = outcome.result.generations[0].message
    try:
        return source.finish(message)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - any error of a user's validator
        return error


class ItemReporter:
    """Reports items to the callbacks that would see an `invoke` of the model at this place.

    Args:
        source: The model.
        config: Callbacks, tags, metadata and the name of the runs.
    """

    def __init__(self, source: BatchSource, config: RunnableConfig | None) -> None:
        self._source = source
        self._config = ensure_config(config)
        self.is_heard = bool(self._manager().handlers)
        """Whether there are callbacks."""

    def _manager(self) -> CallbackManager:
        """Return a manager for one run: tracers write into its metadata."""
        model, config = self._source.chat_model, self._config
        return CallbackManager.configure(
            config.get("callbacks"),
            model.callbacks,
            inheritable_tags=config.get("tags"),
            local_tags=model.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **self._source.metadata},
            local_metadata=model.metadata,
        )

    @cached_property
    def _serialized(self) -> dict[str, Any]:
        serialized: dict[str, Any] = dumpd(self._source.chat_model)
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
            invocation_params=dict(self._source.params),
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
