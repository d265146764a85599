"""Tool names: what the API accepts, and the way back to the name the user gave.

A valid name is sent as it is. Any other is renamed by a rule that needs no memory, so that a
declaration, an old call in the history and `allowedFunctionNames` all agree; the bound tools lead
back from the wire's name to the user's.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_gemini_tools.wire.tools.tool import Tool

MAX_NAME_LENGTH = 64
_HASH_LENGTH = 8

# "Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_),
# dots (.) or dashes (-), with a maximum length of 64." Newer texts also allow a colon and 128
# characters, but not on every endpoint.
_VALID = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_LENGTH - 1}}}")
_BAD_CHARACTER = re.compile(r"[^A-Za-z0-9_.-]")


# "Parameter names must start with a letter or an underscore and must only contain chars a-z, A-Z,
# 0-9, or underscores with a maximum length of 64."
_VALID_PARAMETER = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_LENGTH - 1}}}")
_BAD_IN_PARAMETER = re.compile(r"[^A-Za-z0-9_]")


@lru_cache(maxsize=4096)
def render_name(name: str) -> str:
    """A tool's name on the wire: itself where the API takes it, else a valid one of its own."""
    return name if _VALID.fullmatch(name) else _renamed(name, _BAD_CHARACTER)


@lru_cache(maxsize=4096)
def render_parameter_name(name: str) -> str:
    """A parameter's name on the wire, by the same rule."""
    return name if _VALID_PARAMETER.fullmatch(name) else _renamed(name, _BAD_IN_PARAMETER)


def _renamed(name: str, bad: re.Pattern[str]) -> str:
    # The hash of the whole name keeps two names apart that differ only in what is replaced.
    readable = bad.sub("_", name)
    if not re.match(r"[A-Za-z_]", readable):
        readable = f"_{readable}"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{readable[: MAX_NAME_LENGTH - _HASH_LENGTH - 1]}_{digest}"


def function_names(tools: Iterable[Tool]) -> list[str]:
    """Return the functions' names as the user gave them, in order, without built-in tools."""
    return [tool.name for tool in tools if tool.is_function]


def names_by_wire_name(tools: Iterable[Tool]) -> dict[str, str]:
    """Return the user's name of every function by its name on the wire."""
    return {tool.wire_name: tool.name for tool in tools if tool.is_function}
