"""The HTTP server under the emulator: threads, keep-alive, paths, responses sent step by step."""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_gemini_tools.testing.fake.responses import Cut, Outgoing, Pause

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Backend


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
        """Stop listening, end the pauses, and close the connections."""
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
    disable_nagle_algorithm = True  # each step is sent when it is flushed
    wbufsize = -1  # headers and first step are sent together: one system call less

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


Method = Literal[
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "get",
    "list",
    "createInteraction",
    "getInteraction",
    "cancelInteraction",
    "deleteInteraction",
]

# Clients keep a base URL with a path: `/proxy/v1/models/...`. A version in it is a second one.
_ROUTE = re.compile(
    r"""
    (?P<prefix>(?:/(?!v1\w*/v1)[^/]+)*?)
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    (?P<vertex>/projects/[^/]+/locations/[^/]+/publishers/google|/publishers/google)?
    /models(?:/(?P<model>[^/:]+))?
    (?::(?P<method>\w+))?
    """,
    re.VERBOSE,
)


_INTERACTIONS = re.compile(
    r"""
    (?:/(?!v1\w*/v1)[^/]+)*?
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    (?P<vertex>/projects/[^/]+/locations/[^/]+)?
    /interactions(?:/(?P<name>[^/]+))?(?P<cancel>/cancel)?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Route:
    """A path, read."""

    backend: Backend
    version: str
    model: str
    """The model's name; of an interaction, its id."""
    method: Method

    @property
    def is_interaction(self) -> bool:
        return self.method.endswith("Interaction")


def read_route(http_method: str, path: str) -> Route | None:
    """The route of a path without its query; None when the API has no such page."""
    if not (match := _ROUTE.fullmatch(path)):
        return _read_interaction(http_method, path)
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    name = match["model"] or ""
    if http_method == "GET" and not match["method"]:
        return Route(backend, match["version"], name, "get" if name else "list")
    known = ("generateContent", "streamGenerateContent", "countTokens")
    if http_method == "POST" and name and match["method"] in known:
        return Route(backend, match["version"], name, cast("Method", match["method"]))
    return None


def _read_interaction(http_method: str, path: str) -> Route | None:
    if not (match := _INTERACTIONS.fullmatch(path)):
        return None
    name = match["name"] or ""
    known: dict[tuple[str, bool, bool], Method] = {
        ("POST", False, False): "createInteraction",
        ("GET", True, False): "getInteraction",
        ("DELETE", True, False): "deleteInteraction",
        ("POST", True, True): "cancelInteraction",
    }
    method = known.get((http_method, bool(name), bool(match["cancel"])))
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    return Route(backend, match["version"], name, method) if method else None


_BATCH_ROUTE = re.compile(
    r"""
    (?P<prefix>(?:/(?!v1\w*/v1)[^/]+)*?)
    (?P<folder>/upload|/download)?
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    /(?:
        models/(?P<model>[^/:]+):(?P<create>batchGenerateContent)
        |(?P<name>(?P<kind>batches|files)(?:/[^/:]+)?)(?::(?P<verb>cancel|download))?
        |(?P<place>projects/[^/]+/locations/[^/]+)/batchPredictionJobs
         (?P<job>/[^/:]+)?(?::(?P<job_verb>cancel))?
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class BatchRoute:
    """A path of batch jobs or files, read. Files are those of the Developer API."""

    operation: str
    name: str
    model: str
    version: str
    backend: Backend = "gemini"


def read_batch_route(http_method: str, path: str) -> BatchRoute | None:
    """The route of a batch job or a file; None when it is neither."""
    if not (match := _BATCH_ROUTE.fullmatch(path)):
        return None
    if match["place"]:
        return _read_vertex_batch(http_method, match)
    name = match["name"] or ""
    operation = {
        ("POST", "models", None): "create",
        ("GET", "batches", None): "get" if "/" in name else "list",
        ("POST", "batches", "cancel"): "cancel",
        ("DELETE", "batches", None): "delete",
        ("POST", "files", None): "upload" if match["folder"] == "/upload" else None,
        ("GET", "files", "download"): "download",
        ("GET", "files", None): "get_file" if "/" in name else None,
        ("DELETE", "files", None): "delete_file",
    }.get((http_method, match["kind"] or "models", match["verb"]))
    return (
        BatchRoute(operation, name, match["model"] or "", match["version"]) if operation else None
    )


def _read_vertex_batch(http_method: str, match: re.Match[str]) -> BatchRoute | None:
    operation = {
        ("POST", False, None): "create",
        ("GET", False, None): "list",
        ("GET", True, None): "get",
        ("POST", True, "cancel"): "cancel",
        ("DELETE", True, None): "delete",
    }.get((http_method, bool(match["job"]), match["job_verb"]))
    name = f"{match['place']}/batchPredictionJobs{match['job'] or ''}"
    return BatchRoute(operation, name, "", match["version"], "vertex") if operation else None


_CACHE_ROUTE = re.compile(
    r"""
    (?:/(?!v1\w*/v1)[^/]+)*?
    /(?:v1|v1alpha|v1beta|v1beta1)
    /(?P<place>(?P<vertex>projects/[^/]+/locations/[^/]+/)?cachedContents(?:/[^/:]+)?)
    """,
    re.VERBOSE,
)


def read_cache_route(path: str) -> tuple[str, Backend] | None:
    """The place of context caches, or of one, and its backend; None for another path."""
    if not (match := _CACHE_ROUTE.fullmatch(path)):
        return None
    return match["place"], "vertex" if match["vertex"] else "gemini"
