"""What of a call's options goes into its text: functions, the choice among them, JSON output.

The rest of the options is for the wire. Built-in tools stay there: the model does not call them by
text, the API does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.text_tools.calling import TextTools
from langchain_gemini_tools.text_tools.prompt import (
    Choice,
    render_json_prompt,
    render_tool_prompt,
)
from langchain_gemini_tools.text_tools.protocol import RESULT
from langchain_gemini_tools.wire.generation import JSON, OUTPUT_FORMATS, render_output_format
from langchain_gemini_tools.wire.tools.choice import ToolChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire.invocation import Invocation

_MAX_STOPS = 5
"""How many stop sequences the API takes."""


@dataclass(frozen=True)
class Instructions:
    """What the model is told, what its answer is read with, and what is left to set."""

    texts: list[str]
    text_tools: TextTools
    rest: Invocation


def render_instructions(invocation: Invocation) -> Instructions:
    """Take functions, their choice and JSON output out of a call's options, and put them in words.

    Args:
        invocation: The resolved invocation.

    Raises:
        InvalidInputError: Tools or options that cannot work.
    """
    tools, choice = invocation.tools, invocation.tool_choice
    named = {tool["function"]["name"]: tool for tool in tools if "function" in tool}
    functions = {name: tool for name, tool in named.items() if choice.declares(name)}
    texts, generation = _render_format(invocation, names=list(functions))
    text_tools = TextTools(
        schemas={name: tool["function"].get("parameters") for name, tool in functions.items()},
        choice=_text_choice(choice),
        wants_json=bool(texts),
    )
    if functions:
        texts.append(
            render_tool_prompt([*functions.values()], text_tools.choice, invocation.tool_prompt)
        )
        generation = _with_stop(generation)
    rest = replace(
        invocation,
        tools=tuple(tool for tool in tools if "function" not in tool),
        tool_choice=ToolChoice(settings=_without_calling(choice.settings)),
        generation=generation,
    )
    return Instructions(texts, text_tools, rest)


def _text_choice(choice: ToolChoice) -> Choice:
    names = choice.names if choice.restricts_by_name else ()
    match choice.mode:
        case "ANY":
            return Choice("ANY", names)
        case "NONE":
            return Choice("NONE")
        case _:
            return Choice("AUTO", names)


def _without_calling(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in settings.items() if k != "functionCallingConfig"}


def _with_stop(generation: Mapping[str, Any]) -> dict[str, Any]:
    """Stop a model that goes on to write the results itself, if the user's own words leave room."""
    stop = generation.get("stop") or []
    stops = [stop] if isinstance(stop, str) else list(stop)
    if len(stops) < _MAX_STOPS and RESULT not in stops:
        stops.append(RESULT)
    return {**generation, "stop": stops}


def _render_format(
    invocation: Invocation, *, names: list[str]
) -> tuple[list[str], Mapping[str, Any]]:
    """What the model is told about JSON output where it cannot be set, and the other settings."""
    given = {key: value for key, value in invocation.generation.items() if value is not None}
    output = {"responseMimeType": given.get("response_mime_type"), **render_output_format(given)}
    if output["responseMimeType"] != JSON:
        return [], invocation.generation
    if names:
        raise InvalidOptionError(
            f"Tools that are called by prompt ({', '.join(names)}) exclude JSON output: the model "
            "could not call them. Use ToolStrategy or method='function_calling', or bind no tools."
        )
    if invocation.capabilities.takes_json_output:
        return [], invocation.generation
    others = {key: value for key, value in given.items() if key not in OUTPUT_FORMATS}
    return [render_json_prompt(output.get("responseJsonSchema"))], others
