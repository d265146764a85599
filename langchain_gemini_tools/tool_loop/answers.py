"""What the model is told about a call: results cut to size, failures in words it can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.tools import ToolException
from pydantic import ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.tool_loop.injected import conceal, conceal_in_message

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_core.messages import InvalidToolCall, ToolCall
    from langchain_core.tools import BaseTool


def render_result(
    output: Any, call: ToolCall, limit: int | None, injected: Mapping[str, Any]
) -> ToolMessage:
    """What a tool gave back as the answer to its call; a failure without what was injected.

    Raises:
        InvalidToolError: It is nothing that can be told to a model.
    """
    match output:
        case ToolMessage() as message:
            pass
        case [ToolMessage() as message]:
            pass
        case [ToolOutputMixin(), *_] | ToolOutputMixin():
            kind = type(output[0] if isinstance(output, list) else output).__name__
            raise InvalidToolError(
                f"Tool {call['name']!r} returned a {kind}, or several results for one call, which "
                "only a graph can carry out. Return the content itself, or run this tool in "
                "`create_agent` or LangGraph."
            )
        case _:
            raise InvalidToolError(
                f"Tool {call['name']!r} returned a {type(output).__name__} where its `invoke` has "
                "to give a ToolMessage. Does it override `invoke`?"
            )
    # A tool that builds its own message may have been written for another call.
    message = message.model_copy(update={"tool_call_id": call["id"], "name": call["name"]})
    if message.status == "error":
        message = conceal_in_message(message, injected)
    return _cut(message, limit)


def render_error(call: ToolCall, text: str, limit: int | None = None) -> ToolMessage:
    """An answer that says why there is no result."""
    message = ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
    return _cut(message, limit)


def render_failure(
    error: BaseException, tool: BaseTool, hidden: Collection[str], injected: Mapping[str, Any]
) -> str:
    """What went wrong in a tool, in words that show nothing of what was injected.

    Args:
        error: What the tool raised.
        tool: The tool.
        hidden: Its arguments that the model does not see.
        injected: The values that nobody but the tools may see.
    """
    if isinstance(error, ToolException):
        return conceal(_said(error), injected) or "The tool failed without an explanation."
    if isinstance(error, ValidationError | ValidationErrorV1) and is_about_arguments(error, tool):
        told = [
            _problem(found, hidden, injected)
            for found in error.errors()
            if found["loc"][:1] not in [(name,) for name in hidden]
        ]
        if told:
            return f"Invalid arguments for {tool.name!r}: {'; '.join(told)}. Correct them."
        # The error shows what was injected, which the model is not to see.
        return f"Tool {tool.name!r} failed: it does not take what it is given besides the arguments"
    return f"Tool {tool.name!r} failed: {_described(error, injected)}"


def _described(error: BaseException, injected: Mapping[str, Any]) -> str:
    """Kind and words of an error; of a group, those of what is in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_described(one, injected) for one in error.exceptions)
    words = " ".join(conceal(_said(error), injected).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - strangers' exceptions may fail at this too
        return ""


def is_about_arguments(error: BaseException, tool: BaseTool) -> bool:
    """Whether a validation error is about the call, not about something inside of the tool."""
    if isinstance(error, ValidationErrorV1):
        return error.model is tool.args_schema
    # Not the name of the class: a schema may have a title of its own.
    validator = getattr(tool.get_input_schema(), "__pydantic_validator__", None)
    return isinstance(error, ValidationError) and error.title == getattr(validator, "title", None)


def render_timeout(tool: BaseTool, seconds: float) -> str:
    """That a tool took too long. What it had done by then, nobody knows."""
    return (
        f"Tool {tool.name!r} did not finish within {seconds:g} s. Whether it had an effect is not "
        "known."
    )


def render_unknown(name: str, known: str) -> str:
    """That there is no such tool."""
    return f"There is no tool named {name!r}. Tools: {known}."


def render_unreadable(call: InvalidToolCall) -> str:
    """That the arguments of a call could not be read."""
    reason = f": {call['error']}" if call.get("error") else ""
    return (
        f"The arguments of this call could not be read{reason}. It was not executed. Call again, "
        "with one JSON object as the arguments."
    )


def render_denial(reason: str | None) -> str:
    """That somebody said no."""
    return f"This call was rejected: {reason}" if reason else "This call was rejected."


def _problem(found: Any, hidden: Collection[str], injected: Mapping[str, Any]) -> str:
    path = ".".join(map(str, found["loc"])) or "arguments"
    is_missing = found["type"] in ("missing", "value_error.missing")
    given = "" if is_missing else _given(found, hidden, injected)
    return conceal(f"{path}: {found['msg']}", injected) + given


def _given(found: Any, hidden: Collection[str], injected: Mapping[str, Any]) -> str:
    if "input" not in found:
        return ""
    value = found["input"]
    if not found["loc"] and hidden:  # about all arguments together, the hidden ones among them
        if not isinstance(value, dict):
            return ""
        value = {name: item for name, item in value.items() if name not in hidden}
    shown = conceal(repr(value), injected)
    return f" (given: {shown if len(shown) <= 100 else shown[:100] + '…'})"


def _cut(message: ToolMessage, limit: int | None) -> ToolMessage:
    """The message with no more text than allowed; what is missing is announced in it."""
    total = len(str(message.text))
    if limit is None or total <= limit:
        return message
    notice = f"\n[Cut: these are the first {limit} of {total} characters.]"
    if isinstance(message.content, str):
        return message.model_copy(update={"content": message.content[:limit] + notice})
    left, blocks = limit, []
    for block in message.content:
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str):
            kept, left = text[:left], max(0, left - len(text))
            if not kept:
                continue
            block = kept if isinstance(block, str) else {**block, "text": kept}  # noqa: PLW2901
        blocks.append(block)
    return message.model_copy(update={"content": [*blocks, {"type": "text", "text": notice}]})
