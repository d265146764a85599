"""`tool_choice` and `tool_config` -> `toolConfig`.

`resolve_tool_choice` reads the OpenAI, Anthropic, Bedrock and Gemini spellings and checks them
against the bound tools. `render_tools` and `render_tool_config` both follow the resolved choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError, UnknownToolError
from langchain_gemini_tools.facts.json_values import camel
from langchain_gemini_tools.wire import shapes as gemini
from langchain_gemini_tools.wire.generation import plain
from langchain_gemini_tools.wire.tools.builtin import camel_keys
from langchain_gemini_tools.wire.tools.tool import render_name

if TYPE_CHECKING:
    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import BoundTools, Tool

_MODES = {
    "auto": "AUTO",
    "any": "ANY",
    "required": "ANY",
    "none": "NONE",
    "validated": "VALIDATED",
    "mode_unspecified": None,
}

_FLAG = "includeServerSideToolInvocations"


@dataclass(frozen=True)
class ToolChoice:
    """Which of the bound functions the model may or must call.

    Attributes:
        mode: The API's mode, or None for the API's default.
        names: The only functions that may be called, by the user's names; empty for all.
        settings: The other fields of `toolConfig`, in the spelling of the wire.
    """

    mode: str | None = None
    names: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def restricts_by_name(self) -> bool:
        """Whether the names are sent: the API only accepts them in these modes."""
        return self.mode in {"ANY", "VALIDATED"} and bool(self.names)

    def declared(self, functions: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """Return those of the functions that are declared at all."""
        if not self.names or self.restricts_by_name:
            return functions
        return {name: tool for name, tool in functions.items() if name in self.names}


def resolve_tool_choice(
    choice: object, tools: BoundTools, capabilities: Capabilities, tool_config: object = None
) -> ToolChoice:
    """Resolve `tool_choice` and `tool_config` for the bound tools.

    A model without the mode VALIDATED gets AUTO instead: text or a call, but no guarantee that the
    call matches its schema. Names given with it then decide which functions are declared.

    Args:
        choice: The user's choice; one that is resolved already is returned as it is.
        tools: The bound tools.
        capabilities: What the model supports.
        tool_config: The API's `toolConfig`, as a dict or an SDK object.

    Raises:
        UnknownToolError: A name is not bound.
        InvalidOptionError: The choice is not valid, the two contradict each other, or a call is
            required and no tool is bound.
    """
    if isinstance(choice, ToolChoice) and not tool_config:
        return choice
    resolved = _combine(_read(choice, tools), _read_config(tool_config or {}, tools))
    if resolved.mode == "VALIDATED" and not capabilities.validates_calls:
        resolved = replace(resolved, mode="AUTO")
    if resolved.mode == "ANY" and not tools:
        raise InvalidOptionError(
            "tool_choice requires a call (mode ANY), but no tool is bound. Bind one, or use 'auto'."
        )
    return resolved


def render_validated(
    choice: ToolChoice, tools: BoundTools, capabilities: Capabilities
) -> dict[str, Any] | None:
    """Render a choice with the mode VALIDATED as a config; a string could be the name of a tool.

    Args:
        choice: The resolved choice.
        tools: The bound tools.
        capabilities: What the model supports.

    Returns:
        None if the choice must stay: it is more specific than AUTO, no tool is bound, or the model
        does not have the mode.
    """
    is_open = choice.mode in {None, "AUTO"} and not choice.names
    if not (is_open and tools and capabilities.validates_calls):
        return None
    calling = {**choice.settings.get("functionCallingConfig", {}), "mode": "VALIDATED"}
    return {**choice.settings, "functionCallingConfig": calling}


def _combine(choice: ToolChoice, config: ToolChoice) -> ToolChoice:
    if choice.mode and config.mode and choice.mode != config.mode:
        raise InvalidOptionError(
            f"tool_choice means {choice.mode}, but tool_config says {config.mode}. Use only one "
            "of them."
        )
    if choice.names and config.names and set(choice.names) != set(config.names):
        raise InvalidOptionError(
            f"tool_choice allows {list(choice.names)}, but tool_config allows "
            f"{list(config.names)}. Use only one of them."
        )
    return ToolChoice(
        mode=choice.mode or config.mode,
        names=choice.names or config.names,
        settings={**config.settings, **choice.settings},
    )


def _read(choice: object, tools: BoundTools) -> ToolChoice:
    choice = plain(choice)
    match choice:
        case None | False | "" | []:
            return ToolChoice()
        case True:
            return ToolChoice("ANY")
        # The name of a bound tool comes first: a tool may be called "any".
        case str() if choice not in tools.functions and choice.lower() in _MODES:
            return ToolChoice(_MODES[choice.lower()])
        case str():
            return ToolChoice("ANY", _known_names([choice], tools))
        case list() | tuple():
            return ToolChoice("ANY", _known_names(choice, tools))
        case Mapping():
            return _read_mapping(choice, tools)
    raise _invalid(choice)


def _invalid(choice: object) -> InvalidOptionError:
    return InvalidOptionError(
        f"tool_choice={choice!r} is not valid. Use 'auto', 'any', 'none', 'validated', the name of "
        "a bound tool, a list of names, or a dict in the form of OpenAI, Anthropic, Bedrock or "
        "Gemini."
    )


def disables_parallel_calls(choice: object) -> bool:
    """Return whether a choice has Anthropic's flag for one call at a time."""
    return isinstance(choice, Mapping) and bool(choice.get("disable_parallel_tool_use"))


def _known_names(names: Any, tools: BoundTools) -> tuple[str, ...]:
    if isinstance(names, (str, Mapping)) or not isinstance(names, Collection):
        raise InvalidOptionError(f"The names of allowed tools must be a list, not {names!r}.")
    known = [*tools.functions]
    by_wire_name = tools.user_names
    found: list[str] = []
    for name in names:
        if isinstance(name, Mapping):
            found += _known_names([_name_in(name)], tools)
        elif not isinstance(name, str):
            raise InvalidOptionError(f"tool_choice: {name!r:.80} is not the name of a tool.")
        elif name in known:
            found.append(name)
        elif name in by_wire_name:
            found.append(by_wire_name[name])
        elif any(camel(name) == tool.name for tool in tools.builtin):
            raise InvalidOptionError(
                f"tool_choice names {name!r}, which Gemini runs itself: its use cannot be "
                "required. Use 'auto', or name a function."
            )
        else:
            raise UnknownToolError(name, known)
    return tuple(dict.fromkeys(found))


def _name_in(choice: Mapping[str, Any]) -> Any:
    function = choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else choice.get("name")


def _read_mapping(choice: Mapping[str, Any], tools: BoundTools) -> ToolChoice:
    keys = {camel(key) for key in choice}
    if keys & gemini.ToolConfig.__annotations__.keys():
        return _read_config(choice, tools)
    match dict(choice):
        case {"auto": _, **others} if not others:  # Amazon Bedrock
            return ToolChoice("AUTO")
        case {"any": _, **others} if not others:
            return ToolChoice("ANY")
        case {"tool": {"name": name}, **others} if not others:
            return ToolChoice("ANY", _known_names([name], tools))
    match choice.get("type"):
        case "allowed_tools":  # OpenAI: Chat has one more level than Responses
            inner = choice.get("allowed_tools")
            inner = inner if isinstance(inner, Mapping) else choice
            names = _known_names(inner.get("tools"), tools)
            return replace(_read_mode(inner.get("mode", "auto")), names=names)
        case "function" | "tool":
            return ToolChoice("ANY", _known_names([_name_in(choice)], tools))
        case "auto" | "any" | "none" | "required" as word:
            return ToolChoice(_MODES[word])
        case None if _name_in(choice) is not None:
            return ToolChoice("ANY", _known_names([_name_in(choice)], tools))
        case None if keys & {"mode", "allowedFunctionNames"}:
            return _read_calling_config(choice, tools)
    raise _invalid(dict(choice))


def _read_config(config: object, tools: BoundTools) -> ToolChoice:
    """Read a whole `toolConfig`, in either spelling."""
    fields = _read_fields(config, "tool_config")
    known = gemini.ToolConfig.__annotations__.keys()
    if unknown := fields.keys() - known:
        raise InvalidOptionError(
            f"tool_config does not have a field {', '.join(sorted(unknown))}; its fields are "
            f"{', '.join(known)}."
        )
    choice = _read_calling_config(fields.pop("functionCallingConfig", {}), tools)
    settings = {key: camel_keys(value) for key, value in fields.items()}
    return replace(choice, settings={**choice.settings, **settings})


def _read_fields(config: object, name: str) -> dict[str, Any]:
    """Return the fields of a config that are set, in the spelling of the wire."""
    config = plain(config)
    if not isinstance(config, Mapping):
        raise InvalidOptionError(f"{name} must be a dict, not {config!r}.")
    return {camel(key): value for key, value in config.items() if value is not None}


def _read_calling_config(config: object, tools: BoundTools) -> ToolChoice:
    fields = _read_fields(config, "function_calling_config")
    names = _known_names(fields.pop("allowedFunctionNames", ()), tools)
    choice = _read_mode(fields.pop("mode", None))
    if names and choice.mode is None:
        choice = ToolChoice("ANY")  # allowed names alone require a call of one of them
    if names and choice.mode == "NONE":
        raise InvalidOptionError(
            "The mode NONE forbids calls, so it cannot be combined with allowed names. Use AUTO, "
            "ANY or VALIDATED, or leave the names out."
        )
    return replace(
        choice, names=names, settings={"functionCallingConfig": fields} if fields else {}
    )


def _read_mode(mode: object) -> ToolChoice:
    word = str(getattr(mode, "value", mode or "mode_unspecified")).lower()
    if word not in _MODES:
        raise InvalidOptionError(
            f"The mode {mode!r} is not valid; use AUTO, ANY, NONE or VALIDATED."
        )
    return ToolChoice(_MODES[word])


def render_tool_config(  # noqa: PLR0913 - each by its name
    choice: ToolChoice,
    tools: BoundTools,
    capabilities: Capabilities,
    *,
    vertexai: bool = False,
    has_server_parts: bool = False,
    streams_arguments: bool = False,
) -> gemini.ToolConfig | None:
    """Render `toolConfig` for a resolved choice; None if it would be empty.

    Args:
        choice: The resolved choice.
        tools: The bound tools.
        capabilities: What the model supports.
        vertexai: Whether the request goes to Vertex AI.
        has_server_parts: Whether the history contains calls that the API ran itself, or they may
            come, because `extra_body` adds built-in tools to bound functions.
        streams_arguments: Whether the response is a stream, which may have arguments in pieces.

    Raises:
        InvalidOptionError: `includeServerSideToolInvocations` is set where it does not exist.
    """
    config: dict[str, Any] = dict(choice.settings)
    calling = dict(config.pop("functionCallingConfig", {}))
    if choice.mode:
        calling = {**_render_mode(choice), **calling}
    if vertexai and not streams_arguments:
        # "streaming function call is not supported in unary API" is a 400 of Vertex AI.
        calling.pop("streamFunctionCallArguments", None)
    if calling and tools.functions:
        # "Function calling config is set without function_declarations." is a 400.
        config["functionCallingConfig"] = calling
    combined = tools.functions and tools.builtin
    circulates = capabilities.combines_builtin_tools_with_functions and not vertexai
    if config.get(_FLAG) and not circulates:
        where = "Vertex AI" if vertexai else "this model"
        raise InvalidOptionError(f"{_FLAG} does not exist on {where}; leave it out.")
    # "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with
    # Function calling.": in every turn, and as long as the history contains what came of it.
    if config.pop(_FLAG, None) or (circulates and combined) or has_server_parts:
        config[_FLAG] = True
    return config or None  # type: ignore[return-value]


def _render_mode(choice: ToolChoice) -> dict[str, Any]:
    if not choice.restricts_by_name:
        return {"mode": choice.mode}
    return {
        "mode": choice.mode,
        "allowedFunctionNames": [render_name(name) for name in choice.names],
    }
