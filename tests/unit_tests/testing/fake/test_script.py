from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake.answer import Answer, Memory
from langchain_gemini_tools.testing.fake.script import Reply, merge_events
from tests.unit_tests.testing.fake.requests import GEMINI_2, ask, call

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask

SIGNED_CALL: dict[str, Any] = {
    "functionCall": {"name": "f", "args": {}, "id": "x"},
    "thoughtSignature": "AAAA",
}


def body_of(reply: Reply, request: Ask) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(reply.render(request, Memory(salt=0)).payload)
    return body


def events_of(reply: Reply, request: Ask) -> list[dict[str, Any]]:
    payload = reply.render(replace(request, is_stream=True), Memory(salt=0)).payload
    blocks = payload.decode().split("\r\n\r\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: {") for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = body["candidates"][0]["content"]["parts"]
    return parts


@pytest.mark.parametrize("model", [GEMINI_2, "gemini-3.8-flash"])
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([{"text": "It is sunny in Oslo."}], id="text"),
        pytest.param([{"text": "Let me see."}, call("f"), call("g")], id="text-and-calls"),
        pytest.param([call("f"), {"text": "And then:"}, call("g")], id="text-between-calls"),
        pytest.param([{"text": "Hm.", "thought": True}, {"text": "Yes, indeed."}], id="thought"),
    ],
)
def test_both_forms_say_the_same(parts: list[dict[str, Any]], model: str) -> None:
    reply, request = Reply(answer=Answer(parts, thoughts_tokens=7)), ask(model=model)
    assert merge_events(events_of(reply, request)) == body_of(reply, request)


def test_a_text_is_streamed_in_three_pieces_and_an_empty_end() -> None:
    events = events_of(Reply(answer=Answer([{"text": "Sunny."}])), ask())
    texts = [parts_of(event)[0]["text"] for event in events]
    assert texts == ["Su", "nn", "y.", ""]
    assert "thoughtSignature" in parts_of(events[-1])[0]
    assert [event["candidates"][0].get("finishReason") for event in events] == [
        None,
        None,
        None,
        "STOP",
    ]


def test_usage_grows_from_event_to_event() -> None:
    events = events_of(Reply(answer=Answer([{"text": "It is sunny in Oslo."}])), ask())
    counts = [event["usageMetadata"]["candidatesTokenCount"] for event in events]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    last = events[-1]["usageMetadata"]
    assert last["totalTokenCount"] == last["promptTokenCount"] + last["candidatesTokenCount"]


def test_gemini_3_signs_the_first_call_and_gives_every_call_an_id() -> None:
    first, second = parts_of(body_of(Reply(answer=Answer([call("f"), call("g")])), ask()))
    assert first.keys() == {"functionCall", "thoughtSignature"}
    assert second.keys() == {"functionCall"}
    assert len({first["functionCall"]["id"], second["functionCall"]["id"]}) == 2


def test_gemini_2_5_may_sign_calls_when_it_thinks_and_2_0_never_does() -> None:
    answer = Answer([call("f"), call("g")])
    assert parts_of(body_of(Reply(answer=answer), ask(model=GEMINI_2))) == [call("f"), call("g")]
    reply = Reply(answer=answer, signed=True)
    first, second = parts_of(body_of(reply, ask(model=GEMINI_2)))
    assert first == call("f", signature=first["thoughtSignature"])
    assert second == call("g")
    off = {"thinkingConfig": {"thinkingBudget": 0}}
    for request in (ask(model=GEMINI_2, generationConfig=off), ask(model="gemini-2.0-flash")):
        assert parts_of(body_of(reply, request)) == [call("f"), call("g")]


def test_gemini_2_ends_a_stream_with_its_last_piece() -> None:
    texts = events_of(Reply(answer=Answer([{"text": "Sunny."}])), ask(model=GEMINI_2))
    assert [parts_of(event)[0]["text"] for event in texts] == ["Su", "nn", "y."]
    assert texts[-1]["candidates"][0]["finishReason"] == "STOP"
    calls = Reply(answer=Answer([{"text": "a"}, call("f"), call("g")]), signed=False)
    _, last = events_of(calls, ask(model=GEMINI_2))
    assert parts_of(last) == [call("f"), call("g")]


def test_vertex_gives_no_ids_and_counts_at_the_end() -> None:
    events = events_of(Reply(answer=Answer([call("f")])), ask(backend="vertex"))
    assert "id" not in parts_of(events[0])[0]["functionCall"]
    assert events[0]["usageMetadata"] == {"trafficType": "ON_DEMAND"}
    assert events[-1]["usageMetadata"]["totalTokenCount"] > 0


def test_a_script_may_leave_signatures_out() -> None:
    (part,) = parts_of(body_of(Reply(answer=Answer([call("f")]), signed=False), ask()))
    assert part.keys() == {"functionCall"}


def test_vertex_streams_arguments_in_pieces() -> None:
    args = {"city": "Oslo", "days": 3, "units": ["C"], "exact": True, "note": None}
    config = {"functionCallingConfig": {"streamFunctionCallArguments": True}}
    request = ask(
        backend="vertex",
        tools=[{"functionDeclarations": [{"name": "f"}]}],
        toolConfig=config,
    )
    events = events_of(Reply(answer=Answer([call("f", args=args)]), signed=False), request)
    head, *pieces, end, trailing = [parts_of(event)[0] for event in events]
    assert head["functionCall"]["willContinue"] is True
    assert [piece["functionCall"]["partialArgs"][0] for piece in pieces] == [
        {"jsonPath": "$.city", "stringValue": "Os", "willContinue": True},
        {"jsonPath": "$.city", "stringValue": "lo"},
        {"jsonPath": "$.days", "numberValue": 3},
        {"jsonPath": "$.units[0]", "stringValue": "", "willContinue": True},
        {"jsonPath": "$.units[0]", "stringValue": "C"},
        {"jsonPath": "$.exact", "boolValue": True},
        {"jsonPath": "$.note", "nullValue": "NULL_VALUE"},
    ]
    assert (end, trailing) == ({"functionCall": {}}, {"text": ""})


def test_a_raw_body_goes_out_as_it_is_and_streams_part_by_part() -> None:
    body = {
        "candidates": [
            {
                "content": {"parts": [{"text": "Hi"}, SIGNED_CALL], "role": "model"},
                "finishReason": "STOP",
                "groundingMetadata": {"x": 1},
            }
        ],
        "usageMetadata": {"totalTokenCount": 3},
    }
    assert body_of(Reply(body=body), ask()) == body
    events = events_of(Reply(body=body), ask())
    assert [parts_of(event)[0] for event in events] == [{"text": "Hi"}, SIGNED_CALL, {"text": ""}]
    assert merge_events(events) == body


def test_a_blocked_prompt_is_one_event() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    assert events_of(Reply(body=body), ask()) == [body]


def test_raw_events_merge_into_one_body() -> None:
    def event(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
        content = {"parts": list(parts), "role": "model"}
        return {"candidates": [{"content": content, **candidate}], "modelVersion": "m"}

    events = [
        event({"text": "a"}),
        event({"text": "b"}),
        event({"text": "", "thoughtSignature": "AAAA"}, finishReason="STOP"),
    ]
    assert events_of(Reply(events=events), ask()) == events
    assert body_of(Reply(events=events), ask()) == {
        "candidates": [
            {
                "content": {
                    "parts": [{"text": "ab", "thoughtSignature": "AAAA"}],
                    "role": "model",
                },
                "finishReason": "STOP",
            }
        ],
        "modelVersion": "m",
    }


def test_scripted_calls_are_remembered() -> None:
    memory = Memory()
    body = {"candidates": [{"content": {"parts": [SIGNED_CALL], "role": "model"}}]}
    Reply(body=body).render(ask(), memory)
    (issued,) = memory.issued_calls(SIGNED_CALL["functionCall"], ask())
    assert issued.signature == b"\x00\x00\x00"
