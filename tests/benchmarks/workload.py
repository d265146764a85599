"""The work that all subjects do: questions, replies, and the requests that must be sent.

It is plain data, which each subject converts to its own types. `request_body` is what Gemini must
receive, written without any library; ours and the limit must send it byte for byte.
"""

from __future__ import annotations

import base64
import json
from typing import Any

Json = dict[str, Any]

API_KEY = "benchmark-key"
QUESTION = "What is the weather like in Oslo, and what should I pack for three days?"
ANSWER = "It is four degrees and raining in Oslo. Pack a coat that keeps the water out. " * 4
LOOP_TURNS = 200
STREAM_CHUNKS = 1_000
STREAM_CALLS = 50
TEXT_MODEL = "gemini-3-bench-text"
LOOP_MODEL = "gemini-3-bench-loop"
STREAM_MODEL = "gemini-3-bench-stream"
CALLS_MODEL = "gemini-3-bench-stream-calls"

_USAGE = {
    "promptTokenCount": 120,
    "candidatesTokenCount": 40,
    "totalTokenCount": 160,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 120}],
}
_PIECE = "four degrees and raining, "


def signature(number: int) -> str:
    """A thought signature; real ones are a few hundred characters."""
    return base64.b64encode(f"signature of call {number} ".encode() * 8).decode("ascii")


def call_args(number: int) -> Json:
    """The arguments of one call."""
    return {"city": f"City {number}", "days": number % 9 + 1, "units": "metric", "tags": ["now"]}


def call_name(number: int) -> str:
    """The calls use two tools alternately."""
    return f"lookup_{number % 2}"


def call_id(number: int) -> str:
    """An id in the form of the API."""
    return f"call_{number:06d}"


def result_text(number: int) -> str:
    """The result of a call: JSON from one tool, text from the other."""
    if number % 2:
        return (
            f"City {number}: four degrees, rain until noon, then clouds. Wind from the west. " * 3
        )
    days = [{"day": day, "low": day - 3, "high": day + 4, "sky": "rain"} for day in range(3)]
    return json.dumps({"city": f"City {number}", "days": days})


def result_value(number: int) -> Any:
    """The same result as the value in a functionResponse."""
    return result_text(number) if number % 2 else json.loads(result_text(number))


def tool_name(number: int) -> str:
    """The name of a tool."""
    return f"lookup_{number}"


def tool_description(number: int) -> str:
    """The description of a tool."""
    return f"Look up the weather of a city in source {number}, day by day."


PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "city": {"description": "The city, with its country if in doubt.", "type": "string"},
        "days": {"default": 3, "description": "How many days.", "type": "integer"},
        "units": {
            "default": "metric",
            "description": "Which units.",
            "type": "string",
            "enum": ["metric", "imperial"],
        },
        "tags": {
            "anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}],
            "default": None,
            "description": "Only results with these tags.",
        },
    },
    "required": ["city"],
}
"""The schema of every tool, as it must be sent."""


def declaration(number: int) -> Json:
    """The function declaration of a tool."""
    return {
        "name": tool_name(number),
        "description": tool_description(number),
        "parametersJsonSchema": PARAMETERS,
    }


def model_content(number: int) -> Json:
    """The model's turn: one signed call."""
    call = {"id": call_id(number), "name": call_name(number), "args": call_args(number)}
    return {
        "role": "model",
        "parts": [{"functionCall": call, "thoughtSignature": signature(number)}],
    }


def result_content(number: int) -> Json:
    """The user's turn after it: the result."""
    answer = {
        "id": call_id(number),
        "name": call_name(number),
        "response": {"output": result_value(number)},
    }
    return {"role": "user", "parts": [{"functionResponse": answer}]}


def request_body(turns: int = 0, tools: int = 0) -> Json:
    """The request that must be sent after a number of tool turns, with a number of tools."""
    contents: list[Json] = [{"role": "user", "parts": [{"text": QUESTION}]}]
    for number in range(turns):
        contents += [model_content(number), result_content(number)]
    declared = [{"functionDeclarations": [declaration(number) for number in range(tools)]}]
    return {"contents": contents, **({"tools": declared} if tools else {})}


def replies() -> dict[str, list[bytes]]:
    """The server's replies by model name: one after the other, or the events of a stream."""
    text = [_reply([{"text": ANSWER}])]
    loop = [_reply(model_content(number)["parts"]) for number in range(LOOP_TURNS)]
    streamed = [_reply([{"text": f"{_PIECE}{number} "}], None) for number in range(STREAM_CHUNKS)]
    calls = [_reply(model_content(number)["parts"], None) for number in range(STREAM_CALLS)]
    end = _reply([{"text": ""}])
    return {
        TEXT_MODEL: text,
        LOOP_MODEL: loop,
        STREAM_MODEL: [*streamed[:-1], end],
        CALLS_MODEL: [*calls, end],
    }


def _reply(parts: list[Json], finish_reason: str | None = "STOP") -> bytes:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish_reason:
        candidate["finishReason"] = finish_reason
    reply = {
        "candidates": [candidate],
        "usageMetadata": _USAGE,
        "modelVersion": "gemini-3-bench",
        "responseId": "reply-of-the-benchmark",
    }
    return json.dumps(reply).encode()
