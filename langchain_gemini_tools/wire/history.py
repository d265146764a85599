"""Messages -> turns that Gemini accepts. Every rule that repairs a history is in this file.

Gemini requires that the user has the first turn, that user and model alternate, and that each
function call has one response in the next turn. Histories that were interrupted, trimmed, merged or
written by another vendor are repaired; every change is reported as a `Repair`.

| found | sent instead |
|---|---|
| a call without a result | a result that says it was not executed, before the next AI message |
| a result that follows other messages than results | the result, moved to its call |
| a call without an id, or with the id of another call | the call and its result with a new id |
| a result without a call, or a second result | user text that names the call |
| a file in a result that cannot be sent | text that says why |
| a history that starts with the model | a short user text before it |
| a history that ends with the model, from Gemini 3.6 on | a short user text after it |
| an empty user message | a short text in its place |
| an empty AI message | nothing |
| thought signatures of another line of models or backend | the same parts without them |
| a message that was changed or merged since it arrived | its parts, with unsigned texts |
| a tool that the API ran itself, for a model that does not accept such parts | text |
| a step of the Interactions API that this request cannot contain | nothing |
| adjacent messages of one role | one turn with all their parts |
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Literal, cast

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
from langchain_gemini_tools.facts.blocks import NOT_RELEASED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOT_EXECUTED = "This call was not executed."
TRIMMED_START = "(The beginning of this conversation was left out.)"
CONTINUE = "(Continue.)"
EMPTY_MESSAGE = "(empty message)"

_MAX_WITH_ONE_ID = 64
"""Of calls with one id, how many are compared with the name of a result."""

Role = Literal["system", "human", "ai", "tool"]

# The class of a message is looked up once. `isinstance` costs ten times as much for each class of
# Pydantic that does not match, and a history may have thousands of messages.
_ROLES: dict[type, Role] = {
    SystemMessage: "system",
    HumanMessage: "human",
    AIMessage: "ai",
    AIMessageChunk: "ai",
    ToolMessage: "tool",
}
_USER_ROLES = {"user", "human"}
_MODEL_ROLES = {"assistant", "ai", "model"}
_SYSTEM_ROLES = {"system", "developer"}


@dataclass(frozen=True)
class Repair:
    """One change that was made to a history before it was sent."""

    kind: str
    """An identifier, such as `unanswered_call`."""
    position: int
    """Index of the message in the list that the caller gave."""
    explanation: str
    """What was found, and what is sent instead."""
    is_harmless: bool = False
    """Whether the turns have the same meaning as the messages."""


_EXPLANATIONS = {
    "unanswered_call": "Call {id!r} of {name!r} has no tool message; "
    "the error {error!r} is sent as its result.",
    "late_result": "The result of call {id!r} comes after other messages; "
    "it is sent right after its call.",
    "orphan_result": "No call {id!r} that still needs a result precedes this tool message; "
    "its result is sent as user text.",
    "unsendable_file": "A file of this tool result is replaced by text: {problem}",
    "starts_with_model": f"The history starts with the model; {TRIMMED_START!r} is put before it.",
    "ends_with_model": f"The history ends with the model; {CONTINUE!r} is added.",
    "empty_input": f"An empty user message is sent as {EMPTY_MESSAGE!r}.",
    "empty_message": "An empty AI message is left out.",
    "media_resolution": "media_resolution of a single file is left out: models before Gemini 3 do "
    "not support it. Set media_resolution on the model or on the call.",
}
_HARMLESS = {
    "joined": "Adjacent {what} are sent as one turn.",
    "foreign_signatures": "Thought signatures of {author} are removed: this model cannot read "
    "them.",
    "changed_message": "The message has been changed since it arrived: its content is sent before "
    "its calls, and signatures of its texts are removed.",
    "media_steps": "Steps of media processing are left out: the API does not accept them back.",
    "interaction_steps": "Steps of tools that the Interactions API ran are left out: only that "
    "API accepts them, and only with a message that was not changed.",
    "server_tools": "Calls and results of server-side tools are sent as text: this model does not "
    "accept their parts.",
}
"""Repairs after which the turns have the same meaning as the messages."""


def repair(kind: str, position: int, **found: object) -> Repair:
    """Return a repair of a known kind.

    Args:
        kind: What was repaired.
        position: Index of the message in the list that the caller gave.
        **found: What the explanation mentions.
    """
    explanation = _EXPLANATIONS.get(kind) or _HARMLESS[kind]
    text = explanation.format(**{"error": NOT_EXECUTED, **found})
    return Repair(kind, position, text, is_harmless=kind in _HARMLESS)


@dataclass(slots=True)
class PairedCall:
    """A tool call of an AI message, valid or not, and its result."""

    id: str
    name: str
    args: dict[str, Any]
    result: ToolMessage | None = None
    result_position: int = 0
    error: str | None = None
    """Why an invalid call was not executed, if that is known."""


@dataclass(slots=True)
class ModelMessage:
    """An AI message, its index in the list that the caller gave, and its tool calls."""

    position: int
    message: AIMessage
    calls: list[PairedCall]

    @property
    def is_unanswered(self) -> bool:
        """Whether there are calls, and no result of any of them."""
        return bool(self.calls) and all(call.result is None for call in self.calls)


@dataclass(slots=True)
class Turn:
    """Messages of the model, then the results of their calls and messages of the user."""

    messages: list[ModelMessage]
    inputs: list[tuple[int, HumanMessage | ToolMessage]]
    """Human messages, and tool messages without a call, with their positions."""
    has_results: bool = False


@dataclass(frozen=True)
class History:
    """The messages of the caller's list, each as one of the four kinds that Gemini has."""

    messages: Sequence[BaseMessage]
    roles: Sequence[Role]

    @property
    def system(self) -> list[SystemMessage]:
        """The system messages."""
        if "system" not in self.roles:
            return []
        pairs = zip(self.roles, self.messages, strict=True)
        return [cast("SystemMessage", message) for role, message in pairs if role == "system"]


def read_history(messages: Sequence[BaseMessage]) -> History:
    """Return the messages with their roles.

    Raises:
        InvalidHistoryError: Gemini has no turn for a message.
    """
    roles = [*map(_ROLES.get, map(type, messages))]
    if None not in roles:
        return History(messages, cast("list[Role]", roles))
    known = [*_known_messages(messages)]
    return History(known, [_ROLES.get(type(message)) or _role_of(message) for message in known])


def _known_messages(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    """Yield each message as one of the four types that have a turn.

    A `FunctionMessage` has a name and no id: it is the result of the next call of that name.
    """
    ids: dict[str, deque[str]] = {}
    for position, message in enumerate(messages):
        match message:
            case AIMessage():
                if calls := calls_of(message):
                    ids = {}
                for call in calls:
                    ids.setdefault(call.name, deque()).append(call.id)
                yield message
            case FunctionMessage(name=name):
                call_id = ids[name].popleft() if ids.get(name) else name
                yield ToolMessage(message.content, tool_call_id=call_id, name=name)
            case _:
                yield _known_message(message, position)


def _role_of(message: BaseMessage) -> Role:
    """Return the role of a message whose class may be a subclass."""
    return next(role for kind, role in _ROLES.items() if isinstance(message, kind))


class _OpenCalls:
    """The calls without a result yet: of each id, those in the last turn that has it."""

    def __init__(self) -> None:
        self.first: dict[str, tuple[PairedCall, Turn]] = {}
        self._others: dict[str, deque[PairedCall]] = {}
        """Further calls with the same id in the same turn."""

    def add(self, call: PairedCall, turn: Turn) -> None:
        known = self.first.get(call.id)
        if known and known[1] is turn:
            self._others.setdefault(call.id, deque()).append(call)
        else:
            self.first[call.id] = call, turn
            if self._others:
                self._others.pop(call.id, None)

    def take(self, call_id: str, result: ToolMessage) -> tuple[PairedCall, Turn] | None:
        """Remove and return the first call with an id; of several, the first of the named tool."""
        found = self.first.pop(call_id, None)
        if found is None or not (others := self._others.get(call_id)):
            return found
        name = result.name
        if name and found[0].name != name:
            for number, other in enumerate(islice(others, _MAX_WITH_ONE_ID - 1)):
                if other.name == name:
                    del others[number]
                    self.first[call_id] = found
                    return other, found[1]
        self.first[call_id] = others.popleft(), found[1]
        return found


def arrange_turns(history: History, repairs: list[Repair]) -> Iterator[Turn]:
    """Group messages into turns and give every tool result to its call.

    System messages are left out. A turn is yielded as soon as it is complete, so that long
    histories are not in memory twice.

    Args:
        history: All messages.
        repairs: Receives the repairs of a turn before the turn is yielded.
    """
    open_calls = _OpenCalls()
    waiting: list[Turn] = []  # from the first one that a late result may still belong to
    turn = Turn([], [])
    message: Any
    for position, role, message in zip(count(), history.roles, history.messages, strict=False):
        if role == "ai":
            if turn.has_results or turn.inputs or not turn.messages:
                waiting.append(turn)
                if not open_calls.first:
                    yield from _with_steps_apart(waiting, repairs)
                    waiting.clear()
                turn = Turn([], [])
            calls = calls_of(message)
            turn.messages.append(ModelMessage(position, message, calls))
            for call in calls:
                open_calls.add(call, turn)
        elif role == "tool":
            _place_result(open_calls, turn, position, message, repairs)
        elif role == "human":
            results, rest = _split_tool_results(message)
            for result in results:
                _place_result(open_calls, turn, position, result, repairs)
            if rest is not None:
                if turn.inputs:
                    repairs.append(repair("joined", position, what="user messages"))
                turn.inputs.append((position, rest))
    yield from _with_steps_apart([*waiting, turn], repairs)


def _with_steps_apart(turns: Sequence[Turn], repairs: list[Repair]) -> Iterator[Turn]:
    """Yield the turns, divided after each AI message whose calls have no result at all.

    The results that say so are sent before the next AI message, as in a complete history.
    """
    for turn in turns:
        if len(turn.messages) > 1:
            step: list[ModelMessage] = []
            for paired in turn.messages:
                if step and step[-1].is_unanswered:
                    yield Turn(step, [])
                    step = []
                elif step:
                    repairs.append(repair("joined", paired.position, what="AI messages"))
                step.append(paired)
            turn.messages = step
        yield turn


def calls_of(message: AIMessage) -> list[PairedCall]:
    """Return the tool calls of an AI message: valid, invalid with an id, and in its content.

    Agents respond to an invalid call with an error, which has to be paired with the call.
    """
    calls = [
        PairedCall(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls
    ]
    for invalid in message.invalid_tool_calls:
        if invalid.get("id") and invalid.get("name"):
            args = _invalid_arguments(invalid.get("args") or "")
            error = invalid.get("error")
            calls.append(PairedCall(invalid["id"] or "", invalid["name"] or "", args, error=error))
    content = message.content
    if not isinstance(content, str) and (found := list(_block_calls(message))):
        known = {call.id for call in calls}
        calls += [call for call in found if call.id not in known]
    if not calls and "function_call" in message.additional_kwargs:
        calls = _legacy_calls(message)
    return calls


def _legacy_calls(message: AIMessage) -> list[PairedCall]:
    """Return OpenAI's legacy `function_call`, which has no id: its result has its name."""
    if message.response_metadata.get("model_provider") == "google_genai":
        return []  # it repeats a call, and one that is missing in `tool_calls` was removed
    match message.additional_kwargs["function_call"]:
        case {"name": str(name), "arguments": args}:
            return [PairedCall(name, name, _object(args))]
    return []


def _block_calls(message: AIMessage) -> Iterator[PairedCall]:
    # Core copies the calls of its own blocks into `tool_calls`: one missing there was removed.
    is_v1 = message.response_metadata.get("output_version") == "v1"
    for block in message.content:
        match block:
            case {"type": "tool_call"} if is_v1:
                continue
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": args}:
                yield PairedCall(call_id, name, _object(args))
            case {"type": "tool_call", "id": str(call_id), "name": str(name), "args": args}:
                yield PairedCall(call_id, name, _object(args))
            case {"type": "invalid_tool_call", "id": str(call_id), "name": str(name), "args": args}:
                yield PairedCall(call_id, name, {"invalid_arguments": args or ""})
            case {"type": "function_call", "call_id": str(call_id), "name": str(name), **rest}:
                yield PairedCall(call_id, name, _object(rest.get("arguments")))
            case {"type": "custom_tool_call", "call_id": str(call_id), "name": str(name), **rest}:
                yield PairedCall(call_id, name, {"__arg1": rest.get("input", "")})
            case {"type": "function_call", "id": str(call_id), "name": str(name), "args": args}:
                yield PairedCall(call_id, name, _object(args))


def _invalid_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of an invalid call: those of a valid one that was not released."""
    if text.startswith(NOT_RELEASED):
        return _object(text.removeprefix(NOT_RELEASED))
    return {"invalid_arguments": text}


def _object(args: Any) -> dict[str, Any]:
    """Return arguments as an object; they may be JSON text."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            return {"invalid_arguments": args}
    return args if isinstance(args, dict) else {"invalid_arguments": args} if args else {}


def _place_result(
    open_calls: _OpenCalls,
    current: Turn,
    position: int,
    result: ToolMessage,
    repairs: list[Repair],
) -> None:
    """Give a result to the nearest preceding call with its id, unless that has a result."""
    call_id = result.tool_call_id
    if found := open_calls.take(call_id, result):
        call, turn = found
        call.result, call.result_position = result, position
        turn.has_results = True
        if turn is not current or turn.inputs:
            repairs.append(repair("late_result", position, id=call_id))
    else:
        current.inputs.append((position, result))
        repairs.append(repair("orphan_result", position, id=call_id))


def _known_message(message: BaseMessage, position: int) -> BaseMessage:
    """Return another message than an AI or function message as one of the four types."""
    match message:
        case ToolMessage() | HumanMessage() | SystemMessage():
            return message
        case ChatMessage() if message.role.lower() in _USER_ROLES:
            return HumanMessage(message.content)
        case ChatMessage() if message.role.lower() in _MODEL_ROLES:
            return AIMessage(message.content)
        case ChatMessage() if message.role.lower() in _SYSTEM_ROLES:
            return SystemMessage(message.content)
    role = f" with role {message.role!r}" if isinstance(message, ChatMessage) else ""
    raise InvalidHistoryError(
        f"Message {position} is a {type(message).__name__}{role}, which Gemini does not support. "
        "Use HumanMessage, AIMessage, SystemMessage or ToolMessage."
    )


def _split_tool_results(
    message: HumanMessage,
) -> tuple[Sequence[ToolMessage], HumanMessage | None]:
    """Return the `tool_result` blocks of an Anthropic message as tool messages, and the rest."""
    content = message.content
    if isinstance(content, str):
        return (), message
    results: list[ToolMessage] = []
    rest: list[str | dict[str, Any]] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            result = ToolMessage(
                block.get("content") or "",
                tool_call_id=str(block.get("tool_use_id") or ""),
                status="error" if block.get("is_error") else "success",
            )
            results.append(result)
        else:
            rest.append(block)
    if not results:
        return (), message
    return results, HumanMessage(rest) if rest else None
