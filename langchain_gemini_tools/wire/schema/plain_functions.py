"""Plain functions -> a Pydantic model of their arguments, and what their docstring says.

LangChain builds three classes for every function it reads. One is enough where nothing about the
function is special. Only what is certain to come out the same is read here, and everything else
is left to LangChain.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
import typing
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.v1 import BaseModel as BaseModelV1

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Names that LangChain hides, that stand for an object, or that Pydantic uses for a function.
_SPECIAL_NAMES = {"callbacks", "run_manager", "self", "cls", "args", "kwargs"}
_SPECIAL_PREFIXES = ("_", "v__", "model_")
_CONFIG = ConfigDict(arbitrary_types_allowed=True)
_ARGUMENT = re.compile(r"(?P<indent> +)(?P<name>\w+)(?: \([^:]*\))?:(?P<words>.*)")


@dataclass(frozen=True)
class PlainFunction:
    """What was read: the words about the function, and its arguments as fields."""

    description: str | None
    arguments: type[BaseModel]


@dataclass(frozen=True)
class _Docstring:
    description: str | None
    arguments: Mapping[str, str]


def read_plain_function(function: Callable[..., Any]) -> PlainFunction | None:
    """The function as LangChain would read it, or None where only LangChain can tell."""
    if type(function) is not types.FunctionType or vars(function):
        return None  # a method, or something that a decorator has marked or wrapped
    parameters = inspect.signature(function).parameters
    if not all(map(_is_plain, parameters.values())):
        return None
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        docstring = _read_docstring(inspect.getdoc(function), parameters.keys() & hints.keys())
        if docstring is None:
            return None
        fields = {name: _read_field(parameters[name], hints.get(name, Any)) for name in parameters}
        if any(map(_is_left_to_langchain, fields.values())):
            return None
        shown: dict[str, Any] = {
            name: (field.annotation, _show(field, _words(name, hints, docstring)))
            for name, field in fields.items()
        }
        model = create_model(function.__name__, __config__=_CONFIG, **shown)
    except (PydanticUserError, PydanticSchemaGenerationError, NameError, TypeError, ValueError):
        return None  # LangChain fails as well, and its words are the ones to tell
    return PlainFunction(docstring.description, model)


def _is_plain(parameter: inspect.Parameter) -> bool:
    name = parameter.name
    return (
        parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
        and name not in _SPECIAL_NAMES
        and not name.startswith(_SPECIAL_PREFIXES)
        and not hasattr(BaseModel, name)
        and not hasattr(parameter.default, "__get__")
    )


def _read_field(parameter: inspect.Parameter, hint: Any) -> FieldInfo:
    if parameter.default is parameter.empty:
        return FieldInfo.from_annotation(hint)
    return FieldInfo.from_annotated_attribute(hint, parameter.default)


def _is_left_to_langchain(field: FieldInfo) -> bool:
    kind = field.annotation
    return kind is RunnableConfig or (isinstance(kind, type) and issubclass(kind, BaseModelV1))


def _show(field: FieldInfo, words: str | None) -> FieldInfo:
    """What LangChain keeps of a field: its default, its limits and its description."""
    description = field.description if words is None else words
    if field.default_factory is None:
        shown: FieldInfo = Field(field.default, description=description)
    else:
        shown = Field(default_factory=field.default_factory, description=description)
    if field.metadata:
        shown.metadata = field.metadata
    return shown


def _words(name: str, hints: Mapping[str, Any], docstring: _Docstring) -> str | None:
    """The docstring's words about an argument, else the first ones beside its type."""
    if name in docstring.arguments:
        return docstring.arguments[name]
    for mark in getattr(hints.get(name), "__metadata__", ()):
        if isinstance(mark, str):
            return mark
        if isinstance(mark, FieldInfo) and mark.description:
            return mark.description
    return None


def _read_docstring(docstring: str | None, names: typing.Collection[str]) -> _Docstring | None:
    """The words before the sections, and those about each argument, where it is simple to tell."""
    if docstring is None:
        return _Docstring(None, {})
    said, arguments = [], None
    blocks = iter(docstring.split("\n\n"))
    for block in blocks:
        if block.startswith(("Args:", "Returns:", "Example:")):
            arguments = block if block.startswith("Args:") else _first_arguments(blocks)
            break
        said.append(block)
    description = textwrap.dedent(" ".join(said).strip()).strip()
    described = _read_arguments(arguments) if arguments else {}
    if not description or described is None or not described.keys() <= set(names):
        return None
    return _Docstring(description, described)


def _first_arguments(blocks: typing.Iterable[str]) -> str | None:
    return next((block for block in blocks if block.startswith("Args:")), None)


def _read_arguments(block: str) -> dict[str, str] | None:
    """`name: words` or `name (type): words`, with more words on deeper lines without a colon."""
    described: dict[str, str] = {}
    name, indent = "", ""
    for line in block.split("\n")[1:]:
        if found := _ARGUMENT.fullmatch(line):
            indent = indent or found["indent"]
            name = found["name"]
            if found["indent"] != indent or name in described:
                return None
            described[name] = found["words"].strip()
        elif name and ":" not in line and line.startswith(indent + " ") and line.strip():
            described[name] += " " + line.strip()
        else:
            return None
    return described
