"""Citations point to the characters they are about."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.wire.citations import parse_grounding
from tests.unit_tests.wire.replying import event, parse, reply, stream, text

ANSWER = "Åland → the weather 🌤 is fine. Åland is fine."


def grounding(start: int | None, end: int, words: str | None) -> dict[str, Any]:
    segment = {"startIndex": start, "endIndex": end, "text": words}
    return {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }


def in_bytes(words: str, *, after: str = "", drift: int = 0) -> tuple[int, int, str]:
    """Where the API says that these words stand."""
    start = len(ANSWER[: ANSWER.index(words, len(after))].encode()) + drift
    return start, start + len(words.encode()), words


SECOND = "Åland is fine."


@pytest.mark.parametrize("drift", [-3, 0, 2])
@pytest.mark.parametrize("words", ["Åland → the", "the weather 🌤 is fine.", SECOND])
def test_a_citation_holds_its_words(words: str, drift: int) -> None:
    start, end, said = in_bytes(words, drift=drift)
    told = grounding(max(start, 0), end, said)
    for message in (
        parse(reply([text(ANSWER)], groundingMetadata=told)),
        stream(
            [event(text(ANSWER[:9])), event(text(ANSWER[9:])), reply([], groundingMetadata=told)]
        ),
    ):
        block: Any = message.content_blocks[0]
        [citation] = block["annotations"]
        assert ANSWER[citation["start_index"] : citation["end_index"]] == words
        assert citation["cited_text"] == words


def test_of_words_that_are_there_twice_those_are_meant_that_are_nearer() -> None:
    start, end, words = in_bytes("Åland", after="Åland")
    segment = parse_grounding(grounding(start, end, words), ANSWER)["grounding_supports"][0]
    assert segment["segment"]["start_index"] == ANSWER.rindex("Åland") > 0


@pytest.mark.parametrize(
    ("start", "end", "words", "placed"),
    [
        pytest.param(None, 6, "Åland", (0, 5), id="the beginning"),
        pytest.param(0, 6, None, (0, 5), id="without its words"),
        pytest.param(0, 6, "elsewhere", (0, 9), id="words that are not there"),
        pytest.param(0, 9999, None, (0, len(ANSWER)), id="past the end"),
        pytest.param(1, 6, None, (0, 5), id="inside of a character"),
    ],
)
def test_bytes_are_counted_as_characters(
    start: int | None, end: int, words: str | None, placed: tuple[int, int]
) -> None:
    known = parse_grounding(grounding(start, end, words), ANSWER)
    segment = known["grounding_supports"][0]["segment"]
    assert (segment["start_index"], segment["end_index"]) == placed


@pytest.mark.parametrize(
    ("strange", "kept"),
    [
        (5, 5),
        ({"groundingSupports": 5}, {"grounding_supports": 5}),
        (
            {"groundingSupports": [5, {"segment": 5}, {"segment": {"endIndex": "x"}}]},
            {"grounding_supports": [5, {"segment": 5}, {"segment": {"end_index": "x"}}]},
        ),
    ],
)
def test_what_is_no_grounding_is_kept(strange: Any, kept: Any) -> None:
    assert parse_grounding(strange, ANSWER) == kept


def test_citations_count_in_all_that_is_said_and_not_in_thoughts() -> None:
    parts = [
        {"text": "Hm, Åland.", "thought": True},
        text("Å: "),
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        text("sunny"),
    ]
    message = parse(reply(parts, groundingMetadata=grounding(4, 9, "sunny")))
    support = message.response_metadata["grounding_metadata"]["grounding_supports"][0]
    assert support["segment"] == {"start_index": 3, "end_index": 8, "text": "sunny"}
    assert message.text[3:8] == "sunny"
