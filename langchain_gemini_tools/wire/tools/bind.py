"""Whatever a user gives as a tool -> `Tool`, with cleaned schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_origin

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SingleInputTool

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.clean import (
    clean_parameters,
    clean_response_schema,
    plain_schema,
)
from langchain_gemini_tools.wire.schema.python_types import (
    arguments_schema,
    class_schema,
    instance_error,
    is_described_class,
    read_function,
    without_arguments,
)
from langchain_gemini_tools.wire.schema.read import schema_text
from langchain_gemini_tools.wire.tools.dialects import (
    Specification,
    is_builtin,
    is_new_builtin,
    may_specify,
    read_specification,
    render_builtin,
    render_typed,
    unknown_tool,
)
from langchain_gemini_tools.wire.tools.tool import Tool, bind_tools, hide_credentials

_DECLARATIONS = ("functionDeclarations", "function_declarations")
_SINGLE_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
}
"""The arguments of a single-input tool: one text, under LangChain's name for it."""


def bind_tool(tool: object) -> Sequence[Tool]:
    """Bind a tool that is not bound yet; it may contain several functions and built-in tools.

    Raises:
        InvalidToolError: It is not a tool, or Gemini has no form for it.
    """
    if isinstance(tool, str) and is_builtin(tool):
        return [_bind_builtin(render_builtin(tool, None))]
    if isinstance(tool, Mapping):
        return _bind_mapping(tool)
    if isinstance(tool, BaseTool):
        return _bind_base_tool(tool)
    if is_described_class(tool):
        return [_bind_class(tool)]
    if not isinstance(tool, (type, Runnable)) and callable(getattr(tool, "model_dump", None)):
        return _bind_model(tool)
    if callable(tool) and not isinstance(tool, (type, Runnable)) and get_origin(tool) is None:
        return [_bind_function(read_function(tool))]
    raise InvalidToolError(
        f"{tool!r} is not a tool. Pass a function, a LangChain tool, a Pydantic class, a TypedDict "
        "or a dict. To use a runnable, call `.as_tool(name=..., description=...)` on it."
    )


def _bind_builtin(rendered: dict[str, Any]) -> Tool:
    [name] = rendered
    return Tool(name, builtin=hide_credentials(rendered))


def _bind_class(cls: Any) -> Tool:
    schema = class_schema(cls)
    name = schema.get("title") or cls.__name__
    return _bind_function(Specification(name, schema.get("description"), schema))


def _bind_mapping(tool: Mapping[str, Any]) -> Sequence[Tool]:
    if (typed := render_typed(tool)) is not None:
        return [_bind_builtin(typed)]
    is_known = any(key in _DECLARATIONS or is_builtin(key) for key in tool)
    if "name" in tool or not (is_known or is_new_builtin(tool)):
        return [_bind_function(read_specification(tool))]
    # In the API's JSON, null means "not set". A dict with nothing but nulls still names its tools.
    given = {key: value for key, value in tool.items() if value is not None} or tool
    bound: list[Tool] = []
    for key, value in given.items():
        if key in _DECLARATIONS:
            bound += bind_tools(value or ())
        elif is_builtin(key) or is_new_builtin({key: value}):
            bound.append(_bind_builtin(render_builtin(key, value)))
        else:
            raise unknown_tool([key])
    return bound


def _bind_model(tool: Any) -> Sequence[Tool]:
    """Bind google-genai's `types.Tool` or `types.FunctionDeclaration`, or an `mcp.types.Tool`."""
    given = {name for name, _ in tool}
    if not may_specify(given) and "function_declarations" not in given:
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


def _bind_base_tool(tool: BaseTool) -> Sequence[Tool]:
    extras = getattr(tool, "extras", None) or {}
    if (definition := extras.get("provider_tool_definition")) is not None:
        return bind_tools([definition])
    bound = _bind_function(
        Specification(
            name=tool.name,
            description=tool.description,
            parameters=_call_schema(tool),
            response=(extras.get("gemini") or {}).get("response_schema"),
        )
    )
    lost = _lost_parameters(tool)
    return [replace(bound, lost_parameters=lost) if lost else bound]


def _lost_parameters(tool: BaseTool) -> tuple[str, ...]:
    """Find parameters that LangChain silently replaces with its objects.

    Where the schema is a class, the function raises for the missing argument.
    """
    if not isinstance(tool, StructuredTool) or not isinstance(tool.args_schema, dict):
        return ()
    return tuple(sorted({"config", "run_manager"} & {*tool.args_schema.get("properties", ())}))


def _call_schema(tool: BaseTool) -> Any:
    if isinstance(tool, SingleInputTool) and not tool.args_schema:
        return _SINGLE_INPUT
    if type(tool).tool_call_schema is not BaseTool.tool_call_schema or not tool.args_schema:
        return arguments_schema(tool.tool_call_schema)
    if isinstance(tool.args_schema, dict):
        # LangChain knows which arguments it injects, but leaves them in a schema that is a dict.
        return without_arguments(tool.args_schema, getattr(tool, "_injected_args_keys", ()))
    return arguments_schema(tool.args_schema)


def _bind_function(specification: Specification) -> Tool:
    """Return the tool for a specification; equal specifications share one tool.

    An agent binds the same tools at every step. The JSON of their schemas is the only key that is
    right even if a schema was changed in the meantime.
    """
    name, description = specification.name, specification.description
    try:
        parameters = _json_text(specification.parameters)
        response = _json_text(specification.response)
    except (InvalidToolError, RecursionError, _NotJsonError):
        return _clean(specification)
    if not isinstance(description, str | None):
        return _clean(specification)
    return _shared_tool(name, description, parameters, response)


class _NotJsonError(Exception):
    """A schema contains values that JSON cannot express."""


def _json_text(schema: Any) -> str | None:
    if schema is None:
        return None
    if (text := schema_text(plain_schema(schema))) is None:
        raise _NotJsonError
    return text


@lru_cache(maxsize=1024)
def _shared_tool(
    name: str, description: str | None, parameters: str | None, response: str | None
) -> Tool:
    schemas = [None if text is None else json.loads(text) for text in (parameters, response)]
    return _clean(Specification(name, description, *schemas))


def _clean(specification: Specification) -> Tool:
    description = specification.description
    response: dict[str, Any] | None = None
    try:
        parameters = clean_parameters(specification.parameters)
        if parameters and parameters.get("description") == description:
            parameters.pop("description", None)
        if specification.response is not None:
            response = clean_response_schema(specification.response)
    except InvalidToolError as error:
        raise InvalidToolError(f"Tool {specification.name!r}: {error}") from error
    except RecursionError:
        raise InvalidToolError(
            f"Tool {specification.name!r}: its schema is nested too deeply."
        ) from None
    return Tool(specification.name, description or None, parameters, response)
