"""Example runs with fixed numbers."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_gemini_tools import RunClock

HOSTILE = (
    "<script>document.title='owned'</script></style></details><img src=x onerror=alert(1)>"
    '[bold]b[/bold] \x1b]0;owned\x07 \u202eleft "] --> x["'
)


def answer(content: Any = "", *, model: str = "gemini-2.0-flash", **fields: Any) -> AIMessage:
    """1,000 tokens in and 200 out, of a model whose price no longer changes."""
    defaults = {"model_provider": "google_genai", "model_name": model, "finish_reason": "STOP"}
    metadata = defaults | fields.pop("response_metadata", {})
    usage = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200}
    settings: dict[str, Any] = {"usage_metadata": usage, "response_metadata": metadata}
    return AIMessage(content, **(settings | fields))


def call(name: str, call_id: str, /, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id}


def weather_run() -> list[BaseMessage]:
    """Two parallel calls, one of which fails, and an answer."""
    calls = [call("get_weather", "a", city="Oslo"), call("get_weather", "b", city="Rome")]
    return [
        HumanMessage("What is the weather?"),
        answer(tool_calls=calls, id="first"),
        ToolMessage("-3 °C, snow", tool_call_id="a", name="get_weather"),
        ToolMessage("no such city", tool_call_id="b", name="get_weather", status="error"),
        answer("Snow in Oslo; I do not know about Rome.", id="second"),
    ]


def weather_clock() -> RunClock:
    """A clock that saw `weather_run`: each event comes a tenth of a second after the last one."""
    ticks = count()
    clock = RunClock(now=lambda: next(ticks) / 10)
    model, tools = uuid4(), [uuid4(), uuid4()]
    clock.on_chat_model_start({}, [], run_id=model)
    clock.on_llm_end(result("first"), run_id=model)
    for run_id, call_id in zip(tools, "ab", strict=True):
        clock.on_tool_start({}, "", run_id=run_id, tool_call_id=call_id)
    clock.on_tool_end("-3 °C, snow", run_id=tools[0])
    clock.on_tool_error(ValueError("no such city"), run_id=tools[1], tool_call_id="b")
    clock.on_chat_model_start({}, [], run_id=model)
    clock.on_retry(None, run_id=model)
    clock.on_llm_new_token("", run_id=model)
    clock.on_llm_end(result("second"), run_id=model)
    return clock


def result(message_id: str) -> LLMResult:
    message = AIMessage("", id=message_id)
    return LLMResult(generations=[[ChatGeneration(message=message)]])
