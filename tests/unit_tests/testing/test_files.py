"""Cassettes as files: what a reviewer reads, and what a stranger may not do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.errors import CassetteFileError
from langchain_gemini_tools.testing.files import deserialize, serialize, write_file

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


def test_what_is_large_is_read_as_it_was_too() -> None:
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
        (["http://localhost/x"], "", "local server of no name (no evidence about Gemini)"),
        ([], "", "nothing"),
    ],
)
def test_the_first_line_says_who_answered(uris: list[str], server: str, said: str) -> None:
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
        pytest.param(LAUGHS, "refers to itself", id="billion laughs"),
        pytest.param("interactions: &a [*a]", "refers to itself", id="a loop"),
        pytest.param(
            "interactions: !!python/object/apply:os.system ['true']", "python/object", id="code"
        ),
        pytest.param("interactions: " + "[" * 500 + "]" * 500, "nested", id="depth"),
        pytest.param("interactions: " + "[" * 100_000, "nested|no YAML", id="great depth"),
        pytest.param("interactions: [", "no YAML", id="cut"),
        pytest.param("interactions: []\n---\ninteractions: []", "no YAML", id="two documents"),
        pytest.param("", "no list of interactions", id="empty"),
        pytest.param("interactions: 7", "no list of interactions", id="no list"),
        pytest.param("interactions: [7]", "Interaction 1", id="no interaction"),
        pytest.param(
            "interactions: [{request: {method: GET, uri: /}, response: {}}]",
            "Interaction 1.*status",
            id="no status",
        ),
        pytest.param(
            "interactions: [{request: {method: GET, uri: /, body: {json: 2001-01-01}},"
            " response: {status: {code: 200}}}]",
            "Interaction 1: A body holds something that JSON has not",
            id="a date",
        ),
    ],
)
def test_a_file_of_a_stranger_can_do_no_harm(text: str, reason: str) -> None:
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


def test_a_new_file_has_its_folder_and_the_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.yaml"
    write_file(path, "x\n")
    other = tmp_path / "other"
    other.write_text("")
    assert path.read_text() == "x\n"
    assert path.stat().st_mode == other.stat().st_mode
