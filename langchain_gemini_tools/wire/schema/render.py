"""A cleaned JSON schema -> the form that is sent as `parametersJsonSchema` or `responseJsonSchema`.

Three things change. What no keyword that Gemini follows can express (exclusive limits, `true` or an
object as the only value, examples) moves into the description; other packages drop exclusive limits
altogether. Required properties without a schema get one, see `specify_required`. And definitions
that require themselves again are loosened, see `loosen_loops`.
Parameters whose names the API does not accept are renamed by `rename_parameters`.

The rendered schema matches more values than the user meant, so that it is for the wire alone:
arguments are validated against the cleaned schema.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, keywords_in, say, write
from langchain_gemini_tools.wire.schema.read import plain_json
from langchain_gemini_tools.wire.schema.rules import (
    EXCLUSIVE,
    describe,
    describe_examples,
    settle_limits,
    type_of,
)
from langchain_gemini_tools.wire.schema.walk import (
    Child,
    definition_name,
    endless_definitions,
    map_children,
    map_value,
    needed_items,
    needed_properties,
    reachable,
    same_value,
    subschemas,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_gemini_tools.wire.shapes import JsonSchema

ALWAYS_GIVEN = "Always give this."
"""What the description of a property says that is required and sent as optional."""

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
        if keyword.name == "examples":
            describe_examples(described)
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


class _Step(NamedTuple):
    """One definition needs another one, by a required property or directly."""

    source: str
    target: str
    owner: JsonSchema | None
    """The schema that requires the property."""
    name: str
    """The property."""


def loosen_loops(schema: JsonSchema) -> JsonSchema:
    """Make optional what closes a loop of required properties between definitions.

    The reference: "Cyclic references are unrolled to a limited degree and, as such, may only be
    used within non-required properties. (Nullable properties are not sufficient.)" The error of the
    API is milder: "ref loops are only supported if they include optional or nullable property
    values, or a potentially-zero-length array items, but a ref loop of required fields was found at
    $defs.And.left". A choice with another way out (`left: Leaf | And`) is rejected by both. So
    where every way back to a definition is required, the property that closes the loop is sent as
    optional, and its description says that it is not. An array that may be empty ends a loop.

    This only concerns the JSON Schema form: prompts, and the Schema message, which has no
    references, keep what the user required.

    Returns:
        A copy, or the schema itself if it has no such loop. What no finite value matches
        stays: the lint reports it.
    """
    if not schema.get("$defs"):
        return schema
    endless = set(endless_definitions(schema))
    if not _steps_of_loops(schema["$defs"], endless):
        return schema
    definitions: JsonSchema = plain_json(schema["$defs"])
    for is_any_accepted in (False, True):  # first where the property itself offers another way out
        for step in _steps_of_loops(definitions, endless):
            if step.owner is not None and (is_any_accepted or _offers_a_choice(step)):
                _loosen(step.owner, step.name)
    return {**schema, "$defs": definitions}


def _steps_of_loops(definitions: JsonSchema, endless: set[str]) -> list[_Step]:
    steps = [
        step
        for source in definitions.keys() - endless
        for step in _steps(source, definitions[source], None, "")
    ]
    needs: dict[str, set[str]] = {}
    for step in steps:
        needs.setdefault(step.source, set()).add(step.target)
    return [
        step
        for step in steps
        if step.source == step.target or step.source in reachable(needs, step.target)
    ]


def _steps(source: str, schema: Any, owner: JsonSchema | None, name: str) -> Iterator[_Step]:
    """Iterate over the definitions that a value of this schema needs, in any of its choices."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield _Step(source, definition_name(schema), owner, name)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(keyword) or ():
            yield from _steps(source, choice, owner, name)
    for item in needed_items(schema):
        yield from _steps(source, item, owner, name)
    for needed, child in needed_properties(schema):
        yield from _steps(source, child, schema, needed)


def _offers_a_choice(step: _Step) -> bool:
    schema = (step.owner or {})["properties"][step.name]
    return len(schema.get("anyOf") or schema.get("oneOf") or ()) > 1


def _loosen(owner: JsonSchema, name: str) -> None:
    required = owner.get("required", [])
    if name not in required:
        return  # two ways lead through it
    owner["required"] = [other for other in required if other != name]
    if not owner["required"]:
        del owner["required"]
    schema = owner["properties"][name]
    if "$ref" in schema:  # nothing may stand beside it
        schema = {"anyOf": [schema]}
    description = f"{schema.get('description', '')} {ALWAYS_GIVEN}".lstrip()
    owner["properties"][name] = {**schema, "description": description}


# Names of parameters


def parameter_names(schema: JsonSchema) -> list[str]:
    """Return the names of all parameters that a function's cleaned schema describes, in order."""
    parts = same_value(schema, schema.get("$defs") or {})
    return list(dict.fromkeys(name for part in parts for name in part.get("properties") or ()))


def rename_parameters(schema: JsonSchema, names: Mapping[str, str]) -> JsonSchema:
    """Return a copy of a cleaned schema with other names of parameters.

    A parameter is mentioned wherever a schema describes the arguments as a whole: in `properties`,
    in `required`, and in the choices and conditions beside them. The API accepts any name further
    inside.

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
