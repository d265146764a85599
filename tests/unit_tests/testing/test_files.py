"""Cassettes as files: readable, safe to load, and for a client the same as what was sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.testing.__main__ import find_cassettes
from langchain_gemini_tools.testing.cassettes import CassetteFileError
from langchain_gemini_tools.testing.files import (
    deserialize,
    dump_yaml,
    joined_text,
    load_yaml,
    parse_body,
    render_body,
    serialize,
    write_file,
)

if TYPE_CHECKING:
    from pathlib import Path


def recorded(uri: str, **response_headers: str) -> dict[str, Any]:
    """One interaction as vcrpy has it in memory."""
    return {
        "request": {
            "method": "POST",
            "uri": uri,
            "body": b'{"contents": [{"parts": [{"text": "Hello,\\nGemini"}]}]}',
            "headers": {"content-type": ["application/json"]},
        },
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {name: [value] for name, value in response_headers.items()},
            "body": {"string": b'data: {"text": "Hi"}\r\n\r\ndata: {"text": "!"}\r\n\r\n'},
        },
    }


GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse"


def test_a_file_reads_well() -> None:
    assert (
        serialize({"interactions": [recorded(GEMINI)]})
        == """\
recorded_against: Gemini Developer API
version: 1
interactions:
- request:
    method: POST
    uri: https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse
    headers:
      content-type: application/json
    body:
      json:
        contents:
        - parts:
          - text: |-
              Hello,
              Gemini
  response:
    status:
      code: 200
      message: OK
    body:
      events:
      - text: Hi
      - text: '!'
"""
    )


def test_what_was_written_is_read_as_it_was() -> None:
    found = recorded(GEMINI, **{"content-type": "text/event-stream"})
    read = deserialize(serialize({"interactions": [found], "metadata": {"seed": 7}}))
    compact = b'{"contents":[{"parts":[{"text":"Hello,\\nGemini"}]}]}'
    events = b'data: {"text":"Hi"}\r\n\r\ndata: {"text":"!"}\r\n\r\n'
    expected = {
        "request": found["request"] | {"body": compact},
        "response": found["response"] | {"body": {"string": events}},
    }
    assert read == {"version": 1, "interactions": [expected], "metadata": {"seed": 7}}
    assert serialize(read) == serialize({"interactions": [found], "metadata": {"seed": 7}})


def test_a_large_file_is_read_as_it_was_written() -> None:
    found = recorded(GEMINI)
    found["request"]["body"] = b'{"text":"\xf0\x9f\x8c\x8d","data":"' + b"A" * 1_200_000 + b'"}'
    read = deserialize(serialize({"interactions": [found]}))
    assert read["interactions"][0]["request"] == found["request"]


@pytest.mark.parametrize(
    ("uris", "server", "said"),
    [
        ([GEMINI], "scaffolding", "Gemini Developer API"),
        (
            ["https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/x", GEMINI, GEMINI],
            "",
            "Vertex AI, Gemini Developer API",
        ),
        (["https://gateway.example.com/v1beta/models/m"], "", "gateway.example.com"),
        (
            ["http://127.0.0.1/v1beta/models/m"],
            "Gemini-Emulator",
            "local server Gemini-Emulator (no evidence about Gemini)",
        ),
        (["http://localhost/x"], "", "local server without a name (no evidence about Gemini)"),
        ([], "", "nothing"),
    ],
)
def test_the_first_line_says_what_was_recorded(uris: list[str], server: str, said: str) -> None:
    headers = {"server": server} if server else {}
    text = serialize({"interactions": [recorded(uri, **headers) for uri in uris]})
    assert text.splitlines()[0] == f"recorded_against: {said}"


def test_a_file_of_vcrpy_itself_is_read() -> None:
    text = """
interactions:
- request:
    body: '{"a": 1}'
    headers: {Accept: ['*/*']}
    method: POST
    uri: https://example.com/
  response:
    body: {string: !!binary iVBORw==}
    headers: {Set-Cookie: [a, b]}
    status: {code: 200, message: OK}
version: 1
"""
    assert deserialize(text)["interactions"] == [
        {
            "request": {
                "method": "POST",
                "uri": "https://example.com/",
                "headers": {"Accept": ["*/*"]},
                "body": b'{"a": 1}',
            },
            "response": {
                "status": {"code": 200, "message": "OK"},
                "headers": {"Set-Cookie": ["a", "b"]},
                "body": {"string": b"\x89PNG"},
            },
        }
    ]


LAUGHS = "a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\ninteractions: []\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(LAUGHS, "YAML reference", id="billion laughs"),
        pytest.param("interactions: &a [*a]", "YAML reference", id="a loop"),
        pytest.param(
            "interactions: !!python/object/apply:os.system ['true']", "python/object", id="code"
        ),
        pytest.param("interactions: " + "[" * 500 + "]" * 500, "nested", id="depth"),
        pytest.param("interactions: " + "[" * 100_000, "nested|not valid YAML", id="great depth"),
        pytest.param("interactions: [", "not valid YAML", id="cut"),
        pytest.param(
            "interactions: []\n---\ninteractions: []", "not valid YAML", id="two documents"
        ),
        pytest.param("", "no list 'interactions'", id="empty"),
        pytest.param("interactions: 7", "no list 'interactions'", id="no list"),
        pytest.param("interactions: [7]", "Interaction 1", id="no interaction"),
        pytest.param(
            "interactions: [{request: {method: GET, uri: /}, response: {}}]",
            "Interaction 1.*status",
            id="no status",
        ),
        pytest.param(
            "interactions: [{request: {method: GET, uri: /, body: {json: 2001-01-01}},"
            " response: {status: {code: 200}}}]",
            "Interaction 1: A body contains a value that JSON cannot",
            id="a date",
        ),
    ],
)
def test_a_malicious_file_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(CassetteFileError, match=reason):
        deserialize(text)


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weather.yaml"
    write_file(path, "old\n")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, "new\n")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"weather.yaml": "old\n"}


@pytest.mark.parametrize("letter", ["a", "é"])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path, letter: str) -> None:
    path = tmp_path / f"{letter * (250 // len(letter.encode()))}.yaml"
    write_file(path, "x\n")
    write_file(path, "y\n")
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "y\n")]


def test_a_draft_of_a_process_that_was_killed_is_removed_and_never_read(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from langchain_gemini_tools.testing.files import write_file
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_file(Path({str(tmp_path)!r}) / "weather.yaml", "half")
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert killed.returncode != 0
    (draft,) = tmp_path.iterdir()
    assert find_cassettes([tmp_path]) == []
    write_file(tmp_path / "other.yaml", "x\n")
    assert draft.exists()  # it may belong to a process that is writing now
    os.utime(draft, (0, 0))
    write_file(tmp_path / "other.yaml", "x\n")
    assert [file.name for file in tmp_path.iterdir()] == ["other.yaml"]


def test_a_new_file_has_its_folder_and_the_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.yaml"
    write_file(path, "x\n")
    other = tmp_path / "other"
    other.write_text("")
    assert path.read_text() == "x\n"
    assert path.stat().st_mode == other.stat().st_mode


# Bodies.

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.text(alphabet=" \n\r\t\x85\u2028\ufeff'\"#:-|>&*!%@`é🌍", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        pytest.param(b"", None, id="none"),
        pytest.param(b'{\n  "a": [1, 2.0, null]\n}', {"json": {"a": [1, 2.0, None]}}, id="json"),
        pytest.param(b'[{"error": {}}]', {"json": [{"error": {}}]}, id="list"),
        pytest.param(
            b'data: {"a": 1}\r\n\r\ndata:{"a": 2}\n\n',
            {"events": [{"a": 1}, {"a": 2}]},
            id="events",
        ),
        pytest.param(
            b': hello\n\nevent: x\ndata: {"a": 1}\n\ndata: [DONE]\n\n',
            {"events": [": hello", 'event: x\ndata: {"a": 1}', "data: [DONE]"]},
            id="events that are not JSON",
        ),
        pytest.param(
            b'data: {"a": 1}\n\ndata: {"a"', {"text": 'data: {"a": 1}\n\ndata: {"a"'}, id="cut"
        ),
        pytest.param(b"<html>\xc3\xa9", {"text": "<html>é"}, id="text"),
        pytest.param(b"\x89PNG", {"base64": "iVBORw=="}, id="binary"),
        pytest.param(b'{"a": 1, "a": 2}', {"text": '{"a": 1, "a": 2}'}, id="a key twice"),
        pytest.param(b'{"a": NaN}', {"text": '{"a": NaN}'}, id="no number"),
        pytest.param(b'{"a": 1e999}', {"text": '{"a": 1e999}'}, id="a number too large"),
        pytest.param(b'{"a": "\\ud83d"}', {"text": '{"a": "\\ud83d"}'}, id="a lone surrogate"),
        pytest.param(b'{"a": 1', {"text": '{"a": 1'}, id="broken"),
    ],
)
def test_a_body_has_the_most_readable_form_that_is_complete(raw: bytes, form: Any) -> None:
    assert render_body(raw) == form
    assert render_body(parse_body(form)) == form


def test_a_body_nested_too_deep_for_a_loader_stays_text() -> None:
    raw = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert render_body(raw) == {"text": raw.decode()}


@given(JSON)
def test_any_json_comes_back_from_a_file_as_it_was(value: Any) -> None:
    raw = json.dumps({"value": value}).encode()
    form = through_a_file(render_body(raw))
    assert _typed(json.loads(parse_body(form))) == _typed({"value": value})


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), min_size=1, max_size=4))
def test_any_stream_comes_back_event_by_event(events: list[Any]) -> None:
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    form = through_a_file(render_body(raw))
    blocks = parse_body(form).split(b"\r\n\r\n")[:-1]
    assert [_typed(json.loads(block[6:])) for block in blocks] == [_typed(e) for e in events]


@given(st.binary())
def test_any_bytes_that_are_not_json_come_back_as_they_were(raw: bytes) -> None:
    form = render_body(b"\x00" + raw)
    assert parse_body(through_a_file(form)) == b"\x00" + raw


@pytest.mark.parametrize(
    ("form", "raw"),
    [
        (None, b""),
        ("é", "é".encode()),
        (b"x", b"x"),
        ({"string": "x"}, b"x"),
        ({"string": None}, b""),
    ],
)
def test_the_forms_of_vcrpy_itself_are_read(form: Any, raw: bytes) -> None:
    assert parse_body(form) == raw


@pytest.mark.parametrize(
    "form",
    [
        {"json": {}, "text": ""},
        {"jsn": {}},
        {"events": "x"},
        {"base64": "?"},
        {"json": {1, 2}},
        {"json": float("nan")},
        7,
    ],
    ids=str,
)
def test_another_form_of_a_body_is_rejected(form: Any) -> None:
    with pytest.raises(CassetteFileError):
        parse_body(form)


def through_a_file(form: Any) -> Any:
    return load_yaml(dump_yaml({"interactions": [form]}))["interactions"][0]


def _typed(value: Any) -> str:
    """Compare types, too: in Python, 1, 1.0 and True are equal."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"parts": [{"text": "one "}, {"functionCall": {"name": "x"}}, {"text": "two"}]}',
        b'data: {"parts": [{"text": "one "}]}\n\ndata: {"parts": [{"text": "two"}]}\n\n',
        b'data: {"parts": [{"text": "one "}]}\n\ndata: {"parts": [{"text" : "two"}]}\n\ndata: {',
        b'data: {"parts": [{"text": "one "}]}\n\ndata: {"parts": [{"text": "two',
        b'data: {"parts":\ndata: [{"text": "one "}]}\n\ndata: {"parts": [{"text": "two"}]}\n\n',
        b'{"parts": [{"text": "one "}, {"text": "two"}',
    ],
    ids=["parts", "events", "a cut stream", "a cut event", "an event in lines", "a cut body"],
)
def test_the_texts_of_a_body_are_joined(raw: bytes) -> None:
    assert joined_text(render_body(raw)) == "one two"
