"""Inputs -> the requests in the folder of a job, and their comparison when a job is resumed."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from langchain_gemini_tools.batch.folder import JobPart, Manifest
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

    from langchain_gemini_tools.batch.folder import Folder
    from langchain_gemini_tools.batch.service import BatchService
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire.request import RenderedRequest


_JSON_SCHEMA, _SCHEMA = "responseJsonSchema", "responseSchema"


@dataclass(frozen=True)
class TracedModel:
    """What callbacks receive about the model of a job."""

    model: BaseChatModel
    params: Mapping[str, Any]
    """Its options, as callbacks of `invoke` receive them."""
    metadata: Mapping[str, Any]
    """Its `ls_*` parameters."""


@dataclass(frozen=True)
class BatchSource:
    """A model with its options: what renders inputs and reads results."""

    template: RenderedRequest
    """A request with the options of the job."""
    render: Callable[[Any], RenderedRequest]
    client: GeminiClient
    retries: RetryPolicy
    traced: TracedModel
    finish: Callable[[AIMessage], Any] = lambda message: message
    """Turns a message into a result, such as a parsed object."""

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.template.invocation.model


def write_inputs(
    folder: Folder, service: BatchService, source: BatchSource, inputs: Iterable[Any] | None
) -> None:
    """Write the requests to the folder, or compare them with those that are there.

    Args:
        folder: The state of the job.
        service: What the requests are sent to, with its limits.
        source: Renders the inputs.
        inputs: An iterable; each item is what `invoke` accepts. None uses the folder as it is.

    Raises:
        InvalidInputError: An input cannot be sent, or differs from the one in the folder.
    """
    if inputs is not None:
        check_inputs(inputs)
    rewrite = schema_rewriter(source.template)
    with folder.lock(creates=inputs is not None):
        manifest = folder.load() if inputs is not None else folder.require()
        service.check_folder(manifest, folder.path)
        if manifest:
            _check_model(folder, manifest, source.model)
        if inputs is None:
            return
        if manifest is None:
            _write(folder, service, source.model, _render(source, inputs, rewrite))
        else:
            _compare(folder, manifest, _render(source, inputs, rewrite))


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


def adopt_job(folder: Folder, service: BatchService, source: BatchSource, name: str) -> None:
    """Use the folder for a job that was created elsewhere.

    Args:
        folder: The state of the job.
        service: The one that has the job.
        source: Reads its results.
        name: The name of the job at the service.
    """
    service.check_name(name)
    with folder.lock(creates=True):
        if (manifest := folder.load()) is None:
            part = JobPart(0, 0, job=name, state="PENDING", is_intended=True, is_foreign=True)
            folder.save(Manifest(uuid.uuid4().hex, source.model, 0, "", parts=(part,)))
        elif name not in [part.job for part in manifest.parts]:
            raise InvalidOptionError(
                f"{folder.path} belongs to other jobs than {name}. Use another path."
            )


def preview_requests(folder: Folder, service: BatchService, count: int) -> list[JsonObject]:
    """Return the first lines that are sent."""
    lines = (
        service.render_line(index, json.loads(body))
        for index, body in _stored(folder, folder.require())
    )
    return list(islice(lines, count))


def _check_model(folder: Folder, manifest: Manifest, model: str) -> None:
    """Reject another model: the requests, which are compared, do not name it."""
    if not manifest.parts[0].is_foreign and manifest.model != model:
        raise InvalidOptionError(
            f"The batch job at {folder.path} uses {manifest.model}, not {model}. "
            "Use another path for another job."
        )


def _render(
    source: BatchSource, inputs: Iterable[Any], rewrite: Callable[[bytes], bytes]
) -> Iterator[tuple[int, bytes]]:
    for index, each in enumerate(inputs):
        try:
            body = source.render(each).encoded
        except Exception as error:
            error.add_note(f"This is input {index} of the batch job. Nothing was sent.")
            raise
        yield index, rewrite(body)


def _write(
    folder: Folder, service: BatchService, model: str, lines: Iterable[tuple[int, bytes]]
) -> None:
    digest, count = hashlib.sha256(), 0

    def seen() -> Iterator[tuple[int, bytes]]:
        nonlocal count
        for index, body in lines:
            service.check_request(index, body)
            digest.update(body)
            count += 1
            yield index, body

    parts = folder.write_requests(seen(), 0, service.limits, is_range=True)
    if not parts:
        raise InvalidOptionError("The batch job has no inputs. Pass at least one.")
    run = uuid.uuid4().hex
    folder.save(
        Manifest(run, model, count, digest.hexdigest(), storage=service.storage, parts=tuple(parts))
    )


def _stored(folder: Folder, manifest: Manifest) -> Iterator[tuple[int, bytes]]:
    for part in manifest.parts:
        if part.first is not None:
            yield from folder.read_requests(part.number)


def _compare(folder: Folder, manifest: Manifest, lines: Iterator[tuple[int, bytes]]) -> None:
    count = 0
    # The stored lines first: `zip` would drop an input that has none.
    for before, line in zip(_stored(folder, manifest), lines, strict=False):
        count += 1
        if line != before:
            raise InvalidOptionError(
                f"Input {line[0]} differs from that of the batch job at {folder.path}: its "
                "messages, the tools or the options have changed. Use another path for another job."
            )
    if count < manifest.count or next(lines, None) is not None:
        fewer_or_more = f"only {count:,}" if count < manifest.count else "more"
        raise InvalidOptionError(
            f"The batch job at {folder.path} has {manifest.count:,} inputs, and {fewer_or_more} "
            "were passed. Use another path for another job."
        )


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
    after = b'"%b":%b' % (_SCHEMA.encode(), encode_json(rendered))

    def rewrite(body: bytes) -> bytes:
        # Text that a user wrote cannot match: quotes inside of strings are escaped.
        if body.count(before) == 1:
            return body.replace(before, after)
        return _rewrite_decoded(body, rendered)

    return rewrite


def _rewrite_decoded(body: bytes, rendered: JsonObject) -> bytes:
    decoded = json.loads(body)
    config = {k: v for k, v in decoded["generationConfig"].items() if k != _JSON_SCHEMA}
    decoded["generationConfig"] = {**config, _SCHEMA: rendered}
    return encode_json(decoded, is_large=True)
