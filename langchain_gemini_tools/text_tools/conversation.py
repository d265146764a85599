"""Calls and results of a history -> the same as text, in the protocol's words.

The messages themselves are never changed: what goes to a model without function calling is a copy,
so that the conversation can go on with a model that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.text_tools.names import written_name
from langchain_gemini_tools.text_tools.protocol import (
    CALL,
    harmless,
    render_call,
    result_lines,
    write_json,
)

if TYPE_CHECKING:
    from langchain_core.messages import InvalidToolCall, ToolMessage

Block = str | dict[str, Any]

REASONS = "invalid_tool_call_reasons"
"""In `additional_kwargs`: tool call id -> why it cannot be executed. The `error` of an invalid call
says the same, but does not survive the merging of chunks."""
UNUSABLE = "unusable call]: "
"""Precedes the text of an invalid call. Core mends whatever may become JSON into a valid call, in
quadratic time; a bracket that closes nothing tells it at once that this will not."""
UNKNOWN_TOOL = "unknown_tool"
"""Stands for the name of an invalid call that has none which could be read."""


def render_reply(message: AIMessage) -> AIMessage:
    """An AI message whose calls are lines of text; its thoughts, if it has calls, are left out.

    A message without calls is returned as it is.
    """
    lines = [render_call(written_name(call["name"]), call["args"]) for call in message.tool_calls]
    lines += [_as_written(call) for call in message.invalid_tool_calls]
    if not lines:
        return message
    said = [block for block in _blocks(message.content) if not _is_left_out(block)]
    text = "\n".join(lines)
    content: str | list[Block]
    if all(isinstance(block, str) for block in said):
        content = "\n\n".join(filter(None, ["".join(map(str, said)).strip(), text]))
    else:
        content = [*said, {"type": "text", "text": f"\n\n{text}"}]
    # Who wrote it decides which thought signatures may go along.
    return AIMessage(content=content, response_metadata=message.response_metadata)


def render_result(message: ToolMessage, name: str, number: int | None = None) -> HumanMessage:
    """A tool's result as the user's text; pictures and files stand inside it as they are.

    Args:
        message: The result.
        name: Name of the tool that was called.
        number: Number of the call in its message, from 1; `None` where that is not known.
    """
    begin, end = result_lines(written_name(name), number, failed=message.status == "error")
    texts, media = _split(message.content)
    body = "\n".join(filter(None, [begin, harmless("\n".join(texts))]))
    if not media:
        return HumanMessage(f"{body}\n{end}\n")
    blocks: list[Block] = [
        {"type": "text", "text": body},
        *media,
        {"type": "text", "text": f"{end}\n"},
    ]
    return HumanMessage(blocks)


def reason_of(message: AIMessage, call: InvalidToolCall) -> str:
    """Why an invalid call cannot be executed, as far as anybody said so."""
    reasons = message.additional_kwargs.get(REASONS)
    known = reasons.get(call["id"]) if isinstance(reasons, dict) else None
    return str(known or call.get("error") or "This is not a valid call. It was not executed.")


def _as_written(call: InvalidToolCall) -> str:
    """An invalid call as the model wrote it, as far as that is known."""
    text = call.get("args") or ""
    if text.startswith(UNUSABLE):
        return f"{CALL} {text.removeprefix(UNUSABLE).removeprefix(CALL).strip()}"
    return f"{CALL} {written_name(call.get('name') or UNKNOWN_TOOL)}({text})"


def _blocks(content: str | list[Block]) -> list[Block]:
    return [content] if isinstance(content, str) else content


def _is_left_out(block: Block) -> bool:
    return isinstance(block, dict) and block.get("type") in block_types.CALLS + block_types.THOUGHTS


def _split(content: str | list[Block]) -> tuple[list[str], list[Block]]:
    """The texts of a result, and its media."""
    if isinstance(content, str):
        return [content], []
    objects = [block for block in content if isinstance(block, dict)]
    if objects and not any(isinstance(block.get("type"), str) for block in objects):
        return [write_json(content)], []  # a tool's own list of objects, not blocks
    texts: list[str] = []
    media: list[Block] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in block_types.TEXTS:
            texts.append(str(block.get("text", "")))
        elif block.get("type") in block_types.MEDIA:
            media.append(block)
        else:
            texts.append(write_json(block.get("json", block)))
    return texts, media
