"""What LangChain's standard suite does not notice: whole requests, as the emulator got them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.wire.tools.tool import render_parameter_name
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

SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""`skip_thought_signature_validator`, for calls that the model did not make."""


def get_time(zone: str) -> str:
    """Current time in a zone."""
    return zone


TIME = {
    "name": "get_time",
    "description": "Current time in a zone.",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"zone": {"type": "string"}},
        "required": ["zone"],
    },
}


def test_system_messages_from_anywhere_are_the_instruction_in_order(play: Play) -> None:
    play.says("Yes.")
    play.model().invoke(
        [
            SystemMessage("Be brief."),
            HumanMessage("Hello?"),
            SystemMessage([{"type": "text", "text": "Be kind."}, "Be true."]),
            AIMessage("Hello."),
            HumanMessage("Are you there?"),
            SystemMessage("Be gone."),
        ]
    )
    assert play.sent == [
        request(
            user("Hello?"),
            model("Hello."),
            user("Are you there?"),
            tools=(),
            systemInstruction={
                "parts": [
                    {"text": "Be brief."},
                    {"text": "Be kind."},
                    {"text": "Be true."},
                    {"text": "Be gone."},
                ]
            },
        )
    ]


def test_an_error_status_is_sent_as_an_error(play: Play) -> None:
    play.calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}))
    play.says("Only Rome is known.")
    bound = play.model().bind_tools([get_weather])
    asked = HumanMessage("Weather?")
    calls = bound.invoke([asked])
    oslo, rome = play.ids([calls])
    results = [
        ToolMessage("Sunny", tool_call_id=rome),
        ToolMessage("No such city", tool_call_id=oslo, status="error"),
    ]
    bound.invoke([asked, calls, *results])
    assert play.sent[1] == request(
        user("Weather?"),
        model(
            call("get_weather", {"city": "Oslo"}, oslo, play.signature(1)),
            call("get_weather", {"city": "Rome"}, rome),
        ),
        user(
            result("get_weather", "No such city", oslo, key="error"),
            result("get_weather", "Sunny", rome),
        ),
    )


def test_stop_sequences_are_sent_and_the_calls_own_ones_win(play: Play) -> None:
    for _ in range(4):
        play.says("One, two")
    chat = play.model(stop=["four"])
    chat.invoke("Count.")
    chat.invoke("Count.", stop=["three"])
    chat.bind(stop=["two"]).invoke("Count.")
    list(chat.stream("Count.", stop=["one"]))
    assert [body["generationConfig"] for body in play.sent] == [
        {"stopSequences": ["four"]},
        {"stopSequences": ["three"]},
        {"stopSequences": ["two"]},
        {"stopSequences": ["one"]},
    ]


@pytest.mark.parametrize(
    ("tool_choice", "config"),
    [
        pytest.param(None, None, id="none given"),
        pytest.param("any", {"mode": "ANY"}, id="any"),
        pytest.param(
            "get_weather", {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}, id="name"
        ),
        pytest.param(
            ["get_time", "get_weather"],
            {"mode": "ANY", "allowedFunctionNames": ["get_time", "get_weather"]},
            id="names",
        ),
        pytest.param(
            {"type": "function", "function": {"name": "get_time"}},
            {"mode": "ANY", "allowedFunctionNames": ["get_time"]},
            id="dict of OpenAI",
        ),
        pytest.param("none", {"mode": "NONE"}, id="none"),
    ],
)
def test_a_forced_tool_is_forced_by_name(play: Play, tool_choice: Any, config: Any) -> None:
    play.says("Whatever.")
    bound = play.model().bind_tools([get_weather, get_time], tool_choice=tool_choice)
    bound.invoke("Weather in Oslo?")
    more = {"toolConfig": {"functionCallingConfig": config}} if config else {}
    assert play.sent == [request(user("Weather in Oslo?"), tools=(WEATHER, TIME), **more)]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_every_step_of_a_turn_goes_back_with_its_own_signature(
    play: Play, is_streamed: bool
) -> None:
    play.calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}))
    play.calls(("get_weather", {"city": "Lima"}), before="One more.")
    play.says("Sunny everywhere.")
    bound = play.model().bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("Weather?")]
    for _ in range(3):
        reply = _streamed(bound, messages) if is_streamed else bound.invoke(messages)
        messages.append(reply)
        messages += [
            ToolMessage("Sunny", tool_call_id=tool_call["id"]) for tool_call in reply.tool_calls
        ]
    oslo, rome, lima = play.ids(messages)
    assert play.sent[2] == request(
        user("Weather?"),
        model(
            call("get_weather", {"city": "Oslo"}, oslo, play.signature(1)),
            call("get_weather", {"city": "Rome"}, rome),
        ),
        user(result("get_weather", "Sunny", oslo), result("get_weather", "Sunny", rome)),
        model("One more.", call("get_weather", {"city": "Lima"}, lima, play.signature(2))),
        user(result("get_weather", "Sunny", lima)),
    )
    assert messages[-1].text == "Sunny everywhere."


def test_only_calls_of_another_model_bear_the_bypass_and_only_where_it_is_needed(
    play: Play,
) -> None:
    play.calls(("get_weather", {"city": "Rome"}))
    play.says("Sunny in both.")
    bound = play.model().bind_tools([get_weather])

    def foreign(call_id: str) -> list[Any]:
        tool_call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": call_id}
        return [AIMessage("", tool_calls=[tool_call]), ToolMessage("Sunny", tool_call_id=call_id)]

    messages: list[Any] = [
        HumanMessage("Weather in Oslo?"),
        *foreign("old"),
        AIMessage("Sunny."),
        HumanMessage("Again, and in Rome?"),
        *foreign("new"),
    ]
    reply = bound.invoke(messages)
    (rome,) = play.ids([reply])
    bound.invoke([*messages, reply, ToolMessage("Sunny", tool_call_id=rome)])
    bypass = SKIP if play.is_gemini_3 else None
    assert play.sent[1] == request(
        user("Weather in Oslo?"),
        model(call("get_weather", {"city": "Oslo"}, "old")),
        user(result("get_weather", "Sunny", "old")),
        model("Sunny."),
        user("Again, and in Rome?"),
        model(call("get_weather", {"city": "Oslo"}, "new", bypass)),
        user(result("get_weather", "Sunny", "new")),
        model(call("get_weather", {"city": "Rome"}, rome, play.signature(1))),
        user(result("get_weather", "Sunny", rome)),
    )


def test_streamed_calls_are_numbered_through_the_whole_message(play: Play) -> None:
    cities = ["Oslo", "Rome", "Lima"]
    play.calls(*(("get_weather", {"city": city}) for city in cities), before="Let me look.")
    chunks = list(play.model().bind_tools([get_weather]).stream("Weather?"))
    numbers = [
        (piece["index"], piece["name"], piece["args"])
        for chunk in chunks
        for piece in getattr(chunk, "tool_call_chunks", [])
    ]
    assert numbers == [
        (0, "get_weather", '{"city": "Oslo"}'),
        (1, "get_weather", '{"city": "Rome"}'),
        (2, "get_weather", '{"city": "Lima"}'),
    ]


def test_a_model_named_for_one_call_is_the_one_that_is_asked(play: Play) -> None:
    for _ in range(3):
        play.says("Hello.")
    chat = play.model()
    messages = [
        chat.invoke("Hello?"),
        chat.invoke("Hello?", model="gemini-3-pro-preview"),
        *list(chat.stream("Hello?", model="gemini-3-pro-preview"))[-1:],
    ]
    names = [play.name, "gemini-3-pro-preview", "gemini-3-pro-preview"]
    assert [asked.model for asked in play.emulator.requests] == names
    assert [message.response_metadata["model_name"] for message in messages] == names


def _streamed(runnable: Any, messages: list[Any]) -> Any:
    whole = None
    for chunk in runnable.stream(messages):
        whole = chunk if whole is None else whole + chunk
    return whole


PAGED = {"type": "object", "properties": {"page-size": {"type": "integer"}}}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "parameters",
    [PAGED, {"type": "object", "anyOf": [PAGED, {"required": ["all"]}]}],
    ids=["plain", "in a choice"],
)
def test_a_renamed_parameter_has_the_users_name_everywhere_but_on_the_wire(
    emulator: Emulator, make_model: MakeModel, parameters: Any, is_streamed: bool
) -> None:
    find = {"name": "find", "description": "Find pages.", "parameters": parameters}
    chat = make_model().bind_tools([find])
    wire_name = render_parameter_name("page-size")
    emulator.reply(calls=[("find", {wire_name: 5})])
    chunks = list(chat.stream("Go")) if is_streamed else [chat.invoke("Go")]
    answer = sum(chunks[1:], chunks[0])
    assert [call["args"] for call in answer.tool_calls] == [{"page-size": 5}]
    call_id = answer.tool_calls[0]["id"]
    chat.invoke([HumanMessage("Go"), answer, ToolMessage("done", tool_call_id=call_id)])
    sent = emulator.last.body["contents"][1]["parts"][0]["functionCall"]
    assert sent["args"] == {wire_name: 5}
    declared = emulator.last.body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert list(declared.get("anyOf", [declared])[0]["properties"]) == [wire_name]
