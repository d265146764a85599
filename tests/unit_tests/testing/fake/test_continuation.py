from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.memory import Memory
from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    HELLO,
    WEATHER,
    ask,
    refusal_of,
    refused,
)

ARGON = "gemini-4-argon"
TOKEN = "dG9rZW4="
PARTIAL = {"role": "model", "parts": [{"text": "Half a"}]}
GO_ON = {"role": "user", "parts": [{"text": "Go on."}]}


def remembering(**fields: Any) -> Memory:
    memory = Memory()
    memory.learn_token(TOKEN, ask(model=ARGON, **fields))
    return memory


@pytest.mark.parametrize(
    ("contents", "fields", "why"),
    [
        pytest.param([], {"continuationToken": "b3RoZXI="}, "never issued", id="unknown"),
        pytest.param([], {"model": "gemini-5-pro"}, "one of gemini-4-argon", id="other-model"),
        pytest.param([HELLO, PARTIAL, GO_ON], {}, "Contents were added", id="partial-text"),
        pytest.param([GO_ON], {}, "other contents", id="other-contents"),
        pytest.param([], {"tools": [WEATHER]}, "other tools", id="other-tools"),
        pytest.param(
            [], {"generationConfig": {"seed": 1}}, "other generationConfig", id="other-config"
        ),
    ],
)
def test_a_token_is_for_the_same_request(
    contents: list[Any], fields: dict[str, Any], why: str
) -> None:
    request = ask(*contents, **{"model": ARGON, "continuationToken": TOKEN, **fields})
    refusal = refusal_of(request, remembering())
    assert refusal.body == refused(CATCH_ALL)
    assert why in refusal.why


def test_a_token_is_no_base64() -> None:
    with pytest.raises(Exception, match="Base64 decoding failed"):
        ask(continuationToken="not a token")


def test_more_output_may_be_asked_for_than_before() -> None:
    memory = remembering(generationConfig={"maxOutputTokens": 10})
    config = {"maxOutputTokens": 20}
    check(ask(model=ARGON, continuationToken=TOKEN, generationConfig=config), memory)
