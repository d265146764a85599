"""Parse text, complete or in chunks, into text and tool calls.

The protocol is one line per call: `TOOL_CALL: tool_name({"argument": "value"})`. Models write calls
in other ways too, and they write about the protocol. These rules decide what is a call:

1.  **The marker `TOOL_CALL:` at the start of a line always means a call**, even if it is indented
    or follows a bullet, a number, asterisks or a label such as `Action:`. What cannot be executed
    (an undeclared name, unreadable arguments, nothing at all) is a `BrokenToolCall`; only
    `TOOL_CALL: none` means that nothing is called. The call may be on the next line or in a fence,
    in any notation of rule 4. The position after a call counts as the start of a line, so several
    calls fit in one.
2.  The marker inside a line counts if a sentence ended before it (`Let me see. TOOL_CALL: f()`)
    and the line ends after the calls. Otherwise the sentence only mentions it.
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
    of another kind is text. So is any call right after a line that introduces an example: it ends
    with a colon or is a heading, and its last sentence mentions one (`words.mentions_example`).
    This applies up to the next text, or to a blank line after the example. A call without a marker
    that stands in a tool's result is a quotation, and reported.
6.  A call that the end of the text cuts off is a `BrokenToolCall` with `is_cut`, never completed. A
    broken call ends with its line or, while its brackets are open, before a blank line, a marker or
    a fence; in a fence it ends with the fence.

Text is passed on unchanged, except for white space next to calls (`output.PieceWriter`), markers
and what precedes them, fences and tags around calls, punctuation right after calls, and leaked
special tokens (`words.TOKENS`, with the role after them) outside of backticks and fences.

Text that turns out not to be a call becomes text and is not parsed again: every character is read
once, so the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.call_reader import CALL_RULE, ToolCallReader
from langchain_gemini_tools.prompted.output import (
    FENCE_RUN,
    LINE_ENDS,
    OpenJson,
    Output,
    PieceWriter,
    Quotations,
    join_texts,
)
from langchain_gemini_tools.prompted.values import CutError, NotACallError, UnreadableError
from langchain_gemini_tools.prompted.words import Source, ToolNames, Words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langchain_gemini_tools.prompted.output import ParsedPiece
    from langchain_gemini_tools.prompted.words import Reading


_TOKENS = Words(words.TOKENS)
_TOKEN_ENDS = (*LINE_ENDS, "<")
_BULLET = frozenset("-*+\u2022#0123456789.) \t_")
_MAX_BULLET = 8

_AFTER_LABEL = re.compile(r"[ \t*]*")
_AFTER_MARKER = re.compile(r"[\s*]*")
_TRAILER = re.compile(r"[*`.)]*")
_SEPARATORS = re.compile(r"[ \t,;]*")
_AFTER_LIST = re.compile(r"[ \t,;.*`]*")
_BETWEEN_CALLS = re.compile(r"[\s,;]*")
_LANGUAGE = re.compile(r"[\w+\-#]*")
_NEWLINES = re.compile(r"\n*")
_TEXT = re.compile(r"(?:[^\n`<\[T:]++|<(?=[^a-z/|<])|\[(?=[^TI/])|T(?=[^O])|:(?=[^ \t]))*+")
"""Text in which no tag, token, marker or announced call can start."""
_CODE = re.compile(r"[^\n`]*")
_NO_FENCE = {"`": re.compile(r"[^`]*"), "~": re.compile(r"[^~]*")}


class Scanner:
    """Reads text and writes its pieces.

    Args:
        source: The text.
        output: Receives what was read.
        names: The declared tools.
    """

    def __init__(self, source: Source, output: Output, names: Collection[str]) -> None:
        self._source = source
        self._output = output
        self._names = ToolNames(names)
        firsts = (word[:1] for word in (*words.PREFIXES, words.PRINT, *names))
        self._first_characters = _BULLET.union("`~{[<tTfFcCaAmMoOrR", firsts)

    def scan(self) -> Reading[None]:
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
        if char not in self._first_characters:
            yield from self._scan_prose(is_example=char == ">")
        elif (yield from source.match(words.MARKERS)):
            yield from self._scan_marked()
        elif (yield from source.match(words.FENCES)):
            yield from self._scan_fence(is_marked=False)
        elif opener := (yield from source.match(words.INLINE)):
            yield from self._scan_inline(opener)
        elif char in _BULLET or (yield from source.match(words.LABELS)):
            yield from self._scan_labelled()
        elif (yield from self._may_be_calls(char, indent)):
            yield from self._scan_calls()
        else:
            yield from self._scan_prose()

    def _may_be_calls(self, char: str, indent: str) -> Reading[bool]:
        """Return whether calls without the marker may start here; skip other spellings of it."""
        source = self._source
        loose = yield from source.match(words.LOOSE_MARKERS)
        if loose:
            source.at += len(loose)
            yield from source.run(words.BLANKS)
            return True
        if self._output.lines.json or not char:
            return False
        return char in "{[" or (
            not indent and bool((yield from source.match(self._names.callables)))
        )

    def _scan_labelled(self) -> Reading[None]:
        """Read a line that starts with a bullet, a number, asterisks or a label."""
        label = yield from self._skip_bullet()
        if (yield from self._source.match(words.MARKERS)):
            yield from self._scan_marked()
        elif label == words.ACTION and (yield from self._source.match(self._names.callables)):
            reader = self._make_reader(is_marked=False)
            is_call = yield from self._output.attempt(reader, self._read_action(reader))
            yield from self._settle_line(reader, is_call=is_call)
        else:
            yield from self._scan_prose()

    def _read_action(self, reader: ToolCallReader) -> Reading[None]:
        """Read a step of a ReAct agent, which has to end with its line."""
        yield from reader.read_action()
        yield from self._source.run(_TRAILER)
        if (yield from self._source.peek()) not in LINE_ENDS:
            raise NotACallError

    def _skip_bullet(self) -> Reading[str]:
        """Skip a bullet, a number or asterisks, and a label; return the label."""
        source = self._source
        for _ in range(_MAX_BULLET):
            if (yield from source.peek()) not in _BULLET:
                break
            source.at += 1
        label = yield from source.match(words.LABELS)
        source.at += len(label)
        yield from source.run(_AFTER_LABEL)
        return label

    def _scan_marked(self) -> Reading[None]:
        """Read the marker and what follows it."""
        reader = self._make_reader(is_marked=True)
        is_line_over = yield from self._skip_marker()
        if (yield from self._source.match(words.FENCES)):
            yield from self._scan_fence(is_marked=True)
            return
        is_call = yield from self._output.attempt(
            reader, self._read_marked(reader, is_line_over=is_line_over)
        )
        is_example = self._output.lines.introduces_example
        yield from self._settle(reader, is_call=is_call, is_example=is_example)
        if is_call and not is_example:
            yield from self._skip_trailer()

    def _read_marked(self, reader: ToolCallReader, *, is_line_over: bool) -> Reading[None]:
        """Read what follows the marker. The next line belongs to it only if it can be a call."""
        source = self._source
        is_call = (yield from source.peek()) in ("", "{", "[")
        if is_line_over and not is_call and not (yield from source.match(self._names.callables)):
            raise UnreadableError(CALL_RULE)
        yield from reader.read_construct()

    def _scan_inner_marker(self) -> Reading[bool]:
        """Read a marker after a sentence; return whether the line goes on as prose."""
        reader = self._make_reader(is_marked=True)

        def read() -> Reading[None]:
            if (yield from self._skip_marker()):
                raise NotACallError
            yield from self._read_calls(reader)

        is_call = yield from self._output.attempt(reader, read())
        is_example = self._output.lines.mentions_example
        return self._output.settle(reader, is_call=is_call, is_example=is_example)

    def _skip_marker(self) -> Reading[bool]:
        """Skip the marker, even if repeated, and space; return whether the line ends there."""
        source = self._source
        space = ""
        while (yield from source.match(words.MARKERS)):
            source.at += len(words.MARKER)
            space = yield from source.run(_AFTER_MARKER)
        return "\n" in space

    def _skip_trailer(self) -> Reading[None]:
        """Skip what models put after a call: a full stop, asterisks, a comma, an extra bracket."""
        yield from self._source.run(_TRAILER)
        yield from self._source.run(_SEPARATORS)
        self._source.take()

    def _scan_calls(self) -> Reading[None]:
        """Read a line that consists only of calls; otherwise it is text."""
        reader = self._make_reader(is_marked=False)
        is_call = yield from self._output.attempt(reader, self._read_calls(reader))
        if not is_call and (yield from self._is_json()):
            self._output.lines.json = OpenJson()
        yield from self._settle_line(reader, is_call=is_call)

    def _settle_line(self, reader: ToolCallReader, *, is_call: bool) -> Reading[None]:
        """Write a line as calls, or as text if the line before it introduces an example."""
        is_example = self._output.lines.introduces_example
        yield from self._settle(reader, is_call=is_call, is_example=is_example)

    def _is_json(self) -> Reading[bool]:
        """Return whether text that is not a call is the start of another JSON value."""
        seen = self._source.seen().lstrip()
        if seen.rstrip(" \t") == "[":
            return (yield from self._source.peek()) in ('"', "'", "[", "{")
        return seen.startswith(("{", "["))

    def _read_calls(self, reader: ToolCallReader) -> Reading[None]:
        """Read constructs up to the end of the line or a leaked token."""
        while True:
            is_list = (yield from self._source.peek()) == "["
            yield from reader.read_construct()
            yield from self._source.run(_AFTER_LIST if is_list else _SEPARATORS)
            if (yield from self._source.peek()) in LINE_ENDS or (
                yield from self._source.match(_TOKENS)
            ):
                return
            if (yield from self._source.match(words.MARKERS)):
                yield from self._skip_marker()
            elif reader.is_marked:
                raise NotACallError
            elif is_list and not (yield from self._are_calls_ahead()):
                reader.reject_found("write nothing else in the line of the calls")

    def _are_calls_ahead(self) -> Reading[bool]:
        """Return whether more calls follow a list, or a link's address, which is text."""
        char = yield from self._source.peek()
        return char in "{[(" or bool((yield from self._source.match(self._names.callables)))

    def _scan_fence(self, *, is_marked: bool) -> Reading[None]:
        """Read a fence: only calls, or text to its end."""
        source = self._source
        char = source.chunk[source.at]
        fence = yield from source.run(FENCE_RUN[char])
        is_bare = yield from source.match(words.MARKERS)
        language = "" if is_bare else (yield from source.run(_LANGUAGE)).lower()
        is_marked = is_marked or language in words.CALL_LANGUAGES
        is_loose = language in words.LOOSE_LANGUAGES
        if is_marked and not is_loose and language not in words.CALL_LANGUAGES:
            # If the line continues, this is a word of prose and not a language.
            is_marked = (yield from source.peek()) in LINE_ENDS
        if self._output.lines.introduces_example or not (is_marked or is_loose):
            self._output.flush()
            yield from self._output.write_fence(fence)
            return
        reader = self._make_reader(is_marked=is_marked, is_explaining=not is_marked)
        is_call = yield from self._output.attempt(
            reader, self._read_fenced(reader, fence), lambda: self._skip_to_fence(fence)
        )
        is_closed = bool((yield from source.match(Words((fence,)))))
        if is_call or is_closed:
            yield from source.run(FENCE_RUN[char])
        self._output.settle(reader, is_call=is_call, is_example=False)
        if not is_call and not is_closed:
            yield from self._output.write_fence(fence)

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
            if token := (yield from source.match(_TOKENS)):
                source.at += len(token)
                continue
            reader.is_marked = is_marked
            if (yield from source.match(words.MARKERS)):
                reader.is_marked = True
                yield from self._skip_marker()
            elif tag := (yield from source.match(words.OPENINGS)):
                reader.is_marked = True
                source.at += len(tag)
                yield from source.run(_BETWEEN_CALLS)
            yield from reader.read_construct()

    def _skip_to_fence(self, fence: str) -> Reading[None]:
        """Skip everything before the closing fence."""
        closing = Words((fence,))
        while (yield from self._source.more()):
            yield from self._source.run(_NO_FENCE[fence[0]])
            if (yield from self._source.match(closing)):
                return
            yield from self._source.read(1)

    def _scan_inline(self, opener: str) -> Reading[None]:
        """Read a tag with its calls, drop a leaked token, or write a thought as text."""
        source = self._source
        if opener in words.TOKENS:
            self._output.flush()
            yield from self._drop_token(opener)
            return
        if opener in words.THOUGHTS:
            yield from self._output.write_thought(Words((words.THOUGHTS[opener],)))
            return
        reader = self._make_reader(is_marked=True)
        source.at += len(opener)
        is_call = yield from self._output.attempt(reader, self._read_tag(reader, opener))
        is_example = is_call and self._output.lines.mentions_example
        yield from self._settle(reader, is_call=is_call, is_example=is_example)

    def _read_tag(self, reader: ToolCallReader, opener: str) -> Reading[None]:
        """Read constructs up to the closing tag or anything else."""
        source = self._source
        if opener == words.FUNCTION_TAG:
            yield from reader.read_function_tag()
            return
        if opener == words.INVOKE_TAG:
            yield from reader.read_invoke_tag()
            return
        closing = Words((words.TAGS[opener],))
        yield from source.run(_BETWEEN_CALLS)
        if not (yield from source.more()):
            raise CutError
        is_named = bool((yield from source.match(self._names.callables)))
        reader.is_marked = is_named or source.chunk[source.at] in "{["
        while True:
            yield from reader.read_construct()
            yield from source.run(_BETWEEN_CALLS)
            if tag := (yield from source.match(closing)):
                source.at += len(tag)
                return
            if (yield from source.peek()) not in ("{", "["):
                return

    def _drop_token(self, token: str) -> Reading[None]:
        """Drop a leaked token and the role after it."""
        source = self._source
        source.at += len(token)
        follower = yield from source.peek()
        if token == words.END_OR_STRIKE and follower not in _TOKEN_ENDS:
            self._output.flush()
            yield from self._scan_prose()
            return
        source.take()
        if token not in words.ROLE_TOKENS:
            return
        role = yield from source.match(words.ROLES)
        source.at += len(role)
        follower = yield from source.peek()
        if follower not in _TOKEN_ENDS:
            self._output.flush()
            return
        source.at += follower == "\n"
        source.take()
        if follower == "\n":
            self._output.lines.see_text("\n")

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
                run = len((yield from source.run(FENCE_RUN["`"])))
                self._output.flush()
                if ticks in (0, run):
                    ticks = run - ticks
                continue
            if char == ":":
                source.at += 1
                self._output.flush()
                if words.announces_call(self._output.lines.tail) and not (
                    yield from self._scan_announced()
                ):
                    return
                continue
            if char == "T":
                if self._output.lines.has_ended_sentence and (
                    yield from source.match(words.MARKERS)
                ):
                    if not (yield from self._scan_inner_marker()):
                        return
                    continue
            elif (yield from source.match(words.INLINE)):
                return
            source.at += 1

    def _scan_announced(self) -> Reading[bool]:
        """Read what follows `Here is the call:`; return whether the line goes on as prose."""
        source = self._source
        yield from source.run(words.BLANKS)
        char = yield from source.peek()
        if not (char in ("{", "[") or (yield from source.match(self._names.callables))):
            return True
        reader = self._make_reader(is_marked=False)
        is_call = yield from self._output.attempt(reader, self._read_calls(reader))
        return self._output.settle(reader, is_call=is_call, is_example=False)

    def _settle(self, reader: ToolCallReader, *, is_call: bool, is_example: bool) -> Reading[None]:
        """Write what was read. If it is text, the rest of its line is prose."""
        if self._output.settle(reader, is_call=is_call, is_example=is_example):
            yield from self._scan_prose()

    def _make_reader(self, *, is_marked: bool, is_explaining: bool = False) -> ToolCallReader:
        return ToolCallReader(
            self._source, self._names, is_marked=is_marked, is_explaining=is_explaining
        )


class ToolCallParser:
    """Parses text in chunks; where the text is split does not change the result.

    Args:
        tool_names: The declared tools.
        results: The texts of tool results. Calls without a marker that stand in one of them are
            quotations.
    """

    def __init__(self, tool_names: Collection[str], results: Iterable[str] = ()) -> None:
        self._source = Source(stops=words.MARKERS)
        self._writer = PieceWriter()
        output = Output(self._source, self._writer, Quotations(results))
        self._scan = Scanner(self._source, output, tool_names).scan()

    def feed(self, text: str) -> list[ParsedPiece]:
        """Return the pieces that this chunk makes final, in order."""
        if text:
            self._source.add(text)
            next(self._scan)
        return self._writer.take()

    def finish(self) -> list[ParsedPiece]:
        """Return the remaining pieces; an unfinished call is a `BrokenToolCall` with `is_cut`."""
        self._source.is_closed = True
        next(self._scan, None)
        return self._writer.finish()


def parse_text(text: str, tool_names: Collection[str]) -> list[ParsedPiece]:
    """Parse a complete text into texts and tool calls, in order; adjacent texts are joined."""
    parser = ToolCallParser(tool_names)
    return join_texts([*parser.feed(text), *parser.finish()])
