"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.display import BatchProgress, RunClock, Trace, trace
    from langchain_gemini_tools.mcp_results import mcp_interceptor
    from langchain_gemini_tools.media_fetch import FetchLimits
    from langchain_gemini_tools.remote_tools import tools_from_specs
    from langchain_gemini_tools.text_tools.prompt import TOOL_PROMPT
    from langchain_gemini_tools.tool_loop import (
        CallRecord,
        Deny,
        Edit,
        Exchange,
        IncompleteAnswerError,
        Pause,
        ToolLoop,
        exchange_of,
    )
    from langchain_gemini_tools.tool_loop.events import (
        CallAnnounced,
        CallCached,
        CallDenied,
        CallFailed,
        CallFinished,
        CallRetried,
        CallSkipped,
        CallStarted,
        CallTimedOut,
        LimitReached,
        LoopEvent,
        LoopFinished,
        TextDelta,
        TurnFinished,
        TurnStarted,
    )
    from langchain_gemini_tools.tool_report import ToolReport, check_tools

__all__ = [
    "TOOL_PROMPT",
    "BatchProgress",
    "CallAnnounced",
    "CallCached",
    "CallDenied",
    "CallFailed",
    "CallFinished",
    "CallRecord",
    "CallRetried",
    "CallSkipped",
    "CallStarted",
    "CallTimedOut",
    "ChatGemini",
    "Deny",
    "Edit",
    "Exchange",
    "FetchLimits",
    "IncompleteAnswerError",
    "LimitReached",
    "LoopEvent",
    "LoopFinished",
    "Pause",
    "RunClock",
    "TextDelta",
    "ToolLoop",
    "ToolReport",
    "Trace",
    "TurnFinished",
    "TurnStarted",
    "__version__",
    "check_tools",
    "exchange_of",
    "mcp_interceptor",
    "tools_from_specs",
    "trace",
]

_ROOMS = {
    "TOOL_PROMPT": "text_tools.prompt",
    "BatchProgress": "display",
    "ChatGemini": "chat_model",
    "RunClock": "display",
    "FetchLimits": "media_fetch",
    "ToolReport": "tool_report",
    "Trace": "display",
    "check_tools": "tool_report",
    "mcp_interceptor": "mcp_results",
    "tools_from_specs": "remote_tools",
    "CallRecord": "tool_loop",
    "Deny": "tool_loop",
    "Edit": "tool_loop",
    "Exchange": "tool_loop",
    "IncompleteAnswerError": "tool_loop",
    "Pause": "tool_loop",
    "ToolLoop": "tool_loop",
    "exchange_of": "tool_loop",
    "CallAnnounced": "tool_loop.events",
    "CallCached": "tool_loop.events",
    "CallDenied": "tool_loop.events",
    "CallFailed": "tool_loop.events",
    "CallFinished": "tool_loop.events",
    "CallRetried": "tool_loop.events",
    "CallSkipped": "tool_loop.events",
    "CallStarted": "tool_loop.events",
    "CallTimedOut": "tool_loop.events",
    "LimitReached": "tool_loop.events",
    "LoopEvent": "tool_loop.events",
    "LoopFinished": "tool_loop.events",
    "TextDelta": "tool_loop.events",
    "TurnFinished": "tool_loop.events",
    "TurnStarted": "tool_loop.events",
    "trace": "display",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
