"""Which output parser turns an answer into the user's schema."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.pydantic import is_basemodel_subclass

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import Generation


def tools_parser(schema: Any, tool_name: str) -> Runnable[AIMessage, Any]:
    """Reads the arguments of the first call of `tool_name`."""
    if _is_pydantic(schema):
        return PydanticToolsParser(tools=[schema], first_tool_only=True)
    return JsonOutputKeyToolsParser(key_name=tool_name, first_tool_only=True)


def json_parser(schema: Any) -> Runnable[AIMessage, Any]:
    """Reads the text as JSON; text that was cut is an error, not an object with less in it."""
    if _is_pydantic(schema):
        return _WholePydanticParser(pydantic_object=schema)
    return _WholeJsonParser()


class _WholeJsonParser(JsonOutputParser):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        _check_whole(result[0])
        return super().parse_result(result, partial=partial)


class _WholePydanticParser(PydanticOutputParser[Any]):
    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
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
