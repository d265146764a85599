"""Problems of bound tools: what the API would reject, what costs tokens, and what may not work.

The API reports `function_declarations[3].parameters.properties[2]` after the request was sent. The
lint names the tool and the parameter when tools are bound. The findings of a tool are remembered,
so that checking the same tools again is cheap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.json_values import snake
from langchain_gemini_tools.wire.schema.keywords import Keyword, keywords_in
from langchain_gemini_tools.wire.schema.walk import endless_definitions, loosen_loops, parts
from langchain_gemini_tools.wire.tools.builtin import BUILTIN_TOOLS, builtin_tool
from langchain_gemini_tools.wire.tools.tool import BEST_FORM, parameter_names, render_parameter_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.shapes import JsonSchema
    from langchain_gemini_tools.wire.tools.tool import BoundTools, SchemaForm, Tool

MAX_FUNCTIONS = 512
MAX_DEPTH = 32
"""Levels of a schema. The API does not publish its limit; real schemas stay far below."""
DEEP = 8
MANY_FUNCTIONS = 100
LARGE_SET_TOKENS = 20_000

_ABOUT_DECLARATIONS = {"renamed", "not_enforced", "recursive"}
"""Codes of findings that do not apply to prompted tools, which are not declared to the API."""


@dataclass(frozen=True)
class Finding:
    """A problem of one tool, or of all tools together."""

    level: Literal["error", "warning"]
    """`error`: the API would reject the request. `warning`: it costs tokens, or may not work."""
    code: str
    """A short identifier, such as `duplicate_name`."""
    tool: str | None
    """The tool's name; `None` for a problem of the whole set."""
    parameter: str | None
    """Where in the tool's parameters, such as `filters[].tag`."""
    message: str

    def __str__(self) -> str:
        if self.tool is None:
            return self.message[:1].upper() + self.message[1:]
        parameter = f", parameter {self.parameter!r}" if self.parameter else ""
        return f"Tool {self.tool!r}{parameter}: {self.message}"


def find_problems(
    tools: BoundTools,
    capabilities: Capabilities,
    *,
    is_prompted: bool = False,
    form: SchemaForm | None = None,
) -> list[Finding]:
    """Return all problems of bound tools, errors first.

    Args:
        tools: The tools.
        capabilities: What the model supports.
        is_prompted: Functions are described in the prompt, where any name is allowed and every
            constraint is checked.
        form: The form in which schemas are sent; by default the best that the model accepts.
    """
    found = [*_set_findings(tools, capabilities), *_size_findings(tools)]
    form = form or BEST_FORM[capabilities.accepts_json_schema]
    for tool in tools:
        found += _tool_findings(tool, form)
    if is_prompted:
        found = [finding for finding in found if finding.code not in _ABOUT_DECLARATIONS]
    # A tool that is bound twice is declared once.
    return sorted(dict.fromkeys(found), key=lambda finding: finding.level)


def reject_unusable_tools(tools: BoundTools, capabilities: Capabilities) -> None:
    """Reject tools that the API would reject.

    Raises:
        InvalidToolError: The message contains every error.
    """
    form = BEST_FORM[capabilities.accepts_json_schema]
    found = [*_set_findings(tools, capabilities)]
    for tool in tools:
        found += [item for item in _tool_findings(tool, form) if item.level == "error"]
    if found:
        raise InvalidToolError(" ".join(map(str, dict.fromkeys(found))))


# All tools together


def _set_findings(tools: BoundTools, capabilities: Capabilities) -> Iterator[Finding]:
    """Find errors of the tools together."""
    by_wire_name = tools.user_names
    if by_wire_name and not _may_have_functions(capabilities):
        message = (
            f"this model returns {' and '.join(capabilities.outputs)} and does not call functions "
            f"({', '.join(by_wire_name.values())}). Bind them to a text model; one of its tools "
            "can invoke this model."
        )
        yield Finding("error", "not_supported", None, None, message)
    if len(by_wire_name) == len(tools) <= MAX_FUNCTIONS:
        return  # only functions, all with different names
    functions: dict[str, Tool] = {}
    for tool in tools:
        if tool.is_function and functions.setdefault(tool.name, tool) != tool:
            message = "two different tools have this name; rename one of them."
            yield Finding("error", "duplicate_name", tool.name, None, message)
    if len(by_wire_name) < len(functions):
        message = "two tools have the same name after renaming; rename one of them."
        yield Finding("error", "duplicate_name", None, None, message)
    if len(functions) > MAX_FUNCTIONS:
        message = (
            f"Gemini accepts at most {MAX_FUNCTIONS} functions, but {len(functions)} are bound. "
            "Bind fewer."
        )
        yield Finding("error", "too_many", None, None, message)
    yield from _builtin_findings(tools, list(functions), capabilities)


def _may_have_functions(capabilities: Capabilities) -> bool:
    return capabilities.calls_functions or capabilities.accepts_prompted_functions


def _builtin_findings(
    tools: BoundTools, functions: list[str], capabilities: Capabilities
) -> Iterator[Finding]:
    """Find built-in tools that the model does not support, or not beside functions."""
    builtin = [tool.name for tool in tools.builtin]
    run_by_api = [name for name in builtin if not builtin_tool(name).is_run_by_user]
    if builtin and not capabilities.accepts_builtin_tools:
        way_out = "Use functions, or a Gemini model."
        if not _may_have_functions(capabilities):
            way_out = "Bind them to a text model."
        message = f"this model does not support built-in tools ({_listed(builtin)}). {way_out}"
        yield Finding("error", "not_supported", None, None, message)
    elif run_by_api and functions and not capabilities.combines_builtin_tools_with_functions:
        message = (
            f"this model cannot combine built-in tools ({_listed(run_by_api)}) with functions "
            f"({', '.join(functions)}). Bind only one kind, or use Gemini 3 or later."
        )
        yield Finding("error", "not_combinable", None, None, message)


def _listed(builtin: Sequence[str]) -> str:
    return ", ".join(map(snake, builtin))


def _size_findings(tools: BoundTools) -> Iterator[Finding]:
    """Find what all declarations together cost."""
    count = len(tools.functions)
    tokens = sum(tool.token_estimate for tool in tools)
    if count > MANY_FUNCTIONS:
        message = f"{count} functions are declared; models choose better from fewer."
        yield Finding("warning", "many_tools", None, None, message)
    if tokens > LARGE_SET_TOKENS:
        largest = sorted(tools, key=lambda tool: tool.token_estimate, reverse=True)[:3]
        shown = ", ".join(f"{tool.name} {tool.token_estimate}" for tool in largest)
        message = (
            f"the declarations are about {tokens} tokens, sent with every request (the largest: "
            f"{shown})."
        )
        yield Finding("warning", "large_set", None, None, message)


# One tool


def _tool_findings(tool: Tool, form: SchemaForm) -> Iterator[Finding]:
    """Find problems of one tool, given the form in which its schemas are sent."""
    if tool.is_function:
        yield from _function_findings(tool, form)
    elif tool.name not in BUILTIN_TOOLS:
        message = "this version does not know the built-in tool, and sends it as it is."
        yield Finding("warning", "unknown_builtin", snake(tool.name), None, message)
    for parameter in tool.lost_parameters:
        message = (
            "LangChain's StructuredTool reserves this name, so the value never reaches the tool. "
            "Rename it."
        )
        yield Finding("warning", "reserved_name", tool.name, parameter, message)


@lru_cache(maxsize=1024)
def _function_findings(tool: Tool, form: SchemaForm) -> tuple[Finding, ...]:
    schema = tool.parameters or {}
    sent = loosen_loops(schema) if form == "json_schema" else schema
    return (
        *_name_findings(tool),
        *_parameter_findings(tool.name, schema),
        *_schema_findings(tool.name, sent),
        *_loop_findings(tool.name, schema, sent),
        *_constraint_findings(tool.name, schema, form),
    )


def _name_findings(tool: Tool) -> Iterator[Finding]:
    if not tool.description:
        message = "it has no description, so the model has to guess what it does."
        yield Finding("warning", "no_description", tool.name, None, message)
    if tool.wire_name != tool.name:
        message = f"the API does not accept this name; the model sees {tool.wire_name!r}."
        yield Finding("warning", "renamed", tool.name, None, message)


def _parameter_findings(name: str, schema: JsonSchema) -> Iterator[Finding]:
    """Find parameters whose names the API does not accept."""
    sent: dict[str, str] = {}
    for parameter in parameter_names(schema):
        wire = render_parameter_name(parameter)
        if wire != parameter:
            message = f"the API does not accept this name; the model sees {wire!r}."
            yield Finding("warning", "renamed", name, parameter, message)
        if (other := sent.setdefault(wire, parameter)) != parameter:
            message = f"after renaming, {other!r} has the same name ({wire!r}); rename one of them."
            yield Finding("error", "duplicate_name", name, parameter, message)


def _constraint_findings(name: str, schema: JsonSchema, form: SchemaForm) -> Iterator[Finding]:
    """Find keywords that the model may ignore, each at its first place."""
    first: dict[Keyword, str] = {}
    for part in parts(schema):
        for keyword in keywords_in(part.schema):
            if keyword.sent == "unreliable":
                first.setdefault(keyword, part.path)
    for keyword, path in sorted(first.items()):
        if form == "openapi" and keyword.openapi:
            continue  # the Schema message has a field for it
        message = f"Gemini may ignore {keyword.name!r}; validate this argument yourself."
        yield Finding("warning", "not_enforced", name, path or None, message)


def _schema_findings(name: str, schema: JsonSchema) -> Iterator[Finding]:
    deepest = 0
    for part in parts(schema):
        deepest = max(deepest, part.depth)
        if part.schema.get("enum") == []:
            message = "its enum is empty: no value is valid."
            yield Finding("error", "empty_enum", name, part.path or None, message)
        if missing := part.undescribed:
            names = ", ".join(missing)
            message = f"'required' has keys that 'properties' does not describe: {names}."
            yield Finding("warning", "undescribed_key", name, part.path or None, message)
    if endless := endless_definitions(schema):
        paths = {part.definition: part.path for part in parts(schema)}
        message = "it requires itself without end. Make it optional, or a list."
        for definition in endless:
            yield Finding("error", "endless", name, paths.get(definition, definition), message)
    if deepest > MAX_DEPTH:
        message = f"its schema is {deepest} levels deep; Gemini rejects more than {MAX_DEPTH}."
        yield Finding("error", "too_deep", name, None, message)
    elif deepest > DEEP:
        message = f"its schema is {deepest} levels deep; models fill in flat schemas better."
        yield Finding("warning", "deep", name, None, message)


def _loop_findings(name: str, schema: JsonSchema, sent: JsonSchema) -> Iterator[Finding]:
    """Find required parameters that are sent as optional because they close a loop."""
    for path in _required_paths(schema) - _required_paths(sent) if sent is not schema else ():
        message = (
            "it leads back to itself, which Gemini accepts in optional parameters only. It is sent "
            "as optional, and its description says that it is required. Give it a default, or "
            "validate it yourself."
        )
        yield Finding("warning", "recursive", name, path, message)


def _required_paths(schema: JsonSchema) -> Counter[str]:
    return Counter(
        f"{part.path}.{key}".removeprefix(".")
        for part in parts(schema)
        for key in part.schema.get("required", ())
    )
