"""Gemini's built-in tools, one row each.

To support another one, add its row. Everything that differs between them is a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.spelling import camel, snake


class BuiltinTool(NamedTuple):
    """What the package knows about one built-in tool."""

    name: str
    """Its key on the wire."""
    counterparts: tuple[str, ...] = ()
    """Other vendors' types of tools for the same purpose; a date or version may follow."""
    is_run_by_user: bool = False
    """The model calls functions that are not declared, and the user runs them, as in computer use:
    https://ai.google.dev/gemini-api/docs/computer-use"""
    calls_are_run_by_api: bool = False
    """Calls of functions that are not declared are run by the API, as those of MCP servers are."""


_ROWS = (
    BuiltinTool("googleSearch", ("web_search",)),
    BuiltinTool("googleMaps"),
    BuiltinTool("urlContext", ("web_fetch",)),
    BuiltinTool("codeExecution", ("code_interpreter", "code_execution")),
    BuiltinTool("fileSearch", ("file_search",)),
    BuiltinTool("computerUse", ("computer",), is_run_by_user=True),
    BuiltinTool("mcpServers", ("mcp",), calls_are_run_by_api=True),
    BuiltinTool("googleSearchRetrieval"),
    BuiltinTool("retrieval"),
    BuiltinTool("enterpriseWebSearch"),
    BuiltinTool("parallelAiSearch"),
    BuiltinTool("exaAiSearch"),
)
BUILTIN_TOOLS = {row.name: row for row in _ROWS}

_USER_KEYS = frozenset({"headers"})
"""Settings whose keys are the user's, so that their spelling is not changed."""


def is_builtin(key: str) -> bool:
    """Return whether `key`, in either spelling, is a built-in tool."""
    return camel(key) in BUILTIN_TOOLS


def builtin_tool(name: str) -> BuiltinTool:
    """Return the row of a built-in tool; the SDK may have tools that the table does not."""
    return BUILTIN_TOOLS.get(name) or BuiltinTool(name)


def render_builtin(key: str, settings: Any) -> dict[str, Any]:
    """Render a built-in tool in the spelling of the wire; None means no settings."""
    return {camel(key): {} if settings is None else camel_keys(settings)}


def camel_keys(value: Any) -> Any:
    """Return a copy with every key in the spelling of the wire, except for the user's own keys."""
    if isinstance(value, Mapping):
        return {
            camel(key): dict(item) if key in _USER_KEYS else camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def unknown_tool(keys: list[str]) -> InvalidToolError:
    """Return the error for a dict that is neither a function nor a built-in tool."""
    known = ", ".join(map(snake, BUILTIN_TOOLS))
    return InvalidToolError(
        f"A tool with the keys {', '.join(map(repr, keys))} is neither a function, which has a "
        f"name and a schema, nor one of Gemini's built-in tools: {known}."
    )


def foreign_tool(kind: str) -> InvalidToolError:
    """Return the error for a tool that another vendor runs."""
    own = next(
        (snake(row.name) for row in BUILTIN_TOOLS.values() if kind.startswith(row.counterparts)),
        None,
    )
    advice = (
        f'Use Gemini\'s {{"{own}": {{}}}} instead.'
        if own
        else "Gemini has no tool for the same purpose; use a function instead."
    )
    return InvalidToolError(f"A tool of type {kind!r} is run by another vendor. {advice}")
