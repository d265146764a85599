"""Addresses: which ones are Gemini's, and which of their parameters are credentials.

To Google, `?key=` says who asks. To another API it may just as well say what is asked for: there,
plain words are left alone, and other values get a mark by which two of them can be told apart.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl, urlsplit

REDACTED = "[redacted]"
MIN_LENGTH = 8  # shorter values are no secrets, and would tear up unrelated words

GEMINI_PATH = re.compile(
    r"/v\d\w*/(?:projects/[^/]+/locations/|publishers/google/|cachedContents\b"
    r"|(?:models|tunedModels)/[^/]+:(?:[a-z]+[A-Z]|predict))"
)
"""Addresses that only Gemini has. Others too have `/v1/models` and `/v4/projects/7`."""
PROJECT = re.compile(r"(?<=/projects/)[^/]+(?=/locations/)")
"""The project in an address of Vertex AI. Other APIs have projects that they serve."""

_CREDENTIALS = frozenset({"api_key", "apikey", "access_token", "signature"})
_CREDENTIALS_OR_NOT = frozenset({"key", "token"})
_GOOGLE = re.compile(r"(?:.+\.)?googleapis\.com")
_TAKEN_OUT = re.compile(r"\[redacted(?:-[0-9a-f]{4})?\]")
_MAX_WORD = 15


def is_gemini(uri: str) -> bool:
    """Whether an address is Gemini's, whoever stands for it."""
    return bool(GEMINI_PATH.search(urlsplit(uri).path))


def credentials_in_address(uri: str) -> list[str]:
    """The values of an address that are credentials, or may be."""
    query = parse_qsl(urlsplit(uri).query)
    return [value for name, value in query if may_be_credential(name, value, uri)]


def may_be_credential(name: str, value: str, uri: str) -> bool:
    """Whether the value of a parameter has to be kept out of files."""
    if len(value) < MIN_LENGTH or _TAKEN_OUT.fullmatch(value) or not is_called_credential(name):
        return False
    return _is_credential(name, uri) or not _is_words(value)


def is_called_credential(name: str) -> bool:
    """Whether credentials are called so."""
    return name.lower() in _CREDENTIALS | _CREDENTIALS_OR_NOT


def redacted(name: str, value: str, uri: str) -> str:
    """What stands for a credential; where it may be none, with a mark that others do not have.

    Sixteen bits of a hash bring nobody nearer to a key, and leave hundreds of passwords to guess.
    """
    if _is_credential(name, uri):
        return REDACTED
    mark = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:4]
    return f"[redacted-{mark}]"


def _is_credential(name: str, uri: str) -> bool:
    """Whether a parameter says who asks, and nothing else."""
    is_google = is_gemini(uri) or bool(_GOOGLE.fullmatch(urlsplit(uri).hostname or ""))
    return name.lower() in _CREDENTIALS or (is_google and name.lower() in _CREDENTIALS_OR_NOT)


def _is_words(value: str) -> bool:
    """Whether a value is words, such as `san-francisco`: keys have digits, or no such spelling."""
    words = [word for word in re.split(r"[\W_]+", value) if word]
    return bool(words) and all(
        word.isalpha()
        and len(word) <= _MAX_WORD
        and word in (word.lower(), word.upper(), word.title())
        for word in words
    )
