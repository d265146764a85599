"""Test your own agents without an API key: with a fake Gemini, or with recorded responses.

fake_gemini.py `FakeGemini`, a strict Gemini on this machine. Start reading here
fake/          its server: HTTP, scripts, faults, and what Gemini refuses

cassettes.py   `cassette(...)` records responses and replays them. Start reading here
plugin.py      the pytest plugin: the fixture `fake_gemini`, and `@pytest.mark.vcr` for Gemini
tape.py        vcrpy's cassette: whether a request is the recorded one, and what differs
files.py       the YAML of a cassette, and its readable form of bodies
redaction.py   what must not be in a file, and what is saved
__main__.py    `python -m langchain_gemini_tools.testing serve`, or `audit PATH...`

Cassettes and the plugin need `pip install "langchain-gemini-tools[testing]"`; those packages are
loaded on first use. `FakeGemini` needs nothing more.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.cassettes import (
    CassetteError,
    CassetteFileError,
    CassetteInUseError,
    SecretFoundError,
    StaleCassetteError,
    cassette,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import faults
    from langchain_gemini_tools.testing.fake.request import Request
    from langchain_gemini_tools.testing.fake.script import Reply
    from langchain_gemini_tools.testing.fake_gemini import FakeGemini, FakeGeminiError

__all__ = [
    "CassetteError",
    "CassetteFileError",
    "CassetteInUseError",
    "FakeGemini",
    "FakeGeminiError",
    "Reply",
    "Request",
    "SecretFoundError",
    "StaleCassetteError",
    "cassette",
    "faults",
]

_MODULES = {
    "FakeGemini": "fake_gemini",
    "FakeGeminiError": "fake_gemini",
    "Reply": "fake.script",
    "Request": "fake.request",
}
"""Loaded on first use."""


def __getattr__(name: str) -> Any:
    if name == "faults":
        return importlib.import_module(f"{__name__}.fake.faults")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
