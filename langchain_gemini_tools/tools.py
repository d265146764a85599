"""Functions about tools: what Gemini will make of them, and tools that run elsewhere.

`check_tools` lists the problems of tools before they are bound.
`tools_from_specs` makes LangChain tools of specifications, in any dialect that `bind_tools` reads.
`mcp_interceptor` repairs what LangChain's adapters for MCP do with the results of MCP tools.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field, PrivateAttr

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.facts.json_values import snake
from langchain_gemini_tools.facts.models import DEFAULT_MODEL, capabilities_of
from langchain_gemini_tools.wire.invocation import is_prompted
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.lint import Finding, find_problems
from langchain_gemini_tools.wire.tools.tool import BoundTools, Tool

if TYPE_CHECKING:
    from langchain_mcp_adapters.interceptors import MCPToolCallRequest, MCPToolCallResult
    from mcp.types import CallToolResult, ContentBlock

__all__ = [
    "ErrorHandling",
    "Finding",
    "RemoteTool",
    "RunTool",
    "ToolReport",
    "check_tools",
    "mcp_interceptor",
    "tools_from_specs",
]

RunTool = Callable[[str, dict[str, Any]], Any]
"""Runs the tool with a name: a function, or one that returns an awaitable."""

ErrorHandling = bool | str | Callable[[ToolException], str]
"""LangChain's `handle_tool_error`."""


def tools_from_specs(
    specs: Iterable[object], call: RunTool, *, handle_tool_error: ErrorHandling = True
) -> list[BaseTool]:
    """Turn tool specifications into LangChain tools; one function runs all of them.

    ```python
    tools = tools_from_specs(registry.list(), lambda name, args: registry.call(name, args))
    agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools)
    ```

    Args:
        specs: Specifications in any dialect that `bind_tools` reads: those of OpenAI, Anthropic,
            MCP, Gemini and others, as dicts or as objects of the Gemini or MCP SDK. MCP's
            annotations (`readOnlyHint` and so on) become the `metadata` of the tool.
        call: Runs a tool: `call(name, args)`. It may be sync or async. A sync function runs in a
            thread when the agent is async; an async function needs an async agent. Arguments are
            passed on as the model wrote them; the registry validates them.
        handle_tool_error: What to do with a `ToolException` that `call` raises, as on every
            LangChain tool. By default the model reads its message as an error. All other
            exceptions are left to the code that executes the tool.

    Raises:
        InvalidToolError: A specification cannot be read, or two have the same name.
    """
    if not callable(call):
        raise TypeError(f"call must be a function (name, args) -> result, not {call!r:.80}.")
    if isinstance(specs, (str, Mapping)):
        raise TypeError("specs must be a list of specifications; put a single one into a list.")
    tools: dict[str, BaseTool] = {}
    for position, spec in enumerate(specs):
        for function in _read_functions(spec, position):
            if function.name in tools:
                raise InvalidToolError(
                    f"Two specifications have the name {function.name!r}; rename one of them."
                )
            tools[function.name] = RemoteTool(
                **_fields(function),
                metadata=_read_annotations(spec),
                handle_tool_error=handle_tool_error,
                call=call,
            )
    return [*tools.values()]


class RemoteTool(BaseTool):
    """A tool that `tools_from_specs` made; a function runs it, given its name.

    It is not a `StructuredTool`, which reserves `config` and `run_manager`: an argument with such a
    name would never arrive.
    """

    call: RunTool = Field(exclude=True, repr=False)
    _returned_awaitable: bool = PrivateAttr(default=False)

    @property
    def is_async(self) -> bool:
        """Whether the call is async, as far as is known: a lambda only shows it when called."""
        return self._returned_awaitable or _is_async(self.call)

    def _run(self, /, **arguments: Any) -> Any:
        result = self.call(self.name, arguments)
        if not inspect.isawaitable(result):
            return result
        self._returned_awaitable = True
        if inspect.iscoroutine(result):
            result.close()  # nothing has run yet
        raise NotImplementedError(
            f"Tool {self.name!r} is run by an async function and cannot be called synchronously. "
            "Use ainvoke or astream, or pass a sync function to `tools_from_specs`."
        )

    async def _arun(self, /, **arguments: Any) -> Any:
        if _is_async(self.call):
            return await self.call(self.name, arguments)
        result = await run_in_executor(None, self.call, self.name, arguments)
        return await result if inspect.isawaitable(result) else result


def _is_async(call: RunTool) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - the object's own may be async
    )


def _read_functions(spec: object, position: int) -> Sequence[Tool]:
    """Return the functions of one specification, with the schemas that will be sent."""
    is_spec = isinstance(spec, Mapping) or hasattr(spec, "model_dump")
    if not is_spec or isinstance(spec, (BaseTool, type)):
        raise InvalidToolError(
            f"specs[{position}] is not a specification: {spec!r:.80}. Pass a dict. Functions and "
            "LangChain tools do not need this function; bind them directly."
        )
    try:
        bound = bind_tools([spec])
    except InvalidToolError as error:
        raise InvalidToolError(f"specs[{position}]: {error}") from error
    for tool in bound:
        if not tool.is_function:
            raise InvalidToolError(
                f"specs[{position}]: {snake(tool.name)} is run by Google. Bind it together with "
                "these tools."
            )
    return bound


def _fields(tool: Tool) -> dict[str, Any]:
    """Return the fields of the LangChain tool for a bound function."""
    function = tool.to_dict()["function"]
    response = function.get("response_schema")
    return {
        "name": tool.name,
        "description": tool.description or "",
        "args_schema": function.get("parameters") or {"type": "object", "properties": {}},
        "extras": {"gemini": {"response_schema": response}} if response else None,
    }


def _read_annotations(spec: object) -> dict[str, Any] | None:
    """Return MCP's hints about a tool in the form that LangChain's adapters for MCP use."""
    field = "annotations"
    hints: Any = spec.get(field) if isinstance(spec, Mapping) else getattr(spec, field, None)
    if hasattr(hints, "model_dump"):
        hints = hints.model_dump(by_alias=True, exclude_none=True)
    return dict(hints) if isinstance(hints, Mapping) and hints else None


# Results of MCP tools


async def mcp_interceptor(
    request: MCPToolCallRequest,
    handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],
) -> MCPToolCallResult:
    """Call a tool of an MCP server so that the model gets the whole outcome.

    Pass it to the client, which calls it for each tool call.

    `langchain-mcp-adapters` alone ends the run when a server dies, splits a list into separate
    texts, and rejects audio. With this interceptor a server that cannot be reached, dies, is too
    slow or breaks its own schema gives an error result that says so; structured content reaches the
    model as one JSON value, and audio as a file. If there are other interceptors, put this one
    last. MCP tools are async: use `ainvoke` or `astream`, and use the tools of a live session on
    its event loop.

    ```python
    client = MultiServerMCPClient(connections, tool_interceptors=[mcp_interceptor])
    ```
    """
    from mcp.types import CallToolResult, TextContent

    try:
        result = await handler(request)
    except Exception as error:
        reasons = _server_failures(error)
        if not reasons:
            raise
        message = (
            f"The MCP server {request.server_name!r} failed during {request.name!r}: "
            f"{'; '.join(reasons)}. Whether the call had an effect is not known."
        )
        return CallToolResult(content=[TextContent(type="text", text=message)], isError=True)
    if not isinstance(result, CallToolResult):
        return result  # another interceptor returned a LangChain message
    content = [_audio_as_file(block) for block in result.content]
    with suppress(ValueError, RecursionError):  # too deep to be compared or written
        content = _with_structure(content, result)
    return result.model_copy(update={"content": content})


def _server_failures(error: Exception) -> list[str]:
    """Describe what went wrong with the server; empty if the error has another cause."""
    import anyio
    import httpx
    from mcp import McpError

    types = (
        McpError,
        OSError,
        httpx.HTTPError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
        RuntimeError,  # the result does not match the server's own schema
    )
    mistakes = (NotImplementedError, RecursionError)  # which are RuntimeErrors too
    failures, others = ExceptionGroup("", [error]).split(
        lambda found: isinstance(found, types) and not isinstance(found, mistakes)
    )
    return [] if others or not failures else [_describe(leaf) for leaf in _leaves(failures)]


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def _describe(error: BaseException) -> str:
    """Describe an error without its URL or command, which may contain secrets."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"HTTP status {status}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().rstrip(".") or "the connection is closed"


def _audio_as_file(block: ContentBlock) -> ContentBlock:
    """Return audio as a file of its type, because the adapters reject audio blocks."""
    from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource
    from pydantic import AnyUrl

    if not isinstance(block, AudioContent):
        return block
    blob = BlobResourceContents(uri=AnyUrl("data:sound"), mimeType=block.mimeType, blob=block.data)
    return EmbeddedResource(type="resource", resource=blob)


def _with_structure(content: Sequence[ContentBlock], result: CallToolResult) -> list[ContentBlock]:
    """Return the content; texts are replaced if structured content says the same or more."""
    from mcp.types import TextContent

    structure = result.structuredContent
    if structure is None or result.isError:
        return [*content]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    others = [block for block in content if not isinstance(block, TextContent)]
    # The protocol only allows objects, so that servers wrap other results.
    value = structure["result"] if structure.keys() == {"result"} else structure
    parsed = [_parse(text) for text in texts]
    if texts == [value] or parsed in ([value], [structure]):
        return [*content]
    if texts and value not in (parsed, texts):
        # A text for the model and data for a program: both, under the protocol's names.
        value = {"content": "\n".join(texts), "structuredContent": structure}
    return [TextContent(type="text", text=json.dumps(value, ensure_ascii=False)), *others]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_NAMED = re.compile(
    r"Tool '(?P<name>[^']*)'(?:, parameter '(?P<parameter>[^']*)')?: (?P<message>.*)", re.DOTALL
)
"""An error message that names its tool, and perhaps a parameter."""


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
        """Problems that cost tokens, or because of which a tool may not work as intended."""
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


def check_tools(tools: Iterable[object], model: str = DEFAULT_MODEL) -> ToolReport:
    """Check tools as `bind_tools` would, and report every problem.

    Args:
        tools: Anything that `bind_tools` accepts.
        model: The model that will use the tools.

    Returns:
        A report to print, or to inspect: `report.ok`, `report.errors`, `report.warnings`.

    Raises:
        InvalidToolError: `tools` is not a list or another iterable of tools.
        TypeError: `model` is not a name.
    """
    if isinstance(tools, str | Mapping | BaseTool) or not isinstance(tools, Iterable):
        raise InvalidToolError(
            f"check_tools needs a list of tools, not {type(tools).__name__}. Put a single tool "
            "into a list."
        )
    if not isinstance(model, str):
        raise TypeError(f"model must be the name of a model, not {type(model).__name__}.")
    capabilities = capabilities_of(model)
    bound: list[Tool] = []
    invalid: list[Finding] = []
    for tool in tools:
        try:
            bound += bind_tools([tool])
        except InvalidToolError as error:
            invalid.append(_invalid(tool, str(error)))
    prompted = is_prompted("auto", capabilities)
    return ToolReport(
        model=model,
        tool_count=len(bound) + len(invalid),
        tokens=sum(tool.token_estimate for tool in bound),
        findings=(
            *invalid,
            *find_problems(BoundTools(bound), capabilities, is_prompted=prompted),
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _invalid(tool: object, message: str) -> Finding:
    """Return the finding for a tool that cannot be bound, with the best name there is."""
    if named := _NAMED.fullmatch(message):
        return Finding("error", "invalid_tool", *named.group("name", "parameter", "message"))
    return Finding("error", "invalid_tool", _name(tool), None, message)


def _name(tool: object) -> str:
    found = tool.get("name") if isinstance(tool, dict) else None
    return str(found or getattr(tool, "name", None) or getattr(tool, "__name__", repr(tool)[:60]))
