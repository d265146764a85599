"""Tools' names as they stand in the protocol's lines: most as they are, the others by one rule.

A name may come from a server that nobody here wrote. What would break its line, read like the
protocol or like a new turn, or could not be read back, gets a name of its own. The rule needs no
memory, so the prompt, old calls in the history and the reader of an answer all agree.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from langchain_gemini_tools.text_tools.parser import TextCall, parse_text
from langchain_gemini_tools.text_tools.protocol import CALL, harmless

_MAX_LENGTH = 64
_HASH_LENGTH = 8
_NOT_IN_A_WORD = re.compile(r"\W+")


@lru_cache(maxsize=4096)
def written_name(name: str) -> str:
    """The name that the model sees: itself where a call of it can be written and read."""
    if len(name) <= _MAX_LENGTH and name.isprintable() and harmless(name) == name:
        pieces = parse_text(f"{CALL} {name}({{}})", [name])
        if [piece.name for piece in pieces if isinstance(piece, TextCall)] == [name]:
            return name
    # The hash of the whole name keeps two names apart that differ only in what is replaced.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    readable = _NOT_IN_A_WORD.sub("_", name)[: _MAX_LENGTH - _HASH_LENGTH - 1].strip("_")
    return f"{readable or 'tool'}_{digest}"
