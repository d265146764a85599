"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.media_fetch import FetchLimits
    from langchain_gemini_tools.tool_report import ToolReport, check_tools

__all__ = ["ChatGemini", "FetchLimits", "ToolReport", "__version__", "check_tools"]

_ROOMS = {
    "ChatGemini": "chat_model",
    "FetchLimits": "media_fetch",
    "ToolReport": "tool_report",
    "check_tools": "tool_report",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
