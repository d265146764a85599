"""Prompted tool calling, for models without function calling.

The tools are described in the prompt, the model writes its calls as text, and the text is parsed
into tool calls.

- `request`: renders requests and parses their responses. Start reading here
- `prompt`: tools, and the calls and results of a history, as text; `tool_arguments`: the arguments
  of one tool, described, with a sample, and validated
- `parser`: finds the calls in a text; its rules are there. `call_reader` reads one call, `values`
  its arguments, `text` the chunks of a text, and `words` has the words to look for. These five
  modules know nothing about Gemini
- `written_calls`: finds calls that a model with function calling wrote as text

`TOOL_PROMPT` is the default template of the prompt; `ChatGemini(tool_prompt=...)` replaces it.
`PromptOverhead` is what `ChatGemini.prompt_overhead` returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.prompted.prompt import TOOL_PROMPT

__all__ = ["TOOL_PROMPT", "PromptOverhead"]


@dataclass(frozen=True)
class PromptOverhead:
    """The tokens that the description of the tools adds to every request; `print` it."""

    tokens: int
    """All of them: the rules of the protocol and the tools."""
    is_exact: bool
    """Whether the API counted; otherwise the number is estimated at four characters per token."""
    by_tool: Mapping[str, int] = field(default_factory=dict)
    """The tokens of each tool; the others are the rules of the protocol."""

    def __str__(self) -> str:
        about = "" if self.is_exact else "about "
        rules = self.tokens - sum(self.by_tool.values())
        head = f"Prompted tools: {about}{self.tokens} tokens in every request"
        shares = [f"  {name}: {about}{tokens}" for name, tokens in self.by_tool.items()]
        return "\n".join([head, f"  rules: {about}{rules}", *shares])


def __getattr__(name: str) -> str:
    # Loaded at first use: the template's module loads the parser.
    if name == "TOOL_PROMPT":
        from langchain_gemini_tools.prompted.prompt import TOOL_PROMPT

        return TOOL_PROMPT
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
