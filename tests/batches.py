"""Many cases in one test: thousands of items would take longer than what they check.

Every case is tried. A test fails with a group of errors, each with the name of its case.
`ONLY_CASES=some-name` tries the cases whose names contain it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
VARIABLE = "ONLY_CASES"
RESULTS: dict[str, dict[str, bool]] = defaultdict(dict)
"""For each module of tests, which cases passed all of its tests."""
_SHOWN = 10


def each(
    argument: str, cases: Callable[[], Mapping[str, Any]], reason: str
) -> Callable[[Test], Test]:
    """Run a test for every case.

    Args:
        argument: The argument of the test that is a case.
        cases: Returns the cases by name.
        reason: Why the test is skipped if there are none.
    """

    def decorate(test: Test) -> Test:
        def chosen() -> Mapping[str, Any]:
            only = os.environ.get(VARIABLE, "")
            found = cases() or pytest.skip(reason)
            kept = {name: case for name, case in found.items() if only in name}
            return kept or pytest.skip(f"No case is named like {VARIABLE}={only}")

        def run(**fixtures: Any) -> None:
            batch = _Batch(test.__module__)
            for name, case in chosen().items():
                with batch.case(name):
                    test(**{argument: case}, **fixtures)
            batch.report()

        async def arun(**fixtures: Any) -> None:
            batch = _Batch(test.__module__)
            for name, case in chosen().items():
                with batch.case(name):
                    await test(**{argument: case}, **fixtures)
            batch.report()

        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name != argument]
        decorated: Any = functools.wraps(test)(arun if inspect.iscoroutinefunction(test) else run)
        decorated.__signature__ = signature.replace(parameters=fixtures)
        return decorated  # type: ignore[no-any-return]

    return decorate


class _Batch:
    """The cases of one test, and those that failed."""

    def __init__(self, module: str) -> None:
        self._results = RESULTS[module]
        self._count = 0
        self._failed: dict[str, BaseException] = {}

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Run one case; keep its error."""
        self._count += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - reported below
            error.add_note(f"The case is {name}.")
            self._failed[name] = error
        self._results[name] = self._results.get(name, True) and name not in self._failed

    def report(self) -> None:
        """Fail if a case failed: name all of them, and show the errors of the first."""
        if self._failed:
            names = ", ".join(self._failed)
            raise BaseExceptionGroup(
                f"{len(self._failed)} of {self._count} cases failed: {names}",
                [*self._failed.values()][:_SHOWN],
            )
