"""Structured output: how a schema is requested, and the parser for the response."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, cast, get_args

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, BaseMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables import (
    AddableDict,
    Runnable,
    RunnableConfig,
    RunnableGenerator,
    RunnableParallel,
    RunnableSequence,
)
from langchain_core.runnables.config import merge_configs
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.json import parse_json_markdown
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import TypeAdapter, ValidationError

from langchain_gemini_tools.binding import TOOL_OPTIONS, GeminiBinding, Method, Parsed
from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError
from langchain_gemini_tools.facts.finish_reasons import finish_of
from langchain_gemini_tools.options import resolve, spelled_as_fields
from langchain_gemini_tools.prompted.tool_arguments import find_mismatch
from langchain_gemini_tools.wire.generation import JSON, OUTPUT_FORMATS
from langchain_gemini_tools.wire.request import RenderedRequest
from langchain_gemini_tools.wire.schema.clean import clean_response_schema
from langchain_gemini_tools.wire.schema.python_types import is_plain_type
from langchain_gemini_tools.wire.tools.bind import bind_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from langchain_core.outputs import Generation

    from langchain_gemini_tools.batch import BatchJob
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.tools.tool import Tool

    _Model: TypeAlias = ChatGemini | GeminiBinding
else:  # so that `with_fallbacks` can read the annotations without loading the type
    BatchJob = Iterable


class RawOutput(TypedDict, Generic[Parsed]):
    """The output of `with_structured_output(..., include_raw=True)`."""

    raw: AIMessage
    parsed: Parsed | None
    parsing_error: Exception | None


class StructuredOutput(RunnableSequence[LanguageModelInput, Parsed]):
    """A model with bound options, followed by a parser: what `with_structured_output` returns."""

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return the id of a sequence, which `load` knows."""
        return RunnableSequence.lc_id()

    @property
    def binding(self) -> GeminiBinding:
        """The model with its bound options: `binding.preview(...)` shows the request."""
        raw = self.first.steps__["raw"] if isinstance(self.first, RunnableParallel) else self.first
        return cast("GeminiBinding", raw)

    def bind(self, **kwargs: Any) -> StructuredOutput[Parsed]:
        """Bind more options to the model; see `ChatGemini.bind`.

        Args:
            **kwargs: Options of the call.
        """
        binding: Runnable[Any, Any] = self.binding.bind(**kwargs)
        if isinstance(self.first, RunnableParallel):
            binding = RunnableParallel(raw=binding)
        return type(self)(first=binding, middle=self.middle, last=self.last, name=self.name)

    def preview(self, model_input: LanguageModelInput, **kwargs: Any) -> RenderedRequest:
        """Return the request that `invoke` would send; see `ChatGemini.preview`."""
        return self.binding.preview(model_input, **kwargs)

    def batch_job(  # noqa: PLR0913 - as of `ChatGemini`
        self,
        inputs: Iterable[LanguageModelInput] | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        name: str | None = None,
        submit: bool = True,
        webhooks: Mapping[str, Any] | None = None,
        storage: str | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BatchJob[Parsed]:
        """Send inputs through Gemini's batch service; the results are parsed objects.

        See `ChatGemini.batch_job`. JSON output uses Gemini's Schema form, because the other one is
        reported to fail in batches.
        """
        model, options = self.binding.unwrap(kwargs)
        return model._batch_job(  # noqa: SLF001 - one implementation for all three
            inputs,
            path=path,
            name=name,
            submit=submit,
            webhooks=webhooks,
            storage=storage,
            config=merge_configs(self.binding.config, config),
            kwargs=options,
            finish=self._parse_message,
        )

    async def abatch_job(
        self, inputs: Iterable[LanguageModelInput] | None = None, **arguments: Any
    ) -> BatchJob[Parsed]:
        """Make a batch job as `batch_job` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.batch_job, inputs, **arguments))

    def _parse_message(self, message: AIMessage) -> Parsed:
        """Parse a message as the steps after the model do."""
        value: Any = {"raw": message} if isinstance(self.first, RunnableParallel) else message
        for step in [*self.middle, self.last]:
            value = step.invoke(value)
        return cast("Parsed", value)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """Count the tokens of messages and of the schema with the API."""
        return self.binding.get_num_tokens_from_messages(messages, tools, **kwargs)


def structured_output(
    model: _Model,
    schema: object,
    method: Method | None,
    *,
    include_raw: bool,
    kwargs: Mapping[str, Any],
) -> StructuredOutput[Any]:
    """Bind the schema as `method` requires, and add the parser for it."""
    if method not in {None, *get_args(Method)}:
        methods = ", ".join(map(repr, get_args(Method)))
        raise ValueError(f"method={method!r} is not valid; use one of {methods}.")
    if schema is None and method != "json_mode":
        raise ValueError(
            "with_structured_output needs a schema. Pass one, or use method='json_mode'."
        )
    tool = _as_function(schema, method)
    if tool and (method or _forces_call(model, kwargs)):
        binding, parser = _force_call(model, schema, tool, kwargs)
    elif schema is None:
        binding = model.bind(response_mime_type=JSON, **kwargs)
        parser = json_parser(None)
    else:
        binding, parser = _request_json(model, schema, method or "json_schema", kwargs)
    if not include_raw:
        return StructuredOutput(first=binding, last=parser)
    beside_raw = _BesideRaw(parser)
    last = RunnableGenerator(beside_raw.parse, beside_raw.aparse)
    return StructuredOutput(first=RunnableParallel(raw=binding), last=last)


def _force_call(
    model: _Model, schema: object, tool: Tool, kwargs: Mapping[str, Any]
) -> tuple[GeminiBinding, Runnable[AIMessage, Any]]:
    bound = model.kwargs if isinstance(model, GeminiBinding) else {}
    _reject_other_tools({**bound, **kwargs})
    options = {
        **kwargs,
        **_without_json_output(model, kwargs),
        "ls_structured_output_format": _shown_format("function_calling", schema, tool.to_dict()),
    }
    return model.bind_tools([tool], tool_choice=tool.name, **options), tools_parser(
        schema, tool.name
    )


def _request_json(
    model: _Model, schema: object, method: Method, kwargs: Mapping[str, Any]
) -> tuple[GeminiBinding, Runnable[AIMessage, Any]]:
    form = clean_response_schema(schema)
    title = getattr(schema, "__name__", None) or "answer"
    shown = _shown_format(method, schema, {"title": title, **form})
    binding = model.bind(response_schema=form, **{**kwargs, "ls_structured_output_format": shown})
    is_prompted = _resolve(model, kwargs).is_prompted
    return binding, json_parser(schema, form if is_prompted else None)


def _as_function(schema: object, method: str | None) -> Tool | None:
    """Return the schema as a tool, or `None` if JSON output is requested or necessary.

    Raises:
        InvalidToolError: A tool call is requested, and the schema cannot be a tool.
    """
    if method not in {None, "function_calling"}:
        return None
    if method and is_plain_type(schema):
        raise InvalidToolError(
            f"{schema!r:.200} is not an object, so it cannot be the arguments of a tool. "
            "Use method='json_schema'."
        )
    try:
        functions = bind_tools([schema]).functions
    except InvalidToolError:
        if method is None:
            return None
        raise
    if not functions:
        raise InvalidToolError(
            f"{schema!r:.200} is not a schema. Use a Pydantic class, a TypedDict or a JSON schema."
        )
    tool = next(iter(functions.values()))
    if tool.parameters is None and isinstance(schema, Mapping):
        clean_response_schema(schema)  # rejects a function without parameters
    return tool


def _forces_call(model: _Model, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call of the schema is forced if no method is given.

    A forced call excludes Gemini's own tools, which the model can use before it writes JSON.
    """
    name = spelled_as_fields(kwargs).get("model")
    invocation = _resolve(model, {"model": name} if name else {})
    capabilities, tools = invocation.capabilities, invocation.tools
    if tools and not tools.functions and capabilities.combines_json_output_with_functions:
        return False
    return capabilities.calls_functions or capabilities.accepts_prompted_functions


def _reject_other_tools(options: Mapping[str, Any]) -> None:
    for name in TOOL_OPTIONS:
        if options.get(name) is not None:
            raise InvalidOptionError(
                f"{name} cannot be combined with method='function_calling', which forces a call of "
                "the schema. Use method='json_schema' for structured output in addition to tools "
                "(Gemini 3 or later)."
            )


def _resolve(model: _Model, kwargs: Mapping[str, Any]) -> Invocation:
    if isinstance(model, GeminiBinding):
        model, kwargs = model.unwrap(kwargs)
    return resolve(model, None, kwargs)


def _without_json_output(model: _Model, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option that cancels JSON output, unless `kwargs` request it."""
    every = _resolve(model, {}).generation
    is_set = any(every.get(name) is not None for name in OUTPUT_FORMATS)
    if is_set and not OUTPUT_FORMATS & spelled_as_fields(kwargs).keys():
        return {"response_format": {"type": "text"}}
    return {}


def _shown_format(method: str, schema: object, read: dict[str, Any]) -> dict[str, Any]:
    """Return what tracers show: the schema, or our reading of it if core cannot read it.

    Core reads a dataclass as a function, and warns about fields with a factory.
    """
    bare = {"title": str(read.get("title") or "answer"), "type": "object", "properties": {}}
    forms = [read] if is_dataclass(schema) else [schema, read]
    shown = next(filter(_is_readable, forms), bare)
    return {"kwargs": {"method": method}, "schema": shown}


def _is_readable(schema: Any) -> bool:
    try:
        convert_to_json_schema(schema)
    except Exception:  # noqa: BLE001 - a trace must not end the call
        return False
    return True


def tools_parser(schema: Any, tool_name: str) -> Runnable[AIMessage, Any]:
    """Return a parser for the arguments of the first call of `tool_name`, which must be there."""
    if _is_pydantic(schema):
        return _PydanticCallParser(tools=[schema], first_tool_only=True, tool_name=tool_name)
    return _CallParser(
        key_name=tool_name, first_tool_only=True, output_type=_validated_type(schema)
    )


class _CallParser(JsonOutputKeyToolsParser):
    output_type: Any = None

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        value = _parse_call(super().parse_result, self.key_name, result[0], partial=partial)
        return _validate(value, self.output_type, result[0], partial=partial)


class _PydanticCallParser(PydanticToolsParser):
    tool_name: str

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        return _parse_call(super().parse_result, self.tool_name, result[0], partial=partial)


def _parse_call(
    parse: Callable[..., Any], tool_name: str, given: Generation, *, partial: bool
) -> Any:
    generation = _whole_message(given)
    partial = _is_partial(generation, partial=partial)
    value = parse([generation], partial=partial)
    if value is None and not partial:
        raise _missing_call(tool_name, generation)
    return value


def _whole_message(generation: Generation) -> Generation:
    """Return the response as a message: core's parsers lose the tool calls of other chunks."""
    message = getattr(generation, "message", None)
    if not isinstance(message, BaseMessageChunk) or isinstance(message, AIMessage):
        return generation
    return ChatGeneration(message=AIMessage(**message.model_dump()))


def _missing_call(tool_name: str, generation: Generation) -> OutputParserException:
    reason = _finish_reason(generation) or "no finish reason"
    text = f"The response ended with {reason} and without a call of {tool_name!r}"
    for call in getattr(getattr(generation, "message", None), "invalid_tool_calls", ()):
        reason = call.get("error") or "the arguments are not a JSON object"
        text += f"; its call of {call.get('name') or 'an unknown tool'!r} is invalid: {reason}"
    text += f": {generation.text}" if generation.text else "."
    return _unreadable(generation, text)


def _finish_reason(generation: Generation) -> str:
    """Return the finish reason, which is empty until a stream has ended."""
    message = getattr(generation, "message", None)
    return str(message.response_metadata.get("finish_reason") or "") if message else ""


def _is_partial(generation: Generation, *, partial: bool) -> bool:
    """Return whether more of the response will come, given whether core expects it."""
    return partial and not _finish_reason(generation)


def json_parser(
    schema: Any, checked_schema: dict[str, Any] | None = None
) -> Runnable[AIMessage, Any]:
    """Return a parser for JSON text. Truncated text is an error, not an object with less in it.

    Args:
        schema: The schema as the user passed it.
        checked_schema: The same as JSON Schema, if the API does not enforce it.
    """
    if _is_pydantic(schema):
        return _WholePydanticParser(pydantic_object=schema)
    output_type = _validated_type(schema)
    return _WholeJsonParser(
        output_type=output_type, checked_schema=checked_schema if output_type is None else None
    )


class _WholeJsonParser(JsonOutputParser):
    checked_schema: dict[str, Any] | None = None
    output_type: Any = None

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        partial = _is_partial(result[0], partial=partial)
        value = _parse_json(super().parse_result, result, partial=partial)
        mismatch = find_mismatch(value, self.checked_schema) if self.checked_schema else None
        if mismatch and not partial:
            raise _unreadable(result[0], f"The response does not match its schema. {mismatch}")
        return _validate(value, self.output_type, result[0], partial=partial)


def _validated_type(schema: Any) -> Any:
    """Return the type of which the output is an instance: `list[City]`, an enum, a dataclass.

    None if the output is plain JSON, as it is for a TypedDict.
    """
    return schema if is_plain_type(schema) or is_dataclass(schema) else None


def _validate(value: Any, output_type: Any, generation: Generation, *, partial: bool) -> Any:
    if output_type is None:
        return value
    try:
        return TypeAdapter(output_type).validate_python(value)
    except ValidationError as error:
        if _is_partial(generation, partial=partial):
            return None  # more of it will come
        text = f"The response is not of type {output_type}: {error}"
        raise _unreadable(generation, text) from error


class _WholePydanticParser(PydanticOutputParser[Any]):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        partial = _is_partial(result[0], partial=partial)
        return _parse_json(super().parse_result, result, partial=partial)


def _parse_json(parse: Callable[..., Any], result: list[Generation], *, partial: bool) -> Any:
    """Parse JSON as core does, but reject truncated JSON once the response has ended."""
    try:
        if not partial:
            _check_whole(result[0])
        return parse(result, partial=partial)
    except RecursionError:
        text = "The JSON of the response is nested too deeply."
        raise _unreadable(result[0], text) from None


def _check_whole(generation: Generation) -> None:
    """Reject JSON that was truncated or withheld. Core's parsers complete and accept it.

    Core also ignores what follows a value.
    """
    decoder = json.JSONDecoder(strict=False)
    try:
        value = parse_json_markdown(
            generation.text.strip(), parser=lambda text: decoder.raw_decode(text)[0]
        )
    except ValueError:
        reason = _finish_reason(generation) or "no finish reason"
        text = f"The response ended with {reason} and without complete JSON: {generation.text}"
        raise _unreadable(generation, text) from None
    if explanation := _why_not_whole(generation, value):
        raise _unreadable(generation, f"{explanation} Its JSON is not used: {generation.text}")


def _why_not_whole(generation: Generation, value: object) -> str | None:
    """Return why a value is not the model's answer, although it is complete JSON.

    After a token limit, an object is whole if its brackets are closed, but a number may go on.
    """
    if not isinstance(message := getattr(generation, "message", None), AIMessage):
        return None
    if reason := message.response_metadata.get("block_reason"):
        return f"The prompt was blocked: {reason}."
    finish = finish_of(message)
    may_be_used = {"unspecified"} if type(value) in (int, float) else {"unspecified", "truncated"}
    if finish.is_complete or finish.outcome in may_be_used:
        return None
    return f"The response ended with {finish.name}. {finish.explanation}"


def _unreadable(generation: Generation, text: str) -> OutputParserException:
    return OutputParserException(text, llm_output=generation.text)


@dataclass(frozen=True)
class _BesideRaw:
    """Passes a message on as it arrives, and adds what it was parsed into, or the error.

    A class, because functions inside of a function cannot be pickled.
    """

    parser: Runnable[AIMessage, Any]

    def parse(self, pieces: Iterator[dict[str, Any]]) -> Iterator[AddableDict]:
        messages: list[Any] = []
        for piece in pieces:
            messages.append(piece["raw"])
            yield AddableDict(raw=piece["raw"])
        try:
            parsed = self.parser.invoke(_sum(messages))
            yield AddableDict(parsed=parsed, parsing_error=None)
        except Exception as error:  # noqa: BLE001 - any error of a user's validator
            yield AddableDict(parsed=None, parsing_error=error)

    async def aparse(self, pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[AddableDict]:
        messages: list[Any] = []
        async for piece in pieces:
            messages.append(piece["raw"])
            yield AddableDict(raw=piece["raw"])
        try:
            parsed = await self.parser.ainvoke(_sum(messages))
            yield AddableDict(parsed=parsed, parsing_error=None)
        except Exception as error:  # noqa: BLE001
            yield AddableDict(parsed=None, parsing_error=error)


def _sum(pieces: list[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else add_ai_message_chunks(*pieces)


def _is_pydantic(schema: object) -> bool:
    return isinstance(schema, type) and is_basemodel_subclass(schema)
