"""`ToolLoop`: run the tools of any chat model until it answers.

- `loop`: `ToolLoop`, its sync and async methods. Start reading here
- `run`: the settings, the state of a run and the next step
- `turn`: the same for the tool calls of one turn
- `execution`: invokes the model; runs tools in threads and tasks
- `toolbox`: the tools, checked once, and the messages that the model gets from them
- `events`: what a run yields: its events and its result; decisions of approval hooks
"""

from langchain_gemini_tools.tool_loop import events
from langchain_gemini_tools.tool_loop.events import (
    Approver,
    Decision,
    Edit,
    IncompleteRunError,
    Pause,
    Reject,
    StopReason,
    ToolCallRecord,
    ToolCallStatus,
    ToolLoopResult,
    result_of,
)
from langchain_gemini_tools.tool_loop.loop import ToolLoop, ToolLoopText
from langchain_gemini_tools.tool_loop.run import LoopInput, OnLimit
from langchain_gemini_tools.tool_loop.toolbox import LoopTool

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
