"""A chat model that returns scripted messages and records its inputs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.messages import BaseMessage, ToolCall


@dataclass(frozen=True)
class Asked:
    """What the model was asked with."""

    messages: list[BaseMessage]
    tools: list[str]
    tool_choice: Any
    options: dict[str, Any]


class ScriptedModel(BaseChatModel):
    """Returns its replies one after another; raises those that are exceptions."""

    replies: list[Any]
    asked: list[Any] = Field(default_factory=list)
    piece: int = 4

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        names = [tool if isinstance(tool, dict) else tool.name for tool in tools]
        return self.bind(tools=names, tool_choice=tool_choice, **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages, kwargs))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in in_pieces(self._next(messages, kwargs), self.piece):
            if run_manager:
                run_manager.on_llm_new_token(
                    str(chunk.text), chunk=ChatGenerationChunk(message=chunk)
                )
            yield ChatGenerationChunk(message=chunk)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        await asyncio.sleep(0)
        return self._generate(messages, **kwargs)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in in_pieces(self._next(messages, kwargs), self.piece):
            await asyncio.sleep(0)
            if run_manager:
                generation = ChatGenerationChunk(message=chunk)
                await run_manager.on_llm_new_token(str(chunk.text), chunk=generation)
            yield ChatGenerationChunk(message=chunk)

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        tools, choice = kwargs.pop("tools", []), kwargs.pop("tool_choice", None)
        self.asked.append(Asked(list(messages), tools, choice, kwargs))
        reply = self.replies[len(self.asked) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply


def in_pieces(message: AIMessage, size: int) -> Iterator[AIMessageChunk]:
    """Text, then one chunk for each call, then what holds for the whole."""
    text = str(message.text)
    for start in range(0, len(text), size):
        yield AIMessageChunk(content=text[start : start + size])
    for number, call in enumerate(message.tool_calls):
        args = json.dumps(call["args"])
        chunk = tool_call_chunk(name=call["name"], args=args, id=call["id"], index=number)
        yield AIMessageChunk(content="", tool_call_chunks=[chunk])
    yield AIMessageChunk(
        content="",
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )


def call(name: str, call_id: str = "1", /, **args: Any) -> ToolCall:
    return tool_call(name=name, args=args, id=call_id)


def calls(*asked: ToolCall, text: str = "", reason: str | None = None) -> AIMessage:
    """A message that asks for calls."""
    metadata = {"finish_reason": reason} if reason else {}
    return AIMessage(text, tool_calls=list(asked), response_metadata=metadata)


def human(text: str) -> HumanMessage:
    return HumanMessage(text)


def tool_texts(result: Any) -> list[tuple[str, str, str]]:
    """Return id, status and text of each tool message."""
    return [
        (message.tool_call_id, message.status, str(message.text))
        for message in result.new_messages
        if isinstance(message, ToolMessage)
    ]
