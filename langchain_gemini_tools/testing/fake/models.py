"""Which models the emulator has, and what their family accepts.

Written from the API's documents and recordings, apart from the package's own `capabilities.py`:
two readings of the same page notice each other's mistakes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Backend = Literal["gemini", "vertex"]

_WORDS = re.compile(
    r"pro|flash|ultra|nano|lite|8b|thinking|image|tts|live|native|audio|dialog|computer|use|robotics"
    r"|argon|er|vision|exp|experimental|preview|latest|tuning|customtools|generation|\d+(?:\.\d+)?"
)
"""What names are made of: a typing mistake is not among them."""
_GENERATION = re.compile(r"(?<=-)(\d{1,2})(?:\.(\d+))?(?=-|$)")
_GEMMA = re.compile(r"gemma-(\d+)n?-[a-z0-9-]+")


_ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_LEVELS = (
    # Documented (ai.google.dev, generate-content/long-decode) and reported by pydantic-ai, which
    # tried it on 2026-10-13: "Gemini 4 Argon does not support minimal. Use low, medium, or high."
    ("gemini-4-argon", ("LOW", "MEDIUM", "HIGH")),
    # Reported in the API's own words for both, on 2026-08-16 and 2026-09-05.
    ("gemini-3.8-flash", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3.7-flash", ("LOW", "MEDIUM", "HIGH")),
    # Reported: vellum-ai/vellum-assistant, pull request 32687.
    ("gemini-3.1-pro", ("LOW", "MEDIUM", "HIGH")),
    # Documented for both; inferred for names without "preview".
    ("gemini-3-pro-image", _ALL_LEVELS),
    ("gemini-3-pro", ("LOW", "HIGH")),
    # Reported by pydantic-ai, which tried it on 2026-09-30: the Developer API rejects the others.
    ("gemini-3.1-flash-image", ("MINIMAL", "HIGH")),
    ("gemini-3.1-flash-lite-image", ("MINIMAL", "HIGH")),
    # Reported: livekit/agents, pull request 7080.
    ("gemma-4", ("MINIMAL", "HIGH")),
)
"""Which thinking levels a model has, by the beginning of its name; Gemini 3 has all by default."""

_WITHOUT_BUDGET = (
    "gemini-4-argon",  # documented
    "gemma-4",  # reported by many: "Thinking budget is not supported for this model."
)
_END_WITH_USER = (
    # Documented and reported: "these models and all future Gemini model releases".
    "gemini-3.5-flash-lite",
    "gemini-flash-lite-latest",  # reported: it is gemini-3.5-flash-lite
)


@dataclass(frozen=True)
class Model:
    """One model name, read."""

    name: str
    generation: tuple[int, int] = (99, 0)
    gemma: int | None = None

    @property
    def is_3(self) -> bool:
        """Gemini 3 or later, an alias, or a Gemma that calls functions."""
        return self.generation >= (3, 0)

    @property
    def thinks(self) -> bool:
        if self.generation < (3, 0) and (self.draws or self.speaks):
            return False  # reported by pydantic-ai for gemini-2.5-flash-image
        return self.generation >= (2, 5) or "thinking" in self.name

    @property
    def draws(self) -> bool:
        return "-image" in self.name

    @property
    def speaks(self) -> bool:
        return "-tts" in self.name

    @property
    def levels(self) -> tuple[str, ...]:
        """The thinking levels, the lowest first."""
        found = (levels for name, levels in _LEVELS if self.name.startswith(name))
        return next(found, _ALL_LEVELS if self.is_3 else ())

    @property
    def takes_budget(self) -> bool:
        return not self.name.startswith(_WITHOUT_BUDGET)

    @property
    def takes_prefill(self) -> bool:
        """Goes on with a last turn of its own. Gemma: not proven, so no."""
        if self.gemma is not None or self.name.startswith(_END_WITH_USER):
            return False
        return self.generation < (3, 6)

    @property
    def calls_functions(self) -> bool:
        if self.draws or self.speaks:
            return False
        return self.gemma is None or self.gemma >= 4

    @property
    def resource(self) -> str:
        """The name as the API's own messages write it."""
        return f"models/{self.name}"


def find_model(name: str, version: str) -> Model | None:
    """The model of this name, or None when the API would not know it."""
    # Aliases exist only on v1beta: https://ai.google.dev/gemini-api/docs/api-versions
    if name.endswith("-latest") and version == "v1":
        return None
    if gemma := _GEMMA.fullmatch(name):
        number = int(gemma[1])
        return Model(name, generation=(3, 0) if number >= 4 else (2, 0), gemma=number)
    family, *words = name.split("-")
    if family != "gemini" or not words or not all(_WORDS.fullmatch(word) for word in words):
        return None
    if found := _GENERATION.search(name):
        return Model(name, generation=(int(found[1]), int(found[2] or 0)))
    return Model(name)
