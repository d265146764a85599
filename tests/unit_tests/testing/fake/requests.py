"""Helpers that check a request against the rules of the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.responses import JsonObject, Refusal
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.testing.fake.rules.payload import check_model, read_message

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.answer import Memory
    from langchain_gemini_tools.testing.fake.ask import Backend

GEMINI_2 = "gemini-2.5-flash"
GEMINI_3 = "gemini-3.8-flash"
CATCH_ALL = "Request contains an invalid argument."

HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
GET_WEATHER = {
    "name": "get_weather",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
WEATHER = {"functionDeclarations": [GET_WEATHER]}


def ask(
    *contents: JsonObject, model: str = GEMINI_3, backend: Backend = "gemini", **fields: Any
) -> Ask:
    """A request, read: these contents (one hello when none is given) and these other fields."""
    version = "v1beta" if backend == "gemini" else "v1beta1"
    payload = {"contents": list(contents) or [HELLO], **fields}
    body = read_message(payload, backend=backend, version=version)
    return Ask(body, check_model(model, version, backend, "generateContent"), backend, version)


def refusal_of(
    request: Ask, memory: Memory | None = None, *, accepts_foreign: bool = False
) -> Refusal:
    """The refusal that a request gets."""
    with pytest.raises(Refusal) as refusal:
        check(request, memory, accepts_foreign=accepts_foreign)
    return refusal.value


def why_refused(request: Ask, memory: Memory | None = None) -> str | None:
    """The reason for which a request is refused; None if it is accepted."""
    try:
        check(request, memory)
    except Refusal as refusal:
        return refusal.why or refusal.message
    return None


def refused(message: str) -> JsonObject:
    """The whole body of a plain 400."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def user(*parts: JsonObject | str) -> JsonObject:
    """A content of the user's; a string is a text."""
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model(*parts: JsonObject | str) -> JsonObject:
    """A content of the model's; a string is a text."""
    return {"role": "model", "parts": [_part(part) for part in parts]}


def call(name: str = "f", *, signature: str | None = None, **fields: Any) -> JsonObject:
    """A call's part."""
    part = {"functionCall": {"name": name, "args": {}, **fields}}
    return part | {"thoughtSignature": signature} if signature else part


def response(name: str = "f", **fields: Any) -> JsonObject:
    """A response's part."""
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **fields}}


def _part(part: JsonObject | str) -> JsonObject:
    return {"text": part} if isinstance(part, str) else part
