"""The text that has arrived, the words that are searched for in it, and those of the protocol.

    TOOL_CALL: get_weather({"city": "Oslo"})

    TOOL_RESULT: get_weather #1
    Sunny in Oslo
    END_TOOL_RESULT

The model writes calls, one per line. Only this package writes results; `#1` is the first call of
the message that the result belongs to. Models also write other words instead.

The text arrives in chunks and is read as if it were complete. The reading functions are generators:
a bare `yield` means "more text is needed". They read from top to bottom like any parser, and the
places where the text was split cannot change the result. Every character is looked at a bounded
number of times, and the text that waits for the next chunk is never longer than the longest word
that is searched for.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]
"""A read in progress: it yields when it needs more text, and returns what it read."""


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
        for word in sorted(set(words), key=len, reverse=True):
            if word:
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


class Source:
    """The text so far. `chunk[at]` is the next character if `more` returns True.

    Args:
        text: The first chunk.
        is_closed: Whether the text is complete.
        stops: Words that end any value if they start a line; see `values.skip_space`.
    """

    def __init__(
        self, text: str = "", *, is_closed: bool = False, stops: Words | None = None
    ) -> None:
        self.chunk = text
        self.at = 0
        self.is_closed = is_closed
        self.stops = stops or Words(())
        self._start = 0
        self._kept: list[str] = []
        self._kept_length = 0

    def add(self, text: str) -> None:
        """Add the next chunk. Text that was read but not taken is set aside, not copied again."""
        if kept := self.chunk[self._start : self.at]:
            self._kept.append(kept)
            self._kept_length += len(kept)
        self.chunk = self.chunk[self.at :] + text
        self._start = self.at = 0

    @property
    def offset(self) -> int:
        """How many characters were read since the last `take`."""
        return self._kept_length + self.at - self._start

    def seen(self) -> str:
        """Return the text that was read since the last `take`."""
        last = self.chunk[self._start : self.at]
        return "".join([*self._kept, last]) if self._kept else last

    def take(self) -> str:
        """Return the text that was read since the last `take`, and forget it."""
        text = self.seen()
        if self._kept:
            self._kept = []
            self._kept_length = 0
        self._start = self.at
        return text

    def more(self) -> Reading[bool]:
        """Return whether there is a next character; wait until that is known."""
        while self.at >= len(self.chunk):
            if self.is_closed:
                return False
            yield
        return True

    def peek(self) -> Reading[str]:
        """Return the next character without reading it; empty at the end."""
        return self.chunk[self.at] if (yield from self.more()) else ""

    def run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read as many characters as the pattern matches: a repeated character class."""
        parts: list[str] = []
        while self.at < len(self.chunk) or (yield from self.more()):
            match = pattern.match(self.chunk, self.at)
            end = match.end() if match else self.at
            parts.append(self.chunk[self.at : end])
            self.at = end
            if end < len(self.chunk):
                break
        return "".join(parts) if len(parts) != 1 else parts[0]

    def read(self, count: int) -> Reading[str]:
        """Read `count` characters, or fewer at the end."""
        parts: list[str] = []
        while count and (yield from self.more()):
            parts.append(self.chunk[self.at : self.at + count])
            self.at += len(parts[-1])
            count -= len(parts[-1])
        return "".join(parts)

    def match(self, words: Words) -> Reading[str]:
        """Return the longest of the words that comes next, without reading it; else empty."""
        while self.at < len(self.chunk) or (yield from self.more()):
            found, may_grow = words.match(self.chunk[self.at : self.at + words.longest])
            if not may_grow or self.is_closed:
                return found
            yield
        return ""


# The words

BLANKS = re.compile(r"[ \t]*")
MARKER = "TOOL_CALL:"
RESULT_MARKER = "TOOL_RESULT:"
RESULT_END = "END_TOOL_RESULT"

MARKERS = Words((MARKER,))
FENCES = Words(("```", "~~~"))

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
}
"""The tags that Qwen, Hermes, Phi, Mistral and Gemini were trained to put around calls."""
FUNCTION_TAG = "<function="
FUNCTION_TAG_END = "</function>"
INVOKE_TAG = "<invoke name="

END_OR_STRIKE = "</s>"
"""The end-of-text token of Llama 2 and Mistral; in HTML, the end of struck-out text."""
ROLE_TOKENS = frozenset({"<start_of_turn>", "<|im_start|>", "<|start_header_id|>"})
ROLES = Words(("model", "user", "assistant", "system", "tool", "developer"))
TOKENS = frozenset({
    *ROLE_TOKENS, *TAGS.values(), FUNCTION_TAG_END,
    "<bos>", "<eos>", "<pad>", "<end_of_turn>", "<end_of_utterance>", END_OR_STRIKE,
    "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|end|>", "<|user|>", "<|assistant|>",
    "<|system|>", "<|tool|>", "[INST]", "[/INST]", "<<function>>", "<bot_end>",
})  # fmt: skip
"""Special tokens that leak into text, including closing tags without an opening one."""
THOUGHTS = {"<think>": "</think>", "<thinking>": "</thinking>"}
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
"""Keys that a call may have besides its name and arguments."""
DEFINITION_KEYS = frozenset({
    "description", "strict", "required", "properties", "returns", "response", "input_schema",
    "inputSchema", "args_schema",
})  # fmt: skip
"""Keys of the definition of a tool, which is not a call of it."""

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
    r"(tool)[_ -]?((?:call|result)s?)(?=[\s*`\"']*:)"
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


# The declared tools


class ToolNames:
    """The names of the declared tools, and the words that a call of one may start with."""

    def __init__(self, names: Iterable[str]) -> None:
        self.listed = list(names)
        self._names = frozenset(self.listed)
        self.words = Words(self.listed)
        self.callables = Words([*self.listed, *PREFIXES, PRINT])

    def __contains__(self, name: str | None) -> bool:
        return name in self._names

    def are_called_in(self, text: str) -> bool:
        """Return whether a declared name is in quotes or followed by a parenthesis in the text."""
        if not self.listed:
            return False
        names = "|".join(map(re.escape, self.listed))
        return bool(re.search(rf"""(?<![\w.])(?:{names})\s*\(|["'](?:{names})["']""", text))


def bare_name(name: str, names: ToolNames) -> str:
    """Strip what models put around a name."""
    if name in names:
        return name
    name = name.replace("\\_", "_").rstrip(":")
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


# Why a call was not executed: sentences that the model can act on

_MAX_LISTED = 30


def render_undeclared(name: str, names: Sequence[str]) -> str:
    """Explain that the tool does not exist, and list the tools, similar names first."""
    if not names:
        return f"There is no tool named {shorten(name)!r}: no tools can be called. Answer in words."
    return (
        f"There is no tool named {shorten(name)!r}. The tools are: {_render_names(name, names)}. "
        f"Use one of these names: {_render_format(None)}"
    )


def render_unreadable(name: str | None, detail: str, names: Sequence[str]) -> str:
    """Explain why a call cannot be parsed."""
    if name is None:
        tools = f" The tools are: {_render_names('', names)}." if names else ""
        how = f"Write it in one line: {_render_format(None)}"
        return f"This call cannot be read: {detail}.{tools} {how}"
    return (
        f"The call of {shorten(name)!r} cannot be read: {detail}. "
        f"Write it in one line, with the arguments as one JSON object: {_render_format(name)}"
    )


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


def _render_names(wanted: str, names: Sequence[str]) -> str:
    similar = difflib.get_close_matches(wanted[:100], names, n=3, cutoff=0.5) if wanted else []
    ordered = [*similar, *(name for name in names if name not in similar)]
    listed = ", ".join(ordered[:_MAX_LISTED])
    left_out = len(ordered) - _MAX_LISTED
    return f"{listed} and {left_out} more" if left_out > 0 else listed


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= 60 else text[:60] + "..."
