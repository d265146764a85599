"""One SDK client and one connection pool for all equal settings of a process.

Engines such as Ray and Dask unpickle a model before each task. If every copy opened connections of
its own, each call would pay for a new connection, and with TLS for a handshake.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_gemini_tools.client.sdk import open_sdk
from langchain_gemini_tools.facts.credentials import (
    BASE_URL_VARIABLES,
    KEY_VARIABLES,
    VERTEX_VARIABLES,
)
from langchain_gemini_tools.facts.locks import ForkSafeLock

if TYPE_CHECKING:
    from langchain_gemini_tools.client.sdk import ClientSettings, OpenedSdk

IDLE_SECONDS = 60.0
"""How long a pool stays open after its last model began to use it and was dropped."""
MAX_IDLE_POOLS = 32

_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_VARIABLES = (
    *BASE_URL_VARIABLES,
    *KEY_VARIABLES,
    *VERTEX_VARIABLES,
    *_PROXY_VARIABLES,
    *(name.lower() for name in _PROXY_VARIABLES),
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GENAI_HTTP_CLIENT",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""What the SDK and the HTTP library read where the settings leave a value open."""


class SharedSdk:
    """An opened SDK client, and who has a share in its connections."""

    def __init__(self, opened: OpenedSdk) -> None:
        self.opened = opened
        self.acquired_at = time.monotonic()
        self._pid = os.getpid()
        self._holders: weakref.WeakSet[object] = weakref.WeakSet()

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was opened here, and not by the process that this one was forked from."""
        return self._pid == os.getpid()

    def hold(self, holder: object) -> None:
        """Take a share."""
        self._holders.add(holder)

    def release(self, holder: object) -> bool:
        """Give a share back, and return whether it was the last one."""
        self._holders.discard(holder)
        return not self._holders


@dataclass(frozen=True)
class _Place:
    """All that must be equal for two models to share connections."""

    settings: ClientSettings
    environment: tuple[str | None, ...]

    def __hash__(self) -> int:
        # Arguments of the HTTP clients may have no hash; they are compared.
        given = self.settings
        return hash((given.api_key, given.base_url, given.project, self.environment))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"  # the environment has keys


class _Registry:
    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._open: weakref.WeakValueDictionary[_Place, SharedSdk] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[_Place, SharedSdk] = OrderedDict()
        """Keeps pools open for the next model, while no model refers to them."""

    def acquire(self, settings: ClientSettings) -> SharedSdk:
        place = _Place(settings, tuple(map(os.environ.get, _VARIABLES)))
        with self._lock:
            if self._pid != os.getpid():
                self._forget()  # after a fork: the connections belong to the parent process
            # Opened under the lock: an SDK client that is built twice and dropped closes its
            # connections, which may be in use by another thread.
            shared = self._open.get(place) or SharedSdk(open_sdk(settings))
            self._open[place] = shared
            shared.acquired_at = time.monotonic()
            if not settings.has_http_objects:
                self._recent[place] = shared
                self._recent.move_to_end(place)
            self._drop_idle(shared.acquired_at)
        return shared

    def _drop_idle(self, now: float) -> None:
        """Stop keeping pools that were not asked for lately; models may still refer to them."""
        while self._recent:
            oldest = next(iter(self._recent.values()))
            is_lately = now - oldest.acquired_at < IDLE_SECONDS
            if is_lately and len(self._recent) <= MAX_IDLE_POOLS:
                return
            self._recent.popitem(last=False)

    def close_all(self) -> None:
        """Close the connections of the threads at the exit of the interpreter."""
        if self._pid != os.getpid():
            return
        for shared in list(self._open.values()):
            with suppress(Exception):
                shared.opened.pool.close()


_REGISTRY = _Registry()
atexit.register(_REGISTRY.close_all)


def acquire_sdk(settings: ClientSettings) -> SharedSdk:
    """Return the SDK client of this process for these settings; the first use opens it."""
    return _REGISTRY.acquire(settings)
