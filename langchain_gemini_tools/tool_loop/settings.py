"""The options of a loop, checked once, and what an approval hook may answer."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import ToolCall

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop.toolbox import is_repeatable

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.tool_loop.toolbox import Toolbox

OnLimit = Literal["raise", "return", "answer"]

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Reject:
    """The call is not run; the model is told so, with the reason."""

    reason: str | None = None


@dataclass(frozen=True)
class Edit:
    """The call is run with other arguments: with these, and none of the model's."""

    args: dict[str, Any]

    def __post_init__(self) -> None:
        """Refuse at once what would run with other arguments than were meant."""
        if not isinstance(self.args, dict):
            raise TypeError(
                f"Edit takes a dict of all arguments, not a {type(self.args).__name__}."
            )


@dataclass(frozen=True)
class Pause:
    """Nobody can decide now: the run stops before this turn's calls, and can be taken up later."""


Decision = bool | Reject | Edit | Pause
"""What an approval hook answers: `True` runs the call, `False` denies it."""

Approver = Callable[[ToolCall], Decision | Awaitable[Decision]]


def wait_longer_each_time(attempt: int) -> float:
    """Half a second after the first failure, then twice as long each time, up to eight seconds."""
    return min(8.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass(frozen=True)
class Settings:
    """Everything that `ToolLoop` was told, besides the model. Its docstring has the meanings."""

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
    inject: Mapping[str, Any] = field(repr=False)  # often what nobody else may see
    hold_back: int | None

    def __post_init__(self) -> None:
        """Refuse what cannot work, by its name."""
        for name in ("max_turns", "max_concurrency"):
            self._check(name, _is_whole(getattr(self, name)), "has to be a whole number")
            self._check(name, getattr(self, name) >= 1, "has to be at least 1")
        self._check("max_retries", _is_whole(self.max_retries), "has to be a whole number")
        for name in ("max_output_chars", "hold_back"):
            value = getattr(self, name)
            is_whole = value is None or _is_whole(value)
            self._check(name, is_whole, "has to be a whole number, or None")
        for name in ("max_retries", "max_output_chars", "hold_back"):
            value = getattr(self, name)
            self._check(name, value is None or value >= 0, "may not be negative")
        known = ("raise", "return", "answer")
        self._check("on_limit", self.on_limit in known, f"has to be one of {', '.join(known)}")
        self._check("backoff", callable(self.backoff), "has to be a function")
        if not isinstance(self.inject, Mapping):  # which is shown nowhere
            kind = type(self.inject).__name__
            raise InvalidOptionError(
                f"inject has to be a dict of values by argument; it is a {kind}."
            )
        self._check_timeouts()
        self._check_approve()
        self._check_names("repeatable", self.repeatable)
        if not isinstance(self.cache, bool):
            is_names = isinstance(self.cache, Collection)
            self._check("cache", is_names, "has to be True, False or names of tools")
            self._check_names("cache", self.cache)
        self._check_forced_first()

    def _check_timeouts(self) -> None:
        timeouts = self.tool_timeout
        each = timeouts.values() if isinstance(timeouts, Mapping) else [timeouts]
        numbers = [seconds for seconds in each if seconds is not None]
        self._check(
            "tool_timeout",
            all(isinstance(seconds, Real) and not isinstance(seconds, bool) for seconds in numbers),
            "has to be seconds, None for no limit, or a dict of these by tool name",
        )
        is_positive = all(seconds > 0 for seconds in numbers)
        self._check("tool_timeout", is_positive, "has to be positive, or None for no limit")
        if isinstance(timeouts, Mapping):
            self._check_names("tool_timeout", timeouts)

    def _check_approve(self) -> None:
        hooks = self.approve
        is_good = isinstance(hooks, Mapping) and all(map(callable, hooks.values()))
        self._check("approve", is_good, "has to be a dict of functions by tool name")
        self._check_names("approve", hooks)

    def _check_forced_first(self) -> None:
        is_good = isinstance(self.forced_first, bool | str)
        self._check("forced_first", is_good, "has to be True, False or the name of a tool")
        if isinstance(self.forced_first, str):
            self._check_names("forced_first", [self.forced_first])
        if self.forced_first and not self.box.declared:
            raise InvalidOptionError("forced_first needs tools: there is nothing to call.")

    def timeout_of(self, name: str) -> float | None:
        """The seconds that a call of this tool may take."""
        if isinstance(self.tool_timeout, Mapping):
            return self.tool_timeout.get(name, DEFAULT_TIMEOUT)
        return self.tool_timeout

    def retries_of(self, tool: BaseTool) -> int:
        """How often a failed call of this tool is repeated."""
        return self.max_retries if tool.name in self.repeatable or is_repeatable(tool) else 0

    def is_cached(self, name: str) -> bool:
        """Whether results of this tool are used again within a run."""
        return self.cache if isinstance(self.cache, bool) else name in self.cache

    def _check(self, name: str, is_good: bool, rule: str) -> None:  # noqa: FBT001
        if not is_good:
            raise InvalidOptionError(f"{name}={getattr(self, name)!r}: it {rule}.")

    def _check_names(self, option: str, names: Collection[str]) -> None:
        if isinstance(names, str) or not isinstance(names, Collection):
            raise InvalidOptionError(f"{option}={names!r}: give a set or a list of names.")
        if unknown := [name for name in names if name not in self.box.tools]:
            raise InvalidOptionError(
                f"{option} names {', '.join(map(repr, unknown))}, which is none of the tools. "
                f"Tools: {self.box.names()}."
            )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
