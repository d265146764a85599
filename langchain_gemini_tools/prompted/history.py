"""Which result answers which call, for a conversation that goes as text.

The rules that mend a history are the wire's (`wire.history`), so that a model without function
calling is told the same as one with it; the words are those of `text_tools`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from langchain_gemini_tools.text_tools.conversation import (
    UNKNOWN_TOOL,
    reason_of,
    render_reply,
    render_result,
)
from langchain_gemini_tools.wire.history import (
    NOT_EXECUTED,
    Call,
    Repair,
    Turn,
    arrange_turns,
    split_system,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def render_conversation(
    messages: Sequence[BaseMessage],
) -> tuple[list[tuple[int, BaseMessage]], list[Repair]]:
    """Messages without calls and tool messages, with their positions; and what was mended."""
    system, others = split_system(messages)
    repairs: list[Repair] = []
    conversation: list[tuple[int, BaseMessage]] = [(0, message) for message in system]
    for turn in arrange_turns(others, repairs):
        conversation += _render_turn(turn, repairs)
    return conversation, repairs


def _render_turn(turn: Turn, repairs: list[Repair]) -> Iterator[tuple[int, BaseMessage]]:
    """What the model said, the results in the order of its calls, then what the user said."""
    results: list[tuple[int, BaseMessage]] = []
    for position, reply, calls in turn.replies:
        whole = _with_block_calls(reply, calls)
        yield position, render_reply(whole)
        given: dict[str, list[ToolMessage]] = {}  # an id may stand twice in foreign messages
        for asked in calls:
            given.setdefault(asked.id, []).extend([asked.result] if asked.result else [])
        for call in whole.tool_calls:
            call_id, name = call["id"] or "", call["name"]
            if found := given.get(call_id):
                answer = found.pop(0)
            else:
                repairs.append(unanswered(position, Call(call_id, name, {})))
                answer = _refusal(NOT_EXECUTED)
            results.append((position, render_result(answer, name, len(results) + 1)))
        for invalid in whole.invalid_tool_calls:
            told = given.get(invalid["id"] or "")
            answer = _refusal(reason_of(whole, invalid), told.pop(0) if told else None)
            name = invalid["name"] or UNKNOWN_TOOL
            results.append((position, render_result(answer, name, len(results) + 1)))
    yield from results
    for position, message in turn.inputs:
        yield position, _render_loose(message) if isinstance(message, ToolMessage) else message


def _with_block_calls(reply: AIMessage, calls: Sequence[Call]) -> AIMessage:
    """The reply with calls that stand in its content alone, as Anthropic's blocks may."""
    known = {call["id"] for call in (*reply.tool_calls, *reply.invalid_tool_calls)}
    more = [
        tool_call(name=call.name, args=call.args, id=call.id)
        for call in calls
        if call.id not in known
    ]
    return reply.model_copy(update={"tool_calls": [*reply.tool_calls, *more]}) if more else reply


def _refusal(reason: str, answer: ToolMessage | None = None) -> ToolMessage:
    """The error that an invalid call is answered with, and what an executor said about it."""
    said = answer.text if answer else ""
    text = f"{reason}\n{said}" if said and said != reason else reason
    return ToolMessage(text, tool_call_id="", status="error")


def _render_loose(message: ToolMessage) -> BaseMessage:
    name = message.name or message.additional_kwargs.get("name") or UNKNOWN_TOOL
    return render_result(message, str(name))
