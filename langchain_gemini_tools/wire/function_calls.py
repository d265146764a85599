"""Function calls of a response -> tool calls, whole or with arguments that arrive in pieces.

`CallParser` gives every call an id and the user's names, and recognizes repeated calls. Vertex
(`streamFunctionCallArguments`) sends arguments as values with their path, `{"jsonPath":
"$.recipe.steps[0]", "stringValue": "Boil"}`, in document order; LangChain expects fragments of JSON
text that add up. `ArgumentsWriter` keeps track of open brackets and writes what each value adds.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import MalformedToolCallError, UnreadableResponseError
from langchain_gemini_tools.facts.json_values import MAX_DEPTH
from langchain_gemini_tools.wire.pieces import Piece, ToolCallPiece, parse_object
from langchain_gemini_tools.wire.tools.tool import render_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.replay import PartLog

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+)                                  # .name
      | \[(?P<index>\d{1,9})\]                                 # [0]
      | \[(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]    # ['any name']
    """,
    re.VERBOSE,
)
_VALUE_KEYS = ("stringValue", "numberValue", "boolValue")

_Path = tuple[str | int, ...]

_STREAMED_FIELDS = frozenset({"willContinue", "partialArgs"})
"""The fields of a function call whose arguments arrive in pieces."""

_INVENTED_PREFIXES = ("default_api.", "default_api:")


@dataclass(slots=True)
class _StreamedCall:
    """A call whose arguments arrive in pieces."""

    call: gemini.JsonObject
    """Its first piece."""
    name: str
    writer: ArgumentsWriter
    piece: ToolCallPiece | None
    """`None` while it may repeat a call with the same id. Nothing is shown of it until it ends."""
    fragments: list[str] = field(default_factory=list)
    signature: str | None = None

    def feed(self, call: gemini.JsonObject) -> str:
        """Return the JSON text that a piece adds to the arguments."""
        text = self.writer.feed_whole(call.get("args")) + self.writer.feed(call.get("partialArgs"))
        text += self.writer.feed_text(call.get("argsText"))
        if not _will_continue(call):
            text += self.writer.finish()
        self.fragments.append(text)
        return text


def _will_continue(call: gemini.JsonObject) -> bool:
    """Return whether more pieces of a call follow, or of the last argument in it."""
    if call.get("willContinue"):
        return True
    match call.get("partialArgs"):
        case [*_, {"willContinue": bool(more)}]:
            return more
    return False


class CallParser:
    """Parses the function calls of one candidate in order.

    Args:
        tool_names: The bound tools: name in the request -> the user's name.
        parameter_names: Renamed parameters: the tool's name -> name in the request -> the user's
            name.
        log: Where each call is added.
    """

    def __init__(
        self,
        tool_names: Mapping[str, str],
        parameter_names: Mapping[str, Mapping[str, str]],
        log: PartLog,
    ) -> None:
        self._tool_names = tool_names
        self._parameter_names = parameter_names
        self._log = log
        self.ids: set[str] = set()
        """The ids of all tool calls that have begun."""
        self._ended: dict[str, ToolCallPiece] = {}
        """Calls that have ended, by id: of several with the API's id, the first one."""
        self._keys_by_id: dict[str, set[str]] = {}
        """What all calls say, for ids that have arrived more than once."""
        self._signed_ids: set[str] = set()
        self.unfinished: _StreamedCall | None = None
        """The call whose arguments have not ended."""
        self.unreadable: str | None = None
        """The first call without a name, or whose arguments are not an object, as JSON."""

    def check_complete(self) -> None:
        """Raise if the arguments of a call have not ended."""
        if self.unfinished:
            raise MalformedToolCallError(
                f"The response ended inside the arguments of a call to {self.unfinished.name!r}."
            )

    def parse(self, call: gemini.JsonObject, signature: str | None) -> Piece | None:
        """Return the piece that a function call adds, or `None` if it adds nothing.

        Args:
            call: The function call, or some of its arguments.
            signature: The thought signature of its part.

        Raises:
            MalformedToolCallError: Another call has not ended.
            UnreadableResponseError: The arguments cannot be read.
        """
        if self.unfinished:
            begun = self.unfinished.call
            if call.get("name") and any(call.get(key) != begun.get(key) for key in ("id", "name")):
                self.check_complete()
            return self._continue_call(self.unfinished, call, signature)
        if not call:
            return None  # the end of a call that has already ended
        if not call.get("willContinue") and call.get("partialArgs") is None:
            return self._parse_whole(call, signature)
        self.unfinished = self._begin_streamed(call)
        return self._continue_call(self.unfinished, call, signature)

    def _parse_whole(self, call: gemini.JsonObject, signature: str | None) -> Piece | None:
        name, args, text = self._user_name(call.get("name")), call.get("args"), ""
        if name and (args is None or isinstance(args, dict)):
            args = args or {}  # some servers omit empty arguments
            if names := self._parameter_names.get(name):
                args = _rename(args, names)
        else:
            # Core would repair anything that starts like JSON into a valid call, and would search
            # a long text for JSON in quadratic time. At the bracket it gives up.
            written = json.dumps(call)
            self.unreadable = self.unreadable or written
            args, text = None, f"not a function call]: {written}"
        return self._end_call(call, name, args, text, signature)

    def _end_call(
        self,
        call: gemini.JsonObject,
        name: str | None,
        args: gemini.JsonObject | None,
        text: str,
        signature: str | None,
    ) -> Piece | None:
        """Return a call with all its arguments, unless it has arrived before."""
        if (
            isinstance(api_id := call.get("id"), str)
            and api_id in self._ended
            and self._is_repeated(api_id, name, args, text)
        ):
            return None
        added = self._add_call(call, name, args, text)
        self._ended[added.id] = added
        return self._sign(added, signature)

    def _is_repeated(
        self, api_id: str, name: str | None, args: gemini.JsonObject | None, text: str
    ) -> bool:
        """Return whether a call with a known id has arrived before, and remember it.

        The model's second call has another id, or at least other arguments.
        """
        if (keys := self._keys_by_id.get(api_id)) is None:
            first = self._ended[api_id]
            keys = self._keys_by_id[api_id] = {_key_of(first.name, first.args, first.fragment)}
        count = len(keys)
        keys.add(_key_of(name, args, text))
        return len(keys) == count

    def _begin_streamed(self, call: gemini.JsonObject) -> _StreamedCall:
        name = self._user_name(call.get("name"))
        if not name:
            raise UnreadableResponseError(
                "The response contains arguments without a function call."
            )
        writer = ArgumentsWriter(self._parameter_names.get(name))
        may_be_repeated = isinstance(api_id := call.get("id"), str) and api_id in self._ended
        piece = None if may_be_repeated else self._add_call(call, name)
        return _StreamedCall(call, name, writer, piece)

    def _continue_call(
        self, streamed: _StreamedCall, call: gemini.JsonObject, signature: str | None
    ) -> Piece | None:
        is_first = not streamed.fragments
        fragment = streamed.feed(call)
        if not _will_continue(call):
            self.unfinished = None
        if streamed.piece is None:
            streamed.signature = streamed.signature or signature
            return None if self.unfinished else self._end_possible_repetition(streamed)
        if self.unfinished is None:
            text = "".join(streamed.fragments)
            self._ended[streamed.piece.id] = replace(streamed.piece, fragment=text)
        name = streamed.name if is_first else None
        piece = replace(streamed.piece, name=name, fragment=fragment)
        return self._sign(piece, signature)

    def _end_possible_repetition(self, streamed: _StreamedCall) -> Piece | None:
        """Return a call that was held back because of its id, unless it is a repetition."""
        text = "".join(streamed.fragments)
        args = parse_object(text)
        text = "" if args is not None else text
        return self._end_call(streamed.call, streamed.name, args, text, streamed.signature)

    def _sign(self, call: ToolCallPiece, signature: str | None) -> Piece:
        """Sign a call only once: LangChain would concatenate the signatures of its pieces."""
        if signature is None or call.id in self._signed_ids:
            return Piece(call=call)
        self._signed_ids.add(call.id)
        return Piece(call=call, signature=signature)

    def _add_call(
        self,
        call: gemini.JsonObject,
        name: str | None,
        args: gemini.JsonObject | None = None,
        fragment: str = "",
    ) -> ToolCallPiece:
        """Count a call, give it a unique id, and log it."""
        index, call_id = len(self.ids), self._unique_id(call)
        wire_name: Any = call.get("name")
        if name == wire_name or not name or self._tool_names.get(wire_name) == name:
            self._log.add_call(call_id)
        else:
            self._log.add_call(call_id, wire_name, render_name(name))
        return ToolCallPiece(index, call_id, name, args, fragment)

    def _unique_id(self, call: gemini.JsonObject) -> str:
        """Return the API's id, or a new one if it is missing or not unique in this message."""
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in self.ids:
            call_id = str(uuid.uuid4())
        self.ids.add(call_id)
        return call_id

    def _user_name(self, wire_name: object) -> str | None:
        """Return the bound tool's name, without a prefix that the model invented."""
        if not isinstance(wire_name, str):
            return None
        if wire_name not in self._tool_names and wire_name.startswith(_INVENTED_PREFIXES):
            for prefix in _INVENTED_PREFIXES:
                if (bare := wire_name.removeprefix(prefix)) in self._tool_names:
                    return self._tool_names[bare]
        return self._tool_names.get(wire_name, wire_name)


def whole_call(part: Any) -> bool:
    """Return whether a part is a function call with all its arguments."""
    match part:
        case {"functionCall": dict(call)}:
            return not call.keys() & _STREAMED_FIELDS
    return False


def _key_of(name: str | None, args: gemini.JsonObject | None, text: str) -> str:
    """Return what calls with the same tool and arguments have in common."""
    parsed = parse_object(text) if args is None else args
    return json.dumps([name, text if parsed is None else parsed], sort_keys=True)


# Arguments that arrive in pieces


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
        self._args: gemini.JsonObject | None = None
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
        """Return the JSON text of complete arguments; nothing if pieces came before.

        Raises:
            UnreadableResponseError: Other complete arguments came before.
        """
        if not isinstance(args, dict) or not args or self._open:
            return ""
        if self._is_whole:
            if args != self._args:
                raise UnreadableResponseError("The arguments of a call arrived in two versions.")
            return ""
        self._is_whole, self._args = True, args
        return json.dumps(_rename(args, self._names))

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
            whole = "".join(self._text)
            args = parse_object(whole)
            return whole if args is None else json.dumps(_rename(args, self._names))
        if self._is_whole:
            return text
        if not self._open:
            text += self._enter(_Container(is_list=False))
        return text + self._close_down_to(0)

    def _write(self, piece: dict[str, Any]) -> str:
        first, *others = _parse_path(piece.get("jsonPath"))
        path = (self._names.get(str(first), first), *others)
        key = next((key for key in _VALUE_KEYS if piece.get(key) is not None), None)
        if (key is None and "nullValue" not in piece) or self._is_whole:
            return ""
        if key != "stringValue":
            value = None if key is None else piece[key]
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


def _rename(args: gemini.JsonObject, names: Mapping[str, str]) -> gemini.JsonObject:
    """Return arguments under the user's names."""
    return {names.get(name, name): value for name, value in args.items()}
