"""The fixed words of the protocol, and those that models write instead of them or beside them."""

from __future__ import annotations

import re

from langchain_gemini_tools.text_tools.source import Words

MARKER = "TOOL_CALL:"
MARKERS = Words((MARKER,))
FENCES = Words(("```", "~~~"))

LOOSE_MARKERS = Words(
    [
        *(f"tool{gap}call{plural}{colon}"
          for gap in ("_", " ", "-", "") for plural in ("", "s") for colon in (":", " :")),
        "functools",
    ],
    is_any_case=True,
)  # fmt: skip
"""The marker in other spellings, and Phi's word before a list of calls."""

LABELS = Words(
    ("action:", "ai:", "answer:", "assistant:", "model:", "output:", "response:"), is_any_case=True
)
"""What models put before the marker, as if they had to name the speaker."""

NOTHING = frozenset({"none", "null", "nothing", "no", "n/a", "na"})
"""Words behind the marker that say: no call."""

PLACEHOLDERS = frozenset({
    "tool_name", "toolname", "tool", "function_name", "function", "func_name", "name", "your_tool",
})  # fmt: skip
"""Names that stand for any name, where the protocol is explained."""

TAGS = {
    "<tool_call>": "</tool_call>",
    "<tool_calls>": "</tool_calls>",
    "<function_call>": "</function_call>",
    "<function_calls>": "</function_calls>",
    "<functioncall>": "</functioncall>",
    "<|tool_call|>": "<|/tool_call|>",
    "[TOOL_CALLS]": "[/TOOL_CALLS]",
}
"""The tags that Qwen, Hermes, Phi and Mistral were trained to put around calls."""
FUNCTION_TAG = "<function="
FUNCTION_TAG_END = "</function>"

END_OR_STRIKE = "</s>"
"""The end of a text in Llama 2 and Mistral, and in HTML that of a struck-out word."""
ROLE_TOKENS = frozenset({"<start_of_turn>", "<|im_start|>", "<|start_header_id|>"})
ROLES = Words(("model", "user", "assistant", "system", "tool", "developer"))
TOKENS = frozenset({
    *ROLE_TOKENS, *TAGS.values(), FUNCTION_TAG_END,
    "<bos>", "<eos>", "<pad>", "<end_of_turn>", "<end_of_utterance>", END_OR_STRIKE,
    "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|end|>", "<|user|>", "<|assistant|>",
    "<|system|>", "<|tool|>", "[INST]", "[/INST]",
})  # fmt: skip
"""Special tokens that leak into text; closing tags that close nothing are among them."""
THOUGHTS = {"<think>": "</think>", "<thinking>": "</thinking>"}
"""The tags around what models only consider."""
INLINE = Words([*TAGS, FUNCTION_TAG, *THOUGHTS, *TOKENS])

LOOSE_LANGUAGES = frozenset(
    {"", "json", "jsonc", "json5", "python", "py", "text", "txt", "plaintext"}
)
"""Languages of fences that hold calls when they hold nothing else."""
CALL_LANGUAGES = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
"""Languages of fences that are meant as calls."""

PREFIXES = ("default_api.", "functions.", "tools.")
PRINT = "print"

NAME_KEYS = frozenset({"name", "function", "tool", "tool_name", "function_name", "action"})
ARGUMENT_KEYS = frozenset({
    "parameters", "args", "arguments", "input", "params", "tool_input", "action_input", "kwargs",
})  # fmt: skip
WRAPPER_KEYS = frozenset({
    "tool_calls", "function_calls", "tool_call", "function_call", "functionCall", "calls",
})  # fmt: skip
SIDE_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
"""Keys beside name and arguments that do not make a call something else."""

_EXAMPLE = re.compile(
    r"exampl|exempl|ejempl|beispiel|\be\.g\.|\bfor instance\b|\blike (?:this|so)\b"
    r"|\b(?:syntax|format|protocol|template|pattern) (?:is|for|looks)\b"
    r"|^\W*(?:syntax|format|usage)\b"
    r"|\bavailable (?:tools|functions)\b|\b(?:tools|functions) (?:are|available|I have)\b"
    r"|\byou (?:can|could|would|should|may|might|must) (?:write|use|call|make|invoke|type|say)\b",
    re.IGNORECASE,
)


def speaks_of_examples(line: str) -> bool:
    """Whether a call in this line, or right after it, is shown rather than made."""
    return bool(_EXAMPLE.search(line))


def introduces_example(line: str) -> bool:
    """Whether a line announces an example: it ends with a colon, or is a heading."""
    line = line.strip(" \t\r*_")
    return (line.endswith(":") or line.startswith("#")) and speaks_of_examples(line)
