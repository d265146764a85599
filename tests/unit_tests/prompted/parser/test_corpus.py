"""Answers in the shapes that real models produce; the share that comes out right is printed."""

from __future__ import annotations

import pytest

from langchain_gemini_tools.prompted.parser.scanner import parse_text
from tests.scores import ScoreBoard
from tests.unit_tests.prompted.parser.corpus import ANSWERS, Answer, parse_pieces, show

each_answer = pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.id)


@pytest.fixture(scope="module", autouse=True)
def score(request: pytest.FixtureRequest) -> None:
    if not request.config.pluginmanager.has_plugin("text calls"):
        request.config.pluginmanager.register(ScoreBoard("text calls", request), "text calls")


def test_every_answer_has_a_name_of_its_own() -> None:
    assert len({answer.id for answer in ANSWERS}) == len(ANSWERS) >= 180


@each_answer
def test_an_answer_consists_of_the_expected_pieces(answer: Answer) -> None:
    found = parse_text(answer.text, answer.tools)
    wanted = [*answer.pieces, *[{}] * len(found)]
    assert [show(piece, want) for piece, want in zip(found, wanted, strict=False)] == answer.pieces


@each_answer
def test_where_the_text_is_cut_makes_no_difference(answer: Answer) -> None:
    whole = parse_text(answer.text, answer.tools)
    for cut in range(len(answer.text) + 1):
        halves = [answer.text[:cut], answer.text[cut:]]
        assert parse_pieces(halves, answer.tools) == whole
    assert parse_pieces(list(answer.text), answer.tools) == whole


def test_a_call_keeps_its_text_as_the_model_wrote_it() -> None:
    for answer in ANSWERS:
        at = 0
        for piece in parse_text(answer.text, answer.tools):
            if not isinstance(piece, str):
                assert piece.text
                at = answer.text.index(piece.text, at) + len(piece.text)
