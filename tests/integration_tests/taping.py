"""A cassette in the current folder, and a model as in a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from langchain_gemini_tools import ChatGemini

FILE = Path("cassettes/weather.yaml")


def gemini(**fields: Any) -> ChatGemini:
    """A model without key and address."""
    return ChatGemini(**{"model": "gemini-3.8-flash", **fields})


def interactions() -> list[Any]:
    """Return the interactions in the file."""
    found: list[Any] = yaml.safe_load(FILE.read_text())["interactions"]
    return found


def edit_file(old: str, new: str) -> None:
    """Edit the file as a person would."""
    FILE.write_text(FILE.read_text().replace(old, new))
