"""How the cost of a function grows with its input: tests compare costs and assert no seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FACTOR = 8
"""How many times as large the large input is."""
MOST = 3 * FACTOR
"""How many times as much it may cost: linear work costs 8 times as much, quadratic work 64."""
_ATTEMPTS = 3
_TOO_LITTLE_TO_MEASURE = 0.02


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Fail if the CPU time of work grows faster than the size of its input.

    Args:
        work: Makes an input of a given size, and does the work. It runs in this thread.
        size: The size of the large input.
    """
    costs = []
    for _ in range(_ATTEMPTS):
        small, large = _cost(work, size // FACTOR), _cost(work, size)
        costs.append(f"{large:.3f} s, {large / max(small, 1e-6):.0f} times as much")
        if large < max(MOST * small, _TOO_LITTLE_TO_MEASURE):
            return
    pytest.fail(f"{FACTOR} times the input costs: {'; '.join(costs)}")


def _cost(work: Callable[[int], object], size: int) -> float:
    begun = time.thread_time()
    work(size)
    return time.thread_time() - begun
