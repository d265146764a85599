"""Looking at runs: `trace` shows one, `RunClock` times it, `BatchProgress` shows many as they go.

Works on the messages of any chat model and imports only the facts of this package. With the extra
`display` (rich, genai-prices) there are colours and costs; without it plain text and "n/a".
"""

from langchain_gemini_tools.display.clock import RunClock
from langchain_gemini_tools.display.progress import BatchProgress
from langchain_gemini_tools.display.viewer import Trace, trace

__all__ = ["BatchProgress", "RunClock", "Trace", "trace"]
