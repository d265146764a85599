"""Server-sent events: bytes as they arrive -> the JSON text of each event.

Nothing here knows Gemini, and nothing is parsed: what comes out is what the server wrote.
"""

from __future__ import annotations

import re
from typing import NoReturn

from langchain_gemini_tools.errors import UnreadableResponseError

MAX_LINES = 1_000_000
"""Of one event. The API writes one; each that is kept takes forty bytes, however short it is."""

_IGNORED_FIELDS = (b":", b"event:", b"id:", b"retry:")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LARGE = 1_000_000
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?')
"""A string of JSON, which ends with its line at the latest."""


class EventReader:
    """Cuts a stream of bytes into the texts of its events.

    Lines end at LF only. Python's `splitlines`, and so the `iter_lines` of HTTP libraries, also cut
    at U+2028 and U+0085, which JSON strings may hold as they are.

    A byte order mark at the start, as some proxies write it, is passed over once.

    An error may follow the events as a bare JSON text over several lines, without any `data:`. It
    comes out as one more text.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._bare: list[bytes] = []
        self._had_mark = False
        self._bare_is_json = False
        self._bare_depth = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The texts that are complete with this chunk."""
        if b"\n" not in chunk:
            # Joined when the line ends: joining at each chunk makes a 20 MB event quadratic.
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
        """As `feed`, without a list of all the lines: they take many times their length."""
        slices = (chunk[start : start + _LARGE] for start in range(0, len(chunk), _LARGE))
        return [text for piece in slices for text in self.feed(piece)]

    def finish(self) -> bytes:
        """What the stream ended with: an event without its blank line, a bare text, or nothing."""
        text = self._take(b"".join(self._line)) if self._line else None
        left = text or b"\n".join(self._data) or b"\n".join(self._bare)
        return left.strip()

    def _take(self, line: bytes) -> bytes | None:
        # A CR before the LF stays: to JSON it is white space, and taking it off copies the line.
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            return None if len(self._data) <= MAX_LINES else _refuse_lines()
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
        """The bare text, once it is whole: a server may leave the connection open behind it.

        Its brackets tell, so that each line is looked at once. Text that does not begin with one is
        no JSON, and has no end but the stream's.
        """
        if not self._bare:
            if line.isspace():
                return None
            self._bare_is_json = line.lstrip().startswith((b"{", b"["))
        self._bare.append(line)
        if len(self._bare) > MAX_LINES:
            _refuse_lines()
        if not self._bare_is_json:
            return None
        signs = _STRING.sub(b"", line)
        self._bare_depth += signs.count(b"{") + signs.count(b"[")
        self._bare_depth -= signs.count(b"}") + signs.count(b"]")
        if self._bare_depth > 0:
            return None
        text = b"\n".join(self._bare)
        self._bare.clear()
        self._bare_depth = 0
        return text


def _refuse_lines() -> NoReturn:
    error = UnreadableResponseError(f"An event of the stream has more than {MAX_LINES} lines.")
    error.is_retryable = False
    raise error
