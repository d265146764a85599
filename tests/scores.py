"""One line at the end of a test run: how many of the recorded exchanges come out right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.batches import RESULTS

if TYPE_CHECKING:
    import pytest


class ScoreBoard:
    """A pytest plugin that counts the exchanges for which every test of one file passed.

    Register it from a fixture of that file: `request.config.pluginmanager.register(...)`. Cases of
    `batches.each` are counted, and parameters.
    """

    def __init__(self, label: str, request: pytest.FixtureRequest) -> None:
        self._label = label
        self._file = request.node.nodeid
        self._passed = RESULTS[request.module.__name__]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, test = report.nodeid.partition("::")
        if file == self._file and report.when == "call" and "[" in test:
            exchange = test.partition("[")[2]
            self._passed[exchange] = self._passed.get(exchange, True) and report.passed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        score = f"{sum(self._passed.values())}/{len(self._passed)}"
        terminalreporter.write_line(f"{self._label} {score}")
