"""Prompted tools on a Gemma that rejects `tools`, system instructions and JSON mode.

A caller sees the same as with function calling; only text is sent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGeneration
from pydantic import BaseModel

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    InvalidInputError,
    InvalidOptionError,
    MalformedToolCallError,
    TruncatedResponseError,
    TruncatedStreamError,
    UnknownToolError,
)
from tests.integration_tests.invoking import QUESTION, ask
from tests.integration_tests.play import call, get_weather, model, request, result, text, user
from tests.rotation import STREAMS, WAYS

if TYPE_CHECKING:
    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

GEMMA = "gemma-3-27b-it"
OSLO = 'TOOL_CALL: get_weather({"city": "Oslo"})'
ROME = 'TOOL_CALL: get_weather({"city": "Rome"})'
USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107}
SIGNATURE = "+/+/c2lnbmF0dXJl"
SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def now() -> str:
    """The time."""
    return "12:00"


class Report(BaseModel):
    """A weather report."""

    city: str
    degrees: int


@pytest.fixture
def gemma(make_model: MakeModel) -> ChatGemini:
    return make_model(model=GEMMA)


def prompt_of(chat: ChatGemini, *tools: Any, **options: Any) -> dict[str, Any]:
    """The part that describes the tools, if no system message precedes it."""
    return {"text": f"{chat.render_prompt(tools, **options).strip()}\n\n"}


def second_prompt_of(chat: ChatGemini, *tools: Any) -> dict[str, Any]:
    return {"text": f"\n\n{prompt_of(chat, *tools)['text']}"}


def _words(chunks: list[Any]) -> list[str]:
    return [chunk.text for chunk in chunks if chunk.text]


# What is sent


def test_tools_are_described_as_text_and_not_declared(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    emulator.reply("Hello.")
    gemma.bind_tools([get_weather], stop=["END"]).invoke(
        [SystemMessage("Be brief."), ("human", "Hi")]
    )
    assert emulator.last.body == {
        "contents": [user("Be brief.", second_prompt_of(gemma, get_weather), "Hi")],
        "generationConfig": {"stopSequences": ["END", "TOOL_RESULT:"]},
    }


def test_the_prompt_is_a_system_instruction_if_the_model_accepts_one(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model(tool_calling="prompted")
    emulator.reply(OSLO)
    bound = chat.bind_tools([get_weather, {"google_search": {}}])
    answer = bound.invoke([HumanMessage("Hi"), SystemMessage("Be brief.")])
    assert [each["args"] for each in answer.tool_calls] == [{"city": "Oslo"}]
    assert emulator.last.body == {
        "systemInstruction": {
            "parts": [{"text": "Be brief."}, second_prompt_of(chat, get_weather)]
        },
        "contents": [user("Hi")],
        "tools": [{"googleSearch": {}}],
        "generationConfig": {"stopSequences": ["TOOL_RESULT:"]},
    }


def test_the_stop_sequence_is_left_out_if_the_user_sets_five(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    emulator.reply("Hello.")
    gemma.bind_tools([get_weather], stop=["1", "2", "3", "4", "5"]).invoke("Hi")
    assert emulator.last.body["generationConfig"]["stopSequences"] == ["1", "2", "3", "4", "5"]


def test_tool_calling_can_be_set_per_call(make_model: MakeModel) -> None:
    chat = make_model()
    tools: Any = {"tools": [get_weather]}
    assert "tools" in chat.preview("Hi", **tools).body
    assert "tools" not in chat.preview("Hi", **tools, tool_calling="prompted").body
    assert "tools" not in chat.preview("Hi", **tools, model=GEMMA).body
    with pytest.raises(InvalidOptionError, match=r"tool_calling='text' is not valid: .*'auto'"):
        chat.preview("Hi", **tools, tool_calling="text")
    with pytest.raises(InvalidOptionError, match="Functions are described in the prompt"):
        chat.preview("Hi", **tools, model=GEMMA, tool_calling="native")


def test_the_profile_says_that_the_model_calls_tools(make_model: MakeModel) -> None:
    seen = [
        (profile["tool_calling"], profile["tool_choice"], profile["structured_output"])
        for way in ("auto", "native", "prompted")
        for name in (GEMMA, "gemini-3.8-flash")
        if (profile := make_model(model=name, tool_calling=way).profile)
    ]
    by_prompt, native, neither = (True, True, False), (True, True, True), (False, False, False)
    assert seen == [by_prompt, native, neither, native, by_prompt, by_prompt]


def test_names_that_the_api_would_reject_are_unchanged(
    emulator: Emulator, gemma: ChatGemini, caplog: pytest.LogCaptureFixture
) -> None:
    tool = {
        "name": "look up",
        "description": "Look something up.",
        "parameters": {"type": "object", "properties": {"the word": {"type": "string"}}},
    }
    emulator.reply('TOOL_CALL: look up({"the word": "fjord"})')
    answer = gemma.bind_tools([tool]).invoke("fjord?")
    assert [(each["name"], each["args"]) for each in answer.tool_calls] == [
        ("look up", {"the word": "fjord"})
    ]
    assert '- "the word": string, optional.' in emulator.last.raw.decode().replace('\\"', '"')
    assert caplog.records == []


def test_tokens_are_counted_with_the_prompt(gemma: ChatGemini, emulator: Emulator) -> None:
    bare = gemma.get_num_tokens_from_messages([HumanMessage("Hi")])
    with_tools = gemma.get_num_tokens_from_messages([HumanMessage("Hi")], tools=[get_weather])
    assert emulator.last.body["generateContentRequest"]["contents"] == [
        user(prompt_of(gemma, get_weather), "Hi")
    ]
    exact = gemma.prompt_overhead([get_weather], exact=True)
    assert exact.is_exact
    assert abs(with_tools - bare - exact.tokens) < 20


# What comes back


@pytest.mark.parametrize("way", WAYS)
async def test_text_and_calls_are_separated_in_every_way(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f"Let me look.\n{OSLO}\n{ROME}", usage=USAGE)
    message = await ask(gemma.bind_tools([get_weather]), way)
    assert message.content == "Let me look."
    assert [(each["name"], each["args"]) for each in message.tool_calls] == [
        ("get_weather", {"city": "Oslo"}),
        ("get_weather", {"city": "Rome"}),
    ]
    assert len({each["id"] for each in message.tool_calls}) == 2
    assert message.invalid_tool_calls == []
    assert message.usage_metadata == {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
    metadata = message.response_metadata
    assert metadata["raw_text"] == f"Let me look.\n{OSLO}\n{ROME}"
    assert (metadata["finish_reason"], metadata["model_name"]) == ("STOP", GEMMA)


@pytest.mark.parametrize("way", STREAMS)
async def test_text_streams_without_the_protocol(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f"I have to look that up, one moment please.\n{OSLO}\nThat was it.")
    seen: list[Any] = []
    await ask(gemma.bind_tools([get_weather]), way, seen)
    assert _words(seen) == ["I have to look that up,", " one moment please.", "\nThat was it."]
    chunks = [each for chunk in seen for each in chunk.tool_call_chunks]
    assert [(each["args"], each["index"]) for each in chunks] == [('{"city": "Oslo"}', 0)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_is_cut_is_not_completed(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f'{OSLO}\nTOOL_CALL: get_weather({{"city": "Ro', finish_reason="MAX_TOKENS")
    chat = gemma.bind(on_malformed="return").bind_tools([get_weather])
    message = await ask(chat, way)
    assert message.tool_calls == []
    cut, whole = sorted(message.invalid_tool_calls, key=lambda each: each["args"], reverse=True)
    assert whole["args"] == 'not executed]: {"city": "Oslo"}'
    assert (cut["name"], cut["args"]) == (
        "get_weather",
        'unusable call]: get_weather({"city": "Ro',
    )
    reason = message.additional_kwargs["invalid_tool_call_reasons"][cut["id"]]
    assert reason.startswith("The text ended in the middle of this call of 'get_weather'")
    assert message.response_metadata["finish_reason"] == "MAX_TOKENS"


@pytest.mark.parametrize("way", WAYS)
async def test_calls_of_a_truncated_text_are_not_released(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f'{OSLO}\nTOOL_CALL: get_weather({{"city": "Ro', finish_reason="MAX_TOKENS")
    with pytest.raises(TruncatedResponseError, match="MAX_TOKENS") as raised:
        await ask(gemma.bind_tools([get_weather]), way)
    assert raised.value.partial is not None
    assert raised.value.partial.tool_calls == []
    assert len(raised.value.partial.invalid_tool_calls) == 2
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_with_the_choice_none_a_call_is_text(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f"Write\n{OSLO}")
    message = await ask(gemma.bind_tools([get_weather], tool_choice="none"), way)
    assert message.content == f"Write\n{OSLO}"
    assert message.tool_calls == message.invalid_tool_calls == []


@pytest.mark.parametrize("way", STREAMS)
async def test_a_stream_that_breaks_off_leaves_no_call_to_execute(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply(f"Wait.\n{OSLO}\nMore.", finish_reason=None)
    with pytest.raises(TruncatedStreamError) as raised:
        await ask(gemma.bind_tools([get_weather]), way)
    partial = raised.value.partial
    assert partial is not None
    assert partial.content == "Wait.\nMore."
    assert partial.tool_calls == []
    assert [each["args"] for each in partial.invalid_tool_calls] == ['{"city": "Oslo"}']


def test_several_candidates_are_parsed_one_by_one(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model(model="gemini-2.5-flash", tool_calling="prompted", n=3)
    candidates = [
        {
            "content": {"role": "model", "parts": [{"text": words}]},
            "finishReason": "STOP",
            "index": n,
        }
        for n, words in enumerate(["Hello.", OSLO, ROME])
    ]
    emulator.reply(body={"candidates": candidates, "usageMetadata": USAGE})
    bound: Any = chat.bind_tools([get_weather], tool_choice="any")
    [generations] = chat.generate([[HumanMessage("Hi")]], **bound.kwargs).generations
    messages: list[Any] = [each.message for each in generations if isinstance(each, ChatGeneration)]
    assert [each.tool_calls[0]["args"]["city"] for each in messages] == ["Oslo", "Rome"]
    assert [bool(each.usage_metadata) for each in messages] == [True, False]


# Calls that are demanded


@pytest.mark.parametrize("way", WAYS)
async def test_a_missing_call_is_requested_once_more_and_the_usage_of_both_is_added(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    chat = make_model(model=GEMMA, max_retries=1)
    emulator.reply("It is sunny, I think.", usage=USAGE)
    emulator.reply(OSLO, usage=USAGE)
    seen: list[Any] = []
    bound = chat.bind_tools([get_weather, now], tool_choice="get_weather")
    message = await ask(bound, way, seen)
    assert [each["args"] for each in message.tool_calls] == [{"city": "Oslo"}]
    assert message.content == ""
    assert _words(seen) == []
    assert message.usage_metadata == {"input_tokens": 200, "output_tokens": 14, "total_tokens": 214}
    first, second = emulator.requests
    assert second.body["contents"] == [
        *first.body["contents"],
        model("It is sunny, I think."),
        user(
            "Your last message could not be used. It had to call get_weather. There is no "
            "TOOL_CALL: line in it. Write it again."
        ),
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("retries", "answers"), [(0, 1), (3, 2)], ids=["no retries", "after one more answer"]
)
async def test_a_call_that_stays_missing_is_an_error(
    emulator: Emulator, make_model: MakeModel, way: str, retries: int, answers: int
) -> None:
    for _ in range(answers):
        emulator.reply("It is sunny, I think.", usage=USAGE)
    chat = make_model(model=GEMMA, max_retries=retries)
    with pytest.raises(MalformedToolCallError, match="It had to call a tool") as raised:
        await ask(chat.bind_tools([get_weather], tool_choice="any"), way)
    assert len(emulator.requests) == answers
    assert raised.value.partial is not None
    assert raised.value.partial.content == "It is sunny, I think."
    usage = raised.value.partial.usage_metadata
    assert usage is not None
    assert usage["total_tokens"] == 107 * answers


@pytest.mark.parametrize("way", WAYS)
async def test_on_malformed_return_returns_a_response_without_the_call(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("It is sunny, I think.")
    chat = make_model(model=GEMMA, on_malformed="return")
    message = await ask(chat.bind_tools([get_weather], tool_choice="any"), way)
    assert message.content == "It is sunny, I think."
    assert message.response_metadata["finish_reason"] == "STOP"


def test_a_call_of_a_tool_that_is_not_allowed_is_rejected(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(OSLO)
    emulator.reply("TOOL_CALL: now({})")
    chat = make_model(model=GEMMA, max_retries=1)
    answer = chat.bind_tools([get_weather, now], tool_choice=["now"]).invoke(QUESTION)
    assert [each["name"] for each in answer.tool_calls] == ["now"]
    assert "get_weather may not be called now. You may call: now." in emulator.last.raw.decode()
    with pytest.raises(UnknownToolError, match="'later', which is not bound"):
        chat.bind_tools([now], tool_choice="later")


# Calls that are wrong


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_with_only_invalid_calls_is_requested_once_more(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply('TOOL_CALL: get_weather({"town": "Oslo"})')
    emulator.reply(OSLO)
    message = await ask(make_model(model=GEMMA, max_retries=1).bind_tools([get_weather]), way)
    assert [each["args"] for each in message.tool_calls] == [{"city": "Oslo"}]
    feedback = emulator.last.body["contents"][-1]["parts"][0]["text"]
    assert "do not fit get_weather. 'city' is a required property." in feedback


ORDER = {
    "name": "order",
    "description": "Order something.",
    "parameters": {
        "type": "object",
        "properties": {
            "gift": {"type": "boolean"},
            "message": {"type": "string"},
            "express": {"oneOf": [{"const": True}, {"const": False}]},
            "price": {"$ref": "#/$defs/price", "description": "What it may cost."},
            "terms": {"const": True, "description": "That the terms are accepted."},
            "age": {"not": {"exclusiveMinimum": 2}},
        },
        "if": {"properties": {"gift": {"const": True}}, "required": ["gift"]},
        "then": {"required": ["message"]},
        "$defs": {"price": {"type": "number", "exclusiveMinimum": 0}},
    },
}


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ('{"gift": false}', True),
        ('{"gift": true}', False),
        ('{"gift": true, "message": "Hi"}', True),
        ('{"express": false}', True),
        ('{"price": 0.5}', True),
        ('{"price": 0}', False),
        ('{"terms": true}', True),
        ('{"terms": false}', False),
        ('{"age": 2}', True),
        ('{"age": 3}', False),
    ],
)
def test_arguments_are_validated_against_the_users_schema(
    emulator: Emulator, make_model: MakeModel, arguments: str, fits: bool
) -> None:
    emulator.reply(f"TOOL_CALL: order({arguments})")
    chat = make_model(model=GEMMA, on_malformed="return")
    message = chat.bind_tools([ORDER]).invoke(QUESTION)
    assert (len(message.tool_calls), len(message.invalid_tool_calls)) == (fits, not fits)


@pytest.mark.parametrize("way", WAYS)
async def test_a_second_invalid_response_is_returned(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    for _ in range(2):
        emulator.reply("TOOL_CALL: get_wether({})")
    message = await ask(make_model(model=GEMMA, max_retries=5).bind_tools([get_weather]), way)
    assert message.tool_calls == []
    assert [each["name"] for each in message.invalid_tool_calls] == ["get_wether"]
    assert len(emulator.requests) == 2


@pytest.mark.parametrize("way", WAYS)
async def test_on_malformed_raise_does_not_return_invalid_calls(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("TOOL_CALL: get_wether({})")
    chat = make_model(model=GEMMA, on_malformed="raise")
    with pytest.raises(MalformedToolCallError, match="There is no tool named 'get_wether'"):
        await ask(chat.bind_tools([get_weather]), way)


@pytest.mark.parametrize("way", STREAMS)
async def test_a_stream_that_has_started_ends_with_its_invalid_call(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("Let me look.\nTOOL_CALL: get_wether({})")
    message = await ask(make_model(model=GEMMA, max_retries=5).bind_tools([get_weather]), way)
    assert message.content == "Let me look."
    assert [each["name"] for each in message.invalid_tool_calls] == ["get_wether"]


def test_an_invalid_call_and_its_reason_are_sent_in_the_next_turn(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    emulator.reply(f'{OSLO}\nTOOL_CALL: get_weather({{"town": "Rome"}})')
    emulator.reply("Sunny.")
    bound = gemma.bind_tools([get_weather])
    begun = bound.invoke(QUESTION)
    [valid] = begun.tool_calls
    bound.invoke([HumanMessage(QUESTION), begun, ToolMessage("Sunny", tool_call_id=valid["id"])])
    assert emulator.last.body["contents"][1:] == [
        model(f'{OSLO}\nTOOL_CALL: get_weather({{"town": "Rome"}})'),
        user(
            "TOOL_RESULT: get_weather #1\nSunny\nEND_TOOL_RESULT\n",
            "TOOL_RESULT: get_weather #2 failed\nThe arguments do not fit get_weather. 'city' is a "
            "required property. It was not executed.\nEND_TOOL_RESULT\n",
        ),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_of_leaked_tokens_is_empty(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("<end_of_turn>")
    chat = make_model(model=GEMMA, on_malformed="raise")
    with pytest.raises(EmptyResponseError):
        await ask(chat.bind_tools([get_weather]), way)


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_that_is_truncated_before_it_starts_is_an_error(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(parts=[], finish_reason="MAX_TOKENS")
    with pytest.raises(TruncatedResponseError, match="before its first word"):
        await ask(make_model(model=GEMMA, max_retries=3).bind_tools([get_weather]), way)
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_native_call_of_an_undeclared_function_is_not_released(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """As on the native path: the model is asked once more."""
    emulator.reply(calls=[("get_weather", {"city": "Oslo"})], finish_reason="UNEXPECTED_TOOL_CALL")
    emulator.reply("It is sunny.")
    chat = make_model(tool_calling="prompted", max_retries=3)
    message = await ask(chat.bind_tools([get_weather]), way)
    assert (message.content, message.tool_calls) == ("It is sunny.", [])
    feedback = emulator.last.body["contents"][-1]["parts"][-1]["text"]
    assert "(get_weather is not available now)" in feedback


@pytest.mark.parametrize("choice", ["auto", "any", "get_weather"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_native_call_of_a_complete_response_is_a_required_call(
    emulator: Emulator, make_model: MakeModel, way: str, choice: str
) -> None:
    emulator.reply(calls=[("get_weather", {"city": "Oslo"})])
    chat = make_model(tool_calling="prompted").bind_tools([get_weather, now], tool_choice=choice)
    message = await ask(chat, way)
    assert [call["args"] for call in message.tool_calls] == [{"city": "Oslo"}]


def test_a_conversation_without_tools_is_unchanged(emulator: Emulator, gemma: ChatGemini) -> None:
    emulator.reply(f"Write\n{OSLO}")
    message = gemma.invoke("How does it go?")
    assert message.content == f"Write\n{OSLO}"
    assert "raw_text" not in message.response_metadata
    assert emulator.last.body == {"contents": [user("How does it go?")]}


# Histories


def test_a_conversation_moves_from_gemini_to_gemma_and_back(
    emulator: Emulator, make_model: MakeModel, gemma: ChatGemini
) -> None:
    gemini = make_model()
    emulator.reply(parts=[call("get_weather", {"city": "Oslo"}, "first", SIGNATURE)])
    emulator.reply(f"And Rome.\n{ROME}")
    emulator.reply("Sunny in both.")
    history: list[Any] = [HumanMessage(QUESTION)]
    for chat, said in ((gemini, "Sunny in Oslo"), (gemma, "Sunny in Rome")):
        answer = chat.bind_tools([get_weather]).invoke(history)
        history += [answer, ToolMessage(said, tool_call_id=answer.tool_calls[0]["id"])]
    answer = gemini.bind_tools([get_weather]).invoke(history)
    assert answer.content == "Sunny in both."
    _, to_gemma, to_gemini = [each.body for each in emulator.requests]
    assert to_gemma["contents"] == [
        user(prompt_of(gemma, get_weather), QUESTION),
        model(OSLO),
        user("TOOL_RESULT: get_weather #1\nSunny in Oslo\nEND_TOOL_RESULT\n"),
    ]
    rome = history[3].tool_calls[0]["id"]
    assert to_gemini == request(
        user(QUESTION),
        model(call("get_weather", {"city": "Oslo"}, "first", SIGNATURE)),
        user(result("get_weather", "Sunny in Oslo", "first")),
        model("And Rome.", call("get_weather", {"city": "Rome"}, rome, SKIP)),
        user(result("get_weather", "Sunny in Rome", rome)),
    )
    assert emulator.refusals == []


def test_signatures_and_thoughts_of_gemini_do_not_reach_gemma(
    emulator: Emulator, make_model: MakeModel, gemma: ChatGemini
) -> None:
    thought = {"text": "Hm.", "thought": True}
    emulator.reply(parts=[thought, call("get_weather", {"city": "Oslo"}, "first", SIGNATURE)])
    emulator.reply(parts=[text("Sunny.", SIGNATURE)])
    emulator.reply("You are welcome.")
    gemini = make_model(include_thoughts=True)
    history: list[Any] = [HumanMessage(QUESTION)]
    history.append(gemini.bind_tools([get_weather]).invoke(history))
    history.append(ToolMessage("Sunny", tool_call_id="first"))
    history += [gemini.bind_tools([get_weather]).invoke(history), HumanMessage("Thanks.")]
    gemma.invoke(history)
    assert emulator.last.body == {
        "contents": [
            user(QUESTION),
            model(OSLO),
            user("TOOL_RESULT: get_weather #1\nSunny\nEND_TOOL_RESULT\n"),
            model("Sunny."),
            user("Thanks."),
        ]
    }


def test_broken_histories_are_repaired_by_the_same_rules_and_reported(gemma: ChatGemini) -> None:
    calls: list[Any] = [
        {"name": "get_weather", "args": {"city": city}, "id": city} for city in ("Oslo", "Rome")
    ]
    history = [
        HumanMessage(QUESTION),
        AIMessage("", tool_calls=calls),
        ToolMessage("Sunny in Rome", tool_call_id="Rome"),
        ToolMessage("TOOL_CALL: now({})", tool_call_id="gone", name="old"),
        HumanMessage("Well?"),
    ]
    rendered = gemma.preview(history)
    assert rendered.body["contents"] == [
        user(QUESTION),
        model(f"{OSLO}\n{ROME}"),
        user(
            "TOOL_RESULT: get_weather #1 failed\nThis call was not executed.\nEND_TOOL_RESULT\n",
            "TOOL_RESULT: get_weather #2\nSunny in Rome\nEND_TOOL_RESULT\n",
            "TOOL_RESULT: old\nTOOL.CALL: now({})\nEND_TOOL_RESULT\n",
            "Well?",
        ),
    ]
    found = [(each.kind, each.position) for each in rendered.repairs if not each.is_harmless]
    assert found == [("unanswered_call", 1), ("orphan_result", 3)]
    with pytest.raises(ValueError, match="Message 1 cannot be sent unchanged"):
        gemma.preview(history, on_broken_history="raise")


def test_images_of_results_are_sent_inside_them(gemma: ChatGemini) -> None:
    picture: Any = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    seen: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "1"}
    history = [
        HumanMessage(QUESTION),
        AIMessage("", tool_calls=[seen]),
        ToolMessage([picture], tool_call_id="1"),
    ]
    assert gemma.preview(history).body["contents"][-1] == user(
        "TOOL_RESULT: get_weather #1",
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        "END_TOOL_RESULT\n",
    )


# Structured output


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
@pytest.mark.parametrize("schema", [Report, Report.model_json_schema()], ids=["class", "dict"])
def test_structured_output_works_by_every_method(
    emulator: Emulator, gemma: ChatGemini, method: Any, schema: Any
) -> None:
    answers = {"function_calling": 'TOOL_CALL: Report({"city": "Oslo", "degrees": -3})'}
    emulator.reply(answers.get(method, '```json\n{"city": "Oslo", "degrees": -3}\n```'))
    report = gemma.with_structured_output(schema, method=method).invoke(QUESTION)
    expected = Report(city="Oslo", degrees=-3)
    assert report == (expected if schema is Report else expected.model_dump())
    assert "generationConfig" not in emulator.last.body or method == "function_calling"


def test_json_that_does_not_fit_its_schema_is_an_error(
    emulator: Emulator, gemma: ChatGemini
) -> None:
    emulator.reply('{"city": "Oslo", "degrees": "cold"}')
    schema = Report.model_json_schema()
    chain = gemma.with_structured_output(schema, method="json_schema")
    with pytest.raises(OutputParserException, match="degrees: 'cold' is not of type 'integer'"):
        chain.invoke(QUESTION)


def test_json_beyond_an_exclusive_limit_is_an_error(emulator: Emulator, gemma: ChatGemini) -> None:
    emulator.reply('{"price": 0}')
    price = {"type": "number", "exclusiveMinimum": 0}
    schema = {"title": "Price", "type": "object", "properties": {"price": price}}
    chain = gemma.with_structured_output(schema, method="json_schema")
    with pytest.raises(OutputParserException, match="price: 0 is less than or equal to"):
        chain.invoke(QUESTION)
    assert "Must be greater than 0." in emulator.last.raw.decode()


@pytest.mark.parametrize("way", STREAMS)
async def test_json_streams_without_the_fence_around_it(
    emulator: Emulator, gemma: ChatGemini, way: str
) -> None:
    emulator.reply('```json\n{"city": "Oslo", "degrees": -3}\n```')
    message = await ask(gemma.bind(response_format={"type": "json_object"}), way)
    assert message.content == '{"city": "Oslo", "degrees": -3}'
    assert JsonOutputParser().invoke(message) == {"city": "Oslo", "degrees": -3}


@pytest.mark.parametrize("name", [GEMMA, "gemini-3.8-flash"])
def test_json_output_with_prompted_tools_is_rejected(make_model: MakeModel, name: str) -> None:
    chat = make_model(model=name, tool_calling="prompted")
    with pytest.raises(InvalidOptionError, match=r"Prompted tools \(get_weather\) cannot be"):
        chat.bind_tools([get_weather], response_format={"type": "json_object"}).invoke("Hi")


# Looking inside


def test_prompt_response_and_calls_are_logged_at_debug_level(
    emulator: Emulator, gemma: ChatGemini, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="langchain_gemini_tools")
    emulator.reply(f"Well.\n{OSLO}\nTOOL_CALL: now({{}})")
    gemma.bind_tools([get_weather]).invoke("Weather?")
    logged = [each.getMessage() for each in caplog.records if "prompted" in each.name]
    prompt = prompt_of(gemma, get_weather)["text"]
    assert logged[0] == f"Prompt, user:\n{prompt}\nWeather?"
    assert logged[1] == f"Response text:\nWell.\n{OSLO}\nTOOL_CALL: now({{}})"
    assert logged[2] == 'Tool call get_weather({"city": "Oslo"}), valid'
    assert logged[3].startswith("Tool call now({}), invalid: There is no tool")


def test_the_second_request_is_logged_at_debug_level(
    emulator: Emulator, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="langchain_gemini_tools")
    emulator.reply("No.")
    emulator.reply(OSLO)
    chat = make_model(model=GEMMA, max_retries=1)
    chat.bind_tools([get_weather], tool_choice="any").invoke("Weather?")
    logged = [each.getMessage() for each in caplog.records if "prompted" in each.name]
    assert logged[1:] == [
        "Response text:\nNo.",
        "Prompt, model:\nNo.",
        "Prompt, user:\nYour last message could not be used. It had to call a tool. There is no "
        "TOOL_CALL: line in it. Write it again.",
        f"Response text:\n{OSLO}",
        'Tool call get_weather({"city": "Oslo"}), valid',
    ]


def test_two_calls_with_one_id_get_one_result_each(gemma: ChatGemini) -> None:
    twin: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "a"}
    history = [HumanMessage("Hi"), AIMessage("", tool_calls=[twin, twin])]
    answered = [*history, ToolMessage("Sunny", tool_call_id="a")]
    body = gemma.preview(answered, tools=[get_weather]).body
    assert body["contents"][2] == user(
        "TOOL_RESULT: get_weather #1\nSunny\nEND_TOOL_RESULT\n",
        "TOOL_RESULT: get_weather #2 failed\nThis call was not executed.\nEND_TOOL_RESULT\n",
    )


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [({(1, 2): 3}, "tuple"), (_endless(), "contains itself")],
    ids=["key", "cycle"],
)
def test_arguments_without_a_json_form_are_rejected(
    make_model: MakeModel, value: Any, words: str
) -> None:
    asked = AIMessage("")
    asked.tool_calls = [{"type": "tool_call", "id": "a", "name": "f", "args": {"v": value}}]
    with pytest.raises(InvalidInputError, match=words):
        make_model(model=GEMMA).preview([HumanMessage("Hi"), asked])


OSLO_CALL: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "a"}
BROKEN_HISTORIES: dict[str, list[Any]] = {
    "no result": [HumanMessage("Hi"), AIMessage("", tool_calls=[OSLO_CALL]), HumanMessage("So?")],
    "late result": [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[OSLO_CALL]),
        HumanMessage("So?"),
        ToolMessage("Sunny", tool_call_id="a"),
    ],
    "two results": [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[OSLO_CALL]),
        ToolMessage("Sunny", tool_call_id="a"),
        ToolMessage("Rainy", tool_call_id="a"),
    ],
    "starts with the model": [AIMessage("Hi."), HumanMessage("Hello.")],
    "ends with the model": [HumanMessage("Hello."), AIMessage("Hi.")],
    "empty messages": [HumanMessage(""), AIMessage(""), HumanMessage("Hi"), HumanMessage("So?")],
}


@pytest.mark.parametrize("history", BROKEN_HISTORIES.values(), ids=BROKEN_HISTORIES)
def test_a_history_is_repaired_as_with_function_calling(
    make_model: MakeModel, gemma: ChatGemini, history: list[Any]
) -> None:
    native = make_model(model="gemini-3.8-flash").preview(history, tools=[get_weather])
    prompted = gemma.preview(history, tools=[get_weather])
    assert prompted.repairs == native.repairs
