"""A run as values: messages of any origin -> turns, tool calls, results and content blocks.

A turn is one message of the model with its tool calls and their results. `viewer.py` decides how
they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.ai import add_ai_message_chunks

from langchain_gemini_tools.display.callbacks import RunClock, Span
from langchain_gemini_tools.display.cost import Cost, find_cost, sum_costs
from langchain_gemini_tools.display.safe_text import render_arguments, render_value
from langchain_gemini_tools.facts.blocks import (
    CALLS,
    GEMINI_PART,
    MEDIA,
    REFUSAL,
    TEXTS,
    THOUGHTS,
    blocks_of,
    is_derived_refusal,
)

_ROLES = {"human": "you", "system": "system"}
_SHOWN_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_MAX_IMAGE_CHARS = 400_000
"""Larger images are described, so that a trace stays small."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SIGNATURES = {"thoughtSignature", "thought_signature", "signature"}


@dataclass(frozen=True)
class TracedBlock:
    """One content block: `kind` is its label, `text` what is shown of it."""

    kind: str
    text: str
    is_server_tool: bool = False
    image: str = ""
    """A small image as a data URL, for output that can show it."""


@dataclass
class TracedToolResult:
    """The result of a tool call."""

    blocks: list[TracedBlock]
    is_error: bool
    name: str = ""
    call_id: str = ""


@dataclass
class TracedToolCall:
    """A tool call and its results."""

    name: str
    args: object
    id: str | None
    results: list[TracedToolResult] = field(default_factory=list)
    invalid: str | None = None
    """Why the tool call is not valid."""
    span: Span | None = None
    milliseconds: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class TracedTurn:
    """One message of the model with its tool calls."""

    number: int
    message: AIMessage
    blocks: list[TracedBlock]
    sources: list[TracedBlock]
    calls: list[TracedToolCall]
    cost: Cost
    span: Span | None = None
    milliseconds: float | None = None

    @property
    def model(self) -> str:
        """The name of the model; empty if it is not known."""
        return str(self.message.response_metadata.get("model_name") or "")

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """LangChain's usage metadata."""
        return self.message.usage_metadata


@dataclass
class TracedMessage:
    """A message of the user, the system, or another role."""

    role: str
    blocks: list[TracedBlock]


TracedStep: TypeAlias = TracedMessage | TracedTurn | TracedToolResult
"""A tool result is a step if no tool call has its id."""


@dataclass
class TracedRun:
    """Everything that a trace shows."""

    steps: list[TracedStep] = field(default_factory=list)
    structured: Any = None
    has_structured: bool = False
    failure: BaseException | None = None
    stop_reason: str = ""
    records: list[Any] = field(default_factory=list)
    """The records of a `ToolLoop` for each tool call: status, attempts, seconds."""

    @property
    def turns(self) -> list[TracedTurn]:
        """The turns, in order."""
        return [step for step in self.steps if isinstance(step, TracedTurn)]

    @property
    def calls(self) -> list[TracedToolCall]:
        """All tool calls, in order."""
        return [call for turn in self.turns for call in turn.calls]

    @property
    def cost(self) -> Cost:
        """The cost of all turns together."""
        return sum_costs(turn.cost for turn in self.turns)


def read_run(source: object, clock: RunClock, *, is_clock_of_run: bool) -> TracedRun:
    """Read a run from the output of a model, an agent or a loop.

    Args:
        source: The output.
        clock: What was measured.
        is_clock_of_run: Whether the clock measured this run, and not any run of the process.

    Raises:
        TypeError: The output has no messages.
    """
    run = TracedRun()
    calls: dict[str | None, TracedToolCall] = {}  # a result belongs to the nearest call before it
    turn_count = 0
    for message in _join_chunks(_find_messages(source, run)):
        match message:
            case AIMessage():
                turn_count += 1
                turn = _read_turn(message, turn_count)
                calls |= {call.id: call for call in turn.calls}
                run.steps.append(turn)
            case ToolMessage() if message.tool_call_id in calls:
                calls[message.tool_call_id].results.append(_read_result(message))
            case ToolMessage():
                run.steps.append(_read_result(message))
            case _:
                role = _ROLES.get(message.type, message.type)
                run.steps.append(TracedMessage(role, _read_blocks(message)))
    _add_times(run, clock, only_measured_turns=not is_clock_of_run)
    _add_records(run)
    return run


def _find_messages(source: Any, run: TracedRun) -> list[BaseMessage]:
    match source:
        case BaseMessage():
            return [source]
        case BaseException():
            run.failure = source
            result, partial = (
                getattr(source, name, None) for name in ("tool_loop_result", "partial")
            )
            before = [] if result is None else _find_messages(result, run)
            return [*before, *([partial] if isinstance(partial, BaseMessage) else [])]
        case {"raw": BaseMessage() as raw, "parsed": parsed}:
            run.structured, run.has_structured = parsed, parsed is not None
            error = source.get("parsing_error")
            run.failure = error if isinstance(error, BaseException) else None
            return [raw]
        case {"messages": messages}:
            if "structured_response" in source:
                run.structured, run.has_structured = source["structured_response"], True
            return convert_to_messages(messages if isinstance(messages, list) else [messages])
        case list() | tuple():
            return convert_to_messages([_without_metadata(item) for item in source])
    messages = getattr(source, "messages", None)
    if not isinstance(messages, list | tuple):
        raise TypeError(
            f"trace() found no messages in a {type(source).__name__}. Pass messages, the result of "
            "an agent or a ToolLoop, or the chunks of a stream."
        )
    run.stop_reason = str(getattr(source, "stop_reason", "") or "")
    run.records = list(getattr(source, "calls", None) or [])
    return convert_to_messages(list(messages))


def _without_metadata(item: object) -> Any:
    """Return the message of an item of `stream_mode="messages"`, with or without subgraphs."""
    match item:
        case (BaseMessage() as message, dict()) | (tuple(), (BaseMessage() as message, dict())):
            return message
    return item


def _join_chunks(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Join the chunks of each message, at the place of its first chunk.

    Ids distinguish parallel streams; chunks without an id are joined if they are adjacent.
    """
    groups: list[list[BaseMessage]] = []
    known: dict[str, list[BaseMessage]] = {}
    before: BaseMessage | None = None
    for message in messages:
        is_chunk = isinstance(message, AIMessageChunk)
        if is_chunk and message.id in known:
            known[message.id].append(message)
        elif is_chunk and not message.id and isinstance(before, AIMessageChunk) and not before.id:
            groups[-1].append(message)
        else:
            groups.append([message])
            if is_chunk and message.id:
                known[message.id] = groups[-1]
        before = message
    return [_join(group) for group in groups]


def _join(group: Sequence[BaseMessage]) -> BaseMessage:
    first, *others = group
    chunks = [chunk for chunk in others if isinstance(chunk, AIMessageChunk)]
    return add_ai_message_chunks(first, *chunks) if isinstance(first, AIMessageChunk) else first


def _read_turn(message: AIMessage, number: int) -> TracedTurn:
    calls = [
        TracedToolCall(str(call["name"]), call["args"], call.get("id"))
        for call in message.tool_calls
    ] + [
        TracedToolCall(
            str(call.get("name") or "unnamed"),
            call.get("args"),
            call.get("id"),
            invalid=str(call.get("error") or "the arguments are not a JSON object"),
        )
        for call in message.invalid_tool_calls
    ]
    metadata = message.response_metadata
    blocks, sources = _read_blocks(message), _read_sources(message)
    cost = find_cost(
        message.usage_metadata,
        str(metadata.get("model_name") or ""),
        metadata.get("model_provider"),
        uses_server_tools=any(block.is_server_tool for block in [*blocks, *sources]),
        service_tier=metadata.get("service_tier"),
    )
    return TracedTurn(number, message, blocks, sources, calls, cost)


def _read_result(message: ToolMessage) -> TracedToolResult:
    return TracedToolResult(
        blocks=_read_blocks(message),
        is_error=message.status == "error",
        name=message.name or "",
        call_id=message.tool_call_id,
    )


def _add_records(run: TracedRun) -> None:
    """Add the records of a loop; their times include retries and the pauses between them."""
    records: dict[str | None, list[Any]] = {}
    for record in run.records:
        records.setdefault(record.call.get("id"), []).append(record)
    for call in reversed(run.calls):
        if not (known := records.get(call.id)):
            continue
        record = known.pop()
        if record.attempts:
            call.milliseconds = record.duration * 1000
        if record.attempts > 1:
            call.notes.append(f"{record.attempts} attempts")
        if record.status not in {"succeeded", "failed"}:
            call.notes.append(str(record.status).replace("_", " "))


def _add_times(run: TracedRun, clock: RunClock, *, only_measured_turns: bool) -> None:
    for turn in run.turns:
        turn.span = clock.message_span(turn.message.id)
        turn.milliseconds = turn.span.milliseconds if turn.span else None
    # Ids may repeat in later turns, and a clock may have measured earlier runs: the last call with
    # an id belongs to the last span. Other runs of the process may have the same ids of calls, but
    # not of messages.
    turns = [turn for turn in run.turns if turn.span or not only_measured_turns]
    calls = [call for turn in turns for call in turn.calls]
    known = {call.id: clock.tool_call_spans(call.id) for call in calls}
    for call in reversed(calls):
        if spans := known[call.id]:
            call.span = spans.pop()
            call.milliseconds = call.span.milliseconds


def _read_blocks(message: BaseMessage) -> list[TracedBlock]:
    """Return the blocks of a message in order, without its tool calls.

    LangChain's `content_blocks` reads the content of every provider. Unknown blocks come back as
    `non_standard` and are shown with their type.
    """
    try:
        blocks: list[Any] = list(message.content_blocks)
    except Exception:  # noqa: BLE001 - show what can be shown
        blocks = blocks_of(message.content)
    return [read for block in blocks for read in _read_block(block)]


def _read_sources(message: BaseMessage) -> list[TracedBlock]:
    """Return the sources of a response: searches, pages and citations."""
    metadata = message.response_metadata
    queries = _listed(metadata.get("grounding_metadata"), "web_search_queries")
    found = [TracedBlock("google_search", str(query), is_server_tool=True) for query in queries]
    for page in _listed(metadata.get("url_context_metadata"), "url_metadata"):
        details = [_field(page, key) for key in ("retrieved_url", "url_retrieval_status")]
        found.append(
            TracedBlock("url_context", " ".join(filter(None, details)), is_server_tool=True)
        )
    return found + [TracedBlock("source", text) for text in dict.fromkeys(_citations(message))]


def _read_block(block: Any) -> Iterator[TracedBlock]:
    match block:
        case str():
            yield from _text("text", block)
        case {"type": str(kind), "text": str(text)} if kind in TEXTS:
            yield from _text("text", text)
        case {"type": str(kind)} if kind in THOUGHTS:
            yield from _text("thinking", str(block.get("reasoning") or block.get(kind) or ""))
        case {"type": str(kind)} if kind in CALLS or is_derived_refusal(block):
            return  # shown as calls, and as the finish reason
        case {"type": str(kind), "refusal": str(text)} if kind == REFUSAL:
            yield from _text(kind, text)
        case {"type": str(kind)} if kind in MEDIA:
            yield TracedBlock(kind, _describe_media(block), image=_image_url(block))
        case {"type": "server_tool_call" | "server_tool_call_chunk", **rest}:
            name = str(rest.get("name") or "server tool")
            yield TracedBlock(name, _describe_server_args(rest.get("args")), is_server_tool=True)
        case {"type": "server_tool_result", **rest}:
            status = "" if rest.get("status") == "success" else f"{rest.get('status')}: "
            output = rest.get("output")
            text = output if isinstance(output, str) else render_value(output)
            yield TracedBlock("server result", status + text.strip("\n"), is_server_tool=True)
        case {"type": "non_standard", "value": {"type": str(kind)} as value} if kind == REFUSAL:
            yield from _read_block(value)
        case {"type": "non_standard", "value": value}:
            yield _read_unknown(value)
        case _:
            yield _read_unknown(block)


def _read_unknown(value: object) -> TracedBlock:
    match value:
        case {"type": str(kind), "part": dict(part)} if kind == GEMINI_PART:
            return _read_part(part)
        case {"type": str(kind), **rest}:
            shown = {key: item for key, item in rest.items() if key not in _SIGNATURES | {"index"}}
            return TracedBlock(kind, render_value(shown))
    return TracedBlock("block", render_value(value))


def _read_part(part: Mapping[str, object]) -> TracedBlock:
    """Read a part of Gemini's without a LangChain block, mostly of tools that the API runs."""
    match part:
        case {"toolCall": {"toolType": str(name), **call}} | {
            "functionCall": {"name": str(name), **call}
        }:
            return TracedBlock(name, render_arguments(call.get("args") or {}), is_server_tool=True)
        case {"toolResponse": dict(response)} | {"functionResponse": dict(response)}:
            return TracedBlock(
                "server result", render_value(response.get("response")), is_server_tool=True
            )
        case {"interactionStep": dict(step)}:
            return _read_step(step)
    named = [key for key in part if key not in _SIGNATURES]
    name = str(named[0]) if named else "part"
    return TracedBlock(name, render_value(part.get(name)), is_server_tool=True)


def _read_step(step: Mapping[str, Any]) -> TracedBlock:
    """Read a step of the Interactions API: the call or the result of a tool that the API runs."""
    kind = str(step.get("type") or "step")
    match step:
        case {"arguments": dict(arguments)}:
            name = str(step.get("name") or kind.removesuffix("_call"))
            return TracedBlock(name, render_arguments(arguments), is_server_tool=True)
        case {"result": result}:
            text = result if isinstance(result, str) else render_value(result)
            status = "error: " if step.get("is_error") else ""
            return TracedBlock("server result", status + text.strip("\n"), is_server_tool=True)
    rest = {key: value for key, value in step.items() if key not in _SIGNATURES | {"type"}}
    return TracedBlock(kind, render_value(rest), is_server_tool=True)


def _text(kind: str, text: str) -> Iterator[TracedBlock]:
    if text.strip():
        yield TracedBlock(kind, text.strip("\n"))


def _describe_server_args(args: object) -> str:
    match args:
        case {"code": str(code)}:
            return code.strip("\n")
        case str():
            return args
    return render_value(args)


def _describe_media(block: Mapping[str, object]) -> str:
    """Return type and size, or the address; never the data."""
    kind = str(block.get("mime_type") or block.get("type"))
    match block:
        case {"base64": str(data)}:
            return f"{kind}, {_render_size(len(data.rstrip('=')) * 3 // 4)}"
        case {"url": str(url)}:
            # The query is often a signature that grants access to the file.
            place = url.split(",", 1)[0] if url.startswith("data:") else url.split("?", 1)[0]
            return f"{kind} at {place}"
        case {"file_id": str(file_id)}:
            return f"{kind}, file {file_id}"
        case {"text": str(text)}:
            return f"{kind}, {len(text):,} characters"
    return kind


def _image_url(block: Mapping[str, object]) -> str:
    match block:
        case {"base64": str(data), "mime_type": str(kind)} if (
            kind in _SHOWN_IMAGES and len(data) <= _MAX_IMAGE_CHARS and _BASE64.fullmatch(data)
        ):
            return f"data:{kind};base64,{data}"
    return ""


def _render_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _citations(message: BaseMessage) -> Iterator[str]:
    try:
        blocks: list[Any] = list(message.content_blocks)
    except Exception:  # noqa: BLE001 - see `_read_blocks`
        return
    for block in blocks:
        for note in _listed(block, "annotations"):
            if named := [text for key in ("title", "url") if (text := _field(note, key))]:
                yield " – ".join(named)
    metadata = message.response_metadata.get("citation_metadata")
    for source in [*_listed(metadata, "citationSources"), *_listed(metadata, "citations")]:
        if place := _field(source, "uri") or _field(source, "title"):
            yield place


def _listed(value: object, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _field(value: object, key: str) -> str:
    return str(value.get(key) or "") if isinstance(value, dict) else ""
