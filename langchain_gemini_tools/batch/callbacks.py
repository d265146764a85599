"""Items of a batch job as runs of LangChain's callbacks, for tracers and token counters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManager
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import ensure_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.items import Outcome


@dataclass(frozen=True)
class TracedModel:
    """What callbacks receive about the model of a job."""

    model: BaseChatModel
    params: Mapping[str, Any]
    """Its options, as callbacks of `invoke` receive them."""
    metadata: Mapping[str, Any]
    """Its `ls_*` parameters."""


class ItemReporter:
    """Reports items to the callbacks that would see an `invoke` of the model here and now.

    Args:
        traced: The model.
        config: Callbacks, tags, metadata and the name of the runs.
    """

    def __init__(self, traced: TracedModel, config: RunnableConfig | None) -> None:
        self._traced = traced
        self._config = ensure_config(config)
        self.is_heard = bool(self._manager().handlers)
        """Whether there are callbacks."""

    def _manager(self) -> CallbackManager:
        """Return a manager for one run: tracers write into its metadata."""
        model, config = self._traced.model, self._config
        return CallbackManager.configure(
            config.get("callbacks"),
            model.callbacks,
            inheritable_tags=config.get("tags"),
            local_tags=model.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **self._traced.metadata},
            local_metadata=model.metadata,
        )

    @cached_property
    def _serialized(self) -> dict[str, Any]:
        serialized: dict[str, Any] = dumpd(self._traced.model)
        return serialized

    def report(self, body: bytes, outcome: Outcome) -> None:
        """Report one item as a run that starts and ends now.

        Args:
            body: The request, from which the texts and tool calls of the conversation are shown.
            outcome: What has become of it.
        """
        (run,) = self._manager().on_chat_model_start(
            self._serialized,
            [_messages(json.loads(body))],
            invocation_params=dict(self._traced.params),
            name=self._config.get("run_name"),
        )
        if outcome.result is not None:
            run.on_llm_end(LLMResult(generations=[[*outcome.result.generations]]))
        elif outcome.error is not None:
            run.on_llm_error(outcome.error, response=LLMResult(generations=[]))


def _messages(body: dict[str, Any]) -> list[BaseMessage]:
    system = _text(body.get("systemInstruction") or {})
    messages: list[BaseMessage] = [SystemMessage(system)] if system else []
    for content in body.get("contents") or ():
        parts = content.get("parts") or ()
        if content.get("role") == "model":
            calls = [_tool_call(part["functionCall"]) for part in parts if "functionCall" in part]
            messages.append(AIMessage(_text(content), tool_calls=calls))
            continue
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += map(_tool_message, results)
        if (text := _text(content)) or not results:
            messages.append(HumanMessage(text))
    return messages


def _tool_call(call: dict[str, Any]) -> ToolCall:
    return ToolCall(name=call["name"], args=call.get("args") or {}, id=_id_of(call))


def _tool_message(result: dict[str, Any]) -> ToolMessage:
    text = json.dumps(result.get("response"), ensure_ascii=False, separators=(",", ":"))
    return ToolMessage(text, name=result["name"], tool_call_id=_id_of(result))


def _id_of(part: dict[str, Any]) -> str:
    return str(part.get("id") or part["name"])


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text") or "" for part in content.get("parts") or ())
