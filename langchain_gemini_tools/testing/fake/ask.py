"""One call as the emulator understood it, and the turns in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.models import Backend, Model
    from langchain_gemini_tools.testing.fake.refusal import JsonObject


@dataclass(frozen=True)
class Turn:
    """Neighbouring contents of one side, which the API counts as one. Parts keep their places."""

    is_model: bool
    parts: tuple[tuple[int, int, JsonObject], ...]
    """Each part with the number of its content, and its number in there."""

    def of_kind(self, kind: str) -> list[Any]:
        """The data of all parts of one kind, in order."""
        return [part[kind] for _, _, part in self.parts if kind in part]

    @property
    def has_calls(self) -> bool:
        return any("functionCall" in part for _, _, part in self.parts)

    @property
    def has_responses(self) -> bool:
        return any("functionResponse" in part for _, _, part in self.parts)

    @property
    def is_ordinary(self) -> bool:
        """Says something besides function responses."""
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
        """Each declaration with the number of its tool, and its number in there."""
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
        """The conversation, neighbouring contents of one side merged."""
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

    @property
    def mixes_responses(self) -> bool:
        """The last content has something beside its function responses."""
        parts = self.contents[-1].get("parts", []) if self.contents else []
        return len({"functionResponse" in part for part in parts}) == 2

    @property
    def current_turn(self) -> list[Turn]:
        """The steps since the user last said something."""
        return self.turns[self.current_turn_start :]

    @cached_property
    def current_turn_start(self) -> int:
        """The turn after the last user turn that holds something besides function responses."""
        starts = [n for n, turn in enumerate(self.turns) if not turn.is_model and turn.is_ordinary]
        return starts[-1] + 1 if starts else 0
