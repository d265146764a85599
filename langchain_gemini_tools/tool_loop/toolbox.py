"""The tools of a loop: what is bound to the model, what is run here, and what each allows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.utils.pydantic import get_fields
from pydantic.fields import FieldInfo

from langchain_gemini_tools.errors import InvalidToolError

if TYPE_CHECKING:
    from pydantic import BaseModel

LoopTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""A tool to run, or a dict that declares a tool which the provider runs."""

_SCHEMA_KEYS = {"parameters", "input_schema", "inputSchema", "parametersJsonSchema"}
_REPEATABLE_KEYS = ("idempotent", "idempotentHint", "readOnlyHint")


@dataclass(frozen=True)
class Toolbox:
    """Tools by name.

    Attributes:
        declared: What the model is told about.
        tools: What is run here.
        hidden: For each tool, the arguments that the model does not see and may not set.
    """

    declared: list[Any] = field(default_factory=list)
    tools: dict[str, BaseTool] = field(default_factory=dict)
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)

    def names(self) -> str:
        """The names for a sentence."""
        return ", ".join(map(repr, self.tools)) or "none"


def collect_tools(tools: Sequence[LoopTool], injected: Mapping[str, Any]) -> Toolbox:
    """The tools by name, or a refusal that names the tool.

    Raises:
        InvalidToolError: Something that cannot be run, two tools of one name, or an argument that
            has to be injected and is not in `injected`.
    """
    box = Toolbox()
    for given in tools:
        if isinstance(given, dict):
            _refuse_schema(given)
            box.declared.append(given)
            continue
        tool = _as_tool(given)
        if tool.name in box.tools:
            raise InvalidToolError(f"Two tools are named {tool.name!r}. Rename one of them.")
        box.declared.append(tool)
        box.tools[tool.name] = tool
        box.hidden[tool.name] = _hidden_arguments(tool, injected)
    return box


def is_repeatable(tool: BaseTool) -> bool:
    """Whether the tool declares itself safe to repeat, in its metadata or extras."""
    declared = {**(tool.metadata or {}), **(tool.extras or {})}
    return any(declared.get(key) is True for key in _REPEATABLE_KEYS)


def runs_async(tool: BaseTool) -> bool:
    """Whether the tool is to be awaited in async code; `is_async` is how a class may say it."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return bool(getattr(tool, "is_async", has_async_hook(tool)))


def runs_sync(tool: BaseTool) -> bool:
    """Whether the tool has a sync form of its own, as far as it tells."""
    if hasattr(tool, "coroutine"):
        return getattr(tool, "func", None) is not None
    return not getattr(tool, "is_async", False)


def has_async_hook(tool: BaseTool) -> bool:
    """Whether the tool is of a class that has an async form; a sync one may be missing in it."""
    overrides = type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - tools override it
    return overrides and not hasattr(tool, "coroutine")


def _as_tool(given: Any) -> BaseTool:
    if isinstance(given, BaseTool):
        return given
    if isinstance(given, type):
        raise InvalidToolError(
            f"{given.__name__!r} is a schema: there is nothing to run. Give a function or a "
            "LangChain tool; for answers in a schema there is `with_structured_output`."
        )
    if not (inspect.isfunction(given) or inspect.ismethod(given) or inspect.isbuiltin(given)):
        raise InvalidToolError(
            f"A {type(given).__name__} is no tool. Give a function or a LangChain tool; a runnable "
            "becomes one with `.as_tool()`, another callable with `StructuredTool.from_function`."
        )
    is_async = inspect.iscoroutinefunction(given)
    try:
        return StructuredTool.from_function(
            func=None if is_async else given,
            coroutine=given if is_async else None,
            parse_docstring=True,
            error_on_invalid_docstring=False,
        )
    except ValueError as error:
        raise InvalidToolError(f"Function {given.__name__!r} is no tool yet: {error}") from error


def _refuse_schema(given: dict[str, Any]) -> None:
    """Refuse the declaration of a function: nothing says how to run it."""
    function = given.get("function")
    described = function if isinstance(function, dict) else given
    if given.get("type") == "function" or ("name" in described and described.keys() & _SCHEMA_KEYS):
        raise InvalidToolError(
            f"Tool {described.get('name')!r} is a declaration: there is nothing to run. Give a "
            "function or a LangChain tool of that name. (Dicts are for tools which the provider "
            "runs, such as {'google_search': {}}.)"
        )


def _hidden_arguments(tool: BaseTool, injected: Mapping[str, Any]) -> frozenset[str]:
    """The arguments that the model does not see; each one has to come from somewhere."""
    if isinstance(tool.args_schema, dict):
        return frozenset()
    visible = get_fields(cast("type[BaseModel]", tool.tool_call_schema))
    fields: dict[str, Any] = {**get_fields(cast("type[BaseModel]", tool.get_input_schema()))}
    hidden = {name: info for name, info in fields.items() if name not in visible}
    for name, info in hidden.items():
        aliases = (info.alias, getattr(info, "validation_alias", None))
        if any(alias not in (None, name) for alias in aliases):
            raise InvalidToolError(
                f"Tool {tool.name!r} takes {name!r}, which is injected, under an alias too. By it "
                "the model could set it: remove the alias."
            )
        required = info.is_required() if isinstance(info, FieldInfo) else info.required
        if required and name not in injected and not _is_call_id(info):
            raise InvalidToolError(
                f"Tool {tool.name!r} wants {name!r} injected. Give it as "
                f"`inject={{{name!r}: ...}}`; what only a graph has (state, store, runtime) "
                "needs `create_agent` or LangGraph."
            )
    return frozenset(hidden)


def _is_call_id(info: Any) -> bool:
    marks = getattr(info, "metadata", ())
    return any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in marks)
