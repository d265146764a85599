"""Streams that cannot write every sign: what is shown loses signs, and nothing fails."""

from __future__ import annotations

import io
import sys

import pytest
from langchain_core.messages import HumanMessage

from langchain_gemini_tools import BatchProgress, trace
from langchain_gemini_tools.display.encoding import forgiving

ENCODINGS = ["ascii", "cp1252"]


def _stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)


@pytest.mark.parametrize("has_rich", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_trace_is_shown_whatever_the_encoding(
    encoding: str, has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = _stream(encoding)
    trace([HumanMessage("Weather in 東京, →?")]).show(stream)
    assert "you  Weather in ??, ??\n" in _written(stream)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_progress_is_shown_whatever_the_encoding(encoding: str) -> None:
    stream = _stream(encoding)
    with BatchProgress(2, "東京", file=stream):
        pass
    assert _written(stream).startswith("??: 0/2 ")


def test_a_stream_that_writes_everything_is_left_alone() -> None:
    stream, text = _stream("utf-8"), io.StringIO()
    assert forgiving(stream) is stream
    assert forgiving(text) is text


def test_lines_are_written_as_well() -> None:
    stream = _stream("ascii")
    forgiving(stream).writelines(["a\n", "ü\n"])
    assert _written(stream) == "a\n?\n"
