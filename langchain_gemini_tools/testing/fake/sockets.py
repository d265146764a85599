"""The HTTP server under the emulator: threads, keep-alive, and responses sent step by step."""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_gemini_tools.testing.fake.outgoing import Cut, Outgoing, Pause

Answerer = Callable[[str, str, Mapping[str, str], bytes], Outgoing]
"""Method, target, headers and body in; what goes out."""


class SocketServer:
    """Serves on a port of 127.0.0.1 until stopped; then drops all connections. 0: a free port."""

    def __init__(self, answer: Answerer, port: int = 0) -> None:
        self.closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.connection_count = 0
        """How many connections were accepted so far."""
        outer = self

        class Handler(_Handler):
            def setup(self) -> None:
                super().setup()
                with outer._lock:
                    outer._connections.add(self.connection)
                    outer.connection_count += 1

            def finish(self) -> None:
                with outer._lock:
                    outer._connections.discard(self.connection)
                with contextlib.suppress(OSError):
                    super().finish()

            def answer(self, body: bytes) -> Outgoing:
                headers = {name.lower(): value for name, value in self.headers.items()}
                return answer(self.command, self.path, headers, body)

            def wait(self, seconds: float) -> None:
                if _says_nothing(self.connection, seconds):
                    return
                outer.closing.wait(seconds)  # it sent more, which is read later

        self._http = _HttpServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def start(self) -> None:
        self._wake, self._woken = socket.socketpair()
        self._thread.start()

    def _accept(self) -> None:
        """Accept connections until closing, without polling: each test would wait for the poll."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._http, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while selector.select() and not self.closing.is_set():
                self._http.handle_request()

    def stop(self) -> None:
        """Stop listening, wake those who pause, cut the rest."""
        self.closing.set()
        self._wake.close()
        self._thread.join()
        self._woken.close()
        self._http.server_close()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _says_nothing(connection: socket.socket, seconds: float) -> bool:
    """Wait until the time is over or a client hangs up, also when `stop` cuts it off."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        if not selector.select(seconds):
            return True
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    timeout = 0  # `handle_request` is called when there is one

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up; anything else is a bug of the emulator."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each step leaves when it is flushed
    wbufsize = -1  # head and first step leave together: one system call less

    def version_string(self) -> str:
        return "Gemini-Emulator"  # cassettes quote it, so that they are not mistaken for evidence

    def answer(self, body: bytes) -> Outgoing:
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        raise NotImplementedError

    def do_POST(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: `Emulator.requests` is the log."""

    def _serve(self) -> None:
        body = self._read_body()
        outgoing = self.answer(body)
        for step in outgoing.before:
            if not self._take(step, is_chunked=False):
                return
        self._send_head(outgoing)
        for step in outgoing.steps:
            if not self._take(step, is_chunked=outgoing.is_chunked):
                return
        if outgoing.is_chunked:
            self._write(b"0\r\n\r\n")

    def _send_head(self, outgoing: Outgoing) -> None:
        self.send_response(outgoing.status)
        for name, value in outgoing.headers.items():
            self.send_header(name, value)
        if outgoing.is_chunked:
            self.send_header("transfer-encoding", "chunked")
        elif "content-length" not in outgoing.headers:
            self.send_header("content-length", str(len(outgoing.payload)))
        self.end_headers()

    def _take(self, step: bytes | Pause | Cut, *, is_chunked: bool) -> bool:
        """One step; False when the connection is gone."""
        match step:
            case Pause(seconds):
                self.wfile.flush()
                self.wait(seconds)
            case Cut():
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                return False
            case bytes():
                framed = f"{len(step):x}\r\n".encode() + step + b"\r\n" if is_chunked else step
                self._write(framed if step else b"")
        return True

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self._read_exactly(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self._read_line().split(b";")[0], 16):
            body += self._read_exactly(size)
            self._read_line()
        self._read_line()
        return body

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionError("The client left before the end of its request.")
        return data

    def _read_line(self) -> bytes:
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("The client left before the end of its request.")
        return line
