"""What rendering, reading and binding cost, counted in lines of ours that are run.

A count does not depend on the machine's mood, and it grows with every loop that is added. It
sees no work inside of C functions; `make bench` does. Passes of the garbage collector are counted,
too: each of them may go through everything that is alive.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini, options
from langchain_gemini_tools.client.responses import EventReader
from langchain_gemini_tools.wire.request import render_request
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from langchain_core.messages import BaseMessage

    Json = dict[str, Any]

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

PACKAGE = str(Path(langchain_gemini_tools.__file__).parent)
MODEL = ChatGemini(model="gemini-3.8-flash", api_key="not-used")
CONTEXT = ResponseContext("gemini-3.8-flash")


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of this package a call runs, each time round a loop counted."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


# Histories


def call(number: int, call_id: str | None = None) -> Json:
    args = {"city": f"City {number}", "days": number}
    return {"name": "look_up", "args": args, "id": call_id or f"call_{number}"}


def asked(*calls: Json) -> AIMessage:
    signatures = {item["id"]: "c2lnbmVk" for item in calls}
    return AIMessage(
        "",
        tool_calls=list(calls),
        additional_kwargs={"__gemini_function_call_thought_signatures__": signatures},
        response_metadata={"model_provider": "google_genai", "model_name": "gemini-3-flash"},
    )


def answered(number: int, call_id: str | None = None) -> ToolMessage:
    return ToolMessage('{"sky": "clear", "days": [1, 2]}', tool_call_id=call_id or f"call_{number}")


def tool_turns(count: int) -> list[BaseMessage]:
    return [message for n in range(count) for message in (asked(call(n)), answered(n))]


HISTORIES: dict[str, Callable[[int], list[BaseMessage]]] = {
    "tool turns": tool_turns,
    "calls without a result": lambda count: [
        message for n in range(count) for message in (asked(call(n)), HumanMessage("And now?"))
    ],
    "results without a call": lambda count: [
        *tool_turns(count),
        *(answered(n, f"lost_{n}") for n in range(count)),
    ],
    "results that come late": lambda count: [
        *(message for n in range(count) for message in (asked(call(n)), HumanMessage("Wait."))),
        *(answered(n) for n in range(count)),
    ],
    "one turn of many calls": lambda count: [
        asked(*(call(n) for n in range(count))),
        *(answered(n) for n in range(count)),
    ],
    "one id in every turn": lambda count: [
        message
        for n in range(count)
        for message in (asked(call(n, "call_0")), answered(n, "call_0"))
    ],
    "one id in one turn": lambda count: [
        asked(*(call(n, "call_0") for n in range(count))),
        *(answered(n, "call_0") for n in range(count)),
    ],
    "answers in a row": lambda count: [AIMessage(f"Text {n}") for n in range(count)],
    "texts in a row": lambda count: [HumanMessage(f"Text {n}") for n in range(count)],
    "blocks in a message": lambda count: [
        HumanMessage([{"type": "text", "text": f"Text {n}"} for n in range(count)])
    ],
    "system messages": lambda count: [
        *(SystemMessage(f"Rule {n}") for n in range(count)),
        HumanMessage("Hello"),
    ],
}


def rendering(messages: list[BaseMessage]) -> Callable[[], object]:
    invocation = MODEL.preview("Hello").invocation
    return lambda: render_request([HumanMessage("Hello"), *messages], invocation)


# Replies


def reply(*parts: Json, finish_reason: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 3, "totalTokenCount": 15}
    end = {"finishReason": finish_reason} if finish_reason else {}
    return {
        "candidates": [candidate | end],
        "usageMetadata": usage,
        "modelVersion": "gemini-3-flash",
        "responseId": "abc",
    }


def called(number: int) -> Json:
    return {"functionCall": call(number), "thoughtSignature": "c2lnbmVk"}


def fragment(number: int) -> Json:
    piece = {"jsonPath": "$.text", "stringValue": f"word {number} ", "willContinue": True}
    begun = {"name": "write", "id": "call_0"} if number == 0 else {}
    return {"functionCall": {**begun, "partialArgs": [piece], "willContinue": True}}


PARTS: dict[str, Callable[[int], list[Json]]] = {
    "texts": lambda count: [{"text": f"word {n} "} for n in range(count)],
    "calls": lambda count: [called(n) for n in range(count)],
    "thoughts and texts": lambda count: [
        {"text": f"word {n} ", "thought": n % 2 == 0} for n in range(count)
    ],
    "arguments in pieces": lambda count: [
        *(fragment(n) for n in range(count)),
        {"functionCall": {}},
    ],
}


def streaming(parts: list[Json]) -> Callable[[], object]:
    def read() -> None:
        parser = StreamParser(CONTEXT)
        for part in parts:
            parser.feed(reply(part))
        parser.feed(reply(finish_reason="STOP"))
        parser.finish()

    return read


def reading(parts: list[Json]) -> Callable[[], object]:
    return lambda: parse_response(reply(*parts, finish_reason="STOP"), CONTEXT)


def cutting(count: int) -> Callable[[], object]:
    """Bytes of events, cut where no event ends."""
    stream = b"".join(b'data: {"text": "word %d"}\r\n\r\n' % n for n in range(count))

    def read() -> None:
        reader = EventReader()
        for start in range(0, len(stream), 20):
            reader.feed(stream[start : start + 20])
        reader.finish()

    return read


# Tools


def tools(count: int) -> list[Json]:
    properties = {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}
    schema = {"type": "object", "properties": properties, "required": ["city"]}
    return [
        {"name": f"look_up_{n}", "description": f"Look up {n}.", "parameters": schema}
        for n in range(count)
    ]


def binding_again(count: int) -> Callable[[], object]:
    given = tools(count)
    MODEL.bind_tools(given)
    return lambda: MODEL.bind_tools(given)


def rendering_bound(count: int) -> Callable[[], object]:
    """The second request with bound tools: the first one renders their schemas."""
    options = MODEL.bind_tools(tools(count)).kwargs
    MODEL.preview("Hello", **options)
    return lambda: MODEL.preview("Hello", **options)


def rendering_prompted(count: int) -> Callable[[], object]:
    """The second request with prompted tools, which are described once."""
    bound = MODEL.bind_tools(tools(count), tool_calling="prompted")
    bound.preview("Hello")
    return lambda: bound.preview("Hello")


WORK: dict[str, Callable[[int], Callable[[], object]]] = {
    **{
        f"render: {name}": lambda count, make=make: rendering(make(count))  # type: ignore[misc]
        for name, make in HISTORIES.items()
    },
    **{
        f"stream: {name}": lambda count, make=make: streaming(make(count))  # type: ignore[misc]
        for name, make in PARTS.items()
    },
    **{
        f"read: {name}": lambda count, make=make: reading(make(count))  # type: ignore[misc]
        for name, make in PARTS.items()
    },
    "cut events": cutting,
    "bind again": binding_again,
    "render bound tools": rendering_bound,
    "render prompted tools": rendering_prompted,
}

# Turns with results cost a little more since results, their files and the user's words are separate
# contents, and streamed calls since they wait for the finish reason and since each is compared with
# earlier ones of the same id. Every event costs a few lines more since it may begin a hop of a long
# response, repeat a call, have text and a call in one part, or contain audio.
BUDGETS = {
    "render: tool turns": 156,
    "render: results without a call": 214,
    "render: one turn of many calls": 57,
    "render: texts in a row": 37,
    "render: blocks in a message": 18,
    "stream: texts": 69,
    "stream: calls": 118,
    "stream: thoughts and texts": 113,
    "stream: arguments in pieces": 164,
    "read: texts": 18,
    "read: calls": 53,
    "cut events": 23,
    "bind again": 104,
    "render bound tools": 4,
    "render prompted tools": 6,
}
"""Lines of ours for one turn, event, part or tool more, as counted on Python 3.11.

If something has to cost more, raise its number in the commit that makes it so, and say why.
"""
CALL_BUDGET = 461
"""Lines of ours for a call that says one thing. More options are checked against the model."""
TOLERANCE = 1.1
"""Python's versions differ in what they count as a line."""


@pytest.mark.parametrize("name", WORK)
def test_five_times_as_much_costs_five_times_as_many_lines(name: str) -> None:
    small, large = (lines_run(WORK[name](count)) for count in (100, 500))
    assert large <= 5.2 * small


@pytest.mark.parametrize("name", BUDGETS)
def test_one_more_stays_within_its_budget(name: str) -> None:
    small, large = (lines_run(WORK[name](count)) for count in (50, 150))
    assert (large - small) / 100 <= BUDGETS[name] * TOLERANCE


def test_a_call_stays_within_its_budget() -> None:
    MODEL.preview("Hello")
    assert lines_run(lambda: MODEL.preview("Hello")) <= CALL_BUDGET * TOLERANCE


def times_entered(function: Callable[[], object]) -> Counter[str]:
    """How often each function of `options.py` is entered."""
    count: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == options.__file__:
            count[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def respond(request: Any) -> Any:
    body = json.dumps(reply({"text": "Hello"}, finish_reason="STOP"))
    is_stream = request.url.path.endswith(":streamGenerateContent")
    return hx.Response(200, text=f"data: {body}\n\n" if is_stream else body)


@pytest.mark.parametrize(
    "use", [lambda model: model.invoke("Hi"), lambda model: [*model.stream("Hi")]]
)
def test_options_are_resolved_once_per_invocation(use: Callable[..., object]) -> None:
    transport = {"transport": hx.MockTransport(respond)}
    model = ChatGemini(model="gemini-3.8-flash", api_key="not-used", client_args=transport)
    bound = model.bind_tools(tools(1), temperature=0.5)
    count = times_entered(lambda: use(bound))
    assert (count["resolve"], count["_join_levels"], count["canonical_options"]) == (1, 1, 1)


def test_a_long_history_does_not_wake_the_garbage_collector() -> None:
    render = rendering(tool_turns(1_000))
    render()
    gc.collect()
    before = [each["collections"] for each in gc.get_stats()]
    render()
    assert [each["collections"] for each in gc.get_stats()] == before
