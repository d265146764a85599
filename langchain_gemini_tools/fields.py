"""The fields of `ChatGemini`: names, defaults, descriptions, validation, copies and pickles.

A field that is marked as an `Option` can be set for one call, too; `options.py` joins them. To add
an option of the API that is sent as it is, add its field here and its type to `arguments.py`.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from langchain_gemini_tools import __version__
from langchain_gemini_tools.client import ClientSettings
from langchain_gemini_tools.client.sdk import check_headers, find_invalid_character
from langchain_gemini_tools.errors import GeminiAuthenticationError, InvalidOptionError
from langchain_gemini_tools.facts.credentials import (
    environment_keys,
    environment_uses_vertexai,
    private_values,
)
from langchain_gemini_tools.facts.models import DEFAULT_TIMEOUT_SECONDS
from langchain_gemini_tools.wire.cache import CacheContents
from langchain_gemini_tools.wire.generation import plain, render_output_format
from langchain_gemini_tools.wire.invocation import FetchLimits
from langchain_gemini_tools.wire.tools.dialects import is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented

    from langchain_gemini_tools.arguments import FieldSynonyms

_SYNONYMS = {
    "model_name": "model",
    "gemini_api_key": "google_api_key",
    "enterprise": "vertexai",
    "client_options": "base_url",
    "default_metadata_input": "default_metadata",
    "request_timeout": "timeout",
    "retries": "max_retries",
    "max_completion_tokens": "max_output_tokens",
    "candidate_count": "n",
    "stop_sequences": "stop",
    "thinking_level": "reasoning_effort",
    "response_json_schema": "response_schema",
}
"""Names that Google's API and other integrations use, in addition to the aliases of the fields."""

_SHAPE_THE_PROFILE = frozenset({"model", "model_family", "tool_calling", "model_kwargs"})

_SDK_TYPES = ("thinking_config", "image_config", "speech_config", "safety_settings")
"""Fields that accept types of google-genai."""

_PLACES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")

_SECRET_ARGUMENTS = frozenset(
    {"auth", "cert", "cookies", "event_hooks", "headers", "mounts", "params", "transport"}
)
"""Arguments of an HTTP client that are credentials, or objects that may contain them."""


class Option(NamedTuple):
    """Marks a field that `bind` and each call may set as well."""

    sent_in: Literal["generationConfig", "body"] | None = None
    """The object that has the option, under its own name in camelCase. None: it is rendered by a
    module of `wire`, or it is not sent."""


CALL = Option()
GENERATION = Option("generationConfig")
BODY = Option("body")


def _read_tier(tier: Any) -> Any:
    """Read the SDK's enum and the API's longer spelling, `SERVICE_TIER_FLEX`."""
    value = getattr(tier, "value", tier)
    if not isinstance(value, str):
        return value
    word = value.lower().removeprefix("service_tier_")
    return None if word == "unspecified" else word


if TYPE_CHECKING:

    class _ChatModel(BaseChatModel, FieldSynonyms): ...

else:
    _ChatModel = BaseChatModel


class FoundKey(SecretStr):
    """A key from the environment, in contrast to one that was passed."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretStr):
            return False
        return other.get_secret_value() == self.get_secret_value()

    __hash__ = SecretStr.__hash__


class OwnProfile(dict[str, Any]):
    """A profile that follows the model, in contrast to one that was passed."""


def _find_key() -> FoundKey | None:
    value = next(iter(environment_keys()), None)
    return FoundKey(value) if value else None


MAX_SECONDS = 1_000_000.0
"""Eleven days. Sockets accept no more than 24 days; `None` means no limit."""

_PLACE = re.compile(r"[\w.:-]+", re.ASCII)
_MODEL_NAME = re.compile(r"[\w.@:-]+(?:/[\w.@:-]+)*", re.ASCII)


def _check_model_name(name: str) -> str:
    """Reject a name that would change the URL of the request: it becomes a part of its path."""
    if _MODEL_NAME.fullmatch(name) and not {".", ".."} & set(name.split("/")):
        return name
    raise ValueError(
        f"{name[:80]!r} is not a valid name of a model: use letters, digits, '.', '_', '-', '@', "
        "':' and single slashes"
    )


def _check_place(value: str | None) -> str | None:
    """Reject what would change the URL of the request: the location is a part of its host."""
    if not value or (_PLACE.fullmatch(value) and ".." not in value):
        return value
    raise ValueError(f"{value[:80]!r} is not valid: use letters, digits, '-', '_', '.' and ':'")


Place = Annotated[str | None, AfterValidator(_check_place)]


class GeminiFields(_ChatModel):
    """The fields of `ChatGemini`, without its methods."""

    model_config = ConfigDict(
        populate_by_name=True,
        arbitrary_types_allowed=True,
        extra="forbid",
        hide_input_in_errors=True,  # a rejected value may be next to a key
        defer_build=True,  # only `ChatGemini` is validated
    )

    model: Annotated[str, AfterValidator(_check_model_name), CALL] = Field(
        description="Name of the model, such as `gemini-3.8-flash`."
    )
    model_family: str | None = Field(
        default=None,
        description="Name of a model whose rules apply, if `model` does not show its family "
        "(tuned models, endpoints).",
    )

    api: Annotated[Literal["generate_content", "interactions"], CALL] = Field(
        default="generate_content",
        description="The API of Gemini to use: `generate_content`, or the Interactions API. "
        "Messages and tools are the same.",
    )
    store: Annotated[bool | None, CALL] = Field(
        default=None,
        description="Interactions API: let Google keep the interaction. By default it does not, "
        "unless `use_previous_interaction` is set.",
    )
    use_previous_interaction: Annotated[bool, CALL] = Field(
        default=False,
        description="Interactions API: send only the messages after the last one that Google has "
        "kept, with its id. If the messages before were changed, all are sent. Implies `store`.",
    )

    background: Annotated[bool, CALL] = Field(
        default=False,
        description="Interactions API: start the interaction, and read it until it has ended, so "
        "that it may take longer than a connection. Implies `store`. A stream has one piece.",
    )
    background_timeout: Annotated[float | None, CALL] = Field(
        default=3600.0,
        gt=0,
        le=MAX_SECONDS,
        description="Seconds that an interaction in the background may take before it is "
        "cancelled. `None` disables the limit.",
    )
    agent: Annotated[bool, CALL] = Field(
        default=False,
        description="Interactions API: `model` is the name of an agent, such as Deep Research. "
        "Implies `background`. Settings of an agent are `extra_body={'agent_config': ...}`.",
    )

    # Access

    google_api_key: SecretStr | None = Field(
        alias="api_key",
        default_factory=_find_key,
        description="API key. Defaults to `GOOGLE_API_KEY` or `GEMINI_API_KEY` in the environment.",
    )
    vertexai: bool | None = Field(
        default=None,
        description="Use Vertex AI instead of the Gemini Developer API. Defaults to "
        "`GOOGLE_GENAI_USE_VERTEXAI` in the environment, or to Vertex AI if `project` or "
        "`credentials` are given. A key that is passed is used with either API; a key from the "
        "environment is used with Vertex AI only if no project, location or credentials are given.",
    )
    project: Place = Field(
        default=None,
        description="Google Cloud project, for Vertex AI; else ignored. Defaults to the project of "
        "`credentials`.",
    )
    location: Place = Field(
        default=None,
        description="Google Cloud location, for Vertex AI, such as `global`; else ignored.",
    )
    credentials: Any = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Credentials of `google.auth`, for Vertex AI.",
    )
    base_url: str | dict[str, Any] | None = Field(
        default=None, description="Address of the API, for proxies and tests."
    )
    api_version: Place = Field(default=None, description="Version of the API, such as `v1beta`.")
    additional_headers: Annotated[dict[str, str] | None, AfterValidator(check_headers)] = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Headers to add to every request. A call may add or replace some.",
    )
    default_metadata: list[tuple[str, str]] | None = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Headers to add to every request, as pairs.",
    )
    client_args: dict[str, Any] | None = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Arguments for the HTTP client: `verify`, `proxy`, `limits`, `transport`, …",
    )
    async_client_args: dict[str, Any] | None = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Arguments for the async HTTP client, added to `client_args`.",
    )
    timeout: Annotated[float | None, CALL] = Field(
        default=DEFAULT_TIMEOUT_SECONDS,
        gt=0,
        le=MAX_SECONDS,
        description="Seconds for a whole request, or between two events of a stream. If it is not "
        "set, 600, or 1200 for `gemini-4-argon`. `None` disables the limit. Each request of a long "
        "response has this time.",
    )
    stream_timeout: Annotated[float | None, CALL] = Field(
        default=3600.0,
        gt=0,
        le=MAX_SECONDS,
        description="Seconds that a stream may keep its reader waiting in total. `None` disables "
        "the limit. Each stream of a long response has this time.",
    )
    max_retries: Annotated[int, CALL] = Field(
        default=6,
        ge=0,
        description="How often a failed request is retried; 0 sends it once. Each request of a "
        "long response has this many retries.",
    )
    max_retry_delay: Annotated[float, CALL] = Field(
        default=60.0,
        ge=0,
        le=MAX_SECONDS,
        description="Seconds. If the API asks for a longer delay before a retry, the call fails "
        "at once.",
    )

    # Sampling

    temperature: Annotated[float | None, GENERATION] = Field(
        default=None,
        ge=0.0,
        le=2.0,
        description="Randomness of sampling, from 0 to 2. Ignored from Gemini 3.6 on.",
    )
    top_p: Annotated[float | None, GENERATION] = Field(
        default=None, ge=0.0, le=1.0, description="Sample from tokens up to this probability."
    )
    top_k: Annotated[int | None, GENERATION] = Field(
        default=None, gt=0, description="Sample from this many of the likeliest tokens."
    )
    max_output_tokens: Annotated[int | None, GENERATION] = Field(
        alias="max_tokens",
        default=None,
        description="Maximum number of tokens in a response, thinking included.",
    )
    n: Annotated[int, CALL] = Field(
        default=1, ge=1, description="Number of candidates, on models before Gemini 3."
    )
    stop: Annotated[list[str] | None, CALL] = Field(
        default=None, description="Texts at which the response ends, at most five."
    )
    seed: Annotated[int | None, GENERATION] = Field(default=None, description="Seed for sampling.")
    presence_penalty: Annotated[float | None, GENERATION] = Field(
        default=None, ge=-2.0, le=2.0, description="Penalty for tokens that have occurred."
    )
    frequency_penalty: Annotated[float | None, GENERATION] = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Penalty for tokens by how often they have occurred.",
    )
    response_logprobs: Annotated[bool | None, GENERATION] = Field(
        default=None, description="Return log probabilities of the tokens."
    )
    logprobs: Annotated[int | None, GENERATION] = Field(
        default=None, description="Number of likeliest tokens to return log probabilities for."
    )

    # Thinking

    reasoning_effort: Annotated[str | None, CALL] = Field(
        default=None,
        description="`none`, `minimal`, `low`, `medium` or `high`, as far as the model has "
        "them: see its `profile`. Converted to a token budget on models before Gemini 3.",
    )
    thinking_budget: Annotated[int | None, CALL] = Field(
        default=None,
        description="Tokens for thinking; 0 for none, -1 for no limit. Gemini 4 has only levels.",
    )
    include_thoughts: Annotated[bool | None, CALL] = Field(
        default=None, description="Return summaries of the model's thoughts."
    )
    thinking_config: Annotated[Any, CALL] = Field(
        default=None, description="`thinkingConfig` as the API or the SDK defines it."
    )

    # Output and context

    response_mime_type: Annotated[str | None, GENERATION] = Field(
        default=None, description="`application/json` for JSON output."
    )
    response_schema: Annotated[Any, CALL] = Field(
        default=None, description="A Pydantic class, TypedDict or JSON schema for JSON output."
    )
    response_modalities: Annotated[list[Any] | None, GENERATION] = Field(
        default=None, description="What the model returns: `TEXT`, `IMAGE`, `AUDIO`."
    )
    media_resolution: Annotated[Any, CALL] = Field(
        default=None, description="Resolution at which media is read: `low`, `medium`, `high`."
    )
    image_config: Annotated[Any, GENERATION] = Field(
        default=None, description="`imageConfig` as the API or the SDK defines it."
    )
    speech_config: Annotated[Any, GENERATION] = Field(
        default=None, description="`speechConfig` as the API or the SDK defines it."
    )
    audio_timestamp: Annotated[bool | None, GENERATION] = Field(
        default=None, description="Let the model refer to times in audio, on Vertex AI."
    )
    safety_settings: Annotated[Any, CALL] = Field(
        default=None, description="A dict of categories and thresholds, or the API's own list."
    )
    cached_content: Annotated[str | None, CALL] = Field(
        default=None, description="Name of a context cache, `cachedContents/…`."
    )
    automatic_continuation: Annotated[bool, CALL] = Field(
        default=True,
        description="Continue a response that ends with CONTINUATION (Gemini 4) in further "
        "requests, at most 64, and return all of it as one message. `timeout`, `stream_timeout` "
        "and `max_retries` apply to each request, `max_output_tokens` to the whole response; "
        "usage is the sum. With several candidates (`n`), nothing is continued. `False` returns "
        'the first part, with `response_metadata["continuation_token"]` for the option '
        "`continuation_token` of the next call; its tool calls, if any, are `invalid_tool_calls`.",
    )
    labels: Annotated[dict[str, str] | None, BODY] = Field(
        default=None, description="Labels for billing, on Vertex AI."
    )
    service_tier: Annotated[
        Literal["flex", "priority", "standard"] | None, BeforeValidator(_read_tier), BODY
    ] = Field(
        default=None,
        description="Price and speed of the request: `flex` is cheaper and may wait, `priority` is "
        "faster and costs more. The tier that was used is in `response_metadata`.",
    )
    model_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="More options for every call, under the names of these fields.",
    )
    extra_body: Annotated[dict[str, Any] | None, CALL] = Field(
        default=None, description="Request fields that this package does not know."
    )

    # Behavior

    fetch_urls: Annotated[bool | FetchLimits, CALL] = Field(
        default=False,
        description="Download media that messages name by URL, within `FetchLimits`. By default "
        "URLs are sent to the API, which accepts `gs://`, its own files, YouTube and public "
        "addresses.",
    )
    tool_schema: Annotated[Literal["json_schema", "openapi"] | None, CALL] = Field(
        default=None,
        description="Send schemas of tools as JSON Schema, or as the API's older Schema message. "
        "Defaults to JSON Schema if the model accepts it.",
    )
    tool_calling: Annotated[Literal["auto", "native", "prompted"], CALL] = Field(
        default="auto",
        description="Declare tools to the API, or describe them in the prompt. By default they are "
        "prompted only if the model has no function calling (Gemma 3). Messages, tool calls and "
        "results look the same either way.",
    )
    tool_prompt: Annotated[str | None, CALL] = Field(
        default=None,
        description="Template that describes prompted tools, with `$tools`, `$choice` and "
        "optionally `$example`; see `TOOL_PROMPT`.",
    )
    streaming: bool | None = Field(
        default=None, description="Let `invoke` read the response as a stream."
    )
    convert_system_message_to_human: Annotated[bool, CALL] = Field(
        default=False, description="Send system messages as the first user text."
    )
    on_broken_history: Annotated[Literal["repair", "raise"], CALL] = Field(
        default="repair",
        description="Repair messages that the API would reject (`preview` shows how), or raise.",
    )
    on_malformed: Annotated[Literal["retry", "raise", "return"], CALL] = Field(
        default="retry",
        description="What to do with a malformed tool call, a call of an unavailable tool, a call "
        "that was written as text (a `tool_code` block, for one) or an empty response. `retry` "
        "requests it once more with feedback, and then raises; if `max_retries` is 0 it raises at "
        "once, except that an empty response without tools is returned with "
        '`response_metadata["empty_response"]`. `return` returns it with its `finish_reason`; a '
        "written call is in its `invalid_tool_calls`. With prompted tools, a response is malformed "
        "if it lacks a tool call that `tool_choice` requires, or has only invalid ones; the latter "
        "is returned after the retry. Only a complete response has `tool_calls`: a truncated or "
        "blocked one with calls raises `TruncatedResponseError` or `BlockedError` without a retry, "
        "and with `return` its calls are `invalid_tool_calls`. Truncated or blocked text without "
        "calls is returned with its `finish_reason`, also where LangChain shows it as a refusal; "
        "if nothing is left of a blocked response, `BlockedError` is raised.",
    )

    _left_out: tuple[str, ...] = PrivateAttr(default=())
    """Fields that a pickle did not carry."""
    _key_was_found: bool = PrivateAttr(default=False)
    """Whether the key that a pickle did not carry came from the environment."""

    def __new__(cls, *unnamed: object, **_: object) -> Self:  # noqa: D102 - editors would show it
        if unnamed:
            name = cls.__name__
            raise TypeError(
                f"{name} accepts keyword arguments only: use {name}(model='gemini-3.8-flash')."
            )
        return super().__new__(cls)

    _cache_contents: CacheContents | None = PrivateAttr(default=None)
    """What the context cache contains, if it is known."""

    def cache_in_use(self, name: str | None) -> CacheContents | None:
        """Return what a context cache contains, if it is known.

        Args:
            name: The name of the cache.
        """
        known = self._cache_contents
        return known if known and known.name == name else None

    def __init__(self, **arguments: Any) -> None:
        rejected: ValidationError | None = None
        try:
            super().__init__(**arguments)
        except ValidationError as error:
            rejected = _without_inputs(error)
        if rejected:
            del arguments  # a traceback may show locals
            raise rejected

    # Validation

    @field_validator("google_api_key", mode="wrap")
    @classmethod
    def _keep_found_keys(cls, key: Any, validate: Any) -> Any:
        # A model made from the fields of another model has found its key, too.
        return key if isinstance(key, FoundKey) else validate(key)

    @field_validator("google_api_key")
    @classmethod
    def _check_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key and (reason := find_invalid_character(key.get_secret_value())):
            raise ValueError(f"The API key is not valid: {reason}. Copy it again.")
        return key

    @field_validator(*_SDK_TYPES, mode="before")
    @classmethod
    def _store_sdk_types_as_dicts(cls, value: Any) -> Any:
        # Stored models are JSON.
        return _as_dict(value)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, address: Any) -> Any:
        _check_address(address)
        return address

    @model_validator(mode="before")
    @classmethod
    def _rename_arguments(cls, values: Any) -> Any:
        """Replace synonyms by names of fields.

        Raises:
            ValueError: An argument does not exist, or it was passed under two names.
        """
        if not isinstance(values, dict):
            return values
        arguments: dict[str, Any] = {}
        for key, value in values.items():
            name = FIELDS_BY_SYNONYM.get(key, key)
            if name not in cls.model_fields:
                raise ValueError(unknown_option(key, cls.model_fields.keys() | FIELDS_BY_SYNONYM))
            if name in arguments and _revealed(arguments[name]) != _revealed(value):
                raise ValueError(f"{name!r} was passed twice, under two names.")
            arguments[name] = value
        return arguments

    @field_validator("model_kwargs")
    @classmethod
    def _check_model_kwargs(cls, options: dict[str, Any]) -> dict[str, Any]:
        from langchain_gemini_tools.options import PRIVATE_OPTIONS, canonical_options

        if private := sorted(PRIVATE_OPTIONS & options.keys()):
            raise ValueError(
                f"model_kwargs must not contain {', '.join(private)}, because repr and traces show "
                "it. Use the field additional_headers instead."
            )
        canonical_options(options)
        return options

    @field_validator("tool_prompt")
    @classmethod
    def _check_tool_prompt(cls, template: str | None) -> str | None:
        if not template:
            return template
        from langchain_gemini_tools.prompted.prompt import check_template

        return check_template(template)

    @field_validator("profile", mode="before")
    @classmethod
    def _drop_own_profile(cls, profile: Any) -> Any:
        # It comes from the fields of another model, and is computed again for this one.
        return None if isinstance(profile, OwnProfile) else profile

    @model_validator(mode="after")
    def _find_project(self) -> Self:
        # Service accounts belong to a project.
        if self.project is None and isinstance(
            project := getattr(self.credentials, "project_id", None), str
        ):
            self.project = project
        return self

    @model_validator(mode="after")
    def _set_gemini_tools_version(self) -> Self:
        self._add_version("langchain-gemini-tools", __version__)
        return self

    # Reading, changes and copies

    if not TYPE_CHECKING:  # otherwise every name would be an attribute for type checkers

        def __getattr__(self, name: str) -> Any:
            if field := FIELDS_BY_SYNONYM.get(name):
                return getattr(self, field)
            return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        """Compare the fields; clients and caches do not matter."""
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        name = FIELDS_BY_SYNONYM.get(name, name)
        super().__setattr__(name, _as_secret(name, value))
        if name in _SHAPE_THE_PROFILE:
            self._renew_profile()

    def _renew_profile(self) -> None:
        """Let the profile follow the model, unless it was passed."""
        if isinstance(self.profile, OwnProfile):
            self.profile = self._resolve_model_profile()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields.

        Args:
            update: Fields to change, under any of their names.
            deep: Copy the values of the fields, too.

        Raises:
            InvalidOptionError: A field does not exist.
        """
        changes: dict[str, Any] = {}
        for key, value in (update or {}).items():
            name = FIELDS_BY_SYNONYM.get(key, key)
            if name not in type(self).model_fields:
                raise InvalidOptionError(unknown_option(key, type(self).model_fields))
            changes[name] = _as_secret(name, value)
        copied = super().model_copy(update=changes, deep=deep)
        if changes.keys() & _SHAPE_THE_PROFILE:
            copied._renew_profile()  # noqa: SLF001 - of the same class
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # Credentials cannot be copied: a copy uses the same.
        shared = {id(self.credentials): self.credentials} if self.credentials is not None else {}
        return super().__deepcopy__({**(memo or {}), **shared})

    # Pickles may be stored and read by others: no credential goes into one.

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        fields = {**state["__dict__"], "google_api_key": self._key_in_use}
        left_out = tuple(
            name
            for name, value in fields.items()
            if _has_credential(name, value) or (value is None and name in self._left_out)
        )
        fields = {name: value for name, value in fields.items() if name not in left_out}
        if "credentials" in left_out:
            fields["vertexai"] = self.uses_vertexai  # which the credentials decided
        private = {**(state["__pydantic_private__"] or {}), "_gemini": None}
        private["_left_out"] = left_out
        if self.google_api_key:
            private["_key_was_found"] = self._passed_key is None
        return {**state, "__dict__": fields, "__pydantic_private__": private}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields, private = type(self).model_fields, state["__pydantic_private__"]
        found = {
            name: fields[name].get_default(call_default_factory=True)
            for name in private["_left_out"]
        }
        if "google_api_key" in found and not private["_key_was_found"]:
            # The environment in which it is loaded may have the key of another account.
            found["google_api_key"] = None
        super().__setstate__({**state, "__dict__": {**found, **state["__dict__"]}})

    def _check_unpickled(self) -> None:
        """Require the credentials that a pickle did not carry.

        Raises:
            GeminiAuthenticationError: Fields that have to be set again.
        """
        # Without `credentials`, Vertex AI looks for them in the environment.
        missing = [
            name for name in self._left_out if getattr(self, name) is None and name != "credentials"
        ]
        if missing:
            advice = "Pass them again"
            if "google_api_key" in missing:
                advice = (
                    "Set GOOGLE_API_KEY, where the key was found, or pass them again"
                    if self._key_was_found
                    else "The key was passed to the model, so none is taken from the environment. "
                    "Pass them again"
                )
            raise GeminiAuthenticationError(
                f"This model was unpickled without {', '.join(missing)}: pickles carry no "
                f'credentials. {advice}: model.model_copy(update={{"{missing[0]}": ...}}).'
            )

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return what `dumpd` stores, without a key that is found but not used."""
        stored = super().to_json()
        if stored["type"] != "constructor":
            return stored
        kwargs = {name: _as_json(name, value) for name, value in stored["kwargs"].items()}
        kwargs.pop("api_key", None)  # core adds the key under its alias as well
        if "timeout" not in self.model_fields_set:
            kwargs.pop("timeout", None)  # the model decides
        if not self._key_in_use:
            kwargs.pop("google_api_key", None)
        return {**stored, "kwargs": kwargs}

    # Which API

    def _client_settings(self) -> ClientSettings:
        base_url = self.base_url
        if isinstance(base_url, dict):
            base_url = base_url.get("api_endpoint") or base_url.get("base_url")
        return ClientSettings(
            api_key=self._key_in_use,
            vertexai=True if self.uses_vertexai else self.vertexai,
            # The SDK rejects them for the Developer API.
            project=self.project if self.uses_vertexai else None,
            location=self.location if self.uses_vertexai else None,
            credentials=self.credentials,
            base_url=base_url,
            api_version=self.api_version,
            headers=self._own_headers,
            client_args=self.client_args or {},
            async_client_args=self.async_client_args or {},
            timeout_seconds=self.timeout,
        )

    @property
    def _own_headers(self) -> dict[str, str]:
        return {**dict(self.default_metadata or []), **(self.additional_headers or {})}

    @property
    def uses_vertexai(self) -> bool:
        """Whether requests go to Vertex AI rather than to the Gemini Developer API."""
        if self.vertexai is not None:
            return self.vertexai
        if (chosen := environment_uses_vertexai()) is not None:
            return chosen
        return bool(self.project or self.credentials)

    @property
    def _passed_key(self) -> SecretStr | None:
        """The key, unless it was found in the environment."""
        return None if isinstance(self.google_api_key, FoundKey) else self.google_api_key

    @property
    def _key_in_use(self) -> SecretStr | None:
        """The key, unless it was found and Vertex AI has other credentials, as in the SDK."""
        if not self.uses_vertexai or self._passed_key:
            return self.google_api_key
        has_place = self.project or self.location or self.credentials
        return None if has_place or any(map(os.environ.get, _PLACES)) else self.google_api_key


FIELDS_BY_SYNONYM = {
    field.alias: name for name, field in GeminiFields.model_fields.items() if field.alias
} | _SYNONYMS
"""Every other name of a field."""


_REPLACEMENTS = {
    "allowed_function_names": "Use tool_choice=[...] with the names.",
    "automatic_function_calling": "Use ToolLoop, or create_agent of LangChain.",
    "client": "Set api_key, base_url and so on; model.client is the SDK's client of this model.",
    "default_headers": "Use additional_headers.",
    "extra_headers": "Use additional_headers.",
    "function_call": "Use tool_choice.",
    "function_calling_config": "Use tool_choice, or tool_config={'function_calling_config': ...}.",
    "functions": "Use bind_tools.",
    "generation_config": "Use the fields of the model, or pass generation_config to a call.",
    "headers": "Use additional_headers.",
    "http_options": "Use additional_headers, timeout, base_url and api_version on the model.",
    "response_format": "Use response_schema, or with_structured_output.",
    "safety_filters": "Use safety_settings.",
    "system_instruction": "Put a SystemMessage before the other messages.",
    "thinking": "Use reasoning_effort, thinking_budget or include_thoughts.",
    "tool_choice": "Use bind_tools(tools, tool_choice=...).",
    "tool_config": "Use bind_tools(tools, tool_config=...).",
    "tools": "Use bind_tools.",
    "top_logprobs": "Use logprobs.",
    "transport": "Requests always use REST. client_args={'transport': ...} is for an HTTP client.",
}
"""Arguments of Google's SDKs and of other integrations, and what to use here."""


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the message for an option that does not exist, with what may have been meant."""
    return f"ChatGemini has no option {name!r}.{_hint(name, known)}"


def _hint(name: str, known: Iterable[str]) -> str:
    if name in _REPLACEMENTS:
        return f" {_REPLACEMENTS[name]}"
    if is_builtin(name):
        return f' It is a tool: use bind_tools([{{"{name}": {{}}}}]).'
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


def _as_secret(name: str, value: Any) -> Any:
    """Wrap a key; pydantic does not validate assignments and copies."""
    return SecretStr(value) if name == "google_api_key" and isinstance(value, str) else value


def _revealed(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _as_dict(value: Any) -> Any:
    """Return SDK types, alone or in a list, as dicts under Python's names."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [_as_dict(each) for each in value] if isinstance(value, list) else value


def _as_json(name: str, value: Any) -> Any:
    """Return the value of a field as JSON that the constructor accepts."""
    match name:
        case "response_schema" if isinstance(value, type):
            return render_output_format({name: value})["responseJsonSchema"]
        case "model_kwargs" | "extra_body":
            return plain(value)
        case "fetch_urls" if isinstance(value, FetchLimits):
            return asdict(value)
    return value


def _has_credential(name: str, value: Any) -> bool:
    if not value:
        return False
    match name:
        case "google_api_key" | "credentials":
            return True
        case "additional_headers" | "default_metadata":
            return bool(private_values(dict(value)))
        case "client_args" | "async_client_args":
            proxy = value.get("proxy") or ""
            return (
                bool(value.keys() & _SECRET_ARGUMENTS) or "@" in str(proxy) or proxy != str(proxy)
            )
    return False


def _check_address(address: str | dict[str, Any] | None) -> None:
    """Reject an address with credentials: they would be shown wherever the address is.

    Raises:
        ValueError: It has a user name, a password or a query, or options that are not an address.
    """
    if isinstance(address, dict):
        if others := address.keys() - {"api_endpoint", "base_url"}:
            raise ValueError(
                f"client_options supports only 'api_endpoint', not {', '.join(sorted(others))}. "
                "Use the arguments of ChatGemini, such as api_key."
            )
        address = address.get("api_endpoint") or address.get("base_url")
    try:
        parts = urlsplit(address or "")
    except ValueError:
        return  # the first request reports it
    if "@" in parts.netloc or parts.query:
        raise ValueError(
            "base_url must not contain a user, a password or a query, which logs and repr would "
            'show. Use additional_headers={"Authorization": "Basic ..."} instead.'
        )


def _without_inputs(error: ValidationError) -> ValidationError:
    """Return the error without the values that were passed: the key may be among them.

    Numbers stay. They are not secrets, and they show what is wrong.
    """
    from pydantic_core import InitErrorDetails, PydanticCustomError

    details = [
        InitErrorDetails(
            type=PydanticCustomError(each["type"], each["msg"], _plain(each.get("ctx", {}))),
            loc=each["loc"],
            input=each["input"] if isinstance(each["input"], (int, float)) else "[not shown]",
        )
        for each in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def _plain(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that an error names, without exceptions: their frames have the values."""
    return {name: each for name, each in context.items() if not isinstance(each, Exception)}
