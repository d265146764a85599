"""The pieces that are written, and what the text so far says about the calls that follow."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_gemini_tools.prompted.values import Json, Reading, Source

_BRACKET_OR_QUOTE = re.compile(r"[{}\[\]\"]|\\.?", re.DOTALL)
_NOT_COMPARED = re.compile(r"[\s\\\"'\u201c\u201d]+")
"""A call is compared with results without these: a result that is JSON has more of them."""
_MAX_TAIL = 200
_SPACE = " \t\r\n"


@dataclass(frozen=True)
class ParsedToolCall:
    """A complete tool call: a declared name and an object of arguments."""

    name: str
    args: dict[str, Json]
    text: str = ""
    """What the model wrote, without marker, tag or fence."""


@dataclass(frozen=True)
class BrokenToolCall:
    """Text that is intended as a tool call but cannot be executed."""

    name: str | None
    """The tool's name, if it could be parsed."""
    text: str = ""
    """What the model wrote."""
    reason: str = ""
    """A sentence that the model can act on."""
    is_cut: bool = False
    """Whether the text ended in the middle of the call."""


ParsedPiece = str | ParsedToolCall | BrokenToolCall


@dataclass(frozen=True)
class FoundToolCall:
    """A tool call within the construct, with the offsets of its start and end."""

    start: int
    end: int
    call: ParsedToolCall | BrokenToolCall
    is_marked: bool
    """Whether a marker, a tag or a fence says that this is a call."""


class PieceWriter:
    """Collects pieces, and removes white space next to calls.

    Between two texts with calls in between, the longer of the two gaps remains (the one with more
    line breaks); before the first and after the last text, none. Other white space is unchanged.
    White space is held back until the next text or call decides which of the two it is.
    """

    def __init__(self) -> None:
        self._pieces: list[ParsedPiece] = []
        self._space: list[str] = []
        self._gap: str | None = None
        self._has_text = False

    def add_text(self, text: str) -> None:
        """Add text."""
        body = text.strip(_SPACE)
        if not body:
            self._space.append(text)
            return
        start = text.index(body[0])
        self._space.append(text[:start])
        self._pieces += [self._settle_space(), body]
        self._space = [text[start + len(body) :]]
        self._has_text = True

    def add_calls(self, calls: Iterable[ParsedToolCall | BrokenToolCall]) -> None:
        """Add calls; none if only words of the protocol were removed."""
        self._gap = max(self._gap or "", "".join(self._space), key=_gap_size)
        self._space = []
        self._pieces += calls

    def take(self) -> list[ParsedPiece]:
        """Return the pieces that are final; adjacent texts are joined."""
        pieces, self._pieces = join_texts(self._pieces), []
        return pieces

    def finish(self) -> list[ParsedPiece]:
        """Return the last pieces."""
        if self._gap is None:
            self._pieces.append(self._settle_space())
        return self.take()

    def _settle_space(self) -> str:
        space, self._space = "".join(self._space), []
        if self._gap is not None:
            space = max(self._gap, space, key=_gap_size) if self._has_text else ""
            self._gap = None
        return space


def join_texts(pieces: Iterable[ParsedPiece]) -> list[ParsedPiece]:
    """Join adjacent texts and drop empty ones."""
    joined: list[ParsedPiece] = []
    for is_text, group in groupby(filter(None, pieces), lambda piece: isinstance(piece, str)):
        found: list[ParsedPiece] = list(group)
        joined += ["".join(map(str, found))] if is_text else found
    return joined


def _gap_size(space: str) -> tuple[int, int]:
    return space.count("\n"), len(space)


class OpenJson:
    """Counts the brackets of a JSON value that is written as text."""

    def __init__(self) -> None:
        self.depth = 0
        self._is_in_string = False
        self._is_escaped = False

    def see(self, text: str) -> None:
        """Count the brackets of some more text."""
        if text and self._is_escaped:
            text, self._is_escaped = text[1:], False
        for mark in _BRACKET_OR_QUOTE.findall(text):
            if mark == "\\":
                self._is_escaped = True
            elif mark == '"':
                self._is_in_string = not self._is_in_string
            elif not self._is_in_string:
                self.depth += (mark in "{[") - (mark in "}]")


class LineMemory:
    """The end of the current line, and whether the line before it introduces an example.

    Only the end of a line is kept, up to a limit, so that long lines cost no more than short ones.
    """

    def __init__(self) -> None:
        self.tail = ""
        self.introduces_example = False
        self.json: OpenJson | None = None
        """A larger JSON value that has started; its lines are not calls."""
        self._has_example = False
        self._is_example_line = False

    def see_text(self, text: str) -> None:
        """Record text that the user will see."""
        *lines, last = text.split("\n")
        for line in lines:
            self._keep(line)
            self._end_line()
        self._keep(last)

    def see_example(self) -> None:
        """Record a call that was an example."""
        self._has_example = True
        self._is_example_line = True

    @property
    def has_ended_sentence(self) -> bool:
        """Whether the line so far ends with a complete sentence and a blank."""
        sentence = self.tail.rstrip(" \t")
        return sentence != self.tail and sentence[-1:] in (".", "!", "?", "\u2026")

    @property
    def has_text(self) -> bool:
        """Whether the current line has text so far."""
        return bool(self.tail.strip())

    @property
    def mentions_example(self) -> bool:
        """Whether a call in the current line would be an example."""
        return self.introduces_example or words.mentions_example(self.tail)

    def _keep(self, text: str) -> None:
        self.tail = (self.tail + text[-_MAX_TAIL:])[-_MAX_TAIL:]
        if self.json:
            self.json.see(text)

    def _end_line(self) -> None:
        if self.tail.strip():
            self.introduces_example = words.introduces_example(self.tail)
            self._has_example = False
            if self.json and self.json.depth <= 0:
                self.json = None
        elif not self._is_example_line:
            self.json = None
            if self._has_example:
                self.introduces_example = False
        self.tail = ""
        self._is_example_line = False


class Output:
    """Writes what was read from a source: as text, or as tool calls.

    Args:
        source: The text.
        results: The texts of tool results. A model that repeats a call from them does not make it.
    """

    def __init__(self, source: Source, results: Iterable[str]) -> None:
        self.lines = LineMemory()
        self._source = source
        self._writer = PieceWriter()
        self._results = results
        self.take = self._writer.take
        self.finish = self._writer.finish

    def flow(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Write text as far as the pattern matches; return the next character, not read."""
        source = self._source
        while (yield from source.more()):
            match = pattern.match(source.chunk, source.at)
            source.at = match.end() if match else source.at
            self.flush()
            if source.at < len(source.chunk):
                return source.chunk[source.at]
        self.flush()
        return ""

    def flush(self) -> None:
        """Write what was read as text."""
        self._add_text(self._source.take())

    def settle(self, found: Sequence[FoundToolCall] | None) -> None:
        """Write what was read as these calls; as text if there are none or they are examples."""
        if found is None:
            self.flush()
            return
        raw = self._source.take()
        body = raw.rstrip()
        if self.lines.mentions_example:
            self._writer.add_text(body)
            self.lines.see_example()
        else:
            self._writer.add_calls(self._make_piece(each, raw) for each in found)
        self._add_text(raw[len(body) :])

    def _add_text(self, text: str) -> None:
        if text:
            self.lines.see_text(text)
            self._writer.add_text(text)

    def _make_piece(self, found: FoundToolCall, raw: str) -> ParsedToolCall | BrokenToolCall:
        call, text = found.call, raw[found.start : found.end].strip()
        if isinstance(call, ParsedToolCall) and not found.is_marked and self._is_quoted(text):
            return BrokenToolCall(call.name, text, words.render_quoted(call.name))
        return replace(call, text=text)

    def _is_quoted(self, call: str) -> bool:
        return _NOT_COMPARED.sub("", call) in self._compared_results

    @cached_property
    def _compared_results(self) -> str:
        return "\n".join(_NOT_COMPARED.sub("", result) for result in self._results)
