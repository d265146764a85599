"""The pytest plugin, on top of pytest-recording: `-p langchain_gemini_tools.testing.plugin`.

The fixture `fake_gemini` is a `FakeGemini` for one test. `@pytest.mark.vcr` is adapted to Gemini:
matching, redaction, file format, and no API key needed.
`vcr_config`, the mark's arguments and `--record-mode` keep pytest-recording's meaning and take
precedence. Only pytest is loaded until a test uses a cassette.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.cassettes import USAGE_VARIABLE, VARIABLE, check_mode
from langchain_gemini_tools.testing.errors import CassetteError
from langchain_gemini_tools.testing.loopback import allow_loopback

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from langchain_gemini_tools.testing.fake_gemini import FakeGemini

_current_item = pytest.StashKey[pytest.Item]()
_has_succeeded = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cassette-usage`, which notes the recorded interactions that tests used."""
    parser.getgroup("recording").addoption(
        "--cassette-usage",
        metavar="FILE",
        default=None,
        help="Append to FILE which interactions of each cassette were used; "
        "`python -m langchain_gemini_tools.testing audit --usage FILE` reads it.",
    )


@pytest.hookimpl(trylast=True)  # after pytest-recording
def pytest_configure(config: pytest.Config) -> None:
    """Use one mode for marked tests and `cassette(...)`: the option's or the environment's."""
    if not any(map(config.pluginmanager.hasplugin, ("recording", "pytest_recording.plugin"))):
        raise pytest.UsageError(
            f"{__name__} needs pytest-recording: "
            'pip install "langchain-gemini-tools[testing]", and remove `-p no:recording`.'
        )
    chosen = config.getoption("--record-mode") or os.environ.get(VARIABLE)
    try:
        mode = check_mode(chosen or "none")
    except CassetteError as error:
        raise pytest.UsageError(f"{VARIABLE}: {error}") from error
    if chosen:
        # Also for `rewrite`: pytest-recording would delete the file before there is a new one.
        config.option.record_mode = mode
    environment = pytest.MonkeyPatch()
    environment.setenv(VARIABLE, mode)
    if usage := config.getoption("--cassette-usage"):
        environment.setenv(USAGE_VARIABLE, str(Path(usage).resolve()))
    config.add_cleanup(environment.undo)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which test opens a cassette; it may have failed before, and run again."""
    item.config.stash[_current_item] = item
    item.stash[_has_succeeded] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Remember whether the test passed: only then may its recording replace a cassette.

    An interrupted test has no report.
    """
    report: pytest.TestReport = yield
    if report.when == "call":
        item.stash[_has_succeeded] = not report.failed
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """Open the cassettes of marked tests with our session."""
    from langchain_gemini_tools.testing.session import Session

    item = config.stash[_current_item]

    def use_cassette(path: str, **settings: Any) -> Session:
        return Session(vcr, path, settings, has_failed=lambda: not item.stash[_has_succeeded])

    vcr.use_cassette = use_cassette


@pytest.fixture
def fake_gemini(request: pytest.FixtureRequest) -> Iterator[FakeGemini]:
    """A strict Gemini on this machine, which clients find by themselves during the test.

    It works while `--block-network` or pytest-socket block other connections. A test that passes
    and leaves scripted replies unused is an error.
    """
    from langchain_gemini_tools.testing.fake_gemini import FakeGemini

    with allow_loopback():
        gemini = FakeGemini().start()
        try:
            yield gemini
        finally:
            gemini.stop(check=request.node.stash[_has_succeeded])
