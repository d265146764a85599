"""`check_tools`: what there is to say about a set of tools before any of it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.findings import Finding, find_problems
from langchain_gemini_tools.wire.tools.tool import Tool, bind_tools

_NAMED = re.compile(r"Tool '(?P<name>[^']*)': (?P<message>.*)", re.DOTALL)
"""An error that names its tool already."""


@dataclass(frozen=True)
class ToolReport:
    """Findings about a set of tools. `print` it, or go through `findings`."""

    model: str
    tool_count: int
    tokens: int
    """About how many tokens the declarations cost in every request."""
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What the API would refuse; `bind_tools` raises for it."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What costs, or promises more than the model keeps."""
        return tuple(finding for finding in self.findings if finding.level == "warning")

    @property
    def ok(self) -> bool:
        """Whether the tools can be bound."""
        return not self.errors

    def __str__(self) -> str:
        head = f"{_count(self.tool_count, 'tool')} for {self.model}, "
        head += f"about {_count(self.tokens, 'token')} a request: "
        head += f"{_count(len(self.errors), 'error')}, {_count(len(self.warnings), 'warning')}."
        return "\n".join([head, *(f"  {item.level}: {item}" for item in self.findings)])


def check_tools(tools: Iterable[Any], model: str = "gemini-3-flash-preview") -> ToolReport:
    """Look at tools as `bind_tools` would, and tell everything that is found.

    Args:
        tools: Whatever `bind_tools` takes.
        model: The model that they are meant for.
    """
    known = capabilities_of(model)
    bound: list[Tool] = []
    refused: list[Finding] = []
    for tool in tools:
        try:
            bound += bind_tools([tool])
        except InvalidToolError as error:
            refused.append(_refusal(tool, str(error)))
    return ToolReport(
        model=model,
        tool_count=len(bound) + len(refused),
        tokens=sum(tool.token_estimate for tool in bound),
        findings=(*refused, *find_problems(bound, known, by_prompt=not known.calls_functions)),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refusal(tool: Any, words: str) -> Finding:
    """The error of a tool that cannot be bound, under the name that it is known by."""
    if named := _NAMED.fullmatch(words):
        return Finding("error", "no_tool", named["name"], None, named["message"])
    return Finding("error", "no_tool", _name(tool), None, words)


def _name(tool: Any) -> str:
    found = tool.get("name") if isinstance(tool, dict) else None
    return str(found or getattr(tool, "name", None) or getattr(tool, "__name__", repr(tool)[:60]))
