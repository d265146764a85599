"""Untrusted text -> text that is safe to display, and any value -> short text.

Tool results, arguments and responses are untrusted. In a terminal they must not move the cursor,
rename the window or reverse the text, and long texts must be cut. All text of a trace passes
through `clean` once; the HTML and mermaid writers escape it after that.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from langchain_gemini_tools.facts.credentials import redact, secrets_in_use

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of invisible characters: controls, bidi marks, tags, lone surrogates."""
_KEPT = {"\n", "\t", "\u200c", "\u200d"}
"""Line ends, and the joiners that emoji and several scripts need."""

_LONGEST_SECRET = 4096
"""Text is redacted this far beyond a cut, because half a credential cannot be recognized."""

_MAX_DEPTH = 8
_MAX_ITEMS = 400
_MAX_STRING = 20_000
_CHARS_PER_ITEM = 100
"""A long text counts as one item for each this many characters."""
_MAX_BITS = 4096
"""Longer integers are not written out; Python itself has such a limit."""


def clean(text: str, max_chars: int) -> str:
    """Redact credentials, cut at `max_chars` with a notice, and show invisible characters."""
    shown = _redacted_start(text, max_chars).replace("\r\n", "\n")
    shown = "".join(_visible(char) for char in shown)
    rest = len(text) - max_chars
    if rest <= 0:
        return shown
    return f"{shown}… ({rest:,} more character{'' if rest == 1 else 's'})"


def render_value(value: object) -> str:
    """Return any value as JSON text; cycles, depth and the number of items are bounded."""
    return json.dumps(_Pruner().prune(value), ensure_ascii=False)


def render_arguments(args: object, separator: str = ", ") -> str:
    """Return arguments as they would be written in a Python call."""
    if not isinstance(args, Mapping):
        return args if isinstance(args, str) else render_value(args)
    pruned = cast("dict[str, object]", _Pruner().prune(args))
    return separator.join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pruned.items()
    )


def render_error(error: BaseException) -> str:
    """Return type and message of an exception, whose `__str__` may fail."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - any exception of its code
        return kind


def _redacted_start(text: str, length: int) -> str:
    """Return the first characters of a text without credentials, not even the start of one."""
    window = text[: length + _LONGEST_SECRET]
    shown = redact(window, secrets_in_use())
    if len(window) < len(text):  # its end may be the start of a credential
        shown = shown[: max(0, len(shown) - _LONGEST_SECRET)]
    return shown[:length]


def _visible(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _INVISIBLE:
        return char
    return f"⟨U+{ord(char):04X}⟩"


@dataclass
class _Pruner:
    """Copies a value as plain JSON up to a number of items."""

    _items: int = 0
    _open: set[int] = field(default_factory=set)

    def prune(self, value: object, depth: int = 0) -> object:
        self._items += 1
        match value:
            case int() if value.bit_length() > _MAX_BITS:
                return f"<integer of {value.bit_length():,} bits>"
            case None | bool() | int() | float():
                return value
            case str():
                self._items += min(len(value), _MAX_STRING) // _CHARS_PER_ITEM
                return value if len(value) <= _MAX_STRING else _redacted_start(value, _MAX_STRING)
            case bytes() | bytearray() | memoryview():
                return f"<{len(value)} bytes>"
        if id(value) in self._open:
            return "<cycle>"
        if depth >= _MAX_DEPTH or self._items > _MAX_ITEMS:
            return "…"
        self._open.add(id(value))
        try:
            return self._prune_container(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def _prune_container(self, value: object, depth: int) -> object:
        if isinstance(value, Mapping):
            return self._prune_mapping(value, depth)
        if isinstance(value, Sequence | AbstractSet):
            return self._prune_items(value, depth)
        fields = _fields(value)
        return _name(value) if fields is None else self._prune_mapping(fields, depth)

    def _prune_mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, object]:
        pruned: dict[str, object] = {}
        for key, item in value.items():
            if self._items > _MAX_ITEMS:
                pruned["…"] = f"{len(value) - len(pruned)} more"
                break
            pruned[str(key)[:200]] = self.prune(item, depth)
        return pruned

    def _prune_items(
        self, value: Sequence[object] | AbstractSet[object], depth: int
    ) -> list[object]:
        pruned: list[object] = []
        for item in value:
            if self._items > _MAX_ITEMS:
                pruned.append(f"… {len(value) - len(pruned)} more")
                break
            pruned.append(self.prune(item, depth))
        return pruned


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of a Pydantic model or a dataclass; the repr of others is not called."""
    names = getattr(type(value), "model_fields", None) or getattr(
        type(value), "__dataclass_fields__", None
    )
    return {name: getattr(value, name, None) for name in names} if names else None


def _name(value: object) -> str:
    if isinstance(value, BaseException):
        return render_error(value)
    known = type(value).__module__ in {"datetime", "decimal", "uuid", "enum", "pathlib"}
    return str(value) if known else f"<{type(value).__name__}>"


def replace_unencodable(file: TextIO) -> TextIO:
    """Return the stream, or a wrapper that writes `?` for characters that it cannot encode.

    Output may be redirected on Windows, or the locale may be `C`.
    """
    encoding = (getattr(file, "encoding", None) or "utf-8").lower().replace("-", "")
    return file if encoding.startswith("utf") else cast("TextIO", _ReplacingStream(file))


class _ReplacingStream:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        encoding = self._file.encoding
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
