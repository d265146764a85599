from __future__ import annotations

import pytest

from langchain_gemini_tools.prompted.text import FenceRemover

CASES = {
    "plain": ('{"a": 1}', '{"a": 1}'),
    "fenced": ('```json\n{"a": 1}\n```', '{"a": 1}'),
    "fenced, with space around": (' \n```\n{"a": 1}\n\n```\n ', '{"a": 1}'),
    "a fence that is not closed": ('```json\n{"a": ', '{"a":'),
    "a fence in a text": ('```json\n{"a": "```x``` "}\n```', '{"a": "```x``` "}'),
    "words first": ('Here:\n```json\n{"a": 1}\n```', 'Here:\n```json\n{"a": 1}\n```'),
    "a lone sign": ("`a`", "`a`"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("answer", "expected"), CASES.values(), ids=CASES)
def test_a_fence_around_json_is_removed_wherever_it_is_split(answer: str, expected: str) -> None:
    for first in range(len(answer) + 1):
        for second in range(first, len(answer) + 1):
            text = FenceRemover()
            pieces = [answer[:first], answer[first:second], answer[second:]]
            said = [text.feed(piece) for piece in pieces]
            assert "".join([*said, text.finish()]) == expected
