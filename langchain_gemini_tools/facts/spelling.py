"""Names in Python's spelling (`google_search`) and in the API's (`googleSearch`)."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_+([A-Za-z0-9])")


@lru_cache(maxsize=1024)
def camel(name: str) -> str:
    """Spell a name as the API does.

    A letter after an underscore becomes upper case; every other letter stays as it is, so that
    `some_URL` becomes `someURL` and a name in camelCase is returned unchanged.
    """
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


@lru_cache(maxsize=1024)
def snake(name: str) -> str:
    """Spell a name as Python does. A run of capitals is one word: `retrieved_url`."""
    return _WORD_START.sub("_", name).lower()
