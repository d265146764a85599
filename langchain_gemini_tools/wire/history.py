"""A list of messages -> turns that Gemini takes. Every rule that mends a history is in this file.

Gemini wants: the user first, then model and user by turns; each call answered, in the next turn,
once. Histories that were interrupted, trimmed, merged or made by another vendor are not like that.
What is mended is told as a `Repair`; nothing is mended in silence, and nothing is dropped.

| found | sent instead |
|---|---|
| a call without a result | a result that says it was not executed |
| a result after other messages than results | the result, moved to its call |
| a call that has no id, or another one's | the call and its result under an id of ours |
| a result of a call that is not there, or a second one | user text that names the call |
| a history that starts with the model, or ends with it | a short user text before, or after it |
| an empty message of the user | a short text in its place |
| an AI message with nothing in it | nothing |
| thought signatures of another line of models, or backend | the same parts without them |
| an answer that was changed or merged since it came | its parts, those of texts unsigned |
| a tool that Google's side ran, for a model that takes no such parts | text that tells it |
| neighbouring messages of one side | one turn with all their parts |
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_gemini_tools.errors import InvalidHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NOT_EXECUTED = "This call was not executed."
TRIMMED_START = "(The beginning of this conversation was left out.)"
CONTINUE = "(Continue.)"
EMPTY_MESSAGE = "(empty message)"

_KINDS = {HumanMessage, AIMessage, AIMessageChunk, ToolMessage, SystemMessage}
_USER_ROLES = {"user", "human"}
_MODEL_ROLES = {"assistant", "ai", "model"}
_SYSTEM_ROLES = {"system", "developer"}


@dataclass(frozen=True)
class Repair:
    """One thing that was mended in a history before it was sent."""

    kind: str
    """One word for it, such as `unanswered_call`."""
    position: int
    """Index of the message in the list that was given."""
    explanation: str
    """What was found and what was sent instead."""
    is_harmless: bool = False
    """Whether the turns say exactly what the messages said."""


@dataclass(slots=True)
class Call:
    """A tool call of an AI message, valid or not."""

    id: str
    name: str
    args: dict[str, Any]
    result: ToolMessage | None = None


class Reply(NamedTuple):
    """An AI message, its index in the list that was given, and its calls."""

    position: int
    message: AIMessage
    calls: list[Call]


@dataclass(slots=True)
class Turn:
    """What the model said, then what came back."""

    replies: list[Reply] = field(default_factory=list)
    inputs: Sequence[tuple[int, BaseMessage]] = ()
    """Human messages, and tool messages that answer nothing."""
    has_results: bool = False

    def add_input(self, position: int, message: BaseMessage) -> None:
        """Add what the user said, or what nothing asked for."""
        if not isinstance(self.inputs, list):
            self.inputs = []
        self.inputs.append((position, message))


class _Asked:
    """The calls that wait for a result: of each id, those in the last turn that has it."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[Call, Turn]] = {}
        self._more: dict[str, deque[Call]] = {}
        """Further calls of that turn: an id may stand there twice."""

    def __bool__(self) -> bool:
        return bool(self._next)

    def add(self, call: Call, turn: Turn) -> None:
        known = self._next.get(call.id)
        if known and known[1] is turn:
            self._more.setdefault(call.id, deque()).append(call)
        else:
            self._next[call.id] = call, turn
            self._more.pop(call.id, None)

    def take(self, call_id: str) -> tuple[Call, Turn] | None:
        """The first one with this id, which waits no longer."""
        found = self._next.pop(call_id, None)
        if found and (more := self._more.get(call_id)):
            self._next[call_id] = more.popleft(), found[1]
        return found


def split_system(
    messages: Sequence[BaseMessage],
) -> tuple[list[SystemMessage], Iterator[tuple[int, BaseMessage]]]:
    """System messages from anywhere in the list, and the others with their positions."""
    known = [m if type(m) in _KINDS else _known_message(m, n) for n, m in enumerate(messages)]
    return [message for message in known if isinstance(message, SystemMessage)], _others(known)


def _others(messages: Sequence[BaseMessage]) -> Iterator[tuple[int, BaseMessage]]:
    for position, message in enumerate(messages):
        if isinstance(message, HumanMessage) and isinstance(message.content, list):
            for piece in _without_tool_result_blocks(message):
                yield position, piece
        elif not isinstance(message, SystemMessage):
            yield position, message


def arrange_turns(
    messages: Iterable[tuple[int, BaseMessage]], repairs: list[Repair]
) -> Iterator[Turn]:
    """Group messages into turns and give every tool result to its call.

    A turn comes as soon as nothing can be added to it, so that long histories are not held twice.

    Args:
        messages: Messages with their positions in the caller's list.
        repairs: Told here, before the turn comes that they belong to.
    """
    asked = _Asked()
    waiting: list[Turn] = []  # from the first one on that a late result may still belong to
    turn = Turn()
    for position, message in messages:
        if isinstance(message, AIMessage):
            if turn.has_results or turn.inputs or not turn.replies:
                waiting.append(turn)
                if not asked:
                    yield from waiting
                    waiting.clear()
                turn = Turn()
            else:
                repairs.append(_joined(position, "AI messages"))
            calls = calls_of(message)
            turn.replies.append(Reply(position, message, calls))
            for call in calls:
                asked.add(call, turn)
        elif isinstance(message, ToolMessage):
            _place_result(asked, turn, position, message, repairs)
        else:
            if turn.inputs:
                repairs.append(_joined(position, "user messages"))
            turn.add_input(position, message)
    yield from waiting
    yield turn


def calls_of(message: AIMessage) -> list[Call]:
    """The calls of an AI message: valid ones, invalid ones that have an id, Anthropic's blocks.

    Agents answer an invalid call with an error, which then needs the call as its partner.
    """
    calls = [Call(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls]
    for invalid in message.invalid_tool_calls:
        if invalid.get("id") and invalid.get("name"):
            args = {"invalid_arguments": invalid.get("args") or ""}
            calls.append(Call(invalid["id"] or "", invalid["name"] or "", args))
    if isinstance(message.content, list) and (found := list(_block_calls(message))):
        known = {call.id for call in calls}
        calls += [call for call in found if call.id not in known]
    if not calls and "function_call" in message.additional_kwargs:
        calls = _legacy_calls(message.additional_kwargs["function_call"])
    return calls


def _legacy_calls(call: Any) -> list[Call]:
    """OpenAI's one call without an id, from before there were tools: its result has its name."""
    match call:
        case {"name": str(name), "arguments": args}:
            return [Call(name, name, _object(args))]
    return []


def _block_calls(message: AIMessage) -> Iterator[Call]:
    # Core has put the calls of its own blocks into `tool_calls`: one that is missing was taken out.
    is_v1 = message.response_metadata.get("output_version") == "v1"
    for block in message.content:
        match block:
            case {"type": "tool_call"} if is_v1:
                continue
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": args}:
                yield Call(call_id, name, _object(args))
            case {"type": "tool_call", "id": str(call_id), "name": str(name), "args": args}:
                yield Call(call_id, name, _object(args))
            case {"type": "invalid_tool_call", "id": str(call_id), "name": str(name), "args": args}:
                yield Call(call_id, name, {"invalid_arguments": args or ""})
            case {"type": "function_call", "call_id": str(call_id), "name": str(name), **rest}:
                yield Call(call_id, name, _object(rest.get("arguments")))
            case {"type": "function_call", "id": str(call_id), "name": str(name), "args": args}:
                yield Call(call_id, name, _object(args))


def _object(args: Any) -> dict[str, Any]:
    """Arguments as an object, also where they are its JSON text."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return {"invalid_arguments": args}
    return args if isinstance(args, dict) else {"invalid_arguments": args} if args else {}


def _place_result(
    asked: _Asked, current: Turn, position: int, result: ToolMessage, repairs: list[Repair]
) -> None:
    """Give a result to the nearest call before it that has its id, unless that is answered."""
    if found := asked.take(result.tool_call_id):
        call, turn = found
        call.result = result
        turn.has_results = True
        if turn is not current or turn.inputs:
            repairs.append(_moved(position, result))
        return
    current.add_input(position, result)
    repairs.append(_orphaned(position, result))


def _known_message(message: BaseMessage, position: int) -> BaseMessage:
    """The message as one of the four kinds."""
    match message:
        case ToolMessage() | AIMessage() | HumanMessage() | SystemMessage():
            return message
        case FunctionMessage():
            return ToolMessage(message.content, tool_call_id=message.name, name=message.name)
        case ChatMessage() if message.role.lower() in _USER_ROLES:
            return HumanMessage(message.content)
        case ChatMessage() if message.role.lower() in _MODEL_ROLES:
            return AIMessage(message.content)
        case ChatMessage() if message.role.lower() in _SYSTEM_ROLES:
            return SystemMessage(message.content)
    role = f" with role {message.role!r}" if isinstance(message, ChatMessage) else ""
    raise InvalidHistoryError(
        f"Message {position} is a {type(message).__name__}{role}, which Gemini has no turn for. "
        "Use HumanMessage, AIMessage, SystemMessage or ToolMessage."
    )


def _without_tool_result_blocks(message: HumanMessage) -> Iterator[BaseMessage]:
    """Anthropic's user message with `tool_result` blocks -> tool messages, then the rest of it."""
    rest: list[str | dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield ToolMessage(
                block.get("content") or "",
                tool_call_id=str(block.get("tool_use_id") or ""),
                status="error" if block.get("is_error") else "success",
            )
        else:
            rest.append(block)
    if len(rest) == len(message.content):
        yield message
    elif rest:
        yield HumanMessage(rest)


def _joined(position: int, what: str) -> Repair:
    return Repair(
        "joined", position, f"Neighbouring {what} were sent as one turn.", is_harmless=True
    )


def _moved(position: int, result: ToolMessage) -> Repair:
    return Repair(
        "late_result",
        position,
        f"The result of call {result.tool_call_id!r} came after other messages; "
        "it was sent right after its call.",
    )


def _orphaned(position: int, result: ToolMessage) -> Repair:
    return Repair(
        "orphan_result",
        position,
        f"There is no open call {result.tool_call_id!r} before this tool message; "
        "its result was sent as user text.",
    )


def unanswered(position: int, call: Call) -> Repair:
    """A call that nobody answered."""
    return Repair(
        "unanswered_call",
        position,
        f"Call {call.id!r} of {call.name!r} has no tool message; "
        f"it was answered with the error {NOT_EXECUTED!r}.",
    )


def unsigned(position: int, model: str) -> Repair:
    """Signatures that the model or backend asked now could not read."""
    explanation = f"Thought signatures of {model} were left out: they cannot be read here."
    return Repair("foreign_signatures", position, explanation, is_harmless=True)


def changed(position: int) -> Repair:
    """An answer that is not what it was: nobody knows which of its texts were signed."""
    explanation = (
        "The answer is not as it came: its content was sent before its calls, and signatures of "
        "its texts were left out."
    )
    return Repair("changed_reply", position, explanation, is_harmless=True)


def told_in_words(position: int) -> Repair:
    """Parts of tools on Google's side that the model asked now does not take."""
    explanation = "Tools that ran on Google's side were told as text: this model takes no others."
    return Repair("server_tools", position, explanation, is_harmless=True)


def filled(position: int, kind: str, explanation: str) -> Repair:
    """A user text that had to be put in."""
    return Repair(kind, position, explanation)
