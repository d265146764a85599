"""Text, whole or in pieces -> text and tool calls: the plain form of the protocol alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

_LINE = re.compile(r"TOOL_CALL:\s*([^(]+)\((.*)\)\s*")


@dataclass(frozen=True)
class TextCall:
    """A call that was read whole."""

    name: str
    args: dict[str, Any]
    text: str


@dataclass(frozen=True)
class BrokenCall:
    """Something that is meant as a call and cannot be executed."""

    name: str | None
    text: str
    reason: str
    is_cut: bool = False


Piece = str | TextCall | BrokenCall


class TextToolParser:
    """Reads an answer in pieces."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self._names = list(tool_names)
        self._line = ""
        self._inside = False

    def feed(self, text: str) -> list[Piece]:
        """What is certain so far."""
        pieces: list[Piece] = []
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            piece = self._read(line)
            pieces.append(f"{piece}\n" if isinstance(piece, str) else piece)
            self._inside = False
        if self._line and (self._inside or self._line[:10] != "TOOL_CALL:"[: len(self._line)]):
            pieces.append(self._line)
            self._line, self._inside = "", True
        return [piece for piece in pieces if piece]

    def finish(self) -> list[Piece]:
        """What the end settles."""
        line, self._line = self._line, ""
        return [self._read(line)] if line else []

    def _read(self, line: str) -> Piece:
        if self._inside or not line.startswith("TOOL_CALL:"):
            return line
        found = _LINE.fullmatch(line)
        if not found:
            return BrokenCall(None, line, "This is no call.", is_cut=True)
        if found[1] not in self._names:
            return BrokenCall(found[1], line, f"There is no tool {found[1]!r}.")
        try:
            return TextCall(found[1], json.loads(found[2]), line)
        except ValueError:
            return BrokenCall(found[1], line, "The arguments are no JSON.")


def parse_text(text: str, tool_names: Collection[str]) -> list[Piece]:
    """A whole answer."""
    parser = TextToolParser(tool_names)
    return [*parser.feed(text), *parser.finish()]
