"""Where a request wants to go: backend, version, model and method, read from its path."""

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
