"""Function declarations and schemas: names, duplicates, Gemini's `Schema`, and JSON Schema.

The reference says about `parametersJsonSchema` and `responseJsonSchema`: "While the full JSON
Schema may be sent, not all features are supported." So unknown keywords pass. Rejected are
violations of its stated rules, and values that are not schemas.
https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.responses import (
    JsonObject,
    Refusal,
    documented,
    invalid,
    refuse_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.responses import JsonObject


# Newer servers allow colons, and the newest reference 128 characters; the older texts do not.
# These names are accepted everywhere.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_NAME_RULE = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
    "(a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64."
)
_MAX_DECLARATIONS = 512


def check_declarations(ask: Ask) -> None:
    """Refuse declarations that Gemini cannot offer to the model."""
    _check_number(ask)
    refuse_all(_problems(ask))
    _check_duplicates(ask)
    for _, _, declaration in ask.placed_declarations():
        name = declaration["name"]
        if "behavior" in declaration:
            raise documented(f"{name}: behavior belongs to the Live API")
        for own, json_schema in (
            ("parameters", "parametersJsonSchema"),
            ("response", "responseJsonSchema"),
        ):
            if own in declaration and json_schema in declaration:
                raise documented(f"{name}: {own} and {json_schema} exclude each other")
        if ask.backend == "vertex" and (own_schema := declaration.get("parameters")):
            _check_on_vertex(own_schema, name)
        if (schema := declaration.get("parametersJsonSchema")) is not None:
            check_json_schema(schema, name, is_parameters=True)


def _check_on_vertex(schema: JsonObject, name: str) -> None:
    if problem := vertex_problem(schema, "parameters"):
        raise Refusal(
            f"Unable to submit request because `{name}` functionDeclaration {problem} Learn more: "
            "https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling"
        )


def _check_number(ask: Ask) -> None:
    for number, tool in enumerate(ask.body.get("tools", [])):
        if len(tool.get("functionDeclarations", [])) > _MAX_DECLARATIONS:
            raise Refusal(
                "The GenerateContentRequest proto is invalid:\n"
                f"  * tools[{number}].function_declarations: [FIELD_INVALID] "
                f"At most {_MAX_DECLARATIONS} function declarations can be specified."
            )


def _problems(ask: Ask) -> Iterator[tuple[str, str]]:
    for t, d, declaration in ask.placed_declarations():
        path = f"tools[{t}].function_declarations[{d}]"
        if not _NAME.fullmatch(declaration.get("name", "")):
            yield f"{path}.name", _NAME_RULE
        if "parameters" in declaration:
            yield from parameters_problems(declaration["parameters"], f"{path}.parameters")


def _check_duplicates(ask: Ask) -> None:
    seen: set[str] = set()
    for declaration in ask.declarations:
        if declaration["name"] in seen:
            raise Refusal(f"Duplicate function declaration found: {declaration['name']}")
        seen.add(declaration["name"])


Problem = tuple[str, str]


def parameters_problems(schema: JsonObject, path: str) -> Iterator[Problem]:
    """Yield the problems of a function's `parameters`.

    The API once refused this too: "should be non-empty for OBJECT type". Recorded on 2.0, 2.5 and
    3, on both backends: `{"type": "OBJECT", "properties": {}}` is a function without parameters.
    """
    if schema.get("type") != "OBJECT" or schema.get("properties"):
        yield from schema_problems(schema, path)


def schema_problems(schema: JsonObject, path: str) -> Iterator[Problem]:
    """Everything that the API rejects in this schema: the place, and its message."""
    kind = schema.get("type", "TYPE_UNSPECIFIED")
    yield from _object_problems(schema, kind, path)
    yield from _array_problems(schema, kind, path)
    if "enum" in schema and kind != "STRING":
        yield f"{path}.enum", "only allowed for STRING type"
    for number, value in enumerate(schema.get("enum", [])):
        if value == "":
            yield f"{path}.enum[{number}]", "cannot be empty"
    if kind == "STRING" and schema.get("format") not in (None, "", "enum", "date-time"):
        yield f"{path}.format", "only 'enum' and 'date-time' are supported for STRING type"
    for number, choice in enumerate(schema.get("anyOf", [])):
        yield from schema_problems(choice, f"{path}.any_of[{number}]")


def vertex_problem(schema: JsonObject, path: str) -> str | None:
    """Return the message about what only Vertex rejects in a function's `parameters`."""
    if path == "parameters" and schema.get("type") != "OBJECT":
        return f"`{path}` schema should be of type OBJECT."
    if "anyOf" in schema and len(schema) > 1:
        return (
            f"`{path}` schema specified other fields alongside any_of. When using any_of, it must "
            "be the only field set."
        )
    if "anyOf" not in schema and "type" not in schema:
        return f"`{path}` schema didn't specify the schema type field."
    children = {f"{path}.{name}": child for name, child in schema.get("properties", {}).items()}
    children |= {f"{path}.items": schema["items"]} if "items" in schema else {}
    children |= {f"{path}.any_of[{n}]": child for n, child in enumerate(schema.get("anyOf", []))}
    found = (vertex_problem(child, place) for place, child in children.items())
    return next(filter(None, found), None)


def _object_problems(schema: JsonObject, kind: str, path: str) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    if kind == "OBJECT":
        if not properties:
            yield f"{path}.properties", "should be non-empty for OBJECT type"
        for number, name in enumerate(schema.get("required", [])):
            if properties and name not in properties:
                yield f"{path}.required[{number}]", "property is not defined"
    else:
        for key in ("properties", "required"):
            if schema.get(key):
                yield f"{path}.{key}", "only allowed for OBJECT type"
    for name, child in properties.items():
        yield from schema_problems(child, f"{path}.properties[{name}]")


def _array_problems(schema: JsonObject, kind: str, path: str) -> Iterator[Problem]:
    if kind == "ARRAY" and "items" not in schema:
        yield f"{path}.items", "missing field."
    elif kind != "ARRAY" and "items" in schema:
        yield f"{path}.items", "field predicate failed: $type == Type.ARRAY"
    elif "items" in schema:
        yield from schema_problems(schema["items"], f"{path}.items")


_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_SHAPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("$ref", "title", "description", "format", "pattern"), str),
    **dict.fromkeys(("properties", "$defs"), dict),
    **dict.fromkeys(("required", "enum", "anyOf", "oneOf", "prefixItems"), list),
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), int),
    "type": (str, list),
}
_MAX_DEPTH = 32
"""Not published; real schemas are far below."""


def check_json_schema(schema: Any, owner: str, *, is_parameters: bool) -> None:
    """Refuse what the API cannot read; `owner` is the function's name."""
    if not isinstance(schema, dict):
        raise invalid(f"{owner}: the schema is not an object")
    if is_parameters and resolve_reference(schema, schema, owner).get("type") != "object":
        raise invalid(f"{owner}: the schema of parameters is not of type object")
    _check(schema, schema, owner)


def _check(schema: Any, root: JsonObject, owner: str, place: tuple[str, ...] = ()) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise invalid(f"{owner}: {schema!r} is not a schema")
    if len(place) > 2 * _MAX_DEPTH:
        raise Refusal(
            f"FunctionDeclaration '{owner}' in the request exceeds the maximum allowed nesting "
            "depth."
        )
    _check_values(schema, owner)
    _check_reference(schema, root, owner)
    for name in schema.get("required", []):
        if name not in schema.get("properties", {}):
            # Reported: google-gemini/gemini-cli, issue 23382
            where = ".".join(place) or "top-level"
            raise Refusal(f"schema at {where} requires unspecified property '{name}'")
    for name, child in schema.get("properties", {}).items():
        _check(child, root, owner, (*place, "properties", name))
    for number, child in enumerate(_children(schema)):
        _check(child, root, owner, (*place, "children", str(number)))


def _check_reference(schema: JsonObject, root: JsonObject, owner: str) -> None:
    path = schema.get("$ref")
    if path is None:
        return
    # Recorded on 2.0: `title` beside `$ref` at the root
    beside = [key for key in schema if not key.startswith("$") and key != "title"]
    if beside:
        # "If $ref is set on a sub-schema, no other properties, except for than those starting as
        # a $, may be set."
        raise documented(f"{owner}: {', '.join(beside)} beside $ref {path}")
    target = resolve_reference(schema, root, owner)
    _check_values(target, owner)
    _check_loop(path, target, root, owner, (path,))


def _check_loop(
    start: str, schema: Any, root: JsonObject, owner: str, followed: tuple[str, ...]
) -> None:
    """Refuse a reference that refers to itself through required properties only.

    The documents: "Cyclic references [...] may only be used within non-required properties.
    (Nullable properties are not sufficient.)" The API's words name nullable ones as sufficient; the
    stricter of the two is applied. Both allow a list in a loop, or do not mention it.
    """
    for path in _needed_references(schema, owner):
        if path == start:
            raise Refusal(
                "ref loops are only supported if they include optional or nullable property "
                "values, or a potentially-zero-length array items, but a ref loop of required "
                f"fields was found at {start.removeprefix('#/').replace('/', '.')}"
            )
        if path not in followed:
            target = resolve_reference({"$ref": path}, root, owner)
            _check_loop(start, target, root, owner, (*followed, path))


def _needed_references(schema: Any, owner: str) -> list[str]:
    if not isinstance(schema, dict):
        return []
    _check_values(schema, owner)
    found = [schema["$ref"]] if "$ref" in schema else []
    inside = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    required = schema.get("required", [])
    inside += [child for name, child in schema.get("properties", {}).items() if name in required]
    if schema.get("minItems"):
        inside += [*schema.get("prefixItems", []), schema.get("items")]
    return found + [path for child in inside for path in _needed_references(child, owner)]


def _check_values(schema: JsonObject, owner: str) -> None:
    for keyword, shape in _SHAPES.items():
        if keyword in schema and not isinstance(schema[keyword], shape):
            raise invalid(f"{owner}: {keyword} cannot be {schema[keyword]!r}")
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            raise invalid(f"{owner}: JSON Schema has no type {kind!r}")
    if not all(isinstance(name, str) for name in schema.get("required", [])):
        raise invalid(f"{owner}: required has names, not {schema['required']!r}")
    for value in schema.get("enum", []):
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise documented(f"{owner}: an enum has strings or numbers, not {value!r}")


def _children(schema: JsonObject) -> list[Any]:
    listed = [child for key in ("anyOf", "oneOf", "prefixItems") for child in schema.get(key, [])]
    single = [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [*listed, *single, *schema.get("$defs", {}).values()]


def resolve_reference(schema: JsonObject, root: JsonObject, owner: str) -> JsonObject:
    """Return the schema that a `$ref` leads to, or the schema itself."""
    seen: set[str] = set()
    while isinstance(path := schema.get("$ref"), str):
        target: Any = root
        if not path.startswith("#") or path in seen:
            raise invalid(f"{owner}: $ref {path} leads nowhere")
        seen.add(path)
        for step in path.removeprefix("#").strip("/").split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if step and isinstance(target, dict) else target
        if not isinstance(target, dict):
            raise invalid(f"{owner}: $ref {path} leads nowhere")
        schema = target
    return schema
