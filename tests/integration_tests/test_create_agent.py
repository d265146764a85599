"""LangChain's `create_agent` with ChatGemini, step by step as the emulator saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelRequest, wrap_model_call
from langchain.tools import InjectedState, ToolRuntime, tool
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.integration_tests.play import (
    WEATHER,
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    text,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo and Rome?"


class State(AgentState[Any]):
    secret: str


@tool
def greet(
    name: str, state: Annotated[State, InjectedState], runtime: ToolRuntime[None, State]
) -> str:
    """Greet somebody."""
    return f"Hello {name}, {state['secret']} {runtime.state['secret']} {runtime.tool_call_id}"


def _play_two_calls(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.says("Sunny in both.")


def _two_calls_on_the_wire(play: Play, messages: Sequence[BaseMessage]) -> list[Any]:
    """The two requests of the play above."""
    oslo, rome = play.ids(messages)[:2]
    return [
        request(user(QUESTION)),
        request(
            user(QUESTION),
            model(
                call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)
            ),
            user(
                result("get_weather", "Sunny in Oslo", oslo),
                result("get_weather", "Sunny in Rome", rome),
            ),
        ),
    ]


def test_parallel_calls_are_answered_in_the_order_of_the_calls(play: Play) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(play.model(), tools=[get_weather])
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]})
    assert play.sent == _two_calls_on_the_wire(play, state["messages"])
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert state["messages"][-1].content == "Sunny in both."


async def test_an_async_agent_sends_the_same(play: Play) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(play.model(), tools=[get_weather])
    state = await agent.ainvoke({"messages": [HumanMessage(QUESTION)]})
    assert play.sent == _two_calls_on_the_wire(play, state["messages"])
    assert state["messages"][-1].content == "Sunny in both."


def test_an_agent_that_streams_tokens_sends_the_same(play: Play) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(play.model(), tools=[get_weather])
    pieces: list[Any] = [
        piece
        for piece, _ in agent.stream({"messages": [HumanMessage(QUESTION)]}, stream_mode="messages")
    ]
    chunks = [piece for piece in pieces if isinstance(piece, AIMessageChunk)]
    replies: dict[str | None, AIMessageChunk] = {}
    for chunk in chunks:
        known = replies.get(chunk.id)
        replies[chunk.id] = chunk if known is None else known + chunk
    first, last = replies.values()
    assert play.sent == _two_calls_on_the_wire(play, [first])
    assert all(asked.is_stream for asked in play.emulator.requests)
    assert {piece.content for piece in pieces if isinstance(piece, ToolMessage)} == {
        "Sunny in Oslo",
        "Sunny in Rome",
    }
    assert last.text == "Sunny in both."
    assert len([chunk for chunk in chunks if chunk.id == last.id and chunk.text]) >= 3


async def test_an_async_agent_that_streams_tokens_sends_the_same(play: Play) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(play.model(), tools=[get_weather])
    words = ""
    messages: list[Any] = []
    asked = {"messages": [HumanMessage(QUESTION)]}
    async for mode, event in agent.astream(asked, stream_mode=["messages", "values"]):
        if mode == "messages" and isinstance(event[0], AIMessageChunk):
            words += event[0].text
        elif mode == "values":
            messages = event["messages"]
    assert play.sent == _two_calls_on_the_wire(play, messages)
    assert words == messages[-1].content == "Sunny in both."


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming=True"])
def test_an_agent_that_streams_its_state_yields_each_step(play: Play, streaming: bool) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(play.model(streaming=streaming), tools=[get_weather])
    asked = {"messages": [HumanMessage(QUESTION)]}
    events: list[Any] = list(agent.stream(asked, stream_mode=["updates", "values"]))
    updates = [event for mode, event in events if mode == "updates"]
    values = [event["messages"] for mode, event in events if mode == "values"]
    assert [list(update) for update in updates] == [["model"], ["tools"], ["tools"], ["model"]]
    assert [len(messages) for messages in values] == [1, 2, 4, 5]
    assert play.sent == _two_calls_on_the_wire(play, values[-1])
    assert {asked.is_stream for asked in play.emulator.requests} == {streaming}


def test_a_second_question_finds_the_first_turn_as_it_was(play: Play) -> None:
    _play_two_calls(play)
    play.calls(("get_weather", {"city": "Lima"}), before="One moment.")
    play.says("Sunny, too.")
    agent: Any = create_agent(play.model(), tools=[get_weather], system_prompt="Be brief.")
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]})
    state = agent.invoke({"messages": [*state["messages"], HumanMessage("And Lima?")]})
    lima = play.ids(state["messages"])[2]
    first_turn = _two_calls_on_the_wire(play, state["messages"])[1]["contents"]
    turns = [*first_turn, model(text("Sunny in both.", play.signature(2))), user("And Lima?")]
    system: Any = {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    assert play.sent[2:] == [
        request(*turns, **system),
        request(
            *turns,
            model("One moment.", call("get_weather", {"city": "Lima"}, lima, play.signature(3))),
            user(result("get_weather", "Sunny in Lima", lima)),
            **system,
        ),
    ]


def test_a_failing_tool_is_reported_as_an_error(play: Play) -> None:
    @tool("get_weather", description="Current weather in a city.")
    def failing(city: str) -> str:
        raise ToolException(f"No station in {city}.")

    failing.handle_tool_error = True
    play.calls(("get_weather", OSLO))
    play.says("I do not know.")
    agent: Any = create_agent(play.model(), tools=[failing])
    state = agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]})
    (call_id,) = play.ids(state["messages"])
    assert play.sent[1] == request(
        user("Weather in Oslo?"),
        model(call("get_weather", OSLO, call_id, play.signature(1))),
        user(result("get_weather", "No station in Oslo.", call_id, key="error")),
    )


def test_invalid_arguments_are_reported_as_an_error(play: Play) -> None:
    play.calls(("get_weather", {"town": "Oslo"}))
    play.says("I do not know.")
    agent: Any = create_agent(play.model(), tools=[get_weather])
    state = agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]})
    (call_id,) = play.ids(state["messages"])
    answer = state["messages"][2]
    assert "city" in answer.content
    assert play.sent[1] == request(
        user("Weather in Oslo?"),
        model(call("get_weather", {"town": "Oslo"}, call_id, play.signature(1))),
        user(result("get_weather", answer.content, call_id, key="error")),
    )


def test_a_tool_that_does_not_exist_is_answered_with_an_error(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_wether", ROME))
    play.says("Sunny in Oslo.")
    agent: Any = create_agent(play.model(), tools=[get_weather])
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]})
    known, unknown = play.ids(state["messages"])
    refusal = next(m for m in state["messages"] if getattr(m, "tool_call_id", "") == unknown)
    assert refusal.status == "error"
    assert "get_wether is not a valid tool" in refusal.content
    assert play.sent[1] == request(
        user(QUESTION),
        model(
            call("get_weather", OSLO, known, play.signature(1)),
            call("get_wether", ROME, unknown),
        ),
        user(
            result("get_weather", "Sunny in Oslo", known),
            result("get_wether", refusal.content, unknown, key="error"),
        ),
    )


def test_what_is_injected_never_reaches_the_model(play: Play) -> None:
    play.calls(("greet", {"name": "Ada"}))
    play.says("Done.")
    agent: Any = create_agent(play.model(), tools=[greet], state_schema=State)
    state = agent.invoke({"messages": [HumanMessage("Greet Ada.")], "secret": "s3cret"})
    (call_id,) = play.ids(state["messages"])
    declared = {
        "name": "greet",
        "description": "Greet somebody.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    }
    assert play.sent == [
        request(user("Greet Ada."), tools=[declared]),
        request(
            user("Greet Ada."),
            model(call("greet", {"name": "Ada"}, call_id, play.signature(1))),
            user(result("greet", f"Hello Ada, s3cret s3cret {call_id}", call_id)),
            tools=[declared],
        ),
    ]


def test_a_person_may_edit_one_call_and_reject_another(play: Play) -> None:
    _play_two_calls(play)
    agent: Any = create_agent(
        play.model(),
        tools=[get_weather],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"get_weather": True})],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    halted = agent.invoke({"messages": [HumanMessage(QUESTION)]}, thread)
    assert "__interrupt__" in halted
    assert len(play.sent) == 1
    lima = {"name": "get_weather", "args": {"city": "Lima"}}
    decisions = [
        {"type": "edit", "edited_action": lima},
        {"type": "reject", "message": "Not Rome."},
    ]
    state = agent.invoke(Command(resume={"decisions": decisions}), thread)
    oslo, rome = play.ids(state["messages"])
    answers = {m.tool_call_id: m for m in state["messages"] if isinstance(m, ToolMessage)}
    assert list(answers) == [rome, oslo]
    assert answers[oslo].text.endswith("Sunny in Lima")
    assert answers[rome].text.endswith("Not Rome.")
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)),
        user(
            result("get_weather", answers[oslo].content, oslo),
            result("get_weather", answers[rome].content, rome, key="error"),
        ),
    )


def test_a_turn_that_was_interrupted_goes_on_after_the_next_question(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.says("As you like.")
    agent: Any = create_agent(
        play.model(),
        tools=[get_weather],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]}, thread)
    state = agent.invoke({"messages": [HumanMessage("Never mind.")]}, thread)
    (call_id,) = play.ids(state["messages"])
    assert play.sent[1] == request(
        user("Weather in Oslo?"),
        model(call("get_weather", OSLO, call_id, play.signature(1))),
        user(result("get_weather", "This call was not executed.", call_id, key="error")),
        user("Never mind."),
    )


def test_the_settings_of_middleware_reach_the_call(play: Play) -> None:
    @wrap_model_call
    def force(asked: ModelRequest, handler: Any) -> Any:
        is_first = isinstance(asked.messages[-1], HumanMessage)
        choice: Any = {"tool_choice": "get_weather"} if is_first else {}
        return handler(asked.override(model_settings={"seed": 5}, **choice))

    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    agent: Any = create_agent(play.model(), tools=[get_weather], middleware=[force])
    agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]})
    forced = {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}
    assert play.sent[0] == request(
        user("Weather in Oslo?"),
        toolConfig={"functionCallingConfig": forced},
        generationConfig={"seed": 5},
    )
    assert play.sent[1].keys() == {"contents", "tools", "generationConfig"}


def test_an_agent_without_tools_sends_none(play: Play) -> None:
    play.says("Hello.")
    state = create_agent(play.model(), tools=[]).invoke({"messages": [HumanMessage("Hello?")]})
    assert isinstance(state["messages"][-1], AIMessage)
    assert play.sent == [request(user("Hello?"), tools=())]


def test_json_results_arrive_as_json_and_other_values_as_text(play: Play) -> None:
    def look_up(what: str) -> Any:
        """Look something up."""
        answers: dict[str, Any] = {
            "object": {"temperature": 21, "wind": None},
            "number": 12345678901234567890,
            "nothing": None,
            "list": [1, "two"],
            "empty": [],
        }
        return answers[what]

    names = ["object", "number", "nothing", "list", "empty"]
    play.calls(*(("look_up", {"what": name}) for name in names))
    play.says("Done.")
    agent: Any = create_agent(play.model(), tools=[look_up, get_weather])
    state = agent.invoke({"messages": [HumanMessage("Look everything up.")]})
    ids = play.ids(state["messages"])
    outputs = [{"temperature": 21, "wind": None}, "12345678901234567890", "null", [1, "two"], []]
    assert play.sent[1]["contents"][2] == user(
        *(result("look_up", output, call_id) for output, call_id in zip(outputs, ids, strict=True))
    )
    assert play.sent[1]["tools"][0]["functionDeclarations"][1] == WEATHER
