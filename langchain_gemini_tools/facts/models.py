"""What each model family accepts. The only file that looks at a model's name.

Unknown and newer names get the newest behaviour, so that a model released tomorrow works today.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import ModelProfile

_GENERATION = re.compile(r"(?:^|/)gemini(?:-live)?-(\d+)(?:\.(\d+))?")
_GEMMA = re.compile(r"(?:^|/)gemma-(\d+)n?(?=[-.]|$)")


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one model accepts. The defaults are those of the newest family."""

    calls_functions: bool = True
    """Takes `tools`. Without it, tools are called by prompt."""
    takes_json_schema: bool = True
    """Takes `parametersJsonSchema`; older models know the API's own Schema message only."""
    takes_system_instruction: bool = True
    takes_json_output: bool = True
    """Takes `responseMimeType: application/json`."""
    checks_call_signatures: bool = True
    """Refuses a call of the current turn that came without a thought signature."""
    takes_media_in_function_response: bool = True
    combines_builtin_tools_with_functions: bool = True
    """Takes both kinds in one request, given `includeServerSideToolInvocations`."""
    combines_json_output_with_functions: bool = True
    validates_calls: bool = True
    """Knows the mode VALIDATED."""
    thinks_by_level: bool = True
    """Takes `thinkingLevel`; older models take `thinkingBudget` only."""
    takes_several_candidates: bool = False
    thinks: bool = True
    max_input_tokens: int = 1_048_576
    max_output_tokens: int = 65_536

    def by_prompt(self) -> Capabilities:
        """What holds where functions go as text: there they do not meet the API's own tools."""
        return replace(self, combines_builtin_tools_with_functions=self.calls_functions)


_GEMINI_3 = Capabilities()
_GEMINI_2_5 = Capabilities(
    checks_call_signatures=False,
    takes_media_in_function_response=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    thinks_by_level=False,
    takes_several_candidates=True,
)
_COMPUTER_USE = replace(_GEMINI_2_5, takes_media_in_function_response=True)  # its screenshots
_GEMINI_2_0 = Capabilities(
    checks_call_signatures=False,
    takes_media_in_function_response=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    validates_calls=False,
    thinks_by_level=False,
    takes_several_candidates=True,
    thinks=False,
    max_output_tokens=8_192,
)
_GEMINI_1 = replace(_GEMINI_2_0, takes_json_schema=False)
_GEMMA_3 = Capabilities(
    calls_functions=False,
    takes_system_instruction=False,
    takes_json_output=False,
    checks_call_signatures=False,
    takes_media_in_function_response=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    validates_calls=False,
    thinks_by_level=False,
    thinks=False,
    max_input_tokens=131_072,
    max_output_tokens=8_192,
)


@lru_cache(maxsize=256)
def capabilities_of(model: str) -> Capabilities:
    """What the model of this name accepts; the newest behaviour for names never seen."""
    if gemma := _GEMMA.search(model):
        return _GEMMA_3 if int(gemma[1]) <= 3 else _GEMINI_3
    if not (gemini := _GENERATION.search(model)):
        return _GEMINI_3
    major, minor = int(gemini[1]), int(gemini[2] or 0)
    if major >= 3:
        return _GEMINI_3
    if major < 2:
        return _GEMINI_1
    if (major, minor) < (2, 5):
        return _GEMINI_2_0
    return _COMPUTER_USE if "computer-use" in model else _GEMINI_2_5


@lru_cache(maxsize=256)
def reads_signatures_of(model: str, other: str) -> bool:
    """Whether a model takes thought signatures of the other, as far as their names tell.

    Signatures belong to one line of models; another line answers "Corrupted thought signature."
    """
    lines = {line for name in (model, other) if (line := _line_of(name))}
    return len(lines) < 2


def _line_of(model: str) -> str | None:
    for line, pattern in (("gemini", _GENERATION), ("gemma", _GEMMA)):
        if found := pattern.search(model):
            return f"{line}-{found[1]}"
    return None


def profile_of(model: str, *, by_prompt: bool = False) -> ModelProfile:
    """What LangChain's agents ask before they choose a way of working.

    Args:
        model: Name of the model.
        by_prompt: Whether tools are called by prompt. An agent then has to ask for structured
            answers by a tool, too.
    """
    known = capabilities_of(model)
    calls_tools = known.calls_functions or by_prompt
    profile: ModelProfile = {
        "max_input_tokens": known.max_input_tokens,
        "max_output_tokens": known.max_output_tokens,
        "text_inputs": True,
        "image_inputs": True,
        "image_url_inputs": known.calls_functions,
        "pdf_inputs": known.calls_functions,
        "audio_inputs": known.calls_functions,
        "video_inputs": known.calls_functions,
        "image_tool_message": calls_tools,
        "pdf_tool_message": known.calls_functions,
        "text_outputs": True,
        "reasoning_output": known.thinks,
        "tool_calling": calls_tools,
        "tool_choice": calls_tools,
        "structured_output": known.takes_json_output and not by_prompt,
    }
    if known.thinks:
        profile["reasoning_effort_levels"] = ["minimal", "low", "medium", "high"]
    return profile
