from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.other_forms import find_other_form
from tests.unit_tests.wire.requests import SKIP, Json

CORRUPTED = "Corrupted thought signature."
BARE = "Request contains an invalid argument."
STATES = "The specified schema produces a constraint that has too many states for serving. ..."
ASKED: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def changed(body: Json, message: str) -> Json | None:
    found = find_other_form(body, message)
    return found[0] if found else None


def test_signatures_are_skipped_where_the_api_does_not_need_them() -> None:
    signed = {"thoughtSignature": "QUJD"}
    search = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH"}, **signed}
    called: Json = {"functionCall": {"name": "f", "args": {}}}
    contents = [
        ASKED,
        {"role": "model", "parts": [{"text": "", **signed}]},
        {"role": "model", "parts": [search, {"text": "So", **signed}, called | signed, called]},
    ]
    skipped = [search, {"text": "So"}, called | {"thoughtSignature": SKIP}, called]
    expected = {"contents": [ASKED, {"role": "model", "parts": skipped}]}
    assert changed({"contents": contents}, CORRUPTED) == expected
    assert changed(expected, CORRUPTED) is None


@pytest.mark.parametrize("message", [BARE, STATES])
@pytest.mark.parametrize("key", ["parametersJsonSchema", "parameters"])
def test_limits_of_arrays_become_words(message: str, key: str) -> None:
    point = {"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1, "maxItems": 1}
    tags = {"type": "array", "items": {"type": "string"}}
    rows = {"type": "array", "items": {"type": "object", "properties": {"tags": tags}}}
    limited = {
        **rows,
        "items": {"type": "object", "properties": {"tags": {**tags, "maxItems": 400}}},
        "description": "Rows.",
        "minItems": 1,
        "maxItems": 50,
    }
    described = {
        **rows,
        "items": {
            "type": "object",
            "properties": {"tags": {**tags, "description": "At most 400 items."}},
        },
        "description": "Rows. At least 1 items, at most 50 items.",
    }

    def body(schema: Any) -> Json:
        declaration = {"name": "f", key: {"type": "object", "properties": schema}}
        return {
            "contents": [ASKED],
            "tools": [{"functionDeclarations": [declaration]}, {"googleSearch": {}}],
            "generationConfig": {"responseJsonSchema": schema["rows"]},
        }

    expected = body({"rows": described, "point": point})
    assert changed(body({"rows": limited, "point": point}), message) == expected
    assert changed(expected, message) is None


@pytest.mark.parametrize(
    "message", ["", "API key not valid.", f"{BARE} More.", "Function call is missing a signature."]
)
def test_other_rejections_change_nothing(message: str) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": 2}
    body = {"contents": [ASKED], "generationConfig": {"responseJsonSchema": schema}}
    assert find_other_form(body, message) is None
