"""`mcp_interceptor`: what MCP tools give, made whole for the model.

`langchain-mcp-adapters` lists and calls the tools of MCP servers. On its way three things go wrong:
a server that dies ends the whole run, a list comes as loose texts, and sound is refused. Here they
are mended where they arise, so that every executor sees the same.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain_mcp_adapters.interceptors import MCPToolCallRequest, MCPToolCallResult
    from mcp.types import CallToolResult, ContentBlock


async def mcp_interceptor(
    request: MCPToolCallRequest,
    handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],
) -> MCPToolCallResult:
    """Call a tool of an MCP server so that the model learns everything about the outcome.

    A server that cannot be reached, dies, is too slow or breaks its own schema gives an error
    result that says so. Structured content goes to the model as one JSON value, sound as a file.
    Where there are other interceptors, this one comes last. MCP tools are async: run them by
    `ainvoke` or `astream`, and a live session's tools on its own event loop.

    ```python
    client = MultiServerMCPClient(connections, tool_interceptors=[mcp_interceptor])
    ```
    """
    from mcp.types import CallToolResult, TextContent

    try:
        result = await handler(request)
    except Exception as error:
        reasons = _failures_of_a_server(error)
        if not reasons:
            raise
        words = (
            f"The MCP server {request.server_name!r} failed during {request.name!r}: "
            f"{'; '.join(reasons)}. Whether the call had an effect is not known."
        )
        return CallToolResult(content=[TextContent(type="text", text=words)], isError=True)
    if not isinstance(result, CallToolResult):
        return result  # another interceptor has answered in LangChain's words
    content = [_without_sound(block) for block in result.content]
    with suppress(ValueError, RecursionError):  # too deep to be compared or written
        content = _with_structure(content, result)
    return result.model_copy(update={"content": content})


def _failures_of_a_server(error: Exception) -> list[str]:
    """What went wrong with the server, in words; nothing where the error is somebody else's."""
    import anyio
    import httpx
    from mcp import McpError

    types = (
        McpError,
        OSError,
        httpx.HTTPError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
        RuntimeError,  # the server's answer does not fit its own schema
    )
    mistakes = (NotImplementedError, RecursionError)  # which are RuntimeErrors too
    failures, others = ExceptionGroup("", [error]).split(
        lambda found: isinstance(found, types) and not isinstance(found, mistakes)
    )
    return [] if others or not failures else [_words(leaf) for leaf in _leaves(failures)]


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def _words(error: BaseException) -> str:
    """An error without what stands beside it: URLs and commands may hold secrets."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"HTTP status {status}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().rstrip(".") or "the connection is closed"


def _without_sound(block: ContentBlock) -> ContentBlock:
    """Sound as a file of its type: the adapters have no block for it."""
    from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource
    from pydantic import AnyUrl

    if not isinstance(block, AudioContent):
        return block
    blob = BlobResourceContents(uri=AnyUrl("data:sound"), mimeType=block.mimeType, blob=block.data)
    return EmbeddedResource(type="resource", resource=blob)


def _with_structure(content: Sequence[ContentBlock], result: CallToolResult) -> list[ContentBlock]:
    """The content, its texts replaced where structured content says the same or more."""
    from mcp.types import TextContent

    structure = result.structuredContent
    if structure is None or result.isError:
        return [*content]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    others = [block for block in content if not isinstance(block, TextContent)]
    # A result that is no object is wrapped: the protocol takes objects only.
    value = structure["result"] if structure.keys() == {"result"} else structure
    said = [_parse(text) for text in texts]
    if texts == [value] or said in ([value], [structure]):
        return [*content]
    if texts and value not in (said, texts):
        # Words for the model beside data for a program: both, under the protocol's names.
        value = {"content": "\n".join(texts), "structuredContent": structure}
    return [TextContent(type="text", text=json.dumps(value, ensure_ascii=False)), *others]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
