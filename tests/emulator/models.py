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
    r"argon|pro|flash|ultra|nano|lite|8b|thinking|image|tts|live|native|audio|dialog|computer|use|robotics"
    r"|er|vision|exp|experimental|preview|latest|tuning|customtools|generation|\d+(?:\.\d+)?"
)
"""What names are made of: a typing mistake is not among them."""
_GENERATION = re.compile(r"(?<=-)(\d{1,2})(?:\.(\d+))?(?=-|$)")
_GEMMA = re.compile(r"gemma-(\d+)n?-[a-z0-9-]+")


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
        return self.generation >= (2, 5) or "thinking" in self.name

    @property
    def calls_functions(self) -> bool:
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
