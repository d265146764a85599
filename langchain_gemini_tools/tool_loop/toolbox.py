"""The tools of a loop, and the messages that the model gets from them.

Messages are results, cut to size, and errors that the model can act on. An error often quotes its
cause, and the model reads it. So credentials and the values that are injected into tools are
removed from errors. A result is the tool's own decision and stays as it is.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, cast, get_args
from uuid import UUID

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import Runnable
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
)
from langchain_core.utils.pydantic import get_fields
from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.v1 import ValidationError as ValidationErrorV1

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.credentials import (
    MIN_LENGTH,
    REDACTED,
    forms,
    quoted_forms,
    redact,
    secrets_in_use,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import InvalidToolCall, ToolCall

LoopTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""A tool that the loop runs, or a dict that declares a tool which the provider runs."""

_REPEATABLE_KEYS = ("idempotent", "idempotentHint", "readOnlyHint")


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


def is_repeatable(tool: BaseTool) -> bool:
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
    if isinstance(given, Runnable) or not (callable(given) and hasattr(given, "__name__")):
        raise InvalidToolError(
            f"An object of type {type(given).__name__} is not a tool. Pass a function or a "
            "LangChain tool; convert a runnable with `.as_tool()`. For another callable, write a "
            "function that calls it."
        )
    is_async = inspect.iscoroutinefunction(given)
    try:
        _reject_unusable(given)
        return StructuredTool.from_function(
            func=None if is_async else given,
            coroutine=given if is_async else None,
            parse_docstring=True,
            error_on_invalid_docstring=False,
        )
    except (NameError, TypeError, ValueError, PydanticUserError) as error:
        raise InvalidToolError(
            f"Function {given.__name__!r} cannot be used as a tool: {error}"
        ) from error


def _reject_unusable(function: Callable[..., Any]) -> None:
    """Raise if LangChain cannot pass a function's arguments, or would return its generator."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError("it is a generator. Return the whole result instead.")
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ValueError(
                f"it does not accept {name!r} by name. Remove the `/`, or write a function that "
                "calls it."
            )


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
    fields: dict[str, Any] = {**get_fields(cast("type[BaseModel]", tool.get_input_schema()))}
    try:
        visible = {*get_fields(cast("type[BaseModel]", tool.tool_call_schema))}
    except ValueError:  # LangChain cannot copy a class of Pydantic 1 in which a field has a limit
        visible = {name for name, info in fields.items() if not _is_marked(info.annotation)}
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


def _is_marked(annotation: object) -> bool:
    return any(
        isinstance(mark, InjectedToolArg)
        or (inspect.isclass(mark) and issubclass(mark, InjectedToolArg))
        for mark in get_args(annotation)[1:]
    )


def _is_call_id(info: Any) -> bool:
    marks = getattr(info, "metadata", ())
    return any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in marks)


# Messages

_MIN_LENGTH = 4  # shorter values are not secrets
_MAX_CHARACTERS = 16_384  # of all values; the longest are data, with too many forms to keep
_MAX_VALUES = 1_000  # an object with more values is data, and each value costs a search
# Pydantic quotes the whole input and cuts it in the middle, which may leave half a secret.
_QUOTED_INPUT = re.compile(r"input_value=.*(?=, input_type=)")


def render_result(
    output: object, call: ToolCall, limit: int | None, injected: Mapping[str, object]
) -> ToolMessage:
    """Render the output of a tool as the message for its call; redact it if it is an error.

    Raises:
        InvalidToolError: The output cannot be sent to a model.
    """
    match output:
        case ToolMessage() as message:
            pass
        case [ToolMessage() as message]:
            pass
        case [ToolOutputMixin(), *_] | ToolOutputMixin():
            kind = type(output[0] if isinstance(output, list) else output).__name__
            raise InvalidToolError(
                f"Tool {call['name']!r} returned a {kind}, or several results for one call, which "
                "only a graph supports. Return the content itself, or run this tool in "
                "`create_agent` or LangGraph."
            )
        case _:
            raise InvalidToolError(
                f"Tool {call['name']!r}: `invoke` returned an object of type "
                f"{type(output).__name__} instead of a ToolMessage. If the tool overrides "
                "`invoke`, override `_run` instead."
            )
    # A tool that builds its own message may have used the id of another call.
    message = message.model_copy(update={"tool_call_id": call["id"], "name": call["name"]})
    if message.status == "error":
        redacted = _redact_content(message.content, injected)
        message = message.model_copy(update={"content": redacted})
    return _truncate(message, limit)


def render_error(call: ToolCall, text: str, limit: int | None = None) -> ToolMessage:
    """Render the message for a call that has no result."""
    message = ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
    return _truncate(message, limit)


def render_failure(
    error: BaseException, tool: BaseTool, hidden: Collection[str], injected: Mapping[str, object]
) -> str:
    """Describe the failure of a tool without credentials and injected values.

    Args:
        error: The tool's exception.
        tool: The tool.
        hidden: Its arguments that the model does not see.
        injected: The injected values.
    """
    if isinstance(error, ToolException):
        return _redact(_text_of(error), injected) or "The tool failed without an explanation."
    if isinstance(error, ValidationError | ValidationErrorV1) and is_about_arguments(error, tool):
        problems = [
            _render_problem(found, hidden, injected)
            for found in error.errors()
            if found["loc"][:1] not in [(name,) for name in hidden]
        ]
        if problems:
            return f"Invalid arguments for {tool.name!r}: {'; '.join(problems)}. Correct them."
        # All problems are with injected values, which the error would show to the model.
        return f"Tool {tool.name!r} failed: a value that the application injects is not valid."
    return f"Tool {tool.name!r} failed: {_describe(error, injected)}"


def is_about_arguments(error: BaseException, tool: BaseTool) -> bool:
    """Return whether a validation error is about the call's arguments, not raised inside a tool."""
    if isinstance(error, ValidationErrorV1):
        return error.model is tool.args_schema
    # Not the name of the class: a schema may have a title.
    validator = getattr(tool.get_input_schema(), "__pydantic_validator__", None)
    return isinstance(error, ValidationError) and error.title == getattr(validator, "title", None)


def render_unreadable(call: InvalidToolCall) -> str:
    """Describe a call whose arguments could not be parsed."""
    reason = f" ({call['error']})" if call.get("error") else ""
    return (
        f"Not executed: the arguments of this call could not be parsed{reason}. Call the tool "
        "again with one JSON object as its arguments."
    )


def _describe(error: BaseException, injected: Mapping[str, object]) -> str:
    """Return type and message of an error; of a group, those of its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_describe(one, injected) for one in error.exceptions)
    text = " ".join(_redact(_text_of(error), injected).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the `__str__` of an unknown exception may fail
        return ""


def _render_problem(found: Any, hidden: Collection[str], injected: Mapping[str, object]) -> str:
    path = ".".join(map(str, found["loc"])) or "arguments"
    is_missing = found["type"] in ("missing", "value_error.missing")
    given = "" if is_missing else _render_given(found, hidden, injected)
    return _redact(f"{path}: {found['msg']}", injected) + given


def _render_given(found: Any, hidden: Collection[str], injected: Mapping[str, object]) -> str:
    if "input" not in found:
        return ""
    value = found["input"]
    if not found["loc"] and hidden:  # about all arguments together, including the hidden ones
        if not isinstance(value, dict):
            return ""
        value = {name: item for name, item in value.items() if name not in hidden}
    shown = _redact(repr(value), injected)
    return f" (given: {shown if len(shown) <= 100 else shown[:100] + '…'})"


def _truncate(message: ToolMessage, limit: int | None) -> ToolMessage:
    """Cut the text of a message at the limit and append a notice."""
    total = len(str(message.text))
    if limit is None or total <= limit:
        return message
    notice = f"\n[Truncated: these are the first {limit} of {total} characters.]"
    if isinstance(message.content, str):
        return message.model_copy(update={"content": message.content[:limit] + notice})
    left, blocks = limit, []
    for block in message.content:
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str):
            kept, left = text[:left], max(0, left - len(text))
            if not kept:
                continue
            block = kept if isinstance(block, str) else {**block, "text": kept}  # noqa: PLW2901
        blocks.append(block)
    return message.model_copy(update={"content": [*blocks, {"type": "text", "text": notice}]})


def _redact(text: str, injected: Mapping[str, object]) -> str:
    """Remove credentials, and injected values in any form in which errors quote them."""
    if not injected:
        return redact(text, secrets_in_use())
    text = _QUOTED_INPUT.sub(f"input_value={REDACTED}", text)
    values = sorted(_texts(injected.values()), key=lambda value: (len(value), value))
    count = sum(total <= _MAX_CHARACTERS for total in accumulate(map(len, values)))
    for value in reversed(values[count:]):
        for form in quoted_forms(value):
            text = text.replace(form, REDACTED)
    text = redact(text, [*secrets_in_use(), *values[:count]])
    for form in forms([value for value in values if len(value) < MIN_LENGTH], _MIN_LENGTH):
        if form in text:  # short: as a whole word only
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", REDACTED, text)
    return text


def _redact_content(content: Any, injected: Mapping[str, object]) -> Any:
    """Redact the text of a message's content, or of one of its blocks."""
    match content:
        case str():
            return _redact(content, injected)
        case list():
            return [_redact_content(block, injected) for block in content]
        case {"text": str(text)}:
            return {**content, "text": _redact(text, injected)}
    return content


def _texts(values: Iterable[object]) -> set[str]:
    """Return every string in the values, and numbers and UUIDs as strings."""
    waiting, found = deque(values), set[str]()
    seen: dict[int, object] = {}  # keeps the values alive, so that no id is reused
    while waiting and len(seen) < _MAX_VALUES:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        with suppress(Exception):  # an unknown object may fail, or be too long to convert
            if isinstance(value, str):
                found.add(value.strip())
            elif isinstance(value, int | UUID) and not isinstance(value, bool):
                found.add(str(value))
            elif isinstance(value, bytes | bytearray):
                found.add(repr(bytes(value))[2:-1])
            else:
                waiting.extend(islice(_members(value), _MAX_VALUES))
    return found


def _members(value: object) -> Iterable[object]:
    """Return the values inside a container, a model or a dataclass."""
    match value:
        case SecretStr() | SecretBytes():
            return [value.get_secret_value()]
        case Mapping():
            return value.values()
        case list() | tuple() | AbstractSet():
            return value
        case BaseModel():
            return vars(value).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return []
