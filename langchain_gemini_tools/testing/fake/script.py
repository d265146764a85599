"""What a test scripts: the next replies.

Replies have the form that the client requests. A `LongAnswer` needs several requests, as Gemini 4
sends it. Each response ends with CONTINUATION and a token, the last one with STOP. A token says
where the answer continues, so a stream that was cut can be resumed from any of its tokens.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake import faults
from langchain_gemini_tools.testing.fake.answer import (
    Answer,
    code_parts,
    count_tokens,
    part_pieces,
    prompt_tokens,
    render_responses,
    response_body,
    search_parts,
    usage_counts,
    with_ids_and_signatures,
)
from langchain_gemini_tools.testing.fake.responses import JsonObject, Outgoing, event_stream, whole

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.answer import Memory
    from langchain_gemini_tools.testing.fake.ask import Ask

Fault = Callable[[Outgoing], Outgoing]
"""Something that goes wrong with a response; see `faults.py`."""

Call = tuple[str, JsonObject] | JsonObject
"""A call to script: `("get_weather", {"city": "Oslo"})`, or the API's own `functionCall`."""


@dataclass(frozen=True)
class Reply:
    """What the model answers to one request, whole or streamed.

    Args:
        text: What the model says.
        calls: The functions it calls, after the text: `("get_weather", {"city": "Oslo"})`.
        thoughts: What it thinks first. The response shows it as a thought and counts its tokens.
        structured: The value of a structured output: JSON text when the request asks for JSON, and
            the arguments of the call when it forces one function.
        media: Images or audio that it makes: `("image/png", data)`.
        code: Code that it runs on the server, and the output: `("print(6 * 7)", "42")`.
        searches: Queries that it sends to Google Search on the server.
        parts: All parts as the API spells them, instead of the arguments above.
        finish_reason: As the API spells it; None leaves it out.
        finish_message: The explanation beside the finish reason.
        usage: Counts that replace the counted ones; None removes a count.
        candidate: More fields of the candidate, such as `safetyRatings`.
        chunks: How a stream cuts the text: a number of pieces, or the pieces themselves.
        body: The whole response: a dict is JSON, text and bytes are sent as they are.
        events: The events of a stream: dicts are sent as JSON after `data: `, text and bytes as
            they are.
        status: The HTTP status, with `body`.
        headers: More response headers, `retry_after="3"` for `retry-after`.
        signed: Whether parts have thought signatures: by default from Gemini 3 on. The real Gemini
            2.5 signs its calls as well; True does the same here.
        fault: What goes wrong with the response: a function of `faults`.
        answer: An answer of the simple rules, instead of the arguments that describe one.
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
    headers: Mapping[str, str] | None = None
    signed: bool | None = None
    fault: Fault | None = None
    answer: Answer | None = None

    def __post_init__(self) -> None:
        """Reject what could not be sent, where it is scripted."""
        self._check_shapes()
        for name in ("calls", "media", "parts"):  # iterators are read once
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for call in self.calls:
            _check_call(call)
        for medium in self.media:
            if not (_is_pair(medium, str) and isinstance(medium[1], bytes)):
                raise TypeError(
                    f"media must be pairs like ('image/png', b'...'), not {medium!r:.80}."
                )
        if not all(isinstance(part, dict) for part in self.parts or ()):
            raise TypeError(f"parts must be a list of dicts, not {self.parts!r:.100}.")
        for name in ("text", "calls", "structured", "parts", "usage", "candidate"):
            _check_json(name, getattr(self, name))
        _check_chunks(self.chunks, self.text)
        for whole_form in ("parts", "body", "events"):
            for name in _MADE_OF if getattr(self, whole_form) is not None else ():
                if getattr(self, name):
                    raise ValueError(f"{whole_form} replaces {name}: give one of them.")
        if self.status != 200 and self.body is None:
            raise ValueError(f"status needs a body; to fail requests, use fail({self.status}).")

    def _check_shapes(self) -> None:
        for name in ("calls", "media", "parts", "searches", "events"):
            if isinstance(value := getattr(self, name), str | bytes | dict):
                raise TypeError(f"{name} must be a list, not {value!r:.100}.")
        for name, kind in (("text", str), ("usage", dict), ("candidate", dict)):
            if not isinstance(value := getattr(self, name), kind | None):
                raise TypeError(f"{name} must be a {kind.__name__}, not {value!r:.100}.")
        if self.code is not None and not _is_pair(self.code, str):
            raise TypeError(f"code must be a pair: ('print(42)', '42'), not {self.code!r:.100}.")
        if self.fault is not None and not callable(self.fault):
            raise TypeError(f"fault must be a function of `faults`, not {self.fault!r:.100}.")
        if (name := getattr(self.fault, "__name__", "")) and vars(faults).get(name) is self.fault:
            raise TypeError(f"fault must be what faults.{name} returns: fault=faults.{name}(...).")
        if misspelled := next((name for name in self.usage or () if "_" in name), ""):
            raise ValueError(
                f"usage has no {misspelled!r}. Its counts are promptTokenCount, "
                "candidatesTokenCount, thoughtsTokenCount, cachedContentTokenCount, ..."
            )

    def render(self, ask: Ask, memory: Memory) -> Outgoing:
        """Render the reply as a response; remember its signatures, calls and tokens."""
        for token in self._tokens():
            memory.learn_token(token, ask)
        return self.finish(self._render(ask, memory))

    def finish(self, outgoing: Outgoing) -> Outgoing:
        """Add the scripted headers and the fault to a response."""
        outgoing = outgoing.with_headers(**self.headers or {})
        changed = self.fault(outgoing) if self.fault else outgoing
        if not isinstance(changed, Outgoing):
            raise TypeError(f"fault returned {changed!r:.100} instead of a response.")
        return changed

    def _tokens(self) -> list[str]:
        """Return the continuation tokens that a test has scripted."""
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
        responses = render_responses(answer, ask, memory)
        return event_stream(responses) if ask.is_stream else whole(self.status, responses[0])

    def answer_to(self, ask: Ask) -> Answer:
        """Return the answer of the model, before it is rendered."""
        if self.answer is not None:
            return self.answer
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
            yield from search_parts(self.searches)
        if self.code is not None:
            yield from code_parts(*self.code)
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


_MADE_OF = ("text", "calls", "thoughts", "structured", "media", "code", "searches")
"""What the parts of a reply are made of."""


_CALL = ("name", "args", "id", "partialArgs", "willContinue")


def _is_pair(value: Any, first: type) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], first)


def _check_call(call: Any) -> None:
    is_pair = _is_pair(call, str) and isinstance(call[1], dict)
    if not is_pair and not (isinstance(call, dict) and "name" in call):
        raise TypeError(
            f"{call!r:.100} is not a call. Write it as ('get_weather', {{'city': 'Oslo'}}), and "
            "all calls as a list."
        )
    if not is_pair and (unknown := sorted(call.keys() - {*_CALL, "type"})):
        raise TypeError(f"{call!r:.100}: a call has no {unknown[0]!r}. It has {', '.join(_CALL)}.")


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(_plain(value), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be written as JSON: {error}.") from None


def _check_chunks(chunks: Any, text: str | None) -> None:
    if chunks is None or (isinstance(chunks, int) and chunks >= 0):
        return
    is_list = isinstance(chunks, Sequence) and not isinstance(chunks, str)
    if not is_list or not all(isinstance(piece, str) for piece in chunks):
        raise TypeError(f"chunks must be a number of pieces or a list of texts, not {chunks!r}.")
    if text is not None and "".join(chunks) != text:
        raise ValueError(f"The chunks {chunks!r:.100} do not add up to the text {text!r:.100}.")


def _plain(value: Any) -> Any:
    """Return the JSON value of a pydantic model."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _structured(given: Any, ask: Ask) -> JsonObject:
    """Return a structured output in the form that the request asks for."""
    value = _plain(given)
    allowed = ask.calling_config.get("allowedFunctionNames")
    names = allowed or [declaration["name"] for declaration in ask.declarations]
    if ask.calling_config.get("mode") == "ANY" and len(names) == 1 and not ask.is_json:
        return render_call((names[0], value))
    return {"text": json.dumps(value, ensure_ascii=False)}


def render_call(call: Call) -> JsonObject:
    """Return the part of one scripted call."""
    if isinstance(call, tuple | list):  # a list in a script that is JSON
        name, args = call
        return {"functionCall": {"name": name, "args": args}}
    # A tool call of LangChain has a type, too.
    return {"functionCall": {key: value for key, value in call.items() if key != "type"}}


def split_body(body: JsonObject) -> list[JsonObject]:
    """Return a whole body as stream events: one part each, the rest of the candidate at the end."""
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
    """Add a part; adjacent texts of one kind are joined until one is signed."""
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
        """Return what the request gets that asks for the answer from this position on."""
        if not self._pieces:
            answer = with_ids_and_signatures(Answer(self.parts), ask, memory, signed=None)
            memory.learn(answer.parts, ask)
            self._pieces = [piece for part in answer.parts for piece in part_pieces(part, ask, ())]
        end = min(position + self.hop_size, len(self._pieces))
        # Reported (pydantic-ai 2.66): each request has another responseId.
        response_id = memory.new_id()

        def body(parts: list[JsonObject], here: int) -> JsonObject:
            written = self._body(ask, parts, position, here, response_id)
            written["candidates"][0] |= self._ending(ask, memory, here - position, here, end)
            return written

        if ask.is_stream:
            numbered = enumerate(self._pieces[position:end], position + 1)
            outgoing = event_stream([body([piece], here) for here, piece in numbered])
        else:
            parts: list[JsonObject] = []
            for piece in self._pieces[position:end]:
                _append(parts, piece)
            outgoing = whole(200, body(parts, end))
        fault = self.faults[self._requests] if self._requests < len(self.faults) else None
        self._requests += 1
        return fault(outgoing) if fault else outgoing

    def _ending(self, ask: Ask, memory: Memory, event: int, here: int, end: int) -> JsonObject:
        """Return the end of an event: a finish reason in the last one, a token if more follows."""
        if here == len(self._pieces):
            return {"finishReason": self.finish_reason}
        # Reported (pydantic-ai 2.66, live, October 2026): every event has a token from the first
        # checkpoint on, except the last one of the answer.
        if here < end and (self.first_checkpoint is None or event <= self.first_checkpoint):
            return {}
        token = base64.b64encode(b"goes on at %d" % here).decode()
        memory.learn_token(token, ask, self, here)
        reason = {"finishReason": "CONTINUATION"} if here == end else {}
        return {**reason, "continuationToken": token}

    def _body(
        self, ask: Ask, parts: list[JsonObject], start: int, here: int, response_id: str
    ) -> JsonObject:
        # Reported (@ai-sdk/google 4.0.117): each request counts for itself, and its prompt has all
        # output of the requests before it.
        usage = usage_counts(Answer(), ask, 0, self._pieces[start:here])
        again = count_tokens("".join(piece.get("text", "") for piece in self._pieces[:start]))
        usage["promptTokenCount"] = prompt_tokens(ask) + again
        usage["totalTokenCount"] += again
        return response_body(Answer(), ask, parts, usage, response_id, is_last=False)
