"""Gemini's built-in tools: one row each, their spellings in both APIs, and their credentials.

To support another built-in tool, add its row to `_BUILTIN_ROWS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError
from langchain_gemini_tools.facts.credentials import REDACTED, PrivateHeaders, headers_digest
from langchain_gemini_tools.facts.json_values import camel, snake
from langchain_gemini_tools.wire.generation import plain

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.tools.tool import Tool

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
    excludes_json_on: Backend | None = None
    """The backend that rejects it beside `responseMimeType: application/json`."""
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
_RETRIEVAL_SETTINGS = (
    "retrieval_types",
    "vertex_ai_search_config",
    "rag_store_config",
    "exa_ai_search_config",
    "parallel_ai_search_config",
)

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
        # Reported for gemini-3.1-flash-lite, where `responseFormat` works: BerriAI/litellm, issue
        # 29451. According to the SDK, only Vertex AI has that field.
        excludes_json_on="developer",
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
        typed_settings=_RETRIEVAL_SETTINGS,
        only_typed=dict.fromkeys(_RETRIEVAL_SETTINGS, _RETRIEVAL),
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


def is_builtin(key: object) -> bool:
    """Return whether `key`, in either spelling, is a built-in tool."""
    return isinstance(key, str) and camel(key) in BUILTIN_TOOLS


def names_builtin(kind: object) -> bool:
    """Return whether this is the `type` of a built-in tool in the Interactions API."""
    return _row_of_type(kind) is not None


def _row_of_type(kind: object) -> BuiltinTool | None:
    return next((row for row in BUILTIN_TOOLS.values() if kind == _type_of(row)), None)


def builtin_tool(name: str) -> BuiltinTool:
    """Return the row of a built-in tool; the SDK may have tools that the table does not."""
    return BUILTIN_TOOLS.get(name) or BuiltinTool(name)


def render_builtin(key: str, settings: Any) -> dict[str, Any]:
    """Render a built-in tool in the spelling of the wire; None means no settings.

    Raises:
        InvalidToolError: The settings are not a dict or an object of the SDK, or a list of them.
    """
    settings = plain(settings)
    for each in settings if isinstance(settings, list) else [settings]:
        if each is not None and not isinstance(each, Mapping):
            # They may contain a credential, so only the type is shown.
            raise InvalidToolError(
                f"{snake(key)}: its settings must be a dict, not {type(each).__name__}. Use "
                f"{{{snake(key)!r}: {{}}}} for the defaults."
            )
    return {camel(key): {} if settings is None else camel_keys(settings)}


def render_typed(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Render a built-in tool in the spelling of the Interactions API; None if it is not one.

    `{"type": "google_search", ...}` has the settings beside the type.
    """
    row = _row_of_type(tool.get("type"))
    if row is None or "vector_store_ids" in tool:  # OpenAI's tool of this type
        return None
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


def misspelled(key: str) -> str | None:
    """Return the built-in tool that was meant by a name that is almost right."""
    given, names = snake(key), [snake(name) for name in BUILTIN_TOOLS]
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.85)
    is_longer = any(name in given or given in name for name in near)  # google_search_2
    return near[0] if near and (given in names or not is_longer) else None


def camel_keys(value: Any) -> Any:
    """Return a copy with every key in the spelling of the wire, except for the user's own keys."""
    if isinstance(value, Mapping):
        return {
            camel(key): dict(item)
            if key in _USER_KEYS and isinstance(item, Mapping)
            else camel_keys(item)
            for key, item in value.items()
        }
    return [camel_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def _snake_keys(name: str, value: Any) -> Any:
    """Return a setting with every key in snake_case, except for the user's own keys."""
    if isinstance(value, Mapping) and name not in _USER_KEYS:
        return {snake(key): _snake_keys(key, item) for key, item in value.items()}
    return [_snake_keys("", item) for item in value] if isinstance(value, list) else value


def unknown_tool(keys: list[Any]) -> InvalidToolError:
    """Return the error for a dict that is neither a function nor a built-in tool."""
    known = ", ".join(map(snake, BUILTIN_TOOLS))
    meant = next(filter(None, map(misspelled, map(str, keys))), None)
    hint = f" Did you mean {meant!r}?" if meant else ""
    given = f"A tool with the keys {', '.join(map(repr, keys))}" if keys else "An empty dict"
    return InvalidToolError(
        f"{given} is neither a function, which has a name and a schema, nor one of Gemini's "
        f"built-in tools: {known}.{hint}"
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


# Credentials


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


def check_extra_body(extra_body: Any) -> Any:
    """Return `extra_body`, whose tools must not have credentials: nothing hides them there.

    Raises:
        InvalidOptionError: One has, such as a header of an MCP server.
    """
    tools = extra_body.get("tools") if isinstance(extra_body, Mapping) else None
    if not tools:
        return extra_body
    listed = [*tools] if isinstance(tools, (list, tuple)) else [tools]
    if names := sorted(_private_names(hide_credentials([*map(_without_functions, listed)]))):
        raise InvalidOptionError(
            f"extra_body: {', '.join(names)} of a tool may be a credential, and repr, traces and "
            "pickles show extra_body. Bind the tool with bind_tools, which hides it."
        )
    return extra_body


def _without_functions(tool: Any) -> Any:
    """Return a tool without declarations: a parameter may have any name, such as `headers`."""
    if not isinstance(tool, Mapping) or tool.get("type") == "function":
        return None
    return {key: tool[key] for key in tool if camel(str(key)) != "functionDeclarations"}


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


def hidden_form(value: object) -> dict[str, str]:
    """Return what is shown of private settings. The digest distinguishes two tools."""
    if not isinstance(value, PrivateHeaders):
        kind = type(value).__name__  # the value may contain a credential
        raise TypeError(f"A setting of a built-in tool is of type {kind}, which is not JSON.")
    return dict.fromkeys(value, f"{REDACTED} {headers_digest(value)}")


def reveal_credentials(settings: Any) -> Any:
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
            return {key: reveal_credentials(value) for key, value in settings.items()}
        case list():
            return [reveal_credentials(item) for item in settings]
    return settings
