"""An MCP server with one tool for each kind of result, and for each way to fail."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import AudioContent, CallToolResult, TextContent
from pydantic import BaseModel

server = FastMCP("world", log_level="CRITICAL")

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


class City(BaseModel):
    name: str
    people: int


@server.tool()
def say(text: str) -> str:
    """Say something."""
    return f"You said {text}."


@server.tool()
def find_city(name: str) -> City:
    """One city."""
    return City(name=name, people=700_000)


@server.tool()
def list_cities(names: list[str]) -> list[City]:
    """Several cities."""
    return [City(name=name, people=1) for name in names]


@server.tool()
def draw() -> Image:
    """A picture."""
    return Image(data=base64.b64decode(PNG), format="png")


@server.tool()
def sing() -> CallToolResult:
    """A sound."""
    sound = AudioContent(type="audio", data="UklGRg==", mimeType="audio/wav")
    return CallToolResult(content=[sound])


@server.tool()
def report() -> CallToolResult:
    """Words for a reader beside data for a program."""
    words = TextContent(type="text", text="All is well.")
    return CallToolResult(content=[words], structuredContent={"load": 0.5})


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "Waited."


@server.tool()
def die() -> str:
    """Take the whole server down, in the middle of a call."""
    os._exit(1)


def serve_http() -> None:
    import uvicorn

    door = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{door.getsockname()[1]}/mcp", flush=True)
    app = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(app).run(sockets=[door])


if __name__ == "__main__":
    serve_http() if "--http" in sys.argv else server.run()
