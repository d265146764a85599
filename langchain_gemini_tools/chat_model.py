"""ChatGemini: the LangChain chat model. It calls the rooms of this package and converts nothing.

Rooms that many programs never enter (tools by prompt, structured output) are loaded by the methods
that do, so that nobody else waits for them.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from langchain_core.language_models import LangSmithParams, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, PrivateAttr

from langchain_gemini_tools.client import GeminiClient
from langchain_gemini_tools.credentials import check_given_again
from langchain_gemini_tools.errors import FEEDBACK_ERRORS, InvalidOptionError
from langchain_gemini_tools.facts.models import profile_of
from langchain_gemini_tools.media_fetch import FetchedMedia, afetch_media, fetch_media
from langchain_gemini_tools.options import (
    OPTION_FIELDS,
    GeminiOptions,
    OwnProfile,
    canonical_options,
)
from langchain_gemini_tools.prompted.overhead import PromptOverhead, measure_overhead
from langchain_gemini_tools.retry import (
    RetryPolicy,
    atell_callbacks,
    atell_surrounding_run,
    tell_callbacks,
    tell_surrounding_run,
)
from langchain_gemini_tools.wire.generation import OUTPUT_FORMATS, plain
from langchain_gemini_tools.wire.request import (
    RenderedRequest,
    render_counting,
    render_request,
)
from langchain_gemini_tools.wire.tools.choice import render_validated, resolve_tool_choice
from langchain_gemini_tools.wire.tools.declarations import bind_tools
from langchain_gemini_tools.wire.tools.findings import find_problems, refuse_unusable_tools
from langchain_gemini_tools.wire.usage import parse_count

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from pydantic import SecretStr

    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.wire.history import Repair

logger = logging.getLogger(__name__)

_CLIENT_LOCK = threading.Lock()
_MAX_TOLD = 1000


class ChatGemini(GeminiOptions):
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

    model_config = ConfigDict(defer_build=False)

    _gemini: GeminiClient | None = PrivateAttr(default=None)
    _told: set[str] = PrivateAttr(default_factory=set)
    _media: FetchedMedia = PrivateAttr(default_factory=FetchedMedia)

    # Construction

    if TYPE_CHECKING:
        # Type checkers would know each field by one name only; these are the usual ones.
        def __init__(  # noqa: PLR0913
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
        options = {name: getattr(self, name) for name in OPTION_FIELDS}
        return {"model": self.model} | {
            name: value for name, value in options.items() if value is not None
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        options: dict[str, Any] = {
            "stop": self.stop,
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            **canonical_options(kwargs),
            **({"stop": stop} if stop else {}),
        }
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
        by_prompt = self._calls_by_prompt({})
        profile = profile_of(self.model_family or self.model, by_prompt=by_prompt)
        return cast("ModelProfile", OwnProfile(profile))

    # One call

    def preview(
        self, model_input: LanguageModelInput, stop: list[str] | None = None, **kwargs: Any
    ) -> RenderedRequest:
        """What a call would send, without sending it: `body`, and the `repairs` made for it.

        With `fetch_urls`, what messages name by URL is fetched for it.

        Args:
            model_input: What `invoke` takes.
            stop: What `invoke` takes.
            **kwargs: What `invoke` takes; bound tools are in `kwargs` of the binding.
        """
        messages = self._convert_input(model_input).to_messages()
        return self._render(self._fetched(messages, kwargs), stop, kwargs)

    def _render(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> RenderedRequest:
        rendered = self._render_quietly(messages, stop, kwargs)
        self._tell(rendered.repairs)
        return rendered

    def _render_quietly(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> RenderedRequest:
        options = self._call_options(stop, kwargs)
        if self._calls_by_prompt(kwargs):
            from langchain_gemini_tools.prompted.request import render_prompted

            return render_prompted(messages, options, self._tool_prompt(kwargs))
        return render_request(messages, options)

    def _fetched(
        self, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]
    ) -> Sequence[BaseMessage]:
        """The messages with the media that they name by URL, where that is wanted."""
        limits = self._fetch_limits(kwargs)
        return fetch_media(messages, limits, self._media) if limits else messages

    async def _afetched(
        self, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]
    ) -> Sequence[BaseMessage]:
        limits = self._fetch_limits(kwargs)
        return await afetch_media(messages, limits, self._media) if limits else messages

    def _tell(self, repairs: Sequence[Repair]) -> None:
        for repair in repairs:
            if not repair.is_harmless:
                self._warn_once(f"Message {repair.position}: {repair.explanation}")

    def _warn_once(self, warning: str) -> None:
        """Log a warning once, although an agent binds and sends the same again at every step."""
        if warning in self._told:
            return
        if len(self._told) < _MAX_TOLD:
            self._told.add(warning)
        logger.warning("%s", warning)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._render(self._fetched(messages, kwargs), stop, kwargs)
        retries = self._retries(kwargs, run_manager)
        client = self._client
        while True:
            ask = partial(client.send, **self._sending(request, kwargs))
            try:
                # The reply has no name here: frames would show it, and what it may quote.
                with request.naming_tools(), client.hiding_secrets():
                    return request.parse(retries.call(ask))
            except FEEDBACK_ERRORS as failure:
                request = self._second_try(request, failure, kwargs)
                retries.announce(1, failure, 0.0)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._render(await self._afetched(messages, kwargs), stop, kwargs)
        retries = self._aretries(kwargs, run_manager)
        client = self._client
        while True:
            ask = partial(client.asend, **self._sending(request, kwargs))
            try:
                with request.naming_tools(), client.hiding_secrets():
                    return request.parse(await retries.acall(ask))
            except FEEDBACK_ERRORS as failure:
                request = self._second_try(request, failure, kwargs)
                await retries.aannounce(1, failure, 0.0)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = self._render_for_stream(self._fetched(messages, kwargs), stop, kwargs)
        retries = self._retries(kwargs, run_manager)
        while True:
            has_begun = False
            ask = partial(self._read_stream, request, kwargs)
            try:
                with closing(retries.open_stream(ask)) as chunks:
                    for chunk in chunks:
                        if run_manager:
                            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        has_begun = True
                        yield chunk
                return
            except FEEDBACK_ERRORS as failure:
                request = self._second_try(request, failure, kwargs, is_final=has_begun)
                retries.announce(1, failure, 0.0)

    def _read_stream(
        self, request: RenderedRequest, kwargs: Mapping[str, Any]
    ) -> Iterator[ChatGenerationChunk]:
        parser, client = request.stream_parser(), self._client
        replies = client.stream(
            **self._sending(request, kwargs), total_seconds=self._stream_timeout(kwargs)
        )
        with (
            request.naming_tools(),
            client.hiding_secrets(),
            parser.keeping_partial(),
            closing(replies),
        ):
            yield from chain.from_iterable(map(parser.feed, replies))
            yield from parser.finish()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._render_for_stream(await self._afetched(messages, kwargs), stop, kwargs)
        retries = self._aretries(kwargs, run_manager)
        while True:
            has_begun = False
            ask = partial(self._aread_stream, request, kwargs)
            try:
                async with aclosing(retries.aopen_stream(ask)) as chunks:
                    async for chunk in chunks:
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        has_begun = True
                        yield chunk
                return
            except FEEDBACK_ERRORS as failure:
                request = self._second_try(request, failure, kwargs, is_final=has_begun)
                await retries.aannounce(1, failure, 0.0)

    async def _aread_stream(
        self, request: RenderedRequest, kwargs: Mapping[str, Any]
    ) -> AsyncIterator[ChatGenerationChunk]:
        parser, client = request.stream_parser(), self._client
        replies = client.astream(
            **self._sending(request, kwargs), total_seconds=self._stream_timeout(kwargs)
        )
        with request.naming_tools(), client.hiding_secrets(), parser.keeping_partial():
            async with aclosing(replies):
                reply: Any = None
                try:
                    async for reply in replies:
                        for chunk in parser.feed(reply):
                            yield chunk
                finally:
                    reply = None  # as in `_generate`
            for chunk in parser.finish():
                yield chunk

    def _retries(
        self, kwargs: Mapping[str, Any], run_manager: CallbackManagerForLLMRun | None = None
    ) -> RetryPolicy:
        # langchain-core streams without handing over its run manager.
        tell = partial(tell_callbacks, run_manager) if run_manager else tell_surrounding_run
        return RetryPolicy(**self._retry_limits(kwargs), on_retry=tell)

    def _aretries(
        self, kwargs: Mapping[str, Any], run_manager: AsyncCallbackManagerForLLMRun | None
    ) -> RetryPolicy:
        tell = partial(atell_callbacks, run_manager) if run_manager else atell_surrounding_run
        return RetryPolicy(**self._retry_limits(kwargs), aon_retry=tell)

    def _retry_limits(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        longest = self._option("max_retry_delay", kwargs)
        return {"max_retries": self._max_retries(kwargs), "max_delay_seconds": longest}

    def _sending(self, request: RenderedRequest, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What the client is called with."""
        return {
            "model": request.context.model,
            "body": request.encoded,
            "timeout_seconds": self._timeout(kwargs),
        }

    def _second_try(
        self,
        request: RenderedRequest,
        failure: ResponseError,
        kwargs: Mapping[str, Any],
        *,
        is_final: bool = False,
    ) -> RenderedRequest:
        """The request with a word about the failure, or the failure where that is not wanted."""
        if is_final or request.is_second_try or not self._may_ask_again(kwargs):
            raise failure
        logger.warning("Asking once more, with feedback: %s", str(failure))
        return request.with_feedback(failure)

    def _render_for_stream(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]
    ) -> RenderedRequest:
        if self._option("n", kwargs) != 1:
            raise InvalidOptionError("A stream has one candidate: n must be 1 for it.")
        return self._render(messages, stop, kwargs)

    # Tools and structured output

    if not TYPE_CHECKING:  # the types are core's, and differ between its versions

        def bind(self, **kwargs: Any) -> Any:
            """This model with options of every call; those of a call beat them."""
            if "stop_sequences" in kwargs:  # a call's `stop` could not be told from what is bound
                kwargs = {"stop": kwargs.pop("stop_sequences"), **kwargs}
            return super().bind(**kwargs)

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
        given = canonical_options(kwargs)
        bound = bind_tools(tools)
        capabilities = self._capabilities(given.get("model") or self.model)
        if by_prompt := self._calls_by_prompt(given):
            capabilities = capabilities.by_prompt()
        refuse_unusable_tools(bound, capabilities)
        form = given.get("tool_schema") or self.tool_schema
        for finding in find_problems(bound, capabilities, by_prompt=by_prompt, form=form):
            if "ls_structured_output_format" not in kwargs:  # a schema is no tool to be chosen
                self._warn_once(str(finding))
        every = {**canonical_options(self.model_kwargs), **given}
        said = tool_choice if tool_choice is not None else every.get("tool_choice")
        resolved = resolve_tool_choice(said, bound, capabilities, every.get("tool_config"))
        validates = strict and capabilities.validates_calls and bound
        if validates and (config := render_validated(resolved)):
            tool_choice = config
            if every.get("tool_config"):
                kwargs["tool_config"] = None  # it is in the choice
        if parallel_tool_calls is False:
            warnings.warn(
                "Gemini cannot be told to make one call at a time: parallel_tool_calls=False has "
                "no effect.",
                stacklevel=2,
            )
        options = {
            "tools": bound,
            "tool_choice": plain(tool_choice),
            "response_format": response_format,
        }
        return self.bind(**{k: v for k, v in options.items() if v not in (None, [])}, **kwargs)

    def with_structured_output(
        self,
        schema: Any = None,
        method: Literal["function_calling", "json_schema", "json_mode"] | None = None,
        *,
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """This model, answering with an instance of a schema.

        Args:
            schema: A Pydantic class, a TypedDict, a JSON schema, or a function's specification.
            method: `"function_calling"`, a forced call of the schema; `"json_schema"`, the API's
                JSON output with the schema; `"json_mode"`, the same, and without a schema JSON as
                your prompt describes it. By default a call, where the schema can be one: an object
                with a name. A model without function calling or JSON output is asked for either
                in words.
            include_raw: Return `{"raw", "parsed", "parsing_error"}`: what cannot be parsed is told,
                not raised.
            strict: Accepted; Gemini holds itself to the schema in all methods.
            **kwargs: Any option of a call.

        An answer that cannot be parsed, or comes without the forced call, is an
        `OutputParserException` of langchain-core, also at the end of a stream.
        """
        from langchain_gemini_tools.structured_output import (
            as_function,
            json_parser,
            refuse_other_tools,
            shown_format,
            tools_parser,
            with_raw,
        )
        from langchain_gemini_tools.wire.schema.cleaning import render_response_schema

        if method not in {None, "function_calling", "json_schema", "json_mode"}:
            raise ValueError(
                f"method={method!r} is unknown; there are function_calling, json_schema, json_mode."
            )
        if schema is None and method != "json_mode":
            raise ValueError(f"method={method!r} needs a schema.")
        options = dict(kwargs)
        if tool := as_function(schema, method):
            name = tool["function"]["name"]
            refuse_other_tools(kwargs)
            options |= self._without_json_output(kwargs)
            options["ls_structured_output_format"] = shown_format("function_calling", schema, tool)
            model = self.bind_tools([tool], tool_choice=name, **options)
            parser = tools_parser(schema, name)
        elif schema is None:
            model = self.bind(response_mime_type="application/json", **options)
            parser = json_parser(None)
        else:
            form = render_response_schema(schema)
            title = getattr(schema, "__name__", None) or "answer"
            read = {"title": title, **form}
            options["ls_structured_output_format"] = shown_format(
                method or "json_schema", schema, read
            )
            model = self.bind(response_schema=form, **options)
            parser = json_parser(schema, form if self._calls_by_prompt(kwargs) else None)
        return with_raw(model, parser) if include_raw else model | parser

    def _without_json_output(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What takes back the JSON output of every call, unless this one asks for it."""
        every = self._options(None, {})
        is_set = any(every.get(name) is not None for name in OUTPUT_FORMATS)
        if is_set and not OUTPUT_FORMATS & canonical_options(kwargs).keys():
            return {"response_format": {"type": "text"}}
        return {}

    # Tools by prompt

    def render_prompt(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> str:
        """What a model without function calling is told about tools; `preview` shows all it gets.

        Args:
            tools: What `bind_tools` takes.
            tool_choice: What `bind_tools` takes.
            **kwargs: Any option of a call.
        """
        from langchain_gemini_tools.prompted.instructions import render_instructions

        options = self._call_options(None, {**kwargs, "tools": tools, "tool_choice": tool_choice})
        told = render_instructions(options, self._tool_prompt(kwargs))
        return "\n\n".join(told.texts)

    def prompt_overhead(
        self, tools: Sequence[Any], *, tool_choice: Any = None, exact: bool = False, **kwargs: Any
    ) -> PromptOverhead:
        """What `render_prompt` costs in every request: `print` it.

        Args:
            tools: What `bind_tools` takes.
            tool_choice: What `bind_tools` takes.
            exact: Let the API count, instead of taking four characters for a token.
            **kwargs: Any option of a call.
        """
        options = self._call_options(None, {**kwargs, "tools": tools, "tool_choice": tool_choice})
        count = self.get_num_tokens if exact else None
        return measure_overhead(options, self._tool_prompt(kwargs), count)

    # Tokens

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the API counts in a text."""
        return self.get_num_tokens_from_messages([HumanMessage(text)]) if text else 0

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """How many tokens the API counts in messages and tools; any piece of a history will do."""
        if all(isinstance(message, SystemMessage) for message in messages):
            # Who trims a history counts them apart; the API counts a user's words.
            messages = [HumanMessage(message.content) for message in messages if message.content]
        if not messages:
            return self._count_tools(tools, kwargs) if tools else 0
        options = {**kwargs, "on_broken_history": "repair"}
        options |= {"tools": tools} if tools else {}
        request = self._render_quietly(self._fetched(messages, kwargs), None, options)
        body = render_counting(request, vertexai=self._uses_vertexai)
        client = self._client
        count = partial(
            client.count_tokens,
            request.context.model,
            body,
            timeout_seconds=self._timeout(kwargs),
        )
        with client.hiding_secrets():
            return parse_count(self._retries(kwargs).call(count))

    def _count_tools(self, tools: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        """What tools add to a message: the API counts none without one."""
        message = [HumanMessage("Hi")]
        with_tools = self.get_num_tokens_from_messages(message, tools, **kwargs)
        others = {k: v for k, v in kwargs.items() if k not in {"tool_choice", "tool_config"}}
        return with_tools - self.get_num_tokens_from_messages(message, **others)

    # The client

    @property
    def _client(self) -> GeminiClient:
        """The client for the fields as they are now; copies share it until one of them changes."""
        check_given_again(self, self._left_out)
        settings = self._client_settings()
        with _CLIENT_LOCK:
            if self._gemini is None or self._gemini.settings != settings:
                self._gemini = GeminiClient(settings)
            return self._gemini

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
