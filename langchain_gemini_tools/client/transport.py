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
import re
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import parse_qsl

from langchain_gemini_tools.client.failures import redact_response, redact_transport_error
from langchain_gemini_tools.client.network import Limit
from langchain_gemini_tools.client.responses import aread_body, check_encoding, read_body
from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.facts.credentials import KEY_HEADER, TOKEN_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import ModuleType

    import httpx  # its types also stand for those of httpx2

    from langchain_gemini_tools.client.pool import HttpPool

    AnyClient = httpx.Client | httpx.AsyncClient

_MAX_REDIRECTS = 5


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
        return KEY_HEADER in self.headers and TOKEN_HEADER not in self.headers


class PendingRequest:
    """Our body, headers and time limit for one request, which the SDK sends while it is entered.

    Without a body, the request has none, as GET and DELETE.
    """

    def __init__(
        self,
        body: bytes | None,
        limit: Limit,
        *,
        headers: Mapping[str, str] | None = None,
        path: str | None = None,
        method: str | None = None,
    ) -> None:
        self._body = body
        self._limit = limit
        self._headers = headers or {}
        self._path = path
        self._method = method
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

    def send(self, client: httpx.Client, envelope: Envelope) -> httpx.Response:
        """Send our body in this envelope, and keep the response."""
        try:
            self._response = client.send(self._render(client, envelope), stream=True)
        except RuntimeError:
            _check_open(client)
            raise
        return self._response

    async def asend(self, client: httpx.AsyncClient, envelope: Envelope) -> httpx.Response:
        """Send as `send` does, on the running event loop."""
        try:
            self._response = await client.send(self._render(client, envelope), stream=True)
        except RuntimeError:
            _check_open(client)
            raise
        return self._response

    def _render(self, client: AnyClient, envelope: Envelope) -> httpx.Request:
        """Return the request with our body and our timeouts, built by the client that sends it."""
        if self.envelope is not None:
            raise GeminiToolsError("google-genai tried to send the same request twice.")
        self.envelope = envelope
        headers = envelope.headers.copy()
        if self._headers:
            headers.update(self._headers)
        if seconds := self._limit.server_seconds:
            headers.setdefault("x-server-timeout", str(seconds))
        url = _beside_models(envelope.url, self._path) if self._path else envelope.url
        return client.build_request(
            self._method or envelope.method,
            url,
            headers=headers,
            content=self._body,
            extensions=self._limit.extensions(),
        )


def _check_open(client: AnyClient) -> None:
    """Raise a lost connection, which is retried, if another thread has closed the client."""
    if client.is_closed:
        raise ConnectionAbortedError("The connections were closed before sending.") from None


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


class _PassingTimer(Limit):
    """The time limit of a request that passes through.

    It applies to the whole request. Of a stream or a download, which may take any time, it applies
    to the head and then to each read.
    """

    def __init__(self, library: ModuleType, seconds: float | None, request: httpx.Request) -> None:
        self._library = library
        self.seconds = seconds
        self._started = time.monotonic()
        self._is_download = request.url.params.get("alt") == "media"
        self._is_of_each_read = False

    def response_started(self, *, is_stream: bool) -> None:
        """Let a stream or a download take its time from now on."""
        self._is_of_each_read = is_stream or self._is_download

    def left(self) -> float:
        """Return the seconds until the end, or for the next read."""
        seconds = self.seconds or 0.0
        left = seconds if self._is_of_each_read else self._started + seconds - time.monotonic()
        if left <= 0:
            raise self._library.ReadTimeout(f"The API did not respond within {seconds:g} s.")
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
                failure = redact_transport_error(error, outgoing)
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
                failure = redact_transport_error(error, outgoing)
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


def _reject(request: httpx.Request) -> NoReturn:
    raise GeminiToolsError(f"This transport does not send requests ({request.url}).")


def _sdk_version() -> str:
    from google import genai

    return str(genai.__version__)
