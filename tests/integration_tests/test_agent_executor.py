"""Classic `AgentExecutor` with ChatGemini: it answers with a `str`, sync, async and streamed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import StructuredTool, Tool, ToolException

from tests.integration_tests.play import (
    Play,
    call,
    get_weather,
    model,
    request,
    result,
    user,
)

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
QUESTION = "Weather in Oslo and Rome?"
ASKED = {"input": QUESTION, "history": []}
PROMPT = ChatPromptTemplate(
    [
        ("system", "Be brief."),
        ("placeholder", "{history}"),
        ("human", "{input}"),
        ("placeholder", "{agent_scratchpad}"),
    ]
)
SYSTEM: Any = {"systemInstruction": {"parts": [{"text": "Be brief."}]}}


def _executor(play: Play, *, tool: Any = None, stream_runnable: bool = True, **fields: Any) -> Any:
    tools = [tool or StructuredTool.from_function(get_weather)]
    agent = create_tool_calling_agent(play.model(**fields), tools, PROMPT)
    executor = AgentExecutor(
        agent=agent,
        tools=tools,
        return_intermediate_steps=True,
        handle_parsing_errors=False,
    )
    executor.agent.stream_runnable = stream_runnable  # type: ignore[union-attr]
    return executor


def _play_two_steps(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.calls(("get_weather", {"city": "Lima"}), before="One more.")
    play.says("Sunny everywhere.")


def _two_steps_on_the_wire(play: Play, steps: Any) -> list[Any]:
    """The three requests of the play above."""
    oslo, rome, lima = [action.tool_call_id for action, _ in steps]
    replies = [steps[0][0].message_log[0], steps[2][0].message_log[0]]
    assert [oslo, rome, lima] == play.ids(replies)
    asked = [user(QUESTION)]
    first = [
        *asked,
        model(call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)),
        user(
            result("get_weather", "Sunny in Oslo", oslo),
            result("get_weather", "Sunny in Rome", rome),
        ),
    ]
    second = [
        *first,
        model("One more.", call("get_weather", {"city": "Lima"}, lima, play.signature(2))),
        user(result("get_weather", "Sunny in Lima", lima)),
    ]
    return [request(*contents, **SYSTEM) for contents in (asked, first, second)]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streams inside"])
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_every_step_is_sent_and_the_output_is_text(play: Play, streams: bool, version: str) -> None:
    _play_two_steps(play)
    executor = _executor(play, stream_runnable=streams, output_version=version)
    answer = executor.invoke(ASKED)
    assert play.sent == _two_steps_on_the_wire(play, answer["intermediate_steps"])
    assert {asked.is_stream for asked in play.emulator.requests} == {streams}
    assert isinstance(answer["output"], str) is (version == "v0")
    assert AIMessage(answer["output"]).text == "Sunny everywhere."


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streams inside"])
async def test_every_step_is_sent_from_async_code_and_the_output_is_text(
    play: Play, streams: bool
) -> None:
    _play_two_steps(play)
    answer = await _executor(play, stream_runnable=streams).ainvoke(ASKED)
    assert play.sent == _two_steps_on_the_wire(play, answer["intermediate_steps"])
    assert answer["output"] == "Sunny everywhere."


def test_a_streamed_run_yields_its_actions_its_steps_and_its_output(play: Play) -> None:
    _play_two_steps(play)
    events = list(_executor(play).stream(ASKED))
    kinds = [next(iter(event)) for event in events]
    assert kinds == ["actions", "actions", "steps", "steps", "actions", "steps", "output"]
    steps = [(s.action, s.observation) for event in events for s in event.get("steps", [])]
    assert play.sent == _two_steps_on_the_wire(play, steps)
    assert events[-1]["output"] == "Sunny everywhere."


async def test_an_async_streamed_run_ends_with_the_output(play: Play) -> None:
    _play_two_steps(play)
    events = [event async for event in _executor(play).astream(ASKED)]
    steps = [(s.action, s.observation) for event in events for s in event.get("steps", [])]
    assert play.sent == _two_steps_on_the_wire(play, steps)
    assert events[-1]["output"] == "Sunny everywhere."


async def test_tokens_of_a_run_arrive_one_by_one(play: Play) -> None:
    _play_two_steps(play)
    pieces = [
        event["data"]["chunk"].text
        async for event in _executor(play).astream_events(ASKED, version="v2")
        if event["event"] == "on_chat_model_stream"
    ]
    assert "".join(pieces) == "One more.Sunny everywhere."
    assert len([piece for piece in pieces if piece]) >= 6


def test_thoughts_do_not_get_into_the_output(play: Play) -> None:
    """With thoughts the content is a list, and so is classic's output; its text is the answer."""
    play.emulator.reply(parts=[{"text": "Hm.", "thought": True}, {"text": "Sunny."}])
    answer = _executor(play, include_thoughts=True).invoke(ASKED)
    assert AIMessage(answer["output"]).text == "Sunny."


def test_a_chat_history_precedes_the_question(play: Play) -> None:
    play.says("As I said, sunny.")
    history = [HumanMessage("Weather?"), AIMessage("Sunny.")]
    answer = _executor(play).invoke({"input": "Sure?", "history": history})
    assert answer["output"] == "As I said, sunny."
    assert play.sent == [
        request(user("Weather?"), model("Sunny."), user("Sure?"), **SYSTEM),
    ]


def test_the_message_of_a_failing_tool_is_sent_to_the_model(play: Play) -> None:
    """Classic has no error status: what the tool says goes back as output."""

    def fail(city: str) -> str:
        raise ToolException(f"No station in {city}.")

    failing = StructuredTool.from_function(
        fail,
        name="get_weather",
        description="Current weather in a city.",
        handle_tool_error=True,
    )
    play.calls(("get_weather", OSLO))
    play.says("I do not know.")
    answer = _executor(play, tool=failing).invoke(ASKED)
    ((action, _),) = answer["intermediate_steps"]
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("get_weather", OSLO, action.tool_call_id, play.signature(1))),
        user(result("get_weather", "No station in Oslo.", action.tool_call_id)),
        **SYSTEM,
    )
    assert answer["output"] == "I do not know."


def test_a_tool_that_does_not_exist_is_answered_and_the_run_goes_on(play: Play) -> None:
    play.calls(("get_wether", OSLO))
    play.says("I do not know.")
    answer = _executor(play).invoke(ASKED)
    ((action, said),) = answer["intermediate_steps"]
    assert said == "get_wether is not a valid tool, try one of [get_weather]."
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("get_wether", OSLO, action.tool_call_id, play.signature(1))),
        user(result("get_wether", said, action.tool_call_id)),
        **SYSTEM,
    )


def test_a_tool_without_a_schema_gets_the_text_it_takes(play: Play) -> None:
    """`Tool` takes one text, which LangChain calls `__arg1`."""
    look_up = Tool("look_up", lambda what: f"Found {what}", "Look something up.")
    play.calls(("look_up", {"__arg1": "Oslo"}))
    play.says("Found.")
    answer = _executor(play, tool=look_up).invoke(ASKED)
    ((action, said),) = answer["intermediate_steps"]
    assert said == "Found Oslo"
    declared = {
        "name": "look_up",
        "description": "Look something up.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"__arg1": {"type": "string"}},
            "required": ["__arg1"],
        },
    }
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("look_up", {"__arg1": "Oslo"}, action.tool_call_id, play.signature(1))),
        user(result("look_up", "Found Oslo", action.tool_call_id)),
        tools=[declared],
        **SYSTEM,
    )
