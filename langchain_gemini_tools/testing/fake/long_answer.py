"""An answer that is too long for one request, as Gemini 4 sends it.

Each request sends some pieces of it and ends with CONTINUATION and a token, the last one with STOP.
A token says where the answer goes on, so a stream that was cut can be resumed from any token it had
sent: what came after that token is then sent once more.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.answer import (
    Answer,
    count_tokens,
    part_pieces,
    prompt_tokens,
    response_body,
    usage_counts,
    with_ids_and_signatures,
)
from langchain_gemini_tools.testing.fake.outgoing import event_stream, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.memory import Memory
    from langchain_gemini_tools.testing.fake.outgoing import Outgoing
    from langchain_gemini_tools.testing.fake.refusal import JsonObject
    from langchain_gemini_tools.testing.fake.script import Fault


@dataclass
class LongAnswer:
    """A scripted long answer. See `Emulator.reply_long` for what the fields mean."""

    parts: list[JsonObject]
    hop_size: int
    first_checkpoint: int | None = None
    faults: Sequence[Fault | None] = ()
    finish_reason: str = "STOP"
    _pieces: list[JsonObject] = field(default_factory=list)
    _requests: int = 0

    def render(self, ask: Ask, memory: Memory, position: int = 0) -> Outgoing:
        """What the request gets that asks for the answer from this position on."""
        if not self._pieces:
            answer = with_ids_and_signatures(Answer(self.parts), ask, memory, signed=None)
            memory.learn(answer.parts, ask)
            self._pieces = [piece for part in answer.parts for piece in part_pieces(part, ask, ())]
        end = min(position + self.hop_size, len(self._pieces))
        outgoing = self._render(ask, memory, position, end)
        fault = self.faults[self._requests] if self._requests < len(self.faults) else None
        self._requests += 1
        return fault(outgoing) if fault else outgoing

    def _render(self, ask: Ask, memory: Memory, start: int, end: int) -> Outgoing:
        # Reported (pydantic-ai 2.66): each request has a responseId of its own.
        response_id = memory.new_id()
        if not ask.is_stream:
            body = self._body(ask, _grown_together(self._pieces[start:end]), start, end)
            return whole(
                200, self._signed_off(body, ask, memory, end) | {"responseId": response_id}
            )
        events: list[JsonObject] = []
        for here in range(start + 1, end + 1):
            event = self._body(ask, [self._pieces[here - 1]], start, here) | {
                "responseId": response_id
            }
            # Reported (pydantic-ai 2.66, live, October 2026): every event has a token from the
            # first checkpoint on, except the last one of the answer.
            is_covered = self.first_checkpoint is not None and (
                here - start > self.first_checkpoint
            )
            if here == end:
                event = self._signed_off(event, ask, memory, here)
            elif is_covered:
                event["candidates"][0]["continuationToken"] = self._token(ask, memory, here)
            events.append(event)
        return event_stream(list(events))

    def _signed_off(self, body: JsonObject, ask: Ask, memory: Memory, end: int) -> JsonObject:
        """The last body of a request: with a finish reason, and a token if there is more."""
        candidate = body["candidates"][0]
        if end < len(self._pieces):
            token = self._token(ask, memory, end)
            candidate |= {"finishReason": "CONTINUATION", "continuationToken": token}
        else:
            candidate["finishReason"] = self.finish_reason
        return body

    def _token(self, ask: Ask, memory: Memory, position: int) -> str:
        token = base64.b64encode(b"goes on at %d" % position).decode()
        memory.learn_token(token, ask, self, position)
        return token

    def _body(self, ask: Ask, parts: list[JsonObject], start: int, here: int) -> JsonObject:
        # Reported (@ai-sdk/google 4.0.117): each request counts for itself, and its prompt has all
        # output of the requests before it.
        usage = usage_counts(Answer(), ask, 0, self._pieces[start:here])
        again = count_tokens("".join(piece.get("text", "") for piece in self._pieces[:start]))
        usage["promptTokenCount"] = prompt_tokens(ask) + again
        usage["totalTokenCount"] += again
        return response_body(Answer(), ask, parts, usage, "", is_last=False)


def _grown_together(pieces: list[JsonObject]) -> list[JsonObject]:
    """The parts of a whole response: texts in a row are one text."""
    parts: list[JsonObject] = []
    for piece in pieces:
        if parts and {*piece} == {*parts[-1]} == {"text"}:
            parts[-1] = {"text": parts[-1]["text"] + piece["text"]}
        else:
            parts.append(piece)
    return parts
