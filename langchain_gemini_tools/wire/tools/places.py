"""Every subschema of a tool's parameters, with its place as a finding names it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.tools.parameters import parts_in_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OPEN = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
"""What describes keys without naming them."""

_SCHEMAS = ("additionalProperties", "unevaluatedProperties", "propertyNames", "contains")
_ASKED = ("not", "if")
"""About the same value, without demanding anything of it."""
_DEMANDED = ("then", "else")
_CHOICES = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True)
class Part:
    """One subschema."""

    schema: Mapping[str, Any]
    path: str = ""
    """Such as `filters[].tag`; empty for the parameters as a whole."""
    depth: int = 0
    described: frozenset[str] | None = None
    """The keys that are described by this schema or by one that is about the same object; None
    where any key is, or none is demanded."""

    @property
    def undescribed(self) -> list[str]:
        """The keys that have to be given and are described nowhere."""
        if self.described is None:
            return []
        return sorted({*self.schema.get("required", ())} - self.described)


def parts_of(schema: Mapping[str, Any]) -> Iterator[Part]:
    """Every subschema, each definition where it is first referred to."""
    return _Walk(schema.get("$defs") or {}).new("", schema, 0)


def places_of_definitions(schema: Mapping[str, Any]) -> dict[str, str]:
    """Where each definition is first referred to."""
    walk = _Walk(schema.get("$defs") or {})
    for _ in walk.new("", schema, 0):
        pass
    return walk.places


@dataclass
class _Walk:
    definitions: Mapping[str, Any]
    places: dict[str, str] = field(default_factory=dict)

    def new(self, path: str, schema: Any, depth: int) -> Iterator[Part]:
        """A schema that is about a value of its own."""
        if isinstance(schema, dict):
            described = _described(schema, self.definitions)
            yield from self._walk(Part(schema, path, depth, described))

    def _same(self, schema: Any, around: Part) -> Iterator[Part]:
        """A schema that is about the same value as the one around it."""
        if isinstance(schema, dict):
            yield from self._walk(replace(around, schema=schema, depth=around.depth + 1))

    def _walk(self, part: Part) -> Iterator[Part]:
        yield part
        schema, path, deeper = part.schema, part.path, part.depth + 1
        for name, child in (schema.get("properties") or {}).items():
            yield from self.new(f"{path}.{name}" if path else name, child, deeper)
        for key in ("items", "unevaluatedItems"):
            yield from self.new(f"{path}[]", schema.get(key), deeper)
        others = [schema.get(key) for key in _SCHEMAS]
        others += (schema.get("patternProperties") or {}).values()
        for child in [*others, *(schema.get("prefixItems") or ())]:
            yield from self.new(path, child, deeper)
        for key in _ASKED:
            yield from self._same(schema.get(key), replace(part, described=None))
        same = [schema.get(key) for key in _DEMANDED]
        same += (schema.get("dependentSchemas") or {}).values()
        for key in _CHOICES:
            same += schema.get(key) or ()
        for child in same:
            yield from self._same(child, part)
        definition = str(schema.get("$ref", "")).rpartition("/")[2]
        if definition in self.definitions and definition not in self.places:
            self.places[definition] = path
            yield from self._walk(replace(part, schema=self.definitions[definition]))


def _described(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> frozenset[str] | None:
    parts = list(parts_in_place(schema, definitions))
    if any(not _OPEN.isdisjoint(part) for part in parts):
        return None
    return frozenset(name for part in parts for name in part.get("properties") or ())
