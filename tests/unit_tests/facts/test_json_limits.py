"""What no message could hold is mended or refused, and nothing else is touched."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.facts.json_values import MAX_DEPTH, normalize_json

_CHARACTERS = st.text(st.sampled_from("a{[é하\ud7ff\ue000😀\ud800\udbff\udc00\udfff"), max_size=4)
_REPLIES = st.recursive(
    _CHARACTERS | st.sampled_from([None, True, 0xED, 0xA0ED, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_CHARACTERS, inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int, *, by: str) -> Any:
    value: Any = {} if by == "objects" else []
    for _ in range(levels - 1):
        value = {"a": value} if by == "objects" else [value]
    return value


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.just("candidates"), _REPLIES))
def test_a_mended_reply_can_be_written_and_a_whole_one_stays(reply: dict[str, Any]) -> None:
    before = copy.deepcopy(reply)
    normalize_json(reply)
    json.dumps(reply, ensure_ascii=False).encode("utf-8")
    try:
        json.dumps(before, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert reply == before


def test_halves_of_one_character_are_joined_and_a_lone_half_is_replaced() -> None:
    reply = {"whole": "하", "pair": ["\ud83d\ude00"], "lone \ud83d": {"text": "a\ude00"}}
    normalize_json(reply)
    assert reply == {"whole": "하", "pair": ["😀"], "lone \ufffd": {"text": "a\ufffd"}}


@pytest.mark.parametrize("by", ["objects", "lists"])
def test_a_reply_may_be_nested_as_deep_as_the_limit(by: str) -> None:
    reply = {"a": nested(MAX_DEPTH, by=by)}
    normalize_json(reply)
    assert reply == {"a": nested(MAX_DEPTH, by=by)}


@pytest.mark.parametrize("by", ["objects", "lists"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 5_000])
def test_a_reply_that_is_nested_deeper_is_refused(levels: int, by: str) -> None:
    with pytest.raises(UnreadableResponseError, match=f"more than {MAX_DEPTH} levels deep"):
        normalize_json({"a": nested(levels, by=by)})
