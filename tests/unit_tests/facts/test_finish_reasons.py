"""One table explains every finish reason, and no other module names one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.genai import types
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from langchain_gemini_tools import ToolLoop, trace
from langchain_gemini_tools.errors import BlockedError, MalformedToolCallError
from langchain_gemini_tools.facts import finish_reasons
from langchain_gemini_tools.facts.finish_reasons import (
    FINISH_REASONS,
    FinishReason,
    finish_of,
    finish_reason_of,
    is_from_gemini,
    lookup,
)
from tests.figures import modules_with
from tests.unit_tests.wire.responses import parse, reply, text

GEMINI = {name: row for name, row in FINISH_REASONS.items() if row.vendor == "gemini"}


def message(**metadata: Any) -> AIMessage:
    return AIMessage("Hello.", response_metadata=metadata)


def test_the_table_has_every_reason_that_the_sdk_knows() -> None:
    assert {reason.value for reason in types.FinishReason} <= GEMINI.keys()


def test_every_row_is_found_by_its_name_and_explains_itself_in_a_sentence() -> None:
    for name, row in FINISH_REASONS.items():
        assert lookup(name) is row
        assert row.name == name
        assert row.explanation[0].isupper()
        assert row.explanation.endswith(".")


def test_only_stop_counts_as_complete_for_gemini() -> None:
    complete = {name for name, row in FINISH_REASONS.items() if row.is_complete}
    assert complete & GEMINI.keys() == {"STOP"}
    assert {FINISH_REASONS[name].outcome for name in complete} == {"complete"}


def test_a_reason_that_is_not_in_the_table_is_complete_only_for_other_vendors() -> None:
    explanation = "The finish reason 'SOLAR_FLARE' is not known to this version."
    ours = lookup("SOLAR_FLARE", "gemini")
    assert ours == FinishReason("SOLAR_FLARE", "unknown", explanation, "gemini")
    assert not ours.is_complete
    theirs = lookup("SOLAR_FLARE")
    assert theirs == replace(ours, vendor="other")
    assert theirs.is_complete


def test_a_missing_reason_is_unspecified_and_complete_only_for_other_vendors() -> None:
    assert lookup(None).outcome == lookup(None, "gemini").outcome == "unspecified"
    assert lookup(None).is_complete
    assert not lookup(None, "gemini").is_complete


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        pytest.param({"finish_reason": "STOP"}, "STOP", id="gemini"),
        pytest.param({"stop_reason": "tool_use"}, "tool_use", id="anthropic"),
        pytest.param({"stopReason": "end_turn"}, "end_turn", id="bedrock"),
        pytest.param({"done_reason": "length"}, "length", id="ollama"),
        pytest.param({"finish_reason": None, "done_reason": "stop"}, "stop", id="the first given"),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens",
            id="openai responses",
        ),
        pytest.param({}, None, id="none"),
    ],
)
def test_the_reason_is_read_from_the_metadata_of_any_vendor(
    metadata: dict[str, Any], reason: str | None
) -> None:
    assert finish_reason_of(message(**metadata)) == reason
    assert finish_of(message(**metadata)) == lookup(reason)


@pytest.mark.parametrize(
    ("provider", "expected"),
    [("google_genai", True), ("google_vertexai", True), ("openai", False), (None, False)],
)
def test_the_provider_decides_whose_unknown_reason_it_is(
    provider: str | None, expected: bool
) -> None:
    given = message(model_provider=provider, finish_reason="SOLAR_FLARE")
    assert is_from_gemini(given) is expected
    assert finish_of(given).is_complete is not expected


# Adding a finish reason takes one row.


def test_no_other_module_names_a_finish_reason_of_gemini() -> None:
    assert modules_with(*GEMINI) == {"facts/finish_reasons.py"}


def test_a_new_row_is_all_that_the_parser_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    body = reply([], finishReason="SOLAR_FLARE")
    with pytest.raises(BlockedError, match="SOLAR_FLARE"):
        parse(body)

    def add(row: FinishReason) -> None:
        table = {**FINISH_REASONS, row.name: row}
        monkeypatch.setattr(finish_reasons, "FINISH_REASONS", table)

    add(FinishReason("SOLAR_FLARE", "truncated", "The sun cut the response."))
    assert parse(body).response_metadata["empty_response"] is True

    add(FinishReason("SOLAR_FLARE", "bad_call", "The sun hit the call."))
    with pytest.raises(MalformedToolCallError, match="SOLAR_FLARE"):
        parse(reply([text("Hello")], finishReason="SOLAR_FLARE"))


def test_a_new_row_is_all_that_the_loop_and_the_trace_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = FinishReason("SOLAR_FLARE", "truncated", "The sun cut the response.")
    monkeypatch.setattr(finish_reasons, "FINISH_REASONS", {**FINISH_REASONS, row.name: row})
    answer = message(model_provider="google_genai", finish_reason="SOLAR_FLARE")
    result = ToolLoop(GenericFakeChatModel(messages=iter([answer]))).invoke("Hi")
    assert result.stop_reason == "truncated"
    assert "SOLAR_FLARE: The sun cut the response." in str(trace(result))
