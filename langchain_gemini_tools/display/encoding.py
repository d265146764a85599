"""Output that a stream's encoding has no signs for: redirected output on Windows, `LC_ALL=C`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterable


def forgiving(file: TextIO) -> TextIO:
    """The stream itself, or one before it that writes `?` for what it cannot write."""
    encoding = (getattr(file, "encoding", None) or "utf-8").lower().replace("-", "")
    return file if encoding.startswith("utf") else cast("TextIO", _Forgiving(file))


class _Forgiving:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        encoding = self._file.encoding
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
