"""`GeminiBinding`: a `ChatGemini` with bound options, which all of its methods see.

LangChain's own binding passes bound options to `invoke`, `stream` and `batch` only. Every other
method would be looked up on the model and called without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import merge_configs
from pydantic import ConfigDict, field_validator

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.options import mark_bound, override
from langchain_gemini_tools.prompted import PromptOverhead
from langchain_gemini_tools.wire.invocation import ToolChoiceOption
from langchain_gemini_tools.wire.tools.bind import bind_tools, plain_tools

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import _ChatModelBinding as _Binding
    from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented

    from langchain_gemini_tools.batch import BatchJob
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.structured_output import RawOutput, StructuredOutput
    from langchain_gemini_tools.wire.request import RenderedRequest
else:
    _Binding = RunnableBinding  # core's subclass of it only adds types
    # So that `with_fallbacks` can read the annotations without loading the types.
    BatchJob, RenderedRequest = Iterable, Any

Method = Literal["function_calling", "json_schema", "json_mode"]
Parsed = TypeVar("Parsed")

_BOUND: Any = ...
"""The default of an argument for which None has a meaning: what is bound applies."""

TOOL_OPTIONS = ("tools", "tool_choice", "tool_config")


class StructuredOutputMethod:
    """`with_structured_output`, of a model and of a binding alike."""

    @overload
    def with_structured_output(
        self,
        schema: type[Parsed],
        method: Method | None = None,
        *,
        include_raw: Literal[False] = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> StructuredOutput[Parsed]: ...

    @overload
    def with_structured_output(
        self,
        schema: type[Parsed],
        method: Method | None = None,
        *,
        include_raw: Literal[True],
        strict: bool | None = None,
        **kwargs: Any,
    ) -> StructuredOutput[RawOutput[Parsed]]: ...

    @overload
    def with_structured_output(
        self,
        schema: Any = None,
        method: Method | None = None,
        *,
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> StructuredOutput[Any]: ...

    def with_structured_output(
        self,
        schema: Any = None,
        method: Method | None = None,
        *,
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a runnable whose output is an instance of a schema.

        Args:
            schema: A Pydantic class, a dataclass, a TypedDict, a JSON schema, a function's
                specification, or another type (`list[City]`, an enum, a `Literal`), which JSON
                output describes.
            method: `"function_calling"` forces a tool call with the schema. `"json_schema"` uses
                the API's JSON output with the schema. `"json_mode"` does the same; without a
                schema it returns JSON as your prompt describes it. By default
                `"function_calling"` where the schema is an object with a name, otherwise
                `"json_schema"`, also beside Gemini's own tools from Gemini 3 on. Models without
                function calling or JSON output are prompted.
            include_raw: Return `{"raw", "parsed", "parsing_error"}`; parsing errors are returned
                instead of raised.
            strict: Accepted for compatibility; all methods follow the schema.
            **kwargs: Options of the call.

        Raises:
            InvalidToolError: The schema cannot be used.
            InvalidOptionError: Tools are bound, and a call of the schema would be forced.

        The runnable raises langchain-core's `OutputParserException` if a response cannot be parsed
        or lacks the forced tool call, also at the end of a stream, and Pydantic's
        `ValidationError` if the arguments of that call do not fit a Pydantic class.
        """
        from langchain_gemini_tools.structured_output import structured_output

        return structured_output(self, schema, method, include_raw=include_raw, kwargs=kwargs)  # type: ignore[arg-type]


class GeminiBinding(StructuredOutputMethod, _Binding):
    """A `ChatGemini` with bound options: what `bind`, `bind_tools` and `with_config` return.

    Options given to a call override bound ones. `bound` is the model and `kwargs` are the options;
    attributes that are not listed here are those of the model.
    """

    model_config = ConfigDict(defer_build=True)  # until something is bound

    @field_validator("kwargs")
    @classmethod
    def _mark_bound(cls, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Mark the options also of a binding that is loaded from JSON."""
        return mark_bound(kwargs)

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return where `load` finds the class."""
        return cls.__module__.split(".")

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return what `dumpd` stores, with tools as plain dicts."""
        stored = super().to_json()
        if stored["type"] == "constructor":
            kwargs = {**self.kwargs}
            if kwargs.get("tools"):
                with suppress(InvalidToolError):  # which a call reports
                    kwargs["tools"] = bind_tools(kwargs["tools"])
            stored["kwargs"]["kwargs"] = plain_tools(kwargs)
        return stored

    def preview(
        self, model_input: LanguageModelInput, stop: list[str] | None = _BOUND, **kwargs: Any
    ) -> RenderedRequest:
        """Return the request that `invoke` would send, bound options included.

        Args:
            model_input: What `invoke` accepts.
            stop: Stop sequences; None cancels bound ones, as it does for `invoke`.
            **kwargs: Options of the call.

        Raises:
            InvalidInputError: The messages, the tools or the options cannot be sent.
        """
        model, options = self.unwrap(kwargs)
        if stop is not _BOUND:
            options["stop"] = stop
        return model.preview(model_input, **options)

    # `with_fallbacks` finds by the annotation which methods return a runnable: not by `Self`.

    def bind(self, **kwargs: Any) -> GeminiBinding:
        """Bind more options; they override those that are bound already.

        Args:
            **kwargs: Options of the call.
        """
        model, _ = self.unwrap({})
        return self._with_options(override(self.kwargs, model.bind(**kwargs).kwargs))

    def bind_tools(
        self,
        tools: Sequence[Any],
        tool_config: Any = None,
        *,
        tool_choice: ToolChoiceOption = None,
        **kwargs: Any,
    ) -> GeminiBinding:
        """Bind tools in place of those that are bound, and keep the other options.

        Args:
            tools: What `ChatGemini.bind_tools` accepts.
            tool_config: What `ChatGemini.bind_tools` accepts.
            tool_choice: What `ChatGemini.bind_tools` accepts.
            **kwargs: `strict` and so on, and options of the call.
        """
        if tool_config is not None:
            kwargs["tool_config"] = tool_config
        model, options = self.unwrap({})
        if "tools" in options:
            options = {key: value for key, value in options.items() if key not in TOOL_OPTIONS}
        options = override(options, kwargs)
        if tool_choice is not None:
            options["tool_choice"] = tool_choice
        return self._with_options(model.bind_tools(tools, **options).kwargs)

    def batch_job(
        self,
        inputs: Iterable[LanguageModelInput] | None = None,
        *,
        config: RunnableConfig | None = None,
        **arguments: Any,
    ) -> BatchJob[AIMessage]:
        """Send inputs through Gemini's batch service; see `ChatGemini.batch_job`.

        Args:
            inputs: What `invoke` accepts, each.
            config: Callbacks, tags and metadata for the results, in addition to bound ones.
            **arguments: `path`, `name`, `submit`, `webhooks`, `storage`, and options of the call.
        """
        model, options = self.unwrap(arguments)
        return model.batch_job(inputs, config=merge_configs(self.config, config), **options)

    async def abatch_job(
        self, inputs: Iterable[LanguageModelInput] | None = None, **arguments: Any
    ) -> BatchJob[AIMessage]:
        """Make a batch job as `batch_job` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.batch_job, inputs, **arguments))

    def with_context_cache(
        self, messages: LanguageModelInput | None = None, **arguments: Any
    ) -> GeminiBinding:
        """Create a context cache with the bound tools; see `ChatGemini.with_context_cache`.

        Args:
            messages: The beginning of conversations.
            **arguments: What `ChatGemini.with_context_cache` accepts. With `name`, the tools of the
                cache are not known: repeat them as `tools`.
        """
        model, options = self.unwrap({})
        if given := options.get("model"):
            model = model.model_copy(update={"model": given})
        if arguments.get("name") is None:
            names = options.keys() & {"tools", "tool_choice"}
            arguments = {**{name: options[name] for name in names}, **arguments}
        cached = model.with_context_cache(messages, **arguments)
        return self.model_copy(update={"bound": cached, "kwargs": mark_bound(options)})

    async def awith_context_cache(
        self, messages: LanguageModelInput | None = None, **arguments: Any
    ) -> GeminiBinding:
        """Create a context cache as `with_context_cache` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.with_context_cache, messages, **arguments))

    def render_prompt(self, tools: Sequence[Any] | None = None, **kwargs: Any) -> str:
        """Return the description of the tools for prompted tool calling.

        Args:
            tools: What `bind_tools` accepts; by default the bound tools.
            **kwargs: `tool_choice`, and options of the call.
        """
        model, options = self.unwrap(kwargs if tools is None else {**kwargs, "tools": tools})
        return model.render_prompt(options.pop("tools", ()), **options)

    def prompt_overhead(
        self, tools: Sequence[Any] | None = None, *, exact: bool = False, **kwargs: Any
    ) -> PromptOverhead:
        """Measure what `render_prompt` adds to every request: `print` the result.

        Args:
            tools: What `bind_tools` accepts; by default the bound tools.
            exact: Count tokens with the API instead of estimating four characters per token.
            **kwargs: `tool_choice`, and options of the call.
        """
        model, options = self.unwrap(kwargs if tools is None else {**kwargs, "tools": tools})
        return model.prompt_overhead(options.pop("tools", ()), exact=exact, **options)

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text with the API. Bound tools are not counted.

        Args:
            text: The text of one user message.
        """
        model, options = self.unwrap({})
        others = {key: value for key, value in options.items() if key not in TOOL_OPTIONS}
        return model.get_num_tokens_from_messages([HumanMessage(text)], **others) if text else 0

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """Count the tokens of messages and tools with the API.

        Args:
            messages: Any part of a history.
            tools: What `bind_tools` accepts; by default the bound tools.
            **kwargs: Options of the call.
        """
        model, options = self.unwrap(kwargs if tools is None else {**kwargs, "tools": tools})
        return model.get_num_tokens_from_messages(messages, options.pop("tools", None), **options)

    def unwrap(self, kwargs: Mapping[str, Any]) -> tuple[ChatGemini, dict[str, Any]]:
        """Return the model and all options, also through the binding that `with_retry` adds.

        Args:
            kwargs: Options of the call, which override bound ones.
        """
        options = {**self.kwargs, **kwargs}
        inner: Any = self.bound
        while isinstance(inner, RunnableBindingBase):
            options = {**inner.kwargs, **options}
            inner = inner.bound
        return inner, options

    def _with_options(self, options: Mapping[str, Any]) -> GeminiBinding:
        return self.model_copy(update={"kwargs": mark_bound(options)})
