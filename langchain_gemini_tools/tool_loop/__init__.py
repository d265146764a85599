"""`ToolLoop`: run the tools of any chat model until it answers.

- `loop`: `ToolLoop`, its sync and async methods. Start reading here
- `run`: the state of a run and the next step; `turn`: the same for the tool calls of one turn
- `execution`: invokes the model; runs tools in threads and tasks
- `tool_messages`: what the model gets for each tool call
- `settings`: tools, options and approval decisions, checked once
- `events`: what a run yields: its events and its result
"""

from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.events import (
    IncompleteRunError,
    StopReason,
    ToolCallRecord,
    ToolCallStatus,
    ToolLoopResult,
    result_of,
)
from langchain_gemini_tools.tool_loop.loop import ToolLoop, ToolLoopText
from langchain_gemini_tools.tool_loop.run import LoopInput
from langchain_gemini_tools.tool_loop.settings import (
    Approver,
    Decision,
    Edit,
    LoopTool,
    OnLimit,
    Pause,
    Reject,
)

__all__ = [
    "Approver",
    "Decision",
    "Edit",
    "IncompleteRunError",
    "LoopInput",
    "LoopTool",
    "OnLimit",
    "Pause",
    "Reject",
    "StopReason",
    "ToolCallRecord",
    "ToolCallStatus",
    "ToolLoop",
    "ToolLoopResult",
    "ToolLoopText",
    "events",
    "result_of",
]
