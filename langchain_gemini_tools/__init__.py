"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.display import BatchProgress, RunClock, trace
    from langchain_gemini_tools.media_fetch import FetchLimits
    from langchain_gemini_tools.prompted.prompt import TOOL_PROMPT
    from langchain_gemini_tools.remote_tools import mcp_interceptor, tools_from_specs
    from langchain_gemini_tools.tool_loop import ToolLoop, ToolLoopResult
    from langchain_gemini_tools.tool_report import ToolReport, check_tools

__all__ = [
    "TOOL_PROMPT",
    "BatchProgress",
    "ChatGemini",
    "FetchLimits",
    "RunClock",
    "ToolLoop",
    "ToolLoopResult",
    "ToolReport",
    "__version__",
    "check_tools",
    "mcp_interceptor",
    "tools_from_specs",
    "trace",
]

_ROOMS = {
    "TOOL_PROMPT": "prompted.prompt",
    "BatchProgress": "display",
    "ChatGemini": "chat_model",
    "RunClock": "display",
    "FetchLimits": "media_fetch",
    "ToolReport": "tool_report",
    "check_tools": "tool_report",
    "mcp_interceptor": "remote_tools",
    "tools_from_specs": "remote_tools",
    "ToolLoopResult": "tool_loop",
    "ToolLoop": "tool_loop",
    "trace": "display",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
