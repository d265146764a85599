"""What the emulator remembers of its own answers: signatures, calls, server tools, prompts.

The real API keeps nothing: its signatures contain what it needs. A local server that remembers its
answers can do the same checks, and one more: that a call comes back with the signature that it was
sent with.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask, Backend
    from langchain_gemini_tools.testing.fake.responses import JsonObject
    from langchain_gemini_tools.testing.fake.script import LongAnswer

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
        """An id shaped like Gemini's: eight letters and digits."""
        return hashlib.sha256(self._next()).hexdigest()[:8]

    def new_signature(self) -> str:
        """A signature shaped like Gemini's: standard base64, with both of its special signs."""
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
        """The sent calls that this can be: the one with its id, else those with equal content.

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
        """How much of this prompt an earlier one began with, and remember it.

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
    """The backend and model line that a signature belongs to."""
    return ask.backend, ask.model.generation[0]


def fingerprint(ask: Ask) -> JsonObject:
    """What must be the same when a request continues with a token."""
    config = {key: value for key, value in ask.config.items() if key != "maxOutputTokens"}
    body = {key: value for key, value in ask.body.items() if key != "continuationToken"}
    return {**body, "generationConfig": config}


def may_be_foreign(signature: bytes) -> bool:
    """Whether another server may have issued this, such as the real API: it is not a broken one."""
    return len(signature) >= _SHORTEST and not signature.startswith(_OWN_START)


def decode(signature: str) -> bytes:
    """The bytes of a signature in either alphabet, with or without padding."""
    standard = signature.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(standard + "=" * (-len(standard) % 4))
