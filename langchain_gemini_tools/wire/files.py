"""Large files on their way into a body: base64 that is copied once, when everything else is there.

While the JSON around it is written, a marker stands in its place. A writer of JSON would make two
copies of it, and one that is in a hurry ten.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_gemini_tools.wire import shapes as gemini

_SMALLEST = 100_000
"""Length of base64 for which all this is worth it."""
_SLICE = 50_000
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"


def encode_contents(contents: list[gemini.Content], *, is_large: bool = False) -> list[bytes | str]:
    """The JSON of contents in pieces, without brackets; those that are `str` are files.

    Args:
        contents: Both sides', in order.
        is_large: Whether there may be very long texts in them, besides files.

    Raises:
        InvalidInputError: They hold something that JSON has no form for.
    """
    files: list[str] = []
    marker = ""
    if any(_may_hold_file(part) for content in contents for part in content["parts"]):
        marker = uuid.uuid4().hex
        contents = [
            {**content, "parts": [_mark(part, marker, files) for part in content["parts"]]}
            for content in contents
        ]
    written = encode_json(contents, is_large=is_large)[1:-1]
    if not files:
        return [written]
    around = written.split(marker.encode("ascii"))
    pieces: list[bytes | str] = [around[0]]
    for file, behind in zip(files, around[1:], strict=True):
        pieces += [file, behind]
    return pieces


def join_pieces(pieces: Sequence[bytes | str]) -> bytes:
    """All of them in a row."""
    written = [piece for piece in pieces if isinstance(piece, bytes)]
    if len(written) == len(pieces):
        return b"".join(written)
    whole = io.BytesIO()
    # What is left to grow by itself grows by more than it needs.
    whole.seek(sum(map(len, pieces)) - 1)
    whole.write(b" ")
    whole.seek(0)
    for piece in pieces:
        if isinstance(piece, bytes):
            whole.write(piece)
        else:
            whole.writelines(_slices(piece))
    return whole.getvalue()


def _may_hold_file(part: gemini.Part) -> bool:
    if "inlineData" in part:
        return True
    response: Any = part.get("functionResponse")
    return isinstance(response, dict) and "parts" in response


def _mark(part: Any, marker: str, files: list[str]) -> Any:
    """The part with a marker for each large file in it; one that is echoed may have any shape."""
    match part:
        case {"functionResponse": {"parts": list(parts)} as response}:
            marked = [_mark_file(inner, marker, files) for inner in parts]
            return {**part, "functionResponse": {**response, "parts": marked}}
    return _mark_file(part, marker, files)


def _mark_file(part: Any, marker: str, files: list[str]) -> Any:
    match part:
        case {"inlineData": {"data": str(data)} as blob} if _is_large_base64(data):
            files.append(data)
            return {**part, "inlineData": {**blob, "data": marker}}
    return part


def _is_large_base64(data: str) -> bool:
    if len(data) < _SMALLEST or not data.isascii():
        return False
    return not any(each.translate(None, _BASE64) for each in _slices(data))


def _slices(data: str) -> Iterator[bytes]:
    for start in range(0, len(data), _SLICE):
        yield data[start : start + _SLICE].encode("ascii")
