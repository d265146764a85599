"""Which output parser turns an answer into the user's schema."""

from __future__ import annotations

import json
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.pydantic import is_basemodel_subclass

from langchain_gemini_tools.text_tools.validation import find_misfit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import Generation


def tools_parser(schema: Any, tool_name: str) -> Runnable[AIMessage, Any]:
    """Reads the arguments of the first call of `tool_name`."""
    if _is_pydantic(schema):
        return PydanticToolsParser(tools=[schema], first_tool_only=True)
    return JsonOutputKeyToolsParser(key_name=tool_name, first_tool_only=True)


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
        with _refusing_deep(result[0]):
            _check_whole(result[0])
            value = super().parse_result(result, partial=partial)
        misfit = find_misfit(value, self.checked_schema) if self.checked_schema else None
        if misfit and not partial:
            text = f"The answer does not fit its schema. {misfit}"
            raise OutputParserException(text, llm_output=result[0].text)
        return value


class _WholePydanticParser(PydanticOutputParser[Any]):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        with _refusing_deep(result[0]):
            _check_whole(result[0])
            return super().parse_result(result, partial=partial)


def _check_whole(answer: Generation) -> None:
    """Core's parsers complete any JSON; that is right only as long as the rest is still to come."""
    metadata = answer.message.response_metadata if isinstance(answer, ChatGeneration) else {}
    reason = metadata.get("finish_reason") or "STOP"
    if reason == "STOP":
        return
    try:
        json.loads(answer.text)
    except ValueError:
        text = f"The answer ended with {reason} before its JSON did: {answer.text}"
        raise OutputParserException(text, llm_output=answer.text) from None


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
    """`{"raw", "parsed", "parsing_error"}`: a failure to parse is told, not raised."""
    parsed = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    )
    failed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | parsed.with_fallbacks([failed], exception_key="parsing_error")


def _is_pydantic(schema: Any) -> bool:
    return isinstance(schema, type) and is_basemodel_subclass(schema)
