"""JSON Schema -> the part of it that Gemini follows, with the same meaning.

`rules` has the changes to a single schema. Here they are applied to a whole document, and
references are written out so that nothing stands beside a `$ref`; those that lead back to
themselves stay, with their definitions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.keywords import KEYWORDS, constraints
from langchain_gemini_tools.wire.schema.python_types import (
    class_schema,
    is_described_class,
    is_plain_type,
    type_schema,
)
from langchain_gemini_tools.wire.schema.read import read_schema, schema_text
from langchain_gemini_tools.wire.schema.rules import RULES, allow_null, write_out_all_of
from langchain_gemini_tools.wire.schema.walk import (
    Child,
    cyclic_references,
    map_children,
    reference_graph,
    resolve,
)
from langchain_gemini_tools.wire.tools.dialects import (
    instance_error,
    is_specification,
    read_specification,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema

# Writing references out can make a small schema huge. Beyond this many subschemas, far more than a
# tool written by hand has, definitions stay definitions.
_MAX_SUBSCHEMAS = 5_000

_SENT = frozenset(name for name, row in KEYWORDS.items() if row.kind != "definitions")


def clean_parameters(schema: Any) -> JsonSchema | None:
    """Return the cleaned schema of a function's arguments; None for a function without any.

    Its title is dropped: the function's name says as much.

    Raises:
        InvalidToolError: It is not a schema, or does not describe an object.
    """
    cleaned = clean_schema({} if schema is None else schema)
    if isinstance(schema, Mapping) and not constraints(cleaned) and _has_unknown_keys(schema):
        raise InvalidToolError(
            f"{schema!r} is not a schema: it has no keyword that Gemini knows. Describe parameters "
            "under 'properties'."
        )
    cleaned.pop("title", None)
    if cleaned.get("additionalProperties") == {}:
        cleaned["additionalProperties"] = True
    if "object" not in (types := cleaned.get("type", "object")):
        raise InvalidToolError(f"its parameters must be an object, not of type {types!r}.")
    cleaned = {"type": "object", **cleaned} | {"type": "object"}
    return None if _accepts_nothing(cleaned) else cleaned


def _has_unknown_keys(schema: Mapping[str, Any]) -> bool:
    """Return whether something in it is neither a keyword nor information about the schema."""
    read = read_schema(schema)
    others = () if isinstance(read, bool) else read.keys() - KEYWORDS.keys()
    return any(not name.startswith(("$", "x-")) for name in others)


def _accepts_nothing(schema: JsonSchema) -> bool:
    # "should be non-empty for OBJECT type": a function without arguments has no schema at all.
    # `additionalProperties: true` alone is different: the model may give any argument.
    return {name for name, value in constraints(schema).items() if value} <= {"type"}


def clean_response_schema(schema: Any) -> JsonSchema:
    """Return the cleaned schema of a response: of the model's, or of a function's.

    Args:
        schema: A schema, or the specification of a function, whose arguments are used.

    Raises:
        InvalidToolError: It is not a schema.
    """
    if isinstance(schema, Mapping) and is_specification(schema):
        specified = read_specification(schema)
        if specified.parameters is None:
            raise InvalidToolError(
                f"{dict(schema)!r} is a function named {specified.name!r} without parameters, not "
                "a schema. Describe the fields of the response under 'properties'."
            )
        schema = specified.parameters
    cleaned = clean_schema(schema)
    if isinstance(schema, Mapping) and schema and not cleaned:
        raise InvalidToolError(f"{schema!r} is not a schema: it has no keyword that Gemini knows.")
    return cleaned


def clean_schema(schema: Any) -> JsonSchema:
    """Return a copy of a schema in keywords that Gemini accepts, matched by the same values.

    Raises:
        InvalidToolError: It is not a schema, or refers to something outside itself.
    """
    plain = plain_schema(schema)
    text = schema_text(plain)
    return _clean_document(plain if text is None else json.loads(text))


def _clean_document(schema: Any) -> JsonSchema:
    document = read_schema(schema)
    if isinstance(document, bool):
        return _clean_bool(document)
    graph = reference_graph(document)
    try:
        return _Cleaner(document, cyclic_references(graph), _MAX_SUBSCHEMAS).clean()
    except _TooLargeError:
        return _Cleaner(document, frozenset(graph), math.inf).clean()


def plain_schema(schema: Any) -> Mapping[str, Any] | bool:
    """Return the schema of a class or an SDK object as a dict; a dict as it is.

    Raises:
        InvalidToolError: It is not a schema.
    """
    if is_described_class(schema):
        return {key: value for key, value in class_schema(schema).items() if key != "title"}
    if not isinstance(schema, type) and callable(getattr(schema, "model_dump", None)):
        if not hasattr(schema, "properties"):
            raise instance_error(schema)
        dumped: dict[str, Any] = schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped  # the SDK's `types.Schema`
    if isinstance(schema, (Mapping, bool)):
        return schema
    if is_plain_type(schema):
        return type_schema(schema)
    raise InvalidToolError(
        f"{schema!r} is not a schema. Pass a dict, a Pydantic class or a TypedDict."
    )


class _TooLargeError(Exception):
    """Writing the references out made the schema too large."""


class _Cleaner:
    """Cleans one document: writes its references out, except for those that would never end."""

    def __init__(self, document: JsonSchema, kept: frozenset[str], limit: float) -> None:
        self._document = document
        self._kept = kept
        self._left = limit
        self._definitions: JsonSchema = {}
        self._names: dict[str, str] = {}

    def clean(self) -> JsonSchema:
        cleaned = self._clean(self._document)
        followed: set[str] = set()
        while (reference := cleaned.get("$ref", "")) and reference not in followed:
            # The root has to be an object itself, so its own reference is followed once.
            followed.add(reference)
            cleaned = dict(self._definitions[_last_segment(reference)])
        if self._definitions:
            cleaned["$defs"] = self._definitions
        return cleaned

    def _clean(self, schema: Any, name: str = "") -> JsonSchema:
        """Clean one subschema; `name` is the property or definition it belongs to, if any."""
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        if isinstance(schema, bool):
            return _clean_bool(schema)
        is_reference = isinstance(schema.get("$ref"), str)
        cleaned = self._clean_reference(schema) if is_reference else self._clean_keywords(schema)
        if is_generated_title(cleaned.get("title"), name):
            del cleaned["title"]
        return cleaned

    def _clean_keywords(self, schema: JsonSchema) -> JsonSchema:
        sent = {name: value for name, value in schema.items() if name in _SENT}
        cleaned = map_children(sent, self._clean_child)
        for rule in RULES:
            rule(cleaned)
        return cleaned

    def _clean_child(self, child: Child) -> JsonSchema | bool:
        if child.keyword.value == "schema" and isinstance(child.schema, bool):
            return child.schema
        return self._clean(child.schema, child.name if child.keyword.value == "schema map" else "")

    def _clean_reference(self, schema: JsonSchema) -> JsonSchema:
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        if schema["$ref"] in self._kept:
            return self._beside({"$ref": self._define(schema["$ref"])}, beside)
        return self._beside(self._clean_target(schema["$ref"]), beside)

    def _beside(self, target: JsonSchema, beside: JsonSchema) -> JsonSchema:
        """Return `target` with the keywords that stood beside the reference to it."""
        nullable = beside.pop("nullable", False)
        cleaned = self._clean(beside)
        cleaned["allOf"] = [target, *cleaned.get("allOf", [])]
        write_out_all_of(cleaned)
        if nullable:
            cleaned["nullable"] = True
            allow_null(cleaned)
        return cleaned

    def _clean_target(self, reference: str) -> JsonSchema:
        return self._clean(resolve(self._document, reference), _last_segment(reference))

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            name = wanted = re.sub(r"\W", "_", _last_segment(reference)) or "root"
            while name in self._definitions:
                name = f"{wanted}_{len(self._definitions)}"
            self._names[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # known before it is cleaned, as it leads back to itself
            self._definitions[name] = self._clean_target(reference)
        return self._names[reference]


def _last_segment(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].removeprefix("#")


def _clean_bool(schema: object) -> JsonSchema:
    return {} if schema else {"not": {}}


def is_generated_title(title: Any, name: str) -> bool:
    """Return whether a title only repeats the name of its property or definition.

    Pydantic writes `page_size` as "Page Size", and a class as its name; a definition's key is the
    name of the class, with its module before it where two classes have the same name.
    """
    if not isinstance(title, str) or not name:
        return False
    if title in (name, name.title().replace("_", " ").strip()):
        return True
    key = re.sub(r"[^A-Za-z0-9.\-_]", "_", title)  # `Box[int]` is defined as `Box_int_`
    return name == key or name.endswith(f"__{key}")
