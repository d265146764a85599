"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling.

The names are loaded when they are first used, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__

if TYPE_CHECKING:
    from langchain_gemini_tools.chat_model import ChatGemini

__all__ = ["ChatGemini", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "ChatGemini":
        from langchain_gemini_tools.chat_model import ChatGemini

        return ChatGemini
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
