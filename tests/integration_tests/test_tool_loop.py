"""`ToolLoop` with ChatGemini, step by step as the emulator saw it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_gemini_tools import ToolLoop, ToolLoopResult
from langchain_gemini_tools.errors import GeminiServerError, InvalidToolError
from langchain_gemini_tools.tool_loop import IncompleteRunError, result_of
from langchain_gemini_tools.tool_loop.events import LoopFinished
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

OSLO, ROME, LIMA = {"city": "Oslo"}, {"city": "Rome"}, {"city": "Lima"}
QUESTION = "Weather in Oslo, Rome and Lima?"
WAYS = ["invoke", "ainvoke", "events", "aevents"]


async def aget_weather(city: str) -> str:
    """Current weather in a city."""
    await asyncio.sleep(0)
    return get_weather(city)


def _loop(play: Play, tools: Sequence[Any] = (get_weather,), **options: Any) -> ToolLoop:
    return ToolLoop(play.model(), tools, **options)


async def _run(loop: ToolLoop, way: str, given: Any = QUESTION) -> ToolLoopResult:
    match way:
        case "invoke":
            return await asyncio.to_thread(loop.invoke, given)
        case "ainvoke":
            return await loop.ainvoke(given)
        case "events":
            last = (await asyncio.to_thread(lambda: list(loop.events(given))))[-1]
        case _:
            last = [event async for event in loop.aevents(given)][-1]
    assert isinstance(last, LoopFinished)
    return last.result


def _play_two_steps(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.calls(("get_weather", LIMA), before="One more.")
    play.says("Sunny everywhere.")


def _two_steps(play: Play, messages: Sequence[BaseMessage]) -> list[Any]:
    """The contents of the three requests of the play above."""
    oslo, rome, lima = play.ids(messages)
    first = [
        user(QUESTION),
        model(call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)),
        user(
            result("get_weather", "Sunny in Oslo", oslo),
            result("get_weather", "Sunny in Rome", rome),
        ),
    ]
    second = [
        *first,
        model("One more.", call("get_weather", LIMA, lima, play.signature(2))),
        user(result("get_weather", "Sunny in Lima", lima)),
    ]
    return [first[:1], first, second]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
async def test_every_step_is_sent_and_the_result_is_returned(
    play: Play, way: str, is_async: bool
) -> None:
    _play_two_steps(play)
    tool: Any = aget_weather if is_async else get_weather
    tool.__name__ = "get_weather"
    outcome = await _run(_loop(play, [tool]), way)
    assert play.sent == [request(*sent) for sent in _two_steps(play, outcome.messages)]
    assert {asked.is_stream for asked in play.emulator.requests} == {way.endswith("events")}
    assert [message.type for message in outcome.messages] == [
        *("human", "ai", "tool", "tool", "ai", "tool", "ai")
    ]
    assert (outcome.text, outcome.stop_reason, outcome.turns) == (
        "Sunny everywhere.",
        "answered",
        3,
    )
    usages = [m.usage_metadata for m in outcome.messages if isinstance(m, AIMessage)]
    assert outcome.usage is not None
    assert outcome.usage["total_tokens"] == sum(usage["total_tokens"] for usage in usages if usage)


async def test_only_the_answer_is_streamed(play: Play) -> None:
    _play_two_steps(play)
    _play_two_steps(play)
    loop = _loop(play)
    pieces = await asyncio.to_thread(lambda: list(loop.stream(QUESTION)))
    apieces = [piece async for piece in loop.astream(QUESTION)]
    assert "".join(pieces) == "".join(apieces) == "Sunny everywhere."
    assert len(pieces) >= 3
    assert all(asked.is_stream for asked in play.emulator.requests)


async def test_a_second_question_sends_the_first_run_unchanged(play: Play) -> None:
    _play_two_steps(play)
    play.says("Sure.")
    loop = _loop(play)
    first = await _run(loop, "ainvoke")
    await _run(loop, "invoke", [*first.messages, HumanMessage("Sure?")])
    assert play.sent[-1] == request(
        *_two_steps(play, first.messages)[2],
        model(text("Sunny everywhere.", play.signature(3))),
        user("Sure?"),
    )


@pytest.mark.parametrize("way", WAYS)
async def test_failures_are_sent_as_errors_in_the_order_of_the_calls(play: Play, way: str) -> None:
    async def slow(city: str) -> str:
        """Slow weather in a city."""
        await asyncio.sleep(60)
        return city

    def broken(city: str) -> str:
        """Broken weather in a city."""
        raise ConnectionError(f"No line to {city}.")

    play.calls(("slow", OSLO), ("broken", OSLO), ("get_weather", OSLO), ("nope", {}))
    play.says("Some of it failed.")
    loop = _loop(play, [slow, broken, get_weather], tool_timeout={"slow": 0.02})
    outcome = await _run(loop, way)
    ids = play.ids(outcome.messages)
    errors = [
        "Tool 'slow' did not finish within 0.02 s. Whether it had an effect is not known.",
        "Tool 'broken' failed: ConnectionError: No line to Oslo.",
        "There is no tool named 'nope'. Tools: 'slow', 'broken', 'get_weather'.",
    ]
    assert play.sent[1]["contents"][2] == user(
        result("slow", errors[0], ids[0], key="error"),
        result("broken", errors[1], ids[1], key="error"),
        result("get_weather", "Sunny in Oslo", ids[2]),
        result("nope", errors[2], ids[3], key="error"),
    )


async def test_only_the_first_turn_is_forced(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    outcome = await _run(_loop(play, forced_first=True), "invoke")
    assert outcome.text == "Sunny."
    assert [sent.get("toolConfig") for sent in play.sent] == [
        {"functionCallingConfig": {"mode": "ANY"}},
        None,
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_at_the_limit_the_model_answers_without_tools(play: Play, way: str) -> None:
    play.calls(("get_weather", OSLO))
    play.calls(("get_weather", ROME))
    play.says("Sunny in Oslo, at least.")
    outcome = await _run(_loop(play, max_turns=2, on_limit="answer"), way)
    oslo, rome = play.ids(outcome.messages)
    assert play.sent[2] == request(
        user(QUESTION),
        model(call("get_weather", OSLO, oslo, play.signature(1))),
        user(result("get_weather", "Sunny in Oslo", oslo)),
        model(call("get_weather", ROME, rome, play.signature(2))),
        user(
            result(
                "get_weather",
                "Not executed: this run has no turns left. Answer with what is known.",
                rome,
                key="error",
            )
        ),
        toolConfig={"functionCallingConfig": {"mode": "NONE"}},
    )
    assert (outcome.stop_reason, outcome.text) == (
        "answered_at_limit",
        "Sunny in Oslo, at least.",
    )


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_continues_after_an_api_failure(play: Play, way: str) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.emulator.reply(status=503, body={"error": {"code": 503, "message": "Overloaded."}})
    play.calls(("get_weather", LIMA), before="One more.")
    play.says("Sunny everywhere.")
    with pytest.raises(GeminiServerError) as caught:
        await _run(_loop(play), way)
    stopped = result_of(caught.value)
    assert stopped is not None
    assert [type(message) for message in stopped.new_messages] == [
        AIMessage,
        ToolMessage,
        ToolMessage,
    ]
    outcome = await _run(_loop(play), way, list(stopped.messages))
    first, second, third = _two_steps(play, outcome.messages)
    assert [sent["contents"] for sent in play.sent] == [first, second, second, third]
    assert outcome.text == "Sunny everywhere."


def test_the_calls_of_an_unexpected_tool_call_turn_are_not_run(play: Play) -> None:
    ran = []

    def delete(name: str) -> str:
        """Delete a file."""
        ran.append(name)
        return "deleted"

    play.emulator.reply(
        calls=[("delete", {"name": "x"})],
        finish_reason="UNEXPECTED_TOOL_CALL",
        finish_message="No such tool.",
    )
    play.says("I could not.")
    loop = ToolLoop(play.model(on_malformed="return"), [delete])
    outcome = loop.invoke("Delete x.")
    assert ran == []
    (answer,) = [m for m in outcome.messages if isinstance(m, ToolMessage)]
    words = "Not executed: the model stopped with UNEXPECTED_TOOL_CALL: No such tool."
    assert (answer.content, answer.status) == (words, "error")
    assert play.sent[1]["contents"][2] == user(
        result("delete", words, answer.tool_call_id, key="error")
    )


async def test_a_truncated_answer_is_not_complete(play: Play) -> None:
    for _ in range(2):
        play.emulator.reply("It is sunny in", finish_reason="MAX_TOKENS")
    loop = _loop(play)
    outcome = await _run(loop, "ainvoke")
    assert (outcome.stop_reason, outcome.text) == ("truncated", "It is sunny in")
    with pytest.raises(IncompleteRunError, match="reached the token limit"):
        list(loop.stream(QUESTION))


def test_tools_of_the_api_work_beside_functions_or_are_rejected_early(play: Play) -> None:
    tools = [{"google_search": {}}, get_weather]
    if not play.is_gemini_3:
        with pytest.raises(InvalidToolError, match="google_search"):
            _loop(play, tools)
        return
    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    assert _loop(play, tools).invoke(QUESTION).text == "Sunny."
    assert play.sent[1]["tools"] == [{"functionDeclarations": [WEATHER]}, {"googleSearch": {}}]
