"""A user's schema: how it is asked for, and which output parser turns an answer into it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, BaseMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables import AddableDict, Runnable, RunnableGenerator, RunnableMap
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.json import parse_json_markdown
from langchain_core.utils.pydantic import is_basemodel_subclass

from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError
from langchain_gemini_tools.prompted.arguments import find_mismatch
from langchain_gemini_tools.wire.tools.tool import bind_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from langchain_core.language_models import LanguageModelInput
    from langchain_core.outputs import Generation

    from langchain_gemini_tools.wire.tools.tool import Tool


def as_function(schema: Any, method: str | None) -> Tool | None:
    """The schema as a tool to be called, unless JSON output is wanted, or is the way for it.

    Raises:
        InvalidToolError: It was to be a tool, and cannot be one.
    """
    if method not in {None, "function_calling"}:
        return None
    try:
        tools = [tool for tool in bind_tools([schema]) if tool.is_function]
    except InvalidToolError:
        if method is None:
            return None
        raise
    if not tools:
        raise InvalidToolError(f"{schema!r} is no schema that an answer could fit.")
    return tools[0]


def refuse_other_tools(kwargs: Mapping[str, Any]) -> None:
    """Refuse options that leave no room for the forced call.

    Raises:
        InvalidOptionError: There is one.
    """
    for name in ("tools", "tool_choice", "tool_config"):
        if kwargs.get(name) is not None:
            raise InvalidOptionError(
                f"{name} has no place here: the answer is a call of the schema, which is forced. "
                "Use method='json_schema' for an answer beside tools (Gemini 3 or later)."
            )


def shown_format(method: str, schema: Any, read: dict[str, Any]) -> dict[str, Any]:
    """What tracers show: the schema, or what we have read where langchain-core cannot read it."""
    bare = {"title": str(read.get("title") or "answer"), "type": "object", "properties": {}}
    shown = next((form for form in (schema, read) if _is_readable(form)), bare)
    return {"kwargs": {"method": method}, "schema": shown}


def _is_readable(schema: Any) -> bool:
    try:
        convert_to_json_schema(schema)
    except Exception:  # noqa: BLE001 - it would end the call, for the sake of a trace
        return False
    return True


def tools_parser(schema: Any, tool_name: str) -> Runnable[AIMessage, Any]:
    """Reads the arguments of the first call of `tool_name`; an answer without one is an error."""
    if _is_pydantic(schema):
        return _PydanticCallParser(tools=[schema], first_tool_only=True, tool_name=tool_name)
    return _CallParser(key_name=tool_name, first_tool_only=True)


class _CallParser(JsonOutputKeyToolsParser):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        return _parse_call(super().parse_result, self.key_name, result[0], partial=partial)


class _PydanticCallParser(PydanticToolsParser):
    tool_name: str

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        return _parse_call(super().parse_result, self.tool_name, result[0], partial=partial)


def _parse_call(
    parse: Callable[..., Any], tool_name: str, given: Generation, *, partial: bool
) -> Any:
    answer = _whole_message(given)
    partial = partial and not _ending(answer)
    value = parse([answer], partial=partial)
    if value is None and not partial:
        raise _missing_call(tool_name, answer)
    return value


def _whole_message(answer: Generation) -> Generation:
    """The answer as core's parsers can read it: of one that is not streamed they lose the calls."""
    message = getattr(answer, "message", None)
    if not isinstance(message, BaseMessageChunk) or isinstance(message, AIMessage):
        return answer
    return ChatGeneration(message=AIMessage(**message.model_dump()))


def _missing_call(tool_name: str, answer: Generation) -> OutputParserException:
    reason = _ending(answer) or "no finish reason"
    said = f"The answer ended with {reason} and without a call of {tool_name!r}"
    for call in getattr(getattr(answer, "message", None), "invalid_tool_calls", ()):
        reason = call.get("error") or "the arguments are no JSON object"
        said += f"; its call of {call.get('name') or 'nothing'!r} is invalid: {reason}"
    said += f": {answer.text}" if answer.text else "."
    return OutputParserException(said, llm_output=answer.text)


def _ending(answer: Generation) -> str:
    """The reason for which the answer ended; none as long as there is more of a stream to come."""
    metadata = answer.message.response_metadata if isinstance(answer, ChatGeneration) else {}
    return str(metadata.get("finish_reason") or "")


def json_parser(
    schema: Any, checked_schema: dict[str, Any] | None = None
) -> Runnable[AIMessage, Any]:
    """Reads the text as JSON; text that was cut is an error, not an object with less in it.

    Args:
        schema: What the user gave.
        checked_schema: The same as JSON Schema, where the API does not hold the model to it.
    """
    if _is_pydantic(schema):
        return _WholePydanticParser(pydantic_object=schema)
    return _WholeJsonParser(checked_schema=checked_schema)


class _WholeJsonParser(JsonOutputParser):
    checked_schema: dict[str, Any] | None = None

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        partial = partial and not _ending(result[0])
        with _refusing_deep(result[0]):
            _check_whole(result[0], partial=partial)
            value = super().parse_result(result, partial=partial)
        misfit = find_mismatch(value, self.checked_schema) if self.checked_schema else None
        if misfit and not partial:
            text = f"The answer does not fit its schema. {misfit}"
            raise OutputParserException(text, llm_output=result[0].text)
        return value


class _WholePydanticParser(PydanticOutputParser[Any]):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        partial = partial and not _ending(result[0])
        with _refusing_deep(result[0]):
            _check_whole(result[0], partial=partial)
            return super().parse_result(result, partial=partial)


def _check_whole(answer: Generation, *, partial: bool) -> None:
    """Core's parsers complete any JSON; that is right only as long as the rest is still to come."""
    if partial:
        return
    try:
        parse_json_markdown(answer.text.strip(), parser=_parse_first)
    except ValueError:
        reason = _ending(answer) or "no finish reason"
        text = f"The answer ended with {reason} before its JSON did: {answer.text}"
        raise OutputParserException(text, llm_output=answer.text) from None


def _parse_first(text: str) -> Any:
    """The whole JSON value that a text begins with; core's parsers do not mind what follows."""
    return json.JSONDecoder(strict=False).raw_decode(text)[0]


@contextmanager
def _refusing_deep(answer: Generation) -> Iterator[None]:
    """JSON that is nested too deep for Python is as unreadable as text that is none."""
    try:
        yield
    except RecursionError:
        text = "The answer's JSON is nested too deep to be read."
        raise OutputParserException(text, llm_output=answer.text) from None


def with_raw(
    model: Runnable[LanguageModelInput, AIMessage], parser: Runnable[AIMessage, Any]
) -> Runnable[LanguageModelInput, dict[str, Any]]:
    """`{"raw", "parsed", "parsing_error"}`: a failure to parse is told, not raised.

    A stream gives the answer as it comes, and the rest at its end.
    """

    def parse(pieces: Iterator[dict[str, Any]]) -> Iterator[AddableDict]:
        answers: list[Any] = []
        for piece in pieces:
            answers.append(piece["raw"])
            yield AddableDict(raw=piece["raw"])
        try:
            yield _outcome(parser.invoke(_sum(answers)))
        except Exception as error:  # noqa: BLE001 - whatever a validator of the user raises
            yield _outcome(None, error)

    async def aparse(pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[AddableDict]:
        answers: list[Any] = []
        async for piece in pieces:
            answers.append(piece["raw"])
            yield AddableDict(raw=piece["raw"])
        try:
            yield _outcome(await parser.ainvoke(_sum(answers)))
        except Exception as error:  # noqa: BLE001
            yield _outcome(None, error)

    return RunnableMap(raw=model) | RunnableGenerator(parse, aparse)


def _sum(pieces: list[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else add_ai_message_chunks(*pieces)


def _outcome(parsed: Any, error: Exception | None = None) -> AddableDict:
    return AddableDict(parsed=parsed, parsing_error=error)


def _is_pydantic(schema: Any) -> bool:
    return isinstance(schema, type) and is_basemodel_subclass(schema)
