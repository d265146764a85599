"""Text in chunks: what is read from it, and the pieces that are written.

The text arrives in chunks and is read as if it were complete. The reading functions are generators:
a bare `yield` means "more text is needed". They read from top to bottom like any parser, and the
places where the text was split cannot change the result. Every character is looked at a bounded
number of times, and the text that waits for the next chunk is never longer than the longest word
that is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.words import Words

if TYPE_CHECKING:
    from langchain_gemini_tools.prompted.values import Json

_BRACKET_OR_QUOTE = re.compile(r"[{}\[\]\"]|\\.?", re.DOTALL)
_NOT_COMPARED = re.compile(r"[\s\\\"'\u201c\u201d]+")
"""A call is compared with results without these: a result that is JSON has more of them."""
_MAX_TAIL = 200
_SPACE = " \t\r\n"
_RESULT_START = f"\n{words.RESULT_MARKER}"
_FENCE = "```"
_FENCE_LINE = re.compile(rf"\s*{_FENCE}[^\n]*\n")
_FENCE_LINE_SO_FAR = re.compile(rf"\s*(?:`{{0,2}}|{_FENCE}[^\n]*)")

T = TypeVar("T")
Reading = Generator[None, None, T]
"""A read in progress: it yields when it needs more text, and returns what it read."""


# What is read


class Source:
    """The text so far. `chunk[at]` is the next character if `more` returns True.

    Args:
        text: The first chunk.
        is_closed: Whether the text is complete.
        stops: Words that end any value if they start a line; see `skip_space`.
    """

    def __init__(
        self, text: str = "", *, is_closed: bool = False, stops: Words | None = None
    ) -> None:
        self.chunk = text
        self.at = 0
        self.is_closed = is_closed
        self.stops = stops or Words(())
        self._start = 0
        self._kept: list[str] = []
        self._kept_length = 0

    def add(self, text: str) -> None:
        """Add the next chunk. Text that was read but not taken is set aside, not copied again."""
        if kept := self.chunk[self._start : self.at]:
            self._kept.append(kept)
            self._kept_length += len(kept)
        self.chunk = self.chunk[self.at :] + text
        self._start = self.at = 0

    @property
    def offset(self) -> int:
        """How many characters were read since the last `take`."""
        return self._kept_length + self.at - self._start

    def seen(self) -> str:
        """Return the text that was read since the last `take`."""
        last = self.chunk[self._start : self.at]
        return "".join([*self._kept, last]) if self._kept else last

    def take(self) -> str:
        """Return the text that was read since the last `take`, and forget it."""
        text = self.seen()
        self._kept, self._kept_length, self._start = [], 0, self.at
        return text

    def more(self) -> Reading[bool]:
        """Return whether there is a next character; wait until that is known."""
        while self.at >= len(self.chunk):
            if self.is_closed:
                return False
            yield
        return True

    def peek(self) -> Reading[str]:
        """Return the next character without reading it; empty at the end."""
        return self.chunk[self.at] if (yield from self.more()) else ""

    def run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read as many characters as the pattern matches: a repeated character class."""
        parts: list[str] = []
        while self.at < len(self.chunk) or (yield from self.more()):
            match = pattern.match(self.chunk, self.at)
            end = match.end() if match else self.at
            parts.append(self.chunk[self.at : end])
            self.at = end
            if end < len(self.chunk):
                break
        return "".join(parts) if len(parts) != 1 else parts[0]

    def match(self, words: Words) -> Reading[str]:
        """Return the longest of the words that comes next, without reading it; else empty."""
        while self.at < len(self.chunk) or (yield from self.more()):
            found, may_grow = words.match(self.chunk[self.at : self.at + words.longest])
            if not may_grow or self.is_closed:
                return found
            yield
        return ""

    def skip(self, words: Words) -> Reading[str]:
        """Read the longest of the words that comes next, and return it; else empty."""
        word = yield from self.match(words)
        self.at += len(word)
        return word


# What is written


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


def join_texts(pieces: Iterable[ParsedPiece]) -> list[ParsedPiece]:
    """Join adjacent texts and drop empty ones."""
    joined: list[ParsedPiece] = []
    kept = [piece for piece in pieces if piece]
    for is_text, group in groupby(kept, lambda piece: isinstance(piece, str)):
        found = list(group)
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

    White space next to calls is removed. Between two texts with calls in between, the longer of the
    two gaps remains (the one with more line breaks); before the first and after the last text,
    none. Other white space is unchanged. White space is held back until the next text or call
    decides which of the two it is.

    Args:
        source: The text.
        results: The texts of tool results. A model that repeats a call from them does not make it.
    """

    def __init__(self, source: Source, results: Iterable[str]) -> None:
        self.lines = LineMemory()
        self._source = source
        self._results = results
        self._pieces: list[ParsedPiece] = []
        self._space: list[str] = []
        self._gap: str | None = None
        self._has_text = False

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
        if text := self._source.take():
            self.lines.see_text(text)
            self._add_text(text)

    def settle(self, found: Sequence[FoundToolCall] | None) -> None:
        """Write what was read as these calls; as text if there are none or they are examples."""
        if found is None:
            self.flush()
            return
        raw = self._source.take()
        body = raw.rstrip()
        if self.lines.mentions_example:
            self._add_text(body)
            self.lines.see_example()
        else:
            self._gap = max(self._gap or "", "".join(self._space), key=_gap_size)
            self._space = []
            self._pieces += [self._make_piece(each, raw) for each in found]
        self.lines.see_text(raw[len(body) :])
        self._add_text(raw[len(body) :])

    def take(self) -> list[ParsedPiece]:
        """Return the pieces that are final; adjacent texts are joined."""
        pieces, self._pieces = join_texts(self._pieces), []
        return pieces

    def finish(self) -> list[ParsedPiece]:
        """Return the last pieces."""
        if self._gap is None:
            self._pieces.append(self._settle_space())
        return self.take()

    def _add_text(self, text: str) -> None:
        body = text.strip(_SPACE)
        if not body:
            self._space.append(text)
            return
        start = text.index(body[0])
        self._space.append(text[:start])
        self._pieces += [self._settle_space(), body]
        self._space = [text[start + len(body) :]]
        self._has_text = True

    def _settle_space(self) -> str:
        space, self._space = "".join(self._space), []
        if self._gap is not None:
            space = max(self._gap, space, key=_gap_size) if self._has_text else ""
            self._gap = None
        return space

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


# Text of a response before it is parsed


class OwnText:
    """Ends the text where the model begins to write a tool result itself.

    The request has a stop sequence for it, unless the user has set as many as the API allows. Some
    servers ignore it. What follows is based on an invented result: more calls, or an answer.
    """

    def __init__(self) -> None:
        self._held = "\n"
        """The end of the text, if a result may begin there; at first a line break before it."""
        self._is_first = True
        self._has_ended = False

    def feed(self, text: str) -> str:
        """Return the text that is final."""
        if self._has_ended:
            return ""
        before, end, _ = f"{self._held}{text}".partition(_RESULT_START)
        self._has_ended = bool(end)
        lengths = () if end else range(len(_RESULT_START) - 1, 0, -1)
        held = next((n for n in lengths if before.endswith(_RESULT_START[:n])), 0)
        self._held = before[len(before) - held :]
        return self._without_first_break(before[: len(before) - held])

    def finish(self) -> str:
        """Return the text that was held back."""
        rest, self._held = self._held, ""
        return self._without_first_break(rest)

    def _without_first_break(self, text: str) -> str:
        if not text or not self._is_first:
            return text
        self._is_first = False
        return text[1:]


class FenceRemover:
    """Removes a code fence around a JSON response; other text is unchanged."""

    def __init__(self) -> None:
        self._held = ""
        self._is_fenced: bool | None = None

    def feed(self, text: str) -> str:
        """Return the text that is final: everything except a fence or what may become one."""
        self._held += text
        if self._is_fenced is None:
            if _FENCE_LINE_SO_FAR.fullmatch(self._held):
                return ""
            line = _FENCE_LINE.match(self._held)
            self._is_fenced = line is not None
            self._held = self._held[line.end() :] if line else self._held
        end = len(self._held)
        if self._is_fenced:  # the last characters may be the closing fence
            end = len(self._held.rstrip().rstrip("`").rstrip())
        final, self._held = self._held[:end], self._held[end:]
        return final

    def finish(self) -> str:
        """Return the remaining text without the closing fence."""
        rest, self._held = self._held, ""
        if self._is_fenced:
            rest = rest.rstrip().removesuffix(_FENCE).rstrip()
        return rest
