"""The sockets under the HTTP clients: time limits that apply, and no use after unread bytes.

The HTTP library limits each single read, looks up names without a limit, and uses a connection
again although the server sent more than one response. `guard` wraps its network backend:

* The `Limit` of a request is asked how much time is left before every read and write, so that a
  head in single bytes, or `102 Processing` without an end, does not outlast it.
* Sync connections look up names in a thread, because the system call cannot be interrupted.
* A connection on which bytes followed a response counts as closed: they are not the response to
  the next request.
"""

from __future__ import annotations

import ipaddress
import os
import queue
import re
import select
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CONNECT_SECONDS = 20.0
"""The limit for connecting, if the timeout of the request is longer."""

PHASES = ("connect", "read", "write", "pool")
"""What the HTTP library limits."""

_MAX_PORT = 65_535
_SLICE_BYTES = 262_144
"""How much is written at once. The time limit is checked before each slice."""
_MAX_HEAD_BYTES = 200_000
"""Twice what the HTTP library accepts."""
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_END_OF_LINE = re.compile(rb"\n")
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding):([^\n]*)")


# Time limits.


class TimeLimit(float):
    """A timeout as the library passes it on: it shrinks. Other transports read it as a number.

    Args:
        left: Returns the seconds that are left, and raises when there are none.
    """

    left: Callable[[], float]

    def __new__(cls, left: Callable[[], float]) -> Self:
        """Make a number of the seconds that are left now."""
        limit = float.__new__(cls, left())
        limit.left = left
        return limit


class _Timeouts(dict[str, float]):
    """The timeouts of a request. The library gets what is left at the beginning of each phase."""

    def __init__(self, phases: Iterable[str], seconds: float, left: Callable[[], float]) -> None:
        super().__init__(dict.fromkeys(phases, seconds))
        if "connect" in self:
            self["connect"] = min(seconds, CONNECT_SECONDS)
        self._left = left

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        if key != "connect":
            return TimeLimit(self._left)
        end = time.monotonic() + CONNECT_SECONDS
        return TimeLimit(lambda: max(min(end - time.monotonic(), self._left()), 0.001))


class Limit:
    """How long a request may take. Subclasses know how much of that time is left."""

    seconds: float | None
    """The longest time that one phase may take; None for no limit."""
    server_seconds: int | None = None
    """The limit that is sent to the server. Without it, its own applies, which may be shorter."""
    phases: tuple[str, ...] = PHASES

    def left(self) -> float:
        """Return the seconds that are left; raise if there are none."""
        raise NotImplementedError

    def extensions(self) -> dict[str, Any]:
        """Return the extensions of a request to which the limit applies."""
        if self.seconds is None:
            return {}
        return {"timeout": _Timeouts(self.phases, self.seconds, self.left)}


def shorter(seconds: float | None, total_seconds: float | None) -> float | None:
    """Return the shorter of two limits; None means no limit."""
    return min((each for each in (seconds, total_seconds) if each is not None), default=None)


# Connecting.


def guard(client: Any) -> None:
    """Wrap the network backends of an HTTP client, of its transport and of its proxies.

    Neither library has a public name for this. Other transports, such as those of tests, have no
    backend and stay as they are.
    """
    transports = [getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values()]
    for transport in transports:
        pool: Any = getattr(transport, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if backend is None or isinstance(backend, (_Backend, _AsyncBackend)):
            continue
        is_async = hasattr(pool, "handle_async_request")
        pool._network_backend = (_AsyncBackend if is_async else _Backend)(backend)  # noqa: SLF001


def _seconds(timeout: float | None) -> float | None:
    return timeout.left() if isinstance(timeout, TimeLimit) else timeout


def _explain(error: Exception, timeout: float | None) -> None:
    """Raise the error of the limit, which names it, instead of a timeout of the library."""
    if type(error).__name__.endswith("Timeout"):
        _seconds(timeout)


class _Backend:
    """A sync network backend of httpcore."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._library = sys.modules[type(backend).__module__.partition(".")[0]]

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> _Stream:
        _check_port(port)
        end = None if timeout is None else time.monotonic() + timeout
        addresses = self._look_up(host, port, timeout)
        while True:
            address, *addresses = addresses
            # Of the time that is left, each address gets an equal share.
            left = None if end is None else max(end - time.monotonic(), 0.001)
            share = None if left is None else left / (1 + len(addresses))
            try:
                stream = self._backend.connect_tcp(address, port, timeout=share, **options)
            except (self._library.ConnectError, self._library.ConnectTimeout):
                if not addresses:
                    raise
            else:
                return _Stream(stream)

    def connect_unix_socket(self, *args: Any, **options: Any) -> _Stream:
        return _Stream(self._backend.connect_unix_socket(*args, **options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)

    def _look_up(self, host: str, port: int, seconds: float | None) -> list[str]:
        if seconds is None or _is_address(host):
            return [host]
        answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()
        threading.Thread(
            target=_look_up, args=[host, port, answers], name="name lookup", daemon=True
        ).start()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise self._library.ConnectTimeout("The name lookup timed out.") from None
        if isinstance(answer, OSError):
            raise self._library.ConnectError(str(answer)) from answer
        if isinstance(answer, Exception):
            raise answer
        return answer


class _AsyncBackend:
    """An async network backend of httpcore. It looks names up in threads by itself."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, host: str, port: int, **options: Any) -> _AsyncStream:
        _check_port(port)
        return _AsyncStream(await self._backend.connect_tcp(host, port, **options))

    async def connect_unix_socket(self, *args: Any, **options: Any) -> _AsyncStream:
        return _AsyncStream(await self._backend.connect_unix_socket(*args, **options))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def _check_port(port: int) -> None:
    if port > _MAX_PORT:  # the system would connect to another one
        raise ValueError(f"The port {port} does not exist. Correct base_url or the proxy.")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, answers: queue.SimpleQueue[list[str] | Exception]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:  # noqa: BLE001 - raised in the thread that waits
        answers.put(error)
    else:
        answers.put(list(dict.fromkeys(str(address[0]) for *_, address in found)))


# Reading and writing.


class _Guarded:
    """What sync and async streams share."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._boundary = ResponseBoundary()
        self._process = os.getpid()

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._stream.get_extra_info(info)
        # The HTTP library checks this for every idle connection before each request, and closes
        # a connection that is readable.
        if _is_readable(self._socket):
            return True
        if not self._boundary.is_http1:
            return False
        return self._boundary.has_unread or (self._tls is not None and _has_decrypted(self._tls))

    # Looked up once: anyio asks the system for the address of the server each time, which costs
    # more than everything else here.

    @cached_property
    def _socket(self) -> Any:
        return self._stream.get_extra_info("socket")

    @cached_property
    def _tls(self) -> Any:
        """The TLS layer, if there is one."""
        return self._stream.get_extra_info("ssl_object")


class _Stream(_Guarded):
    """Another thread may close it at any time.

    While a thread waits for data, closing only shuts the connection down, which wakes that thread,
    and that thread closes the socket. Otherwise the system could give the number of the socket to
    another connection, and the thread would wait for, or read, what arrives there.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._lock = threading.Lock()
        """Not used in a forked process, which may have copied it locked."""
        self._users = 0
        self._is_closed = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._lock:
            self._users += 1
        try:
            data: bytes = self._stream.read(max_bytes, timeout=_seconds(timeout))
        except Exception as error:
            _explain(error, timeout)
            raise
        finally:
            self._end_use()
        self._boundary.received(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return  # the end of a request whose length was sent before
        self._boundary.sent(buffer)
        with self._lock:
            self._users += 1
        try:
            for start in range(0, len(buffer), _SLICE_BYTES):
                piece = buffer[start : start + _SLICE_BYTES]
                self._stream.write(piece, timeout=_seconds(timeout))
        finally:
            self._end_use()

    def _end_use(self) -> None:
        """Count a thread that has read or written; the last one closes."""
        with self._lock:
            self._users -= 1
            if self._is_closed and not self._users:
                self._stream.close()

    def close(self) -> None:
        if self._process != os.getpid():
            self._stream.close()  # the copies of a forked process: the connection is the parent's
            return
        with self._lock:
            self._is_closed = True
            connection = self._stream.get_extra_info("socket")
            if connection is not None:
                with suppress(OSError):  # the server has closed it
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)  # also below TLS
            if not self._users:
                self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        seconds = _seconds(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, seconds))


class _AsyncStream(_Guarded):
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            data: bytes = await self._stream.read(max_bytes, timeout=_seconds(timeout))
        except Exception as error:
            _explain(error, timeout)
            raise
        self._boundary.received(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if not buffer:
            return
        self._boundary.sent(buffer)
        await self._stream.write(buffer, timeout=_seconds(timeout))

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> _AsyncStream:
        seconds = _seconds(timeout)
        return _AsyncStream(await self._stream.start_tls(ssl_context, server_hostname, seconds))


def _is_readable(connection: Any) -> bool:
    """Return whether a socket has data, or was closed."""
    if connection is None or (number := connection.fileno()) < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _has_decrypted(tls: Any) -> bool:
    """Return whether the TLS layer has data that has left the socket but was not read."""
    if not isinstance(tls, ssl.SSLObject):
        return False  # sync: a read returns all that was decrypted
    try:
        tls.read(1)  # never blocks; whatever it finds, the connection is closed
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        return True
    return True


class ResponseBoundary:
    """Finds the end of each HTTP/1.1 response, to notice what follows it.

    It does not decide how a response is read. If it is wrong, a connection is closed that could
    have been used again.
    """

    def __init__(self) -> None:
        self.is_http1 = True
        self.has_unread = False
        self._is_head = False
        self._next: Callable[[], bool] | None = None
        """Reads what comes next of a response; None after the last one has ended."""
        self._buffer = bytearray()
        self._searched = 0
        self._skip = 0

    def sent(self, data: bytes) -> None:
        """Note what is sent: the first bytes of a request, or the rest of it."""
        if self._next is not None or self._skip:
            return
        if data.startswith(b"PRI * HTTP/2"):
            self.is_http1 = False
        self._is_head = data.startswith(b"HEAD ")
        self._next = self._read_head

    def received(self, data: bytes) -> None:
        """Follow what the server sends."""
        if not self.is_http1 or self.has_unread:
            return
        if self._skip >= len(data):
            self._skip -= len(data)
            return
        self._buffer += data[self._skip :]
        self._skip = 0
        while self._buffer:
            if self._next is None:
                self.has_unread = True
                return
            if not self._next():
                return

    def _take(self, end: re.Pattern[bytes]) -> bytes | None:
        """Return what is before the end, once it has arrived.

        Bytes are not searched again when more arrive, except for two that an end may begin with.
        """
        found = end.search(self._buffer, max(self._searched - 2, 0))
        if not found:
            self._wait()
            return None
        taken = bytes(self._buffer[: found.start()])
        del self._buffer[: found.end()]
        self._searched = 0
        return taken

    def _wait(self) -> bool:
        """Wait for more bytes, unless the line or the head is too long to be one."""
        self._searched = len(self._buffer)
        self.has_unread = self._searched > _MAX_HEAD_BYTES
        return False

    # Each step returns whether the next one can go on.

    def _read_head(self) -> bool:
        if (head := self._take(_END_OF_HEAD)) is None:
            return False
        code = head.partition(b" ")[2][:3]
        if code.startswith(b"1") and code != b"101":
            return True  # the head of the response itself follows
        fields = dict(_FRAMING.findall(head.lower()))
        length = fields.get(b"content-length", b"").partition(b",")[0].strip()
        if self._is_head or code in {b"204", b"304"}:
            self._next = None
        elif b"chunked" in fields.get(b"transfer-encoding", b""):
            self._next = self._read_chunks
        elif length.isdigit():
            self._next = None
            self._skip_bytes(int(length))
        else:
            self._next = self._read_all  # until the connection ends
        return True

    def _read_chunks(self) -> bool:
        # A read may have hundreds of chunks: they are skipped together.
        buffer, start = self._buffer, 0
        while (end := buffer.find(b"\n", start or self._searched)) >= 0:
            try:
                size = int(buffer[start:end].partition(b";")[0], 16)
            except ValueError:
                size = -1
            if size < 0:
                self.has_unread = True
                return False
            if not size:
                self._next, self._searched = self._read_trailer, 0
                del buffer[: end + 1]
                return True
            start = end + 1 + size + 2
        self._skip_bytes(start)
        return self._wait()

    def _read_trailer(self) -> bool:
        if (line := self._take(_END_OF_LINE)) is None:
            return False
        if line in {b"", b"\r"}:
            self._next = None
        return True

    def _read_all(self) -> bool:
        self._buffer.clear()
        return False

    def _skip_bytes(self, count: int) -> None:
        self._skip = max(count - len(self._buffer), 0)
        del self._buffer[:count]
