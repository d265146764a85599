"""The five ways to make the same call. Each module has a `make(url)` that gives a `Subject`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

NAMES = ("peer", "sdk", "floor", "limit", "ours")
THREADS = 32
THREADED_CALLS = 128
CONCURRENT_CALLS = 200


def _nothing() -> None:
    return None


def _as_is(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Work:
    """Work that is repeated; only `run` is timed."""

    run: Callable[[Any], Any]
    """Gets what `set_up` returned."""
    set_up: Callable[[], Any] = _nothing
    see: Callable[[Any], Any] = _as_is
    """Returns the result as plain JSON, and closes what is still open."""


class Subject:
    """One way to make the calls of a scenario; a method returns `None` if it is not possible."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._loop = asyncio.new_event_loop()

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the subject's only event loop, whose connections stay open."""
        return self._loop.run_until_complete(coroutine)

    def call(self, tools: int, turns: int) -> Work | None:
        """One call on messages that were sent before."""
        raise NotImplementedError

    def call_on_new_messages(self, tools: int, turns: int) -> Work | None:
        """One call on new messages."""
        return None

    def bind_new(self, kind: str, count: int) -> Work | None:
        """Bind new `functions`, or new `tools` of LangChain."""
        return None

    def bind_again(self, kind: str, count: int) -> Work | None:
        """Bind the same tools again."""
        return None

    def loop(self, tools: int) -> Work | None:
        """An agent's loop: the history grows by a call and its result at every step."""
        raise NotImplementedError

    def stream(self, model: str) -> Work | None:
        """A whole stream."""
        raise NotImplementedError

    def astream(self, model: str) -> Work | None:
        """A whole stream, asynchronously."""
        raise NotImplementedError

    def first_chunk(self, turns: int) -> Work | None:
        """A stream up to its first chunk."""
        raise NotImplementedError

    def concurrently(self, tools: int) -> Work | None:
        """Many calls at once in one event loop."""
        raise NotImplementedError

    def in_threads(self, tools: int) -> Work | None:
        """Many calls over a number of threads."""
        raise NotImplementedError


def seen(text: str, calls: list[tuple[str, Any]]) -> dict[str, Any]:
    """The result of a call in a form that all subjects share."""
    return {"text": text, "calls": [[name, args] for name, args in calls]}
