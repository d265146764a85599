"""Cover a matrix by rotation: each case once, while the other dimensions rotate over the cases.

A fault that shows up for one way of calling, on one HTTP library, shows up for the others too, or
it is found by another case of the same test. CONTRIBUTING.md has the figures of a
mutation run (`python -m tests.mutation`). Set `FULL_MATRIX=1` for the full product.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pytest

WAYS = ["invoke", "ainvoke", "stream", "astream"]
STREAMS = ["stream", "astream"]
LIBRARIES = [name for name in ("httpx2", "httpx") if importlib.util.find_spec(name)]

Test = TypeVar("Test", bound=Callable[..., Any])
Value = tuple[str, Any]
"""An id and its value."""


def rotated(**axes: Iterable[Any] | Mapping[str, Any]) -> Callable[[Test], Test]:
    """Parametrize a test over several axes at once, without multiplying them.

    Every value of every axis occurs at least once. A test that has a `library` argument rotates
    over the HTTP libraries as well.

    Args:
        **axes: The values of each argument, or a mapping from ids to values. Put the longest axis
            first: its values are the cases.
    """

    def decorate(test: Test) -> Test:
        values = {name: _with_ids(axis) for name, axis in axes.items()}
        if "library" in inspect.signature(test).parameters:
            values["library"] = _with_ids(LIBRARIES)
        rows = [
            pytest.param(*(value for _, value in row), id="-".join(label for label, _ in row))
            for row in _rows(list(values.values()), shift=sum(map(ord, test.__name__)))
        ]
        indirect = ["library"] if "library" in values else False
        decorated: Test = pytest.mark.parametrize(tuple(values), rows, indirect=indirect)(test)
        return decorated

    return decorate


def _rows(axes: list[list[Value]], shift: int) -> list[list[Value]]:
    if os.environ.get("FULL_MATRIX"):
        return [list(row) for row in itertools.product(*axes)]
    return [_row(axes, index, shift) for index in range(max(map(len, axes)))]


def _row(axes: list[list[Value]], index: int, shift: int) -> list[Value]:
    first, *others = axes
    row = [first[index % len(first)]]
    for axis in others:
        row.append(axis[(index + shift) % len(axis)])
        # Each full round moves the next axis on by one, and so does the test: pairs differ.
        index, shift = index + index // len(axis), shift // len(axis)
    return row


def _with_ids(axis: Iterable[Any] | Mapping[str, Any]) -> list[Value]:
    if isinstance(axis, Mapping):
        return [(str(label), value) for label, value in axis.items()]
    return [(str(value), value) for value in axis]
