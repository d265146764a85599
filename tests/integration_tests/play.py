"""A scripted conversation and its requests, which tests of executors compare."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

JsonObject = dict[str, Any]


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


WEATHER: JsonObject = {
    "name": "get_weather",
    "description": "Current weather in a city.",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
"""What `get_weather` is declared as."""


def graph_by_hand(chat: Any, tools: Sequence[Any], **options: Any) -> Any:
    """Return a LangGraph graph that alternates between model and tools, sync or async."""
    from langchain_core.runnables import RunnableLambda
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    bound = chat.bind_tools(tools)

    def ask(state: Any) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def aask(state: Any) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", RunnableLambda(ask, aask))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**options)


@dataclass
class Play:
    """One conversation with one model: script its replies, then read the requests."""

    emulator: Emulator
    make_model: MakeModel
    name: str
    _call_ids: list[str] = field(default_factory=list)
    _step: int = 0

    @property
    def is_gemini_3(self) -> bool:
        return self.name.startswith("gemini-3")

    def model(self, **overrides: Any) -> ChatGemini:
        return self.make_model(**({"model": self.name} | overrides))

    def calls(self, *calls: tuple[str, JsonObject], before: str | None = None) -> None:
        """Script a step: text, then calls. Gemini 3 gives ids, and signs the first call."""
        parts: list[JsonObject] = [{"text": before}] if before else []
        self._step += 1
        for number, (name, args) in enumerate(calls, 1):
            function_call: JsonObject = {"name": name, "args": args}
            if self.is_gemini_3:
                function_call["id"] = f"step{self._step}call{number}"
                self._call_ids.append(function_call["id"])
            signature = self.signature(self._step) if number == 1 else None
            parts.append(_signed({"functionCall": function_call}, signature))
        self.emulator.reply(parts=parts)

    def says(self, words: str) -> None:
        """Script an answer, which Gemini 3 signs."""
        self._step += 1
        self.emulator.reply(parts=[_signed({"text": words}, self.signature(self._step))])

    def signature(self, step: int) -> str | None:
        """Return the signature of a step, counted from 1; Gemini 2.5 has none."""
        if not self.is_gemini_3:
            return None
        # Both special signs of base64 are in it.
        return base64.b64encode(b"\xfb\xff\xbf" + f"step {step}".encode()).decode()

    def ids(self, messages: Iterable[Any]) -> list[str]:
        """Return the ids of all calls in some messages: the API's, or ours if it gave none."""
        ids = [
            str(call["id"])
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]
        if self.is_gemini_3:
            assert ids == self._call_ids[: len(ids)]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        return ids

    @property
    def sent(self) -> list[Any]:
        """Return every body that was sent."""
        return [request.body for request in self.emulator.requests]


def request(*contents: JsonObject, tools: Iterable[JsonObject] = (WEATHER,), **more: Any) -> Any:
    """Return a whole body: contents, declarations and all other fields."""
    declared = {"tools": [{"functionDeclarations": [*tools]}]} if tools else {}
    return {"contents": [*contents], **declared, **more}


def user(*parts: str | JsonObject) -> JsonObject:
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model(*parts: str | JsonObject) -> JsonObject:
    return {"role": "model", "parts": [_part(part) for part in parts]}


def text(words: str, signature: str | None = None) -> JsonObject:
    return _signed({"text": words}, signature)


def call(name: str, args: JsonObject, call_id: str, signature: str | None = None) -> JsonObject:
    return _signed({"functionCall": {"id": call_id, "name": name, "args": args}}, signature)


def result(name: str, output: Any, call_id: str, key: str = "output") -> JsonObject:
    return {"functionResponse": {"id": call_id, "name": name, "response": {key: output}}}


def _part(part: str | JsonObject) -> JsonObject:
    return {"text": part} if isinstance(part, str) else part


def _signed(part: JsonObject, signature: str | None) -> JsonObject:
    return part | {"thoughtSignature": signature} if signature else part
