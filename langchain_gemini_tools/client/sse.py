"""Server-sent events: bytes as they arrive -> the JSON text of each event.

Nothing here knows Gemini, and nothing is parsed: what comes out is what the server wrote.
"""

from __future__ import annotations

import json

_IGNORED_FIELDS = (b":", b"event:", b"id:", b"retry:")


class EventReader:
    """Cuts a stream of bytes into the texts of its events.

    Lines end at LF only. Python's `splitlines`, and so the `iter_lines` of HTTP libraries, also cut
    at U+2028 and U+0085, which JSON strings may hold as they are.

    An error may follow the events as a bare JSON text over several lines, without any `data:`. It
    comes out as one more text.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._bare: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The texts that are complete with this chunk."""
        if b"\n" not in chunk:
            # Joined when the line ends: joining at each chunk makes a 20 MB event quadratic.
            self._line.append(chunk)
            return []
        if self._line:
            self._line.append(chunk)
            chunk = b"".join(self._line)
            self._line.clear()
        *lines, rest = chunk.split(b"\n")
        if rest:
            self._line.append(rest)
        return [text for line in lines if (text := self._take(line))]

    def finish(self) -> bytes:
        """What the stream ended with: an event without its blank line, a bare text, or nothing."""
        text = self._take(b"".join(self._line)) if self._line else None
        left = text or b"\n".join(self._data) or b"\n".join(self._bare)
        return left.strip()

    def _take(self, line: bytes) -> bytes | None:
        # A CR before the LF stays: to JSON it is white space, and taking it off copies the line.
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            return None
        if line in {b"", b"\r"}:
            return self._event()
        if not line.startswith(_IGNORED_FIELDS):
            self._bare.append(line)
            return self._bare_text(line)
        return None

    def _event(self) -> bytes | None:
        if not self._data:
            return None
        event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        return None if event.isspace() else event

    def _bare_text(self, line: bytes) -> bytes | None:
        """The bare text, once it is whole: a server may leave the connection open behind it."""
        if not (line.startswith((b"}", b"]")) or len(self._bare) == 1):
            return None
        text = b"\n".join(self._bare)
        try:
            json.loads(text)
        except ValueError:
            return None
        self._bare.clear()
        return text
