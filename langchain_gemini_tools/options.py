"""The options of one call: which exist, under which names, and which level applies.

The constructor, `model_kwargs`, `bind` and each call accept the same options. The nearer level
applies: constructor < `model_kwargs` < `bind` < call. `resolve` joins them once per invocation.
What they mean for the model is decided in `wire/invocation.py`.
"""

from __future__ import annotations

import warnings
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from langchain_gemini_tools.errors import GeminiAuthenticationError, InvalidOptionError
from langchain_gemini_tools.facts.credentials import REDACTED, PrivateHeaders
from langchain_gemini_tools.facts.json_values import camel, snake
from langchain_gemini_tools.facts.models import (
    DEFAULT_TIMEOUT_SECONDS,
    capabilities_of,
    profile_of,
)
from langchain_gemini_tools.field_values import Option, OwnProfile, same_option, unknown_option
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM, GeminiFields
from langchain_gemini_tools.wire.generation import RENDERED_OPTIONS, OwnLevel, plain, unpack_config
from langchain_gemini_tools.wire.invocation import Invocation, is_prompted, resolve_invocation
from langchain_gemini_tools.wire.tools.builtin import check_extra_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.access import GeminiAccess

_OPTIONS = {
    name: mark
    for name, field in GeminiFields.model_fields.items()
    for mark in field.metadata
    if isinstance(mark, Option)
}
OPTION_FIELDS = tuple(_OPTIONS)
"""The fields that a call may set as well."""
_option_values = itemgetter(*OPTION_FIELDS)

_CALL_ONLY = frozenset(
    {
        "tools",
        "tool_choice",
        "tool_config",
        "continuation_token",
        "interaction_id",
        "response_format",
        "generation_config",
        "additional_headers",
        "http_options",
    }
)
"""Options of a call that do not replace a field."""

PRIVATE_OPTIONS = frozenset({"additional_headers", "http_options"})
"""Options that may be credentials: they are hidden in bindings, traces and keys of caches."""
_MAY_HAVE_CREDENTIALS = PRIVATE_OPTIONS | {"extra_body"}

_DECISIVE_FIELDS = ("model_family", "output_version")
"""Fields that are not options, and that decide what options mean."""

_KNOWN_OPTIONS = _CALL_ONLY | _OPTIONS.keys()
_PLAIN = frozenset(name for name in _OPTIONS if _OPTIONS[name].sent_in == "generationConfig")
_GENERATION_OPTIONS = RENDERED_OPTIONS | _PLAIN
_BODY_OPTIONS = tuple(name for name in _OPTIONS if _OPTIONS[name].sent_in == "body")

_IGNORED = {"stream", "parallel_tool_calls", "strict"}
"""Keywords that LangChain and agents pass along, and that are not options of Gemini."""

_NAMES = FIELDS_BY_SYNONYM | {"functions": "tools"}
"""Every other name of an option; `functions` is older than `tools`."""

_CHECKED = frozenset(
    name for name in OPTION_FIELDS if GeminiFields.model_fields[name].annotation is not Any
) - {"extra_body"}
"""Options that are validated as the constructor validates them; `wire` reads the others."""

_NEVER_NONE = ("model", "max_retries")
"""Options that a call sets to None to use what the model has."""

_DEFAULTS = {
    name: GeminiFields.model_fields[name].default
    for name in _OPTIONS.keys() - {*_NEVER_NONE}
    if type(None) not in get_args(GeminiFields.model_fields[name].annotation)
}
"""What None means for a field that cannot be None."""


# Levels

_CONFIGS = ("thinking_config", "generation_config")

_EFFORTS = {"reasoning_effort": {"thinking_budget"}, "thinking_budget": {"reasoning_effort"}}
_FORMATS_IN_A_LEVEL = {
    "response_format": {"response_schema", "response_mime_type"},
    "response_schema": {"response_format"},
    "response_mime_type": {"response_format"},
}
_ALTERNATIVES_IN_A_LEVEL = _EFFORTS | _FORMATS_IN_A_LEVEL
"""Options of which the API accepts one: the one that is set later applies."""

_ALTERNATIVES = _ALTERNATIVES_IN_A_LEVEL | {
    "response_schema": {"response_format", "response_mime_type"},
    "response_mime_type": {"response_format", "response_schema"},
}
"""The same between levels, where a schema and a type that are set together belong together."""

_JOINED = frozenset({*_ALTERNATIVES, *_CONFIGS})


# LangChain passes bound options to the model together with those of the call. A thinking level or
# budget that is bound has a type that says so: the call may set the other one of the two.


class _BoundText(str):
    __slots__ = ()


class _BoundNumber(int):
    __slots__ = ()


class _BoundConfig(dict[str, Any]):
    __slots__ = ()


_BOUND_TYPES: dict[type, type] = {str: _BoundText, int: _BoundNumber, dict: _BoundConfig}
_BOUND = tuple(_BOUND_TYPES.values())


def mark_bound(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return options to bind, in which those that say how much to think are marked as bound."""
    marked = dict(kwargs)
    for key in kwargs:
        if FIELDS_BY_SYNONYM.get(key, key) in {*_EFFORTS, *_CONFIGS}:
            value = plain(kwargs[key])  # enums and configs of the SDK
            if kind := _BOUND_TYPES.get(type(value)):
                marked[key] = kind(value)
    return marked


def resolve(fields: GeminiAccess, stop: list[str] | None, kwargs: Mapping[str, Any]) -> Invocation:
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
    given |= {name: getattr(fields, name) for name in _DECISIVE_FIELDS}
    cached = given["cached_content"]
    is_set = {name: value for name, value in given.items() if value is not None}
    return resolve_invocation(
        given,
        generation={name: is_set[name] for name in sorted(_GENERATION_OPTIONS & is_set.keys())},
        body={camel(name): is_set[name] for name in _BODY_OPTIONS if name in is_set},
        vertexai=fields.uses_vertexai,
        cache=fields.cache_in_use(cached) if cached else None,
    )


def resolve_profile(fields: GeminiAccess) -> OwnProfile:
    """Return what agents read about the model before they choose how to use it."""
    every = spelled_as_fields(fields.model_kwargs)
    way = every.get("tool_calling", fields.tool_calling)
    called = capabilities_of(fields.model_family or every.get("model") or fields.model)
    family = fields.model_family or fields.model
    return OwnProfile(profile_of(family, is_prompted=is_prompted(way, called)))


def option_values(fields: GeminiFields) -> dict[str, Any]:
    """Return the values of the fields that are options.

    They are read from the dict of the model: `getattr` takes ten times as long.
    """
    try:
        return dict(zip(OPTION_FIELDS, _option_values(fields.__dict__), strict=True))
    except KeyError:  # in a subclass, one of them may be a class variable
        return {name: getattr(fields, name) for name in OPTION_FIELDS}


def _join_levels(
    fields: GeminiAccess, stop: list[str] | None, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    options = option_values(fields)
    if fields.timeout == DEFAULT_TIMEOUT_SECONDS and "timeout" not in fields.model_fields_set:
        del options["timeout"]  # the model decides
    every, given = fields.model_kwargs, canonical_options(kwargs)
    if every:
        every = canonical_options(set_together(_without_cancelled(every, given)))
    if options["thinking_config"] is not None:
        options = _with_config_unpacked(_without_cancelled(options, every, given))
    for level in filter(None, (every, given)):
        _join(options, level, _ALTERNATIVES)
    # What is bound as `stop_sequences` arrives as `stop`, so this is set by the call itself.
    if stop is not None and kwargs.get("stop_sequences") is None:
        options["stop"] = _checked("stop", stop)
    for name in _NEVER_NONE:
        if options[name] is None:
            options[name] = getattr(fields, name)
    return _with_one_effort(options)


def _with_one_effort(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with a thinking level or a budget: of two at one level, the former."""
    if options.get("reasoning_effort") is None or options.get("thinking_budget") is None:
        return options
    _warn_of_budget()
    return {**options, "thinking_budget": None}


def _warn_of_budget() -> None:
    warnings.warn(
        "Both 'thinking_level' (reasoning_effort) and 'thinking_budget' are set. 'thinking_level' "
        "takes precedence; 'thinking_budget' is ignored.",
        UserWarning,
        stacklevel=4,
    )


def set_together(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that are set at the same level, with a thinking level or a budget.

    The options of a call are not, because bound ones are among them.

    Raises:
        InvalidOptionError: An option has two values, under two names.
    """
    named: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in kwargs.items():
        if (name := FIELDS_BY_SYNONYM.get(key, key)) in named and named[name] != value:
            raise InvalidOptionError(same_option(keys[name], key))
        named[name] = value
        keys.setdefault(name, key)
    if named.get("reasoning_effort") is None or named.get("thinking_budget") is None:
        return dict(kwargs)
    _warn_of_budget()
    return {key: value for key, value in kwargs.items() if key != "thinking_budget"}


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
    unpacked = unpack_config("thinking_config", fields.pop("thinking_config", None) or {}, _PLAIN)
    is_set = {name: value for name, value in fields.items() if value is not None}
    return {**fields, **unpacked, **is_set}


# One level


def spelled_as_fields(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names of their fields, unchecked."""
    named = {_NAMES.get(key, key): value for key, value in kwargs.items()}
    if (config := named.pop("generation_config", None)) is not None:
        named = {**unpack_config("generation_config", config, _PLAIN), **named}
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
    if not kwargs:
        return {}
    options: dict[str, Any] = {}
    unbound_efforts: set[str] = set()
    if "functions" in kwargs:
        kwargs = rename_functions(kwargs)
    if _MAY_HAVE_CREDENTIALS & kwargs.keys():
        kwargs = hide_headers(kwargs)
    for key, value in kwargs.items():
        name = _NAMES.get(key, key)
        if name in _JOINED:
            is_config = name in _CONFIGS and value is not None
            level = unpack_config(name, value, _PLAIN) if is_config else {name: value}
            level = {each: _checked(each, given) for each, given in level.items()}
            _join(options, level, _FORMATS_IN_A_LEVEL)
            if not isinstance(value, _BOUND):
                unbound_efforts |= {each for each in _EFFORTS if level.get(each) is not None}
        elif name in _CHECKED:
            options[name] = _checked(name, value)
        elif name in _KNOWN_OPTIONS:
            options[name] = value
        elif name in GeminiFields.model_fields:
            raise InvalidOptionError(f"{key!r} can only be set on the model, not per call.")
        elif name not in _IGNORED and not name.startswith("ls_"):
            raise InvalidOptionError(unknown_option(key, _KNOWN_OPTIONS | set(_NAMES)))
    if unbound_efforts:
        if len(unbound_efforts) == 1:  # the other one is bound, or not set
            options |= dict.fromkeys(options.keys() & _EFFORTS.keys() - unbound_efforts)
        options = _with_one_effort(options)
    return options


def rename_functions(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with `functions` under its new name; `tools` beside it apply."""
    warnings.warn(
        "'functions' is deprecated; use bind_tools(...), or 'tools'.",
        DeprecationWarning,
        stacklevel=3,
    )
    named = {key: value for key, value in kwargs.items() if key != "functions"}
    return {**named, "tools": named.get("tools") or kwargs["functions"]}


# Headers

_HTTP_OPTIONS = ("headers", "timeout", "extra_body")
"""What `http_options` may set for one call."""


def hide_headers(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return options to bind: `http_options` taken apart, headers neither shown nor pickled.

    Raises:
        InvalidOptionError: A tool in `extra_body` has a credential.
    """
    hidden = {key: value for key, value in kwargs.items() if key not in PRIVATE_OPTIONS}
    for key in sorted(PRIVATE_OPTIONS & kwargs.keys()):
        given = _read_http(key, kwargs[key])
        if before := hidden.get("additional_headers"):  # both options have headers
            given["additional_headers"] = {**before, **(given.get("additional_headers") or {})}
        hidden |= given
    if hidden.get("additional_headers"):
        hidden["additional_headers"] = _read_headers(hidden["additional_headers"])
    check_extra_body(hidden.get("extra_body"))
    return hidden


def redact_headers(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return options to show, with the names of headers but not their values."""
    if _MAY_HAVE_CREDENTIALS.isdisjoint(kwargs):
        return dict(kwargs)
    shown, headers = split_headers(kwargs)
    return {**shown, "additional_headers": dict.fromkeys(headers, REDACTED)} if headers else shown


def split_headers(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the other options, and the headers that a call adds to those of the model."""
    options = hide_headers(kwargs)
    return options, options.pop("additional_headers", None) or {}


def _read_http(name: str, value: Any) -> dict[str, Any]:
    """Read `additional_headers`, or `http_options` as langchain-google-genai accepts them.

    Raises:
        InvalidOptionError: Something in it cannot be set for one call, or cannot be sent.
        GeminiAuthenticationError: The values were lost in a pickle.
    """
    if name == "additional_headers":
        return {name: _read_headers(value)}
    try:
        fields = dict(value or ())  # a dict, or the SDK's type
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise InvalidOptionError(
            f"http_options must be a dict or HttpOptions, not {kind}."
        ) from None
    given = {snake(key): fields[key] for key in fields if fields[key] is not None}
    if unknown := sorted(given.keys() - {*_HTTP_OPTIONS}):
        raise InvalidOptionError(
            f"http_options can set {', '.join(_HTTP_OPTIONS)} for one call, not "
            f"{', '.join(unknown)}. Set base_url, api_version, client_args and max_retries on the "
            "model."
        )
    options: dict[str, Any] = {}
    if "headers" in given:
        options["additional_headers"] = _read_headers(given["headers"])
    if "timeout" in given:  # in milliseconds, as in the SDK
        options["timeout"] = _checked("timeout", given["timeout"]) / 1000
    if "extra_body" in given:
        options["extra_body"] = given["extra_body"]
    return options


def _read_headers(headers: Any) -> PrivateHeaders | None:
    if headers is None:
        return None
    if isinstance(headers, PrivateHeaders):
        if not headers.is_complete:
            raise GeminiAuthenticationError(
                f"The headers {', '.join(headers)} were bound before pickling, and pickles carry "
                "no credentials. Bind them again, or pass additional_headers to the call."
            )
        return headers
    try:
        return PrivateHeaders(_adapter("additional_headers").validate_python(headers))
    except ValidationError as error:
        reasons = _reasons(error)
    # The values are not shown.
    raise InvalidOptionError(f"additional_headers is not valid: {reasons}.")


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
        reasons = _reasons(error)
    raise InvalidOptionError(f"{name}={value!r:.80} is not valid: {reasons}.")


def _reasons(error: ValidationError) -> str:
    messages = [each["msg"].removeprefix("Value error, ").rstrip(".") for each in error.errors()]
    return "; ".join(dict.fromkeys(messages))


# The same few values come with every call of an agent; 1, 1.0 and True are different keys.
_check_once = lru_cache(maxsize=256, typed=True)(_check)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = GeminiFields.model_fields[name]
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    return TypeAdapter(annotation, config=ConfigDict(extra="forbid"))
