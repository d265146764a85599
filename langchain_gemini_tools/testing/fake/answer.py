"""Answers: their two forms on the wire, and what the emulator remembers of them.

An answer is sent as one body, or as a stream of events that add up to it. The real API keeps
nothing: its signatures contain what it needs. A local server that remembers its answers can do the
same checks, and one more: that a call comes back with the signature that it was sent with.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask, Backend
    from langchain_gemini_tools.testing.fake.responses import JsonObject
    from langchain_gemini_tools.testing.fake.script import LongAnswer

_WITH_ID = ("functionCall", "toolCall", "toolResponse")
CREATE_TIME = "2026-01-31T12:00:00.000000Z"


@dataclass(frozen=True)
class Answer:
    """The answer of the model, before it is rendered as a body or as a stream."""

    parts: list[JsonObject] = field(default_factory=list)
    finish_reason: str | None = "STOP"
    finish_message: str | None = None
    thoughts_tokens: int = 0
    tool_use_tokens: int = 0
    usage: JsonObject | None = None
    """Counts that replace the counted ones; None removes a count."""
    candidate: JsonObject = field(default_factory=dict)
    """More fields of the candidate: groundingMetadata, safetyRatings, ..."""
    chunks: int | Sequence[str] = ()
    """How a stream cuts the text: a number of pieces, or the pieces; by default, three or more."""


def count_tokens(value: Any) -> int:
    """Estimate tokens: one for about four characters, none for an empty value."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return math.ceil(len(text) / 4)


def code_parts(code: str, output: str) -> list[JsonObject]:
    """Return code that runs on the server, and its output."""
    return [
        {"executableCode": {"language": "PYTHON", "code": code}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}},
    ]


def search_parts(queries: Sequence[str]) -> list[JsonObject]:
    """Return a search on the server, as requests that circulate server tools show it."""
    search = {"toolType": "GOOGLE_SEARCH_WEB"}
    return [
        {"toolCall": search | {"args": {"queries": [*queries]}}},
        {"toolResponse": search | {"response": {"search_suggestions": "<div></div>"}}},
    ]


def with_ids_and_signatures(
    answer: Answer, ask: Ask, memory: Memory, *, signed: bool | None
) -> Answer:
    """Return the answer as the model's family sends it.

    Recorded: Gemini 3 signs each step and, on the Developer API, gives its calls ids. 2.5 signs
    calls when it thinks, and accepts a history without the signature; 2.0 does not sign.
    `signed=None` signs where a client has to send the signature back: only on Gemini 3.
    """
    parts = list(answer.parts)
    if ask.model.is_3 and ask.backend == "gemini":
        parts = _with_ids(parts, memory)
    if signed is None:
        signed = ask.model.is_3
    if signed and ask.thinks:
        for place in _signed_places(parts, ask):
            parts[place] = parts[place] | {"thoughtSignature": memory.new_signature()}
    return replace(answer, parts=parts)


def render_responses(answer: Answer, ask: Ask, memory: Memory) -> list[JsonObject]:
    """Return the answer as one `GenerateContentResponse`, or as the events of a stream.

    Text is streamed in pieces, calls are whole, and every event has the usage so far. Recorded:
    Gemini 3 ends with an empty text, which has the finish reason and the signature of a text; 2.x
    puts the finish reason on its last piece, and all its calls into one event. Vertex counts in the
    last event only.
    """
    memory.learn(answer.parts, ask)
    cached = memory.cached_tokens(ask)
    response_id = memory.new_id()
    groups = [*_groups(answer, ask)] if ask.is_stream else [answer.parts]
    said: list[JsonObject] = []
    responses = []
    for number, parts in enumerate(groups, 1):
        said += parts
        is_last = number == len(groups)
        usage = usage_counts(answer, ask, cached, said)
        if ask.backend == "vertex" and not is_last:
            usage = {"trafficType": "ON_DEMAND"}
        responses.append(response_body(answer, ask, parts, usage, response_id, is_last=is_last))
    return responses


def _groups(answer: Answer, ask: Ask) -> Iterator[list[JsonObject]]:
    """Yield the parts of each event."""
    chunks = answer.chunks
    pieces = [piece for part in answer.parts for piece in part_pieces(part, ask, chunks)]
    if not pieces:
        yield []
    elif ask.model.is_3:
        last = pieces[-1]
        trailing: JsonObject = {"text": ""}
        if _is_spoken(last) and "thoughtSignature" in last:
            trailing["thoughtSignature"] = last.pop("thoughtSignature")
        yield from ([piece] for piece in [*pieces, trailing])
    else:
        yield from _calls_together(pieces)


def _calls_together(pieces: list[JsonObject]) -> list[list[JsonObject]]:
    groups: list[list[JsonObject]] = []
    for piece in pieces:
        if groups and "functionCall" in piece and "functionCall" in groups[-1][0]:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def part_pieces(part: JsonObject, ask: Ask, chunks: int | Sequence[str]) -> list[JsonObject]:
    """Return one part as stream events have it: text in pieces, and on Vertex arguments."""
    if _is_spoken(part):
        plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
        texts = [plain | {"text": piece} for piece in _pieces(part["text"], chunks)]
        return [*texts[:-1], part | {"text": texts[-1]["text"]}]
    if "inlineData" in part and part["inlineData"]["mimeType"].startswith("audio/L16"):
        return _audio_pieces(part["inlineData"])
    if "functionCall" in part and _streams_arguments(ask):
        return list(_partial_calls(part))
    return [part]


def _audio_pieces(blob: JsonObject) -> list[JsonObject]:
    """Return three parts of whole samples: a stream of a speech model has several."""
    samples = base64.b64decode(blob["data"])
    size = max(2, len(samples) // 3 // 2 * 2)
    return [
        {"inlineData": blob | {"data": base64.b64encode(samples[start : start + size]).decode()}}
        for start in range(0, len(samples), size)
    ]


def _is_spoken(part: JsonObject) -> bool:
    return "text" in part and not part.get("thought")


def _pieces(text: str, chunks: int | Sequence[str]) -> list[str]:
    """Return the requested pieces, or three and more, some of them cut inside a word."""
    if not isinstance(chunks, int) and "".join(chunks) == text and chunks:
        return list(chunks)
    if isinstance(chunks, int):
        size = max(1, math.ceil(len(text) / max(1, chunks)))
    else:
        size = max(1, min(24, math.ceil(len(text) / 3)))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _streams_arguments(ask: Ask) -> bool:
    return ask.backend == "vertex" and bool(ask.calling_config.get("streamFunctionCallArguments"))


def _partial_calls(part: JsonObject) -> Iterator[JsonObject]:
    """Yield one call in pieces, as Vertex streams its arguments."""
    call = part["functionCall"]
    head = {key: call[key] for key in ("id", "name") if key in call}
    signature = {key: part[key] for key in ("thoughtSignature",) if key in part}
    yield {"functionCall": head | {"willContinue": True}, **signature}
    for path, value in _leaves(call.get("args", {}), "$"):
        yield from (
            {"functionCall": {"partialArgs": [piece], "willContinue": True}}
            for piece in _partial_args(path, value)
        )
    yield {"functionCall": {}}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    elif path != "$":
        yield path, value


def _partial_args(path: str, value: Any) -> Iterator[JsonObject]:
    match value:
        case bool():
            yield {"jsonPath": path, "boolValue": value}
        case int() | float():
            yield {"jsonPath": path, "numberValue": value}
        case None:
            yield {"jsonPath": path, "nullValue": "NULL_VALUE"}
        case _:
            half = len(str(value)) // 2
            yield {"jsonPath": path, "stringValue": str(value)[:half], "willContinue": True}
            yield {"jsonPath": path, "stringValue": str(value)[half:]}


def response_body(
    answer: Answer,
    ask: Ask,
    parts: list[JsonObject],
    usage: JsonObject,
    response_id: str,
    *,
    is_last: bool,
) -> JsonObject:
    """Return the JSON of one response or event."""
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"} if parts else {}}
    if is_last and answer.finish_reason:
        candidate["finishReason"] = answer.finish_reason
        candidate |= {"finishMessage": answer.finish_message} if answer.finish_message else {}
    candidate |= {"index": 0} if ask.backend == "gemini" else {}
    candidate |= answer.candidate if is_last else {}
    response = {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": ask.model.name,
        "responseId": response_id,
    }
    return response | ({"createTime": CREATE_TIME} if ask.backend == "vertex" else {})


def usage_counts(answer: Answer, ask: Ask, cached: int, said: list[JsonObject]) -> JsonObject:
    """Return the token counts of what was said so far."""
    given = answer.usage or {}
    counts = {
        "promptTokenCount": prompt_tokens(ask),
        "cachedContentTokenCount": max(cached, ask.cached_tokens),
        "candidatesTokenCount": count_tokens("".join(_spoken(part) for part in said)),
        "thoughtsTokenCount": answer.thoughts_tokens,
        "toolUsePromptTokenCount": answer.tool_use_tokens,
    }
    counts |= {name: given[name] or 0 for name in counts if name in given}
    usage: JsonObject = {name: count for name, count in counts.items() if count}
    usage |= {
        "totalTokenCount": sum(counts.values()) - counts["cachedContentTokenCount"],
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": counts["promptTokenCount"]}],
    }
    usage |= _tier(ask)
    usage |= given
    return {name: count for name, count in usage.items() if count is not None}


def _tier(ask: Ask) -> JsonObject:
    """Return the tier that was used (recorded: "standard"; documented: the requested one)."""
    if ask.backend == "gemini":
        tier = str(ask.body.get("serviceTier", "standard")).lower()
        return {"serviceTier": "standard" if tier == "unspecified" else tier}
    # Reported: python-genai, issue 2847
    traffic = {"flex": "ON_DEMAND_FLEX", "priority": "ON_DEMAND_PRIORITY"}
    return {"trafficType": traffic.get(ask.tier, "ON_DEMAND")}


def prompt_tokens(ask: Ask) -> int:
    """Return the size of everything the model reads; media count as 258 each."""
    keys = ("systemInstruction", "contents", "tools")
    media = 0
    size = count_tokens({key: ask.body[key] for key in keys if key in ask.body})
    for content in ask.contents:
        for part in content.get("parts", []):
            if "inlineData" in part:
                size -= count_tokens(part["inlineData"].get("data", ""))
                media += 258
    return size + media


def _spoken(part: JsonObject) -> str:
    if part.get("thought"):
        return ""
    return part.get("text") or json.dumps(
        {key: value for key, value in part.items() if key not in ("text", "thoughtSignature")}
    ).removeprefix("{}")


def _with_ids(parts: list[JsonObject], memory: Memory) -> list[JsonObject]:
    """Return parts in which calls have ids, and responses of server tools those of their calls."""
    known: list[JsonObject] = []
    server_id = ""
    for part in parts:
        kind = next((kind for kind in part if kind in _WITH_ID), "")
        if not kind or "id" in part[kind]:
            known.append(part)
            continue
        server_id = server_id if kind == "toolResponse" else memory.new_id()
        known.append(part | {kind: {"id": server_id, **part[kind]}})
    return known


def _signed_places(parts: list[JsonObject], ask: Ask) -> list[int]:
    """Return the first call, or on Gemini 3 the last text and every part of a server tool."""
    unsigned = [n for n, part in enumerate(parts) if "thoughtSignature" not in part]
    places = [
        n for n in unsigned if parts[n].keys() & {"toolCall", "toolResponse", "executableCode"}
    ]
    calls = [n for n, part in enumerate(parts) if "functionCall" in part]
    texts = [n for n, part in enumerate(parts) if _is_spoken(part)]
    if not ask.model.is_3:
        return [n for n in calls[:1] if n in unsigned]
    step = calls[:1] or texts[-1:]
    return places + [n for n in step if n in unsigned]


# What was sent.

_SKIP_WORDS = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
SKIP_VALUES = (*_SKIP_WORDS, *map(base64.urlsafe_b64decode, _SKIP_WORDS))
"""https://ai.google.dev/gemini-api/docs/thought-signatures: for calls the model never made.

The documents write them into the JSON as they are, which base64 decodes; SDKs encode them first.
"""

_OWN_START = b"\xfb\xff\xbf"
_SHORTEST = 16

Foreign = bool | Callable[[bytes], bool]
"""Whether signatures that were not issued here are accepted, or which."""

_emulators = itertools.count()


@dataclass(frozen=True)
class IssuedSignature:
    """One signature, and what it was put on."""

    line: tuple[Backend, int]
    kind: str
    name: str


@dataclass(frozen=True)
class IssuedCall:
    """One call that the emulator sent, with its signature if it had one."""

    line: tuple[Backend, int]
    name: str
    args: JsonObject
    signature: bytes | None


@dataclass(frozen=True)
class IssuedToken:
    """One continuation token: the request it continues, and where a long answer continues."""

    model: str
    request: JsonObject
    answer: LongAnswer | None = None
    """None for a token that a test has scripted: the next scripted reply continues."""
    position: int = 0


@dataclass
class Memory:
    """Everything that one emulator has sent."""

    salt: int = field(default_factory=lambda: next(_emulators))
    signatures: dict[bytes, IssuedSignature] = field(default_factory=dict)
    calls: dict[str, IssuedCall] = field(default_factory=dict)
    calls_without_id: list[IssuedCall] = field(default_factory=list)
    interaction_calls: dict[str, tuple[str, JsonObject]] = field(default_factory=dict)
    """Name and arguments of the calls that left as steps of an interaction."""
    server_parts: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    tokens: dict[bytes, IssuedToken] = field(default_factory=dict)
    prompts: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _count: int = 0

    def new_id(self) -> str:
        """Return an id shaped like Gemini's: eight letters and digits."""
        return hashlib.sha256(self._next()).hexdigest()[:8]

    def new_signature(self) -> str:
        """Return a signature in Gemini's form: standard base64, with both of its special signs."""
        return base64.b64encode(_OWN_START + hashlib.sha384(self._next()).digest()).decode()

    def learn(self, parts: list[JsonObject], ask: Ask) -> None:
        """Remember the parts of a response."""
        for part in parts:
            kind = next((kind for kind in part if kind not in _ASIDES), "")
            if part.keys() == {SIGNATURE_ALONE}:
                kind = SIGNATURE_ALONE
            data = part.get(kind)
            name = data.get("name", "") if isinstance(data, dict) else ""
            signature = decode(part.get("thoughtSignature", "")) or None
            if signature and signature not in SKIP_VALUES:
                self.signatures[signature] = IssuedSignature(line_of(ask), kind, name)
            if kind == "functionCall":
                self._learn_call(part["functionCall"], signature, line_of(ask))
            if kind in ("toolCall", "toolResponse") and "id" in part[kind]:
                self.server_parts[kind, part[kind]["id"]] = part

    def learn_token(
        self, token: str, ask: Ask, answer: LongAnswer | None = None, position: int = 0
    ) -> None:
        """Remember a continuation token of a response."""
        issued = IssuedToken(ask.model.name, fingerprint(ask), answer, position)
        self.tokens[decode(token)] = issued

    def issued_calls(self, call: JsonObject, ask: Ask) -> list[IssuedCall]:
        """Return the sent calls that this can be: the one with its id, or those with equal content.

        Calls of another backend or model line do not count.
        """
        if known := self.calls.get(call.get("id", "")):
            candidates = [known] if known.name == call.get("name") else []
        else:
            said = call.get("name"), call.get("args", {})
            others = [] if call.get("id") else self.calls.values()
            unnamed = [*others, *self.calls_without_id]
            candidates = [known for known in unnamed if (known.name, known.args) == said]
        return [known for known in candidates if known.line == line_of(ask)]

    def cached_tokens(self, ask: Ask) -> int:
        """Return how much of this prompt an earlier one began with, and remember it.

        Gemini caches from 1,024 tokens on without being asked:
        https://ai.google.dev/gemini-api/docs/caching
        """
        prompt = json.dumps([ask.body.get("systemInstruction"), ask.body.get("tools")])
        prompt += json.dumps(ask.body.get("contents", []))[:-1]
        known = [len(earlier) for earlier in self.prompts if prompt.startswith(earlier)]
        self.prompts.append(prompt)
        cached = max(known, default=0) // 4
        return cached if cached >= 1024 else 0

    def _learn_call(
        self, call: JsonObject, signature: bytes | None, line: tuple[Backend, int]
    ) -> None:
        issued = IssuedCall(line, call.get("name", ""), call.get("args", {}), signature)
        if call.get("id"):
            self.calls[call["id"]] = issued
        else:
            self.calls_without_id.append(issued)

    def _next(self) -> bytes:
        self._count += 1
        return f"{self.salt}:{self._count}".encode()


SIGNATURE_ALONE = "thoughtSignature"
"""The kind of a part that has nothing but a signature."""
_ASIDES = {"thought", "thoughtSignature", "partMetadata", "videoMetadata"}


def line_of(ask: Ask) -> tuple[Backend, int]:
    """Return the backend and model line that a signature belongs to."""
    return ask.backend, ask.model.generation[0]


def fingerprint(ask: Ask) -> JsonObject:
    """Return what must be the same when a request continues with a token."""
    config = {key: value for key, value in ask.config.items() if key != "maxOutputTokens"}
    body = {key: value for key, value in ask.body.items() if key != "continuationToken"}
    return {**body, "generationConfig": config}


def may_be_foreign(signature: bytes) -> bool:
    """Return whether another server, such as the real API, may have issued this."""
    return len(signature) >= _SHORTEST and not signature.startswith(_OWN_START)


def decode(signature: str) -> bytes:
    """Return the bytes of a signature in either alphabet, with or without padding."""
    standard = signature.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(standard + "=" * (-len(standard) % 4))
