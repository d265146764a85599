"""A bound tool: how it is declared, and what it and its parameters are called on the wire.

A tool never changes, so everything derived from it is computed once, however often it is sent.

A valid name is sent as it is. Any other name is replaced by a rule that needs no memory, so that a
declaration, an old call in the history and `allowedFunctionNames` all agree. The bound tools lead
back from the names on the wire to the user's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_gemini_tools.wire.tools.builtin import (
    builtin_tool,
    hidden_form,
    reveal_credentials,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.tools.choice import ToolChoice

SchemaForm = Literal["json_schema", "openapi"]
"""How a schema is sent: as JSON Schema, or as the API's own Schema message."""

BEST_FORM: dict[bool, SchemaForm] = {True: "json_schema", False: "openapi"}
"""By whether the model accepts JSON Schema."""

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
    def wire_name(self) -> str:
        """The function's name as it is sent."""
        return render_name(self.name)

    @cached_property
    def text(self) -> str:
        """The JSON of `to_dict()`."""
        shown = self._openai_dict() if self.builtin is None else self.builtin
        return json.dumps(shown, ensure_ascii=False, default=hidden_form)

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


class BoundTools(tuple[Tool, ...]):  # noqa: SLOT001 - what is computed needs a dict
    """Bound tools, in order. What is derived from all of them is computed once, too."""

    @cached_property
    def functions(self) -> dict[str, Tool]:
        """The functions by name: one that is bound twice is declared once."""
        return {tool.name: tool for tool in self if tool.is_function}

    @cached_property
    def builtin(self) -> BoundTools:
        """Gemini's own tools."""
        return BoundTools(tool for tool in self if not tool.is_function)

    @cached_property
    def run_by_user(self) -> bool:
        """Whether the user runs calls of functions that are not declared, as in computer use."""
        return any(builtin_tool(tool.name).is_run_by_user for tool in self.builtin)

    @cached_property
    def run_by_api(self) -> bool:
        """Whether the API runs calls of functions that are not declared, as of MCP servers."""
        return any(builtin_tool(tool.name).calls_are_run_by_api for tool in self.builtin)

    @cached_property
    def user_names(self) -> dict[str, str]:
        """The user's name of every function, by its name on the wire."""
        return {tool.wire_name: name for name, tool in self.functions.items()}

    @cached_property
    def renamed_parameters(self) -> dict[str, dict[str, str]]:
        """The parameters with another name on the wire: tool's name -> user's -> wire's."""
        return {tool.name: tool.renamed_parameters for tool in self if tool.renamed_parameters}

    @cached_property
    def user_parameters(self) -> dict[str, dict[str, str]]:
        """The same parameters: tool's name -> wire's -> user's."""
        return {
            tool: {wire: name for name, wire in names.items()}
            for tool, names in self.renamed_parameters.items()
        }

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Tool, ...]]]:
        return type(self), (tuple(self),)


def render_tools(
    tools: BoundTools, choice: ToolChoice | None = None, form: SchemaForm = "json_schema"
) -> list[gemini.Tool]:
    """Render all functions as one tool, followed by each built-in tool.

    Functions that `choice` leaves out are not declared: with AUTO the API accepts no allowed names.
    """
    functions = choice.declared(tools.functions) if choice and choice.names else tools.functions
    declarations = [tool.declaration(form) for tool in functions.values()]
    rendered: list[gemini.Tool] = []
    if declarations:
        rendered.append({"functionDeclarations": declarations})
    rendered.extend(reveal_credentials(tool.builtin) for tool in tools.builtin)
    return rendered


# Names

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
