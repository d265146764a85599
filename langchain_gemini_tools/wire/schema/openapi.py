"""A cleaned JSON schema -> the API's own Schema message, for models that take no JSON schema.

The Schema message (field `parameters`) is an older OpenAPI subset: no references, no type lists,
enums of strings only, every array with items, every object with properties. What it has no field
for moves into the description, so that the model still knows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_gemini_tools.wire import shapes as gemini

_LIMITS = {
    "STRING": ("pattern", "minLength", "maxLength"),
    "INTEGER": ("minimum", "maximum"),
    "NUMBER": ("minimum", "maximum"),
    "ARRAY": ("minItems", "maxItems"),
    "OBJECT": ("minProperties", "maxProperties"),
    "BOOLEAN": (),
}
"""The fields beside `type` that pass as they are, by type."""

_FORMATS = {
    "STRING": {"date-time", "enum"},
    "INTEGER": {"int32", "int64"},
    "NUMBER": {"float", "double"},
}
_TOLD = (
    "format",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "contains",
    "prefixItems",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "allOf",
    "not",
    "if",
    "then",
    "else",
)
"""Keywords that become words."""

_MAX_DEPTH = 32
_ANY_KEY: gemini.JsonSchema = {
    "type": "STRING",
    "description": "Stands for any key of your choice.",
}


def render_openapi_parameters(schema: gemini.JsonSchema) -> gemini.JsonSchema | None:
    """The Schema message for a function's parameters; `None` for a function that takes none."""
    rendered = render_openapi_schema(schema)
    return rendered if rendered.get("properties") else None


def render_openapi_schema(schema: gemini.JsonSchema) -> gemini.JsonSchema:
    """The Schema message for a cleaned schema."""
    return _Renderer(schema.get("$defs") or {}).render(schema)


class _Renderer:
    """Knows the definitions, and which of them are being written."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._open: list[str] = []

    def render(self, schema: Any) -> gemini.JsonSchema:
        if not isinstance(schema, dict) or not schema:
            return _anything()
        if (reference := schema.get("$ref")) is not None:
            return self._render_reference(reference, schema)
        kinds, is_nullable = _kinds(schema)
        choices = [s for s in schema.get("anyOf") or schema.get("oneOf") or () if not _is_null(s)]
        is_nullable |= any(_is_null(s) for s in schema.get("anyOf") or schema.get("oneOf") or ())
        if choices:
            rendered = self._render_choices(choices, schema)
        elif len(kinds) == 1:
            rendered = self._render_kind(kinds[0], schema)
        elif kinds:
            rendered = {"anyOf": [self._render_kind(kind, schema) for kind in kinds]}
        else:
            rendered = _anything()
        rendered = _described(rendered, schema, _words(schema, rendered))
        return {**rendered, "nullable": True} if is_nullable else rendered

    def _render_reference(self, reference: str, schema: gemini.JsonSchema) -> gemini.JsonSchema:
        name = reference.rpartition("/")[2]
        target = self._definitions.get(name)
        if target is None or name in self._open or len(self._open) >= _MAX_DEPTH:
            words = f"An object of the same form as the {name} around it." if target else ""
            return _described(_free_object(), schema, [words] if words else [])
        self._open.append(name)
        try:
            return self.render({**target, **{k: v for k, v in schema.items() if k[0] != "$"}})
        finally:
            self._open.pop()

    def _render_choices(self, choices: list[Any], schema: gemini.JsonSchema) -> gemini.JsonSchema:
        around = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
        rendered = [self.render({**around, **choice}) for choice in choices]
        return rendered[0] if len(rendered) == 1 else {"anyOf": rendered}

    def _render_kind(self, kind: str, schema: gemini.JsonSchema) -> gemini.JsonSchema:
        rendered: gemini.JsonSchema = {"type": kind}
        rendered |= {key: schema[key] for key in _LIMITS[kind] if key in schema}
        if schema.get("default") is not None:
            rendered["default"] = schema["default"]
        if schema.get("format") in _FORMATS.get(kind, ()):
            rendered["format"] = schema["format"]
        match kind:
            case "OBJECT":
                return rendered | self._render_members(schema)
            case "ARRAY":
                return rendered | {"items": self._render_items(schema)}
            case "STRING" if texts := [v for v in schema.get("enum", ()) if v and _is_text(v)]:
                return rendered | {"enum": texts}
        return rendered

    def _render_members(self, schema: gemini.JsonSchema) -> gemini.JsonSchema:
        properties = schema.get("properties") or {}
        if not properties:
            return {"properties": {"any_key": _ANY_KEY}}
        members: gemini.JsonSchema = {
            "properties": {name: self.render(child) for name, child in properties.items()}
        }
        if required := [name for name in schema.get("required", ()) if name in properties]:
            members["required"] = required
        return members

    def _render_items(self, schema: gemini.JsonSchema) -> gemini.JsonSchema:
        if isinstance(schema.get("items"), dict):
            return self.render(schema["items"])
        kinds: list[gemini.JsonSchema] = []
        for item in schema.get("prefixItems") or ():
            rendered = self.render(item)
            if rendered not in kinds:
                kinds.append(rendered)
        if not kinds:
            return _anything()
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _kinds(schema: gemini.JsonSchema) -> tuple[list[str], bool]:
    """The types that a schema names or shows, in the API's spelling, and whether null is one."""
    given = schema.get("type")
    names = given if isinstance(given, list) else [given] if given else []
    if not names:
        names = _shown_types(schema)
    kinds = [name.upper() for name in names if name != "null" and name.upper() in _LIMITS]
    return kinds, "null" in names or bool(schema.get("nullable"))


def _shown_types(schema: gemini.JsonSchema) -> list[str]:
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    found = {_type_of(value): None for value in schema.get("enum", ())}
    return list(found)


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case None:
            return "null"
    return "string"


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _free_object() -> gemini.JsonSchema:
    # The API says: "should be non-empty for OBJECT type".
    return {"type": "OBJECT", "properties": {"any_key": _ANY_KEY}}


def _anything() -> gemini.JsonSchema:
    kinds: list[gemini.JsonSchema] = [{"type": kind} for kind in ("STRING", "NUMBER", "BOOLEAN")]
    return {"anyOf": [*kinds, _free_object()]}


def _words(schema: gemini.JsonSchema, rendered: gemini.JsonSchema) -> list[str]:
    """What the Schema message has no field for, in words."""
    words = []
    if (values := schema.get("enum")) and rendered.get("enum") != values:
        words.append(f"One of: {', '.join(map(_shown, values))}.")
    for key in _TOLD:
        if key not in schema or rendered.get(key) == schema[key] or schema[key] is True:
            if schema.get(key) is True and key == "uniqueItems":
                words.append("All items are different.")
            continue
        if schema[key] is False and key == "additionalProperties":
            words.append("No other keys.")
        else:
            words.append(f"{key}: {_shown(schema[key])}.")
    if required := [n for n in schema.get("required", ()) if n not in schema.get("properties", {})]:
        words.append(f"Required keys: {', '.join(required)}.")
    if schema.get("default") is not None and "default" not in rendered:
        words.append(f"Default: {_shown(schema['default'])}.")
    return words


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _described(
    rendered: gemini.JsonSchema, schema: gemini.JsonSchema, words: list[str]
) -> gemini.JsonSchema:
    inner = rendered.get("description")
    outer = schema.get("description")
    told = [outer, *([inner] if inner != outer else []), *words]
    described = " ".join(text for text in told if text)
    return {**rendered, "description": described} if described else rendered
