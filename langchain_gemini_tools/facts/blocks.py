"""The types of content blocks, whoever's dialect they are from.

Tuples, because whatever stands in a block's `type`, a list even, can be looked for in them.
"""

from __future__ import annotations

TEXTS = ("text", "input_text", "output_text")
THOUGHTS = ("thinking", "reasoning", "redacted_thinking", "reasoning_content")
CALLS = (
    *("tool_call", "tool_call_chunk", "invalid_tool_call"),
    *("tool_use", "input_json_delta"),  # Anthropic
    "function_call",  # OpenAI
)
"""They repeat what `tool_calls` holds."""
MEDIA = (
    *("image", "audio", "video", "file", "text-plain"),  # LangChain v1 and v0
    *("image_url", "input_image", "input_audio", "input_file"),  # OpenAI
    "document",  # Anthropic
    *("media", "file_data"),  # langchain-google-genai, and core's translator for Gemini
)
