"""Names of tools and parameters: what the API accepts, and how to get back to the user's names.

A valid name is sent as it is. Any other name is replaced by a rule that needs no memory, so that a
declaration, an old call in the history and `allowedFunctionNames` all agree. The bound tools lead
back from the names on the wire to the user's.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_gemini_tools.wire.tools.tool import Tool

MAX_NAME_LENGTH = 64
_HASH_LENGTH = 8

# "Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_),
# dots (.) or dashes (-), with a maximum length of 64." Newer texts also allow a colon and 128
# characters, but not on every endpoint.
_VALID = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_LENGTH - 1}}}")
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_.-]")

# "Parameter names must start with a letter or an underscore and must only contain chars a-z, A-Z,
# 0-9, or underscores with a maximum length of 64."
_VALID_PARAMETER = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_LENGTH - 1}}}")
_INVALID_IN_PARAMETER = re.compile(r"[^A-Za-z0-9_]")


@lru_cache(maxsize=4096)
def render_name(name: str) -> str:
    """Return a tool's name on the wire: the name itself if the API accepts it, or a valid one."""
    return name if _VALID.fullmatch(name) else _replace(name, _INVALID_CHARACTER)


@lru_cache(maxsize=4096)
def render_parameter_name(name: str) -> str:
    """Return a parameter's name on the wire, by the same rule."""
    return name if _VALID_PARAMETER.fullmatch(name) else _replace(name, _INVALID_IN_PARAMETER)


def _replace(name: str, invalid: re.Pattern[str]) -> str:
    # The hash of the whole name keeps two names apart that differ only in replaced characters.
    readable = invalid.sub("_", name)
    if not re.match(r"[A-Za-z_]", readable):
        readable = f"_{readable}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{readable[: MAX_NAME_LENGTH - _HASH_LENGTH - 1]}_{digest}"


def function_names(tools: Iterable[Tool]) -> list[str]:
    """Return the functions' names as the user gave them, in order, without built-in tools."""
    return [tool.name for tool in tools if tool.is_function]


def names_by_wire_name(tools: Iterable[Tool]) -> dict[str, str]:
    """Return the user's name of every function by its name on the wire."""
    return {tool.wire_name: tool.name for tool in tools if tool.is_function}


# Names in the API's errors

_PLACE = re.compile(
    r"tools\[(?P<tool>\d{1,9})\]\.function_?[dD]eclarations\[(?P<function>\d{1,9})\]"
    r"(?P<rest>(?:\.\w+(?:\[[^\]]*\])?)*)"
)
_STEP = re.compile(r"\.(?P<field>\w+)(?:\[(?P<key>[^\]]*)\])?")
_INDEX = re.compile(r"\d{1,9}")
_PARAMETERS = ("parameters", "parametersJsonSchema")
_RESPONSE = ("response", "responseJsonSchema")
_SCHEMA_FIELDS = {
    "parameters": _PARAMETERS,
    "parameters_json_schema": _PARAMETERS,
    "parametersJsonSchema": _PARAMETERS,
    "response": _RESPONSE,
    "response_json_schema": _RESPONSE,
    "responseJsonSchema": _RESPONSE,
}


def name_places(
    message: str,
    tools: Sequence[Mapping[str, Any]],
    tool_names: Mapping[str, str] = MappingProxyType({}),
    parameter_names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[str]:
    """Name the tool and parameter of every place that an error gives by number, in order.

    The API writes `tools[0].function_declarations[3].parameters.properties[2].value`.

    Args:
        message: The API's message.
        tools: The `tools` of the request, as they were sent.
        tool_names: Names on the wire -> the user's names.
        parameter_names: The user's name of a tool -> a parameter's name on the wire -> the user's.
    """
    named: dict[str, None] = {}
    for place in _PLACE.finditer(message):
        try:
            declaration = tools[int(place["tool"])]["functionDeclarations"][int(place["function"])]
        except (KeyError, IndexError):
            continue
        name = tool_names.get(declaration["name"], declaration["name"])
        first, *others = [*_parameter_steps(place["rest"], declaration)] or [""]
        first = parameter_names.get(name, {}).get(first, first)
        steps = ".".join([first, *others]).replace(".[]", "[]")
        named[f"tool {name!r}" + (f", parameter {steps!r}" if steps else "")] = None
    return list(named)


def _parameter_steps(rest: str, declaration: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over the properties of a path, which gives their position or their name."""
    schema: Any = declaration
    for step in _STEP.finditer(rest):
        field, key = step["field"], step["key"]
        if field in _SCHEMA_FIELDS:
            schema = next((schema[name] for name in _SCHEMA_FIELDS[field] if name in schema), {})
        elif field == "properties" and key is not None:
            properties = schema.get("properties") or {}
            name = list(properties)[int(key)] if _is_position(key, properties) else key
            yield name
            schema = properties.get(name) or {}
        elif field == "items":
            yield "[]"
            schema = schema.get("items") or {}
        elif field in {"any_of", "anyOf"} and key is not None and _INDEX.fullmatch(key):
            choices = schema.get("anyOf") or schema.get("oneOf") or []
            schema = choices[int(key)] if int(key) < len(choices) else {}


def _is_position(key: str, properties: Mapping[str, Any]) -> bool:
    is_index = key not in properties and _INDEX.fullmatch(key) is not None
    return is_index and int(key) < len(properties)
