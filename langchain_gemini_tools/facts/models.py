"""What each model family accepts. The only module that looks at a model's name.

To support a new family, add a row to `FAMILIES`. A name that matches no row gets the newest
behaviour, so that a model released tomorrow works today.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import ModelProfile

Version = tuple[int, int]

DEFAULT_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one model accepts. The defaults are those of the newest family."""

    calls_functions: bool = True
    """Accepts `tools`. Otherwise tools are described in the prompt."""
    accepts_json_schema: bool = True
    """Accepts `parametersJsonSchema`; older models know only the API's own Schema message."""
    accepts_system_instruction: bool = True
    supports_json_output: bool = True
    """Accepts `responseMimeType: application/json`."""
    checks_call_signatures: bool = True
    """Rejects a function call of the current turn that has no thought signature."""
    accepts_media_in_function_response: bool = True
    combines_builtin_tools_with_functions: bool = True
    """Accepts both kinds in one request, given `includeServerSideToolInvocations`."""
    combines_json_output_with_functions: bool = True
    validates_calls: bool = True
    """Knows the function calling mode VALIDATED."""
    thinks_by_level: bool = True
    """Accepts `thinkingLevel`; older models accept only `thinkingBudget`."""
    supports_several_candidates: bool = False
    thinks: bool = True
    max_input_tokens: int = 1_048_576
    max_output_tokens: int = 65_536
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """How long a request may take, if the user sets no `timeout`."""

    def prompted(self) -> Capabilities:
        """Return the capabilities for prompted calling, where functions are sent as text."""
        return replace(self, combines_builtin_tools_with_functions=self.calls_functions)


_NEWEST = Capabilities()
# Google advises read timeouts of 15 to 20 minutes.
_GEMINI_4_ARGON = replace(_NEWEST, timeout_seconds=1_200.0)
_GEMINI_2_5 = Capabilities(
    checks_call_signatures=False,
    accepts_media_in_function_response=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    thinks_by_level=False,
    supports_several_candidates=True,
)
_GEMINI_2_0 = replace(_GEMINI_2_5, validates_calls=False, thinks=False, max_output_tokens=8_192)
_GEMMA_3 = Capabilities(
    calls_functions=False,
    accepts_system_instruction=False,
    supports_json_output=False,
    checks_call_signatures=False,
    accepts_media_in_function_response=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    validates_calls=False,
    thinks_by_level=False,
    thinks=False,
    max_input_tokens=131_072,
    max_output_tokens=8_192,
)


@dataclass(frozen=True)
class Family:
    """Models with the same capabilities: `<line>-<version>`, for versions below a limit."""

    line: str
    below: Version | None
    """The first version that no longer belongs to the family; `None` for no limit."""
    capabilities: Capabilities
    variant: str = ""
    """Text that the name must contain."""


FAMILIES = (
    Family("gemini", (2, 0), replace(_GEMINI_2_0, accepts_json_schema=False)),
    Family("gemini", (2, 5), _GEMINI_2_0),
    # Computer use returns screenshots.
    Family(
        "gemini",
        (3, 0),
        replace(_GEMINI_2_5, accepts_media_in_function_response=True),
        variant="computer-use",
    ),
    Family("gemini", (3, 0), _GEMINI_2_5),
    Family("gemini", None, _GEMINI_4_ARGON, variant="argon"),
    Family("gemini", None, _NEWEST),
    Family("gemma", (4, 0), _GEMMA_3),
    Family("gemma", None, _NEWEST),
)
"""The first row that matches a name applies."""

_LINES = "|".join(sorted({family.line for family in FAMILIES}))
_NAME = re.compile(rf"(?:^|/)({_LINES})(?:-live)?-(\d+)(?:\.(\d+))?n?(?![a-z0-9])")


@lru_cache(maxsize=256)
def capabilities_of(model: str) -> Capabilities:
    """Return what the model accepts, by its name; the newest behaviour for unknown names."""
    if not (name := _NAME.search(model)):
        return _NEWEST
    version = int(name[2]), int(name[3] or 0)
    return next(
        family.capabilities
        for family in FAMILIES
        if family.line == name[1]
        and (family.below is None or version < family.below)
        and family.variant in model
    )


@lru_cache(maxsize=256)
def reads_signatures_of(model: str, other: str) -> bool:
    """Return whether a model accepts the thought signatures of another, judging by their names.

    Signatures are valid for one major version; others are rejected: "Corrupted thought signature."
    """
    names = [found for name in (model, other) if (found := _NAME.search(name))]
    return len({(name[1], name[2]) for name in names}) < 2


def profile_of(model: str, *, is_prompted: bool = False) -> ModelProfile:
    """Return the profile by which LangChain's agents choose how to work with a model.

    Args:
        model: Name of the model.
        is_prompted: Whether tool calling is prompted. Then an agent must request structured
            output with a tool as well.
    """
    known = capabilities_of(model)
    calls_tools = known.calls_functions or is_prompted
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
        "structured_output": known.supports_json_output and not is_prompted,
    }
    if known.thinks:
        profile["reasoning_effort_levels"] = ["minimal", "low", "medium", "high"]
    return profile
