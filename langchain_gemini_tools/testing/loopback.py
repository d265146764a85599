"""Connections to this machine while a pytest plugin blocks the network, for `fake_gemini`."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_Socket = socket.socket
_getaddrinfo = socket.getaddrinfo
_HOSTS = ("127.0.0.1", "::1", "localhost")


@contextlib.contextmanager
def allow_loopback() -> Iterator[None]:
    """Allow connections to this machine in the block, and only those, if others are blocked.

    pytest-recording (`--block-network`) replaces `connect` of the class of sockets. pytest-socket
    replaces the class and `getaddrinfo`, or `connect`.
    """
    blocked, blocked_lookup = socket.socket, socket.getaddrinfo
    if blocked is _Socket and "connect" not in vars(_Socket):
        yield
        return
    local = _local_socket(blocked)

    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        find = _getaddrinfo if host in _HOSTS else blocked_lookup
        return find(host, *args, **kwargs)

    socket.socket, socket.getaddrinfo = local, lookup  # type: ignore[misc]
    try:
        yield
    finally:
        # pytest-socket may have removed its guards before the fixtures of a test end.
        is_ours = socket.socket is local
        if is_ours:
            socket.socket = blocked  # type: ignore[misc]
        if socket.getaddrinfo is lookup:
            socket.getaddrinfo = blocked_lookup if is_ours else _getaddrinfo


def _local_socket(blocked: type[socket.socket]) -> type[socket.socket]:
    """A class of sockets that reach this machine; other addresses meet what blocks them."""

    class LocalSocket(_Socket):
        def connect(self, address: Any) -> None:
            if not _is_local(self, address):
                _meet_block(self, blocked)
                super().connect(address)
            else:
                super(_Socket, self).connect(address)

        def connect_ex(self, address: Any) -> int:
            if not _is_local(self, address):
                _meet_block(self, blocked)
                return super().connect_ex(address)
            return super(_Socket, self).connect_ex(address)

        def sendto(self, *args: Any) -> int:
            if not _is_local(self, args[-1]):
                _meet_block(self, blocked)
            return super().sendto(*args)

    return LocalSocket


def _is_local(opened: socket.socket, address: Any) -> bool:
    is_unix = opened.family == getattr(socket, "AF_UNIX", None)
    return is_unix or (isinstance(address, tuple) and address[0] in _HOSTS)


def _meet_block(opened: socket.socket, blocked: type[socket.socket]) -> None:
    """Raise what the plugin raises when a socket is made."""
    if blocked is not _Socket:
        blocked(opened.family, opened.type).close()
