"""Tools that run on Google's side: what they are called, and what other vendors call theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.spelling import camel, snake

BUILTIN_TOOLS = (
    "googleSearch",
    "googleMaps",
    "urlContext",
    "codeExecution",
    "fileSearch",
    "computerUse",
    "mcpServers",
    "googleSearchRetrieval",
    "retrieval",
    "enterpriseWebSearch",
    "parallelAiSearch",
    "exaAiSearch",
)

# What other vendors call a tool of theirs that Google has too, by how its type begins.
_COUNTERPARTS = {
    "web_search": "google_search",
    "web_fetch": "url_context",
    "code_interpreter": "code_execution",
    "code_execution": "code_execution",
    "file_search": "file_search",
    "computer": "computer_use",
    "mcp": "mcp_servers",
}

_OPAQUE = frozenset({"headers"})  # the user's own keys live in there


def is_builtin(key: str) -> bool:
    """Whether `key`, in either spelling, is a tool of Google's."""
    return camel(key) in BUILTIN_TOOLS


def render_builtin(key: str, settings: Any) -> dict[str, Any]:
    """One built-in tool as the wire spells it; no settings are empty settings."""
    return {camel(key): {} if settings is None else camel_keys(settings)}


def camel_keys(value: Any) -> Any:
    """A copy with every key as the wire spells it, except for keys that are the user's own."""
    if isinstance(value, Mapping):
        return {
            camel(key): dict(item) if key in _OPAQUE else camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def unknown_tool(keys: list[str]) -> InvalidToolError:
    """The error for a dict that is neither a function nor a tool of Google's."""
    known = ", ".join(snake(name) for name in BUILTIN_TOOLS)
    return InvalidToolError(
        f"A tool with the keys {', '.join(map(repr, keys))} is neither a function (which has a "
        f"name and a schema) nor one of Gemini's built-in tools: {known}."
    )


def foreign_tool(kind: str) -> InvalidToolError:
    """The error for a tool that runs on another vendor's side."""
    for prefix, own in _COUNTERPARTS.items():
        if kind.startswith(prefix):
            way_out = f'Gemini\'s own is {{"{own}": {{}}}}.'
            break
    else:
        way_out = "Gemini has none like it; give a function instead."
    return InvalidToolError(f"A tool of type {kind!r} runs on another vendor's side. {way_out}")
