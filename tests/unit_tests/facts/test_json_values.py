"""The fast and the thorough encoder agree, so do the decoders; limits, surrogates and spellings."""

from __future__ import annotations

import copy
import datetime as dt
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.facts.json_values import (
    MAX_DEPTH,
    StoredIntsText,
    camel,
    decode_json,
    decode_result,
    dump_json,
    encode_json,
    normalize_json,
    snake,
)
from tests.unit_tests.wire.requests import calling, contents, result, tool_call

ANY_TEXT = st.text(st.characters(exclude_categories=()))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.dates()
    | st.just(2**53)
    | st.just(-(2**64))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(ANY_TEXT | st.integers(), inner)
    ),
)
NUMBERS = st.integers() | st.floats() | st.integers(2**52, 2**54) | st.integers(-(2**65), 2**65)
RESULTS = st.lists(NUMBERS | ANY_TEXT) | st.dictionaries(ANY_TEXT, NUMBERS | st.lists(NUMBERS))


def kept(value: Any) -> str:
    """The same text only for the same values of the same types."""
    return json.dumps(value, sort_keys=True)


@given(VALUES)
def test_the_fast_encoder_writes_the_same_values(value: Any) -> None:
    fast = json.loads(encode_json(value))
    thorough = json.loads(
        dump_json(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    assert kept(fast) == kept(thorough)


def exactly(value: Any) -> Any:
    """A result as it has to be sent: numbers that a double cannot represent are text."""
    match value:
        case dict():
            return {exactly(key): exactly(item) for key, item in value.items()}
        case list():
            return [exactly(item) for item in value]
        case float() if value != value:  # noqa: PLR0124 - NaN
            return "NaN"
        case float() if value in {float("inf"), float("-inf")}:
            return "Infinity" if value > 0 else "-Infinity"
        case int() if abs(value) > 2**53:
            return str(value)
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


@given(RESULTS, st.booleans(), st.sampled_from([None, 1]))
def test_results_keep_every_digit_with_either_decoder(
    value: Any, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    messages = [HumanMessage("Look!"), calling(tool_call("a")), result("a", text)]
    answer = contents(messages)[-1]["parts"][0]["functionResponse"]["response"]
    assert kept(answer) == kept({"output": exactly(json.loads(text))})


def test_values_that_are_not_plain_json_are_encoded_beside_those_that_are() -> None:
    day = dt.date(2026, 1, 2)
    assert json.loads(encode_json({"a": [1, None, "x"], "day": day})) == {
        "a": [1, None, "x"],
        "day": "2026-01-02",
    }


# Limits and surrogates

_CHARACTERS = st.text(st.sampled_from("a{[é하\ud7ff\ue000😀\ud800\udbff\udc00\udfff"), max_size=4)
_RESPONSES = st.recursive(
    _CHARACTERS | st.sampled_from([None, True, 0xED, 0xA0ED, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_CHARACTERS, inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int, *, by: str) -> Any:
    value: Any = {} if by == "objects" else []
    for _ in range(levels - 1):
        value = {"a": value} if by == "objects" else [value]
    return value


@given(st.dictionaries(st.just("candidates"), _RESPONSES))
def test_a_normalized_response_can_be_encoded_and_a_valid_one_stays(
    response: dict[str, Any],
) -> None:
    before = copy.deepcopy(response)
    normalize_json(response)
    json.dumps(response, ensure_ascii=False).encode("utf-8")
    try:
        json.dumps(before, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert response == before


def test_surrogate_pairs_are_joined_and_lone_surrogates_replaced() -> None:
    response = {"whole": "하", "pair": ["\ud83d\ude00"], "lone \ud83d": {"text": "a\ude00"}}
    normalize_json(response)
    assert response == {"whole": "하", "pair": ["😀"], "lone \ufffd": {"text": "a\ufffd"}}


@pytest.mark.parametrize("by", ["objects", "lists"])
def test_a_response_may_be_nested_up_to_the_limit(by: str) -> None:
    response = {"a": nested(MAX_DEPTH, by=by)}
    normalize_json(response)
    assert response == {"a": nested(MAX_DEPTH, by=by)}


@pytest.mark.parametrize("by", ["objects", "lists"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 5_000])
def test_a_response_that_is_nested_more_deeply_is_rejected(levels: int, by: str) -> None:
    with pytest.raises(UnreadableResponseError, match=f"more than {MAX_DEPTH} levels deep"):
        normalize_json({"a": nested(levels, by=by)})


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        (str(2**64 - 1), 2**64 - 1),
        (str(2**64), str(2**64)),
        (str(-(2**63)), -(2**63)),
        (str(-(2**63) - 1), str(-(2**63) - 1)),
        ("9" * 5000, "9" * 5000),  # more digits than Python reads
    ],
    ids=["largest", "too large", "smallest", "too small", "5000 digits"],
)
def test_integers_that_no_message_store_can_hold_are_decoded_as_text(
    digits: str, value: Any
) -> None:
    assert decode_json(f'{{"a": [{digits}]}}'.encode()) == {"a": [value]}


def in_pieces(text: str, size: int) -> str:
    """The text after it has passed in pieces."""
    passing = StoredIntsText()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join([*map(passing.feed, pieces), passing.finish()])


@given(
    st.dictionaries(
        ANY_TEXT | st.just('"\\'), NUMBERS | ANY_TEXT | st.lists(NUMBERS | st.just("9" * 30))
    ),
    st.integers(1, 9),
    st.booleans(),
)
def test_text_in_pieces_gives_the_values_of_the_decoder(
    value: dict[str, Any], size: int, is_ascii: bool
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    found = json.loads(in_pieces(text, size))
    normalize_json(found)
    assert kept(found) == kept(decode_json(text.encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize(
    "text", ['{"a": 007}', '{"a": 1', '{"a": -}', '{"a": 1.5e}', '{"a": "\\', f"[{'9' * 9000}]"]
)
@pytest.mark.parametrize("size", [1, 1000])
def test_text_in_pieces_that_is_not_json_stays_that(text: str, size: int) -> None:
    with pytest.raises(ValueError, match=r"Expecting|Exceeds|Unterminated|Extra"):
        json.loads(in_pieces(text, size))


def test_decoding_replaces_surrogates_keeps_digits_and_checks_the_depth() -> None:
    assert decode_json(b'{"a": "\\ud83d", "b": 12345678901234567890}') == {
        "a": "\ufffd",
        "b": 12345678901234567890,
    }
    with pytest.raises(UnreadableResponseError, match=f"more than {MAX_DEPTH} levels deep"):
        decode_json(b"[" * 102 + b"]" * 102)
    with pytest.raises(ValueError, match="Expecting value"):
        decode_json(b"<html>")


@pytest.mark.parametrize(
    ("python", "wire"),
    [
        ("google_search", "googleSearch"),
        ("url_context", "urlContext"),
        ("top_k", "topK"),
        ("mcp_servers", "mcpServers"),
        ("parallel_ai_search", "parallelAiSearch"),
        ("plain", "plain"),
        ("place_2_go", "place2Go"),
    ],
)
def test_a_name_has_one_spelling_in_each_language(python: str, wire: str) -> None:
    assert camel(python) == wire
    assert camel(wire) == wire
    assert snake(python) == python


@pytest.mark.parametrize(
    ("given", "camel_case", "snake_case"),
    [
        ("some_URL", "someURL", "some_url"),
        ("retrievedURL", "retrievedURL", "retrieved_url"),
        ("HTTPStatusCode", "HTTPStatusCode", "http_status_code"),
        ("placeId", "placeId", "place_id"),
        ("_private", "_private", "_private"),
        ("", "", ""),
    ],
)
def test_runs_of_capitals_are_one_word(given: str, camel_case: str, snake_case: str) -> None:
    assert (camel(given), snake(given)) == (camel_case, snake_case)


def test_a_large_result_is_decoded_without_copies_of_it() -> None:
    text = '{"a": "' + "x" * 5_000_000 + '"}'
    tracemalloc.start()
    try:
        assert decode_result(text) == {"a": text[7:-2]}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * len(text)  # the value, and the slice that it is compared with
