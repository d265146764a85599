"""Native models that write a call as text: asked once more, raised, or returned and marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import MalformedToolCallError
from tests.integration_tests.invoking import ask
from tests.integration_tests.play import get_weather
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

CODE = "print(default_api.get_weather(city='Oslo'))"
WRITTEN = {
    "tool_code": f"```tool_code\n{CODE}\n```",
    "print": CODE,
    "undeclared": "print(default_api.book_flight(to='Oslo'))",
    "call_record": '<call_record>{"name": "get_weather", "args": {"city": "Oslo"}}</call_record>',
    "list": '[get_weather(city="Oslo")]',
    "object": '{"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}',
}
SENTENCE = f"Let me see.\n\n{WRITTEN['tool_code']}"
ANSWERS = {
    "code": '```python\nprint(get_weather(city="Oslo"))\n```',
    "explanation": f"A call looks like this:\n{WRITTEN['tool_code']}\nThat is all.",
    "mention": f"It was made with `{CODE}`.",
    "data": '{"city": "Oslo"}',
}


@rotated(text=WRITTEN, way=WAYS)
async def test_a_written_call_is_requested_once_more_with_feedback(
    emulator: Emulator, make_model: MakeModel, text: str, way: str
) -> None:
    emulator.reply(text)
    emulator.reply("Sunny.")
    message = await ask(make_model(max_retries=1).bind_tools([get_weather]), way)
    assert message.text == "Sunny."
    assert message.tool_calls == message.invalid_tool_calls == []
    first, second = emulator.requests
    [content] = second.body["contents"]
    assert content["parts"][:1] == first.body["contents"][0]["parts"]
    feedback = content["parts"][1]["text"]
    assert "(a function call was written as text instead of being made: " in feedback
    assert "call a declared function" in feedback


@rotated(text=WRITTEN, way=WAYS)
async def test_a_second_written_call_is_an_error_that_shows_it(
    emulator: Emulator, make_model: MakeModel, text: str, way: str
) -> None:
    emulator.reply(text)
    emulator.reply(text)
    with pytest.raises(MalformedToolCallError, match="written as text") as raised:
        await ask(make_model(max_retries=6).bind_tools([get_weather]), way)
    assert len(emulator.requests) == 2
    partial = raised.value.partial
    assert partial is not None
    assert partial.text == text
    assert partial.tool_calls == []
    [call] = partial.invalid_tool_calls
    shown = str(call["args"]).partition("]: ")[2]
    assert shown in text
    assert shown in str(raised.value)


@rotated(text={**WRITTEN, "sentence": SENTENCE}, way=WAYS)
async def test_a_returned_written_call_is_marked(
    emulator: Emulator, make_model: MakeModel, text: str, way: str
) -> None:
    emulator.reply(text)
    message = await ask(make_model(on_malformed="return").bind_tools([get_weather]), way)
    assert len(emulator.requests) == 1
    assert message.text == text
    assert message.tool_calls == []
    [call] = message.invalid_tool_calls
    assert call["name"] == ("book_flight" if "book_flight" in text else "get_weather")
    assert str(call["args"]).startswith("not executed]: ")


@rotated(way=WAYS)
async def test_text_before_the_call_was_passed_on_by_a_stream(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """A stream cannot take the sentence back, so it raises where `invoke` asks once more."""
    before, _, after = SENTENCE.partition("\n\n")
    emulator.reply(parts=[{"text": f"{before}\n\n"}, {"text": after}])
    emulator.reply("Sunny.")
    chat = make_model(max_retries=1).bind_tools([get_weather])
    seen: list[Any] = []
    if way in STREAMS:
        with pytest.raises(MalformedToolCallError, match="written as text") as raised:
            await ask(chat, way, seen)
        assert raised.value.partial is not None
        assert raised.value.partial.text == SENTENCE
        assert "tool_code" not in "".join(chunk.text for chunk in seen)
        assert len(emulator.requests) == 1
    else:
        assert (await ask(chat, way)).text == "Sunny."


@rotated(text=ANSWERS, way=WAYS)
async def test_other_answers_are_unchanged(
    emulator: Emulator, make_model: MakeModel, text: str, way: str
) -> None:
    emulator.reply(text)
    message = await ask(make_model(max_retries=1).bind_tools([get_weather]), way)
    assert message.text == text
    assert message.invalid_tool_calls == []
    assert len(emulator.requests) == 1


@rotated(way=WAYS)
async def test_without_tools_code_is_an_answer(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(WRITTEN["tool_code"])
    message = await ask(make_model(max_retries=1), way)
    assert message.text == WRITTEN["tool_code"]


def test_json_output_is_an_answer(emulator: Emulator, make_model: MakeModel) -> None:
    emulator.reply(WRITTEN["object"])
    chat = make_model(model="gemini-3.8-flash", response_mime_type="application/json")
    assert chat.bind_tools([get_weather]).invoke("Hi").text == WRITTEN["object"]


@rotated(way=WAYS)
async def test_a_call_that_was_also_made_is_made(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    call = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}
    emulator.reply(parts=[{"text": WRITTEN["tool_code"]}, call])
    message = await ask(make_model().bind_tools([get_weather]), way)
    assert message.text == WRITTEN["tool_code"]
    assert [each["args"] for each in message.tool_calls] == [{"city": "Oslo"}]


@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_does_not_end_on_a_written_call(
    emulator: Emulator, make_model: MakeModel, streams: bool
) -> None:
    emulator.reply(WRITTEN["tool_code"])
    agent: Any = create_agent(make_model(max_retries=1, streaming=streams), tools=[get_weather])
    messages = agent.invoke({"messages": "What is the weather in Oslo?"})["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "Sunny in Oslo" in messages[-1].text
    assert not emulator.refusals


def test_a_loop_reports_a_returned_written_call_to_the_model(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(WRITTEN["tool_code"])
    loop = ToolLoop(make_model(on_malformed="return"), [get_weather])
    result = loop.invoke("What is the weather in Oslo?")
    [response] = emulator.last.body["contents"][-1]["parts"]
    assert "written as text" in str(response["functionResponse"]["response"])
    assert result.stop_reason == "answered"
    assert not emulator.refusals


@rotated(way=WAYS)
async def test_the_users_name_of_a_renamed_tool_is_shown(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    tool = {"name": "weather today", "description": "Weather.", "parameters": {"type": "object"}}
    bound = make_model(on_malformed="return").bind_tools([tool])
    [declaration] = bound.preview("Hi").body["tools"][0]["functionDeclarations"]
    emulator.reply(f"print(default_api.{declaration['name']}())")
    message = await ask(bound, way)
    assert [call["name"] for call in message.invalid_tool_calls] == ["weather today"]
