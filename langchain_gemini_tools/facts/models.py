"""What each model family accepts. The only module that looks at a model's name.

To support a new family, add a row to `FAMILIES`. A newer version than any row names gets the last
row of its line, so that a model released tomorrow works today. A name without a version (an alias,
an endpoint, a tuned model) gets the defaults of `Capabilities`: it may be any model, so nothing is
rejected on its behalf; the option `model_family` says which one it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from langchain_core.language_models import ModelProfile

Version = tuple[int, int]
Level = Literal["minimal", "low", "medium", "high"]
Medium = Literal["text", "image", "audio", "video", "pdf"]

ALL_LEVELS: tuple[Level, ...] = ("minimal", "low", "medium", "high")
ALL_MEDIA: tuple[Medium, ...] = ("text", "image", "audio", "video", "pdf")

DEFAULT_TIMEOUT_SECONDS = 600.0

DEFAULT_MODEL = "gemini-3.8-flash"
"""The model of the demo, and of checks that do not name one."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one model accepts. The defaults are those of a model that is not known by its name."""

    calls_functions: bool = True
    """Accepts function declarations. Otherwise see `accepts_prompted_functions`."""
    accepts_prompted_functions: bool = True
    """Can be asked for tool calls in the prompt; models that draw or speak cannot."""
    accepts_builtin_tools: bool = True
    accepts_json_schema: bool = True
    """Accepts `parametersJsonSchema`; older models know only the API's own Schema message."""
    accepts_system_instruction: bool = True
    supports_json_output: bool = True
    """Accepts `responseMimeType: application/json`."""
    supports_cached_content: bool = True
    checks_call_signatures: bool = True
    """Rejects a function call of the current turn that has no thought signature."""
    accepts_prefill: bool = False
    """Accepts a history that ends with a model turn, and continues that turn."""
    accepts_media_in_function_response: bool = True
    accepts_resolution_per_part: bool = True
    """Accepts `mediaResolution` on a part; older models know only that of the whole request."""
    combines_builtin_tools_with_functions: bool = True
    """Accepts both kinds in one request, given `includeServerSideToolInvocations`."""
    combines_json_output_with_functions: bool = True
    validates_calls: bool = True
    """Knows the function calling mode VALIDATED."""
    supports_several_candidates: bool = False
    ignores_sampling: bool = False
    """Ignores `temperature`, `topP` and `topK`; later generations will reject them."""

    thinks: bool = True
    thinks_by_level: bool = True
    """Accepts `thinkingLevel`; older models accept only `thinkingBudget`."""
    thinking_levels: tuple[Level, ...] | None = None
    """The levels that it accepts, the lowest first; `None` if they are not known."""
    default_thinking_level: Level | None = None
    """The level that applies if none is set; `None` if it is not known."""
    accepts_thinking_budget: bool = True
    can_turn_thinking_off: bool = True
    """Accepts a budget of 0. Vertex AI accepts it for models that think by level in any case."""

    inputs: tuple[Medium, ...] = ALL_MEDIA
    outputs: tuple[Medium, ...] = ("text",)
    accepts_file_uris: bool = True
    """Accepts media by address, not only inline."""
    max_input_tokens: int = 1_048_576
    max_output_tokens: int = 65_536
    """The limit of one request, thinking included."""
    max_unary_output_tokens: int | None = None
    """The limit of a request that is not streamed, if it is lower."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """How long a request may take, if the user sets no `timeout`."""

    def prompted(self) -> Capabilities:
        """Return the capabilities for prompted calling, where functions are sent as text."""
        return replace(self, combines_builtin_tools_with_functions=self.calls_functions)

    def on_interactions(self) -> Capabilities:
        """Return the capabilities for the Interactions API, which differ from generateContent.

        Recorded: gemini-2.5-flash and its lite version accept `thinking_level` there. By the SDK, a
        function result may contain media, and there is no thinking budget.
        """
        levels = self.thinking_levels if self.thinks_by_level else ALL_LEVELS
        return replace(
            self,
            thinks_by_level=self.thinks,
            thinking_levels=levels,
            accepts_thinking_budget=False,
            accepts_json_schema=True,
            accepts_media_in_function_response=True,
            accepts_prefill=False,
            accepts_resolution_per_part=True,
        )


# Gemini 2 and earlier

_GEMINI_2_5 = Capabilities(
    checks_call_signatures=False,
    accepts_prefill=True,
    accepts_media_in_function_response=False,
    accepts_resolution_per_part=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    thinks_by_level=False,
    thinking_levels=(),
    supports_several_candidates=True,
)
_GEMINI_2_0 = replace(_GEMINI_2_5, validates_calls=False, thinks=False, max_output_tokens=8_192)
_COMPUTER_USE = replace(
    _GEMINI_2_5,
    accepts_media_in_function_response=True,  # screenshots
    inputs=("text", "image"),
    max_input_tokens=128_000,
    max_output_tokens=64_000,
)

# Gemini 3 and later

_GEMINI_3 = Capabilities(
    accepts_prefill=True, thinking_levels=ALL_LEVELS, default_thinking_level="high"
)
_GEMINI_3_PRO = replace(_GEMINI_3, thinking_levels=("low", "high"), can_turn_thinking_off=False)
_GEMINI_3_1_PRO = replace(_GEMINI_3_PRO, thinking_levels=("low", "medium", "high"))
_GEMINI_3_FLASH_LITE = replace(_GEMINI_3, default_thinking_level="minimal")
_GEMINI_3_5 = replace(_GEMINI_3, default_thinking_level="medium")
_GEMINI_3_6 = replace(_GEMINI_3_5, accepts_prefill=False, ignores_sampling=True)
_NEWEST = replace(
    _GEMINI_3_6, thinking_levels=("low", "medium", "high"), default_thinking_level=None
)
_ARGON = replace(
    _NEWEST,
    default_thinking_level="medium",
    accepts_thinking_budget=False,
    supports_cached_content=False,
    max_unary_output_tokens=32_768,
    timeout_seconds=1_200.0,  # Google advises read timeouts of 15 to 20 minutes
)

# Models that draw or speak

_IMAGE = replace(
    _GEMINI_3,
    calls_functions=False,
    accepts_prompted_functions=False,
    thinking_levels=None,
    default_thinking_level=None,
    inputs=("text", "image", "pdf"),
    outputs=("text", "image"),
    max_input_tokens=65_536,
    max_output_tokens=32_768,
)
_IMAGE_2_5 = replace(
    _IMAGE,
    supports_json_output=False,
    checks_call_signatures=False,
    thinks=False,
    thinks_by_level=False,
    thinking_levels=(),
    max_input_tokens=32_768,
)
_FLASH_IMAGE = replace(
    _IMAGE,
    thinking_levels=("minimal", "high"),
    default_thinking_level="minimal",
    max_input_tokens=131_072,
)
_FLASH_LITE_IMAGE = replace(_FLASH_IMAGE, max_input_tokens=65_536, max_output_tokens=4_096)
_SPEECH = replace(
    _IMAGE,
    accepts_builtin_tools=False,
    supports_json_output=False,
    inputs=("text",),
    outputs=("audio",),
    max_input_tokens=8_192,
    max_output_tokens=16_384,
)
_SPEECH_2_5 = replace(
    _SPEECH,
    checks_call_signatures=False,
    thinks=False,
    thinks_by_level=False,
    thinking_levels=(),
)

# Gemma

_GEMMA_3 = Capabilities(
    calls_functions=False,
    accepts_builtin_tools=False,
    accepts_system_instruction=False,
    supports_json_output=False,
    checks_call_signatures=False,
    accepts_media_in_function_response=False,
    accepts_resolution_per_part=False,
    combines_builtin_tools_with_functions=False,
    combines_json_output_with_functions=False,
    validates_calls=False,
    thinks=False,
    thinks_by_level=False,
    thinking_levels=(),
    inputs=("text", "image"),
    accepts_file_uris=False,
    max_input_tokens=131_072,
    max_output_tokens=8_192,
)
_GEMMA_4 = Capabilities(
    # "Thinking budget is not supported for this model."
    accepts_thinking_budget=False,
    thinking_levels=("minimal", "high"),
    inputs=("text", "image"),
    max_input_tokens=262_144,
    max_output_tokens=32_768,
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
    models: tuple[str, ...] = ()
    """The models that the row was written for."""


FAMILIES = (
    Family("gemini", (3, 0), _SPEECH_2_5, "-tts", ("gemini-2.5-flash-preview-tts",)),
    Family("gemini", None, _SPEECH, "-tts", ("gemini-3.1-flash-tts-preview",)),
    Family("gemini", (3, 0), _IMAGE_2_5, "-image", ("gemini-2.5-flash-image",)),
    Family("gemini", None, _FLASH_LITE_IMAGE, "flash-lite-image", ("gemini-3.1-flash-lite-image",)),
    Family("gemini", None, _FLASH_IMAGE, "flash-image", ("gemini-3.1-flash-image",)),
    Family("gemini", None, _IMAGE, "-image", ("gemini-3-pro-image",)),
    Family(
        "gemini", (2, 0), replace(_GEMINI_2_0, accepts_json_schema=False), "", ("gemini-1.5-pro",)
    ),
    Family("gemini", (2, 5), _GEMINI_2_0, "", ("gemini-2.0-flash",)),
    Family(
        "gemini",
        (3, 0),
        _COMPUTER_USE,
        "computer-use",
        ("gemini-2.5-computer-use-preview-10-2025",),
    ),
    Family(
        "gemini",
        (3, 0),
        replace(_GEMINI_2_5, can_turn_thinking_off=False),
        "-pro",
        ("gemini-2.5-pro",),
    ),
    Family("gemini", (3, 0), _GEMINI_2_5, "", ("gemini-2.5-flash", "gemini-2.5-flash-lite")),
    Family("gemini", (3, 1), _GEMINI_3_PRO, "-pro", ("gemini-3-pro-preview",)),
    Family("gemini", (3, 1), _GEMINI_3, "", ("gemini-3-flash-preview",)),
    Family("gemini", (3, 6), _GEMINI_3_1_PRO, "-pro", ("gemini-3.1-pro-preview",)),
    Family("gemini", (3, 5), _GEMINI_3_FLASH_LITE, "flash-lite", ("gemini-3.1-flash-lite",)),
    Family(
        "gemini",
        (3, 6),
        replace(_GEMINI_3_6, default_thinking_level="minimal"),
        "flash-lite",
        ("gemini-3.5-flash-lite",),
    ),
    Family("gemini", (3, 6), _GEMINI_3_5, "", ("gemini-3.5-flash",)),
    Family("gemini", (3, 7), _GEMINI_3_6, "", ("gemini-3.6-flash",)),
    Family(
        "gemini",
        (3, 9),
        replace(_NEWEST, default_thinking_level="medium"),
        "-flash",
        ("gemini-3.7-flash", "gemini-3.8-flash"),
    ),
    Family("gemini", None, _ARGON, "-argon", ("gemini-4-argon",)),
    Family("gemini", None, _NEWEST),
    Family("gemma", (4, 0), _GEMMA_3, "", ("gemma-3-27b-it", "gemma-3n-e4b-it")),
    Family("gemma", None, _GEMMA_4, "", ("gemma-4-26b-a4b-it", "gemma-4-31b-it")),
)
"""The first row that matches a name applies."""

_LINES = "|".join(sorted({family.line for family in FAMILIES}))
_NAME = re.compile(rf"(?:^|/)({_LINES})(?:-live)?-(\d+)(?:\.(\d+))?n?(?![a-z0-9])")
_UNKNOWN = Capabilities()


@lru_cache(maxsize=256)
def capabilities_of(model: str) -> Capabilities:
    """Return what the model accepts, by its name; the newest behaviour for newer versions."""
    if not (name := _NAME.search(model)):
        return _UNKNOWN
    version = int(name[2]), int(name[3] or 0)
    return next(
        family.capabilities
        for family in FAMILIES
        if family.line == name[1]
        and (family.below is None or version < family.below)
        and family.variant in model
    )


@lru_cache(maxsize=256)
def shows_family(name: str) -> bool:
    """Return whether a name shows its family and version, so that the rules of a row apply."""
    return _NAME.search(name) is not None


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
        "image_inputs": "image" in known.inputs,
        "image_url_inputs": "image" in known.inputs and known.accepts_file_uris,
        "pdf_inputs": "pdf" in known.inputs,
        "audio_inputs": "audio" in known.inputs,
        "video_inputs": "video" in known.inputs,
        "image_tool_message": calls_tools and "image" in known.inputs,
        "pdf_tool_message": known.calls_functions and "pdf" in known.inputs,
        "text_outputs": "text" in known.outputs,
        "image_outputs": "image" in known.outputs,
        "audio_outputs": "audio" in known.outputs,
        "video_outputs": False,
        "reasoning_output": known.thinks,
        "tool_calling": calls_tools,
        "tool_choice": calls_tools,
        "structured_output": known.supports_json_output and not is_prompted,
        "temperature": not known.ignores_sampling,
    }
    profile.update(_reasoning_levels(known))
    return profile


def _reasoning_levels(known: Capabilities) -> ModelProfile:
    """Return the levels of `reasoning_effort`, where they are known."""
    if not known.thinks:
        return {}
    # A budget is sent for a level.
    levels = known.thinking_levels if known.thinks_by_level else ALL_LEVELS
    profile: ModelProfile = {}
    if levels is not None:
        profile["reasoning_effort_levels"] = [*levels]
    if known.default_thinking_level is not None:
        profile["reasoning_effort_default"] = known.default_thinking_level
    return profile
