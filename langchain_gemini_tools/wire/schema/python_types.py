"""Python's own descriptions of data -> JSON schema: classes, typed dicts, functions.

Pydantic and LangChain do the reading. LangChain's own way to a tool schema is used where it decides
what is injected and what a docstring says, and left where it changes what a type means.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from types import EllipsisType
from typing import Any
from weakref import WeakKeyDictionary

import typing_extensions
from langchain_core.tools import InjectedToolArg, StructuredTool
from pydantic import AliasChoices, BaseModel, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import is_typeddict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.read import KnownSchema
from langchain_gemini_tools.wire.tools.dialects import Specification

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

Schema = dict[str, Any]

# They remember plain JSON only, so that nothing in them keeps a class or a function alive.
_class_schemas: WeakKeyDictionary[type, KnownSchema] = WeakKeyDictionary()
_argument_schemas: WeakKeyDictionary[type, KnownSchema] = WeakKeyDictionary()
_functions: WeakKeyDictionary[Callable[..., Any], tuple[Any, Specification]] = WeakKeyDictionary()


def is_described_class(value: Any) -> bool:
    """Whether `value` is a class whose fields say what a tool takes."""
    return isinstance(value, type) and (
        issubclass(value, (BaseModel, BaseModelV1))
        or is_typeddict(value)
        or dataclasses.is_dataclass(value)
    )


def instance_error(value: Any) -> InvalidToolError:
    """The error for an object of a described class, which says nothing of what may be in others."""
    name = type(value).__name__
    return InvalidToolError(
        f"{value!r} is one {name}, and no schema. Give the class {name} itself."
    )


def class_schema(cls: type) -> KnownSchema:
    """The JSON schema of a described class, without its injected fields. Not to be changed."""
    try:
        cached = _class_schemas.get(cls)
        if cached is None:
            cached = _class_schemas[cls] = KnownSchema(_with_open_root(_read_class(cls)))
    except PydanticUserError as error:
        raise InvalidToolError(
            f"{cls.__name__} has no JSON schema: {error} Use fields that JSON can hold, or mark "
            "what the model should not see with InjectedToolArg."
        ) from error
    return cached


def _with_open_root(schema: Schema) -> Schema:
    """A class that holds itself is only a reference at the root; its words are one step away."""
    _, _, path = str(schema.get("$ref", "")).partition("#/")
    keyword, _, name = path.partition("/")  # "definitions" in Pydantic 1
    return {**schema[keyword][name], keyword: schema[keyword]} if name else schema


def arguments_schema(schema: Any) -> Any:
    """What an `args_schema` says about the arguments; a class's docstring is about the class."""
    if not is_described_class(schema):
        return schema
    if (cached := _argument_schemas.get(schema)) is None:
        cached = _argument_schemas[schema] = KnownSchema(class_schema(schema))
        cached.pop("description", None)
    return cached


def _read_class(cls: type) -> Schema:
    if is_typeddict(cls):
        return _read_typed_dict(cls)
    if not issubclass(cls, (BaseModel, BaseModelV1)):
        return _read_dataclass(cls)
    visible = _without_injected(cls)
    if not issubclass(cls, BaseModel):
        return _hide_inside(visible.schema(), cls, _field_names(cls) - _field_names(visible))
    hidden = {_wire_name(cls, name) for name in _field_names(cls) - _field_names(visible)}
    try:
        schema = without_arguments(cls.model_json_schema(), hidden)
    except PydanticUserError:  # something is injected that JSON has no form for
        if visible is cls or not issubclass(visible, BaseModel):
            raise
        schema = _read_copy(visible, cls)
    return _hide_inside(schema, cls, hidden)


def _read_copy(visible: type[BaseModel], cls: type[BaseModel]) -> Schema:
    """What LangChain's copy of a class says, which keeps no other names of fields."""
    schema = visible.model_json_schema()
    if cls.model_config.get("extra"):
        schema["additionalProperties"] = cls.model_config["extra"] == "allow"
    properties = schema.get("properties", {})
    schema["properties"] = {_wire_name(cls, name): item for name, item in properties.items()}
    schema["required"] = [_wire_name(cls, name) for name in schema.get("required", [])]
    return schema


def _wire_name(cls: type[BaseModel], name: str) -> str:
    """The name of a field in JSON: its alias, or the first of them."""
    alias = cls.model_fields[name].validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _hide_inside(schema: Schema, cls: type, names: set[str]) -> Schema:
    """The schema with some fields of `cls` hidden in the definition of `cls` as well."""
    for keyword in ("$defs", "definitions"):
        if own := (definitions := schema.get(keyword, {})).get(cls.__name__):
            hidden = {**definitions, cls.__name__: without_arguments(own, names)}
            return {**schema, keyword: hidden}
    return schema


def _read_dataclass(cls: type) -> Schema:
    schema = TypeAdapter(cls).json_schema()
    words = inspect.getdoc(cls) or ""
    if words and not words.startswith(f"{cls.__name__}("):  # Python's own words for it
        schema.setdefault("description", words)  # pydantic before 2.14 leaves them out
    return schema


def _without_injected(cls: type[BaseModel | BaseModelV1]) -> type[BaseModel | BaseModelV1]:
    """`cls`, or what LangChain shows of it to a model when some fields are injected."""
    if _cannot_be_injected(cls):
        return cls  # LangChain would make a copy of the class first, which takes twice as long
    words = inspect.getdoc(cls) or ""
    probe = StructuredTool(name=cls.__name__, description=words, args_schema=cls)
    shown = probe.tool_call_schema
    if isinstance(shown, dict) or _field_names(shown) == _field_names(cls):
        return cls
    return shown


def _cannot_be_injected(cls: type[BaseModel | BaseModelV1]) -> bool:
    """Whether no field can be one that LangChain fills in, as far as that is told quickly."""
    if not issubclass(cls, BaseModel) or cls.__init__ is not BaseModel.__init__:
        return False
    return cls.__pydantic_complete__ and not any(map(_has_mark, cls.model_fields.values()))


def _has_mark(field: FieldInfo) -> bool:
    """Whether LangChain's mark stands beside the field's type, or the type is LangChain's own."""
    marks = (*field.metadata, *typing.get_args(field.annotation))
    if any(isinstance(mark, InjectedToolArg) or _is_langchains(mark) for mark in marks):
        return True
    return _is_langchains(typing.get_origin(field.annotation) or field.annotation)


def _is_langchains(kind: Any) -> bool:
    return isinstance(kind, type) and any(
        base.__module__.startswith("langchain_core.tools") for base in kind.__mro__
    )


def _field_names(cls: type[BaseModel | BaseModelV1]) -> set[str]:
    return set(cls.model_fields if issubclass(cls, BaseModel) else cls.__fields__)


def _read_typed_dict(cls: type) -> Schema:
    """Types and `NotRequired` as Pydantic reads them, words and defaults as LangChain does.

    LangChain's own reading makes every key required, and fails on `NotRequired`.
    """
    schema = TypeAdapter(_for_pydantic(cls)).json_schema()
    for inner in _typed_dicts_in(cls, set()):
        described = [schema, *schema.get("$defs", {}).values()]
        for definition in described:
            if definition.get("title") == inner.__name__ and "properties" in definition:
                _add_words(definition, inner)
    return schema


def _for_pydantic(annotation: Any) -> Any:
    """The same type, with `typing.TypedDict` replaced: Pydantic refuses it before Python 3.12."""
    if is_typeddict(annotation):
        if type(annotation).__module__ != "typing" or sys.version_info >= (3, 12):
            return annotation
        hints = typing.get_type_hints(annotation, include_extras=True)
        fields = {
            name: typing_extensions.NotRequired[_for_pydantic(_bare(hint))]
            if _is_optional(name, hint, annotation)
            else _for_pydantic(_bare(hint))
            for name, hint in hints.items()
        }
        made = typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[misc]
        made.__doc__ = annotation.__doc__
        return made
    arguments = typing.get_args(annotation)
    replaced = tuple(_for_pydantic(argument) for argument in arguments)
    if replaced == arguments:
        return annotation
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(replaced)
    origin = typing.get_origin(annotation)
    return typing.Union[replaced] if origin is types.UnionType else origin[replaced]  # noqa: UP007


def _is_optional(name: str, hint: Any, cls: Any) -> bool:
    # The class itself cannot tell where annotations are strings.
    match typing.get_origin(hint):
        case typing.NotRequired:
            return True
        case typing.Required:
            return False
    return name in cls.__optional_keys__


def _bare(hint: Any) -> Any:
    while typing.get_origin(hint) in {typing.NotRequired, typing.Required}:
        hint = typing.get_args(hint)[0]
    return hint


def _typed_dicts_in(annotation: Any, seen: set[Any]) -> set[Any]:
    if is_typeddict(annotation) and annotation not in seen:
        seen.add(annotation)
        for hint in typing.get_type_hints(annotation, include_extras=True).values():
            _typed_dicts_in(hint, seen)
    for argument in typing.get_args(annotation):
        _typed_dicts_in(argument, seen)
    return seen


def _add_words(definition: Schema, cls: type) -> None:
    """Add what LangChain's convention says: `Annotated[int, 5, "a description"]`, and `Args:`."""
    hints = typing.get_type_hints(cls, include_extras=True)
    words = _docstring_words(cls, hints)
    if words.description:
        definition["description"] = words.description
    for name, field in definition["properties"].items():
        match _annotations(hints.get(name)):
            case (str() as description,) | (EllipsisType(), str() as description):
                field.setdefault("description", description)
            case (default, str() as description) if not isinstance(default, FieldInfo):
                field.setdefault("description", description)
                field.setdefault("default", default)
                if name in definition.get("required", []):
                    definition["required"].remove(name)
        said = words.parameters["properties"].get(name, {})
        if "description" in said:
            field.setdefault("description", said["description"])


def _annotations(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(_bare(hint), "__metadata__", ()))


def _docstring_words(cls: type, fields: Iterable[str]) -> Specification:
    """What LangChain reads in the docstring of a function with such arguments."""

    def described(**_fields: Any) -> None: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, annotation=str) for name in fields]
    described.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    described.__annotations__ = dict.fromkeys(fields, str)
    described.__doc__ = cls.__doc__
    return _inspect_function(described)


def read_function(function: Callable[..., Any]) -> Specification:
    """A function's name, its docstring's words, and its arguments, without the injected ones.

    Raises:
        InvalidToolError: Its arguments cannot be told in JSON.
    """
    if isinstance(function, functools.partial):
        return _read_partial(function)
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        raise InvalidToolError(
            f"{function!r} is no tool: nothing says on which object it is called."
        )
    if not inspect.isroutine(function):
        call = read_function(type(function).__call__)  # an object that can be called
        words = call.description or inspect.getdoc(type(function))
        return dataclasses.replace(call, name=type(function).__name__, description=words)
    key = getattr(function, "__func__", function)  # a bound method is made anew at every access
    said = (function.__name__, function.__doc__)
    cached = _functions.get(key)
    if cached is None or cached[0] != said:
        cached = _functions[key] = said, _inspect_function(function)
    return cached[1]


def _inspect_function(function: Callable[..., Any]) -> Specification:
    """Read a function the way LangChain does."""
    try:
        tool = _as_tool(function)
    except (
        *(PydanticUserError, PydanticSchemaGenerationError),
        *(NameError, TypeError, ValueError),
    ) as error:
        raise InvalidToolError(
            f"The function {function.__name__!r} is no tool: {error} Annotate its arguments with "
            "types that JSON can hold."
        ) from error
    schema = arguments_schema(tool.args_schema)
    words = tool.description if function.__doc__ else None
    return Specification(tool.name, words, _without_self(function, schema))


def _as_tool(function: Callable[..., Any]) -> StructuredTool:
    is_async = inspect.iscoroutinefunction(function)
    make = functools.partial(
        StructuredTool.from_function,
        func=None if is_async else function,
        coroutine=function if is_async else None,
        description=None if function.__doc__ else "-",  # it insists on one
    )
    try:
        return make(parse_docstring=True)
    except ValueError:  # the docstring speaks of arguments that are not there
        return make(parse_docstring=False)


def _read_partial(function: functools.partial[Any]) -> Specification:
    """What is left to give. A keyword that the partial gives already is not asked for again."""
    whole = read_function(function.func)
    given = list(inspect.signature(function.func).parameters)[: len(function.args)]
    return dataclasses.replace(
        whole, parameters=without_arguments(whole.parameters, {*given, *function.keywords})
    )


def _without_self(function: Callable[..., Any], schema: Schema) -> Schema:
    first = next(iter(inspect.signature(function).parameters), None)
    return without_arguments(schema, {"self"}) if first == "self" else schema


def without_arguments(schema: Schema, names: Collection[str]) -> Schema:
    """The schema of an object without some of its properties: a copy, where it has them."""
    properties = schema.get("properties") or {}
    if properties.keys().isdisjoint(names):
        return schema
    left = {name: item for name, item in properties.items() if name not in names}
    required = [name for name in schema.get("required") or () if name not in names]
    return {**schema, "properties": left, "required": required}
