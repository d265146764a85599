"""Items of a batch job as runs of LangChain's callbacks, for tracers and token counters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManager
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
        merged = ensure_config(config)
        self._name = merged.get("run_name") or traced.model.get_name()
        self._params = dict(traced.params)
        self._manager = CallbackManager.configure(
            merged.get("callbacks"),
            traced.model.callbacks,
            inheritable_tags=merged.get("tags"),
            local_tags=traced.model.tags,
            inheritable_metadata={**(merged.get("metadata") or {}), **traced.metadata},
            local_metadata=traced.model.metadata,
        )

    @property
    def is_heard(self) -> bool:
        """Whether there are callbacks."""
        return bool(self._manager.handlers)

    def report(self, body: bytes, outcome: Outcome) -> None:
        """Report one item as a run that starts and ends now.

        Args:
            body: The request, from which the texts and tool calls of the conversation are shown.
            outcome: What has become of it.
        """
        (run,) = self._manager.on_chat_model_start(
            {"name": self._name},
            [_messages(json.loads(body))],
            invocation_params=self._params,
            name=self._name,
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
