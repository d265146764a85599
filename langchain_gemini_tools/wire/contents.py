"""Messages -> contents: system, human, ai, tool -> functionResponse.

Which message goes into which turn is decided in `history.py`; here each turn becomes one content of
the model and one of the user, which `conversation.py` puts in a row. Parts are never merged: each
keeps its own thought signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.errors import UnsupportedBlockError
from langchain_gemini_tools.facts.blocks import CALLS, blocks_of, type_of
from langchain_gemini_tools.facts.models import reads_signatures_of
from langchain_gemini_tools.wire import history
from langchain_gemini_tools.wire.blocks import (
    render_input_block,
    render_reply_block,
)
from langchain_gemini_tools.wire.replay import (
    VERTEXAI,
    call_signatures_of,
    is_server_part,
    part_log_of,
    restore_order,
    server_part_as_text,
    without_signatures,
)
from langchain_gemini_tools.wire.tool_results import (
    render_orphan_result,
    render_response,
    render_result,
)
from langchain_gemini_tools.wire.tools.names import render_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.conversation import Conversation
    from langchain_gemini_tools.wire.history import Call, Repair, Reply, Turn

    TurnRewriter = Callable[[Turn, list[Repair]], Turn]


def render_system(messages: Sequence[SystemMessage]) -> gemini.SystemInstruction | None:
    """All system messages as one instruction, a part each block, in order."""
    parts: list[gemini.Part] = []
    for message in messages:
        for block in blocks_of(message.content):
            part = render_input_block(block, "system")
            if part and "text" not in part:
                kind = block.get("type") if isinstance(block, dict) else None
                raise UnsupportedBlockError(str(kind), "system", ["text"])
            parts += [part] if part else []
    return {"parts": parts} if parts else None


@dataclass(frozen=True)
class Reader:
    """Whom the contents are rendered for."""

    capabilities: Capabilities
    model: str = ""
    """Its name, which tells whose thought signatures it reads."""
    vertexai: bool = False
    parameter_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Parameters with another name on the wire: tool's name -> the user's -> the wire's."""
    declared: Collection[str] | None = None
    """Where the model may use a computer, the functions that are not part of that."""
    takes_server_parts: bool = True
    """Whether calls that Google's side made may go back as such."""

    def is_computer_use(self, call: Call) -> bool:
        """Whether a call is one of those that come with computer use."""
        return self.declared is not None and call.name not in self.declared

    def reads_signatures_of(self, reply: AIMessage) -> bool:
        """Whether it takes the reply's signatures, by the names its author goes by."""
        metadata = reply.response_metadata
        backend = metadata.get(VERTEXAI)
        if isinstance(backend, bool) and backend is not self.vertexai:
            return False
        if "model_name" not in metadata:
            return True
        for key in ("model_name", "requested_model"):
            if (author := metadata.get(key)) and reads_signatures_of(self.model, str(author)):
                return True
        return False


def render_contents(
    messages: Iterable[tuple[int, BaseMessage]],
    reader: Reader,
    conversation: Conversation,
    rewrite_turn: TurnRewriter | None = None,
) -> None:
    """Render everything but the system messages.

    Args:
        messages: Messages with their positions in the caller's list.
        reader: The model they are for.
        conversation: Where they go.
        rewrite_turn: Changes each turn before it is rendered.
    """
    position = 0
    for arranged in history.arrange_turns(messages, conversation.repairs):
        turn = rewrite_turn(arranged, conversation.repairs) if rewrite_turn else arranged
        _render_turn(turn, conversation, reader)
        position = turn.replies[-1].position if turn.replies else position
    conversation.end(position)


def _render_turn(turn: Turn, conversation: Conversation, reader: Reader) -> None:
    answers: list[gemini.Part] = []
    media: list[gemini.Part] = []
    used_ids: set[str] = set()
    for reply in turn.replies:
        position, message, calls = reply
        rendered = _render_calls(reply, used_ids, reader)
        parts = _render_reply(reply, rendered, conversation.repairs)
        if not reader.reads_signatures_of(message) and (bare := without_signatures(parts)) != parts:
            author = message.response_metadata.get("model_name", "another backend")
            conversation.repairs.append(history.unsigned(position, author))
            parts = bare
        if isinstance(message.content, list) and any(map(is_server_part, parts)):
            if reader.takes_server_parts:
                conversation.holds_server_tools = True
            else:
                conversation.repairs.append(history.told_in_words(position))
                parts = [
                    server_part_as_text(part) if is_server_part(part) else part for part in parts
                ]
        if not parts:
            conversation.repairs.append(
                history.Repair("empty_reply", position, "An empty AI message was left out.")
            )
        conversation.add("model", parts)
        for number, sent in _sent_calls(parts, rendered):
            result = calls[number].result
            if result is None:
                conversation.repairs.append(history.unanswered(position, calls[number]))
                answer = render_response(sent["id"], sent["name"], {"error": history.NOT_EXECUTED})
            else:
                answer, more = render_result(
                    result,
                    call_id=sent["id"],
                    name=sent["name"],
                    capabilities=reader.capabilities,
                    is_whole=reader.is_computer_use(calls[number]),
                )
                media += more
            answers.append(answer)
    conversation.add("user", answers)
    conversation.add("user", media)
    for position, given in turn.inputs:
        conversation.add("user", _render_input(position, given, conversation.repairs))


# the user's side


def _render_input(position: int, message: BaseMessage, repairs: list[Repair]) -> list[gemini.Part]:
    if isinstance(message, ToolMessage):
        return render_orphan_result(message)
    blocks = blocks_of(message.content)
    parts = [part for block in blocks if (part := render_input_block(block, "human"))]
    if not parts:
        explanation = f"An empty user message was sent as {history.EMPTY_MESSAGE!r}."
        repairs.append(history.filled(position, "empty_input", explanation))
        parts = [{"text": history.EMPTY_MESSAGE}]
    return parts


# the model's side


def _render_calls(reply: Reply, used_ids: set[str], reader: Reader) -> list[gemini.Part]:
    """Each call as a part, with its signature and an id that stands once in the turn."""
    position, message, calls = reply
    signatures = call_signatures_of(message) if calls else {}
    parts: list[gemini.Part] = []
    for number, call in enumerate(calls):
        call_id = call.id or f"call_{position}_{number}"
        while call_id in used_ids:
            call_id += f"_{position}_{number}"
        used_ids.add(call_id)
        args = call.args
        if wire := reader.parameter_names.get(call.name):
            args = {wire.get(name, name): value for name, value in args.items()}
        part: gemini.Part = {
            "functionCall": {"id": call_id, "name": render_name(call.name), "args": args}
        }
        if (signature := signatures.get(call.id)) and isinstance(signature, str):
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _render_reply(
    reply: Reply, rendered: list[gemini.Part], repairs: list[Repair]
) -> list[gemini.Part]:
    """An AI message's parts as the model wrote them, as far as that is known.

    Args:
        reply: The message and its calls.
        rendered: The part of each call.
        repairs: Told here, where it is not known any more.
    """
    position, message, calls = reply
    log = part_log_of(message)
    if log is None and isinstance(message.content, str):
        return [{"text": message.content}, *rendered] if message.content else rendered
    pending = [(call.id, part) for call, part in zip(calls, rendered, strict=True)]
    parts: list[gemini.Part] = []
    said: list[gemini.Part] = []  # without calls
    for block in blocks_of(message.content):
        if isinstance(block, dict) and type_of(block) in CALLS:
            call_id = _block_call_id(block)
            if found := next((item for item in pending if item[0] == call_id), None):
                pending.remove(found)
                parts.append(found[1])
        elif part := render_reply_block(block, message):
            parts.append(part)
            said.append(part)
    if log is not None:
        by_id = {call.id: part for call, part in zip(calls, rendered, strict=True)}
        ordered = restore_order(log, said, by_id)
        if ordered is not None and len(by_id) == len(calls):
            return ordered
        repairs.append(history.changed(position))
    return [*parts, *(part for _, part in pending)]


def _sent_calls(
    parts: Sequence[gemini.Part], rendered: Sequence[gemini.Part]
) -> Iterable[tuple[int, gemini.FunctionCall]]:
    """The message's calls with their numbers, in the order they are sent."""
    if parts is rendered:
        return [(number, part["functionCall"]) for number, part in enumerate(rendered)]
    numbers = {part["functionCall"]["id"]: number for number, part in enumerate(rendered)}
    sent: list[tuple[int, gemini.FunctionCall]] = []
    for part in parts if numbers else ():
        call: Any = part.get("functionCall")
        # A part that is echoed as it came may hold anything.
        call_id = call.get("id") if isinstance(call, dict) and "name" in call else None
        if isinstance(call_id, str) and call_id in numbers:
            sent.append((numbers[call_id], call))
    return sent


def _block_call_id(block: dict[str, Any]) -> str:
    # OpenAI's Responses blocks have an id of the item and, for the call, `call_id`.
    return str(block.get("call_id") or block.get("id") or "")
