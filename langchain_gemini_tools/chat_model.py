"""`ChatGemini`, the LangChain chat model. Rendering, transport and parsing are in other modules.

Modules that many programs never need (prompted tools, structured output) are imported by the
methods that need them.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from langchain_core.language_models import BaseChatModel, LangSmithParams, ModelProfile
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict

from langchain_gemini_tools.access import retry_policy
from langchain_gemini_tools.batch import find_asker
from langchain_gemini_tools.binding import GeminiBinding, StructuredOutputMethod
from langchain_gemini_tools.errors import (
    FEEDBACK_ERRORS,
    GeminiAPIError,
    GeminiInvalidRequestError,
    GeminiNotFoundError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import headers_digest
from langchain_gemini_tools.facts.environment import KEY_VARIABLES
from langchain_gemini_tools.options import (
    hide_headers,
    option_values,
    redact_headers,
    rename_functions,
    resolve,
    resolve_profile,
    set_together,
    spelled_as_fields,
    split_headers,
)
from langchain_gemini_tools.services import GeminiServices
from langchain_gemini_tools.wire.generation import plain
from langchain_gemini_tools.wire.invocation import Invocation, ToolChoiceOption
from langchain_gemini_tools.wire.tools.bind import bind_tools, plain_tools
from langchain_gemini_tools.wire.tools.choice import disables_parallel_calls, render_validated

if TYPE_CHECKING:
    from typing import Unpack

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.arguments import ChatGeminiArguments
    from langchain_gemini_tools.batch import BatchSource
    from langchain_gemini_tools.batch.runner import Asker
    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.wire.request import RenderedRequest

logger = logging.getLogger(__name__)

_ANSWERED_BY_ANOTHER_REQUEST = (
    *FEEDBACK_ERRORS,
    GeminiNotFoundError,
    GeminiInvalidRequestError,
)
"""Failures after which the same question may be sent in another form."""
_PARALLEL = "{} has no effect: Gemini cannot be limited to one tool call at a time."
_TRACED_OPTIONS = ("model", "stop", "temperature", "max_output_tokens")

Method = TypeVar("Method", bound=Callable[..., Any])


def _with_signature(method: Method) -> Method:
    """Store the signature of a method: LangChain asks for it in every call, for 2 % of its time."""
    vars(method)["__signature__"] = inspect.signature(method)
    return method


class ChatGemini(StructuredOutputMethod, GeminiServices):
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
    `bind`, or given to `invoke` and `stream`. All arguments are described in the reference:
    https://github.com/langchain-gemini-tools/langchain-gemini-tools/blob/main/docs/reference/chat-model.md
    """

    model_config = ConfigDict(defer_build=False)

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
                **arguments: Access, sampling, thinking, output and behavior. Those
                    that can be set per call can also be bound with `bind`, or passed to `invoke`
                    and `stream`.
            """

    @property
    def _llm_type(self) -> str:
        return "gemini-tools"

    @property
    def lc_secrets(self) -> dict[str, str]:
        """The fields that serialization replaces by the name of an environment variable."""
        return {"google_api_key": KEY_VARIABLES[0]}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether `dumpd` and `load` work."""
        return True

    @property
    def _identifying_params(self) -> dict[str, Any]:
        options = option_values(self)
        return {"model": self.model} | {
            name: value for name, value in options.items() if value is not None
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        options: dict[str, Any] = {name: getattr(self, name) for name in _TRACED_OPTIONS}
        for level in filter(None, (self.model_kwargs, kwargs)):
            options |= spelled_as_fields(level)
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
        shown = plain_tools(redact_headers(kwargs))
        traced = self._get_ls_params(stop, **kwargs)
        if _is_described_by_core(type(self)):
            # As in core, which also changes the filters of `warnings` for every call.
            own = {**self._identifying_params, "_type": self._llm_type}
            params = {**own, "stop": traced.get("ls_stop"), **shown}
        else:
            params = super()._get_invocation_params(traced.get("ls_stop"), **shown)
        if (limit := traced.get("ls_max_tokens")) is not None:
            params |= {"max_output_tokens": limit, "max_tokens": limit}  # tracers read the second
        return params

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        """Return the key of LangChain's cache: the values of headers are in it as a digest."""
        others, headers = split_headers(kwargs)
        digest = headers_digest({**self._own_headers, **headers})
        return super()._get_llm_string(stop, **others) + (f"---{digest}" if digest else "")

    def _resolve_model_profile(self) -> ModelProfile | None:
        return cast("ModelProfile", resolve_profile(self))

    # One invocation

    @_with_signature
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if asker := find_asker():
            return self._ask_in_batches(asker, messages, (stop, kwargs), run_manager)
        request = self._render(messages, resolve(self, stop, kwargs))
        retries = retry_policy(request.invocation, run_manager)
        while True:
            try:
                return self._request_response(request, retries).generate()
            except _ANSWERED_BY_ANOTHER_REQUEST as failure:
                request = _another_request(request, failure)
                retries.report(1, failure, 0.0)

    @_with_signature
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if asker := find_asker():
            return await self._aask_in_batches(asker, messages, (stop, kwargs), run_manager)
        request = await self._arender(messages, resolve(self, stop, kwargs))
        retries = retry_policy(request.invocation, run_manager)
        while True:
            try:
                return await self._request_response(request, retries).agenerate()
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
        if asker := find_asker():
            _for_stream(resolve(self, stop, kwargs))
            yield _as_chunk(self._ask_in_batches(asker, messages, (stop, kwargs), run_manager))
            return
        request = self._render(messages, _for_stream(resolve(self, stop, kwargs)))
        retries = retry_policy(request.invocation, run_manager)
        while True:
            has_begun = False
            response = self._request_response(request, retries)
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
        if asker := find_asker():
            _for_stream(resolve(self, stop, kwargs))
            options = (stop, kwargs)
            yield _as_chunk(await self._aask_in_batches(asker, messages, options, run_manager))
            return
        request = await self._arender(messages, _for_stream(resolve(self, stop, kwargs)))
        retries = retry_policy(request.invocation, run_manager)
        while True:
            has_begun = False
            response = self._request_response(request, retries)
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

    # Agents that run in batches

    def _ask_in_batches(
        self,
        asker: Asker,
        messages: Sequence[BaseMessage],
        options: tuple[list[str] | None, Mapping[str, Any]],
        run_manager: CallbackManagerForLLMRun | None,
    ) -> ChatResult:
        from langchain_gemini_tools.batch.runner import ask_in_batches, interrupted_result

        request = self._render(messages, self._batch_invocation(*options))
        try:
            return ask_in_batches(asker, request, self._source_of(request))
        except asker.pauses as pause:
            asker.wait_for_others()
            if run_manager:
                run_manager.on_llm_end(interrupted_result(), pause=pause)
                run_manager.handlers = []  # the call has ended; core would report an error
            raise

    async def _aask_in_batches(
        self,
        asker: Asker,
        messages: Sequence[BaseMessage],
        options: tuple[list[str] | None, Mapping[str, Any]],
        run_manager: AsyncCallbackManagerForLLMRun | None,
    ) -> ChatResult:
        from langchain_gemini_tools.batch.runner import ask_in_batches, interrupted_result

        request = await self._arender(messages, self._batch_invocation(*options))
        try:
            return ask_in_batches(asker, request, self._source_of(request))
        except asker.pauses as pause:
            await asker.await_others()
            if run_manager:
                await run_manager.on_llm_end(interrupted_result(), pause=pause)
                run_manager.handlers = []
            raise

    def _source_of(self, request: RenderedRequest) -> BatchSource:
        from langchain_gemini_tools.batch import BatchSource

        return BatchSource(
            template=request,
            render=lambda body: replace(request, encoded=body),
            client=self._client,
            retries=retry_policy(request.invocation),
            chat_model=self,
        )

    # Tools and structured output

    def bind(self, **kwargs: Any) -> GeminiBinding:
        """Bind options to every call; options of a call override them.

        Args:
            **kwargs: Options of the call.

        Raises:
            InvalidOptionError: An option has two values, under two names.
            InvalidToolError: A tool cannot be declared to Gemini.
        """
        kwargs = set_together(kwargs)
        if "stop_sequences" in kwargs:  # a call's `stop` would look like a bound one
            kwargs = {"stop": kwargs.pop("stop_sequences"), **kwargs}
        if "functions" in kwargs:
            kwargs = rename_functions(kwargs)
        if tools := kwargs.get("tools"):  # bound now: what they hide is not shown
            kwargs = {**kwargs, "tools": bind_tools(tools)}
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

    def bind_tools(  # noqa: PLR0913 - tool_config is second in langchain-google-genai
        self,
        tools: Sequence[Any],
        tool_config: Any = None,
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
            tool_config: The API's `toolConfig`, as a dict or an SDK object; joined with
                `tool_choice`.
            tool_choice: `"auto"`, `"any"` (also `"required"`, `True`), `"none"`, `"validated"`, the
                name of a tool, a list of names, or a dict in the OpenAI, Anthropic, Bedrock or
                Gemini form.
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
        if tool_config is not None:
            kwargs["tool_config"] = tool_config
        given = {**kwargs, "tools": tools}
        if tool_choice is not None:
            given["tool_choice"] = tool_choice
        invocation = resolve(self, None, given)
        if "ls_structured_output_format" not in kwargs:  # the model does not choose that one
            self._report_findings(invocation)
        bound, choice = invocation.tools, invocation.tool_choice
        if strict and (config := render_validated(choice, bound, invocation.capabilities)):
            tool_choice = config
            if spelled_as_fields({**self.model_kwargs, **kwargs}).get("tool_config"):
                kwargs["tool_config"] = None  # it is part of the choice
        if parallel_tool_calls is False:
            warnings.warn(_PARALLEL.format("parallel_tool_calls=False"), stacklevel=2)
        elif disables_parallel_calls(tool_choice):
            warnings.warn(_PARALLEL.format("disable_parallel_tool_use"), stacklevel=2)
        options = {"tools": bound, "tool_choice": plain(tool_choice)}
        options["response_format"] = response_format  # the last: of two formats, the later applies
        return self.bind(**kwargs, **{k: v for k, v in options.items() if v not in (None, ())})


def _is_described_by_core(kind: type[ChatGemini]) -> bool:
    """Return whether a class has core's own methods that describe a model as a dict."""
    names = ("dict", "asdict")
    return all(getattr(kind, name, None) is getattr(BaseChatModel, name, None) for name in names)


def _for_stream(invocation: Invocation) -> Invocation:
    if invocation.generation["n"] != 1:
        raise InvalidOptionError("n must be 1 for streaming: a stream has one candidate.")
    if options := invocation.interaction:
        return replace(invocation, interaction=replace(options, is_stream=True))
    if invocation.tool_choice.settings and not invocation.cache:
        # A cache fixes the tool config, also of responses that are not streams.
        return replace(invocation, streams_arguments=True)
    return invocation


def _another_request(
    request: RenderedRequest, failure: ResponseError | GeminiAPIError, *, is_final: bool = False
) -> RenderedRequest:
    """Return the request that is sent instead; re-raise if there is none."""
    if not isinstance(failure, GeminiAPIError):
        return _with_feedback(request, failure, is_final=is_final)
    # What has arrived would be generated, and paid for, again.
    is_final = is_final or failure.partial is not None
    other = None if is_final else request.in_another_form(failure)
    if other is None:
        raise failure
    changed, explanation = other
    logger.warning("%s: %s", explanation, str(failure))
    return changed


def _with_feedback(
    request: RenderedRequest, failure: ResponseError, *, is_final: bool = False
) -> RenderedRequest:
    """Return the request with feedback appended; re-raise if it must not be sent again."""
    if is_final or request.is_second_try or not request.invocation.retries_with_feedback:
        raise failure
    model = request.invocation.model
    logger.warning("%s: retrying once with feedback: %s", model, str(failure))
    return request.with_feedback(failure)


def _as_chunk(result: ChatResult) -> ChatGenerationChunk:
    """Return a whole result as the only chunk of a stream."""
    (generation,) = result.generations
    # It makes tool call chunks of the tool calls.
    chunk = AIMessageChunk(**generation.message.model_dump(exclude={"type"}), chunk_position="last")
    return ChatGenerationChunk(message=chunk, generation_info=generation.generation_info)
