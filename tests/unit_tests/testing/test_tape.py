"""Which requests are the same, what is reported when they differ, and what a tape replays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from vcr.matchers import get_matchers_results
from vcr.record_mode import RecordMode
from vcr.request import Request

from langchain_gemini_tools.testing.tape import Tape, matchers

if TYPE_CHECKING:
    from pathlib import Path


URI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
VERTEX = "https://aiplatform.googleapis.com/v1beta1/projects/{}/locations/global/publishers/google/models/m:x"


def ask(body: Any = None, uri: str = URI, method: str = "POST", **headers: str) -> Any:
    raw = body if isinstance(body, (bytes, str)) else json.dumps(body or {})
    return Request(method, uri, raw, headers)


def failures(now: Any, recorded: Any, *secrets: str) -> list[tuple[str, str]]:
    """What vcrpy finds with our matchers."""
    _, failed = get_matchers_results(now, recorded, matchers(secrets))
    return list(failed)


def call(call_id: str, city: str = "Oslo") -> Any:
    return {"functionCall": {"id": call_id, "name": "get_weather", "args": {"city": city}}}


def answer(call_id: str, output: str = "Sun") -> Any:
    response = {"id": call_id, "name": "get_weather", "response": {"output": output}}
    return {"functionResponse": response}


def turn(*parts: Any) -> Any:
    return {"contents": [{"parts": list(parts)}]}


@pytest.mark.parametrize(
    ("now", "recorded"),
    [
        pytest.param(ask({"a": 1, "b": 2}), ask(b'{ "b": 2,\n"a": 1 }'), id="spelling"),
        pytest.param(ask(uri=URI + "?alt=sse&x=1"), ask(uri=URI + "?x=1&alt=sse"), id="order"),
        pytest.param(ask(uri=URI + "?key=AIza1234"), ask(uri=URI), id="a key in the address"),
        pytest.param(
            ask(uri="https://maps.example/?api_key=a-dummy-one"),
            ask(uri="https://maps.example/?api_key=%5Bredacted%5D"),
            id="a credential of another API",
        ),
        pytest.param(
            ask(uri="https://maps.googleapis.com/?key=a-dummy-one"),
            ask(uri="https://maps.googleapis.com/?key=%5Bredacted%5D"),
            id="a key of another API of Google",
        ),
        pytest.param(
            ask(uri="https://maps.example/?key=some-other-key-1"),
            ask(uri="https://maps.example/?key=%5Bredacted%5D"),
            id="what was known to be a credential",
        ),
        pytest.param(
            ask(uri="https://maps.example/?key=order-4711"),
            ask(uri="https://maps.example/?key=%5Bredacted-173d%5D"),
            id="the same value",
        ),
        pytest.param(
            ask(uri="https://maps.example/?api_key=a-dummy-one"),
            ask(uri="https://maps.example/"),
            id="a credential that a recording left out",
        ),
        pytest.param(
            ask(uri="http://127.0.0.1:4711/v1beta/models/m:generateContent"),
            ask(),
            id="another host",
        ),
        pytest.param(ask(uri=VERTEX.format("mine")), ask(uri=VERTEX.format("yours")), id="project"),
        pytest.param(ask(Authorization="Bearer x"), ask(), id="headers"),
        pytest.param(ask({"generationConfig": {}}), ask({}), id="what the SDK adds"),
        pytest.param(
            ask(turn(call("uuid-1"), call("uuid-2", "Rome"), answer("uuid-1"), answer("uuid-2"))),
            ask(turn(call("aaaa"), call("bbbb", "Rome"), answer("aaaa"), answer("bbbb"))),
            id="ids",
        ),
        pytest.param(
            ask(turn(call("uuid-number-1"), {"text": "Call uuid-number-1 was not made"})),
            ask(turn(call("another-id"), {"text": "Call another-id was not made"})),
            id="an id in a text",
        ),
        pytest.param(
            ask(turn({"text": "my key is secret-key-7"}), **{"x-goog-api-key": "secret-key-7"}),
            ask(turn({"text": "my key is [redacted]"})),
            id="a key in the text",
        ),
        pytest.param(ask(b"\xff\xfe"), ask(b"\xff\xfe"), id="binary"),
    ],
)
def test_the_same_question_is_known_again(now: Any, recorded: Any) -> None:
    assert failures(now, recorded) == []


@pytest.mark.parametrize(
    ("now", "recorded", "expected"),
    [
        pytest.param(
            ask(turn({"text": "Bergen?"})),
            ask(turn({"text": "Oslo?"})),
            ("gemini_body", 'body.contents[0].parts[0].text: recorded "Oslo?", now "Bergen?"'),
            id="text",
        ),
        pytest.param(
            ask({"x": True, "y": 1, "n": [1]}),
            ask({"x": 1, "y": 1.0, "z": {}}),
            (
                "gemini_body",
                "body.x: recorded 1, now true\nbody.y: recorded 1.0, now 1\n"
                "body.z: recorded {}, now missing\nbody.n: not recorded, now [1]",
            ),
            id="kinds of values",
        ),
        pytest.param(
            ask(turn(call("a"), call("b"), answer("a"), answer("b"))),
            ask(turn(call("a"), call("b"), answer("b"), answer("a"))),
            (
                "gemini_body",
                'body.contents[0].parts[2].functionResponse.id: recorded "call-2", now "call-1"\n'
                'body.contents[0].parts[3].functionResponse.id: recorded "call-1", now "call-2"',
            ),
            id="answers exchanged",
        ),
        pytest.param(
            ask(turn({"text": "a"})),
            ask(turn({"text": "a"}, {"text": "b"})),
            ("gemini_body", "body.contents[0].parts: recorded 2 items, now 1"),
            id="length",
        ),
        pytest.param(
            ask({"text": "x" * 200 + "now"}),
            ask({"text": "x" * 200 + "then"}),
            (
                "gemini_body",
                f'body.text: recorded "...{"x" * 22}then", now "...{"x" * 22}now"',
            ),
            id="the end of a long text",
        ),
        pytest.param(
            ask(uri=URI.replace("generate", "streamGenerate")),
            ask(),
            (
                "address",
                "recorded /v1beta/models/m:generateContent, "
                "now /v1beta/models/m:streamGenerateContent",
            ),
            id="method of the API",
        ),
        pytest.param(
            ask(uri="https://weather.example/now"),
            ask(uri="https://news.example/now"),
            ("address", "recorded https://news.example/now, now https://weather.example/now"),
            id="hosts of other APIs",
        ),
        pytest.param(
            ask(uri="https://gateway.example/v1beta/models/m:generateContent"),
            ask(),
            (
                "address",
                "recorded /v1beta/models/m:generateContent, "
                "now https://gateway.example/v1beta/models/m:generateContent",
            ),
            id="a host that is not Google's",
        ),
        pytest.param(
            ask(uri="https://googleapis.com.evil.example/v1beta/models/m:generateContent"),
            ask(),
            (
                "address",
                "recorded /v1beta/models/m:generateContent, "
                "now https://googleapis.com.evil.example/v1beta/models/m:generateContent",
            ),
            id="a host that looks like Google's",
        ),
        pytest.param(
            ask(uri="https://one.example/v1/models"),
            ask(uri="https://two.example/v1/models"),
            (
                "address",
                "recorded https://two.example/v1/models, now https://one.example/v1/models",
            ),
            id="other APIs that have models",
        ),
        pytest.param(
            ask(uri="https://git.example/v4/projects/22/issues"),
            ask(uri="https://git.example/v4/projects/11/issues"),
            (
                "address",
                "recorded https://git.example/v4/projects/11/issues, "
                "now https://git.example/v4/projects/22/issues",
            ),
            id="projects of other APIs",
        ),
        pytest.param(
            ask(uri="https://values.example/?key=rome"),
            ask(uri="https://values.example/?key=oslo"),
            ("query", "recorded [('key', 'oslo')], now [('key', 'rome')]"),
            id="a key that is not a credential",
        ),
        pytest.param(
            ask(uri="https://values.example/?key=reykjavik-town"),
            ask(uri="https://values.example/?key=san-francisco"),
            ("query", "recorded [('key', 'san-francisco')], now [('key', 'reykjavik-town')]"),
            id="a long key that is not a credential",
        ),
        pytest.param(
            ask(uri="https://values.example/?key=order-4711"),
            ask(uri="https://values.example/?key=order-4712"),
            (
                "query",
                "recorded [('key', '[redacted-183e]')], now [('key', '[redacted-173d]')] "
                "(if this is a credential that may differ, pass it in `secrets` when recording)",
            ),
            id="a key that may be a credential",
        ),
        pytest.param(
            ask(uri="https://values.example/"),
            ask(uri="https://values.example/?api_key=%5Bredacted%5D"),
            ("query", "recorded [('api_key', '[redacted]')], now []"),
            id="no credential",
        ),
        pytest.param(
            ask(uri="https://values.example/?key=order-4711"),
            ask(uri="https://values.example/"),
            ("query", "recorded [], now [('key', '[redacted-173d]')]"),
            id="a key that was not recorded",
        ),
        pytest.param(
            ask(uri=URI + "?alt=sse"),
            ask(),
            ("query", "recorded [], now [('alt', 'sse')]"),
            id="query",
        ),
        pytest.param(ask(method="GET"), ask(), ("method", "recorded POST, now GET"), id="method"),
    ],
)
def test_another_request_is_rejected_with_what_differs(
    now: Any, recorded: Any, expected: tuple[str, str]
) -> None:
    assert failures(now, recorded) == [expected]


def test_secrets_that_were_taken_out_of_a_recording_make_no_difference() -> None:
    uri = "https://crm.example/{}/orders?of={}"
    recorded = ask(turn({"text": "Who is [redacted]?"}), uri=uri.format(*["[redacted]"] * 2))
    now = ask(turn({"text": "Who is customer-4711?"}), uri=uri.format(*["customer-4711"] * 2))
    assert failures(now, recorded, "customer-4711") == []


RESPONSE: Any = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": b"{}"}}
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"


def tape(tmp_path: Path, mode: RecordMode, **settings: Any) -> Tape:
    return Tape(str(tmp_path / "a.yaml"), record_mode=mode, match_on=matchers(), **settings)


@pytest.mark.parametrize(
    "uri",
    [
        "https://oauth2.googleapis.com/token",
        "http://metadata.google.internal/computeMetadata/v1/instance",
        "https://api.smith.langchain.com/runs/multipart",
        "https://traces.example.com/runs/batch",
    ],
)
def test_credentials_and_traces_are_neither_recorded_nor_replayed(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "https://traces.example.com/api")
    request = Request("POST", uri, b"assertion", {})
    recording = tape(tmp_path, RecordMode.ALL)
    recording.append(request, RESPONSE)
    assert recording.data == []
    assert not tape(tmp_path, RecordMode.NONE).can_play_response_for(request)  # it goes on its way


def test_what_the_user_leaves_out_is_left_out(tmp_path: Path) -> None:
    def only_posts(request: Any) -> Any:
        return request if request.method == "POST" else None

    recording = tape(tmp_path, RecordMode.ALL, before_record_request=only_posts)
    for method in ("GET", "POST"):
        recording.append(Request(method, GEMINI, b"", {}), RESPONSE)
    assert [request.method for request in recording.requests] == ["POST"]


def test_what_is_played_is_marked_and_what_is_kept_is_not(tmp_path: Path) -> None:
    request = Request("POST", GEMINI, b"{}", {})
    playing = tape(tmp_path, RecordMode.NONE)
    playing.append(request, RESPONSE)
    playing.rewound = True
    assert playing.can_play_response_for(request)
    assert playing.play_response(request) == {**RESPONSE, "headers": {"x-cassette": ["replayed"]}}
    assert playing.responses == [RESPONSE]
