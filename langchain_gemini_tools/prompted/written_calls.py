"""Recognise tool calls that a model with function calling wrote as text instead of making them.

Gemini was trained to write calls as code, and at times the code is the answer: a `tool_code` block,
`print(default_api.f(a=1))`, a `<call_record>` tag. The rules:

1.  A call in one of these notations counts, whether or not its tool is bound: the fence, the tags
    and the namespace `default_api` are Gemini's own. A sentence may precede it. With text on both
    sides it is an explanation, unless a complete sentence precedes it: then the model went on to
    invent the result.
2.  Any other notation that `parser` reads counts if the answer consists of nothing but calls of
    bound tools, outside of a fence.
3.  What `parser` takes for an example is text: code in backticks, in other fences, after "for
    example:".

The parser is loaded only for an answer that contains one of the notations, or starts like a call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.wire.response import WrittenCall

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_gemini_tools.prompted.parser import ToolCallParser
    from langchain_gemini_tools.prompted.text import ParsedPiece

_SIGN = re.compile("default_api|tool_code|<call_record>")
_OPENINGS = (
    *("```tool_code", "~~~tool_code", "<tool_code>", "<call_record>", "tool_code"),
    *("print(default_api", "default_api.", "default_api:", "call:default_api", '{"tool_code"'),
    *("declaration:default_api", "[tool_code]", "<ctrl"),
)
"""What the first line of a call in Gemini's notation starts with."""
_FENCE = re.compile(r"(?:`{1,3}|~{1,3})[ \t]*(?:\w*)[ \t\r]*")
"""The line of a fence, or the start of one."""
_STARTS = ("{", "[", "<tool_call", "<|tool_call", "<function", "TOOL_CALL:", "call:", "print(")
"""What an answer that is nothing but calls may start with, apart from the name of a tool."""

_INVENTED_NAME = re.compile(r"default_api[.:](\w+(?:\.\w+)*)")
_OPENED = re.compile(
    r"(?:(?:```|~~~)[ \t]*tool_code|<tool_code>|<call_record>|^tool_code|\"tool_code\":)"
    r"[\s\"'\[]*(?:print\(\s*)?$",
    re.MULTILINE,
)
"""What stands right before a call in Gemini's notation."""
_CODE = re.compile(
    r"<call_record>.*|\[?tool_code\b[\]:]\s.*"
    r"|(?:<ctrl\d+>)?(?:call:|declaration:|\w+ *= *)?(?:print\( *)?default_api[.:]\w+"
    r" *[({][^\n]*[)}][\w.<>]*",
    re.DOTALL,
)
"""Answers in Gemini's notation that the parser does not read."""
_CALL_KEY = re.compile(r"""["'](?:name|action|tool|tool_name|function\w*)["']\s*:""", re.IGNORECASE)
_SENTENCE_END = (".", "!", "?", "\u2026")
_OUTPUT = "```tool_output"
_MAX_LINE = 60


class WrittenCallFinder:
    """Finds written calls in the answers to one request.

    Args:
        names: The names of the bound functions, as they are sent.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._starts = (*_STARTS, *names)

    def find(self, text: str) -> list[WrittenCall]:
        """Return the calls if the text is a call; none if it is an answer."""
        if not _SIGN.search(text) and not text.lstrip().startswith(self._starts):
            return []
        from langchain_gemini_tools.prompted.parser import parse_text

        pieces = parse_text(text, {*self._names, *_INVENTED_NAME.findall(text)})
        if not (_is_call_in_own_notation(pieces, text) or _is_nothing_but_calls(pieces, text)):
            if not _CODE.fullmatch(text.strip()):
                return []
            name = _INVENTED_NAME.search(text)
            return [WrittenCall(name[1] if name else None, text.strip())]
        return [
            WrittenCall(piece.name, piece.text) for piece in pieces if not isinstance(piece, str)
        ]

    def gate(self) -> WrittenCallGate:
        """Return what decides how long the text of a stream is held back."""
        return WrittenCallGate(self._names, self._starts)


class WrittenCallGate:
    """Decides whether the text of a stream may still become a written call.

    Only text that was held back can be requested again.

    Args:
        names: The names of the bound functions.
        starts: What an answer that is nothing but calls may start with.
    """

    def __init__(self, names: Collection[str], starts: tuple[str, ...]) -> None:
        self._names = names
        self._starts = starts
        self._parser: ToolCallParser | None = None
        self._start: str | None = ""
        """The answer so far; `None` once it is more than calls."""
        self._line: str | None = ""
        """The line so far; `None` once it cannot be the first one of a call."""
        self._is_after_fence = False
        self._is_call = False

    def holds(self, text: str) -> bool:
        """Return whether the text up to here has to be held back."""
        if self._is_call:
            return True
        if self._start is None and self._line is None and "\n" not in text:
            return False
        is_start = self._start is not None and self._holds_start(text)
        return self._holds_line(text) or is_start

    def _holds_start(self, text: str) -> bool:
        """Return whether the whole answer may be nothing but calls."""
        if self._parser is None:
            self._start = text = f"{self._start}{text}".lstrip()
            if not text.startswith(self._starts):
                if not any(start.startswith(text) for start in self._starts):
                    self._start = None
                return self._start is not None
            from langchain_gemini_tools.prompted.parser import ToolCallParser

            self._parser = ToolCallParser(self._names)
        pieces = self._parser.feed(text)
        if any(isinstance(piece, str) and piece.strip() for piece in pieces):
            self._start = None
        return self._start is not None

    def _holds_line(self, text: str) -> bool:
        """Return whether a call in Gemini's own notation has begun, or may have."""
        first, *others = text.split("\n")
        self._add_to_line(first)
        for following in others:
            self._is_after_fence = bool(self._line and _FENCE.fullmatch(self._line.strip()))
            self._line = ""
            self._add_to_line(following)
        return self._is_call or (
            self._line is not None and bool(self._line or self._is_after_fence)
        )

    def _add_to_line(self, text: str) -> None:
        if self._line is not None:
            self._line += text
            start = self._line.lstrip()
            self._is_call |= start.startswith(_OPENINGS)
            may_open = any(opening.startswith(start) for opening in _OPENINGS)
            if not (self._is_call or may_open or _FENCE.fullmatch(start)):
                self._line = None


def _is_call_in_own_notation(pieces: Sequence[ParsedPiece], text: str) -> bool:
    """Apply rule 1."""
    at = 0
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            continue
        at = max(text.find(piece.text, at), at)
        if "default_api" in piece.text or _OPENED.search(text[max(0, at - _MAX_LINE) : at]):
            before = _text_of(pieces[:number])
            after = _text_of(pieces[number:])
            is_introduced = bool(before) and not before.endswith(_SENTENCE_END)
            return not (is_introduced and after and not after.startswith(_OUTPUT))
    return False


def _text_of(pieces: Sequence[ParsedPiece]) -> str:
    return "".join(piece for piece in pieces if isinstance(piece, str)).strip()


def _is_nothing_but_calls(pieces: Sequence[ParsedPiece], text: str) -> bool:
    """Apply rule 2. An object with other keys is data, even if one is the name of a tool."""
    return (
        bool(pieces)
        and not _FENCE.match(text.lstrip())
        and all(
            not isinstance(piece, str)
            and (not piece.text.startswith("{") or bool(_CALL_KEY.search(piece.text)))
            for piece in pieces
        )
    )
