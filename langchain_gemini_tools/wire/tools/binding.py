"""Whatever a user calls a tool -> plain dicts, with the schemas in them cleaned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_origin

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool, Tool

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
from langchain_gemini_tools.wire.tools.builtin import (
    is_builtin,
    render_builtin,
    unknown_tool,
)
from langchain_gemini_tools.wire.tools.declarations import BoundTool, bind_tool, bind_tools
from langchain_gemini_tools.wire.tools.dialects import (
    Specification,
    may_specify,
    read_specification,
)

_DECLARATIONS = ("functionDeclarations", "function_declarations")


def read_tool(tool: Any) -> list[dict[str, Any]]:
    """`bind_tool` of what is not bound yet."""
    if isinstance(tool, str) and is_builtin(tool):
        return [BoundTool(render_builtin(tool, None))]
    if isinstance(tool, Mapping):
        return _bind_mapping(tool)
    if isinstance(tool, BaseTool):
        return _bind_base_tool(tool)
    if is_described_class(tool):
        schema = class_schema(tool)
        name = schema.get("title") or tool.__name__
        return [_bind(Specification(name, schema.get("description"), schema))]
    if not isinstance(tool, (type, Runnable)) and callable(getattr(tool, "model_dump", None)):
        return _bind_model(tool)
    if callable(tool) and not isinstance(tool, (type, Runnable)) and get_origin(tool) is None:
        return [_bind(read_function(tool))]
    raise InvalidToolError(
        f"{tool!r} is no tool. Give a function, a LangChain tool, a Pydantic class, a TypedDict or "
        "a dict; a runnable becomes a tool by `.as_tool(name=..., description=...)`."
    )


def _bind_mapping(tool: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not any(key in _DECLARATIONS or is_builtin(key) for key in tool) or "name" in tool:
        return [_bind(read_specification(tool))]
    # In the wire's JSON, null is the same as nothing; alone, somebody means the tool.
    said = {key: value for key, value in tool.items() if value is not None} or tool
    bound: list[dict[str, Any]] = []
    for key, value in said.items():
        if key in _DECLARATIONS:
            bound += bind_tools(value or ())
        elif is_builtin(key):
            bound.append(BoundTool(render_builtin(key, value)))
        else:
            raise unknown_tool([key])
    return bound


def _bind_model(tool: Any) -> list[dict[str, Any]]:
    """A `types.Tool` or `types.FunctionDeclaration` of google-genai, or an `mcp.types.Tool`."""
    given = {name for name, _ in tool}
    if not may_specify(given) and "function_declarations" not in given:
        raise instance_error(tool)
    # Not dumped deep: a dump would drop the nulls inside of a JSON schema.
    fields = {name: value for name, value in tool if value is not None}
    if "name" in fields:
        return [_bind(read_specification(fields))]
    if not hasattr(tool, "function_declarations"):
        raise unknown_tool(list(fields))
    declarations = bind_tools(fields.pop("function_declarations", ()))
    # The SDK may know a built-in tool that is newer than our list.
    dumped = tool.model_dump(mode="json", include=set(fields), by_alias=True, exclude_none=True)
    return [*declarations, *(BoundTool({key: value}) for key, value in dumped.items())]


def _bind_base_tool(tool: BaseTool) -> list[dict[str, Any]]:
    extras = getattr(tool, "extras", None) or {}
    if (definition := extras.get("provider_tool_definition")) is not None:
        return bind_tool(definition)
    own = extras.get("gemini") or {}
    bound = _bind(
        Specification(
            name=tool.name,
            description=tool.description,
            parameters=_call_schema(tool),
            response=own.get("response_schema"),
        )
    )
    if swallowed := _swallowed_arguments(tool):
        bound.swallowed = swallowed
    return [bound]


def _swallowed_arguments(tool: BaseTool) -> list[str]:
    """Arguments that LangChain puts something of its own in place of, without a word.

    Where the schema is a class, a function that misses its argument raises.
    """
    if not isinstance(tool, StructuredTool) or not isinstance(tool.args_schema, dict):
        return []
    return sorted({"config", "run_manager"} & {*tool.args_schema.get("properties", ())})


def _call_schema(tool: BaseTool) -> Any:
    if isinstance(tool, Tool) and not tool.args_schema:
        # LangChain's name for the one text that such a tool takes.
        return {
            "type": "object",
            "properties": {"__arg1": {"type": "string"}},
            "required": ["__arg1"],
        }
    if type(tool).tool_call_schema is not BaseTool.tool_call_schema or not tool.args_schema:
        return arguments_schema(tool.tool_call_schema)
    if isinstance(tool.args_schema, dict):
        # LangChain's own list of what it injects; it leaves a schema that is a dict as it is.
        return without_arguments(tool.args_schema, getattr(tool, "_injected_args_keys", ()))
    return arguments_schema(tool.args_schema)


def _bind(specification: Specification) -> BoundTool:
    name, description = specification.name, specification.description
    try:
        parameters = _schema_text(specification.parameters)
        response = _schema_text(specification.response)
    except (InvalidToolError, RecursionError, _HoldsMoreThanJsonError):
        return BoundTool(_bind_function(specification))
    if not isinstance(description, str | None):
        return BoundTool(_bind_function(specification))
    # An agent binds the same tools at every step. The texts of their schemas are the one key that
    # is right whatever may have been changed in the meantime; what is read from a text is a copy.
    text = _bind_text(name, description, parameters, response)
    bound = BoundTool(json.loads(text))
    bound.text = text
    return bound


class _HoldsMoreThanJsonError(Exception):
    """A schema has no text that says all of it."""


def _schema_text(schema: Any) -> str | None:
    if schema is None:
        return None
    if (text := schema_text(plain_schema(schema))) is None:
        raise _HoldsMoreThanJsonError
    return text


@lru_cache(maxsize=1024)
def _bind_text(
    name: str, description: str | None, parameters: str | None, response: str | None
) -> str:
    schemas = [None if text is None else json.loads(text) for text in (parameters, response)]
    bound = _bind_function(Specification(name, description, *schemas))
    return json.dumps(bound, ensure_ascii=False)


def _bind_function(specification: Specification) -> dict[str, Any]:
    function: dict[str, Any] = {"name": specification.name}
    if specification.description:
        function["description"] = specification.description
    try:
        if parameters := clean_parameters(specification.parameters):
            if parameters.get("description") == specification.description:
                parameters.pop("description", None)
            function["parameters"] = parameters
        if specification.response is not None:
            function["response_schema"] = clean_response_schema(specification.response)
    except InvalidToolError as error:
        raise InvalidToolError(f"Tool {specification.name!r}: {error}") from error
    except RecursionError:
        raise InvalidToolError(
            f"Tool {specification.name!r}: its schema is nested too deep to be read."
        ) from None
    return {"type": "function", "function": function}
