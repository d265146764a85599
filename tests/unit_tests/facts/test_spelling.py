"""Names in both spellings."""

from __future__ import annotations

import pytest

from langchain_gemini_tools.facts.json_values import camel, snake


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
