"""Values of Python -> JSON: what has a plain form takes it, what has none is refused by name.

`dump_json` says what everything becomes. `encode_json` gives the same in a twentieth of the time
for what is plain already, and leaves the rest to it.
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
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from langchain_gemini_tools.errors import InvalidInputError, UnreadableResponseError

AS_TEXT = (", ", ": ")
"""Separators of JSON that a model reads as a text."""

_PLAIN_ONLY = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
LARGE = 1_000_000
"""Length of a string, or of a body, that is large for `encode_json`."""
_NOT_FINITE = re.compile(rb"g.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)
"""NaN and the infinities in Python's own format, which has a "g" before each float."""


def encode_json(value: Any, *, is_large: bool = False) -> bytes:
    """The JSON of a value, as it goes over the wire.

    Args:
        value: The value.
        is_large: Whether it may hold strings of a megabyte: orjson reserves ten times their length,
            and ends the process where it does not get that.

    Raises:
        InvalidInputError: It holds something that JSON has no form for.
    """
    if not is_large:
        try:
            written: bytes = orjson.dumps(value, option=_PLAIN_ONLY)
        except TypeError:
            pass  # something that is not plain, or half a character
        else:
            if b"null" not in written or not _may_hold_nan(value):
                return written
    return replace_surrogates(dump_json(value)).encode("utf-8")


def _may_hold_nan(value: Any) -> bool:
    """Whether a `null` may be a number that is none: orjson does not tell."""
    try:
        return _NOT_FINITE.search(marshal.dumps(value, 2)) is not None
    except ValueError:
        return True


def dump_json(value: Any, separators: tuple[str, str] = (",", ":")) -> str:
    """The JSON text of a value.

    Args:
        value: The value.
        separators: Between items, and between a name and its value.

    Raises:
        InvalidInputError: It holds something that JSON has no form for.
    """
    try:
        return _dump(value, separators)
    except InvalidInputError:
        raise
    except RecursionError as error:
        raise InvalidInputError(
            "A message holds a value that is nested too deep to send."
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"A message holds a value that JSON has no form for: {error}"
        ) from error


def _dump(body: Any, separators: tuple[str, str]) -> str:
    dump = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=separators)
    try:
        try:
            return dump(body, default=_jsonable, check_circular=False)
        except RecursionError:  # without end, or only very deep: this one tells, and is slower
            return dump(body, default=_jsonable)
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        if "circular" in str(error).lower():
            raise InvalidInputError("A message holds a value that contains itself.") from error
        # NaN and infinities are not JSON; as text they still tell what they are.
        return dump(_clean(body))


def _jsonable(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case date() | datetime() | time():
            return value.isoformat()
        case Decimal() if value.is_finite() and value.as_tuple().exponent == 0:
            return int(value)  # as some stores give every number back
        case UUID() | Decimal():
            return str(value)
        case set() | frozenset():
            return sorted(value, key=repr)
        case bytes() | bytearray():
            raise InvalidInputError(
                f"A message holds {len(value)} raw bytes. Send them as a media block "
                "with base64 and mime_type, or as text."
            )
    if isinstance(value, type):
        raise InvalidInputError(
            f"A message holds a class, which JSON has no form for: {value!r:.80}"
        )
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if hasattr(value, "tolist"):  # numpy
        return value.tolist()
    raise InvalidInputError(
        f"A message holds a {type(value).__name__}, which JSON has no form for: {value!r:.80}"
    )


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_key(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return _clean(_jsonable(value))


def _key(key: Any) -> str:
    """What stands for a key that is no text; numbers and constants as JSON writes them."""
    clean = _clean(key)
    if isinstance(clean, (dict, list)):
        raise InvalidInputError(
            f"A message holds an object with a {type(key).__name__} for a key: {key!r:.80}"
        )
    return clean if isinstance(clean, str) else json.dumps(clean)


JsonContainer = dict[str, Any] | list[Any]

MAX_DEPTH = 100
"""Levels of a reply. Pydantic writes about 250 to JSON; a message adds some of its own."""

_HALF_CHARACTER = re.compile(rb"\xed[\xa0-\xbf]")


def normalize_json(value: JsonContainer) -> None:
    """Replace, in place, halves of characters: no JSON, store or log could be written with them.

    Raises:
        UnreadableResponseError: The value is nested too deep.
    """
    # Python's own format tells in a moment that a value has nothing of the kind: only halves of
    # characters hold such bytes there, and few brackets cannot be nested deep. Version 2 of it
    # writes every object and list with its bracket.
    try:
        told = marshal.dumps(value, 2)
    except ValueError:
        raise too_deep_error() from None
    check_depth(value, told)
    if b"\xed" in told and _HALF_CHARACTER.search(told):
        _replace_surrogates_in(value)


def check_depth(value: JsonContainer, written: bytes) -> None:
    """Raise when a reply is nested too deep.

    Args:
        value: The reply.
        written: Its JSON, or another form that writes the same brackets: few are never deep.

    Raises:
        UnreadableResponseError: It is.
    """
    if written.count(b"{") + written.count(b"[") > MAX_DEPTH and is_deep(value):
        raise too_deep_error()


def is_deep(value: JsonContainer) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        held = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for items in held for item in items if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def too_deep_error() -> UnreadableResponseError:
    """The error for a reply that is nested too deep; another try would bring the same."""
    error = UnreadableResponseError(f"The reply is nested more than {MAX_DEPTH} levels deep.")
    error.is_retryable = False
    return error


def _replace_surrogates_in(reply: JsonContainer) -> None:
    pending: list[Any] = [reply]
    while pending:
        value = pending.pop()
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        for key, item in items:
            if isinstance(item, (dict, list)):
                pending.append(item)
            elif isinstance(item, str):
                value[key] = replace_surrogates(item)
            if isinstance(key, str) and key != (name := replace_surrogates(key)):
                value[name] = value.pop(key)


def replace_surrogates(text: str) -> str:
    """The text with the halves of a pair joined, and the replacement character for a lone half."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
