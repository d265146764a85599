r"""Read one value as models write it: JSON, and what they write instead.

Besides JSON, this accepts Python's literals: single and triple quotes, `True`, `False` and `None`,
tuples, `1_000`, `.5`, and the string prefixes `r`, `u` and `f`. It also accepts curly quotes,
single quotes that are doubled inside a string (`'it''s'`), Gemma's tokens in place of quotes, keys
without quotes, `=` for `:`, trailing commas, raw line breaks in strings, and unknown escapes such
as the `\d` of a pattern (kept as they are). It never guesses: text without quotes, duplicate keys,
expressions and placeholders of an f-string are errors, with a message that says what to write.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from langchain_gemini_tools.prompted.text import Source
from langchain_gemini_tools.prompted.words import TEXT_TOKENS, Words, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_gemini_tools.prompted.text import Reading

T = TypeVar("T")
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
KEY = re.compile(r"[\w$\-]*")
"""A key, or the name of an argument, without quotes."""
_DIGITS = "-0123456789"
_NO_TAG = re.compile(r"[^<]*")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d"}
"""What a string begins with -> what it ends with."""
_PLAIN = {quote: re.compile(rf"[^{quote}\\]*") for quote in QUOTES.values()}
_AFTER_VALUE = frozenset(",:;)]} \t\r\n")
"""What may follow a string. After two quotes, anything else means that the string goes on."""
_PREFIXES = frozenset({"r", "u", "f", "rf", "fr"})
_FIELD = re.compile(r"(?<!\{)(?:\{\{)*\{(?!\{)")
"""A single brace, which starts a placeholder of an f-string."""
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "",
    "/": "/", "\\": "\\", '"': '"', "'": "'", "\u201c": "\u201c", "\u201d": "\u201d",
}  # fmt: skip
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}

_NAMED_RULE = "every argument needs its name"
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


class CutError(Exception):
    """The text ended before the value did."""


_AFTER_OPENING = {quote: Words((quote, quote * 2)) for quote in QUOTES.values()}
_TRIPLE = {quote: Words((quote * 3,)) for quote in QUOTES.values()}


def run_closed(reading: Reading[T]) -> T:
    """Run a read of a closed source, which never waits."""
    try:
        next(reading)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("The source is not closed.")


def parse_value(source: Source, depth: int = 0) -> Reading[Json]:
    """Read one value; `depth` is the number of brackets around it."""
    char = yield from skip_space(source)
    if simple := _SIMPLE.match(source.chunk, source.at):
        source.at = simple.end()
        text, number, word = simple.groups()
        return text if text is not None else int(number) if number else _WORDS[word]
    if char not in _CLOSERS:
        return (yield from _parse_scalar(source, char))
    if depth == MAX_DEPTH:
        raise UnreadableError(f"it is nested deeper than {MAX_DEPTH} levels")
    source.at += 1
    closer = _CLOSERS[char]
    if (yield from skip_space(source)) == closer:
        source.at += 1
        return {} if char == "{" else []
    if char == "{":
        key = yield from parse_key(source, ())
        return (yield from _parse_members(source, key, closer, depth + 1))
    return (yield from _parse_items(source, closer, depth + 1))


def _parse_members(
    source: Source, key: str, closer: str, depth: int = 0
) -> Reading[dict[str, Json]]:
    """Read the members of an object, or named arguments, after the first key."""
    members: dict[str, Json] = {}
    while True:
        members[key] = yield from parse_value(source, depth)
        if not (yield from is_followed(source, closer)):
            return members
        key = yield from parse_key(source, members)


def _parse_items(source: Source, closer: str, depth: int) -> Reading[Json]:
    """Read the items of an array or a tuple; one in parentheses without a comma is that value."""
    items: list[Json] = []
    while True:
        items.append((yield from parse_value(source, depth)))
        is_grouped = closer == ")" and len(items) == 1 and (yield from skip_space(source)) == ")"
        if not (yield from is_followed(source, closer)):
            return items[0] if is_grouped else items


def parse_whole(text: str) -> Json:
    """Parse a text that consists of one value.

    Raises:
        UnreadableError: The text is something else.
    """
    source = Source(text, is_closed=True)
    try:
        value = run_closed(parse_value(source))
    except CutError:
        raise UnreadableError("it ends too early") from None
    if not _SPACE.fullmatch(source.chunk, source.at):
        raise UnreadableError("something follows the value")
    return value


def parse_call_arguments(source: Source) -> Reading[Json]:
    """Read the arguments of a call, after its opening parenthesis, and the closing one.

    Named arguments are returned as an object, others as they are, for `parse_arguments` to reject.
    """
    char = yield from skip_space(source)
    if char == ")":
        source.at += 1
        return {}
    if char not in "{[" and char not in QUOTES and char not in _DIGITS:
        key = yield from source.run(KEY)
        if not key or (yield from skip_space(source)) not in ":=":
            raise UnreadableError(f"{_NAMED_RULE} (at {(key or char)[:60]!r})")
    else:
        first = yield from parse_value(source)
        if not isinstance(first, str) or (yield from skip_space(source)) not in ":=":
            values = [first]
            while (yield from is_followed(source, ")")):
                values.append((yield from parse_value(source)))
            return first if len(values) == 1 else values
        key = first
    source.at += 1
    return (yield from _parse_members(source, key, ")"))


def parse_arguments(args: Json) -> dict[str, Json]:
    """Return the arguments as an object, also if they are the JSON text of one."""
    if isinstance(args, str):
        with contextlib.suppress(UnreadableError):
            args = parse_whole(args)
    if not isinstance(args, dict):
        raise UnreadableError(
            f"its arguments are {_KINDS[type(args)]}, not an object; {_NAMED_RULE}"
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


def parse_key(source: Source, taken: Iterable[str]) -> Reading[str]:
    """Read a key and the colon or equals sign after it."""
    char = yield from skip_space(source)
    key = yield from (parse_string(source) if char in QUOTES else source.run(KEY))
    if not key:
        raise UnreadableError(f"a name in double quotes is missing before {char!r}")
    if key in taken:
        raise UnreadableError(f"{shorten(key)!r} is given twice")
    if (yield from skip_space(source)) not in ":=":
        raise UnreadableError(f"a colon is missing after {shorten(key)!r}")
    source.at += 1
    return key


def parse_string(source: Source, *, is_raw: bool = False) -> Reading[str]:
    """Read a string; the next character is its opening quote.

    Args:
        source: The text.
        is_raw: Whether backslashes are kept, as after Python's prefix `r`.
    """
    quote = QUOTES[source.chunk[source.at]]
    source.at += 1
    doubled = yield from source.skip(_AFTER_OPENING[quote])
    if doubled == quote:
        return ""
    parts: list[str] = []
    while True:
        parts.append((yield from source.run(_PLAIN[quote])))
        if not (yield from source.more()):
            raise CutError
        if source.chunk[source.at] == "\\":
            source.at += 1
            parts.append((yield from _parse_escape(source, is_raw=is_raw)))
        elif (yield from _is_inside(source, quote, is_triple=bool(doubled))):
            parts.append(quote)
        else:
            return _join_surrogates("".join(parts))


def _is_inside(source: Source, quote: str, *, is_triple: bool) -> Reading[bool]:
    """Read a quote that may end a string; return whether it is part of the string instead.

    Only single quotes are doubled, as in SQL: `"a""b"` may be two strings without a comma.
    """
    if is_triple:
        end = yield from source.skip(_TRIPLE[quote])
        source.at += not end
        return not end
    source.at += 1
    if quote != "'" or (yield from source.peek()) != quote:
        return False
    source.at += 1
    if (yield from source.peek()) in _AFTER_VALUE:
        raise UnreadableError(f"a comma is missing before {quote!r}")
    return True


def _parse_escape(source: Source, *, is_raw: bool) -> Reading[str]:
    """Read what follows a backslash. Unknown escapes keep it: Windows paths, patterns."""
    char = yield from source.peek()
    if not char:
        raise CutError
    source.at += 1
    if is_raw or char not in _HEX_DIGITS:
        return "\\" + char if is_raw else _ESCAPES.get(char, "\\" + char)
    digits = ""
    while len(digits) < _HEX_DIGITS[char] and _HEX.fullmatch((yield from source.peek())):
        digits += source.chunk[source.at]
        source.at += 1
    if not (yield from source.more()):
        raise CutError
    if len(digits) < _HEX_DIGITS[char] or int(digits, 16) > 0x10FFFF:
        return "\\" + char + digits
    return chr(int(digits, 16))


def _parse_scalar(source: Source, char: str) -> Reading[Json]:
    if char in QUOTES:
        return (yield from parse_string(source))
    if token := (yield from source.skip(TEXT_TOKENS)):
        return (yield from _parse_literal(source, token))
    word = yield from source.run(_WORD)
    if (prefix := word.lower()) in _PREFIXES and (yield from source.peek()) in QUOTES:
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


def _parse_literal(source: Source, token: str) -> Reading[str]:
    """Read text up to the token that it also started with."""
    closing = Words((token,))
    parts: list[str] = []
    while True:
        parts.append((yield from source.run(_NO_TAG)))
        if not (yield from source.more()):
            raise CutError
        if (yield from source.skip(closing)):
            return _join_surrogates("".join(parts))
        parts.append("<")
        source.at += 1


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


def _join_surrogates(text: str) -> str:
    """Join pairs of surrogates; a lone surrogate could not be sent anywhere."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise UnreadableError("a string contains a lone surrogate") from None
