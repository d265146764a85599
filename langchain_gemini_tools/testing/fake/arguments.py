"""Arguments from a schema and a prompt: what a model would put into a call, without a model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.refusal import JsonObject

_QUOTED = re.compile(r"(?<!\w)(?:'([^']+)'|\"([^\"]+)\"|“([^”]+)”)(?!\w)")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_PLACE = r"[A-ZÀ-ÞŁŚŻ][\w'.-]*(?: [A-ZÀ-ÞŁŚŻ][\w'.-]*)*(?:, [A-Z]{2}\b)?"
_PLACES = re.compile(rf"\b(?:in|for|at|of|from) ({_PLACE}(?:(?:,? and |,? or |, | & ){_PLACE})*)")
_PLACE_KEYS = ("location", "city", "place", "town", "country", "address", "where", "destination")
_DEEP = 6
"""Lists inside lists stay empty from here on: a list may hold lists of its own kind."""
_SAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "uuid": "0d4f1a52-8f63-4a7e-9f0e-3f3f3f3f3f3f",
}


def places_in(prompt: str) -> list[str]:
    """The places a prompt asks about: "in Oslo and Rome" names two, "San Francisco, CA" one."""
    if not (match := _PLACES.search(prompt)):
        return []
    return [place.strip(" .?!") for place in re.findall(_PLACE, match[1])]


def takes_a_place(schema: JsonObject) -> bool:
    """A parameter of the schema is a place."""
    return any(name.lower() in _PLACE_KEYS for name in schema.get("properties", {}))


def quoted_in(prompt: str) -> list[str]:
    """Every quoted word or phrase."""
    return ["".join(groups) for groups in _QUOTED.findall(prompt)]


@dataclass
class Filler:
    """Fills one schema. Each number and each quotation of the prompt is used once, in order."""

    prompt: str
    place: str | None = None
    root: JsonObject = field(default_factory=dict)
    """Where `$ref`s point into."""
    numbers: list[float] = field(init=False)
    quotations: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = [float(number) for number in _NUMBER.findall(self.prompt)]
        self.quotations = quoted_in(self.prompt)

    def fill(self, schema: Any, key: str = "value", depth: int = 0) -> Any:
        """A value that the schema allows; of an object, the required keys."""
        schema = self._resolve(schema if isinstance(schema, dict) else {})
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            useful = [choice for choice in choices if not _is_null(choice)]
            return self.fill((useful or choices)[0], key, depth + 1)
        if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
            return self._choice(values)
        match _type_of(schema):
            case "object":
                properties = schema.get("properties", {})
                required = schema.get("required", [])
                return {
                    name: self.fill(properties.get(name, {}), name, depth + 1) for name in required
                }
            case "array":
                return self._array(schema, key, depth)
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema, key)

    def _resolve(self, schema: JsonObject) -> JsonObject:
        while isinstance(path := schema.get("$ref"), str):
            target: Any = self.root
            for step in path.removeprefix("#").strip("/").split("/"):
                target = target[step] if step else target
            schema = target
        return schema

    def _choice(self, values: list[Any]) -> Any:
        said = [value for value in values if str(value).lower() in self.prompt.lower()]
        return (said or values)[0]

    def _array(self, schema: JsonObject, key: str, depth: int) -> list[Any]:
        if prefix := schema.get("prefixItems"):
            return [self.fill(item, key, depth + 1) for item in prefix]
        size = 0 if depth > _DEEP else 1
        size = max(size, int(schema.get("minItems", size)))
        return [self.fill(schema.get("items", {}), key, depth + 1) for _ in range(size)]

    def _number(self, schema: JsonObject) -> float:
        number = self.numbers.pop(0) if self.numbers else 1.0
        number = max(number, schema.get("minimum", number))
        return float(min(number, schema.get("maximum", number)))

    def _string(self, schema: JsonObject, key: str) -> str:
        if (sample := _SAMPLES.get(str(schema.get("format", "")))) is not None:
            return sample
        if self.place and key.lower() in _PLACE_KEYS:
            return self.place
        if self.quotations:
            return self.quotations.pop(0)
        if key.lower() in ("query", "question", "prompt", "text", "input"):
            return self.prompt
        text = self.place or f"The {key.replace('_', ' ')}."
        shortest, longest = int(schema.get("minLength", 0)), schema.get("maxLength")
        text = text.ljust(shortest, ".")
        return text[: int(longest)] if longest is not None else text


def _type_of(schema: JsonObject) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return str(kind).lower()


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and str(schema.get("type", "")).lower() == "null"
