"""Responses in the forms that real models write; the share that is parsed correctly is printed."""

from __future__ import annotations

import pytest

from langchain_gemini_tools.prompted.parser import parse_text
from tests.unit_tests.prompted.corpus import RESPONSES, ModelResponse, parse_pieces, show

SCORE = "text calls"
each_response = pytest.mark.parametrize("response", RESPONSES, ids=lambda response: response.id)


def test_every_response_has_a_unique_id() -> None:
    assert len({response.id for response in RESPONSES}) == len(RESPONSES) >= 180


@each_response
def test_a_response_has_the_expected_pieces(response: ModelResponse) -> None:
    found = parse_text(response.text, response.tools)
    wanted = [*response.pieces, *[{}] * len(found)]
    assert [
        show(piece, want) for piece, want in zip(found, wanted, strict=False)
    ] == response.pieces


@each_response
def test_where_the_text_is_split_makes_no_difference(response: ModelResponse) -> None:
    whole = parse_text(response.text, response.tools)
    for cut in range(len(response.text) + 1):
        halves = [response.text[:cut], response.text[cut:]]
        assert parse_pieces(halves, response.tools) == whole
    assert parse_pieces(list(response.text), response.tools) == whole


def test_a_call_keeps_its_text_as_the_model_wrote_it() -> None:
    for response in RESPONSES:
        at = 0
        for piece in parse_text(response.text, response.tools):
            if not isinstance(piece, str):
                assert piece.text
                at = response.text.index(piece.text, at) + len(piece.text)
