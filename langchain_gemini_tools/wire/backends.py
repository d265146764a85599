"""Options that exist on one backend only, rejected by name before a request is sent.

The SDK refuses the same ones; `test_backends.py` asks it. Built-in tools have a column for it in
`tools/dialects.py`. What `extra_body` contains is not checked: it is the way out for an endpoint
that accepts more than the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError
from langchain_gemini_tools.facts.json_values import camel, snake
from langchain_gemini_tools.wire.tools.dialects import builtin_tool, reject_only_typed

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.tools.dialects import Backend
    from langchain_gemini_tools.wire.tools.tool import Tool

_NAMES: dict[Backend, str] = {"developer": "the Gemini Developer API", "vertex": "Vertex AI"}
_WAYS_OUT: dict[Backend, str] = {
    "developer": "Leave it out, or use the Gemini Developer API (vertexai=False).",
    "vertex": "Leave it out, or use Vertex AI (vertexai=True).",
}

_FIELDS: dict[str, Backend] = {
    "generationConfig.audioTimestamp": "vertex",
    "generationConfig.enableEnhancedCivicAnswers": "developer",
    "generationConfig.imageConfig.imageOutputOptions": "vertex",
    "generationConfig.imageConfig.outputCompressionQuality": "vertex",
    "generationConfig.imageConfig.outputMimeType": "vertex",
    "generationConfig.imageConfig.personGeneration": "vertex",
    "generationConfig.imageConfig.prominentPeople": "vertex",
    "generationConfig.modelSelectionConfig": "vertex",
    "generationConfig.routingConfig": "vertex",
    "safetySettings.method": "vertex",
    "toolConfig.functionCallingConfig.streamFunctionCallArguments": "vertex",
    "toolConfig.includeServerSideToolInvocations": "developer",
}
"""Fields of the body -> the only backend that has them."""


def _missing_on(backend: Backend) -> dict[str, list[list[str]]]:
    missing: dict[str, list[list[str]]] = {}
    for path, only_on in _FIELDS.items():
        first, *rest = path.split(".")
        if only_on != backend:
            missing.setdefault(first, []).append(rest)
    return missing


_MISSING = {backend: _missing_on(backend) for backend in _NAMES}
"""By backend and field of the body: the paths inside it that the backend does not have."""


def check_options(body: Mapping[str, Any], *, vertexai: bool) -> None:
    """Reject fields that the backend does not have.

    Args:
        body: The body without its contents, in either spelling.
        vertexai: Whether the request goes to Vertex AI.

    Raises:
        InvalidOptionError: A field exists on the other backend only.
    """
    missing = _MISSING[_backend(vertexai=vertexai)]
    for key in body.keys() & missing.keys():
        for path in missing[key]:
            if _has(body[key], path):
                raise InvalidOptionError(
                    _explain(snake(path[-1]), "developer" if vertexai else "vertex")
                )


def check_tools(tools: Sequence[Tool], *, vertexai: bool) -> None:
    """Reject built-in tools, and settings of them, that the backend does not have.

    Raises:
        InvalidToolError: One exists on the other backend only, or in the Interactions API only.
    """
    backend = _backend(vertexai=vertexai)
    for tool in tools:
        if tool.builtin is None:
            continue
        row = builtin_tool(tool.name)
        reject_only_typed(tool.name, tool.builtin[tool.name])
        if row.only_on not in (None, backend):
            raise InvalidToolError(_explain(snake(tool.name), row.only_on))
        for setting in row.settings_of_vertex if backend == "developer" else ():
            if _has(tool.builtin, [tool.name, setting]):
                name = f"{snake(setting)} of {snake(tool.name)}"
                raise InvalidToolError(_explain(name, "vertex"))


def _backend(*, vertexai: bool) -> Backend:
    return "vertex" if vertexai else "developer"


def _explain(name: str, only_on: Backend) -> str:
    other: Backend = "developer" if only_on == "vertex" else "vertex"
    return (
        f"{name} exists only on {_NAMES[only_on]}, and this model uses {_NAMES[other]}. "
        f"{_WAYS_OUT[only_on]} If your endpoint accepts it all the same, send it in extra_body."
    )


def _has(value: Any, path: Sequence[str]) -> bool:
    """Return whether a field is set, in any item of a list."""
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if not path:
        return value is not None
    if not isinstance(value, Mapping):
        return False
    first, *rest = path
    return any(_has(value[key], rest) for key in value if key == first or camel(key) == first)
