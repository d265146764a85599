"""Titles that a library made up go; those that a person wrote stay."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.schema.cleaning import clean_schema
from langchain_gemini_tools.wire.schema.titles import is_generated_title

Schema = dict[str, Any]

TITLES: dict[str, tuple[Any, Schema]] = {
    "a title that a person wrote stays": (
        {"properties": {"id": {"title": "Customer number"}, "page_size": {"title": "Page Size"}}},
        {"properties": {"id": {"title": "Customer number"}, "page_size": {}}},
    ),
}


@pytest.mark.parametrize(("given", "sent"), TITLES.values(), ids=TITLES)
def test_a_title(given: Any, sent: Schema) -> None:
    assert clean_schema(given) == sent


@pytest.mark.parametrize(
    ("title", "name", "is_generated"),
    [
        ("Page Size", "page_size", True),
        ("Pagesize", "pageSize", True),
        ("Address", "Address", True),
        ("Address", "shop__models__Address", True),
        ("Box[int]", "Box_int_", True),
        ("Size", "page_size", False),
        ("Anything", "", False),
        (None, "a", False),
    ],
)
def test_a_generated_title_repeats_the_name(title: Any, name: str, is_generated: bool) -> None:
    assert is_generated_title(title, name) is is_generated
