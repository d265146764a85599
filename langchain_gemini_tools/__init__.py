"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.text_tools.prompt import TOOL_PROMPT
    from langchain_gemini_tools.tool_report import ToolReport, check_tools

__all__ = ["TOOL_PROMPT", "ChatGemini", "ToolReport", "__version__", "check_tools"]

_ROOMS = {
    "TOOL_PROMPT": "text_tools.prompt",
    "ChatGemini": "chat_model",
    "ToolReport": "tool_report",
    "check_tools": "tool_report",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
