"""`check_tools`: find the problems of tools before they are sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.lint import Finding, find_problems
from langchain_gemini_tools.wire.tools.tool import Tool, bind_tools

__all__ = ["Finding", "ToolReport", "check_tools"]

_NAMED = re.compile(r"Tool '(?P<name>[^']*)': (?P<message>.*)", re.DOTALL)
"""An error message that names its tool."""


@dataclass(frozen=True)
class ToolReport:
    """The problems of a set of tools. Print it, or iterate over `findings`."""

    model: str
    tool_count: int
    tokens: int
    """About how many tokens the declarations cost in every request."""
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Problems for which the API would reject a request, and `bind_tools` raises."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Problems that cost tokens, or with which tools may not work as meant."""
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


def check_tools(tools: Iterable[object], model: str = "gemini-3.8-flash") -> ToolReport:
    """Check tools as `bind_tools` would, and report every problem.

    Args:
        tools: Anything that `bind_tools` accepts.
        model: The model that will use the tools.

    Returns:
        A report to print, or to inspect: `report.ok`, `report.errors`, `report.warnings`.
    """
    capabilities = capabilities_of(model)
    is_prompted = not capabilities.calls_functions and capabilities.accepts_prompted_functions
    bound: list[Tool] = []
    invalid: list[Finding] = []
    for tool in tools:
        try:
            bound += bind_tools([tool])
        except InvalidToolError as error:
            invalid.append(_invalid(tool, str(error)))
    return ToolReport(
        model=model,
        tool_count=len(bound) + len(invalid),
        tokens=sum(tool.token_estimate for tool in bound),
        findings=(*invalid, *find_problems(bound, capabilities, is_prompted=is_prompted)),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _invalid(tool: object, message: str) -> Finding:
    """Return the finding for a tool that cannot be bound, with the best name there is."""
    if named := _NAMED.fullmatch(message):
        return Finding("error", "invalid_tool", named["name"], None, named["message"])
    return Finding("error", "invalid_tool", _name(tool), None, message)


def _name(tool: object) -> str:
    found = tool.get("name") if isinstance(tool, dict) else None
    return str(found or getattr(tool, "name", None) or getattr(tool, "__name__", repr(tool)[:60]))
