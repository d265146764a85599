"""What the three LangChain chat models share: everything except their construction."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field, create_model

from tests.benchmarks import workload
from tests.benchmarks.subjects import (
    CONCURRENT_CALLS,
    THREADED_CALLS,
    THREADS,
    Subject,
    Work,
    seen,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.tools import BaseTool

_SIGNATURES = "__gemini_function_call_thought_signatures__"


def make_function(number: int) -> Callable[..., str]:
    """Return a new function, to be bound as a tool."""

    def lookup(
        city: str,
        days: int = 3,
        units: Literal["metric", "imperial"] = "metric",
        tags: list[str] | None = None,
    ) -> str:
        return f"{city} {days} {units} {tags}"

    lookup.__name__ = workload.tool_name(number)
    lookup.__doc__ = f"""{workload.tool_description(number)}

    Args:
        city: The city, with its country if in doubt.
        days: How many days.
        units: Which units.
        tags: Only results with these tags.
    """
    return lookup


def make_tool(number: int) -> BaseTool:
    """Return a new LangChain tool, as agents make it from a function."""
    return tool(make_function(number), parse_docstring=True)


_UNITS: Any = Literal["metric", "imperial"]


def make_class(number: int) -> type[BaseModel]:
    """Return a new Pydantic class, to be bound as a tool."""
    return create_model(
        workload.tool_name(number),
        __doc__=workload.tool_description(number),
        city=(str, Field(description="The city, with its country if in doubt.")),
        days=(int, Field(3, description="How many days.")),
        units=(_UNITS, Field("metric", description="Which units.")),
        tags=(list[str] | None, Field(None, description="Only results with these tags.")),
    )


_MAKERS: dict[str, Callable[[int], Any]] = {
    "functions": make_function,
    "tools": make_tool,
    "classes": make_class,
}


def make_bindable(kind: str, count: int) -> list[Any]:
    """Return tools to bind: `functions`, LangChain's `tools`, or Pydantic `classes`."""
    return [_MAKERS[kind](number) for number in range(count)]


def make_messages(turns: int) -> list[BaseMessage]:
    """The history after a number of tool turns."""
    messages: list[BaseMessage] = [HumanMessage(workload.QUESTION)]
    for number in range(turns):
        call_id, name = workload.call_id(number), workload.call_name(number)
        call = {"name": name, "args": workload.call_args(number), "id": call_id}
        said = AIMessage(
            "",
            tool_calls=[call],
            additional_kwargs={_SIGNATURES: {call_id: workload.signature(number)}},
            response_metadata={
                "model_provider": "google_genai",
                "model_name": "gemini-3-bench",
                "finish_reason": "STOP",
            },
        )
        result = ToolMessage(workload.result_text(number), tool_call_id=call_id, name=name)
        messages += [said, result]
    return messages


def see_message(message: AIMessage) -> Any:
    """Return what a message says."""
    return seen(str(message.text), [(call["name"], call["args"]) for call in message.tool_calls])


class ChatModelSubject(Subject):
    """A LangChain chat model, used as its users do."""

    def __init__(self, url: str, make: Callable[[str], BaseChatModel]) -> None:
        super().__init__(url)
        self.model = make(workload.TEXT_MODEL)
        self._loop_model = make(workload.LOOP_MODEL)
        self._stream_models = {
            name: make(name) for name in (workload.STREAM_MODEL, workload.CALLS_MODEL)
        }

    def _bound(self, tools: int) -> Any:
        if not tools:
            return self.model
        return self.model.bind_tools([make_tool(number) for number in range(tools)])

    def call(self, tools: int, turns: int) -> Work:
        model, messages = self._bound(tools), make_messages(turns)
        return Work(lambda _: model.invoke(messages), see=see_message)

    def call_on_new_messages(self, tools: int, turns: int) -> Work:
        model = self._bound(tools)
        return Work(model.invoke, lambda: make_messages(turns), see_message)

    def bind_new(self, kind: str, count: int) -> Work:
        return Work(self.model.bind_tools, lambda: make_bindable(kind, count), _see_bound)

    def bind_again(self, kind: str, count: int) -> Work:
        given = make_bindable(kind, count)
        return Work(lambda _: self.model.bind_tools(given), see=_see_bound)

    def loop(self, tools: int) -> Work:
        given = [make_tool(number) for number in range(tools)]

        def run(_: Any) -> list[float]:
            start = time.process_time()
            messages: list[BaseMessage] = [HumanMessage(workload.QUESTION)]
            marks: list[float] = []
            for number in range(workload.LOOP_TURNS):
                # As `create_agent` does, which lets middleware change the tools at every step.
                answer = self._loop_model.bind_tools(given).invoke(messages)
                call = answer.tool_calls[0]
                result = workload.result_text(number)
                messages += [
                    answer,
                    ToolMessage(result, tool_call_id=call["id"], name=call["name"]),
                ]
                marks.append(time.process_time() - start)
            return marks

        return Work(run)

    def stream(self, model: str) -> Work:
        chat = self._stream_models[model]
        return Work(lambda _: list(chat.stream(workload.QUESTION)), see=_see_chunks)

    def astream(self, model: str) -> Work:
        chat = self._stream_models[model]

        async def read() -> list[AIMessageChunk]:
            return [chunk async for chunk in chat.astream(workload.QUESTION)]

        return Work(lambda _: self.wait_for(read()), see=_see_chunks)

    def first_chunk(self, turns: int) -> Work:
        chat = self._stream_models[workload.STREAM_MODEL]
        messages = make_messages(turns)

        def run(_: Any) -> Any:
            chunks = chat.stream(messages)
            return next(chunks), chunks

        def see(result: Any) -> Any:
            first, chunks = result
            chunks.close()
            return str(first.text)

        return Work(run, see=see)

    def concurrently(self, tools: int) -> Work:
        model = self._bound(tools)

        async def ask() -> list[AIMessage]:
            calls = [model.ainvoke(workload.QUESTION) for _ in range(CONCURRENT_CALLS)]
            return list(await asyncio.gather(*calls))

        return Work(lambda _: self.wait_for(ask()), see=_see_messages)

    def in_threads(self, tools: int) -> Work:
        model = self._bound(tools)

        def run(_: Any) -> list[AIMessage]:
            with ThreadPoolExecutor(THREADS) as pool:
                return list(pool.map(model.invoke, [workload.QUESTION] * THREADED_CALLS))

        return Work(run, see=_see_messages)


def _see_bound(bound: Any) -> Any:
    return len(bound.kwargs["tools"]) > 0


def _see_messages(messages: list[AIMessage]) -> Any:
    return [see_message(message) for message in messages]


def _see_chunks(chunks: list[AIMessageChunk]) -> Any:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return see_message(whole)
