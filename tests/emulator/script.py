"""Scripted replies: what a test wants to hear next, in whichever form the client asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.emulator.answer import Answer, render_body, render_events, with_ids_and_signatures
from tests.emulator.outgoing import Outgoing, event_stream, whole
from tests.emulator.refusal import JsonObject

if TYPE_CHECKING:
    from tests.emulator.ask import Ask
    from tests.emulator.memory import Memory

Fault = Callable[[Outgoing], Outgoing]
"""Something that goes wrong on the way out; see `faults.py`."""

Call = tuple[str, JsonObject] | JsonObject
"""A call to script: `("get_weather", {"city": "Oslo"})`, or the wire's own `functionCall`."""


@dataclass(frozen=True)
class Reply:
    """One scripted reply. See `Emulator.reply` for what the fields mean."""

    answer: Answer | None = None
    body: Any = None
    events: Sequence[Any] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    signed: bool | None = None
    fault: Fault | None = None

    def render(self, ask: Ask, memory: Memory) -> Outgoing:
        """The reply on its way out, its signatures, calls and tokens remembered."""
        for token in self._tokens():
            memory.learn_token(token, ask)
        outgoing = self._render(ask, memory).with_headers(**self.headers)
        return self.fault(outgoing) if self.fault else outgoing

    def _tokens(self) -> list[str]:
        """The continuation tokens that a test has scripted."""
        bodies = [each for each in [self.body, *(self.events or [])] if isinstance(each, dict)]
        candidates = [each for body in bodies for each in body.get("candidates") or []]
        candidates += [self.answer.candidate] if self.answer else []
        tokens = [each.get("continuationToken") for each in candidates if isinstance(each, dict)]
        return [token for token in tokens if isinstance(token, str)]

    def _render(self, ask: Ask, memory: Memory) -> Outgoing:
        if self.events is not None:
            bodies = [event for event in self.events if isinstance(event, dict)]
            memory.learn(_parts_of(bodies), ask)
            if ask.is_stream:
                return event_stream(list(self.events))
            return whole(self.status, merge_events(bodies))
        if self.body is not None:
            if self.status != 200 or not isinstance(self.body, dict):
                return whole(self.status, self.body)
            memory.learn(_parts_of([self.body]), ask)
            if ask.is_stream:
                return event_stream(split_body(self.body))
            return whole(self.status, self.body)
        answer = self.answer or Answer()
        answer = with_ids_and_signatures(answer, ask, memory, signed=self.signed)
        if ask.is_stream:
            return event_stream(list(render_events(answer, ask, memory)))
        return whole(self.status, render_body(answer, ask, memory))


def render_call(call: Call) -> JsonObject:
    """The part of one scripted call."""
    if isinstance(call, tuple):
        name, args = call
        return {"functionCall": {"name": name, "args": args}}
    return {"functionCall": dict(call)}


def split_body(body: JsonObject) -> list[JsonObject]:
    """A whole body as stream events: one part each, the rest of the candidate at the end."""
    candidates = body.get("candidates") or []
    parts = (candidates[0].get("content") or {}).get("parts") if candidates else None
    if not parts or len(candidates) > 1:
        return [body]
    content = candidates[0]["content"]
    events = [body | {"candidates": [{"content": content | {"parts": [part]}}]} for part in parts]
    last = {key: value for key, value in candidates[0].items() if key != "content"}
    events.append(body | {"candidates": [{"content": content | {"parts": [{"text": ""}]}} | last]})
    return events


def merge_events(events: Sequence[JsonObject]) -> JsonObject:
    """Stream events as the one body that they add up to."""
    body: JsonObject = {}
    candidate: JsonObject = {}
    parts: list[JsonObject] = []
    for event in events:
        body |= {key: value for key, value in event.items() if key != "candidates"}
        for piece in event.get("candidates", [])[:1]:
            candidate |= {key: value for key, value in piece.items() if key != "content"}
            for part in (piece.get("content") or {}).get("parts", []):
                _append(parts, part)
    if candidate or parts:
        content = {"parts": parts, "role": "model"} if parts else {}
        body = {"candidates": [{"content": content} | candidate]} | body
    return body


def _append(parts: list[JsonObject], part: JsonObject) -> None:
    """Add a part; texts of one kind grow together until one is signed."""
    last = parts[-1] if parts else {}
    mergeable = "text" in part and "text" in last and "thoughtSignature" not in last
    if mergeable and part.get("thought") == last.get("thought"):
        parts[-1] = last | part | {"text": last["text"] + part["text"]}
    elif part != {"text": ""}:
        parts.append(part)


def _parts_of(bodies: Sequence[JsonObject]) -> list[JsonObject]:
    return [
        part
        for body in bodies
        for candidate in body.get("candidates") or []
        for part in (candidate.get("content") or {}).get("parts") or []
        if isinstance(part, dict)
    ]
