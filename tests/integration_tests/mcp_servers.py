"""The official MCP servers as real processes: how each is started, or why it cannot be."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_FETCH_SECONDS = 90
_SESSION_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """One server: its command, and some of its tools."""

    package: str
    arguments: tuple[str, ...]
    tools: frozenset[str]
    needs: str = ""
    """A program that it calls."""

    @property
    def is_python(self) -> bool:
        return not self.package.startswith("@")

    def command(self) -> list[str]:
        """Return the command that starts it; skip the test if that would need a registry."""
        if self.needs and not shutil.which(self.needs):
            pytest.skip(f"{self.package} needs {self.needs}")
        if self.is_python:
            module = self.package.replace("-", "_")
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"{self.package} is not installed: make install")
            return [sys.executable, "-m", module, *self.arguments]
        program = _npm_program(self.package)
        if isinstance(program, Missing):
            pytest.skip(program.reason)
        return ["node", program, *self.arguments]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ClientSession]:
        """Open a session with the server for at most a minute; the server ends with it."""
        command, *arguments = await asyncio.to_thread(self.command)
        started = StdioServerParameters(command=command, args=arguments)
        async with (
            asyncio.timeout(_SESSION_SECONDS),
            stdio_client(started) as (incoming, outgoing),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            yield session


@dataclass(frozen=True)
class Missing:
    """Why a package cannot be run."""

    reason: str


@cache
def _npm_program(package: str) -> str | Missing:
    """Return the program of an npm package; the registry is asked only for what is not cached.

    Node runs the program itself: npx takes seconds each time.
    """
    if not (npx := shutil.which("npx")) or not shutil.which("node"):
        return Missing("Node is not installed")
    name = f"mcp-{package.rpartition('/')[2]}"
    for reach in ("--offline", "--prefer-offline"):
        fetch = [npx, "--yes", "--fetch-retries=0", reach, f"--package={package}"]
        fetch += ["--", "sh", "-c", f"command -v {name}"]
        try:
            done = subprocess.run(
                fetch, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return Missing(f"{package} could not be fetched within {_FETCH_SECONDS} s")
        if done.returncode == 0:
            return done.stdout.strip()
    errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
    return Missing(f"{package} is neither in npm's cache nor to be had: {'; '.join(errors[:3])}")


TIME = Server(
    "mcp-server-time",
    ("--local-timezone", "UTC"),
    frozenset({"get_current_time", "convert_time"}),
)
GIT = Server(
    "mcp-server-git", (), frozenset({"git_status", "git_diff", "git_commit", "git_log"}), "git"
)
FETCH = Server("mcp-server-fetch", (), frozenset({"fetch"}))
EVERYTHING = Server(
    "@modelcontextprotocol/server-everything", ("stdio",), frozenset({"echo", "get-sum"})
)
FILESYSTEM = Server(
    "@modelcontextprotocol/server-filesystem",
    ("/tmp",),
    frozenset({"read_text_file", "write_file", "edit_file", "list_directory"}),
)
SERVERS = (TIME, GIT, FETCH, EVERYTHING, FILESYSTEM)
