"""Recorded requests -> LangChain messages, and a common form in which requests are compared.

`Conversation` rebuilds the messages that a LangChain user would have before the recorded request:
replies as our own parsed messages, function responses as tool messages, everything else as human
messages. `spell` brings recorded and rendered contents into a common form, because clients differ
in key case, base64 alphabet, the wrapping of results, and how they divide a turn into contents.
"""

from __future__ import annotations

import json
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

from tests.recorded_reply import Recorded, echo_of, whole_calls
from tests.recordings import recordings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage

    from tests.recordings import Exchange, JsonObject

WRAPPERS = {"output", "result", "return_value", "value", "content", "error"}
"""Keys under which clients wrap a result that is not an object."""

_FREE_FORM = {"args", "response"}
_BASE64 = {"thoughtSignature", "data"}
_CALL_IN_TEXT = re.compile(r"\(call [\w-]+\)")
_MEDIA_FILLER = re.compile(r"\d+ file\(s\), (attached|see below)\.")


def contents_of(request: JsonObject) -> list[JsonObject]:
    """Return the contents of a request in the API's spelling."""
    contents = request["contents"]
    spelled: list[JsonObject] = camel(contents if isinstance(contents, list) else [contents])
    return [{"role": "user", **content} for content in spelled]


def system_of(request: JsonObject) -> JsonObject | None:
    """Return the system instruction of a request as the API reads it: parts with a text."""
    instruction = camel(request).get("systemInstruction") or {}
    parts = instruction.get("parts") or []
    parts = parts if isinstance(parts, list) else [parts]
    kept = [part for part in parts if part.get("text")]
    return {"parts": kept} if kept else None


def camel(value: Any) -> Any:
    """Return a value in the API's spelling: camelCase, one base64 alphabet, no `false` flags."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    spelled: JsonObject = {}
    for key, item in value.items():
        name = re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
        if item is None or (name == "thought" and item is False):
            continue
        if name in _FREE_FORM:
            spelled[name] = item
        elif name in _BASE64:
            spelled[name] = item.replace("-", "+").replace("_", "/").rstrip("=")
        else:
            spelled[name] = camel(item)
    return spelled


class Conversation:
    """Messages, built from contents in order.

    Args:
        parse: A content of the model -> the message of our own parser.
    """

    def __init__(self, parse: Callable[[JsonObject], AIMessage]) -> None:
        self.messages: list[BaseMessage] = []
        self._parse = parse
        self._open_calls: deque[tuple[str, str]] = deque()

    def add_system(self, instruction: JsonObject) -> None:
        self.messages.append(SystemMessage([block_of(part) for part in instruction["parts"]]))

    def add(self, content: JsonObject) -> None:
        if content["role"] == "model":
            reply = self._parse(content)
            calls = [*reply.tool_calls, *reply.invalid_tool_calls]
            self._open_calls += [(call["name"] or "", call["id"] or "") for call in calls]
            self.messages.append(reply)
            return
        blocks: list[JsonObject] = []
        for part in content["parts"]:
            if response := part.get("functionResponse"):
                self.messages.append(self._result_of(response))
            elif set(part) == {"videoMetadata"}:
                blocks[-1]["extras"] = {"video_metadata": part["videoMetadata"]}
            else:
                blocks.append(block_of(part))
        if blocks:
            self.messages.append(HumanMessage([*blocks]))

    def _result_of(self, response: JsonObject) -> ToolMessage:
        value, is_error = value_of(response)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        media = [block_of(part) for part in response.get("parts") or ()]
        texts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
        return ToolMessage(
            [*texts, *media] if media else text,
            tool_call_id=self._answered(response["name"], response.get("id")),
            name=response["name"],
            status="error" if is_error else "success",
        )

    def _answered(self, name: str, recorded_id: str | None) -> str:
        """Return the id of the call that is answered: by id, else the first open one by name."""
        for found in self._open_calls:
            if found[1] == recorded_id:
                self._open_calls.remove(found)
                return found[1]
        for found in self._open_calls:
            if found[0] == name:
                self._open_calls.remove(found)
                return found[1]
        return recorded_id or f"no call of {name}"


def block_of(part: JsonObject) -> JsonObject:
    """Return a part of the user as LangChain's standard block."""
    options = {
        "video_metadata": part.get("videoMetadata"),
        "media_resolution": part.get("mediaResolution"),
    }
    extras = {key: value for key, value in options.items() if value}
    noted: JsonObject = {"extras": extras} if extras else {}
    match part:
        case {"text": text}:
            return {"type": "text", "text": text}
        case {"inlineData": {"mimeType": mime, "data": data}}:
            return {"type": _kind(mime), "base64": data, "mime_type": mime, **noted}
        case {"fileData": {"fileUri": uri}}:
            mime = part["fileData"].get("mimeType")
            typed = {"mime_type": mime} if mime else {}
            return {"type": _kind(mime or ""), "url": uri, **typed, **noted}
    raise AssertionError(f"A recorded request holds a part of another kind: {part}")


def _kind(mime_type: str) -> str:
    kind = mime_type.partition("/")[0]
    return kind if kind in {"image", "audio", "video"} else "file"


def value_of(response: JsonObject) -> tuple[Any, bool]:
    """Return a tool's result without the key around it, and whether the tool failed."""
    value = response.get("response")
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= WRAPPERS:
        ((key, inner),) = value.items()
        return inner, key == "error"
    return value or "", False


def spell(contents: Iterable[JsonObject]) -> list[tuple[str, list[Any]]]:
    """Return contents as turns of plain values that can be compared."""
    numbers = _CallNumbers()
    return [(role, numbers.spell(_without_cuts(parts), role)) for role, parts in turns_of(contents)]


def turns_of(contents: Iterable[JsonObject]) -> list[tuple[str, list[JsonObject]]]:
    """Return the parts of each turn: adjacent contents of one role are one turn."""
    turns: list[tuple[str, list[JsonObject]]] = []
    for content in contents:
        role = "model" if content["role"] == "model" else "user"
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(content["parts"])
        else:
            turns.append((role, list(content["parts"])))
    return turns


def _without_cuts(parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return parts with adjacent unsigned texts joined, without empty texts, with whole calls."""
    whole: list[JsonObject] = []
    calls = iter(whole_calls(parts))
    for given in parts:
        if given.get("functionCall", {"name": "-"}).get("name") is None:
            continue
        part = next(calls) if "functionCall" in given else given
        last = whole[-1] if whole else {}
        if "text" in part and set(part) <= {"text", "thought"} and set(last) == set(part):
            whole[-1] = {**last, "text": last["text"] + part["text"]}
        elif part != {"text": ""}:
            whole.append(part)
    return whole


class _CallNumbers:
    """Numbers calls and responses in place of their ids, which differ between clients."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, str, str | None]] = deque()
        self._count = 0

    def spell(self, parts: Sequence[JsonObject], role: str) -> list[Any]:
        return [self._spell(part, role) for part in parts]

    def _spell(self, part: JsonObject, role: str) -> Any:
        if role == "model" and (call := part.get("functionCall")):
            self._count += 1
            self._open.append((self._count, call["name"], call.get("id")))
            kept = {"call": self._count, "name": call["name"], "args": call.get("args") or {}}
            signature = part.get("thoughtSignature")
            return kept | ({"signature": signature} if signature else {})
        if role == "user" and (response := part.get("functionResponse")):
            value, is_error = value_of(response)
            return {
                "answers": self._answered(response["name"], response.get("id")),
                "name": response["name"],
                "error" if is_error else "value": plain_value(value),
                "media": response.get("parts") or [],
            }
        if "text" in part:
            return part | {"text": _CALL_IN_TEXT.sub("(call)", part["text"])}
        return part

    def _answered(self, name: str, call_id: str | None) -> int | None:
        by_id = (found for found in self._open if call_id and found[2] == call_id)
        by_name = (found for found in self._open if found[1] == name)
        answered = next(by_id, None) or next(by_name, None)
        if answered is None:
            return None
        self._open.remove(answered)
        return answered[0]


def plain_value(value: Any) -> Any:
    """Return a result as in a tool message: objects and lists as values, the rest as text."""
    if isinstance(value, str):
        if _MEDIA_FILLER.fullmatch(value):
            return ""
        if value.lstrip()[:1] in ("{", "["):
            try:
                return json.loads(value)
            except ValueError:
                return value
        return value
    return value if isinstance(value, (dict, list)) else json.dumps(value)


def echoes_in(exchange: Exchange) -> dict[int, Exchange]:
    """Return the contents that repeat an earlier reply of the same recording, with that reply."""
    if not exchange.is_answered:
        return {}
    replies = [
        earlier
        for recording in recordings()
        if recording.id == exchange.recording_id
        for earlier in recording.exchanges
        if earlier.number < exchange.number and earlier.status == 200 and Recorded(earlier).parts
    ]
    echoes: dict[int, Exchange] = {}
    for number, content in enumerate(contents_of(request_of(exchange))):
        if content["role"] != "model":
            continue
        gist = _gist_of(content["parts"])
        alike = [reply for reply in replies if _gist_of(camel(Recorded(reply).parts)) == gist]
        # The same call may have been made twice; then the signature tells which reply it was.
        alike.sort(key=lambda reply: _spell_reply(reply) != spell([content]))
        if alike and any(gist):
            echoes[number] = alike[0]
            replies.remove(alike[0])
    return echoes


def _spell_reply(exchange: Exchange) -> Any:
    return spell([{"role": "model", "parts": camel(echo_of(Recorded(exchange)))}])


def _gist_of(parts: Sequence[JsonObject]) -> tuple[str, list[Any]]:
    """Return what every client keeps of a reply: visible text and calls."""
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    calls = [part["functionCall"] for part in whole_calls(parts)]
    return text.strip(), [(call["name"], call["args"]) for call in calls]


def request_of(exchange: Exchange) -> JsonObject:
    assert exchange.request is not None
    return exchange.request
