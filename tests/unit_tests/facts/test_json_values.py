"""A fast and a thorough writer of JSON, a fast and a thorough parser: they have to agree."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_gemini_tools.facts.json_values import dump_json, encode_json
from tests.unit_tests.wire.asking import calling, contents, result, tool_call

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
def test_what_is_written_fast_says_the_same(value: Any) -> None:
    fast = json.loads(encode_json(value))
    thorough = json.loads(
        dump_json(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    assert kept(fast) == kept(thorough)


def exactly(value: Any) -> Any:
    """A result as it has to be sent: what a double cannot hold is text."""
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
def test_results_keep_every_digit_whichever_parser_reads_them(
    value: Any, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    messages = [HumanMessage("Look!"), calling(tool_call("a")), result("a", text)]
    answer = contents(messages)[-1]["parts"][0]["functionResponse"]["response"]
    assert kept(answer) == kept({"output": exactly(json.loads(text))})


def test_what_is_no_plain_json_is_written_beside_what_is() -> None:
    day = dt.date(2026, 1, 2)
    assert json.loads(encode_json({"a": [1, None, "x"], "day": day})) == {
        "a": [1, None, "x"],
        "day": "2026-01-02",
    }
