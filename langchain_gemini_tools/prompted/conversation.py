"""Render the tool calls and results of a history as text.

`wire.history` arranges the history and repairs it, as for models with function calling; this module
only rewrites the turns. The user's messages are never changed, so the conversation can continue
with another model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.prompted.parser.spellings import (
    MARKER,
    RESULT_END,
    RESULT_MARKER,
    escape_protocol,
)
from langchain_gemini_tools.prompted.prompt import protocol_name, render_tool_call
from langchain_gemini_tools.wire.history import (
    NOT_EXECUTED,
    ModelMessage,
    PairedCall,
    Repair,
    Turn,
    unanswered_call,
    unsendable_file,
)
from langchain_gemini_tools.wire.replay import NOT_RELEASED
from langchain_gemini_tools.wire.tool_results import render_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage, InvalidToolCall

    Block = str | dict[str, Any]

REASONS = "invalid_tool_call_reasons"
"""Key in `additional_kwargs`: tool call id -> why the call cannot be executed. An invalid call's
`error` says the same, but is lost when chunks are merged."""
UNUSABLE = "unusable call]: "
"""Prefix of the text of an invalid call. LangChain repairs anything that could become JSON into a
valid call, in quadratic time; an unmatched bracket stops that at once."""
UNKNOWN_TOOL = "unknown_tool"
"""The name of an invalid call whose own name could not be parsed."""

_DEFAULT_REASON = "This is not a valid call. It was not executed."


def render_turn(turn: Turn, repairs: list[Repair]) -> Turn:
    """Return a turn with its tool calls and results as text.

    Args:
        turn: What the model said, the results, and what the user said.
        repairs: Receives a repair for every call without a result.
    """
    messages: list[ModelMessage] = []
    inputs: list[tuple[int, BaseMessage]] = []
    for position, message, calls in turn.messages:
        complete = _with_block_calls(message, calls)
        messages.append(ModelMessage(position, render_ai_message(complete), []))
        positions = {id(call.result): call.result_position for call in calls}
        for name, result in _results(position, complete, calls, repairs):
            text, problems = render_tool_message(result, name, len(inputs) + 1)
            found_at = positions.get(id(result), position)
            repairs += [unsendable_file(found_at, problem) for problem in problems]
            inputs.append((position, text))
    for position, given in turn.inputs:
        if isinstance(given, ToolMessage):
            text, problems = _render_orphan(given)
            repairs += [unsendable_file(position, problem) for problem in problems]
            inputs.append((position, text))
        else:
            inputs.append((position, given))
    return Turn(messages, inputs)


def _results(
    position: int, message: AIMessage, calls: Sequence[PairedCall], repairs: list[Repair]
) -> Iterator[tuple[str, ToolMessage]]:
    """Yield the name and the result of every call, valid ones first."""
    by_id: dict[str, list[ToolMessage]] = {}  # other vendors may use an id twice
    for call in calls:
        by_id.setdefault(call.id, []).extend([call.result] if call.result else [])
    for valid in message.tool_calls:
        call_id, name = valid["id"] or "", valid["name"]
        if found := by_id.get(call_id):
            yield name, found.pop(0)
        else:
            repairs.append(unanswered_call(position, PairedCall(call_id, name, {})))
            yield name, _error_result(NOT_EXECUTED)
    for invalid in message.invalid_tool_calls:
        found = by_id.get(invalid["id"] or "")
        reason = invalid_call_reason(message, invalid)
        result = found.pop(0) if found else None
        yield invalid["name"] or UNKNOWN_TOOL, _error_result(reason, result)


def _with_block_calls(message: AIMessage, calls: Sequence[PairedCall]) -> AIMessage:
    """Add calls that are only in the content, as in Anthropic's blocks."""
    known = {call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
    more = [
        tool_call(name=call.name, args=call.args, id=call.id)
        for call in calls
        if call.id not in known
    ]
    if not more:
        return message
    return message.model_copy(update={"tool_calls": [*message.tool_calls, *more]})


def _error_result(reason: str, result: ToolMessage | None = None) -> ToolMessage:
    """Return the result of an invalid call, with what the executor said about it."""
    said = result.text if result else ""
    text = f"{reason}\n{said}" if said and said != reason else reason
    return ToolMessage(text, tool_call_id="", status="error")


def _render_orphan(message: ToolMessage) -> tuple[HumanMessage, list[str]]:
    """Render a result whose call is missing."""
    name = message.name or message.additional_kwargs.get("name") or UNKNOWN_TOOL
    return render_tool_message(message, str(name))


def render_ai_message(message: AIMessage) -> AIMessage:
    """Render the calls of an AI message as lines of text; its thoughts are left out.

    A message without calls is returned as it is.
    """
    lines = [
        render_tool_call(protocol_name(call["name"]), call["args"]) for call in message.tool_calls
    ]
    lines += [_render_invalid_call(call) for call in message.invalid_tool_calls]
    if not lines:
        return message
    blocks = [message.content] if isinstance(message.content, str) else message.content
    kept = [block for block in blocks if not _is_left_out(block)]
    text = "\n".join(lines)
    content: str | list[Block]
    if all(isinstance(block, str) for block in kept):
        content = "\n\n".join(filter(None, ["".join(map(str, kept)).strip(), text]))
    else:
        content = [*kept, {"type": "text", "text": f"\n\n{text}"}]
    # The metadata decide which thought signatures may be sent.
    return AIMessage(content=content, response_metadata=message.response_metadata)


def render_tool_message(
    message: ToolMessage, name: str, number: int | None = None
) -> tuple[HumanMessage, list[str]]:
    """Render a tool's result as text of the user, with its media inside.

    Return it with the reasons why files of the result are not in it.

    Args:
        message: The result.
        name: The name of the tool.
        number: The number of the call in its message, from 1; `None` if the call is missing.
    """
    start = f"{RESULT_MARKER} {protocol_name(name)}"
    start += f" #{number}" if number else ""
    start += " failed" if message.status == "error" else ""
    result = render_split(message.content)
    text = "\n".join(filter(None, [start, escape_protocol(result.text)]))
    if not result.files:
        return HumanMessage(f"{text}\n{RESULT_END}\n"), result.problems
    content: list[Block] = [
        {"type": "text", "text": text},
        *({"type": block_types.GEMINI_PART, "part": part} for part in result.files),
        {"type": "text", "text": f"{RESULT_END}\n"},
    ]
    return HumanMessage(content), result.problems


def invalid_call_reason(message: AIMessage, call: InvalidToolCall) -> str:
    """Return why an invalid call cannot be executed, if that is known."""
    reasons = message.additional_kwargs.get(REASONS)
    known = reasons.get(call["id"]) if isinstance(reasons, dict) else None
    return str(known or call.get("error") or _DEFAULT_REASON)


def _render_invalid_call(call: InvalidToolCall) -> str:
    """Render an invalid call as the model wrote it, if that is known."""
    text = call.get("args") or ""
    if text.startswith(UNUSABLE):
        return f"{MARKER} {text.removeprefix(UNUSABLE).removeprefix(MARKER).strip()}"
    args = text.removeprefix(NOT_RELEASED)
    return f"{MARKER} {protocol_name(call.get('name') or UNKNOWN_TOOL)}({args})"


def _is_left_out(block: Block) -> bool:
    return isinstance(block, dict) and block.get("type") in block_types.CALLS + block_types.THOUGHTS
