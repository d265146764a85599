"""The HTTP clients that the SDK sends through: what a call of the model needs, and the rest.

google-genai accepts our HTTP clients (`HttpOptions.httpx_client`, `httpx_async_client`). Their
`send` hands every request to a plain client of the pool, in one of two ways:

* During a `Call` it replaces the SDK's body by ours, keeps the response, and returns an empty 200
  to the SDK. URL, headers and credentials are the SDK's (the `Envelope`); both bodies are exactly
  what we wrote and what the server wrote.
* Any other request comes from `model.client` (files, caches, batches, …) and passes through. The
  SDK gets the real response; an error response reaches it with secrets redacted. Redirects are
  followed for GET, and only while they stay on the same server.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.client.limits import stream_timed_out
from langchain_gemini_tools.client.pool import LIBRARIES, HttpPool
from langchain_gemini_tools.client.replies import aread_body, read_body, redacted_response
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiConnectionError,
    GeminiTimeoutError,
    GeminiToolsError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import redact, secret_values

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    JsonObject = dict[str, Any]

# "Manually set deadline 5s is too short. Minimum allowed deadline is 10s."
_SHORTEST_SERVER_DEADLINE = 10

CONNECT_SECONDS = 20.0
"""For reaching the server, where the whole call has longer: nobody is there after that."""

_MAX_REDIRECTS = 5


@dataclass(frozen=True)
class Envelope:
    """Everything of a request but its body: where it goes, and who sends it."""

    url: Any
    headers: Any = field(repr=False)
    """As the SDK wrote them, without those that belong to its own body and connection."""

    @classmethod
    def of(cls, request: Any) -> Envelope:
        """The envelope of a request that the SDK has built."""
        headers = request.headers.copy()
        for name in ("content-length", "transfer-encoding", "host"):
            headers.pop(name, None)
        return cls(request.url, headers)

    @property
    def is_lasting(self) -> bool:
        """Whether the SDK would write the same again: a key stays, a token runs out."""
        return "x-goog-api-key" in self.headers and "authorization" not in self.headers


class Call:
    """One request on its way through the SDK; `with` it, the SDK's HTTP client knows the body."""

    def __init__(
        self,
        body: bytes,
        timeout_seconds: float | None,
        *,
        is_stream: bool = False,
        total_seconds: float | None = None,
    ) -> None:
        self.body = body
        self.timeout_seconds = timeout_seconds
        self.total_seconds = total_seconds
        self.deadline = (
            time.monotonic() + timeout_seconds
            if timeout_seconds is not None and not is_stream
            else None
        )
        self.response: Any = None
        self.envelope: Envelope | None = None

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
        return read_body(self.kept_response, self.deadline)

    async def aread(self) -> bytes:
        """`read` for the running event loop, under the `asyncio.timeout` of the caller."""
        return await aread_body(self.kept_response)

    def send(self, client: Any, envelope: Envelope) -> None:
        """Send our body in this envelope; what the server answers is kept."""
        self.response = client.send(self._render(client, envelope), stream=True)

    async def asend(self, client: Any, envelope: Envelope) -> None:
        """`send` for the running event loop."""
        self.response = await client.send(self._render(client, envelope), stream=True)

    def _render(self, client: Any, envelope: Envelope) -> Any:
        """The request with our body and our timeout, built by the client that sends it."""
        if self.envelope is not None:
            raise GeminiToolsError("google-genai tried to send one request twice.")
        self.envelope = envelope
        headers = envelope.headers.copy()
        if self.deadline is not None and (self.timeout_seconds or 0) >= _SHORTEST_SERVER_DEADLINE:
            # Otherwise the server stops at a time of its own, however long we would wait.
            headers.setdefault("x-server-timeout", str(math.ceil(self.timeout_seconds or 0)))
        return client.build_request(
            "POST", envelope.url, headers=headers, content=self.body, extensions=self._extensions()
        )

    def _extensions(self) -> JsonObject:
        longest = shorter(self.timeout_seconds, self.total_seconds)
        if longest is None:
            return {}
        if self.timeout_seconds is None:
            return {"timeout": {"read": longest}}
        if self.deadline is not None:
            return {"timeout": _TimeLeft(self.timeout_seconds, self.deadline)}
        return _phase_timeouts(longest)


def _phase_timeouts(seconds: float | None) -> JsonObject:
    """The extensions of a request that limit each of its phases."""
    if seconds is None:
        return {}
    phases = dict.fromkeys(_PHASES, seconds)
    return {"timeout": phases | {"connect": min(seconds, CONNECT_SECONDS)}}


def shorter(seconds: float | None, total_seconds: float | None) -> float | None:
    """The limit that is reached first."""
    return min((each for each in (seconds, total_seconds) if each is not None), default=None)


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
        left = max(self._deadline - time.monotonic(), 0.001)  # 0 would mean "do not block"
        return min(left, CONNECT_SECONDS) if key == "connect" else left


def stand_ins(pool: HttpPool, timeout_seconds: float | None) -> tuple[Any, Any]:
    """The sync and the async client to hand to the SDK.

    Args:
        pool: The clients that send.
        timeout_seconds: For requests that pass through without a timeout of their own.
    """
    sync_class, async_class = _stand_in_classes(pool.library)
    return sync_class(pool, timeout_seconds), async_class(pool, timeout_seconds)


@functools.cache
def _stand_in_classes(library: ModuleType) -> tuple[type[Any], type[Any]]:
    class StandInClient(library.Client):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool, timeout_seconds: float | None) -> None:
            # The transport is never used; without one, the library would load certificates.
            super().__init__(transport=library.MockTransport(_refuse), timeout=None)
            self._pool = pool
            self._timeout_seconds = timeout_seconds

        def send(self, request: Any, *, stream: bool = False, **_: Any) -> Any:
            client = self._pool.sync_client()
            if call := _current_call.get():
                call.send(client, Envelope.of(request))
                return library.Response(200, request=request, content=b"")
            request.read()
            outgoing = _rebuild(client, request, self._timeout_seconds)
            try:
                return _pass_through(client, outgoing, is_stream=stream)
            except library.RequestError as error:
                failure = _redact_transport_error(error, outgoing)
            raise failure  # outside the `except`: its context would be the original

    class StandInAsyncClient(library.AsyncClient):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool, timeout_seconds: float | None) -> None:
            super().__init__(transport=library.MockTransport(_refuse), timeout=None)
            self._pool = pool
            self._timeout_seconds = timeout_seconds

        async def send(self, request: Any, *, stream: bool = False, **_: Any) -> Any:
            client = await self._pool.async_client()
            if call := _current_call.get():
                await call.asend(client, Envelope.of(request))
                return library.Response(200, request=request, content=b"")
            await request.aread()
            outgoing = _rebuild(client, request, self._timeout_seconds)
            try:
                return await _apass_through(client, outgoing, is_stream=stream)
            except library.RequestError as error:
                failure = _redact_transport_error(error, outgoing)
            raise failure

    return StandInClient, StandInAsyncClient


def _rebuild(client: Any, request: Any, timeout_seconds: float | None) -> Any:
    """The SDK's request, built by the client that sends it."""
    envelope, extensions = Envelope.of(request), dict(request.extensions)
    if not any(extensions.get("timeout", {}).values()):  # its user gave the SDK no timeout
        extensions |= _phase_timeouts(timeout_seconds)
    return client.build_request(
        request.method,
        envelope.url,
        headers=envelope.headers,
        content=request.content,
        extensions=extensions,
    )


def _pass_through(client: Any, request: Any, *, is_stream: bool) -> Any:
    response = client.send(request, stream=True)
    try:
        for _ in range(_MAX_REDIRECTS):
            if not _stays_on_the_server(response):
                break
            response.close()
            response = client.send(response.next_request, stream=True)
        if response.status_code >= 300:
            return redacted_response(response, read_body(response))
        if not is_stream:
            response.read()
    except BaseException:
        response.close()
        raise
    return response


async def _apass_through(client: Any, request: Any, *, is_stream: bool) -> Any:
    response = await client.send(request, stream=True)
    try:
        for _ in range(_MAX_REDIRECTS):
            if not _stays_on_the_server(response):
                break
            await response.aclose()
            response = await client.send(response.next_request, stream=True)
        if response.status_code >= 300:
            return redacted_response(response, await aread_body(response))
        if not is_stream:
            await response.aread()
    except BaseException:
        await response.aclose()
        raise
    return response


def _stays_on_the_server(response: Any) -> bool:
    """Whether the response redirects a GET to where its credentials have been sent already."""
    here, there = response.request, response.next_request
    if there is None or here.method != "GET":
        return False
    parts = ("scheme", "host", "port")
    return all(getattr(here.url, part) == getattr(there.url, part) for part in parts)


def _redact_transport_error(error: Any, request: Any) -> Exception:
    """The same error without secrets in its text and without the headers that were sent."""
    text = redact(str(error), secret_values(request.headers))
    redacted: Exception = type(error)(text, request=type(request)(request.method, request.url))
    return redacted


def _refuse(request: Any) -> Any:
    raise GeminiToolsError(f"Nothing is sent to {request.url} this way.")


def map_transport_error(
    error: Exception, text: str, seconds: float | None, total_seconds: float | None = None
) -> GeminiToolsError | None:
    """Our error, with this text, for a failure on the way to the API; None for anything else."""
    reason = text or type(error).__name__
    limit = shorter(seconds, total_seconds)
    for library in filter(None, map(sys.modules.get, LIBRARIES)):
        if isinstance(error, library.ConnectTimeout) and (limit or 0) > CONNECT_SECONDS:
            return GeminiConnectionError(f"No connection to the API within {CONNECT_SECONDS:g} s.")
        if isinstance(error, library.TimeoutException):
            return _timed_out(type(error).__name__, seconds, total_seconds)
        if isinstance(error, (library.UnsupportedProtocol, library.LocalProtocolError)):
            return InvalidOptionError(f"The request cannot be sent: {reason}")
        if isinstance(error, library.InvalidURL):
            return InvalidOptionError(f"The address of the API is not a URL: {reason}")
        if isinstance(error, library.HTTPError):
            return GeminiConnectionError(f"The connection to the API failed: {reason}")
    if isinstance(error, TimeoutError):
        return _timed_out("deadline", seconds, total_seconds)
    if _is_of(error, "google.auth.exceptions", "TransportError"):
        return GeminiConnectionError(f"Google's credentials could not be refreshed: {reason}")
    if _is_of(error, "google.auth.exceptions", "GoogleAuthError"):
        return GeminiAuthenticationError(f"Google's credentials do not work: {reason}")
    if isinstance(error, OSError):
        return GeminiConnectionError(f"The connection to the API failed: {reason}")
    return None


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Whether the error is of a class that may not have been loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, getattr(loaded, name))


def _timed_out(
    phase: str, seconds: float | None, total_seconds: float | None
) -> GeminiTimeoutError:
    if total_seconds is not None and total_seconds < (math.inf if seconds is None else seconds):
        return stream_timed_out(total_seconds)
    limit = "in time" if seconds is None else f"within {seconds:g} s"
    return GeminiTimeoutError(f"No answer from the API {limit} ({phase}).")


def _sdk_version() -> str:
    from google import genai

    return str(genai.__version__)
