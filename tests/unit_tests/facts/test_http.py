"""Bodies of error responses; `test_errors.py` tests what becomes of them."""

from __future__ import annotations

import pytest

from langchain_gemini_tools.facts.http import (
    contains_error,
    find_http_status,
    parse_error_body,
)


@pytest.mark.parametrize("opening", ["<", "<title>", "<title", "<a "])
def test_a_page_of_opening_tags_is_read_in_linear_time(opening: str) -> None:
    page = opening * 500_000  # read again from each of them, it would take minutes
    assert len(parse_error_body(page)["error"]["message"]) <= 300


def test_an_error_is_found_anywhere_in_the_object() -> None:
    assert contains_error({"usageMetadata": {}, "error": {"code": 500}})
    assert contains_error([{"error": {"code": 500}}])
    assert not contains_error({"candidates": [], "error": None})
    assert not contains_error("error")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (6, (409, "ALREADY_EXISTS")),
        (8, (429, "RESOURCE_EXHAUSTED")),
        (11, (400, "OUT_OF_RANGE")),
        (15, (500, "DATA_LOSS")),
        (99, (500, "UNKNOWN")),
        (None, (500, "UNKNOWN")),
        (503, (503, "UNKNOWN")),
    ],
)
def test_a_code_is_one_of_google_rpc_or_of_http(code: object, status: tuple[int, str]) -> None:
    assert find_http_status(code) == status
