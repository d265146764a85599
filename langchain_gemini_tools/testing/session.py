"""One cassette, open: what is true while it plays or records, and how it is saved.

A recording that ends with an exception never takes the place of a cassette: the old file stays,
and what was recorded is put beside it. Where there was none yet, it becomes the cassette.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from langchain_gemini_tools.testing.cassettes import USAGE_VARIABLE
from langchain_gemini_tools.testing.errors import CassetteFileError, CassetteInUseError
from langchain_gemini_tools.testing.files import write_file
from langchain_gemini_tools.testing.saving import render_file
from langchain_gemini_tools.testing.secrets import KEY_VARIABLES, checked_secrets
from langchain_gemini_tools.testing.tape import Keeper, Tape, is_rerecorded, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_logger = logging.getLogger(__name__)

PLACEHOLDER = "replayed-without-a-key"
FAILED = ".failed.yaml"

_lock = threading.Lock()
_open: list[str] = []
"""The cassette that is open. vcrpy patches the HTTP libraries for the whole process."""


class Session:
    """A cassette of vcrpy's, opened as Gemini needs it.

    Args:
        vcr: The `vcr.VCR` with its user's settings.
        path: The cassette, as `vcr.use_cassette` takes it.
        settings: Further arguments of `vcr.use_cassette`, and `secrets`: values that are taken
            out of what is saved, besides the credentials.
        has_failed: Whether the run is a failure although no exception is seen here.
    """

    def __init__(
        self,
        vcr: Any,
        path: str | Path,
        settings: dict[str, Any],
        *,
        has_failed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._secrets = checked_secrets(settings.pop("secrets", ()))
        self._has_failed = has_failed
        prepare(vcr, self._secrets)
        config = vcr.get_merged_config(path=path, **settings)
        is_read = not is_rerecorded(config["record_mode"])
        self._keeper = Keeper(config["persister"], is_read=is_read)
        # Recorded in any case: what becomes of it is decided below.
        config |= {"persister": self._keeper, "record_on_exception": True}
        self._context = Tape.use(**config)
        self._path = str(path)
        self._stack = ExitStack()

    def __enter__(self) -> Tape:
        with ExitStack() as stack:
            stack.enter_context(_the_only_one(self._path))
            try:
                tape: Tape = stack.enter_context(self._context)
            except (CassetteFileError, OSError, ValueError) as error:
                raise CassetteFileError(f"{self._path} cannot be replayed. {error}") from error
            if tape.write_protected:
                stack.enter_context(_placeholders(for_a_project=tape.uses_vertex_projects))
            tape.secrets = self._secrets
            self._tape = tape
            self._stack = stack.pop_all()
        return tape

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        _note_usage(self._tape)
        if self._keeper.kept is None or self._tape.write_protected:
            return
        text = render_file(self._keeper.kept, self._secrets)
        path = Path(self._tape.file_path)
        if error is None and not self._has_failed():
            write_file(path, text)
            return
        beside = path.with_suffix(FAILED) if path.exists() else path
        write_file(beside, text)
        told = _explain(path, beside)
        _logger.warning("%s", told)
        if error is not None:
            error.add_note(told)


def _explain(path: Path, beside: Path) -> str:
    if beside == path:
        return f"The run failed; what was recorded until then is in {path}."
    return (
        f"The run failed, so the cassette {path} is as it was; what was recorded until then is in "
        f"{beside}. Rename it if it is what you want."
    )


def _note_usage(tape: Tape) -> None:
    """Tell the audit what nobody asked for, where somebody wants to know."""
    if (path := os.environ.get(USAGE_VARIABLE)) and tape.write_protected:
        noted = {"cassette": str(Path(tape.file_path).resolve()), "unused": tape.unused}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")


@contextmanager
def _the_only_one(path: str) -> Iterator[None]:
    with _lock:
        if _open:
            raise CassetteInUseError(
                f"The cassette {path!r} cannot be opened while {_open[0]!r} is open: nobody could "
                "tell to which one a request belongs. Close the first one; in a test marked with "
                "`vcr` there is one already."
            )
        _open.append(path)
    try:
        yield
    finally:
        _open.clear()


@contextmanager
def _placeholders(*, for_a_project: bool) -> Iterator[None]:
    """Credentials for clients that insist on some; a replay sends nothing."""
    with ExitStack() as stack:
        if for_a_project:
            found = SimpleNamespace(token=PLACEHOLDER, expired=False, quota_project_id=None)
            project = os.environ.get("GOOGLE_CLOUD_PROJECT", PLACEHOLDER)
            stack.enter_context(mock.patch("google.auth.default", return_value=(found, project)))
        elif not any(map(os.environ.get, KEY_VARIABLES)):
            stack.enter_context(mock.patch.dict(os.environ, {KEY_VARIABLES[0]: PLACEHOLDER}))
        yield
