"""Helpers that render messages, and check the request against the rules of the emulator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake.ask import Ask
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.testing.fake.rules.payload import check_model, read_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

Json = dict[str, Any]

GEMINI_2 = "gemini-2.5-flash"
GEMINI_3 = "gemini-3-flash-preview"
SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
NOT_EXECUTED = {"error": "This call was not executed."}


def sent(messages: Sequence[BaseMessage] | str, model: str = GEMINI_3, **options: Any) -> Json:
    """The body, as JSON, after the rules of the API have looked at it."""
    rendered = ChatGemini(model=model).preview(list(messages), **options)
    raw = rendered.encoded
    read = read_payload(raw)
    check(
        Ask(read, check_model(model, "v1beta", "gemini", "generateContent")), accepts_foreign=True
    )
    return json.loads(raw)  # type: ignore[no-any-return]


def contents(messages: Sequence[BaseMessage], model: str = GEMINI_3, **options: Any) -> list[Json]:
    return sent(messages, model, **options)["contents"]  # type: ignore[no-any-return]


def repairs(messages: Sequence[BaseMessage], model: str = GEMINI_3) -> list[tuple[str, int]]:
    """What was repaired: kind and position; without what says the same as before."""
    found = ChatGemini(model=model).preview(list(messages)).repairs
    return [(repair.kind, repair.position) for repair in found if not repair.is_harmless]


# Messages


def calling(*calls: Json, content: Any = "", **fields: Any) -> AIMessage:
    return AIMessage(content, tool_calls=list(calls), **fields)


def tool_call(call_id: str | None, name: str = "search", /, **args: Any) -> Json:
    return {"type": "tool_call", "id": call_id, "name": name, "args": args}


def result(call_id: str, content: Any = "found", **fields: Any) -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id, **fields)


# Contents


def user(*parts: Json | str) -> Json:
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model(*parts: Json | str) -> Json:
    return {"role": "model", "parts": [_part(part) for part in parts]}


def _part(part: Json | str) -> Json:
    return {"text": part} if isinstance(part, str) else part


def call(call_id: str, name: str = "search", /, *, sign: str = "", **args: Any) -> Json:
    part = {"functionCall": {"id": call_id, "name": name, "args": args}}
    return {**part, "thoughtSignature": sign} if sign else part


def response(call_id: str, value: Any, name: str = "search") -> Json:
    wrapped = value if value is NOT_EXECUTED else {"output": value}
    return {"functionResponse": {"id": call_id, "name": name, "response": wrapped}}
