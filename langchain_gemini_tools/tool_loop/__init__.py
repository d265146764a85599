"""The loop over any chat model: `ToolLoop`, what it gives back, and what it tells on the way.

One question, one file:

- `loop`: the two ways of running, sync and async. Start reading here
- `run`: how far a run has come and what is next; `turn`: the same for the calls of one turn
- `running`: threads and tasks
- `answers`: what the model is told about a call; `injected`: and what it is not told
- `toolbox`, `settings`: the tools and the options, checked once
- `result`, `events`, `text`: what the caller sees
"""

from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.loop import ToolLoop
from langchain_gemini_tools.tool_loop.result import (
    IncompleteRunError,
    StopReason,
    ToolCallRecord,
    ToolCallStatus,
    ToolLoopResult,
    result_of,
)
from langchain_gemini_tools.tool_loop.settings import Decision, Edit, Pause, Reject

__all__ = [
    "Decision",
    "Edit",
    "IncompleteRunError",
    "Pause",
    "Reject",
    "StopReason",
    "ToolCallRecord",
    "ToolCallStatus",
    "ToolLoop",
    "ToolLoopResult",
    "events",
    "result_of",
]
