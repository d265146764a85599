"""The HTTP clients that do the sending, and the TLS context that they share.

The library is httpx2 or httpx, whichever is installed. It is imported by the first request.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import ssl
import types
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.client.network import guard
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.credentials import silence
from langchain_gemini_tools.facts.locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping
    from http.cookiejar import Cookie, CookieJar
    from types import ModuleType

    import httpx  # its types also stand for those of httpx2

    from langchain_gemini_tools.facts.json_values import JsonObject


LIBRARIES = ("httpx2", "httpx")

SYNC_ONLY = frozenset({"transport", "mounts", "event_hooks"})
"""Not shared with the async client: the library has separate sync and async kinds of these."""


_ENVIRONMENT = (
    "A variable of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE or "
    "SSL_CERT_DIR)"
)
"""What the library reads beside the arguments."""


class HttpPool:
    """The clients that do the sending: one for all threads, one for each event loop.

    Args:
        client_args: The user's arguments for the clients of the library.
        async_client_args: More arguments, for the async clients only.
        base_url: The address of the API, if it is set.
    """

    def __init__(
        self,
        client_args: Mapping[str, Any],
        async_client_args: Mapping[str, Any],
        base_url: str | None = None,
    ) -> None:
        self.library = _choose_library(client_args, async_client_args)
        # Otherwise the first request loads it, within its time limit and on the event loop.
        importlib.import_module(self.library.__name__.replace("httpx", "httpcore"))
        shared = {key: value for key, value in client_args.items() if key not in SYNC_ONLY}
        _reject_params(client_args, async_client_args)
        # They log every header of HTTP/2, and the password of a SOCKS proxy.
        silence("hpack.hpack", "hpack.table", "httpcore.socks", "httpcore2.socks")
        self._source = "client_args" if client_args or async_client_args else _ENVIRONMENT
        with self._rejecting_bad_args():
            self._sync_args = _complete_args(self.library, client_args, base_url)
            self._async_args = _complete_args(
                self.library, {**shared, **async_client_args}, base_url
            )
        self._lock = ForkSafeLock()
        self._forget_clients()

    @contextmanager
    def _rejecting_bad_args(self) -> Iterator[None]:
        try:
            yield
        except self.library.InvalidURL:
            # The error may quote a part of the password: with a "/" in it, as the port.
            raise InvalidOptionError(
                f"{self._source} is not valid: the address of the proxy is not a URL. Write "
                "characters such as '/' and '@' in its password as %2F and %40."
            ) from None
        except ImportError as error:  # of what HTTP/2 or a SOCKS proxy needs
            raise InvalidOptionError(f"{self._source} cannot be used: {error}") from error
        except (TypeError, ValueError, OSError) as error:
            raise InvalidOptionError(f"{self._source} is not valid: {error}") from error

    def _forget_clients(self) -> None:
        self._sync: httpx.Client | None = None
        self._of_loop: dict[
            asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None]]
        ] = {}
        self._pid = os.getpid()  # last: with this id, other threads use what they find

    def _enter_process(self) -> None:
        """Leave the connections of the parent process to it, if this one was forked from it."""
        if self._pid != os.getpid():
            self._forget_clients()

    def sync_client(self) -> httpx.Client:
        """Return the client of all threads."""
        # Without the lock. The process comes first: `_sync` may be a client of the parent process.
        if self._pid == os.getpid() and (client := self._sync) is not None:
            return client
        return self._open_sync_client()

    def _open_sync_client(self) -> httpx.Client:
        with self._lock:
            self._enter_process()
            if self._sync is None:  # no other thread was faster
                with self._rejecting_bad_args():
                    client: httpx.Client = self.library.Client(**self._sync_args)
                guard(client)
                # Sockets warn if they are collected while open. `__del__` may be too late, because
                # the socket may be collected before the pool; finalizers run before both.
                self._finalizer = weakref.finalize(self, _close_quietly, client)
                self._finalizer.atexit = False
                self._sync = client
            return self._sync

    async def async_client(self) -> httpx.AsyncClient:
        """Return the client of the running loop. Its sockets belong to that loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._enter_process()
            found, _ = self._of_loop.get(loop, (None, None))
            if found is not None and not found.is_closed:
                return found
            self._drop_closed_loops()
            with self._rejecting_bad_args():
                client: httpx.AsyncClient = self.library.AsyncClient(**self._async_args)
            guard(client)
            closer = _close_with_the_loop(client)
            self._of_loop[loop] = client, closer
        await anext(closer)
        return client

    def _drop_closed_loops(self) -> None:
        # A weak dictionary would keep them, because the client refers to its loop.
        for loop in [loop for loop in self._of_loop if loop.is_closed()]:
            del self._of_loop[loop]

    def close(self) -> None:
        """Close the client of the threads, and drop the clients of closed loops."""
        with self._lock:
            self._enter_process()
            client, self._sync = self._sync, None
            # Another thread may open the next client, with its own finalizer, meanwhile.
            finalizer = self._finalizer if client else None
            self._drop_closed_loops()
        if client and finalizer:
            client.close()
            finalizer.detach()

    async def aclose(self) -> None:
        """Close the clients of all running loops, each in its own loop."""
        with self._lock:
            self._enter_process()
            kept, self._of_loop = self._of_loop, {}
        here = asyncio.get_running_loop()
        for loop, (client, closer) in kept.items():
            if loop is here:
                await closer.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    @property
    def tls_context(self) -> ssl.SSLContext:
        """The TLS context of the async clients."""
        context: ssl.SSLContext = self._async_args["verify"]
        return context


def _close_quietly(client: httpx.Client) -> None:
    """Close a client that is no longer used, perhaps while the interpreter exits."""
    # `suppress` may be gone: at its exit the interpreter clears modules before it collects.
    try:  # noqa: SIM105
        client.close()
    except Exception:  # noqa: BLE001, S110 - an error here has no caller
        pass


async def _close_with_the_loop(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Close the client when `asyncio.run` finishes the generators that are still open."""
    try:
        yield
    finally:
        await _without_pauses(client.aclose())


@types.coroutine
def _without_pauses(closing: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Await without returning to the loop after each connection (`await sleep(0)`).

    A model that is dropped at the end of its loop is closed by a task that is not awaited. If the
    loop stopped in between, the remaining connections would stay open.
    """
    while True:
        try:
            waits_for = closing.send(None)
        except StopIteration:
            return
        if waits_for is not None:
            yield waits_for


def _choose_library(*arguments: Mapping[str, Any]) -> ModuleType:
    """Return the library of the given transports or hooks, else the one that the SDK prefers."""
    values = [value for given in arguments for value in given.values()]
    values += [item for value in values if isinstance(value, dict) for item in value.values()]
    packages = {
        base.__module__.partition(".")[0] for value in values for base in type(value).__mro__
    }
    given = [name for name in LIBRARIES if name in packages]
    preferred = os.environ.get("GOOGLE_GENAI_HTTP_CLIENT", "").strip().lower()
    for name in given or [name for name in LIBRARIES if name == preferred] or LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise InvalidOptionError(
        "google-genai needs httpx2 or httpx, and neither is installed. Install one of them."
    )


def _reject_params(*given: Mapping[str, Any]) -> None:
    if any(args.get("params") for args in given):
        raise InvalidOptionError(
            "client_args must not have params: they would replace the query of a stream's address "
            "(alt=sse), and logs show addresses. Use additional_headers."
        )


def _complete_args(
    library: ModuleType, given: Mapping[str, Any], base_url: str | None
) -> JsonObject:
    args = {
        "timeout": None,  # each request sets its own
        "limits": library.Limits(max_connections=None, max_keepalive_connections=100),
        **given,
        "verify": _tls_context(library, given, base_url),
        "follow_redirects": False,  # a redirect would take the key to another host
        "cookies": _fixed_cookies(library, given.get("cookies")),
    }
    args.pop("cert", None)  # part of the TLS context
    return args


def _fixed_cookies(library: ModuleType, given: Any) -> CookieJar:
    """Return a jar with the user's cookies, to which servers cannot add any."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    class SetsNothing(DefaultCookiePolicy):
        def set_ok(self, cookie: Cookie, request: Any) -> bool:  # noqa: ARG002
            return False

    jar = CookieJar(SetsNothing())
    for cookie in library.Cookies(given).jar:
        jar.set_cookie(cookie)
    return jar


def _tls_context(
    library: ModuleType, args: Mapping[str, Any], base_url: str | None
) -> ssl.SSLContext:
    if not args and base_url and base_url.lower().startswith("http://"):
        # Nothing is encrypted, so no certificates are loaded. This context trusts no server.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
    """Return one context for all clients: loading the certificates takes 25 to 35 ms."""
    context: ssl.SSLContext = library.create_ssl_context()
    return context
