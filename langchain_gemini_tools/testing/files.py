"""The file format of a cassette: YAML that is readable in a review and safe to load.

The first line says what was recorded. It has no date: version control knows it, and without it a
recording with the same content is the same file.

A body has one of four forms: `json` (its value, as YAML), `events` (a list with one item for each
server-sent event), `text`, or `base64`. What is read back is not always byte for byte what the
server sent: JSON is compact, and events end with CRLF CRLF. For a client it means the same.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from langchain_gemini_tools.testing.cassettes import CassetteFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from langchain_gemini_tools.facts.json_values import JsonObject


VERSION = 1
FIRST_KEY = "recorded_against"
DEVELOPER_API = "Gemini Developer API"
VERTEX = "Vertex AI"

LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1|0\.0\.0\.0")
_MAX_NESTING = 100
_DRAFT = ".cassette-draft"
_ABANDONED_SECONDS = 60
_LARGE = 1_000_000
_ODD_LINE_ENDS = re.compile("[\r\x85\u2028\u2029]")


# vcrpy's serializer: two functions of this module.


def serialize(cassette: JsonObject) -> str:
    """Return the text of a file for vcrpy's data."""
    interactions = [
        {side: _render_side(found[side]) for side in ("request", "response")}
        for found in cassette["interactions"]
    ]
    data: JsonObject = {FIRST_KEY: recorded_against(interactions), "version": VERSION}
    if metadata := cassette.get("metadata"):
        data["metadata"] = metadata
    return dump_yaml({**data, "interactions": interactions})


def deserialize(text: str) -> JsonObject:
    """Return vcrpy's data for the text of a file, whether this module or vcrpy wrote it.

    Raises:
        CassetteFileError: The file is not a cassette, or is not safe to load.
    """
    data = load_yaml(text)
    interactions = []
    for number, found in enumerate(data["interactions"], start=1):
        try:
            interactions.append(
                {"request": _parse_request(found), "response": _parse_response(found)}
            )
        except CassetteFileError as error:
            raise CassetteFileError(f"Interaction {number}: {error}") from error.__cause__
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CassetteFileError(
                f"Interaction {number} is not a recorded request with its response: {error!r}"
            ) from error
    read = {"version": VERSION, "interactions": interactions}
    return read | ({"metadata": data["metadata"]} if data.get("metadata") else {})


def _parse_request(found: JsonObject) -> JsonObject:
    request = found["request"]
    return {
        "method": str(request["method"]),
        "uri": str(request["uri"]),
        "headers": _parse_headers(request.get("headers")),
        "body": parse_body(request.get("body")),
    }


def _parse_response(found: JsonObject) -> JsonObject:
    response = found["response"]
    status = response["status"]
    return {
        "status": {"code": int(status["code"]), "message": str(status.get("message") or "")},
        "headers": _parse_headers(response.get("headers")),
        "body": {"string": parse_body(response.get("body"))},
    }


def _render_side(side: JsonObject) -> JsonObject:
    """Return a request or a response as it is written, without empty fields."""
    rendered: JsonObject = {
        name: side[name] for name in ("method", "uri", "status") if name in side
    }
    headers = {
        name.lower(): value[0] if not isinstance(value, str) and len(value) == 1 else value
        for name, value in side["headers"].items()
    }
    if headers:
        rendered["headers"] = headers
    if body := render_body(parse_body(side["body"])):
        rendered["body"] = body
    return rendered


def _parse_headers(headers: JsonObject | None) -> JsonObject:
    return {
        name: [str(v) for v in value] if isinstance(value, list) else [str(value)]
        for name, value in (headers or {}).items()
    }


# Where recordings come from.


def recorded_against(interactions: list[JsonObject]) -> str:
    """Say which APIs responded: Google's by name, others by host, local servers as local."""
    return ", ".join(dict.fromkeys(map(_server_of, interactions))) or "nothing"


def _server_of(found: JsonObject) -> str:
    host = urlsplit(found["request"]["uri"]).hostname or "an unknown host"
    if host == "generativelanguage.googleapis.com":
        return DEVELOPER_API
    if host.endswith("aiplatform.googleapis.com"):
        return VERTEX
    if LOOPBACK.fullmatch(host):
        headers = found["response"].get("headers") or {}
        named = headers.get("server") or "without a name"
        return f"local server {named} (no evidence about Gemini)"
    return host


# YAML.


def dump_yaml(data: JsonObject) -> str:
    """Return the YAML text of plain data."""
    import yaml

    # libyaml is fifty times as fast, but writes characters such as 🌍 as numbers.
    is_large = len(json.dumps(data)) > _LARGE
    base: Any = getattr(yaml, "CSafeDumper" if is_large else "SafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        """Writes strings with line breaks as blocks, and a list that occurs twice, twice."""

        def ignore_aliases(self, _: object) -> bool:
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        if _ODD_LINE_ENDS.search(text):
            style: str | None = '"'  # other styles would turn them into spaces
        else:
            style = "|" if "\n" in text.rstrip("\n") else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)

    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def load_yaml(text: str) -> JsonObject:
    """Return the data of a cassette's text.

    Raises:
        CassetteFileError: It is not the YAML of a cassette, or would exhaust the memory.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(text, Loader=loader))
        data = yaml.load(text, Loader=loader)  # noqa: S506 - both are the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CassetteFileError(f"The file is not valid YAML for a cassette: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("interactions"), list):
        raise CassetteFileError("The file is not a cassette: it has no list 'interactions'.")
    return data


def _check_events(events: Iterator[Any]) -> None:
    """Reject references and deep nesting before anything is built from them."""
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise CassetteFileError(
                f"The file contains a YAML reference (*{event.anchor}), which can exhaust the "
                "memory. Cassettes never contain one."
            )
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            depth -= 1
        if depth > _MAX_NESTING:
            raise CassetteFileError(f"The file is nested more than {_MAX_NESTING} levels deep.")


def write_file(path: Path, text: str) -> None:
    """Write the whole file or nothing: an old file is not changed until the new one is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned_drafts(path.parent)
    # A short name: the cassette's own may be as long as the file system allows.
    draft = path.with_name(f".{uuid.uuid4().hex}{_DRAFT}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _remove_abandoned_drafts(folder: Path) -> None:
    """Remove temporary files of processes that were killed while writing."""
    for draft in folder.glob(f".*{_DRAFT}"):
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - draft.stat().st_mtime > _ABANDONED_SECONDS:
                draft.unlink()


# Bodies.

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_TEXT_FIELDS = ("text", "stringValue")  # of responses, and of arguments streamed in pieces
_WRITTEN_TEXT = re.compile(rf'"(?:{"|".join(_TEXT_FIELDS)})"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
"""A text field in a body that is not JSON, such as a truncated stream."""
_MAX_DEPTH = 64  # deeper values are stored as text, because a YAML loader recurses into them


def render_body(raw: bytes) -> JsonObject | None:
    """Return the form of a body for a file; None for an empty body."""
    if not raw:
        return None
    if raw.lstrip()[:1] in (b"{", b"["):
        value = parse_json(raw)
        if value is not None:
            return {"json": value}
    if raw.startswith((b"data:", b":", b"event:", b"id:", b"retry:")):
        events = _render_events(raw)
        if events is not None:
            return {"events": events}
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def parse_body(form: object) -> bytes:
    """Return the bytes of a body in a file, also of one that vcrpy wrote.

    Raises:
        CassetteFileError: The body has none of the four forms.
    """
    match form:
        case None:
            return b""
        case str():
            return form.encode()
        case bytes():
            return form
        case {"json": value, **rest} if not rest:
            return _encode_json(value)
        case {"events": list(events), **rest} if not rest:
            return b"".join(map(_parse_event, events))
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(text), **rest} if not rest:
            return _decode_base64(text)
        case {"string": text, **rest} if not rest and isinstance(text, (str, bytes, type(None))):
            return parse_body(text)
    given = f"{sorted(map(str, form))}" if isinstance(form, dict) else type(form).__name__
    raise CassetteFileError(
        f"A body must have exactly one of the fields json, events, text and base64, not {given}."
    )


def joined_text(form: object) -> str:
    """Return the texts of a body joined together, because streams may split them anywhere."""
    match form:
        case {"json": value}:
            return "".join(_texts(value))
        case {"events": list(events)}:
            return "".join(text for event in events for text in _texts_of_event(event))
        case {"text": str(text)}:
            return "".join(_WRITTEN_TEXT.findall(text))
    return ""


def _texts_of_event(event: object) -> Iterable[str]:
    return _WRITTEN_TEXT.findall(event) if isinstance(event, str) else _texts(event)


def _texts(value: object) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                yield from [item] if key in _TEXT_FIELDS and isinstance(item, str) else _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def parse_json(raw: bytes) -> Any:
    """Return the value, or None where the value does not represent the bytes completely."""
    try:
        value = json.loads(raw, object_pairs_hook=_unique)
        # This fails on NaN, on numbers that are too large, and on lone surrogates.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if _depth(value) <= _MAX_DEPTH else None


def _render_events(raw: bytes) -> list[Any] | None:
    """Return events as values where they are JSON, else as text. None for a truncated stream."""
    *blocks, rest = _EVENT_END.split(raw)
    if rest:
        return None
    try:
        return [_render_event(block) for block in blocks]
    except UnicodeDecodeError:
        return None


def _render_event(block: bytes) -> Any:
    if block.startswith(b"data:") and b"\n" not in block and b"\r" not in block:
        value = parse_json(block.removeprefix(b"data:"))
        if isinstance(value, (dict, list)):
            return value
    return block.decode()


def _parse_event(event: object) -> bytes:
    text = event.encode() if isinstance(event, str) else b"data: " + _encode_json(event)
    return text + b"\r\n\r\n"


def _encode_json(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError) as error:
        raise CassetteFileError(f"A body contains a value that JSON cannot: {error}") from error


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CassetteFileError(f"A body is not valid base64: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _depth(value: object) -> int:
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
