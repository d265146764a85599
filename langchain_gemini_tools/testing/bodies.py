"""Bodies as a reviewer wants to read them, and back again as bytes.

A body in a file has one of four forms: `json` (its value, as YAML), `events` (a list, one item for
each server-sent event), `text`, or `base64`. What comes back is not always byte for byte what the
server sent: JSON is compact, and events end with CRLF CRLF. To a client it is the same.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.errors import CassetteFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JsonObject = dict[str, Any]

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_PIECES = ("text", "stringValue")  # of answers, and of arguments that come in pieces
_WRITTEN_PIECE = re.compile(rf'"(?:{"|".join(_PIECES)})"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
"""A piece in what is no JSON: in a stream that was cut, for one."""
_MAX_DEPTH = 64  # deeper values stay text: a YAML loader walks them on the stack


def write_body(raw: bytes) -> JsonObject | None:
    """The form for a file; None for no body."""
    if not raw:
        return None
    if raw.lstrip()[:1] in (b"{", b"["):
        value = parse_json(raw)
        if value is not None:
            return {"json": value}
    if raw.startswith((b"data:", b":", b"event:", b"id:", b"retry:")):
        events = _write_events(raw)
        if events is not None:
            return {"events": events}
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def read_body(form: Any) -> bytes:
    """The bytes of a form, or of a body as vcrpy itself writes it.

    Raises:
        CassetteFileError: It has no such form.
    """
    match form:
        case None:
            return b""
        case str():
            return form.encode()
        case bytes():
            return form
        case {"json": value, **rest} if not rest:
            return _dump(value)
        case {"events": list(events), **rest} if not rest:
            return b"".join(map(_read_event, events))
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(text), **rest} if not rest:
            return _decode(text)
        case {"string": text, **rest} if not rest and isinstance(text, (str, bytes, type(None))):
            return read_body(text)
    raise CassetteFileError(
        "A body is json, events, text or base64, and only one of them; "
        f"here is {_shape(form)} instead."
    )


def joined_text(form: Any) -> str:
    """What a body says when its pieces are put together; they may be cut anywhere."""
    match form:
        case {"json": value}:
            return "".join(_texts(value))
        case {"events": list(events)}:
            return "".join(text for event in events for text in _texts_of_event(event))
        case {"text": str(text)}:
            return "".join(_WRITTEN_PIECE.findall(text))
    return ""


def _texts_of_event(event: Any) -> Iterable[str]:
    return _WRITTEN_PIECE.findall(event) if isinstance(event, str) else _texts(event)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                yield from [item] if key in _PIECES and isinstance(item, str) else _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def parse_json(raw: bytes) -> Any:
    """The value, or None where a value would tell less, or something else, than the bytes."""
    try:
        value = json.loads(
            raw, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite
        )
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be written
    except (ValueError, RecursionError):
        return None
    return value if _depth(value) <= _MAX_DEPTH else None


def _write_events(raw: bytes) -> list[Any] | None:
    """The events: values where they are JSON, else their text. None for a stream that was cut."""
    *blocks, rest = _EVENT_END.split(raw)
    if rest:
        return None
    try:
        return [_write_event(block) for block in blocks]
    except UnicodeDecodeError:
        return None


def _write_event(block: bytes) -> Any:
    if block.startswith(b"data:") and b"\n" not in block and b"\r" not in block:
        value = parse_json(block.removeprefix(b"data:"))
        if isinstance(value, (dict, list)):
            return value
    return block.decode()


def _read_event(event: Any) -> bytes:
    text = event.encode() if isinstance(event, str) else b"data: " + _dump(event)
    return text + b"\r\n\r\n"


def _dump(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError) as error:
        raise CassetteFileError(f"A body holds something that JSON has not: {error}") from error


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CassetteFileError(f"A body is not base64: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is there twice")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for parent in level
            if isinstance(parent, (dict, list))
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return depth


def _shape(form: Any) -> str:
    return f"{sorted(map(str, form))}" if isinstance(form, dict) else type(form).__name__
