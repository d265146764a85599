"""How long property tests search for a counterexample. This is the only place that decides.

By default few examples, the same ones in every run: the suite stays fast, and it fails only when
the code changed. `make fuzz` sets `PROPERTY_EXAMPLES` and searches among new examples each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "30"))
"""Examples of one property."""
STORIES = max(10, EXAMPLES // 16)
"""Conversations of `test_stories`, each of many requests."""
SEEDS = max(30, EXAMPLES // 5)
"""Random runs of the tool loop."""

PROFILE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PROPERTY_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def load_profile() -> None:
    """Use these settings for every property test without its own."""
    settings.register_profile("suite", PROFILE)
    settings.load_profile("suite")
