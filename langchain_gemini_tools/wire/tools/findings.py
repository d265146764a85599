"""What the API will refuse about a set of tools, and what costs or weakens: found when binding.

The API names `function_declarations[3].parameters.properties[2]`, after the request was sent; here
the tool and the parameter are named before. What only concerns one tool is found once for all tools
that say the same, so that checking bound tools again is cheap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.spelling import snake
from langchain_gemini_tools.wire.schema.references import endless_definitions
from langchain_gemini_tools.wire.schema.render import loosen_loops
from langchain_gemini_tools.wire.tools.names import (
    names_by_wire_name,
    render_parameter_name,
)
from langchain_gemini_tools.wire.tools.parameters import parameter_names
from langchain_gemini_tools.wire.tools.places import parts_of, places_of_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import SchemaForm, Tool

MAX_FUNCTIONS = 512
MAX_DEPTH = 32
"""Levels of a schema. The API has a limit and does not publish it; real schemas stay far below."""
DEEP = 8
MANY_FUNCTIONS = 100
LARGE_SET_TOKENS = 20_000

_IN_SCHEMA_MESSAGE = {"pattern", "minLength", "maxLength", "minProperties", "maxProperties"}
_NOT_ENFORCED = _IN_SCHEMA_MESSAGE | {
    "uniqueItems",
    "multipleOf",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "contains",
    "not",
    "if",
    "allOf",
    "unevaluatedProperties",
    "unevaluatedItems",
}
"""Taken by the API and missing in its list of supported keywords: the model reads them at most.

The reference has one list for every model that takes JSON schemas, so Gemini 2.0, 2.5 and 3 are
warned about alike; nothing recorded tells them apart. Older models take the Schema message instead,
which has fields for some of these (`_IN_SCHEMA_MESSAGE`) and tells the others in words.
"""


_OF_DECLARATIONS = {"renamed", "not_enforced", "recursive"}
"""Codes of findings about what is declared to the API, and not told in words."""


@dataclass(frozen=True)
class Finding:
    """One thing about a tool, or about all of them together."""

    level: Literal["error", "warning"]
    """`error`: the API would refuse the request. `warning`: it costs, or promises too much."""
    code: str
    """One word for it, such as `duplicate_name`."""
    tool: str | None
    """The tool's name; `None` for what concerns the whole set."""
    parameter: str | None
    """Where in the tool's parameters, such as `filters[].tag`."""
    message: str

    def __str__(self) -> str:
        place = f"Tool {self.tool!r}" if self.tool else "The tools"
        if self.parameter:
            place += f", parameter {self.parameter!r}"
        return f"{place}: {self.message}"


def find_problems(
    bound: Sequence[Tool],
    capabilities: Capabilities,
    *,
    by_prompt: bool = False,
    form: SchemaForm | None = None,
) -> list[Finding]:
    """Everything there is to say about bound tools, errors first.

    Args:
        bound: The tools.
        capabilities: What the model takes.
        by_prompt: The functions go as text, where names are free and every limit is checked.
        form: The form in which schemas are sent; by default the best that the model takes.
    """
    found = [*_set_findings(bound, capabilities), *_size_findings(bound)]
    accepts_json_schema = form == "json_schema" if form else capabilities.accepts_json_schema
    for tool in bound:
        found += _tool_findings(tool, accepts_json_schema=accepts_json_schema)
    if by_prompt:
        found = [finding for finding in found if finding.code not in _OF_DECLARATIONS]
    # One tool that is bound twice is declared once.
    return sorted(dict.fromkeys(found), key=lambda finding: finding.level)


def refuse_unusable_tools(bound: Sequence[Tool], capabilities: Capabilities) -> None:
    """Refuse, by name, what the API would refuse by number.

    Raises:
        InvalidToolError: With every error that was found.
    """
    found = [*_set_findings(bound, capabilities)]
    for tool in bound:
        of_tool = _tool_findings(tool, accepts_json_schema=capabilities.accepts_json_schema)
        found += [finding for finding in of_tool if finding.level == "error"]
    if found:
        raise InvalidToolError(" ".join(map(str, dict.fromkeys(found))))


def _set_findings(bound: Sequence[Tool], capabilities: Capabilities) -> Iterator[Finding]:
    """Errors of the tools together."""
    if len(names_by_wire_name(bound)) == len(bound) <= MAX_FUNCTIONS:
        return  # nothing but functions, each with a name of its own
    functions: dict[str, Tool] = {}
    for tool in bound:
        if tool.is_function and functions.setdefault(tool.name, tool) != tool:
            message = "two tools have this name; names have to be different."
            yield Finding("error", "duplicate_name", tool.name, None, message)
    names = list(functions)
    if len(names_by_wire_name(bound)) < len(names):
        message = "two of them have the same name after renaming; rename one."
        yield Finding("error", "duplicate_name", None, None, message)
    if len(names) > MAX_FUNCTIONS:
        message = f"Gemini takes {MAX_FUNCTIONS} functions, and {len(names)} are bound."
        yield Finding("error", "too_many", None, None, message)
    yield from _builtin_findings(bound, names, capabilities)


def _builtin_findings(
    bound: Sequence[Tool], functions: list[str], capabilities: Capabilities
) -> Iterator[Finding]:
    """Errors of tools that run on Google's side, on a model that does not take them so."""
    builtin = [tool for tool in bound if not tool.is_function]
    served = [tool for tool in builtin if not tool.uses_computer]
    if builtin and not capabilities.calls_functions:
        message = (
            f"this model takes no tools of the API ({_keys(builtin)}). Give functions, or use a "
            "Gemini model."
        )
        yield Finding("error", "not_taken", None, None, message)
    elif served and functions and not capabilities.combines_builtin_tools_with_functions:
        message = (
            f"this model takes built-in tools ({_keys(served)}) and functions "
            f"({', '.join(functions)}) only apart. Bind one kind, or use gemini-3 or later."
        )
        yield Finding("error", "not_together", None, None, message)


def _keys(builtin: Sequence[Tool]) -> str:
    return ", ".join(snake(tool.name) for tool in builtin)


def _size_findings(bound: Sequence[Tool]) -> Iterator[Finding]:
    """Warnings about what all declarations cost together, with numbers."""
    names = [tool.name for tool in bound if tool.is_function]
    tokens = sum(tool.token_estimate for tool in bound)
    if len(names) > MANY_FUNCTIONS:
        message = f"{len(names)} functions are declared; models choose better among few."
        yield Finding("warning", "many_tools", None, None, message)
    if tokens > LARGE_SET_TOKENS:
        largest = sorted(bound, key=lambda tool: tool.token_estimate, reverse=True)[:3]
        shown = ", ".join(
            f"{tool.name} {tool.token_estimate}" for tool in largest if tool.is_function
        )
        message = (
            f"the declarations are about {tokens} tokens, sent with every request (the largest: "
            f"{shown})."
        )
        yield Finding("warning", "large_set", None, None, message)


def _tool_findings(tool: Tool, *, accepts_json_schema: bool) -> Iterator[Finding]:
    """What there is to say about one tool, in the form of schemas that is sent."""
    if tool.is_function:
        yield from _findings_in(tool, accepts_json_schema=accepts_json_schema)
    for parameter in tool.lost_parameters:
        message = (
            "LangChain's StructuredTool keeps this name for itself: it never reaches the tool."
        )
        yield Finding("warning", "swallowed", tool.name, parameter, message)


@lru_cache(maxsize=1024)
def _findings_in(tool: Tool, *, accepts_json_schema: bool) -> tuple[Finding, ...]:
    return tuple(_function_findings(tool, accepts_json_schema))


def _function_findings(
    tool: Tool,
    accepts_json_schema: bool,  # noqa: FBT001
) -> Iterator[Finding]:
    name = tool.name
    if not tool.description:
        message = "it has no description, so the model has to guess what it does."
        yield Finding("warning", "no_description", name, None, message)
    if tool.wire_name != name:
        message = f"the API does not take this name; the model sees {tool.wire_name!r}."
        yield Finding("warning", "renamed", name, None, message)
    schema = tool.parameters or {}
    yield from _parameter_findings(name, schema)
    sent = loosen_loops(schema) if accepts_json_schema else schema
    yield from _schema_findings(name, sent)
    yield from _loop_findings(name, schema, sent)
    yield from _constraint_findings(name, schema, accepts_json_schema=accepts_json_schema)


def _parameter_findings(name: str, schema: Mapping[str, Any]) -> Iterator[Finding]:
    """What becomes of parameters whose names the API does not take."""
    sent: dict[str, str] = {}
    for parameter in parameter_names(schema):
        wire = render_parameter_name(parameter)
        if wire != parameter:
            message = f"the API does not take this name; the model sees {wire!r}."
            yield Finding("warning", "renamed", name, parameter, message)
        if (other := sent.setdefault(wire, parameter)) != parameter:
            message = f"after renaming, {other!r} has the same name ({wire!r}); rename one."
            yield Finding("error", "duplicate_name", name, parameter, message)


def _constraint_findings(
    name: str, schema: Mapping[str, Any], *, accepts_json_schema: bool
) -> Iterator[Finding]:
    """Warnings about what a schema says and a model need not follow, once for each keyword."""
    ignored: dict[str, str] = {}
    for part in parts_of(schema):
        for keyword in _NOT_ENFORCED & part.schema.keys():
            ignored.setdefault(keyword, part.path)
    for keyword, path in sorted(ignored.items()):
        if accepts_json_schema:
            message = f"{keyword!r} is sent, but Gemini does not promise to follow it: check it."
        elif keyword not in _IN_SCHEMA_MESSAGE:
            message = f"this model is told of {keyword!r} in words only: check it."
        else:
            continue
        yield Finding("warning", "not_enforced", name, path or None, message)


def _schema_findings(name: str, schema: Mapping[str, Any]) -> Iterator[Finding]:
    deepest = 0
    for part in parts_of(schema):
        deepest = max(deepest, part.depth)
        if part.schema.get("enum") == []:
            message = "its enum allows no value at all."
            yield Finding("error", "empty_enum", name, part.path or None, message)
        if missing := part.undescribed:
            message = f"{', '.join(missing)} is required and not described."
            yield Finding("warning", "undescribed_key", name, part.path or None, message)
    if endless := endless_definitions(schema):
        places = places_of_definitions(schema)
        message = "it has to hold itself, without end. Make it optional, or a list."
        for definition in endless:
            place = places.get(definition, definition)
            yield Finding("error", "endless", name, place, message)
    if deepest > MAX_DEPTH:
        message = f"its schema is {deepest} levels deep; Gemini refuses more than {MAX_DEPTH}."
        yield Finding("error", "too_deep", name, None, message)
    elif deepest > DEEP:
        message = f"its schema is {deepest} levels deep; models fill flat schemas better."
        yield Finding("warning", "deep", name, None, message)


def _loop_findings(
    name: str, schema: Mapping[str, Any], sent: Mapping[str, Any]
) -> Iterator[Finding]:
    """What is required and sent as optional, since it closes a loop; see `loops`."""
    for path in _required_places(schema) - _required_places(sent) if sent is not schema else ():
        message = (
            "it leads back to itself, and Gemini takes that in optional parameters only: it is "
            "sent as optional, with a word that it is not. Give it a default, or check it."
        )
        yield Finding("warning", "recursive", name, path, message)


def _required_places(schema: Mapping[str, Any]) -> Counter[str]:
    return Counter(
        f"{part.path}.{key}".removeprefix(".")
        for part in parts_of(schema)
        for key in part.schema.get("required", ())
    )
