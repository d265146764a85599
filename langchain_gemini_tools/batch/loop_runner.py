"""`LoopRunner` runs one of many `ToolLoop`s from one call of its model to the next.

A loop has no checkpointer: its messages are in an SQLite file.
"""

from __future__ import annotations

import copy
import json
import sqlite3
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict, messages_to_dict
from langchain_core.messages.ai import add_usage

from langchain_gemini_tools.batch.runner import (
    FAST_COMMITS,
    AgentStep,
    Asker,
    Runner,
    is_same_call,
    lost_state,
    no_same_call,
    request_of,
)
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import (
    IncompleteRunError,
    ToolCallRecord,
    ToolLoop,
    ToolLoopResult,
    result_of,
)
from langchain_gemini_tools.tool_loop.run import parse_input

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from langchain_core.messages import ToolCall
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.agents import RunOptions
    from langchain_gemini_tools.batch.runner import Offer
    from langchain_gemini_tools.facts.json_values import JsonObject

_MAX_DEPTH = 100
"""Deeper values are stored as text."""


class LoopPause(BaseException):
    """A loop waits for a batch job. Not an `Exception`, so that nothing handles it."""

    def __init__(self, question: JsonObject) -> None:
        super().__init__("The loop waits for a batch job.")
        self.question = question


@dataclass
class LoopStep(Asker):
    """The asker of one step of a loop: it knows the answers to the first calls."""

    pauses = LoopPause
    answers: tuple[JsonObject, ...] = ()
    is_in_tools: bool = False
    """Whether the calls are those of tools, which find their answers by what they ask."""
    ended: int = 0
    """How many of the answers, from the first, belong to tools that have ended."""
    by_messages: bool = False
    """Whether a call of a tool is the same if only its messages are."""
    _used: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: JsonObject, *, or_another: bool = False) -> JsonObject:
        """Return the answer, or stop the loop."""
        call = question["call"]
        with self._lock:
            left, fitting = self._left(), []
            if self.is_in_tools:
                fitting = [n for n in left if self.answers[n]["call"] == call]
            if self.is_in_tools and self.by_messages:
                fitting += [n for n in left if is_same_call(self.answers[n]["call"], call)]
            if or_another or not self.is_in_tools:
                fitting += left
            if not fitting:
                raise LoopPause(question)
            self._used.add(fitting[0])
            return self.answers[fitting[0]]

    def _left(self) -> list[int]:
        return [n for n in range(self.ended, len(self.answers)) if n not in self._used]

    @property
    def has_answers_left(self) -> bool:
        """Whether there is an answer to a call that was not made again."""
        return bool(self._left())

    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the call to which it belongs."""
        self._used.discard(self.answers.index(answer))


@dataclass(frozen=True)
class _LoopState:
    """A run of a loop before a call of the model, its own or that of a tool, or at its end."""

    messages: list[JsonObject]
    given: int
    """How many of the messages are the input."""
    turns: int = 0
    answers: tuple[JsonObject, ...] = ()
    """What is known for the next call, or for those of the tools of this turn."""
    stop_reason: str | None = None
    is_in_tools: bool = False
    """Whether the call is that of a tool."""
    ended: int = 0
    """How many of the answers, from the first, belong to tools that have ended."""


class LoopRunner(Runner):
    """Runs a `ToolLoop` for each input, and keeps their messages in `loops.sqlite`.

    Raises:
        InvalidOptionError: The loop cannot run in batches, or an option is not for loops.
    """

    kind = "loop"
    database = "loops.sqlite"

    def __init__(self, agent: ToolLoop, options: RunOptions, offer: Offer) -> None:
        for name in ("checkpointer", "context", "resume"):
            if options.get(name) is not None:
                raise InvalidOptionError(f"A ToolLoop does not use {name}. Leave it out.")
        if agent.settings.on_limit == "answer":
            raise InvalidOptionError(
                "A ToolLoop with on_limit='answer' cannot run in batches. Use 'return' or 'raise'."
            )
        super().__init__(agent, options, offer)
        self._lock = threading.Lock()

    def open(self, path: Path, stack: ExitStack) -> None:
        """Open the file with the states of the loops."""
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        stack.callback(self._file.close)
        try:
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute(FAST_COMMITS)
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS loops (number INTEGER PRIMARY KEY, state BLOB)"
            )
        except sqlite3.DatabaseError as error:
            raise InvalidOptionError(
                f"{path} is damaged. Restore it, or use another path."
            ) from error

    def encode(self, given: Any) -> bytes:
        """Return the bytes by which an input is compared."""
        return _encode(messages_to_dict(parse_input(given)))

    def _load(self, index: int) -> _LoopState | None:
        with self._lock:
            query = "SELECT state FROM loops WHERE number = ?"
            row = self._file.execute(query, [index]).fetchone()
        return _LoopState(**json.loads(row[0])) if row else None

    def _store(self, index: int, state: _LoopState) -> None:
        row = (index, _encode(vars(state)))
        with self._lock:
            self._file.execute("INSERT OR REPLACE INTO loops VALUES (?, ?)", row)

    # Steps

    def run(self, index: int, given: Any) -> AgentStep:
        """Begin a loop."""
        messages = messages_to_dict(parse_input(given))
        return self._run(index, _LoopState(messages, len(messages)))

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> AgentStep:
        """Pass the answer to a loop, and run it until its next call."""
        state = self._state(index)
        (answer,) = answers.values()
        known = (*state.answers, {**answer, "session": self.session})
        return self._run(index, replace(state, answers=known))

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> AgentStep:
        """Find out how far a loop is, and render its request again."""
        if index not in self.sent and self._load(index) is None:
            return self.run(index, given)
        state = self._state(index)
        if state.stop_reason:
            return AgentStep()
        if (key := _loop_key(index, state)) in in_wave:
            return AgentStep(in_wave=(key,))
        return self._run(index, state)

    def nudge(self, index: int) -> AgentStep:
        """Make a loop repeat the call that it waits for."""
        return self._run(index, self._state(index))

    def _state(self, index: int) -> _LoopState:
        if (state := self._load(index)) is None:
            raise lost_state(f"{self.database} has", index, "Restore it.")
        return state

    def _run(self, index: int, state: _LoopState, *, by_messages: bool = False) -> AgentStep:
        in_tools = state.is_in_tools
        asker = LoopStep(
            self.session,
            self.offer,
            answers=state.answers,
            is_in_tools=in_tools,
            ended=state.ended,
            by_messages=by_messages,
        )
        config: RunnableConfig = {**self.config, "configurable": self.configurable(asker)}
        loop = copy.copy(self.agent)
        left = loop.settings.max_turns - state.turns
        loop.settings = replace(loop.settings, max_turns=max(left, 1))
        if in_tools:  # one after the other, so that they make their calls in the same order
            loop.settings = replace(loop.settings, max_concurrency=1)
        messages = messages_from_dict(state.messages)
        try:
            result = loop.invoke(messages, config)
        except LoopPause as pause:
            result = cast("ToolLoopResult", result_of(pause))
            if in_tools and result.pending and asker.has_answers_left:
                if not by_messages:
                    return self._run(index, state, by_messages=True)
                self._store(index, state)
                return AgentStep(error=no_same_call())
            state = _after_pause(result, state)
            self._store(index, state)
            if state.is_in_tools and not in_tools:  # in parallel, any of them may ask first
                return self._run(index, state)
            return AgentStep((request_of(_loop_key(index, state), pause.question),))
        except BaseException as error:  # any error of the run, and interrupts
            self._store(index, _after_failure(error, state, loop.settings.max_turns))
            if not isinstance(error, Exception):
                raise
            return AgentStep(error=_with_all_turns(error, state.turns))
        self._store(
            index,
            _LoopState(
                messages_to_dict(result.messages),
                state.given,
                state.turns + result.turns,
                stop_reason=result.stop_reason,
            ),
        )
        return AgentStep()

    # Results

    def result(self, index: int) -> ToolLoopResult:
        """Return what `invoke` would return. Of tool calls, it has no times and no exceptions."""
        state = self._state(index)
        messages = messages_from_dict(state.messages)
        new, records, usage, turn = messages[state.given :], [], None, 0
        calls: dict[str | None, tuple[int, ToolCall]] = {}
        for message in new:
            if isinstance(message, AIMessage):
                turn += 1
                usage = add_usage(usage, message.usage_metadata)
                calls |= {call["id"]: (turn, call) for call in message.tool_calls}
            elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
                number, call = calls.pop(message.tool_call_id)
                status = "succeeded" if message.status == "success" else "failed"
                records.append(ToolCallRecord(number, call, cast("Any", status), message))
        return ToolLoopResult(
            messages=messages,
            new_messages=new,
            stop_reason=cast("Any", state.stop_reason or "failed"),
            turns=state.turns,
            calls=records,
            pending=[call for _, call in calls.values()],
            usage=usage if any(isinstance(each, AIMessage) for each in new) else None,
        )


def _loop_key(index: int, state: _LoopState) -> str:
    where = "-tools" if state.is_in_tools else ""
    return f"{index}-{state.turns}-{len(state.answers)}{where}"


def _after_pause(result: ToolLoopResult, state: _LoopState) -> _LoopState:
    """Return the state to continue a run from that waits for a call of the model."""
    if not result.new_messages:
        return state
    messages = messages_to_dict(result.messages)
    if not result.pending:  # a call of the loop itself, which has begun a turn
        return _LoopState(messages, state.given, state.turns + result.turns - 1)
    state = replace(state, messages=messages, turns=state.turns + result.turns)
    if state.is_in_tools:
        return replace(state, ended=len(state.answers))
    return replace(state, answers=(), is_in_tools=True)


def _after_failure(error: BaseException, state: _LoopState, turns_left: int) -> _LoopState:
    """Return the state to continue a failed run from, with the results of tools that have ended."""
    result = result_of(error)
    new = result.new_messages if result else ()
    turns = sum(isinstance(message, AIMessage) for message in new)
    has_results = bool(new) and isinstance(new[-1], ToolMessage)
    if result is None or not has_results or turns >= turns_left:
        return state
    return _LoopState(messages_to_dict(result.messages), state.given, state.turns + turns)


def _with_all_turns(error: Exception, before: int) -> Exception:
    """Return an error about the limit of turns that counts those of earlier waves as well."""
    if not isinstance(error, IncompleteRunError):
        return error
    result = error.tool_loop_result
    return IncompleteRunError(replace(result, turns=before + result.turns))


def _encode(value: Any) -> bytes:
    # Artifacts of tools may be any objects. Only their text is kept.
    try:
        return json.dumps(value, default=str).encode()
    except (TypeError, ValueError, RecursionError):  # names that are not texts, or circular
        return json.dumps(_as_json(value), default=str).encode()


def _as_json(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Return a value with texts as names, and with the text of what contains itself."""
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in inside or len(inside) > _MAX_DEPTH:
        return str(value)
    inside = (*inside, id(value))
    if isinstance(value, dict):
        return {str(key): _as_json(item, inside) for key, item in value.items()}
    return [_as_json(item, inside) for item in value]
