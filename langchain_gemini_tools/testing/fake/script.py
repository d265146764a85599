"""Scripted replies: the next responses of a test, in the form that the client requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import (
    Answer,
    count_tokens,
    render_body,
    render_events,
    with_ids_and_signatures,
)
from langchain_gemini_tools.testing.fake.outgoing import Outgoing, event_stream, whole
from langchain_gemini_tools.testing.fake.refusal import JsonObject

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.memory import Memory

Fault = Callable[[Outgoing], Outgoing]
"""Something that goes wrong on the way out; see `faults.py`."""

Call = tuple[str, JsonObject] | JsonObject
"""A call to script: `("get_weather", {"city": "Oslo"})`, or the wire's own `functionCall`."""


@dataclass(frozen=True)
class Reply:
    """What the model answers to one request, whole or streamed alike.

    Args:
        text: What the model says.
        calls: The functions it calls, after the text: `("get_weather", {"city": "Oslo"})`.
        thoughts: What it thinks first. The response shows it as a thought and counts its tokens.
        structured: The value of a structured output: JSON text when the request asks for JSON, and
            the arguments of the call when it forces one function.
        media: Pictures or sounds that it makes: `("image/png", data)`.
        code: Code that it runs on the server, and the output: `("print(6 * 7)", "42")`.
        searches: Queries that it sends to Google Search on the server.
        parts: All parts as the wire spells them, instead of the arguments above.
        finish_reason: As the wire spells it; None leaves it out.
        finish_message: Stands beside the finish reason.
        usage: Counts that replace the counted ones; None for a count takes it away.
        candidate: More fields of the candidate, such as `safetyRatings`.
        chunks: How a stream cuts the text: a number of pieces, or the pieces themselves.
        body: The whole response: a dict is JSON, text and bytes go out as they are.
        events: The events of a stream: dicts are JSON after `data: `, text and bytes go raw.
        status: The HTTP status, with `body`.
        headers: More response headers, `retry_after="3"` for `retry-after`.
        signed: Gemini 3 signs, unless False; True makes 2.5 sign its calls as well, as it does in
            real life.
        fault: What goes wrong on the way; see `faults.py`.
        answer: An answer of the rule-based model, instead of all that makes one.
    """

    text: str | None = None
    _: KW_ONLY
    calls: Iterable[Call] = ()
    thoughts: str | None = None
    structured: Any = None
    media: Iterable[tuple[str, bytes]] = ()
    code: tuple[str, str] | None = None
    searches: Sequence[str] = ()
    parts: Iterable[JsonObject] | None = None
    finish_reason: str | None = "STOP"
    finish_message: str | None = None
    usage: JsonObject | None = None
    candidate: JsonObject | None = None
    chunks: int | Sequence[str] | None = None
    body: Any = None
    events: Sequence[Any] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    signed: bool | None = None
    fault: Fault | None = None
    answer: Answer | None = None

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
        candidates += [self.candidate] if self.candidate else []
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
        answer = self.answer_to(ask)
        answer = with_ids_and_signatures(answer, ask, memory, signed=self.signed)
        if ask.is_stream:
            return event_stream(list(render_events(answer, ask, memory)))
        return whole(self.status, render_body(answer, ask, memory))

    def answer_to(self, ask: Ask) -> Answer:
        """What the model says, before it takes a form."""
        return self.answer or self._answer(ask)

    def _answer(self, ask: Ask) -> Answer:
        parts = list(self.parts) if self.parts is not None else [*self._parts(ask)]
        candidate = self.candidate or {}
        if self.searches:
            grounding = {"webSearchQueries": [*self.searches]}
            candidate = {"groundingMetadata": grounding} | candidate
        return Answer(
            parts,
            self.finish_reason,
            self.finish_message,
            thoughts_tokens=count_tokens(self.thoughts or ""),
            usage=self.usage,
            candidate=candidate,
            chunks=self.chunks if self.chunks is not None else (),
        )

    def _parts(self, ask: Ask) -> Iterable[JsonObject]:
        if self.thoughts is not None:
            yield {"text": self.thoughts, "thought": True}
        if self.searches and ask.circulates_server_tools:
            search = {"toolType": "GOOGLE_SEARCH_WEB"}
            yield {"toolCall": search | {"args": {"queries": [*self.searches]}}}
            yield {"toolResponse": search | {"response": {"search_suggestions": "<div></div>"}}}
        if self.code is not None:
            code, output = self.code
            yield {"executableCode": {"language": "PYTHON", "code": code}}
            yield {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}}
        text = self.text
        if text is None and not isinstance(self.chunks, int | None):
            text = "".join(self.chunks)
        if text is not None:
            yield {"text": text}
        for mime_type, data in self.media:
            encoded = base64.b64encode(data).decode()
            yield {"inlineData": {"mimeType": mime_type, "data": encoded}}
        yield from map(render_call, self.calls)
        if self.structured is not None:
            yield _structured(self.structured, ask)


def _structured(value: Any, ask: Ask) -> JsonObject:
    """A structured output in the form that the request asks for."""
    allowed = ask.calling_config.get("allowedFunctionNames")
    names = allowed or [declaration["name"] for declaration in ask.declarations]
    if ask.calling_config.get("mode") == "ANY" and len(names) == 1 and not ask.is_json:
        return render_call((names[0], value))
    return {"text": json.dumps(value, ensure_ascii=False)}


def render_call(call: Call) -> JsonObject:
    """The part of one scripted call."""
    if isinstance(call, tuple | list):  # a list in a script that is JSON
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
