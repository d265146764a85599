"""ChatGemini: the LangChain chat model over Google Gemini whose speciality is tool calling."""

from langchain_gemini_tools._version import __version__

__all__ = ["__version__"]
