"""A bound tool, and how bound tools are sent.

`bind_tools` turns whatever the user gives into `Tool` values; how that is read is in `bind`. A tool
never changes, so everything derived from it is computed once, however often it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.credentials import REDACTED, PrivateHeaders, headers_digest
from langchain_gemini_tools.facts.json_values import camel
from langchain_gemini_tools.wire.tools.dialects import (
    PRIVATE_SETTINGS,
    builtin_tool,
    is_builtin,
    names_builtin,
)
from langchain_gemini_tools.wire.tools.names import render_name, render_parameter_name

if TYPE_CHECKING:
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.tools.choice import ToolChoice

SchemaForm = Literal["json_schema", "openapi"]
"""How a schema is sent: as JSON Schema, or as the API's own Schema message."""

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, eq=False, repr=False)
class Tool(Mapping[str, Any]):
    """A bound tool: a function that the model may call, or one of Gemini's built-in tools.

    Frameworks and tracers read bound tools as dicts, so a tool is also a read-only mapping with the
    content of `to_dict()`. Mapping access returns copies; the schemas in the attributes are shared
    and must not be changed.
    """

    name: str
    """The function's name as the user gave it, or the key of a built-in tool on the wire."""
    description: str | None = None
    parameters: gemini.JsonSchema | None = None
    """The cleaned schema of the arguments; None for a function without arguments."""
    response_schema: gemini.JsonSchema | None = None
    builtin: gemini.JsonObject | None = None
    """A built-in tool, such as `{"googleSearch": {}}`; None for a function. Settings that may be
    credentials, such as the headers of an MCP server, are `PrivateHeaders`."""
    lost_parameters: tuple[str, ...] = ()
    """Parameters whose values LangChain does not pass on to the tool."""

    @property
    def is_function(self) -> bool:
        """Whether this is a function, not one of Gemini's built-in tools."""
        return self.builtin is None

    @property
    def is_run_by_user(self) -> bool:
        """Whether this is a built-in tool whose calls the user runs, such as computer use."""
        return not self.is_function and builtin_tool(self.name).is_run_by_user

    @property
    def calls_are_run_by_api(self) -> bool:
        """Whether this is a built-in tool whose calls the API runs, such as MCP servers."""
        return not self.is_function and builtin_tool(self.name).calls_are_run_by_api

    @property
    def wire_name(self) -> str:
        """The function's name as it is sent."""
        return render_name(self.name)

    @cached_property
    def text(self) -> str:
        """The JSON of `to_dict()`."""
        shown = self._openai_dict() if self.builtin is None else self.builtin
        return json.dumps(shown, ensure_ascii=False, default=_hidden)

    @property
    def token_estimate(self) -> int:
        """About how many tokens the declaration costs in every request."""
        return len(self.text) // CHARACTERS_PER_TOKEN

    @cached_property
    def renamed_parameters(self) -> dict[str, str]:
        """The parameters that have another name on the wire: the user's name -> the wire's."""
        if not self.parameters:
            return {}
        from langchain_gemini_tools.wire.schema.render import parameter_names

        names = parameter_names(self.parameters)
        return {name: wire for name in names if (wire := render_parameter_name(name)) != name}

    def declaration(self, form: SchemaForm) -> gemini.FunctionDeclaration:
        """Return the function's declaration, rendered once per form."""
        return self._as_openapi if form == "openapi" else self._as_json_schema

    @cached_property
    def _as_json_schema(self) -> gemini.FunctionDeclaration:
        from langchain_gemini_tools.wire.schema.render import render_json_schema

        declaration = self._bare_declaration()
        if parameters := self._sent_parameters():
            declaration["parametersJsonSchema"] = render_json_schema(parameters)
        if self.response_schema:
            declaration["responseJsonSchema"] = render_json_schema(self.response_schema)
        return declaration

    @cached_property
    def _as_openapi(self) -> gemini.FunctionDeclaration:
        from langchain_gemini_tools.wire.schema.openapi import (
            render_openapi_parameters,
            render_openapi_schema,
        )

        declaration = self._bare_declaration()
        parameters = self._sent_parameters()
        if parameters and (schema := render_openapi_parameters(parameters)):
            declaration["parameters"] = schema
        if self.response_schema:
            declaration["response"] = render_openapi_schema(self.response_schema)
        return declaration

    def _bare_declaration(self) -> gemini.FunctionDeclaration:
        declaration: gemini.FunctionDeclaration = {"name": self.wire_name}
        if self.description:
            declaration["description"] = self.description
        return declaration

    def _sent_parameters(self) -> gemini.JsonSchema | None:
        """The parameters' schema under names that the API accepts."""
        if not self.parameters or not self.renamed_parameters:
            return self.parameters
        from langchain_gemini_tools.wire.schema.render import rename_parameters

        return rename_parameters(self.parameters, self.renamed_parameters)

    # As a dict

    def to_dict(self) -> gemini.JsonObject:
        """Return a copy as a plain dict: OpenAI's form of a function, or a built-in tool's own.

        A function is `{"type": "function", "function": {"name", "description", "parameters",
        "response_schema"}}`, without the fields that are not set. Credentials are redacted.
        """
        plain: gemini.JsonObject = json.loads(self.text)
        return plain

    @cached_property
    def shown(self) -> gemini.JsonObject:
        """`to_dict()` for tracers, made once: an agent shows the same tools at every step."""
        return self.to_dict()

    def _openai_dict(self) -> gemini.JsonObject:
        described = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "response_schema": self.response_schema,
        }
        function = {key: value for key, value in described.items() if value is not None}
        return {"type": "function", "function": function}

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("type", "function") if self.builtin is None else self.builtin)

    def __len__(self) -> int:
        return 2 if self.builtin is None else len(self.builtin)

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tool):
            return self is other or self.text == other.text
        return self.to_dict() == other

    def __hash__(self) -> int:
        return hash(self.text)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def bind_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """Bind tools in order: one `Tool` for each function and each built-in tool in them.

    Tools that are bound already are returned as they are.

    Args:
        tools: Functions, LangChain tools, classes, dicts of any vendor, SDK objects, or `Tool`.

    Raises:
        InvalidToolError: One of them is not a tool, or Gemini has no form for it.
    """
    if isinstance(tools, tuple) and all(isinstance(tool, Tool) for tool in tools):
        return tools
    if isinstance(tools, str | Mapping | BaseModel | type) or not isinstance(tools, Iterable):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", None)
        shown = f"the single tool {name!r}" if name else f"a {type(tools).__name__}"
        raise InvalidToolError(f"Tools must be a list, not {shown}: use bind_tools([...]).")
    return tuple(bound for tool in tools for bound in _bind(tool))


def _bind(tool: object) -> Sequence[Tool]:
    if isinstance(tool, Tool):
        return (tool,)
    # Loads LangChain's tools and the reading of schemas, which a call without tools never needs.
    from langchain_gemini_tools.wire.tools.bind import bind_tool

    return bind_tool(tool)


def plain_tools(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with tools as plain dicts, for tracers and serialization."""
    tools = options.get("tools")
    if not isinstance(tools, (list, tuple)):
        return dict(options)
    return {**options, "tools": [_shown(tool) for tool in tools]}


def _shown(tool: object) -> Any:
    if isinstance(tool, Tool):
        return tool.shown
    if isinstance(tool, dict) and (names_builtin(tool.get("type")) or any(map(is_builtin, tool))):
        return json.loads(json.dumps(hide_credentials(tool), default=_hidden))
    return tool


def render_tools(
    tools: Sequence[Tool], choice: ToolChoice | None = None, form: SchemaForm = "json_schema"
) -> list[gemini.Tool]:
    """Render all functions as one tool, followed by each built-in tool.

    A function that is bound twice is declared once. Functions that `choice` leaves out are not
    declared: with AUTO the API accepts no allowed names.
    """
    functions = {tool.name: tool for tool in tools if tool.is_function}
    declarations = [
        tool.declaration(form)
        for name, tool in functions.items()
        if choice is None or choice.declares(name)
    ]
    rendered: list[gemini.Tool] = []
    if declarations:
        rendered.append({"functionDeclarations": declarations})
    rendered.extend(_revealed(tool.builtin) for tool in tools if tool.builtin is not None)
    return rendered


def hide_credentials(settings: Any) -> Any:
    """Return the settings of a built-in tool, with those private that may be credentials."""
    if isinstance(settings, list):
        return [hide_credentials(item) for item in settings]
    if not isinstance(settings, dict):
        return settings
    return {
        key: _private(value)
        if camel(key) in PRIVATE_SETTINGS and isinstance(value, Mapping)
        else hide_credentials(value)
        for key, value in settings.items()
    }


def reject_credentials(tools: Sequence[Tool], place: str) -> None:
    """Check that no tool has a credential, where requests are stored.

    Args:
        tools: The bound tools.
        place: What stores them, for the error.

    Raises:
        InvalidToolError: A built-in tool has a credential, such as a header of an MCP server.
    """
    for tool in tools:
        if names := sorted(_private_names(tool.builtin)):
            raise InvalidToolError(
                f"Tool {tool.name!r}: {', '.join(names)} may be a credential, and {place} would "
                "store it. Use a tool without credentials there, or call the model directly."
            )


def _private_names(settings: Any) -> set[str]:
    match settings:
        case PrivateHeaders():
            return set(settings)
        case Mapping():
            return {name for value in settings.values() for name in _private_names(value)}
        case list():
            return {name for item in settings for name in _private_names(item)}
    return set()


def _private(settings: Mapping[str, Any]) -> PrivateHeaders:
    is_shown_form = any(str(value).startswith(REDACTED) for value in settings.values())
    return PrivateHeaders(settings, is_complete=not is_shown_form)


def _hidden(value: object) -> dict[str, str]:
    """Return what is shown of private settings. The digest tells two tools apart."""
    if not isinstance(value, PrivateHeaders):
        raise TypeError(f"A setting of a built-in tool is not JSON: {value!r}.")
    return dict.fromkeys(value, f"{REDACTED} {headers_digest(value)}")


def _revealed(settings: Any) -> Any:
    """Return settings as they are sent.

    Raises:
        InvalidToolError: A credential is missing.
    """
    match settings:
        case PrivateHeaders(is_complete=False):
            raise InvalidToolError(
                f"The values of {', '.join(settings)} in a built-in tool are missing: they are not "
                "stored, pickled or shown. Bind the tool again."
            )
        case Mapping():
            return {key: _revealed(value) for key, value in settings.items()}
        case list():
            return [_revealed(item) for item in settings]
    return settings


def renamed_parameters_of(tools: Iterable[Tool]) -> dict[str, dict[str, str]]:
    """Return the parameters with another name on the wire: tool's name -> user's -> wire's."""
    return {tool.name: tool.renamed_parameters for tool in tools if tool.renamed_parameters}
