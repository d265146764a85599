"""The pytest plugin, on top of pytest-recording: `-p langchain_gemini_tools.testing.plugin`.

With it `@pytest.mark.vcr` is right for Gemini by itself: matching, secrets, files, no key needed.
`vcr_config`, the mark's arguments and `--record-mode` mean what they mean to pytest-recording, and
win. Nothing but pytest is loaded before a test has a cassette.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.cassettes import USAGE_VARIABLE, VARIABLE, checked_mode
from langchain_gemini_tools.testing.errors import CassetteError

if TYPE_CHECKING:
    from collections.abc import Generator

_current_item = pytest.StashKey[pytest.Item]()
_has_succeeded = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cassette-usage`: which recorded interactions the tests asked for."""
    parser.getgroup("recording").addoption(
        "--cassette-usage",
        metavar="FILE",
        default=None,
        help="Append to FILE which interactions of each cassette were used; "
        "`python -m langchain_gemini_tools.testing audit --usage FILE` reads it.",
    )


@pytest.hookimpl(trylast=True)  # after pytest-recording
def pytest_configure(config: pytest.Config) -> None:
    """One mode for marked tests and for `cassette(...)`: the option's, else the environment's."""
    if not any(map(config.pluginmanager.hasplugin, ("recording", "pytest_recording.plugin"))):
        raise pytest.UsageError(
            f"{__name__} needs pytest-recording: "
            'pip install "langchain-gemini-tools[testing]", and no `-p no:recording`.'
        )
    wanted = config.getoption("--record-mode") or os.environ.get(VARIABLE)
    try:
        mode = checked_mode(wanted or "none")
    except CassetteError as error:
        raise pytest.UsageError(f"{VARIABLE}: {error}") from error
    if wanted:
        # Also `rewrite`: pytest-recording would delete the file before it has another one.
        config.option.record_mode = mode
    environment = pytest.MonkeyPatch()
    environment.setenv(VARIABLE, mode)
    if usage := config.getoption("--cassette-usage"):
        environment.setenv(USAGE_VARIABLE, str(Path(usage).resolve()))
    config.add_cleanup(environment.undo)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which test it is that opens a cassette; it may have failed before, and run again."""
    item.config.stash[_current_item] = item
    item.stash[_has_succeeded] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Remember a success: no other recording may take the place of a cassette.

    A test that is interrupted has no report.
    """
    report: pytest.TestReport = yield
    if report.when == "call":
        item.stash[_has_succeeded] = not report.failed
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """Open marked tests' cassettes as Gemini needs them."""
    from langchain_gemini_tools.testing.session import Session

    item = config.stash[_current_item]

    def use_cassette(path: str, **settings: Any) -> Session:
        return Session(vcr, path, settings, has_failed=lambda: not item.stash[_has_succeeded])

    vcr.use_cassette = use_cassette
