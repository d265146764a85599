"""Functions as vendors write them in plain dicts -> one form of our own.

| who              | where the name stands                | where the schema stands          |
|------------------|--------------------------------------|----------------------------------|
| OpenAI Chat      | `function.name`                      | `function.parameters`            |
| OpenAI Responses | `name`, beside `type: function`      | `parameters`                     |
| OpenAI's formats | `json_schema.name`, or `name`        | `json_schema.schema`, `schema`   |
| Anthropic        | `name`                               | `input_schema`                   |
| MCP              | `name`                               | `inputSchema`                    |
| Amazon Bedrock   | `toolSpec.name`                      | `inputSchema.json`               |
| Amazon Q         | `toolSpecification.name`             | the same, `input_schema.schema`  |
| Gemini           | `name`, in `functionDeclarations`    | `parametersJsonSchema`, `parameters` |
| argument lists   | `name`                               | `parameters: [{name, type, ...}]` |
| JSON schema      | `title`                              | the dict itself                  |
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools.builtin import foreign_tool, unknown_tool


@dataclass(frozen=True)
class Specification:
    """A function as somebody specified it; its schemas are still as they came."""

    name: str
    description: str | None = None
    parameters: Any = None
    response: Any = None


_WRAPPERS = (
    *("toolSpec", "toolSpecification", "tool_spec", "tool_specification"),
    *("function", "json_schema"),
)
_PARAMETERS = (
    "parametersJsonSchema",
    "parameters_json_schema",
    "input_schema",
    "inputSchema",
    "parameters",
    "args_schema",
    "schema",
)
_RESPONSES = (
    "response_schema",  # ours, on a bound tool
    "responseJsonSchema",
    "response_json_schema",
    "outputSchema",
    "output_schema",
    "response",
)
_JSON_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMA_WORDS = {"properties", "$ref", "anyOf", "any_of", "allOf", "oneOf", "enum", "const"}


def read_specification(tool: Mapping[str, Any]) -> Specification:
    """The function that a vendor's dict specifies.

    Raises:
        InvalidToolError: It specifies none, or a tool that runs on another vendor's side.
    """
    for wrapper in _WRAPPERS:
        if isinstance(inner := tool.get(wrapper), Mapping):
            return read_specification(inner)
    if "name" in tool:
        return _read_named(tool)
    if "title" in tool and isinstance(tool["title"], str):
        return Specification(tool["title"], tool.get("description"), tool)
    kind = tool.get("type")
    if "properties" in tool or kind == "object":
        raise InvalidToolError(
            "A JSON schema given as a tool needs a 'title': it becomes the tool's name."
        )
    raise foreign_tool(kind) if isinstance(kind, str) else unknown_tool(list(tool))


def is_specification(given: Mapping[str, Any]) -> bool:
    """Whether this specifies a function, or a named schema, and is no schema itself."""
    if any(isinstance(given.get(wrapper), Mapping) for wrapper in _WRAPPERS):
        return True
    return isinstance(given.get("name"), str) and not _is_schema(given)


def may_specify(fields: Collection[str]) -> bool:
    """Whether an object with these fields can hold a function's schema."""
    return not {*_PARAMETERS, *_WRAPPERS}.isdisjoint(fields)


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping) and (
        value.get("type") in _JSON_TYPES or not _SCHEMA_WORDS.isdisjoint(value)
    )


def _read_named(tool: Mapping[str, Any]) -> Specification:
    name = tool["name"]
    if not isinstance(name, str) or not name:
        raise InvalidToolError(f"A tool's name has to be a text, and is {name!r}.")
    key = next((key for key in _PARAMETERS if tool.get(key) is not None), None)
    kind = tool.get("type")
    if isinstance(kind, str) and kind not in ("function", *_JSON_TYPES) and key is None:
        raise foreign_tool(kind)
    if key is None and "properties" in tool:  # a JSON schema with a name for a title
        return Specification(name, tool.get("description"), {**tool, "title": name})
    if key is None:
        _refuse_lost_schema(name, tool)
    if str(tool.get("behavior") or "").upper().endswith("NON_BLOCKING"):
        raise InvalidToolError(
            f"Tool {name!r} asks for the behavior NON_BLOCKING, which only the Live API has."
        )
    response = next((tool[key] for key in _RESPONSES if tool.get(key) is not None), None)
    try:
        return Specification(
            name=name,
            description=tool.get("description"),
            parameters=_unwrap(tool[key]) if key else None,
            response=_unwrap(response),
        )
    except InvalidToolError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidToolError(
            f"Tool {name!r}: its schema is a text, and no JSON: {error}."
        ) from error


def _refuse_lost_schema(name: str, tool: Mapping[str, Any]) -> None:
    """A function without arguments is declared as one; not so one whose schema is misspelled."""
    for key, value in tool.items():
        holds = [value, *(value.values() if isinstance(value, Mapping) else ())]
        if key not in _RESPONSES and any(map(_is_schema, holds)):
            raise InvalidToolError(
                f"Tool {name!r}: its arguments would be lost, since no vendor writes them under "
                f"{key!r}. Call it 'parameters'."
            )


def _unwrap(schema: Any) -> Any:
    """The schema itself, out of Amazon's `{"json": ...}`, or of a list of arguments."""
    if isinstance(schema, str):
        return json.loads(schema)
    if isinstance(schema, (list, tuple)):
        return _read_argument_list(schema)
    if isinstance(schema, Mapping) and len(schema) == 1:
        for wrapper in ("json", "schema"):
            if isinstance(schema.get(wrapper), (str, Mapping)):
                return _unwrap(schema[wrapper])
    return schema


def _read_argument_list(arguments: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """`[{"name", "type", "description", "required"}]` as an object schema."""
    properties: dict[str, Any] = {}
    required = []
    for argument in arguments:
        if not isinstance(argument, Mapping) or not isinstance(argument.get("name"), str):
            raise InvalidToolError(f"An argument of a list needs a 'name': {argument!r}.")
        schema = {key: value for key, value in argument.items() if key not in {"name", "required"}}
        if isinstance(nested := schema.pop("schema", None), Mapping):  # OpenAPI's parameter object
            schema = {**nested, **schema}
        properties[argument["name"]] = schema
        match argument.get("required"):
            case True:
                required.append(argument["name"])
            case list() as names:
                schema["required"] = names  # of an object inside
    return {"type": "object", "properties": properties, "required": required}
