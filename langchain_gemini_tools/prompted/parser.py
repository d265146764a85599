"""Parse text, complete or in chunks, into text and tool calls.

The protocol is one line per call: `TOOL_CALL: tool_name({"argument": "value"})`. Models write calls
in other ways too, and they write about the protocol. These rules decide what is a call:

1.  **The marker `TOOL_CALL:` at the start of a line always means a call**, even if it is indented
    or follows a bullet, an emoji, a number, asterisks or a label such as `Action:`. What cannot be
    executed (an undeclared name, unreadable arguments, nothing at all) is a `BrokenToolCall`; only
    `TOOL_CALL: none` means that nothing is called. The call may be on the next line or in a fence,
    in any notation of rule 4. The position after a call counts as the start of a line, so several
    calls fit in one.
2.  The marker inside a line counts if a sentence ended before it (`Let me see. TOOL_CALL: f()`),
    or announces a call, and the line ends after the calls. Otherwise the sentence only mentions it.
3.  Tags around calls (`<tool_call>`, `[TOOL_CALLS]`, `<function=f>`; all in `words.TAGS`) count
    anywhere in a line if an object, a list or a declared name follows. Like the marker, they and a
    fence of the language `tool_code` or `tool_call` mean calls.
4.  Without any of these, a line counts if it consists only of calls of *declared* tools: an object
    with a name and arguments, a list of such objects, `{"f": {"a": 1}}`, `f(a=1)` (not indented),
    `f({"a": 1})`, `[f(a=1), g()]`, `["f(a=1)"]`, `print(default_api.f(a=1))`, `f` and an object in
    the next line, a ReAct step (`Action: f`, `Action Input: {"a": 1}`); it may span several lines,
    and follow an announcement in the same line (`Here is the call: [f(a=1)]`). A fence without
    language, or of `json`, `python`, `text` or `xml`, counts if it consists only of such calls or
    of lines with the marker or a tag. An object that has named a declared tool but cannot be parsed
    is a `BrokenToolCall`, and so is a call whose arguments have no names. **A list that names a
    declared tool is always read or reported**: a call of an undeclared tool in it is a
    `BrokenToolCall`, wherever it stands. Everything else is text, undeclared names included. The
    lines of a larger JSON value are text up to its end or the next blank line.
5.  **Examples are not calls.** Text in backticks, in a block quote, in `<think>` tags or in a fence
    of another kind is text. So is any call in a line whose last sentence mentions an example
    (`words.mentions_example`), or right after a line that introduces one: it mentions an example,
    and ends with a colon or is a heading. This applies up to the end of the next line with text, or
    to a blank line after the example. A call without a marker that stands in a tool's result is a
    quotation, and reported.
6.  A call that the end of the text cuts off is a `BrokenToolCall` with `is_cut`, never completed. A
    broken call ends with its line or, while its brackets are open, before a blank line, a marker or
    a fence; in a fence it ends with the fence.

Text is passed on unchanged, except for white space next to calls (`text.Output`), markers
and what precedes them, fences and tags around calls, punctuation right after calls, and leaked
special tokens (`words.TOKENS`, with the role after them) outside of backticks and fences.

Text that turns out not to be a call becomes text and is not parsed again: every character is read
once, so the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.call_reader import CALL_RULE, NotACallError, ToolCallReader
from langchain_gemini_tools.prompted.text import OpenJson, Output, Source, join_texts
from langchain_gemini_tools.prompted.values import CutError, UnreadableError
from langchain_gemini_tools.prompted.words import LINE_ENDS, Words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langchain_gemini_tools.prompted.text import ParsedPiece, Reading


_TOKENS = Words(words.TOKENS)
_TOKEN_ENDS = (*LINE_ENDS, "<")
_MAX_BULLET = 8
_JSON_STARTS = ("{", "[")

_AFTER_LABEL = re.compile(r"[ \t*]*")
_AFTER_MARKER = re.compile(r"[\s*]*")
_SEPARATORS = re.compile(r"[ \t,;]*")
_AFTER_LIST = re.compile(r"[ \t,;.*`]*")
_BETWEEN_CALLS = re.compile(r"[\s,;]*")
_LANGUAGE = re.compile(r"[\w+\-#]*")
_NEWLINES = re.compile(r"\n*")
_TO_LINE_END = re.compile(r"[^\n]*")
_TEXT = re.compile(r"(?:[^\n`<\[T:]++|<(?=[^a-z/|<])|\[(?=[^TI/])|T(?=[^O])|:(?=[^ \t]))*")
"""Text in which no tag, token, marker or announced call can start."""
_CODE = re.compile(r"[^\n`]*")
_NO_TAG = re.compile(r"[^<]*")
_TICKS = re.compile(r"`*")
_FENCE_RUN = {"`": _TICKS, "~": re.compile(r"~*")}
_NO_FENCE = {"`": re.compile(r"[^`]*"), "~": re.compile(r"[^~]*")}
_NO_FENCE_IN_LINE = {"`": _CODE, "~": re.compile(r"[^\n~]*")}


class ToolCallParser:
    """Parses text in chunks; where the text is split does not change the result.

    Args:
        tool_names: The declared tools.
        results: The texts of tool results. Calls without a marker that stand in one of them are
            quotations.
    """

    def __init__(self, tool_names: Collection[str], results: Iterable[str] = ()) -> None:
        self._source = Source(stops=words.MARKERS)
        self._output = Output(self._source, results)
        self._lines = self._output.lines
        self._names = words.ToolNames(tool_names)
        self._make_reader = partial(ToolCallReader, self._source, self._names)
        self._reading = self._scan()

    def feed(self, text: str) -> list[ParsedPiece]:
        """Return the pieces that this chunk makes final, in order."""
        if text:
            self._source.add(text)
            next(self._reading)
        return self._output.take()

    def finish(self) -> list[ParsedPiece]:
        """Return the remaining pieces; an unfinished call is a `BrokenToolCall` with `is_cut`."""
        self._source.is_closed = True
        next(self._reading, None)
        return self._output.finish()

    def _scan(self) -> Reading[None]:
        """Read until the source is closed and empty."""
        while (yield from self._source.more()):
            if (yield from self._source.run(_NEWLINES)):
                self._output.flush()
            else:
                yield from self._scan_line()

    def _scan_line(self) -> Reading[None]:
        """Read from where a call may start to the end of the line, or to the next such place."""
        source = self._source
        indent = yield from source.run(words.BLANKS)
        char = yield from source.peek()
        if (yield from source.match(words.MARKERS)):
            yield from self._scan_marked()
        elif (yield from source.match(words.FENCES)):
            yield from self._scan_fence(is_marked=False)
        elif opener := (yield from source.match(words.INLINE)):
            yield from self._scan_inline(opener)
        elif words.is_bullet(char) or (yield from source.match(words.LABELS)):
            yield from self._scan_labelled()
        elif (yield from source.skip(words.LOOSE_MARKERS)):
            yield from source.run(words.BLANKS)
            yield from self._scan_calls()
        elif not self._lines.json and (
            char in _JSON_STARTS
            or (not indent and (yield from source.match(self._names.callables)))
        ):
            yield from self._scan_calls(may_be_json=char in _JSON_STARTS)
        else:
            yield from self._scan_prose(is_example=char == ">")

    # Lines that may be calls

    def _scan_labelled(self) -> Reading[None]:
        """Read a line that starts with a bullet, a number, asterisks or a label."""
        source = self._source
        for _ in range(_MAX_BULLET):
            if not words.is_bullet((yield from source.peek())):
                break
            source.at += 1
        label = yield from source.skip(words.LABELS)
        yield from source.run(_AFTER_LABEL)
        if (yield from source.match(words.MARKERS)):
            yield from self._scan_marked()
        elif label == words.ACTION and (yield from source.match(self._names.callables)):
            reader = self._make_reader(is_marked=False)
            yield from self._try_line(reader, reader.read_action())
        else:
            yield from self._scan_prose()

    def _scan_marked(self) -> Reading[None]:
        """Read the marker and what follows it."""
        reader = self._make_reader(is_marked=True)
        is_line_over = yield from self._skip_marker()
        if (yield from self._source.match(words.FENCES)):
            yield from self._scan_fence(is_marked=True)
            return
        is_example = self._lines.mentions_example
        is_call = yield from self._try_line(
            reader, self._read_marked(reader, is_line_over=is_line_over)
        )
        if is_call and not is_example:
            # What models put after a call: a full stop, asterisks, a comma, an extra bracket.
            yield from self._source.run(words.TRAILER)
            yield from self._source.run(_SEPARATORS)
            self._source.take()

    def _read_marked(self, reader: ToolCallReader, *, is_line_over: bool) -> Reading[None]:
        """Read what follows the marker. The next line belongs to it only if it can be a call."""
        source = self._source
        is_call = (yield from source.peek()) in ("", *_JSON_STARTS)
        if is_line_over and not is_call and not (yield from source.match(self._names.callables)):
            raise UnreadableError(CALL_RULE)
        yield from reader.read_construct()

    def _skip_marker(self) -> Reading[bool]:
        """Skip the marker, even if repeated, and space; return whether the line ends there."""
        space = ""
        while (yield from self._source.skip(words.MARKERS)):
            space = yield from self._source.run(_AFTER_MARKER)
        return "\n" in space

    def _scan_calls(self, *, may_be_json: bool = False) -> Reading[None]:
        """Read a line that consists only of calls; otherwise it is text, such as other JSON."""
        reader = self._make_reader(is_marked=False)
        if may_be_json:
            self._lines.json = OpenJson()
        if (yield from self._try_line(reader, self._read_calls(reader))):
            self._lines.json = None

    def _read_calls(self, reader: ToolCallReader) -> Reading[None]:
        """Read constructs up to the end of the line or a leaked token."""
        source = self._source
        while True:
            is_list = (yield from source.peek()) == "["
            yield from reader.read_construct()
            yield from source.run(_AFTER_LIST if is_list else _SEPARATORS)
            char = yield from source.peek()
            if char in LINE_ENDS or (yield from source.match(_TOKENS)):
                return
            if (yield from source.match(words.MARKERS)):
                yield from self._skip_marker()
            elif reader.is_marked:
                raise NotACallError
            elif (
                is_list
                and char not in "{[("  # the address of a link, which is text, is in parentheses
                and not (yield from source.match(self._names.callables))
            ):
                reader.reject_found("write nothing else in the line of the calls")

    # Fences, tags, tokens and thoughts

    def _scan_fence(self, *, is_marked: bool) -> Reading[None]:
        """Read a fence: only calls, or text to its end."""
        source = self._source
        char = source.chunk[source.at]
        fence = yield from source.run(_FENCE_RUN[char])
        is_bare = yield from source.match(words.MARKERS)
        language = "" if is_bare else (yield from source.run(_LANGUAGE)).lower()
        is_loose = language in words.LOOSE_LANGUAGES
        if language in words.CALL_LANGUAGES:
            is_marked = True
        elif is_marked and not is_loose:
            # If the line continues, this is a word of prose and not a language.
            is_marked = (yield from source.peek()) in LINE_ENDS
        if self._lines.introduces_example or not (is_marked or is_loose):
            self._output.flush()
            yield from self._write_fence(fence)
            return
        reader = self._make_reader(is_marked=is_marked, is_explaining=not is_marked)
        is_call = yield from reader.attempt(
            self._read_fenced(reader, fence), lambda: self._skip_to_fence(fence), is_fenced=True
        )
        is_closed = bool((yield from source.match(Words((fence,)))))
        yield from source.run(_FENCE_RUN[char])
        self._output.settle(reader.found if is_call else None)
        if not is_closed:
            yield from self._write_fence(fence)

    def _read_fenced(self, reader: ToolCallReader, fence: str) -> Reading[None]:
        """Read constructs up to the closing fence, which is not read, or the end of the text."""
        source = self._source
        is_marked = reader.is_marked
        closing = Words((fence,))
        while True:
            yield from source.run(_BETWEEN_CALLS)
            if (yield from source.match(closing)) or not (yield from source.more()):
                if not reader.found:
                    raise NotACallError
                return
            if (yield from source.skip(_TOKENS)):
                continue
            reader.is_marked = is_marked
            if (yield from source.match(words.MARKERS)):
                reader.is_marked = True
                yield from self._skip_marker()
            elif (yield from source.skip(words.OPENINGS)):
                reader.is_marked = True
                yield from source.run(_BETWEEN_CALLS)
            yield from reader.read_construct()

    def _skip_to_fence(self, fence: str) -> Reading[None]:
        """Skip everything before the closing fence."""
        source = self._source
        closing = Words((fence,))
        while (yield from source.more()) and not (yield from source.match(closing)):
            source.at += 1
            yield from source.run(_NO_FENCE[fence[0]])

    def _write_fence(self, fence: str) -> Reading[None]:
        """Write the rest of a fence as text."""
        source = self._source
        closing = Words((fence,))
        pattern = _NO_FENCE_IN_LINE[fence[0]]
        while char := (yield from self._output.flow(pattern)):
            if char == "\n":
                pattern = _TO_LINE_END
                source.at += 1
                self._output.flush()
                yield from source.run(words.BLANKS)
            if (yield from source.match(closing)):
                yield from source.run(_FENCE_RUN[fence[0]])
                self._output.flush()
                return
            if char != "\n":
                source.at += 1

    def _scan_inline(self, opener: str) -> Reading[None]:
        """Read a tag with its calls, drop a leaked token, or write a thought as text."""
        source = self._source
        if opener in words.TOKENS:
            self._output.flush()
            yield from self._drop_token(opener)
        elif opener in words.THOUGHTS:
            # Calls that a model only considers are not calls.
            closing = Words((words.THOUGHTS[opener],))
            while (yield from self._output.flow(_NO_TAG)):
                if (yield from source.skip(closing)):
                    self._output.flush()
                    return
                source.at += 1
        else:
            reader = self._make_reader(is_marked=True)
            source.at += len(opener)
            yield from self._try_line(reader, self._read_tag(reader, opener))

    def _read_tag(self, reader: ToolCallReader, opener: str) -> Reading[None]:
        """Read constructs up to the closing tag or anything else."""
        source = self._source
        if opener not in words.TAGS:
            yield from reader.read_function_tag(opener)
            return
        yield from source.run(_BETWEEN_CALLS)
        if not (yield from source.more()):
            raise CutError
        is_named = bool((yield from source.match(self._names.callables)))
        reader.is_marked = is_named or source.chunk[source.at] in _JSON_STARTS
        while True:
            yield from reader.read_construct()
            yield from source.run(_BETWEEN_CALLS)
            if (yield from source.skip(Words((words.TAGS[opener],)))):
                return
            if (yield from source.peek()) not in _JSON_STARTS:
                return

    def _drop_token(self, token: str) -> Reading[None]:
        """Drop a leaked token and the role after it."""
        source = self._source
        source.at += len(token)
        if token == words.END_OR_STRIKE and (yield from source.peek()) not in _TOKEN_ENDS:
            self._output.flush()
            yield from self._scan_prose()
            return
        source.take()
        if token not in words.ROLE_TOKENS:
            return
        yield from source.skip(words.ROLES)
        follower = yield from source.peek()
        if follower not in _TOKEN_ENDS:
            self._output.flush()
            return
        source.at += follower == "\n"
        source.take()
        if follower == "\n":
            self._lines.see_text("\n")

    # Text

    def _scan_prose(self, *, is_example: bool = False) -> Reading[None]:
        """Write text up to the end of the line or a place where a call may start."""
        source = self._source
        ticks = 0
        while char := (yield from self._output.flow(_CODE if ticks or is_example else _TEXT)):
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
            if char == ":":
                source.at += 1
                self._output.flush()
                if not words.announces_call(self._lines.tail) or (
                    yield from self._scan_announced()
                ):
                    continue
                return
            if char == "T":
                if self._lines.has_ended_sentence and (yield from source.match(words.MARKERS)):
                    if not (yield from self._scan_inner_marker()):
                        return
                    continue
            elif (yield from source.match(words.INLINE)):
                return
            source.at += 1

    def _scan_inner_marker(self) -> Reading[bool]:
        """Read a marker after a sentence; return whether the line goes on as prose."""
        reader = self._make_reader(is_marked=True)

        def read() -> Reading[None]:
            if (yield from self._skip_marker()):
                raise NotACallError
            yield from self._read_calls(reader)

        is_call = yield from self._try(reader, read())
        return not is_call and self._lines.has_text

    def _scan_announced(self) -> Reading[bool]:
        """Read what follows `Here is the call:`; return whether the line goes on as prose."""
        source = self._source
        yield from source.run(words.BLANKS)
        char = yield from source.peek()
        if (yield from source.match(words.MARKERS)):
            return (yield from self._scan_inner_marker())
        if not (char in _JSON_STARTS or (yield from source.match(self._names.callables))):
            return True
        reader = self._make_reader(is_marked=False)
        is_call = yield from self._try(reader, self._read_calls(reader))
        return not is_call and self._lines.has_text

    # Calls

    def _try_line(self, reader: ToolCallReader, body: Reading[None]) -> Reading[bool]:
        """Try to read calls; the rest of a line that is text is prose."""
        is_call = yield from self._try(reader, body)
        if not is_call and self._lines.has_text:
            yield from self._scan_prose()
        return is_call

    def _try(self, reader: ToolCallReader, body: Reading[None]) -> Reading[bool]:
        """Read calls, and write them, or what was read as text; return whether there are calls."""
        is_call = yield from reader.attempt(body, self._skip_broken, is_fenced=False)
        self._output.settle(reader.found if is_call else None)
        return is_call

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
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def parse_text(text: str, tool_names: Collection[str]) -> list[ParsedPiece]:
    """Parse a complete text into texts and tool calls, in order; adjacent texts are joined."""
    parser = ToolCallParser(tool_names)
    return join_texts([*parser.feed(text), *parser.finish()])
