"""Tools as plain dicts: functions of any vendor -> `Specification`, and Gemini's built-in tools.

To read another dialect, add its row to `DIALECTS`; to support another built-in tool, add its row to
`_BUILTIN_ROWS`.

A function is a dict with a `name`, or a JSON schema with a `title`. In every dialect its arguments
may be described by

- an object schema, also as JSON text, or as Amazon's `{"json": schema}` and `{"schema": schema}`
- a mapping of names, `{name: {type, ...}}`, as for Bedrock Agents
- a list of arguments, `[{name, type, required, ...}]`, also OpenAPI's with `schema` or `content`
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.json_values import camel, snake


@dataclass(frozen=True)
class Specification:
    """A function as the user specified it, with schemas that are not cleaned yet."""

    name: str
    description: str | None = None
    parameters: Any = None
    response: Any = None


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


_JSON_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
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
    kind = tool.get("type")
    if "properties" in tool or kind == "object":
        raise InvalidToolError(
            "A JSON schema that is used as a tool needs a 'title', which becomes the tool's name."
        )
    raise foreign_tool(kind) if isinstance(kind, str) else unknown_tool(list(tool))


def is_specification(given: Mapping[str, Any]) -> bool:
    """Return whether this specifies a function or a named schema, and is not a schema itself."""
    wrappers = _keys_of(DIALECTS).wrappers
    if any(isinstance(given.get(wrapper), Mapping) for wrapper in wrappers):
        return True
    return isinstance(given.get("name"), str) and not _is_schema(given)


def may_specify(fields: Collection[str]) -> bool:
    """Return whether an object with these fields can specify a function."""
    keys = _keys_of(DIALECTS)
    return not {*keys.parameters, *keys.wrappers}.isdisjoint(fields)


def _is_schema(value: object) -> bool:
    return isinstance(value, Mapping) and (
        value.get("type") in _JSON_TYPES or not _SCHEMA_KEYWORDS.isdisjoint(value)
    )


def _read_named(tool: Mapping[str, Any]) -> Specification:
    name = tool["name"]
    if not isinstance(name, str) or not name:
        raise InvalidToolError(f"The name of a tool must be a non-empty string, not {name!r}.")
    keys = _keys_of(DIALECTS)
    key = next((key for key in keys.parameters if tool.get(key) is not None), None)
    kind = tool.get("type")
    if isinstance(kind, str) and kind not in ("function", *_JSON_TYPES) and key is None:
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
    except InvalidToolError:
        raise
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
    # Loads what is known about schemas, which a call without tools never needs.
    from langchain_gemini_tools.wire.schema.keywords import KEYWORDS

    nesting = {KEYWORDS[name].nesting if name in KEYWORDS else "none" for name in value}
    return (
        "map" not in nesting and bool(nesting - {"schema"}) and all(map(_describes, value.values()))
    )


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


# Built-in tools


Backend = Literal["developer", "vertex"]


class BuiltinTool(NamedTuple):
    """What the package knows about one built-in tool."""

    name: str
    """Its key on the wire."""
    counterparts: tuple[str, ...] = ()
    """Other vendors' types of tools for the same purpose; a date or version may follow."""
    is_run_by_user: bool = False
    """The model calls functions that are not declared, and the user runs them, as in computer use:
    https://ai.google.dev/gemini-api/docs/computer-use"""
    calls_are_run_by_api: bool = False
    """Calls of functions that are not declared are run by the API, as those of MCP servers are."""
    only_on: Backend | None = None
    """The only backend that has it."""
    settings_of_vertex: tuple[str, ...] = ()
    """Settings that only Vertex AI has."""
    type_name: str | None = None
    """Its `type` in the Interactions API, if that is not its name in snake_case."""
    read_typed: Callable[[dict[str, Any]], Any] | None = None
    """Turns the settings beside such a `type` into those of generateContent."""
    typed_settings: tuple[str, ...] | None = None
    """The settings that it has in the Interactions API; None if it does not exist there."""
    write_typed: Callable[[Any], dict[str, Any]] | None = None
    """Turns the settings of generateContent into those beside the `type`."""
    only_typed: Mapping[str, str] = MappingProxyType({})
    """Settings that only the Interactions API has -> what to do in generateContent."""


def _read_search(settings: dict[str, Any]) -> Any:
    types = settings.get("search_types")
    if not isinstance(types, list):
        return settings
    return {**settings, "search_types": {str(name): {} for name in types}}


_PLACE = 'Use tool_config={"retrieval_config": {"lat_lng": {"latitude": ..., "longitude": ...}}}'
_POLICIES = "disabled_safety_policies"


def _read_computer(settings: dict[str, Any]) -> Any:
    word = str(settings.get("environment") or "").upper()
    read = dict(settings)
    if word and not word.startswith("ENVIRONMENT_"):
        read["environment"] = f"ENVIRONMENT_{word}"
    if isinstance(policies := settings.get(_POLICIES), list):
        read[_POLICIES] = [str(policy).upper() for policy in policies]
    return read


def _write_search(settings: Any) -> dict[str, Any]:
    types = settings.get("searchTypes")
    if not isinstance(types, Mapping):
        return dict(settings)
    return {**settings, "searchTypes": [snake(name) for name in types]}


def _write_computer(settings: Any) -> dict[str, Any]:
    word = str(settings.get("environment") or "")
    written = dict(settings)
    if environment := word.lower().removeprefix("environment_"):
        written["environment"] = environment
    if isinstance(policies := settings.get(camel(_POLICIES)), list):
        written[camel(_POLICIES)] = [str(policy).lower() for policy in policies]
    return written


def _write_server(server: Any) -> dict[str, Any]:
    transport = server.get("streamableHttpTransport") or {}
    others = {key: value for key, value in server.items() if key != "streamableHttpTransport"}
    return {**others, **transport}


def _read_server(settings: dict[str, Any]) -> Any:
    transport = {key: settings[key] for key in ("url", "headers") if key in settings}
    others = {key: value for key, value in settings.items() if key not in transport}
    return [{**others, "streamable_http_transport": transport}]


_RETRIEVAL = "Use the form of generateContent for this search"
_RETRIEVAL_SETTINGS = {
    "retrieval_types": _RETRIEVAL,
    "vertex_ai_search_config": _RETRIEVAL,
    "rag_store_config": _RETRIEVAL,
    "exa_ai_search_config": _RETRIEVAL,
    "parallel_ai_search_config": _RETRIEVAL,
}

_BUILTIN_ROWS = (
    BuiltinTool(
        "googleSearch",
        ("web_search",),
        settings_of_vertex=("blockingConfidence", "excludeDomains"),
        read_typed=_read_search,
        typed_settings=("search_types",),
        write_typed=_write_search,
    ),
    BuiltinTool(
        "googleMaps",
        settings_of_vertex=("groundingTypes",),
        typed_settings=("enable_widget", "latitude", "longitude"),
        only_typed={"latitude": _PLACE, "longitude": _PLACE},
    ),
    BuiltinTool("urlContext", ("web_fetch",), typed_settings=()),
    BuiltinTool("codeExecution", ("code_interpreter", "code_execution"), typed_settings=()),
    BuiltinTool(
        "fileSearch",
        ("file_search",),
        only_on="developer",
        typed_settings=("file_search_store_names", "metadata_filter", "top_k"),
    ),
    BuiltinTool(
        "computerUse",
        ("computer",),
        is_run_by_user=True,
        read_typed=_read_computer,
        typed_settings=(
            "environment",
            "excluded_predefined_functions",
            _POLICIES,
            "enable_prompt_injection_detection",
        ),
        write_typed=_write_computer,
    ),
    BuiltinTool(
        "mcpServers",
        ("mcp",),
        calls_are_run_by_api=True,
        only_on="developer",
        type_name="mcp_server",
        read_typed=_read_server,
        typed_settings=("name", "url", "headers", "allowed_tools"),
        write_typed=_write_server,
        only_typed={"allowed_tools": "Leave it out, or restrict the tools on the server"},
    ),
    BuiltinTool("googleSearchRetrieval"),
    BuiltinTool(
        "retrieval",
        only_on="vertex",
        typed_settings=tuple(_RETRIEVAL_SETTINGS),
        only_typed=_RETRIEVAL_SETTINGS,
    ),
    BuiltinTool("enterpriseWebSearch", only_on="vertex"),
    BuiltinTool("parallelAiSearch", only_on="vertex"),
    BuiltinTool("exaAiSearch", only_on="vertex"),
)
BUILTIN_TOOLS = {row.name: row for row in _BUILTIN_ROWS}

_USER_KEYS = frozenset(
    {"headers", "custom_config", "customConfig", "custom_configs", "customConfigs"}
)
"""Settings whose keys are the user's, so that their spelling is not changed."""

PRIVATE_SETTINGS = frozenset(
    {"headers", "apiAuth", "authConfig"}
    | {"exaAiSearch", "parallelAiSearch", "exaAiSearchConfig", "parallelAiSearchConfig"}
)
"""Settings that contain credentials, and are not shown."""


def is_builtin(key: str) -> bool:
    """Return whether `key`, in either spelling, is a built-in tool."""
    return camel(key) in BUILTIN_TOOLS


def names_builtin(kind: object) -> bool:
    """Return whether this is the `type` of a built-in tool in the Interactions API."""
    return any(kind == _type_of(row) for row in BUILTIN_TOOLS.values())


def builtin_tool(name: str) -> BuiltinTool:
    """Return the row of a built-in tool; the SDK may have tools that the table does not."""
    return BUILTIN_TOOLS.get(name) or BuiltinTool(name)


def render_builtin(key: str, settings: Any) -> dict[str, Any]:
    """Render a built-in tool in the spelling of the wire; None means no settings."""
    return {camel(key): {} if settings is None else camel_keys(settings)}


def render_typed(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Render a built-in tool in the spelling of the Interactions API; None if it is not one.

    `{"type": "google_search", ...}` has the settings beside the type.
    """
    kind = tool.get("type")
    if not isinstance(kind, str) or kind == "function" or kind in _JSON_TYPES:
        return None
    row = next((row for row in BUILTIN_TOOLS.values() if kind == _type_of(row)), None)
    if row is None or not {*_keys_of(DIALECTS).parameters, "vector_store_ids"}.isdisjoint(tool):
        return None  # a function, or OpenAI's tool of this type
    settings = {key: value for key, value in tool.items() if key != "type" and value is not None}
    if [camel(key) for key in settings] == [row.name]:  # {"type": "x", "x": {...}}
        [settings] = settings.values()
    return render_builtin(row.name, row.read_typed(settings) if row.read_typed else settings)


def reject_only_typed(key: str, settings: Any) -> None:
    """Reject settings of a built-in tool that generateContent does not have.

    Args:
        key: Its key in generateContent.
        settings: Its settings; a list if the tool is a list.

    Raises:
        InvalidToolError: Only the Interactions API has one of the settings.
    """
    row = builtin_tool(key)
    for each in settings if isinstance(settings, list) else [settings]:
        for name, advice in row.only_typed.items() if isinstance(each, Mapping) else ():
            if each.get(camel(name)) is not None:
                raise InvalidToolError(
                    f"{_type_of(row)}: generateContent does not have {name}. {advice}, or use "
                    "api='interactions'."
                )


def write_typed(key: str, settings: Any) -> list[dict[str, Any]]:
    """Render a built-in tool of generateContent as the Interactions API spells it.

    Args:
        key: Its key in generateContent.
        settings: Its settings there. Each item of a list becomes a tool.

    Raises:
        InvalidToolError: The Interactions API has no such tool, or no such setting.
    """
    row = builtin_tool(key)
    return [
        _write_one(row, each) for each in (settings if isinstance(settings, list) else [settings])
    ]


def _write_one(row: BuiltinTool, settings: Any) -> dict[str, Any]:
    kind, is_new = _type_of(row), row.name not in BUILTIN_TOOLS
    if row.typed_settings is None and not is_new:
        known = [_type_of(row) for row in BUILTIN_TOOLS.values() if row.typed_settings is not None]
        raise InvalidToolError(
            f"{kind} does not exist in the Interactions API, which has {', '.join(known)}. "
            "Leave it out, or use api='generate_content'."
        )
    written = row.write_typed(settings or {}) if row.write_typed else dict(settings or {})
    typed = {snake(name): _snake_keys(name, value) for name, value in written.items()}
    typed = {name: value for name, value in typed.items() if value is not None}
    if row.typed_settings is None:
        return {"type": kind, **typed}  # the API may be newer than our table
    if unknown := [name for name in typed if name not in row.typed_settings]:
        has = ", ".join(row.typed_settings) or "no settings"
        raise InvalidToolError(
            f"{kind} does not have {', '.join(unknown)} in the Interactions API; it has "
            f"{has}. Leave it out, or use api='generate_content'."
        )
    return {"type": kind, **typed}


def _type_of(row: BuiltinTool) -> str:
    return row.type_name or snake(row.name)


def is_new_builtin(tool: Mapping[str, Any]) -> bool:
    """Return whether this may be a built-in tool that the table does not have: `{"x": {...}}`.

    It is not one if it is a function whose keys are not known, or a misspelled name.
    """
    keys = _keys_of(DIALECTS)
    known = {*keys.parameters, *keys.wrappers, *keys.responses, *_SCHEMA_KEYWORDS}
    return bool(tool) and all(
        isinstance(key, str)
        and key.isidentifier()
        and key not in known
        and not _misspelled(key)
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


def _misspelled(key: str) -> str | None:
    """Return the built-in tool that was meant by a name that is almost right."""
    given, names = snake(key), [snake(name) for name in BUILTIN_TOOLS]
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.85)
    is_longer = any(name in given or given in name for name in near)  # google_search_2
    return near[0] if near and not is_longer else None


def camel_keys(value: Any) -> Any:
    """Return a copy with every key in the spelling of the wire, except for the user's own keys."""
    if isinstance(value, Mapping):
        return {
            camel(key): dict(item) if key in _USER_KEYS else camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def _snake_keys(name: str, value: Any) -> Any:
    """Return a setting with every key in snake_case, except for the user's own keys."""
    if isinstance(value, Mapping) and name not in _USER_KEYS:
        return {snake(key): _snake_keys(key, item) for key, item in value.items()}
    return [_snake_keys("", item) for item in value] if isinstance(value, list) else value


def unknown_tool(keys: list[str]) -> InvalidToolError:
    """Return the error for a dict that is neither a function nor a built-in tool."""
    known = ", ".join(map(snake, BUILTIN_TOOLS))
    meant = next(filter(None, map(_misspelled, keys)), None)
    hint = f" Did you mean {meant!r}?" if meant else ""
    return InvalidToolError(
        f"A tool with the keys {', '.join(map(repr, keys))} is neither a function, which has a "
        f"name and a schema, nor one of Gemini's built-in tools: {known}.{hint}"
    )


def foreign_tool(kind: str) -> InvalidToolError:
    """Return the error for a tool that another vendor runs."""
    own = next(
        (snake(row.name) for row in BUILTIN_TOOLS.values() if kind.startswith(row.counterparts)),
        None,
    )
    advice = (
        f'Use Gemini\'s {{"{own}": {{}}}} instead.'
        if own
        else "Gemini has no tool for the same purpose that this package knows; use a function "
        f'instead. A new built-in tool of Gemini is written {{"{kind}": {{}}}}.'
    )
    return InvalidToolError(f"A tool of type {kind!r} is run by another vendor. {advice}")
