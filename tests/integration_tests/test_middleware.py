"""Middleware of `create_agent`: retries, limits, fallbacks, tools that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    TodoListMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_gemini_tools.wire.replay import SKIP_SIGNATURE
from tests.integration_tests.play import (
    WEATHER,
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    user,
)

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo?"
ASKED = {"messages": [HumanMessage(QUESTION)]}


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"Found {query}"


SEARCH = {
    "name": "search",
    "description": "Search the web.",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
}


async def _run(agent: Any, way: str) -> list[Any]:
    """The messages of a run, in one of three ways."""
    if way == "invoke":
        return list(agent.invoke(ASKED)["messages"])
    if way == "ainvoke":
        return list((await agent.ainvoke(ASKED))["messages"])
    messages: list[Any] = []
    for mode, event in agent.stream(ASKED, stream_mode=["messages", "values"]):
        if mode == "values":
            messages = event["messages"]
        else:
            assert isinstance(event[0], (AIMessageChunk, AIMessage, ToolMessage))
    return messages


WAYS = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])


@WAYS
async def test_a_tool_that_is_tried_again_is_answered_once(play: Play, way: str) -> None:
    tries: list[str] = []

    @tool("get_weather", description="Current weather in a city.")
    def shaky(city: str) -> str:
        tries.append(city)
        if len(tries) < 3:
            raise ConnectionError("No line.")
        return f"Sunny in {city}"

    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    messages = await _run(create_agent(play.model(), tools=[shaky], middleware=[retry]), way)
    (call_id,) = play.ids(messages)
    assert tries == ["Oslo"] * 3
    assert play.sent == [
        request(user(QUESTION)),
        request(
            user(QUESTION),
            model(call("get_weather", OSLO, call_id, play.signature(1))),
            user(result("get_weather", "Sunny in Oslo", call_id)),
        ),
    ]


@WAYS
async def test_a_tool_that_raises_is_reported_as_an_error(play: Play, way: str) -> None:
    @tool("get_weather", description="Current weather in a city.")
    def broken(city: str) -> str:
        raise KeyError(city)

    play.calls(("get_weather", OSLO))
    play.says("I do not know.")
    reporting = ToolErrorMiddleware(lambda error, _: f"It broke: {error!r}")
    messages = await _run(create_agent(play.model(), tools=[broken], middleware=[reporting]), way)
    (call_id,) = play.ids(messages)
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("get_weather", OSLO, call_id, play.signature(1))),
        user(result("get_weather", "It broke: KeyError('Oslo')", call_id, key="error")),
    )


@WAYS
async def test_a_limit_of_calls_ends_the_run_with_text(play: Play, way: str) -> None:
    play.calls(("get_weather", OSLO))
    limit = ModelCallLimitMiddleware(run_limit=1)
    messages = await _run(create_agent(play.model(), tools=[get_weather], middleware=[limit]), way)
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "limit" in messages[-1].text
    assert play.sent == [request(user(QUESTION))]


def test_a_limit_of_calls_may_raise(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
    agent: Any = create_agent(play.model(), tools=[get_weather], middleware=[limit])
    with pytest.raises(ModelCallLimitExceededError):
        agent.invoke(ASKED)
    assert len(play.sent) == 1


class _OneToolAtATime(AgentMiddleware[Any, Any, Any]):
    """The weather first; the search only when the weather is known."""

    def wrap_model_call(self, asked: ModelRequest[Any], handler: Any) -> Any:
        return handler(self._narrow(asked))

    async def awrap_model_call(self, asked: ModelRequest[Any], handler: Any) -> Any:
        return await handler(self._narrow(asked))

    def _narrow(self, asked: ModelRequest[Any]) -> ModelRequest[Any]:
        is_first = isinstance(asked.messages[-1], HumanMessage)
        wanted = "get_weather" if is_first else "search"
        return asked.override(tools=[t for t in asked.tools if getattr(t, "name", "") == wanted])


@WAYS
async def test_tools_that_come_and_go_are_declared_as_they_are_bound(play: Play, way: str) -> None:
    play.calls(("get_weather", OSLO))
    play.calls(("search", {"query": "fjords"}))
    play.says("Done.")
    agent = create_agent(play.model(), tools=[get_weather, search], middleware=[_OneToolAtATime()])
    messages = await _run(agent, way)
    weather, searched = play.ids(messages)
    first = [
        user(QUESTION),
        model(call("get_weather", OSLO, weather, play.signature(1))),
        user(result("get_weather", "Sunny in Oslo", weather)),
    ]
    second = [
        *first,
        model(call("search", {"query": "fjords"}, searched, play.signature(2))),
        user(result("search", "Found fjords", searched)),
    ]
    assert play.sent == [
        request(user(QUESTION), tools=[WEATHER]),
        request(*first, tools=[SEARCH]),
        request(*second, tools=[SEARCH]),
    ]


@WAYS
async def test_a_model_of_another_generation_takes_over_in_the_middle(play: Play, way: str) -> None:
    """What the first model signed is left out for the other; the calls keep their ids."""
    other = "gemini-2.5-flash" if play.is_gemini_3 else "gemini-3.8-flash"
    play.calls(("get_weather", OSLO))
    error = {"code": 404, "message": f"models/{play.name} is not found.", "status": "NOT_FOUND"}
    play.emulator.reply(body={"error": error}, status=404)
    play.emulator.reply("Sunny.")
    fallback = ModelFallbackMiddleware(play.model(model=other))
    messages = await _run(
        create_agent(play.model(), tools=[get_weather], middleware=[fallback]), way
    )
    asked = [item.model for item in play.emulator.requests]
    assert asked == [play.name, play.name, other]
    assert messages[-1].text == "Sunny."
    (call_id,) = play.ids(messages)
    answered = user(result("get_weather", "Sunny in Oslo", call_id))
    own, others = (
        request(user(QUESTION), model(call("get_weather", OSLO, call_id, signature)), answered)
        for signature in (play.signature(1), None if play.is_gemini_3 else SKIP_SIGNATURE)
    )
    assert play.sent == [request(user(QUESTION)), own, others]


async def test_a_model_selects_the_tools_for_the_others(play: Play) -> None:
    """The selector asks for JSON with an enum of the tools' names."""
    play.calls(("ToolSelectionResponse", {"tools": ["get_weather"]}))
    play.says("Sunny.")
    select = LLMToolSelectorMiddleware(max_tools=1)
    agent: Any = create_agent(play.model(), tools=[get_weather, search], middleware=[select])
    state = await agent.ainvoke(ASKED)
    assert state["messages"][-1].content == "Sunny."
    (declared,) = play.sent[0]["tools"][0]["functionDeclarations"]
    assert declared["name"] == "ToolSelectionResponse"
    assert play.sent[0]["toolConfig"] == {
        "functionCallingConfig": {
            "mode": "ANY",
            "allowedFunctionNames": ["ToolSelectionResponse"],
        }
    }
    assert play.sent[1] == request(user(QUESTION), tools=[WEATHER])


def test_a_list_of_things_to_do_is_written_and_read(play: Play) -> None:
    """`TodoListMiddleware` brings a tool of its own, with a list of typed dicts."""
    todos = [{"content": "Look out of the window", "status": "in_progress"}]
    play.calls(("write_todos", {"todos": todos}))
    play.says("Sunny.")
    agent: Any = create_agent(play.model(), tools=[], middleware=[TodoListMiddleware()])
    state = agent.invoke(ASKED)
    assert state["todos"] == todos
    (declared,) = play.sent[0]["tools"][0]["functionDeclarations"]
    assert declared["name"] == "write_todos"
    assert play.sent[1]["contents"][1]["parts"][0]["functionCall"]["args"] == {"todos": todos}
