"""Runs an agent of `run_in_batches` from one call of its model to the next.

The config of the run switches `ask_in_batches` on. The call is not sent: its request is handed to
an `Asker`, which stops the agent until a batch job has answered it. When the agent resumes, the
same call is made again, and the answer is parsed as that of any request.

`LoopRunner`, in `loop_runner`, runs a `ToolLoop`; `GraphRunner`, in `graph_runner`, a LangGraph
agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import uuid
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_gemini_tools.batch import CONFIG_KEY
from langchain_gemini_tools.batch.items import evaluate, schema_rewriter
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

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
_DIGEST = 32


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

    def wait_for_others(self) -> None:  # noqa: B027
        """Wait, before a call stops the agent, for calls that have answers and still need them."""

    async def await_others(self) -> None:  # noqa: B027
        """Wait as `wait_for_others` does, without blocking the event loop."""


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
        if failed and not attempts and not is_same_call(answer["call"], call):
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
    """Return a digest of the messages and the model of a request, and one of the whole request.

    Calls that differ only elsewhere may be the same, such as with the time in a system prompt; or
    another one of the same node, such as with another schema. See `is_same_call`.
    """
    contents = encode_json(request.body.get("contents"), is_large=True)
    # In place of a lone surrogate, a request has U+FFFD, and LangGraph's checkpoints have "?".
    contents = contents.replace("\ufffd".encode(), b"?")
    whole = hashlib.sha256(request.encoded).hexdigest()[:16]
    return (
        hashlib.sha256(request.invocation.model.encode() + contents).hexdigest()[:_DIGEST] + whole
    )


def is_same_call(answered: str, call: str) -> bool:
    """Return whether two calls have the same messages and the same model."""
    return answered[:_DIGEST] == call[:_DIGEST]


def _check_same_call(answered: str, call: str) -> None:
    if not is_same_call(answered, call):
        raise no_same_call()


def no_same_call() -> InvalidOptionError:
    """Return the error for an answer to a call that is not made again."""
    return InvalidOptionError(
        "The answer of the batch belongs to another call of the model in the same node or tool. "
        "It is run again when the answer has come, so it must repeat its calls, with the same "
        "model and the same messages: keep times and random values out of the messages. Make "
        "parallel calls of async code in separate nodes (Send). If the agent was changed since "
        "the request was sent, use the old one, or another path."
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
