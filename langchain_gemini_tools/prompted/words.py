"""The words of the protocol, those that models write instead, and what they say about calls.

    TOOL_CALL: get_weather({"city": "Oslo"})

    TOOL_RESULT: get_weather #1
    Sunny in Oslo
    END_TOOL_RESULT

The model writes calls, one per line. Only this package writes results; `#1` is the first call of
the message that the result belongs to.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Words:
    """A set of fixed words to search for.

    Args:
        words: The words; empty ones are skipped.
        is_any_case: Whether `tool_call` also matches `Tool_Call`. The words must be lower case.
    """

    def __init__(self, words: Iterable[str], *, is_any_case: bool = False) -> None:
        self.is_any_case = is_any_case
        self.longest = 0
        self._by_first: dict[str, list[str]] = {}
        for word in sorted(set(words) - {""}, key=len, reverse=True):
            self.longest = max(self.longest, len(word))
            self._by_first.setdefault(word[0], []).append(word)

    def match(self, text: str) -> tuple[str, bool]:
        """Return the longest word that `text` starts with, and whether it could still grow."""
        if self.is_any_case:
            text = text.lower()
        may_grow = False
        for word in self._by_first.get(text[:1], ()):
            if len(word) > len(text):
                may_grow = may_grow or word.startswith(text)
            elif text.startswith(word):
                return word, may_grow
        return "", may_grow


BLANKS = re.compile(r"[ \t]*")
MARKER = "TOOL_CALL:"
RESULT_MARKER = "TOOL_RESULT:"
RESULT_END = "END_TOOL_RESULT"

MARKERS = Words((MARKER, r"TOOL\_CALL:", "TOOL_CALL**:"))
"""The marker, also as Markdown escapes or emphasizes it."""
FENCES = Words(("```", "~~~"))
LINE_ENDS = ("", "\n", "\r")
TRAILER = re.compile(r"[*`.)]*")
"""What models put right after a call."""

LOOSE_MARKERS = Words(
    [
        *(f"{kind}{gap}call{plural}{colon}"
          for kind in ("tool", "function") for gap in ("_", " ", "-", "")
          for plural in ("", "s") for colon in (":", " :")),
        "call: ",
        "functools",
    ],
    is_any_case=True,
)  # fmt: skip
"""Other spellings of the marker, and the word that Phi writes before a list of calls."""

LABELS = Words(
    ("action:", "ai:", "answer:", "assistant:", "model:", "output:", "response:"), is_any_case=True
)
"""Speaker labels that models put before the marker."""
ACTION = "action:"
ACTION_INPUT = Words(("action input:", "action_input:", "input:"), is_any_case=True)
"""The lines of a ReAct agent: `Action: get_weather`, then `Action Input: {"city": "Oslo"}`."""

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
    "<tool_code>": "</tool_code>",
    "<call_record>": "</call_record>",
    "<|tool_call>": "<tool_call|>",
    "<start_function_call>": "<end_function_call>",
}
"""The tags that Qwen, Hermes, Phi, Mistral, Gemini and Gemma were trained to put around calls."""
TEXT_TOKENS = Words(('<|"|>', "<escape>"))
"""What Gemma 4 and FunctionGemma put around a text in place of quotes; what is between is literal.
https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4"""
FUNCTION_TAG = "<function="
FUNCTION_TAG_END = "</function>"
INVOKE_TAG = "<invoke name="

END_OR_STRIKE = "</s>"
"""The end-of-text token of Llama 2 and Mistral; in HTML, the end of struck-out text."""
ROLE_TOKENS = frozenset({"<start_of_turn>", "<|turn>", "<|im_start|>", "<|start_header_id|>"})
ROLES = Words(("model", "user", "assistant", "system", "tool", "developer"))
TOKENS = frozenset({
    *ROLE_TOKENS, *TAGS.values(), FUNCTION_TAG_END,
    "<bos>", "<eos>", "<pad>", "<end_of_turn>", "<end_of_utterance>", END_OR_STRIKE,
    "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|end|>", "<|user|>", "<|assistant|>",
    "<|system|>", "<|tool|>", "[INST]", "[/INST]", "<<function>>", "<bot_end>",
    "<turn|>", "<|tool_response>", "<tool_response|>", "<start_function_response>",
})  # fmt: skip
"""Special tokens that leak into text, including closing tags without an opening one."""
THOUGHTS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<|channel>thought": "<channel|>",
}
"""The tags around a model's reasoning."""
OPENINGS = Words(TAGS)
INLINE = Words([*TAGS, FUNCTION_TAG, INVOKE_TAG, *THOUGHTS, *TOKENS])

LOOSE_LANGUAGES = frozenset(
    {"", "json", "jsonc", "json5", "python", "py", "text", "txt", "plaintext", "xml"}
)
"""Languages of fences that are calls if they contain nothing else."""
CALL_LANGUAGES = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
"""Languages of fences that always mean calls."""

PREFIXES = ("call:", "default_api.", "default_api:", "functions.", "tools.")
"""What models put before a name, in the order in which they combine them."""
PRINT = "print"

NAME_KEYS = frozenset({"name", "function", "tool", "tool_name", "function_name", "action"})
ARGUMENT_KEYS = frozenset({
    "parameters", "args", "arguments", "input", "params", "tool_input", "action_input", "kwargs",
})  # fmt: skip
WRAPPER_KEYS = frozenset({
    "tool_calls", "function_calls", "tool_call", "function_call", "functionCall", "calls",
})  # fmt: skip
CODE_KEY = "tool_code"
"""The key of Gemini's `{"tool_code": "print(default_api.f(a=1))"}`."""
SIDE_KEYS = frozenset({
    "id", "type", "index", "call_id", "tool_call_id", "thought", "thoughts", "reason", "reasoning",
})  # fmt: skip
"""Keys that a call may have in addition to its name and arguments."""
DEFINITION_KEYS = frozenset({
    "description", "strict", "required", "properties", "returns", "response", "input_schema",
    "inputSchema", "args_schema",
})  # fmt: skip
"""Keys of the definition of a tool, which is not a call of it."""


_BULLET = frozenset("-*+\u2022#0123456789.) \t_\ufe0f\u200d\u20e3")
_VERDICTS = frozenset("\u2705\u2713\u2714\u2611\u274c\u2717\u2718\u2612")
"""Check marks and crosses, which mark right and wrong examples."""


def is_bullet(char: str) -> bool:
    """Return whether models put this before the marker: a bullet, a number, an emoji, an arrow."""
    if char in _BULLET:
        return True
    return char > "\u2000" and char not in _VERDICTS and unicodedata.category(char)[0] == "S"


_EXAMPLE = re.compile(
    r"exampl|exempl|ejempl|beispiel|\be\.g\.|\bfor instance\b|\blike (?:this|so)\b"
    r"|\b(?:syntax|format|protocol|template|pattern) (?:is|for|looks)\b"
    r"|^\W*(?:syntax|format|usage)\b"
    r"|\byou (?:can|could|would|should|may|might|must) (?:write|use|call|make|invoke|type|say)\b",
    re.IGNORECASE,
)
_LIST_OF_TOOLS = re.compile(
    r"\bavailable (?:tools|functions)\b|\b(?:tools|functions) (?:are|available|I have)\b",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"\bhere(?:'s|\u2019s| is| are)(?: (?:the|my|your|an?|all|api|\w*(?:function|tool|python|json)"
    r"|\w+(?:ed|ing|ate|ary|ect|al)))* (?:calls?|invocations?)\b"
    r"|\b(?:I(?:'ll|\u2019ll|'m going to| will| am going to)|let me|let us|let's)(?: now)?"
    r" (?:call|use|invoke|make|run)\b"
    r"|\b(?:function|tool|API) calls? (?:is|are)\W*$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?][)\"']?\s+(?=[A-Z\"'(*`])")

# Everything that starts or ends a call or a result if a model repeats it verbatim: the markers with
# their colon, the languages of fences, the word that Phi writes before a list. Prose may mention
# tool calls.
_PROTOCOL = re.compile(
    r"(tool)\\?[_ -]?((?:call|result)s?)(?=[\s*`\"']*:)"
    r"|(END_TOOL)_(RESULT)"
    r"|((?:```|~~~)[ \t]*(?:tool|function))_((?:code|call)s?)"
    r"|(func)(tools)(?=\s*[\[({]|\w)",
    re.IGNORECASE,
)
_TAG_OR_TOKEN = re.compile(
    "|".join(map(re.escape, {*TAGS, *TOKENS, FUNCTION_TAG, INVOKE_TAG})),
    re.IGNORECASE,
)


def mentions_example(line: str) -> bool:
    """Return whether a call in this line, or right after it, is an example.

    The last sentence decides: "I looked at the available functions. Here is the call:" announces a
    call, and so does "Here is the call of one of the available functions:".
    """
    sentence = _SENTENCE_END.split(line.rstrip())[-1]
    if _EXAMPLE.search(sentence):
        return True
    return bool(_LIST_OF_TOOLS.search(sentence)) and not _ANNOUNCEMENT.search(sentence)


def announces_call(line: str) -> bool:
    """Return whether the start of a line, up to a colon, announces a call: `I will call: `."""
    sentence = _SENTENCE_END.split(line.rstrip())[-1]
    return bool(_ANNOUNCEMENT.search(sentence)) and not _EXAMPLE.search(sentence)


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


# The declared tools, and why a call was not executed: sentences that the model can act on

_MAX_LISTED = 30


class ToolNames:
    """The names of the declared tools, and the words that a call of one may start with."""

    def __init__(self, names: Iterable[str]) -> None:
        self._listed = list(names)
        self._names = frozenset(self._listed)
        self.words = Words(self._listed)
        self.callables = Words([*self._listed, *PREFIXES, PRINT])

    def __contains__(self, name: str | None) -> bool:
        return name in self._names

    def are_called_in(self, text: str) -> bool:
        """Return whether a declared name is in quotes or followed by a parenthesis in the text."""
        if not self._listed:
            return False
        names = "|".join(map(re.escape, self._listed))
        return bool(re.search(rf"""(?<![\w.])(?:{names})\s*\(|["'](?:{names})["']""", text))

    def bare(self, name: str) -> str:
        """Strip what models put around a name."""
        if name in self._names:
            return name
        name = name.replace("\\_", "_").rstrip(":")
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        return name

    def explain(self, name: str | None, detail: str = "") -> str:
        """Explain that a tool does not exist, or why a call cannot be parsed."""
        if name and name in self._names:
            return (
                f"The call of {shorten(name)!r} cannot be read: {detail}. Write it in one line, "
                f"with the arguments as one JSON object: {_render_format(name)}"
            )
        listed = self._render(name or "")
        tools = f" The tools are: {listed}." if listed else ""
        if not name:
            how = f"Write it in one line: {_render_format(None)}"
            return f"This call cannot be read: {detail}.{tools} {how}"
        missing = f"There is no tool named {shorten(name)!r}"
        if not listed:
            return f"{missing}: no tools can be called. Answer in words."
        return f"{missing}.{tools} Use one of these names: {_render_format(None)}"

    def _render(self, wanted: str) -> str:
        """List the names, similar ones first."""
        similar = difflib.get_close_matches(wanted[:100], self._listed, n=3, cutoff=0.5)
        ordered = [*similar, *(name for name in self._listed if name not in similar)]
        listed = ", ".join(ordered[:_MAX_LISTED])
        left_out = len(ordered) - _MAX_LISTED
        return f"{listed} and {left_out} more" if left_out > 0 else listed


def render_quoted(name: str) -> str:
    """Explain that a call was not executed because a tool's result contains it."""
    return (
        f"This call of {shorten(name)!r} stands in the result of a tool, so it was taken as a "
        f"quotation and not executed. To make it yourself, write: {_render_format(name)}"
    )


def render_cut(name: str | None) -> str:
    """Explain that the end of the text cut the call off."""
    of = f" of {shorten(name)!r}" if name else ""
    return (
        f"The text ended in the middle of this call{of}, so it was not executed. "
        f"Write the whole call again, shorter if it was too long: {_render_format(name)}"
    )


def _render_format(name: str | None) -> str:
    return f'{MARKER} {shorten(name or "tool_name")}({{"argument": "value"}})'


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= 60 else text[:60] + "..."
