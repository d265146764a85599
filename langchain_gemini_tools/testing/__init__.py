"""Test your own agents without an API key: record Gemini's responses once, then replay them.

cassettes.py   `cassette(...)` for scripts, notebooks and tests. Start reading here
plugin.py      the pytest plugin, which adapts `@pytest.mark.vcr` to Gemini
session.py     opening a cassette, and saving it without credentials
tape.py        vcrpy's cassette, adapted to Gemini
matching.py    whether a request is the recorded one, and what differs
files.py       the YAML of a cassette, and its readable form of bodies
redaction.py   what must not be in a file
audit.py       `python -m langchain_gemini_tools.testing audit PATH...`

Needs `pip install "langchain-gemini-tools[testing]"`; those packages are loaded on first use.
"""

from langchain_gemini_tools.testing.cassettes import cassette
from langchain_gemini_tools.testing.errors import (
    CassetteError,
    CassetteFileError,
    CassetteInUseError,
    SecretFoundError,
    StaleCassetteError,
)

__all__ = [
    "CassetteError",
    "CassetteFileError",
    "CassetteInUseError",
    "SecretFoundError",
    "StaleCassetteError",
    "cassette",
]
