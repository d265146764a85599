"""What happened in a run, as values: messages of any origin -> turns, calls and results.

A turn is one answer of the model together with the results of its calls. How it looks is not
decided here: see `outline.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.ai import add_ai_message_chunks

from langchain_gemini_tools.display.blocks import Block, read_blocks, read_sources
from langchain_gemini_tools.display.cost import Cost, find_cost, sum_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_gemini_tools.display.clock import RunClock, Span

_ROLES = {"human": "you", "system": "system"}


@dataclass
class Result:
    """What a tool answered."""

    blocks: list[Block]
    is_error: bool
    name: str = ""
    call_id: str = ""


@dataclass
class Call:
    """A tool call, and everything that answered it."""

    name: str
    args: Any
    id: str | None
    results: list[Result] = field(default_factory=list)
    invalid: str | None = None
    """Why it is no valid call."""
    span: Span | None = None
    milliseconds: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Turn:
    """One answer of the model, with its calls."""

    number: int
    message: AIMessage
    blocks: list[Block]
    sources: list[Block]
    calls: list[Call]
    cost: Cost
    span: Span | None = None
    milliseconds: float | None = None

    @property
    def model(self) -> str:
        """The model that answered, or nothing."""
        return str(self.message.response_metadata.get("model_name") or "")

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """LangChain's token counts."""
        return self.message.usage_metadata


@dataclass
class Said:
    """A message that is neither the model's nor a tool's."""

    role: str
    blocks: list[Block]


Step: TypeAlias = Said | Turn | Result
"""A `Result` among the steps answers no call that is there."""


@dataclass
class Run:
    """Everything a trace shows."""

    steps: list[Step] = field(default_factory=list)
    structured: Any = None
    has_structured: bool = False
    failure: BaseException | None = None
    stop_reason: str = ""
    records: list[Any] = field(default_factory=list)
    """What a `ToolLoop` noted of each call: status, attempts, seconds."""

    @property
    def turns(self) -> list[Turn]:
        """The model's answers."""
        return [step for step in self.steps if isinstance(step, Turn)]

    @property
    def calls(self) -> list[Call]:
        """All tool calls, in order."""
        return [call for turn in self.turns for call in turn.calls]

    @property
    def cost(self) -> Cost:
        """What all answers cost together."""
        return sum_costs(turn.cost for turn in self.turns)


def read_run(source: Any, clock: RunClock | None = None) -> Run:
    """Read a run from whatever an executor gave back.

    Raises:
        TypeError: There are no messages in it.
    """
    run = Run()
    calls: dict[str | None, Call] = {}  # a result belongs to the nearest call before it
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
                run.steps.append(Said(role, read_blocks(message)))
    if clock:
        _add_times(run, clock)
    _add_records(run)
    return run


def _find_messages(source: Any, run: Run) -> list[BaseMessage]:
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
            f"trace() found no messages in a {type(source).__name__}. It takes messages, what an "
            "agent or a ToolLoop returned, or the chunks of a stream."
        )
    run.stop_reason = str(getattr(source, "stop_reason", "") or "")
    run.records = list(getattr(source, "calls", None) or [])
    return convert_to_messages(list(messages))


def _without_metadata(item: Any) -> Any:
    """The message in what `stream_mode="messages"` gives, with and without `subgraphs`."""
    match item:
        case (BaseMessage() as message, dict()) | (tuple(), (BaseMessage() as message, dict())):
            return message
    return item


def _join_chunks(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The chunks of each answer as one message, where its first one stands.

    Streams that ran at once are told apart by their ids; chunks without one are neighbours.
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


def _read_turn(message: AIMessage, number: int) -> Turn:
    calls = [
        Call(str(call["name"]), call["args"], call.get("id")) for call in message.tool_calls
    ] + [
        Call(
            str(call.get("name") or "unnamed"),
            call.get("args"),
            call.get("id"),
            invalid=str(call.get("error") or "the arguments are no JSON object"),
        )
        for call in message.invalid_tool_calls
    ]
    metadata = message.response_metadata
    blocks, sources = read_blocks(message), read_sources(message)
    cost = find_cost(
        message.usage_metadata,
        str(metadata.get("model_name") or ""),
        metadata.get("model_provider"),
        uses_server_tools=any(block.is_server_tool for block in [*blocks, *sources]),
    )
    return Turn(number, message, blocks, sources, calls, cost)


def _read_result(message: ToolMessage) -> Result:
    return Result(
        blocks=read_blocks(message),
        is_error=message.status == "error",
        name=message.name or "",
        call_id=message.tool_call_id,
    )


def _add_records(run: Run) -> None:
    """Add what a loop noted; its times include retries and the pauses between them."""
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


def _add_times(run: Run, clock: RunClock) -> None:
    for turn in run.turns:
        turn.span = clock.answer(turn.message.id)
        turn.milliseconds = turn.span.milliseconds if turn.span else None
    # An id may repeat in later turns, and a clock may have seen runs before this one: the last call
    # with an id belongs to the last span.
    known = {call.id: clock.calls(call.id) for call in run.calls}
    for call in reversed(run.calls):
        if spans := known[call.id]:
            call.span = spans.pop()
            call.milliseconds = call.span.milliseconds
