"""The plain HTTP clients that do the sending, and the TLS context they share.

The library is httpx2 or httpx, whichever is there; nothing imports it before the first call.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import ssl
import threading
import types
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping
    from http.cookiejar import Cookie, CookieJar
    from types import ModuleType

    JsonObject = dict[str, Any]

LIBRARIES = ("httpx2", "httpx")

# Not shared with the async client: httpx keeps sync and async kinds of these apart.
_SYNC_ONLY = {"transport", "mounts", "event_hooks"}


class HttpPool:
    """The clients that send: one for threads, one for each event loop.

    Args:
        client_args: Arguments of the user's for the library's clients.
        async_client_args: More of them, for the async ones.
        base_url: Where they send to, if it is known.
    """

    def __init__(
        self,
        client_args: Mapping[str, Any],
        async_client_args: Mapping[str, Any],
        base_url: str | None = None,
    ) -> None:
        self.library = _choose_library([*client_args.values(), *async_client_args.values()])
        shared = {key: value for key, value in client_args.items() if key not in _SYNC_ONLY}
        with _refusing_bad_args():
            self._sync_args = _complete_args(self.library, client_args, base_url)
            self._async_args = _complete_args(
                self.library, {**shared, **async_client_args}, base_url
            )
        self._lock = threading.Lock()
        self._sync: Any = None
        self._of_loop: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None]]] = {}

    def sync_client(self) -> Any:
        """The client of all threads."""
        with self._lock:
            if self._sync is None:
                with _refusing_bad_args():
                    self._sync = self.library.Client(**self._sync_args)
                # A socket that is collected unclosed warns. Not by `__del__`: where pool and socket
                # are collected together, the socket may come first; a finalizer comes before both.
                self._last_resort = weakref.finalize(self, _close_quietly, self._sync)
                self._last_resort.atexit = False
            return self._sync

    async def async_client(self) -> Any:
        """The client of the running loop. Its sockets belong to that loop and end with it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client, _ = self._of_loop.get(loop, (None, None))
            if client is not None and not client.is_closed:
                return client
            self._drop_closed_loops()
            with _refusing_bad_args():
                client = self.library.AsyncClient(**self._async_args)
            guard = _close_at_the_end_of_the_loop(client)
            self._of_loop[loop] = client, guard
        await anext(guard)
        return client

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
            self._last_resort.detach()

    async def aclose(self) -> None:
        """Close the clients of all loops that still run, each in its own loop."""
        with self._lock:
            kept, self._of_loop = self._of_loop, {}
        here = asyncio.get_running_loop()
        for loop, (client, guard) in kept.items():
            if loop is here:
                await guard.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    @property
    def tls_context(self) -> ssl.SSLContext:
        """The certificates, loaded once."""
        context: ssl.SSLContext = self._async_args["verify"]
        return context


def _close_quietly(client: Any) -> None:
    """Close a client that nobody uses any more, perhaps while the interpreter ends."""
    # Without `suppress`: at its end the interpreter empties modules before it collects.
    try:  # noqa: SIM105
        client.close()
    except Exception:  # noqa: BLE001, S110 - nobody is left who could be told
        pass


async def _close_at_the_end_of_the_loop(client: Any) -> AsyncGenerator[None]:
    """Wait for the end: `asyncio.run` finishes the generators that are still open, and so this."""
    try:
        yield
    finally:
        await _at_once(client.aclose())


@types.coroutine
def _at_once(closing: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Await it in one go: it gives way after each connection, only to be polite.

    A model that is dropped at the end of its loop is closed by a task that nobody waits for. The
    loop may stop at any time, and the connections after that place would stay open.
    """
    while True:
        try:
            waits_for = closing.send(None)
        except StopIteration:
            return
        if waits_for is not None:
            yield waits_for


def _choose_library(values: list[Any]) -> ModuleType:
    """The library the given transports or hooks belong to, else the one the SDK would take."""
    packages = {
        base.__module__.partition(".")[0] for value in values for base in type(value).__mro__
    }
    given = [name for name in LIBRARIES if name in packages]
    wanted = os.environ.get("GOOGLE_GENAI_HTTP_CLIENT", "").strip().lower()
    for name in given or [name for name in LIBRARIES if name == wanted] or LIBRARIES:
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


def _complete_args(
    library: ModuleType, given: Mapping[str, Any], base_url: str | None
) -> JsonObject:
    args = {
        "timeout": None,  # each request brings its own
        "limits": library.Limits(max_connections=None, max_keepalive_connections=100),
        **given,
        "verify": _tls_context(library, given, base_url),
        "follow_redirects": False,  # a followed redirect takes the key to another host
        "cookies": _fixed_cookies(library, given.get("cookies")),
    }
    args.pop("cert", None)  # part of the TLS context
    return args


def _fixed_cookies(library: ModuleType, given: Any) -> CookieJar:
    """A jar with the user's cookies, into which no server puts another."""
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
        # Nothing goes out encrypted, so no certificates are loaded. This one trusts nobody.
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
    """One for all clients: loading the certificates takes 25 to 35 ms."""
    context: ssl.SSLContext = library.create_ssl_context()
    return context
