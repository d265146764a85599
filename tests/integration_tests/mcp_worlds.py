"""Our own MCP servers as real processes, and their tools from LangChain's adapters."""

from __future__ import annotations

import atexit
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from langchain_gemini_tools import mcp_interceptor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.tools import BaseTool

Transport = Literal["stdio", "http"]
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")

WORLD = Path(__file__).with_name("mcp_world_server.py")
ORCHESTRATOR = Path(__file__).parents[2] / "notebooks" / "mcp_orchestrator_server.py"


@dataclass(frozen=True)
class World:
    """One server file over one transport."""

    program: Path
    transport: Transport
    timeout_seconds: float = 60
    is_own: bool = False
    """Over HTTP: a process that ends with the block, instead of one that serves all tests."""

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[list[BaseTool]]:
        """The server's tools while it runs.

        Over stdio one process and one session serve all calls; over HTTP each call has its own
        session with a server that runs anyway.
        """
        settings: dict[str, Any] = {
            "session_kwargs": {"read_timeout_seconds": timedelta(seconds=self.timeout_seconds)}
        }
        options: dict[str, Any] = {"tool_interceptors": [mcp_interceptor]}
        if self.transport == "http":
            with serving(self.program) if self.is_own else nullcontext(shared(self.program)) as url:
                settings |= {"transport": "http", "url": url}
                yield await MultiServerMCPClient({"world": settings}, **options).get_tools()  # type: ignore[dict-item]
            return
        settings |= {"transport": "stdio", "command": sys.executable, "args": [str(self.program)]}
        client = MultiServerMCPClient({"world": settings})  # type: ignore[dict-item]
        async with client.session("world") as session:
            yield await load_mcp_tools(session, server_name="world", **options)


_SHARED = ExitStack()
atexit.register(_SHARED.close)


@cache
def shared(program: Path) -> str:
    """Return the address of a server that runs until this process ends."""
    return _SHARED.enter_context(serving(program))


@contextmanager
def serving(program: Path) -> Iterator[str]:
    """Yield the address of a server over streamable HTTP, which ends with the block."""
    with subprocess.Popen(
        [sys.executable, str(program), "--http"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()
