"""Python objects -> specifications and JSON schemas: tools, classes, typed dicts, functions.

Pydantic and LangChain do the reading. LangChain's tool schemas decide which arguments are injected
and what a docstring describes. They are not used where they would change the meaning of a type.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from types import EllipsisType
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

import typing_extensions
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from pydantic import AliasChoices, BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import is_typeddict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.read import KnownSchema
from langchain_gemini_tools.wire.schema.walk import without_properties
from langchain_gemini_tools.wire.tools.bind import Specification

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic.v1.fields import ModelField

    from langchain_gemini_tools.wire.shapes import JsonSchema

# They remember plain JSON only, so that nothing in them keeps a class or a function alive.
_class_schemas: WeakKeyDictionary[type, KnownSchema] = WeakKeyDictionary()
_argument_schemas: WeakKeyDictionary[type, KnownSchema] = WeakKeyDictionary()
_functions: WeakKeyDictionary[Callable[..., Any], tuple[Any, Specification]] = WeakKeyDictionary()

_MARKS = (typing.NotRequired, typing.Required)
_ALIASES = (
    *(typing.NewType, typing_extensions.TypeAliasType),
    getattr(typing, "TypeAliasType", typing.NewType),  # from Python 3.12 on
)

_SINGLE_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
}
"""The arguments of a single-input tool: one text, under LangChain's name for it."""


def is_described_class(value: object) -> TypeGuard[type[Any]]:
    """Return whether a value is a class whose fields describe the arguments of a tool."""
    return isinstance(value, type) and (
        issubclass(value, (BaseModel, BaseModelV1))
        or is_typeddict(value)
        or dataclasses.is_dataclass(value)
    )


def is_plain_type(value: object) -> bool:
    """Return whether a value is another type: `list[City]`, an enum, a `Literal`, an alias."""
    is_type = isinstance(value, type) or typing.get_origin(value) is not None
    return isinstance(value, _ALIASES) or (is_type and not is_described_class(value))


def plain_schema(schema: Any) -> Mapping[str, Any] | bool:
    """Return the schema of a type or an SDK object as a dict; a dict as it is.

    Raises:
        InvalidToolError: It is not a schema, or JSON cannot express the type.
    """
    if is_described_class(schema):
        return {key: value for key, value in class_schema(schema).items() if key != "title"}
    if not isinstance(schema, type) and callable(getattr(schema, "model_dump", None)):
        if not hasattr(schema, "properties"):
            raise instance_error(schema)
        dumped: JsonSchema = schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped  # the SDK's `types.Schema`
    if isinstance(schema, (Mapping, bool)):
        return schema
    if not is_plain_type(schema):
        raise InvalidToolError(
            f"{schema!r:.200} is not a schema. Pass a dict, a Pydantic class or a TypedDict."
        )
    try:
        described = TypeAdapter(schema).json_schema()
    except PydanticUserError as error:
        raise InvalidToolError(
            f"{schema!r:.200} is not a schema: {_reason(error)}. Use a Pydantic class, a "
            "TypedDict, a dataclass or a JSON schema."
        ) from error
    return {key: value for key, value in described.items() if key != "title"}


def instance_error(value: object) -> InvalidToolError:
    """Return the error for an instance of a class that is described by its fields."""
    name = type(value).__name__
    way_out = f"Pass the class {name} itself."
    if hasattr(value, "get_tools"):  # a toolkit of LangChain
        way_out = "Pass its tools: `get_tools()` returns them."
    return InvalidToolError(f"{value!r:.200} is an instance of {name}, not a schema. {way_out}")


def _reason(error: Exception) -> str:
    """Return what an error says, without Pydantic's advice for authors of types and its address."""
    text = getattr(error, "message", None) or str(error)
    return str(text).partition("\n\n")[0].partition(". Set `arbitrary")[0].rstrip(". \n")


def provider_definition(tool: object) -> Any:
    """Return what a LangChain tool that a provider runs says about itself, such as a dict."""
    extras = getattr(tool, "extras", None) if isinstance(tool, BaseTool) else None
    return (extras or {}).get("provider_tool_definition")


def read_object(tool: object) -> Specification | None:
    """Read a LangChain tool, a described class or a function; `None` for anything else.

    Raises:
        InvalidToolError: Its arguments have no JSON schema.
    """
    if isinstance(tool, BaseTool):
        return _read_tool(tool)
    if is_described_class(tool):
        schema = class_schema(tool)
        name = schema.get("title") or tool.__name__
        return Specification(name, schema.get("description"), schema)
    is_model = callable(getattr(tool, "model_dump", None))
    if is_model or isinstance(tool, Runnable) or is_plain_type(tool):
        return None
    return read_function(tool) if callable(tool) else None


def _read_tool(tool: BaseTool) -> Specification:
    extras = getattr(tool, "extras", None) or {}
    return Specification(
        name=tool.name,
        description=tool.description,
        parameters=_call_schema(tool),
        response=(extras.get("gemini") or {}).get("response_schema"),
        lost_parameters=_lost_parameters(tool),
    )


def _lost_parameters(tool: BaseTool) -> tuple[str, ...]:
    """Find parameters that LangChain silently replaces with its objects.

    Where the schema is a class, the function raises for the missing argument.
    """
    if not isinstance(tool, StructuredTool) or not isinstance(tool.args_schema, dict):
        return ()
    return tuple(sorted({"config", "run_manager"} & {*tool.args_schema.get("properties", ())}))


def _call_schema(tool: BaseTool) -> Any:
    if isinstance(tool, SingleInputTool) and not tool.args_schema:
        return _SINGLE_INPUT
    if type(tool).tool_call_schema is not BaseTool.tool_call_schema or not tool.args_schema:
        return arguments_schema(tool.tool_call_schema)
    if isinstance(tool.args_schema, dict):
        # LangChain knows which arguments it injects, but leaves them in a schema that is a dict.
        return without_properties(tool.args_schema, getattr(tool, "_injected_args_keys", ()))
    return without_properties(arguments_schema(tool.args_schema), _added_arguments(tool))


def _added_arguments(tool: BaseTool) -> set[str]:
    """Return what a schema may contain besides the arguments that the author of a tool wrote."""
    added = {"v__positional_only"}  # how Pydantic rejects keywords for positional arguments
    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if getattr(function, "__langsmith_traceable__", False):  # LangSmith adds its config
        added |= {"config"} - inspect.signature(inspect.unwrap(function)).parameters.keys()
    return added


def class_schema(cls: type) -> KnownSchema:
    """Return the JSON schema of a described class without its injected fields; do not change it."""
    try:
        cached = _class_schemas.get(cls)
        if cached is None:
            cached = _class_schemas[cls] = KnownSchema(_with_open_root(_read_class(cls)))
    except (PydanticUserError, ValueError) as error:  # Pydantic 1 raises a ValueError
        raise InvalidToolError(
            f"{_place_without_schema(cls)} has no JSON schema: {_reason(error)}. Use types with a "
            "JSON form, or mark what the model should not see with InjectedToolArg."
        ) from error
    return cached


def _place_without_schema(cls: type) -> str:
    """Return the first parameter of a class that has no JSON schema, as the start of a sentence."""
    config = ConfigDict(arbitrary_types_allowed=True)
    for name, field in getattr(cls, "model_fields", {}).items():
        try:
            create_model(name, __config__=config, value=(field.annotation, ...)).model_json_schema()
        except PydanticUserError:
            return f"Parameter {name!r} of {cls.__name__}"
    return cls.__name__


def _with_open_root(schema: JsonSchema) -> JsonSchema:
    """Write out the reference at the root of a class that contains itself."""
    _, _, path = str(schema.get("$ref", "")).partition("#/")
    keyword, _, name = path.partition("/")  # "definitions" in Pydantic 1
    return {**schema[keyword][name], keyword: schema[keyword]} if name else schema


def arguments_schema(schema: Any) -> Any:
    """Return the schema of an `args_schema` without the docstring, which is about the class."""
    if not is_described_class(schema):
        return schema
    if (cached := _argument_schemas.get(schema)) is None:
        cached = _argument_schemas[schema] = KnownSchema(class_schema(schema))
        cached.pop("description", None)
    return cached


def _read_class(cls: type) -> JsonSchema:
    if is_typeddict(cls):
        return _read_typed_dict(cls)
    if issubclass(cls, BaseModelV1):
        return _read_v1(cls)
    if not issubclass(cls, BaseModel):
        return _read_dataclass(cls)
    visible = _without_injected(cls)
    shown = _field_names(visible)
    hidden = {
        _wire_name(cls, name)
        for name, field in cls.model_fields.items()
        if name not in shown or _is_config(field.annotation)
    }
    try:
        schema = cls.model_json_schema()
    except PydanticUserError:  # something is injected that JSON has no form for
        if visible is cls or not issubclass(visible, BaseModel):
            raise
        schema = _read_copy(visible, cls)
    return _hide_inside(without_properties(schema, hidden), cls, hidden)


def _is_config(annotation: object) -> bool:
    """Return whether this is a config of LangChain, which declares some of them to the model."""
    return RunnableConfig in (annotation, *typing.get_args(annotation))


def _read_v1(cls: type[BaseModelV1]) -> JsonSchema:
    """Read a class of Pydantic 1. LangChain's copy of it would fail where a field has a limit."""
    hidden = {field.alias for field in cls.__fields__.values() if _has_mark(field)}
    try:
        schema = without_properties(cls.schema(), hidden)
    except ValueError:  # something is injected that JSON has no form for
        if not hidden:
            raise
        schema = _without_injected(cls).schema()
    return _hide_inside(schema, cls, hidden)


def _read_copy(visible: type[BaseModel], cls: type[BaseModel]) -> JsonSchema:
    """Read LangChain's copy of a class, which does not keep the aliases of fields."""
    schema = visible.model_json_schema()
    if cls.model_config.get("extra"):
        schema["additionalProperties"] = cls.model_config["extra"] == "allow"
    properties = schema.get("properties", {})
    schema["properties"] = {_wire_name(cls, name): item for name, item in properties.items()}
    schema["required"] = [_wire_name(cls, name) for name in schema.get("required", [])]
    return schema


def _wire_name(cls: type[BaseModel], name: str) -> str:
    """Return the name of a field in JSON: its alias, or the first of its aliases."""
    alias = cls.model_fields[name].validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _hide_inside(schema: JsonSchema, cls: type, names: set[str]) -> JsonSchema:
    """Return the schema with some fields also hidden in the definition of `cls` inside it."""
    for keyword in ("$defs", "definitions"):
        if own := (definitions := schema.get(keyword, {})).get(cls.__name__):
            hidden = {**definitions, cls.__name__: without_properties(own, names)}
            return {**schema, keyword: hidden}
    return schema


def _read_dataclass(cls: type) -> JsonSchema:
    schema = TypeAdapter(cls).json_schema()
    docstring = inspect.getdoc(cls) or ""
    if docstring and not docstring.startswith(f"{cls.__name__}("):  # written by Python
        schema.setdefault("description", docstring)  # pydantic before 2.14 leaves it out
    return schema


def _without_injected(cls: type[BaseModel | BaseModelV1]) -> type[BaseModel | BaseModelV1]:
    """Return the class, or LangChain's copy without injected fields if it has some."""
    if _cannot_be_injected(cls):
        return cls  # LangChain would make a copy of the class first, which takes twice as long
    docstring = inspect.getdoc(cls) or ""
    probe = StructuredTool(name=cls.__name__, description=docstring, args_schema=cls)
    shown = probe.tool_call_schema
    if isinstance(shown, dict) or _field_names(shown) == _field_names(cls):
        return cls
    return shown


def _cannot_be_injected(cls: type[BaseModel | BaseModelV1]) -> bool:
    """Return whether a quick look shows that LangChain does not inject any field."""
    if not issubclass(cls, BaseModel) or cls.__init__ is not BaseModel.__init__:
        return False
    return cls.__pydantic_complete__ and not any(map(_has_mark, cls.model_fields.values()))


def _has_mark(field: FieldInfo | ModelField) -> bool:
    """Return whether a field has LangChain's mark, or is of a type of LangChain's."""
    marks = (*getattr(field, "metadata", ()), *typing.get_args(field.annotation))
    if any(isinstance(mark, InjectedToolArg) or _is_langchains(mark) for mark in marks):
        return True
    return _is_langchains(typing.get_origin(field.annotation) or field.annotation)


def _is_langchains(kind: object) -> bool:
    return isinstance(kind, type) and any(
        base.__module__.startswith("langchain_core.tools") for base in kind.__mro__
    )


def _field_names(cls: type[BaseModel | BaseModelV1]) -> set[str]:
    return set(cls.model_fields if issubclass(cls, BaseModel) else cls.__fields__)


def _read_typed_dict(cls: type) -> JsonSchema:
    """Read types and `NotRequired` as Pydantic does, descriptions and defaults as LangChain does.

    LangChain's own reading makes every key required, and fails on `NotRequired`.
    """
    schema = TypeAdapter(_for_pydantic(cls, {})).json_schema()
    for inner in _typed_dicts_in(cls, set()):
        for definition in (schema, *schema.get("$defs", {}).values()):
            if definition.get("title") == inner.__name__ and "properties" in definition:
                _add_descriptions(definition, inner)
    return schema


def _for_pydantic(annotation: Any, made: dict[Any, Any]) -> Any:
    """Return the type without `typing.TypedDict`, which Pydantic rejects before Python 3.12.

    Args:
        annotation: The type.
        made: What replaces the typed dicts that were met so far.
    """
    if is_typeddict(annotation):
        if type(annotation).__module__ != "typing" or sys.version_info >= (3, 12):
            return annotation
        if annotation not in made:
            made[annotation] = typing_extensions.TypedDict(annotation.__name__, {})  # type: ignore[operator]
            _copy_typed_dict(annotation, made)
        return made[annotation]
    arguments = typing.get_args(annotation)
    replaced = tuple(_for_pydantic(argument, made) for argument in arguments)
    if replaced == arguments:
        return annotation
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(replaced)
    origin = typing.get_origin(annotation)
    return typing.Union[replaced] if origin is types.UnionType else origin[replaced]  # noqa: UP007


def _copy_typed_dict(given: Any, made: dict[Any, Any]) -> None:
    fields = typing.get_type_hints(given, include_extras=True)
    for name, hint in fields.items():
        # The class itself does not know which are required where annotations are strings.
        is_marked = typing.get_origin(hint) in _MARKS
        is_optional = name in given.__optional_keys__ and not is_marked
        inner = _for_pydantic(hint, made)
        fields[name] = typing.NotRequired[inner] if is_optional else inner
    copied = made[given]
    copied.__doc__ = given.__doc__
    copied.__annotations__ = fields
    copied.__required_keys__ = frozenset(fields)  # a mark on a field overrides this


def _bare(hint: object) -> Any:
    while typing.get_origin(hint) in _MARKS:
        hint = typing.get_args(hint)[0]
    return hint


def _typed_dicts_in(annotation: object, seen: set[Any]) -> set[Any]:
    if is_typeddict(annotation) and annotation not in seen:
        seen.add(annotation)
        for hint in typing.get_type_hints(annotation, include_extras=True).values():
            _typed_dicts_in(hint, seen)
    for argument in typing.get_args(annotation):
        _typed_dicts_in(argument, seen)
    return seen


def _add_descriptions(definition: JsonSchema, cls: type) -> None:
    """Add what LangChain reads in `Annotated[int, 5, "a description"]` and in `Args:`."""
    hints = typing.get_type_hints(cls, include_extras=True)
    docstring = _read_docstring(cls, hints)
    if docstring.description:
        definition["description"] = docstring.description
    for name, field in definition["properties"].items():
        match tuple(getattr(_bare(hints.get(name)), "__metadata__", ())):
            case (str() as description,) | (EllipsisType(), str() as description):
                field.setdefault("description", description)
            case (default, str() as description) if not isinstance(default, FieldInfo):
                field.setdefault("description", description)
                field.setdefault("default", default)
                if name in definition.get("required", []):
                    definition["required"].remove(name)
        argument = docstring.parameters["properties"].get(name, {})
        if "description" in argument:
            field.setdefault("description", argument["description"])


def _read_docstring(cls: type, fields: Iterable[str]) -> Specification:
    """Return what LangChain reads in the docstring of a function with these arguments."""

    def described(**_fields: Any) -> None: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, annotation=str) for name in fields]
    described.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    described.__annotations__ = dict.fromkeys(fields, str)
    described.__doc__ = cls.__doc__
    return _inspect_function(described)


def read_function(function: Callable[..., Any]) -> Specification:
    """Read a function's name, its docstring, and its arguments without the injected ones.

    Raises:
        InvalidToolError: Its arguments have no JSON schema.
    """
    if isinstance(function, functools.partial):
        return _read_partial(function)
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        raise InvalidToolError(
            f"{function!r} is not a tool: it is not bound to an object. Pass a bound method."
        )
    if not inspect.isroutine(function):
        call = read_function(type(function).__call__)  # a callable object
        description = call.description or inspect.getdoc(type(function))
        return dataclasses.replace(call, name=type(function).__name__, description=description)
    key = getattr(function, "__func__", function)  # every access makes a new bound method
    identity = (function.__name__, function.__doc__)
    cached = _functions.get(key)
    if cached is None or cached[0] != identity:
        cached = _functions[key] = identity, _inspect_function(function)
    return cached[1]


def _inspect_function(function: Callable[..., Any]) -> Specification:
    """Read a function the way LangChain does."""
    try:
        tool = _as_tool(function)
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        way_out = "Annotate its arguments with types that have a JSON form."
        if isinstance(error, NameError):
            way_out = "Import the types of its annotations outside of `if TYPE_CHECKING`."
        raise InvalidToolError(
            f"The function {function.__name__!r} is not a tool: {_reason(error)}. {way_out}"
        ) from error
    schema = _call_schema(tool)
    if next(iter(inspect.signature(function).parameters), None) == "self":
        schema = without_properties(schema, {"self"})
    return Specification(tool.name, tool.description if function.__doc__ else None, schema)


def _as_tool(function: Callable[..., Any]) -> StructuredTool:
    is_async = inspect.iscoroutinefunction(function)
    make = functools.partial(
        StructuredTool.from_function,
        func=None if is_async else function,
        coroutine=function if is_async else None,
        description=None if function.__doc__ else "-",  # it is required
    )
    try:
        return make(parse_docstring=True)
    except ValueError:  # the docstring describes arguments that do not exist
        return make(parse_docstring=False)


def _read_partial(function: functools.partial[Any]) -> Specification:
    """Read a partial: the arguments that it already has are left out."""
    whole = read_function(function.func)
    given = list(inspect.signature(function.func).parameters)[: len(function.args)]
    return dataclasses.replace(
        whole, parameters=without_properties(whole.parameters, {*given, *function.keywords})
    )
