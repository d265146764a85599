r"""Parse one value as models write it: JSON, and what they write instead.

Besides JSON, this accepts Python's literals: single and triple quotes, `True`, `False` and `None`,
tuples, `1_000`, `.5`, and the string prefixes `r`, `u` and `f`. It also accepts curly quotes,
single quotes that are doubled inside a string (`'it''s'`), keys without quotes, `=` for `:`,
trailing commas, raw line breaks in strings, and unknown escapes such as the `\d` of a pattern (kept
as they are). It never guesses: text without quotes, duplicate keys, expressions and placeholders of
an f-string are errors, with a message that says what to write.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, TypeAlias

from langchain_gemini_tools.prompted.words import Source, Words, shorten

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_gemini_tools.prompted.words import Reading


Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A parsed value."""

MAX_DEPTH = 100
"""Later steps recurse over the value: JSON, copies and schema validation."""
_MAX_NUMBER = 400

_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0\ufeff]*")
_SIMPLE = re.compile(
    r"""(?:"([^"\\\ud800-\udfff]+)"|(-?(?:0|[1-9][0-9]{0,17}))|(true|false|null))(?=[\s,}\]])"""
)
"""Most values, if they are complete: a shortcut that does not change the result."""
_WORD = re.compile(r"[\w.+\-$]*")
_NUMBER = re.compile(
    r"-?(?:(?:0|[1-9](?:_?[0-9])*)(?P<fraction>\.(?:[0-9](?:_?[0-9])*)?)?|(?P<tail>\.[0-9]+))"
    r"(?P<exponent>[eE][+-]?[0-9]+)?"
)
_KEY = re.compile(r"[\w$\-]*")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}
_PLAIN = {quote: re.compile(rf"[^{quote}\\]*") for quote in _QUOTES.values()}
_AFTER_VALUE = frozenset(",:;)]} \t\r\n")
"""What may follow a string. After two quotes, anything else means that the string goes on."""
_PREFIXES = frozenset({"r", "u", "f", "rf", "fr"})
_FIELD = re.compile(r"(?<!\{)(?:\{\{)*\{(?!\{)")
"""A single brace, which starts a placeholder of an f-string."""
_AFTER_OPENING = {quote: Words((quote, quote * 2)) for quote in _QUOTES.values()}
_TRIPLE = {quote: Words((quote * 3,)) for quote in _QUOTES.values()}
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "",
    "/": "/", "\\": "\\", '"': '"', "'": "'", "\u201c": "\u201c", "\u201d": "\u201d",
}  # fmt: skip
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


NAMED_RULE = "every argument needs its name"
_KINDS = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


class UnreadableError(Exception):
    """The text is not a value; the message says why."""


class NotACallError(Exception):
    """The text is something other than a tool call."""


class CutError(Exception):
    """The text ended before the value did."""


def parse_value(source: Source) -> Reading[Json]:
    """Read one value. Nesting is kept on a list, so brackets cannot exhaust the call stack."""
    stack: list[_Container] = []
    while True:
        char = yield from skip_space(source)
        if char in _CLOSERS:
            if len(stack) == MAX_DEPTH:
                raise UnreadableError(f"it is nested deeper than {MAX_DEPTH} levels")
            source.at += 1
            container = _Container(char)
            if (yield from skip_space(source)) != container.closer:
                yield from container.read_key(source)
                stack.append(container)
                continue
            source.at += 1
            value: Json = container.value
        elif simple := _SIMPLE.match(source.chunk, source.at):
            source.at = simple.end()
            text, number, word = simple.groups()
            value = text if text is not None else int(number) if number else _WORDS[word]
        else:
            value = yield from _parse_scalar(source, char)
        while stack:
            stack[-1].add(value)
            is_grouped = stack[-1].closer == ")" and (yield from skip_space(source)) == ")"
            if (yield from is_followed(source, stack[-1].closer)):
                yield from stack[-1].read_key(source)
                break
            value = stack.pop().finish(is_grouped=is_grouped)
        else:
            return value


def parse_whole(text: str) -> Json:
    """Parse a text that consists of one value.

    Raises:
        UnreadableError: The text is something else.
    """
    source = Source(text, is_closed=True)

    def read() -> Reading[Json]:
        value = yield from parse_value(source)
        yield from source.run(_SPACE)
        if (yield from source.more()):
            raise UnreadableError("something follows the value")
        return value

    try:
        next(read())
    except StopIteration as done:
        value: Json = done.value
        return value
    except CutError:
        pass
    raise UnreadableError("it ends too early")


def parse_arguments(args: Json) -> dict[str, Json]:
    """Return the arguments as an object, also if they are the JSON text of one."""
    if isinstance(args, str):
        with contextlib.suppress(UnreadableError):
            args = parse_whole(args)
    if not isinstance(args, dict):
        raise UnreadableError(
            f"its arguments are {_KINDS[type(args)]}, not an object; {NAMED_RULE}"
        )
    return args


def skip_space(source: Source) -> Reading[str]:
    """Skip white space; return the next character without reading it.

    Raises:
        UnreadableError: One of the source's stops starts the line.
        CutError: The text ends here.
    """
    if source.at < len(source.chunk) and not source.chunk[source.at].isspace():
        return source.chunk[source.at]
    space = yield from source.run(_SPACE)
    if "\n" in space and (yield from source.match(source.stops)):
        raise UnreadableError("the next call begins before this one is closed")
    if not (yield from source.more()):
        raise CutError
    return source.chunk[source.at]


def is_followed(source: Source, closer: str) -> Reading[bool]:
    """After a member, read a comma or the closing bracket; return whether a member follows."""
    char = yield from skip_space(source)
    if char == ",":
        source.at += 1
        if (yield from skip_space(source)) != closer:
            return True
    elif char != closer:
        raise UnreadableError(f"{closer} or a comma is missing before {char!r}")
    source.at += 1
    return False


def parse_key(source: Source, taken: Collection[str]) -> Reading[str]:
    """Read a key and the colon or equals sign after it."""
    char = yield from skip_space(source)
    if char in _QUOTES:
        key = yield from parse_string(source)
    else:
        key = yield from source.run(_KEY)
    if not key:
        raise UnreadableError(f"a name in double quotes is missing before {char!r}")
    if key in taken:
        raise UnreadableError(f"{shorten(key)!r} is given twice")
    if (yield from skip_space(source)) not in ":=":
        raise UnreadableError(f"a colon is missing after {shorten(key)!r}")
    source.at += 1
    return key


def is_string_ahead(char: str) -> bool:
    """Return whether a string starts with this character."""
    return char in _QUOTES


def parse_string(source: Source, *, is_raw: bool = False) -> Reading[str]:
    """Read a string; the next character is its opening quote.

    Args:
        source: The text.
        is_raw: Whether backslashes are kept, as after Python's prefix `r`.
    """
    quote = _QUOTES[source.chunk[source.at]]
    source.at += 1
    doubled = yield from source.match(_AFTER_OPENING[quote])
    if doubled == quote:
        source.at += 1
        return ""
    source.at += len(doubled)
    parts: list[str] = []
    while True:
        parts.append((yield from source.run(_PLAIN[quote])))
        if not (yield from source.more()):
            raise CutError
        if source.chunk[source.at] == "\\":
            if is_raw:
                parts.append((yield from source.read(2)))
                continue
            if simple := _ESCAPES.get(source.chunk[source.at + 1 : source.at + 2]):
                source.at += 2
                parts.append(simple)
                continue
            source.at += 1
            parts.append((yield from _parse_escape(source)))
        elif not doubled:
            source.at += 1
            if not (yield from _is_doubled(source, quote)):
                return _join_surrogates("".join(parts))
            parts.append(quote)
        elif (yield from source.match(_TRIPLE[quote])):
            source.at += 3
            return _join_surrogates("".join(parts))
        else:
            source.at += 1
            parts.append(quote)


def _is_doubled(source: Source, quote: str) -> Reading[bool]:
    """After a quote, return whether it is doubled inside a string; if so, read the second one.

    Only single quotes are doubled, as in SQL: `"a""b"` may be two strings without a comma.
    """
    if quote != "'" or (yield from source.peek()) != quote:
        return False
    source.at += 1
    if (yield from source.peek()) in _AFTER_VALUE:
        raise UnreadableError(f"a comma is missing before {quote!r}")
    return True


class _Container:
    """An object, an array or a tuple that is still open."""

    def __init__(self, opener: str) -> None:
        self.closer = _CLOSERS[opener]
        self.value: dict[str, Json] | list[Json] = {} if opener == "{" else []
        self._key = ""

    def read_key(self, source: Source) -> Reading[None]:
        if isinstance(self.value, dict):
            self._key = yield from parse_key(source, self.value)

    def add(self, value: Json) -> None:
        if isinstance(self.value, dict):
            self.value[self._key] = value
        else:
            self.value.append(value)

    def finish(self, *, is_grouped: bool) -> Json:
        """Return the value; a single value in parentheses without a comma is that value."""
        if is_grouped and len(self.value) == 1:
            return next(iter(self.value))
        return self.value


def _parse_scalar(source: Source, char: str) -> Reading[Json]:
    if char in _QUOTES:
        return (yield from parse_string(source))
    word = yield from source.run(_WORD)
    if (prefix := word.lower()) in _PREFIXES and (yield from source.peek()) in _QUOTES:
        return (yield from _parse_prefixed(source, prefix))
    if word in _WORDS:
        return _WORDS[word]
    number = _NUMBER.fullmatch(word)
    if number is None:
        if not word:
            raise UnreadableError(f"a value cannot begin with {char!r}")
        raise UnreadableError(f"{shorten(word)!r} is not a JSON value; put text in double quotes")
    if len(word) > _MAX_NUMBER:
        raise UnreadableError(f"the number {shorten(word)} is too long; write it as text")
    if not any(number.groupdict().values()):
        return int(word)
    value = float(word)
    if not math.isfinite(value):
        raise UnreadableError(f"the number {shorten(word)} is too large")
    return value


def _parse_prefixed(source: Source, prefix: str) -> Reading[str]:
    """Read a string after one of Python's prefixes."""
    text = yield from parse_string(source, is_raw="r" in prefix)
    if "f" not in prefix:
        return text
    if _FIELD.search(text):
        raise UnreadableError(
            f"the f-string {shorten(text)!r} has a placeholder; write the text itself"
        )
    return text.replace("{{", "{").replace("}}", "}")


def _parse_escape(source: Source) -> Reading[str]:
    """Read what follows a backslash. Unknown escapes keep it: Windows paths, patterns."""
    char = yield from source.read(1)
    if not char:
        raise CutError
    if char not in _HEX_DIGITS:
        return _ESCAPES.get(char, "\\" + char)
    count = _HEX_DIGITS[char]
    digits = ""
    while len(digits) < count and _HEX.fullmatch((yield from source.peek())):
        digits += yield from source.read(1)
    if not (yield from source.more()):
        raise CutError
    if len(digits) < count or int(digits, 16) > 0x10FFFF:
        return "\\" + char + digits
    return chr(int(digits, 16))


def _join_surrogates(text: str) -> str:
    """Join pairs of surrogates; a lone surrogate could not be sent anywhere."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise UnreadableError("a string contains a lone surrogate") from None
