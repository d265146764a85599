"""Read one construct that contains tool calls, in any notation.

A construct is an object, a list, `f(a=1)` or `f({"a": 1})`. `ToolCallReader` reads one and collects
its calls. How it treats errors depends on how sure it is that a call is intended: after a marker
everything is; elsewhere an object or a list is once it has named a declared tool. Before that,
anything unexpected means that the text is not a call. In a list, calls of undeclared tools may come
first: they are kept until a declared one shows what the list is.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.values import (
    NAMED_RULE,
    CutError,
    NotACallError,
    UnreadableError,
    is_followed,
    is_string_ahead,
    parse_arguments,
    parse_key,
    parse_string,
    parse_value,
    skip_space,
)
from langchain_gemini_tools.prompted.words import Source

if TYPE_CHECKING:
    from langchain_gemini_tools.prompted.values import Json
    from langchain_gemini_tools.prompted.words import Reading, ToolNames


_NAME = re.compile(r"[\w.:\\\-/]*")
_NAME_QUOTES = re.compile(r"[`\"'*]*")
_TAG_NAME = re.compile(r"[^<>\s{}]*")
_WORD = re.compile(r"[\w$\-]*")
_DECORATION = re.compile(r"[ \t*`]*")
_LINE_BREAK = re.compile(r"[\s*]*")
_MAX_WRAPPERS = 4
_DIGITS = "-0123456789"
_OUTER_KEYS = words.NAME_KEYS | words.WRAPPER_KEYS
_KNOWN_KEYS = _OUTER_KEYS | words.ARGUMENT_KEYS | words.SIDE_KEYS

CALL_RULE = "after the marker, write the tool's name and its arguments in parentheses"


@dataclass(frozen=True)
class FoundToolCall:
    """A tool call within the construct, with the offsets of its start and end."""

    start: int
    end: int
    name: str | None
    args: dict[str, Json] | None = None
    reason: str = ""
    is_cut: bool = False
    is_marked: bool = False
    """Whether a marker, a tag or a fence says that this is a call."""


@dataclass
class _Members:
    """The members of an object, as far as they were read."""

    keys: set[str] = field(default_factory=set)
    name: str | None = None
    args: Json = None
    has_arguments: bool = False
    has_others: bool = False
    inner: tuple[str, Json] | None = None
    """The call in an inner object."""
    has_inner: bool = False
    is_keyed: bool = False
    """Whether the keys are names of tools."""


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
        self.is_tentative = False
        """Whether a list has begun with the call of an undeclared tool."""
        self._is_in_list = False
        self._is_explaining = is_explaining
        self._depth = 0
        self._source = source
        self.names = names

    def read_construct(self, *, is_listed: bool = False) -> Reading[None]:
        """Read one construct, which may contain several calls.

        Args:
            is_listed: Whether the construct is an item of a list.

        Raises:
            NotACallError: The text is something else.
            UnreadableError: The text is intended as a call but cannot be parsed.
            CutError: The text ended before the call did.
        """
        if not (yield from self._source.more()):
            raise CutError
        self._begin()
        self._depth = 0
        self._is_in_list = is_listed
        self.is_tentative = False
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

    def read_action(self) -> Reading[None]:
        """Read `f` and, in the next line, `Action Input: {"a": 1}`; or `f(a=1)`."""
        source = self._source
        self.name = name = yield from self._read_declared_name()
        yield from source.run(_DECORATION)
        if (yield from source.peek()) not in ("\r", "\n"):
            yield from self._read_after_name(name)
            return
        yield from source.run(_LINE_BREAK)
        label = yield from source.match(words.ACTION_INPUT)
        if not label:
            raise NotACallError
        source.at += len(label)
        self.is_intended = True
        yield from source.run(_DECORATION)
        yield from source.run(_LINE_BREAK)
        self._add(name, (yield from self._read_action_input()))

    def _read_action_input(self) -> Reading[Json]:
        if (yield from self._source.peek()) == "{":
            return (yield from parse_value(self._source))
        word = yield from self._source.run(_WORD)
        is_over = not (yield from self._source.peek()).strip()
        if is_over and (word or "none").lower() in words.NOTHING:
            return {}
        raise UnreadableError("write its input as a JSON object")

    def read_invoke_tag(self) -> Reading[None]:
        """Read `f">`, the rest of `<invoke name="f">`, whose arguments are in tags."""
        name = (yield from self._source.run(_TAG_NAME)).strip("\"'")
        if not name:
            raise NotACallError
        self.name = name
        raise UnreadableError("its arguments are not a JSON object")

    def reject_found(self, detail: str) -> None:
        """Report the calls so far as one broken call.

        Raises:
            UnreadableError: Always.
        """
        self.begun_at = self.found[0].start
        self.found = []
        raise UnreadableError(detail)

    def add_broken(self, start: int, detail: str) -> None:
        """Add an intended call from `start` to here that cannot be parsed."""
        name = None if self.begun_at is None else self.name
        reason = (
            words.render_undeclared(name, self.names.listed)
            if name and name not in self.names
            else words.render_unreadable(name, detail, self.names.listed)
        )
        self._append(start, name, reason=reason)

    def add_cut(self, start: int) -> None:
        """Add a call that starts at `start` and that the end of the text cut off."""
        reason = words.render_cut(self.name)
        self._append(start, self.name, reason=reason, is_cut=True)

    def _append(self, start: int, name: str | None, **details: Any) -> None:
        end, is_marked = self._source.offset, self.is_marked
        self.found.append(FoundToolCall(start, end, name, is_marked=is_marked, **details))

    def _begin(self) -> None:
        self.begun_at = self._source.offset
        self.name = None

    def _enter(self) -> None:
        if self._depth == _MAX_WRAPPERS:
            raise self._error("it is wrapped too often")
        self._depth += 1

    def _error(self, detail: str) -> Exception:
        is_reported = self.is_intended or self.is_tentative
        return UnreadableError(detail) if is_reported else NotACallError()

    def _add(self, name: str, args: Json) -> None:
        """Add a complete call. Its errors do not affect other calls."""
        start = self._source.offset if self.begun_at is None else self.begun_at
        self.begun_at = None
        if name not in self.names:
            if self._is_explaining and name in words.PLACEHOLDERS:
                raise NotACallError
            reason = words.render_undeclared(name, self.names.listed)
            self._append(start, name, reason=reason)
            return
        try:
            self._append(start, name, args=parse_arguments(args))
        except UnreadableError as error:
            reason = words.render_unreadable(name, str(error), self.names.listed)
            self._append(start, name, reason=reason)

    def _read_list(self) -> Reading[None]:
        source = self._source
        self._is_in_list = True
        source.at += 1
        if (yield from skip_space(source)) == "]":
            if not self.is_intended:
                raise NotACallError
            source.at += 1
            self.begun_at = None
            return
        while True:
            self._begin()
            char = yield from source.peek()
            if char == "{":
                yield from self._read_object()
            elif char == "[":
                self._enter()
                yield from self._read_list()
                self._depth -= 1
            elif is_string_ahead(char):
                yield from self._read_quoted()
            else:
                yield from self._read_call()
            if not (yield from is_followed(source, "]")):
                break
        if not self.is_intended and not self._depth:
            raise NotACallError

    def _read_quoted(self) -> Reading[None]:
        """Read a call that is the text of a string: `"f(a=1)"`."""
        text = yield from parse_string(self._source)
        inner = Source(text.strip(), is_closed=True)
        reader = ToolCallReader(inner, self.names, is_marked=self.is_marked)
        try:
            deque(reader.read_construct(is_listed=True), maxlen=0)
        except (CutError, UnreadableError) as error:
            self.name = reader.name
            self.is_intended |= reader.name in self.names
            raise self._error(str(error) or "the call in quotes is not complete") from None
        if inner.at < len(inner.chunk):
            raise self._error("a call in quotes has to be complete")
        self.is_intended |= reader.is_intended
        self.is_tentative |= reader.is_tentative
        start = self._source.offset if self.begun_at is None else self.begun_at
        self.begun_at = None
        self.found += [
            replace(found, start=start, end=self._source.offset) for found in reader.found
        ]

    def _read_object(self) -> Reading[None]:
        start = self.begun_at
        if call := (yield from self._read_members()):
            self.begun_at = start
            self._add(*call)

    def _read_members(self) -> Reading[tuple[str, Json] | None]:
        """Read `{"name": ..., "arguments": ...}` or an object around it; None around a list."""
        source = self._source
        self._enter()
        source.at += 1
        members = _Members()
        is_open = (yield from skip_space(source)) != "}"
        source.at += not is_open
        while is_open:
            key = yield from parse_key(source, members.keys)
            members.keys.add(key)
            yield from self._read_member(members, key, (yield from skip_space(source)))
            is_open = yield from is_followed(source, "}")
        self._depth -= 1
        if members.has_inner:
            return members.inner
        if members.name is None:
            raise self._error('the object has no "name"')
        if not members.has_arguments and not self.is_marked and not self._depth:
            if self._is_in_list and members.has_others:
                raise self._error('the object has no "arguments"')
            raise NotACallError
        return members.name, {} if members.args in (None, "") else members.args

    def _read_member(self, members: _Members, key: str, char: str) -> Reading[None]:
        """Read the value of one key; `char` is its first character."""
        source = self._source
        if char == "{" and key in _OUTER_KEYS:
            members.inner = yield from self._read_members()
            members.has_inner = True
        elif char == "[" and key in words.WRAPPER_KEYS:
            yield from self._read_list()
            members.has_inner = True
        elif key == words.CODE_KEY and is_string_ahead(char):
            yield from self._read_quoted()
            members.has_inner = True
        elif char == "{" and self._may_be_name(key, members):
            self._add(key, (yield from parse_value(source)))
            members.has_inner = members.is_keyed = True
        elif members.is_keyed:
            raise NotACallError
        elif key in words.NAME_KEYS and members.name is None:
            members.name = yield from self._read_name()
        elif key in words.ARGUMENT_KEYS:
            members.args = yield from parse_value(source)
            members.has_arguments = True
        elif key in words.SIDE_KEYS or self.is_marked:
            yield from parse_value(source)
        elif members.name in self.names and key not in words.DEFINITION_KEYS:
            yield from parse_value(source)
            members.has_others = True
        else:
            raise NotACallError

    def _may_be_name(self, key: str, members: _Members) -> bool:
        """Return whether a key may be a tool's name, as in `{"f": {"a": 1}}`."""
        is_first = len(members.keys) == 1
        if key in _KNOWN_KEYS or self.is_marked or not (is_first or members.is_keyed):
            return False
        if key in self.names:
            self.is_intended |= self._is_in_list
        elif not self._is_in_list:
            return False
        self.is_tentative |= self._is_in_list
        self.name = key
        return True

    def _read_name(self) -> Reading[str]:
        """Read the value of a name key. A declared name shows that a call is intended."""
        if not is_string_ahead(self._source.chunk[self._source.at]):
            raise self._error("put the tool's name in double quotes")
        self.name = name = words.bare_name((yield from parse_string(self._source)), self.names)
        if name in self.names:
            self.is_intended = True
        elif not self.is_intended:
            if not self._is_in_list:
                raise NotACallError
            self.is_tentative = True
        return name

    def _read_call(self, *, is_printed: bool = False) -> Reading[None]:
        """Read `f(...)`, `f {...}`, `default_api.f(...)` or `print(f(...))`."""
        is_any = self.is_intended or self._is_in_list
        name = yield from (self._read_any_name() if is_any else self._read_declared_name())
        if not name:
            raise self._error(CALL_RULE)
        if self.is_marked and name.lower() in words.NOTHING and (yield from self._is_nothing(name)):
            return
        if name == words.PRINT and name not in self.names:
            yield from self._read_printed(is_printed=is_printed)
            return
        self.name = name
        yield from self._read_after_name(name)

    def _read_after_name(self, name: str) -> Reading[None]:
        """Read the arguments of a call: `(...)`, or an object, which may be in the next line."""
        source = self._source
        if self.is_marked:
            char = yield from skip_space(source)
        else:
            yield from source.run(words.BLANKS)
            char = yield from source.peek()
            if char in ("\r", "\n") and not self._is_in_list:
                yield from source.run(_LINE_BREAK)
                char = "{" if (yield from source.peek()) == "{" else ""
        if char == "{" and (self.is_marked or not self._is_in_list):
            self._add(name, (yield from parse_value(source)))
        elif char == "(":
            source.at += 1
            self.is_intended |= self._is_in_list and name in self.names
            self.is_tentative |= self._is_in_list
            args = yield from self._read_arguments()
            self.is_intended |= name in self.names
            self._add(name, args)
        else:
            raise self._error("its arguments are missing")

    def _is_nothing(self, name: str) -> Reading[bool]:
        """Return whether the line says no more than `TOOL_CALL: none`."""
        if name in self.names:
            return False
        yield from self._source.run(words.BLANKS)
        if (yield from self._source.peek()) not in ("", "\r", "\n"):
            return False
        self.begun_at = None
        return True

    def _read_printed(self, *, is_printed: bool) -> Reading[None]:
        """Read the rest of `print(f(...))`; one `print` in another is not a call."""
        source = self._source
        yield from source.run(words.BLANKS)
        if is_printed or (yield from source.peek()) != "(":
            raise self._error(CALL_RULE)
        source.at += 1
        yield from skip_space(source)
        self._begin()
        yield from self._read_call(is_printed=True)
        if (yield from skip_space(source)) != ")":
            raise self._error("the parenthesis of print(...) is not closed")
        source.at += 1

    def _read_declared_name(self) -> Reading[str]:
        source = self._source
        while True:
            word = yield from source.match(self.names.callables)
            source.at += len(word)
            if word not in words.PREFIXES or word in self.names:
                return word

    def _read_any_name(self) -> Reading[str]:
        """Read a name as models decorate it: in quotes or backticks, underscores escaped."""
        source = self._source
        quotes = yield from source.run(_NAME_QUOTES)
        # A declared name may contain any character.
        name = yield from source.match(self.names.words)
        source.at += len(name)
        name += yield from source.run(_NAME)
        if quotes:
            yield from source.run(_NAME_QUOTES)
        return words.bare_name(name, self.names)

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
            raise UnreadableError(f"{NAMED_RULE} (at {(key or char)[:60]!r})")
        source.at += 1
        return key
