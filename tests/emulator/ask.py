"""One call as the emulator understood it, and the turns in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.models import Backend, Model
    from tests.emulator.refusal import JsonObject


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

    @property
    def contents(self) -> list[JsonObject]:
        return list(self.body.get("contents", []))

    @property
    def config(self) -> JsonObject:
        return dict(self.body.get("generationConfig", {}))

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
    def is_json(self) -> bool:
        return bool(self.config.get("responseMimeType") == "application/json")

    @property
    def turns(self) -> list[Turn]:
        """The conversation, neighbouring contents of one side merged."""
        turns: list[Turn] = []
        for number, content in enumerate(self.contents):
            is_model = content.get("role") == "model"
            parts = tuple((number, p, part) for p, part in enumerate(content.get("parts", [])))
            if turns and turns[-1].is_model == is_model:
                turns[-1] = Turn(is_model, turns[-1].parts + parts)
            else:
                turns.append(Turn(is_model, parts))
        return turns

    @property
    def current_turn(self) -> list[Turn]:
        """Everything after the last user turn that says something besides function responses."""
        turns = self.turns
        start = 0
        for number, turn in enumerate(turns):
            if not turn.is_model and turn.is_ordinary:
                start = number + 1
        return turns[start:]
