"""A cleaned JSON schema -> the form that is sent: JSON Schema, or the API's older Schema message.

As JSON Schema (`parametersJsonSchema`, `responseJsonSchema`), three things change. What no keyword
that Gemini follows can express (exclusive limits, `true` or an object as the only value, examples)
moves into the description; other packages drop exclusive limits altogether. Required properties
without a schema get one, see `specify_required`. And definitions that require themselves again are
loosened, see `loosen_loops`.

The Schema message (`parameters`, `responseSchema`) is for models that do not accept JSON Schema. It
is an OpenAPI subset: no references, no type lists, enums of strings only, every array with items,
every object with properties. A schema in it has one type, or is an `anyOf` of such and nothing
else: Vertex says "When using any_of, it must be the only field set." What it has no field for moves
into the description, in the wording of the keyword table.

The rendered schema matches more values than the user meant, so that it is for the wire alone:
arguments are validated against the cleaned schema.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.wire.schema.clean import (
    EXCLUSIVE,
    merge_schemas,
    settle_limits,
    type_of,
)
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, describe, keywords_in, say, write
from langchain_gemini_tools.wire.schema.walk import (
    TooLargeError,
    cyclic_references,
    definition_name,
    loosen_loops,
    map_children,
    subschemas,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_gemini_tools.wire.schema.keywords import Keyword
    from langchain_gemini_tools.wire.shapes import JsonSchema

_WORDED = "|".join(name for name, row in KEYWORDS.items() if row.sent == "worded")
_TO_DESCRIBE = re.compile(rf'"(?:(?:{_WORDED})":|enum": \[[^"\d-])')
"""In the JSON of a schema: keywords to describe, and enums of neither strings nor numbers."""


def render_json_schema(schema: JsonSchema) -> JsonSchema:
    """Return a cleaned schema in the JSON Schema form of the API."""
    return loosen_loops(describe_the_rest(specify_required(schema)))


def specify_required(schema: JsonSchema) -> JsonSchema:
    """Give a schema to required properties that have none; the meaning stays the same.

    The API rejects the others: "schema at top-level requires unspecified property 'work_dir'".

    Returns:
        A copy, or the schema itself where there is nothing to add.
    """
    if not any(_unspecified(part) for part in subschemas(schema)):
        return schema
    specified: JsonSchema = _specify(schema)
    return specified


def _unspecified(schema: JsonSchema) -> list[str]:
    properties = schema.get("properties") or {}
    return [name for name in schema.get("required", ()) if name not in properties]


def _specify(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    specified = map_children(schema, lambda child: _specify(child.schema))
    if names := _unspecified(specified):
        rest = specified.get("additionalProperties")
        more = {name: dict(rest) if isinstance(rest, dict) else {} for name in names}
        specified["properties"] = {**(specified.get("properties") or {}), **more}
    return specified


def describe_the_rest(schema: JsonSchema) -> JsonSchema:
    """Move what Gemini does not follow into descriptions, where the table says so.

    Returns:
        A copy, or the schema itself where there is nothing to move. A search in its JSON finds that
        out faster than a walk.
    """
    if not _TO_DESCRIBE.search(json.dumps(schema)):
        return schema
    described: JsonSchema = _describe_all(schema, is_condition=False)
    return described


def _describe_all(schema: Any, *, is_condition: bool) -> Any:
    """Describe a schema and those inside it.

    Inside a condition a looser schema would forbid or require more, so that assertions stay there:
    Gemini does not follow conditions anyway. `oneOf` is not a condition, as Gemini reads `anyOf`.
    """
    if not isinstance(schema, dict):
        return schema
    described = map_children(
        schema,
        lambda child: _describe_all(
            child.schema, is_condition=is_condition or child.keyword.is_condition
        ),
    )
    _describe_only_value(described, is_condition=is_condition)
    if not is_condition:
        settle_limits(described)
    for keyword in keywords_in(described):
        if keyword.sent != "worded" or (is_condition and keyword.kind != "annotation"):
            continue
        value = described.pop(keyword.name)
        if keyword.name in EXCLUSIVE:
            described[EXCLUSIVE[keyword.name]] = value
        describe(described, say(keyword, value))
    return described


def _describe_only_value(schema: JsonSchema, *, is_condition: bool) -> None:
    """An `enum` of one boolean, object or array: Gemini only accepts strings and numbers."""
    match schema.get("enum"):
        case [bool() | dict() | list() as value] if schema.get("type") == type_of(value):
            del schema["enum"]
            if is_condition:
                schema["const"] = value
            else:
                describe(schema, f"Must be {write(value)}.")


_ITEM_LIMITS = ("minItems", "maxItems")


def describe_item_limits(schema: Any) -> Any:
    """Return a rendered schema whose descriptions say how many items its arrays have.

    The limits of all arrays in a request have a limit together, which the API does not publish.
    """
    if not isinstance(schema, dict):
        return schema
    described = map_children(schema, lambda child: describe_item_limits(child.schema))
    if "prefixItems" in described:
        return described  # a tuple has few items, each with a schema
    limits = [name for name in _ITEM_LIMITS if name in described]
    words = [str(KEYWORDS[name].prompt).format(described.pop(name)) for name in limits]
    if words:
        describe(described, f"{', '.join(words).capitalize()}.")
    return described


# The API's Schema message

_KINDS = ("STRING", "INTEGER", "NUMBER", "BOOLEAN", "ARRAY", "OBJECT")
_ANY_KIND = ("STRING", "NUMBER", "BOOLEAN", "ARRAY", "OBJECT")
_IN_CHOICES = frozenset(
    name for name, row in KEYWORDS.items() if row.openapi and row.about != "same"
)
"""Keywords that, beside `anyOf`, are repeated in every choice."""
_FORMATS = {
    "STRING": {"date-time", "enum"},
    "INTEGER": {"int32", "int64"},
    "NUMBER": {"float", "double"},
}

_FREE_KEY = {"type": "STRING", "description": "Stands for any key and value of your choice."}
_ANY_ITEM: JsonSchema = {
    "anyOf": [
        {"type": "STRING"},
        {"type": "NUMBER"},
        {"type": "BOOLEAN"},
        {"type": "OBJECT", "properties": {"any_key": _FREE_KEY}},
    ]
}
"""A schema for anything but an array, as it has to end somewhere."""

# Without references a small schema can become huge. The deepest that stays below is sent.
_MAX_SUBSCHEMAS = 2_000
_DEPTHS = (32, 8, 4, 2, 1)


def render_openapi_parameters(schema: JsonSchema) -> JsonSchema | None:
    """Return the Schema message for a function's parameters; None for a function without any."""
    rendered = render_openapi_schema(schema)
    if "anyOf" in rendered:
        rendered = _as_one_object(rendered["anyOf"])
    return rendered if rendered.get("properties") else None


def render_openapi_schema(schema: JsonSchema) -> JsonSchema:
    """Return the Schema message for a cleaned schema."""
    schema = describe_the_rest(schema)
    definitions = schema.get("$defs") or {}
    for depth in _DEPTHS:
        try:
            return _Renderer(definitions, depth, _MAX_SUBSCHEMAS).render(schema)
        except TooLargeError:
            continue
    return _Renderer(definitions, 0, math.inf).render(schema)


def find_keywords_without_field(schema: JsonSchema) -> list[str]:
    """Return the keywords of a schema that the Schema message can only describe in words."""
    found: set[str] = set()
    for part in subschemas(schema):
        for name, value in part.items():
            has_meaning = name in KEYWORDS and KEYWORDS[name].kind in {"constraint", "reference"}
            if (
                has_meaning
                and KEYWORDS[name].openapi in {"", "partly"}
                and not isinstance(value, bool)
            ):
                found.add(name)
        if any(not isinstance(value, str) for value in part.get("enum") or ()):
            found.add("enum with values that are not text")
    needs = {
        name: {definition_name(part) for part in subschemas(definition)}
        for name, definition in (schema.get("$defs") or {}).items()
    }
    if cyclic_references(needs):
        found.add("$ref to a schema around it")
    return sorted(found)


class _Renderer:
    """Renders one document; knows which of its definitions are being written."""

    def __init__(self, definitions: JsonSchema, max_open: int, limit: float) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self._max_open = max_open
        self._left = limit

    def render(self, schema: Any) -> JsonSchema:
        self._left -= 1
        if self._left < 0:
            raise TooLargeError
        if not isinstance(schema, dict):
            schema = {}
        if "$ref" in schema:
            return self._follow(definition_name(schema), {})
        choices = schema.get("anyOf") or schema.get("oneOf") or []
        if choices:
            return self._render_choices(choices, schema)
        kinds, is_nullable = _kinds(schema)
        branches = [self._render_kind(kind, schema) for kind in kinds]
        return _join(branches, schema, is_nullable=is_nullable)

    def _follow(self, name: str, around: JsonSchema) -> JsonSchema:
        """Render a definition; one that leads back to itself is cut off, with a note."""
        target = self._definitions.get(name) or {}
        if name in self._open or len(self._open) >= self._max_open:
            return self._cut(name, target)
        self._open.append(name)
        try:
            return self._render_choice(target, around)
        finally:
            self._open.pop()

    def _cut(self, name: str, target: JsonSchema) -> JsonSchema:
        is_object = target.get("type") == "object"
        kind = "An object" if is_object else "A value"
        if name in self._open:
            text = f"{kind} of the same form as the {name} around it."
        else:
            text = f"{kind} of the form {name}."
            if keys := ", ".join(target.get("properties", ())):
                text += f" Its keys: {keys}."
        return self.render({"description": text} | ({"type": "object"} if is_object else {}))

    def _render_choices(self, choices: list[Any], schema: JsonSchema) -> JsonSchema:
        around = {key: value for key, value in schema.items() if key in _IN_CHOICES}
        about_all = {key: value for key, value in schema.items() if key not in _IN_CHOICES}
        others = [choice for choice in choices if not _is_null(choice)]
        branches = _branches([self._render_choice(choice, around) for choice in others])
        return _join(branches, about_all, is_nullable=len(others) < len(choices))

    def _render_choice(self, choice: Any, around: JsonSchema) -> JsonSchema:
        if not around or not isinstance(choice, dict):
            return self.render(choice)
        if "$ref" in choice:
            return self._follow(definition_name(choice), around)
        merged = merge_schemas(around, choice)
        if merged is None:  # then the description states it
            merged = choice | {"allOf": [*choice.get("allOf", []), around]}
        return self.render(merged)

    def _render_kind(self, kind: str, schema: JsonSchema) -> JsonSchema:
        rendered: JsonSchema = {"type": kind}
        for name, value in schema.items():
            if name in KEYWORDS and kind in KEYWORDS[name].openapi:
                rendered[name] = value
        if schema.get("format") in _FORMATS.get(kind, ()):
            rendered["format"] = schema["format"]
        match kind:
            case "OBJECT":
                return rendered | self._render_members(schema)
            case "ARRAY":
                return rendered | {"items": self._render_items(schema)}
            case "STRING" if "enum" in schema:
                texts = [value for value in schema["enum"] if isinstance(value, str)]
                # The API says about an empty string: "cannot be empty".
                return rendered | ({"enum": texts} if all(texts) and texts else {})
        return rendered

    def _render_members(self, schema: JsonSchema) -> JsonSchema:
        if not (properties := schema.get("properties")):
            # The API says: "should be non-empty for OBJECT type".
            return {"properties": {"any_key": self._render_any_key(schema)}}
        members: JsonSchema = {
            "properties": {name: self.render(child) for name, child in properties.items()}
        }
        for key in ("required", "propertyOrdering"):
            if names := [name for name in schema.get(key, ()) if name in properties]:
                members[key] = names
        return members

    def _render_any_key(self, schema: JsonSchema) -> JsonSchema:
        others = schema.get("additionalProperties", True)
        if others is False and (patterns := schema.get("patternProperties")):
            about = {"description": f"Stands for any key that matches {' or '.join(patterns)}."}
            kinds = [self.render(schema) for schema in patterns.values()]
            return _join(_branches(kinds), about, is_nullable=False)
        if others is False:
            return {"type": "STRING", "description": "Leave it out: this object has no keys."}
        if others in (True, {}):
            return _FREE_KEY
        about = {"description": "Stands for any key of your choice."}
        return _join(_branches([self.render(others)]), about, is_nullable=False)

    def _render_items(self, schema: JsonSchema) -> JsonSchema:
        first, others = schema.get("prefixItems", []), schema.get("items")
        if not first:
            return self.render(others) if others else _ANY_ITEM
        is_closed = schema.get("maxItems", math.inf) <= len(first)
        kinds = [self.render(item) for item in first]
        if not is_closed:
            kinds.append(self.render(others) if others else _ANY_ITEM)
        branches = _branches(kinds)
        return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _kinds(schema: JsonSchema) -> tuple[list[str], bool]:
    """Return the types of a schema as the API spells them, and whether null is one of them."""
    given = schema.get("type") or _implied_types(schema)
    names = given if isinstance(given, list) else [given]
    kinds = [name.upper() for name in names if name.upper() in _KINDS]
    is_nullable = "null" in names
    return (kinds, is_nullable) if kinds or is_nullable else (list(_ANY_KIND), True)


def _implied_types(schema: JsonSchema) -> list[str]:
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _branches(schemas: list[JsonSchema]) -> list[JsonSchema]:
    """Return the schemas of one type each in some schemas, each once."""
    branches: list[JsonSchema] = []
    for schema in schemas:
        branches += [b for b in schema.get("anyOf", [schema]) if b not in branches]
    return branches


def _join(branches: list[JsonSchema], schema: JsonSchema, *, is_nullable: bool) -> JsonSchema:
    """Join branches into one schema; what concerns them all is on the first one."""
    null: JsonSchema = {"type": "STRING", "description": "Must be null."}
    first = dict(branches[0]) if branches else null
    if is_nullable:
        first["nullable"] = True
    if "title" in schema:
        first.setdefault("title", schema["title"])
    if len(branches) < 2 and schema.get("default") is not None:
        first["default"] = schema["default"]
    if description := _description(schema, [first, *branches[1:]]):
        first["description"] = description
    return first if len(branches) < 2 else {"anyOf": [first, *branches[1:]]}


def _as_one_object(choices: list[JsonSchema]) -> JsonSchema:
    """Merge a choice between objects: about parameters the API says "should be of type OBJECT"."""
    objects = [choice for choice in choices if choice["type"] == "OBJECT"]
    properties: dict[str, JsonSchema] = {}
    for choice in objects:
        for name, child in choice["properties"].items():
            known = properties.setdefault(name, child)
            if known != child:
                either = [*known.get("anyOf", [known]), *child.get("anyOf", [child])]
                properties[name] = {"anyOf": either}
    needed = [set(choice.get("required", ())) for choice in objects]
    required = [name for name in properties if all(name in names for names in needed)]
    described = [choice["description"] for choice in objects if "description" in choice]
    merged: JsonSchema = {"type": "OBJECT", "properties": properties}
    sentences = [*dict.fromkeys(described), _describe_keys(objects, required)]
    if description := " ".join(filter(None, sentences)):
        merged["description"] = description
    return merged | ({"required": required} if required else {})


def _describe_keys(objects: list[JsonSchema], always: list[str]) -> str:
    """Say which keys belong together; where all choices have the same, which of them are needed."""
    if all(choice["properties"].keys() == objects[0]["properties"].keys() for choice in objects):
        needed = [_names(choice.get("required", [])) for choice in objects]
        is_free = any(set(choice.get("required", [])) <= set(always) for choice in objects)
        return "" if is_free else f"Give at least the keys of one of these: {' or '.join(needed)}."
    sets = " or ".join(_describe_set(choice, always) for choice in objects)
    return f"Give the keys of one of these: {sets}."


def _describe_set(choice: JsonSchema, always: list[str]) -> str:
    keys, needed = choice["properties"], choice.get("required", [])
    is_clear = set(needed) <= set(always) or len(needed) == len(keys)
    return _names(keys) if is_clear else f"{_names(keys)}, at least {_names(needed)}"


def _names(names: Iterable[str]) -> str:
    return write(list(names))


def _description(schema: JsonSchema, branches: Sequence[JsonSchema]) -> str:
    """Return the schema's description, its first branch's, then what no field says."""
    own, first = schema.get("description"), branches[0].get("description")
    sentences = [own, None if first == own else first, *_sentences(schema, branches)]
    return " ".join(text for text in sentences if text)


def _sentences(schema: JsonSchema, branches: Sequence[JsonSchema]) -> Iterator[str]:
    values = schema.get("enum")
    if values and all(branch.get("enum") != values for branch in branches):
        yield f"One of: {', '.join(map(write, values))}."
    worded = [row for row in keywords_in(schema) if row.wording]
    for keyword in worded:
        if keyword.kind != "annotation" and not _is_stated(keyword, schema, branches):
            yield _sentence(keyword, schema[keyword.name])
    stated = {name for branch in branches for name in branch.get("required", ())}
    if required := [name for name in schema.get("required", ()) if name not in stated]:
        yield f"Required keys: {', '.join(required)}."
    for keyword in worded:
        value = schema[keyword.name]
        if keyword.kind == "annotation" and value is not None and keyword.name not in branches[0]:
            yield say(keyword, value)


def _sentence(keyword: Keyword, value: Any) -> str:
    if value is False and _describes_others(keyword):
        return f"No {keyword.wording.lower().partition(':')[0]}."
    # References stay only where a definition contains itself, and is known by its name.
    return say(keyword, value).replace('"#/$defs/', '"')


def _describes_others(keyword: Keyword) -> bool:
    return keyword.wording.startswith("Other")


def _is_stated(keyword: Keyword, schema: JsonSchema, branches: Sequence[JsonSchema]) -> bool:
    """Return whether a field states a keyword, or there is nothing to state."""
    name, value = keyword.name, schema[keyword.name]
    if name == "oneOf":
        return "anyOf" not in schema
    if name == "additionalProperties" and not schema.get("properties"):
        return "anyOf" not in schema  # the property that stands for any key states it
    if keyword.value == "schema" and (
        value is True or (value == {} and _describes_others(keyword))
    ):
        return True
    return any(branch.get(name) == value for branch in branches)
