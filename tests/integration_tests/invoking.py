"""Sends a question in each of the four ways, and keeps what the caller saw before a failure."""

from __future__ import annotations

import asyncio
import functools
import logging
import operator
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.responses import whole

if TYPE_CHECKING:
    import pytest

    from langchain_gemini_tools.testing.fake.script import Fault

QUESTION = "Weather in Oslo?"


async def ask(chat: Any, way: str, seen: list[Any] | None = None, **options: Any) -> Any:
    """Return the message; chunks are added up, and appended to `seen` as they arrive."""
    seen = [] if seen is None else seen
    match way:
        case "invoke":
            return await asyncio.to_thread(chat.invoke, QUESTION, **options)
        case "ainvoke":
            return await chat.ainvoke(QUESTION, **options)
        case "stream":
            await asyncio.to_thread(lambda: seen.extend(chat.stream(QUESTION, **options)))
        case _:
            async for chunk in chat.astream(QUESTION, **options):
                seen.append(chunk)
    return functools.reduce(operator.add, seen)


TWICE = ["retry 1 of 2", "retry 2 of 2"]


def logged_retries(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the retries that were logged, without delay and reason."""
    return [
        record.getMessage().partition(": ")[2].partition(" in ")[0]
        for record in caplog.records
        if record.name == "langchain_gemini_tools.retry" and record.levelno == logging.DEBUG
    ]


def raw(status: int, body: Any, **headers: str) -> Fault:
    """Return a fault that sends this response, whatever was requested."""
    return lambda _: whole(status, body).with_headers(**headers)
