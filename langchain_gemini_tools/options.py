"""Every argument of `ChatGemini` and every option of a call: names, aliases, what wins over what.

The constructor, `bind` and each call take the same options, and the nearer one holds: constructor <
`model_kwargs` < `bind` < call. For that, the API's own configs are taken apart first. What the
options mean on the wire is decided in `wire/`, how the API is reached in `client`.
"""

from __future__ import annotations

import difflib
import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from langchain_core.language_models import BaseChatModel
from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from langchain_gemini_tools._version import __version__
from langchain_gemini_tools.client import ClientSettings
from langchain_gemini_tools.client.sdk import find_invalid_character
from langchain_gemini_tools.credentials import (
    FoundKey,
    check_address,
    find_key,
    split_credentials,
    without_inputs,
)
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.models import capabilities_of, profile_of
from langchain_gemini_tools.option_levels import (
    CONFIGS,
    RIVALS,
    SAME_LEVEL_RIVALS,
    TANGLED,
    join_level,
    with_config_unpacked,
    without_retracted,
)
from langchain_gemini_tools.wire.generation import GENERATION_OPTIONS, OwnLevel, unpack_config
from langchain_gemini_tools.wire.invocation import FetchLimits, Invocation
from langchain_gemini_tools.wire.tools.choice import ToolChoice, resolve_tool_choice
from langchain_gemini_tools.wire.tools.findings import refuse_unusable_tools
from langchain_gemini_tools.wire.tools.tool import bind_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.language_models import ModelProfile
    from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import SchemaForm, Tool

_SYNONYMS = {
    "model_name": "model",
    "gemini_api_key": "google_api_key",
    "enterprise": "vertexai",
    "max_completion_tokens": "max_output_tokens",
    "response_json_schema": "response_schema",
}
"""Names that other integrations use, beside the fields' own aliases."""

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
"""What a call may set besides `GENERATION_OPTIONS`."""

_TOLD_BY_PROFILE = frozenset({"model", "model_family", "tool_calling", "model_kwargs"})
"""Fields that decide what the profile says."""

_PLACES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")

_HANDLED_ELSEWHERE = {"stream", "parallel_tool_calls", "strict"}
"""Keywords that core and agents pass along and that are no options of Gemini's."""


class OwnProfile(dict[str, Any]):
    """A profile that nobody gave: it follows the model."""


class GeminiOptions(BaseChatModel):
    """The fields of `ChatGemini`, and how they join with the options of one call."""

    model_config = ConfigDict(
        populate_by_name=True,
        arbitrary_types_allowed=True,
        extra="forbid",
        hide_input_in_errors=True,  # what is refused may stand beside a key
        defer_build=True,  # `ChatGemini` is validated, never this
    )

    model: str
    """Name of the model, such as `gemini-3-flash-preview`."""
    model_family: str | None = None
    """Name of a model whose rules hold, where `model` does not tell (tuned models, endpoints)."""

    # Access

    google_api_key: SecretStr | None = Field(
        alias="api_key",
        default_factory=find_key,
    )
    vertexai: bool | None = None
    """Vertex AI instead of the Gemini Developer API.

    By default, what the environment says (`GOOGLE_GENAI_USE_VERTEXAI`), or Vertex AI when
    `project` or `credentials` are given and no key is. A key that the environment holds is used
    there only where nothing says a project, a location or credentials.
    """
    project: str | None = None
    location: str | None = None
    credentials: Any = Field(default=None, exclude=True, repr=False)
    """Credentials of `google.auth`, for Vertex AI."""
    base_url: str | dict[str, Any] | None = Field(alias="client_options", default=None)
    api_version: str | None = None
    additional_headers: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    default_metadata: list[tuple[str, str]] | None = Field(
        alias="default_metadata_input", default=None, exclude=True, repr=False
    )
    """More headers, as pairs."""
    client_args: dict[str, Any] | None = Field(default=None, exclude=True, repr=False)
    """For the HTTP client: `verify`, `proxy`, `limits`, `transport` and so on."""
    async_client_args: dict[str, Any] | None = Field(default=None, exclude=True, repr=False)
    timeout: float | None = Field(alias="request_timeout", default=600.0)
    """Seconds for a whole call, or between two events of a stream; `None` waits for ever."""
    stream_timeout: float | None = 3600.0
    """Seconds that a stream may keep its reader waiting in all, however lively it is."""
    max_retries: int = Field(alias="retries", default=6, ge=0)
    """How often a failed request is tried again; 0 sends one request."""
    max_retry_delay: float = Field(default=60.0, ge=0)
    """Seconds: where the API asks for a longer pause before a retry, the call fails at once."""

    # Sampling

    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    top_p: float | None = Field(default=None, ge=0.0, le=1.0)
    top_k: int | None = Field(default=None, gt=0)
    max_output_tokens: int | None = Field(alias="max_tokens", default=None)
    n: int = Field(alias="candidate_count", default=1, ge=1)
    stop: list[str] | None = Field(alias="stop_sequences", default=None)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None

    # Thinking

    reasoning_effort: str | None = Field(alias="thinking_level", default=None)
    """`minimal`, `low`, `medium` or `high`; a budget of tokens on models before Gemini 3."""
    thinking_budget: int | None = None
    """Tokens for thinking: 0 for none, -1 for as many as the model likes."""
    include_thoughts: bool | None = None
    thinking_config: Any = None

    # Output and context

    response_mime_type: str | None = None
    response_schema: Any = None
    """A Pydantic class, a TypedDict or a JSON schema for the answer."""
    response_modalities: list[Any] | None = None
    media_resolution: Any = None
    image_config: Any = None
    speech_config: Any = None
    audio_timestamp: bool | None = None
    safety_settings: Any = None
    """Category -> threshold, or the API's own list."""
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    """On Vertex AI only."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of every call, under their names here."""
    extra_body: dict[str, Any] | None = None
    """Fields of the request that this package does not know yet."""

    # Behaviour

    fetch_urls: bool | FetchLimits = False
    """Whether media that messages name by URL are fetched here, and within which limits.

    By default they are left to the API, which takes `gs://`, its own files, YouTube and what is
    public on the web. `True` fetches what is on the web, checked at every redirect, within the
    limits of `FetchLimits()`.
    """
    tool_schema: Literal["json_schema", "openapi"] | None = None
    """How tools' schemas are sent: as they are, or as the API's older Schema message.

    By default as they are, wherever the model takes that.
    """
    tool_calling: Literal["auto", "native", "prompted"] = "auto"
    """How tools are called: by the API's function calling, or by a prompt that describes them.

    By default by prompt only where the model has no function calling (Gemma 3). Messages, calls and
    results look the same either way.
    """
    tool_prompt: str | None = None
    """What a model is told about tools that it calls by prompt; see `TOOL_PROMPT`.

    `$tools` and `$choice` have to stand in it; `$example` may.
    """
    streaming: bool | None = None
    convert_system_message_to_human: bool = False
    on_broken_history: Literal["repair", "raise"] = "repair"
    """Whether messages that Gemini would refuse are mended (see `preview`) or refused."""
    on_malformed: Literal["retry", "raise", "return"] = "retry"
    """What becomes of a malformed call or an empty answer.

    `retry` asks once more, telling the model what was wrong, and then raises. Where `max_retries`
    is 0 it does not ask: it raises at once, but an empty answer to a call without tools is handed
    over with `response_metadata["empty_response"]`. `return` hands over both, with their
    `finish_reason`.

    By prompt, malformed is an answer without the call that `tool_choice` demands. An answer that
    holds nothing but invalid calls is asked for once more, too, and then handed over; where nobody
    asks, it raises.
    """

    _left_out: tuple[str, ...] = PrivateAttr(default=())
    """Fields that a pickle did not carry."""

    def __init__(self, *args: Any, **given: Any) -> None:
        refused: ValidationError | None = None
        try:
            super().__init__(*args, **given)
        except ValidationError as error:
            refused = without_inputs(error)
        if refused:
            del args, given  # a traceback may show locals
            raise refused

    @field_validator("google_api_key", mode="wrap")
    @classmethod
    def _let_found_keys_pass(cls, key: Any, read: Any) -> Any:
        # Who makes a model of another's fields has found the key, too.
        return key if isinstance(key, FoundKey) else read(key)

    @field_validator("google_api_key")
    @classmethod
    def _reject_invalid_keys(cls, key: SecretStr | None) -> SecretStr | None:
        if key and (reason := find_invalid_character(key.get_secret_value())):
            raise ValueError(f"The API key is not valid: {reason}. Copy it again.")
        return key

    @field_validator("base_url")
    @classmethod
    def _refuse_credentials_in_the_address(cls, address: Any) -> Any:
        check_address(address)
        return address

    @model_validator(mode="before")
    @classmethod
    def _name_the_unknown(cls, values: Any) -> Any:
        """Refuse an argument that does not exist, and say which one may have been meant."""
        if not isinstance(values, dict):
            return values
        known = set(cls.model_fields)
        aliases = {field.alias: name for name, field in cls.model_fields.items() if field.alias}
        given: dict[str, Any] = {}
        for key, value in values.items():
            name = aliases.get(key) or _SYNONYMS.get(key, key)
            if name not in known:
                raise ValueError(_unknown("ChatGemini", key, known | set(aliases)))
            if name in given and given[name] != value:
                raise ValueError(f"{name!r} is given twice, under two names.")
            given[name] = value
        return given

    @field_validator("model_kwargs")
    @classmethod
    def _check_model_kwargs(cls, options: dict[str, Any]) -> dict[str, Any]:
        canonical_options(options)
        return options

    @field_validator("tool_prompt")
    @classmethod
    def _check_tool_prompt(cls, template: str | None) -> str | None:
        if not template:
            return template
        from langchain_gemini_tools.prompted.prompt import check_template

        return check_template(template)

    @model_validator(mode="after")
    def _set_gemini_tools_version(self) -> Self:
        self._add_version("langchain-gemini-tools", __version__)
        return self

    @field_validator("profile", mode="before")
    @classmethod
    def _leave_out_own_profiles(cls, profile: Any) -> Any:
        # It comes from another model's fields, and is made anew for this one.
        return None if isinstance(profile, OwnProfile) else profile

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _sealed(name, value))
        if name in _TOLD_BY_PROFILE:
            self._renew_profile()

    def _renew_profile(self) -> None:
        """Let the profile follow the model, unless it was given."""
        if isinstance(self.profile, OwnProfile):
            self.profile = self._resolve_model_profile()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other fields, under any of their names.

        Raises:
            InvalidOptionError: There is no such field.
        """
        given: dict[str, Any] = {}
        for key, value in (update or {}).items():
            name = _ALIASES.get(key, key)
            if name not in type(self).model_fields:
                raise InvalidOptionError(_unknown("ChatGemini", key, type(self).model_fields))
            given[name] = _sealed(name, value)
        copied = super().model_copy(update=given, deep=deep)
        if given.keys() & _TOLD_BY_PROFILE:
            copied._renew_profile()  # noqa: SLF001 - it is one of us
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # They cannot be copied: a copy uses the same.
        shared = {id(self.credentials): self.credentials} if self.credentials is not None else {}
        return super().__deepcopy__({**(memo or {}), **shared})

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        fields = {**state["__dict__"], "google_api_key": self._key_in_use}
        fields, left_out = split_credentials(fields)
        if "credentials" in left_out:
            fields["vertexai"] = self._uses_vertexai  # what the credentials told
        private = {**(state["__pydantic_private__"] or {}), "_gemini": None}
        private["_left_out"] = left_out
        return {**state, "__dict__": fields, "__pydantic_private__": private}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields = type(self).model_fields
        left_out = state["__pydantic_private__"]["_left_out"]
        # Whoever loads it has an environment, too.
        given = {name: fields[name].get_default(call_default_factory=True) for name in left_out}
        super().__setstate__({**state, "__dict__": {**given, **state["__dict__"]}})

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """What `dumpd` stores: as LangChain's, without a key that is found but not used."""
        stored = super().to_json()
        if stored["type"] == "constructor" and not self._key_in_use:
            stored["kwargs"].pop("google_api_key", None)
        return stored

    # One invocation

    def _resolve(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> Invocation:
        """Join all levels of options: constructor < `model_kwargs` < `bind` < call.

        Raises:
            InvalidOptionError: An option is unknown or has an invalid value.
            InvalidToolError: Gemini cannot be given one of the tools.
        """
        given = self._join_levels(stop, kwargs)
        model = given.get("model") or self.model
        capabilities = capabilities_of(self.model_family or model)
        is_prompted = _is_prompted(given["tool_calling"], capabilities)
        tools, choice = _resolve_tools(
            given, capabilities.prompted() if is_prompted else capabilities
        )
        best: SchemaForm = "json_schema" if capabilities.accepts_json_schema else "openapi"
        retries, on_malformed = given["max_retries"], given["on_malformed"]
        max_retries = self.max_retries if retries is None else retries
        retries_with_feedback = on_malformed == "retry" and max_retries > 0
        fetches = given["fetch_urls"]
        return Invocation(
            model=model,
            capabilities=capabilities,
            vertexai=self._uses_vertexai,
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
            retries_with_feedback=retries_with_feedback,
            fetch_limits=FetchLimits() if fetches is True else fetches or None,
            timeout_seconds=given["timeout"],
            stream_timeout_seconds=given["stream_timeout"],
            max_retries=max_retries,
            max_retry_delay_seconds=given["max_retry_delay"],
        )

    def _join_levels(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in OPTION_FIELDS}
        every, given = self.model_kwargs, canonical_options(kwargs)
        if every:
            every = canonical_options(without_retracted(every, given))
        if options["thinking_config"] is not None:
            options = with_config_unpacked(without_retracted(options, every, given))
        for level in filter(None, (every, given)):
            join_level(options, level, RIVALS)
        # What is bound as `stop_sequences` arrives as `stop`, so this is set by the call itself.
        if stop is not None and kwargs.get("stop_sequences") is None:
            options["stop"] = _checked("stop", stop)
        return options

    def _resolve_model_profile(self) -> ModelProfile | None:
        every = spelled_as_fields(self.model_kwargs)
        way = every.get("tool_calling", self.tool_calling)
        called = capabilities_of(self.model_family or every.get("model") or self.model)
        family = self.model_family or self.model
        profile = profile_of(family, is_prompted=_is_prompted(way, called))
        return cast("ModelProfile", OwnProfile(profile))

    # The client

    def _client_settings(self) -> ClientSettings:
        base_url = self.base_url
        if isinstance(base_url, dict):
            base_url = base_url.get("api_endpoint") or base_url.get("base_url")
        return ClientSettings(
            api_key=self._key_in_use,
            vertexai=True if self._uses_vertexai else self.vertexai,
            project=self.project,
            location=self.location,
            credentials=self.credentials,
            base_url=base_url,
            api_version=self.api_version,
            headers={**dict(self.default_metadata or []), **(self.additional_headers or {})},
            client_args=self.client_args or {},
            async_client_args=self.async_client_args or {},
            timeout_seconds=self.timeout,
        )

    @property
    def _uses_vertexai(self) -> bool:
        if self.vertexai is not None:
            return self.vertexai
        for name in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
            if (value := os.environ.get(name)) is not None:
                return value.lower() in {"1", "true"}
        return bool(self.project or self.credentials) and not self._given_key

    @property
    def _given_key(self) -> SecretStr | None:
        """The key, unless it was only found in the environment."""
        return None if isinstance(self.google_api_key, FoundKey) else self.google_api_key

    @property
    def _key_in_use(self) -> SecretStr | None:
        """The key, unless it was only found and there is more to go by, as the SDK has it."""
        if not self._uses_vertexai or self._given_key:
            return self.google_api_key
        is_said = self.project or self.location or self.credentials
        return None if is_said or any(map(os.environ.get, _PLACES)) else self.google_api_key


OPTION_FIELDS = tuple(
    name for name in GeminiOptions.model_fields if name in GENERATION_OPTIONS | _CALL_OPTIONS
)
_ALIASES = {f.alias: name for name, f in GeminiOptions.model_fields.items() if f.alias} | _SYNONYMS
_KNOWN_OPTIONS = GENERATION_OPTIONS | _CALL_OPTIONS
_CHECKED = frozenset(
    name for name in OPTION_FIELDS if GeminiOptions.model_fields[name].annotation is not Any
) - {"extra_body"}
"""Options whose values are checked here, as the constructor checks them; not what `wire` reads."""
_DEFAULTS = {
    name: GeminiOptions.model_fields[name].default
    for name in (
        "n",
        "max_retry_delay",
        "fetch_urls",
        "tool_calling",
        "on_broken_history",
        "on_malformed",
    )
}
"""What None stands for, where a field has no None."""


def spelled_as_fields(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names of their fields, unchecked."""
    named = {_ALIASES.get(key, key): value for key, value in kwargs.items()}
    if (config := named.pop("generation_config", None)) is not None:
        named = {**unpack_config("generation_config", config), **named}
    return named


def _is_prompted(way: str | None, capabilities: Capabilities) -> bool:
    if way in {"auto", None}:
        return not capabilities.calls_functions
    return way == "prompted"


def _resolve_tools(
    given: Mapping[str, Any], capabilities: Capabilities
) -> tuple[tuple[Tool, ...], ToolChoice]:
    tools = bind_tools(given.get("tools") or ())
    refuse_unusable_tools(tools, capabilities)
    choice = given.get("tool_choice"), given.get("tool_config")
    return tools, resolve_tool_choice(choice[0], tools, capabilities, choice[1])


def canonical_options(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a call under their fields' names, as their fields would hold them.

    Raises:
        InvalidOptionError: There is no such option, or it does not take the value.
    """
    options: dict[str, Any] = {}
    for key, value in kwargs.items():
        name = _ALIASES.get(key, key)
        if name in TANGLED:
            is_config = name in CONFIGS and value is not None
            said = unpack_config(name, value) if is_config else {name: value}
            said = {each: _checked(each, held) for each, held in said.items()}
            join_level(options, said, SAME_LEVEL_RIVALS)
        elif name in _CHECKED:
            options[name] = _checked(name, value)
        elif name in _KNOWN_OPTIONS:
            options[name] = value
        elif name in GeminiOptions.model_fields:
            raise InvalidOptionError(
                f"A call has no option {key!r}: it is given when the model is made."
            )
        elif name not in _HANDLED_ELSEWHERE and not name.startswith("ls_"):
            raise InvalidOptionError(_unknown("A call", key, _KNOWN_OPTIONS | set(_ALIASES)))
    return options


def _checked(name: str, value: Any) -> Any:
    if value is None:
        return _DEFAULTS.get(name)
    if name not in _CHECKED or isinstance(value, OwnLevel):
        return value
    is_kept = isinstance(value, (str, int, float))  # others may have no hash
    return _check_once(name, value) if is_kept else _check(name, value)


def _check(name: str, value: Any) -> Any:
    """What the field would hold."""
    if name == "stop" and isinstance(value, str):
        return [value]
    try:
        return _adapter(name).validate_python(value)
    except ValidationError as error:
        reasons = dict.fromkeys(told["msg"] for told in error.errors(include_url=False))
    raise InvalidOptionError(f"{name}={str(value)[:80]!r} is not valid: {'; '.join(reasons)}.")


# The same few values come with every call of an agent; 1, 1.0 and True are not the same.
_check_once = lru_cache(maxsize=256, typed=True)(_check)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = GeminiOptions.model_fields[name]
    kind: Any = field.annotation
    if field.metadata:
        kind = Annotated[(kind, *field.metadata)]
    return TypeAdapter(kind, config=ConfigDict(extra="forbid"))


def _sealed(name: str, value: Any) -> Any:
    """What a field is set to; pydantic looks at a key only when the model is made."""
    return SecretStr(value) if name == "google_api_key" and isinstance(value, str) else value


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{what} has no option {name!r}.{hint}"
