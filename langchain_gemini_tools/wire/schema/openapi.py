"""A cleaned JSON schema -> the API's own Schema message, for models that take no JSON schema.

The Schema message (field `parameters`) is an older OpenAPI subset: no references, no type lists,
enums of strings only, every array with items, every object with properties. A schema in it has one
type, or is an `anyOf` of such and nothing else: Vertex says "When using any_of, it must be the only
field set." What it has no field for moves into the description, so that the model still knows.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.schema.merging import merge_schemas
from langchain_gemini_tools.wire.schema.openapi_words import tell_the_rest
from langchain_gemini_tools.wire.schema.words import tell_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_gemini_tools.wire import shapes as gemini

Schema = dict[str, Any]

_LIMITS = {
    "STRING": ("pattern", "minLength", "maxLength"),
    "INTEGER": ("minimum", "maximum"),
    "NUMBER": ("minimum", "maximum"),
    "BOOLEAN": (),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
}
"""The fields beside `type` that pass as they are, by type."""

_ANY_KIND = ("STRING", "NUMBER", "BOOLEAN", "ARRAY", "OBJECT")
_FORMATS = {
    "STRING": {"date-time", "enum"},
    "INTEGER": {"int32", "int64"},
    "NUMBER": {"float", "double"},
}
_HELD_BY_CHOICES = frozenset(
    {"type", "enum", "format", "properties", "required", "items", "prefixItems"}
).union(*_LIMITS.values())
"""What stands beside `anyOf` and holds for each choice; all else is told once, about them all."""

# Without references a small schema can become huge. The deepest that stays below is sent.
_MAX_SUBSCHEMAS = 2_000
_DEPTHS = (32, 8, 4, 2, 1)


def render_openapi_parameters(schema: gemini.JsonSchema) -> gemini.JsonSchema | None:
    """The Schema message for a function's parameters; `None` for a function that takes none."""
    rendered = render_openapi_schema(schema)
    if "anyOf" in rendered:
        rendered = _as_one_object(rendered["anyOf"])
    return rendered if rendered.get("properties") else None


def render_openapi_schema(schema: gemini.JsonSchema) -> gemini.JsonSchema:
    """The Schema message for a cleaned schema."""
    schema = tell_in_words(schema)
    definitions = schema.get("$defs") or {}
    for depth in _DEPTHS:
        try:
            return _Renderer(definitions, depth, _MAX_SUBSCHEMAS).render(schema)
        except _TooLargeError:
            continue
    return _Renderer(definitions, 0, math.inf).render(schema)


class _TooLargeError(Exception):
    """Writing the references out made too much of it."""


class _Renderer:
    """Knows the definitions, and which of them are being written."""

    def __init__(self, definitions: Schema, max_open: int, limit: float) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self._max_open = max_open
        self._left = limit

    def render(self, schema: Any) -> Schema:
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        if not isinstance(schema, dict):
            schema = {}
        if "$ref" in schema:
            return self._follow(schema["$ref"], {})
        choices = schema.get("anyOf") or schema.get("oneOf") or []
        if choices:
            return self._render_choices(choices, schema)
        kinds, is_nullable = _kinds(schema)
        branches = [self._render_kind(kind, schema) for kind in kinds]
        return _join(branches, schema, is_nullable=is_nullable)

    def _follow(self, reference: str, around: Schema) -> Schema:
        """What a reference points to; one that leads back to itself is cut, with a note."""
        name = reference.rpartition("/")[2]
        target = self._definitions.get(name) or {}
        if name in self._open or len(self._open) >= self._max_open:
            return self._cut(name, target)
        self._open.append(name)
        try:
            return self._render_choice(target, around)
        finally:
            self._open.pop()

    def _cut(self, name: str, target: Schema) -> Schema:
        is_object = target.get("type") == "object"
        kind = "An object" if is_object else "A value"
        if name in self._open:
            words = f"{kind} of the same form as the {name} around it."
        else:
            words = f"{kind} of the form {name}."
            if keys := ", ".join(target.get("properties", ())):
                words += f" Its keys: {keys}."
        return self.render({"description": words} | ({"type": "object"} if is_object else {}))

    def _render_choices(self, choices: list[Any], schema: Schema) -> Schema:
        around = {key: value for key, value in schema.items() if key in _HELD_BY_CHOICES}
        about_all = {key: value for key, value in schema.items() if key not in around}
        others = [choice for choice in choices if not _is_null(choice)]
        branches = _branches([self._render_choice(choice, around) for choice in others])
        return _join(branches, about_all, is_nullable=len(others) < len(choices))

    def _render_choice(self, choice: Any, around: Schema) -> Schema:
        if not around or not isinstance(choice, dict):
            return self.render(choice)
        if "$ref" in choice:
            return self._follow(choice["$ref"], around)
        merged = merge_schemas(around, choice)
        if merged is None:  # then words have to do
            merged = choice | {"allOf": [*choice.get("allOf", []), around]}
        return self.render(merged)

    def _render_kind(self, kind: str, schema: Schema) -> Schema:
        rendered: Schema = {"type": kind}
        rendered |= {key: schema[key] for key in _LIMITS[kind] if key in schema}
        if schema.get("format") in _FORMATS.get(kind, ()):
            rendered["format"] = schema["format"]
        match kind:
            case "OBJECT":
                return rendered | self._render_members(schema)
            case "ARRAY":
                return rendered | {"items": self._render_items(schema)}
            case "STRING" if "enum" in schema:
                texts = [value for value in schema["enum"] if isinstance(value, str)]
                # The API says about an empty one: "cannot be empty". Then words have to do.
                return rendered | ({"enum": texts} if all(texts) and texts else {})
        return rendered

    def _render_members(self, schema: Schema) -> Schema:
        if not (properties := schema.get("properties")):
            # The API says: "should be non-empty for OBJECT type".
            return {"properties": {"any_key": self._render_any_key(schema)}}
        members: Schema = {
            "properties": {name: self.render(child) for name, child in properties.items()}
        }
        for key in ("required", "propertyOrdering"):
            if names := [name for name in schema.get(key, ()) if name in properties]:
                members[key] = names
        return members

    def _render_any_key(self, schema: Schema) -> Schema:
        others = schema.get("additionalProperties", True)
        if others is False and (patterns := schema.get("patternProperties")):
            words = {"description": f"Stands for any key that matches {' or '.join(patterns)}."}
            kinds = [self.render(schema) for schema in patterns.values()]
            return _join(_branches(kinds), words, is_nullable=False)
        if others is False:
            return {"type": "STRING", "description": "Leave it out: this object has no keys."}
        if others in (True, {}):
            return _free_key()
        words = {"description": "Stands for any key of your choice."}
        return _join(_branches([self.render(others)]), words, is_nullable=False)

    def _render_items(self, schema: Schema) -> Schema:
        first, others = schema.get("prefixItems", []), schema.get("items")
        if not first:
            return self.render(others) if others else _any_item()
        is_closed = schema.get("maxItems", math.inf) <= len(first)
        kinds = [self.render(item) for item in first]
        if not is_closed:
            kinds.append(self.render(others) if others else _any_item())
        branches = _branches(kinds)
        return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _kinds(schema: Schema) -> tuple[list[str], bool]:
    """The types that a schema names or shows, in the API's spelling, and whether null is one."""
    given = schema.get("type") or _shown_types(schema)
    names = given if isinstance(given, list) else [given]
    kinds = [name.upper() for name in names if name.upper() in _LIMITS]
    is_nullable = "null" in names
    return (kinds, is_nullable) if kinds or is_nullable else (list(_ANY_KIND), True)


def _shown_types(schema: Schema) -> list[str]:
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _free_key() -> Schema:
    return {"type": "STRING", "description": "Stands for any key and value of your choice."}


def _any_item() -> Schema:
    """Anything but an array: somewhere it has to end."""
    kinds: list[Schema] = [{"type": kind} for kind in ("STRING", "NUMBER", "BOOLEAN")]
    return {"anyOf": [*kinds, {"type": "OBJECT", "properties": {"any_key": _free_key()}}]}


def _branches(schemas: list[Schema]) -> list[Schema]:
    """The schemas of one type each in some schemas, each once."""
    branches: list[Schema] = []
    for schema in schemas:
        branches += [b for b in schema.get("anyOf", [schema]) if b not in branches]
    return branches


def _join(branches: list[Schema], schema: Schema, *, is_nullable: bool) -> Schema:
    """One schema of its branches; what is said about them all stands on the first."""
    null: Schema = {"type": "STRING", "description": "Must be null."}
    first = dict(branches[0]) if branches else null
    if is_nullable:
        first["nullable"] = True
    if "title" in schema:
        first.setdefault("title", schema["title"])
    if len(branches) < 2 and schema.get("default") is not None:
        first["default"] = schema["default"]
    if words := tell_the_rest(schema, [first, *branches[1:]]):
        first["description"] = words
    return first if len(branches) < 2 else {"anyOf": [first, *branches[1:]]}


def _as_one_object(choices: list[Schema]) -> Schema:
    """A choice between objects as one object: the API says "should be of type OBJECT"."""
    objects = [choice for choice in choices if choice["type"] == "OBJECT"]
    properties: dict[str, Schema] = {}
    for choice in objects:
        for name, child in choice["properties"].items():
            known = properties.setdefault(name, child)
            if known != child:
                either = [*known.get("anyOf", [known]), *child.get("anyOf", [child])]
                properties[name] = {"anyOf": either}
    needed = [set(choice.get("required", ())) for choice in objects]
    required = [name for name in properties if all(name in names for names in needed)]
    told = [choice["description"] for choice in objects if "description" in choice]
    merged: Schema = {"type": "OBJECT", "properties": properties}
    if words := " ".join(filter(None, [*dict.fromkeys(told), _tell_keys(objects, required)])):
        merged["description"] = words
    return merged | ({"required": required} if required else {})


def _tell_keys(objects: list[Schema], always: list[str]) -> str:
    """Which keys belong together; where all choices have the same, which of them are needed."""
    if all(choice["properties"].keys() == objects[0]["properties"].keys() for choice in objects):
        needed = [_names(choice.get("required", [])) for choice in objects]
        is_free = any(set(choice.get("required", [])) <= set(always) for choice in objects)
        return "" if is_free else f"Give at least the keys of one of these: {' or '.join(needed)}."
    sets = " or ".join(_tell_set(choice, always) for choice in objects)
    return f"Give the keys of one of these: {sets}."


def _tell_set(choice: Schema, always: list[str]) -> str:
    keys, needed = choice["properties"], choice.get("required", [])
    is_said = set(needed) <= set(always) or len(needed) == len(keys)
    return _names(keys) if is_said else f"{_names(keys)}, at least {_names(needed)}"


def _names(names: Iterable[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)
