"""Context caches: created, used, renewed, listed, deleted, expired.

Recorded: creating with contents, a system text or both, with functions, a tool config or code
execution; what is returned, and that it never shows contents or tools; a cache that is too small;
`ttl` and `expireTime`; PATCH; lists, newest first; 403 for a cache that does not exist any more;
the counts of a hit. Not recorded: a cached function that is called, and the error of a request
that uses a cache after its end (reported with the message of GET).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import prompt_tokens
from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.responses import (
    JsonObject,
    Outgoing,
    Refusal,
    documented,
    read_page,
    reading,
    whole,
)
from langchain_gemini_tools.testing.fake.rules.payload import check_model, read_payload

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_gemini_tools.testing.fake.ask import Backend, Model
    from langchain_gemini_tools.testing.fake.request import Request, Route

MIN_TOKENS = 1024
"""Recorded for gemini-2.5-flash; inferred for all others."""
_DEFAULT_SECONDS = 3600.0  # recorded
_CONTENTS = ("systemInstruction", "tools", "toolConfig", "contents")
_ID = "fake"
"""How the ids of these caches begin: others are unknown, and are not checked."""


@dataclass
class FakeCache:
    """One cache."""

    name: str
    model: str
    """As it was given: `models/...`, or the whole path on Vertex."""
    contents: JsonObject
    tokens: int
    expires_at: float
    display_name: str = ""
    created_at: float = field(default_factory=time.time)

    def describe(self, backend: Backend) -> JsonObject:
        """Return the cache's JSON: never what it contains."""
        shown: JsonObject = {
            "name": self.name,
            "model": self.model,
            "createTime": _render_time(self.created_at),
            "updateTime": _render_time(self.created_at),
            "expireTime": _render_time(self.expires_at),
            "usageMetadata": {"totalTokenCount": self.tokens},
        }
        # Recorded: Vertex returns no displayName.
        return shown | ({"displayName": self.display_name} if backend == "gemini" else {})


class Caches:
    """The caches of an emulator."""

    def __init__(self, models: Collection[str] = ()) -> None:
        self.caches: dict[str, FakeCache] = {}
        self.models = models
        """Names of models that exist as well."""
        self._created = 0

    def expire(self, name: str) -> None:
        """Make a cache expire now."""
        self.caches[name].expires_at = 0.0

    def serve(self, route: Route, request: Request) -> Outgoing:
        """Answer one request for caches."""
        if route.method == "create":
            return whole(200, self._create(_read(request, route), route))
        if route.method == "list":
            return whole(200, self._list(request.query, route.backend))
        cache = self.find(route.resource)
        if route.method == "delete":
            del self.caches[route.resource]
            return whole(200, {})
        if route.method == "update":
            cache.expires_at = _read_expiry(_read(request, route))
        return whole(200, cache.describe(route.backend))

    def find(self, name: str) -> FakeCache:
        """Return a cache that has not ended."""
        cache = self.caches.get(name)
        if cache is None or cache.expires_at <= time.time():
            # Recorded: 403, not 404, for deleted, expired and unknown caches.
            raise Refusal("CachedContent not found (or permission denied)", 403)
        return cache

    def join(self, body: JsonObject, model: Model) -> tuple[JsonObject, int]:
        """Return the request with what its cache contains, and the tokens of the cache."""
        name = str(body["cachedContent"])
        if not name.rpartition("/")[2].startswith(_ID):
            return body, 0
        cache = self.find(name)
        if cache.model.rpartition("/")[2] != model.name:  # reported by many
            raise Refusal(
                f"Model used by GenerateContent request ({model.resource}) and CachedContent "
                f"({cache.model}) has to be the same."
            )
        joined = {key: value for key, value in body.items() if key != "cachedContent"}
        joined |= {key: cache.contents[key] for key in _CONTENTS if key in cache.contents}
        contents = [*cache.contents.get("contents", []), *body.get("contents", [])]
        return joined | {"contents": contents}, cache.tokens

    def _create(self, body: JsonObject, route: Route) -> JsonObject:
        given = str(body.get("model") or "")
        name = given.rpartition("/")[2]
        method = "createCachedContent"
        model = check_model(name, route.version, route.backend, method, self.models)
        if not model.has_caches:
            raise documented(f"{name} has no explicit caching")
        contents = {key: body[key] for key in _CONTENTS if body.get(key)}
        tokens = prompt_tokens(Ask(contents, model, route.backend))
        if tokens < MIN_TOKENS:  # recorded
            raise Refusal(
                f"Cached content is too small. total_token_count={tokens}, "
                f"min_total_token_count={MIN_TOKENS}",
                evidence="recorded",
            )
        self._created += 1
        cache = FakeCache(
            f"{route.resource}/{_ID}{self._created:06d}",
            given,
            contents,
            tokens,
            _read_expiry(body),
            str(body.get("displayName") or ""),
        )
        self.caches[cache.name] = cache
        return cache.describe(route.backend)

    def _list(self, query: Mapping[str, str], backend: Backend) -> JsonObject:
        caches = [each for each in reversed(self.caches.values()) if each.expires_at > time.time()]
        start, size = read_page(query)
        shown = [each.describe(backend) for each in caches[start : start + size]]
        page: JsonObject = {"cachedContents": shown} if shown else {}
        return page | ({"nextPageToken": str(start + size)} if start + size < len(caches) else {})


def _read(request: Request, route: Route) -> JsonObject:
    """The cache that a request describes."""
    return read_payload(
        request.raw, backend=route.backend, version=route.version, message="CachedContent"
    )


def _read_expiry(body: Mapping[str, Any]) -> float:
    """When a cache ends. Recorded: a time in the past is accepted."""
    with reading():
        if end := body.get("expireTime"):
            return datetime.fromisoformat(str(end)).timestamp()
        seconds = str(body.get("ttl") or f"{_DEFAULT_SECONDS}s").removesuffix("s")
        return time.time() + float(seconds)


def _render_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
