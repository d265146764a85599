"""Types of `google.genai.types` that langchain-google-genai exports, loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.genai.types import (
        ComputerUse,
        Environment,
        HarmBlockThreshold,
        HarmCategory,
        MediaResolution,
        Modality,
    )

__all__ = [
    "ComputerUse",
    "Environment",
    "HarmBlockThreshold",
    "HarmCategory",
    "MediaResolution",
    "Modality",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from google.genai import types

    return getattr(types, name)
