"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.display import BatchProgress, RunClock, Trace, trace
    from langchain_gemini_tools.tool_report import ToolReport, check_tools

__all__ = [
    "BatchProgress",
    "ChatGemini",
    "RunClock",
    "ToolReport",
    "Trace",
    "__version__",
    "check_tools",
    "trace",
]

_ROOMS = {
    "BatchProgress": "display",
    "ChatGemini": "chat_model",
    "RunClock": "display",
    "ToolReport": "tool_report",
    "Trace": "display",
    "check_tools": "tool_report",
    "trace": "display",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
