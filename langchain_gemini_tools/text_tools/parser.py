"""Text, whole or in pieces -> text and tool calls.

The protocol is one line per call: `TOOL_CALL: tool_name({"argument": "value"})`. Models write it in
other ways too, and they write about it. These rules decide what is a call:

1.  **The marker `TOOL_CALL:` at the start of a line is always meant as a call**, also indented,
    behind a bullet, a number, asterisks or a label such as `Action:`. What cannot be executed (an
    undeclared name, unreadable arguments, nothing at all) is a `BrokenCall`; only `TOOL_CALL: none`
    says that there is no call. The call may stand on the next line or in a fence, in any notation
    of rule 4. The place after a call counts as the start of a line, so several calls fit in one.
2.  The marker inside a line counts when a sentence ended before it (`Let me see. TOOL_CALL: f()`)
    and the line ends after the calls. Otherwise a sentence quotes it.
3.  Tags around calls (`<tool_call>`, `[TOOL_CALLS]`, `<function=f>`; all in `spellings.TAGS`) count
    anywhere in a line when an object, a list or a declared name follows. They, and a fence of the
    language `tool_code` or `tool_call`, are meant as calls, like the marker.
4.  Without any of these, a line counts when it consists of calls of *declared* tools alone: an
    object with a name and arguments, a list of such objects, `f(a=1)` (not indented),
    `f({"a": 1})`, `[f(a=1), g()]`, `print(default_api.f(a=1))`; it may go on over several lines.
    A fence without language, or of `json`, `python` or `text`, counts when it consists of such
    calls, or of lines with the marker, alone. An object or a list that named a declared tool and
    cannot be read, and a call whose arguments have no names, are each a `BrokenCall`. Everything
    else is text, and so is an undeclared name. Lines of a larger JSON value are text up to the
    next blank line.
5.  **Shown is not called.** Text in backticks, in a block quote, in `<think>` tags or in a fence
    of another kind is text. So is any call right after a line that announces an example: it ends
    with a colon or is a heading, and says so (`spellings.speaks_of_examples`). The announcement
    holds until the next text, or until a blank line behind the example.
6.  A call that the text's end cuts off is a `BrokenCall` with `is_cut`, never completed. A call
    that cannot be read ends with its line or, while its brackets are open, before a blank line,
    a marker or a fence; in a fence it ends with the fence.

Text reaches the user as it was, except white space that touches calls (`pieces.PieceWriter`),
markers with what stands before them, fences and tags around calls, punctuation right behind calls,
and leaked special tokens (`spellings.TOKENS`, with the role behind them) outside of backticks and
fences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.text_tools import spellings
from langchain_gemini_tools.text_tools.pieces import (
    BrokenCall,
    Piece,
    PieceWriter,
    TextCall,
    join_texts,
)
from langchain_gemini_tools.text_tools.scanner import Scanner
from langchain_gemini_tools.text_tools.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["BrokenCall", "Piece", "TextCall", "TextToolParser", "parse_text"]


class TextToolParser:
    """Reads an answer in pieces; where it is cut makes no difference to the whole.

    Args:
        tool_names: The declared tools.
    """

    def __init__(self, tool_names: Collection[str]) -> None:
        self._source = Source(stops=spellings.MARKERS)
        self._writer = PieceWriter()
        self._scan = Scanner(self._source, self._writer, tool_names).scan()

    def feed(self, text: str) -> list[Piece]:
        """What is certain so far, in order."""
        if text:
            self._source.add(text)
            next(self._scan)
        return self._writer.take()

    def finish(self) -> list[Piece]:
        """What is left, in order; an unfinished call is a `BrokenCall` with `is_cut`."""
        self._source.is_closed = True
        next(self._scan, None)
        return self._writer.finish()


def parse_text(text: str, tool_names: Collection[str]) -> list[Piece]:
    """A whole answer as text and calls, in order; neighbouring texts are joined."""
    parser = TextToolParser(tool_names)
    return join_texts([*parser.feed(text), *parser.finish()])
