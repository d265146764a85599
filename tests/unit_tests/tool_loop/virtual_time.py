"""An event loop whose clock jumps ahead when there is nothing to do: hours pass at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class VirtualLoop(asyncio.SelectorEventLoop):
    """For tasks only: time does not wait for threads."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("Nothing is left to wait for, and the run has not ended.")
        if not ready and timeout:
            self._loop.now += timeout
        return ready


def run_virtually(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it to its end, and see that nothing is left of it."""

    async def watched() -> Any:
        try:
            return await coroutine
        finally:
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(watched())
