"""Options of the model, of a binding and of one call, as the emulator receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.genai import types

from langchain_gemini_tools import trace
from langchain_gemini_tools.display import Cost
from tests.integration_tests.invoking import ask
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

TIERS: dict[str, tuple[Json, Json, str | None, str]] = {
    "none": ({}, {}, None, "standard"),
    "of the model": ({"service_tier": "flex"}, {}, "flex", "flex"),
    "of the call": ({}, {"service_tier": "priority"}, "priority", "priority"),
    "of the call instead of the model's": (
        {"service_tier": "flex"},
        {"service_tier": "standard"},
        "standard",
        "standard",
    ),
    "none instead of the model's": (
        {"service_tier": "flex"},
        {"service_tier": None},
        None,
        "standard",
    ),
    "of the SDK": ({}, {"service_tier": types.ServiceTier.FLEX}, "flex", "flex"),
    "in capitals": ({"service_tier": "SERVICE_TIER_PRIORITY"}, {}, "priority", "priority"),
    "that the SDK leaves open": (
        {"service_tier": types.ServiceTier.UNSPECIFIED},
        {},
        None,
        "standard",
    ),
}


@rotated(case=TIERS, way=WAYS)
async def test_a_service_tier_is_sent_and_the_one_that_was_used_is_reported(
    case: tuple[Json, Json, str | None, str], way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    fields, options, sent, used = case
    message = await ask(make_model(**fields).bind(**options), way)
    assert emulator.last.body.get("serviceTier") == sent
    assert message.response_metadata["service_tier"] == used


def test_a_trace_prices_the_tier(make_model: MakeModel) -> None:
    shown = [
        trace([make_model(model="gemini-2.5-flash", service_tier=tier).invoke("Hi")])
        for tier in ("standard", "flex", "priority")
    ]
    standard, flex, priority = (run.run.cost for run in shown)
    assert standard.dollars is not None
    assert flex.dollars == standard.dollars / 2
    assert priority == Cost(standard.dollars, is_partial=True)
    assert "≥ $" in str(shown[2])
