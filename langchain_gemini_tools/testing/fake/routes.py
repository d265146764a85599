"""The destination of a request: backend, version, model and method, read from its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.models import Backend

Method = Literal[
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "get",
    "list",
    "createInteraction",
    "getInteraction",
    "cancelInteraction",
    "deleteInteraction",
]

# A base URL with a path of its own is kept by clients: `/proxy/v1/models/...`
_ROUTE = re.compile(
    r"""
    (?P<prefix>(?:/[^/]+)*?)
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    (?P<vertex>/projects/[^/]+/locations/[^/]+/publishers/google|/publishers/google)?
    /models(?:/(?P<model>[^/:]+))?
    (?::(?P<method>\w+))?
    """,
    re.VERBOSE,
)


_INTERACTIONS = re.compile(
    r"""
    (?:/[^/]+)*?
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    (?P<vertex>/projects/[^/]+/locations/[^/]+)?
    /interactions(?:/(?P<name>[^/]+))?(?P<cancel>/cancel)?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Route:
    """A path, read."""

    backend: Backend
    version: str
    model: str
    """The model's name; of an interaction, its id."""
    method: Method

    @property
    def is_interaction(self) -> bool:
        return self.method.endswith("Interaction")


def read_route(http_method: str, path: str) -> Route | None:
    """The route of a path without its query; None when the API has no such page."""
    if not (match := _ROUTE.fullmatch(path)):
        return _read_interaction(http_method, path)
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    name = match["model"] or ""
    if http_method == "GET" and not match["method"]:
        return Route(backend, match["version"], name, "get" if name else "list")
    known = ("generateContent", "streamGenerateContent", "countTokens")
    if http_method == "POST" and name and match["method"] in known:
        return Route(backend, match["version"], name, cast("Method", match["method"]))
    return None


def _read_interaction(http_method: str, path: str) -> Route | None:
    if not (match := _INTERACTIONS.fullmatch(path)):
        return None
    name = match["name"] or ""
    known: dict[tuple[str, bool, bool], Method] = {
        ("POST", False, False): "createInteraction",
        ("GET", True, False): "getInteraction",
        ("DELETE", True, False): "deleteInteraction",
        ("POST", True, True): "cancelInteraction",
    }
    method = known.get((http_method, bool(name), bool(match["cancel"])))
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    return Route(backend, match["version"], name, method) if method else None


_BATCH_ROUTE = re.compile(
    r"""
    (?P<prefix>(?:/[^/]+)*?)
    (?P<folder>/upload|/download)?
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    /(?:
        models/(?P<model>[^/:]+):(?P<create>batchGenerateContent)
        |(?P<name>(?P<kind>batches|files)(?:/[^/:]+)?)(?::(?P<verb>cancel|download))?
        |(?P<place>projects/[^/]+/locations/[^/]+)/batchPredictionJobs
         (?P<job>/[^/:]+)?(?::(?P<job_verb>cancel))?
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class BatchRoute:
    """A path of batch jobs or files, read. Files are those of the Developer API."""

    operation: str
    name: str
    model: str
    version: str
    backend: Backend = "gemini"


def read_batch_route(http_method: str, path: str) -> BatchRoute | None:
    """The route of a batch job or a file; None when it is neither."""
    if not (match := _BATCH_ROUTE.fullmatch(path)):
        return None
    if match["place"]:
        return _read_vertex_batch(http_method, match)
    name = match["name"] or ""
    operation = {
        ("POST", "models", None): "create",
        ("GET", "batches", None): "get" if "/" in name else "list",
        ("POST", "batches", "cancel"): "cancel",
        ("DELETE", "batches", None): "delete",
        ("POST", "files", None): "upload" if match["folder"] == "/upload" else None,
        ("GET", "files", "download"): "download",
        ("GET", "files", None): "get_file" if "/" in name else None,
        ("DELETE", "files", None): "delete_file",
    }.get((http_method, match["kind"] or "models", match["verb"]))
    return (
        BatchRoute(operation, name, match["model"] or "", match["version"]) if operation else None
    )


def _read_vertex_batch(http_method: str, match: re.Match[str]) -> BatchRoute | None:
    operation = {
        ("POST", False, None): "create",
        ("GET", False, None): "list",
        ("GET", True, None): "get",
        ("POST", True, "cancel"): "cancel",
        ("DELETE", True, None): "delete",
    }.get((http_method, bool(match["job"]), match["job_verb"]))
    name = f"{match['place']}/batchPredictionJobs{match['job'] or ''}"
    return BatchRoute(operation, name, "", match["version"], "vertex") if operation else None


_CACHE_ROUTE = re.compile(
    r"""
    (?:/[^/]+)*?
    /(?:v1|v1alpha|v1beta|v1beta1)
    /(?P<place>(?P<vertex>projects/[^/]+/locations/[^/]+/)?cachedContents(?:/[^/:]+)?)
    """,
    re.VERBOSE,
)


def read_cache_route(path: str) -> tuple[str, Backend] | None:
    """The place of context caches, or of one, and its backend; None for another path."""
    if not (match := _CACHE_ROUTE.fullmatch(path)):
        return None
    return match["place"], "vertex" if match["vertex"] else "gemini"
