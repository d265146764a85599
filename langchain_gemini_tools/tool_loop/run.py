"""The settings of a run, its state, and its next step: invoke the model, run tool calls, or stop.

`Run` only keeps state. `ToolLoop` carries out the steps, in a sync and in an async version, and
reports the outcome to it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from uuid import uuid4

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.messages.ai import add_usage
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.prompt_values import PromptValue

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.blocks import TEXTS, THOUGHTS, blocks_of, type_of
from langchain_gemini_tools.facts.finish_reasons import finish_of
from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.events import IncompleteRunError, ToolLoopResult
from langchain_gemini_tools.tool_loop.toolbox import is_repeatable
from langchain_gemini_tools.tool_loop.turn import TurnCalls, as_tool_call

if TYPE_CHECKING:
    from langchain_core.messages import InvalidToolCall, ToolCall
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.events import Approver, StopReason, ToolCallRecord
    from langchain_gemini_tools.tool_loop.toolbox import Toolbox

_AnyCall = TypeVar("_AnyCall", "ToolCall", "InvalidToolCall")

LoopInput = LanguageModelInput | BaseMessage | dict[str, Any]
"""What a chat model accepts, a message, or a dict with `messages`."""

OnLimit = Literal["raise", "return", "answer"]

DEFAULT_TIMEOUT = 30.0


def exponential_backoff(attempt: int) -> float:
    """Return 0.5 s after the first failure, doubled each time up to 8 s, with jitter."""
    return min(8.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass(frozen=True)
class Settings:
    """The options of a `ToolLoop` and its tools. They are documented at `ToolLoop`."""

    box: Toolbox
    max_turns: int
    tool_timeout: float | Mapping[str, float | None] | None
    max_concurrency: int
    on_limit: OnLimit
    forced_first: bool | str
    approve: Mapping[str, Approver]
    repeatable: Collection[str]
    max_retries: int
    backoff: Callable[[int], float]
    max_output_chars: int | None
    cache: bool | Collection[str]
    inject: Mapping[str, object] = field(repr=False)  # may contain secrets
    hold_back: int | None

    def __post_init__(self) -> None:
        """Check every option."""
        self._check_integer("max_turns", at_least=1)
        self._check_integer("max_concurrency", at_least=1)
        self._check_integer("max_retries")
        for name in ("max_output_chars", "hold_back"):
            if getattr(self, name) is not None:
                self._check_integer(name, "must be an integer or None")
        known = ("raise", "return", "answer")
        self._check("on_limit", self.on_limit in known, f"must be one of {', '.join(known)}")
        self._check("backoff", callable(self.backoff), "must be a function")
        self._check_inject()
        self._check_timeouts()
        self._check_approve()
        self._check_names("repeatable", self.repeatable)
        if not isinstance(self.cache, bool):
            is_names = isinstance(self.cache, Collection)
            self._check("cache", is_names, "must be True, False or tool names")
            self._check_names("cache", self.cache)
        self._check_forced_first()

    @property
    def first_choice(self) -> str | None:
        """The `tool_choice` of the first turn; None leaves it to the model."""
        if isinstance(self.forced_first, str):
            return self.forced_first
        return "any" if self.forced_first else None

    def timeout_of(self, name: str) -> float | None:
        """Return how many seconds an attempt of this tool may take."""
        if isinstance(self.tool_timeout, Mapping):
            return self.tool_timeout.get(name, DEFAULT_TIMEOUT)
        return self.tool_timeout

    def retries_of(self, tool: BaseTool) -> int:
        """Return how often a failed call of this tool is retried."""
        return self.max_retries if tool.name in self.repeatable or is_repeatable(tool) else 0

    def is_cached(self, name: str) -> bool:
        """Return whether results of this tool are reused within a run."""
        return self.cache if isinstance(self.cache, bool) else name in self.cache

    def _check_inject(self) -> None:
        if not isinstance(self.inject, Mapping):  # the value itself may be secret
            kind = type(self.inject).__name__
            raise InvalidOptionError(
                f"inject must be a dict of argument names to values, not {kind}."
            )
        hidden = frozenset[str]().union(*self.box.hidden.values())
        if unknown := [name for name in self.inject if name not in hidden]:
            raise InvalidOptionError(
                f"inject has a value for {', '.join(map(repr, unknown))}, which no tool hides from "
                "the model. Annotate the argument with `Annotated[..., InjectedToolArg]`, or "
                "remove the value."
            )

    def _check_timeouts(self) -> None:
        timeouts = self.tool_timeout
        each = timeouts.values() if isinstance(timeouts, Mapping) else [timeouts]
        numbers = [seconds for seconds in each if seconds is not None]
        self._check(
            "tool_timeout",
            all(isinstance(seconds, Real) and not isinstance(seconds, bool) for seconds in numbers),
            "must be seconds, None for no limit, or a dict of tool names to these",
        )
        is_positive = all(seconds > 0 for seconds in numbers)
        self._check("tool_timeout", is_positive, "must be positive, or None for no limit")
        if isinstance(timeouts, Mapping):
            self._check_names("tool_timeout", timeouts)

    def _check_approve(self) -> None:
        hooks = self.approve
        is_valid = isinstance(hooks, Mapping) and all(map(callable, hooks.values()))
        self._check("approve", is_valid, "must be a dict of tool names to functions")
        self._check_names("approve", hooks)

    def _check_forced_first(self) -> None:
        is_valid = isinstance(self.forced_first, bool | str)
        self._check("forced_first", is_valid, "must be True, False or the name of a tool")
        if isinstance(self.forced_first, str):
            self._check_names("forced_first", [self.forced_first])
        if self.forced_first and not self.box.declared:
            raise InvalidOptionError("forced_first needs at least one tool. Pass `tools`.")

    def _check(self, name: str, is_valid: bool, rule: str) -> None:  # noqa: FBT001
        if not is_valid:
            raise InvalidOptionError(f"{name}={getattr(self, name)!r} is not valid: it {rule}.")

    def _check_integer(
        self, name: str, rule: str = "must be an integer", at_least: int = 0
    ) -> None:
        value = getattr(self, name)
        self._check(name, isinstance(value, Integral) and not isinstance(value, bool), rule)
        limit = f"must be at least {at_least}" if at_least else "must not be negative"
        self._check(name, value >= at_least, limit)

    def _check_names(self, option: str, names: Collection[str]) -> None:
        if isinstance(names, str) or not isinstance(names, Collection):
            raise InvalidOptionError(
                f"{option}={names!r} is not valid: pass a set or a list of tool names."
            )
        if unknown := [name for name in names if name not in self.box.tools]:
            raise InvalidOptionError(
                f"{option} names an unknown tool: {', '.join(map(repr, unknown))}. "
                f"Tools: {self.box.names()}."
            )


def parse_input(given: LoopInput) -> list[BaseMessage]:
    """Return the messages of any input that a chat model or a graph accepts.

    Raises:
        InvalidOptionError: The input has no messages.
    """
    found: Any = given
    if isinstance(given, PromptValue):
        found = given.to_messages()
    elif isinstance(given, dict) and "messages" in given:
        found = given["messages"]
    elif isinstance(given, dict) and "role" not in given and "type" not in given:
        raise InvalidOptionError(
            f"The input has no 'messages' key, only {sorted(given)}. Pass text, messages, or "
            "{'messages': [...]}."
        )
    messages = convert_to_messages(found if isinstance(found, list | tuple) else [found])
    if not messages:
        raise InvalidOptionError("The input has no messages. Pass at least one.")
    return messages


class Run:
    """One run: its messages so far, the tool calls of the current turn, and why it stopped."""

    def __init__(
        self, settings: Settings, messages: Sequence[BaseMessage], clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.turns = 0
        self.calls: TurnCalls | None = None
        self.stop_reason: StopReason | None = None
        self.cache: dict[str, ToolMessage] = {}
        self._given = list(messages)
        self._new: list[BaseMessage] = []
        self._records: list[ToolCallRecord] = []
        self._usage: UsageMetadata | None = None
        self._events: list[events.LoopEvent] = []
        self._since = clock()
        self._turn_began = self._since
        self._is_final_turn = False
        self._left_open: list[ToolCall] = []
        self._resume_calls()

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages so far."""
        return [*self._given, *self._new]

    def event(self, kind: type[events.LoopEvent], **fields: Any) -> events.LoopEvent:
        """Return an event with the current time and turn."""
        return kind(at=self.clock() - self._since, turn=self.turns, **fields)

    def emit(self, *new: events.LoopEvent) -> None:
        """Add events that the caller gets next."""
        self._events += new

    def take_events(self) -> list[events.LoopEvent]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken

    def start_turn(self) -> None:
        """Begin a turn in which the model is invoked."""
        self.turns += 1
        self._turn_began = self.clock()
        self.emit(self.event(events.TurnStarted))

    def tool_choice(self) -> str | None:
        """Return the `tool_choice` of this turn; None leaves it to the model."""
        if self._is_final_turn:
            return "none"
        is_first = self.turns <= 1 and not isinstance(self.messages[-1], ToolMessage)
        return self.settings.first_choice if is_first else None

    def add_message(self, received: BaseMessage) -> None:
        """Add the model's message and decide the next step."""
        message = _with_call_ids(received)
        self._new.append(message)
        if message.usage_metadata:
            counts = cast("UsageMetadata", _integers(message.usage_metadata))
            self._usage = add_usage(self._usage, counts)
        seconds = self.clock() - self._turn_began
        self.emit(self.event(events.TurnFinished, message=message, duration=seconds))
        if not message.tool_calls and not message.invalid_tool_calls:
            self.stop_reason = _reason_to_stop(message)
            if self._is_final_turn:
                is_answered = self.stop_reason == "answered"
                self.stop_reason = "answered_at_limit" if is_answered else "turn_limit"
            return
        is_direct = all(map(self._returns_directly, message.tool_calls))
        needs_turn = not is_direct or message.invalid_tool_calls
        if self._is_final_turn or (needs_turn and self.turns >= self.settings.max_turns):
            self._skip_calls(message)
            return
        self.calls = TurnCalls(
            self, message.tool_calls, message.invalid_tool_calls, _why_not_run(message)
        )

    def finish_calls(self) -> None:
        """Add the results of this turn's tool calls and decide the next step."""
        assert self.calls is not None  # noqa: S101 - there are calls to finish
        if self.calls.is_paused:
            self.stop_reason = "awaiting_approval"
            return
        records = self._close_calls(self.calls)
        if all(self._returns_directly(r.call) and r.message.status == "success" for r in records):
            self.stop_reason = "returned_directly"
        elif self.turns >= self.settings.max_turns:
            self._reach_limit([])

    def result(self, failed: StopReason | None = None) -> ToolLoopResult:
        """Return the result so far, with the tool calls of this turn that have ended."""
        ended = self.calls.records() if self.calls else []
        new = [*self._new, *(record.message for record in ended)]
        return ToolLoopResult(
            messages=[*self._given, *new],
            new_messages=new,
            stop_reason=failed or self.stop_reason or "failed",
            turns=self.turns,
            calls=[*self._records, *ended],
            pending=self.calls.pending() if self.calls else self._left_open,
            usage=self._usage,
        )

    def finish(self) -> events.LoopEvent:
        """Return the last event.

        Raises:
            IncompleteRunError: The turn limit was reached, and `on_limit` is "raise".
        """
        result = self.result()
        if result.stop_reason == "turn_limit" and self.settings.on_limit == "raise":
            raise IncompleteRunError(result)
        return self.event(events.LoopFinished, result=result)

    @contextlib.contextmanager
    def attached_to_errors(self) -> Iterator[None]:
        """Attach the result so far to any exception that ends the run."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            with contextlib.suppress(AttributeError):  # an exception class with slots
                error.tool_loop_result = self.result("failed")  # type: ignore[attr-defined]
            raise

    def _resume_calls(self) -> None:
        """Take over the tool calls of the input that have no result."""
        answered: set[str | None] = set()
        for position in reversed(range(len(self._given))):
            message = self._given[position]
            if isinstance(message, ToolMessage):
                answered.add(message.tool_call_id)
                continue
            if isinstance(message, AIMessage):
                self._given[position] = message = _with_call_ids(message, answered)
                calls = [call for call in message.tool_calls if call["id"] not in answered]
                invalid = [c for c in message.invalid_tool_calls if c["id"] not in answered]
                if calls or invalid:
                    self.calls = TurnCalls(self, calls, invalid, _why_not_run(message))
            return

    def _close_calls(self, calls: TurnCalls) -> list[ToolCallRecord]:
        calls.emit_events()
        records = calls.records()
        self._records += records
        self._new += [record.message for record in records]
        self.calls = None
        return records

    def _skip_calls(self, message: AIMessage) -> None:
        """Run none of the tool calls: no turn is left in which the model would read the results."""
        if self._is_final_turn:
            self.stop_reason = "turn_limit"
        else:
            self._reach_limit([*message.tool_calls, *map(as_tool_call, message.invalid_tool_calls)])
        if not self._left_open:
            calls = TurnCalls(self, message.tool_calls, message.invalid_tool_calls)
            calls.skip_all("Not executed: this run has no turns left. Answer with what is known.")
            self._close_calls(calls)

    def _reach_limit(self, pending: list[ToolCall]) -> None:
        self.emit(self.event(events.LimitReached, pending=pending))
        if self.settings.on_limit == "answer":
            self._is_final_turn = True
        else:
            self._left_open = pending
            self.stop_reason = "turn_limit"

    def _returns_directly(self, call: ToolCall) -> bool:
        """Return whether the called tool gives the answer itself, without another turn."""
        tool = self.settings.box.tools.get(call["name"])
        return tool is not None and tool.return_direct


def _reason_to_stop(message: AIMessage) -> StopReason:
    """Return why a message without tool calls ends the run."""
    finish = finish_of(message)
    if finish.outcome == "truncated":
        return "truncated"
    if finish.outcome in {"blocked", "failed"} or message.response_metadata.get("block_reason"):
        return "blocked"
    if _is_empty(message):
        return "empty" if finish.outcome in {"complete", "unspecified"} else "blocked"
    return "answered" if finish.is_complete else "incomplete"


def _is_empty(message: AIMessage) -> bool:
    """Return whether there is nothing to show: no text, no media; thoughts do not count."""
    kinds = {type_of(block) for block in blocks_of(message.content)}
    return not message.text.strip() and kinds <= {*TEXTS, *THOUGHTS}


def _integers(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the token counts. `add_usage` raises for other values, such as a vendor's price."""
    return {
        key: _integers(value) if isinstance(value, dict) else value
        for key, value in usage.items()
        if isinstance(value, int | dict)
    }


def _why_not_run(message: AIMessage) -> str | None:
    """Return why the tool calls of a message must not be run, or None if they may be."""
    finish = finish_of(message)
    if finish.is_complete:
        return None
    if finish.outcome == "truncated":
        return (
            f"Not executed: the message was truncated ({finish.name}); its calls may be incomplete."
        )
    details = message.response_metadata.get("finish_message") or finish.explanation
    return f"Not executed: the model stopped with {finish.name or 'no reason'}: {details}"


def _with_call_ids(
    received: BaseMessage, answered: Collection[str | None] = frozenset()
) -> AIMessage:
    """Return the message as an AIMessage whose tool calls have unique ids.

    Args:
        received: The message.
        answered: Ids that results already refer to. They stay as they are.
    """
    message = message_chunk_to_message(received)
    if not isinstance(message, AIMessage):
        raise TypeError(f"The model returned a {type(received).__name__}, not an AIMessage.")
    seen: set[str] = set()
    calls = [_with_unique_id(call, seen, answered) for call in message.tool_calls]
    invalid = [_with_unique_id(call, seen, answered) for call in message.invalid_tool_calls]
    if calls == message.tool_calls and invalid == message.invalid_tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": invalid})


def _with_unique_id(call: _AnyCall, seen: set[str], answered: Collection[str | None]) -> _AnyCall:
    call_id = call["id"]
    if not call_id or (call_id in seen and call_id not in answered):
        call_id = f"call_{uuid4().hex}"
    seen.add(call_id)
    return {**call, "id": call_id}
