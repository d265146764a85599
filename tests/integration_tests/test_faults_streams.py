"""Every fault inside a stream: ends that are none, errors among the events, odd but harmless forms.

Once a chunk has reached the caller nothing is repeated, and what had arrived is on the error. The
harmless forms are also tested with whole responses, where most of them cannot be noticed.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import errors as sdk
from langchain.agents import create_agent
from langchain_core import exceptions as core

from langchain_gemini_tools import errors
from langchain_gemini_tools.testing.fake import faults
from tests.integration_tests.invoking import QUESTION, TWICE, ask, logged_retries
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.script import Fault
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

TEXT = "Sunny in Oslo."
FIRST = "Sunny"
CALL = ("get_weather", {"city": "Oslo"})
OVERLOADED = "503 UNAVAILABLE: The model is overloaded. Please try again later."


@dataclass(frozen=True)
class Case:
    """A fault, and what must be true of the error and of what the caller had seen."""

    fault: Fault
    error: type[errors.GeminiToolsError]
    core: type[core.ModelError]
    line: str
    """How the text begins."""
    seen: str = ""
    requests: int = 1
    sdk: type[Exception] | None = None
    code: int | None = None
    reply: dict[str, Any] = field(default_factory=lambda: {"text": TEXT})


def _data(*events: Any, finish: str | None = None) -> list[Any]:
    """Events with these parts; the last one has the finish reason."""
    bodies: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in events
    ]
    if finish:
        bodies[-1]["candidates"][0]["finishReason"] = finish
    return bodies


SERVER = (errors.GeminiServerError, core.ModelAPIError, OVERLOADED)
CUT = (errors.TruncatedStreamError, core.ModelConnectionError)
LOST = (errors.GeminiConnectionError, core.ModelConnectionError, "The connection to the API failed")
UNREADABLE = (errors.UnreadableResponseError, core.ModelAPIError)
NO_END = "The stream ended without a finish reason"

CASES = {
    "cut-after-text": Case(faults.cut_connection(after=1), *LOST, seen=FIRST),
    "cut-before-the-end": Case(faults.cut_connection(), *LOST, seen=TEXT),
    "no-event-at-all": Case(lambda outgoing: outgoing.with_steps(), *CUT, NO_END, requests=3),
    "no-finish-reason": Case(faults.ended_early(), *CUT, NO_END, seen=TEXT),
    "ends-inside-the-first-event": Case(
        lambda outgoing: outgoing.with_steps(b'data: {"candidates": [{"con'),
        *CUT,
        "The connection ended inside an event.",
        requests=3,
    ),
    "ends-inside-a-later-event": Case(
        lambda outgoing: outgoing.with_steps(outgoing.steps[0], b'data: {"candidates": [{"con'),
        *CUT,
        "The connection ended inside an event.",
        seen=FIRST,
    ),
    "broken-json-first": Case(
        faults.both(lambda outgoing: outgoing.with_steps(outgoing.steps[0]), faults.broken_json()),
        *UNREADABLE,
        "The response is not a JSON object (text/event-stream): ",
        requests=3,
    ),
    "broken-json-later": Case(
        faults.broken_json(),
        *UNREADABLE,
        "The response is not a JSON object (text/event-stream): ",
        seen=TEXT,
    ),
    "an-event-is-no-object": Case(
        lambda outgoing: outgoing.with_steps(outgoing.steps[0], b"data: 7\r\n\r\n"),
        *UNREADABLE,
        "The response is not a JSON object (text/event-stream): ",
        seen=FIRST,
    ),
    "error-event-first": Case(
        faults.error_in_stream("event", after=0),
        *SERVER,
        requests=3,
        sdk=sdk.ServerError,
        code=503,
    ),
    "error-tail-first": Case(
        faults.error_in_stream("tail", after=0), *SERVER, requests=3, sdk=sdk.ServerError, code=503
    ),
    "error-list-first": Case(
        faults.error_in_stream("list", after=0), *SERVER, requests=3, sdk=sdk.ServerError, code=503
    ),
    "error-event-later": Case(
        faults.error_in_stream("event", after=1),
        *SERVER,
        seen=FIRST,
        sdk=sdk.ServerError,
        code=503,
    ),
    "error-tail-later": Case(
        faults.error_in_stream("tail", after=1), *SERVER, seen=FIRST, sdk=sdk.ServerError, code=503
    ),
    "error-list-later": Case(
        faults.error_in_stream("list", after=1), *SERVER, seen=FIRST, sdk=sdk.ServerError, code=503
    ),
    "final-error-first": Case(
        faults.error_in_stream("event", after=0, code=400, message="No."),
        errors.GeminiInvalidRequestError,
        core.ModelInvalidRequestError,
        "400 INVALID_ARGUMENT: No.",
        sdk=sdk.ClientError,
        code=400,
    ),
    "error-with-text-in-the-same-event": Case(
        lambda outgoing: outgoing.with_steps(
            outgoing.steps[0],
            b'data: {"candidates": [{"content": {"parts": [{"text": "?"}]}}], "error": '
            b'{"code": 503, "message": "The model is overloaded. Please try again later.", '
            b'"status": "UNAVAILABLE"}}\r\n\r\n',
        ),
        *SERVER,
        seen=FIRST,
        sdk=sdk.ServerError,
        code=503,
    ),
    "a-second-candidate": Case(
        lambda outgoing: outgoing.with_steps(
            outgoing.steps[0], b'data: {"candidates": [{"index": 1}]}\r\n\r\n'
        ),
        *UNREADABLE,
        "The stream contains a second candidate",
        seen=FIRST,
    ),
}


@rotated(case=CASES, way=STREAMS)
async def test_a_broken_stream_becomes_its_error(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    library: str,
    case: Case,
    way: str,
) -> None:
    for _ in range(case.requests):
        emulator.reply(**case.reply, fault=case.fault)
    seen: list[Any] = []
    with pytest.raises(case.error) as raised:
        await ask(make_model(max_retries=2), way, seen)
    assert isinstance(raised.value, case.core)
    assert case.sdk is None or isinstance(raised.value, case.sdk)
    error: Any = raised.value
    assert case.line in str(error)
    assert "\n" not in str(error)
    assert getattr(error, "code", None) == case.code
    assert "".join(chunk.text for chunk in seen) == case.seen
    assert (error.partial.text if error.partial else "") == case.seen
    assert (len(emulator.requests), emulator.pending_replies) == (case.requests, 0)
    assert logged_retries(caplog) == (TWICE if case.requests == 3 else [])
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.partial) == (type(error), str(error), error.partial)


@rotated(name=[name for name, case in CASES.items() if case.requests == 3], way=STREAMS)
async def test_a_stream_that_fails_before_its_first_chunk_is_begun_again(
    emulator: Emulator, make_model: MakeModel, name: str, way: str
) -> None:
    emulator.reply(TEXT, fault=CASES[name].fault)
    emulator.reply(TEXT)
    seen: list[Any] = []
    answer = await ask(make_model(max_retries=2), way, seen)
    assert answer.text == TEXT
    assert len(emulator.requests) == 2


# Calls of a stream that did not end well.

BROKEN_ENDS = {
    "no-finish-reason": faults.ended_early(),
    "cut": faults.cut_connection(),
    "error": faults.error_in_stream("event"),
    "broken-json": faults.broken_json(),
}


@rotated(name=list(BROKEN_ENDS), way=STREAMS)
async def test_a_whole_call_before_a_broken_end_is_not_released(
    emulator: Emulator, make_model: MakeModel, library: str, name: str, way: str
) -> None:
    for _ in range(2):
        emulator.reply(calls=[CALL], fault=BROKEN_ENDS[name])
    with pytest.raises(core.ModelError) as raised:
        await ask(make_model(max_retries=1), way)
    partial = raised.value.partial  # type: ignore[attr-defined]
    assert partial.tool_calls == []
    [invalid] = partial.invalid_tool_calls
    assert (invalid["name"], json.loads(invalid["args"])) == CALL
    assert invalid["error"] == "Not executed: the response with this call failed."
    assert len(emulator.requests) == 2  # nothing had been passed on


async def _run(agent: Any, way: str) -> None:
    asked = {"messages": QUESTION}
    match way:
        case "invoke":
            await asyncio.to_thread(agent.invoke, asked)
        case "ainvoke":
            await agent.ainvoke(asked)
        case "stream":
            await asyncio.to_thread(lambda: [*agent.stream(asked, stream_mode="messages")])
        case _:
            [_ async for _ in agent.astream(asked, stream_mode="messages")]


@rotated(name=list(BROKEN_ENDS), way=WAYS)
async def test_an_agent_runs_no_tool_of_a_broken_stream(
    emulator: Emulator, make_model: MakeModel, name: str, way: str
) -> None:
    ran: list[str] = []

    def get_weather(city: str) -> str:
        """Current weather in a city."""
        ran.append(city)
        return "Sunny"

    for _ in range(2):
        emulator.reply(calls=[CALL], fault=BROKEN_ENDS[name])
    agent: Any = create_agent(make_model(max_retries=1, streaming=True), tools=[get_weather])
    with pytest.raises(core.ModelError):
        await _run(agent, way)
    assert ran == []
    assert len(emulator.requests) == 2


# Odd, but all right.

HARMLESS: dict[str, Fault] = {
    "keep-alive-comments": faults.keep_alive_comments(),
    "empty-events": faults.empty_events(),
    "no-space-after-data": faults.no_space_after_data(),
    "bare-line-feeds": faults.bare_line_feeds(),
    "several-data-lines": faults.several_data_lines(),
    "split-utf-8": faults.split_anywhere(1),
    "split-anywhere": faults.split_anywhere(7),
    "two-finishes": faults.two_finishes(),
    "falling-usage": faults.falling_usage(),
    "huge-event": faults.huge_event(20_000_000),
    "gzip": faults.gzipped(),
    "wrong-content-type": faults.wrong_content_type(),
    "everything-in-one-piece": lambda outgoing: outgoing.with_steps(outgoing.payload),
    "no-blank-line-at-the-end": lambda outgoing: outgoing.with_steps(outgoing.payload.rstrip()),
    "byte-order-mark": lambda outgoing: outgoing.with_steps(b"\xef\xbb\xbf" + outgoing.payload),
    "gzip-in-pieces": faults.both(faults.gzipped(), faults.split_anywhere(3)),
}
UMLAUTS = "Sonnig in Tromsø: 🌞 23 °C, schön."


@rotated(name=list(HARMLESS), way=WAYS)
async def test_an_odd_form_makes_no_difference(
    emulator: Emulator, make_model: MakeModel, library: str, name: str, way: str
) -> None:
    chat = make_model(max_retries=2)
    emulator.reply(UMLAUTS, calls=[CALL])
    plain = await ask(chat, way)
    emulator.reply(UMLAUTS, calls=[CALL], fault=HARMLESS[name])
    answer = await ask(chat, way)
    assert answer.text == UMLAUTS
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [CALL]
    assert answer.invalid_tool_calls == []
    assert answer.response_metadata["finish_reason"] == "STOP"
    assert len(emulator.requests) == 2
    if name == "falling-usage" and way in STREAMS:  # the last of each count, not their sum
        fallen = {
            key: value + 1 for key, value in plain.usage_metadata.items() if isinstance(value, int)
        }
        assert fallen.items() <= answer.usage_metadata.items()
    else:
        assert answer.usage_metadata == plain.usage_metadata


@rotated(way=STREAMS)
async def test_separators_of_unicode_end_no_line(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    emulator.reply(events=_data({"text": "a\u2028b"}, {"text": "\u0085c\u2029"}, finish="STOP"))
    answer = await ask(make_model(), way)
    assert answer.text == "a\u2028b\u0085c\u2029"


@rotated(way=STREAMS)
async def test_a_stall_inside_the_timeout_is_only_slow(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    emulator.reply(TEXT, fault=faults.stall(0.3, after=1))
    answer = await ask(make_model(timeout=30), way)
    assert answer.text == TEXT
    assert len(emulator.requests) == 1
