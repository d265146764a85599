"""Whatever a user gives as tools -> `Tool` values, with cleaned schemas.

What reads Python objects and schemas is imported where it is needed: it loads LangChain's tools,
which a call without tools never needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from langchain_core.runnables import Runnable
from pydantic import BaseModel

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools.builtin import (
    hidden_form,
    hide_credentials,
    is_builtin,
    names_builtin,
    render_builtin,
    render_typed,
    unknown_tool,
)
from langchain_gemini_tools.wire.tools.dialects import (
    Specification,
    describes_arguments,
    instance_error,
    is_new_builtin,
    may_specify,
    read_specification,
)
from langchain_gemini_tools.wire.tools.tool import BoundTools, Tool

_DECLARATIONS = ("functionDeclarations", "function_declarations")


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
        shown = f"the single tool {name!r}" if name else f"a {type(tools).__name__}"
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
        return json.loads(json.dumps(hide_credentials(tool), default=hidden_form))
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
        f"{tool!r} is not a tool. Pass a function, a LangChain tool, a Pydantic class, a TypedDict "
        "or a dict. To use a runnable, call `.as_tool(name=..., description=...)` on it."
    )


def _bind_builtin(rendered: dict[str, Any]) -> Tool:
    [name] = rendered
    return Tool(name, builtin=hide_credentials(rendered))


def _bind_mapping(tool: Mapping[str, Any]) -> Sequence[Tool]:
    if not describes_arguments(tool) and (typed := render_typed(tool)) is not None:
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
    shared = _shared_tool(name, description, parameters, response)
    lost = specification.lost_parameters
    return replace(shared, lost_parameters=lost) if lost else shared


class _NotJsonError(Exception):
    """A schema contains values that JSON cannot express."""


def _json_text(schema: Any) -> str | None:
    if schema is None:
        return None
    from langchain_gemini_tools.wire.schema.clean import plain_schema
    from langchain_gemini_tools.wire.schema.read import schema_text

    if (text := schema_text(plain_schema(schema))) is None:
        raise _NotJsonError
    return text


@lru_cache(maxsize=1024)
def _shared_tool(
    name: str, description: str | None, parameters: str | None, response: str | None
) -> Tool:
    schemas = [None if text is None else json.loads(text) for text in (parameters, response)]
    return _clean(Specification(name, description, schemas[0], schemas[1]))


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
