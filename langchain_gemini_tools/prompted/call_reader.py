"""Read one construct that contains tool calls, in any notation.

A construct is an object, a list, `f(a=1)` or `f({"a": 1})`. `ToolCallReader` reads one and collects
its calls. How it treats errors depends on how sure it is that a call is intended: after a marker
everything is; elsewhere an object or a list is once it has named a declared tool. Before that,
anything unexpected means that the text is not a call. In a list, calls of undeclared tools may come
first: they are kept until a declared one shows what the list is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.text import (
    BrokenToolCall,
    FoundToolCall,
    ParsedToolCall,
    Source,
)
from langchain_gemini_tools.prompted.values import (
    KEY,
    QUOTES,
    CutError,
    UnreadableError,
    is_followed,
    parse_arguments,
    parse_call_arguments,
    parse_key,
    parse_string,
    parse_value,
    run_closed,
    skip_space,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.prompted.text import Reading
    from langchain_gemini_tools.prompted.values import Json
    from langchain_gemini_tools.prompted.words import ToolNames


_NAME = re.compile(r"[\w.:\\\-/]*")
_NAME_QUOTES = re.compile(r"[`\"'*]*")
_TAG_NAME = re.compile(r"[^<>\s{}]*")
_DECORATION = re.compile(r"[ \t*`]*")
_LINE_BREAK = re.compile(r"[\s*]*")
_LINK = re.compile(r"\[[^\[\]]*\]\(")
"""A link of Markdown, which may have the form of a call as its text."""
_MAX_WRAPPERS = 4
_OUTER_KEYS = words.NAME_KEYS | words.WRAPPER_KEYS
_KNOWN_KEYS = _OUTER_KEYS | words.ARGUMENT_KEYS | words.SIDE_KEYS

CALL_RULE = "after the marker, write the tool's name and its arguments in parentheses"


class NotACallError(Exception):
    """The text is something other than a tool call."""


@dataclass
class _Members:
    """The members of an object, as far as they were read."""

    keys: set[str] = field(default_factory=set)
    name: str | None = None
    args: Json = None
    has_arguments: bool = False
    inner: tuple[str, Json] | None = None
    """The call in an inner object."""
    has_inner: bool = False
    is_keyed: bool = False
    """Whether the keys are names of tools."""


class ToolCallReader:
    """Reads constructs; after an error, `found` has the calls before it.

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
        self.is_marked = is_marked
        self.is_intended = is_marked
        self.is_tentative = False
        """Whether a list has begun with the call of an undeclared tool."""
        self._begun_at: int | None = source.offset
        """The offset where the current call started, None between two calls."""
        self.name: str | None = None
        self._is_in_list = False
        self._is_open = False
        """Whether a construct was begun and not read to its end."""
        self._is_explaining = is_explaining
        self._depth = 0
        self._source = source
        self._names = names

    def attempt(
        self, body: Reading[None], skip_broken: Callable[[], Reading[None]], *, is_fenced: bool
    ) -> Reading[bool]:
        """Run a read; return whether it found calls, complete, broken or cut off.

        Args:
            body: The read to run.
            skip_broken: Reads the rest of a broken call.
            is_fenced: Whether the calls are in a fence.
        """
        try:
            yield from body
        except NotACallError:
            return False
        except (UnreadableError, RecursionError) as error:
            if not self.is_reported:
                return False
            if self._begun_at is None and self.is_marked and not is_fenced:
                return True  # between two calls of a list: keep those before the error
            start = self._source.offset if self._begun_at is None else self._begun_at
            yield from skip_broken()
            seen = self._source.seen()
            if not self.is_intended and not self._names.are_called_in(seen[start:]):
                return False
            if not self.is_marked and _LINK.match(seen.strip()):
                return False
            name = None if self._begun_at is None else self.name
            is_deep = isinstance(error, RecursionError)  # the caller's stack is deep already
            detail = "its arguments are nested too deep" if is_deep else str(error)
            self._append(start, BrokenToolCall(name, reason=self._names.explain(name, detail)))
        except CutError:
            if not self.is_intended and (self.is_tentative or self.name is None):
                return False
            if self._begun_at is None:
                if self._is_in_list or not (self._is_open and self.found):
                    return bool(self.found)
                self._begun_at = self.found.pop().start  # the object or `print(` around it is open
            reason = words.render_cut(self.name)
            self._append(self._begun_at, BrokenToolCall(self.name, reason=reason, is_cut=True))
        return True

    def read_construct(self, *, is_listed: bool = False) -> Reading[None]:
        """Read one construct, which may contain several calls.

        Args:
            is_listed: Whether the construct is an item of a list.

        Raises:
            NotACallError: The text is something else.
            UnreadableError: The text, if it is intended as a call, cannot be parsed.
            CutError: The text ended before the call did.
        """
        if not (yield from self._source.more()):
            raise CutError
        self._is_open = True
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
        self._is_open = False

    def read_function_tag(self, opener: str) -> Reading[None]:
        """Read the rest of Llama's `<function=f>{"a": 1}</function>`, or of `<invoke name="f">`.

        The arguments of the latter are in tags.
        """
        source = self._source
        name = yield from source.run(_TAG_NAME)
        self.name = name.strip("\"'") if opener == words.INVOKE_TAG else name
        if not self.name or (opener == words.FUNCTION_TAG and (yield from source.peek()) != ">"):
            raise NotACallError
        if opener == words.FUNCTION_TAG:
            source.at += 1
            if (yield from skip_space(source)) == "{":
                self._add(self.name, (yield from parse_value(source)))
                return
        raise UnreadableError(
            "what follows the name is not a JSON object; write the arguments as a JSON object"
        )

    def read_action(self) -> Reading[None]:
        """Read `f` and, in the next line, `Action Input: {"a": 1}`; or `f(a=1)`."""
        source = self._source
        self.name = name = yield from self._read_declared_name()
        yield from source.run(_DECORATION)
        if (yield from source.peek()) not in ("\r", "\n"):
            yield from self._read_after_name(name)
        else:
            yield from source.run(_LINE_BREAK)
            if not (yield from source.skip(words.ACTION_INPUT)):
                raise NotACallError
            self.is_intended = True
            yield from source.run(_DECORATION)
            yield from source.run(_LINE_BREAK)
            self._add(name, (yield from self._read_action_input()))
        yield from source.run(words.TRAILER)
        if (yield from source.peek()) not in words.LINE_ENDS:
            raise NotACallError

    def _read_action_input(self) -> Reading[Json]:
        if (yield from self._source.peek()) == "{":
            return (yield from parse_value(self._source))
        word = yield from self._source.run(KEY)
        is_over = not (yield from self._source.peek()).strip()
        if is_over and (word or "none").lower() in words.NOTHING:
            return {}
        raise UnreadableError("write its input as a JSON object")

    def reject_found(self, detail: str) -> None:
        """Report the calls so far as one broken call.

        Raises:
            UnreadableError: Always.
        """
        self._begun_at = self.found[0].start
        self.found = []
        raise UnreadableError(detail)

    @property
    def is_reported(self) -> bool:
        """Whether an error is reported; otherwise it shows that the text is not a call."""
        return self.is_intended or self.is_tentative

    def _begin(self) -> None:
        self._begun_at = self._source.offset
        self.name = None

    def _end(self) -> int:
        """End the current call; return where it started."""
        start = self._source.offset if self._begun_at is None else self._begun_at
        self._begun_at = None
        return start

    def _append(self, start: int, call: ParsedToolCall | BrokenToolCall) -> None:
        self.found.append(FoundToolCall(start, self._source.offset, call, self.is_marked))

    def _add(self, name: str, args: Json) -> None:
        """Add a complete call. Its errors do not affect other calls."""
        start = self._end()
        call: ParsedToolCall | BrokenToolCall
        if name not in self._names:
            if self._is_explaining and name in words.PLACEHOLDERS:
                raise NotACallError
            call = BrokenToolCall(name, reason=self._names.explain(name))
        else:
            try:
                call = ParsedToolCall(name, parse_arguments(args))
            except UnreadableError as error:
                call = BrokenToolCall(name, reason=self._names.explain(name, str(error)))
        self._append(start, call)

    def _enter(self) -> None:
        if self._depth == _MAX_WRAPPERS:
            raise UnreadableError("it is wrapped too often")
        self._depth += 1

    def _read_list(self) -> Reading[None]:
        source = self._source
        self._is_in_list = True
        source.at += 1
        if (yield from skip_space(source)) == "]":
            if not self.is_intended:
                raise NotACallError
            source.at += 1
            self._begun_at = None
            return
        is_open = True
        while is_open:
            self._begin()
            char = yield from source.peek()
            if char == "{":
                yield from self._read_object()
            elif char == "[":
                self._enter()
                yield from self._read_list()
                self._depth -= 1
            elif char in QUOTES:
                yield from self._read_quoted()
            else:
                yield from self._read_call()
            is_open = yield from is_followed(source, "]")
        if not self.is_intended and not self._depth:
            raise NotACallError

    def _read_quoted(self) -> Reading[None]:
        """Read a call that is the text of a string: `"f(a=1)"`."""
        text = yield from parse_string(self._source)
        inner = Source(text.strip(), is_closed=True)
        reader = ToolCallReader(inner, self._names, is_marked=self.is_marked)
        try:
            run_closed(reader.read_construct(is_listed=True))
        except (CutError, UnreadableError) as error:
            if isinstance(error, UnreadableError) and not reader.is_reported:
                raise NotACallError from None
            self.name = reader.name
            self.is_intended |= reader.name in self._names
            raise UnreadableError(str(error) or "the call in quotes is not complete") from None
        if inner.at < len(inner.chunk):
            raise UnreadableError("a call in quotes has to be complete")
        self.is_intended |= reader.is_intended
        self.is_tentative |= reader.is_tentative
        start, end = self._end(), self._source.offset
        self.found += [replace(found, start=start, end=end) for found in reader.found]

    def _read_object(self) -> Reading[None]:
        start = self._begun_at
        if call := (yield from self._read_members()):
            self._begun_at = start
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
            raise UnreadableError('the object has no "name"')
        if not members.has_arguments and not self.is_marked and not self._depth:
            if self._is_in_list and len(members.keys - words.SIDE_KEYS) > 1:
                raise UnreadableError('the object has no "arguments"')
            raise NotACallError
        if not self.is_marked and "parameters" in members.keys and _is_schema(members.args):
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
        elif key == words.CODE_KEY and char in QUOTES:
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
        elif (
            key in words.SIDE_KEYS
            or self.is_marked
            or (members.name in self._names and key not in words.DEFINITION_KEYS)
        ):
            yield from parse_value(source)
        else:
            raise NotACallError

    def _may_be_name(self, key: str, members: _Members) -> bool:
        """Return whether a key may be a tool's name, as in `{"f": {"a": 1}}`."""
        is_first = len(members.keys) == 1
        if key in _KNOWN_KEYS or self.is_marked or not (is_first or members.is_keyed):
            return False
        if key not in self._names and not self._is_in_list:
            return False
        self.is_intended |= self._is_in_list and key in self._names
        self.is_tentative |= self._is_in_list
        self.name = key
        return True

    def _read_name(self) -> Reading[str]:
        """Read the value of a name key. A declared name shows that a call is intended."""
        if self._source.chunk[self._source.at] not in QUOTES:
            raise UnreadableError("put the tool's name in double quotes")
        self.name = name = self._names.bare((yield from parse_string(self._source)))
        if name in self._names:
            self.is_intended = True
        elif not self.is_intended:
            if not self._is_in_list:
                raise NotACallError
            self.is_tentative = True
        return name

    def _read_call(self) -> Reading[None]:
        """Read `f(...)`, `f {...}`, `default_api.f(...)` or `print(f(...))`."""
        source = self._source
        name = yield from self._read_called_name()
        is_printed = name == words.PRINT and name not in self._names
        if is_printed:
            yield from source.run(words.BLANKS)
            if (yield from source.peek()) != "(":
                raise UnreadableError(CALL_RULE)
            source.at += 1
            yield from skip_space(source)
            self._begin()
            name = yield from self._read_called_name()
        if not name or (is_printed and name == words.PRINT):
            raise UnreadableError(CALL_RULE)
        if self.is_marked and name.lower() in words.NOTHING and name not in self._names:
            yield from source.run(words.BLANKS)
            if (yield from source.peek()) in words.LINE_ENDS:
                self._begun_at = None
                return
        self.name = name
        yield from self._read_after_name(name)
        if is_printed:
            if (yield from skip_space(source)) != ")":
                raise UnreadableError("the parenthesis of print(...) is not closed")
            source.at += 1

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
        if char == "{":
            self._add(name, (yield from parse_value(source)))
        elif char == "(":
            source.at += 1
            self.is_intended |= self._is_in_list and name in self._names
            self.is_tentative |= self._is_in_list
            args = yield from parse_call_arguments(source)
            self.is_intended |= name in self._names
            self._add(name, args)
        else:
            raise UnreadableError("its arguments are missing")

    def _read_declared_name(self) -> Reading[str]:
        while True:
            word = yield from self._source.skip(self._names.callables)
            if word not in words.PREFIXES or word in self._names:
                return word

    def _read_called_name(self) -> Reading[str]:
        """Read a name as models decorate it: in quotes or backticks, underscores escaped."""
        if not self.is_intended and not self._is_in_list:
            return (yield from self._read_declared_name())
        source = self._source
        quotes = yield from source.run(_NAME_QUOTES)
        # A declared name may contain any character.
        name = yield from source.skip(self._names.words)
        name += yield from source.run(_NAME)
        if quotes:
            yield from source.run(_NAME_QUOTES)
        return self._names.bare(name)


def _is_schema(args: Json) -> bool:
    """Return whether these are not arguments but the schema in the definition of a tool."""
    return (
        isinstance(args, dict)
        and args.get("type") == "object"
        and isinstance(args.get("properties"), dict)
    )
