from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.wire.usage import parse_count
from tests.unit_tests.wire.replying import call, event, parse, reply, stream, text


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({}, None, id="empty"),
        pytest.param("many", None, id="no object"),
        pytest.param(
            {"promptTokenCount": 52, "candidatesTokenCount": 30, "totalTokenCount": 82},
            {"input_tokens": 52, "output_tokens": 30, "total_tokens": 82},
            id="the plain counts",
        ),
        pytest.param(
            {"promptTokenCount": 9},
            {"input_tokens": 9, "output_tokens": 0, "total_tokens": 9},
            id="the total is the sum where it is not told",
        ),
        pytest.param(
            {
                "promptTokenCount": 52,
                "candidatesTokenCount": 30,
                "thoughtsTokenCount": 190,
                "totalTokenCount": 272,
            },
            {
                "input_tokens": 52,
                "output_tokens": 220,
                "total_tokens": 272,
                "output_token_details": {"reasoning": 190},
            },
            id="thoughts are output",
        ),
        pytest.param(
            {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 100,
                "candidatesTokenCount": 1,
                "totalTokenCount": 111,
            },
            {
                "input_tokens": 110,
                "output_tokens": 1,
                "total_tokens": 111,
                "input_token_details": {"tool_use_prompt": 100},
            },
            id="what server tools added is input",
        ),
        pytest.param(
            {
                "promptTokenCount": 400,
                "cachedContentTokenCount": 0,
                "totalTokenCount": 400,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 100},
                    {"modality": "AUDIO", "tokenCount": 200},
                    {"modality": "AUDIO", "tokenCount": 50},
                    {"modality": "IMAGE", "tokenCount": 50},
                ],
                "candidatesTokensDetails": [{"modality": "AUDIO"}],
            },
            {
                "input_tokens": 400,
                "output_tokens": 0,
                "total_tokens": 400,
                "input_token_details": {"audio": 250, "image": 50, "cache_read": 0},
                "output_token_details": {"audio": 0},
            },
            id="modalities and cache",
        ),
        pytest.param(
            {
                "promptTokenCount": "7",
                "candidatesTokenCount": None,
                "thoughtsTokenCount": [1],
                "promptTokensDetails": 5,
                "candidatesTokensDetails": ["x", {"modality": None, "tokenCount": 3}],
            },
            {
                "input_tokens": 7,
                "output_tokens": 0,
                "total_tokens": 7,
                "output_token_details": {"reasoning": 0},
            },
            id="counts of other types",
        ),
    ],
)
def test_counts_are_langchains(usage: Any, expected: Any) -> None:
    body = {**reply([text("a")]), "usageMetadata": usage}
    assert parse(body).usage_metadata == expected
    assert stream([body]).usage_metadata == expected


def test_a_count_that_no_number_could_hold_is_none() -> None:
    body = {**reply([text("a")]), "usageMetadata": {"promptTokenCount": "9" * 5000}}
    assert parse(body).usage_metadata == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize(("told", "count"), [(3, 3), ("3", 3), (0, 0)])
def test_counted_tokens_may_be_written_as_text(told: Any, count: int) -> None:
    assert parse_count({"totalTokens": told}) == count


def test_no_count_is_no_tokens() -> None:
    assert parse_count({}) == 0  # proto JSON leaves a zero out


@pytest.mark.parametrize("told", [None, "three", [3], {}, True, -1, "9" * 5000])
def test_what_is_no_count_is_refused(told: Any) -> None:
    with pytest.raises(UnreadableResponseError, match="`totalTokens`"):
        parse_count({"totalTokens": told})


def test_a_stream_tells_the_last_value_of_each_count_once() -> None:
    first = {"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8}
    second = {"promptTokenCount": 7, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    message = stream(
        [
            {**event(text("a")), "usageMetadata": first},
            {**event(call("a")), "usageMetadata": second},
            {**reply([]), "usageMetadata": {"totalTokenCount": 14}},
        ]
    )
    assert message.usage_metadata == {
        "input_tokens": 7,
        "output_tokens": 7,
        "total_tokens": 14,
        "output_token_details": {"reasoning": 3},
    }
