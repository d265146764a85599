"""Messages -> contents: system, human, ai, tool -> functionResponse.

`history.py` decides which message belongs to which turn; here each turn becomes one content of the
model and up to three of the user (function responses, their files, the user's messages), which
`body.py` collects. Parts are never merged: each keeps its own thought signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.facts.blocks import CALLS, blocks_of, type_of
from langchain_gemini_tools.facts.models import reads_signatures_of
from langchain_gemini_tools.wire.blocks import (
    render_input,
    render_model_block,
    render_orphan_result,
    render_response,
    render_result,
    render_split,
)
from langchain_gemini_tools.wire.history import (
    EMPTY_MESSAGE,
    NOT_EXECUTED,
    arrange_turns,
    repair,
)
from langchain_gemini_tools.wire.replay import (
    STEP,
    STEPS,
    VERTEXAI,
    as_signature,
    call_signatures_of,
    is_server_part,
    part_log_of,
    restore_order,
    server_part_as_text,
    without_media_steps,
    without_signatures,
)
from langchain_gemini_tools.wire.tools.tool import render_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.blocks import RenderedResult
    from langchain_gemini_tools.wire.body import ContentsWriter
    from langchain_gemini_tools.wire.history import ModelMessage, Repair, Turn
    from langchain_gemini_tools.wire.invocation import Invocation

    TurnRewriter = Callable[[Turn, list[Repair]], Turn]


def render_system(messages: Sequence[SystemMessage]) -> gemini.SystemInstruction | None:
    """Render all system messages as one instruction, with one part per block."""
    parts = [part for message in messages for part in render_input(message.content, "system")]
    return {"parts": parts} if parts else None


def render_contents(
    messages: Iterable[tuple[int, BaseMessage]],
    invocation: Invocation,
    contents: ContentsWriter,
    rewrite_turn: TurnRewriter | None = None,
) -> None:
    """Render all messages except system messages.

    Args:
        messages: Messages with their positions in the caller's list.
        invocation: The resolved options.
        contents: Receives the rendered contents and the repairs.
        rewrite_turn: Changes each turn before it is rendered.
    """
    position = 0
    for arranged in arrange_turns(messages, contents.repairs):
        turn = rewrite_turn(arranged, contents.repairs) if rewrite_turn else arranged
        _render_turn(turn, contents, invocation)
        position = turn.messages[-1].position if turn.messages else position
    contents.finish(position)


def _render_turn(turn: Turn, contents: ContentsWriter, invocation: Invocation) -> None:
    responses: list[gemini.Part] = []
    media: list[gemini.Part] = []
    used_ids: set[str] = set()
    tools = invocation.tools
    for paired in turn.messages:
        position, _, calls = paired
        rendered = _render_calls(paired, used_ids, tools.renamed_parameters)
        parts = None
        if contents.has_steps and STEPS in paired.message.additional_kwargs:
            reads_signatures = _reads_signatures_of(paired.message, invocation)
            parts = contents.restore(paired, rendered, reads_signatures=reads_signatures)
        if parts is None:
            parts = _render_parts(paired, rendered, contents, invocation)
        if not parts:
            contents.repairs.append(repair("empty_message", position))
        contents.add("model", parts)
        for number, sent in _sent_calls(parts, rendered):
            result = calls[number].result
            if result is None:
                call = calls[number]
                contents.repairs.append(
                    repair("unanswered_call", position, id=call.id, name=call.name)
                )
                error = {"error": NOT_EXECUTED}
                response = render_response(sent["id"], sent["name"], error)
            else:
                rendered_result = render_split(result.content)
                if rendered_result.problems:
                    result_position = calls[number].result_position
                    _report_files(rendered_result, result_position, contents.repairs)
                response, more = render_result(
                    result,
                    rendered_result,
                    sent,
                    invocation.capabilities,
                    # An action of computer use.
                    is_whole=tools.run_by_user and calls[number].name not in tools.functions,
                )
                media += more
            responses.append(response)
    if responses:
        contents.add("user", responses, "results")
        contents.add("user", media, "files")
    for position, given in turn.inputs:
        parts = _render_input(position, given, contents.repairs)
        if not invocation.capabilities.accepts_resolution_per_part:
            parts = _without_resolutions(parts, position, contents.repairs)
        contents.add("user", parts)


def _render_parts(
    paired: ModelMessage,
    rendered: list[gemini.Part],
    contents: ContentsWriter,
    invocation: Invocation,
) -> list[gemini.Part]:
    """Render an AI message with the parts that this model accepts."""
    message = paired.message
    parts = _render_message(paired, rendered, contents.repairs)
    if contents.has_steps or not _reads_signatures_of(message, invocation):
        # An API that has steps does not read the signatures of parts.
        parts = _without_foreign_signatures(parts, paired, contents.repairs)
    if isinstance(message.content, list):
        if any(map(is_server_part, parts)):
            parts = _render_server_parts(parts, paired.position, contents, invocation)
        if not invocation.capabilities.accepts_resolution_per_part:
            parts = _without_resolutions(parts, paired.position, contents.repairs)
    return parts


def _reads_signatures_of(message: AIMessage, invocation: Invocation) -> bool:
    """Return whether the model accepts a message's signatures, by the author's names."""
    metadata = message.response_metadata
    backend = metadata.get(VERTEXAI)
    if isinstance(backend, bool) and backend is not invocation.vertexai:
        return False
    if "model_name" not in metadata:
        return True
    for key in ("model_name", "requested_model"):
        if (author := metadata.get(key)) and reads_signatures_of(invocation.model, str(author)):
            return True
    return False


# The user


def _render_input(position: int, message: BaseMessage, repairs: list[Repair]) -> list[gemini.Part]:
    if isinstance(message, ToolMessage):
        rendered = render_split(message.content)
        _report_files(rendered, position, repairs)
        return render_orphan_result(message, rendered)
    parts = render_input(message.content, "human")
    if not parts:
        repairs.append(repair("empty_input", position))
        parts = [{"text": EMPTY_MESSAGE}]
    return parts


def _without_resolutions(
    parts: list[gemini.Part], position: int, repairs: list[Repair]
) -> list[gemini.Part]:
    """Remove the resolutions of single files, for a model that does not know them."""
    if not any("mediaResolution" in part for part in parts):
        return parts
    repairs.append(repair("media_resolution", position))
    kept = [{key: part[key] for key in part if key != "mediaResolution"} for part in parts]  # type: ignore[literal-required]
    return cast("list[gemini.Part]", kept)


def _report_files(rendered: RenderedResult, position: int, repairs: list[Repair]) -> None:
    repairs += [repair("unsendable_file", position, problem=each) for each in rendered.problems]


# The model


def _render_calls(
    paired: ModelMessage, used_ids: set[str], renamed: Mapping[str, Mapping[str, str]]
) -> list[gemini.Part]:
    """Render each call with its signature and an id that is unique in the turn."""
    position, message, calls = paired
    is_plain = not message.additional_kwargs and isinstance(message.content, str)
    signatures = call_signatures_of(message) if calls and not is_plain else {}
    parts: list[gemini.Part] = []
    for number, call in enumerate(calls):
        call_id = call.id or f"call_{position}_{number}"
        while call_id in used_ids:
            call_id += f"_{position}_{number}"
        used_ids.add(call_id)
        args = call.args
        if names := renamed.get(call.name):
            args = {names.get(name, name): value for name, value in args.items()}
        part: gemini.Part = {
            "functionCall": {"id": call_id, "name": render_name(call.name), "args": args}
        }
        if (signature := signatures.get(call.id)) and isinstance(signature, str):
            part["thoughtSignature"] = signature
        elif signature and (signed := as_signature(signature)):
            part["thoughtSignature"] = signed
        parts.append(part)
    return parts


def _render_message(
    paired: ModelMessage, rendered: list[gemini.Part], repairs: list[Repair]
) -> list[gemini.Part]:
    """Render an AI message in the order in which the model wrote its parts, if that is known.

    Args:
        paired: The message and its calls.
        rendered: The part of each call.
        repairs: Receives a repair if the order is not known any more.
    """
    message = paired.message
    log = part_log_of(message) if message.additional_kwargs else None
    if log is None and isinstance(message.content, str):
        return [{"text": message.content}, *rendered] if message.content else rendered
    position, _, calls = paired
    pending = [(call.id, part) for call, part in zip(calls, rendered, strict=True)]
    parts: list[gemini.Part] = []
    others: list[gemini.Part] = []  # without calls
    for block in blocks_of(message.content):
        if isinstance(block, dict) and type_of(block) in CALLS:
            call_id = _block_call_id(block)
            if found := next((item for item in pending if item[0] == call_id), None):
                pending.remove(found)
                parts.append(found[1])
        elif part := render_model_block(block, message):
            parts.append(part)
            others.append(part)
    if log is not None:
        by_id = {call.id: part for call, part in zip(calls, rendered, strict=True)}
        ordered = restore_order(log, others, by_id)
        if ordered is not None and len(by_id) == len(calls):
            return ordered
        repairs.append(repair("changed_message", position))
    return [*parts, *(part for _, part in pending)]


def _without_foreign_signatures(
    parts: list[gemini.Part], paired: ModelMessage, repairs: list[Repair]
) -> list[gemini.Part]:
    """Remove signatures that the model cannot read."""
    unsigned = without_signatures(parts)
    if unsigned != parts:
        author = paired.message.response_metadata.get("model_name", "another backend")
        repairs.append(repair("foreign_signatures", paired.position, author=author))
    return unsigned


def _render_server_parts(
    parts: list[gemini.Part], position: int, contents: ContentsWriter, invocation: Invocation
) -> list[gemini.Part]:
    """Send the parts of server-side tools unchanged, or as text if the model rejects them."""
    if any(STEP in part for part in parts):
        contents.repairs.append(repair("interaction_steps", position))
        parts = [part for part in parts if STEP not in part]
        if not any(map(is_server_part, parts)):
            return parts
    kept = without_media_steps(parts)
    if len(kept) < len(parts):
        contents.repairs.append(repair("media_steps", position))
        parts = kept
        if not any(map(is_server_part, parts)):
            return parts
    if invocation.circulates_server_tools:
        contents.has_server_tools = True
        return parts
    contents.repairs.append(repair("server_tools", position))
    return [server_part_as_text(part) if is_server_part(part) else part for part in parts]


def _sent_calls(
    parts: Sequence[gemini.Part], rendered: Sequence[gemini.Part]
) -> Iterable[tuple[int, gemini.FunctionCall]]:
    """Return the message's calls with their numbers, in the order in which they are sent."""
    if parts is rendered:
        return [(number, part["functionCall"]) for number, part in enumerate(rendered)]
    numbers = {part["functionCall"]["id"]: number for number, part in enumerate(rendered)}
    sent: list[tuple[int, gemini.FunctionCall]] = []
    for part in parts if numbers else ():
        call: Any = part.get("functionCall")
        # A part that is sent back unchanged may contain anything.
        call_id = call.get("id") if isinstance(call, dict) and "name" in call else None
        if isinstance(call_id, str) and call_id in numbers:
            sent.append((numbers[call_id], call))
    return sent


def _block_call_id(block: dict[str, Any]) -> str:
    # OpenAI's Responses blocks have the id of the item in `id` and that of the call in `call_id`.
    return str(block.get("call_id") or block.get("id") or "")
