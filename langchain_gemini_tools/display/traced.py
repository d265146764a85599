"""A run as values: messages of any origin -> turns, tool calls and results, with times and costs.

A turn is one message of the model with its tool calls and their results. `viewer.py` decides how
they are shown. Costs come from the tables of `genai-prices`; nothing is downloaded. An unknown
model has no price, which is different from a price of zero.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.ai import add_ai_message_chunks

from langchain_gemini_tools.display.callbacks import RunClock, Span
from langchain_gemini_tools.display.content import TracedBlock, read_blocks, read_sources
from langchain_gemini_tools.facts.blocks import NOT_RELEASED, UNUSABLE

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.messages import InvalidToolCall

_ROLES = {"human": "you", "system": "system"}

_PROVIDERS = {
    "google_genai": "google",
    "google_vertexai": "google",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "mistralai": "mistral",
    "xai": "x-ai",
    "azure_ai": "azure",
    "azure_openai": "azure",
}
"""LangChain's `model_provider` -> the provider's id in the tables, where they differ.

The price depends on the provider: a local model, in Ollama, has none.
"""

_ACCEPTED = (
    "Pass messages, the result of an agent or a ToolLoop, the chunks of a stream of messages "
    '(stream_mode="messages"), or the output of with_structured_output(..., include_raw=True).'
)

_STANDARD_TIERS = (None, "standard", "default", "auto")


@dataclass(frozen=True)
class Cost:
    """US dollars, or None without a price; `is_partial` if the real cost is higher."""

    dollars: Decimal | None = None
    is_partial: bool = False

    def __str__(self) -> str:
        if self.dollars is None:
            return "n/a"
        return f"{'≥ ' if self.is_partial else ''}{_render_dollars(self.dollars)}"


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
                run.steps.append(TracedMessage(role, read_blocks(message)))
    _add_times(run, clock, only_measured_turns=not is_clock_of_run)
    _add_records(run)
    return run


def _find_messages(source: Any, run: TracedRun) -> list[BaseMessage]:
    match _without_metadata(source):
        case BaseMessage() as message:
            return [message]
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
            return _to_messages(messages if isinstance(messages, list) else [messages])
        case object(values={"messages": _} as state) | object(value={"messages": _} as state):
            return _find_messages(state, run)  # LangGraph's `StateSnapshot` and `GraphOutput`
        case list() | tuple():
            return _to_messages(source)
    messages = getattr(source, "messages", None)
    if not isinstance(messages, list | tuple):
        raise TypeError(f"trace() found no messages in this {type(source).__name__}. {_ACCEPTED}")
    run.stop_reason = str(getattr(source, "stop_reason", "") or "")
    run.records = list(getattr(source, "calls", None) or [])
    return _to_messages(messages)


def _to_messages(items: Sequence[object]) -> list[BaseMessage]:
    """Return the messages, which may be in any form that LangChain accepts.

    Raises:
        TypeError: An item is not a message.
    """
    messages: list[BaseMessage] = []
    for position, item in enumerate(items):
        try:
            messages += convert_to_messages([_without_metadata(item)])
        except (ValueError, NotImplementedError) as error:
            raise TypeError(
                f"trace() found no message in item {position}, of type {type(item).__name__}. "
                f"{_ACCEPTED}"
            ) from error
    return messages


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
    groups: dict[object, list[Any]] = {}
    row = 0  # counts the rows of adjacent chunks without ids
    for message in messages:
        is_chunk = isinstance(message, AIMessageChunk)
        if not is_chunk or message.id:
            row += 1
        key = message.id if is_chunk and message.id else (is_chunk, row)
        groups.setdefault(key, []).append(message)
    return [
        add_ai_message_chunks(first, *others) if isinstance(first, AIMessageChunk) else first
        for first, *others in groups.values()
    ]


def _read_turn(message: AIMessage, number: int) -> TracedTurn:
    calls = [
        TracedToolCall(str(call["name"]), call["args"], call.get("id"))
        for call in message.tool_calls
    ] + [
        TracedToolCall(
            str(call.get("name") or "unnamed"),
            _written_arguments(call),
            call.get("id"),
            invalid=str(call.get("error") or "the arguments are not a JSON object"),
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
        service_tier=metadata.get("service_tier"),
    )
    return TracedTurn(number, message, blocks, sources, calls, cost)


def _written_arguments(call: InvalidToolCall) -> object:
    """Return the arguments of an invalid call as the model wrote them, without our marks."""
    args = call.get("args")
    if not isinstance(args, str):
        return args
    written = args.removeprefix(NOT_RELEASED).removeprefix(UNUSABLE)
    opening = f"{call.get('name')}("
    is_whole = written.startswith(opening) and written.endswith(")")
    return written[len(opening) : -1] if is_whole else written


def _read_result(message: ToolMessage) -> TracedToolResult:
    return TracedToolResult(
        blocks=read_blocks(message),
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
    """Add what the clock measured.

    Ids of tool calls may repeat, in later turns and in other runs. So a call has the last span
    between its turn and the next one. Turns that ran in parallel overlap; then it has the last span
    since its turn. A turn that was not measured may be from another run than the clock.
    """
    spans = {call.id: clock.tool_call_spans(call.id) for call in run.calls}
    since, until = -math.inf, math.inf
    for turn in reversed(run.turns):
        turn.span = clock.message_span(turn.message.id)
        if turn.span:
            turn.milliseconds, since = turn.span.milliseconds, turn.span.start
        elif only_measured_turns:
            continue
        for call in reversed(turn.calls):
            known = [span for span in spans[call.id] if span.start >= since]
            if found := [span for span in known if span.start <= until] or known:
                call.span = found[-1]
                call.milliseconds = call.span.milliseconds
                spans[call.id].remove(call.span)
        since, until = -math.inf, turn.span.start if turn.span else until


# Costs


def find_cost(
    usage: Mapping[str, Any] | None,
    model: str,
    provider: str | None,
    *,
    uses_server_tools: bool,
    service_tier: str | None = None,
) -> Cost:
    """Return the price of one response.

    Args:
        usage: LangChain's `usage_metadata`.
        model: The model's name, with or without a path before it.
        provider: LangChain's `model_provider`.
        uses_server_tools: Whether the provider ran tools. Searches and the like are billed
            separately, so the price of the tokens is a lower bound.
        service_tier: The tier that was used: `flex`, `priority` and so on. If the
            tables have no price for a tier, the price of the standard tier is used: half of it for
            Gemini's `flex`. For other tiers it is a lower bound, because they cost more.
    """
    if usage and usage.get("total_cost") == 0:  # langchain-core marks a cache hit this way
        return Cost(Decimal(0))
    if not isinstance(service_tier, str):
        service_tier = None
    counts = _counts(usage or {})
    price = _find_price(counts, model, str(provider or ""), service_tier)
    if price is None:
        return Cost()
    dollars = Decimal(price.total_price)
    # How many of the cached tokens are audio, which is cheaper to cache, is not known.
    is_partial = uses_server_tools or "cache_audio_read_tokens" in counts
    if service_tier not in _STANDARD_TIERS and not _has_price(price.model, service_tier):
        if service_tier == "flex" and price.provider.id == "google":
            dollars /= 2
        else:
            is_partial = True
    return Cost(dollars, is_partial=is_partial)


def _find_price(
    counts: Mapping[str, int], model: str, provider: str, service_tier: str | None
) -> PriceCalculation | None:
    """Return the price, or None if the tables have none or are not installed.

    Some providers list a model with its path (`openai/gpt-oss-120b`), others without.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    if not model or not counts:
        return None
    for name in dict.fromkeys((model, model.rsplit("/", 1)[-1])):
        with warnings.catch_warnings(), suppress(LookupError, ValueError, TypeError):
            warnings.simplefilter("ignore")  # about usage details without a price
            return calc_price(
                Usage(**counts),
                name,
                provider_id=_PROVIDERS.get(provider, provider) or None,
                price_context={"service_tier": service_tier} if service_tier else None,
            )
    return None


def _has_price(model: Any, service_tier: str | None) -> bool:
    """Return whether the tables have a price for this tier."""
    variants = getattr(model, "price_variants", None) or ()
    return any(variant.when.get("service_tier") == service_tier for variant in variants)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """Return the sum of the known costs, marked as partial if one is unknown."""
    listed = list(costs)
    known = [cost.dollars for cost in listed if cost.dollars is not None]
    if not known:
        return Cost()
    is_partial = len(known) < len(listed) or any(cost.is_partial for cost in listed)
    return Cost(sum(known, Decimal(0)), is_partial=is_partial)


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    incoming = _integers(usage.get("input_token_details"))
    outgoing = _integers(usage.get("output_token_details"))
    cached, audio = incoming.get("cache_read", 0), incoming.get("audio", 0)
    # Anthropic's cache writes may also be listed by lifetime. `cache_creation` is then zero, or in
    # older versions of langchain-anthropic their sum.
    short, long = (incoming.get(f"ephemeral_{time}_input_tokens", 0) for time in ("5m", "1h"))
    counts = {
        **_integers({key: usage.get(key) for key in ("input_tokens", "output_tokens")}),
        "cache_read_tokens": cached,
        "cache_write_tokens": max(incoming.get("cache_creation", 0), short + long),
        "cache_write_1h_tokens": long,
        "input_audio_tokens": audio,
        "cache_audio_read_tokens": min(cached, audio),  # the most that it can be
        "output_audio_tokens": outgoing.get("audio", 0),
        "output_image_tokens": outgoing.get("image", 0),
    }
    return {key: count for key, count in counts.items() if count}


def _integers(counts: Mapping[str, Any] | None) -> dict[str, int]:
    return {key: count for key, count in (counts or {}).items() if isinstance(count, int)}


def _render_dollars(dollars: Decimal) -> str:
    if dollars == 0:
        return "free"
    if dollars >= 1:
        return f"${dollars:,.2f}"
    if dollars >= Decimal("0.01"):
        return f"${dollars:.4f}"
    return f"${dollars:.2g}" if dollars >= Decimal("0.000001") else "< $0.000001"
