"""How far a run has come, and what is next: ask the model, carry out calls, or stop.

`Run` talks to nobody. `ToolLoop` does what it says, in a sync and in an async way, and tells it
what came of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import uuid4

from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.messages.ai import add_usage
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.prompt_values import PromptValue

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.blocks import TEXTS, THOUGHTS
from langchain_gemini_tools.facts.finish_reasons import finish_of
from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.result import IncompleteRunError, ToolLoopResult
from langchain_gemini_tools.tool_loop.turn import Cache, Turn, as_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.messages import BaseMessage, InvalidToolCall, ToolCall
    from langchain_core.messages.ai import UsageMetadata

    from langchain_gemini_tools.tool_loop.result import StopReason, ToolCallRecord
    from langchain_gemini_tools.tool_loop.settings import Settings

_Event = TypeVar("_Event", bound=events.LoopEvent)
_Call = TypeVar("_Call", "ToolCall", "InvalidToolCall")

Choice = Literal["auto", "forced", "off"]
"""Whether the model may call tools in its next turn, has to, or may not."""


def parse_input(given: Any) -> list[BaseMessage]:
    """The messages in whatever a chat model, a prompt or a graph would hand over.

    Raises:
        InvalidOptionError: There are none.
    """
    if isinstance(given, PromptValue):
        given = given.to_messages()
    elif isinstance(given, dict) and "messages" in given:
        given = given["messages"]
    elif isinstance(given, dict) and "role" not in given and "type" not in given:
        raise InvalidOptionError(f"The input has no 'messages', only {sorted(given)}.")
    messages = convert_to_messages(given if isinstance(given, list | tuple) else [given])
    if not messages:
        raise InvalidOptionError("The input has no messages: there is nothing to answer.")
    return messages


class Run:
    """One run: the messages so far, the calls of the turn under way, why it stopped."""

    def __init__(
        self,
        settings: Settings,
        messages: Sequence[BaseMessage],
        clock: Callable[[], float],
        has_room: Callable[[str], bool],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.turns = 0
        self.calls: Turn | None = None
        self.stop_reason: StopReason | None = None
        self._given = list(messages)
        self._new: list[BaseMessage] = []
        self._records: list[ToolCallRecord] = []
        self._usage: UsageMetadata | None = None
        self._cache: Cache = {}
        self._since = clock()
        self._turn_since = self._since
        self._has_room = has_room
        self._is_last_word = False
        self._left_open: list[ToolCall] = []
        self._take_up_calls()

    @property
    def messages(self) -> list[BaseMessage]:
        """The history so far."""
        return [*self._given, *self._new]

    def start_turn(self) -> events.TurnStarted:
        """Note that the model is asked once more."""
        self.turns += 1
        self._turn_since = self.clock()
        return self.event(events.TurnStarted)

    def choice(self) -> Choice:
        """Whether the model may, has to or may not call tools in the turn that begins."""
        if self._is_last_word:
            return "off"
        follows_results = isinstance(self.messages[-1], ToolMessage)
        is_forced = self.settings.forced_first and self.turns <= 1 and not follows_results
        return "forced" if is_forced else "auto"

    def take_answer(self, answer: BaseMessage) -> Iterator[events.LoopEvent]:
        """Take in the model's message and decide what follows from it."""
        message = _identified(answer)
        self._new.append(message)
        if message.usage_metadata:
            self._usage = add_usage(self._usage, message.usage_metadata)
        yield self.event(
            events.TurnFinished, message=message, duration=self.clock() - self._turn_since
        )
        if not message.tool_calls and not message.invalid_tool_calls:
            self.stop_reason = _reason_to_stop(message)
            if self._is_last_word:
                is_whole = self.stop_reason == "answered"
                self.stop_reason = "answered_at_limit" if is_whole else "turn_limit"
            return
        is_over = self._is_last_word or self.turns >= self.settings.max_turns
        if is_over and (self._is_last_word or not self._needs_no_reader(message)):
            yield from self._leave_calls(message)
            return
        self.calls = self._line_up(message.tool_calls, message.invalid_tool_calls)
        if reason := _why_not_run(message):
            self.calls.skip_all(reason)

    def finish_calls(self) -> Iterator[events.LoopEvent]:
        """Take in what the calls of this turn came to."""
        assert self.calls is not None  # noqa: S101 - there are calls to finish
        if self.calls.is_paused:
            self.stop_reason = "awaiting_approval"
            return
        records = self._close_calls()
        if all(self._answers_directly(record) for record in records):
            self.stop_reason = "returned_directly"
        elif self.turns >= self.settings.max_turns:
            yield from self._reach_limit([])

    def result(self, failed: StopReason | None = None) -> ToolLoopResult:
        """Everything so far; calls under way count as far as they have an answer."""
        under_way = self.calls.records() if self.calls else []
        new = [*self._new, *(record.message for record in under_way)]
        return ToolLoopResult(
            messages=[*self._given, *new],
            new_messages=new,
            stop_reason=failed or self.stop_reason or "failed",
            turns=self.turns,
            calls=[*self._records, *under_way],
            pending=self.calls.pending() if self.calls else self._left_open,
            usage=self._usage,
        )

    def finish(self) -> events.LoopFinished:
        """The last event.

        Raises:
            IncompleteRunError: The limit was reached, and `on_limit` is "raise".
        """
        result = self.result()
        if result.stop_reason == "turn_limit" and self.settings.on_limit == "raise":
            raise IncompleteRunError(result)
        return self.event(events.LoopFinished, result=result)

    @contextlib.contextmanager
    def kept_on_errors(self) -> Iterator[None]:
        """Put the result on whatever ends the run, so that nothing said is lost."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            with contextlib.suppress(AttributeError):  # an exception with slots
                error.tool_loop_result = self.result("failed")  # type: ignore[attr-defined]
            raise

    def event(self, kind: type[_Event], **fields: Any) -> _Event:
        """An event of now."""
        return kind(at=self.clock() - self._since, turn=self.turns, **fields)

    def _take_up_calls(self) -> None:
        """Line up the calls that the input asks for and does not answer."""
        answered: set[str | None] = set()
        for message in reversed(self._given):
            if isinstance(message, ToolMessage):
                answered.add(message.tool_call_id)
                continue
            if isinstance(message, AIMessage):
                calls = [call for call in message.tool_calls if call["id"] not in answered]
                broken = [c for c in message.invalid_tool_calls if c["id"] not in answered]
                if calls or broken:
                    self.calls = self._line_up(calls, broken)
                    if reason := _why_not_run(message):
                        self.calls.skip_all(reason)
            return

    def _line_up(self, calls: Sequence[ToolCall], broken: Sequence[InvalidToolCall]) -> Turn:
        turn = Turn(
            number=self.turns,
            settings=self.settings,
            cache=self._cache,
            clock=self.clock,
            since=self._since,
            has_room=self._has_room,
        )
        turn.take_calls(calls, broken)
        return turn

    def _close_calls(self) -> list[ToolCallRecord]:
        assert self.calls is not None  # noqa: S101 - there are calls to close
        records = self.calls.records()
        self._records += records
        self._new += [record.message for record in records]
        self.calls = None
        return records

    def _leave_calls(self, message: AIMessage) -> Iterator[events.LoopEvent]:
        """Run none of the calls: there is no turn left in which their results would be read."""
        if self._is_last_word:
            self.stop_reason = "turn_limit"
        else:
            pending = [*message.tool_calls, *map(as_call, message.invalid_tool_calls)]
            yield from self._reach_limit(pending)
        if self._left_open:
            return
        self.calls = self._line_up(message.tool_calls, message.invalid_tool_calls)
        self.calls.skip_all(
            "Not executed: the turns of this run are used up. Answer with what is known."
        )
        yield from self.calls.take_events()
        self._close_calls()

    def _reach_limit(self, pending: list[ToolCall]) -> Iterator[events.LoopEvent]:
        yield self.event(events.LimitReached, pending=pending)
        if self.settings.on_limit == "answer":
            self._is_last_word = True
        else:
            self._left_open = pending
            self.stop_reason = "turn_limit"

    def _needs_no_reader(self, message: AIMessage) -> bool:
        """Whether all results would be answers themselves, so that no further turn is needed."""
        tools = [self.settings.box.tools.get(call["name"]) for call in message.tool_calls]
        return all(tool and tool.return_direct for tool in tools) and (
            not message.invalid_tool_calls
        )

    def _answers_directly(self, record: ToolCallRecord) -> bool:
        tool = self.settings.box.tools.get(record.call["name"])
        return tool is not None and tool.return_direct and record.message.status == "success"


def _reason_to_stop(message: AIMessage) -> StopReason:
    """Return why a message without tool calls ends the run."""
    finish = finish_of(message)
    if finish.outcome == "truncated":
        return "truncated"
    if finish.outcome == "blocked" or message.response_metadata.get("block_reason"):
        return "blocked"
    if _is_empty(message):
        return "empty" if finish.outcome in {"complete", "unspecified"} else "blocked"
    return "answered" if finish.is_complete else "incomplete"


def _is_empty(message: AIMessage) -> bool:
    """Return whether there is nothing to show: no text, no media; thoughts do not count."""
    blocks = message.content if isinstance(message.content, list) else []
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    return not message.text.strip() and kinds <= {*TEXTS, *THOUGHTS}


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
    return f"Not executed: the model stopped with {finish.name}: {details}"


def _identified(answer: BaseMessage) -> AIMessage:
    """The message as a whole AIMessage whose calls have ids, each one its own."""
    message = message_chunk_to_message(answer)
    if not isinstance(message, AIMessage):
        raise TypeError(f"The model answered with a {type(answer).__name__}, not an AIMessage.")
    seen: set[str] = set()
    calls = [_with_own_id(call, seen) for call in message.tool_calls]
    broken = [_with_own_id(call, seen) for call in message.invalid_tool_calls]
    if calls == message.tool_calls and broken == message.invalid_tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


def _with_own_id(call: _Call, seen: set[str]) -> _Call:
    call_id = call["id"]
    if not call_id or call_id in seen:
        call_id = f"call_{uuid4().hex}"
    seen.add(call_id)
    return {**call, "id": call_id}
