"""`cassette(...)`: record the HTTP requests of a block once, then replay them.

* CassetteError             no failure of the API: nothing is retried
  * StaleCassetteError      a request is not in the cassette
  * CassetteInUseError      another cassette is open
  * CassetteFileError       the file is not a cassette, or is not safe to load
  * SecretFoundError        the recording contains a credential and was not saved

A recording that ends with an exception never replaces a cassette: the old file is kept, and the new
recording is saved beside it. If there was no file, the recording becomes the cassette.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.facts.environment import (
    KEY_VARIABLES,
    PROJECT_VARIABLES,
    environment_keys,
    environment_secrets,
)
from langchain_gemini_tools.facts.locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from langchain_gemini_tools.testing.tape import Tape

VARIABLE = "GEMINI_RECORD_MODE"
USAGE_VARIABLE = "GEMINI_CASSETTE_USAGE"
"""A file that collects which responses were replayed; `pytest --cassette-usage` sets it."""
RECORD_MODES = ("none", "once", "new_episodes", "all")
PLACEHOLDER = "replayed-without-a-key"
"""The key in the environment while a cassette is replayed without one."""


_logger = logging.getLogger(__name__)
_FAILED = ".failed.yaml"
_MAX_NAME_BYTES = 255
"""On all common file systems."""

_lock = ForkSafeLock()
_open: list[str] = []
"""The open cassette. There is only one: vcrpy patches the HTTP libraries of the process."""


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
    settings = {
        "secrets": secrets,
        "allow_playback_repeats": allow_playback_repeats,
        "states_mode": record_mode is not None,
    }
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
        self._session: AbstractContextManager[Tape] | None = None
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
        if self.record_mode is not None:
            session = open_session(_vcr(self.record_mode), self.path, dict(self._settings))
            self._tape = session.__enter__()
            self._session = session
        return self

    def __exit__(self, *failure: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(*failure)  # type: ignore[arg-type]

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *failure: object) -> None:
        self.__exit__(*failure)


def _vcr(record_mode: str) -> Any:
    try:
        from vcr import VCR
    except ModuleNotFoundError as error:
        raise CassetteError(
            'Cassettes need vcrpy: pip install "langchain-gemini-tools[testing]"'
        ) from error
    from langchain_gemini_tools.testing.tape import FilePersister

    vcr = VCR(record_mode=record_mode)
    vcr.register_persister(FilePersister)
    return vcr


@contextmanager
def open_session(
    vcr: Any,
    path: str | Path,
    settings: dict[str, Any],
    *,
    has_failed: Callable[[], bool] = lambda: False,
) -> Iterator[Tape]:
    """Open a cassette of vcrpy, adapted to Gemini, and save what was recorded at the end.

    Args:
        vcr: The `vcr.VCR` with the user's settings.
        path: The cassette, as `vcr.use_cassette` accepts it.
        settings: Further arguments of `vcr.use_cassette`; `secrets`: values to redact in addition
            to the credentials; `states_mode`: whether the mode is stated in the code.
        has_failed: Whether the run failed without an exception that is seen here.
    """
    from langchain_gemini_tools.testing import tape as tapes
    from langchain_gemini_tools.testing.redaction import check_secrets

    secrets = check_secrets(settings.pop("secrets", ()))
    states_mode = settings.pop("states_mode", False)
    tapes.prepare(vcr, secrets)
    config = vcr.get_merged_config(path=path, **settings)
    persister = tapes.DeferringPersister(config["persister"], config["record_mode"])
    # Always record; whether and where the recording is saved is decided in `_close`.
    config |= {"persister": persister, "record_on_exception": True}
    tape: Tape | None = None
    try:
        with ExitStack() as stack:
            stack.enter_context(_only_one_open(str(path)))
            try:
                tape = stack.enter_context(tapes.Tape.use(**config))
            except (CassetteFileError, OSError, ValueError) as error:
                raise CassetteFileError(f"{path} cannot be replayed. {error}") from error
            if tape.write_protected:
                stack.enter_context(_placeholders(for_a_project=tape.uses_vertex_projects))
            tape.secrets = secrets
            if states_mode:
                tape.how_to_record = tapes.MODE_IN_CODE
            yield tape
    except GeneratorExit:  # it was never closed, so nothing is saved
        raise
    except BaseException as error:
        if tape is not None:
            _close(tape, persister.recorded, error, has_failed=True)
        raise
    _close(tape, persister.recorded, None, has_failed=has_failed())


def _close(
    tape: Tape,
    recorded: tuple[dict[str, Any], Any] | None,
    error: BaseException | None,
    *,
    has_failed: bool,
) -> None:
    """Save what was recorded."""
    from langchain_gemini_tools.testing.redaction import render_recording

    _note_usage(tape)
    if recorded is None or tape.write_protected:
        return
    path = Path(tape.file_path)
    if not has_failed:
        _save(path, render_recording(*recorded, tape.secrets))
        return
    beside = _beside(path) if path.exists() else path
    try:
        _save(beside, render_recording(*recorded, tape.secrets))
        note = _explain_failed_run(path, beside)
    except CassetteError as failure:  # the error of the run matters more
        note = str(failure)
    _logger.warning("%s", note)
    if error is not None:
        error.add_note(note)


def _save(path: Path, text: str) -> None:
    from langchain_gemini_tools.testing.files import write_file

    try:
        write_file(path, text)
    except OSError as error:
        raise CassetteFileError(
            f"The recording was not saved: {path} cannot be written ({error.strerror}). Record "
            "again into a folder that you can write to."
        ) from error


def _beside(path: Path) -> Path:
    """Return where a failed recording is saved; its name must not be longer than files may have."""
    limit = _MAX_NAME_BYTES - len(_FAILED)
    stem = path.stem.encode()[:limit].decode(errors="ignore")
    return path.with_name(stem + _FAILED)


def _explain_failed_run(path: Path, beside: Path) -> str:
    if beside == path:
        return f"The run failed. What was recorded before the failure is in {path}."
    return (
        f"The run failed, so the cassette {path} was not changed. What was recorded before the "
        f"failure is in {beside}; rename it to use it."
    )


def _note_usage(tape: Tape) -> None:
    """Append the unused interactions to the file for the audit, if there is one."""
    if (path := os.environ.get(USAGE_VARIABLE)) and tape.write_protected:
        noted = {"cassette": str(Path(tape.file_path).resolve()), "unused": tape.unused}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")


@contextmanager
def _only_one_open(path: str) -> Iterator[None]:
    with _lock:
        if _open:
            raise CassetteInUseError(
                f"The cassette {path!r} cannot be opened while {_open[0]!r} is open, because it "
                "would be unclear to which of them a request belongs. Close the first one. A test "
                "marked with `vcr` already has one."
            )
        _open.append(path)
    try:
        yield
    finally:
        _open.clear()


@contextmanager
def _placeholders(*, for_a_project: bool) -> Iterator[None]:
    """Provide credentials for clients that require some; a replay sends nothing."""
    if for_a_project:
        from unittest import mock

        found = SimpleNamespace(token=PLACEHOLDER, expired=False, quota_project_id=None)
        project = os.environ.get(PROJECT_VARIABLES[0], PLACEHOLDER)
        with mock.patch("google.auth.default", return_value=(found, project)):
            yield
        return
    name = KEY_VARIABLES[0]
    before = os.environ.get(name)
    if not environment_keys():
        os.environ[name] = PLACEHOLDER
    try:
        yield
    finally:
        if os.environ.get(name) == PLACEHOLDER:  # else the user has set another one since
            del os.environ[name]
            os.environ.update({} if before is None else {name: before})
