"""Read one construct that contains tool calls, in any notation.

A construct is an object, a list, `f(a=1)` or `f({"a": 1})`. `ToolCallReader` reads one and collects
its calls. How it treats errors depends on how sure it is that a call is intended: after a marker
everything is; elsewhere an object or a list is once it has named a declared tool. Before that,
anything unexpected means that the text is not a call.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted.parser import words
from langchain_gemini_tools.prompted.parser.values import (
    CutError,
    UnreadableError,
    is_followed,
    is_string_ahead,
    parse_key,
    parse_string,
    parse_value,
    parse_whole,
    skip_space,
)
from langchain_gemini_tools.prompted.parser.words import Words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_gemini_tools.prompted.parser.values import Json
    from langchain_gemini_tools.prompted.parser.words import Reading, Source


_NAME = re.compile(r"[\w.:\\\-/]*")
_NAME_QUOTES = re.compile(r"[`\"'*]*")
_BLANKS = re.compile(r"[ \t]*")
_TAG_NAME = re.compile(r"[^<>\s{}]*")
_WORD = re.compile(r"[\w$\-]*")
_MAX_WRAPPERS = 4
_DIGITS = "-0123456789"
_OUTER_KEYS = words.NAME_KEYS | words.WRAPPER_KEYS

CALL_RULE = "after the marker, write the tool's name and its arguments in parentheses"
_NAMED_RULE = "every argument needs its name"


class NotACallError(Exception):
    """The text is something other than a tool call."""


@dataclass(frozen=True)
class FoundToolCall:
    """A tool call within the construct, with the offsets of its start and end."""

    start: int
    end: int
    name: str | None
    args: dict[str, Json] | None = None
    reason: str = ""
    is_cut: bool = False


class ToolNames:
    """The names of the declared tools, and the words that a call of one may start with."""

    def __init__(self, names: Iterable[str]) -> None:
        self.listed = list(names)
        self._names = frozenset(self.listed)
        self.words = Words(self.listed)
        self.callables = Words([*self.listed, *words.PREFIXES, words.PRINT])

    def __contains__(self, name: str) -> bool:
        return name in self._names


class ToolCallReader:
    """Reads constructs; after an error, `found` has the calls before it.

    `begun_at` is the offset where the current call started, None between two calls.

    Args:
        source: The text.
        names: The tools that may be called.
        is_marked: Whether everything that follows is intended as a call.
        is_explaining: Whether a placeholder name means that the text is not a call.
    """

    def __init__(
        self, source: Source, names: ToolNames, *, is_marked: bool, is_explaining: bool = False
    ) -> None:
        self.found: list[FoundToolCall] = []
        self.begun_at: int | None = source.offset
        self.name: str | None = None
        self.is_intended = is_marked
        self.is_marked = is_marked
        self._is_explaining = is_explaining
        self._depth = 0
        self._source = source
        self._names = names

    def read_construct(self) -> Reading[None]:
        """Read one construct, which may contain several calls.

        Raises:
            NotACallError: The text is something else.
            UnreadableError: The text is intended as a call but cannot be parsed.
            CutError: The text ended before the call did.
        """
        if not (yield from self._source.more()):
            raise CutError
        self._begin()
        self._depth = 0
        self.is_intended = self.is_marked
        match self._source.chunk[self._source.at]:
            case "{":
                yield from self._read_object()
            case "[":
                yield from self._read_list()
            case _:
                yield from self._read_call()

    def read_function_tag(self) -> Reading[None]:
        """Read `name>{"a": 1}`, the rest of Llama's `<function=name>{"a": 1}</function>`."""
        self.name = yield from self._source.run(_TAG_NAME)
        if (yield from self._source.read(1)) != ">":
            raise NotACallError
        if (yield from skip_space(self._source)) != "{":
            raise UnreadableError("after the name, write the arguments as a JSON object")
        self._add(self.name, (yield from parse_value(self._source)))

    def add_broken(self, start: int, detail: str) -> None:
        """Add an intended call from `start` to here that cannot be parsed."""
        name = None if self.begun_at is None else self.name
        reason = (
            words.render_undeclared(name, self._names.listed)
            if name and name not in self._names
            else words.render_unreadable(name, detail, self._names.listed)
        )
        self.found.append(FoundToolCall(start, self._source.offset, name, reason=reason))

    def add_cut(self, start: int) -> None:
        """Add a call that starts at `start` and that the end of the text cut off."""
        reason = words.render_cut(self.name)
        self.found.append(
            FoundToolCall(start, self._source.offset, self.name, reason=reason, is_cut=True)
        )

    def _begin(self) -> None:
        self.begun_at = self._source.offset
        self.name = None

    def _error(self, detail: str) -> Exception:
        return UnreadableError(detail) if self.is_intended else NotACallError()

    def _add(self, name: str, args: Json) -> None:
        """Add a complete call. Its errors do not affect other calls."""
        start = self._source.offset if self.begun_at is None else self.begun_at
        end = self._source.offset
        self.begun_at = None
        if name not in self._names:
            if self._is_explaining and name in words.PLACEHOLDERS:
                raise NotACallError
            reason = words.render_undeclared(name, self._names.listed)
            self.found.append(FoundToolCall(start, end, name, reason=reason))
            return
        try:
            self.found.append(FoundToolCall(start, end, name, _parse_arguments(args)))
        except UnreadableError as error:
            reason = words.render_unreadable(name, str(error), self._names.listed)
            self.found.append(FoundToolCall(start, end, name, reason=reason))

    def _read_list(self) -> Reading[None]:
        source = self._source
        source.at += 1
        if (yield from skip_space(source)) == "]":
            if not self.is_intended:
                raise NotACallError
            source.at += 1
            self.begun_at = None
            return
        while True:
            self._begin()
            if (yield from source.peek()) == "{":
                yield from self._read_object()
            else:
                yield from self._read_call()
            if not (yield from is_followed(source, "]")):
                return

    def _read_object(self) -> Reading[None]:
        start = self.begun_at
        if call := (yield from self._read_members()):
            self.begun_at = start
            self._add(*call)

    def _read_members(self) -> Reading[tuple[str, Json] | None]:
        """Read `{"name": ..., "arguments": ...}` or an object around it; None around a list."""
        source = self._source
        if self._depth == _MAX_WRAPPERS:
            raise self._error("it is wrapped too often")
        self._depth += 1
        source.at += 1
        name: str | None = None
        args: Json = None
        inner: tuple[str, Json] | None = None
        has_inner = False
        keys: set[str] = set()
        is_open = (yield from skip_space(source)) != "}"
        source.at += not is_open
        while is_open:
            key = yield from parse_key(source, keys)
            keys.add(key)
            char = yield from skip_space(source)
            if char == "{" and key in _OUTER_KEYS:
                inner = yield from self._read_members()
                has_inner = True
            elif char == "[" and key in words.WRAPPER_KEYS:
                yield from self._read_list()
                has_inner = True
            elif key in words.NAME_KEYS and name is None:
                name = yield from self._read_name()
            elif key in words.ARGUMENT_KEYS:
                args = yield from parse_value(source)
            elif key in words.SIDE_KEYS or self.is_marked:
                yield from parse_value(source)
            else:
                raise NotACallError
            is_open = yield from is_followed(source, "}")
        self._depth -= 1
        if has_inner:
            return inner
        if name is None:
            raise self._error('the object has no "name"')
        has_arguments = not keys.isdisjoint(words.ARGUMENT_KEYS)
        if not (has_arguments or self.is_marked or self._depth):
            raise NotACallError
        return name, {} if args in (None, "") else args

    def _read_name(self) -> Reading[str]:
        """Read the value of a name key. A declared name shows that a call is intended."""
        if not is_string_ahead(self._source.chunk[self._source.at]):
            raise self._error("put the tool's name in double quotes")
        name = _bare_name((yield from parse_string(self._source)), self._names)
        self.name = name
        if name in self._names:
            self.is_intended = True
        elif not self.is_intended:
            raise NotACallError
        return name

    def _read_call(self, *, is_printed: bool = False) -> Reading[None]:
        """Read `f(...)`, `f {...}`, `default_api.f(...)` or `print(f(...))`."""
        source = self._source
        name = yield from (
            self._read_any_name() if self.is_intended else self._read_declared_name()
        )
        if not name:
            raise self._error(CALL_RULE)
        is_print = name == words.PRINT and name not in self._names
        if not is_print:
            self.name = name
        if self.is_marked:
            if name.lower() in words.NOTHING and (yield from self._is_nothing(name)):
                return
            char = yield from skip_space(source)
        else:
            yield from source.run(_BLANKS)
            char = yield from source.peek()
        if is_print and char == "(":
            if is_printed:
                raise self._error(CALL_RULE)
            source.at += 1
            yield from self._read_printed()
            return
        if char == "{" and self.is_marked:
            self._add(name, (yield from parse_value(source)))
        elif char == "(":
            source.at += 1
            args = yield from self._read_arguments()
            self.is_intended = True
            self._add(name, args)
        else:
            raise self._error("its arguments are missing")

    def _is_nothing(self, name: str) -> Reading[bool]:
        """Return whether the line says no more than `TOOL_CALL: none`."""
        if name in self._names:
            return False
        yield from self._source.run(_BLANKS)
        if (yield from self._source.peek()) not in ("", "\r", "\n"):
            return False
        self.begun_at = None
        return True

    def _read_printed(self) -> Reading[None]:
        yield from skip_space(self._source)
        self._begin()
        yield from self._read_call(is_printed=True)
        if (yield from skip_space(self._source)) != ")":
            raise self._error("the parenthesis of print(...) is not closed")
        self._source.at += 1

    def _read_declared_name(self) -> Reading[str]:
        source = self._source
        word = yield from source.match(self._names.callables)
        source.at += len(word)
        if word in words.PREFIXES and word not in self._names:
            word = yield from source.match(self._names.callables)
            source.at += len(word)
        return word

    def _read_any_name(self) -> Reading[str]:
        """Read a name as models decorate it: in quotes or backticks, underscores escaped."""
        source = self._source
        quotes = yield from source.run(_NAME_QUOTES)
        # A declared name may contain any character.
        name = yield from source.match(self._names.words)
        source.at += len(name)
        name += yield from source.run(_NAME)
        if quotes:
            yield from source.run(_NAME_QUOTES)
        return _bare_name(name, self._names)

    def _read_arguments(self) -> Reading[Json]:
        """Read the arguments of a call and the closing parenthesis.

        Named arguments are returned as an object, others as they are, for `_add` to reject.
        """
        source = self._source
        char = yield from skip_space(source)
        if char == ")":
            source.at += 1
            return {}
        try:
            if char not in "{[" and not is_string_ahead(char) and char not in _DIGITS:
                key = yield from self._read_keyword(char)
            else:
                first = yield from parse_value(source)
                if not isinstance(first, str) or (yield from skip_space(source)) not in ":=":
                    return (yield from self._read_unnamed(first))
                source.at += 1
                key = first
            return (yield from self._read_named(key))
        except UnreadableError as error:
            raise self._error(str(error)) from None

    def _read_unnamed(self, first: Json) -> Reading[Json]:
        values = [first]
        while (yield from is_followed(self._source, ")")):
            values.append((yield from parse_value(self._source)))
        return first if len(values) == 1 else values

    def _read_named(self, key: str) -> Reading[dict[str, Json]]:
        args: dict[str, Json] = {}
        while True:
            args[key] = yield from parse_value(self._source)
            if not (yield from is_followed(self._source, ")")):
                return args
            key = yield from parse_key(self._source, args)

    def _read_keyword(self, char: str) -> Reading[str]:
        source = self._source
        key = yield from source.run(_WORD)
        if not key or (yield from skip_space(source)) not in ":=":
            raise UnreadableError(f"{_NAMED_RULE} (at {(key or char)[:60]!r})")
        source.at += 1
        return key


def _bare_name(name: str, names: ToolNames) -> str:
    """Strip what models put around a name."""
    if name in names:
        return name
    name = name.replace("\\_", "_").rstrip(":")
    for prefix in words.PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _parse_arguments(args: Json) -> dict[str, Json]:
    """Return the arguments as an object, also if they are the JSON text of one."""
    if isinstance(args, str):
        with contextlib.suppress(UnreadableError):
            args = parse_whole(args)
    if not isinstance(args, dict):
        raise UnreadableError(
            f"its arguments are {_KINDS[type(args)]}, not an object; {_NAMED_RULE}"
        )
    return args


_KINDS = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
