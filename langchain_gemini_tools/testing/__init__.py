"""Tests of your own agents, without a key: record what Gemini answers, replay it ever after.

cassettes.py   `cassette(...)` for scripts, notebooks and tests. Start reading here
plugin.py      the pytest plugin: makes `@pytest.mark.vcr` right for Gemini
session.py     one cassette, open: what is true while it plays or records, and how it is saved
tape.py        vcrpy's cassette, with what Gemini needs
matching.py    whether a request is the recorded one, and what differs
files.py       the YAML that a cassette is; bodies.py: bodies as a reviewer wants to read them
secrets.py     what no file may hold
audit.py       `python -m langchain_gemini_tools.testing audit PATH...`

Needs `pip install "langchain-gemini-tools[testing]"`; nothing of that is loaded before it is used.
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
