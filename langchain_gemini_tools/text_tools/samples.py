"""Arguments for the worked example of a prompt: made from a schema, and fitting it where they can.

Examples, defaults and enums of the schema come first: they are what its author would write.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_MAX_DEPTH = 6
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}


def sample_arguments(schema: Schema | None) -> dict[str, Any]:
    """Arguments of one call: the required ones, or the first one where none is."""
    if not schema:
        return {}
    args = _object(schema, schema, 0)
    first = next(iter(schema.get("properties", {}).items()), None)
    return {first[0]: _sample(first[1], schema, 1, first[0])} if first and not args else args


def _sample(schema: Any, root: Schema, depth: int, name: str = "text") -> Any:
    schema = _resolve(schema, root) if isinstance(schema, dict) else {}
    if examples := schema.get("examples"):
        return examples[0]
    if schema.get("default") is not None:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if values := schema.get("enum"):
        return values[0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        useful = [option for option in options if option.get("type") != "null"]
        return _sample((useful or options)[0], root, depth, name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "integer":
            return int(_number(schema))
        case "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _string(schema, name)


def _resolve(schema: Schema, root: Schema) -> Schema:
    for _ in range(_MAX_DEPTH):
        if not isinstance(path := schema.get("$ref"), str):
            return schema
        target: Any = root
        for step in path.removeprefix("#").strip("/").split("/"):
            target = target.get(step, {}) if step and isinstance(target, dict) else target
        schema = target if isinstance(target, dict) else {}
    return {}


def _object(schema: Schema, root: Schema, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        return {}
    properties = schema.get("properties", {})
    return {
        name: _sample(properties.get(name, {}), root, depth + 1, name)
        for name in schema.get("required", ())
    }


def _array(schema: Schema, root: Schema, depth: int) -> list[Any]:
    if depth > _MAX_DEPTH:
        return []
    if prefix := schema.get("prefixItems"):
        return [_sample(item, root, depth + 1) for item in prefix]
    count = max(1, int(schema.get("minItems", 1)))
    return [_sample(schema.get("items", {}), root, depth + 1)] * count


def _number(schema: Schema) -> float:
    if "multipleOf" in schema:
        return float(schema["multipleOf"])
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2) - 1)
    number: float = min(max(low, 1), high)
    return number


def _string(schema: Schema, name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), f"<{name}>")
    text = text.ljust(int(schema.get("minLength", 0)), ".")
    longest = schema.get("maxLength")
    return text if longest is None else text[: int(longest)]
