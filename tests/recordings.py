"""Recorded traffic with the real API.

The recordings are not part of this repository. `GEMINI_RECORDINGS` names the folder with recordings
of generateContent, `GEMINI_RECORDINGS_MORE` the one with other methods: Interactions, batches,
files, caches, token counts. Without them, the tests that need them are skipped.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cases import Test

JsonObject = dict[str, Any]

VARIABLE = "GEMINI_RECORDINGS"
MORE_VARIABLE = "GEMINI_RECORDINGS_MORE"
NOT_SET = f"{VARIABLE} is not set: it names the folder of the recorded exchanges"
_MORE_NOT_SET = f"{MORE_VARIABLE} is not set: it names the folder of recordings of other methods"


@dataclass(frozen=True)
class Exchange:
    """One request and what came back."""

    recording_id: str
    number: int
    tier: Literal["recorded", "fixture", "notebook"]
    """`recorded` has request and response; of the others only the response is certain."""
    backend: Literal["gemini", "vertex"]
    model: str
    is_stream: bool
    status: int
    url_path: str
    request: JsonObject | None
    replies: tuple[Any, ...]
    """One body, or the events of a stream. An error may be a list, as some streams send it."""
    classes: frozenset[str]
    notes: frozenset[str]

    @property
    def id(self) -> str:
        """A short name that identifies the exchange."""
        return f"{self.recording_id}:{self.number}"

    @property
    def version(self) -> str:
        """The API version in the path."""
        return self.url_path.strip("/").partition("/")[0]

    @property
    def is_answered(self) -> bool:
        """Whether the API accepted the request, and the recording has request and response."""
        return self.status == 200 and self.tier == "recorded" and self.request is not None


@dataclass(frozen=True)
class Recording:
    """One conversation, or several unrelated requests of one test, in the order they were made."""

    id: str
    tier: Literal["recorded", "fixture"]
    classes: frozenset[str]
    exchanges: tuple[Exchange, ...]


@cache
def recordings() -> tuple[Recording, ...]:
    """Return every recording in the folder; none if the variable is not set."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return ()
    return tuple(_read(path) for path in sorted(Path(folder).glob("*.json")))


def exchanges() -> Iterator[Exchange]:
    """Yield every exchange of every recording."""
    for recording in recordings():
        yield from recording.exchanges


def each_exchange(
    keep: Callable[[Exchange], bool] = lambda _: True,
) -> Callable[[Test], Test]:
    """Run a test on every exchange; without recordings it skips and says why.

    @each_exchange(lambda exchange: exchange.is_stream)
    def test_...(exchange: Exchange) -> None: ...
    """
    return each(
        "exchange", lambda: {found.id: found for found in exchanges() if keep(found)}, NOT_SET
    )


def require_recordings() -> tuple[Recording, ...]:
    """Return every recording; skip the running test if there is none."""
    if not recordings():
        pytest.skip(NOT_SET)
    return recordings()


@cache
def _more_recordings() -> tuple[JsonObject, ...]:
    folder = os.environ.get(MORE_VARIABLE)
    paths = sorted(Path(folder).glob("*/*.json")) if folder else []
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in paths)


def require_more_recordings() -> tuple[JsonObject, ...]:
    """Return the files of the second folder as JSON; skip the running test if there are none."""
    if not _more_recordings():
        pytest.skip(_MORE_NOT_SET)
    return _more_recordings()


def require_more_exchanges(kind: str) -> list[Exchange]:
    """Return the exchanges of one kind from the second folder; skip the test if there are none.

    Args:
        kind: `generate`, `count`, `interactions`, `batch`, `files` or `caches`.
    """
    return [
        _read_exchange(recording, exchange)
        for recording in require_more_recordings()
        for exchange in recording["exchanges"]
        if exchange["kind"] == kind
    ]


def _read(path: Path) -> Recording:
    data = json.loads(path.read_text(encoding="utf-8"))
    found = tuple(_read_exchange(data, exchange) for exchange in data["exchanges"])
    return Recording(data["id"], data["tier"], frozenset(data["classes"]), found)


def _read_exchange(recording: JsonObject, exchange: JsonObject) -> Exchange:
    replies = exchange.get("response_chunks")
    return Exchange(
        recording_id=recording["id"],
        number=exchange["n"],
        tier=recording["tier"],
        backend=exchange["backend"],
        model=exchange["model"],
        is_stream=exchange["method"] == "streamGenerateContent",
        status=exchange["status"],
        url_path=exchange["url_path"] or "",
        request=exchange.get("request_json"),
        replies=tuple(replies) if replies is not None else (exchange.get("response_json"),),
        classes=frozenset(exchange.get("classes") or ()),
        notes=frozenset(exchange.get("notes") or ()),
    )
