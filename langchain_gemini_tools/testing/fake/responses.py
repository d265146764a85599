"""HTTP responses of the emulator: what they consist of, the errors of the API, and their server.

An `Outgoing` is sent as steps: bytes, pauses, a closed connection. Faults rewrite these steps. A
`Refusal` is raised where the API rejects a request, and has the JSON that the API would send.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for a while."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection is closed before the response is complete."""


Step = bytes | Pause | Cut


@dataclass(frozen=True)
class Outgoing:
    """What one request gets back."""

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    """The body. Of a stream, one step is one event."""
    before: tuple[Step, ...] = ()
    """What happens before the status line."""
    is_stream: bool = False

    @property
    def payload(self) -> bytes:
        """The whole body."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))

    def with_steps(self, *steps: Step) -> Outgoing:
        return replace(self, steps=steps)

    def with_headers(self, **headers: str) -> Outgoing:
        """More headers; `content_type` means `content-type`."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **spelled})


def whole(
    status: int, body: Any, content_type: str = "application/json; charset=UTF-8"
) -> Outgoing:
    """Return one body. Text and bytes are sent as they are, everything else as JSON."""
    payload = body.encode() if isinstance(body, str) else body
    if not isinstance(payload, bytes):
        payload = json.dumps(body, ensure_ascii=False).encode()
    return Outgoing(status, {"content-type": content_type}, (payload,))


def event_stream(events: list[Any]) -> Outgoing:
    """Server-sent events as Gemini writes them: `data: {json}`, CRLF CRLF, and no `[DONE]`."""
    steps = tuple(event_bytes(event) for event in events)
    return Outgoing(200, {"content-type": "text/event-stream"}, steps, is_stream=True)


def as_array(outgoing: Outgoing) -> Outgoing:
    """A stream as the API sends it without `alt=sse`: one JSON array (recorded by llm-gemini)."""
    if not outgoing.is_stream:
        return outgoing
    steps: list[Step] = []
    opening = b"["
    for step in outgoing.steps:
        if isinstance(step, bytes):
            steps.append(opening + step.removeprefix(b"data: ").rstrip())
            opening = b"\n,\r\n"
        else:
            steps.append(step)
    headers = {**outgoing.headers, "content-type": "application/json; charset=UTF-8"}
    return replace(outgoing, headers=headers, steps=(*steps, b"\n]"))


def event_bytes(event: Any) -> bytes:
    """Return one event; text and bytes are sent as they are."""
    if isinstance(event, bytes | str):
        return event.encode() if isinstance(event, str) else event
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n"


JsonObject = dict[str, Any]

Evidence = Literal["recorded", "documented", "reported", "inferred"]
"""How we know a rule, best first.

recorded: recorded traffic has such a refusal. documented: Google's documents state the rule.
reported: users of the API quote the message. inferred: it follows from the other three.
"""

BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Refusal(Exception):  # noqa: N818 - a response of the API
    """A request that the API would not have answered.

    Args:
        message: The message of the API.
        code: The HTTP status, also in the body.
        why: What is wrong, if the message does not say it. It is not in the body.
        details: The `details` of the body.
        evidence: How the rule is known. The message was at least reported.
    """

    def __init__(
        self,
        message: str,
        code: int = 400,
        *,
        why: str = "",
        status: str | None = None,
        details: list[JsonObject] | None = None,
        evidence: Evidence = "reported",
    ) -> None:
        super().__init__(why or message)
        self.message = message
        self.code = code
        self.why = why
        self.status = status or _STATUSES.get(code, "UNKNOWN")
        self.details = details
        self.evidence = evidence

    @property
    def body(self) -> JsonObject:
        """The whole error JSON."""
        return error_body(self.code, self.message, status=self.status, details=self.details)


def error_body(
    code: int, message: str, *, status: str | None = None, details: list[JsonObject] | None = None
) -> JsonObject:
    """Return the JSON around an error; `status` follows from the code unless given."""
    error: JsonObject = {"code": code, "message": message}
    error["status"] = status or _STATUSES.get(code, "UNKNOWN")
    return {"error": error | {"details": details} if details else error}


def invalid_request(*problems: tuple[str, str]) -> Refusal:
    """Violations in the form of the API's validator: the place, and the problem."""
    return Refusal(
        "".join(f"* GenerateContentRequest.{field}: {problem}\n" for field, problem in problems)
    )


def refuse_all(problems: Iterable[tuple[str, str]]) -> None:
    """Raise all problems together, if there are any."""
    if found := list(problems):
        raise invalid_request(*found)


def invalid(why: str, *, evidence: Evidence = "inferred") -> Refusal:
    """Return a violation for which the message of the API is not known, or says nothing."""
    return Refusal("Request contains an invalid argument.", why=why, evidence=evidence)


def documented(why: str) -> Refusal:
    """Return the same for a rule that Google's documents state."""
    return invalid(why, evidence="documented")


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Refuse a request that does not have the form that the block expects."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise invalid(f"The request does not have the expected form: {error!r}") from error


def read_page(query: Mapping[str, str]) -> tuple[int, int]:
    """Where a page of a list begins, and its size."""
    with reading():
        return int(query.get("pageToken") or 0), int(query.get("pageSize") or 50)


Answerer = Callable[[str, str, Mapping[str, str], bytes], Outgoing]
"""Method, target, headers and body in; what goes out."""


class Server(ThreadingHTTPServer):
    """Serves on a port of 127.0.0.1 until stopped; then drops all connections. 0: a free port."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    timeout = 0  # `handle_request` is called when there is one

    def __init__(self, answer: Answerer, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = answer
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        self.connection_count = 0
        """How many connections were accepted so far."""
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._wake, self._woken = socket.socketpair()

    def start(self) -> None:
        self._thread.start()

    def _accept(self) -> None:
        """Accept connections until closing, without polling: each test would wait for the poll."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while selector.select() and not self.closing.is_set():
                self.handle_request()

    def stop(self) -> None:
        """Stop listening, end the pauses, and close the connections."""
        self.closing.set()
        self._wake.close()
        self._thread.join()
        self._woken.close()
        self.server_close()
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up; anything else is a bug of the emulator."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # each step is sent when it is flushed
    wbufsize = -1  # headers and first step are sent together: one system call less
    server: Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections.add(self.connection)
            self.server.connection_count += 1

    def finish(self) -> None:
        with self.server.lock:
            self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def version_string(self) -> str:
        return "Gemini-Emulator"  # cassettes quote it, so that they are not mistaken for evidence

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: `Emulator.requests` is the log."""

    def do_POST(self) -> None:
        body = self._read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        outgoing = self.server.answer(self.command, self.path, headers, body)
        if not all(self._take(step, is_chunked=False) for step in outgoing.before):
            return
        self._send_head(outgoing)
        if not all(self._take(step, is_chunked=outgoing.is_stream) for step in outgoing.steps):
            return
        if outgoing.is_stream:
            self._write(b"0\r\n\r\n")

    do_GET = do_DELETE = do_PATCH = do_POST  # noqa: N815

    def _send_head(self, outgoing: Outgoing) -> None:
        self.send_response(outgoing.status)
        for name, value in outgoing.headers.items():
            self.send_header(name, value)
        if outgoing.is_stream:
            self.send_header("transfer-encoding", "chunked")
        elif "content-length" not in outgoing.headers:
            self.send_header("content-length", str(len(outgoing.payload)))
        self.end_headers()

    def _take(self, step: Step, *, is_chunked: bool) -> bool:
        """Take one step; return False if the connection is gone."""
        match step:
            case Pause(seconds):
                self.wfile.flush()
                if not _is_silent(self.connection, seconds):
                    self.server.closing.wait(seconds)  # it sent more, which is read later
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


def _is_silent(connection: socket.socket, seconds: float) -> bool:
    """Wait until the time is over or a client hangs up, also when `stop` cuts it off."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        if not selector.select(seconds):
            return True
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
