"""The YAML that a cassette is: readable in a review, safe to load from a stranger.

The first line says what was recorded. There is no date in it: the history of the repository knows
it, and a recording that says the same makes no difference.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from langchain_gemini_tools.testing.bodies import read_body, write_body
from langchain_gemini_tools.testing.errors import CassetteFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    JsonObject = dict[str, Any]

VERSION = 1
FIRST_KEY = "recorded_against"
DEVELOPER_API = "Gemini Developer API"
VERTEX = "Vertex AI"

LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1|0\.0\.0\.0")
_MAX_NESTING = 100
_ODD_LINE_ENDS = re.compile("[\r\x85\u2028\u2029]")


# vcrpy's serializer: two functions of this module.


def serialize(cassette: JsonObject) -> str:
    """The text of a file, for what vcrpy has in memory."""
    interactions = [
        {
            "request": {
                "method": found["request"]["method"],
                "uri": found["request"]["uri"],
                "headers": _write_headers(found["request"]["headers"]),
                "body": write_body(read_body(found["request"]["body"])),
            },
            "response": {
                "status": found["response"]["status"],
                "headers": _write_headers(found["response"]["headers"]),
                "body": write_body(read_body(found["response"]["body"])),
            },
        }
        for found in cassette["interactions"]
    ]
    data: JsonObject = {FIRST_KEY: recorded_against(interactions), "version": VERSION}
    if metadata := cassette.get("metadata"):
        data["metadata"] = metadata
    return dump({**data, "interactions": _without_empty(interactions)})


def deserialize(text: str) -> JsonObject:
    """What vcrpy wants in memory, from a file of ours or from one of its own.

    Raises:
        CassetteFileError: The file is no cassette, or one that nobody should load.
    """
    data = load(text)
    interactions = []
    for number, found in enumerate(data["interactions"], start=1):
        try:
            interactions.append({"request": _request(found), "response": _response(found)})
        except CassetteFileError as error:
            raise CassetteFileError(f"Interaction {number}: {error}") from error.__cause__
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CassetteFileError(
                f"Interaction {number} is no recorded request with its response: {error!r}"
            ) from error
    read = {"version": VERSION, "interactions": interactions}
    return read | ({"metadata": data["metadata"]} if data.get("metadata") else {})


def _request(found: JsonObject) -> JsonObject:
    request = found["request"]
    return {
        "method": str(request["method"]),
        "uri": str(request["uri"]),
        "headers": _read_headers(request.get("headers")),
        "body": read_body(request.get("body")),
    }


def _response(found: JsonObject) -> JsonObject:
    response = found["response"]
    status = response["status"]
    return {
        "status": {"code": int(status["code"]), "message": str(status.get("message") or "")},
        "headers": _read_headers(response.get("headers")),
        "body": {"string": read_body(response.get("body"))},
    }


def _write_headers(headers: JsonObject) -> JsonObject:
    listed = {name: [v] if isinstance(v, str) else list(v) for name, v in headers.items()}
    return {
        name.lower(): values[0] if len(values) == 1 else values for name, values in listed.items()
    }


def _read_headers(headers: JsonObject | None) -> JsonObject:
    return {
        name: [str(v) for v in value] if isinstance(value, list) else [str(value)]
        for name, value in (headers or {}).items()
    }


def _without_empty(interactions: list[JsonObject]) -> list[JsonObject]:
    return [
        {
            side: {key: value for key, value in fields.items() if value not in (None, {})}
            for side, fields in found.items()
        }
        for found in interactions
    ]


# Where recordings come from.


def recorded_against(interactions: list[JsonObject]) -> str:
    """Who answered: both APIs by name, others by host, local servers as what they are."""
    return ", ".join(dict.fromkeys(map(_answered_by, interactions))) or "nothing"


def _answered_by(found: JsonObject) -> str:
    host = urlsplit(found["request"]["uri"]).hostname or "an unknown host"
    if host == "generativelanguage.googleapis.com":
        return DEVELOPER_API
    if host.endswith("aiplatform.googleapis.com"):
        return VERTEX
    if LOOPBACK.fullmatch(host):
        named = found["response"]["headers"].get("server") or "of no name"
        return f"local server {named} (no evidence about Gemini)"
    return host


# YAML.


def dump(data: JsonObject) -> str:
    """The text of plain data. Always the same one, whichever YAML library is installed."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Texts of several lines as such; the same list twice written twice."""

        def ignore_aliases(self, _: Any) -> bool:
            return True

    def represent_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
        if _ODD_LINE_ENDS.search(text):
            style: str | None = '"'  # other styles would make them spaces
        else:
            style = "|" if "\n" in text.rstrip("\n") else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)

    Dumper.add_representer(str, represent_text)
    text: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def load(text: str) -> JsonObject:
    """The data of a cassette's text.

    Raises:
        CassetteFileError: It is no YAML of a cassette; it would run code or fill the memory.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_tricks(yaml.parse(text, Loader=loader))
        data = yaml.load(text, Loader=loader)  # noqa: S506 - both are the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CassetteFileError(f"This is no YAML that a cassette may be: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("interactions"), list):
        raise CassetteFileError("This is no cassette: it has no list of interactions.")
    return data


def _refuse_tricks(events: Iterator[Any]) -> None:
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise CassetteFileError(
                f"It refers to itself (*{event.anchor}). Cassettes never do; a file that does can "
                "fill any memory."
            )
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            depth -= 1
        if depth > _MAX_NESTING:
            raise CassetteFileError(f"It is nested more than {_MAX_NESTING} levels deep.")


# Files.


def write_file(path: Path, text: str) -> None:
    """Write all of it or nothing: whatever happens, an old file stays whole until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
