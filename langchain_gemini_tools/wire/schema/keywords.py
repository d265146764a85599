"""What kind of value each keyword of a JSON schema takes: refused by name where it is another.

The API says "Request contains an invalid argument" about all of these, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.references import LIST_OF_SCHEMAS, MAP_OF_SCHEMAS

_NUMBERS = ("minimum", "maximum", "multipleOf")
_EXCLUSIVE = ("exclusiveMinimum", "exclusiveMaximum")
_TEXTS = ("$ref", "pattern", "format", "description", "title")
_LISTS = (list, tuple, set, frozenset)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) or value == []  # PHP writes an empty object so


def _is_list(value: Any) -> bool:
    return isinstance(value, _LISTS)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_exclusive_limit(value: Any) -> bool:
    return isinstance(value, (int, float))  # a flag, too: draft 4 has these


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, Enum))


def _are_texts(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value))


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(MAP_OF_SCHEMAS, ("an object", _is_map)),
    **dict.fromkeys(LIST_OF_SCHEMAS, ("a list of schemas", _is_list)),
    **dict.fromkeys(_NUMBERS, ("a number", _is_number)),
    **dict.fromkeys(_EXCLUSIVE, ("a number", _is_exclusive_limit)),
    **dict.fromkeys(_TEXTS, ("a text", _is_text)),
    "enum": ("a list", _is_list),
    "type": ("a text, or a list of texts", lambda value: _is_text(value) or _are_texts(value)),
    # A flag inside of a property: draft 3.
    "required": (
        "a list of names",
        lambda value: isinstance(value, bool) or _are_texts(value),
    ),
}


def refuse_wrong_kind(keyword: str, value: Any, place: str) -> None:
    """Refuse a value that the keyword cannot have.

    Args:
        keyword: In the words of JSON Schema 2020-12.
        value: What stands behind it.
        place: The parameter that it is about, such as `filters[].tag`.

    Raises:
        InvalidToolError: It names the parameter, the keyword, and what it takes.
    """
    expected, fits = _KINDS.get(keyword, ("", bool))
    if expected and not fits(value):
        raise InvalidToolError(f"{at(place)}{keyword!r} is {value!r}, and has to be {expected}.")


def at(place: str) -> str:
    """The beginning of a sentence about a parameter; nothing for the schema as a whole."""
    return f"parameter {place!r}: " if place else ""
