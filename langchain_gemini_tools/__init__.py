"""`ChatGemini`, a LangChain chat model for Google Gemini, built for tool calling.

The names here are loaded on first use; the types of google-genai among them load the SDK. Other
public names are in their modules: errors in `errors`, loop events and approval decisions in
`tool_loop`, `FetchLimits` in `media_fetch`, `TOOL_PROMPT` in `prompted`, `ToolReport` in
`tools`, `BatchJob` in `batch`, the results of `run_in_batches` in `batch.agents`,
`GeminiBinding` in `binding`, `StructuredOutput` in `structured_output`, the request of `preview` in
`wire.request`, and arguments for subclasses in `arguments`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_gemini_tools.batch.agents import arun_in_batches, run_in_batches
    from langchain_gemini_tools.chat_model import ChatGemini
    from langchain_gemini_tools.client import (
        ComputerUse,
        Environment,
        HarmBlockThreshold,
        HarmCategory,
        MediaResolution,
        Modality,
    )
    from langchain_gemini_tools.display import BatchProgress, RunClock, trace
    from langchain_gemini_tools.services import create_context_cache
    from langchain_gemini_tools.tool_loop import ToolLoop, ToolLoopResult
    from langchain_gemini_tools.tools import check_tools, mcp_interceptor, tools_from_specs

__version__ = "0.1.0"

__all__ = [
    "BatchProgress",
    "ChatGemini",
    "ComputerUse",
    "Environment",
    "HarmBlockThreshold",
    "HarmCategory",
    "MediaResolution",
    "Modality",
    "RunClock",
    "ToolLoop",
    "ToolLoopResult",
    "__version__",
    "arun_in_batches",
    "check_tools",
    "create_context_cache",
    "mcp_interceptor",
    "run_in_batches",
    "tools_from_specs",
    "trace",
]

_MODULES = {
    "BatchProgress": "display",
    "ChatGemini": "chat_model",
    "ComputerUse": "client",
    "Environment": "client",
    "HarmBlockThreshold": "client",
    "HarmCategory": "client",
    "MediaResolution": "client",
    "Modality": "client",
    "RunClock": "display",
    "arun_in_batches": "batch.agents",
    "run_in_batches": "batch.agents",
    "check_tools": "tools",
    "create_context_cache": "services",
    "mcp_interceptor": "tools",
    "tools_from_specs": "tools",
    "ToolLoopResult": "tool_loop",
    "ToolLoop": "tool_loop",
    "trace": "display",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
