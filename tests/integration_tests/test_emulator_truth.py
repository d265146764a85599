"""The emulator is held to the truth: it accepts what Gemini accepted, and refuses what it refused.

Recorded requests carry signatures that this emulator never issued, and media that were cut: neither
is held against them.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake import rules
from langchain_gemini_tools.testing.fake.answer import Memory, may_be_foreign
from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.brain import think
from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules.payload import check_model, read_message
from langchain_gemini_tools.testing.fake.script import Reply
from tests.recordings import each_exchange, require_recordings

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake.ask import Backend
    from tests.recordings import Exchange

OUTSIDE_THE_REQUEST = {
    "Cannot fetch content from the provided URL": "a web site that forbids robots",
    "User location is not supported": "the country of the caller",
    "API key": "the caller's key",
}
"""Beginnings of 400s whose reason no request shows; the emulator accepts these requests. So it does
with those that met another status than 400 or 404: quota, load and failures are the service's."""


@each_exchange(lambda exchange: exchange.is_answered)
def test_what_gemini_accepted_is_accepted(exchange: Exchange) -> None:
    check(exchange)


def test_what_gemini_accepted_is_accepted_by_a_fake_that_has_answered_all_the_rest() -> None:
    """Its own answers resemble the recorded ones, and must not be confused with them."""
    memory = Memory()
    for recording in require_recordings():
        for exchange in filter(lambda each: each.is_answered, recording.exchanges):
            request = read(exchange)
            rules.check(request, memory, accepts_foreign=may_be_foreign)
            Reply(answer=think(request), signed=True).render(request, memory)


@each_exchange(lambda exchange: exchange.status != 200)
def test_the_emulator_rejects_what_gemini_rejected(exchange: Exchange) -> None:
    recorded = exchange.replies[0]["error"]
    is_ours = exchange.status in (400, 404)
    if not is_ours or recorded["message"].startswith(tuple(OUTSIDE_THE_REQUEST)):
        check(exchange)
        return
    with pytest.raises(Refusal) as refusal:
        check(exchange)
    error_body = refusal.value.body["error"]
    assert (error_body["code"], error_body["status"]) == (recorded["code"], recorded["status"])
    assert (
        error_body["message"].partition(" Call ")[0] == recorded["message"].partition(" Call ")[0]
    )


# Ways to spoil a request; each says whether there was something to spoil.


def drop_signature(ask: Ask) -> bool:
    """The first call of the current turn loses its signature. Gemini 3 alone minds."""
    steps = [turn for turn in ask.current_turn if turn.is_model and turn.has_calls]
    if not ask.model.is_3 or not steps:
        return False
    call = next(part for _, _, part in steps[0].parts if "functionCall" in part)
    return call.pop("thoughtSignature", None) is not None


def drop_response(ask: Ask) -> bool:
    """One response less than calls."""
    for content in ask.contents:
        responses = [part for part in content["parts"] if "functionResponse" in part]
        if responses and len(content["parts"]) > 1:
            content["parts"].remove(responses[-1])
            return bool(content["role"] == "user")
    return False


def rename_response(ask: Ask) -> bool:
    """A response under another name than its call: an id, say."""
    for response in ask.turns[-1].of_kind("functionResponse"):
        response["name"] = "call_1"
    return ask.turns[-1].has_responses


def repeat_response(ask: Ask) -> bool:
    """The same response twice."""
    if not ask.turns[-1].has_responses:
        return False
    content, _, part = ask.turns[-1].parts[0]
    ask.contents[content]["parts"].insert(0, part)
    return True


def lose_call(ask: Ask) -> bool:
    """A response without its call."""
    if not ask.turns[-1].has_responses:
        return False
    first = ask.turns[-1].parts[0][0]
    ask.contents[first - 1]["parts"] = [{"text": "I would call a function."}]
    return bool(ask.contents[first - 2]["role"] == "user")


def declare_twice(ask: Ask) -> bool:
    """Every function, and the first again."""
    if ask.declarations:
        ask.body["tools"].append({"functionDeclarations": ask.declarations[:1]})
    return bool(ask.declarations)


def misname_function(ask: Ask) -> bool:
    """A name with a space in it."""
    for declaration in ask.declarations:
        declaration["name"] = "get weather"
    return bool(ask.declarations)


def empty_content(ask: Ask) -> bool:
    """A content without parts."""
    ask.contents[0]["parts"] = []
    return True


def answer_for_the_model(ask: Ask) -> bool:
    """The last word is the model's, where that is not a prefill."""
    if ask.model.accepts_prefill:
        return False
    ask.body["contents"].append({"role": "model", "parts": [{"text": "Done."}]})
    return True


@pytest.mark.parametrize(
    "spoil",
    [
        drop_signature,
        drop_response,
        rename_response,
        repeat_response,
        lose_call,
        declare_twice,
        misname_function,
        empty_content,
        answer_for_the_model,
    ],
)
def test_the_emulator_rejects_accepted_requests_once_they_are_broken(
    spoil: Callable[[Ask], bool],
) -> None:
    spoiled = 0
    for recording in require_recordings():
        for exchange in recording.exchanges:
            if exchange.is_answered and spoil(ask := read(exchange)):
                spoiled += 1
                with pytest.raises(Refusal):
                    rules.check(Ask(ask.body, ask.model, ask.backend), accepts_foreign=True)
    assert spoiled > 0


WEATHER = {
    "name": "get_weather",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"tools": [{"functionDeclarations": [WEATHER]}]},
    {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    {"tools": [{"codeExecution": {}}]},
]


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("backend", ["gemini", "vertex"])
@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3.8-flash"])
def test_the_emulator_says_nothing_that_gemini_never_said(
    name: str, backend: Backend, is_stream: bool
) -> None:
    recorded = {
        path
        for recording in require_recordings()
        for exchange in recording.exchanges
        if exchange.is_answered
        for reply in exchange.replies
        for path in paths(reply)
    }
    text = {"role": "user", "parts": [{"text": "Run code for the weather in Oslo and Rome."}]}
    for question in QUESTIONS:
        model = check_model(name, "v1beta", backend, "generateContent")
        ask = Ask({"contents": [text], **question}, model, backend, is_stream=is_stream)
        outgoing = Reply(answer=think(ask), signed=True).render(ask, Memory())
        for step in outgoing.steps:
            assert isinstance(step, bytes)
            assert paths(json.loads(step.removeprefix(b"data: "))) <= recorded


def paths(value: Any, path: str = "") -> set[str]:
    """The way to every field in a reply, but not into values of free form."""
    match value:
        case dict() if path.rpartition(".")[2] not in ("args", "response"):
            return {
                found
                for key, item in value.items()
                for found in ({f"{path}.{key}"} | paths(item, f"{path}.{key}"))
            }
        case list():
            return {found for item in value for found in paths(item, path)}
        case _:
            return set()


def check(exchange: Exchange) -> None:
    """Put a recorded request before the rules."""
    rules.check(read(exchange), accepts_foreign=True)


def read(exchange: Exchange) -> Ask:
    """A recorded request, as a copy that may be spoiled."""
    backend, version = exchange.backend, exchange.version
    model = check_model(exchange.model, version, backend, "generateContent")
    body = read_message(deepcopy(exchange.request), backend=backend, version=version)
    return Ask(body, model, backend, version, is_stream=exchange.is_stream)
