"""JSON Schema -> the part of it that Gemini follows, with its meaning kept.

What has to change is a table of rules (`rules`); here they are carried through a whole
schema, references are written out so that nothing stands beside a `$ref`, and those that lead back
to themselves stay, with their definitions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.merging import ANNOTATIONS
from langchain_gemini_tools.wire.schema.python_types import (
    class_schema,
    instance_error,
    is_described_class,
)
from langchain_gemini_tools.wire.schema.reading import read_schema, schema_text
from langchain_gemini_tools.wire.schema.references import (
    LIST_OF_SCHEMAS,
    MAP_OF_SCHEMAS,
    ONE_SCHEMA,
    cyclic_references,
    reference_graph,
    resolve,
)
from langchain_gemini_tools.wire.schema.rules import KEPT, RULES, allow_null, write_out_all_of
from langchain_gemini_tools.wire.schema.titles import is_generated_title
from langchain_gemini_tools.wire.tools.dialects import is_specification, read_specification

if TYPE_CHECKING:
    from langchain_gemini_tools.wire import shapes as gemini

Schema = dict[str, Any]

# Writing every reference out can make a small schema huge. Beyond this many subschemas, and no
# tool written by hand comes near, definitions stay definitions.
_MAX_SUBSCHEMAS = 5_000


def render_parameters(schema: Any) -> gemini.JsonSchema | None:
    """The schema of a function's arguments; None for a function that takes none.

    Its own title and description go: the function's name and description say as much.

    Raises:
        InvalidToolError: It describes something else than an object, or is no schema.
    """
    cleaned = clean_schema({} if schema is None else schema)
    if isinstance(schema, Mapping) and not cleaned.keys() - ANNOTATIONS and _says_more(schema):
        raise InvalidToolError(
            f"{schema!r} is no schema: Gemini knows none of its keywords. Parameters are described "
            "under 'properties'."
        )
    cleaned.pop("title", None)
    if cleaned.get("additionalProperties") == {}:
        cleaned["additionalProperties"] = True
    if "object" not in (types := cleaned.get("type", "object")):
        raise InvalidToolError(f"its parameters are of type {types!r}, and have to be an object.")
    cleaned = {"type": "object", **cleaned} | {"type": "object"}
    return None if _takes_nothing(cleaned) else cleaned


def _says_more(schema: Mapping[str, Any]) -> bool:
    """Whether there is anything in it that is no keyword, and no word about the schema itself."""
    read = read_schema(schema)
    others = () if isinstance(read, bool) else read.keys() - KEPT - {"definitions"}
    return any(not keyword.startswith(("$", "x-")) for keyword in others)


def _takes_nothing(schema: Schema) -> bool:
    # "should be non-empty for OBJECT type": a function without arguments has no schema at all.
    # `additionalProperties: true` alone is another matter: it takes what the model likes.
    return {key for key, value in schema.items() if value} <= {"type", *ANNOTATIONS}


def render_response_schema(schema: Any) -> gemini.JsonSchema:
    """The schema of an answer: of the model's, or of a function's.

    Args:
        schema: A schema, or a function's specification, whose arguments are meant.

    Raises:
        InvalidToolError: It is no schema.
    """
    if isinstance(schema, Mapping) and is_specification(schema):
        specified = read_specification(schema)
        if specified.parameters is None:
            raise InvalidToolError(f"{specified.name!r} has no schema that an answer could fit.")
        schema = specified.parameters
    cleaned = clean_schema(schema)
    if isinstance(schema, Mapping) and schema and not cleaned:
        raise InvalidToolError(f"{schema!r} is no schema: Gemini knows none of its keywords.")
    return cleaned


def clean_schema(schema: Any) -> gemini.JsonSchema:
    """The schema in keywords that Gemini takes, which the same values fit: a copy.

    Raises:
        InvalidToolError: It is no schema, or refers to something outside itself.
    """
    plain = plain_schema(schema)
    text = schema_text(plain)
    return _clean_document(plain if text is None else json.loads(text))


def _clean_document(schema: Any) -> Schema:
    document = read_schema(schema)
    if isinstance(document, bool):
        return _clean_bool(document)
    graph = reference_graph(document)
    try:
        return _Cleaner(document, cyclic_references(graph), _MAX_SUBSCHEMAS).clean()
    except _TooLargeError:
        return _Cleaner(document, frozenset(graph), math.inf).clean()


def plain_schema(schema: Any) -> Mapping[str, Any] | bool:
    """The schema as a dict, whoever wrote it.

    Raises:
        InvalidToolError: It is no schema.
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
    raise InvalidToolError(
        f"{schema!r} is no schema. Give a dict, a Pydantic class or a TypedDict."
    )


class _TooLargeError(Exception):
    """Writing the references out made too much of it."""


class _Cleaner:
    """Cleans one document: follows its references, and keeps those that would never end."""

    def __init__(self, document: Schema, kept: frozenset[str], limit: float) -> None:
        self._document = document
        self._kept = kept
        self._left = limit
        self._definitions: Schema = {}
        self._names: dict[str, str] = {}

    def clean(self) -> Schema:
        cleaned = self._clean(self._document)
        followed: set[str] = set()
        while (reference := cleaned.get("$ref", "")) and reference not in followed:
            # The root has to be an object itself, so its own reference is followed once.
            followed.add(reference)
            cleaned = dict(self._definitions[_last_segment(reference)])
        if self._definitions:
            cleaned["$defs"] = self._definitions
        return cleaned

    def _clean(self, schema: Any, name: str = "") -> Schema:
        """One subschema; `name` is the property or definition it belongs to, if any."""
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

    def _clean_keywords(self, schema: Schema) -> Schema:
        cleaned = {
            keyword: self._clean_keyword(keyword, value)
            for keyword, value in schema.items()
            if keyword in KEPT
        }
        for rule in RULES:
            rule(cleaned)
        return cleaned

    def _clean_keyword(self, keyword: str, value: Any) -> Any:
        if keyword in ONE_SCHEMA:
            return value if isinstance(value, bool) else self._clean(value)
        if keyword in LIST_OF_SCHEMAS:
            return [self._clean(item) for item in value]
        if keyword in MAP_OF_SCHEMAS and isinstance(value, dict):
            return {name: self._clean(item, name) for name, item in value.items()}
        return value

    def _clean_reference(self, schema: Schema) -> Schema:
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        if schema["$ref"] in self._kept:
            return self._beside({"$ref": self._define(schema["$ref"])}, beside)
        return self._beside(self._clean_target(schema["$ref"]), beside)

    def _beside(self, target: Schema, beside: Schema) -> Schema:
        """`target` with what stood beside the reference to it."""
        nullable = beside.pop("nullable", False)
        cleaned = self._clean(beside)
        cleaned["allOf"] = [target, *cleaned.get("allOf", [])]
        write_out_all_of(cleaned)
        if nullable:
            cleaned["nullable"] = True
            allow_null(cleaned)
        return cleaned

    def _clean_target(self, reference: str) -> Schema:
        return self._clean(resolve(self._document, reference), _last_segment(reference))

    def _define(self, reference: str) -> str:
        if reference not in self._names:
            name = wanted = re.sub(r"\W", "_", _last_segment(reference)) or "root"
            while name in self._definitions:
                name = f"{wanted}_{len(self._definitions)}"
            self._names[reference] = f"#/$defs/{name}"
            self._definitions[name] = {}  # known before it is cleaned: it leads back to itself
            self._definitions[name] = self._clean_target(reference)
        return self._names[reference]


def _last_segment(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].removeprefix("#")


def _clean_bool(schema: object) -> Schema:
    return {} if schema else {"not": {}}
