"""Where a response ends, and how much time is left. The sockets are in the integration tests."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from langchain_gemini_tools.client.network import ResponseBoundary, TimeLimit, guard

RESPONSES = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "no body": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "line feeds only": b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    "204": b"HTTP/1.1 204 No Content\r\ncontent-length: 7\r\n\r\n",
    "after 102 and 103": b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: a\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5\r\nhello\r\nC;a=b\r\n\r\n\r\n0\r\n\r\n123\r\n0\r\n\r\n",
    "trailers": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"1\r\na\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    "body like a head": b"HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
}
REQUEST = b"POST /v1beta HTTP/1.1\r\nhost: a\r\n\r\n"


def after(*exchanges: bytes, size: int, request: bytes = REQUEST) -> ResponseBoundary:
    """The state after requests, whose responses arrive in pieces of this size."""
    boundary = ResponseBoundary()
    for received in exchanges:
        boundary.sent(request)
        boundary.sent(b"{}")  # the body of the request
        for start in range(0, len(received), size):
            boundary.received(received[start : start + size])
    return boundary


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
def test_a_byte_after_a_response_is_noticed(response: bytes, size: int) -> None:
    assert not after(response, size=size).has_unread
    assert not after(response, *RESPONSES.values(), size=size).has_unread
    assert after(response + b"H", size=size).has_unread
    assert after(response, response + response, size=size).has_unread


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 300_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        # Adding it up would lead back to the line itself, again and again.
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-6\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n" + b"1" * 300_000,
    ],
    ids=["endless head", "not a chunk", "negative size", "endless size"],
)
def test_a_connection_that_is_not_understood_is_not_used_again(response: bytes, size: int) -> None:
    assert after(response, size=size).has_unread


def test_a_response_to_head_has_no_body() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    request = REQUEST.replace(b"POST", b"HEAD")
    assert not after(head, head, size=9, request=request).has_unread
    assert after(head + b"hello", size=9, request=request).has_unread


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert not after(b"HTTP/1.1 200 OK\r\n\r\nhello\r\n\r\n", size=3).has_unread


def test_the_frames_of_http2_are_not_followed() -> None:
    boundary = ResponseBoundary()
    boundary.sent(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    boundary.received(b"\x00\x00\x12\x04\x00\x00\n\n\r\n\r\n")
    assert (boundary.is_http1, boundary.has_unread) == (False, False)


def test_a_limit_is_a_number_for_other_transports() -> None:
    left = iter([3.0, 2.0, 1.0])
    limit = TimeLimit(lambda: next(left))
    assert (limit, limit.left(), limit + 0, limit.left()) == (3.0, 2.0, 3.0, 1.0)


def test_the_socket_and_its_tls_layer_are_looked_up_once_per_connection() -> None:
    """The HTTP library asks every idle connection whether it is readable, before each request."""
    asked: list[str] = []
    near, far = socket.socketpair()

    def look_up(info: str) -> Any:
        asked.append(info)
        return near if info == "socket" else None

    stream = SimpleNamespace(get_extra_info=look_up)
    pool = SimpleNamespace(_network_backend=SimpleNamespace(connect_tcp=lambda *_, **__: stream))
    guard(SimpleNamespace(_transport=SimpleNamespace(_pool=pool)))
    backend: Any = pool._network_backend  # noqa: SLF001 - httpcore has no public name for it
    connection = backend.connect_tcp("127.0.0.1", 80)
    with near:
        assert [connection.get_extra_info("is_readable") for _ in range(3)] == [False] * 3
        assert asked == ["socket", "ssl_object"]
        far.close()
        assert connection.get_extra_info("is_readable")
    assert connection.get_extra_info("is_readable")  # closed by us
    assert asked == ["socket", "ssl_object"]


def test_a_client_without_sockets_stays_as_it_is() -> None:
    guard(object())


class SlowStream:
    """A connection whose reader goes on only when the test says so."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.reads, self.goes_on = threading.Event(), threading.Event()

    def get_extra_info(self, _: str) -> Any:
        return self.near

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.reads.set()
        assert self.goes_on.wait(timeout)
        return self.near.recv(max_bytes)

    def close(self) -> None:
        self.near.close()


def test_a_socket_is_not_closed_while_another_thread_reads_from_it() -> None:
    """Its number could become that of another connection, with the data of another caller."""
    slow = SlowStream()
    backend = SimpleNamespace(connect_tcp=lambda *_, **__: slow)
    pool = SimpleNamespace(_network_backend=backend)
    guard(SimpleNamespace(_transport=SimpleNamespace(_pool=pool)))
    stream = vars(pool)["_network_backend"].connect_tcp("127.0.0.1", 1)
    with slow.far, ThreadPoolExecutor(1) as thread:
        reading = thread.submit(stream.read, 100, timeout=30)
        assert slow.reads.wait(30)
        stream.close()
        assert slow.near.fileno() >= 0
        slow.goes_on.set()
        assert reading.result(30) == b""  # it was shut down, which wakes the reader
        assert slow.near.fileno() == -1
