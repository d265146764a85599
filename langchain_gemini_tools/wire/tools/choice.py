"""`tool_choice` and `tool_config`, in everybody's words -> `toolConfig`.

First `resolve_tool_choice` finds out what is meant, against the tools that are bound; then
`tools.render_tools` and `render_tool_config` both follow its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError, UnknownToolError
from langchain_gemini_tools.facts.spelling import camel
from langchain_gemini_tools.wire import shapes as gemini
from langchain_gemini_tools.wire.tools.builtin import camel_keys
from langchain_gemini_tools.wire.tools.names import function_names, names_by_wire_name, render_name

if TYPE_CHECKING:
    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import Tool

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
    """What a user wants of the bound functions.

    Attributes:
        mode: The API's word, or None for whatever is its default.
        names: The only functions that may be called, by the user's names; empty for all.
        settings: What else `toolConfig` holds, as the wire spells it.
    """

    mode: str | None = None
    names: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def restricts_by_name(self) -> bool:
        """Whether the API itself is told the names: it takes them in these modes only."""
        return self.mode in {"ANY", "VALIDATED"} and bool(self.names)

    def declares(self, name: str) -> bool:
        """Whether the function is declared at all."""
        return not self.names or self.restricts_by_name or name in self.names


def resolve_tool_choice(
    choice: Any,
    bound: Sequence[Tool],
    capabilities: Capabilities,
    tool_config: Any = None,
) -> ToolChoice:
    """What `tool_choice` and `tool_config` mean together for the bound tools.

    A model that does not know VALIDATED gets AUTO instead: text or a call, without the promise that
    the call fits its schema. Names given with it then decide which functions are declared.

    Raises:
        UnknownToolError: A name is not bound.
        InvalidOptionError: It has no meaning, the two contradict each other, or a call is demanded
            and there is no function to call.
    """
    if isinstance(choice, ToolChoice) and not tool_config:
        return choice
    resolved = _combine(_read(choice, bound), _read_config(_plain(tool_config) or {}, bound))
    if resolved.mode == "VALIDATED" and not capabilities.validates_calls:
        resolved = replace(resolved, mode="AUTO")
    if resolved.mode == "ANY" and not function_names(bound):
        raise InvalidOptionError(
            "The tool choice demands a call (mode ANY), but no function is bound."
        )
    return resolved


def render_validated(choice: ToolChoice) -> dict[str, Any] | None:
    """A choice with the mode VALIDATED, as a config: a word might be a tool's name.

    None where it says more than AUTO: what was chosen stays.
    """
    if choice.mode not in {None, "AUTO"} or choice.names:
        return None
    calling = {**choice.settings.get("functionCallingConfig", {}), "mode": "VALIDATED"}
    return {**choice.settings, "functionCallingConfig": calling}


def _combine(choice: ToolChoice, config: ToolChoice) -> ToolChoice:
    if choice.mode and config.mode and choice.mode != config.mode:
        raise InvalidOptionError(
            f"tool_choice means {choice.mode} and tool_config says {config.mode}; give one of them."
        )
    if choice.names and config.names and set(choice.names) != set(config.names):
        raise InvalidOptionError(
            f"tool_choice allows {list(choice.names)} and tool_config {list(config.names)}; "
            "give one of them."
        )
    return ToolChoice(
        mode=choice.mode or config.mode,
        names=choice.names or config.names,
        settings={**config.settings, **choice.settings},
    )


def _read(choice: Any, bound: Sequence[Tool]) -> ToolChoice:
    choice = _plain(choice)
    match choice:
        case None | False | "" | []:
            return ToolChoice()
        case ToolChoice():
            return choice
        case True:
            return ToolChoice("ANY")
        case str():
            return _read_word(choice, bound)
        case list() | tuple():
            return ToolChoice("ANY", _known_names(choice, bound))
        case Mapping():
            return _read_mapping(choice, bound)
    raise InvalidOptionError(
        f"tool_choice={choice!r} is not understood. Give 'auto', 'any', 'none', 'validated', the "
        "name of a bound tool, a list of names, or a dict as OpenAI, Anthropic or Gemini write it."
    )


def _plain(value: Any) -> Any:
    """The SDK's `ToolConfig` or `FunctionCallingConfig` as a dict; anything else as it is."""
    if not isinstance(value, type) and callable(getattr(value, "model_dump", None)):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def _read_word(word: str, bound: Sequence[Tool]) -> ToolChoice:
    # A bound tool's name beats a word: a tool may be called "any".
    if word not in function_names(bound) and word.lower() in _MODES:
        return ToolChoice(_MODES[word.lower()])
    return ToolChoice("ANY", _known_names([word], bound))


def _known_names(names: Sequence[Any], bound: Sequence[Tool]) -> tuple[str, ...]:
    if not names:
        return ()
    known = function_names(bound)
    by_wire_name = names_by_wire_name(bound)
    found: list[str] = []
    for name in names:
        if isinstance(name, Mapping):
            found += _known_names([_name_in(name)], bound)
        elif not isinstance(name, str):
            raise UnknownToolError(str(name)[:80], known)
        elif name in known:
            found.append(name)
        elif name in by_wire_name:
            found.append(by_wire_name[name])
        else:
            raise UnknownToolError(str(name), known)
    return tuple(dict.fromkeys(found))


def _name_in(choice: Mapping[str, Any]) -> Any:
    function = choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else choice.get("name")


def _read_mapping(choice: Mapping[str, Any], bound: Sequence[Tool]) -> ToolChoice:
    keys = {camel(key) for key in choice}
    if keys & {"functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"}:
        return _read_config(choice, bound)
    match choice.get("type"):
        case "allowed_tools":  # OpenAI: Chat has a level more than Responses
            inner = choice.get("allowed_tools", choice)
            names = _known_names(inner.get("tools", ()), bound)
            return replace(_read_mode(inner.get("mode", "auto")), names=names)
        case "function" | "tool":
            return ToolChoice("ANY", _known_names([_name_in(choice)], bound))
        case "auto" | "any" | "none" | "required" as word:
            return ToolChoice(_MODES[word])
        case None if _name_in(choice) is not None:
            return ToolChoice("ANY", _known_names([_name_in(choice)], bound))
        case None if keys & {"mode", "allowedFunctionNames"}:
            return _read_calling_config(choice, bound)
    raise InvalidOptionError(f"tool_choice={dict(choice)!r} is not understood.")


def _read_config(config: Mapping[str, Any], bound: Sequence[Tool]) -> ToolChoice:
    """A whole `toolConfig`, in either key case."""
    spelled = {camel(key): value for key, value in config.items() if value is not None}
    unknown = spelled.keys() - gemini.ToolConfig.__annotations__.keys()
    if unknown:
        raise InvalidOptionError(f"tool_config has no field {', '.join(sorted(unknown))}.")
    choice = _read_calling_config(_plain(spelled.pop("functionCallingConfig", None)) or {}, bound)
    settings = {key: camel_keys(_plain(value)) for key, value in spelled.items()}
    return replace(choice, settings={**choice.settings, **settings})


def _read_calling_config(config: Mapping[str, Any], bound: Sequence[Tool]) -> ToolChoice:
    spelled = {camel(key): value for key, value in config.items() if value is not None}
    names = _known_names(spelled.pop("allowedFunctionNames", None) or (), bound)
    choice = _read_mode(spelled.pop("mode", None))
    if names and choice.mode is None:
        choice = ToolChoice("ANY")  # allowed names alone: one of them is to be called
    if names and choice.mode == "NONE":
        raise InvalidOptionError("The mode NONE allows no call, so it takes no allowed names.")
    return replace(
        choice, names=names, settings={"functionCallingConfig": spelled} if spelled else {}
    )


def _read_mode(mode: Any) -> ToolChoice:
    word = str(getattr(mode, "value", mode or "mode_unspecified")).lower()
    if word not in _MODES:
        raise InvalidOptionError(
            f"There is no mode {mode!r}; modes are AUTO, ANY, NONE, VALIDATED."
        )
    return ToolChoice(_MODES[word])


def render_tool_config(
    choice: ToolChoice,
    bound: Sequence[Tool],
    capabilities: Capabilities,
    *,
    vertexai: bool = False,
    has_server_parts: bool = False,
) -> gemini.ToolConfig | None:
    """`toolConfig` for a resolved choice; None where there is nothing to say.

    Args:
        choice: The choice.
        bound: The bound tools.
        capabilities: What the model accepts.
        vertexai: Whether it is asked on Vertex AI.
        has_server_parts: Whether the history holds calls that Google's side made.

    Raises:
        InvalidOptionError: `includeServerSideToolInvocations` is asked for where it does not exist.
    """
    config: dict[str, Any] = dict(choice.settings)
    calling = _render_calling_config(choice, config.pop("functionCallingConfig", {}))
    if calling and function_names(bound):
        # "Function calling config is set without function_declarations." is a 400.
        config["functionCallingConfig"] = calling
    combined = bool(function_names(bound)) and any(not tool.is_function for tool in bound)
    circulates = capabilities.combines_builtin_tools_with_functions and not vertexai
    if config.get(_FLAG) and not circulates:
        where = "Vertex AI" if vertexai else "this model"
        raise InvalidOptionError(f"{_FLAG} does not exist on {where}; leave it out.")
    # "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with
    # Function calling.": on every turn, and as long as the history holds what came of it.
    if config.pop(_FLAG, None) or (circulates and combined) or has_server_parts:
        config[_FLAG] = True
    return config or None  # type: ignore[return-value]


def _render_calling_config(choice: ToolChoice, given: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {"mode": choice.mode} if choice.mode else {}
    if choice.restricts_by_name:
        config["allowedFunctionNames"] = [render_name(name) for name in choice.names]
    return {**config, **given}
