"""The arguments of `ChatGemini(...)` under all of their names, for type checkers and editors.

Nothing is imported from here while a program runs. A subclass with its own constructor can use it:

    def __init__(self, *, model: str, **arguments: Unpack[ChatGeminiArguments]) -> None:
        super().__init__(model=model, **arguments)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, TypedDict

from langchain_core.caches import BaseCache
from langchain_core.callbacks import Callbacks
from langchain_core.language_models import ModelProfile
from langchain_core.rate_limiters import BaseRateLimiter
from pydantic import BaseModel, SecretStr

from langchain_gemini_tools.wire.invocation import FetchLimits

Config = Mapping[str, Any] | BaseModel
"""One of the API's configs: a dict in either spelling, or the SDK's type."""
Effort = Literal["none", "minimal", "low", "medium", "high"] | Enum
Modality = Literal["TEXT", "IMAGE", "AUDIO"] | Enum
Resolution = (
    Literal[
        "low",
        "medium",
        "high",
        "ultra_high",
        "MEDIA_RESOLUTION_LOW",
        "MEDIA_RESOLUTION_MEDIUM",
        "MEDIA_RESOLUTION_HIGH",
        "MEDIA_RESOLUTION_ULTRA_HIGH",
    ]
    | Enum
)


class ChatGeminiArguments(TypedDict, total=False):
    """Every argument of `ChatGemini` except `model`; the fields have the descriptions."""

    model_family: str | None
    api: Literal["generate_content", "interactions"]
    store: bool | None
    use_previous_interaction: bool
    background: bool
    background_timeout: float | None
    agent: bool

    # Access
    api_key: str | SecretStr | None
    google_api_key: str | SecretStr | None
    gemini_api_key: str | SecretStr | None
    vertexai: bool | None
    enterprise: bool | None
    project: str | None
    location: str | None
    credentials: Any
    base_url: str | dict[str, Any] | None
    client_options: str | dict[str, Any] | None
    api_version: str | None
    additional_headers: dict[str, str] | None
    default_metadata: list[tuple[str, str]] | None
    default_metadata_input: list[tuple[str, str]] | None
    client_args: dict[str, Any] | None
    async_client_args: dict[str, Any] | None
    timeout: float | None
    request_timeout: float | None
    stream_timeout: float | None
    max_retries: int
    retries: int
    max_retry_delay: float

    # Sampling
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    max_output_tokens: int | None
    max_completion_tokens: int | None
    n: int
    candidate_count: int
    stop: list[str] | None
    stop_sequences: list[str] | None
    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    response_logprobs: bool | None
    logprobs: int | None

    # Thinking
    reasoning_effort: Effort | None
    thinking_level: Effort | None
    thinking_budget: int | None
    include_thoughts: bool | None
    thinking_config: Config | None

    # Output and context
    response_mime_type: str | None
    response_schema: Any
    response_json_schema: Any
    response_modalities: Sequence[Modality] | None
    media_resolution: Resolution | None
    image_config: Config | None
    speech_config: Config | None
    audio_timestamp: bool | None
    safety_settings: Mapping[Any, Any] | Sequence[Any] | BaseModel | None
    cached_content: str | None
    automatic_continuation: bool
    labels: dict[str, str] | None
    service_tier: Literal["flex", "priority", "standard"] | None
    model_kwargs: dict[str, Any]
    extra_body: dict[str, Any] | None

    # Behavior
    fetch_urls: bool | FetchLimits
    tool_schema: Literal["json_schema", "openapi"] | None
    tool_calling: Literal["auto", "native", "prompted"]
    tool_prompt: str | None
    streaming: bool | None
    convert_system_message_to_human: bool
    on_broken_history: Literal["repair", "raise"]
    on_malformed: Literal["retry", "raise", "return"]

    # LangChain's
    name: str | None
    cache: BaseCache | bool | None
    verbose: bool
    callbacks: Callbacks
    tags: list[str] | None
    metadata: dict[str, Any] | None
    custom_get_token_ids: Callable[[str], list[int]] | None
    rate_limiter: BaseRateLimiter | None
    disable_streaming: bool | Literal["tool_calling"]
    output_version: str | None
    profile: ModelProfile | None


class FieldSynonyms:
    """The other names of fields, under which a model's settings can be read."""

    model_name: str
    api_key: SecretStr | None
    gemini_api_key: SecretStr | None
    enterprise: bool | None
    client_options: str | dict[str, Any] | None
    default_metadata_input: list[tuple[str, str]] | None
    request_timeout: float | None
    retries: int
    max_tokens: int | None
    max_completion_tokens: int | None
    candidate_count: int
    stop_sequences: list[str] | None
    thinking_level: str | None
    response_json_schema: Any
