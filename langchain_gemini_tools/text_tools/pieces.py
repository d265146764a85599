"""What a parsed answer consists of, and the white space between it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPACE = " \t\r\n"


@dataclass(frozen=True)
class TextCall:
    """A call that was read whole: a declared name, and an object of arguments."""

    name: str
    args: dict[str, Any]
    text: str
    """As the model wrote it, without marker, tag or fence."""


@dataclass(frozen=True)
class BrokenCall:
    """Something that is meant as a call and cannot be executed."""

    name: str | None
    """As far as it could be read."""
    text: str
    """As the model wrote it."""
    reason: str
    """A sentence that the model can act on."""
    is_cut: bool = False
    """The text ended in the middle of it."""


Piece = str | TextCall | BrokenCall


class PieceWriter:
    """Collects pieces, and tidies the white space that touches calls.

    Between two texts with calls in between, the longer of the two gaps is left (the one with more
    line breaks); before the first and after the last text, nothing. White space that touches no
    call stays as it was. It is held until the next text or call tells which of the two it is.
    """

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._space: list[str] = []
        self._gap: str | None = None
        self._has_text = False

    def add_text(self, text: str) -> None:
        """Text of the answer, as it was."""
        body = text.strip(_SPACE)
        if not body:
            self._space.append(text)
            return
        start = text.index(body[0])
        self._space.append(text[:start])
        self._pieces += [self._settle_space(), body]
        self._space = [text[start + len(body) :]]
        self._has_text = True

    def add_calls(self, calls: Iterable[TextCall | BrokenCall]) -> None:
        """Calls, or none where only the protocol stood; the white space around is tidied."""
        self._gap = max(self._gap or "", "".join(self._space), key=_gap_size)
        self._space = []
        self._pieces += calls

    def take(self) -> list[Piece]:
        """The pieces that are certain; neighbouring texts are joined."""
        pieces, self._pieces = join_texts(self._pieces), []
        return pieces

    def finish(self) -> list[Piece]:
        """The last pieces."""
        if self._gap is None:
            self._pieces.append(self._settle_space())
        return self.take()

    def _settle_space(self) -> str:
        space, self._space = "".join(self._space), []
        if self._gap is not None:
            space = max(self._gap, space, key=_gap_size) if self._has_text else ""
            self._gap = None
        return space


def join_texts(pieces: list[Piece]) -> list[Piece]:
    """The same pieces, with neighbouring texts joined and empty ones left out."""
    joined: list[Piece] = []
    texts: list[str] = []
    for piece in [*pieces, None]:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if text := "".join(texts):
            joined.append(text)
        texts = []
        if piece is not None:
            joined.append(piece)
    return joined


def _gap_size(space: str) -> tuple[int, int]:
    return space.count("\n"), len(space)
