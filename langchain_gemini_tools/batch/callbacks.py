"""Items of a batch job as runs of LangChain's callbacks, for tracers and token counters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManager
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import LLMResult

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch.items import Outcome


def report_item(config: RunnableConfig, body: bytes, outcome: Outcome, model: str) -> None:
    """Report one item as a run that starts and ends now.

    Args:
        config: Its callbacks, tags and metadata.
        body: The request, from which the texts of the conversation are shown.
        outcome: What has become of it.
        model: The name of the model.
    """
    manager = CallbackManager.configure(
        config.get("callbacks"),
        inheritable_tags=config.get("tags"),
        inheritable_metadata=config.get("metadata"),
    )
    shown = {"name": "ChatGemini"}
    (run,) = manager.on_chat_model_start(
        shown, [_messages(json.loads(body))], invocation_params={"model": model}
    )
    if outcome.result is not None:
        run.on_llm_end(LLMResult(generations=[[*outcome.result.generations]]))
    elif outcome.error is not None:
        run.on_llm_error(outcome.error)


def _messages(body: dict[str, Any]) -> list[BaseMessage]:
    system = _text(body.get("systemInstruction") or {})
    messages: list[BaseMessage] = [SystemMessage(system)] if system else []
    for content in body.get("contents") or ():
        kind = AIMessage if content.get("role") == "model" else HumanMessage
        messages.append(kind(_text(content)))
    return messages


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text") or "" for part in content.get("parts") or ())
