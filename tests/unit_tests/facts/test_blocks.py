from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.facts.blocks import (
    CALLS,
    MEDIA,
    TEXTS,
    THOUGHTS,
    blocks_of,
    extras_of,
    type_of,
)


def test_no_type_is_of_two_kinds() -> None:
    kinds = [*TEXTS, *THOUGHTS, *CALLS, *MEDIA]
    assert len(kinds) == len(set(kinds))


def test_a_string_is_the_only_block_of_its_message() -> None:
    blocks: list[str | dict[str, Any]] = ["a", {"type": "text", "text": "b"}]
    assert blocks_of("a") == ["a"]
    assert blocks_of(blocks) is blocks


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("Hello", "text"),
        ({"type": "image"}, "image"),
        ({"type": ["image"]}, ""),
        ({"type": None}, ""),
        ({}, ""),
    ],
)
def test_a_block_has_a_type_whatever_is_in_it(block: Any, kind: str) -> None:
    assert type_of(block) == kind


@pytest.mark.parametrize("extras", [None, [], "signature"])
def test_extras_are_an_object_or_nothing(extras: Any) -> None:
    assert extras_of({"extras": extras}) == {}
    assert extras_of({"extras": {"signature": "U0lH"}}) == {"signature": "U0lH"}
