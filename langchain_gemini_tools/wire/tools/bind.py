"""Whatever a user gives as tools -> `Tool` values, with cleaned schemas.

To read another vendor's dialect, add its row to `DIALECTS`. A function is a dict with a `name`, or
a JSON schema with a `title`. In every dialect its arguments may be described by

- an object schema, also as JSON text, or as Amazon's `{"json": schema}` and `{"schema": schema}`
- a mapping of names, `{name: {type, ...}}`, as for Bedrock Agents
- a list of arguments, `[{name, type, required, ...}]`, also OpenAPI's with `schema` or `content`

What reads Python objects and cleans schemas is imported where it is needed: it loads LangChain's
tools, which a call without tools never needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.runnables import Runnable
from pydantic import BaseModel

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.blocks import is_cache_marker
from langchain_gemini_tools.wire.generation import plain
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, TYPES
from langchain_gemini_tools.wire.tools.builtin import (
    foreign_tool,
    hidden_form,
    hide_credentials,
    is_builtin,
    misspelled,
    names_builtin,
    render_builtin,
    render_typed,
    unknown_tool,
)
from langchain_gemini_tools.wire.tools.tool import BoundTools, Tool

_DECLARATIONS = ("functionDeclarations", "function_declarations")


@dataclass(frozen=True)
class Specification:
    """A function as the user specified it, with schemas that are not cleaned yet."""

    name: str
    description: str | None = None
    parameters: Any = None
    response: Any = None
    lost_parameters: tuple[str, ...] = ()
    """Parameters whose values LangChain does not pass on to the tool."""


def bind_tools(tools: Iterable[object]) -> BoundTools:
    """Bind tools in order: one `Tool` for each function and each built-in tool in them.

    Tools that are bound already are returned as they are.

    Args:
        tools: Functions, LangChain tools, classes, dicts of any vendor, SDK objects, or `Tool`.

    Raises:
        InvalidToolError: One of them is not a tool, or Gemini has no form for it.
    """
    if isinstance(tools, BoundTools):
        return tools
    if isinstance(tools, str | Mapping | BaseModel | type) or not isinstance(tools, Iterable):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", None)
        shown = f"the single tool {name!r}" if name else f"of type {type(tools).__name__}"
        raise InvalidToolError(f"Tools must be a list, not {shown}: use bind_tools([...]).")
    bound: list[Tool] = []
    for tool in tools:
        bound += [tool] if isinstance(tool, Tool) else _bind(tool)
    return BoundTools(bound)


def plain_tools(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with tools as plain dicts, for tracers and serialization."""
    tools = options.get("tools")
    if not isinstance(tools, (list, tuple)):
        return dict(options)
    shown = [tool.shown if isinstance(tool, Tool) else _shown(tool) for tool in tools]
    return {**options, "tools": shown}


def _shown(tool: object) -> Any:
    if isinstance(tool, dict) and (names_builtin(tool.get("type")) or any(map(is_builtin, tool))):
        return json.loads(json.dumps(hide_credentials(plain(tool)), default=hidden_form))
    return tool


def _bind(tool: object) -> Sequence[Tool]:
    """Bind a tool that is not bound yet; it may contain several functions and built-in tools."""
    if isinstance(tool, str) and is_builtin(tool):
        return [_bind_builtin(render_builtin(tool, None))]
    if isinstance(tool, Mapping):
        return _bind_mapping(tool)
    from langchain_gemini_tools.wire.schema.python_types import provider_definition, read_object

    if (definition := provider_definition(tool)) is not None:
        return bind_tools([definition])
    if (specification := read_object(tool)) is not None:
        return [_bind_function(specification)]
    if not isinstance(tool, (type, Runnable)) and callable(getattr(tool, "model_dump", None)):
        return _bind_model(tool)
    raise InvalidToolError(
        f"{tool!r:.200} is not a tool. Pass a function, a LangChain tool, a Pydantic class, a "
        "TypedDict or a dict. To use a runnable, call `.as_tool(name=..., description=...)` on it."
    )


def _bind_builtin(rendered: dict[str, Any]) -> Tool:
    [name] = rendered
    return Tool(name, builtin=hide_credentials(rendered))


def _bind_mapping(tool: Mapping[str, Any]) -> Sequence[Tool]:
    if is_cache_marker(tool):
        return ()
    is_function = not _keys_of(DIALECTS).parameters.keys().isdisjoint(tool)
    if not is_function and (typed := render_typed(tool)) is not None:
        return [_bind_builtin(typed)]
    is_known = any(key in _DECLARATIONS or is_builtin(key) for key in tool)
    if "name" in tool or not (is_known or _is_new_builtin(tool)):
        return [_bind_function(read_specification(tool))]
    # In the API's JSON, null means "not set". A dict with nothing but nulls still names its tools.
    given = {key: value for key, value in tool.items() if value is not None} or tool
    bound: list[Tool] = []
    for key, value in given.items():
        if key in _DECLARATIONS:
            bound += bind_tools(value or ())
        elif is_builtin(key) or _is_new_builtin({key: value}):
            bound.append(_bind_builtin(render_builtin(key, value)))
        else:
            raise unknown_tool([key])
    return bound


def _bind_model(tool: Any) -> Sequence[Tool]:
    """Bind google-genai's `types.Tool` or `types.FunctionDeclaration`, or an `mcp.types.Tool`."""
    from langchain_gemini_tools.wire.schema.python_types import instance_error

    keys = _keys_of(DIALECTS)
    if {name for name, _ in tool}.isdisjoint({*keys.parameters, *keys.wrappers, *_DECLARATIONS}):
        raise instance_error(tool)
    # A deep dump would drop the nulls inside a JSON schema.
    set_fields = {name: value for name, value in tool if value is not None}
    if "name" in set_fields:
        return [_bind_function(read_specification(set_fields))]
    if not hasattr(tool, "function_declarations"):
        raise unknown_tool(list(set_fields))
    declarations = bind_tools(set_fields.pop("function_declarations", ()))
    # The SDK may have a built-in tool that is newer than our table.
    dumped = tool.model_dump(mode="json", include={*set_fields}, by_alias=True, exclude_none=True)
    return [*declarations, *(_bind_builtin({key: value}) for key, value in dumped.items())]


def _bind_function(specification: Specification) -> Tool:
    """Return the tool for a specification; equal specifications share one tool.

    An agent binds the same tools at every step. The JSON of their schemas is the only key that is
    right even if a schema was changed in the meantime.
    """
    from langchain_gemini_tools.wire.schema.python_types import plain_schema
    from langchain_gemini_tools.wire.schema.read import schema_text

    if not isinstance(specification.description, str | None):
        raise InvalidToolError(
            f"Tool {specification.name!r}: its description must be a string, not "
            f"{specification.description!r}."
        )
    schemas = (specification.parameters, specification.response)
    try:
        texts = ["null" if each is None else schema_text(plain_schema(each)) for each in schemas]
    except (InvalidToolError, RecursionError, TypeError, ValueError):
        return _clean(specification)  # rejects it, unless its values only are more than JSON
    shared = _shared_tool(specification.name, specification.description, *texts)
    lost = specification.lost_parameters
    return replace(shared, lost_parameters=lost) if lost else shared


@lru_cache(maxsize=1024)
def _shared_tool(name: str, description: str | None, parameters: str, response: str) -> Tool:
    return _clean(Specification(name, description, json.loads(parameters), json.loads(response)))


def _clean(specification: Specification) -> Tool:
    from langchain_gemini_tools.wire.schema.clean import clean_parameters, clean_response_schema

    description = specification.description
    response: dict[str, Any] | None = None
    try:
        parameters = clean_parameters(specification.parameters)
        if parameters and parameters.get("description") == description:
            parameters.pop("description", None)
        if specification.response is not None:
            response = clean_response_schema(specification.response)
    except InvalidToolError as error:
        place = "," if str(error).startswith("parameter '") else ":"
        raise InvalidToolError(f"Tool {specification.name!r}{place} {error}") from error
    except RecursionError:
        raise InvalidToolError(
            f"Tool {specification.name!r}: its schema is nested too deeply."
        ) from None
    return Tool(
        specification.name,
        description or None,
        parameters,
        response,
        lost_parameters=specification.lost_parameters,
    )


# Dialects

_SCHEMA_KEYWORDS = {"properties", "$ref", "anyOf", "any_of", "allOf", "oneOf", "enum", "const"}
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
    """Read the function that a vendor's dict specifies.

    Raises:
        InvalidToolError: It does not specify a function, or a tool that another vendor runs.
    """
    for wrapper in _keys_of(DIALECTS).wrappers:
        if isinstance(inner := tool.get(wrapper), Mapping):
            return read_specification(inner)
    if "name" in tool:
        return _read_named(tool)
    if "title" in tool and isinstance(tool["title"], str):
        return Specification(tool["title"], tool.get("description"), tool)
    if _is_schema(tool):
        raise InvalidToolError(
            "A JSON schema that is used as a tool needs a 'title', which becomes the tool's name, "
            "and has to describe an object."
        )
    kind = tool.get("type")
    if isinstance(kind, str) and kind != "function":
        raise foreign_tool(kind)
    raise unknown_tool(list(tool))


def is_specification(given: Mapping[str, Any]) -> bool:
    """Return whether this specifies a function or a named schema, and is not a schema itself."""
    wrappers = _keys_of(DIALECTS).wrappers
    if any(isinstance(given.get(wrapper), Mapping) for wrapper in wrappers):
        return True
    return isinstance(given.get("name"), str) and not _is_schema(given)


def _is_schema(value: object) -> bool:
    return isinstance(value, Mapping) and (
        value.get("type") in TYPES or not _SCHEMA_KEYWORDS.isdisjoint(value)
    )


def _read_named(tool: Mapping[str, Any]) -> Specification:
    name = tool["name"]
    if not isinstance(name, str) or not name:
        raise InvalidToolError(f"The name of a tool must be a non-empty string, not {name!r}.")
    keys = _keys_of(DIALECTS)
    key = next((key for key in keys.parameters if tool.get(key) is not None), None)
    kind = tool.get("type")
    if isinstance(kind, str) and kind not in ("function", *TYPES) and key is None:
        raise foreign_tool(kind)
    if key is None and "properties" in tool:  # a JSON schema with a name instead of a title
        return Specification(name, tool.get("description"), {**tool, "title": name})
    if key is None:
        _reject_lost_schema(name, tool)
    if str(tool.get("behavior") or "").upper().endswith("NON_BLOCKING"):
        raise InvalidToolError(
            f"Tool {name!r}: only the Live API supports the behavior NON_BLOCKING. Leave it out."
        )
    response = next((tool[key] for key in keys.responses if tool.get(key) is not None), None)
    try:
        return Specification(
            name=name,
            description=tool.get("description"),
            parameters=_read_parameters(keys.parameters[key], tool[key]) if key else None,
            response=_unwrap(response),
        )
    except InvalidToolError as error:
        raise InvalidToolError(f"Tool {name!r}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidToolError(
            f"Tool {name!r}: its schema is a string that is not valid JSON: {error}."
        ) from error


def _reject_lost_schema(name: str, tool: Mapping[str, Any]) -> None:
    """Reject a function whose schema has an unknown key, instead of declaring no arguments."""
    responses = _keys_of(DIALECTS).responses
    for key, value in tool.items():
        inside = [value, *(value.values() if isinstance(value, Mapping) else ())]
        if key not in responses and any(map(_is_schema, inside)):
            raise InvalidToolError(
                f"Tool {name!r}: its arguments would be lost, because a schema under {key!r} is "
                "not read. Rename the key to 'parameters'."
            )


def _read_parameters(dialect: Dialect, parameters: Any) -> Any:
    """Return the schema of all arguments."""
    if dialect.read:
        parameters = dialect.read(parameters)
    if isinstance(parameters, Mapping) and "properties" in parameters:
        return parameters
    parameters = _unwrap(parameters)
    return _object(parameters) if _is_mapping_of_names(parameters) else parameters


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    # `required: true` inside a property is understood in every schema.
    return {"type": "object", "properties": dict(properties)}


def _is_mapping_of_names(value: object) -> bool:
    """Return whether this maps the names of arguments to schemas, without an object schema around.

    An argument may be called `items`, and a schema may contain nothing but `items`. At least one
    name that is not a keyword with a subschema decides.
    """
    if not isinstance(value, Mapping):
        return False
    contained = {KEYWORDS[name].value if name in KEYWORDS else "any" for name in value}
    is_mapping = "schema map" not in contained and contained != {"schema"}
    return bool(value) and is_mapping and all(map(_describes, value.values()))


def _describes(value: object) -> bool:
    return isinstance(value, Mapping) and (
        isinstance(value.get("type"), (str, list))
        or isinstance(value.get("description"), str)
        or not _SCHEMA_KEYWORDS.isdisjoint(value)
    )


def _read_definitions(definitions: Any) -> Any:
    if not isinstance(definitions, Mapping):
        return definitions
    return _object({name: _read_definition(item) for name, item in definitions.items()})


def _read_definition(definition: object) -> Any:
    """Cohere's `{"type": "str", "required": true}`; Oracle calls the flag `isRequired`."""
    if not isinstance(definition, Mapping):
        return definition  # rejected later, with its name, like every invalid schema
    schema = {key: value for key, value in definition.items() if key != "isRequired"}
    if isinstance(required := definition.get("isRequired"), bool):
        schema["required"] = required
    if isinstance(schema.get("type"), str):
        schema |= _python_type(schema["type"])
    return schema


def _python_type(annotation: str) -> dict[str, Any]:
    """Return the schema of a type such as `list[str]`; other types stay as they are."""
    generic = _GENERIC.fullmatch(annotation.strip())
    name = generic["name"].lower() if generic else annotation.strip()
    if generic and name == "optional":
        return _python_type(generic["inner"])
    schema: dict[str, Any] = {"type": _PYTHON_TYPES.get(name, name)}
    if generic and name == "list":
        schema["items"] = _python_type(generic["inner"])
    return schema


def _unwrap(schema: object) -> Any:
    """Return the schema inside Amazon's `{"json": ...}`, a string, or a list of arguments."""
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
    """Return the object schema of `[{"name", "type", "description", "required"}]`."""
    properties: dict[str, Any] = {}
    required = []
    for argument in arguments:
        if not isinstance(argument, Mapping) or not isinstance(argument.get("name"), str):
            raise InvalidToolError(f"Every argument in a list needs a 'name': {argument!r}.")
        schema = {key: value for key, value in argument.items() if key not in {"name", "required"}}
        if isinstance(nested := _nested_schema(schema), Mapping):
            schema = {**nested, **schema}
        properties[argument["name"]] = schema
        match argument.get("required"):
            case True:
                required.append(argument["name"])
            case list() as names:
                schema["required"] = names  # of an object inside the argument
    return {"type": "object", "properties": properties, "required": required}


def _nested_schema(parameter: dict[str, Any]) -> Any:
    """Take the schema out of an OpenAPI parameter: its own, or that of its only media type."""
    content = parameter.pop("content", None)
    schema = parameter.pop("schema", None)
    if schema is None and isinstance(content, Mapping):
        media = [item for item in content.values() if isinstance(item, Mapping)]
        schema = next((item["schema"] for item in media if "schema" in item), None)
    return schema


class Dialect(NamedTuple):
    """The keys with which a vendor writes a function."""

    vendor: str
    wrappers: tuple[str, ...] = ()
    """Keys of a dict around the one with the name."""
    parameters: tuple[str, ...] = ()
    """Keys of the description of the arguments."""
    responses: tuple[str, ...] = ()
    """Keys of the schema of the result."""
    read: Callable[[Any], Any] | None = None
    """Turns the description of the arguments into one of the forms that every dialect may use."""


DIALECTS = (
    Dialect(
        "Gemini",
        (),
        ("parametersJsonSchema", "parameters_json_schema"),
        ("responseJsonSchema", "response_json_schema", "response"),
    ),
    Dialect("Amazon Bedrock", ("toolSpec", "tool_spec")),
    Dialect("Amazon Q", ("toolSpecification", "tool_specification")),
    Dialect("Anthropic", (), ("input_schema",)),
    Dialect("MCP", (), ("inputSchema",), ("outputSchema", "output_schema")),
    Dialect("OpenAI", ("function",), ("parameters",), ("response_schema",)),  # and bound tools
    Dialect("LangChain", (), ("args_schema",)),
    Dialect("OpenAI's formats", ("json_schema",), ("schema",)),
    Dialect("Cohere", (), ("parameter_definitions", "parameterDefinitions"), (), _read_definitions),
)
"""One row per vendor. Of several keys in one dict, the first one in this order is read."""


class _Keys(NamedTuple):
    """The keys of all dialects, in order."""

    wrappers: tuple[str, ...]
    parameters: Mapping[str, Dialect]
    responses: tuple[str, ...]


@lru_cache(maxsize=8)
def _keys_of(dialects: tuple[Dialect, ...]) -> _Keys:
    return _Keys(
        wrappers=tuple(key for dialect in dialects for key in dialect.wrappers),
        parameters={key: dialect for dialect in dialects for key in dialect.parameters},
        responses=tuple(key for dialect in dialects for key in dialect.responses),
    )


def _is_new_builtin(tool: Mapping[str, Any]) -> bool:
    """Return whether this may be a built-in tool that the table does not have: `{"x": {...}}`.

    It is not one if it is a function whose keys are not known, or a misspelled name.
    """
    keys = _keys_of(DIALECTS)
    known = {*keys.parameters, *keys.wrappers, *keys.responses, *_SCHEMA_KEYWORDS}
    return bool(tool) and all(
        isinstance(key, str)
        and key.isidentifier()
        and key not in known
        and not misspelled(key)
        and (value is None or _are_settings(value))
        for key, value in tool.items()
    )


def _are_settings(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, Mapping) for item in value)
    return (
        isinstance(value, Mapping)
        and not _is_schema(value)
        and not any(map(_is_schema, value.values()))
        and value.keys().isdisjoint({"name", "description"})
    )
