"""Turn what the scanner has read into pieces: text, tool calls, and broken tool calls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.values import CutError, NotACallError, UnreadableError
from langchain_gemini_tools.prompted.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_gemini_tools.prompted.call_reader import FoundToolCall, ToolCallReader
    from langchain_gemini_tools.prompted.values import Json
    from langchain_gemini_tools.prompted.words import Reading, Source

LINE_ENDS = ("", "\n", "\r")
_TO_LINE_END = re.compile(r"[^\n]*")
FENCE_RUN = {"`": re.compile(r"`*"), "~": re.compile(r"~*")}
_NO_FENCE_IN_LINE = {"`": re.compile(r"[^\n`]*"), "~": re.compile(r"[^\n~]*")}
_NO_TAG = re.compile(r"[^<]*")
_LINK = re.compile(r"\[[^\[\]]*\]\(")
"""A link of Markdown, which may have the form of a call as its text."""
_BRACKET_OR_QUOTE = re.compile(r"[{}\[\]\"]|\\.?", re.DOTALL)
_NOT_COMPARED = re.compile(r"[\s\\\"'\u201c\u201d]+")
_MAX_TAIL = 200
_SPACE = " \t\r\n"


@dataclass(frozen=True)
class ParsedToolCall:
    """A complete tool call: a declared name and an object of arguments."""

    name: str
    args: dict[str, Json]
    text: str
    """What the model wrote, without marker, tag or fence."""


@dataclass(frozen=True)
class BrokenToolCall:
    """Text that is intended as a tool call but cannot be executed."""

    name: str | None
    """The tool's name, if it could be parsed."""
    text: str
    """What the model wrote."""
    reason: str
    """A sentence that the model can act on."""
    is_cut: bool = False
    """Whether the text ended in the middle of the call."""


ParsedPiece = str | ParsedToolCall | BrokenToolCall


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


def join_texts(pieces: list[ParsedPiece]) -> list[ParsedPiece]:
    """Join adjacent texts and drop empty ones."""
    joined: list[ParsedPiece] = []
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


class Quotations:
    """Texts that others wrote. A model that repeats a call from them does not make it.

    White space, quotes and backslashes are not compared: a result that is JSON has more of them.

    Args:
        texts: The texts; they are read when the first call is looked up.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self._compared: str | None = None

    def __contains__(self, call: str) -> bool:
        if self._compared is None:
            self._compared = "\n".join(map(_without_quotes, self._texts))
        return _without_quotes(call) in self._compared


def _without_quotes(text: str) -> str:
    return _NOT_COMPARED.sub("", text)


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
    """Decides what the text read so far is, and writes it.

    `lines` remembers what the text says about the calls that follow.
    """

    def __init__(self, source: Source, writer: PieceWriter, quotations: Quotations) -> None:
        self.lines = LineMemory()
        self._source = source
        self._writer = writer
        self._quotations = quotations

    def attempt(
        self,
        reader: ToolCallReader,
        body: Reading[None],
        skip_fenced: Callable[[], Reading[None]] | None = None,
    ) -> Reading[bool]:
        """Run a read; return whether it found calls, complete, broken or cut off.

        Args:
            reader: Collects the calls.
            body: The read to run.
            skip_fenced: In a fence, reads the rest of the fence after a broken call.
        """
        try:
            yield from body
        except NotACallError:
            return False
        except UnreadableError as error:
            if not reader.is_intended and not reader.is_tentative:
                return False
            if reader.begun_at is None and skip_fenced is None and reader.is_marked:
                return True  # between two calls of a list: keep those before the error
            start = self._source.offset if reader.begun_at is None else reader.begun_at
            yield from (skip_fenced or self._skip_broken)()
            seen = self._source.seen()
            if not reader.is_intended and not reader.names.are_called_in(seen[start:]):
                return False
            if not reader.is_marked and _LINK.match(seen.strip()):
                return False
            reader.add_broken(start, str(error))
        except CutError:
            if not reader.is_intended and (reader.is_tentative or reader.name is None):
                return False
            if reader.begun_at is None:
                return bool(reader.found)
            reader.add_cut(reader.begun_at)
        return True

    def settle(self, reader: ToolCallReader, *, is_call: bool, is_example: bool) -> bool:
        """Write what was read: as calls, or as text if there are none or they are examples.

        Return whether it is text, and its last line goes on.
        """
        raw = self._source.take()
        if not is_call:
            self.add_text(raw)
            return bool(self.lines.tail.strip())
        body = raw.rstrip()
        if is_example:
            self._writer.add_text(body)
            self.lines.see_example()
        else:
            self._writer.add_calls(self._make_piece(found, raw) for found in reader.found)
        self.add_text(raw[len(body) :])
        return False

    def _make_piece(self, found: FoundToolCall, raw: str) -> ParsedToolCall | BrokenToolCall:
        text = raw[found.start : found.end].strip()
        if found.args is None or found.name is None:
            return BrokenToolCall(found.name, text, found.reason, found.is_cut)
        if not found.is_marked and text in self._quotations:
            return BrokenToolCall(found.name, text, words.render_quoted(found.name))
        return ParsedToolCall(found.name, found.args, text)

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

    def write_fence(self, fence: str) -> Reading[None]:
        """Write the rest of a fence as text."""
        source = self._source
        closing = Words((fence,))
        pattern = _NO_FENCE_IN_LINE[fence[0]]
        while char := (yield from self.flow(pattern)):
            if char == "\n":
                pattern = _TO_LINE_END
                source.at += 1
                self.flush()
                yield from source.run(words.BLANKS)
            if (yield from source.match(closing)):
                yield from source.run(FENCE_RUN[fence[0]])
                self.flush()
                return
            if char != "\n":
                source.at += 1

    def write_thought(self, closing: Words) -> Reading[None]:
        """Write a thought as text: calls that a model only considers are not calls."""
        source = self._source
        while (yield from self.flow(_NO_TAG)):
            if tag := (yield from source.match(closing)):
                source.at += len(tag)
                self.flush()
                return
            source.at += 1

    def flush(self) -> None:
        """Write what was read as text."""
        self.add_text(self._source.take())

    def add_text(self, text: str) -> None:
        """Write text."""
        if text:
            self.lines.see_text(text)
            self._writer.add_text(text)

    def _skip_broken(self) -> Reading[None]:
        """Read to the end of a broken call."""
        source = self._source
        seen = source.seen()
        if seen.rstrip(" \t").endswith("\n"):  # the error is in a line after the call
            return
        depth = _count_open(seen)
        while True:
            line = yield from source.run(_TO_LINE_END)
            depth += _count_open(line)
            if depth <= 0 or not (yield from source.more()):
                return
            source.at += 1
            yield from source.run(words.BLANKS)
            if (
                (yield from source.peek()) in LINE_ENDS
                or (yield from source.match(words.MARKERS))
                or (yield from source.match(words.FENCES))
            ):
                return


def _count_open(text: str) -> int:
    """Estimate how many brackets stay open: in broken calls, strings cannot be recognised."""
    opened = text.count("(") + text.count("[") + text.count("{")
    return opened - text.count(")") - text.count("]") - text.count("}")
