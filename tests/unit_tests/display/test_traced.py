from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from langchain_gemini_tools.display.traced import Cost, find_cost, sum_costs

USAGE = {"input_tokens": 1000, "output_tokens": 200}


def _cost(model: str, provider: str | None = "google_genai", **usage: object) -> Cost:
    return find_cost(USAGE | usage, model, provider, uses_server_tools=False)


def test_a_known_model_has_a_price() -> None:
    assert _cost("gemini-2.0-flash") == Cost(Decimal("0.00018"))
    assert _cost("models/gemini-2.0-flash") == Cost(Decimal("0.00018"))


def test_cached_tokens_are_cheaper() -> None:
    cached = _cost("gemini-2.0-flash", input_token_details={"cache_read": 800})
    assert cached.dollars is not None
    assert Decimal("0.00008") < cached.dollars < Decimal("0.00018")


def test_cached_audio_makes_the_price_a_lower_bound() -> None:
    audio = {"audio": 500, "cache_read": 800}
    cost = _cost("gemini-2.0-flash", input_token_details=audio)
    assert cost == Cost(Decimal("0.000195"), is_partial=True)
    assert _cost("gemini-2.0-flash", input_token_details={"audio": 500}) == Cost(Decimal("0.00048"))


@pytest.mark.parametrize(
    ("details", "dollars"),
    [
        ({}, "0.0060"),
        ({"cache_creation": 800}, "0.0066"),
        ({"cache_creation": 0, "ephemeral_5m_input_tokens": 800}, "0.0066"),
        ({"cache_creation": 0, "ephemeral_1h_input_tokens": 800}, "0.0084"),
        ({"cache_creation": 800, "ephemeral_5m_input_tokens": 800}, "0.0066"),
    ],
)
def test_cache_writes_of_anthropic_cost_more(details: dict[str, int], dollars: str) -> None:
    cost = _cost("claude-sonnet-4-5", "anthropic", input_token_details=details)
    assert cost == Cost(Decimal(dollars))


def test_images_cost_more_or_the_price_is_partial() -> None:
    details = {"image": 1290}
    cost = _cost("gemini-2.5-flash-image", output_tokens=1300, output_token_details=details)
    if cost.dollars is not None:  # tables from before the model have none
        assert cost.is_partial or cost.dollars > Decimal("0.03")
    assert not _cost("gemini-2.0-flash").is_partial


@pytest.mark.parametrize("uses_server_tools", [False, True])
def test_a_response_from_langchains_cache_is_free(uses_server_tools: bool) -> None:
    chat = FakeMessagesListChatModel(
        responses=[AIMessage("Hi", usage_metadata={**USAGE, "total_tokens": 1200})],
        cache=InMemoryCache(),
    )
    paid, cached = (chat.invoke("Hi").usage_metadata for _ in range(2))
    tools: dict[str, Any] = {"uses_server_tools": uses_server_tools}
    assert find_cost(paid, "gemini-2.0-flash", "google_genai", **tools).dollars
    assert str(find_cost(cached, "gemini-2.0-flash", "google_genai", **tools)) == "free"


@pytest.mark.parametrize("model", ["gemini-99", "", "../../x"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert _cost(model) == Cost(None)
    assert str(_cost(model)) == "n/a"


@pytest.mark.parametrize("provider", ["ollama", "vllm", "somebody"])
def test_the_price_depends_on_the_provider(provider: str) -> None:
    assert _cost("gpt-4o", "openai").dollars is not None
    assert _cost("gpt-4o", None).dollars is not None  # the provider is not known
    assert _cost("gpt-4o", provider) == Cost(None)


def test_some_providers_list_a_model_with_its_path() -> None:
    assert _cost("openai/gpt-oss-120b", "groq").dollars is not None
    assert _cost("openai/gpt-4o", "openai") == _cost("gpt-4o", "openai")


def test_a_response_without_tokens_is_not_free() -> None:
    assert _cost("gemini-2.0-flash", input_tokens=0, output_tokens=0) == Cost(None)


def test_invalid_usage_has_no_price() -> None:
    assert _cost("gemini-2.0-flash", input_token_details={"cache_read": 5000}) == Cost(None)
    assert find_cost(None, "gemini-2.0-flash", None, uses_server_tools=False) == Cost(None)


def test_searches_are_billed_separately_so_the_price_is_a_lower_bound() -> None:
    cost = find_cost(USAGE, "gemini-2.0-flash", "google_genai", uses_server_tools=True)
    assert str(cost) == "≥ $0.00018"


def test_without_the_price_list_the_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert _cost("gemini-2.0-flash") == Cost(None)


def test_a_sum_without_all_costs_is_partial() -> None:
    one, two, none = Cost(Decimal(1)), Cost(Decimal("2.5")), Cost(None)
    assert sum_costs([one, two]) == Cost(Decimal("3.5"))
    assert sum_costs([one, none]) == Cost(Decimal(1), is_partial=True)
    assert sum_costs([none, none]) == Cost(None)
    assert sum_costs([]) == Cost(None)


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        ("0", "free"),
        ("0.0000001", "< $0.000001"),
        ("0.0000123", "$0.000012"),
        ("0.00123", "$0.0012"),
        ("0.0123456", "$0.0123"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_dollars_are_short(dollars: str, shown: str) -> None:
    assert str(Cost(Decimal(dollars))) == shown


def _tier_cost(model: str, tier: str | None, provider: str = "google_genai") -> Cost:
    return find_cost(USAGE, model, provider, uses_server_tools=False, service_tier=tier)


def test_a_tier_has_its_own_price() -> None:
    standard, flex, priority = (
        _tier_cost("gpt-5", tier, "openai") for tier in ("default", "flex", "priority")
    )
    assert standard == _tier_cost("gpt-5", None, "openai")
    assert None not in (flex.dollars, standard.dollars, priority.dollars)
    assert flex.dollars < standard.dollars < priority.dollars  # type: ignore[operator]
    assert [flex.is_partial, priority.is_partial] == [False, False]


def test_a_tier_of_gemini_without_a_price_is_half_price_or_a_lower_bound() -> None:
    assert _tier_cost("gemini-2.0-flash", "standard") == Cost(Decimal("0.00018"))
    assert _tier_cost("gemini-2.0-flash", "flex") == Cost(Decimal("0.00009"))
    assert _tier_cost("gemini-2.0-flash", "priority") == Cost(Decimal("0.00018"), is_partial=True)
    assert _tier_cost("gemini-2.0-flash", "sunday").is_partial


def test_a_tier_of_an_unknown_kind_does_not_matter() -> None:
    odd: object = {"tier": 1}
    assert _tier_cost("gemini-2.0-flash", odd) == Cost(Decimal("0.00018"))  # type: ignore[arg-type]
