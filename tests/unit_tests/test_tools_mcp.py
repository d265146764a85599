"""`mcp_interceptor`: what the model gets of the results and errors of an MCP server."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from mcp import McpError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    TextContent,
)
from pydantic import AnyUrl

from langchain_gemini_tools import mcp_interceptor

REQUEST = MCPToolCallRequest("create", {"kind": "vm"}, server_name="cloud")


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


IMAGE = ImageContent(type="image", data="AAAA", mimeType="image/png")


def result(*content: Any, structured: Any = None, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[*content], structuredContent=structured, isError=is_error)


async def pass_on(outcome: Any) -> Any:
    """What comes out of the interceptor when the server gave, or failed with, this."""

    async def handler(request: MCPToolCallRequest) -> Any:
        assert request is REQUEST
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return await mcp_interceptor(REQUEST, handler)


A, B = {"name": "Å"}, {"name": "B"}

UNCHANGED = {
    "text": result(text("Hello")),
    "text, wrapped": result(text("Hello"), structured={"result": "Hello"}),
    "text that looks like JSON": result(text("[1]"), structured={"result": "[1]"}),
    "a number": result(text("5"), structured={"result": 5}),
    "an object": result(text('{\n "name": "Å"}'), structured=A),
    "an object called result": result(text('{"result": 1}'), structured={"result": 1}),
    "a whole list": result(text('[{"name": "Å"}]'), structured={"result": [A]}),
    "an image": result(IMAGE),
    "an error": result(text("No such city."), structured={"code": 5}, is_error=True),
    "nothing": result(),
}


@pytest.mark.parametrize("given", UNCHANGED.values(), ids=UNCHANGED)
async def test_what_says_everything_stays_as_it_is(given: CallToolResult) -> None:
    assert await pass_on(given) == given


ONE_VALUE = {
    "objects as loose texts": (
        result(text('{"name": "Å"}'), text('{"name": "B"}'), structured={"result": [A, B]}),
        [text('[{"name": "Å"}, {"name": "B"}]')],
    ),
    "a list of one": (
        result(text('{"name": "Å"}'), structured={"result": [A]}),
        [text('[{"name": "Å"}]')],
    ),
    "texts": (
        result(text("1"), text("b"), structured={"result": ["1", "b"]}),
        [text('["1", "b"]')],
    ),
    "an empty list": (result(structured={"result": []}), [text("[]")]),
    "no text at all": (result(structured=A), [text('{"name": "Å"}')]),
    "beside an image": (
        result(IMAGE, structured={"width": 1}),
        [text('{"width": 1}'), IMAGE],
    ),
    "words beside data": (
        result(text("Found one."), structured=A),
        [text('{"content": "Found one.", "structuredContent": {"name": "Å"}}')],
    ),
}


@pytest.mark.parametrize(("given", "content"), ONE_VALUE.values(), ids=ONE_VALUE)
async def test_structured_content_is_one_json_value(given: CallToolResult, content: Any) -> None:
    assert await pass_on(given) == given.model_copy(update={"content": content})


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


UNREADABLE = "[" * 100_000
ODD = {
    "nested too deep": {"result": deep(10_000)},
    "a number with too many digits": {"count": 10**5_000},
}


@pytest.mark.parametrize("structure", ODD.values(), ids=ODD)
async def test_a_structure_that_cannot_be_written_changes_nothing(structure: Any) -> None:
    given = result(text("Found one."), IMAGE)
    passed_on = await pass_on(given.model_copy(update={"structuredContent": structure}))
    assert passed_on.content == given.content


async def test_a_text_that_cannot_be_read_as_json_is_text() -> None:
    passed_on = await pass_on(result(text(UNREADABLE), structured=A))
    words = f'{{"content": "{UNREADABLE}", "structuredContent": {{"name": "Å"}}}}'
    assert passed_on.content == [text(words)]


async def test_sound_is_a_file_of_its_type() -> None:
    passed_on = await pass_on(result(AudioContent(type="audio", data="AAAA", mimeType="audio/wav")))
    blob = BlobResourceContents(uri=AnyUrl("data:sound"), mimeType="audio/wav", blob="AAAA")
    assert passed_on == result(EmbeddedResource(type="resource", resource=blob))


SECRET_URL = httpx.Request("POST", "http://cloud/mcp?key=hunter2")
CLOSED = McpError(ErrorData(code=-32000, message="Connection closed"))
LOST = {
    "closed": (CLOSED, "Connection closed"),
    "closed before": (anyio.ClosedResourceError(), "the connection is closed"),
    "no program": (FileNotFoundError(2, "No such file", "./run --key=hunter2"), "No such file"),
    "no server": (
        ExceptionGroup("tasks", [ExceptionGroup("inner", [httpx.ConnectError("Refused.")])]),
        "Refused",
    ),
    "two reasons": (
        ExceptionGroup("tasks", [CLOSED, TimeoutError("late")]),
        "Connection closed; late",
    ),
    "http status": (
        httpx.HTTPStatusError(
            "401 for ?key=hunter2", request=SECRET_URL, response=httpx.Response(401)
        ),
        "HTTP status 401",
    ),
    "broken schema": (RuntimeError("Invalid structured content"), "Invalid structured content"),
}


@pytest.mark.parametrize(("error", "reason"), LOST.values(), ids=LOST)
async def test_a_lost_server_is_an_error_that_the_model_reads(error: Any, reason: str) -> None:
    words = (
        f"The MCP server 'cloud' failed during 'create': {reason}. "
        "Whether the call had an effect is not known."
    )
    assert await pass_on(error) == result(text(words), is_error=True)


class InterruptError(Exception):
    """As LangGraph's: an exception that a graph needs to see."""


@pytest.mark.parametrize(
    "error",
    [
        InterruptError(),
        ValueError("a bug"),
        NotImplementedError(),
        RecursionError("too deep"),
        ExceptionGroup("tasks", [CLOSED, InterruptError()]),
    ],
)
async def test_an_error_of_another_cause_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await pass_on(error)
    assert raised.value is error


async def test_an_answer_of_another_interceptor_is_passed_on() -> None:
    answer = ToolMessage("Cached.", tool_call_id="1")
    assert await pass_on(answer) is answer
