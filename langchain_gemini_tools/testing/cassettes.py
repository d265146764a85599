"""`cassette(...)`: record the HTTP requests of a block once, then replay them.

* CassetteError             no failure of the API: nothing is retried
  * StaleCassetteError      a request is not in the cassette
  * CassetteInUseError      another cassette is open
  * CassetteFileError       the file is not a cassette, or is not safe to load
  * SecretFoundError        the recording contains a credential and was not saved
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.facts.environment import environment_secrets

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from langchain_gemini_tools.testing.session import Session
    from langchain_gemini_tools.testing.tape import Tape

VARIABLE = "GEMINI_RECORD_MODE"
USAGE_VARIABLE = "GEMINI_CASSETTE_USAGE"
"""A file that collects which responses were replayed; `pytest --cassette-usage` sets it."""
RECORD_MODES = ("none", "once", "new_episodes", "all")
PLACEHOLDER = "replayed-without-a-key"
"""The key in the environment while a cassette is replayed without one."""


class CassetteError(Exception):
    """Base class of all errors that cassettes raise."""

    explains_itself = True
    """The client adds no note about where the error was raised."""


class StaleCassetteError(CassetteError):
    """A request is not in the cassette, or was recorded fewer times than it is made."""


class CassetteInUseError(CassetteError):
    """A cassette is opened while another one is open."""


class CassetteFileError(CassetteError):
    """A file is not a cassette, or is not safe to load."""


class SecretFoundError(CassetteError):
    """A recording still contains something that looks like a credential; it was not saved."""


def cassette(
    name: str | Path,
    *,
    record_mode: str | None = None,
    prefer_live: bool = False,
    secrets: Collection[str] = (),
    allow_playback_repeats: bool = False,
) -> OpenCassette:
    """Replay the HTTP requests of a block from a file, or record them into it.

    ```python
    with cassette("weather"):  # or `async with`
        agent.invoke(...)
    ```

    Args:
        name: `weather` means `cassettes/weather.yaml`; a name that ends with `.yaml` is a path.
        record_mode: `none` only replays. `once` replays a file, and records if there is none.
            `new_episodes` also adds to a file, `all` records everything again. The default is the
            environment variable `GEMINI_RECORD_MODE`; if it is not set, `once` if the environment
            has an API key, else `none`.
        prefer_live: If the environment has an API key and no mode is given, ignore the file and
            call the API. For examples that run live with a key and replay without one.
        secrets: Values to keep out of the file, in addition to the credentials of the requests; at
            least 8 characters each. A replay needs them, too.
        allow_playback_repeats: Replay a recorded response as often as its request is made.

    Raises:
        StaleCassetteError: In the block, if a request is not recorded. It says what differs.
        CassetteInUseError: Another cassette is open.
        CassetteFileError: The file is not a cassette, or is not safe to load.
        SecretFoundError: At the end, if the recording contains something like a credential.
    """
    is_path = str(name).endswith((".yaml", ".yml"))
    path = Path(name) if is_path else Path("cassettes", f"{name}.yaml")
    mode = record_mode or os.environ.get(VARIABLE) or None
    has_key = any(key != PLACEHOLDER for key in environment_secrets())
    is_live = prefer_live and has_key and mode is None
    settings = {"secrets": secrets, "allow_playback_repeats": allow_playback_repeats}
    chosen = check_mode(mode or ("once" if has_key else "none"))
    return OpenCassette(path, None if is_live else chosen, settings)


def check_mode(mode: str) -> str:
    """Return vcrpy's name of a record mode.

    Raises:
        CassetteError: The mode does not exist.
    """
    if mode == "rewrite":  # pytest-recording's name
        return "all"
    if mode not in RECORD_MODES:
        raise CassetteError(f"{mode!r} is not a record mode; use one of {', '.join(RECORD_MODES)}.")
    return mode


_started: list[OpenCassette] = []
"""The cassette that `start` opened, if there is one."""


class OpenCassette:
    """The object of `with cassette(...) as tape`."""

    def __init__(self, path: Path, record_mode: str | None, settings: dict[str, Any]) -> None:
        self.path = path
        self.record_mode = record_mode
        """None when the block calls the API and uses no file."""
        self._settings = settings
        self._session: Session | None = None
        self._tape: Tape | None = None

    @property
    def is_replaying(self) -> bool:
        """Whether all responses come from the file."""
        return self._tape is not None and bool(self._tape.write_protected)

    @property
    def unused(self) -> list[int]:
        """The numbers of the recorded interactions that were not replayed, from 1."""
        return self._tape.unused if self._tape is not None else []

    def start(self) -> None:
        """Open it without a block, for notebooks; `stop` or the end of the process closes it.

        The line and the cells after it can run again: the cassette starts over, and the last
        response to a request is repeated.
        """
        for earlier in [*_started]:
            earlier.stop()
        self._settings["allow_playback_repeats"] = True
        self.__enter__()
        _started.append(self)
        atexit.register(self.stop)

    def stop(self) -> None:
        """Close what `start` opened, and save what was recorded."""
        atexit.unregister(self.stop)
        if self in _started:
            _started.remove(self)
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        if self.record_mode is None:
            return self
        session = _open_session(self.path, self.record_mode, self._settings)
        self._tape = session.__enter__()
        self._session = session
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def _open_session(path: Path, record_mode: str, settings: dict[str, Any]) -> Session:
    try:
        from vcr import VCR
    except ModuleNotFoundError as error:
        raise CassetteError(
            'Cassettes need vcrpy: pip install "langchain-gemini-tools[testing]"'
        ) from error
    from langchain_gemini_tools.testing.session import FilePersister, Session

    vcr = VCR(record_mode=record_mode)
    vcr.register_persister(FilePersister)
    return Session(vcr, path, dict(settings))
