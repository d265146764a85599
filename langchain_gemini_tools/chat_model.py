"""ChatGemini: the LangChain chat model. It calls the rooms of this package and converts nothing."""

from __future__ import annotations

import difflib
import logging
import os
import threading
import warnings
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.utils import secret_from_env
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from langchain_gemini_tools._version import __version__
from langchain_gemini_tools.capabilities import Capabilities, capabilities_of, profile_of
from langchain_gemini_tools.client import ClientSettings, GeminiClient
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.retry import RetryPolicy
from langchain_gemini_tools.structured_output import json_parser, tools_parser, with_raw
from langchain_gemini_tools.wire.generation import GENERATION_OPTIONS, plain
from langchain_gemini_tools.wire.names import function_names
from langchain_gemini_tools.wire.request import (
    CallOptions,
    RenderedRequest,
    encode_request,
    render_request,
)
from langchain_gemini_tools.wire.response import StreamParser, parse_response
from langchain_gemini_tools.wire.tool_choice import resolve_tool_choice
from langchain_gemini_tools.wire.tools import bind_tools, check_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models import LanguageModelInput, ModelProfile
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable

    from langchain_gemini_tools.wire.history import Repair

logger = logging.getLogger(__name__)

_CLIENT_LOCK = threading.Lock()
_MAX_TOLD_REPAIRS = 1000

_SYNONYMS = {
    "model_name": "model",
    "gemini_api_key": "google_api_key",
    "enterprise": "vertexai",
    "max_completion_tokens": "max_output_tokens",
}
"""Names that other integrations use, beside the fields' own aliases."""

_CALL_OPTIONS = frozenset(
    {
        "model",
        "timeout",
        "max_retries",
        "tools",
        "tool_choice",
        "tool_config",
        "safety_settings",
        "cached_content",
        "labels",
        "extra_body",
        "convert_system_message_to_human",
        "on_broken_history",
    }
)
"""What a call may set besides `GENERATION_OPTIONS`."""

_HANDLED_ELSEWHERE = {"stream", "parallel_tool_calls", "strict"}
"""Keywords that core and agents pass along and that are no options of Gemini's."""


class ChatGemini(BaseChatModel):
    """Google Gemini as a LangChain chat model whose speciality is tool calling.

    Setup:
        Install `langchain-gemini-tools` and set `GOOGLE_API_KEY` (or `GEMINI_API_KEY`). Nothing is
        loaded or opened, and no key is needed, before the first call.

    Example:
        ```python
        from langchain_gemini_tools import ChatGemini


        def get_weather(city: str) -> str:
            '''Current weather in a city.'''
            return f"Sunny in {city}"


        model = ChatGemini(model="gemini-3-flash-preview")
        answer = model.bind_tools([get_weather]).invoke("Weather in Oslo and Rome?")
        answer.tool_calls  # two calls of get_weather
        ```

    Every option of a call (sampling, thinking, output format, tools) can be set here, bound with
    `bind`, or given to `invoke` and `stream`.
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True, extra="forbid")

    model: str
    """Name of the model, such as `gemini-3-flash-preview`."""
    model_family: str | None = None
    """Name of a model whose rules hold, where `model` does not tell (tuned models, endpoints)."""

    # Access

    google_api_key: SecretStr | None = Field(
        alias="api_key",
        default_factory=secret_from_env(["GOOGLE_API_KEY", "GEMINI_API_KEY"], default=None),
    )
    vertexai: bool | None = None
    """Vertex AI instead of the Gemini Developer API.

    By default, what the environment says (`GOOGLE_GENAI_USE_VERTEXAI`), or Vertex AI when
    `project` or `credentials` are given and no key is.
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
    client: Any = Field(default=None, exclude=True, repr=False)
    """A `google.genai.Client` of your own. It is used, never closed."""
    timeout: float | None = Field(alias="request_timeout", default=600.0)
    """Seconds for a whole call, or between two pieces of a stream; `None` waits for ever."""
    max_retries: int = Field(alias="retries", default=6, ge=0)
    """How often a failed request is tried again; 0 sends one request."""

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

    streaming: bool | None = None
    convert_system_message_to_human: bool = False
    on_broken_history: Literal["repair", "raise"] = "repair"
    """Whether messages that Gemini would refuse are mended (see `preview`) or refused."""

    _gemini: GeminiClient | None = PrivateAttr(default=None)
    _told_repairs: set[tuple[str, str]] = PrivateAttr(default_factory=set)

    # Construction

    if TYPE_CHECKING:
        # Type checkers would know each field by one name only; these are the usual ones.
        def __init__(
            self,
            *,
            model: str,
            api_key: str | SecretStr | None = ...,
            base_url: str | None = ...,
            vertexai: bool | None = ...,
            temperature: float | None = ...,
            max_tokens: int | None = ...,
            timeout: float | None = ...,
            max_retries: int = ...,
            stop: list[str] | None = ...,
            reasoning_effort: str | None = ...,
            streaming: bool | None = ...,
            **options: Any,
        ) -> None: ...

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

    @model_validator(mode="after")
    def _set_gemini_tools_version(self) -> Self:
        self._add_version("langchain-gemini-tools", __version__)
        return self

    @property
    def _llm_type(self) -> str:
        return "gemini-tools"

    @property
    def lc_secrets(self) -> dict[str, str]:
        """What serialisation replaces by the name of an environment variable."""
        return {"google_api_key": "GOOGLE_API_KEY"}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether `dumpd` and `load` work."""
        return True

    @property
    def _identifying_params(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in _OPTION_FIELDS}
        return {"model": self.model} | {
            name: value for name, value in options.items() if value is not None
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        options: dict[str, Any] = {"stop": self.stop, "temperature": self.temperature}
        options |= {"max_output_tokens": self.max_output_tokens}
        options |= _canonical(kwargs) | ({"stop": stop} if stop else {})
        params = LangSmithParams(
            ls_provider="google_genai",
            ls_model_name=str(options.get("model") or self.model).removeprefix("models/"),
            ls_model_type="chat",
        )
        if (temperature := options.get("temperature")) is not None:
            params["ls_temperature"] = temperature
        if (max_tokens := options.get("max_output_tokens")) is not None:
            params["ls_max_tokens"] = max_tokens
        if stop := options.get("stop"):
            params["ls_stop"] = stop
        return params

    def _resolve_model_profile(self) -> ModelProfile | None:
        return profile_of(self.model_family or self.model)

    # One call

    def preview(
        self, model_input: LanguageModelInput, stop: list[str] | None = None, **kwargs: Any
    ) -> RenderedRequest:
        """What a call would send, without sending it: `body`, and the `repairs` made for it.

        Args:
            model_input: What `invoke` takes.
            stop: What `invoke` takes.
            **kwargs: What `invoke` takes; bound tools are in `kwargs` of the binding.
        """
        return self._render(self._convert_input(model_input).to_messages(), stop, kwargs)

    def _render(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> RenderedRequest:
        rendered = render_request(messages, self._call_options(stop, kwargs))
        self._tell(rendered.repairs)
        return rendered

    def _call_options(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> CallOptions:
        given = self._options(stop, kwargs)
        model = given.get("model") or self.model
        return CallOptions(
            model=model,
            capabilities=self._capabilities(model),
            vertexai=self._uses_vertexai,
            tools=given.get("tools") or (),
            tool_choice=given.get("tool_choice"),
            tool_config=given.get("tool_config"),
            generation={name: given[name] for name in GENERATION_OPTIONS if name in given},
            safety_settings=given.get("safety_settings"),
            cached_content=given.get("cached_content"),
            labels=given.get("labels"),
            extra_body=given.get("extra_body"),
            merges_system=given["convert_system_message_to_human"],
            repairs_history=given["on_broken_history"] == "repair",
        )

    def _options(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The options of one call: fields, `model_kwargs`, then what the call itself says."""
        options = {name: getattr(self, name) for name in _OPTION_FIELDS}
        options |= _canonical(self.model_kwargs) | _canonical(kwargs)
        if stop is not None:
            options["stop"] = stop
        return options

    def _capabilities(self, model: str) -> Capabilities:
        return capabilities_of(self.model_family or model)

    def _tell(self, repairs: Sequence[Repair]) -> None:
        """Log each repair once, although an agent sends its history again at every step."""
        for repair in repairs:
            key = (repair.kind, repair.explanation)
            if repair.is_harmless or key in self._told_repairs:
                continue
            if len(self._told_repairs) < _MAX_TOLD_REPAIRS:
                self._told_repairs.add(key)
            logger.warning("Message %d: %s", repair.position, repair.explanation)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._render(messages, stop, kwargs)
        body = encode_request(request.body)
        timeout = self._timeout(kwargs)

        def ask() -> ChatResult:
            reply = self._client.send(request.context.model, body, timeout_seconds=timeout)
            return parse_response(reply, request.context)

        return self._retries(kwargs).call(ask)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._render(messages, stop, kwargs)
        body = encode_request(request.body)
        timeout = self._timeout(kwargs)

        async def ask() -> ChatResult:
            reply = await self._client.asend(request.context.model, body, timeout_seconds=timeout)
            return parse_response(reply, request.context)

        return await self._retries(kwargs).acall(ask)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._render_for_stream(messages, stop, kwargs)
        body = encode_request(request.body)
        timeout = self._timeout(kwargs)

        def ask() -> Iterator[ChatGenerationChunk]:
            parser = StreamParser(request.context)
            replies = self._client.stream(request.context.model, body, timeout_seconds=timeout)
            with parser.keeping_partial(), closing(replies):
                for reply in replies:
                    yield from parser.feed(reply)
                yield parser.finish()

        for chunk in self._retries(kwargs).open_stream(ask):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._render_for_stream(messages, stop, kwargs)
        body = encode_request(request.body)
        timeout = self._timeout(kwargs)

        async def ask() -> AsyncIterator[ChatGenerationChunk]:
            parser = StreamParser(request.context)
            replies = self._client.astream(request.context.model, body, timeout_seconds=timeout)
            with parser.keeping_partial():
                async with aclosing(replies):
                    async for reply in replies:
                        for chunk in parser.feed(reply):
                            yield chunk
                yield parser.finish()

        async with aclosing(self._retries(kwargs).aopen_stream(ask)) as chunks:
            async for chunk in chunks:
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _render_for_stream(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> RenderedRequest:
        if self._options(stop, kwargs)["n"] != 1:
            raise InvalidOptionError("A stream has one candidate: n must be 1 for it.")
        return self._render(messages, stop, kwargs)

    def _timeout(self, kwargs: Mapping[str, Any]) -> float | None:
        seconds: float | None = _canonical(kwargs).get("timeout", self.timeout)
        return seconds

    def _retries(self, kwargs: Mapping[str, Any]) -> RetryPolicy:
        return RetryPolicy(_canonical(kwargs).get("max_retries", self.max_retries))

    # Tools and structured output

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """This model with tools.

        Args:
            tools: Functions, LangChain tools, Pydantic classes, TypedDicts, dicts of any vendor's
                form, SDK types, and Gemini's own tools (`{"google_search": {}}`).
            tool_choice: `"auto"`, `"any"` (also `"required"`, `True`), `"none"`, `"validated"`, a
                tool's name, a list of names, or OpenAI's, Anthropic's or Gemini's dict.
            strict: Calls have to fit their schema: the mode VALIDATED, where no other is chosen.
            parallel_tool_calls: Gemini has no such switch; `False` warns.
            response_format: JSON output beside the tools (Gemini 3 or later).
            **kwargs: Any option of a call.

        Raises:
            InvalidToolError: A tool that Gemini cannot be told about.
            UnknownToolError: `tool_choice` names a tool that is not bound.
        """
        given = _canonical(kwargs)
        bound = bind_tools(tools)
        capabilities = self._capabilities(given.get("model") or self.model)
        check_tools(bound, capabilities)
        if strict and tool_choice in {None, "auto"} and capabilities.validates_calls and bound:
            tool_choice = "validated"
        resolve_tool_choice(tool_choice, bound, capabilities, given.get("tool_config"))
        if parallel_tool_calls is False:
            warnings.warn(
                "Gemini cannot be told to make one call at a time: parallel_tool_calls=False has "
                "no effect.",
                stacklevel=2,
            )
        options = {"tools": bound, "tool_choice": plain(tool_choice)}
        options |= {"response_format": response_format}
        return self.bind(**{k: v for k, v in options.items() if v not in (None, [])}, **kwargs)

    def with_structured_output(
        self,
        schema: Any = None,
        *,
        method: Literal["function_calling", "json_schema", "json_mode"] = "function_calling",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """This model, answering with an instance of a schema.

        Args:
            schema: A Pydantic class, a TypedDict, or a JSON schema.
            method: A forced call of the schema, the API's JSON output with the schema, or JSON
                output alone, described in your prompt.
            include_raw: Return `{"raw", "parsed", "parsing_error"}` instead of raising.
            strict: Accepted; Gemini holds itself to the schema in both of the first two methods.
            **kwargs: Any option of a call.
        """
        noted: Any = {
            "ls_structured_output_format": {"kwargs": {"method": method}, "schema": schema}
        }
        if schema is None and method != "json_mode":
            raise ValueError(f"method={method!r} needs a schema.")
        if method == "function_calling":
            name = function_names(bind_tools([schema]))[0]
            model = self.bind_tools([schema], tool_choice=name, **noted, **kwargs)
            parser = tools_parser(schema, name)
        elif method == "json_schema":
            form = {"response_mime_type": "application/json", "response_schema": schema}
            model = self.bind(**form, **noted, **kwargs)
            parser = json_parser(schema)
        elif method == "json_mode":
            model = self.bind(response_mime_type="application/json", **noted, **kwargs)
            parser = json_parser(schema)
        else:
            raise ValueError(
                f"method={method!r} is unknown; there are function_calling, json_schema, json_mode."
            )
        return with_raw(model, parser) if include_raw else model | parser

    # Tokens

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the API counts in a text."""
        return self.get_num_tokens_from_messages([HumanMessage(text)])

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """How many tokens the API counts in messages and tools."""
        request = self._render(messages, None, {**kwargs, **({"tools": tools} if tools else {})})
        model = request.context.model
        body: dict[str, Any] = dict(request.body)
        if not self._uses_vertexai:
            name = model if "/" in model else f"models/{model}"
            body = {"generateContentRequest": {"model": name, **body}}
        counted = self._retries(kwargs).call(
            lambda: self._client.count_tokens(
                model, encode_request(body), timeout_seconds=self._timeout(kwargs)
            )
        )
        return int(counted.get("totalTokens", 0))

    # The client

    @property
    def _client(self) -> GeminiClient:
        """The client for the fields as they are now; copies share it until one of them changes."""
        settings = self._client_settings()
        with _CLIENT_LOCK:
            if self._gemini is None or self._gemini.settings != settings:
                self._gemini = GeminiClient(settings)
            return self._gemini

    def _client_settings(self) -> ClientSettings:
        base_url = self.base_url
        if isinstance(base_url, dict):
            base_url = base_url.get("api_endpoint") or base_url.get("base_url")
        return ClientSettings(
            api_key=self.google_api_key,
            vertexai=True if self._uses_vertexai else self.vertexai,
            project=self.project,
            location=self.location,
            credentials=self.credentials,
            base_url=base_url,
            api_version=self.api_version,
            headers={**dict(self.default_metadata or []), **(self.additional_headers or {})},
            client_args=self.client_args or {},
            async_client_args=self.async_client_args or {},
            sdk_client=self.client,
        )

    @property
    def _uses_vertexai(self) -> bool:
        if self.client is not None:
            return bool(self.client.vertexai)
        if self.vertexai is not None:
            return self.vertexai
        for name in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
            if (value := os.environ.get(name)) is not None:
                return value.lower() in {"1", "true"}
        return self.google_api_key is None and bool(self.project or self.credentials)

    def close(self) -> None:
        """Close the connections of sync calls; the next call opens new ones."""
        if self._gemini:
            self._gemini.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of sync calls."""
        if self._gemini:
            await self._gemini.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_OPTION_FIELDS = tuple(
    name for name in ChatGemini.model_fields if name in GENERATION_OPTIONS | _CALL_OPTIONS
)
_ALIASES = {f.alias: name for name, f in ChatGemini.model_fields.items() if f.alias} | _SYNONYMS
_KNOWN_OPTIONS = GENERATION_OPTIONS | _CALL_OPTIONS


def _canonical(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a call under their fields' names.

    Raises:
        InvalidOptionError: There is no such option.
    """
    options: dict[str, Any] = {}
    for key, value in kwargs.items():
        name = _ALIASES.get(key, key)
        if name in _KNOWN_OPTIONS:
            options[name] = value
        elif name not in _HANDLED_ELSEWHERE and not name.startswith("ls_"):
            raise InvalidOptionError(_unknown("A call", key, _KNOWN_OPTIONS | set(_ALIASES)))
    return options


def _unknown(what: str, name: str, known: set[str] | frozenset[str]) -> str:
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{what} has no option {name!r}.{hint}"
