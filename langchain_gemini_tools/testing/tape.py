"""vcrpy's cassette, adapted to Gemini: whether a request is the recorded one, and what differs.

vcrpy intercepts and stores requests. Added here: which requests to ignore, how they are compared,
an error that says what differs, thread safety, and a mark on replayed responses.

Requests are compared by method, path, query and body. Headers are ignored, and for Gemini also the
project and the host: Google's hosts and local servers are the same, a gateway is another host. Tool
call ids that a client generates differ in each run, so tool calls are compared by their order.
"""

from __future__ import annotations

import functools
import json
import os
import re
import threading
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from vcr.cassette import Cassette
from vcr.errors import UnhandledHTTPRequestError
from vcr.persisters.filesystem import CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.serialize import deserialize

from langchain_gemini_tools.facts.credentials import REDACTED, silence
from langchain_gemini_tools.facts.environment import environment_secrets
from langchain_gemini_tools.testing import files
from langchain_gemini_tools.testing.cassettes import StaleCassetteError
from langchain_gemini_tools.testing.files import LOOPBACK, parse_json
from langchain_gemini_tools.testing.redaction import (
    GEMINI_PATH,
    PROJECT,
    Redactor,
    body_bytes,
    credentials_in,
    credentials_in_body,
    has_credential_name,
    renumber_call_ids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from langchain_gemini_tools.facts.json_values import JsonObject

    Matcher = Callable[[Any, Any], None]

REPLAYED = "x-cassette"
"""A header of replayed responses. With it, retries do not wait."""

_IGNORED_HOSTS = frozenset(
    {
        "oauth2.googleapis.com",
        "oauth2.mtls.googleapis.com",
        "accounts.google.com",
        "sts.googleapis.com",
        "sts.mtls.googleapis.com",
        "iamcredentials.googleapis.com",
        "metadata.google.internal",
        "169.254.169.254",
        "api.smith.langchain.com",
        "eu.api.smith.langchain.com",
    }
)
"""Hosts that issue credentials or receive traces. Requests to them are not recorded."""

_MAX_DIFFERENCES = 8

MODE_IN_CODE = (
    "To record it, set GOOGLE_API_KEY and run with record_mode='all'. The code states the mode, so "
    "GEMINI_RECORD_MODE has no effect."
)
HOW_TO_RECORD = (
    "To record it, set GOOGLE_API_KEY and run with GEMINI_RECORD_MODE=all "
    "(pytest: --record-mode=all)."
)


class Tape(Cassette):  # type: ignore[misc]  # vcrpy has no types
    """An open cassette."""

    allow_playback_repeats: bool
    how_to_record: str = HOW_TO_RECORD
    secrets: Collection[str] = ()
    """Values to redact in messages, in addition to the credentials."""
    replayed: ClassVar[int] = 0
    """How many responses all cassettes of this process have replayed."""

    def __init__(self, path: str, before_record_request: Any = None, **settings: Any) -> None:
        super().__init__(
            path=path, before_record_request=_unless_ignored(before_record_request), **settings
        )
        silence("vcr.cassette")  # it logs every response, also that of a token endpoint
        self.file_path = path
        self._lock = threading.RLock()

    def can_play_response_for(self, request: Any) -> bool:
        """Return whether a request is recorded.

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
            # Another thread has used the last one.
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
                f"this run does not record. {self.how_to_record}"
            )
        nearest, failed = self._nearest(request)
        if not failed:
            return (
                f"The cassette {self.file_path} has no more responses to {headline}: the request "
                f"was recorded {self._count(request)} time(s), and is made once more. "
                f"{self.how_to_record} To repeat the last response, use "
                "allow_playback_repeats=True."
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
                self.how_to_record,
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

    def __init__(self, inner: Any, record_mode: RecordMode) -> None:
        self._inner = inner
        self._ignores_file = record_mode == RecordMode.ALL
        self.recorded: tuple[JsonObject, Any] | None = None

    def load_cassette(self, cassette_path: str, serializer: Any) -> Any:
        """Return the content of a file in vcrpy's form."""
        if self._ignores_file:
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
    ours = matchers(secrets)
    for matcher in ours:
        vcr.register_matcher(matcher.__name__, matcher)
    vcr.match_on = tuple(matcher.__name__ for matcher in ours)


# Matching.

_GEMINI_HOST = re.compile(rf"(?:[\w-]+\.)*googleapis\.com|{LOOPBACK.pattern}")
_SHOWN = 90
_HINT = " (if this is a credential that may differ, pass it in `secrets` when recording)"


def matchers(secrets: Collection[str] = ()) -> list[Matcher]:
    """Return the functions that vcrpy calls with the current and a recorded request.

    Args:
        secrets: Values that were redacted in the recording, in addition to the credentials.
    """
    redactor = Redactor(secrets)

    def method(now: Any, recorded: Any) -> None:
        _agree(recorded.method.upper(), now.method.upper())  # aiohttp may use lower case

    def address(now: object, recorded: object) -> None:
        _agree(address_of(recorded, redactor), address_of(now, redactor))

    def query(now: object, recorded: object) -> None:
        old = _query(recorded, redactor)
        new = _as_recorded(_query(now, redactor), dict(old))
        hint = _HINT if "[redacted-" in repr(old) else ""
        _agree(repr(old), repr(new), hint)

    def gemini_body(now: object, recorded: object) -> None:
        found = list(differences(normal_body(recorded, secrets), normal_body(now, secrets)))
        if found:
            raise AssertionError("\n".join(found))

    return [method, address, query, gemini_body]


def address_of(request: Any, redactor: Redactor) -> str:
    """Return the path, and the host unless it is one of Gemini's or this machine's."""
    split = urlsplit(redactor.uri(request.uri))
    path = unquote(split.path)
    if GEMINI_PATH.search(path) and _GEMINI_HOST.fullmatch(split.hostname or ""):
        return path
    return f"{split.scheme}://{split.netloc}{path}"


def _query(request: Any, redactor: Redactor) -> list[tuple[str, str]]:
    """Return the parameters in a fixed order, without Gemini's credentials."""
    return sorted(parse_qsl(urlsplit(redactor.uri(request.uri)).query))


def _as_recorded(query: list[tuple[str, str]], recorded: dict[str, str]) -> list[tuple[str, str]]:
    """Return the parameters with `[redacted]` wherever a credential was recorded so.

    Credentials that are missing in the recording are dropped: older files left them out.
    """
    same = [
        (name, REDACTED if has_credential_name(name) and recorded.get(name) == REDACTED else value)
        for name, value in query
    ]
    return [
        (name, value)
        for name, value in same
        if name in recorded or value != REDACTED or not has_credential_name(name)
    ]


def _agree(recorded: str, now: str, hint: str = "") -> None:
    if recorded != now:
        raise AssertionError(f"recorded {_short(recorded)}, now {_short(now)}{hint}")


# Bodies.


def normal_body(request: Any, secrets: Collection[str] = ()) -> Any:
    """Return what a request asks for, in the same form for all runs of a program."""
    used = [*credentials_in(request.headers, request.uri), *environment_secrets()]
    return _normal_body(body_bytes(request), (*secrets, *used))


@functools.lru_cache(maxsize=64)
def _normal_body(raw: bytes, secrets: tuple[str, ...]) -> Any:
    value = parse_json(raw)
    redactor = Redactor([*secrets, *credentials_in_body(raw, value)])
    if value is None:
        return redactor.text(raw.decode("utf-8", errors="surrogateescape"))
    if isinstance(value, dict) and value.get("generationConfig") == {}:
        del value["generationConfig"]  # the SDK adds an empty one
    return redactor.value(renumber_call_ids(value))


# What differs.


def differences(recorded: object, now: object, place: str = "body") -> Iterator[str]:
    """Describe each value that differs, by its place: `body.contents[0].parts[0].text: ...`."""
    match recorded, now:
        case dict(), dict():
            for key in [*recorded, *(key for key in now if key not in recorded)]:
                there = f"{place}.{key}"
                if key not in now:
                    yield f"{there}: recorded {_show(recorded[key])}, now missing"
                elif key not in recorded:
                    yield f"{there}: not recorded, now {_show(now[key])}"
                else:
                    yield from differences(recorded[key], now[key], there)
        case list(), list():
            for number, (old, new) in enumerate(zip(recorded, now, strict=False)):
                yield from differences(old, new, f"{place}[{number}]")
            if len(recorded) != len(now):
                yield f"{place}: recorded {len(recorded)} items, now {len(now)}"
        case str(), str():
            if recorded != now and not _is_redacted(recorded, now):
                old, new = _around_the_difference(recorded, now)
                yield f"{place}: recorded {_show(old)}, now {_show(new)}"
        case _:
            # Compare types, too: in Python 1, 1.0 and True are equal.
            if type(recorded) is not type(now) or recorded != now:
                yield f"{place}: recorded {_show(recorded)}, now {_show(now)}"


def _is_redacted(recorded: str, now: str) -> bool:
    """Return whether a text is the recorded one, with a word where that is redacted.

    A replay cannot always know the credentials of the recording: a prompt may quote a password that
    only a later request shows to be one.
    """
    start, *others = recorded.split(REDACTED)
    if not (others and now.startswith(start) and now.endswith(others[-1])):
        return False
    words, position = [], len(start)
    for text in others[:-1]:
        found = now.find(text, position + 1)
        if found < 0:
            return False
        words.append(now[position:found])
        position = found + len(text)
    words.append(now[position : len(now) - len(others[-1])])
    return all(word and not re.search(r"\s", word) for word in words)


def _around_the_difference(recorded: str, now: str) -> tuple[str, str]:
    """Cut a long common beginning off two texts."""
    pairs = zip(recorded, now, strict=False)
    shared = next((n for n, (old, new) in enumerate(pairs) if old != new), len(recorded))
    if shared <= _SHOWN // 2:
        return recorded, now
    start = shared - _SHOWN // 4
    return f"...{recorded[start:]}", f"...{now[start:]}"


def _show(value: object) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    """Cut a text that is too long for a line."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
