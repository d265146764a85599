"""One generateContent call as the emulator understands it: its model, its options, its turns.

What a model family accepts is written from the API's documents and recordings, independently of
`facts/models.py`, so that a mistake in one of them shows as a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.responses import JsonObject


Backend = Literal["gemini", "vertex"]

_WORDS = re.compile(
    r"pro|flash|ultra|nano|lite|8b|thinking|image|tts|live|native|audio|dialog|computer|use|robotics"
    r"|argon|er|vision|exp|experimental|preview|latest|tuning|customtools|generation|\d+(?:\.\d+)?"
)
"""The words that names consist of. A name with another word is unknown, such as a typo."""
_GENERATION = re.compile(r"(?<=-)(\d{1,2})(?:\.(\d+))?(?=-|$)")
_GEMMA = re.compile(r"gemma-(\d+)n?-[a-z0-9-]+")


_ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_LEVELS = (
    # Documented (ai.google.dev, generate-content/long-decode) and reported by pydantic-ai, which
    # tried it on 2026-10-13: "Gemini 4 Argon does not support minimal. Use low, medium, or high."
    ("gemini-4-argon", ("LOW", "MEDIUM", "HIGH")),
    # Reported in the API's own words for both, on 2026-08-16 and 2026-09-05.
    ("gemini-3.8-flash", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3.7-flash", ("LOW", "MEDIUM", "HIGH")),
    # Reported: vellum-ai/vellum-assistant, pull request 32687.
    ("gemini-3.1-pro", ("LOW", "MEDIUM", "HIGH")),
    # Documented for both; inferred for names without "preview".
    ("gemini-3-pro-image", _ALL_LEVELS),
    ("gemini-3-pro", ("LOW", "HIGH")),
    # Reported by pydantic-ai, which tried it on 2026-09-30: the Developer API rejects the others.
    ("gemini-3.1-flash-image", ("MINIMAL", "HIGH")),
    ("gemini-3.1-flash-lite-image", ("MINIMAL", "HIGH")),
    # Reported: livekit/agents, pull request 7080.
    ("gemma-4", ("MINIMAL", "HIGH")),
)
"""Which thinking levels a model has, by the beginning of its name; Gemini 3 has all by default."""

_WITHOUT_BUDGET = (
    "gemini-4-argon",  # documented
    "gemma-4",  # reported by many: "Thinking budget is not supported for this model."
)
_END_WITH_USER = (
    # Documented and reported: "these models and all future Gemini model releases".
    "gemini-3.5-flash-lite",
    "gemini-flash-lite-latest",  # reported: it is gemini-3.5-flash-lite
)


@dataclass(frozen=True)
class Model:
    """One model name, read."""

    name: str
    generation: tuple[int, int] = (99, 0)
    gemma: int | None = None

    @property
    def is_3(self) -> bool:
        """Gemini 3 or later, an alias, or a Gemma that calls functions."""
        return self.generation >= (3, 0)

    @property
    def thinks(self) -> bool:
        if self.generation < (3, 0) and (self.draws or self.speaks):
            return False  # reported by pydantic-ai for gemini-2.5-flash-image
        return self.generation >= (2, 5) or "thinking" in self.name

    @property
    def draws(self) -> bool:
        return "-image" in self.name

    @property
    def speaks(self) -> bool:
        return "-tts" in self.name

    @property
    def levels(self) -> tuple[str, ...]:
        """The thinking levels, the lowest first."""
        found = (levels for name, levels in _LEVELS if self.name.startswith(name))
        return next(found, _ALL_LEVELS if self.is_3 else ())

    @property
    def accepts_budget(self) -> bool:
        return not self.name.startswith(_WITHOUT_BUDGET)

    @property
    def accepts_prefill(self) -> bool:
        """Whether it continues a last turn of the model. For Gemma this is not known, so no."""
        if self.gemma is not None or self.name.startswith(_END_WITH_USER):
            return False
        return self.generation < (3, 6)

    @property
    def has_caches(self) -> bool:
        """Whether it has context caches that a client creates. Documented for both kinds."""
        return not self.name.startswith("gemini-4-argon")

    @property
    def calls_functions(self) -> bool:
        if self.draws or self.speaks:
            return False
        return self.gemma is None or self.gemma >= 4

    @property
    def resource(self) -> str:
        """The name as the API's own messages write it."""
        return f"models/{self.name}"


def find_model(name: str, version: str) -> Model | None:
    """Return the model of this name, or None if the API does not have it."""
    # Aliases exist only on v1beta: https://ai.google.dev/gemini-api/docs/api-versions
    if name.endswith("-latest") and version == "v1":
        return None
    if gemma := _GEMMA.fullmatch(name):
        number = int(gemma[1])
        return Model(name, generation=(3, 0) if number >= 4 else (2, 0), gemma=number)
    family, *words = name.split("-")
    if family != "gemini" or not words or not all(_WORDS.fullmatch(word) for word in words):
        return None
    if found := _GENERATION.search(name):
        return Model(name, generation=(int(found[1]), int(found[2] or 0)))
    return Model(name)


@dataclass(frozen=True)
class Turn:
    """Adjacent contents of one side, which the API counts as one. Parts keep their places."""

    is_model: bool
    parts: tuple[tuple[int, int, JsonObject], ...]
    """Each part with the number of its content, and its number in there."""

    def of_kind(self, kind: str) -> list[Any]:
        """Return the data of all parts of one kind, in order."""
        return [part[kind] for _, _, part in self.parts if kind in part]

    @property
    def has_calls(self) -> bool:
        return any("functionCall" in part for _, _, part in self.parts)

    @property
    def has_responses(self) -> bool:
        return any("functionResponse" in part for _, _, part in self.parts)

    @property
    def is_ordinary(self) -> bool:
        """Whether it has something other than function responses."""
        return any("functionResponse" not in part for _, _, part in self.parts)


@dataclass(frozen=True)
class Ask:
    """One generateContent call: its body in camelCase, its model, where it came in."""

    body: JsonObject
    model: Model
    backend: Backend = "gemini"
    version: str = "v1beta"
    is_stream: bool = False
    cached_tokens: int = 0
    """The tokens that come from a context cache."""
    tier: str = ""
    """The service tier in the headers of Vertex AI."""

    @property
    def contents(self) -> list[JsonObject]:
        return list(self.body.get("contents", []))

    @property
    def config(self) -> JsonObject:
        return dict(self.body.get("generationConfig", {}))

    @property
    def thinks(self) -> bool:
        """Whether the model thinks first: it can, and thinking is not switched off."""
        return (
            self.model.thinks and self.config.get("thinkingConfig", {}).get("thinkingBudget") != 0
        )

    @property
    def calling_config(self) -> JsonObject:
        return dict(self.body.get("toolConfig", {}).get("functionCallingConfig", {}))

    @property
    def declarations(self) -> list[JsonObject]:
        return [declaration for _, _, declaration in self.placed_declarations()]

    def placed_declarations(self) -> Iterator[tuple[int, int, JsonObject]]:
        """Yield each declaration with the number of its tool, and its number in there."""
        for t, tool in enumerate(self.body.get("tools", [])):
            for d, declaration in enumerate(tool.get("functionDeclarations", [])):
                yield t, d, declaration

    @property
    def builtin_tools(self) -> list[str]:
        """The kinds of built-in tools that are switched on."""
        kinds = {kind for tool in self.body.get("tools", []) for kind in tool}
        return sorted(kinds - {"functionDeclarations"})

    @property
    def circulates_server_tools(self) -> bool:
        """Whether the calls of built-in tools are shown to the client and come back."""
        return bool(self.body.get("toolConfig", {}).get("includeServerSideToolInvocations"))

    @property
    def is_json(self) -> bool:
        return bool(self.config.get("responseMimeType") == "application/json")

    @cached_property
    def turns(self) -> list[Turn]:
        """The conversation; adjacent contents of one side are one turn."""
        turns = []
        numbered = enumerate(self.contents)
        for is_model, contents in groupby(numbered, lambda each: each[1].get("role") == "model"):
            parts = [
                (number, p, part)
                for number, content in contents
                for p, part in enumerate(content.get("parts", []))
            ]
            turns.append(Turn(is_model, tuple(parts)))
        return turns

    def count_calls(self, call: JsonObject) -> int:
        """How often the model has made this call since the user last said something."""
        said = call.get("name"), call.get("args") or {}
        made = [each for turn in self.current_turn for each in turn.of_kind("functionCall")]
        return sum((each.get("name"), each.get("args") or {}) == said for each in made)

    @property
    def mixes_responses(self) -> bool:
        """Whether the last content has something beside its function responses."""
        parts = self.contents[-1].get("parts", []) if self.contents else []
        return len({"functionResponse" in part for part in parts}) == 2

    @property
    def current_turn(self) -> list[Turn]:
        """The steps since the user last said something."""
        return self.turns[self.current_turn_start :]

    @cached_property
    def current_turn_start(self) -> int:
        """The turn after the last user turn that has something other than function responses."""
        starts = [n for n, turn in enumerate(self.turns) if not turn.is_model and turn.is_ordinary]
        return starts[-1] + 1 if starts else 0
