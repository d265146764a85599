"""Malformed and empty answers: requested once more with feedback, raised, or returned."""

from __future__ import annotations

import asyncio
import functools
import operator
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables import RunnableLambda

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    GeminiRateLimitError,
    GeminiServerError,
    GeminiToolsError,
    MalformedToolCallError,
)
from langchain_gemini_tools.testing.fake import faults
from tests.integration_tests.play import get_weather
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

MESSAGE = "Malformed function call: print(default_api.get_weather(city=))"
FAILURES: dict[str, tuple[dict[str, Any], type[GeminiToolsError], str]] = {
    "malformed": (
        {"parts": [], "finish_reason": "MALFORMED_FUNCTION_CALL", "finish_message": MESSAGE},
        MalformedToolCallError,
        MESSAGE,
    ),
    "empty": ({"parts": []}, EmptyResponseError, "STOP"),
    "unexpected": (
        {"parts": [], "finish_reason": "UNEXPECTED_TOOL_CALL", "finish_message": "Who?"},
        MalformedToolCallError,
        "Who?",
    ),
}


async def ask(chat: Any, way: str) -> Any:
    match way:
        case "invoke":
            return chat.invoke("Weather in Oslo?")
        case "ainvoke":
            return await chat.ainvoke("Weather in Oslo?")
        case "stream":
            chunks = list(chat.stream("Weather in Oslo?"))
        case _:
            chunks = [chunk async for chunk in chat.astream("Weather in Oslo?")]
    return functools.reduce(operator.add, chunks)


@rotated(way=WAYS, kind=list(FAILURES))
async def test_the_request_is_sent_once_more_with_feedback(
    emulator: Emulator, make_model: MakeModel, kind: str, way: str
) -> None:
    scripted, _, cause = FAILURES[kind]
    emulator.reply(**scripted)
    emulator.reply("Sunny.")
    answer = await ask(make_model(max_retries=1), way)
    assert answer.text == "Sunny."
    first, second = emulator.requests
    [content] = second.body["contents"]
    assert first.body["contents"] == [{"role": "user", "parts": content["parts"][:1]}]
    assert content["parts"][1:] == [
        {
            "text": f"Your last answer could not be used ({cause}). Answer in words, or call a "
            "declared function with arguments that fit its schema."
        }
    ]


@rotated(way=WAYS, kind=list(FAILURES))
async def test_both_answers_are_counted(
    emulator: Emulator, make_model: MakeModel, kind: str, way: str
) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    emulator.reply(**FAILURES[kind][0], usage=usage | {"thoughtsTokenCount": None})
    emulator.reply("Sunny.", usage=usage | {"thoughtsTokenCount": None})
    answer = await ask(make_model(max_retries=1), way)
    counted = {key: answer.usage_metadata[key] for key in ("input_tokens", "total_tokens")}
    assert counted == {"input_tokens": 20, "total_tokens": 24}


@rotated(way=WAYS, kind=list(FAILURES))
async def test_a_second_failure_is_raised_with_its_reason(
    emulator: Emulator, make_model: MakeModel, kind: str, way: str
) -> None:
    scripted, error, cause = FAILURES[kind]
    emulator.reply(**scripted)
    emulator.reply(**scripted)
    with pytest.raises(error, match=cause.split("(")[0]) as raised:
        await ask(make_model(max_retries=6), way)
    assert len(emulator.requests) == 2
    assert raised.value.finish_reason == scripted.get("finish_reason", "STOP")  # type: ignore[attr-defined]


@rotated(way=WAYS, kind=list(FAILURES))
async def test_raise_asks_no_second_time(
    emulator: Emulator, make_model: MakeModel, kind: str, way: str
) -> None:
    scripted, error, _ = FAILURES[kind]
    emulator.reply(**scripted)
    with pytest.raises(error):
        await ask(make_model(max_retries=6, on_malformed="raise"), way)
    assert len(emulator.requests) == 1


@rotated(way=WAYS, kind=list(FAILURES))
async def test_return_hands_it_over_with_its_reason(
    emulator: Emulator, make_model: MakeModel, kind: str, way: str
) -> None:
    scripted, _, _ = FAILURES[kind]
    emulator.reply(**scripted)
    answer = await ask(make_model(on_malformed="return"), way)
    assert answer.response_metadata["empty_response"] is True
    assert answer.response_metadata["finish_reason"] == scripted.get("finish_reason", "STOP")
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_a_stream_that_has_begun_is_not_begun_again(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(parts=[{"text": "Let me see."}], finish_reason="MALFORMED_FUNCTION_CALL")
    with pytest.raises(MalformedToolCallError) as raised:
        await ask(make_model(max_retries=6), way)
    assert len(emulator.requests) == 1
    assert raised.value.partial is not None
    assert raised.value.partial.text == "Let me see."


def test_an_agent_goes_on_after_a_malformed_call(emulator: Emulator, make_model: MakeModel) -> None:
    emulator.reply(**FAILURES["malformed"][0])
    agent: Any = create_agent(make_model(max_retries=1), tools=[get_weather])
    messages = agent.invoke({"messages": "What is the weather in Oslo?"})["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert "Sunny in Oslo" in messages[-1].text
    assert not emulator.refusals


def test_an_agent_does_not_end_on_an_empty_answer(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[])
    emulator.reply(parts=[])
    agent: Any = create_agent(make_model(max_retries=1), tools=[get_weather])
    with pytest.raises(EmptyResponseError):
        agent.invoke({"messages": "What is the weather in Oslo?"})


@pytest.mark.parametrize("mode", ["values", "messages"])
def test_an_agent_does_not_end_on_an_empty_answer_without_retries_either(
    emulator: Emulator, make_model: MakeModel, mode: Any
) -> None:
    emulator.reply(parts=[])
    agent: Any = create_agent(make_model(max_retries=0), tools=[get_weather])
    with pytest.raises(EmptyResponseError):
        list(agent.stream({"messages": "Weather?"}, stream_mode=mode))
    assert len(emulator.requests) == 1


class Retries(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[int, BaseException]] = []

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        self.seen.append((retry_state.attempt_number, retry_state.outcome.exception()))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])  # core streams without a run manager
async def test_callbacks_see_each_retry(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    busy = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    emulator.reply(status=503, body={"error": busy})
    emulator.reply("Sunny.")
    seen = Retries()
    chat = make_model(max_retries=2).with_config(callbacks=[seen])
    answer = await ask(chat, way)
    assert answer.text == "Sunny."
    [(attempt, error)] = seen.seen
    assert attempt == 1
    assert isinstance(error, GeminiServerError)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_callbacks_see_that_an_answer_was_asked_for_once_more(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(parts=[])
    emulator.reply("Sunny.")
    seen = Retries()
    await ask(make_model(max_retries=2).with_config(callbacks=[seen]), way)
    [(attempt, error)] = seen.seen
    assert attempt == 1
    assert isinstance(error, EmptyResponseError)


class RetriesOfStreams(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.seen.append((name, data))


RETRY = {
    "attempt": 1,
    "delay_seconds": 0.0,
    "error": "Error calling model 'gemini-3.8-flash' (UNAVAILABLE): 503 UNAVAILABLE: "
    "The model is overloaded. Please try again later.",
}


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("is_async", [False, True])
async def test_callbacks_of_an_agent_see_each_retry_of_its_streams(
    emulator: Emulator, make_model: MakeModel, is_async: bool
) -> None:
    emulator.reply(fault=faults.overloaded())
    emulator.reply("Sunny.")
    seen = RetriesOfStreams()
    agent: Any = create_agent(make_model(max_retries=2), tools=[get_weather])
    asked: Any = ({"messages": "Weather?"}, {"callbacks": [seen]})
    if is_async:
        _ = [chunk async for chunk in agent.astream(*asked, stream_mode="messages")]
    else:
        list(agent.stream(*asked, stream_mode="messages"))
    assert emulator.last.is_stream
    assert seen.seen == [("gemini_retry", RETRY)]


class WaitsForItsLoop(AsyncCallbackHandler):
    """Does what a client of a database does: it waits for something of the caller's loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ready = asyncio.Event()
        self.seen: list[str] = []

    async def _wait(self, kind: str) -> None:
        self.loop.call_soon_threadsafe(self.ready.set)
        await asyncio.wait_for(self.ready.wait(), 2)
        self.seen.append(kind)

    async def on_retry(self, *_: Any, **__: Any) -> None:
        await self._wait("retry")

    async def on_custom_event(self, name: str, *_: Any, **__: Any) -> None:
        await self._wait(name)


AGAIN: dict[str, dict[str, Any]] = {
    "too many requests": {"fault": faults.too_many_requests(retry_seconds=0.01)},
    "empty": {"parts": []},
}


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("scripted", AGAIN.values(), ids=AGAIN)
async def test_an_async_callback_of_a_retry_may_wait_for_its_own_loop(
    emulator: Emulator, make_model: MakeModel, scripted: dict[str, Any]
) -> None:
    emulator.reply(**scripted)
    emulator.reply("Sunny.")
    handler = WaitsForItsLoop()
    answer = await make_model(max_retries=1).ainvoke("Weather?", {"callbacks": [handler]})
    assert answer.text == "Sunny."
    assert handler.seen == ["retry"]


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("scripted", AGAIN.values(), ids=AGAIN)
async def test_an_async_callback_of_a_streams_retry_may_wait_for_its_own_loop(
    emulator: Emulator, make_model: MakeModel, scripted: dict[str, Any]
) -> None:
    async def stream(question: str) -> str:
        return "".join([chunk.text async for chunk in model.astream(question)])

    emulator.reply(**scripted)
    emulator.reply("Sunny.")
    model, handler = make_model(max_retries=1), WaitsForItsLoop()
    answer = await RunnableLambda(stream).ainvoke("Weather?", {"callbacks": [handler]})
    assert answer == "Sunny."
    assert handler.seen == ["gemini_retry"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_pause_that_is_too_long_for_the_caller_is_not_made(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(fault=faults.too_many_requests(retry_seconds=5))
    with pytest.raises(GeminiRateLimitError) as raised:
        await ask(make_model(max_retries=2, max_retry_delay=1), way)
    assert raised.value.retry_after == 5
    assert raised.value.__notes__ == [
        "Not retried: the API asks for a delay of 5 s, which is longer than max_retry_delay (1 s)."
    ]
    assert len(emulator.requests) == 1
