"""`LoopRunner` runs one of many `ToolLoop`s from one call of its model to the next.

A `ToolLoop` has no checkpointer: its messages are appended to a file.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict, messages_to_dict
from langchain_core.messages.ai import add_usage

from langchain_gemini_tools.batch.agent_calls import (
    CONFIG_KEY,
)
from langchain_gemini_tools.batch.graph_runner import AgentStep, lost_state, request_of
from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.agent_calls import Offer
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.tool_loop import ToolLoop, ToolLoopResult


_MAX_DEPTH = 100
"""Deeper values are stored as text."""


class LoopPause(BaseException):
    """A loop waits for a batch job. Not an `Exception`, so that nothing handles it."""

    def __init__(self, question: JsonObject) -> None:
        super().__init__("The loop waits for a batch job.")
        self.question = question


@dataclass
class LoopStep:
    """The asker of one step of a loop: it knows the answers to the first call."""

    session: str
    offer: Offer
    answers: list[JsonObject]
    keeps_failures: bool = False
    pauses: type[BaseException] = LoopPause
    _used: int = 0

    def ask(self, question: JsonObject) -> JsonObject:
        """Return the next answer, or stop the loop."""
        self._used += 1
        if self._used > len(self.answers):
            raise LoopPause(question)
        return self.answers[self._used - 1]

    def keep(self, answer: JsonObject) -> None:  # noqa: ARG002
        """Keep an answer for the next call, to which it belongs."""
        self._used -= 1


@dataclass(frozen=True)
class _LoopState:
    """A run of a loop before a call of the model, or at its end."""

    messages: list[JsonObject]
    given: int
    """How many of the messages are the input."""
    turns: int = 0
    answers: tuple[JsonObject, ...] = ()
    """What is known for the next call."""
    stop_reason: str | None = None


class LoopRunner:
    """Runs a `ToolLoop` for each input, and keeps their messages in `loops.jsonl`.

    Args:
        loop: The loop.
        config: Callbacks, tags and so on for each run.
        session: Differs between two runs of the program.
        offer: Receives what sends requests.
    """

    kind = "loop"

    def __init__(
        self, loop: ToolLoop, config: RunnableConfig | None, session: str, offer: Offer
    ) -> None:
        if loop.settings.on_limit == "answer":
            raise InvalidOptionError(
                "A ToolLoop with on_limit='answer' cannot run in batches. Use 'return' or 'raise'."
            )
        self.agent = loop
        self._config = config or {}
        self._session = session
        self._offer = offer
        self._lock = threading.Lock()
        self._places: dict[int, int] = {}
        self.run_id = ""
        self.sent: set[int] = set()

    def open(self, path: Path) -> None:
        """Read the state of the loops. An incomplete line of a killed process is dropped."""
        self._file = (path / "loops.jsonl").open("ab+")
        self._file.seek(0)
        position = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self._places[self._number_in(line)] = position
            position += len(line)
        self._file.truncate(position)

    def _number_in(self, line: bytes) -> int:
        number, _, _ = line.partition(b" ")
        if not number.isdigit():
            self._file.close()
            raise self._damaged()
        return int(number)

    def _damaged(self) -> InvalidOptionError:
        return InvalidOptionError(f"{self._file.name} is damaged. Restore it, or use another path.")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def encode(self, given: Any) -> bytes:
        """Return the bytes by which an input is compared."""
        return _encode(messages_to_dict(self._parse(given)))

    @staticmethod
    def _parse(given: Any) -> list[BaseMessage]:
        from langchain_gemini_tools.tool_loop.run import parse_input

        return parse_input(given)

    def _load(self, index: int) -> _LoopState:
        with self._lock:
            self._file.seek(self._places[index])
            line = self._file.readline()
        try:
            return _LoopState(**json.loads(line.partition(b" ")[2]))
        except (ValueError, TypeError) as error:
            raise self._damaged() from error

    def _store(self, index: int, state: _LoopState) -> None:
        line = b"%d %b\n" % (index, _encode(vars(state)))
        with self._lock:
            self._file.seek(0, 2)
            self._places[index] = self._file.tell()
            self._file.write(line)
            self._file.flush()

    # Steps

    def run(self, index: int, given: Any) -> AgentStep:
        """Begin a loop."""
        messages = messages_to_dict(self._parse(given))
        return self._run(index, _LoopState(messages, len(messages)))

    def deliver(self, index: int, answers: Mapping[str, JsonObject]) -> AgentStep:
        """Pass the answer to a loop, and run it until its next call."""
        state = self._load(index)
        (answer,) = answers.values()
        known = (*state.answers, {**answer, "session": self._session})
        return self._run(index, replace(state, answers=known))

    def recover(self, index: int, given: Any, in_wave: Collection[str]) -> AgentStep:
        """Find out how far a loop is, and render its request again."""
        if index not in self._places:
            if index in self.sent:
                raise lost_state("loops.jsonl has", index, "Restore it.")
            return self.run(index, given)
        state = self._load(index)
        if state.stop_reason:
            return AgentStep()
        if (key := _loop_key(index, state)) in in_wave:
            return AgentStep(in_wave=(key,))
        return self._run(index, state)

    def nudge(self, index: int) -> AgentStep:
        """Make a loop repeat the call that it waits for."""
        return self._run(index, self._load(index))

    def _run(self, index: int, state: _LoopState) -> AgentStep:
        from langchain_gemini_tools.tool_loop import result_of

        asker = LoopStep(self._session, self._offer, list(state.answers))
        configurable = {**self._config.get("configurable", {}), CONFIG_KEY: asker}
        config: RunnableConfig = {**self._config, "configurable": configurable}
        loop = copy.copy(self.agent)
        left = loop.settings.max_turns - state.turns
        loop.settings = replace(loop.settings, max_turns=left)
        messages = messages_from_dict(state.messages)
        try:
            result = loop.invoke(messages, config)
        except LoopPause as pause:
            result = cast("ToolLoopResult", result_of(pause))
            if result.new_messages:
                state = _LoopState(
                    messages_to_dict(result.messages), state.given, state.turns + result.turns - 1
                )
            self._store(index, state)
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
        from langchain_gemini_tools.tool_loop import ToolCallRecord, ToolLoopResult

        state = self._load(index)
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

    async def aresult(self, index: int) -> ToolLoopResult:
        """Return the result, without blocking the event loop."""
        return await asyncio.to_thread(self.result, index)


def _loop_key(index: int, state: _LoopState) -> str:
    return f"{index}-{state.turns}-{len(state.answers)}"


def _after_failure(error: BaseException, state: _LoopState, turns_left: int) -> _LoopState:
    """Return the state to continue a failed run from, with the results of tools that have ended."""
    from langchain_gemini_tools.tool_loop import result_of

    result = result_of(error)
    new = result.new_messages if result else ()
    turns = sum(isinstance(message, AIMessage) for message in new)
    has_results = bool(new) and isinstance(new[-1], ToolMessage)
    if result is None or not has_results or turns >= turns_left:
        return state
    return _LoopState(messages_to_dict(result.messages), state.given, state.turns + turns)


def _with_all_turns(error: Exception, before: int) -> Exception:
    """Return an error about the limit of turns that counts those of earlier waves as well."""
    from langchain_gemini_tools.tool_loop import IncompleteRunError

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
