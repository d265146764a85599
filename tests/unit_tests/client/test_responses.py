from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from langchain_gemini_tools.client import responses
from langchain_gemini_tools.client.responses import EventReader
from langchain_gemini_tools.errors import UnreadableResponseError
from tests.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "\ufeff".encode()
ERROR = b'{\n  "error": {\n    "code": 503\n  }\n}\n'


def read(*chunks: bytes) -> list[bytes]:
    reader = EventReader()
    texts = [text for chunk in chunks for text in reader.feed(chunk)]
    return [text.strip() for text in [*texts, reader.finish()] if text]


@pytest.mark.parametrize(
    ("stream", "texts"),
    [
        pytest.param(
            b'data: {"a":1}\r\n\r\ndata: {"b":2}\r\n\r\n', [b'{"a":1}', b'{"b":2}'], id="crlf"
        ),
        pytest.param(b'data: {"a":1}\n\ndata: {"b":2}\n\n', [b'{"a":1}', b'{"b":2}'], id="lf"),
        pytest.param(b'data:{"a":1}\n\n', [b'{"a":1}'], id="no-space"),
        pytest.param(b'data: {"a":\ndata: 1}\n\n', [b'{"a":\n 1}'], id="two-data-lines"),
        pytest.param(
            b': ping\n\nevent: x\nid: 7\nretry: 10\ndata: {"a":1}\n\n',
            [b'{"a":1}'],
            id="comments-and-other-fields",
        ),
        pytest.param(b'data: {"a":1}', [b'{"a":1}'], id="no-end"),
        pytest.param(MARK + b'data: {"a":1}\n\n', [b'{"a":1}'], id="byte-order-mark"),
        pytest.param(MARK + b"\r\n: ping\n\ndata: 1\n\n", [b"1"], id="mark-alone"),
        pytest.param(MARK + b": ping\ndata: 1", [b"1"], id="mark-before-a-comment"),
        pytest.param(MARK + b"{\n}\n", [b"{\n}"], id="mark-before-a-bare-text"),
        pytest.param(MARK * 2 + b"data: 1\n\n", [MARK + b"data: 1"], id="two-marks"),
        pytest.param(b'data: {"a":1}\n', [b'{"a":1}'], id="no-blank-line"),
        pytest.param(b"\n\n\n", [], id="blank"),
        pytest.param(
            b'data:\r\n\r\ndata: \n\ndata: {"a":1}\n\n', [b'{"a":1}'], id="events-without-data"
        ),
        pytest.param(b"", [], id="empty"),
        pytest.param(b'data: {"a":1}\n\n' + ERROR, [b'{"a":1}', ERROR.strip()], id="bare-tail"),
        pytest.param(b'{"error": {}}', [b'{"error": {}}'], id="bare-line"),
        pytest.param(b'[{"error": {}}]\n', [b'[{"error": {}}]'], id="bare-list"),
        pytest.param(b'[{\n "a": 1\n}\n,\n{\n}]', [b'[{\n "a": 1\n}\n,\n{\n}]'], id="long-list"),
        pytest.param(
            b'{\n "a": "}]\\"{",\n "b": [1,\n 2] }\ndata: 1\n\n',
            [b'{\n "a": "}]\\"{",\n "b": [1,\n 2] }', b"1"],
            id="brackets-in-strings",
        ),
        pytest.param(b"{\n}\n{}\n", [b"{\n}", b"{}"], id="two-bare-texts"),
        pytest.param(b" \n{\n}\ndata: 1\n\n", [b"{\n}", b"1"], id="white-space-before-it"),
        pytest.param(b"{\n]\n", [b"{\n]"], id="bare-text-of-wrong-brackets"),
        pytest.param(b'{"a": "\\', [b'{"a": "\\'], id="bare-string-without-end"),
        pytest.param(b"<html>\n<p>no</p>", [b"<html>\n<p>no</p>"], id="page"),
        pytest.param(b"}\n{}\n}", [b"}\n{}\n}"], id="no-json-at-all"),
    ],
)
def test_events_do_not_depend_on_chunk_boundaries(stream: bytes, texts: list[bytes]) -> None:
    assert read(stream) == texts
    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == texts
    for cut in range(len(stream)):
        assert read(stream[:cut], stream[cut:]) == texts


def test_line_ends_of_unicode_and_split_characters_stay_inside_the_text() -> None:
    value = {"text": "a\u2028b\u0085c\x0bd é 🌍"}
    stream = b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\r\n\r\n"
    pieces = [stream[i : i + 1] for i in range(len(stream))]
    assert [json.loads(text) for text in read(*pieces)] == [value]


def test_a_bare_error_is_returned_before_the_connection_ends() -> None:
    reader = EventReader()
    assert reader.feed(ERROR) == [ERROR.strip()]


def test_a_large_event_is_joined_once() -> None:
    piece = b"x" * 16384

    def read_event(pieces: int) -> None:
        (text,) = read(b'data: "', *[piece] * pieces, b'"\r\n\r\n')
        assert len(text) == pieces * 16384 + 2

    assert_linear(read_event, 1280)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "brackets": lambda size: b"}\n" * (size // 2),
    "an-object-and-brackets": lambda size: b'{"a": [\n' + b"]\n[\n" * (size // 4),
    "openings": lambda size: b"[\n" * (size // 2),
    "quotes": lambda size: b"[" + b'\\"' * (size // 2) + b"\n",
    "strings": lambda size: (b'{"' + b'\\"' * 500 + b"\n") * (size // 1000),
    "deep": lambda size: b"[" * size + b"\n",
    "white-space-first": lambda size: b" " * size + b"[\n" + b"1\n" * (size // 4),
}


@pytest.mark.parametrize("stream", HOSTILE.values(), ids=HOSTILE)
def test_a_bare_text_is_read_once(stream: Callable[[int], bytes]) -> None:
    def read_in_pieces(size: int) -> None:
        text = stream(size)
        read(*(text[start : start + 16384] for start in range(0, len(text), 16384)))

    assert_linear(read_in_pieces, 400_000)


@pytest.mark.parametrize("line", [b"ab\n", b"data:xy\n", b"{\n"])
def test_an_event_with_too_many_lines_is_rejected(
    monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(responses, "MAX_LINES", 1000)
    assert len(read(line * 1000)) == 1
    with pytest.raises(UnreadableResponseError, match="more than 1000 lines") as raised:
        read(line * 1001)
    assert not raised.value.is_retryable


def test_many_events_in_one_chunk_are_not_too_many_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_LINES", 10)
    assert read(b"data: 1\n\n" * 50 + b"{\n}\n" * 50) == [b"1"] * 50 + [b"{\n}"] * 50


def test_a_huge_chunk_is_not_split_into_lines_at_once() -> None:
    """A few kilobytes that a server compressed may be many megabytes of line ends."""
    piece = b"\n" * 5_000_000
    tracemalloc.start()
    assert read(piece + b"data: 1\n\n") == [b"1"]
    assert tracemalloc.get_traced_memory()[1] < 7 * len(piece)  # a list of lines is 8 times
    tracemalloc.stop()
