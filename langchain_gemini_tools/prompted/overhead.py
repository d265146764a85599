"""What tools that are called by prompt cost in every request.

`ChatGemini` names `PromptOverhead` in a signature; measuring one loads the rest of this room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_gemini_tools.wire.tools.findings import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_gemini_tools.wire.invocation import Invocation


@dataclass(frozen=True)
class PromptOverhead:
    """Tokens that the description of the tools adds to a request. `print` it."""

    tokens: int
    is_exact: bool
    """Whether the API counted; else four characters are taken for a token."""
    by_tool: Mapping[str, int] = field(default_factory=dict)
    """Each tool's share; the rest are the rules of the protocol."""

    def __str__(self) -> str:
        about = "" if self.is_exact else "about "
        rules = self.tokens - sum(self.by_tool.values())
        shares = [f"  {name}: {about}{tokens}" for name, tokens in self.by_tool.items()]
        head = f"Tools by prompt: {about}{self.tokens} tokens in every request"
        return "\n".join([head, f"  rules: {about}{rules}", *shares])


def measure_overhead(
    invocation: Invocation, count: Callable[[str], int] | None = None
) -> PromptOverhead:
    """What the tools of these options add to a request.

    Args:
        invocation: The resolved options.
        count: Counts the tokens of a text; without it they are estimated.
    """
    from langchain_gemini_tools.prompted.instructions import render_instructions
    from langchain_gemini_tools.text_tools.prompt import render_tool

    told = render_instructions(invocation)
    tokens_of = count or _estimate
    return PromptOverhead(
        tokens=tokens_of("\n\n".join(told.texts)),
        is_exact=count is not None,
        by_tool={
            tool["function"]["name"]: tokens_of(render_tool(tool["function"]))
            for tool in invocation.tools
            if "function" in tool and tool["function"]["name"] in told.text_tools.schemas
        },
    )


def _estimate(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN
