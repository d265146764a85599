"""Arguments that arrive in pieces (Vertex, `streamFunctionCallArguments`) -> JSON fragments.

The API sends values with their path, `{"jsonPath": "$.recipe.steps[0]", "stringValue": "Boil"}`, in
document order; LangChain expects fragments of JSON text that add up. `ArgumentsWriter` keeps track
of open brackets and writes what each value adds.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.facts.json_values import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)                                  # .name
      | \[(?P<index>\d{1,9})\]                                 # [0]
      | \[(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]    # ['any name']
    """,
    re.VERBOSE,
)
_VALUE_KEYS = ("stringValue", "numberValue", "boolValue", "nullValue")

_Path = tuple[str | int, ...]

STREAMED_FIELDS = frozenset({"willContinue", "partialArgs"})
"""The fields of a function call whose arguments arrive in pieces."""


class ArgumentsWriter:
    """Writes the arguments of one call. `feed` returns a fragment, `finish` the rest.

    Args:
        names: Renamed arguments: name in the request -> the user's name.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names = names or {}
        self._open: list[_Container] = []
        self._string_at: _Path | None = None
        self._is_whole = False
        self._text: list[str] = []

    def feed(self, pieces: Any) -> str:
        """Return the JSON text that these pieces add.

        Raises:
            UnreadableResponseError: They are malformed, or do not continue the earlier pieces.
        """
        pieces = pieces or []
        if not isinstance(pieces, list) or not all(isinstance(piece, dict) for piece in pieces):
            raise UnreadableResponseError(
                f"Streamed arguments are not a list of objects: {pieces!r:.80}"
            )
        return "".join(self._write(piece) for piece in pieces)

    def feed_whole(self, args: Any) -> str:
        """Return the JSON text of complete arguments; nothing if pieces came before."""
        if not isinstance(args, dict) or not args or self._open:
            return ""
        self._is_whole = True
        return json.dumps({self._names.get(name, name): value for name, value in args.items()})

    def feed_text(self, text: Any) -> str:
        """Return JSON text of arguments that arrives as text, as in the Interactions API.

        With renamed arguments it waits for `finish`.
        """
        if not isinstance(text, str) or not text:
            return ""
        self._is_whole = True
        if self._names:
            self._text.append(text)
            return ""
        return text

    def finish(self) -> str:
        """Return the JSON text that closes all open brackets; `{}` if there were no arguments."""
        text = self._end_string()
        if self._text:
            return _renamed("".join(self._text), self._names)
        if self._is_whole:
            return text
        if not self._open:
            text += self._enter(_Container(is_list=False))
        return text + self._close_down_to(0)

    def _write(self, piece: dict[str, Any]) -> str:
        first, *others = _parse_path(piece.get("jsonPath"))
        path = (self._names.get(str(first), first), *others)
        key = next((key for key in _VALUE_KEYS if key in piece), None)
        if key is None or self._is_whole:
            return ""
        if key != "stringValue":
            value = None if key == "nullValue" else piece[key]
            return self._end_string() + self._go_to(path) + json.dumps(value)
        text = json.dumps(str(piece[key]))[1:-1]
        if path != self._string_at:
            text = self._end_string() + self._go_to(path) + '"' + text
            self._string_at = path
        return text if piece.get("willContinue") else text + self._end_string()

    def _end_string(self) -> str:
        ended, self._string_at = self._string_at is not None, None
        return '"' if ended else ""

    def _go_to(self, path: _Path) -> str:
        """Close the brackets that the path leaves and open those that it enters."""
        shared = 0
        while (
            shared < min(len(self._open), len(path) - 1)
            and self._open[shared].current == path[shared]
        ):
            shared += 1
        text = self._close_down_to(shared + 1)
        for step in path[shared:]:
            if len(self._open) <= shared:
                text += self._enter(_Container(is_list=isinstance(step, int)))
            text += self._open[shared].advance_to(step, path)
            shared += 1
        return text

    def _enter(self, container: _Container) -> str:
        self._open.append(container)
        return container.brackets[0]

    def _close_down_to(self, depth: int) -> str:
        text = ""
        while len(self._open) > depth:
            text += self._open.pop().brackets[1]
        return text


class _Container:
    """An open object or array, and the member being written."""

    def __init__(self, *, is_list: bool) -> None:
        self.brackets = "[]" if is_list else "{}"
        self.current: str | int | None = None
        self._seen: set[str | int] = set()

    def advance_to(self, step: str | int, path: _Path) -> str:
        """Return the text before a new member: a comma unless it is the first, and its name."""
        if isinstance(step, int) != (self.brackets == "[]") or step in self._seen:
            raise UnreadableResponseError(f"Streamed arguments are out of order at {path!r:.200}.")
        if isinstance(step, int) and step != len(self._seen):
            raise UnreadableResponseError(f"Streamed arguments leave a gap before {path!r:.200}.")
        comma = "," if self._seen else ""
        self._seen.add(step)
        self.current = step
        return comma if isinstance(step, int) else f"{comma}{json.dumps(step)}:"


def _parse_path(path: Any) -> _Path:
    steps: list[str | int] = []
    position = 1
    if isinstance(path, str) and path.startswith("$"):
        while len(steps) <= MAX_DEPTH and (match := _STEP.match(path, position)):
            position = match.end()
            if (index := match["index"]) is not None:
                steps.append(int(index))
            elif (name := match["name"]) is not None:
                steps.append(name)
            else:
                steps.append(re.sub(r"\\(.)", r"\1", match["quoted"][1:-1]))
        if 0 < len(steps) <= MAX_DEPTH and position == len(path):
            return tuple(steps)
    raise UnreadableResponseError(f"Streamed arguments have an invalid path: {path!r:.200}.")


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the JSON of arguments under the user's names; what is not an object stays."""
    try:
        args = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(args, dict):
        return text
    return json.dumps({names.get(name, name): value for name, value in args.items()})
