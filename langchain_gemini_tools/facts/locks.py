"""A lock that is not held in a forked process.

`fork` copies locks in the state that they have. If another thread holds one at that moment, it is
held in the child forever, because the thread does not exist there.
"""

from __future__ import annotations

import os
import threading
import weakref


class ForkSafeLock:
    """A lock to use with `with`. In a child process it is free."""

    def __init__(self) -> None:
        self._renew()
        _LOCKS.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in _LOCKS:
        lock._renew()  # noqa: SLF001


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
