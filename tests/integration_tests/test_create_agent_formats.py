"""Structured answers of `create_agent`: which strategy it takes, and what is then sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, Field

from langchain_gemini_tools.errors import InvalidOptionError
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
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

OSLO = {"city": "Oslo"}
QUESTION = "Weather in Oslo?"


class Report(BaseModel):
    """A weather report."""

    city: str
    degrees: int = Field(ge=-90, le=60)


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "degrees": {"type": "integer", "minimum": -90, "maximum": 60},
    },
    "required": ["city", "degrees"],
}
REPORT = {
    "name": "Report",
    "description": "A weather report.",
    "parametersJsonSchema": SCHEMA,
}
JSON_OUTPUT = {
    "responseMimeType": "application/json",
    "responseJsonSchema": {"title": "Report", "description": "A weather report.", **SCHEMA},
}
ANY = {"functionCallingConfig": {"mode": "ANY"}}
ANSWER = {"city": "Oslo", "degrees": 21}


def _ask(agent: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(QUESTION)]})


def test_without_tools_the_profile_leads_to_json_output(play: Play) -> None:
    play.says(json.dumps(ANSWER))
    state = _ask(create_agent(play.model(), tools=[], response_format=Report))
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
    assert play.sent == [request(user(QUESTION), tools=(), generationConfig=JSON_OUTPUT)]


def test_beside_tools_gemini_3_gives_json_and_older_models_call_the_schema(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    if play.is_gemini_3:
        play.says(json.dumps(ANSWER))
    else:
        play.calls(("Report", ANSWER))
    state = _ask(create_agent(play.model(), tools=[get_weather], response_format=Report))
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
    first = play.ids(state["messages"])[0]
    form: Any = (
        {"generationConfig": JSON_OUTPUT}
        if play.is_gemini_3
        else {"toolConfig": ANY, "tools": [WEATHER, REPORT]}
    )
    assert play.sent == [
        request(user(QUESTION), **form),
        request(
            user(QUESTION),
            model(call("get_weather", OSLO, first, play.signature(1))),
            user(result("get_weather", "Sunny in Oslo", first)),
            **form,
        ),
    ]


@pytest.mark.parametrize("name", ["gemini-flash-latest", "gemini-4-flash"])
def test_where_the_agent_does_not_trust_the_name_the_schema_is_called(
    emulator: Emulator, make_model: MakeModel, name: str
) -> None:
    emulator.reply(calls=[("Report", ANSWER)])
    chat = make_model(model=name, api_version="v1beta")
    state = _ask(create_agent(chat, tools=[get_weather], response_format=Report))
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
    assert emulator.last.body == request(user(QUESTION), tools=[WEATHER, REPORT], toolConfig=ANY)


def test_a_schema_can_be_called_instead_on_every_model(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.calls(("Report", ANSWER))
    chosen = ToolStrategy(Report, tool_message_content="Noted.")
    state = _ask(create_agent(play.model(), tools=[get_weather], response_format=chosen))
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
    assert state["messages"][-1].content == "Noted."
    first, _ = play.ids(state["messages"])
    both: Any = {"tools": [WEATHER, REPORT], "toolConfig": ANY}
    assert play.sent == [
        request(user(QUESTION), **both),
        request(
            user(QUESTION),
            model(call("get_weather", OSLO, first, play.signature(1))),
            user(result("get_weather", "Sunny in Oslo", first)),
            **both,
        ),
    ]


def test_a_called_schema_that_does_not_fit_is_asked_for_again(play: Play) -> None:
    play.calls(("Report", {"city": "Oslo", "degrees": 2100}))
    play.calls(("Report", ANSWER))
    state = _ask(create_agent(play.model(), tools=[], response_format=ToolStrategy(Report)))
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
    first, _ = play.ids(state["messages"])
    complaint = state["messages"][2].content
    assert "less than or equal to 60" in complaint
    assert play.sent[1] == request(
        user(QUESTION),
        model(call("Report", {"city": "Oslo", "degrees": 2100}, first, play.signature(1))),
        user(result("Report", complaint, first)),
        tools=[REPORT],
        toolConfig=ANY,
    )


def test_one_of_several_schemas_may_be_called(play: Play) -> None:
    class Refusal(BaseModel):
        """Why there is no report."""

        reason: str

    play.calls(("Refusal", {"reason": "No station."}))
    chosen = ToolStrategy(Report | Refusal)
    state = _ask(create_agent(play.model(), tools=[], response_format=chosen))
    assert state["structured_response"] == Refusal(reason="No station.")
    names = [d["name"] for d in play.sent[0]["tools"][0]["functionDeclarations"]]
    assert names == ["Report", "Refusal"]


def test_json_output_with_tools_is_rejected_if_the_model_does_not_support_it(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model(model="gemini-2.5-flash")
    agent = create_agent(chat, tools=[get_weather], response_format=ProviderStrategy(Report))
    with pytest.raises(InvalidOptionError, match="ToolStrategy"):
        _ask(agent)
    assert emulator.requests == []


@pytest.mark.parametrize("include_thoughts", [False, True], ids=["", "thoughts"])
async def test_thoughts_are_not_part_of_the_json(play: Play, include_thoughts: bool) -> None:
    play.emulator.reply(parts=[{"text": "Hm. {", "thought": True}, {"text": json.dumps(ANSWER)}])
    chat = play.model(include_thoughts=include_thoughts)
    agent: Any = create_agent(chat, tools=[], response_format=ProviderStrategy(Report))
    state = await agent.ainvoke({"messages": [HumanMessage(QUESTION)]})
    assert state["structured_response"] == Report(city="Oslo", degrees=21)
