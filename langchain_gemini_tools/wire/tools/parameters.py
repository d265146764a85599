"""Parameters' names: which ones the API does not take, and a schema that uses others for them.

A parameter is named wherever a schema speaks about the whole of the arguments: in `properties`, in
`required`, and so in every choice and condition beside them. What stands inside of a parameter has
names of its own, which the API takes as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.tools.names import render_parameter_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = dict[str, Any]

_SCHEMA_IN_PLACE = frozenset({"not", "if", "then", "else"})
_SCHEMAS_IN_PLACE = frozenset({"anyOf", "oneOf", "allOf"})
_IN_PLACE = _SCHEMA_IN_PLACE | _SCHEMAS_IN_PLACE | {"dependentSchemas", "$ref"}
_LISTS_OF_NAMES = frozenset({"required", "propertyOrdering"})
_LISTS_OF_VALUES = frozenset({"enum", "examples"})


def parameter_names(schema: Mapping[str, Any]) -> list[str]:
    """The names of all parameters that a function's cleaned schema describes, in order."""
    if _IN_PLACE.isdisjoint(schema):
        return list(schema.get("properties") or ())
    parts = parts_in_place(schema, schema.get("$defs") or {})
    return list(dict.fromkeys(name for part in parts for name in part.get("properties") or ()))


def renamed_parameters(schema: Mapping[str, Any]) -> dict[str, str]:
    """The parameters with another name on the wire: the user's -> the wire's."""
    names = parameter_names(schema)
    return {name: wire for name in names if (wire := render_parameter_name(name)) != name}


def rename_parameters(schema: Schema, names: Mapping[str, str]) -> Schema:
    """The schema with these names in place of the user's."""
    return _Renaming(schema, names).render()


def parts_in_place(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """The schema, and every other in it that is about the same value."""
    return _parts(schema, definitions, set())


def _parts(
    schema: Any, definitions: Mapping[str, Any], followed: set[str]
) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, dict):
        return
    yield schema
    children: list[Any] = []
    for keyword, value in schema.items():
        if keyword in _SCHEMA_IN_PLACE:
            children.append(value)
        elif keyword in _SCHEMAS_IN_PLACE:
            children += value
        elif keyword == "dependentSchemas":
            children += value.values()
    definition = _definition(schema)
    if definition in definitions and definition not in followed:
        followed.add(definition)
        children.append(definitions[definition])
    for child in children:
        yield from _parts(child, definitions, followed)


def _definition(schema: Mapping[str, Any]) -> str:
    """The definition that a schema refers to, as a cleaned one does."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


class _Renaming:
    """One schema under other names.

    A definition may be about the arguments in one place and about something inside of them in
    another, so that the first gets a copy of its own.
    """

    def __init__(self, schema: Schema, names: Mapping[str, str]) -> None:
        self._schema = schema
        self._names = names
        self._definitions: Schema = dict(schema.get("$defs") or {})
        self._copies: dict[str, str] = {}

    def render(self) -> Schema:
        renamed = self._rename(self._schema)
        return {**renamed, "$defs": self._definitions} if self._definitions else renamed

    def _rename(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        return {keyword: self._rename_in(keyword, value) for keyword, value in schema.items()}

    def _rename_in(self, keyword: str, value: Any) -> Any:
        match keyword:
            case "properties" | "default" | "const":
                return self._rename_keys(value)
            case "dependentSchemas":
                return {self._name(name): self._rename(item) for name, item in value.items()}
            case "dependentRequired":
                return {self._name(name): self._rename_all(item) for name, item in value.items()}
            case "propertyNames":  # a pattern of the user's need not fit the other names
                sent = [*self._names.values()]
                return {"anyOf": [value, {"type": "string", "enum": sent}]}
            case "$ref":
                return self._copy(value)
            case _ if keyword in _LISTS_OF_NAMES:
                return self._rename_all(value)
            case _ if keyword in _LISTS_OF_VALUES:
                return [self._rename_keys(item) for item in value]
            case _ if keyword in _SCHEMA_IN_PLACE:
                return self._rename(value)
            case _ if keyword in _SCHEMAS_IN_PLACE:
                return [self._rename(item) for item in value]
            case _:
                return value

    def _name(self, name: str) -> str:
        return self._names.get(name, name)

    def _rename_all(self, names: list[str]) -> list[str]:
        return [self._name(name) for name in names]

    def _rename_keys(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {self._name(name): item for name, item in value.items()}

    def _copy(self, reference: str) -> str:
        """A reference to the same definition under the other names."""
        definition = _definition({"$ref": reference})
        if reference not in self._copies and definition in self._definitions:
            name = f"{definition}_arguments"
            while name in self._definitions:
                name += "_"
            self._copies[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # known before it is renamed: it may lead back to itself
            self._definitions[name] = self._rename(self._definitions[definition])
        return self._copies.get(reference, reference)
