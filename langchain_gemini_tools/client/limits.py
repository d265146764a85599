"""How much a server may send, and how long it may take: nobody is kept waiting without end.

The HTTP library limits each single read. A server that sends a byte now and then, or a comment that
keeps the connection alive, passes every such limit; so time is added up here, and so are bytes.
"""

from __future__ import annotations

import time

from langchain_gemini_tools.errors import GeminiTimeoutError, UnreadableResponseError

MAX_REPLY_BYTES = 100_000_000
"""Far above any answer of the API, images and all; below what exhausts a small machine."""


class Intake:
    """Takes the pieces of one answer, and refuses to take more than that."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def count(self, piece: bytes) -> None:
        """Note a piece that somebody else keeps.

        Raises:
            UnreadableResponseError: It is too much.
        """
        self._size += len(piece)
        if self._size > MAX_REPLY_BYTES:
            error = UnreadableResponseError(
                f"The answer is longer than {MAX_REPLY_BYTES // 1_000_000} MB; it was not read to "
                "its end."
            )
            error.is_retryable = False
            raise error

    def take(self, piece: bytes) -> None:
        """Keep a piece."""
        self.count(piece)
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """All that was kept."""
        return b"".join(self._pieces)


def stream_timed_out(total_seconds: float) -> GeminiTimeoutError:
    """The error for a stream that keeps its reader waiting too long in all."""
    return GeminiTimeoutError(
        f"The stream did not end within {total_seconds:g} s (stream_timeout)."
    )


class Patience:
    """Adds up the time that a stream keeps us waiting; what the caller takes does not count.

    It is asked when something arrives. Silence ends by the HTTP library's limit for a single read,
    which is the shorter of the two.
    """

    def __init__(self, between_seconds: float | None, total_seconds: float | None) -> None:
        self._between_seconds = between_seconds
        self._total_seconds = total_seconds
        self._for_event = 0.0
        self._in_all = 0.0
        self.begin()

    def begin(self) -> None:
        """From now on it is the stream's time again."""
        self._since = time.monotonic()

    def end(self) -> None:
        """Something has arrived.

        Raises:
            GeminiTimeoutError: It took too long, the waits before it included.
        """
        waited = time.monotonic() - self._since
        self._since += waited
        self._for_event += waited
        self._in_all += waited
        if self._between_seconds is not None and self._for_event > self._between_seconds:
            raise GeminiTimeoutError(
                f"No event of the stream within {self._between_seconds:g} s (deadline)."
            )
        if self._total_seconds is not None and self._in_all > self._total_seconds:
            raise stream_timed_out(self._total_seconds)

    def answer_came(self) -> None:
        """The stream has begun: the wait for its first event is yet to come."""
        self._in_all += time.monotonic() - self._since
        self.begin()

    def event_came(self) -> None:
        """An event is whole: the wait for the next one begins at nothing."""
        self._for_event = 0.0
