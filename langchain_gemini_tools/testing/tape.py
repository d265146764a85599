"""vcrpy's cassette, adapted to Gemini.

vcrpy intercepts, compares and stores requests. Added here: which requests to ignore, an error that
says what differs, thread safety, and a mark on replayed responses.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from vcr.cassette import Cassette
from vcr.errors import UnhandledHTTPRequestError
from vcr.persisters.filesystem import CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.serialize import deserialize

from langchain_gemini_tools.testing import files
from langchain_gemini_tools.testing.errors import StaleCassetteError
from langchain_gemini_tools.testing.matching import address_of, matchers
from langchain_gemini_tools.testing.redaction import GEMINI_PATH, PROJECT, Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from langchain_gemini_tools.testing.files import JsonObject

REPLAYED = "x-cassette"
"""A header of replayed responses. With it, retries do not wait."""

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
"""Hosts that issue credentials or receive traces. Requests to them are not recorded."""

_MAX_DIFFERENCES = 8

HOW_TO_RECORD = (
    "To record it, set GOOGLE_API_KEY and run with GEMINI_RECORD_MODE=all "
    "(pytest: --record-mode=all)."
)


class Tape(Cassette):  # type: ignore[misc]  # vcrpy has no types
    """An open cassette."""

    allow_playback_repeats: bool
    secrets: Collection[str] = ()
    """Values to redact in messages, in addition to the credentials."""
    replayed: ClassVar[int] = 0
    """How many responses all cassettes of this process have replayed."""

    def __init__(self, path: str, before_record_request: Any = None, **settings: Any) -> None:
        super().__init__(
            path=path, before_record_request=_unless_ignored(before_record_request), **settings
        )
        self.file_path = path
        self._lock = threading.RLock()

    def can_play_response_for(self, request: Any) -> bool:
        """Whether a request is recorded.

        Raises:
            StaleCassetteError: It is not, and this cassette only replays.
        """
        with self._lock:
            if super().can_play_response_for(request):
                return True
            filtered = self.filter_request(request)
            if filtered and self.write_protected:
                raise StaleCassetteError(self._explain(filtered))
            return False

    def play_response(self, request: Any) -> Any:
        """Return the next recorded response to a request, marked as replayed."""
        with self._lock:
            response = self._next_response(request)
            Tape.replayed += 1
        return {**response, "headers": {**response["headers"], REPLAYED: ["replayed"]}}

    def _next_response(self, request: Any) -> Any:
        """Return responses in the recorded order; repeat the last one where that is allowed."""
        repeats: bool = self.allow_playback_repeats
        self.allow_playback_repeats = False
        try:
            return super().play_response(request)
        except UnhandledHTTPRequestError:
            if repeats:
                return self.responses_of(request)[-1]
            # Another thread took the last one.
            raise StaleCassetteError(self._explain(self.filter_request(request))) from None
        finally:
            self.allow_playback_repeats = repeats

    def append(self, request: Any, response: Any) -> None:
        """Store a request with its response."""
        with self._lock:
            super().append(request, response)

    @property
    def unused(self) -> list[int]:
        """The numbers of the interactions that were not replayed, from 1; empty when recording."""
        if not self.write_protected:
            return []
        return [n for n in range(1, len(self.data) + 1) if not self.play_counts[n - 1]]

    @property
    def uses_vertex_projects(self) -> bool:
        """Whether requests were made for a Google Cloud project, without an API key."""
        return any(PROJECT.search(request.uri) for request in self.requests)

    def _explain(self, request: Any) -> str:
        headline = f"{request.method.upper()} {address_of(request, Redactor(self.secrets))}"
        if not self.data:
            return (
                f"{headline} cannot be replayed: the cassette {self.file_path} does not exist, and "
                f"this run does not record. {HOW_TO_RECORD}"
            )
        nearest, failed = self._nearest(request)
        if not failed:
            return (
                f"The cassette {self.file_path} has no more responses to {headline}: the request "
                f"was recorded {self._count(request)} time(s), and is made once more. "
                f"{HOW_TO_RECORD} To repeat the last response, use allow_playback_repeats=True."
            )
        lines = [
            line if name == "gemini_body" else f"{name}: {line}"
            for name, message in failed
            for line in str(message).splitlines()
        ]
        more = len(lines) - _MAX_DIFFERENCES
        shown = [f"  {line}" for line in lines[:_MAX_DIFFERENCES]]
        shown += [f"  ... and {more} more"] if more > 0 else []
        return "\n".join(
            [
                f"The cassette {self.file_path} has no response to {headline}.",
                f"The nearest recorded request (number {nearest} of {len(self.data)}) differs:",
                *shown,
                HOW_TO_RECORD,
            ]
        )

    def _nearest(self, request: Any) -> tuple[int, list[tuple[str, str]]]:
        """Return the number of the most similar recorded request, and how it differs."""
        similar = self.find_requests_with_most_matches(request)
        if not similar:  # not even the method
            return 1, [("method", f"recorded {self.requests[0].method}, now {request.method}")]
        nearest, _, failed = min(
            similar, key=lambda found: sum(str(text).count("\n") + 1 for _, text in found[2])
        )
        return next(n for n, known in enumerate(self.requests, 1) if known is nearest), failed

    def _count(self, request: Any) -> int:
        similar = self.find_requests_with_most_matches(request)
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


class DeferringPersister:
    """vcrpy's persister: reads files, and stores a recording until the cassette is closed.

    vcrpy saves before it restores the HTTP libraries; a failure then would leave them patched.
    """

    def __init__(self, inner: Any, *, reads_file: bool) -> None:
        self._inner = inner
        self._reads_file = reads_file
        self.recorded: tuple[JsonObject, Any] | None = None

    def load_cassette(self, cassette_path: str, serializer: Any) -> Any:
        """Return the content of a file in vcrpy's form."""
        if not self._reads_file:
            raise CassetteNotFoundError
        return self._inner.load_cassette(cassette_path, serializer)

    def save_cassette(self, cassette_path: str, cassette_dict: JsonObject, serializer: Any) -> None:  # noqa: ARG002
        """Store what was recorded."""
        self.recorded = cassette_dict, serializer


class FilePersister:
    """Reads one file, in UTF-8."""

    @staticmethod
    def load_cassette(cassette_path: Path, serializer: Any) -> Any:
        """Return the content of the file in vcrpy's form."""
        try:
            text = cassette_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise CassetteNotFoundError from None
        return deserialize(text, serializer)


def prepare(vcr: Any, secrets: Collection[str]) -> None:
    """Adapt a `vcr.VCR` to Gemini. The user's own settings still take precedence."""
    vcr.register_serializer("yaml", files)
    ours = {matcher.__name__: matcher for matcher in matchers(secrets)}
    for name, matcher in ours.items():
        vcr.register_matcher(name, matcher)
    vcr.match_on = tuple(ours)


def replaces_file(record_mode: Any) -> bool:
    """Whether a mode ignores the existing file."""
    return bool(record_mode == RecordMode.ALL)
