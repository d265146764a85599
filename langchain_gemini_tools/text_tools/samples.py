"""Arguments for the worked example of a prompt: made from a schema, and fitting it where they can.

Examples, defaults and enums of the schema come first: they are what its author would write. What
may hold itself again ends as early as its schema lets it.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_MAX_REFERENCES = 50
_MAX_ITEMS = 5
_MAX_TEXT = 200
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
    sampler = _Sampler(schema)
    try:
        args = sampler.sample_object(schema)
        first = next(iter(schema.get("properties", {}).items()), None)
        return {first[0]: sampler.sample(first[1], first[0])} if first and not args else args
    except _LeadsBackError:
        return {}


class _LeadsBackError(Exception):
    """A value of this schema has to hold another of the same, or is far too large."""


class _Sampler:
    """Makes values of a schema's parts; knows the definitions that are being followed."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._open: list[str] = []
        self._left = _MAX_REFERENCES

    def sample(self, schema: Any, name: str = "text") -> Any:
        """A value of this schema.

        Raises:
            _LeadsBackError: There is none that ends here.
        """
        if not isinstance(schema, dict):
            schema = {}
        if isinstance(path := schema.get("$ref"), str):
            return self._follow(path, name)
        if examples := schema.get("examples"):
            return examples[0]
        if schema.get("default") is not None:
            return schema["default"]
        if "const" in schema:
            return schema["const"]
        if values := schema.get("enum"):
            return values[0]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._sample_choice(options, name)
        return self._sample_kind(schema, name)

    def sample_object(self, schema: Schema) -> dict[str, Any]:
        """An object with the keys that are required."""
        properties = schema.get("properties", {})
        return {
            name: self.sample(properties.get(name, {}), name) for name in schema.get("required", ())
        }

    def _follow(self, path: str, name: str) -> Any:
        self._left -= 1
        if path in self._open or self._left < 0:
            raise _LeadsBackError
        target: Any = self._root
        for step in path.removeprefix("#").strip("/").split("/"):
            target = target.get(step, {}) if step and isinstance(target, dict) else target
        self._open.append(path)
        try:
            return self.sample(target, name)
        finally:
            self._open.pop()

    def _sample_choice(self, options: list[Any], name: str) -> Any:
        """A value of the first choice that ends; null says least, so it comes last."""
        for option in sorted(options, key=lambda option: option == {"type": "null"}):
            try:
                return self.sample(option, name)
            except _LeadsBackError:
                continue
        raise _LeadsBackError

    def _sample_kind(self, schema: Schema, name: str) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                return self.sample_object(schema)
            case "array":
                return self._sample_array(schema)
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

    def _sample_array(self, schema: Schema) -> list[Any]:
        least = int(schema.get("minItems", 0))
        try:
            if prefix := schema.get("prefixItems"):
                return [self.sample(item) for item in prefix]
            return [self.sample(schema.get("items", {}))] * min(max(1, least), _MAX_ITEMS)
        except _LeadsBackError:
            if least:
                raise
            return []


def _number(schema: Schema) -> float:
    if "multipleOf" in schema:
        return float(schema["multipleOf"])
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 2) - 1)
    if low > high and {"exclusiveMinimum", "exclusiveMaximum"} & schema.keys():
        least = schema.get("exclusiveMinimum", schema.get("minimum", high))
        most = schema.get("exclusiveMaximum", schema.get("maximum", high))
        return float(least + most) / 2
    number: float = min(max(low, 1), high)
    return number


def _string(schema: Schema, name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), f"<{name}>")
    text = text.ljust(min(int(schema.get("minLength", 0)), _MAX_TEXT), ".")
    longest = schema.get("maxLength")
    return text if longest is None else text[: int(longest)]
