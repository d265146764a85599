"""Show runs: `trace` draws one, `RunClock` measures it, `BatchProgress` shows many as they go.

They work on the messages of any chat model. The extra `display` (rich, genai-prices) adds colours,
progress bars and costs; without it the output is plain text without costs.

- `viewer`: `trace`, and the tree that is shown of a run. Start reading here
- `traced`: messages -> turns, tool calls and results, with their costs
- `content`: untrusted content -> text that is safe to show
- `tree`: the tree as plain text, for a terminal, as HTML and for mermaid
- `callbacks`: `RunClock` and `BatchProgress`

The other names are the types of what these return, for annotations.
"""

from langchain_gemini_tools.display.callbacks import BatchCounts, BatchProgress, RunClock, Span
from langchain_gemini_tools.display.content import TracedBlock
from langchain_gemini_tools.display.traced import (
    Cost,
    TracedMessage,
    TracedRun,
    TracedToolCall,
    TracedToolResult,
    TracedTurn,
)
from langchain_gemini_tools.display.viewer import Trace, trace

__all__ = [
    "BatchCounts",
    "BatchProgress",
    "Cost",
    "RunClock",
    "Span",
    "Trace",
    "TracedBlock",
    "TracedMessage",
    "TracedRun",
    "TracedToolCall",
    "TracedToolResult",
    "TracedTurn",
    "trace",
]
