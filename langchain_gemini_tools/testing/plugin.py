"""The pytest plugin, on top of pytest-recording: `-p langchain_gemini_tools.testing.plugin`.

The fixture `fake_gemini` is a `FakeGemini` for one test. `@pytest.mark.vcr` is adapted to Gemini:
matching, redaction, file format, and no API key needed.
`vcr_config`, the mark's arguments and `--record-mode` keep pytest-recording's meaning and take
precedence. Only pytest is loaded until a test uses a cassette.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.cassettes import (
    USAGE_VARIABLE,
    VARIABLE,
    CassetteError,
    check_mode,
    open_session,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager

    from langchain_gemini_tools.testing.fake_gemini import FakeGemini
    from langchain_gemini_tools.testing.tape import Tape

_current_item = pytest.StashKey[pytest.Item]()
_report = pytest.StashKey[pytest.TestReport | None]()
"""How the test went. An interrupted test has no report."""


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
    item.stash[_report] = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Remember how the test went: only if it did not fail may its recording replace a cassette."""
    report: pytest.TestReport = yield
    if report.when == "call":
        item.stash[_report] = report
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """Open the cassettes of marked tests with our session."""
    item = config.stash[_current_item]

    def use_cassette(path: str, **settings: Any) -> AbstractContextManager[Tape]:
        def has_failed() -> bool:
            report = item.stash[_report]
            return report is None or report.failed

        return open_session(vcr, path, settings, has_failed=has_failed)

    vcr.use_cassette = use_cassette


@pytest.fixture
def fake_gemini(request: pytest.FixtureRequest) -> Iterator[FakeGemini]:
    """A strict Gemini on this machine, which clients use automatically during the test.

    It works while `--block-network` or pytest-socket block other connections. A test that passes
    and leaves scripted replies unused is an error.
    """
    from langchain_gemini_tools.testing.fake_gemini import FakeGemini

    with allow_loopback():
        gemini = FakeGemini().start()
        try:
            yield gemini
        finally:
            report = request.node.stash[_report]
            gemini.stop(check=report is not None and report.passed)


_Socket = socket.socket
_getaddrinfo = socket.getaddrinfo
_HOSTS = ("127.0.0.1", "::1", "localhost")


@contextlib.contextmanager
def allow_loopback() -> Iterator[None]:
    """Allow connections to this machine in the block, and only those, if others are blocked.

    pytest-recording (`--block-network`) replaces `connect` of the class of sockets. pytest-socket
    replaces the class and `getaddrinfo`, or `connect`.
    """
    blocked, blocked_lookup = socket.socket, socket.getaddrinfo
    if blocked is _Socket and "connect" not in vars(_Socket):
        yield
        return
    local = _local_socket(blocked)

    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        find = _getaddrinfo if host in _HOSTS else blocked_lookup
        return find(host, *args, **kwargs)

    socket.socket, socket.getaddrinfo = local, lookup  # type: ignore[misc]
    try:
        yield
    finally:
        # pytest-socket may have removed its guards before the fixtures of a test end.
        is_ours = socket.socket is local
        if is_ours:
            socket.socket = blocked  # type: ignore[misc]
        if socket.getaddrinfo is lookup:
            socket.getaddrinfo = blocked_lookup if is_ours else _getaddrinfo


def _local_socket(blocked: type[socket.socket]) -> type[socket.socket]:
    """Return a class of sockets that reach this machine; other addresses are blocked as before."""

    class LocalSocket(_Socket):
        def connect(self, address: Any) -> None:
            way: Any = super(_Socket, self) if self._allows(address) else super()
            way.connect(address)

        def connect_ex(self, address: Any) -> int:
            way: Any = super(_Socket, self) if self._allows(address) else super()
            return int(way.connect_ex(address))

        def sendto(self, *args: Any) -> int:
            self._allows(args[-1])
            return super().sendto(*args)

        def _allows(self, address: Any) -> bool:
            """Return whether an address is local; if not, raise as the plugin does for a socket."""
            is_unix = self.family == getattr(socket, "AF_UNIX", None)
            is_local = is_unix or (isinstance(address, tuple) and address[0] in _HOSTS)
            if not is_local and blocked is not _Socket:
                blocked(self.family, self.type).close()
            return is_local

    return LocalSocket
