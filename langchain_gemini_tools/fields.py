"""The fields of `ChatGemini`: names, defaults, descriptions, validation.

A field that is marked as an `Option` can be set for one call, too; `options.py` joins them. To add
an option of the API that is sent as it is, add its field here and its type to `arguments.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from langchain_core.language_models import BaseChatModel
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from langchain_gemini_tools import __version__
from langchain_gemini_tools.facts.models import DEFAULT_TIMEOUT_SECONDS
from langchain_gemini_tools.field_values import (
    BODY,
    CALL,
    GENERATION,
    MAX_SECONDS,
    Headers,
    OwnProfile,
    Place,
    PlainSignature,
    as_dict,
    check_address,
    check_credentials,
    check_key,
    check_model_family,
    check_model_name,
    find_key,
    keep_found_key,
    read_tier,
    reveal,
    same_option,
    unknown_option,
    without_inputs,
)
from langchain_gemini_tools.wire.invocation import FetchLimits
from langchain_gemini_tools.wire.tools.builtin import check_extra_body

if TYPE_CHECKING:
    from langchain_gemini_tools.arguments import FieldSynonyms

_SDK_TYPES = ("thinking_config", "image_config", "speech_config", "safety_settings")
"""Fields that accept types of google-genai."""

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

if TYPE_CHECKING:

    class _ChatModel(BaseChatModel, FieldSynonyms): ...

else:
    _ChatModel = BaseChatModel


class GeminiFields(_ChatModel):
    """The fields of `ChatGemini`, without its methods."""

    model_config = ConfigDict(
        populate_by_name=True,
        arbitrary_types_allowed=True,
        extra="forbid",
        hide_input_in_errors=True,  # a rejected value may be next to a key
        defer_build=True,  # only `ChatGemini` is validated
    )

    model: Annotated[str, AfterValidator(check_model_name), CALL] = Field(
        description="Name of the model, such as `gemini-3.8-flash`."
    )
    model_family: Annotated[str | None, AfterValidator(check_model_family)] = Field(
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
        "unless `use_previous_interaction`, `background` or `agent` is set.",
    )
    use_previous_interaction: Annotated[bool, CALL] = Field(
        default=False,
        description="Interactions API: send only the messages after the last one that Google has "
        "kept, with its id. If the messages before were changed, all are sent. Implies `store`.",
    )

    background: Annotated[bool, CALL] = Field(
        default=False,
        description="Interactions API: start the interaction, and read it until it has ended, so "
        "that it may take longer than a connection. Implies `store`. A cut stream is resumed.",
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
        default_factory=find_key,
        description="API key. Defaults to `GOOGLE_API_KEY` or `GEMINI_API_KEY` in the environment.",
    )
    vertexai: bool | None = Field(
        default=None,
        description="Use Vertex AI instead of the Gemini Developer API. Defaults to "
        "`GOOGLE_GENAI_USE_VERTEXAI` in the environment, or to Vertex AI if `project` or "
        "`credentials` are given. Vertex AI uses `credentials` rather than a key. Otherwise a key "
        "that is passed is used with either API, and a key from the environment with Vertex AI "
        "only if no project or location is given.",
    )
    project: Place = Field(
        default=None,
        description="Google Cloud project, for Vertex AI only. Defaults to the project of "
        "`credentials`.",
    )
    location: Place = Field(
        default=None,
        description="Google Cloud location, such as `global`, for Vertex AI only.",
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
    api_version: Place = Field(
        default=None,
        description="Version of the API, such as `v1beta`; empty if `base_url` contains it.",
    )
    additional_headers: Headers = Field(
        default=None,
        exclude=True,
        repr=False,
        description="Headers to add to every request. A call can add or replace some.",
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
        description="Randomness of sampling, from 0 to 2. Not sent to models that ignore it: "
        "Gemini 3.6 and later, and 3.5 Flash-Lite.",
    )
    top_p: Annotated[float | None, GENERATION] = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Sample from the likeliest tokens whose probabilities add up to this.",
    )
    top_k: Annotated[int | None, GENERATION] = Field(
        default=None, gt=0, description="Sample from this many of the likeliest tokens."
    )
    max_output_tokens: Annotated[int | None, GENERATION] = Field(
        alias="max_tokens",
        default=None,
        ge=1,
        description="Maximum number of tokens in a response, thinking included.",
    )
    n: Annotated[int, CALL] = Field(
        default=1, ge=1, description="Number of candidates, on models before Gemini 3."
    )
    stop: Annotated[list[str] | None, CALL] = Field(
        default=None, description="Texts at which the response ends, at most five."
    )
    seed: Annotated[int | None, GENERATION] = Field(
        default=None, ge=-(2**31), lt=2**31, description="Seed for sampling, a 32-bit integer."
    )
    presence_penalty: Annotated[float | None, GENERATION] = Field(
        default=None, ge=-2.0, le=2.0, description="Penalty for tokens that have already occurred."
    )
    frequency_penalty: Annotated[float | None, GENERATION] = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Penalty for tokens that grows with each occurrence.",
    )
    response_logprobs: Annotated[bool | None, GENERATION] = Field(
        default=None, description="Return log probabilities of the tokens."
    )
    logprobs: Annotated[
        int | None, BeforeValidator(lambda value: None if value is False else value), GENERATION
    ] = Field(
        default=None,
        ge=0,
        le=20,
        description="Number of likeliest tokens to return log probabilities for, up to 20.",
    )

    # Thinking

    reasoning_effort: Annotated[str | None, CALL] = Field(
        default=None,
        description="`none`, `minimal`, `low`, `medium` or `high`, as far as the model has "
        "them: see its `profile`. Converted to a token budget on models before Gemini 3.",
    )
    thinking_budget: Annotated[int | None, CALL] = Field(
        default=None,
        ge=-1,
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
        "requests, at most 64, and return one message with the usage of all. `timeout`, "
        "`stream_timeout` and `max_retries` apply to each request, `max_output_tokens` to the "
        'whole response. `False` returns the first part; `response_metadata["continuation_token"]` '
        "is for the option `continuation_token` of the next call.",
    )
    labels: Annotated[dict[str, str] | None, BODY] = Field(
        default=None, description="Labels of the request, for billing."
    )
    service_tier: Annotated[
        Literal["flex", "priority", "standard"] | None, BeforeValidator(read_tier), BODY
    ] = Field(
        default=None,
        description="Price and speed of the request: `flex` is cheaper and may wait, `priority` is "
        "faster and costs more. The tier that was used is in `response_metadata`.",
    )
    model_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="More options for every call, under the names of these fields.",
    )
    extra_body: Annotated[dict[str, Any] | None, AfterValidator(check_extra_body), CALL] = Field(
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
        default=None, description="Make `invoke` read the response as a stream."
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
        description="What to do with a malformed tool call, a call that the API rejects "
        "(`UNEXPECTED_TOOL_CALL`), a call that was written as text, or an empty response. `retry` "
        "requests it once more with feedback and then raises; if `max_retries` is 0, it raises at "
        "once. `raise` raises. `return` returns the message with its `finish_reason`, and such "
        "calls as `invalid_tool_calls`. Only a complete response has `tool_calls`: a truncated or "
        "blocked one with calls raises without a retry, unless `return` is set. The guide to "
        "errors has the details.",
    )

    def __new__(cls, *unnamed: object, **_: object) -> Self:  # noqa: D102 - editors would show it
        if unnamed and cls.__init__ is GeminiFields.__init__:
            name = cls.__name__
            raise TypeError(
                f"{name} accepts keyword arguments only: use {name}(model='gemini-3.8-flash')."
            )
        return super().__new__(cls)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if pydantics := vars(cls).get("__signature__"):
            cls.__signature__ = cast("Any", PlainSignature(pydantics))

    def __init__(self, **arguments: Any) -> None:
        rejected: ValidationError | None = None
        try:
            super().__init__(**arguments)
        except ValidationError as error:
            rejected = without_inputs(error)
        if rejected:
            del arguments  # a traceback may show locals
            raise rejected

    # Validation. Subclasses inherit it, also where they give a field another type.

    _keep_found_key = field_validator("google_api_key", mode="wrap")(keep_found_key)
    _check_key = field_validator("google_api_key")(check_key)
    _check_address = field_validator("base_url")(check_address)
    _check_credentials = field_validator("credentials")(check_credentials)
    _dump_sdk_types = field_validator(*_SDK_TYPES, mode="before")(as_dict)  # models stored as JSON

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
        keys: dict[str, str] = {}
        for key, value in values.items():
            name = FIELDS_BY_SYNONYM.get(key, key)
            if name not in cls.model_fields:
                raise ValueError(unknown_option(key, cls.model_fields.keys() | FIELDS_BY_SYNONYM))
            known = arguments.get(name)
            if known is not None and value is not None and reveal(known) != reveal(value):
                raise ValueError(same_option(keys[name], key))
            arguments[name] = known if value is None else value
            keys.setdefault(name, key)
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


FIELDS_BY_SYNONYM = {
    field.alias: name for name, field in GeminiFields.model_fields.items() if field.alias
} | _SYNONYMS
"""Every other name of a field."""
