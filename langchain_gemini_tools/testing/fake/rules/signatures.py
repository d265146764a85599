"""Thought signatures, server tools and continuation tokens: they come back as they were sent.

https://ai.google.dev/gemini-api/docs/thought-signatures

The messages of the API about continuation tokens are not known: no recording has a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.answer import (
    SIGNATURE_ALONE,
    SKIP_VALUES,
    decode,
    fingerprint,
    line_of,
)
from langchain_gemini_tools.testing.fake.responses import Refusal, documented, invalid

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.answer import Foreign, Memory
    from langchain_gemini_tools.testing.fake.ask import Ask, Turn
    from langchain_gemini_tools.testing.fake.responses import JsonObject


_DOCS = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_SERVER_PARTS = ("toolCall", "toolResponse")


def check_signatures(ask: Ask, memory: Memory, *, accepts_foreign: Foreign) -> None:
    """Reject calls of the current turn without their signature, and foreign signatures."""
    if ask.model.thinks:
        for turn in ask.turns:
            for _, _, part in turn.parts:
                _check_origin(part, ask, memory, accepts_foreign=accepts_foreign)
    if not ask.model.is_3:
        if any(turn.of_kind(kind) for turn in ask.turns for kind in _SERVER_PARTS):
            raise Refusal(f"Tool call context circulation is not enabled for {ask.model.resource}")
        return
    for number, turn in enumerate(ask.turns):
        is_current = number >= ask.current_turn_start
        _check_step(turn, ask, memory, accepts_foreign=accepts_foreign, is_current=is_current)
        _check_server_parts(turn, ask, memory, accepts_foreign=accepts_foreign)


def _check_origin(part: JsonObject, ask: Ask, memory: Memory, *, accepts_foreign: Foreign) -> None:
    """A signature was issued by this emulator, for this backend, model line and part."""
    if "thoughtSignature" not in part:
        return
    signature = decode(part["thoughtSignature"])
    if signature in SKIP_VALUES:
        return
    issued = memory.signatures.get(signature)
    if issued is None:
        if accepts_foreign(signature) if callable(accepts_foreign) else accepts_foreign:
            return
        raise _corrupted("it was never issued here")
    if issued.line != line_of(ask):
        raise _corrupted("it belongs to another backend or model line")
    if issued.kind == SIGNATURE_ALONE:
        # Reported by pydantic-ai, about steps of agentic media processing on Vertex AI
        raise Refusal("Invalid thought signature", why="A step of media processing came back")
    if issued.kind and issued.kind not in part:
        raise _corrupted(f"it was put on a {issued.kind}, and came back on another part")
    if issued.kind == "functionCall" and issued.name != part["functionCall"].get("name", ""):
        raise _corrupted(f"it was put on a call of {issued.name}")


def _check_step(
    turn: Turn, ask: Ask, memory: Memory, *, accepts_foreign: Foreign, is_current: bool
) -> None:
    """The first call of a step is signed; calls that were sent with a signature come back with it.

    In older turns a signature may be missing, but it must not differ. A step that another server
    has signed, or that was made by hand, is not compared with what was sent here: a call without an
    id can be equal by chance.
    """
    is_first = True
    is_foreign = bool(accepts_foreign) and _has_foreign_signature(turn, memory)
    for number, _, part in turn.parts:
        if "functionCall" not in part:
            continue
        signature = decode(part.get("thoughtSignature", "")) or None
        known_calls = [] if is_foreign else memory.issued_calls(part["functionCall"], ask)
        issued = {known.signature for known in known_calls}
        if signature is None:
            if is_current and (None not in issued if issued else is_first):
                raise _missing(part["functionCall"].get("name", ""), number, ask)
        elif issued and signature not in issued:
            raise _corrupted("a call came back with another signature than it was sent with")
        is_first = False


def _has_foreign_signature(turn: Turn, memory: Memory) -> bool:
    """Whether a call has a signature that was not issued here; `_check_origin` has accepted it."""
    signatures = [
        decode(part["thoughtSignature"])
        for _, _, part in turn.parts
        if "functionCall" in part and "thoughtSignature" in part
    ]
    return any(each not in memory.signatures for each in signatures)


def _check_server_parts(turn: Turn, ask: Ask, memory: Memory, *, accepts_foreign: Foreign) -> None:
    """`toolCall` and `toolResponse` come back unchanged, in pairs, under the flag."""
    ids: dict[str, list[str]] = {kind: [] for kind in _SERVER_PARTS}
    for _, _, part in turn.parts:
        for kind in _SERVER_PARTS:
            if kind not in part:
                continue
            if not ask.circulates_server_tools:
                raise invalid(f"A {kind} in the history needs includeServerSideToolInvocations")
            identifier = part[kind].get("id", "")
            ids[kind].append(identifier)
            known = memory.server_parts.get((kind, identifier))
            if known is None and not accepts_foreign:
                raise invalid(f"A {kind} with the id {identifier!r} was never issued here")
            if known is not None and not _is_same(known, part, kind):
                raise invalid(f"A {kind} came back changed, or without its signature")
    if ids["toolCall"] != ids["toolResponse"]:
        raise invalid(f"Server tool calls and responses do not pair: {ids}")


def _is_same(known: JsonObject, part: JsonObject, kind: str) -> bool:
    signatures = [decode(each.get("thoughtSignature", "")) for each in (known, part)]
    return bool(known[kind] == part[kind] and signatures[0] == signatures[1])


def _corrupted(why: str) -> Refusal:
    return Refusal("Corrupted thought signature.", why=f"Corrupted thought signature: {why}")


def _missing(name: str, number: int, ask: Ask) -> Refusal:
    if ask.backend == "vertex":
        return Refusal(
            f"Unable to submit request because function call `{name}` in the {number + 1}. content "
            "block is missing a `thought_signature`. Learn more: "
            "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"
        )
    return Refusal(
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model "
        f"performance. Additional data, function call `default_api:{name}` , position {number + 1}."
        f" Please refer to {_DOCS} for more details."
    )


def check_continuation(ask: Ask, memory: Memory) -> None:
    """Refuse a token that does not belong to this request."""
    if not (token := ask.body.get("continuationToken")):
        return
    # Inferred: a token is opaque and issued by the API (documented), so others mean nothing.
    if (issued := memory.tokens.get(decode(token))) is None:
        raise invalid("This continuation token was never issued")
    # Inferred: what was generated belongs to its model.
    if issued.model != ask.model.name:
        raise invalid(f"This continuation token is one of {issued.model}")
    # Documented: the same request is sent again with the token, and never the partial text.
    # Reported (@ai-sdk/google 4.0.117): `maxOutputTokens` may be higher than before.
    sent, before = fingerprint(ask), issued.request
    if sent["contents"][: len(before["contents"])] == before["contents"] != sent["contents"]:
        raise documented("Contents were added to a request that continues with a token")
    if sent != before:
        changed = sorted(key for key in {*sent, *before} if sent.get(key) != before.get(key))
        raise documented(f"A request that continues with a token has other {', '.join(changed)}")
