"""Which models the emulator has, and what their family accepts.

Written from the API's documents and recordings, apart from the package's own `capabilities.py`:
two readings of the same page notice each other's mistakes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Backend = Literal["gemini", "vertex"]

_KNOWN = re.compile(
    r"""
    gemini-(?:(?P<major>\d+)(?:\.(?P<minor>\d+))?-)?
    (?:pro|flash|ultra)(?:-lite|-8b|-thinking|-image)?
    (?:-(?:preview|exp|latest|tuning|customtools|\d{2,4}))*
    | gemma-(?P<gemma>\d+)n?-[a-z0-9-]+
    """,
    re.VERBOSE,
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
    if not (match := _KNOWN.fullmatch(name)):
        return None
    # Aliases exist only on v1beta: https://ai.google.dev/gemini-api/docs/api-versions
    if name.endswith("-latest") and version == "v1":
        return None
    if match["gemma"]:
        gemma = int(match["gemma"])
        return Model(name, generation=(3, 0) if gemma >= 4 else (2, 0), gemma=gemma)
    if match["major"]:
        return Model(name, generation=(int(match["major"]), int(match["minor"] or 0)))
    return Model(name)
