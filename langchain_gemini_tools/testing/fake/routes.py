"""The destination of a request: backend, version, model and method, read from its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.models import Backend

Method = Literal["generateContent", "streamGenerateContent", "countTokens", "get", "list"]

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


@dataclass(frozen=True)
class Route:
    """A path, read."""

    backend: Backend
    version: str
    model: str
    method: Method


def read_route(http_method: str, path: str) -> Route | None:
    """The route of a path without its query; None when the API has no such page."""
    if not (match := _ROUTE.fullmatch(path)):
        return None
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    name = match["model"] or ""
    if http_method == "GET" and not match["method"]:
        return Route(backend, match["version"], name, "get" if name else "list")
    known = ("generateContent", "streamGenerateContent", "countTokens")
    if http_method == "POST" and name and match["method"] in known:
        return Route(backend, match["version"], name, cast("Method", match["method"]))
    return None
