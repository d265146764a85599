from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, SecretStr

from langchain_gemini_tools import BatchProgress, trace
from langchain_gemini_tools.display.content import (
    clean,
    render_arguments,
    render_value,
    replace_unencodable,
)

GOOGLE_KEY = "AIza" + "Sy" + "x1-_" * 8 + "y"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nin lines", "plain\ttext\nin lines"),
        ("Windows\r\nlines", "Windows\nlines"),
        ("over\rwritten", "over⟨U+000D⟩written"),
        ("\x1b]0;title\x07", "⟨U+001B⟩]0;title⟨U+0007⟩"),
        ("\x9b31m one-byte escape", "⟨U+009B⟩31m one-byte escape"),
        ("safe\u202egnp.exe", "safe⟨U+202E⟩gnp.exe"),
        ("tag\U000e0041 and \u200b and \u2028", "tag⟨U+E0041⟩ and ⟨U+200B⟩ and ⟨U+2028⟩"),
        ("half \ud83d of a pair", "half ⟨U+D83D⟩ of a pair"),
        ("family 👨‍👩‍👧 and नमस्ते", "family 👨‍👩‍👧 and नमस्ते"),
    ],
    ids=[
        "plain",
        "line ends",
        "return",
        "escape",
        "C1",
        "bidi",
        "invisible",
        "surrogate",
        "joiners",
    ],
)
def test_invisible_characters_are_shown_as_codes(text: str, shown: str) -> None:
    assert clean(text, 1000) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key={GOOGLE_KEY}&x", "key=[redacted]&x"),
        ("Authorization: Bearer " + "abc." * 20, "Authorization: [redacted]"),
        ("token ya29" + ".a0" * 20 + " end", "token [redacted] end"),
        (
            "-----BEGIN " + "PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nafter",
            "[redacted]\nafter",
        ),
        ("AIza is how Google's keys begin", "AIza is how Google's keys begin"),
    ],
    ids=["key", "bearer", "oauth", "private key", "no key"],
)
def test_credentials_are_redacted(text: str, shown: str) -> None:
    assert clean(text, 1000) == shown


@pytest.mark.parametrize("after", [10, 100, 10_000])
@pytest.mark.parametrize(
    "secret",
    [GOOGLE_KEY, "eyJ" + "hbGciOiJI" * 30 + ".eyJ" + "zdWIiOiIx" * 300 + "." + "c2ln" * 20],
    ids=["key", "JWT"],
)
def test_no_part_of_a_credential_is_left_where_the_text_is_cut(secret: str, after: int) -> None:
    text = "a " * 45 + secret + " b" * after
    for limit in range(80, 140):
        assert secret[:8] not in clean(text, limit)


def test_no_part_of_a_credential_is_left_where_a_value_is_cut() -> None:
    value = {"x": "a " * 9_990 + GOOGLE_KEY + " b" * 10_000}
    assert GOOGLE_KEY[:8] not in clean(render_value(value), 100_000)


@given(st.text(), st.integers(0, 20))
def test_any_text_becomes_printable_and_short(text: str, limit: int) -> None:
    shown = clean(text, limit)
    shown.encode()
    assert len(shown) <= limit * len("⟨U+100000⟩") + 40


class Account(BaseModel):
    owner: str
    password: SecretStr


def test_values_of_any_kind_become_json() -> None:
    value: dict[Any, Any] = {
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "account": Account(owner="Ada", password=SecretStr("hidden")),
        "bytes": b"12345",
        "object": object(),
        "huge": 10**6000,
        3: (None, True, 1.5, "å"),
    }
    assert render_value(value) == (
        '{"when": "2026-01-02 00:00:00+00:00", "account": {"owner": "Ada", "password": '
        '"<SecretStr>"}, "bytes": "<5 bytes>", "object": "<object>", "huge": '
        '"<integer of 19,932 bits>", "3": [null, true, 1.5, "å"]}'
    )


def test_cycles_and_depth_end() -> None:
    cycle: dict[str, Any] = {"name": "x"}
    cycle["self"] = cycle
    assert render_value(cycle) == '{"name": "x", "self": "<cycle>"}'
    deep: list[Any] = []
    innermost = deep
    for _ in range(50):
        innermost.append([])
        innermost = innermost[0]
    assert render_value(deep) == "[" * 8 + '"…"' + "]" * 8


def test_long_values_end_with_the_number_of_omitted_items() -> None:
    numbers = ", ".join(str(number) for number in range(400))
    assert render_value(list(range(1_000_000))) == f'[{numbers}, "… 999600 more"]'
    grid = [["x" * 1000] * 1000] * 1000
    assert len(render_value(grid)) < 100_000


def test_arguments_read_like_a_call() -> None:
    assert render_arguments({"city": "Oslo", "days": 3}) == 'city="Oslo", days=3'
    assert render_arguments("{broken") == "{broken"
    assert render_arguments(["no", "dict"]) == '["no", "dict"]'


# Streams that cannot encode every character

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
    assert _written(stream) == "??: 0/2\n"


def test_a_utf_8_stream_is_returned_as_it_is() -> None:
    stream, text = _stream("utf-8"), io.StringIO()
    assert replace_unencodable(stream) is stream
    assert replace_unencodable(text) is text


def test_lines_are_written_as_well() -> None:
    stream = _stream("ascii")
    replace_unencodable(stream).writelines(["a\n", "ü\n"])
    assert _written(stream) == "a\n?\n"
