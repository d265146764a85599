"""JSON Schemas: `parametersJsonSchema` and `responseJsonSchema`.

The reference: "While the full JSON Schema may be sent, not all features are supported." So keywords
are not counted here; rejected are violations of its stated rules, and values that are not schemas.
https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

from typing import Any

from langchain_gemini_tools.testing.fake.refusal import JsonObject, Refusal, invalid

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
"""Not published; real schemas stay far below."""


def check_json_schema(schema: Any, owner: str, *, is_parameters: bool) -> None:
    """Refuse what the API cannot read; `owner` is the function's name."""
    if not isinstance(schema, dict):
        raise invalid(f"{owner}: the schema is not an object")
    if is_parameters and _resolve(schema, schema, owner).get("type") != "object":
        raise invalid(f"{owner}: the schema of parameters is not of type object")
    _check(schema, schema, owner, depth=0)


def _check(schema: Any, root: JsonObject, owner: str, *, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise invalid(f"{owner}: {schema!r} stands where a schema was due")
    if depth > _MAX_DEPTH:
        raise Refusal(
            f"FunctionDeclaration '{owner}' in the request exceeds the maximum allowed nesting "
            "depth."
        )
    _check_values(schema, owner)
    _check_reference(schema, root, owner)
    for child in [*schema.get("properties", {}).values(), *_children(schema)]:
        _check(child, root, owner, depth=depth + 1)


def _check_reference(schema: JsonObject, root: JsonObject, owner: str) -> None:
    path = schema.get("$ref")
    if path is None:
        return
    # Recorded on 2.0: `title` beside `$ref` at the root
    beside = [key for key in schema if not key.startswith("$") and key != "title"]
    if beside:
        # "If $ref is set on a sub-schema, no other properties, except for than those starting as
        # a $, may be set."
        raise invalid(f"{owner}: {', '.join(beside)} beside $ref {path}", evidence="documented")
    target = _resolve(schema, root, owner)
    _check_values(target, owner)
    _check_loop(path, target, root, owner, (path,))


def _check_loop(
    start: str, schema: Any, root: JsonObject, owner: str, followed: tuple[str, ...]
) -> None:
    """Refuse a reference that leads back to itself by required properties alone.

    The documents: "Cyclic references [...] may only be used within non-required properties.
    (Nullable properties are not sufficient.)" The API's words name nullable ones as sufficient; the
    stricter of the two holds here. Both let a list end a loop, or say nothing about it.
    """
    for path in _needed_references(schema, owner):
        if path == start:
            raise Refusal(
                "ref loops are only supported if they include optional or nullable property "
                "values, or a potentially-zero-length array items, but a ref loop of required "
                f"fields was found at {start.removeprefix('#/').replace('/', '.')}"
            )
        if path not in followed:
            target = _resolve({"$ref": path}, root, owner)
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
        raise invalid(f"{owner}: required holds names, not {schema['required']!r}")
    for value in schema.get("enum", []):
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise invalid(
                f"{owner}: an enum holds strings or numbers, not {value!r}", evidence="documented"
            )


def _children(schema: JsonObject) -> list[Any]:
    lists = [schema.get(key, []) for key in ("anyOf", "oneOf", "prefixItems")]
    singles = [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [child for children in lists for child in children] + [
        *singles,
        *schema.get("$defs", {}).values(),
    ]


def _resolve(schema: JsonObject, root: JsonObject, owner: str) -> JsonObject:
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
