"""The HTTP clients under the SDK: they put a finished body on the wire and keep the real response.

google-genai takes HTTP clients of ours (`HttpOptions.httpx_client`, `httpx_async_client`). Those
two only stand in: their `send` swaps the SDK's body for ours, hands the request to a plain client,
keeps what comes back, and gives the SDK an empty 200. So URL, headers and credentials are the
SDK's, and both bodies are exactly what we wrote and what the server wrote.

The library is httpx2 or httpx, whichever the SDK's installation brought; nothing here imports it
before the first call.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import math
import os
import ssl
import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiConnectionError,
    GeminiTimeoutError,
    GeminiToolsError,
    InvalidOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextvars import Token
    from types import ModuleType

    JsonObject = dict[str, Any]

_LIBRARIES = ("httpx2", "httpx")

# Not shared with the async client: httpx keeps sync and async kinds of these apart.
_SYNC_ONLY = {"transport", "mounts", "event_hooks"}

# "Manually set deadline 5s is too short. Minimum allowed deadline is 10s."
_SHORTEST_SERVER_DEADLINE = 10


class Call:
    """One request on its way through the SDK; `with` it, the SDK's HTTP client knows the body."""

    def __init__(
        self, body: bytes, timeout_seconds: float | None, *, ends_at_deadline: bool = True
    ) -> None:
        self.body = body
        self.timeout_seconds = timeout_seconds
        self.deadline = (
            time.monotonic() + timeout_seconds
            if timeout_seconds is not None and ends_at_deadline
            else None
        )
        self.response: Any = None
        self._was_sent = False

    def __enter__(self) -> Self:
        self._token: Token[Call | None] = _current_call.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current_call.reset(self._token)

    @property
    def kept_response(self) -> Any:
        """What the server answered.

        Raises:
            GeminiToolsError: The SDK returned without using the client it was given.
        """
        if self.response is None:
            raise GeminiToolsError(
                f"google-genai {_sdk_version()} did not send the request through the HTTP client "
                "it was given. This version of the SDK does not work with this package; please "
                "report it, and use an older google-genai until then."
            )
        return self.response

    def read(self) -> bytes:
        """The whole body of the response, which is closed then."""
        response, chunks = self.kept_response, []
        try:
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                # A server that drips bytes keeps each single read alive.
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise TimeoutError
        finally:
            response.close()
        return b"".join(chunks)

    async def aread(self) -> bytes:
        """`read` for the running event loop, under the `asyncio.timeout` of the caller."""
        response = self.kept_response
        try:
            body: bytes = await response.aread()
        finally:
            await response.aclose()
        return body

    def render(self, client: Any, request: Any) -> Any:
        """The SDK's request with our body and our timeout, built by the client that sends it."""
        if self._was_sent:
            raise GeminiToolsError("google-genai tried to send one request twice.")
        self._was_sent = True
        headers = request.headers.copy()
        for name in ("content-length", "transfer-encoding", "host"):
            headers.pop(name, None)
        if self.deadline is not None and (self.timeout_seconds or 0) >= _SHORTEST_SERVER_DEADLINE:
            # Otherwise the server stops at a time of its own, however long we would wait.
            headers.setdefault("x-server-timeout", str(math.ceil(self.timeout_seconds or 0)))
        return client.build_request(
            request.method,
            request.url,
            headers=headers,
            content=self.body,
            extensions=self._extensions(),
        )

    def _extensions(self) -> JsonObject:
        if self.timeout_seconds is None:
            return {}
        if self.deadline is not None:
            return {"timeout": _TimeLeft(self.timeout_seconds, self.deadline)}
        return {"timeout": dict.fromkeys(_PHASES, self.timeout_seconds)}


_current_call: ContextVar[Call | None] = ContextVar("gemini_call", default=None)

_PHASES = ("connect", "read", "write", "pool")


class _TimeLeft(dict[str, float]):
    """Timeouts that shrink. The library asks for one at the beginning of each phase."""

    def __init__(self, timeout_seconds: float, deadline: float) -> None:
        super().__init__(dict.fromkeys(_PHASES, timeout_seconds))
        self._deadline = deadline

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        return max(self._deadline - time.monotonic(), 0.001)  # 0 would mean "do not block"


def _call_in_progress() -> Call:
    call = _current_call.get()
    if call is None:
        raise GeminiToolsError("This HTTP client belongs to ChatGemini and sends nothing else.")
    return call


class HttpPool:
    """The plain clients that send: one for threads, one for each event loop."""

    def __init__(
        self, client_args: Mapping[str, Any], async_client_args: Mapping[str, Any]
    ) -> None:
        self.library = _choose_library([*client_args.values(), *async_client_args.values()])
        shared = {key: value for key, value in client_args.items() if key not in _SYNC_ONLY}
        with _refusing_bad_args():
            self._sync_args = _complete_args(self.library, client_args)
            self._async_args = _complete_args(self.library, {**shared, **async_client_args})
        self._lock = threading.Lock()
        self._sync: Any = None
        self._of_loop: dict[asyncio.AbstractEventLoop, Any] = {}

    def sync_client(self) -> Any:
        """The client of all threads."""
        with self._lock:
            if self._sync is None:
                with _refusing_bad_args():
                    self._sync = self.library.Client(**self._sync_args)
            return self._sync

    def async_client(self) -> Any:
        """The client of the running loop. Its sockets belong to that loop and die with it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._of_loop:
                self._drop_closed_loops()
                with _refusing_bad_args():
                    self._of_loop[loop] = self.library.AsyncClient(**self._async_args)
            return self._of_loop[loop]

    def _drop_closed_loops(self) -> None:
        # Explicitly: a weak dictionary would keep them, because the client refers to its loop.
        for loop in [loop for loop in self._of_loop if loop.is_closed()]:
            del self._of_loop[loop]

    def close(self) -> None:
        """Close the client of the threads, and forget those of loops that are gone."""
        with self._lock:
            client, self._sync = self._sync, None
            self._drop_closed_loops()
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the clients of all loops that still run, each in its own loop."""
        with self._lock:
            clients, self._of_loop = self._of_loop, {}
        here = asyncio.get_running_loop()
        for loop, client in clients.items():
            if loop is here:
                await client.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    @property
    def tls_context(self) -> ssl.SSLContext:
        """The certificates, loaded once."""
        context: ssl.SSLContext = self._async_args["verify"]
        return context

    def stand_ins(self) -> tuple[Any, Any]:
        """The sync and the async client to hand to the SDK."""
        sync_class, async_class = _stand_in_classes(self.library)
        return sync_class(self), async_class(self)


@functools.cache
def _stand_in_classes(library: ModuleType) -> tuple[type[Any], type[Any]]:
    class StandInClient(library.Client):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool) -> None:
            # A transport of its own, never used, spares a TLS context.
            super().__init__(transport=library.MockTransport(_refuse), timeout=None)
            self._pool = pool

        def send(self, request: Any, **_: Any) -> Any:
            call = _call_in_progress()
            client = self._pool.sync_client()
            call.response = client.send(call.render(client, request), stream=True)
            return library.Response(200, request=request, content=b"")

    class StandInAsyncClient(library.AsyncClient):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool) -> None:
            super().__init__(transport=library.MockTransport(_refuse), timeout=None)
            self._pool = pool

        async def send(self, request: Any, **_: Any) -> Any:
            call = _call_in_progress()
            client = self._pool.async_client()
            call.response = await client.send(call.render(client, request), stream=True)
            return library.Response(200, request=request, content=b"")

    return StandInClient, StandInAsyncClient


def _refuse(request: Any) -> Any:
    raise GeminiToolsError(f"Nothing is sent to {request.url} this way.")


def _choose_library(values: list[Any]) -> ModuleType:
    """The library the given transports or hooks belong to, else the one the SDK would take."""
    packages = {
        base.__module__.partition(".")[0] for value in values for base in type(value).__mro__
    }
    given = [name for name in _LIBRARIES if name in packages]
    wanted = os.environ.get("GOOGLE_GENAI_HTTP_CLIENT", "").strip().lower()
    for name in given or [name for name in _LIBRARIES if name == wanted] or _LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise InvalidOptionError("google-genai needs httpx2 or httpx; neither is installed.")


@contextmanager
def _refusing_bad_args() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, OSError) as error:
        raise InvalidOptionError(f"client_args do not make an HTTP client: {error}") from error


def _complete_args(library: ModuleType, given: Mapping[str, Any]) -> JsonObject:
    args = {
        "timeout": None,  # each request brings its own
        "limits": library.Limits(max_connections=None, max_keepalive_connections=100),
        **given,
        "verify": _tls_context(library, given),
        "follow_redirects": False,  # a followed redirect takes the key to another host
    }
    args.pop("cert", None)  # part of the TLS context
    return args


def _tls_context(library: ModuleType, args: Mapping[str, Any]) -> ssl.SSLContext:
    verify, cert = args.get("verify", True), args.get("cert")
    if isinstance(verify, ssl.SSLContext):
        return verify
    if verify is True and cert is None and args.get("trust_env", True):
        return _default_tls_context(
            library, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        )
    context: ssl.SSLContext = library.create_ssl_context(
        verify=verify, cert=cert, trust_env=args.get("trust_env", True)
    )
    return context


@functools.cache
def _default_tls_context(library: ModuleType, *_environment: str | None) -> ssl.SSLContext:
    """One for all clients: loading the certificates takes 25 to 35 ms."""
    context: ssl.SSLContext = library.create_ssl_context()
    return context


def map_transport_error(
    error: Exception, text: str, timeout_seconds: float | None
) -> GeminiToolsError | None:
    """Our error, with this text, for a failure on the way to the API; None for anything else."""
    reason = text or type(error).__name__
    for library in filter(None, map(sys.modules.get, _LIBRARIES)):
        if isinstance(error, library.TimeoutException):
            return _timed_out(type(error).__name__, timeout_seconds)
        if isinstance(error, (library.UnsupportedProtocol, library.LocalProtocolError)):
            return InvalidOptionError(f"The request cannot be sent: {reason}")
        if isinstance(error, library.InvalidURL):
            return InvalidOptionError(f"The address of the API is not a URL: {reason}")
        if isinstance(error, library.HTTPError):
            return GeminiConnectionError(f"The connection to the API failed: {reason}")
    if isinstance(error, TimeoutError):
        return _timed_out("deadline", timeout_seconds)
    if _is_of(error, "google.auth.exceptions", "TransportError"):
        return GeminiConnectionError(f"Google's credentials could not be refreshed: {reason}")
    if _is_of(error, "google.auth.exceptions", "GoogleAuthError"):
        return GeminiAuthenticationError(f"Google's credentials do not work: {reason}")
    # aiohttp: a client of the user's own may be using it.
    if isinstance(error, OSError) or _is_of(error, "aiohttp", "ClientError"):
        return GeminiConnectionError(f"The connection to the API failed: {reason}")
    return None


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Whether the error is of a class that may not have been loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, getattr(loaded, name))


def _timed_out(phase: str, timeout_seconds: float | None) -> GeminiTimeoutError:
    limit = "in time" if timeout_seconds is None else f"within {timeout_seconds:g} s"
    return GeminiTimeoutError(f"No answer from the API {limit} ({phase}).")


def _sdk_version() -> str:
    from google import genai

    return str(genai.__version__)
