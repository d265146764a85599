"""Tools -> function declarations.

`bind_tool` takes whatever a user calls a tool, once, when it is bound (how is in `binding`); what
it gives is plain JSON that a binding can hold and a trace can show. `render_tools` puts what is
bound on the wire, and is cheap: an agent does it at every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_gemini_tools.wire.schema.openapi import (
    render_openapi_parameters,
    render_openapi_schema,
)
from langchain_gemini_tools.wire.schema.render import render_json_schema
from langchain_gemini_tools.wire.tools.names import render_name
from langchain_gemini_tools.wire.tools.parameters import rename_parameters, renamed_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.tools.choice import ToolChoice

SchemaForm = Literal["json_schema", "openapi"]
"""How a schema is sent: as JSON Schema, or as the API's own Schema message."""


class BoundTool(dict[str, Any]):
    """A tool that is bound already: a plain dict in every way, known to be clean."""

    def __init__(self, tool: Mapping[str, Any]) -> None:
        super().__init__(tool)
        self.text: str | None = None
        """Its JSON, once somebody has written it: the key to what is found out about it."""
        self.declarations: dict[SchemaForm, gemini.FunctionDeclaration] = {}
        """As they were sent, by their form."""
        self.renamed: dict[str, str] | None = None
        """Its parameters with another name on the wire, once somebody has looked for them."""
        self.swallowed: Sequence[str] = ()
        """Names of arguments that will not reach the tool."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (dict(self),)  # a copy may be changed, and is looked at again


def bind_tools(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """Every tool's plain dicts, in order."""
    return [bound for tool in tools for bound in bind_tool(tool)]


def bind_tool(tool: Any) -> list[dict[str, Any]]:
    """One user-given tool as plain dicts: one for each function and each built-in tool in it.

    A function is `{"type": "function", "function": {"name", "description", "parameters",
    "response_schema"}}`, the last three only where there is something to say; both schemas are
    cleaned. A built-in tool is Gemini's own dict, such as `{"googleSearch": {}}`.

    Raises:
        InvalidToolError: It is no tool, or one that Gemini cannot be told about.
    """
    if isinstance(tool, BoundTool):
        return [tool]
    # With it come LangChain's tools and everything about schemas: not for a call without tools.
    from langchain_gemini_tools.wire.tools.binding import read_tool

    return read_tool(tool)


def render_tools(
    bound: Sequence[Mapping[str, Any]],
    choice: ToolChoice | None = None,
    form: SchemaForm = "json_schema",
) -> list[gemini.Tool]:
    """All functions in one tool, one that is bound twice once, then each built-in tool.

    Functions that `choice` leaves out are not declared: with AUTO the API takes no allowed names.
    """
    functions = {tool["function"]["name"]: tool for tool in bound if "function" in tool}
    declarations = [
        _render_once(tool, form)
        for name, tool in functions.items()
        if choice is None or choice.declares(name)
    ]
    tools: list[gemini.Tool] = []
    if declarations:
        tools.append({"functionDeclarations": declarations})
    return [*tools, *(dict(tool) for tool in bound if "function" not in tool)]


def _render_once(tool: Mapping[str, Any], form: SchemaForm) -> gemini.FunctionDeclaration:
    """A bound tool's declaration, found out once: an agent sends the same tools at every step."""
    if not isinstance(tool, BoundTool):
        return _render_declaration(tool["function"], form, _renamed_once(tool))
    if form not in tool.declarations:
        declaration = _render_declaration(tool["function"], form, _renamed_once(tool))
        tool.declarations[form] = declaration
    return tool.declarations[form].copy()


def _render_declaration(
    function: Mapping[str, Any], form: SchemaForm, renamed: Mapping[str, str]
) -> gemini.FunctionDeclaration:
    """One bound function as the wire declares it, its parameters under names that the API takes."""
    declaration: gemini.FunctionDeclaration = {"name": render_name(function["name"])}
    if "description" in function:
        declaration["description"] = function["description"]
    parameters, response = function.get("parameters"), function.get("response_schema")
    if parameters and renamed:
        parameters = rename_parameters(parameters, renamed)
    if form == "openapi":
        if parameters and (schema := render_openapi_parameters(parameters)):
            declaration["parameters"] = schema
        if response:
            declaration["response"] = render_openapi_schema(response)
        return declaration
    if parameters:
        declaration["parametersJsonSchema"] = render_json_schema(parameters)
    if response:
        declaration["responseJsonSchema"] = render_json_schema(response)
    return declaration


def names_of_parameters(bound: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Parameters with another name on the wire: tool's name -> the user's -> the wire's."""
    return {
        tool["function"]["name"]: names
        for tool in bound
        if "function" in tool and (names := _renamed_once(tool))
    }


def _renamed_once(tool: Mapping[str, Any]) -> dict[str, str]:
    known = tool.renamed if isinstance(tool, BoundTool) else None
    if known is None:
        known = renamed_parameters(tool["function"].get("parameters") or {})
        if isinstance(tool, BoundTool):
            tool.renamed = known
    return known
