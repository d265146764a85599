"""One line at the end of a test run: how many of the recorded exchanges come out right.

A module of tests asks for it by a constant `SCORE`, the label of its line. An exchange counts if
every test of the module passed for it: a case of `batches.each`, or a parameter. Processes
of pytest-xdist send their results to the one that prints.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.batches import RESULTS

if TYPE_CHECKING:
    from collections.abc import Generator

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
