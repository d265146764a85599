"""Where calls may stand in an answer: lines, fences, tags, and the prose around them.

The rules are written down in `parser.py`; here they are applied, from the start of one line to the
next. Whatever was read and turns out to be no call becomes text and is not looked at again: every
character is read once, however the text is made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.text_tools import spellings
from langchain_gemini_tools.text_tools.calls import CALL_RULE, CallReader, NotACallError, ToolNames
from langchain_gemini_tools.text_tools.output import LINE_ENDS, TO_LINE_END, Output
from langchain_gemini_tools.text_tools.source import Words
from langchain_gemini_tools.text_tools.values import CutError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_gemini_tools.text_tools.pieces import PieceWriter
    from langchain_gemini_tools.text_tools.source import Reading, Source

_TOKENS = Words(spellings.TOKENS)
_TOKEN_ENDS = (*LINE_ENDS, "<")
_BULLET = frozenset("-*+\u2022#0123456789.) \t_")
_MAX_BULLET = 8

_BLANKS = re.compile(r"[ \t]*")
_AFTER_LABEL = re.compile(r"[ \t*]*")
_AFTER_MARKER = re.compile(r"[\s*]*")
_DRESS = re.compile(r"[*`.)]*")
_SEPARATORS = re.compile(r"[ \t,;]*")
_BETWEEN_CALLS = re.compile(r"[\s,;]*")
_LANGUAGE = re.compile(r"[\w+\-#]*")
_NEWLINES = re.compile(r"\n*")
_TEXT = re.compile(r"(?:[^\n`<\[T]++|<(?=[^a-z/|])|\[(?=[^TI/])|T(?=[^O]))*+")
"""Text that nothing begins in; what needs a second look ends it."""
_CODE = re.compile(r"[^\n`]*")
_NO_TAG = re.compile(r"[^<]*")
_TICKS = re.compile(r"`*")
_FENCE_RUN = {"`": _TICKS, "~": re.compile(r"~*")}
_NO_FENCE = {"`": re.compile(r"[^`]*"), "~": re.compile(r"[^~]*")}
_NO_FENCE_IN_LINE = {"`": _CODE, "~": re.compile(r"[^\n~]*")}


class Scanner:
    """Reads an answer and writes its pieces.

    Args:
        source: The answer.
        writer: Takes the pieces.
        names: The declared tools.
    """

    def __init__(self, source: Source, writer: PieceWriter, names: Collection[str]) -> None:
        self._source = source
        self._output = Output(source, writer)
        self._names = ToolNames(names)
        firsts = (word[:1] for word in (*spellings.PREFIXES, spellings.PRINT, *names))
        self._beginnings = _BULLET.union("`~{[<tTfFaAmMoOrR", firsts)

    def scan(self) -> Reading[None]:
        """Read to the end. Ends when the source is closed."""
        while (yield from self._source.more()):
            if (yield from self._source.run(_NEWLINES)):
                self._output.flush()
            else:
                yield from self._scan_line()

    def _scan_line(self) -> Reading[None]:
        """Read from where a call may begin: to the line's end, or to where the next may begin."""
        source = self._source
        indent = yield from source.run(_BLANKS)
        char = yield from source.peek()
        if char not in self._beginnings:
            yield from self._scan_prose(is_shown=char == ">")
        elif (yield from source.match(spellings.MARKERS)):
            yield from self._scan_marked()
        elif (yield from source.match(spellings.FENCES)):
            yield from self._scan_fence(is_marked=False)
        elif opener := (yield from source.match(spellings.INLINE)):
            yield from self._scan_opener(opener)
        elif char in _BULLET or (yield from source.match(spellings.LABELS)):
            is_marked = yield from self._skip_bullet()
            yield from (self._scan_marked() if is_marked else self._scan_prose())
        elif (yield from self._may_be_calls(char, indent)):
            yield from self._scan_calls()
        else:
            yield from self._scan_prose()

    def _may_be_calls(self, char: str, indent: str) -> Reading[bool]:
        """Whether calls without a marker may begin here; a marker in another spelling is read."""
        source = self._source
        loose = yield from source.match(spellings.LOOSE_MARKERS)
        if loose:
            source.at += len(loose)
            yield from source.run(_BLANKS)
            return True
        if self._output.lines.is_inside_json or not char:
            return False
        return char in "{[" or (
            not indent and bool((yield from source.match(self._names.callables)))
        )

    def _skip_bullet(self) -> Reading[bool]:
        """Read a bullet, a number or asterisks, and a label; whether the marker follows."""
        source = self._source
        for _ in range(_MAX_BULLET):
            if (yield from source.peek()) not in _BULLET:
                break
            source.at += 1
        label = yield from source.match(spellings.LABELS)
        source.at += len(label)
        yield from source.run(_AFTER_LABEL)
        return bool((yield from source.match(spellings.MARKERS)))

    def _scan_marked(self) -> Reading[None]:
        """Read the marker, and what follows it."""
        reader = self._make_reader(is_marked=True)
        is_line_over = yield from self._skip_marker()
        if (yield from self._source.match(spellings.FENCES)):
            yield from self._scan_fence(is_marked=True)
            return
        is_call = yield from self._output.attempt(
            reader, self._read_marked(reader, is_line_over=is_line_over)
        )
        is_shown = self._output.lines.introduces_example
        yield from self._settle(reader, is_call=is_call, is_shown=is_shown)
        if is_call and not is_shown:
            yield from self._skip_dress()

    def _read_marked(self, reader: CallReader, *, is_line_over: bool) -> Reading[None]:
        """Read what follows the marker. Another line belongs to it only if it can be a call."""
        source = self._source
        is_call = (yield from source.peek()) in ("", "{", "[")
        if is_line_over and not is_call and not (yield from source.match(self._names.callables)):
            raise UnreadableError(CALL_RULE)
        yield from reader.read_construct()

    def _scan_inner_marker(self) -> Reading[None]:
        """Read a marker that follows on a sentence, to the line's end."""
        reader = self._make_reader(is_marked=True)

        def read() -> Reading[None]:
            if (yield from self._skip_marker()):
                raise NotACallError
            yield from self._read_calls(reader)

        is_call = yield from self._output.attempt(reader, read())
        yield from self._settle(
            reader, is_call=is_call, is_shown=self._output.lines.speaks_of_examples
        )

    def _skip_marker(self) -> Reading[bool]:
        """Read the marker, also a doubled one, and the space behind; whether its line ends."""
        source = self._source
        space = ""
        while (yield from source.match(spellings.MARKERS)):
            source.at += len(spellings.MARKER)
            space = yield from source.run(_AFTER_MARKER)
        return "\n" in space

    def _skip_dress(self) -> Reading[None]:
        """Read what models put behind a call: a full stop, asterisks, a comma, one bracket more."""
        yield from self._source.run(_DRESS)
        separators = yield from self._source.run(_SEPARATORS)
        self._source.take()
        self._output.add_text(separators.replace(",", "").replace(";", ""))

    def _scan_calls(self) -> Reading[None]:
        """Read calls without a marker: the line consists of them, or it is text."""
        reader = self._make_reader(is_marked=False)
        is_call = yield from self._output.attempt(reader, self._read_calls(reader))
        is_json = not is_call and (yield from self._is_json())
        yield from self._settle(
            reader, is_call=is_call, is_shown=self._output.lines.introduces_example
        )
        if is_json:
            self._output.lines.is_inside_json = True

    def _is_json(self) -> Reading[bool]:
        """Whether what was read, and is no call, is the beginning of some other JSON value."""
        seen = self._source.seen().lstrip()
        if seen.startswith("[") and seen.rstrip(" \t") == "[":
            return (yield from self._source.peek()) in ('"', "'", "[", "{")
        return seen.startswith(("{", "["))

    def _read_calls(self, reader: CallReader) -> Reading[None]:
        """Read constructs up to the end of a line, or to a leaked token."""
        while True:
            yield from reader.read_construct()
            yield from self._source.run(_SEPARATORS)
            if (yield from self._source.peek()) in LINE_ENDS or (
                yield from self._source.match(_TOKENS)
            ):
                return
            if (yield from self._source.match(spellings.MARKERS)):
                yield from self._skip_marker()
            elif reader.is_marked:
                raise NotACallError

    def _scan_fence(self, *, is_marked: bool) -> Reading[None]:
        """Read a fence: calls alone, or text to its end."""
        source = self._source
        char = source.chunk[source.at]
        fence = yield from source.run(_FENCE_RUN[char])
        is_bare = yield from source.match(spellings.MARKERS)
        language = "" if is_bare else (yield from source.run(_LANGUAGE)).lower()
        is_marked = is_marked or language in spellings.CALL_LANGUAGES
        is_loose = language in spellings.LOOSE_LANGUAGES
        if is_marked and not is_loose and language not in spellings.CALL_LANGUAGES:
            # A word of prose, and no language, where the line goes on behind it.
            is_marked = (yield from source.peek()) in LINE_ENDS
        if self._output.lines.introduces_example or not (is_marked or is_loose):
            self._output.flush()
            yield from self._pass_fence(fence)
            return
        reader = self._make_reader(is_marked=is_marked, is_explaining=not is_marked)
        is_call = yield from self._output.attempt(
            reader, self._read_fenced(reader, fence), lambda: self._skip_to_fence(fence)
        )
        is_closed = bool((yield from source.match(Words((fence,)))))
        if is_call or is_closed:
            yield from source.run(_FENCE_RUN[char])
        self._output.settle(reader, is_call=is_call, is_shown=False)
        if not is_call and not is_closed:
            yield from self._pass_fence(fence)

    def _read_fenced(self, reader: CallReader, fence: str) -> Reading[None]:
        """Read constructs up to the closing fence, which is left, or to the end of the text."""
        source = self._source
        is_marked = reader.is_marked
        closing = Words((fence,))
        while True:
            yield from source.run(_BETWEEN_CALLS)
            if (yield from source.match(closing)) or not (yield from source.more()):
                if not reader.found:
                    raise NotACallError
                return
            if token := (yield from source.match(_TOKENS)):
                source.at += len(token)
                continue
            reader.is_marked = is_marked
            if (yield from source.match(spellings.MARKERS)):
                reader.is_marked = True
                yield from self._skip_marker()
            yield from reader.read_construct()

    def _pass_fence(self, fence: str) -> Reading[None]:
        """Pass the rest of a fence on as text."""
        source = self._source
        closing = Words((fence,))
        pattern = _NO_FENCE_IN_LINE[fence[0]]
        while char := (yield from self._output.flow(pattern)):
            if char == "\n":
                pattern = TO_LINE_END
                source.at += 1
                self._output.flush()
                yield from source.run(_BLANKS)
            if (yield from source.match(closing)):
                yield from source.run(_FENCE_RUN[fence[0]])
                self._output.flush()
                return
            if char != "\n":
                source.at += 1

    def _skip_to_fence(self, fence: str) -> Reading[None]:
        """Read all before the closing fence."""
        closing = Words((fence,))
        while (yield from self._source.more()):
            yield from self._source.run(_NO_FENCE[fence[0]])
            if (yield from self._source.match(closing)):
                return
            yield from self._source.read(1)

    def _scan_opener(self, opener: str) -> Reading[None]:
        """Read a tag with its calls, drop a leaked token, or pass a thought on."""
        source = self._source
        if opener in spellings.TOKENS:
            self._output.flush()
            yield from self._drop_token(opener)
            return
        if opener in spellings.THOUGHTS:
            yield from self._pass_thought(Words((spellings.THOUGHTS[opener],)))
            return
        reader = self._make_reader(is_marked=True)
        source.at += len(opener)
        body = (
            reader.read_function_tag()
            if opener == spellings.FUNCTION_TAG
            else self._read_tagged(reader, Words((spellings.TAGS[opener],)))
        )
        is_call = yield from self._output.attempt(reader, body)
        is_shown = is_call and self._output.lines.speaks_of_examples
        yield from self._settle(reader, is_call=is_call, is_shown=is_shown)

    def _read_tagged(self, reader: CallReader, closing: Words) -> Reading[None]:
        """Read constructs up to the closing tag, or to something else."""
        source = self._source
        yield from source.run(_BETWEEN_CALLS)
        if not (yield from source.more()):
            raise CutError
        is_named = bool((yield from source.match(self._names.words)))
        reader.is_marked = is_named or source.chunk[source.at] in "{["
        while True:
            yield from reader.read_construct()
            yield from source.run(_BETWEEN_CALLS)
            if tag := (yield from source.match(closing)):
                source.at += len(tag)
                return
            if (yield from source.peek()) not in ("{", "["):
                return

    def _pass_thought(self, closing: Words) -> Reading[None]:
        """Pass a thought on as text: what a model considers, it does not do."""
        source = self._source
        while (yield from self._output.flow(_NO_TAG)):
            if tag := (yield from source.match(closing)):
                source.at += len(tag)
                self._output.flush()
                return
            source.at += 1

    def _drop_token(self, token: str) -> Reading[None]:
        """Read a leaked token and the role behind it, and forget both."""
        source = self._source
        source.at += len(token)
        follower = yield from source.peek()
        if token == spellings.END_OR_STRIKE and follower not in _TOKEN_ENDS:
            self._output.flush()
            yield from self._scan_prose()
            return
        source.take()
        if token not in spellings.ROLE_TOKENS:
            return
        role = yield from source.match(spellings.ROLES)
        source.at += len(role)
        follower = yield from source.peek()
        if follower not in _TOKEN_ENDS:
            self._output.flush()
            return
        source.at += follower == "\n"
        source.take()
        if follower == "\n":
            self._output.lines.see_text("\n")

    def _scan_prose(self, *, is_shown: bool = False) -> Reading[None]:
        """Pass text on, to the line's end or to where a call may begin."""
        source = self._source
        ticks = 0
        while char := (yield from self._output.flow(_CODE if ticks or is_shown else _TEXT)):
            if char == "\n":
                source.at += 1
                self._output.flush()
                return
            if char == "`":
                run = len((yield from source.run(_TICKS)))
                self._output.flush()
                if ticks in (0, run):
                    ticks = run - ticks
                continue
            if char == "T":
                if self._output.lines.has_ended_sentence and (
                    yield from source.match(spellings.MARKERS)
                ):
                    yield from self._scan_inner_marker()
                    return
            elif (yield from source.match(spellings.INLINE)):
                return
            source.at += 1

    def _settle(self, reader: CallReader, *, is_call: bool, is_shown: bool) -> Reading[None]:
        """Write what was read. After text, the rest of its line is prose."""
        self._output.settle(reader, is_call=is_call, is_shown=is_shown)
        if not is_call and self._output.lines.tail.strip():
            yield from self._scan_prose()

    def _make_reader(self, *, is_marked: bool, is_explaining: bool = False) -> CallReader:
        return CallReader(
            self._source, self._names, is_marked=is_marked, is_explaining=is_explaining
        )
