"""The API's words about `function_declarations[3].parameters.properties[2].value` -> names."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PLACE = re.compile(
    r"tools\[(?P<tool>\d{1,9})\]\.function_?[dD]eclarations\[(?P<function>\d{1,9})\]"
    r"(?P<rest>(?:\.\w+(?:\[[^\]]*\])?)*)"
)
_STEP = re.compile(r"\.(?P<field>\w+)(?:\[(?P<key>[^\]]*)\])?")
_INDEX = re.compile(r"\d{1,9}")
_PARAMETERS = ("parameters", "parametersJsonSchema")
_RESPONSE = ("response", "responseJsonSchema")
_SCHEMAS = {
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
    """Tool and parameter of every place that an error's text numbers, in order.

    Args:
        message: What the API said.
        tools: The request's `tools`, as they were sent.
        tool_names: Name on the wire -> the user's.
        parameter_names: The user's name of a tool -> a parameter's on the wire -> the user's.
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
    """The names of the properties on the way; map entries are numbered, or named already."""
    schema: Any = declaration
    for step in _STEP.finditer(rest):
        field, key = step["field"], step["key"]
        if field in _SCHEMAS:
            schema = next((schema[name] for name in _SCHEMAS[field] if name in schema), {})
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
