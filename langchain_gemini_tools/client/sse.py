"""Server-sent events: bytes as they arrive -> the JSON text of each event.

This module does not know Gemini and parses no JSON: it returns what the server wrote.
"""

from __future__ import annotations

import re
from typing import NoReturn

from langchain_gemini_tools.errors import UnreadableResponseError

MAX_LINES = 1_000_000
"""Of one event. The API writes one line; each line costs at least forty bytes of memory."""

_IGNORED_FIELDS = (b":", b"event:", b"id:", b"retry:")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LARGE = 1_000_000
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?')
"""A JSON string, which ends at the end of its line at the latest."""


class EventReader:
    """Splits a stream of bytes into the texts of its events.

    Lines end at LF only. Python's `splitlines`, and so the `iter_lines` of HTTP libraries, also
    split at U+2028 and U+0085, which JSON strings may contain unescaped.

    One byte order mark at the start, as some proxies write it, is skipped.

    An error may follow the events as bare JSON over several lines, without `data:`. It is returned
    as one more text.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._bare: list[bytes] = []
        self._had_mark = False
        self._bare_is_json = False
        self._bare_depth = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the texts that are complete with this chunk."""
        if b"\n" not in chunk:
            # Joined when the line ends: joining each chunk would be quadratic for a 20 MB event.
            self._line.append(chunk)
            return []
        if len(chunk) > _LARGE:
            return self._feed_slices(chunk)
        if self._line:
            self._line.append(chunk)
            chunk = b"".join(self._line)
            self._line.clear()
        *lines, rest = chunk.split(b"\n")
        if rest:
            self._line.append(rest)
        return [text for line in lines if (text := self._take(line))]

    def _feed_slices(self, chunk: bytes) -> list[bytes]:
        """Feed in slices: a list of all lines would take many times their length."""
        slices = (chunk[start : start + _LARGE] for start in range(0, len(chunk), _LARGE))
        return [text for piece in slices for text in self.feed(piece)]

    def finish(self) -> bytes:
        """Return the rest: an event without its blank line, bare JSON, or nothing."""
        text = self._take(b"".join(self._line)) if self._line else None
        left = text or b"\n".join(self._data) or b"\n".join(self._bare)
        return left.strip()

    def _take(self, line: bytes) -> bytes | None:
        # A CR before the LF stays: it is white space in JSON, and removing it copies the line.
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            return None if len(self._data) <= MAX_LINES else _reject_lines()
        if line in {b"", b"\r"}:
            return self._event()
        if line.startswith(_BYTE_ORDER_MARK) and not self._had_mark:
            self._had_mark = True
            return self._take(line[len(_BYTE_ORDER_MARK) :])
        if not line.startswith(_IGNORED_FIELDS):
            return self._take_bare(line)
        return None

    def _event(self) -> bytes | None:
        if not self._data:
            return None
        event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        return None if event.isspace() else event

    def _take_bare(self, line: bytes) -> bytes | None:
        """Return bare JSON once it is complete: the server may leave the connection open.

        Brackets are counted, so that each line is read once. Text that does not begin with a
        bracket is not JSON, and ends with the stream.
        """
        if not self._bare:
            if line.isspace():
                return None
            self._bare_is_json = line.lstrip().startswith((b"{", b"["))
        self._bare.append(line)
        if len(self._bare) > MAX_LINES:
            _reject_lines()
        if not self._bare_is_json:
            return None
        outside_strings = _STRING.sub(b"", line)
        self._bare_depth += outside_strings.count(b"{") + outside_strings.count(b"[")
        self._bare_depth -= outside_strings.count(b"}") + outside_strings.count(b"]")
        if self._bare_depth > 0:
            return None
        text = b"\n".join(self._bare)
        self._bare.clear()
        self._bare_depth = 0
        return text


def _reject_lines() -> NoReturn:
    error = UnreadableResponseError(f"A stream event has more than {MAX_LINES} lines.")
    error.is_retryable = False
    raise error
