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
| Cohere           | `name`                               | `parameter_definitions: {name: ...}` |
| Bedrock Agents   | `name`                               | `parameters: {name: {type, ...}}` |
| argument lists   | `name`                               | `parameters: [{name, type, ...}]` |
| OpenAPI          | `name`                               | the same, `schema`, `content.*.schema` |
| JSON schema      | `title`                              | the dict itself                  |
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS
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
_DEFINITIONS = ("parameter_definitions", "parameterDefinitions")
_PARAMETERS = (
    "parametersJsonSchema",
    "parameters_json_schema",
    "input_schema",
    "inputSchema",
    "parameters",
    "args_schema",
    "schema",
    *_DEFINITIONS,
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
_PYTHON_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
_GENERIC = re.compile(r"(?P<name>\w+)\[(?P<inner>.*)\]")


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
            parameters=_read_parameters(key, tool[key]) if key else None,
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


def _read_parameters(key: str, parameters: Any) -> Any:
    """The schema of all arguments, out of any way to write them."""
    is_mapping = isinstance(parameters, Mapping)
    if is_mapping and key in _DEFINITIONS:
        return _object({name: _read_definition(item) for name, item in parameters.items()})
    if is_mapping and "properties" in parameters:
        return parameters
    parameters = _unwrap(parameters)
    return _object(parameters) if _is_mapping_of_names(parameters) else parameters


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    # `required: true` inside of a property is read with every other schema.
    return {"type": "object", "properties": dict(properties)}


def _is_mapping_of_names(value: Any) -> bool:
    """Whether this tells arguments by their names, with no schema of an object around them.

    An argument may be called `items`, and a schema may hold nothing but `items`: what decides is a
    name that is no keyword for a schema.
    """
    if not isinstance(value, Mapping):
        return False
    nesting = {KEYWORDS[name].nesting if name in KEYWORDS else "none" for name in value}
    return (
        "map" not in nesting and bool(nesting - {"schema"}) and all(map(_describes, value.values()))
    )


def _describes(value: Any) -> bool:
    return isinstance(value, Mapping) and (
        isinstance(value.get("type"), (str, list))
        or isinstance(value.get("description"), str)
        or not _SCHEMA_WORDS.isdisjoint(value)
    )


def _read_definition(definition: Any) -> Any:
    """Cohere's `{"type": "str", "required": true}`; Oracle calls the flag `isRequired`."""
    if not isinstance(definition, Mapping):
        return definition  # refused with its name, as every schema is
    schema = {key: value for key, value in definition.items() if key != "isRequired"}
    if isinstance(required := definition.get("isRequired"), bool):
        schema["required"] = required
    if isinstance(schema.get("type"), str):
        schema |= _python_type(schema["type"])
    return schema


def _python_type(said: str) -> dict[str, Any]:
    """`list[str]` as a schema says it; what is no type of Python stays as it is."""
    generic = _GENERIC.fullmatch(said.strip())
    name = generic["name"].lower() if generic else said.strip()
    if generic and name == "optional":
        return _python_type(generic["inner"])
    schema: dict[str, Any] = {"type": _PYTHON_TYPES.get(name, name)}
    if generic and name == "list":
        schema["items"] = _python_type(generic["inner"])
    return schema


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
        if isinstance(nested := _nested_schema(schema), Mapping):
            schema = {**nested, **schema}
        properties[argument["name"]] = schema
        match argument.get("required"):
            case True:
                required.append(argument["name"])
            case list() as names:
                schema["required"] = names  # of an object inside
    return {"type": "object", "properties": properties, "required": required}


def _nested_schema(parameter: dict[str, Any]) -> Any:
    """Taken out of OpenAPI's parameter object: its `schema`, or that of its one media type."""
    content = parameter.pop("content", None)
    schema = parameter.pop("schema", None)
    if schema is None and isinstance(content, Mapping):
        media = [item for item in content.values() if isinstance(item, Mapping)]
        schema = next((item["schema"] for item in media if "schema" in item), None)
    return schema
