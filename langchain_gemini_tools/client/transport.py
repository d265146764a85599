"""The HTTP clients that the SDK sends through.

google-genai accepts our HTTP clients (`HttpOptions.httpx_client`, `httpx_async_client`). Their
`send` hands every request to a plain client of the pool, in one of two ways:

* While a `PendingRequest` is entered, our body replaces the SDK's, the response is kept for us, and
  the SDK gets an empty 200. URL, headers and credentials are the SDK's (the `Envelope`); the bodies
  are exactly what we wrote and what the server wrote.
* All other requests come from `model.client` (files, caches, batches, …) and pass through: the SDK
  gets the server's response. Secrets in error responses are redacted. Redirects are followed for
  GET only, and only on the same server, so that the API key goes nowhere else.
"""

from __future__ import annotations

import functools
import math
import re
import ssl
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import parse_qsl

from langchain_gemini_tools.client.network import TimeLimit
from langchain_gemini_tools.client.pool import LIBRARIES, HttpPool
from langchain_gemini_tools.client.responses import (
    StreamTimer,
    aread_body,
    check_encoding,
    read_body,
    redact_response,
    shorter,
    stream_timeout_error,
)
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiConnectionError,
    GeminiTimeoutError,
    GeminiToolsError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import private_values, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextvars import Token
    from types import ModuleType

    import httpx  # its types also stand for those of httpx2

    AnyClient = httpx.Client | httpx.AsyncClient
    JsonObject = dict[str, Any]

CONNECT_SECONDS = 20.0
"""The limit for connecting, if the timeout of the request is longer."""

# "Manually set deadline 5s is too short. Minimum allowed deadline is 10s."
_MIN_SERVER_TIMEOUT = 10
_MAX_REDIRECTS = 5
_PHASES = ("connect", "read", "write", "pool")


@dataclass(frozen=True)
class Envelope:
    """A request without its body: the URL, and the headers with the credentials."""

    url: httpx.URL
    headers: httpx.Headers = field(repr=False)
    """As the SDK wrote them, without those that describe its body and connection."""
    method: str = "POST"

    @classmethod
    def of(cls, request: httpx.Request) -> Envelope:
        """Return the envelope of a request that the SDK has built."""
        headers = request.headers.copy()
        for name in ("content-length", "transfer-encoding", "host"):
            headers.pop(name, None)
        return cls(request.url, headers, request.method)

    @property
    def is_reusable(self) -> bool:
        """Whether the SDK would write the same again: a key does not change, a token expires."""
        return "x-goog-api-key" in self.headers and "authorization" not in self.headers


class PendingRequest:
    """Our body, timeouts and headers for one request, which the SDK sends while it is entered.

    Without a body, the request has none, as GET and DELETE.
    """

    def __init__(  # noqa: PLR0913 - keyword-only settings
        self,
        body: bytes | None,
        timeout_seconds: float | None,
        *,
        timer: StreamTimer | None = None,
        headers: Mapping[str, str] | None = None,
        path: str | None = None,
        method: str | None = None,
    ) -> None:
        self.body = body
        self._path = path
        self._method = method
        self.headers = headers or {}
        self.timeout_seconds = timeout_seconds
        self.timer = timer
        """Of a stream; the deadline is that of a whole response."""
        self.deadline = (
            time.monotonic() + timeout_seconds
            if timeout_seconds is not None and not timer
            else None
        )
        self._response: httpx.Response | None = None
        self.envelope: Envelope | None = None

    def __enter__(self) -> Self:
        self._token: Token[PendingRequest | None] = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)

    @property
    def response(self) -> httpx.Response:
        """The response of the server.

        Raises:
            GeminiToolsError: The SDK did not use our HTTP client.
        """
        if self._response is None:
            raise GeminiToolsError(
                f"google-genai {_sdk_version()} did not send the request through the HTTP client "
                "that it was given. This version of the SDK does not work with this package. "
                "Please report it, and use an older google-genai until it is fixed."
            )
        return self._response

    def read(self) -> bytes:
        """Read the whole body of the response, and close it."""
        return read_body(self.response, self.deadline)

    async def aread(self) -> bytes:
        """Read as `read` does, on the running event loop, within the caller's `asyncio.timeout`."""
        return await aread_body(self.response)

    def send(self, client: httpx.Client, envelope: Envelope) -> None:
        """Send our body in this envelope, and keep the response."""
        self._response = client.send(self._render(client, envelope), stream=True)

    async def asend(self, client: httpx.AsyncClient, envelope: Envelope) -> None:
        """Send as `send` does, on the running event loop."""
        self._response = await client.send(self._render(client, envelope), stream=True)

    def _render(self, client: AnyClient, envelope: Envelope) -> httpx.Request:
        """Return the request with our body and our timeouts, built by the client that sends it."""
        if self.envelope is not None:
            raise GeminiToolsError("google-genai tried to send the same request twice.")
        self.envelope = envelope
        headers = envelope.headers.copy()
        headers.update(self.headers)
        if self.deadline is not None and (self.timeout_seconds or 0) >= _MIN_SERVER_TIMEOUT:
            # Otherwise the server applies its default timeout, which may be shorter.
            headers.setdefault("x-server-timeout", str(math.ceil(self.timeout_seconds or 0)))
        url = _beside_models(envelope.url, self._path) if self._path else envelope.url
        return client.build_request(
            self._method or envelope.method,
            url,
            headers=headers,
            content=self.body,
            extensions=self._extensions(),
        )

    def _extensions(self) -> JsonObject:
        if self.timer:
            longest, left = self.timer.shorter_seconds, self.timer.left
        else:
            longest, left = self.timeout_seconds, self._left
        if longest is None:
            return {}
        phases = _PHASES if self.timeout_seconds is not None else ("read",)
        return {"timeout": _TimeLeft(phases, longest, left)}

    def _left(self) -> float:
        left = (math.inf if self.deadline is None else self.deadline) - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


_MODEL_METHOD = re.compile(r"(/publishers/[^/]+)?/[a-zA-Z]+/[^/]+:[a-zA-Z]+$")


def _beside_models(url: httpx.URL, path: str) -> httpx.URL:
    """Return the URL of another collection of the API, with the version and project of a model's.

    Raises:
        GeminiToolsError: The URL is not that of a method of a model.
    """
    start, count = _MODEL_METHOD.subn("", url.path)
    if not count:
        raise GeminiToolsError(f"google-genai sends requests to {url.path!r}, not to a model.")
    place, _, query = path.partition("?")
    return url.copy_with(path=f"{start}/{place}").copy_merge_params(dict(parse_qsl(query)))


_current: ContextVar[PendingRequest | None] = ContextVar("gemini_request", default=None)


class _TimeLeft(dict[str, float]):
    """Timeouts that shrink: the library gets one at the beginning of each phase."""

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


class _PassingTimer:
    """The time limit of a request that passes through.

    It applies to the whole request. Of a stream or a download, which may take any time, it applies
    to the head and then to each read.
    """

    def __init__(self, library: ModuleType, seconds: float | None, request: httpx.Request) -> None:
        self._library = library
        self._seconds = math.inf if seconds is None else seconds
        self._end = time.monotonic() + self._seconds
        self._is_download = request.url.params.get("alt") == "media"

    def extensions(self) -> JsonObject:
        """Return the extensions of a request that limit its time."""
        if self._seconds == math.inf:
            return {}
        return {"timeout": _TimeLeft(_PHASES, self._seconds, self._left)}

    def response_started(self, *, is_stream: bool) -> None:
        """Let a stream or a download take its time from now on."""
        if is_stream or self._is_download:
            self._end = math.inf

    def _left(self) -> float:
        left = min(self._end - time.monotonic(), self._seconds)
        if left <= 0:
            raise self._library.ReadTimeout(f"The API did not respond within {self._seconds:g} s.")
        return left


def make_sdk_clients(
    pool: HttpPool, timeout_seconds: float | None
) -> tuple[httpx.Client, httpx.AsyncClient]:
    """Return the sync and the async HTTP client for the SDK.

    Args:
        pool: The clients that do the sending.
        timeout_seconds: For requests that pass through and set no timeout.
    """
    sync_class, async_class = _sdk_client_classes(pool.library)
    return sync_class(pool, timeout_seconds), async_class(pool, timeout_seconds)


@functools.cache
def _sdk_client_classes(library: ModuleType) -> tuple[type[Any], type[Any]]:
    def empty_response(request: httpx.Request) -> httpx.Response:
        response: httpx.Response = library.Response(200, request=request, content=b"")
        return response

    class SdkHttpClient(library.Client):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool, timeout_seconds: float | None) -> None:
            # The transport is never used; without one, the library would load certificates.
            super().__init__(transport=library.MockTransport(_reject), timeout=None)
            self._pool = pool
            self._timeout_seconds = timeout_seconds

        def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
            client = self._pool.sync_client()
            if pending := _current.get():
                pending.send(client, Envelope.of(request))
                return empty_response(request)
            request.read()
            timer = _PassingTimer(library, self._timeout_seconds, request)
            outgoing = _rebuild(client, request, timer)
            try:
                return _pass_through(client, outgoing, timer, is_stream=stream)
            except library.RequestError as error:
                failure = _redact_transport_error(error, outgoing)
            raise failure  # outside the `except`: its context would be the original

    class SdkAsyncHttpClient(library.AsyncClient):  # type: ignore[misc,name-defined]
        def __init__(self, pool: HttpPool, timeout_seconds: float | None) -> None:
            super().__init__(transport=library.MockTransport(_reject), timeout=None)
            self._pool = pool
            self._timeout_seconds = timeout_seconds

        async def send(
            self, request: httpx.Request, *, stream: bool = False, **_: Any
        ) -> httpx.Response:
            client = await self._pool.async_client()
            if pending := _current.get():
                await pending.asend(client, Envelope.of(request))
                return empty_response(request)
            await request.aread()
            timer = _PassingTimer(library, self._timeout_seconds, request)
            outgoing = _rebuild(client, request, timer)
            try:
                return await _apass_through(client, outgoing, timer, is_stream=stream)
            except library.RequestError as error:
                failure = _redact_transport_error(error, outgoing)
            raise failure

    return SdkHttpClient, SdkAsyncHttpClient


def _rebuild(client: AnyClient, request: httpx.Request, timer: _PassingTimer) -> httpx.Request:
    """Return the SDK's request, built by the client that sends it."""
    envelope, extensions = Envelope.of(request), dict(request.extensions)
    if not any(extensions.get("timeout", {}).values()):  # the caller set none
        extensions |= timer.extensions()
    return client.build_request(
        request.method,
        envelope.url,
        headers=envelope.headers,
        content=request.content,
        extensions=extensions,
    )


def _pass_through(
    client: httpx.Client, request: httpx.Request, timer: _PassingTimer, *, is_stream: bool
) -> httpx.Response:
    response = client.send(request, stream=True)
    try:
        for _ in range(_MAX_REDIRECTS):
            if (redirected := _redirect_on_the_same_server(response)) is None:
                break
            response.close()
            response = client.send(redirected, stream=True)
        if response.status_code >= 300:
            return redact_response(response, read_body(response))
        check_encoding(response)
        timer.response_started(is_stream=is_stream)
        if not is_stream:
            response.read()
    except BaseException:
        response.close()
        raise
    return response


async def _apass_through(
    client: httpx.AsyncClient, request: httpx.Request, timer: _PassingTimer, *, is_stream: bool
) -> httpx.Response:
    response = await client.send(request, stream=True)
    try:
        for _ in range(_MAX_REDIRECTS):
            if (redirected := _redirect_on_the_same_server(response)) is None:
                break
            await response.aclose()
            response = await client.send(redirected, stream=True)
        if response.status_code >= 300:
            return redact_response(response, await aread_body(response))
        check_encoding(response)
        timer.response_started(is_stream=is_stream)
        if not is_stream:
            await response.aread()
    except BaseException:
        await response.aclose()
        raise
    return response


def _redirect_on_the_same_server(response: httpx.Response) -> httpx.Request | None:
    """Return the request that follows a redirect, if it is a GET that stays on the server."""
    here, there = response.request, response.next_request
    if there is None or here.method != "GET":
        return None
    parts = ("scheme", "host", "port")
    is_same = all(getattr(here.url, part) == getattr(there.url, part) for part in parts)
    return there if is_same else None


def _redact_transport_error(error: httpx.RequestError, request: httpx.Request) -> Exception:
    """Return the same error without secrets in its text and without the request's headers."""
    text = redact(str(error), private_values(request.headers))
    return type(error)(text, request=type(request)(request.method, request.url))


def _reject(request: httpx.Request) -> NoReturn:
    raise GeminiToolsError(f"This transport does not send requests ({request.url}).")


def map_transport_error(
    error: Exception, text: str, seconds: float | None, total_seconds: float | None = None
) -> GeminiToolsError | None:
    """Return our error for a failed connection; None for any other error.

    Args:
        error: The error of the HTTP library, of `google.auth` or of the operating system.
        text: Its text, redacted.
        seconds: The timeout of the request, or between two events of a stream.
        total_seconds: The timeout of the stream.
    """
    reason = text or type(error).__name__
    limit = shorter(seconds, total_seconds)
    if advice := _advice_on_lasting_failure(error):
        lasting = GeminiConnectionError(f"The connection to the API failed: {reason}. {advice}")
        lasting.is_retryable = False
        return lasting
    for library in filter(None, map(sys.modules.get, LIBRARIES)):
        if isinstance(error, library.ConnectTimeout) and (limit or 0) > CONNECT_SECONDS:
            return GeminiConnectionError(f"No connection to the API within {CONNECT_SECONDS:g} s.")
        if isinstance(error, library.TimeoutException):
            return _timeout_error(type(error).__name__, seconds, total_seconds)
        if isinstance(error, (library.UnsupportedProtocol, library.LocalProtocolError)):
            return InvalidOptionError(f"The request cannot be sent: {reason}")
        if isinstance(error, library.InvalidURL):
            return InvalidOptionError(f"base_url is not a valid URL: {reason}")
        if isinstance(error, library.HTTPError):
            return GeminiConnectionError(f"The connection to the API failed: {reason}")
    if isinstance(error, TimeoutError):
        return _timeout_error("deadline", seconds, total_seconds)
    if _is_of(error, "google.auth.exceptions", "TransportError"):
        return GeminiConnectionError(f"The Google credentials could not be refreshed: {reason}")
    if _is_of(error, "google.auth.exceptions", "GoogleAuthError"):
        return GeminiAuthenticationError(f"The Google credentials are not valid: {reason}")
    if isinstance(error, OSError):
        return GeminiConnectionError(f"The connection to the API failed: {reason}")
    return None


def is_refused_connection(error: Exception) -> bool:
    """Whether nothing listens at the address."""
    libraries = filter(None, map(sys.modules.get, LIBRARIES))
    return any(isinstance(error, library.ConnectError) for library in libraries)


_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
    ssl.SSLSyscallError,
    ssl.SSLWantReadError,
    ssl.SSLWantWriteError,
)
"""The connection was lost. All other errors of a TLS handshake occur again in the next one."""
_CONNECT_ERRORS = {"ConnectError", "ProxyError", "TransportError"}
"""Names in the HTTP libraries and in `google.auth`."""
_REFUSED_BY_PROXY = re.compile(r"4(?!08|29)\d\d\b")


def _advice_on_lasting_failure(error: BaseException) -> str | None:
    """Return what to do about a failure that every retry would meet; None for other errors."""
    if type(error).__name__ == "ProxyError" and _REFUSED_BY_PROXY.match(str(error)):
        return "The proxy refuses the connection: check its address, its credentials and its rules."
    link: BaseException | None = error if type(error).__name__ in _CONNECT_ERRORS else None
    while link is not None and not isinstance(link, ssl.SSLError):
        link = link.__cause__ or link.__context__
    if link is None or isinstance(link, _PASSING_TLS_ERRORS):
        return None
    if link.reason == "TLSV1_ALERT_INTERNAL_ERROR":
        return None
    if isinstance(link, ssl.SSLCertVerificationError):
        return (
            "If the server is the right one, trust its certificate: set SSL_CERT_FILE, or pass "
            "client_args={'verify': ssl.create_default_context(cafile=...)}."
        )
    return "The server does not speak TLS, or not a version in common: check base_url."


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Whether the error is an instance of a class whose module may not be loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, getattr(loaded, name))


def _timeout_error(
    phase: str, seconds: float | None, total_seconds: float | None
) -> GeminiTimeoutError:
    if total_seconds is not None and total_seconds < (math.inf if seconds is None else seconds):
        return stream_timeout_error(total_seconds)
    limit = "in time" if seconds is None else f"within {seconds:g} s"
    return GeminiTimeoutError(f"The API did not respond {limit} ({phase}).")


def _sdk_version() -> str:
    from google import genai

    return str(genai.__version__)
