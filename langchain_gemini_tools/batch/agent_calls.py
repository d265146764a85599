"""A call of the model inside an agent that runs in batches.

The config of the run switches it on. The call is not sent: its request is handed to an `Asker`,
which stops the agent until a batch job has answered it. When the agent resumes, the same call is
made again, and the answer is parsed as that of any request.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from langchain_gemini_tools.batch.inputs import schema_rewriter
from langchain_gemini_tools.batch.items import Evaluator
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.batch.inputs import BatchSource
    from langchain_gemini_tools.batch.items import ItemOutcome
    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.wire.request import RenderedRequest

    Offer = Callable[[BatchSource], None]
    """Receives what sends the requests of a model."""

CONFIG_KEY = "gemini_batch"
"""The key in `configurable` that switches batches on: an `Asker`, or True in LangGraph."""
REQUEST_TYPE = "gemini_batch_request"
"""The `type` of the interrupts of this module."""
is_in_run: ContextVar[bool] = ContextVar("is_in_run", default=False)
"""Whether the code runs in a step of `run_in_batches`."""


class Asker(Protocol):
    """What a call hands its request to."""

    session: str
    """Differs between two runs of the program."""
    keeps_failures: bool
    """Whether failures in earlier runs of the program are final."""

    @property
    def pauses(self) -> type[BaseException]:
        """The exception that `ask` raises."""

    @property
    def offer(self) -> Offer:
        """Receives what sends requests of this model."""

    def ask(self, question: JsonObject) -> JsonObject:
        """Return the answer to a request, or stop the agent until there is one."""

    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the next call, to which it belongs."""


@dataclass
class GraphStep:
    """The asker of one step of a LangGraph thread: it stops the thread by an interrupt."""

    session: str = ""
    offer: Offer = lambda _: None
    keeps_failures: bool = False
    _raised: dict[str, BaseException] = field(default_factory=dict)
    """The interrupt of each task. On resuming, LangGraph would confuse a second one with the
    first, for instance that of a fallback, which handles the interrupt like an error."""
    _kept: dict[str, JsonObject] = field(default_factory=dict)
    _answered: Counter[str] = field(default_factory=Counter)
    """How many answers each task has used. LangGraph before 1.2.20 gives all interrupts of a
    task the same id."""

    @property
    def pauses(self) -> type[BaseException]:
        """LangGraph's exception for interrupts."""
        from langgraph.errors import GraphInterrupt

        return GraphInterrupt

    def ask(self, question: JsonObject) -> JsonObject:
        """Return the answer with which the thread was resumed, or interrupt the thread."""
        from langgraph.types import interrupt

        task = _find_task()
        if task in self._raised:
            raise self._raised[task]
        if task in self._kept:
            return self._kept.pop(task)
        try:
            answer: JsonObject = interrupt({**question, "number": self._answered[task]})
        except self.pauses as raised:
            self._raised[task] = raised
            raise
        self._answered[task] += 1
        return answer

    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the next call, to which it belongs."""
        self._kept[_find_task()] = answer


def _find_task() -> str:
    config = var_child_runnable_config.get() or {}
    return str(config.get("configurable", {}).get("checkpoint_ns"))


class PauseKeeper(BaseCallbackHandler):
    """Raises the interrupt of a waiting call again where a node or a tool of the user catches it.

    Otherwise they would continue without the answer. LangGraph stores nothing of a node that is
    interrupted.
    """

    raise_error = True
    run_inline = True

    def __init__(self) -> None:
        self._root: UUID | None = None
        self._pauses: dict[UUID | None, BaseException] = {}
        """The interrupts with which runs have to end."""

    def on_chain_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Note the run of the whole thread, whose interrupts LangGraph handles."""
        self._root = self._root or run_id

    def on_llm_end(
        self,
        response: LLMResult,  # noqa: ARG002
        *,
        parent_run_id: UUID | None = None,
        pause: BaseException | None = None,
        **_: Any,
    ) -> None:
        """Note a call that waits."""
        if pause is not None:
            self._pauses[parent_run_id] = pause

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Pass an interrupt on to the parent."""
        from langgraph.errors import GraphInterrupt

        pause = self._take(run_id)
        if isinstance(error, GraphInterrupt):
            self._pauses[parent_run_id] = error
        elif pause is not None and isinstance(error, Exception):  # raised because of the interrupt
            self._raise(pause, parent_run_id)

    on_llm_error = on_tool_error = on_chain_error

    def on_chain_end(
        self,
        outputs: Any,  # noqa: ARG002
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        """Raise an interrupt that was caught."""
        if (pause := self._take(run_id)) is not None:
            self._raise(pause, parent_run_id)

    def on_tool_end(self, output: Any, **about: Any) -> None:
        """Raise an interrupt that was caught."""
        self.on_chain_end(output, **about)

    def _take(self, run_id: UUID) -> BaseException | None:
        pause = self._pauses.pop(run_id, None)
        return None if run_id == self._root else pause

    def _raise(self, pause: BaseException, parent_run_id: UUID | None) -> None:
        self._pauses[parent_run_id] = pause
        raise _caught_interrupt()(*pause.args)


@cache
def _caught_interrupt() -> type[BaseException]:
    from langgraph.errors import GraphInterrupt

    class CaughtInterrupt(GraphInterrupt):
        def __repr__(self) -> str:  # LangChain logs it
            return (
                "A node or a tool caught the exception that makes a model call wait for its batch "
                "job. It is raised again. Add `except GraphBubbleUp: raise` (of "
                "langgraph.errors) before `except Exception`."
            )

    return CaughtInterrupt


def find_asker() -> Asker | None:
    """Return what answers the calls of this run; None if they are sent as usual."""
    config = var_child_runnable_config.get()
    configurable = config.get("configurable", {}) if config else {}
    found = configurable.get(CONFIG_KEY)
    if not found:
        if is_in_run.get() and CONFIG_KEY not in configurable:
            warnings.warn(
                "A call of the model in run_in_batches is sent at once, at the standard price. It "
                "is in a graph that is called with a thread_id, which LangGraph runs separately. "
                "Call it without a thread_id, or with the config of the node or tool.",
                stacklevel=2,
            )
        return None
    asker: Asker = GraphStep() if found is True else found
    return asker


def ask_in_batches(asker: Asker, request: RenderedRequest, source: BatchSource) -> ChatResult:
    """Return the answer of a batch job to a request, as `invoke` would.

    Args:
        asker: What sends the request, or has the answer.
        request: The request.
        source: The model, with this request as the template.

    Raises:
        GeminiAPIError: The item failed, more often than it is retried.
        ResponseError: The response is not usable.
    """
    request = replace(request, encoded=schema_rewriter(request)(request.encoded))
    asker.offer(replace(source, template=request))
    call, body = _identify(request), request.encoded
    evaluator = Evaluator(request, source.client)
    attempts: list[JsonObject] = []
    failed: ItemOutcome | None = None
    while True:
        question = {"type": REQUEST_TYPE, "model": request.invocation.model, "call": call}
        answer = asker.ask({**question, "body": body.decode()})
        if failed and not attempts and answer["call"][1] != call[1]:
            asker.keep(answer)  # the agent has handled the failure, and made another call
            outcome = failed
            break
        _check_same_call(answer["call"], call)
        attempts.append(answer["line"])
        outcome = evaluator.evaluate(attempts, lambda: request.encoded)
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


def _identify(request: RenderedRequest) -> list[str]:
    """Return the digests of a whole request, and of its messages and model."""
    contents = encode_json(request.body.get("contents"), is_large=True)
    model = request.invocation.model.encode()
    return [_digest(model + request.encoded), _digest(model + contents)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _check_same_call(answered: list[str], call: list[str]) -> None:
    # What differs outside of the messages, such as the time in a system prompt, is not an error.
    if answered[1] != call[1]:
        raise InvalidOptionError(
            "The answer of the batch belongs to another call of the model in the same node. "
            "LangGraph runs a node again when it resumes, so a node must repeat its calls in the "
            "same order, with the same model and the same messages. Make parallel calls in "
            "separate nodes (Send), and keep times and random values out of the messages. If the "
            "agent was changed since the request was sent, use the old one, or another path."
        )


def as_chunk(result: ChatResult) -> ChatGenerationChunk:
    """Return a whole result as the only chunk of a stream."""
    (generation,) = result.generations
    message = generation.message
    assert isinstance(message, AIMessage)  # noqa: S101 - as parsed
    fields = message.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    calls = [
        tool_call_chunk(
            name=call["name"], args=encode_json(call["args"]).decode(), id=call["id"], index=index
        )
        for index, call in enumerate(message.tool_calls)
    ]
    calls += [
        tool_call_chunk(name=call["name"], args=call["args"], id=call["id"], index=index)
        for index, call in enumerate(message.invalid_tool_calls, len(calls))
    ]
    chunk = AIMessageChunk(**fields, tool_call_chunks=calls, chunk_position="last")
    return ChatGenerationChunk(message=chunk, generation_info=generation.generation_info)


def interrupted_result() -> LLMResult:
    """Return what callbacks see of a call that waits for a batch job."""
    message = AIMessage("", response_metadata={"interrupted": "The call waits for a batch job."})
    return LLMResult(generations=[[ChatGeneration(message=message)]])
