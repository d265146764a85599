"""JSON: encoding Python values, decoding responses and tool results, and their limits.

`dump_json` defines how each value is encoded. `encode_json` gives the same result in a twentieth
of the time for values that are plain JSON already, and leaves the others to `dump_json`.

`camel` and `snake` spell names as the API does (`googleSearch`) and as Python does
(`google_search`).
"""

from __future__ import annotations

import json
import marshal
import math
import re
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

import orjson

from langchain_gemini_tools.errors import InvalidInputError, UnreadableResponseError

JsonObject = dict[str, Any]
JsonContainer = JsonObject | list[Any]

AS_TEXT = (", ", ": ")
"""Separators for JSON that a model reads as text."""

LARGE = 1_000_000
"""From this length on, orjson is not used: it reserves ten times the length of a string, and ends
the process if it does not get that."""

MAX_DEPTH = 100
"""Levels of nesting in a response. Pydantic encodes about 250; a message adds a few."""


# Encoding

_PLAIN_ONLY = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_NOT_FINITE = re.compile(rb"g.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)
"""NaN and the infinities in the format of `marshal`, which writes a "g" before each float."""


def encode_json(value: object, *, is_large: bool = False) -> bytes:
    """Encode a value as the JSON that is sent.

    Args:
        value: The value.
        is_large: Whether the value may contain strings longer than `LARGE`.

    Raises:
        InvalidInputError: The value contains something that cannot be written as JSON.
    """
    if not is_large:
        try:
            written: bytes = orjson.dumps(value, option=_PLAIN_ONLY)
        except TypeError:
            pass  # a value that is not plain JSON, or a lone surrogate
        else:
            if b"null" not in written or not _may_contain_nan(value):
                return written
    return replace_surrogates(dump_json(value)).encode("utf-8")


def _may_contain_nan(value: Any) -> bool:
    """Return whether a `null` may be NaN or an infinity, which orjson encodes without an error."""
    try:
        return _NOT_FINITE.search(marshal.dumps(value, 2)) is not None
    except ValueError:
        return True


def dump_json(value: object, separators: tuple[str, str] = (",", ":")) -> str:
    """Return the JSON text of a value.

    Args:
        value: The value.
        separators: Between items, and between a key and its value.

    Raises:
        InvalidInputError: The value contains something that cannot be written as JSON.
    """
    try:
        return _dump(value, separators)
    except InvalidInputError:
        raise
    except RecursionError as error:
        raise InvalidInputError(
            "A message contains a value that is nested too deeply to send."
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"A message contains a value that cannot be written as JSON: {error}"
        ) from error


def _dump(value: object, separators: tuple[str, str]) -> str:
    dump = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=separators)
    try:
        try:
            return dump(value, default=_jsonable, check_circular=False)
        except RecursionError:  # circular, or only deep: the slower check finds out which
            return dump(value, default=_jsonable)
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        if "circular" in str(error).lower():
            raise InvalidInputError("A message contains a value that contains itself.") from error
        # NaN and infinities are not JSON: they are written as text. So are unusual keys.
        return dump(_clean(value))


def _jsonable(value: object) -> Any:
    match value:
        case Enum():
            return value.value
        case date() | datetime() | time():
            return value.isoformat()
        case Decimal() if value.is_finite() and value.as_tuple().exponent == 0:
            return int(value)  # some databases return every number as a Decimal
        case UUID() | Decimal():
            return str(value)
        case set() | frozenset():
            return sorted(value, key=repr)
        case bytes() | bytearray():
            raise InvalidInputError(
                f"A message contains {len(value)} raw bytes. Send them as a media block "
                "with base64 and mime_type, or as text."
            )
    if isinstance(value, type):
        raise InvalidInputError(
            f"A message contains a class, which cannot be written as JSON: {value!r:.80}"
        )
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if hasattr(value, "tolist"):  # numpy
        return value.tolist()
    raise InvalidInputError(
        f"A message contains a value of type {type(value).__name__}, which cannot be written as "
        f"JSON: {value!r:.80}"
    )


def _clean(value: object) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_key(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return _clean(_jsonable(value))


def _key(key: object) -> str:
    """Return the text of a key; numbers and constants are spelled as in JSON."""
    clean = _clean(key)
    if isinstance(clean, (dict, list)):
        raise InvalidInputError(
            f"A message contains an object with a key of type {type(key).__name__}: {key!r:.80}. "
            "Use strings as keys."
        )
    return clean if isinstance(clean, str) else json.dumps(clean)


# Decoding

_TO_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_BRACKETS = b"[{"
"""One pass over the bytes turns digits into zeros, to find long numbers, and removes the brackets,
to count them. A regular expression takes four times as long."""
_LONG_NUMBER = b"0" * 19
_MIN_STORED_INT, _MAX_STORED_INT = -(2**63), 2**64 - 1
"""What msgpack can store, and so the checkpointers of LangGraph."""


def decode_json(body: bytes) -> Any:
    """Decode the JSON of a response, as `json.loads` does, into values that messages can contain.

    `json` decodes what orjson rejects (lone surrogates), what would lose digits, and large bodies.
    Integers beyond 64 bits become text, because a message with them could not be stored. Pydantic
    turns the text into the integer again where a tool declares one.

    Raises:
        ValueError: The body is not JSON.
        UnreadableResponseError: The value is nested too deeply.
    """
    if len(body) < LARGE and _LONG_NUMBER not in (scanned := body.translate(_TO_ZEROS, _BRACKETS)):
        try:
            value = orjson.loads(body)
        except ValueError:
            pass
        else:
            if len(body) - len(scanned) > MAX_DEPTH and is_deep(value):
                raise too_deep_error()
            return value
    try:
        value = json.loads(body, parse_int=_stored_int)
    except RecursionError:
        raise too_deep_error() from None
    if isinstance(value, (dict, list)):
        normalize_json(value)
    return value


def _stored_int(digits: str) -> int | str:
    return _as_stored(int(digits)) if len(digits) <= 20 else digits


def _as_stored(number: int) -> int | str:
    return number if _MIN_STORED_INT <= number <= _MAX_STORED_INT else str(number)


def with_stored_ints(value: Any) -> Any:
    """Return a copy in which integers beyond 64 bits are text, as in what `decode_json` returns."""
    if isinstance(value, dict):
        return {key: with_stored_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_stored_ints(item) for item in value]
    return _as_stored(value) if type(value) is int else value


class StoredIntsText:
    """Passes JSON text on in pieces, in which integers beyond 64 bits are text. `feed`, `finish`.

    So a text that is decoded piece by piece gives the same values as `decode_json`.
    """

    _IN_STRING = re.compile(r'[^"\\]+|\\.|"', re.DOTALL)
    _OUTSIDE = re.compile(r'[^"0-9-]+|-?[0-9][0-9.eE+-]*(?=[^0-9.eE+-])|-(?=[^0-9])|"')
    """A number ends where something else follows."""
    _INTEGER = re.compile("-?[1-9][0-9]*")
    _MAX_DIGITS = 4300

    def __init__(self) -> None:
        self._is_in_string = False
        self._rest = ""

    def feed(self, text: str) -> str:
        """Return what is final after some more text."""
        text, position = self._rest + text, 0
        written: list[str] = []
        while token := (self._IN_STRING if self._is_in_string else self._OUTSIDE).match(
            text, position
        ):
            position = token.end()
            found = token[0]
            if not self._is_in_string and self._INTEGER.fullmatch(found):
                found = json.dumps(_stored_int(found))
            self._is_in_string ^= found == '"'
            written.append(found)
        self._rest = text[position:]
        if len(self._rest) > self._MAX_DIGITS:  # not a number that Python reads
            written.append(self.finish())
        return "".join(written)

    def finish(self) -> str:
        """Return the rest, which is empty after a JSON object."""
        rest, self._rest = self._rest, ""
        return rest


_OPENING = ("{", "[")
_SIXTEEN_DIGITS = b"0" * 16
"""Every decoder is exact for shorter numbers."""
_MAX_EXACT_INT = 2**53


def decode_result(text: str) -> Any:
    """Decode a tool result that is a JSON object or array; return any other text unchanged.

    A number, `true`, `null` or `NaN` may be text that only looks like JSON. Numbers that the API
    cannot represent stay text, and so does a result that is nested too deeply.
    """
    if not text.lstrip().startswith(_OPENING):
        return text
    try:
        if len(text) < LARGE:
            body = text.encode("utf-8", "surrogatepass")
            scanned = body.translate(_TO_ZEROS, _BRACKETS)
            brackets = len(body) - len(scanned)
            value = _decode_exactly(text, has_long_number=_SIXTEEN_DIGITS in scanned)
        else:  # copies would take too much memory
            brackets = text.count("[") + text.count("{")
            value = _EXACT.decode(text)
    except (ValueError, RecursionError):
        return text
    return text if brackets > MAX_DEPTH and is_deep(value) else value


def _decode_exactly(text: str, *, has_long_number: bool) -> Any:
    if not has_long_number:
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # not JSON, or JSON that only Python's decoder accepts
    return _EXACT.decode(text)


def _exact_int(digits: str) -> int | str:
    """The API stores numbers as doubles; an id with more digits than they can hold stays text."""
    value = int(digits)
    return value if -_MAX_EXACT_INT <= value <= _MAX_EXACT_INT else digits


def _exact_float(digits: str) -> float | str:
    return value if math.isfinite(value := float(digits)) else digits


_EXACT = json.JSONDecoder(parse_constant=str, parse_int=_exact_int, parse_float=_exact_float)


# Depth and surrogates

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
"""The first two bytes of a lone surrogate in the format of `marshal`."""


def normalize_json(value: JsonContainer) -> None:
    """Replace lone surrogates in place: no JSON, database or log could be written with them.

    Raises:
        UnreadableResponseError: The value is nested too deeply.
    """
    if is_deep(value):
        raise too_deep_error()
    if _has_surrogates(value):
        _replace_surrogates_in(value)


def is_storable(value: Any) -> bool:
    """Return whether a value is not nested too deeply, and has no lone surrogates."""
    is_container = isinstance(value, (dict, list))
    return not (is_container and is_deep(value)) and not _has_surrogates(value)


def _has_surrogates(value: Any) -> bool:
    # `marshal` is the fastest way to find out: only surrogates contain such bytes.
    written = marshal.dumps(value, 2)
    return b"\xed" in written and _SURROGATE.search(written) is not None


def is_deep(value: JsonContainer) -> bool:
    """Return whether a value has more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        children = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for items in children for item in items if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def too_deep_error() -> UnreadableResponseError:
    """Return the error for a response that is nested too deeply; a retry would not help."""
    error = UnreadableResponseError(f"The response is nested more than {MAX_DEPTH} levels deep.")
    error.is_retryable = False
    return error


def _replace_surrogates_in(value: JsonContainer) -> None:
    pending: list[Any] = [value]
    while pending:
        container = pending.pop()
        items = list(container.items() if isinstance(container, dict) else enumerate(container))
        for key, item in items:
            if isinstance(item, (dict, list)):
                pending.append(item)
            elif isinstance(item, str):
                container[key] = replace_surrogates(item)
            if isinstance(key, str) and key != (name := replace_surrogates(key)):
                container[name] = container.pop(key)


def replace_surrogates(text: str) -> str:
    """Join surrogate pairs into one character and replace lone surrogates by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_+([A-Za-z0-9])")


@lru_cache(maxsize=1024)
def camel(name: str) -> str:
    """Spell a name as the API does.

    A letter after an underscore becomes upper case; every other letter stays as it is, so that
    `some_URL` becomes `someURL` and a name in camelCase is returned unchanged.
    """
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


@lru_cache(maxsize=1024)
def snake(name: str) -> str:
    """Spell a name as Python does. A run of capitals is one word: `retrieved_url`."""
    return _WORD_START.sub("_", name).lower()
