"""vcrpy's cassette, with what Gemini needs: a replay that never answers another question.

vcrpy intercepts, compares, keeps. Added here: which requests are none of its business, an error
that tells what differs, order among threads, and a mark on what is replayed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vcr.cassette import Cassette
from vcr.errors import UnhandledHTTPRequestError
from vcr.persisters.filesystem import CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.serialize import deserialize

from langchain_gemini_tools.testing import files
from langchain_gemini_tools.testing.addresses import GEMINI_PATH, PROJECT
from langchain_gemini_tools.testing.errors import StaleCassetteError
from langchain_gemini_tools.testing.matching import matchers, place_of
from langchain_gemini_tools.testing.secrets import Scrubber

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    JsonObject = dict[str, Any]

REPLAYED = "x-cassette"
"""A header of replayed responses. Whoever would wait before a retry need not."""

_IGNORED_HOSTS = frozenset(
    {
        "oauth2.googleapis.com",
        "accounts.google.com",
        "sts.googleapis.com",
        "iamcredentials.googleapis.com",
        "metadata.google.internal",
        "169.254.169.254",
        "api.smith.langchain.com",
        "eu.api.smith.langchain.com",
    }
)
"""Where credentials are fetched and traces are sent: nobody wants them in a file."""

_MAX_DIFFERENCES = 8

HOW_TO_RECORD = (
    "To record it, set GOOGLE_API_KEY and run with GEMINI_RECORD_MODE=all "
    "(pytest: --record-mode=all)."
)


class Tape(Cassette):  # type: ignore[misc]  # vcrpy has no types
    """A cassette that is open."""

    allow_playback_repeats: bool
    secrets: Collection[str] = ()
    """Values that no message may hold, besides the credentials."""

    def __init__(self, path: str, before_record_request: Any = None, **settings: Any) -> None:
        super().__init__(
            path=path, before_record_request=_unless_ignored(before_record_request), **settings
        )
        self.file_path = path
        self._lock = threading.RLock()

    def can_play_response_for(self, request: Any) -> bool:
        """Whether a request is recorded; an error where it must be and is not."""
        with self._lock:
            if super().can_play_response_for(request):
                return True
            asked = self.filter_request(request)
            if asked and self.write_protected:
                raise StaleCassetteError(self._explain(asked))
            return False

    def play_response(self, request: Any) -> Any:
        """The next recorded response to a request, marked as one."""
        with self._lock:
            response = self._next_response(request)
        return {**response, "headers": {**response["headers"], REPLAYED: ["replayed"]}}

    def _next_response(self, request: Any) -> Any:
        """In the recorded order; where repeats are allowed, the last one again and again."""
        repeats: bool = self.allow_playback_repeats
        self.allow_playback_repeats = False
        try:
            return super().play_response(request)
        except UnhandledHTTPRequestError:
            if repeats:
                return self.responses_of(request)[-1]
            # Another thread was faster.
            raise StaleCassetteError(self._explain(self.filter_request(request))) from None
        finally:
            self.allow_playback_repeats = repeats

    def append(self, request: Any, response: Any) -> None:
        """Keep a request with its response."""
        with self._lock:
            super().append(request, response)

    @property
    def unused(self) -> list[int]:
        """The numbers of the interactions that nobody asked for, from 1; of a replay only."""
        if not self.write_protected:
            return []
        return [n for n in range(1, len(self.data) + 1) if not self.play_counts[n - 1]]

    @property
    def uses_vertex_projects(self) -> bool:
        """Whether calls were made for a project of Google Cloud, not with a key."""
        return any(PROJECT.search(request.uri) for request in self.requests)

    def _explain(self, asked: Any) -> str:
        headline = f"{asked.method.upper()} {place_of(asked, Scrubber(self.secrets))}"
        if not self.data:
            return (
                f"There is no cassette {self.file_path} to answer {headline}, and this run only "
                f"replays. {HOW_TO_RECORD}"
            )
        nearest, failed = self._nearest(asked)
        if not failed:
            return (
                f"The cassette {self.file_path} has no more answers to {headline}: the request was "
                f"recorded {self._count(asked)} time(s), and is made once more. {HOW_TO_RECORD} To "
                "give the last answer again, use allow_playback_repeats=True."
            )
        lines = [
            line if name == "question" else f"{name}: {line}"
            for name, message in failed
            for line in str(message).splitlines()
        ]
        more = len(lines) - _MAX_DIFFERENCES
        shown = [f"  {line}" for line in lines[:_MAX_DIFFERENCES]]
        shown += [f"  ... and {more} more"] if more > 0 else []
        return "\n".join(
            [
                f"The cassette {self.file_path} holds no answer to {headline}.",
                f"The nearest recorded request (number {nearest} of {len(self.data)}) differs:",
                *shown,
                HOW_TO_RECORD,
            ]
        )

    def _nearest(self, asked: Any) -> tuple[int, list[tuple[str, str]]]:
        """The number of the recorded request that differs least, and how it differs."""
        similar = self.find_requests_with_most_matches(asked)
        if not similar:  # not even the method
            return 1, [("method", f"recorded {self.requests[0].method}, now {asked.method}")]
        request, _, failed = min(
            similar, key=lambda found: sum(str(text).count("\n") + 1 for _, text in found[2])
        )
        return next(n for n, known in enumerate(self.requests, 1) if known is request), failed

    def _count(self, asked: Any) -> int:
        similar = self.find_requests_with_most_matches(asked)
        return sum(1 for _, _, failed in similar if not failed)


def _unless_ignored(given: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    ignored = set(_IGNORED_HOSTS)
    for name in ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        if host := urlsplit(os.environ.get(name, "")).hostname:
            ignored.add(host)

    def keep(request: Any) -> Any:
        if request.host in ignored and not GEMINI_PATH.search(request.path):
            return None
        return given(request) if given else request

    return keep


class Keeper:
    """vcrpy's persister: reads files, and keeps what is to be saved until the tape has stopped.

    vcrpy saves before it lets go of the HTTP libraries; a failure there would leave them patched.
    """

    def __init__(self, inner: Any, *, is_read: bool) -> None:
        self._inner = inner
        self._is_read = is_read
        self.kept: tuple[JsonObject, Any] | None = None

    def load_cassette(self, cassette_path: str, serializer: Any) -> Any:
        """What a file holds, as vcrpy wants it."""
        if not self._is_read:
            raise CassetteNotFoundError
        return self._inner.load_cassette(cassette_path, serializer)

    def save_cassette(self, cassette_path: str, cassette_dict: JsonObject, serializer: Any) -> None:  # noqa: ARG002
        """Keep it."""
        self.kept = cassette_dict, serializer


class Files:
    """The simplest inner persister: one file, in UTF-8."""

    @staticmethod
    def load_cassette(cassette_path: Path, serializer: Any) -> Any:
        """What the file holds, as vcrpy wants it."""
        try:
            text = cassette_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise CassetteNotFoundError from None
        return deserialize(text, serializer)


def prepare(vcr: Any, secrets: Collection[str]) -> None:
    """Teach a `vcr.VCR` about Gemini. What its user sets besides still wins."""
    vcr.register_serializer("yaml", files)
    ours = {matcher.__name__: matcher for matcher in matchers(secrets)}
    for name, matcher in ours.items():
        vcr.register_matcher(name, matcher)
    vcr.match_on = tuple(ours)


def is_rerecorded(record_mode: Any) -> bool:
    """Whether nothing of the old file counts."""
    return bool(record_mode == RecordMode.ALL)
