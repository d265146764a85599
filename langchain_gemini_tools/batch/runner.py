"""Runs an agent of `run_in_batches` from one call of its model to the next.

The config of the run switches `ask_in_batches` on. The call is not sent: its request is handed to
an `Asker`, which stops the agent until a batch job has answered it. When the agent resumes, the
same call is made again, and the answer is parsed as that of any request.

`LoopRunner` runs a `ToolLoop`, which has no checkpointer: its messages are in an SQLite file.
`GraphRunner` runs a LangGraph agent. It is in `graph_runner`, which needs LangGraph.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import sqlite3
import threading
import uuid
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict, messages_to_dict
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_gemini_tools.batch import CONFIG_KEY
from langchain_gemini_tools.batch.items import evaluate, schema_rewriter
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json
from langchain_gemini_tools.tool_loop import (
    IncompleteRunError,
    ToolCallRecord,
    ToolLoop,
    ToolLoopResult,
    result_of,
)
from langchain_gemini_tools.tool_loop.run import parse_input

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from langchain_core.messages import ToolCall
    from langchain_core.outputs import ChatResult
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.agents import RunOptions
    from langchain_gemini_tools.batch.driver import LoopBridge
    from langchain_gemini_tools.batch.items import BatchSource, ItemOutcome
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.wire.request import RenderedRequest

    Offer = Callable[[BatchSource], None]
    """Receives what sends the requests of a model."""

REQUEST_TYPE = "gemini_batch_request"
"""The `type` of the interrupts of this module."""
FAST_COMMITS = "PRAGMA synchronous=NORMAL"
"""A commit survives the end of the process. `flush_sqlite` makes it survive that of the machine."""
_MAX_DEPTH = 100
"""Deeper values are stored as text."""


# A call of the model


@dataclass
class Asker(ABC):
    """What a call hands its request to, in one step of an agent."""

    pauses: ClassVar[type[BaseException]]
    """The exception that `ask` raises."""
    session: str = ""
    """Differs between two runs of the program."""
    offer: Offer = lambda _: None
    """Receives what sends requests of this model."""
    keeps_failures: bool = False
    """Whether failures in earlier runs of the program are final."""

    @abstractmethod
    def ask(self, question: JsonObject, *, or_another: bool = False) -> JsonObject:
        """Return the answer to a request, or stop the agent until there is one.

        Args:
            question: The request.
            or_another: Return the answer to another call, if that is the next one.
        """

    @abstractmethod
    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the next call, to which it belongs."""


def ask_in_batches(asker: Asker, request: RenderedRequest, source: BatchSource) -> ChatResult:
    """Return the answer of a batch job to a request, as `invoke` would.

    Args:
        asker: What sends the request, or has the answer.
        request: The request.
        source: The model.

    Raises:
        GeminiAPIError: The item failed, more often than it is retried.
        ResponseError: The response is not usable.
    """
    request = replace(request, encoded=schema_rewriter(request)(request.encoded))
    source = replace(source, template=request)
    asker.offer(source)
    call, body = _identify(request), request.encoded
    attempts: list[JsonObject] = []
    failed: ItemOutcome | None = None
    while True:
        question = {"type": REQUEST_TYPE, "model": source.model, "call": call}
        is_again = failed is not None and not attempts
        answer = asker.ask({**question, "body": body.decode()}, or_another=is_again)
        if failed and not attempts and answer["call"] != call:
            asker.keep(answer)  # the agent has handled the failure, and made another call
            outcome = failed
            break
        _check_same_call(answer["call"], call)
        attempts.append(answer["line"])
        outcome = evaluate(source, attempts, lambda: request.encoded)
        if outcome.next_body is not None:
            body = outcome.next_body
            continue
        is_old = answer["session"] != asker.session and not asker.keeps_failures
        if outcome.result is not None or not is_old:
            break
        # It failed in an earlier run of the program: sent again.
        failed, attempts, body = outcome, [], request.encoded
    if outcome.result is None:
        raise outcome.error or AssertionError(outcome)
    return outcome.result


def _identify(request: RenderedRequest) -> str:
    """Return a digest of the messages and the model of a request.

    What differs elsewhere, such as the time in a system prompt, is not another call.
    """
    contents = encode_json(request.body.get("contents"), is_large=True)
    # In place of a lone surrogate, a request has U+FFFD, and LangGraph's checkpoints have "?".
    contents = contents.replace("\ufffd".encode(), b"?")
    return hashlib.sha256(request.invocation.model.encode() + contents).hexdigest()[:32]


def _check_same_call(answered: str, call: str) -> None:
    if answered != call:
        raise InvalidOptionError(
            "The answer of the batch belongs to another call of the model in the same node. "
            "LangGraph runs a node again when it resumes, so a node must repeat its calls, with "
            "the same model and the same messages: keep times and random values out of the "
            "messages. Make parallel calls of async code in separate nodes (Send). If the "
            "agent was changed since the request was sent, use the old one, or another path."
        )


def interrupted_result() -> LLMResult:
    """Return what callbacks see of a call that waits for a batch job."""
    message = AIMessage("", response_metadata={"interrupted": "The call waits for a batch job."})
    return LLMResult(generations=[[ChatGeneration(message=message)]])


# Running an agent


@dataclass(frozen=True)
class AgentRequest:
    """A request that an agent waits for."""

    id: str
    """Identifies it among the requests of its agent; see `graph_runner`."""
    model: str
    body: bytes
    call: str
    """Identifies the call of the model; see `ask_in_batches`."""
    line: JsonObject | None = None
    """The result, as the service returned it; None if there is none."""


@dataclass(frozen=True)
class AgentStep:
    """The state of an agent after a step: it waits, it has failed, or it is done."""

    requests: tuple[AgentRequest, ...] = ()
    """The requests that it waits for, except for those of the current wave."""
    interrupts: tuple[Any, ...] = ()
    """The user's own interrupts."""
    error: Exception | None = None
    in_wave: tuple[str, ...] = ()
    """The ids of the requests of the current wave that it waits for."""


class Runner(ABC):
    """Runs each of many agents from one call of its model to the next.

    `GraphRunner` and `LoopRunner` are its two kinds.

    Args:
        agent: The agent.
        options: The arguments of `run_in_batches`.
        offer: Receives what sends requests.
    """

    kind: str
    database: str
    """The file with the state of the agents, in the folder of the run."""
    bridge: LoopBridge | None = None
    """In an async run of an agent with async methods, what runs it."""

    def __init__(self, agent: Any, options: RunOptions, offer: Offer) -> None:
        self.agent = agent
        self.config: RunnableConfig = options["config"] or {}
        self.offer = offer
        self.session = uuid.uuid4().hex
        """Differs between two runs of the program."""
        self.run_id = ""
        self.sent: set[int] = set()
        """The agents that have waited for a wave."""
        self.user_answers = dict(options["resume"] or {})
        """Answers to the agents' own interrupts that were not passed to them yet."""

    def configurable(self, asker: object) -> dict[str, Any]:
        """Return the `configurable` values of an agent."""
        return {**self.config.get("configurable", {}), CONFIG_KEY: asker}

    def open_results(self, path: Path, stack: ExitStack) -> None:  # noqa: B027
        """Prepare for code that reads the results later."""

    @abstractmethod
    def result(self, index: int) -> Any:
        """Return what `invoke` would return."""

    async def aresult(self, index: int) -> Any:
        """Return the result, without blocking the event loop."""
        return await asyncio.to_thread(self.result, index)


def request_of(key: str, question: JsonObject) -> AgentRequest:
    """Return the request that a question of a model is about."""
    body = str(question["body"]).encode()
    return AgentRequest(key, question["model"], body, question["call"])


def lost_state(where: str, index: int, remedy: str) -> InvalidOptionError:
    """Return the error about the state of an agent that no longer exists."""
    return InvalidOptionError(
        f"{where} no state for input {index}, for which requests were sent before. {remedy} To "
        "start again, use another path."
    )


def flush_sqlite(path: Path) -> None:
    """Write all commits to the disk."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")


# Running a `ToolLoop`


class LoopPause(BaseException):
    """A loop waits for a batch job. Not an `Exception`, so that nothing handles it."""

    def __init__(self, question: JsonObject) -> None:
        super().__init__("The loop waits for a batch job.")
        self.question = question


@dataclass
class LoopStep(Asker):
    """The asker of one step of a loop: it knows the answers to the first call."""

    pauses = LoopPause
    answers: tuple[JsonObject, ...] = ()
    _used: int = 0

    def ask(self, question: JsonObject, *, or_another: bool = False) -> JsonObject:  # noqa: ARG002
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

    def _run(self, index: int, state: _LoopState) -> AgentStep:
        asker = LoopStep(self.session, self.offer, answers=state.answers)
        config: RunnableConfig = {**self.config, "configurable": self.configurable(asker)}
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
    return f"{index}-{state.turns}-{len(state.answers)}"


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
