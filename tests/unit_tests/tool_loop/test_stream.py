"""What a caller sees during a run: the text of the answer, or every step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.tool_loop import IncompleteRunError
from langchain_gemini_tools.tool_loop.events import (
    LimitReached,
    LoopEvent,
    LoopFinished,
    TextDelta,
    ToolCallEnded,
    ToolCallFailed,
    ToolCallSkipped,
    ToolCallTimedOut,
    TurnFinished,
)
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls
from tests.unit_tests.tool_loop.test_run import final

LONG = "A long answer. " * 5


def echo(text: str) -> str:
    """Say it again."""
    return text


def _loop(*replies: Any, **options: Any) -> ToolLoop:
    return ToolLoop(ScriptedModel(replies=list(replies), piece=10), [echo, final], **options)


def _pieces(*replies: Any, **options: Any) -> list[str]:
    """What `stream` yields, and `astream` too."""

    async def astream() -> list[str]:
        return [piece async for piece in _loop(*replies, **options).astream("Hi")]

    pieces = list(_loop(*replies, **options).stream("Hi"))
    assert asyncio.run(astream()) == pieces
    return pieces


def test_only_the_text_of_the_answer_is_streamed() -> None:
    turn = calls(call("echo", text="x"), text="I will look that up.")
    assert _pieces(turn, "Here it is.") == ["Here it is", "."]
    assert _pieces(turn, "Here it is.", hold_back=None) == ["Here it is", "."]


class _Gated(ScriptedModel):
    """Counts the pieces that it has produced."""

    produced: list[str] = Field(default_factory=list)

    def _stream(self, *args: Any, **kwargs: Any) -> Any:
        for chunk in super()._stream(*args, **kwargs):
            self.produced.append(str(chunk.text))
            yield chunk


@pytest.mark.parametrize(
    ("hold_back", "lag"), [(0, 1), (25, 3), (None, 9)], ids=["none", "25", "everything"]
)
def test_text_is_streamed_as_it_arrives_after_the_part_that_is_held_back(
    hold_back: int | None, lag: int
) -> None:
    model = _Gated(replies=[LONG], piece=10)
    stream = ToolLoop(model, [echo], hold_back=hold_back).stream("Hi")
    first = next(stream)
    assert first == LONG[:10]
    assert len(model.produced) == lag
    assert first + "".join(stream) == LONG


def test_a_long_text_before_a_call_is_followed_by_an_empty_line() -> None:
    turn = calls(call("echo", text="x"), text="I will look that up now.")
    pieces = _pieces(turn, "Here it is.", hold_back=12)
    assert "".join(pieces) == "I will look that up now.\n\nHere it is."


def test_text_after_the_beginning_of_a_call_is_never_streamed() -> None:
    class CallFirst(ScriptedModel):
        def _stream(self, *args: Any, **kwargs: Any) -> Any:
            chunks: list[Any] = list(super()._stream(*args, **kwargs))
            yield from sorted(chunks, key=lambda chunk: not chunk.message.tool_call_chunks)

    turn = calls(call("echo", text="x"), text="By the way, I am looking that up.")
    model = CallFirst(replies=[turn, "Here."])
    assert list(ToolLoop(model, [echo], hold_back=0).stream("Hi")) == ["Here", "."]


class _Whole(BaseChatModel):
    """Does not stream."""

    replies: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "whole"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.replies.pop(0))])


def test_a_model_that_does_not_stream_yields_its_text_at_once() -> None:
    def replies() -> list[AIMessage]:
        return [calls(call("echo", text="x"), text="Let me see."), AIMessage("Here it is.")]

    async def astream() -> list[str]:
        return [piece async for piece in ToolLoop(_Whole(replies=replies()), [echo]).astream("Hi")]

    assert list(ToolLoop(_Whole(replies=replies()), [echo]).stream("Hi")) == ["Here it is."]
    assert asyncio.run(astream()) == ["Here it is."]


def test_a_direct_answer_is_streamed() -> None:
    assert _pieces(calls(call("final", text="yes"))) == ["YES"]


@pytest.mark.parametrize("on_limit", ["raise", "return"])
def test_a_stream_that_ends_at_the_limit_raises(on_limit: Any) -> None:
    for way in ("stream", "astream"):
        loop = _loop(calls(call("echo", text="x")), max_turns=1, on_limit=on_limit)
        with pytest.raises(IncompleteRunError, match="limit of 1 turn without") as caught:
            _drain(loop, way)
        assert caught.value.tool_loop_result.stop_reason == "turn_limit"


def test_a_truncated_stream_raises_after_its_text() -> None:
    cut = AIMessage("It is", response_metadata={"finish_reason": "MAX_TOKENS"})
    for way in ("stream", "astream"):
        seen: list[str] = []
        with pytest.raises(IncompleteRunError, match="reached the token limit"):
            _drain(_loop(cut), way, seen)
        assert seen == ["It is"]


def test_an_answer_at_the_limit_is_streamed() -> None:
    turn = calls(call("echo", text="x"), text="Hm.")
    assert _pieces(turn, "So be it.", max_turns=1, on_limit="answer") == ["So be it."]


def test_the_output_of_text_is_the_answer_complete_or_streamed() -> None:
    turn = calls(call("echo", text="x"))
    assert _loop(turn, "Here.").text().invoke("Hi") == "Here."
    assert asyncio.run(_loop(turn, "Here.").text().ainvoke("Hi")) == "Here."
    assert list(_loop(turn, "Here.").text().stream("Hi")) == ["Here."]
    with pytest.raises(IncompleteRunError):
        _loop(AIMessage("")).text().invoke("Hi")


def _drain(loop: ToolLoop, way: str, seen: list[str] | None = None) -> None:
    seen = [] if seen is None else seen

    async def drain() -> None:
        async for piece in loop.astream("Hi"):
            seen.append(piece)

    if way == "astream":
        asyncio.run(drain())
    else:
        for piece in loop.stream("Hi"):
            seen.append(piece)


def _events(loop: ToolLoop, way: str) -> list[LoopEvent]:
    async def collect() -> list[LoopEvent]:
        return [event async for event in loop.aevents("Hi")]

    return list(loop.events("Hi")) if way == "events" else asyncio.run(collect())


def _tool_texts(event: LoopEvent) -> Any:
    name = type(event).__name__
    match event:
        case TextDelta(text=text):
            return (event.turn, name, text)
        case ToolCallEnded():
            return (event.turn, name, event.call["id"], event.record.message.text)
        case TurnFinished(message=message):
            return (event.turn, name, str(message.text))
        case LimitReached(pending=pending):
            return (event.turn, name, [asked["id"] for asked in pending])
        case LoopFinished(result=result):
            return (event.turn, name, result.stop_reason)
    key = getattr(event, "name", None) or getattr(event, "call", {}).get("id")
    return (event.turn, name, key) if key else (event.turn, name)


@pytest.mark.parametrize("way", ["events", "aevents"])
def test_events_report_every_step_in_order(way: str) -> None:
    turn = calls(call("echo", "1", text="x"), call("echo", "2", text="y"), text="Let me see.")
    seen = _events(_loop(turn, "Here it is.", max_concurrency=1), way)
    assert [_tool_texts(event) for event in seen] == [
        (1, "TurnStarted"),
        (1, "TextDelta", "Let me see"),
        (1, "TextDelta", "."),
        (1, "ToolCallAnnounced", "echo"),
        (1, "ToolCallAnnounced", "echo"),
        (1, "TurnFinished", "Let me see."),
        (1, "ToolCallStarted", "1"),
        (1, "ToolCallFinished", "1", "x"),
        (1, "ToolCallStarted", "2"),
        (1, "ToolCallFinished", "2", "y"),
        (2, "TurnStarted"),
        (2, "TextDelta", "Here it is"),
        (2, "TextDelta", "."),
        (2, "TurnFinished", "Here it is."),
        (2, "LoopFinished", "answered"),
    ]
    times = [event.at for event in seen]
    assert times == sorted(times)
    assert times[0] >= 0
    assert all(
        event.duration >= 0 for event in seen if isinstance(event, TurnFinished | ToolCallEnded)
    )


@pytest.mark.parametrize("way", ["events", "aevents"])
def test_events_report_failures(way: str) -> None:
    def fail(text: str) -> str:
        """Fail."""
        raise ValueError(text)

    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(60)
        return ""

    asked = [call("fail", "1", text="x"), call("hang", "2"), call("nope", "3")]
    model = ScriptedModel(replies=[calls(*asked), calls(call("fail", "4", text="y"))])
    loop = ToolLoop(
        model, [fail, hang], tool_timeout={"hang": 0.02}, max_turns=2, on_limit="return"
    )
    seen = _events(loop, way)
    ended = {event.call["id"]: type(event) for event in seen if isinstance(event, ToolCallEnded)}
    assert ended == {"1": ToolCallFailed, "2": ToolCallTimedOut, "3": ToolCallSkipped}
    assert [_tool_texts(event) for event in seen[-3:]] == [
        (2, "TurnFinished", ""),
        (2, "LimitReached", ["4"]),
        (2, "LoopFinished", "turn_limit"),
    ]
