"""What becomes of the text that was read: calls, broken calls, or text as it was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.text_tools import spellings
from langchain_gemini_tools.text_tools.calls import NotACallError
from langchain_gemini_tools.text_tools.lines import LineMemory
from langchain_gemini_tools.text_tools.pieces import BrokenCall, TextCall
from langchain_gemini_tools.text_tools.values import CutError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.text_tools.calls import CallReader, Found
    from langchain_gemini_tools.text_tools.pieces import PieceWriter
    from langchain_gemini_tools.text_tools.source import Reading, Source

LINE_ENDS = ("", "\n", "\r")
TO_LINE_END = re.compile(r"[^\n]*")
_BLANKS = re.compile(r"[ \t]*")


class Output:
    """Takes what was read from the source, decides what it is, and writes it.

    `lines` remembers what the text says about the calls that come next.
    """

    def __init__(self, source: Source, writer: PieceWriter) -> None:
        self.lines = LineMemory()
        self._source = source
        self._writer = writer

    def attempt(
        self,
        reader: CallReader,
        body: Reading[None],
        skip_fenced: Callable[[], Reading[None]] | None = None,
    ) -> Reading[bool]:
        """Let a reader read; whether there are calls. What is broken or cut is one of them.

        Args:
            reader: Collects the calls.
            body: What it does.
            skip_fenced: In a fence, reads what is left of it when a call is broken.
        """
        try:
            yield from body
        except NotACallError:
            return False
        except UnreadableError as error:
            if not reader.is_meant:
                return False
            if reader.begun_at is None and (skip_fenced is None or not reader.is_marked):
                return reader.is_marked  # between two calls of a list: those before it stand
            start = self._source.offset if reader.begun_at is None else reader.begun_at
            yield from (skip_fenced or self._skip_broken)()
            reader.add_broken(start, str(error))
        except CutError:
            if reader.begun_at is None:
                return bool(reader.found)
            if not reader.is_meant and reader.name is None:
                return False
            reader.add_cut(reader.begun_at)
        return True

    def settle(self, reader: CallReader, *, is_call: bool, is_shown: bool) -> None:
        """Write all that was read: as calls, or as text when there are none or they are shown."""
        raw = self._source.take()
        if not is_call:
            self.add_text(raw)
            return
        body = raw.rstrip()
        if is_shown:
            self._writer.add_text(body)
            self.lines.see_shown_call()
        else:
            self._writer.add_calls(_make_piece(found, raw) for found in reader.found)
            self.lines.see_call()
        self.add_text(raw[len(body) :])

    def flow(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Pass text on as far as the pattern goes; return the next character, not read."""
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
        """Pass on what was read, as text."""
        self.add_text(self._source.take())

    def add_text(self, text: str) -> None:
        """Write text."""
        if text:
            self.lines.see_text(text)
            self._writer.add_text(text)

    def _skip_broken(self) -> Reading[None]:
        """Read to the end of a call that cannot be read."""
        source = self._source
        seen = source.seen()
        if seen.rstrip(" \t").endswith("\n"):  # it broke where a line begins: that line is not its
            return
        depth = _count_open(seen)
        while True:
            line = yield from source.run(TO_LINE_END)
            depth += _count_open(line)
            if depth <= 0 or not (yield from source.more()):
                return
            source.at += 1
            yield from source.run(_BLANKS)
            if (
                (yield from source.peek()) in LINE_ENDS
                or (yield from source.match(spellings.MARKERS))
                or (yield from source.match(spellings.FENCES))
            ):
                return


def _make_piece(found: Found, raw: str) -> TextCall | BrokenCall:
    text = raw[found.start : found.end].strip()
    if found.args is None or found.name is None:
        return BrokenCall(found.name, text, found.reason, found.is_cut)
    return TextCall(found.name, found.args, text)


def _count_open(text: str) -> int:
    """How many brackets stay open, in strings or not: a guess, for text that cannot be read."""
    opened = text.count("(") + text.count("[") + text.count("{")
    return opened - text.count(")") - text.count("]") - text.count("}")
