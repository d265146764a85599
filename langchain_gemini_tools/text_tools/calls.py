"""One construct that holds calls, in any notation: an object, a list, `f(a=1)`, `f({"a": 1})`.

`CallReader` reads from where a construct may begin and collects the calls it finds. How it takes
what is wrong depends on how sure we are that a call is meant: behind a marker everything is;
elsewhere an object or a list is, once it has named a declared tool. Before that, what does not fit
is no call at all.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.text_tools import reasons, spellings
from langchain_gemini_tools.text_tools.source import Words
from langchain_gemini_tools.text_tools.values import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_gemini_tools.text_tools.source import Reading, Source

_NAME = re.compile(r"[\w.:\\\-/]*")
_NAME_QUOTES = re.compile(r"[`\"'*]*")
_BLANKS = re.compile(r"[ \t]*")
_TAG_NAME = re.compile(r"[^<>\s{}]*")
_WORD = re.compile(r"[\w$\-]*")
_MAX_WRAPPERS = 4
_DIGITS = "-0123456789"
_MISSING = object()
_NO_ARGUMENTS = (_MISSING, None, "")
_OUTER_KEYS = spellings.NAME_KEYS | spellings.WRAPPER_KEYS

CALL_RULE = "after the marker stand the tool's name and its arguments in parentheses"
_NAMED_RULE = "every argument needs its name"


class NotACallError(Exception):
    """What stands here is something else than a call."""


@dataclass(frozen=True)
class Found:
    """A call within the construct, by the offsets where it begins and ends."""

    start: int
    end: int
    name: str | None
    args: dict[str, Any] | None = None
    reason: str = ""
    is_cut: bool = False


class ToolNames:
    """The declared tools, as names and as what a call of one may begin with."""

    def __init__(self, names: Iterable[str]) -> None:
        self.listed = list(names)
        self._names = frozenset(self.listed)
        self.words = Words(self.listed)
        self.callables = Words([*self.listed, *spellings.PREFIXES, spellings.PRINT])

    def __contains__(self, name: str) -> bool:
        return name in self._names


class CallReader:
    """Reads constructs; after an error, `found` holds the calls before it.

    `begun_at` is the offset where the call at hand began, None between two calls.

    Args:
        source: The text.
        names: The tools that may be called.
        is_marked: Whether all that follows is meant as a call.
        is_explaining: Whether a name that stands for any name makes it no call.
    """

    def __init__(
        self, source: Source, names: ToolNames, *, is_marked: bool, is_explaining: bool = False
    ) -> None:
        self.found: list[Found] = []
        self.begun_at: int | None = source.offset
        self.name: str | None = None
        self.is_meant = is_marked
        self.is_marked = is_marked
        self._is_explaining = is_explaining
        self._depth = 0
        self._source = source
        self._names = names

    def read_construct(self) -> Reading[None]:
        """Read one construct: it may hold several calls.

        Raises:
            NotACallError: It is something else.
            UnreadableError: It is meant as a call and cannot be read.
            CutError: The text ended before it did.
        """
        if not (yield from self._source.more()):
            raise CutError
        self._begin()
        self._depth = 0
        self.is_meant = self.is_marked
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
            raise UnreadableError("after the name stand the arguments as a JSON object")
        self._add(self.name, (yield from parse_value(self._source)))

    def add_broken(self, start: int, detail: str) -> None:
        """What began there ends here, is meant as a call and cannot be read."""
        name = None if self.begun_at is None else self.name
        reason = (
            reasons.render_undeclared(name, self._names.listed)
            if name and name not in self._names
            else reasons.render_unreadable(name, detail, self._names.listed)
        )
        self.found.append(Found(start, self._source.offset, name, reason=reason))

    def add_cut(self, start: int) -> None:
        """What began there is cut off here."""
        reason = reasons.render_cut(self.name)
        self.found.append(Found(start, self._source.offset, self.name, reason=reason, is_cut=True))

    def _begin(self) -> None:
        self.begun_at = self._source.offset
        self.name = None

    def _refuse(self, detail: str) -> Exception:
        return UnreadableError(detail) if self.is_meant else NotACallError()

    def _add(self, name: str, args: Any) -> None:
        """One call, read to its end. What is wrong with it is its own fault alone."""
        start = self._source.offset if self.begun_at is None else self.begun_at
        end = self._source.offset
        self.begun_at = None
        if name not in self._names:
            if self._is_explaining and name in spellings.PLACEHOLDERS:
                raise NotACallError
            reason = reasons.render_undeclared(name, self._names.listed)
            self.found.append(Found(start, end, name, reason=reason))
            return
        try:
            self.found.append(Found(start, end, name, _parse_arguments(args)))
        except UnreadableError as error:
            reason = reasons.render_unreadable(name, str(error), self._names.listed)
            self.found.append(Found(start, end, name, reason=reason))

    def _read_list(self) -> Reading[None]:
        source = self._source
        source.at += 1
        if (yield from skip_space(source)) == "]":
            if not self.is_meant:
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

    def _read_members(self) -> Reading[tuple[str, Any] | None]:
        """Read `{"name": ..., "arguments": ...}`, or an object around it; None around a list."""
        source = self._source
        if self._depth == _MAX_WRAPPERS:
            raise self._refuse("it is wrapped too often")
        self._depth += 1
        source.at += 1
        name: str | None = None
        args: Any = _MISSING
        inner: tuple[str, Any] | None = None
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
            elif char == "[" and key in spellings.WRAPPER_KEYS:
                yield from self._read_list()
                has_inner = True
            elif key in spellings.NAME_KEYS and name is None:
                name = yield from self._read_name()
            elif key in spellings.ARGUMENT_KEYS:
                args = yield from parse_value(source)
            elif key in spellings.SIDE_KEYS or self.is_marked:
                yield from parse_value(source)
            else:
                raise NotACallError
            is_open = yield from is_followed(source, "}")
        self._depth -= 1
        if has_inner:
            return inner
        if name is None:
            raise self._refuse('the object has no "name"')
        if args is _MISSING and not (self.is_marked or self._depth):
            raise NotACallError
        return name, {} if args in _NO_ARGUMENTS else args

    def _read_name(self) -> Reading[str]:
        """Read the value of a name's key. A declared one tells that a call is meant."""
        if not is_string_ahead(self._source.chunk[self._source.at]):
            raise self._refuse("the tool's name stands in double quotes")
        name = _bare_name((yield from parse_string(self._source)), self._names)
        self.name = name
        if name in self._names:
            self.is_meant = True
        elif not self.is_meant:
            raise NotACallError
        return name

    def _read_call(self, *, is_printed: bool = False) -> Reading[None]:
        """Read `f(...)`, `f {...}`, `default_api.f(...)` or `print(f(...))`."""
        source = self._source
        name = yield from (self._read_any_name() if self.is_meant else self._read_declared_name())
        if not name:
            raise self._refuse(CALL_RULE)
        is_print = name == spellings.PRINT and name not in self._names
        if not is_print:
            self.name = name
        if self.is_marked:
            if name.lower() in spellings.NOTHING and (yield from self._is_nothing(name)):
                return
            char = yield from skip_space(source)
        else:
            yield from source.run(_BLANKS)
            char = yield from source.peek()
        if is_print and char == "(":
            if is_printed:
                raise self._refuse(CALL_RULE)
            source.at += 1
            yield from self._read_printed()
            return
        if char == "{" and self.is_marked:
            self._add(name, (yield from parse_value(source)))
        elif char == "(":
            source.at += 1
            args = yield from self._read_arguments()
            self.is_meant = True
            self._add(name, args)
        else:
            raise self._refuse("its arguments are missing")

    def _is_nothing(self, name: str) -> Reading[bool]:
        """Whether `TOOL_CALL: none` is all that the line says."""
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
            raise self._refuse("the parenthesis of print(...) is not closed")
        self._source.at += 1

    def _read_declared_name(self) -> Reading[str]:
        source = self._source
        word = yield from source.match(self._names.callables)
        source.at += len(word)
        if word in spellings.PREFIXES and word not in self._names:
            word = yield from source.match(self._names.callables)
            source.at += len(word)
        return word

    def _read_any_name(self) -> Reading[str]:
        """Read a name as models dress it: in quotes or backticks, underscores escaped."""
        source = self._source
        quotes = yield from source.run(_NAME_QUOTES)
        name = yield from source.match(self._names.words)  # a declared one may hold any character
        source.at += len(name)
        name += yield from source.run(_NAME)
        if quotes:
            yield from source.run(_NAME_QUOTES)
        return _bare_name(name, self._names)

    def _read_arguments(self) -> Reading[Any]:
        """Read what stands in a call's parentheses, and the closing one.

        Names and values come as an object; values without names as they are, for `_add` to refuse.
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
            raise self._refuse(str(error)) from None

    def _read_unnamed(self, first: Any) -> Reading[Any]:
        values = [first]
        while (yield from is_followed(self._source, ")")):
            values.append((yield from parse_value(self._source)))
        return first if len(values) == 1 else values

    def _read_named(self, key: str) -> Reading[dict[str, Any]]:
        args: dict[str, Any] = {}
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
    """The name without what models put around it."""
    if name in names:
        return name
    name = name.replace("\\_", "_").rstrip(":")
    for prefix in spellings.PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _parse_arguments(args: Any) -> dict[str, Any]:
    """An object of arguments, also when it came as text that holds one."""
    if isinstance(args, str):
        with contextlib.suppress(UnreadableError):
            args = parse_whole(args)
    if not isinstance(args, dict):
        raise UnreadableError(
            f"its arguments are {_KINDS[type(args)]} and no object; {_NAMED_RULE}"
        )
    return args


_KINDS = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}
