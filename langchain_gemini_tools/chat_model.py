"""`ChatGemini`, the LangChain chat model. Rendering, transport and parsing are in other modules.

Modules that many programs never need (prompted tools, structured output) are imported by the
methods that need them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from langchain_core.language_models import LangSmithParams, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, PrivateAttr

from langchain_gemini_tools.batch import BatchJob, BatchSource
from langchain_gemini_tools.binding import GeminiBinding, StructuredOutputMethod
from langchain_gemini_tools.client import GeminiClient, SdkAsyncClient, SdkClient
from langchain_gemini_tools.continuation import LongResponse
from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    GeminiAPIError,
    GeminiInvalidRequestError,
    GeminiNotFoundError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import headers_digest
from langchain_gemini_tools.facts.locks import ForkSafeLock
from langchain_gemini_tools.fields import GeminiFields
from langchain_gemini_tools.media_fetch import FetchedMedia, afetch_media, fetch_media
from langchain_gemini_tools.options import (
    OPTION_FIELDS,
    hide_headers,
    redact_headers,
    rename_functions,
    resolve,
    resolve_profile,
    set_together,
    spelled_as_fields,
    split_headers,
)
from langchain_gemini_tools.prompted import PromptOverhead
from langchain_gemini_tools.prompted.written_calls import WrittenCalls
from langchain_gemini_tools.retry import (
    RetryPolicy,
    areport_retry,
    areport_status,
    areport_to_parent_run,
    report_retry,
    report_status,
    report_to_parent_run,
)
from langchain_gemini_tools.wire.generation import ignored_options, plain
from langchain_gemini_tools.wire.invocation import Invocation, ToolChoiceOption
from langchain_gemini_tools.wire.metadata import parse_count
from langchain_gemini_tools.wire.request import (
    RenderedRequest,
    render_counting,
    render_request,
)
from langchain_gemini_tools.wire.tools.choice import render_validated
from langchain_gemini_tools.wire.tools.tool import plain_tools

if TYPE_CHECKING:
    from typing import Unpack

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    from langchain_gemini_tools.arguments import ChatGeminiArguments
    from langchain_gemini_tools.errors import ResponseError

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_CLIENT_LOCK = ForkSafeLock()
_MAX_WARNINGS_KEPT = 1000
_ANSWERED_BY_ANOTHER_REQUEST = (
    *FEEDBACK_ERRORS,
    GeminiNotFoundError,
    GeminiInvalidRequestError,
)
"""Failures after which the same question may be sent in another form."""
_ON_GENERATE_CONTENT = {
    "api": "generate_content",
    "store": None,
    "use_previous_interaction": False,
    "background": False,
    "agent": False,
    "interaction_id": None,
}
_TRACED_OPTIONS = ("model", "stop", "temperature", "max_output_tokens")


class ChatGemini(StructuredOutputMethod, GeminiFields):
    """A LangChain chat model for Google Gemini, built for tool calling.

    Setup:
        Install `langchain-gemini-tools` and set `GOOGLE_API_KEY` (or `GEMINI_API_KEY`). Nothing is
        loaded or opened, and no key is needed, before the first call.

    Example:
        ```python
        from langchain_gemini_tools import ChatGemini


        def get_weather(city: str) -> str:
            '''Current weather in a city.'''
            return f"Sunny in {city}"


        model = ChatGemini(model="gemini-3.8-flash")
        message = model.bind_tools([get_weather]).invoke("Weather in Oslo and Rome?")
        message.tool_calls  # two calls of get_weather
        ```

    Every option of a call (sampling, thinking, output format, tools) can be set here, bound with
    `bind`, or given to `invoke` and `stream`.
    """

    model_config = ConfigDict(defer_build=False)

    _gemini: GeminiClient | None = PrivateAttr(default=None)
    _warned: set[str] = PrivateAttr(default_factory=set)
    _media: FetchedMedia = PrivateAttr(default_factory=FetchedMedia)

    # Construction

    if TYPE_CHECKING:

        @overload
        def __init__(self, *, model: str, **arguments: Unpack[ChatGeminiArguments]) -> None: ...

        @overload
        def __init__(
            self, *, model_name: str, **arguments: Unpack[ChatGeminiArguments]
        ) -> None: ...

        def __init__(self, **arguments: Any) -> None:
            """A LangChain chat model for Google Gemini, built for tool calling.

            Args:
                model: Name of the model, such as `gemini-3.8-flash`.
                **arguments: Access, sampling, thinking, output and behavior. Each can also be bound
                    with `bind`, or given to `invoke` and `stream`, where that makes sense.
            """

    @property
    def _llm_type(self) -> str:
        return "gemini-tools"

    @property
    def lc_secrets(self) -> dict[str, str]:
        """The fields that serialization replaces by the name of an environment variable."""
        return {"google_api_key": "GOOGLE_API_KEY"}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether `dumpd` and `load` work."""
        return True

    @property
    def _identifying_params(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in OPTION_FIELDS}
        return {"model": self.model} | {
            name: value for name, value in options.items() if value is not None
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        fields = {name: getattr(self, name) for name in _TRACED_OPTIONS}
        options = fields | spelled_as_fields(self.model_kwargs) | spelled_as_fields(kwargs)
        params = LangSmithParams(
            ls_provider="google_genai",
            ls_model_name=str(options["model"] or self.model).removeprefix("models/"),
            ls_model_type="chat",
        )
        if (temperature := options["temperature"]) is not None:
            params["ls_temperature"] = temperature
        if (max_tokens := options["max_output_tokens"]) is not None:
            params["ls_max_tokens"] = max_tokens
        if stops := stop or options["stop"]:
            params["ls_stop"] = stops
        return params

    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        return super()._get_invocation_params(stop, **plain_tools(redact_headers(kwargs)))

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        """Return the key of LangChain's cache: the values of headers are in it as a digest."""
        others, headers = split_headers(kwargs)
        digest = headers_digest({**self._own_headers, **headers})
        return super()._get_llm_string(stop, **others) + (f"---{digest}" if digest else "")

    def _resolve_model_profile(self) -> ModelProfile | None:
        return cast("ModelProfile", resolve_profile(self))

    # One invocation

    def preview(
        self, model_input: LanguageModelInput, stop: list[str] | None = None, **kwargs: Any
    ) -> RenderedRequest:
        """Return the request that `invoke` would send: its `body`, and the `repairs` made for it.

        With `fetch_urls`, media that messages name by URL is downloaded.

        Args:
            model_input: What `invoke` accepts.
            stop: Stop sequences.
            **kwargs: Options of the call.

        Raises:
            InvalidInputError: The messages, the tools or the options cannot be sent.
        """
        messages = self._convert_input(model_input).to_messages()
        return self._render(messages, resolve(self, stop, kwargs))

    def _render(self, messages: Sequence[BaseMessage], invocation: Invocation) -> RenderedRequest:
        if limits := invocation.fetch_limits:
            messages = fetch_media(messages, limits, self._media)
        return self._report_repairs(_render_fetched(messages, invocation))

    async def _arender(
        self, messages: Sequence[BaseMessage], invocation: Invocation
    ) -> RenderedRequest:
        if limits := invocation.fetch_limits:
            messages = await afetch_media(messages, limits, self._media)
        return self._report_repairs(_render_fetched(messages, invocation))

    def _report_repairs(self, request: RenderedRequest) -> RenderedRequest:
        for repair in request.repairs:
            if not repair.is_harmless:
                warning = f"Message {repair.position}: {repair.explanation}"
                self._warn_once(request.invocation.model, warning)
        self._report_ignored(request.invocation)
        options = request.invocation.interaction
        if options and (options.uses_previous or options.background):
            name = "use_previous_interaction" if options.uses_previous else "background"
            self._warn_once(
                request.invocation.model,
                f"{name} lets Google keep these interactions: for 55 days, or for a day without "
                "billing.",
            )
        return request

    def _report_ignored(self, invocation: Invocation) -> None:
        if ignored := ignored_options(invocation.generation, invocation.capabilities):
            self._warn_once(
                invocation.model,
                f"{', '.join(ignored)}: ignored by this model and rejected by later ones, so not "
                "sent. Omit them; reasoning_effort and the prompt have an effect.",
            )

    def _warn_once(self, model: str, text: str) -> None:
        """Log a warning once, although an agent binds and sends the same again at every step."""
        warning = f"{model}: {text}"
        if warning in self._warned:
            return
        if len(self._warned) < _MAX_WARNINGS_KEPT:
            self._warned.add(warning)
        logger.warning("%s", warning)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._render(messages, resolve(self, stop, kwargs))
        retries = _retry_policy(request.invocation, run_manager)
        while True:
            try:
                return LongResponse(request, self._client, retries).generate()
            except _ANSWERED_BY_ANOTHER_REQUEST as failure:
                request = _another_request(request, failure)
                retries.report(1, failure, 0.0)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = await self._arender(messages, resolve(self, stop, kwargs))
        retries = _async_retry_policy(request.invocation, run_manager)
        while True:
            try:
                return await LongResponse(request, self._client, retries).agenerate()
            except _ANSWERED_BY_ANOTHER_REQUEST as failure:
                request = _another_request(request, failure)
                await retries.areport(1, failure, 0.0)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._render(messages, _for_stream(resolve(self, stop, kwargs)))
        retries = _retry_policy(request.invocation, run_manager)
        while True:
            has_begun = False
            response = LongResponse(request, self._client, retries)
            try:
                with closing(response.stream()) as chunks:
                    for chunk in chunks:
                        if run_manager:
                            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        has_begun = True
                        yield chunk
                return
            except _ANSWERED_BY_ANOTHER_REQUEST as failure:
                request = _another_request(request, failure, is_final=has_begun)
                retries.report(1, failure, 0.0)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = await self._arender(messages, _for_stream(resolve(self, stop, kwargs)))
        retries = _async_retry_policy(request.invocation, run_manager)
        while True:
            has_begun = False
            response = LongResponse(request, self._client, retries)
            try:
                async with aclosing(response.astream()) as chunks:
                    async for chunk in chunks:
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        has_begun = True
                        yield chunk
                return
            except _ANSWERED_BY_ANOTHER_REQUEST as failure:
                request = _another_request(request, failure, is_final=has_begun)
                await retries.areport(1, failure, 0.0)

    # Tools and structured output

    def bind(self, **kwargs: Any) -> GeminiBinding:
        """Bind options to every call; options of a call override them.

        Args:
            **kwargs: Options of the call.

        Raises:
            InvalidOptionError: An option has two values, under two names.
        """
        kwargs = set_together(kwargs)
        if "stop_sequences" in kwargs:  # a call's `stop` would look like a bound one
            kwargs = {"stop": kwargs.pop("stop_sequences"), **kwargs}
        if "functions" in kwargs:
            kwargs = rename_functions(kwargs)
        return GeminiBinding(bound=self, kwargs=hide_headers(kwargs))

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> GeminiBinding:
        """Bind a config to every call.

        Args:
            config: Tags, metadata, callbacks and so on.
            **kwargs: The same, as keywords.
        """
        joined = cast("RunnableConfig", {**(config or {}), **kwargs})
        return GeminiBinding(bound=self, config=joined)

    def with_listeners(self, **listeners: Any) -> GeminiBinding:
        """Bind listeners to every call.

        Args:
            **listeners: `on_start`, `on_end` and `on_error`: functions that receive the run.
        """
        return cast("GeminiBinding", self.bind().with_listeners(**listeners))

    def with_types(self, **types: Any) -> GeminiBinding:
        """Bind the types that schemas of chains show.

        Args:
            **types: `input_type` and `output_type`.
        """
        return cast("GeminiBinding", self.bind().with_types(**types))

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: ToolChoiceOption = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: Any = None,
        **kwargs: Any,
    ) -> GeminiBinding:
        """Bind tools.

        Args:
            tools: Functions, LangChain tools, Pydantic classes, TypedDicts, dicts in the OpenAI,
                Anthropic or Gemini form, SDK types, and Gemini's own tools
                (`{"google_search": {}}`).
            tool_choice: `"auto"`, `"any"` (also `"required"`, `True`), `"none"`, `"validated"`, the
                name of a tool, a list of names, or a dict in the OpenAI, Anthropic or Gemini form.
            strict: Make tool calls follow their schema: mode VALIDATED, unless another is chosen.
            parallel_tool_calls: Gemini has no such option; `False` warns.
            response_format: JSON output in addition to tools (Gemini 3 or later).
            **kwargs: Options of the call.

        Raises:
            InvalidToolError: A tool cannot be declared to Gemini.
            UnknownToolError: `tool_choice` names a tool that is not bound.
            InvalidOptionError: An option is unknown or has an invalid value.
        """
        kwargs = set_together(kwargs)
        given = {**kwargs, "tools": tools}
        if tool_choice is not None:
            given["tool_choice"] = tool_choice
        invocation = resolve(self, None, given)
        if "ls_structured_output_format" not in kwargs:  # the model does not choose that one
            self._report_findings(invocation)
        bound, capabilities = invocation.tools, invocation.capabilities
        validates = strict and capabilities.validates_calls and bound
        if validates and (config := render_validated(invocation.tool_choice)):
            tool_choice = config
            if spelled_as_fields({**self.model_kwargs, **kwargs}).get("tool_config"):
                kwargs["tool_config"] = None  # it is part of the choice
        if parallel_tool_calls is False:
            warnings.warn(
                "parallel_tool_calls=False has no effect: Gemini cannot be limited to one tool "
                "call at a time.",
                stacklevel=2,
            )
        options = {
            "tools": bound,
            "tool_choice": plain(tool_choice),
            "response_format": response_format,
        }
        # The last: of two output formats, the later one applies.
        return self.bind(**kwargs, **{k: v for k, v in options.items() if v not in (None, ())})

    def _report_findings(self, invocation: Invocation) -> None:
        from langchain_gemini_tools.wire.tools.lint import find_problems

        findings = find_problems(
            invocation.tools,
            invocation.capabilities.prompted()
            if invocation.is_prompted
            else invocation.capabilities,
            is_prompted=invocation.is_prompted,
            form=invocation.schema_form,
        )
        for finding in findings:
            self._warn_once(invocation.model, str(finding))

    # Context caches

    def with_context_cache(  # noqa: PLR0913
        self,
        messages: LanguageModelInput | None = None,
        *,
        system: str | None = None,
        tools: Sequence[Any] | None = None,
        tool_choice: ToolChoiceOption = None,
        ttl: str | float | timedelta | None = None,
        expire_time: str | datetime | None = None,
        display_name: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Create a context cache, and return a model that uses it.

        What the cache contains is left out of each request and still used to read the response, so
        that agents may bind the same tools and set the same system prompt at every step. What
        differs is rejected. The cache is `cached_content` of the model; renew, list and delete
        caches with `model.client.caches`.

        Args:
            messages: The beginning of conversations. Requests may repeat it or leave it out.
            system: The system text.
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts. It is fixed as well.
            ttl: How long it lives: seconds, `"300s"` or a timedelta; one hour by default.
            expire_time: When it ends, instead of `ttl`.
            display_name: A name for people.
            name: The name of a cache that exists. The other arguments then say what it contains,
                because the API does not show it.

        Raises:
            InvalidOptionError: The model has no context caches, or an argument is not valid.
            GeminiAPIError: The API did not create it, for instance because it is too small.
        """
        from langchain_gemini_tools.context_cache import cache_of, render_expiry

        given = self._convert_input(messages).to_messages() if messages else []
        if system:
            given = [SystemMessage(system), *given]
        settings = render_expiry(ttl, expire_time)
        if display_name:
            settings["display_name"] = display_name
        options = {"tools": tools, "tool_choice": tool_choice}
        contents = cache_of(self, given, options, settings, name)
        copied = self.model_copy(update={"cached_content": contents.name})
        copied._cache_contents = contents  # noqa: SLF001 - of the same class
        return copied

    async def awith_context_cache(
        self, messages: LanguageModelInput | None = None, **arguments: Any
    ) -> Self:
        """Create a context cache as `with_context_cache` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.with_context_cache, messages, **arguments))

    # Batch jobs

    def batch_job(  # noqa: PLR0913
        self,
        inputs: Iterable[LanguageModelInput] | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        name: str | None = None,
        submit: bool = True,
        webhooks: Mapping[str, Any] | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BatchJob[AIMessage]:
        """Send inputs through Gemini's batch service: half the price, an answer within a day.

        The folder at `path` is the state of the job. After a crash, the same call goes on where it
        was, and nothing is sent twice. The Gemini Developer API only.

        Example:
            ```python
            job = model.batch_job(questions, path="runs/answers")
            for index, result in job.results():  # in the order of the inputs
                if isinstance(result, Exception): ...
            ```

        Args:
            inputs: What `invoke` accepts, each; rendered one after the other. None goes on with
                the job at `path`.
            path: The folder of the job. It is created, and has to stay until the end.
            name: The name of a job at the service (`batches/...`) instead of inputs. Without
                `path`, its results are stored in a temporary folder.
            submit: Create the job now. Otherwise `job.preview()` shows the requests and
                `job.submit()` sends them.
            webhooks: The API's `webhookConfig`, such as `{"uris": [...]}`.
            config: Callbacks, tags and metadata for the results.
            **kwargs: Options of the call.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one at `path`.
            GeminiAPIError: The API did not create the job. Make the same call again.
        """
        return self._batch_job(
            inputs,
            path=path,
            name=name,
            submit=submit,
            webhooks=webhooks,
            config=config,
            kwargs=kwargs,
            finish=lambda message: message,
        )

    async def abatch_job(
        self, inputs: Iterable[LanguageModelInput] | None = None, **arguments: Any
    ) -> BatchJob[AIMessage]:
        """Make a batch job as `batch_job` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.batch_job, inputs, **arguments))

    def _batch_job(  # noqa: PLR0913
        self,
        inputs: Iterable[LanguageModelInput] | None,
        *,
        path: str | os.PathLike[str] | None,
        name: str | None,
        submit: bool,
        webhooks: Mapping[str, Any] | None,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
        finish: Callable[[AIMessage], Result],
    ) -> BatchJob[Result]:
        has_place = path is not None if name is None else inputs is None
        if not has_place:
            raise InvalidOptionError(
                "A batch job needs inputs and a path, or the name of a job at the service."
            )
        if self.uses_vertexai:
            raise InvalidOptionError(
                "batch_job needs the Gemini Developer API. On Vertex AI, use "
                "model.client.batches.create(model=..., src='gs://...')."
            )
        invocation = resolve(self, None, self._batch_options(kwargs))
        if invocation.interaction:
            raise InvalidOptionError(
                "The batch service has no Interactions API. Use api='generate_content'."
            )
        source = BatchSource(
            template=self._render([HumanMessage("template")], invocation),
            render=lambda each: self._render(self._convert_input(each).to_messages(), invocation),
            client=self._client,
            retries=_retry_policy(invocation, None),
            finish=finish,
        )
        job: BatchJob[Result] = BatchJob(source, path, webhooks=webhooks, config=config)
        if name is not None:
            job.adopt(name)
            return job
        job.prepare(inputs)
        if submit:
            job.submit()
        return job

    def _batch_options(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with the form of schemas that is safe in batches, unless it is set."""
        levels = [spelled_as_fields(self.model_kwargs), spelled_as_fields(kwargs)]
        if self.tool_schema or any(level.get("tool_schema") for level in levels):
            return dict(kwargs)
        return {**kwargs, "tool_schema": "openapi"}

    # Prompted tools

    def render_prompt(
        self, tools: Sequence[Any], *, tool_choice: ToolChoiceOption = None, **kwargs: Any
    ) -> str:
        """Return the description of tools for a model without function calling.

        `preview` shows the whole request.

        Args:
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts.
            **kwargs: Options of the call.
        """
        from langchain_gemini_tools.prompted.request import render_instructions

        given = {**kwargs, "tools": tools, "tool_choice": tool_choice}
        return "\n\n".join(render_instructions(resolve(self, None, given)).texts)

    def prompt_overhead(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: ToolChoiceOption = None,
        exact: bool = False,
        **kwargs: Any,
    ) -> PromptOverhead:
        """Measure what `render_prompt` adds to every request: `print` the result.

        Args:
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts.
            exact: Count tokens with the API instead of estimating four characters per token.
            **kwargs: Options of the call.
        """
        from langchain_gemini_tools.prompted.request import measure_overhead

        given = {**kwargs, "tools": tools, "tool_choice": tool_choice}
        count = self.get_num_tokens if exact else None
        return measure_overhead(resolve(self, None, given), count)

    # Tokens

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text with the API.

        Args:
            text: The text of one user message.
        """
        return self.get_num_tokens_from_messages([HumanMessage(text)]) if text else 0

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """Count the tokens of messages and tools with the API.

        Args:
            messages: Any part of a history.
            tools: What `bind_tools` accepts.
            **kwargs: Options of the call.
        """
        if all(isinstance(message, SystemMessage) for message in messages):
            # `trim_messages` counts system messages separately; countTokens needs a user turn.
            messages = [HumanMessage(message.content) for message in messages if message.content]
        if not messages:
            return self._count_tools(tools, kwargs) if tools else 0
        # The Interactions API does not count tokens.
        options = {**kwargs, "on_broken_history": "repair", **_ON_GENERATE_CONTENT}
        options |= {"tools": tools} if tools else {}
        invocation = resolve(self, None, options)
        if limits := invocation.fetch_limits:
            messages = fetch_media(messages, limits, self._media)
        request = _render_fetched(messages, invocation)
        client = self._client
        count = partial(
            client.count_tokens,
            invocation.model,
            render_counting(request),
            timeout_seconds=invocation.timeout_seconds,
            headers=invocation.headers,
        )
        with client.redacting_errors():
            return parse_count(_retry_policy(invocation, None).call(count))

    def _count_tools(self, tools: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        """Count what tools add to a message; the API does not count tools alone."""
        message = [HumanMessage("Hi")]
        with_tools = self.get_num_tokens_from_messages(message, tools, **kwargs)
        others = {k: v for k, v in kwargs.items() if k not in {"tool_choice", "tool_config"}}
        return with_tools - self.get_num_tokens_from_messages(message, **others)

    # The client

    def __copy__(self) -> Self:
        copied = super().__copy__()
        # A share of its own, which `close` gives up.
        copied._gemini = copy(self._gemini)  # noqa: SLF001 - of the same class
        return copied

    @property
    def _client(self) -> GeminiClient:
        """The client for the current fields. Models with equal settings share its connections."""
        self._check_unpickled()
        settings = self._client_settings()
        with _CLIENT_LOCK:
            if self._gemini is None or self._gemini.settings != settings:
                self._gemini = GeminiClient(settings)
            return self._gemini

    @property
    def client(self) -> SdkClient:
        """The `google.genai.Client` that this model uses, for the rest of the API.

        `files`, `caches`, `batches`, `models` and so on work with the credentials, the address, the
        headers, the proxy and the timeout of the model, over its connections: `close` closes them,
        and the next request opens new ones. Errors are the SDK's (`google.genai.errors`), with
        secrets redacted. The first use loads the SDK.

        Example:
            ```python
            report = model.client.files.upload(file="report.pdf")
            ```
        """
        return self._client.sdk

    @property
    def async_client(self) -> SdkAsyncClient:
        """The async half of `client`: `await model.async_client.files.upload(...)`."""
        return self.client.aio

    def close(self) -> None:
        """Close the connections of sync calls, unless other models with equal settings use them.

        The next call opens new ones.
        """
        if self._gemini:
            self._gemini.close()

    async def aclose(self) -> None:
        """Close all connections, unless other models with equal settings use them."""
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


def _render_fetched(messages: Sequence[BaseMessage], invocation: Invocation) -> RenderedRequest:
    if invocation.interaction:
        from langchain_gemini_tools.interactions.request import render_interaction

        return render_interaction(messages, invocation, WrittenCalls)
    if invocation.is_prompted:
        from langchain_gemini_tools.prompted.request import render_prompted

        return render_prompted(messages, invocation)
    return render_request(messages, invocation, find_written_calls=WrittenCalls)


def _for_stream(invocation: Invocation) -> Invocation:
    if invocation.generation["n"] != 1:
        raise InvalidOptionError("n must be 1 for streaming: a stream has one candidate.")
    if options := invocation.interaction:
        return replace(invocation, interaction=replace(options, is_stream=True))
    return invocation


def _another_request(
    request: RenderedRequest, failure: ResponseError | GeminiAPIError, *, is_final: bool = False
) -> RenderedRequest:
    """Return the request that is sent instead; re-raise if there is none."""
    if not isinstance(failure, GeminiAPIError):
        return _with_feedback(request, failure, is_final=is_final)
    whole = request.without_previous(failure)
    if is_final or whole is None:
        raise failure
    logger.warning("The previous interaction is gone; all messages are sent: %s", str(failure))
    return whole


def _with_feedback(
    request: RenderedRequest, failure: ResponseError, *, is_final: bool = False
) -> RenderedRequest:
    """Return the request with feedback appended; re-raise if it must not be sent again."""
    if is_final or request.is_second_try or not request.invocation.retries_with_feedback:
        raise failure
    model = request.invocation.model
    logger.warning("%s: retrying once with feedback: %s", model, str(failure))
    return request.with_feedback(failure)


def _retry_policy(
    invocation: Invocation, run_manager: CallbackManagerForLLMRun | None
) -> RetryPolicy:
    # langchain-core streams without handing over its run manager.
    report = partial(report_retry, run_manager) if run_manager else report_to_parent_run
    return RetryPolicy(
        invocation.max_retries,
        invocation.max_retry_delay_seconds,
        on_retry=report,
        on_status=partial(report_status, run_manager),
        model=invocation.model,
    )


def _async_retry_policy(
    invocation: Invocation, run_manager: AsyncCallbackManagerForLLMRun | None
) -> RetryPolicy:
    report = partial(areport_retry, run_manager) if run_manager else areport_to_parent_run
    return RetryPolicy(
        invocation.max_retries,
        invocation.max_retry_delay_seconds,
        aon_retry=report,
        aon_status=partial(areport_status, run_manager),
        model=invocation.model,
    )
