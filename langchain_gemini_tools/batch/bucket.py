"""Files in the user's bucket, read and written through fsspec."""

from __future__ import annotations

import io
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiConnectionError,
    GeminiNotFoundError,
    GeminiPermissionError,
    GeminiToolsError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

EXTRA = "pip install 'langchain-gemini-tools[vertex-batch]'"
_BUFFER_BYTES = 1 << 20


class Bucket:
    """Files in Cloud Storage, through fsspec.

    Args:
        credentials: Of `google.auth`; None lets fsspec find some.
    """

    def __init__(self, credentials: object) -> None:
        # The name of the argument is that of gcsfs.
        self._options = {"token": credentials} if credentials else {}

    def open(self, url: str) -> tuple[Any, str]:
        """Return fsspec's file system, and the path in it.

        Raises:
            InvalidOptionError: fsspec, or gcsfs, is not installed.
        """
        try:
            from fsspec.core import url_to_fs

            with _mapping_errors(url):
                system, path = url_to_fs(url, **self._options)
        except ImportError as error:
            raise InvalidOptionError(
                f"Batch jobs on Vertex AI read and write your bucket with gcsfs: {EXTRA}."
            ) from error
        return system, path

    @contextmanager
    def writing(self, url: str) -> Iterator[BinaryIO]:
        """Write a file, which exists once it is complete."""
        system, path = self.open(url)
        with _mapping_errors(url), system.open(path, "wb") as file:
            yield file

    def find_predictions(self, url: str) -> list[Iterator[bytes]]:
        """Return the lines of each file with results in a folder.

        While a job runs, results come in further files, which have `incremental_predictions` in
        their path (reported). They count only if the job ended without the others.
        """
        system, path = self.open(url)
        with _mapping_errors(url):
            system.invalidate_cache()
            names = sorted(name for name in system.find(path) if name.endswith(".jsonl"))
        final = [name for name in names if re.search(r"/predictions[^/]*$", name)]
        final = [name for name in final if "/incremental_" not in name]
        chosen = final or [name for name in names if "predictions" in name]
        return [_read_lines(system, name, url) for name in chosen]

    def delete(self, url: str) -> None:
        """Delete a folder, if it exists."""
        system, path = self.open(url)
        with suppress(GeminiNotFoundError), _mapping_errors(url):
            system.invalidate_cache()
            system.rm(path, recursive=True)


def _read_lines(system: Any, path: str, url: str) -> Iterator[bytes]:
    with _mapping_errors(url), system.open(path, "rb") as file:
        yield from io.BufferedReader(file, _BUFFER_BYTES)


@contextmanager
def _mapping_errors(url: str) -> Iterator[None]:
    """Map errors of the storage to ours, of which those that may pass are retried."""
    try:
        yield
    except (GeminiToolsError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001 - of fsspec, gcsfs, aiohttp or google.auth
        ours = _map_error(error, url)
        # Tracebacks print the cause as well.
        ours.__cause__ = error if redact(repr(error), secrets_in_use()) == repr(error) else None
    else:
        return
    raise ours


def _map_error(error: Exception, url: str) -> GeminiAPIError:
    code = getattr(error, "code", None)  # of gcsfs
    reason = redact(str(error) or type(error).__name__, secrets_in_use())
    if isinstance(error, FileNotFoundError):
        return GeminiNotFoundError(f"{url} does not exist: {reason}")
    if isinstance(error, PermissionError) or code in (401, 403):
        return GeminiPermissionError(f"Access to {url} is denied: {reason}")
    return GeminiConnectionError(f"{url} cannot be read or written: {reason}")
