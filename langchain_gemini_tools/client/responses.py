"""HTTP responses and server-sent events -> JSON objects or errors, within limits.

The HTTP library limits each single read. A server that sends a byte or a comment now and then stays
within that limit forever, so time and bytes are also added up here.
"""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING, NoReturn

from langchain_gemini_tools.client.failures import (
    encoding_error,
    raise_api_error,
    stream_timeout_error,
    unreadable_error,
)
from langchain_gemini_tools.client.network import PHASES, Limit, shorter
from langchain_gemini_tools.errors import (
    GeminiTimeoutError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.http import contains_error
from langchain_gemini_tools.facts.json_values import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx  # its types also stand for those of httpx2

    from langchain_gemini_tools.facts.json_values import JsonObject


MAX_RESPONSE_BYTES = 100_000_000
"""Far above any response of the API, images included; below what exhausts a small machine."""

MAX_LINES = 1_000_000
"""Of one event. The API writes one line; each line costs at least forty bytes of memory."""

# "Manually set deadline 5s is too short. Minimum allowed deadline is 10s."
_MIN_SERVER_SECONDS = 10
_DONE = b"[DONE]"
"""Ends the streams of the Interactions API."""
_ENCODINGS = re.compile(r"\b(?:gzip|deflate|br|zstd)\b")
"""What HTTP libraries decompress. They ignore any other word, such as a charset."""
_ALLOWED_ENCODINGS: tuple[list[str], ...] = ([], ["gzip"], ["deflate"])
_IGNORED_FIELDS = (b":", b"event:", b"id:", b"retry:")
_ONE_EVENT = re.compile(rb"data:(?=[^\S\n]*\S)([^\n]*)\n\r?\n")
"""One event of one line with more than white space in it."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SLICE_BYTES = 1_000_000
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"?')
"""A JSON string, which ends at the end of its line at the latest."""


# Limits.


def check_size(size: int) -> None:
    """Check how many bytes of a response have arrived.

    Raises:
        UnreadableResponseError: There are more than `MAX_RESPONSE_BYTES`.
    """
    if size > MAX_RESPONSE_BYTES:
        error = UnreadableResponseError(
            f"The response is longer than {MAX_RESPONSE_BYTES // 1_000_000} MB. The rest was not "
            "read."
        )
        error.is_retryable = False
        raise error


class Deadline(Limit):
    """The limit of a whole request, which begins now.

    Args:
        seconds: How long the request may take.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.end = math.inf
        """In the time of `time.monotonic`."""
        if seconds is not None:
            self.end = time.monotonic() + seconds
            self.server_seconds = math.ceil(seconds) if seconds >= _MIN_SERVER_SECONDS else None

    def left(self) -> float:
        """Return the seconds until the end.

        Raises:
            TimeoutError: It has passed.
        """
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class StreamTimer(Limit):
    """Limits the time spent waiting for a stream; the time of its reader does not count.

    It checks when something arrives, and before each read of the network.
    """

    def __init__(self, between_seconds: float | None, total_seconds: float | None) -> None:
        self.seconds = shorter(between_seconds, total_seconds)
        self.phases = PHASES if between_seconds is not None else ("read",)
        self._between_seconds = math.inf if between_seconds is None else between_seconds
        self._total_seconds = math.inf if total_seconds is None else total_seconds
        # In the time of `time.monotonic`. Both ends move while the reader is busy.
        self._stopped = time.monotonic()
        self._end_of_wait = self._stopped + self._between_seconds
        self._end = self._stopped + self._total_seconds

    def left(self) -> float:
        """Return the seconds until one of the limits is reached.

        Raises:
            GeminiTimeoutError: One of them has been reached.
        """
        left = min(self._end_of_wait, self._end) - time.monotonic()
        if left <= 0:
            self.stop()
        return max(left, 0.001)  # 0 would mean "do not block"

    def start(self) -> None:
        """Start waiting."""
        busy = time.monotonic() - self._stopped
        self._end_of_wait += busy
        self._end += busy

    def stop(self) -> None:
        """Stop waiting, because something arrived.

        Raises:
            GeminiTimeoutError: The waits were too long together.
        """
        self._stopped = now = time.monotonic()
        if now > self._end_of_wait:
            raise GeminiTimeoutError(
                f"The stream sent no event within {self._between_seconds:g} s (timeout)."
            )
        if now > self._end:
            raise stream_timeout_error(self._total_seconds)

    def response_started(self) -> None:
        """Start waiting for the first event: the headers have arrived."""
        self._stopped = time.monotonic()
        self.event_arrived()

    def event_arrived(self) -> None:
        """Start counting for the next event."""
        self._end_of_wait = self._stopped + self._between_seconds


# Whole responses.


def read_body(response: httpx.Response, end: float = math.inf) -> bytes:
    """Read the whole body of a response, and close it.

    Args:
        response: A response of the HTTP library, opened with `stream=True`.
        end: When to stop, in the time of `time.monotonic`.

    Raises:
        TimeoutError: The end has passed.
        UnreadableResponseError: The body is too long, or its encoding is not allowed.
    """
    body = bytearray()
    try:
        check_encoding(response)
        for chunk in response.iter_bytes():
            body += chunk
            check_size(len(body))
            # A server that sends single bytes stays within the limit of each read.
            if time.monotonic() > end:
                raise TimeoutError
    finally:
        response.close()
    return bytes(body)


async def aread_body(response: httpx.Response) -> bytes:
    """Read as `read_body` does, on the running event loop."""
    body = bytearray()
    try:
        check_encoding(response)
        async for chunk in response.aiter_bytes():
            body += chunk
            check_size(len(body))
    finally:
        await response.aclose()
    return bytes(body)


def iterate_body(response: httpx.Response, timer: StreamTimer) -> Iterator[bytes]:
    """Yield the body of a response as it arrives, of any length, and close the response."""
    try:
        if response.status_code != 200:
            raise_api_error(response, read_body(response))
        check_encoding(response)
        timer.start()
        for chunk in response.iter_bytes():
            timer.stop()
            timer.event_arrived()
            yield chunk
            timer.start()
    finally:
        response.close()


def parse_operation(response: httpx.Response, body: bytes) -> JsonObject:
    """Return the JSON object of a long-running operation, whose `error` is part of its state."""
    if response.status_code == 200 and not body.strip():
        return {}
    return parse_response(response, body, is_operation=True)


def parse_response(
    response: httpx.Response, body: bytes, *, is_operation: bool = False
) -> JsonObject:
    """Return the JSON object in the body of a whole response."""
    if response.status_code != 200:
        raise_api_error(response, body)
    try:
        parsed = decode_json(body)
    except ValueError:
        raise unreadable_error(response, body) from None
    if contains_error(parsed) and not is_operation:
        raise_api_error(response, body)
    if not isinstance(parsed, dict):
        raise unreadable_error(response, body)
    return parsed


def check_encoding(response: httpx.Response) -> None:
    """Check the content encoding before anything is read.

    The HTTP library decompresses each chunk as a whole. With one layer that makes some megabytes,
    which are counted; two layers, or a newer encoding, can make gigabytes.

    Raises:
        UnreadableResponseError: The response is compressed in a way that was not requested.
    """
    encoding = response.headers.get("content-encoding")
    if encoding is None or _ENCODINGS.findall(encoding.lower()) in _ALLOWED_ENCODINGS:
        return
    raise encoding_error(response, encoding)


# Streams.


class StreamReader:
    """Reads the events of a response, as they arrive, within its limits. `feed`, then `finish`.

    Args:
        response: A response of the HTTP library, opened with `stream=True`.
        timer: Its time limit.

    Raises:
        UnreadableResponseError: The encoding of the response is not allowed.
    """

    def __init__(self, response: httpx.Response, timer: StreamTimer) -> None:
        check_encoding(response)
        self._response = response
        self._timer = timer
        self._events = EventReader()
        self._size = 0
        self._error_body = bytearray()
        self._is_error = response.status_code != 200
        timer.start()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the texts of the events that are complete with this chunk."""
        self._timer.stop()
        self._size += len(chunk)
        check_size(self._size)
        if self._is_error:
            self._error_body += chunk
            return []
        texts = self._events.feed(chunk)
        if texts:
            self._timer.event_arrived()
        return texts

    def parse(self, text: bytes) -> list[JsonObject]:
        """Return the objects in one event."""
        return parse_event(self._response, text)

    def finish(self) -> list[JsonObject]:
        """Return the objects in what the stream ended with.

        Raises:
            GeminiAPIError: The response is an error.
        """
        if self._is_error:
            raise_api_error(self._response, bytes(self._error_body))
        return parse_event(self._response, self._events.finish(), is_last=True)


def parse_event(
    response: httpx.Response, text: bytes, *, is_last: bool = False
) -> list[JsonObject]:
    """Return the objects in one event: usually one; several if a proxy made a list of them."""
    try:
        parsed = decode_json(text)
    except ValueError:
        if not text or text.strip() == _DONE:
            return []
        if is_last and text.lstrip().startswith((b"{", b"[")):
            raise TruncatedStreamError("The connection ended inside an event.") from None
        raise unreadable_error(response, text) from None
    if isinstance(parsed, dict) and "error" not in parsed:
        return [parsed]
    if contains_error(parsed):
        raise_api_error(response, text)
    if isinstance(parsed, dict):
        return [parsed]
    if not isinstance(parsed, list) or not all(isinstance(item, dict) for item in parsed):
        raise unreadable_error(response, text)
    return parsed


# Server-sent events.


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
        if len(chunk) > _SLICE_BYTES:
            return self._feed_slices(chunk)
        if self._line:
            self._line.append(chunk)
            chunk = b"".join(self._line)
            self._line.clear()
        elif not self._data and (event := _ONE_EVENT.fullmatch(chunk)):
            return [event[1]]  # nearly every chunk of the API is one event
        *lines, rest = chunk.split(b"\n")
        if rest:
            self._line.append(rest)
        return [text for line in lines if (text := self._take(line))]

    def _feed_slices(self, chunk: bytes) -> list[bytes]:
        """Feed in slices: a list of all lines would take many times their length."""
        slices = (
            chunk[start : start + _SLICE_BYTES] for start in range(0, len(chunk), _SLICE_BYTES)
        )
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
