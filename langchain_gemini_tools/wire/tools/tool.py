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
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from langchain_gemini_tools.facts.json_values import camel
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, Keyword
from langchain_gemini_tools.wire.schema.walk import definition_name, map_value, same_value
from langchain_gemini_tools.wire.tools.builtin import (
    builtin_tool,
    hidden_form,
    reveal_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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
        names = parameter_names(self.parameters)
        return {name: wire for name in names if (wire := render_parameter_name(name)) != name}

    def declaration(self, form: SchemaForm) -> gemini.FunctionDeclaration:
        """Return the function's declaration, rendered once per form."""
        return self._as_openapi if form == "openapi" else self._as_json_schema

    @cached_property
    def _as_json_schema(self) -> gemini.FunctionDeclaration:
        from langchain_gemini_tools.wire.schema.render import render_json_schema

        return self._declare("JsonSchema", render_json_schema, render_json_schema)

    @cached_property
    def _as_openapi(self) -> gemini.FunctionDeclaration:
        from langchain_gemini_tools.wire.schema.render import (
            render_openapi_parameters,
            render_openapi_schema,
        )

        return self._declare("", render_openapi_parameters, render_openapi_schema)

    def _declare(
        self,
        suffix: str,
        render_parameters: Callable[[gemini.JsonSchema], gemini.JsonSchema | None],
        render_response: Callable[[gemini.JsonSchema], gemini.JsonSchema],
    ) -> gemini.FunctionDeclaration:
        declaration: gemini.JsonObject = {"name": self.wire_name}
        if self.description:
            declaration["description"] = self.description
        parameters = self.parameters
        if parameters and self.renamed_parameters:
            parameters = _Renaming(parameters, self.renamed_parameters).render()
        if parameters and (rendered := render_parameters(parameters)):
            declaration[f"parameters{suffix}"] = rendered
        if self.response_schema:
            declaration[f"response{suffix}"] = render_response(self.response_schema)
        return cast("gemini.FunctionDeclaration", declaration)

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


# Names of parameters in schemas


def parameter_names(schema: gemini.JsonSchema) -> list[str]:
    """Return the names of all parameters that a function's cleaned schema describes, in order."""
    parts = same_value(schema, schema.get("$defs") or {})
    return list(dict.fromkeys(name for part in parts for name in part.get("properties") or ()))


class _Renaming:
    """Gives the parameters of a cleaned schema other names, in a copy.

    A parameter is mentioned wherever a schema describes the arguments as a whole: in `properties`,
    in `required`, and in the choices and conditions beside them. The API accepts any name further
    inside. A definition may describe the arguments in one place and a value inside them in another.
    The first kind of reference therefore leads to a renamed copy of the definition.

    Args:
        schema: The schema of a function's arguments.
        names: The user's names -> the names to send.
    """

    def __init__(self, schema: gemini.JsonSchema, names: Mapping[str, str]) -> None:
        self._schema = schema
        self._names = names
        self._definitions: gemini.JsonSchema = dict(schema.get("$defs") or {})
        self._copies: dict[str, str] = {}

    def render(self) -> gemini.JsonSchema:
        renamed: gemini.JsonSchema = self._rename(self._schema)
        return {**renamed, "$defs": self._definitions} if self._definitions else renamed

    def _rename(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        return {
            name: self._rename_value(KEYWORDS[name], value) if name in KEYWORDS else value
            for name, value in schema.items()
        }

    def _rename_value(self, keyword: Keyword, value: Any) -> Any:
        if keyword.kind == "reference":
            return self._refer_to_copy(value)
        if keyword.about == "key":  # the user's pattern need not match the other names
            return {"anyOf": [value, {"type": "string", "enum": [*self._names.values()]}]}
        if keyword.about == "same":
            value = map_value(keyword, value, lambda child: self._rename(child.schema))
        match keyword.names:
            case "keys" | "value":
                return self._rename_keys(value)
            case "list":
                return self._rename_list(value)
            case "lists by key":
                return self._rename_keys({key: self._rename_list(value[key]) for key in value})
            case "values":
                return [self._rename_keys(item) for item in value]
        return value

    def _rename_list(self, names: list[str]) -> list[str]:
        return [self._names.get(name, name) for name in names]

    def _rename_keys(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {self._names.get(name, name): item for name, item in value.items()}

    def _refer_to_copy(self, reference: str) -> str:
        definition = definition_name({"$ref": reference})
        if reference not in self._copies and definition in self._definitions:
            name = f"{definition}_arguments"
            while name in self._definitions:
                name += "_"
            self._copies[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # reserved first: the definition may refer to itself
            self._definitions[name] = self._rename(self._definitions[definition])
        return self._copies.get(reference, reference)


# Names in the API's errors

_PLACE = re.compile(
    r"tools\[(?P<tool>\d{1,9})\]\.function_?[dD]eclarations\[(?P<function>\d{1,9})\]"
    r"(?P<rest>(?:\.\w+(?:\[[^\]]*\])?)*)"
)
_STEP = re.compile(r"\.(?P<field>\w+)(?:\[(?P<key>[^\]]*)\])?")
_INDEX = re.compile(r"\d{1,9}")


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
        field, key = camel(step["field"]).removesuffix("JsonSchema"), step["key"]
        if field in {"parameters", "response"}:
            schema = schema.get(field) or schema.get(f"{field}JsonSchema") or {}
        elif field == "properties" and key is not None:
            properties = schema.get("properties") or {}
            name = list(properties)[int(key)] if _is_position(key, properties) else key
            yield name
            schema = properties.get(name) or {}
        elif field == "items":
            yield "[]"
            schema = schema.get("items") or {}
        elif field == "anyOf" and key is not None and _INDEX.fullmatch(key):
            choices = schema.get("anyOf") or schema.get("oneOf") or []
            schema = choices[int(key)] if int(key) < len(choices) else {}


def _is_position(key: str, properties: Mapping[str, Any]) -> bool:
    is_index = key not in properties and _INDEX.fullmatch(key) is not None
    return is_index and int(key) < len(properties)
