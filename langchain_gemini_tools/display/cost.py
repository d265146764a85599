"""The cost of a response, from the tables of `genai-prices`. Nothing is downloaded.

An unknown model has no price, which is different from a price of zero.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PROVIDERS = {
    "google_genai": "google",
    "google_vertexai": "google",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "mistralai": "mistral",
    "xai": "x-ai",
    "azure_ai": "azure",
    "azure_openai": "azure",
}
"""LangChain's `model_provider` -> the provider's id in the tables, where they differ.

The price depends on the provider: a local model, in Ollama, has none.
"""

_STANDARD_TIERS = (None, "standard", "default", "auto")


@dataclass(frozen=True)
class Cost:
    """US dollars, or None without a price; `is_partial` if the real cost is higher."""

    dollars: Decimal | None = None
    is_partial: bool = False

    def __str__(self) -> str:
        if self.dollars is None:
            return "n/a"
        return f"{'≥ ' if self.is_partial else ''}{_render_dollars(self.dollars)}"


def find_cost(
    usage: Mapping[str, Any] | None,
    model: str,
    provider: str | None,
    *,
    uses_server_tools: bool,
    service_tier: str | None = None,
) -> Cost:
    """Return the price of one response.

    Args:
        usage: LangChain's `usage_metadata`.
        model: The model's name, with or without a path before it.
        provider: LangChain's `model_provider`.
        uses_server_tools: Whether the provider ran tools. Searches and the like are billed
            separately, so the price of the tokens is a lower bound.
        service_tier: The tier that was used: `flex`, `priority` and so on. If the
            tables have no price for a tier, the price of the standard tier is used: half of it for
            Gemini's `flex`. For other tiers it is a lower bound, because they cost more.
    """
    if usage and usage.get("total_cost") == 0:  # langchain-core marks a cache hit this way
        return Cost(Decimal(0))
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return Cost()
    if not usage or not model or not _counts(usage):
        return Cost()
    if not isinstance(service_tier, str):
        service_tier = None
    name = model.rsplit("/", 1)[-1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about usage details without a price
            runner = str(provider) if provider else None
            price = calc_price(
                Usage(**_counts(usage)),
                name,
                provider_id=_PROVIDERS.get(runner, runner) if runner else None,
                price_context={"service_tier": service_tier} if service_tier else None,
            )
    except (LookupError, ValueError, TypeError):
        return Cost()
    dollars, is_partial = Decimal(price.total_price), uses_server_tools
    if service_tier not in _STANDARD_TIERS and not _has_price(price.model, service_tier):
        if service_tier == "flex" and price.provider.id == "google":
            dollars /= 2
        else:
            is_partial = True
    return Cost(dollars, is_partial=is_partial)


def _has_price(model: Any, service_tier: str | None) -> bool:
    """Return whether the tables have a price for this tier."""
    variants = getattr(model, "price_variants", None) or ()
    return any(variant.when.get("service_tier") == service_tier for variant in variants)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """Return the sum of the known costs, marked as partial if one is unknown."""
    listed = list(costs)
    known = [cost.dollars for cost in listed if cost.dollars is not None]
    if not known:
        return Cost()
    is_partial = len(known) < len(listed) or any(cost.is_partial for cost in listed)
    return Cost(sum(known, Decimal(0)), is_partial=is_partial)


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    incoming = usage.get("input_token_details") or {}
    outgoing = usage.get("output_token_details") or {}
    counts = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read_tokens": incoming.get("cache_read"),
        "cache_write_tokens": incoming.get("cache_creation"),
        "input_audio_tokens": incoming.get("audio"),
        "output_audio_tokens": outgoing.get("audio"),
        "output_image_tokens": outgoing.get("image"),
    }
    return {key: count for key, count in counts.items() if isinstance(count, int) and count}


def _render_dollars(dollars: Decimal) -> str:
    if dollars == 0:
        return "free"
    if dollars >= 1:
        return f"${dollars:,.2f}"
    if dollars >= Decimal("0.01"):
        return f"${dollars:.4f}"
    return f"${dollars:.2g}" if dollars >= Decimal("0.000001") else "< $0.000001"
