"""Many cases in one test, which is faster than thousands of items; and how many of them pass.

Every case is tried. A test fails with a group of errors, each with the name of its case.
`ONLY_CASES=some-name` tries the cases whose names contain it.

A module of tests with a constant `SCORE` has a line at the end of the run: how many of the recorded
exchanges passed every test of the module. An exchange is a case of `each`, or a parameter.
Processes of pytest-xdist send their results to the one that prints.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


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


_KEY = "scores"
_passed: dict[str, dict[str, bool]] = defaultdict(dict)
"""For each label, which exchanges passed every test so far."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    report: pytest.TestReport = yield
    module = getattr(item, "module", None)
    label = getattr(module, "SCORE", None)
    if module and label and report.when == "call":
        exchange = item.name.partition("[")[2]
        cases = {exchange: report.passed} if exchange else RESULTS.pop(module.__name__, {})
        _add(label, cases)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_KEY] = dict(_passed)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's, which need not be installed
def pytest_testnodedown(node: Any) -> None:
    for label, passed in getattr(node, "workeroutput", {}).get(_KEY, {}).items():
        _add(label, passed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for label, passed in sorted(_passed.items()):
        terminalreporter.write_line(f"{label} {sum(passed.values())}/{len(passed)}")


def _add(label: str, passed: dict[str, bool]) -> None:
    for exchange, is_passed in passed.items():
        _passed[label][exchange] = _passed[label].get(exchange, True) and is_passed
