"""Why a call was not executed, in sentences that the model can act on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from langchain_gemini_tools.text_tools.spellings import MARKER
from langchain_gemini_tools.text_tools.values import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_LISTED = 30


def render_undeclared(name: str, names: Sequence[str]) -> str:
    """No such tool: which ones there are, the most similar one first."""
    if not names:
        return f"There is no tool named {shorten(name)!r}: no tools can be called. Answer in words."
    return (
        f"There is no tool named {shorten(name)!r}. The tools are: {_render_names(name, names)}. "
        f"Use one of these names: {_render_format(None)}"
    )


def render_unreadable(name: str | None, detail: str, names: Sequence[str]) -> str:
    """A call whose arguments, or whose very form, cannot be read."""
    if name is None:
        tools = f" The tools are: {_render_names('', names)}." if names else ""
        how = f"Write it in one line: {_render_format(None)}"
        return f"This call cannot be read: {detail}.{tools} {how}"
    return (
        f"The call of {shorten(name)!r} cannot be read: {detail}. "
        f"Write it in one line, with the arguments as one JSON object: {_render_format(name)}"
    )


def render_cut(name: str | None) -> str:
    """A call that the end of the text cut off."""
    of = f" of {shorten(name)!r}" if name else ""
    return (
        f"The text ended in the middle of this call{of}, so it was not executed. "
        f"Write the whole call again, shorter if it was too long: {_render_format(name)}"
    )


def _render_format(name: str | None) -> str:
    return f'{MARKER} {shorten(name or "tool_name")}({{"argument": "value"}})'


def _render_names(wanted: str, names: Sequence[str]) -> str:
    similar = difflib.get_close_matches(wanted[:100], names, n=3, cutoff=0.5) if wanted else []
    ordered = [*similar, *(name for name in names if name not in similar)]
    listed = ", ".join(ordered[:_MAX_LISTED])
    left_out = len(ordered) - _MAX_LISTED
    return f"{listed} and {left_out} more" if left_out > 0 else listed
