"""Options on several levels (constructor, `model_kwargs`, bound, call): which of them holds.

The nearer level wins, also where one thing has several names; pure dicts in and out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.generation import unpack_config

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME_LEVEL_RIVALS = {
    "reasoning_effort": {"thinking_budget"},
    "thinking_budget": {"reasoning_effort"},
    "response_format": {"response_schema", "response_mime_type"},
    "response_schema": {"response_format"},
    "response_mime_type": {"response_format"},
}
"""Ways to say one thing, of which the API takes one: the one that is said later holds."""

RIVALS = SAME_LEVEL_RIVALS | {
    "response_schema": {"response_format", "response_mime_type"},
    "response_mime_type": {"response_format", "response_schema"},
}
"""The same between levels: a schema and a type that are given together belong together."""

CONFIGS = ("thinking_config", "generation_config")
TANGLED = frozenset({*RIVALS, *CONFIGS})


def join_level(
    options: dict[str, Any], nearer: Mapping[str, Any], rivals: Mapping[str, set[str]]
) -> None:
    """Let what is nearer win, also over other ways to say the same."""
    for name in nearer.keys() & rivals.keys():
        if nearer[name] is not None:
            options |= dict.fromkeys(options.keys() & rivals[name] - nearer.keys())
    options |= nearer


def without_retracted(options: Mapping[str, Any], *nearer: Mapping[str, Any]) -> dict[str, Any]:
    """Options without the configs that a nearer level sets to None."""
    return {
        name: value
        for name, value in options.items()
        if name not in CONFIGS or all(level.get(name, ...) is not None for level in nearer)
    }


def with_config_unpacked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with what `thinking_config` holds, where no field of its own says it."""
    unpacked = unpack_config("thinking_config", fields.pop("thinking_config", None) or {})
    said = {name: value for name, value in fields.items() if value is not None}
    return {**fields, **unpacked, **said}
