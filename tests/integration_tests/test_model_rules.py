"""What each model accepts: rejected, repaired or reported before sending, however it is called."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import json
import logging
import operator
import wave
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, HumanMessage, messages_from_dict, messages_to_dict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_gemini_tools import check_tools
from langchain_gemini_tools.errors import InvalidHistoryError, InvalidOptionError, InvalidToolError
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

SPEECH = "gemini-2.5-flash-preview-tts"
IMAGE = "gemini-3-pro-image"
HISTORY = [HumanMessage("Count to three."), AIMessage("One, two,")]
CURRENT = ["gemini-4-argon", "gemini-3.8-flash", "gemini-3.7-flash", "gemini-3.6-flash"]
CURRENT += ["gemini-3.5-flash-lite", "gemini-3.1-pro-preview", "gemma-4-31b-it"]


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


async def ask(chat: Any, way: str, given: Any) -> Any:
    match way:
        case "invoke":
            return await asyncio.to_thread(chat.invoke, given)
        case "ainvoke":
            return await chat.ainvoke(given)
        case "stream":
            chunks = await asyncio.to_thread(lambda: list(chat.stream(given)))
        case _:
            chunks = [chunk async for chunk in chat.astream(given)]
    return functools.reduce(operator.add, chunks)


def samples_of(message: Any) -> tuple[int, bytes]:
    (block,) = message.content_blocks
    assert (block["type"], block["mime_type"]) == ("audio", "audio/wav")
    with wave.open(io.BytesIO(base64.b64decode(block["base64"]))) as reader:
        return reader.getframerate(), reader.readframes(reader.getnframes())


@rotated(name=CURRENT, way=WAYS)
async def test_current_models_call_tools(
    name: str, way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    model = make_model(model=name).bind_tools([get_weather])
    message = await ask(model, way, "Weather in Oslo?")
    assert [call["args"] for call in message.tool_calls] == [{"city": "Oslo"}]
    assert emulator.refusals == []


# Thinking


@rotated(
    case=[
        ("gemini-3.8-flash", {"thinking_level": "minimal"}),
        ("gemini-3.1-pro-preview", {"reasoning_effort": "minimal"}),
        ("gemini-4-argon", {"thinking_budget": 0}),
        ("gemini-2.5-pro", {"thinking_config": {"thinking_budget": 0}}),
    ],
    way=WAYS,
)
async def test_thinking_that_the_model_does_not_have_is_rejected_before_sending(
    case: tuple[str, dict[str, Any]], way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    name, options = case
    with pytest.raises(InvalidOptionError, match="For the least thinking, use"):
        await ask(make_model(model=name, **options), way, "Hi")
    assert emulator.requests == []


# Sampling


@rotated(name=["gemini-3.8-flash", "gemini-4-argon", "gemini-3.5-flash-lite"], way=WAYS)
async def test_sampling_that_a_model_ignores_is_reported_once_and_not_sent(
    name: str,
    way: str,
    make_model: MakeModel,
    emulator: Emulator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make_model(model=name, temperature=0.2, top_k=5)
    with caplog.at_level(logging.WARNING, "langchain_gemini_tools"):
        await ask(model, way, "Hi")
        await ask(model, way, "Hi again")
    assert [record.getMessage() for record in caplog.records] == [
        f"{name}: temperature, top_k: not sent, because this model ignores sampling options and "
        "later models reject them. Remove them; use reasoning_effort or the prompt instead."
    ]
    assert all("generationConfig" not in request.body for request in emulator.requests)


async def test_sampling_is_sent_silently_where_it_works(
    make_model: MakeModel, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("gemini-3.5-flash", "gemini-2.5-flash", "gemma-4-31b-it"):
        await make_model(model=name, temperature=0.2).ainvoke("Hi")
        assert emulator.last.body["generationConfig"] == {"temperature": 0.2}
    assert caplog.records == []


# The last turn


@rotated(name=["gemini-3-flash-preview", "gemini-2.5-flash", "gemini-3.5-flash"], way=WAYS)
async def test_a_last_model_turn_is_a_prefill_for_older_models(
    name: str, way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    await ask(make_model(model=name, on_broken_history="raise"), way, HISTORY)
    assert emulator.last.body["contents"][-1] == {"role": "model", "parts": [{"text": "One, two,"}]}


@rotated(name=["gemini-3.8-flash", "gemini-3.5-flash-lite", "gemini-4-argon"], way=WAYS)
async def test_a_last_model_turn_is_repaired_for_newer_models(
    name: str, way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    await ask(make_model(model=name), way, HISTORY)
    assert emulator.last.body["contents"][-1] == {
        "role": "user",
        "parts": [{"text": "(Continue.)"}],
    }
    with pytest.raises(InvalidHistoryError, match="ends with the model"):
        await ask(make_model(model=name, on_broken_history="raise"), way, HISTORY)


@rotated(way=WAYS)
async def test_feedback_after_a_prefill_is_a_turn_of_the_user(
    way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    emulator.reply(parts=[], finish_reason="MALFORMED_FUNCTION_CALL")
    emulator.reply("three.")
    model = make_model(max_retries=1).bind_tools([get_weather])
    assert (await ask(model, way, HISTORY)).text == "three."
    assert [content["role"] for content in emulator.last.body["contents"]] == [
        "user",
        "model",
        "user",
    ]


# Speech


@rotated(
    name=[SPEECH, "gemini-3.1-flash-tts-preview", "models/gemini-2.5-pro-preview-tts"], way=WAYS
)
async def test_speech_is_an_audio_block(
    name: str, way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    message = await ask(make_model(model=name), way, "Hello!")
    rate, samples = samples_of(message)
    assert rate == 24_000
    assert samples == b"".join(bytes([ord(each), 0]) * 100 for each in "Hello!")
    assert emulator.last.body["generationConfig"] == {"responseModalities": ["AUDIO"]}


def test_a_streamed_speech_adds_up_to_the_whole_one(
    make_model: MakeModel, emulator: Emulator
) -> None:
    model = make_model(model=SPEECH)
    streamed = functools.reduce(operator.add, model.stream("Hello!"))
    whole = model.invoke("Hello!")
    assert samples_of(streamed) == samples_of(whole)
    assert streamed.response_metadata["output_version"] == "v1"


def test_speech_survives_json(make_model: MakeModel) -> None:
    message = make_model(model=SPEECH).invoke("Hello!")
    stored = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    loaded = loads(dumps(message), allowed_objects="messages")
    for copy in (*stored, loaded, AIMessage(**json.loads(message.model_dump_json()))):
        assert samples_of(copy) == samples_of(message)


@rotated(way=["invoke", "ainvoke"])
async def test_speech_survives_a_checkpoint(way: str, make_model: MakeModel) -> None:
    model = make_model(model=SPEECH)
    builder = StateGraph(MessagesState)
    builder.add_node("speak", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(START, "speak")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"messages": [HumanMessage("Hello!")]}
    if way == "invoke":
        graph.invoke(given, config)
    else:
        await graph.ainvoke(given, config)
    assert samples_of(graph.get_state(config).values["messages"][-1])[0] == 24_000


# Tools of models that draw or speak


@rotated(name=[SPEECH, "gemini-3.1-flash-tts-preview", IMAGE, "gemini-2.5-flash-image"])
def test_tools_are_rejected_when_they_are_bound(
    name: str, make_model: MakeModel, emulator: Emulator
) -> None:
    for way in ("auto", "native", "prompted"):
        with pytest.raises(InvalidToolError, match=r"get_weather.*Bind them to a text model"):
            make_model(model=name, tool_calling=way).bind_tools([get_weather])
    assert not check_tools([get_weather], name).ok
    assert emulator.requests == []


def test_an_image_model_may_search(make_model: MakeModel, emulator: Emulator) -> None:
    make_model(model=IMAGE).bind_tools([{"google_search": {}}]).invoke("Draw Oslo.")
    assert emulator.last.body["tools"] == [{"googleSearch": {}}]
    with pytest.raises(InvalidToolError, match=r"google_search.*Bind them to a text model"):
        make_model(model=SPEECH).bind_tools([{"google_search": {}}])


def test_structured_output_of_an_image_model_is_json(
    make_model: MakeModel, emulator: Emulator
) -> None:
    schema = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}}
    make_model(model=IMAGE).with_structured_output(schema).invoke("Oslo")
    assert "tools" not in emulator.last.body
    assert emulator.last.body["generationConfig"]["responseMimeType"] == "application/json"
