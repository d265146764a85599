"""One request as it came in: where its path leads, and views that make assertions short."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.interactions import read_call
from langchain_gemini_tools.testing.fake.responses import JsonObject, Refusal, reading
from langchain_gemini_tools.testing.fake.rules.interactions import read_steps
from langchain_gemini_tools.testing.fake.rules.payload import read_message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from langchain_gemini_tools.testing.fake.ask import Backend

NOT_STORED = "[not stored]"
_CREDENTIAL = re.compile(r"auth|key|token|cookie|secret|password")
_WRAPPERS = ("output", "result", "return_value")
"""Under which key clients put the result of a function that is not an object."""


@dataclass(frozen=True)
class Request:
    """One request as it came in, also when it was refused.

    The views read both spellings of a field (`functionCall`, `function_call`) and cover the whole
    request: a client sends the conversation again at every step.
    """

    method: str
    """The HTTP method."""
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case. Of credentials, only the server's own placeholders are stored."""
    model: str
    backend: Backend | None
    raw: bytes = field(repr=False)
    """The body's bytes."""
    url: str = ""
    """The whole address, without credentials."""

    @property
    def is_stream(self) -> bool:
        """Whether the response is streamed."""
        if self.is_interaction:
            asked = isinstance(self.body, dict) and self.body.get("stream")
            return bool(asked) or self.query.get("stream") == "true"
        return self.path.endswith(":streamGenerateContent")

    @property
    def is_interaction(self) -> bool:
        """Whether this went to the Interactions API."""
        return bool(re.search(r"/interactions(/|$)", self.path))

    @property
    def steps(self) -> list[JsonObject]:
        """The steps of an interaction that this request sent."""
        given = self.body.get("input") if isinstance(self.body, dict) else None
        return given if isinstance(given, list) else []

    @cached_property
    def body(self) -> Any:
        """The parsed JSON, spelled as the client spelled it; None when it is not JSON."""
        try:
            return json.loads(self.raw) if self.raw else None
        except ValueError:
            return None

    @property
    def contents(self) -> list[JsonObject]:
        """The conversation, in camelCase."""
        return list(self._read.get("contents", []))

    @property
    def system(self) -> str | None:
        """The text of the system instruction; None when there is none."""
        instruction = self._read.get("systemInstruction")
        return "".join(_texts(instruction)) if instruction else None

    @property
    def texts(self) -> list[str]:
        """Every text of the conversation, oldest first, without thoughts."""
        return [text for content in self.contents for text in _texts(content)]

    @property
    def prompt(self) -> str:
        """What the user said last."""
        said = [content for content in self.contents if content.get("role") != "model"]
        spoken = [text for text in ("".join(_texts(content)) for content in said) if text]
        return spoken[-1] if spoken else ""

    @property
    def function_calls(self) -> list[tuple[str, JsonObject]]:
        """Every function call of the conversation: name and arguments, oldest first."""
        calls = self._of_kind("functionCall")
        return [(call.get("name", ""), call.get("args", {})) for call in calls]

    @property
    def function_responses(self) -> list[tuple[str, Any]]:
        """Every function response of the conversation: name and result, oldest first.

        A result that is not an object, which clients wrap (`{"output": "Sunny"}`), is unwrapped.
        An error stays as it was sent, such as `{"error": "No such city"}`.
        """
        responses = self._of_kind("functionResponse")
        return [(each.get("name", ""), _unwrap(each.get("response", {}))) for each in responses]

    @property
    def declarations(self) -> list[JsonObject]:
        """The function declarations of all tools."""
        tools = self._read.get("tools", [])
        return [one for tool in tools for one in tool.get("functionDeclarations", [])]

    @property
    def tool_names(self) -> list[str]:
        """The names of the declared functions."""
        return [declaration.get("name", "") for declaration in self.declarations]

    @property
    def tool_config(self) -> JsonObject:
        """The `toolConfig`, in camelCase; empty when there is none."""
        return dict(self._read.get("toolConfig", {}))

    @property
    def generation_config(self) -> JsonObject:
        """The `generationConfig`, in camelCase; empty when there is none."""
        return dict(self._read.get("generationConfig", {}))

    @cached_property
    def _read(self) -> JsonObject:
        """The body in camelCase, or as it is when it does not follow the protos."""
        body: JsonObject = self.body if isinstance(self.body, dict) else {}
        if self.is_interaction:
            try:
                with reading():
                    return read_call(body, read_steps(body.get("input")))
            except Refusal:
                return {}
        body = body.get("generateContentRequest", body)
        try:
            return read_message(body, backend=self.backend or "gemini")
        except Refusal:
            return body

    def _of_kind(self, kind: str) -> list[JsonObject]:
        return [part[kind] for part in self._parts() if isinstance(part.get(kind), dict)]

    def _parts(self) -> Iterator[JsonObject]:
        for content in self.contents:
            yield from content.get("parts", [])


def _texts(content: JsonObject) -> list[str]:
    parts = content.get("parts", [])
    return [part["text"] for part in parts if part.get("text") and not part.get("thought")]


def _unwrap(response: Any) -> Any:
    if isinstance(response, dict) and len(response) == 1:
        ((key, value),) = response.items()
        if key in _WRAPPERS:
            return value
    return response


def without_credentials(fields: Mapping[str, str], placeholders: Collection[str]) -> dict[str, str]:
    """Return headers or parameters to keep; credentials that are not placeholders are replaced."""
    return {
        name: value
        if not _CREDENTIAL.search(name) or value.rpartition(" ")[2] in placeholders
        else NOT_STORED
        for name, value in fields.items()
    }


# Clients keep a base URL with a path: `/proxy/v1/models/...`. A version in it is a second one.
_PATH = re.compile(
    r"""
    (?:/(?!v1\w*/v1)[^/]+)*?
    (?P<upload>/upload)?
    /(?P<version>v1|v1alpha|v1beta|v1beta1)
    /(?P<resource>
        (?P<vertex>
            (?:projects/[^/]+/locations/[^/]+/)?publishers/google/(?=models)
            |projects/[^/]+/locations/[^/]+/(?=interactions|cachedContents|batchPredictionJobs)
        )?
        (?P<kind>
            models|interactions|cachedContents|(?(vertex)batchPredictionJobs|(?:batches|files))
        )
        (?:/(?P<id>[^/:]+))?
    )
    (?P<verb>[:/]\w+)?
    """,
    re.VERBOSE,
)
_ROUTES = {
    "GET models": ("models", "list"),
    "GET models/*": ("models", "get"),
    "POST models/*:generateContent": ("models", "generateContent"),
    "POST models/*:streamGenerateContent": ("models", "streamGenerateContent"),
    "POST models/*:countTokens": ("models", "countTokens"),
    "POST models/*:batchGenerateContent": ("batches", "create"),
    "GET batches": ("batches", "list"),
    "GET batches/*": ("batches", "get"),
    "POST batches/*:cancel": ("batches", "cancel"),
    "DELETE batches/*": ("batches", "delete"),
    "POST batchPredictionJobs": ("batches", "create"),
    "GET batchPredictionJobs": ("batches", "list"),
    "GET batchPredictionJobs/*": ("batches", "get"),
    "POST batchPredictionJobs/*:cancel": ("batches", "cancel"),
    "DELETE batchPredictionJobs/*": ("batches", "delete"),
    "POST files": ("batches", "upload"),
    "GET files": ("batches", "list_files"),
    "GET files/*:download": ("batches", "download"),
    "GET files/*": ("batches", "get_file"),
    "DELETE files/*": ("batches", "delete_file"),
    "POST cachedContents": ("caches", "create"),
    "GET cachedContents": ("caches", "list"),
    "GET cachedContents/*": ("caches", "get"),
    "PATCH cachedContents/*": ("caches", "update"),
    "DELETE cachedContents/*": ("caches", "delete"),
    "POST interactions": ("interactions", "create"),
    "GET interactions/*": ("interactions", "get"),
    "DELETE interactions/*": ("interactions", "delete"),
    "POST interactions/*/cancel": ("interactions", "cancel"),
}
"""The service and the operation of each path."""


_OTHER_SERVICES = re.compile(
    r"""
    /v1\w*/(?:.+/)?(?:
        models/[^/:]+:\w*(?:[eE]mbed|[pP]redict|computeTokens|generateAnswer)\w*
        |(?:auth_tokens|corpora|endpoints|fileSearchStores|openai|operations|tunedModels|webhooks)(?:[/:].*)?
    )
    """,
    re.VERBOSE,
)


def is_of_another_service(path: str) -> bool:
    """Whether Google has this page, but no route leads to it."""
    return bool(_OTHER_SERVICES.search(path))


@dataclass(frozen=True)
class Route:
    """A path, read."""

    backend: Backend
    version: str
    name: str
    """The last name in it: of a model, an interaction, a job, a file or a cache."""
    method: str
    """The operation."""
    service: str = "models"
    resource: str = field(default="", compare=False)
    """The path after the version, without a verb."""


def read_route(http_method: str, path: str) -> Route | None:
    """Return the route of a path without its query; None when the API has no such page."""
    if not (match := _PATH.fullmatch(path)):
        return None
    name = match["id"] or ""
    page = f"{http_method} {match['kind']}{'/*' if name else ''}{match['verb'] or ''}"
    service, method = _ROUTES.get(page, ("", ""))
    if not service or (method == "upload" and not match["upload"]):
        return None
    backend: Backend = "vertex" if match["vertex"] else "gemini"
    return Route(backend, match["version"], name, method, service, match["resource"])
