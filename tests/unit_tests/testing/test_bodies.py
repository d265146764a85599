"""Bodies in files: readable, and to a client the same as what the server sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_gemini_tools.testing.bodies import joined_text, read_body, write_body
from langchain_gemini_tools.testing.errors import CassetteFileError
from langchain_gemini_tools.testing.files import dump, load

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
            id="events that are no JSON",
        ),
        pytest.param(
            b'data: {"a": 1}\n\ndata: {"a"', {"text": 'data: {"a": 1}\n\ndata: {"a"'}, id="cut"
        ),
        pytest.param(b"<html>\xc3\xa9", {"text": "<html>é"}, id="text"),
        pytest.param(b"\x89PNG", {"base64": "iVBORw=="}, id="binary"),
        pytest.param(b'{"a": 1, "a": 2}', {"text": '{"a": 1, "a": 2}'}, id="a key twice"),
        pytest.param(b'{"a": NaN}', {"text": '{"a": NaN}'}, id="no number"),
        pytest.param(b'{"a": 1e999}', {"text": '{"a": 1e999}'}, id="a number too large"),
        pytest.param(b'{"a": "\\ud83d"}', {"text": '{"a": "\\ud83d"}'}, id="half a character"),
        pytest.param(b'{"a": 1', {"text": '{"a": 1'}, id="broken"),
    ],
)
def test_a_body_has_the_form_that_tells_most(raw: bytes, form: Any) -> None:
    assert write_body(raw) == form
    assert write_body(read_body(form)) == form


def test_a_body_nested_too_deep_for_a_loader_stays_text() -> None:
    raw = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert write_body(raw) == {"text": raw.decode()}


@settings(max_examples=80)
@given(JSON)
def test_any_json_comes_back_from_a_file_as_it_was(value: Any) -> None:
    raw = json.dumps({"value": value}).encode()
    form = through_a_file(write_body(raw))
    assert _typed(json.loads(read_body(form))) == _typed({"value": value})


@settings(max_examples=40)
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), min_size=1, max_size=4))
def test_any_stream_comes_back_event_by_event(events: list[Any]) -> None:
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    form = through_a_file(write_body(raw))
    blocks = read_body(form).split(b"\r\n\r\n")[:-1]
    assert [_typed(json.loads(block[6:])) for block in blocks] == [_typed(e) for e in events]


@settings(max_examples=50)
@given(st.binary())
def test_any_bytes_that_are_no_json_come_back_as_they_were(raw: bytes) -> None:
    form = write_body(b"\x00" + raw)
    assert read_body(through_a_file(form)) == b"\x00" + raw


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
    assert read_body(form) == raw


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
def test_what_is_no_body_is_refused(form: Any) -> None:
    with pytest.raises(CassetteFileError):
        read_body(form)


def through_a_file(form: Any) -> Any:
    return load(dump({"interactions": [form]}))["interactions"][0]


def _typed(value: Any) -> str:
    """Told apart by type as well: to Python, 1 and 1.0 and True are equal."""
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
def test_the_pieces_of_a_body_are_put_together(raw: bytes) -> None:
    assert joined_text(write_body(raw)) == "one two"
