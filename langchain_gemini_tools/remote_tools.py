"""`tools_from_specs`: tools that are registered elsewhere, as LangChain tools.

The registry may be another process, another language, another machine. It gives specifications, in
whatever dialect `bind_tools` reads, and one function calls any of its tools by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field, PrivateAttr

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.spelling import snake
from langchain_gemini_tools.wire.tools.tool import Tool, bind_tools

Call = Callable[[str, dict[str, Any]], Any]
"""Runs a tool by its name: a function, or one that gives something to await."""

ErrorHandling = bool | str | Callable[[ToolException], str]
"""LangChain's `handle_tool_error`."""


def tools_from_specs(
    specs: Iterable[Any], call: Call, *, handle_tool_error: ErrorHandling = True
) -> list[BaseTool]:
    """LangChain tools for specifications, all run by one function.

    ```python
    tools = tools_from_specs(registry.list(), lambda name, args: registry.call(name, args))
    agent = create_agent(ChatGemini(model="gemini-3-flash-preview"), tools)
    ```

    Args:
        specs: Specifications in any dialect that `bind_tools` reads: OpenAI's, Anthropic's, MCP's,
            Gemini's and others, as dicts or as objects of the Gemini or MCP SDK. MCP's annotations
            (`readOnlyHint` and so on) become the tool's `metadata`.
        call: Runs a tool: `call(name, args)`. It may be sync or async. A sync one runs in a thread
            when an agent is async; an async one needs an async agent. Arguments are passed on as
            the model gave them: checking them is the registry's business.
        handle_tool_error: What becomes of a `ToolException` that `call` raises, as on every
            LangChain tool: by default the model reads its words as an error. Any other exception
            is left to whatever executes the tool.

    Raises:
        InvalidToolError: A specification that cannot be read, or two with one name.
    """
    if not callable(call):
        raise TypeError(f"call has to be a function of a name and arguments, and is {call!r:.80}.")
    if isinstance(specs, (str, Mapping)):
        raise TypeError("specs has to be a list of specifications; put a single one into a list.")
    tools: dict[str, BaseTool] = {}
    for position, spec in enumerate(specs):
        for function in _read_functions(spec, position):
            if function.name in tools:
                raise InvalidToolError(
                    f"Two specifications have the name {function.name!r}; rename one."
                )
            tools[function.name] = RemoteTool(
                **_fields(function),
                metadata=_read_annotations(spec),
                handle_tool_error=handle_tool_error,
                call=call,
            )
    return [*tools.values()]


class RemoteTool(BaseTool):
    """A tool that one function runs by name, wherever it lives.

    Not a `StructuredTool`: that one keeps `config` and `run_manager` for itself, and an argument
    with such a name would never arrive.
    """

    call: Call = Field(exclude=True, repr=False)
    _gave_awaitable: bool = PrivateAttr(default=False)

    @property
    def is_async(self) -> bool:
        """Whether the call is async, as far as is known: a lambda shows it when it is called."""
        return self._gave_awaitable or _is_async(self.call)

    def _run(self, /, **arguments: Any) -> Any:
        result = self.call(self.name, arguments)
        if not inspect.isawaitable(result):
            return result
        self._gave_awaitable = True
        if inspect.iscoroutine(result):
            result.close()  # nothing has run yet
        raise NotImplementedError(
            f"Tool {self.name!r} is called by an async function, so it has no sync way: use "
            "ainvoke or astream, or give `tools_from_specs` a sync function."
        )

    async def _arun(self, /, **arguments: Any) -> Any:
        if _is_async(self.call):
            return await self.call(self.name, arguments)
        result = await run_in_executor(None, self.call, self.name, arguments)
        return await result if inspect.isawaitable(result) else result


def _is_async(call: Call) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object may have an async one
    )


def _read_functions(spec: Any, position: int) -> tuple[Tool, ...]:
    """The functions that one entry specifies, their schemas as they will be sent."""
    is_spec = isinstance(spec, Mapping) or hasattr(spec, "model_dump")
    if not is_spec or isinstance(spec, (BaseTool, type)):
        raise InvalidToolError(
            f"specs[{position}] is no specification but {spec!r:.80}. Give a dict, or bind what "
            "runs by itself as it is."
        )
    try:
        bound = bind_tools([spec])
    except InvalidToolError as error:
        raise InvalidToolError(f"specs[{position}]: {error}") from error
    for tool in bound:
        if not tool.is_function:
            raise InvalidToolError(
                f"specs[{position}]: {snake(tool.name)} runs on Google's side. Bind it "
                "beside these tools."
            )
    return bound


def _fields(tool: Tool) -> dict[str, Any]:
    """The fields of the LangChain tool for a bound function."""
    function = tool.to_dict()["function"]
    response = function.get("response_schema")
    return {
        "name": tool.name,
        "description": tool.description or "",
        "args_schema": function.get("parameters") or {"type": "object", "properties": {}},
        "extras": {"gemini": {"response_schema": response}} if response else None,
    }


def _read_annotations(spec: Any) -> dict[str, Any] | None:
    """MCP's hints about a tool, as LangChain's adapters for MCP keep them."""
    field = "annotations"
    hints: Any = spec.get(field) if isinstance(spec, Mapping) else getattr(spec, field, None)
    if hasattr(hints, "model_dump"):
        hints = hints.model_dump(by_alias=True, exclude_none=True)
    return dict(hints) if isinstance(hints, Mapping) and hints else None
