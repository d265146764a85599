"""`cassette(...)`: what a block asks Gemini is recorded once and replayed ever after."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.testing.errors import CassetteError
from langchain_gemini_tools.testing.secrets import credentials_of_the_environment

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from langchain_gemini_tools.testing.session import Session
    from langchain_gemini_tools.testing.tape import Tape

VARIABLE = "GEMINI_RECORD_MODE"
USAGE_VARIABLE = "GEMINI_CASSETTE_USAGE"
"""A file to note in which answers were replayed; `pytest --cassette-usage` sets it."""
RECORD_MODES = ("none", "once", "new_episodes", "all")


def cassette(
    name: str | Path,
    *,
    record_mode: str | None = None,
    prefer_live: bool = False,
    secrets: Collection[str] = (),
    allow_playback_repeats: bool = False,
) -> OpenCassette:
    """A block whose HTTP requests are answered from a file, or recorded into it.

    ```python
    with cassette("weather"):  # or `async with`
        agent.invoke(...)
    ```

    Args:
        name: `weather` is `cassettes/weather.yaml`; what ends with `.yaml` is a path.
        record_mode: `none` replays only. `once` replays a file, and records where there is none.
            `new_episodes` also adds to a file, `all` records everything anew. By default what the
            environment variable `GEMINI_RECORD_MODE` says, else `once` where there is a key in the
            environment and `none` where there is not.
        prefer_live: With a key in the environment, and no mode given, leave the file alone and talk
            to the API: for examples that run live with a key and replay without.
        secrets: Values that must not reach the file, besides the credentials of the requests; at
            least 8 characters long. A replay has to know them too.
        allow_playback_repeats: Give a recorded answer as often as it is asked for.

    Raises:
        StaleCassetteError: In the block: a request is not recorded. It says what differs.
        CassetteInUseError: Another cassette is open.
        CassetteFileError: The file is no cassette, or not safe to load.
        SecretFoundError: At the end: the recording holds something like a credential.
    """
    is_path = str(name).endswith((".yaml", ".yml"))
    path = Path(name) if is_path else Path("cassettes", f"{name}.yaml")
    mode = record_mode or os.environ.get(VARIABLE) or None
    has_key = bool(credentials_of_the_environment())
    is_live = prefer_live and has_key and mode is None
    settings = {"secrets": secrets, "allow_playback_repeats": allow_playback_repeats}
    chosen = checked_mode(mode or ("once" if has_key else "none"))
    return OpenCassette(path, None if is_live else chosen, settings)


def checked_mode(mode: str) -> str:
    """The mode as vcrpy knows it.

    Raises:
        CassetteError: There is no such mode.
    """
    if mode == "rewrite":  # pytest-recording's word
        return "all"
    if mode not in RECORD_MODES:
        raise CassetteError(f"There is no record mode {mode!r}. Use {', '.join(RECORD_MODES)}.")
    return mode


class OpenCassette:
    """What `with cassette(...) as tape` gives."""

    def __init__(self, path: Path, record_mode: str | None, settings: dict[str, Any]) -> None:
        self.path = path
        self.record_mode = record_mode
        """None when the block talks to the API and no file is used."""
        self._settings = settings
        self._session: Session | None = None
        self._tape: Tape | None = None

    @property
    def is_replaying(self) -> bool:
        """Whether answers come from the file alone."""
        return self._tape is not None and bool(self._tape.write_protected)

    @property
    def unused(self) -> list[int]:
        """The numbers of the replayed interactions that nobody has asked for, from 1."""
        return self._tape.unused if self._tape is not None else []

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
    from langchain_gemini_tools.testing.session import Session
    from langchain_gemini_tools.testing.tape import Files

    vcr = VCR(record_mode=record_mode)
    vcr.register_persister(Files)
    return Session(vcr, path, dict(settings))
