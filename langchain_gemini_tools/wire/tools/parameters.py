"""Parameters that the API does not accept under the user's names, and schemas with other names.

A parameter is mentioned wherever a schema describes the arguments as a whole: in `properties`, in
`required`, and in the choices and conditions beside them. The API accepts any name further inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.schema.keywords import KEYWORDS
from langchain_gemini_tools.wire.schema.walk import Child, definition_name, map_value, same_value
from langchain_gemini_tools.wire.tools.names import render_parameter_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire.shapes import JsonSchema


def parameter_names(schema: JsonSchema) -> list[str]:
    """Return the names of all parameters that a function's cleaned schema describes, in order."""
    parts = same_value(schema, schema.get("$defs") or {})
    return list(dict.fromkeys(name for part in parts for name in part.get("properties") or ()))


def renamed_parameters(schema: JsonSchema) -> dict[str, str]:
    """Return the parameters with another name on the wire: the user's name -> the wire's."""
    names = parameter_names(schema)
    return {name: wire for name in names if (wire := render_parameter_name(name)) != name}


def rename_parameters(schema: JsonSchema, names: Mapping[str, str]) -> JsonSchema:
    """Return a copy of a cleaned schema with other names of parameters.

    Args:
        schema: The schema of a function's arguments.
        names: The user's names -> the names to send.
    """
    return _Renaming(schema, names).render()


class _Renaming:
    """Renames the parameters of one schema.

    A definition may describe the arguments in one place and a value inside them in another. The
    first kind of reference therefore leads to a renamed copy of the definition.
    """

    def __init__(self, schema: JsonSchema, names: Mapping[str, str]) -> None:
        self._schema = schema
        self._names = names
        self._definitions: JsonSchema = dict(schema.get("$defs") or {})
        self._copies: dict[str, str] = {}

    def render(self) -> JsonSchema:
        renamed: JsonSchema = self._rename(self._schema)
        return {**renamed, "$defs": self._definitions} if self._definitions else renamed

    def _rename(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        return {keyword: self._rename_keyword(keyword, value) for keyword, value in schema.items()}

    def _rename_keyword(self, name: str, value: Any) -> Any:
        if name not in KEYWORDS:
            return value
        keyword = KEYWORDS[name]
        if keyword.kind == "reference":
            return self._refer_to_copy(value)
        if keyword.about == "key":  # the user's pattern need not match the other names
            return {"anyOf": [value, {"type": "string", "enum": [*self._names.values()]}]}
        if keyword.about == "same":
            value = map_value(keyword, value, self._rename_child)
        return self._rename_in_value(keyword.names, value)

    def _rename_child(self, child: Child) -> Any:
        return self._rename(child.schema)

    def _rename_in_value(self, where: str, value: Any) -> Any:
        match where:
            case "keys" | "value":
                return self._rename_keys(value)
            case "list":
                return self._rename_list(value)
            case "lists by key":
                return self._rename_keys({key: self._rename_list(value[key]) for key in value})
            case "values":
                return [self._rename_keys(item) for item in value]
            case _:
                return value

    def _rename_list(self, names: list[str]) -> list[str]:
        return [self._names.get(name, name) for name in names]

    def _rename_keys(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {self._names.get(name, name): item for name, item in value.items()}

    def _refer_to_copy(self, reference: str) -> str:
        definition = definition_name({"$ref": reference})
        if reference not in self._copies and definition in self._definitions:
            name = f"{definition}_arguments"
            while name in self._definitions:
                name += "_"
            self._copies[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # reserved first: the definition may refer to itself
            self._definitions[name] = self._rename(self._definitions[definition])
        return self._copies.get(reference, reference)
