"""Which messages the API has kept already, if interactions are stored.

The last AI message with an interaction id says which one is continued. It also has a check sum of
the messages that were sent for it: if these were edited or trimmed since, the API has kept another
history, and everything is sent again.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.wire.history import Repair, calls_of
from langchain_gemini_tools.wire.replay import VERTEXAI, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

INTERACTION_ID = "interaction_id"
"""Key in `response_metadata`: the id of an interaction that the API has kept."""
HISTORY_SUM = "history_sum"
"""Key in `response_metadata`: the check sum of the messages before it."""


class KeptHistory(NamedTuple):
    """The part of a history that the API has kept."""

    interaction_id: str
    position: int
    """The index of the message that ends it."""


def find_kept(messages: Sequence[BaseMessage], *, vertexai: bool) -> KeptHistory | Repair | None:
    """Return what the API has kept; a repair if the messages do not fit it; else `None`.

    Args:
        messages: The history.
        vertexai: Whether the request goes to Vertex AI, which has its own interactions.
    """
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if not isinstance(message, AIMessage):
            continue
        metadata = message.response_metadata
        if not isinstance(known := metadata.get(INTERACTION_ID), str):
            continue
        if metadata.get(VERTEXAI, False) is not vertexai:
            return _everything(position, "another backend has kept it")
        if metadata.get(HISTORY_SUM) != sum_of(messages[:position]) or _is_changed(message):
            return _everything(position, "the messages have been changed since")
        if isinstance(messages[-1], AIMessage) or isinstance(messages[position + 1], AIMessage):
            return _everything(position, "another message of the model follows it")
        return KeptHistory(known, position)
    return None


def _is_changed(message: AIMessage) -> bool:
    return (
        steps_of(message, ((call.id, call.name, call.args) for call in calls_of(message))) is None
    )


def _everything(position: int, reason: str) -> Repair:
    explanation = f"The previous interaction was not used, and all messages were sent: {reason}."
    return Repair("previous_interaction", position, explanation)


def sum_of(messages: Sequence[BaseMessage]) -> str:
    """Return a check sum of messages except for system messages, which every request sends."""
    total = 0
    for message in messages:
        if not isinstance(message, SystemMessage):
            text = json.dumps(_shown(message), sort_keys=True, default=str)
            total = zlib.crc32(text.encode("utf-8", "surrogatepass"), total)
    return f"{total:08x}"


def _shown(message: BaseMessage) -> list[Any]:
    """Return what a request shows of a message; ids of messages are not part of it."""
    if isinstance(message, AIMessage):
        calls = [[call.id, call.name, call.args] for call in calls_of(message)]
        return ["ai", str(message.text), calls]
    if isinstance(message, ToolMessage):
        return ["tool", message.content, message.tool_call_id, message.status]
    return [message.type, message.content]
