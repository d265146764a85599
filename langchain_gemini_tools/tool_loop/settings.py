"""The tools and options of a loop, checked once, and the decisions of an approval hook."""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.utils.pydantic import get_fields
from pydantic.fields import FieldInfo

from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError

if TYPE_CHECKING:
    from pydantic import BaseModel

LoopTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""A tool that the loop runs, or a dict that declares a tool which the provider runs."""

ChatModel = Runnable[Any, Any]
"""A chat model, or a binding or fallbacks of chat models."""

OnLimit = Literal["raise", "return", "answer"]

DEFAULT_TIMEOUT = 30.0

_REPEATABLE_KEYS = ("idempotent", "idempotentHint", "readOnlyHint")


@dataclass(frozen=True)
class Reject:
    """Do not run the call; report the rejection and its reason to the model."""

    reason: str | None = None


@dataclass(frozen=True)
class Edit:
    """Run the call with these arguments instead of the model's."""

    args: dict[str, Any]

    def __post_init__(self) -> None:
        """Check the type: other values would run the tool with unintended arguments."""
        if not isinstance(self.args, dict):
            raise TypeError(f"Edit needs a dict of all arguments, not {type(self.args).__name__}.")


@dataclass(frozen=True)
class Pause:
    """Stop the run before the calls of this turn, so that another run can continue it later."""


Decision = bool | Reject | Edit | Pause
"""What an approval hook returns: `True` runs the call, `False` rejects it without a reason."""

Approver = Callable[[ToolCall], Decision | Awaitable[Decision]]


@dataclass(frozen=True)
class Toolbox:
    """The tools of a loop.

    Attributes:
        declared: The tools that are bound to the model.
        tools: The tools that the loop runs, by name.
        hidden: For each tool, the arguments that the model does not see and cannot set.
    """

    declared: list[LoopTool] = field(default_factory=list)
    tools: dict[str, BaseTool] = field(default_factory=dict)
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)

    def names(self) -> str:
        """Return the names as a list for a sentence."""
        return ", ".join(map(repr, self.tools)) or "none"


def collect_tools(tools: Sequence[LoopTool], injected: Mapping[str, object]) -> Toolbox:
    """Collect the tools by name.

    Raises:
        InvalidToolError: A tool cannot be run, two tools have the same name, or an argument has to
            be injected and is not in `injected`.
    """
    if isinstance(tools, str | Mapping | BaseTool | type) or not isinstance(tools, Iterable):
        raise InvalidToolError(
            f"tools must be a list, not {type(tools).__name__}. Put a single tool into a list."
        )
    box = Toolbox()
    for given in tools:
        if isinstance(given, dict):
            _reject_declaration(given)
            box.declared.append(given)
            continue
        tool = _as_tool(given)
        if tool.name in box.tools:
            raise InvalidToolError(f"Two tools are named {tool.name!r}. Rename one of them.")
        box.declared.append(tool)
        box.tools[tool.name] = tool
        box.hidden[tool.name] = _hidden_arguments(tool, injected)
    return box


def runs_async(tool: BaseTool) -> bool:
    """Return whether async code awaits the tool; a tool class can say so with `is_async`."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return bool(getattr(tool, "is_async", has_async_hook(tool)))


def runs_sync(tool: BaseTool) -> bool:
    """Return whether the tool has a sync implementation, as far as it declares one."""
    if hasattr(tool, "coroutine"):
        return getattr(tool, "func", None) is not None
    return not getattr(tool, "is_async", False)


def has_async_hook(tool: BaseTool) -> bool:
    """Return whether the tool's class implements `_arun`; its `_run` may be missing."""
    overrides = type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - tools override it
    return overrides and not hasattr(tool, "coroutine")


def exponential_backoff(attempt: int) -> float:
    """Return 0.5 s after the first failure, doubled each time up to 8 s, with jitter."""
    return min(8.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass(frozen=True)
class Settings:
    """The options of a `ToolLoop` and its tools. They are documented at `ToolLoop`."""

    box: Toolbox
    max_turns: int
    tool_timeout: float | Mapping[str, float | None] | None
    max_concurrency: int
    on_limit: OnLimit
    forced_first: bool | str
    approve: Mapping[str, Approver]
    repeatable: Collection[str]
    max_retries: int
    backoff: Callable[[int], float]
    max_output_chars: int | None
    cache: bool | Collection[str]
    inject: Mapping[str, object] = field(repr=False)  # may contain secrets
    hold_back: int | None

    def __post_init__(self) -> None:
        """Check every option."""
        for name in ("max_turns", "max_concurrency"):
            self._check(name, _is_integer(getattr(self, name)), "must be an integer")
            self._check(name, getattr(self, name) >= 1, "must be at least 1")
        self._check("max_retries", _is_integer(self.max_retries), "must be an integer")
        for name in ("max_output_chars", "hold_back"):
            value = getattr(self, name)
            self._check(name, value is None or _is_integer(value), "must be an integer or None")
        for name in ("max_retries", "max_output_chars", "hold_back"):
            value = getattr(self, name)
            self._check(name, value is None or value >= 0, "must not be negative")
        known = ("raise", "return", "answer")
        self._check("on_limit", self.on_limit in known, f"must be one of {', '.join(known)}")
        self._check("backoff", callable(self.backoff), "must be a function")
        if not isinstance(self.inject, Mapping):  # the value itself may be secret
            kind = type(self.inject).__name__
            raise InvalidOptionError(
                f"inject must be a dict of argument names to values, not {kind}."
            )
        self._check_timeouts()
        self._check_approve()
        self._check_names("repeatable", self.repeatable)
        if not isinstance(self.cache, bool):
            is_names = isinstance(self.cache, Collection)
            self._check("cache", is_names, "must be True, False or tool names")
            self._check_names("cache", self.cache)
        self._check_forced_first()

    def timeout_of(self, name: str) -> float | None:
        """Return how many seconds an attempt of this tool may take."""
        if isinstance(self.tool_timeout, Mapping):
            return self.tool_timeout.get(name, DEFAULT_TIMEOUT)
        return self.tool_timeout

    def retries_of(self, tool: BaseTool) -> int:
        """Return how often a failed call of this tool is retried."""
        return self.max_retries if tool.name in self.repeatable or _is_repeatable(tool) else 0

    def is_cached(self, name: str) -> bool:
        """Return whether results of this tool are reused within a run."""
        return self.cache if isinstance(self.cache, bool) else name in self.cache

    def _check_timeouts(self) -> None:
        timeouts = self.tool_timeout
        each = timeouts.values() if isinstance(timeouts, Mapping) else [timeouts]
        numbers = [seconds for seconds in each if seconds is not None]
        self._check(
            "tool_timeout",
            all(isinstance(seconds, Real) and not isinstance(seconds, bool) for seconds in numbers),
            "must be seconds, None for no limit, or a dict of tool names to these",
        )
        is_positive = all(seconds > 0 for seconds in numbers)
        self._check("tool_timeout", is_positive, "must be positive, or None for no limit")
        if isinstance(timeouts, Mapping):
            self._check_names("tool_timeout", timeouts)

    def _check_approve(self) -> None:
        hooks = self.approve
        is_valid = isinstance(hooks, Mapping) and all(map(callable, hooks.values()))
        self._check("approve", is_valid, "must be a dict of tool names to functions")
        self._check_names("approve", hooks)

    def _check_forced_first(self) -> None:
        is_valid = isinstance(self.forced_first, bool | str)
        self._check("forced_first", is_valid, "must be True, False or the name of a tool")
        if isinstance(self.forced_first, str):
            self._check_names("forced_first", [self.forced_first])
        if self.forced_first and not self.box.declared:
            raise InvalidOptionError("forced_first needs at least one tool. Pass `tools`.")

    def _check(self, name: str, is_valid: bool, rule: str) -> None:  # noqa: FBT001
        if not is_valid:
            raise InvalidOptionError(f"{name}={getattr(self, name)!r} is not valid: it {rule}.")

    def _check_names(self, option: str, names: Collection[str]) -> None:
        if isinstance(names, str) or not isinstance(names, Collection):
            raise InvalidOptionError(
                f"{option}={names!r} is not valid: pass a set or a list of tool names."
            )
        if unknown := [name for name in names if name not in self.box.tools]:
            raise InvalidOptionError(
                f"{option} names an unknown tool: {', '.join(map(repr, unknown))}. "
                f"Tools: {self.box.names()}."
            )


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_repeatable(tool: BaseTool) -> bool:
    """Return whether the metadata or extras of a tool declare it as safe to repeat."""
    declared = {**(tool.metadata or {}), **(tool.extras or {})}
    return any(declared.get(key) is True for key in _REPEATABLE_KEYS)


def _as_tool(given: object) -> BaseTool:
    if isinstance(given, BaseTool):
        return given
    if isinstance(given, type):
        raise InvalidToolError(
            f"{given.__name__!r} is a schema and cannot be run. Pass a function or a LangChain "
            "tool; for answers that follow a schema use `with_structured_output`."
        )
    if not (inspect.isfunction(given) or inspect.ismethod(given) or inspect.isbuiltin(given)):
        raise InvalidToolError(
            f"A {type(given).__name__} is not a tool. Pass a function or a LangChain tool; convert "
            "a runnable with `.as_tool()`, another callable with `StructuredTool.from_function`."
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
        raise InvalidToolError(
            f"Function {given.__name__!r} cannot be used as a tool: {error}"
        ) from error


def _reject_declaration(given: dict[str, Any]) -> None:
    """Raise if a dict declares a function, because the loop has no code to run for it.

    A tool that the provider runs has no name (`{"google_search": {}}`) or a special type
    (`{"type": "web_search_20250305", "name": "web_search"}`).
    """
    function = given.get("function")
    described = function if isinstance(function, dict) else given
    kind = given.get("type")
    if kind == "function" or (kind in (None, "custom") and "name" in described):
        raise InvalidToolError(
            f"Tool {described.get('name')!r} is only a declaration and cannot be run. Pass a "
            "function or a LangChain tool of that name. (Dicts declare tools that the provider "
            "runs, such as {'google_search': {}}.)"
        )


def _hidden_arguments(tool: BaseTool, injected: Mapping[str, object]) -> frozenset[str]:
    """Return the arguments that the model does not see, after checking that each has a value."""
    if isinstance(tool.args_schema, dict):
        return frozenset()
    visible = get_fields(cast("type[BaseModel]", tool.tool_call_schema))
    fields: dict[str, Any] = {**get_fields(cast("type[BaseModel]", tool.get_input_schema()))}
    hidden = {name: info for name, info in fields.items() if name not in visible}
    for name, info in hidden.items():
        aliases = (info.alias, getattr(info, "validation_alias", None))
        if any(alias not in (None, name) for alias in aliases):
            raise InvalidToolError(
                f"Tool {tool.name!r}: the injected argument {name!r} has an alias, through which "
                "the model could set it. Remove the alias."
            )
        required = info.is_required() if isinstance(info, FieldInfo) else info.required
        if required and name not in injected and not _is_call_id(info):
            raise InvalidToolError(
                f"Tool {tool.name!r}: the argument {name!r} has to be injected. Pass "
                f"`inject={{{name!r}: ...}}`; a state, store or runtime of a graph needs "
                "`create_agent` or LangGraph."
            )
    return frozenset(hidden)


def _is_call_id(info: Any) -> bool:
    marks = getattr(info, "metadata", ())
    return any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in marks)
