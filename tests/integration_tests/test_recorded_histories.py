"""Round trip: from our own messages, the request that the real API accepted is rendered again.

Each recorded request is taken apart into the messages that a LangChain user would hold, its model
turns parsed by `ChatGemini` and stored as JSON; what `preview` makes of them has to say what the
recorded request said: roles, order of parts, calls, results, signatures, media.

Recorded requests are what other clients sent. Where one echoes an earlier reply of the same
recording, a second test goes on from that reply, and the turn has to be what the API had sent, not
what the client made of it: clients leave out thoughts, code or signatures of texts, put a
signature on a thought that had none, or repeat it on every call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, messages_from_dict, messages_to_dict

from langchain_gemini_tools.wire import history
from tests.integration_tests.test_emulator_truth import check as check_by_emulator
from tests.recorded_history import (
    Conversation,
    camel,
    contents_of,
    echoes_in,
    request_of,
    spell,
    system_of,
    turns_of,
)
from tests.recorded_reply import Recorded, echo_of, whole_calls
from tests.recordings import each_exchange, exchanges, require_recordings
from tests.replay_server import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.recordings import Exchange, JsonObject

SCORE = "round trip"
Contents = list[dict[str, Any]]

# What we send differently on purpose


def without_empty_replies(contents: Contents) -> Contents:
    return [
        content
        for content in contents
        if content["role"] != "model" or any(part != {"text": ""} for part in content["parts"])
    ]


def with_every_call_answered(contents: Contents) -> Contents:
    """For a whole model turn without any answer, which is what was recorded."""
    answered: Contents = []
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        answered.append(content)
        parts = (following or {}).get("parts") or ()
        if content["role"] != "model" or any("functionResponse" in part for part in parts):
            continue
        answers = [
            {"functionResponse": {"name": name, "response": {"error": history.NOT_EXECUTED}}}
            for part in whole_calls(content["parts"])
            if (name := part["functionCall"]["name"]) not in _answered_by_the_api(content)
        ]
        if answers and (following or {}).get("role") != "model":
            answered.append({"role": "user", "parts": answers})
    return answered


def _answered_by_the_api(content: JsonObject) -> set[str]:
    responses = [
        part["functionResponse"] for part in content["parts"] if "functionResponse" in part
    ]
    return {response["name"] for response in responses}


def with_linked_files_after_results(contents: Contents) -> Contents:
    return [{**content, "parts": _with_linked_files_last(content["parts"])} for content in contents]


def _with_linked_files_last(parts: Sequence[JsonObject]) -> list[JsonObject]:
    results: list[JsonObject] = []
    files: list[JsonObject] = []
    for part in parts:
        response = part.get("functionResponse") or {}
        linked = [file for file in response.get("parts") or () if "fileData" in file]
        if linked:
            files += [{"text": f"Files returned by {response['name']} (call):"}, *linked]
            inside = [file for file in response["parts"] if "fileData" not in file]
            results.append({"functionResponse": {**response, "parts": inside}})
        else:
            results.append(part)
    return results + files


def with_empty_inputs_filled(contents: Contents) -> Contents:
    return [
        {"role": "user", "parts": [{"text": history.EMPTY_MESSAGE}]}
        if content["role"] == "user" and all(part == {"text": ""} for part in content["parts"])
        else content
        for content in contents
    ]


def with_video_metadata_on_its_video(contents: Contents) -> Contents:
    changed: Contents = []
    for content in contents:
        parts: list[JsonObject] = []
        for part in content["parts"]:
            if set(part) == {"videoMetadata"}:
                parts[-1] = parts[-1] | part
            else:
                parts.append(part)
        changed.append({**content, "parts": parts})
    return changed


def with_results_apart(contents: Contents) -> Contents:
    return [part for content in contents for part in _apart(content)]


def _apart(content: JsonObject) -> Contents:
    results = [part for part in content["parts"] if "functionResponse" in part]
    others = [part for part in content["parts"] if "functionResponse" not in part]
    if content["role"] != "user" or not results or not others:
        return [content]
    return [{**content, "parts": results}, {**content, "parts": others}]


@dataclass(frozen=True)
class Deviation:
    """Something recorded clients send, and the API takes, that we send in another way."""

    reason: str
    change: Callable[[Contents], Contents]
    """What we send instead."""
    repair: str | None
    """The repair that tells the user about it; none where nothing is lost or added."""


DEVIATIONS = (
    Deviation(
        "A model turn that says nothing is left out, unless it is signed. Models before Gemini 3 "
        'took {"text": ""}; newer ones may refuse an empty turn.',
        without_empty_replies,
        "empty_message",
    ),
    Deviation(
        "A call without a result is always answered. gemini-2.0-flash took a call followed by "
        "text; users report 400 elsewhere.",
        with_every_call_answered,
        "unanswered_call",
    ),
    Deviation(
        "Files behind a link follow all results of a turn. Vertex took them inside a response; "
        "the Developer API documents inline data there.",
        with_linked_files_after_results,
        None,
    ),
    Deviation(
        "A message of the user that says nothing is filled. gemini-2.5-flash took an empty text as "
        "the only part.",
        with_empty_inputs_filled,
        "empty_input",
    ),
    Deviation(
        "How to read a video stands on its part, as documented. One client sent it as a part of "
        "its own.",
        with_video_metadata_on_its_video,
        None,
    ),
    Deviation(
        "Function responses are a content of their own. gemini-2.5-flash took text or files beside "
        "them; later models say nothing or refuse.",
        with_results_apart,
        None,
    ),
)


# The tests


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as running:
        yield running


@each_exchange(lambda exchange: exchange.is_answered)
def test_a_recorded_request_is_rendered_again(exchange: Exchange, replay: Replay) -> None:
    recorded = contents_of(request_of(exchange))
    conversation = Conversation(lambda content: parse(content, exchange, replay))
    check_rendering(exchange, recorded, conversation, replay)


@each_exchange(lambda exchange: bool(echoes_in(exchange)))
def test_a_history_goes_on_from_what_the_api_replied(exchange: Exchange, replay: Replay) -> None:
    echoes = echoes_in(exchange)
    recorded = contents_of(request_of(exchange))
    for number, earlier in echoes.items():
        recorded[number] = {"role": "model", "parts": camel(echo_of(Recorded(earlier)))}
    messages = {
        id(recorded[number]): through_json(returned(earlier, replay))
        for number, earlier in echoes.items()
    }
    conversation = Conversation(
        lambda content: messages.get(id(content)) or parse(content, exchange, replay)
    )
    check_rendering(exchange, recorded, conversation, replay)


def test_the_recordings_need_every_deviation() -> None:
    """A row that no recording needs leaves the table."""
    require_recordings()
    requests = [contents_of(request_of(found)) for found in exchanges() if found.is_answered]
    for deviation in DEVIATIONS:
        assert any(deviation.change(contents) != contents for contents in requests)


def check_rendering(
    exchange: Exchange, recorded: Contents, conversation: Conversation, replay: Replay
) -> None:
    request = request_of(exchange)
    instruction = system_of(request)
    if instruction:
        conversation.add_system(instruction)
    for content in recorded:
        conversation.add(content)
    rendered = replay.model(exchange).preview(conversation.messages, model=exchange.model)
    body: JsonObject = camel(rendered.body)
    expected, repairs = with_deviations(recorded)
    assert spell(body["contents"]) == spell(expected)
    assert with_results_apart(body["contents"]) == body["contents"]
    assert {repair.kind for repair in rendered.repairs if not repair.is_harmless} == repairs
    assert body.get("systemInstruction") == instruction
    check_ids(body["contents"], expected)
    others = {
        key: value
        for key, value in request.items()
        if key not in {"systemInstruction", "system_instruction"}
    }
    check_by_emulator(replace(exchange, request=others | rendered.body))


def with_deviations(recorded: Contents) -> tuple[Contents, set[str]]:
    repairs: set[str] = set()
    expected = recorded
    for deviation in DEVIATIONS:
        changed = deviation.change(expected)
        if changed != expected and deviation.repair:
            repairs.add(deviation.repair)
        expected = changed
    return expected, repairs


def check_ids(sent: Contents, recorded: Contents) -> None:
    """A recorded id is kept; where there is none ours is on both sides."""
    open_ids: list[str] = []
    for role, parts in turns_of(sent):
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if role == "user":
            assert [response["id"] for response in responses] == open_ids
        else:
            open_ids = [
                call["id"] for call in calls if call["name"] not in {r["name"] for r in responses}
            ]
            assert len(set(open_ids)) == len(open_ids)
    assert all(
        ours == theirs
        for ours, theirs in zip(call_ids(sent), call_ids(recorded), strict=True)
        if theirs
    )


def call_ids(contents: Contents) -> list[str | None]:
    return [
        part["functionCall"].get("id")
        for content in contents
        for part in whole_calls(content["parts"])
    ]


# Replies of the past


def parse(content: JsonObject, exchange: Exchange, replay: Replay) -> AIMessage:
    """The message that our parser makes of a recorded model turn."""
    replay.server.answer([{"candidates": [{"content": content, "finishReason": "STOP"}]}])
    return through_json(replay.ask(exchange, is_stream=False))


def returned(exchange: Exchange, replay: Replay) -> AIMessage:
    """The message of a reply, also where its calls must not be executed."""
    replay.put(exchange)
    return replay.ask(exchange, on_malformed="return")


def through_json(message: AIMessage) -> AIMessage:
    stored = json.dumps(messages_to_dict([message]))
    (loaded,) = messages_from_dict(json.loads(stored))
    assert isinstance(loaded, AIMessage)
    return loaded
