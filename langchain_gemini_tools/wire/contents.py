"""Messages -> contents: system, human, ai, tool -> functionResponse.

`history.py` decides which message belongs to which turn; here each turn becomes one content of the
model and up to three of the user (function responses, their files, the user's messages), which
`body.py` collects. Parts are never merged: each keeps its own thought signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import HumanMessage

from langchain_gemini_tools.facts.blocks import CALLS, blocks_of, type_of, unwrapped
from langchain_gemini_tools.facts.models import reads_signatures_of
from langchain_gemini_tools.wire.blocks import (
    render_input,
    render_model_block,
    render_orphan_result,
    render_response,
    render_result,
    render_split,
    render_text_result,
)
from langchain_gemini_tools.wire.history import (
    EMPTY_MESSAGE,
    NOT_EXECUTED,
    arrange_turns,
    repair,
)
from langchain_gemini_tools.wire.replay import (
    PART_LOG,
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

    from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.blocks import RenderedResult
    from langchain_gemini_tools.wire.body import ContentsWriter
    from langchain_gemini_tools.wire.history import History, ModelMessage, PairedCall, Repair, Turn
    from langchain_gemini_tools.wire.invocation import Invocation

    TurnRewriter = Callable[[Turn, list[Repair]], Turn]


def render_system(messages: Sequence[SystemMessage]) -> gemini.SystemInstruction | None:
    """Render all system messages as one instruction, with one part per block."""
    parts = [part for message in messages for part in render_input(message.content, "system")]
    return {"parts": parts} if parts else None


def render_contents(
    history: History,
    invocation: Invocation,
    contents: ContentsWriter,
    rewrite_turn: TurnRewriter | None = None,
) -> None:
    """Render all messages except system messages.

    Args:
        history: The messages.
        invocation: The resolved options.
        contents: Receives the rendered contents and the repairs.
        rewrite_turn: Changes each turn before it is rendered.
    """
    position = 0
    for turn in arrange_turns(history, contents.repairs):
        if turn.messages:
            position = turn.messages[-1].position
        rewritten = rewrite_turn(turn, contents.repairs) if rewrite_turn else turn
        _render_turn(rewritten, contents, invocation)
    contents.finish(position)


def _render_turn(turn: Turn, contents: ContentsWriter, invocation: Invocation) -> None:
    responses: list[gemini.Part] = []
    media: list[gemini.Part] = []
    has_files = False
    used_ids: set[str] = set()
    tools = invocation.tools
    for paired in turn.messages:
        rendered = _render_calls(paired, used_ids, tools.renamed_parameters)
        parts = _add_message(paired, rendered, contents, invocation)
        for call, sent in _sent_calls(paired.calls, parts, rendered):
            result = call.result
            # An action of computer use.
            is_action = tools.run_by_user and call.name not in tools.functions
            if result is None:
                error = call.error or NOT_EXECUTED
                contents.repairs.append(
                    repair(
                        "unanswered_call", paired.position, id=call.id, name=call.name, error=error
                    )
                )
                response = render_response(sent, {"error": error})
            elif not is_action and (text := render_text_result(result, sent)) is not None:
                response = text
            else:
                split = render_split(result.content)
                _report_files(split, call.result_position, contents.repairs)
                response, more = render_result(
                    result, split, sent, invocation.capabilities, is_whole=is_action
                )
                if not invocation.capabilities.accepts_resolution_per_part:
                    more = _without_resolutions(more, call.result_position, contents.repairs)
                media += more
                has_files |= bool(split.files)
            responses.append(response)
    if responses:
        contents.add("results", responses, may_have_files=has_files)
        if media:
            contents.add("files", media, may_have_files=has_files)
    for position, given in turn.inputs:
        contents.add(
            "user",
            _render_input(position, given, contents.repairs, invocation),
            may_have_files=not isinstance(given.content, str),
        )


def _add_message(
    paired: ModelMessage,
    calls: list[gemini.Part],
    contents: ContentsWriter,
    invocation: Invocation,
) -> list[gemini.Part]:
    """Add the parts of an AI message that this model accepts, and return them.

    Args:
        paired: The message and its calls.
        calls: The part of each call.
        contents: Receives the parts, and the repairs.
        invocation: The resolved options.
    """
    message, position = paired.message, paired.position
    content, kept = message.content, message.additional_kwargs
    reads_signatures = _reads_signatures_of(message, invocation)
    parts: list[gemini.Part] | None = None
    if contents.has_steps:
        # An API that has steps does not read the signatures of parts.
        if STEPS in kept:
            parts = contents.restore(paired, calls, reads_signatures=reads_signatures)
        reads_signatures = False
    if parts is None:
        if isinstance(content, str) and kept.get(PART_LOG) is None:
            parts = [{"text": content}, *calls] if content else calls
        else:
            parts = _render_in_order(paired, calls, contents.repairs)
        if not reads_signatures:
            parts = _without_foreign_signatures(parts, paired, contents.repairs)
        if not isinstance(content, str):
            if any(map(is_server_part, parts)):
                parts = _render_server_parts(parts, position, contents, invocation)
            if not invocation.capabilities.accepts_resolution_per_part:
                parts = _without_resolutions(parts, position, contents.repairs)
    if not parts:
        contents.repairs.append(repair("empty_message", position))
    contents.add("model", parts, may_have_files=not isinstance(content, str))
    return parts


def _reads_signatures_of(message: AIMessage, invocation: Invocation) -> bool:
    """Return whether the model accepts a message's signatures, by the author's names."""
    metadata = message.response_metadata
    if metadata.get(VERTEXAI) is (not invocation.vertexai):
        return False
    if "model_name" not in metadata:
        return True
    for key in ("model_name", "requested_model"):
        if (author := metadata.get(key)) and reads_signatures_of(invocation.model, str(author)):
            return True
    return False


# The user


def _render_input(
    position: int,
    message: HumanMessage | ToolMessage,
    repairs: list[Repair],
    invocation: Invocation,
) -> list[gemini.Part]:
    if isinstance(message, HumanMessage):
        parts = render_input(message.content, "human")
    else:
        rendered = render_split(message.content)
        _report_files(rendered, position, repairs)
        parts = render_orphan_result(message, rendered)
    if not parts:
        repairs.append(repair("empty_input", position))
        parts = [{"text": EMPTY_MESSAGE}]
    if not invocation.capabilities.accepts_resolution_per_part:
        parts = _without_resolutions(parts, position, repairs)
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
    parts: list[gemini.Part] = []
    if not paired.calls:
        return parts
    signatures = call_signatures_of(paired.message)
    for number, call in enumerate(paired.calls):
        call_id = call.id or f"call_{paired.position}_{number}"
        while call_id in used_ids:
            call_id += f"_{paired.position}_{number}"
        used_ids.add(call_id)
        name, args = call.name, call.args
        if names := renamed.get(name):
            args = {names.get(key, key): value for key, value in args.items()}
        part: gemini.Part = {
            "functionCall": {"id": call_id, "name": render_name(name), "args": args}
        }
        if signature := signatures.get(call.id):
            signed = signature if isinstance(signature, str) else as_signature(signature)
            if signed:
                part["thoughtSignature"] = signed
        parts.append(part)
    return parts


def _render_in_order(
    paired: ModelMessage, rendered: list[gemini.Part], repairs: list[Repair]
) -> list[gemini.Part]:
    """Render an AI message in the order in which the model wrote its parts, if that is known.

    Args:
        paired: The message and its calls.
        rendered: The part of each call.
        repairs: Receives a repair if the order is not known any more.
    """
    message, calls = paired.message, paired.calls
    log = part_log_of(message)
    pending = [(call.id, part) for call, part in zip(calls, rendered, strict=True)]
    parts: list[gemini.Part] = []
    others: list[gemini.Part] = []  # without calls
    for block in map(unwrapped, blocks_of(message.content)):
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
        repairs.append(repair("changed_message", paired.position))
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
    calls: Sequence[PairedCall], parts: Sequence[gemini.Part], rendered: Sequence[gemini.Part]
) -> Iterable[tuple[PairedCall, gemini.FunctionCall]]:
    """Return the calls of a message as they are sent, in the order in which they are sent.

    Args:
        calls: The calls of the message.
        parts: The parts that are sent.
        rendered: The part of each call.
    """
    if not calls:
        return ()
    if parts is rendered or ("functionCall" not in parts[0] and parts[1:] == rendered):
        sent_in_order = [part["functionCall"] for part in rendered]
        return zip(calls, sent_in_order, strict=True)
    by_id = {part["functionCall"]["id"]: call for call, part in zip(calls, rendered, strict=True)}
    sent: list[tuple[PairedCall, gemini.FunctionCall]] = []
    for part in parts:
        call: Any = part.get("functionCall")
        # A part that is sent back unchanged may contain anything.
        call_id = call.get("id") if isinstance(call, dict) and "name" in call else None
        if isinstance(call_id, str) and call_id in by_id:
            sent.append((by_id[call_id], call))
    return sent


def _block_call_id(block: dict[str, Any]) -> str:
    # OpenAI's Responses blocks have the id of the item in `id` and that of the call in `call_id`.
    return str(block.get("call_id") or block.get("id") or "")
