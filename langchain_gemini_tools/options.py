"""The options of one call: which exist, which level applies, and what they resolve to.

The constructor, `model_kwargs`, `bind` and each call accept the same options. The nearer level
applies: constructor < `model_kwargs` < `bind` < call. `resolve` joins them once per invocation.
What the options mean on the wire is decided in `wire/`.
"""

from __future__ import annotations

import warnings
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.models import capabilities_of, profile_of
from langchain_gemini_tools.fields import (
    FIELDS_BY_SYNONYM,
    GeminiFields,
    OwnProfile,
    unknown_option,
)
from langchain_gemini_tools.wire.generation import GENERATION_OPTIONS, OwnLevel, unpack_config
from langchain_gemini_tools.wire.invocation import FetchLimits, Invocation
from langchain_gemini_tools.wire.tools.choice import ToolChoice, resolve_tool_choice
from langchain_gemini_tools.wire.tools.tool import bind_tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import SchemaForm, Tool

_CALL_OPTIONS = frozenset(
    {
        "model",
        "timeout",
        "stream_timeout",
        "max_retries",
        "max_retry_delay",
        "tools",
        "tool_choice",
        "tool_config",
        "tool_schema",
        "tool_calling",
        "tool_prompt",
        "safety_settings",
        "cached_content",
        "continuation_token",
        "labels",
        "extra_body",
        "fetch_urls",
        "convert_system_message_to_human",
        "on_broken_history",
        "on_malformed",
    }
)
"""What a call may set in addition to `GENERATION_OPTIONS`."""

_IGNORED = {"stream", "parallel_tool_calls", "strict"}
"""Keywords that LangChain and agents pass along, and that are not options of Gemini."""

_NAMES = FIELDS_BY_SYNONYM | {"functions": "tools"}
"""Every other name of an option; `functions` is older than `tools`."""

_KNOWN_OPTIONS = GENERATION_OPTIONS | _CALL_OPTIONS
OPTION_FIELDS = tuple(name for name in GeminiFields.model_fields if name in _KNOWN_OPTIONS)

_CHECKED = frozenset(
    name for name in OPTION_FIELDS if GeminiFields.model_fields[name].annotation is not Any
) - {"extra_body"}
"""Options that are validated as the constructor validates them; `wire` reads the others."""

_DEFAULTS = {
    name: GeminiFields.model_fields[name].default
    for name in (
        "n",
        "max_retry_delay",
        "fetch_urls",
        "tool_calling",
        "on_broken_history",
        "on_malformed",
    )
}
"""What None means for a field that cannot be None."""


# Levels

_CONFIGS = ("thinking_config", "generation_config")

_ALTERNATIVES_IN_A_LEVEL = {
    "reasoning_effort": {"thinking_budget"},
    "thinking_budget": {"reasoning_effort"},
    "response_format": {"response_schema", "response_mime_type"},
    "response_schema": {"response_format"},
    "response_mime_type": {"response_format"},
}
"""Options of which the API accepts one: the one that is set later applies."""

_ALTERNATIVES = _ALTERNATIVES_IN_A_LEVEL | {
    "response_schema": {"response_format", "response_mime_type"},
    "response_mime_type": {"response_format", "response_schema"},
}
"""The same between levels, where a schema and a type that are set together belong together."""

_JOINED = frozenset({*_ALTERNATIVES, *_CONFIGS})


def resolve(fields: GeminiFields, stop: list[str] | None, kwargs: Mapping[str, Any]) -> Invocation:
    """Join all levels of options into one value.

    Args:
        fields: The model.
        stop: Stop sequences of the call.
        kwargs: Options of the call, those that are bound included.

    Raises:
        InvalidOptionError: An option is unknown or has an invalid value.
        InvalidToolError: A tool cannot be declared to Gemini.
    """
    given = _join_levels(fields, stop, kwargs)
    model = given.get("model") or fields.model
    if fields.uses_vertexai:
        model = model.removeprefix("models/")  # there it would name a model of the project
    capabilities = capabilities_of(fields.model_family or model)
    is_prompted = _is_prompted(given["tool_calling"], capabilities)
    tools, choice = _resolve_tools(given, capabilities.prompted() if is_prompted else capabilities)
    best: SchemaForm = "json_schema" if capabilities.accepts_json_schema else "openapi"
    retries, on_malformed = given["max_retries"], given["on_malformed"]
    max_retries = fields.max_retries if retries is None else retries
    retries_with_feedback = on_malformed == "retry" and max_retries > 0
    fetches = given["fetch_urls"]
    return Invocation(
        model=model,
        capabilities=capabilities,
        vertexai=fields.uses_vertexai,
        tools=tools,
        tool_choice=choice,
        schema_form=given.get("tool_schema") or best,
        is_prompted=is_prompted,
        tool_prompt=given.get("tool_prompt"),
        generation={name: given[name] for name in GENERATION_OPTIONS if name in given},
        safety_settings=given.get("safety_settings"),
        cached_content=given.get("cached_content"),
        continuation_token=given.get("continuation_token"),
        labels=given.get("labels"),
        extra_body=given.get("extra_body"),
        merges_system=given["convert_system_message_to_human"],
        repairs_history=given["on_broken_history"] == "repair",
        returns_failures=on_malformed == "return",
        # An agent would take an empty response for the end of its work.
        rejects_empty=on_malformed == "raise"
        or retries_with_feedback
        or (bool(tools) and on_malformed != "return"),
        streams_blocks=fields.output_version == "v1" and not is_prompted,
        retries_with_feedback=retries_with_feedback,
        fetch_limits=FetchLimits() if fetches is True else fetches or None,
        timeout_seconds=given["timeout"],
        stream_timeout_seconds=given["stream_timeout"],
        max_retries=max_retries,
        max_retry_delay_seconds=given["max_retry_delay"],
    )


def resolve_profile(fields: GeminiFields) -> OwnProfile:
    """Return what agents read about the model before they choose how to use it."""
    every = spelled_as_fields(fields.model_kwargs)
    way = every.get("tool_calling", fields.tool_calling)
    called = capabilities_of(fields.model_family or every.get("model") or fields.model)
    family = fields.model_family or fields.model
    return OwnProfile(profile_of(family, is_prompted=_is_prompted(way, called)))


def _is_prompted(way: str | None, capabilities: Capabilities) -> bool:
    if way in {"auto", None}:
        return not capabilities.calls_functions
    return way == "prompted"


def _resolve_tools(
    given: Mapping[str, Any], capabilities: Capabilities
) -> tuple[tuple[Tool, ...], ToolChoice]:
    tools = bind_tools(given.get("tools") or ())
    if tools:
        _check_tools(tools, capabilities)
    choice, config = given.get("tool_choice"), given.get("tool_config")
    if config is None and isinstance(choice, str | bool | None):
        return tools, _choose_once(choice, tools, capabilities)
    return tools, resolve_tool_choice(choice, tools, capabilities, config)


# An agent sends the same tools at every step: they are checked and chosen when they are bound.


@lru_cache(maxsize=128)
def _check_tools(tools: tuple[Tool, ...], capabilities: Capabilities) -> None:
    # Loads what is known about schemas, which a call without tools never needs.
    from langchain_gemini_tools.wire.tools.lint import reject_unusable_tools

    reject_unusable_tools(tools, capabilities)


_choose_once = lru_cache(maxsize=128)(resolve_tool_choice)


def _join_levels(
    fields: GeminiFields, stop: list[str] | None, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    options = {name: getattr(fields, name) for name in OPTION_FIELDS}
    every, given = fields.model_kwargs, canonical_options(kwargs)
    if every:
        every = canonical_options(_without_cancelled(every, given))
    if options["thinking_config"] is not None:
        options = _with_config_unpacked(_without_cancelled(options, every, given))
    for level in filter(None, (every, given)):
        _join(options, level, _ALTERNATIVES)
    # What is bound as `stop_sequences` arrives as `stop`, so this is set by the call itself.
    if stop is not None and kwargs.get("stop_sequences") is None:
        options["stop"] = _checked("stop", stop)
    return _with_one_effort(options)


def _with_one_effort(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with a thinking level or a budget: of two at one level, the former."""
    if options["reasoning_effort"] is None or options["thinking_budget"] is None:
        return options
    warnings.warn(
        "Both 'thinking_level' (reasoning_effort) and 'thinking_budget' are set. 'thinking_level' "
        "takes precedence; 'thinking_budget' is ignored.",
        UserWarning,
        stacklevel=2,
    )
    return {**options, "thinking_budget": None}


def _join(
    options: dict[str, Any], nearer: Mapping[str, Any], alternatives: Mapping[str, set[str]]
) -> None:
    """Let the nearer level override the options, including alternatives to what it sets."""
    for name in nearer.keys() & alternatives.keys():
        if nearer[name] is not None:
            options |= dict.fromkeys(options.keys() & alternatives[name] - nearer.keys())
    options |= nearer


def _without_cancelled(options: Mapping[str, Any], *nearer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without the configs that a nearer level sets to None."""
    return {
        name: value
        for name, value in options.items()
        if name not in _CONFIGS or all(level.get(name, ...) is not None for level in nearer)
    }


def _with_config_unpacked(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the content of `thinking_config`, which the other fields override."""
    unpacked = unpack_config("thinking_config", fields.pop("thinking_config", None) or {})
    is_set = {name: value for name, value in fields.items() if value is not None}
    return {**fields, **unpacked, **is_set}


# One level


def spelled_as_fields(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names of their fields, unchecked."""
    named = {_NAMES.get(key, key): value for key, value in kwargs.items()}
    if (config := named.pop("generation_config", None)) is not None:
        named = {**unpack_config("generation_config", config), **named}
    return named


def override(bound: Mapping[str, Any], nearer: Mapping[str, Any]) -> dict[str, Any]:
    """Return bound options with others on top, which apply under every name of an option.

    Of two names for one option and of two alternatives only the nearer one stays, so that a call
    can override it in turn.
    """
    names = {_NAMES.get(key, key): value for key, value in nearer.items()}
    replaced = set(names).union(
        *(_ALTERNATIVES_IN_A_LEVEL.get(name, ()) for name in names if names[name] is not None)
    )
    kept = {key: bound[key] for key in bound if _NAMES.get(key, key) not in replaced}
    return {**kept, **nearer}


def canonical_options(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under the names of their fields, with the values that the fields would have.

    Raises:
        InvalidOptionError: An option is unknown or has an invalid value.
    """
    options: dict[str, Any] = {}
    if "functions" in kwargs:
        kwargs = _without_functions(kwargs)
    for key, value in kwargs.items():
        name = _NAMES.get(key, key)
        if name in _JOINED:
            is_config = name in _CONFIGS and value is not None
            level = unpack_config(name, value) if is_config else {name: value}
            level = {each: _checked(each, given) for each, given in level.items()}
            _join(options, level, _ALTERNATIVES_IN_A_LEVEL)
        elif name in _CHECKED:
            options[name] = _checked(name, value)
        elif name in _KNOWN_OPTIONS:
            options[name] = value
        elif name in GeminiFields.model_fields:
            raise InvalidOptionError(f"{key!r} can only be set on the model, not per call.")
        elif name not in _IGNORED and not name.startswith("ls_"):
            raise InvalidOptionError(unknown_option(key, _KNOWN_OPTIONS | set(_NAMES)))
    return options


def _without_functions(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with `functions` under its new name; `tools` beside it apply."""
    warnings.warn(
        "'functions' is deprecated; use bind_tools(...), or 'tools'.",
        DeprecationWarning,
        stacklevel=2,
    )
    named = {key: value for key, value in kwargs.items() if key != "functions"}
    return {**named, "tools": named.get("tools") or kwargs["functions"]}


def _checked(name: str, value: Any) -> Any:
    if value is None:
        return _DEFAULTS.get(name)
    if name not in _CHECKED or isinstance(value, OwnLevel):
        return value
    is_hashable = isinstance(value, (str, int, float))
    return _check_once(name, value) if is_hashable else _check(name, value)


def _check(name: str, value: Any) -> Any:
    """Return what the field would contain."""
    if name == "stop" and isinstance(value, str):
        return [value]
    try:
        return _adapter(name).validate_python(value)
    except ValidationError as error:
        reasons = dict.fromkeys(each["msg"] for each in error.errors(include_url=False))
    raise InvalidOptionError(f"{name}={str(value)[:80]!r} is not valid: {'; '.join(reasons)}.")


# The same few values come with every call of an agent; 1, 1.0 and True are different keys.
_check_once = lru_cache(maxsize=256, typed=True)(_check)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = GeminiFields.model_fields[name]
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    return TypeAdapter(annotation, config=ConfigDict(extra="forbid"))
