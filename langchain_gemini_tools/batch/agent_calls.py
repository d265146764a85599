"""A call of the model inside an agent that runs in batches.

The config of the run switches it on. The call is not sent: its request is handed to an `Asker`,
which stops the agent until a batch job has answered it. When the agent resumes, the same call is
made again, and the answer is parsed as that of any request.
"""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from langchain_gemini_tools.batch.items import evaluate, schema_rewriter
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.batch.items import BatchSource, ItemOutcome
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
    def ask(self, question: JsonObject) -> JsonObject:
        """Return the answer to a request, or stop the agent until there is one."""

    @abstractmethod
    def keep(self, answer: JsonObject) -> None:
        """Keep an answer for the next call, to which it belongs."""


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
    if found is not True:
        asker: Asker = found
        return asker
    from langchain_gemini_tools.batch.graph_runner import GraphStep

    return GraphStep()


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
        answer = asker.ask({**question, "body": body.decode()})
        if failed and not attempts and answer["call"][1] != call[1]:
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
    # It makes tool call chunks of the tool calls.
    chunk = AIMessageChunk(**generation.message.model_dump(exclude={"type"}), chunk_position="last")
    return ChatGenerationChunk(message=chunk, generation_info=generation.generation_info)


def interrupted_result() -> LLMResult:
    """Return what callbacks see of a call that waits for a batch job."""
    message = AIMessage("", response_metadata={"interrupted": "The call waits for a batch job."})
    return LLMResult(generations=[[ChatGeneration(message=message)]])
