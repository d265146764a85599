"""The words of the protocol: how a call and a result look as text.

    TOOL_CALL: get_weather({"city": "Oslo"})

    TOOL_RESULT: get_weather #1
    Sunny in Oslo
    END_TOOL_RESULT

The model writes calls, one a line; results are written by us alone. `#1` is the first call of the
message that the result answers. The parser of what models really write is in `parser.py`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.text_tools import spellings

if TYPE_CHECKING:
    from collections.abc import Mapping

CALL = spellings.MARKER
RESULT = "TOOL_RESULT:"
END_OF_RESULT = "END_TOOL_RESULT"

# What begins or ends a call or a result where a model reads it, or repeats it word for word: the
# markers with their colon, the languages of fences, Phi's word before a list. In prose, tool calls
# are words like any others.
_MARKS = re.compile(
    r"(tool)[_ -]?((?:call|result)s?)(?=[\s*`\"']*:)"
    r"|(END_TOOL)_(RESULT)"
    r"|((?:```|~~~)[ \t]*(?:tool|function))_((?:code|call)s?)"
    r"|(func)(tools)(?=\s*[\[({]|\w)",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    "|".join(map(re.escape, {*spellings.TAGS, *spellings.TOKENS, spellings.FUNCTION_TAG})),
    re.IGNORECASE,
)


def render_call(name: str, args: Mapping[str, Any]) -> str:
    """One call, on one line."""
    return f"{CALL} {name}({write_json(args)})"


def write_json(value: Any) -> str:
    """A value of a message as JSON; what JSON has no form for, as its text.

    Raises:
        InvalidInputError: The value contains itself, is nested too deeply or has invalid keys.
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"A message holds a value that JSON has no form for: {error}"
        ) from error


def result_lines(name: str, number: int | None, *, failed: bool) -> tuple[str, str]:
    """The lines before and after a result; without a number, its call is not there."""
    tie = f" #{number}" if number else ""
    return f"{RESULT} {name}{tie}{' failed' if failed else ''}", END_OF_RESULT


def harmless(text: str) -> str:
    """A result's text in which nothing looks like the protocol or like a new turn.

    `TOOL_CALL:` becomes `TOOL.CALL:`, and `<start_of_turn>` becomes `< start_of_turn>`: still
    readable, and neither a call nor a turn where the model repeats it.
    """
    text = _TOKENS.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)
    return _MARKS.sub(lambda mark: ".".join(filter(None, mark.groups())), text)
