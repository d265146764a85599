"""The fixed words of the protocol, and the words that models write instead of them.

    TOOL_CALL: get_weather({"city": "Oslo"})

    TOOL_RESULT: get_weather #1
    Sunny in Oslo
    END_TOOL_RESULT

The model writes calls, one per line. Only this package writes results; `#1` is the first call of
the message that the result belongs to.
"""

from __future__ import annotations

import re

from langchain_gemini_tools.prompted.parser.source import Words

MARKER = "TOOL_CALL:"
RESULT_MARKER = "TOOL_RESULT:"
RESULT_END = "END_TOOL_RESULT"

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
"""Other spellings of the marker, and the word that Phi writes before a list of calls."""

LABELS = Words(
    ("action:", "ai:", "answer:", "assistant:", "model:", "output:", "response:"), is_any_case=True
)
"""Speaker labels that models put before the marker."""

NOTHING = frozenset({"none", "null", "nothing", "no", "n/a", "na"})
"""Words after the marker that mean "no call"."""

PLACEHOLDERS = frozenset({
    "tool_name", "toolname", "tool", "function_name", "function", "func_name", "name", "your_tool",
})  # fmt: skip
"""Placeholder names in explanations of the protocol."""

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
"""The end-of-text token of Llama 2 and Mistral; in HTML, the end of struck-out text."""
ROLE_TOKENS = frozenset({"<start_of_turn>", "<|im_start|>", "<|start_header_id|>"})
ROLES = Words(("model", "user", "assistant", "system", "tool", "developer"))
TOKENS = frozenset({
    *ROLE_TOKENS, *TAGS.values(), FUNCTION_TAG_END,
    "<bos>", "<eos>", "<pad>", "<end_of_turn>", "<end_of_utterance>", END_OR_STRIKE,
    "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|end|>", "<|user|>", "<|assistant|>",
    "<|system|>", "<|tool|>", "[INST]", "[/INST]",
})  # fmt: skip
"""Special tokens that leak into text, including closing tags without an opening one."""
THOUGHTS = {"<think>": "</think>", "<thinking>": "</thinking>"}
"""The tags around a model's reasoning."""
INLINE = Words([*TAGS, FUNCTION_TAG, *THOUGHTS, *TOKENS])

LOOSE_LANGUAGES = frozenset(
    {"", "json", "jsonc", "json5", "python", "py", "text", "txt", "plaintext"}
)
"""Languages of fences that are calls if they contain nothing else."""
CALL_LANGUAGES = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
"""Languages of fences that always mean calls."""

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
"""Keys that a call may have besides its name and arguments."""

_EXAMPLE = re.compile(
    r"exampl|exempl|ejempl|beispiel|\be\.g\.|\bfor instance\b|\blike (?:this|so)\b"
    r"|\b(?:syntax|format|protocol|template|pattern) (?:is|for|looks)\b"
    r"|^\W*(?:syntax|format|usage)\b"
    r"|\bavailable (?:tools|functions)\b|\b(?:tools|functions) (?:are|available|I have)\b"
    r"|\byou (?:can|could|would|should|may|might|must) (?:write|use|call|make|invoke|type|say)\b",
    re.IGNORECASE,
)

# Everything that starts or ends a call or a result if a model repeats it verbatim: the markers with
# their colon, the languages of fences, the word that Phi writes before a list. Prose may mention
# tool calls.
_PROTOCOL = re.compile(
    r"(tool)[_ -]?((?:call|result)s?)(?=[\s*`\"']*:)"
    r"|(END_TOOL)_(RESULT)"
    r"|((?:```|~~~)[ \t]*(?:tool|function))_((?:code|call)s?)"
    r"|(func)(tools)(?=\s*[\[({]|\w)",
    re.IGNORECASE,
)
_TAG_OR_TOKEN = re.compile(
    "|".join(map(re.escape, {*TAGS, *TOKENS, FUNCTION_TAG})),
    re.IGNORECASE,
)


def mentions_example(line: str) -> bool:
    """Return whether a call in this line, or right after it, is an example."""
    return bool(_EXAMPLE.search(line))


def introduces_example(line: str) -> bool:
    """Return whether a line introduces an example: it ends with a colon, or is a heading."""
    line = line.strip(" \t\r*_")
    return (line.endswith(":") or line.startswith("#")) and mentions_example(line)


def escape_protocol(text: str) -> str:
    """Change everything in a text that looks like the protocol or like a new turn.

    `TOOL_CALL:` becomes `TOOL.CALL:`, and `<start_of_turn>` becomes `< start_of_turn>`. The text
    stays readable, but a model that repeats it neither calls a tool nor starts a turn.
    """
    text = _TAG_OR_TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)
    return _PROTOCOL.sub(lambda mark: ".".join(filter(None, mark.groups())), text)
