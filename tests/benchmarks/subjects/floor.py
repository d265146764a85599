"""The minimum that a LangChain chat model must do to send the same: no checks, no options.

The HTTP library is the one that ours uses, so that the difference is not the library's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.messages import BaseMessage

_SIGNATURES = "__gemini_function_call_thought_signatures__"
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


class FloorChatModel(BaseChatModel):
    """Sends the messages of the benchmark in the same body as the other subjects."""

    model: str
    url: str
    _client: Any = PrivateAttr(default=None)
    _async_client: Any = PrivateAttr(default=None)

    def model_post_init(self, _: Any) -> None:
        self._client = httpx2.Client(timeout=600, limits=_LIMITS)
        self._async_client = httpx2.AsyncClient(timeout=600, limits=_LIMITS)

    @property
    def _llm_type(self) -> str:
        return "floor"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        converted = [convert_to_openai_tool(tool)["function"] for tool in tools]
        return self.bind(tools=[_declaration(function) for function in converted], **kwargs)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        response = self._client.post(
            f"{self.url}/v1beta/models/{self.model}:generateContent", **_request(messages, kwargs)
        )
        return _result(json.loads(response.content))

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        response = await self._async_client.post(
            f"{self.url}/v1beta/models/{self.model}:generateContent", **_request(messages, kwargs)
        )
        return _result(json.loads(response.content))

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        url = f"{self.url}/v1beta/models/{self.model}:streamGenerateContent?alt=sse"
        with self._client.stream("POST", url, **_request(messages, kwargs)) as response:
            buffer = b""
            for piece in response.iter_bytes():
                *events, buffer = (buffer + piece).split(b"\r\n\r\n")
                for event in events:
                    chunk = _chunk(json.loads(event[5:]))
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        url = f"{self.url}/v1beta/models/{self.model}:streamGenerateContent?alt=sse"
        async with self._async_client.stream("POST", url, **_request(messages, kwargs)) as response:
            buffer = b""
            async for piece in response.aiter_bytes():
                *events, buffer = (buffer + piece).split(b"\r\n\r\n")
                for event in events:
                    chunk = _chunk(json.loads(event[5:]))
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk


def _declaration(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function["description"],
        "parametersJsonSchema": function["parameters"],
    }


def _request(messages: list[BaseMessage], kwargs: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"contents": [_content(message) for message in messages]}
    if tools := kwargs.get("tools"):
        body["tools"] = [{"functionDeclarations": tools}]
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {"content": text.encode(), "headers": {"content-type": "application/json"}}


def _content(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, AIMessage):
        signatures = message.additional_kwargs[_SIGNATURES]
        return {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"id": call["id"], "name": call["name"], "args": call["args"]},
                    "thoughtSignature": signatures[call["id"]],
                }
                for call in message.tool_calls
            ],
        }
    if isinstance(message, ToolMessage):
        text: Any = message.content
        answer = {
            "id": message.tool_call_id,
            "name": message.name,
            "response": {"output": json.loads(text) if text.startswith("{") else text},
        }
        return {"role": "user", "parts": [{"functionResponse": answer}]}
    if isinstance(message.content, list):
        return {"role": "user", "parts": [_image_or_text(block) for block in message.content]}
    return {"role": "user", "parts": [{"text": message.content}]}


def _image_or_text(block: Any) -> dict[str, Any]:
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"inlineData": {"mimeType": block["mime_type"], "data": block["base64"]}}


def _result(reply: dict[str, Any]) -> ChatResult:
    candidate = reply["candidates"][0]
    parts = candidate["content"]["parts"]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    message = AIMessage(
        "".join(part.get("text", "") for part in parts),
        tool_calls=[{"name": c["name"], "args": c["args"], "id": c["id"]} for c in calls],
        additional_kwargs=_signatures(parts),
        response_metadata={"finish_reason": candidate["finishReason"]},
        usage_metadata=_usage(reply["usageMetadata"]),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(reply: dict[str, Any]) -> ChatGenerationChunk:
    candidate = reply["candidates"][0]
    parts = candidate["content"]["parts"]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    message = AIMessageChunk(
        content="".join(part.get("text", "") for part in parts),
        tool_call_chunks=[
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": None}
            for c in calls
        ],
        additional_kwargs=_signatures(parts),
        response_metadata={"finish_reason": "STOP"} if "finishReason" in candidate else {},
        usage_metadata=_usage(reply["usageMetadata"]) if "finishReason" in candidate else None,
    )
    return ChatGenerationChunk(message=message)


def _signatures(parts: list[dict[str, Any]]) -> dict[str, Any]:
    signed = {p["functionCall"]["id"]: p["thoughtSignature"] for p in parts if "functionCall" in p}
    return {_SIGNATURES: signed} if signed else {}


def _usage(usage: dict[str, Any]) -> Any:
    return {
        "input_tokens": usage["promptTokenCount"],
        "output_tokens": usage["candidatesTokenCount"],
        "total_tokens": usage["totalTokenCount"],
    }


def make(url: str) -> Any:
    from tests.benchmarks.subjects.chat_models import ChatModelSubject

    return ChatModelSubject(url, lambda model: FloorChatModel(model=model, url=url))
