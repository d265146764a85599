"""Text that arrives in chunks, read as if it were complete.

The reading functions are generators: a bare `yield` means "more text is needed". They read from
top to bottom like any parser, and the places where the text was split cannot change the result.
Every character is looked at a bounded number of times, and the text that waits for the next chunk
is never longer than the longest word that is searched for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import re

T = TypeVar("T")
Reading = Generator[None, None, T]
"""A read in progress: it yields when it needs more text, and returns what it read."""


class Words:
    """A set of fixed words to search for.

    Args:
        words: The words; empty ones are skipped.
        is_any_case: Whether `tool_call` also matches `Tool_Call`. The words must be lower case.
    """

    def __init__(self, words: Iterable[str], *, is_any_case: bool = False) -> None:
        self.is_any_case = is_any_case
        self.longest = 0
        self._by_first: dict[str, list[str]] = {}
        for word in sorted(set(words), key=len, reverse=True):
            if word:
                self.longest = max(self.longest, len(word))
                self._by_first.setdefault(word[0], []).append(word)

    def match(self, text: str) -> tuple[str, bool]:
        """Return the longest word that `text` starts with, and whether it could still grow."""
        if self.is_any_case:
            text = text.lower()
        may_grow = False
        for word in self._by_first.get(text[:1], ()):
            if len(word) > len(text):
                may_grow = may_grow or word.startswith(text)
            elif text.startswith(word):
                return word, may_grow
        return "", may_grow


class Source:
    """The text so far. `chunk[at]` is the next character if `more` returns True.

    Args:
        text: The first chunk.
        is_closed: Whether the text is complete.
        stops: Words that end any value if they start a line; see `values.skip_space`.
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
        if self._kept:
            self._kept = []
            self._kept_length = 0
        self._start = self.at
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

    def read(self, count: int) -> Reading[str]:
        """Read `count` characters, or fewer at the end."""
        parts: list[str] = []
        while count and (yield from self.more()):
            parts.append(self.chunk[self.at : self.at + count])
            self.at += len(parts[-1])
            count -= len(parts[-1])
        return "".join(parts)

    def match(self, words: Words) -> Reading[str]:
        """Return the longest of the words that comes next, without reading it; else empty."""
        while self.at < len(self.chunk) or (yield from self.more()):
            found, may_grow = words.match(self.chunk[self.at : self.at + words.longest])
            if not may_grow or self.is_closed:
                return found
            yield
        return ""
