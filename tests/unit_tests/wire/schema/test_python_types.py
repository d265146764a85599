"""Python's functions and classes as tools. Annotations are strings here, as in most code."""

from __future__ import annotations

import copy
import functools
import gc
import typing
import weakref
from collections.abc import Callable  # noqa: TC003 - Pydantic reads the annotation
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import pytest
from langchain.tools import InjectedState, InjectedStore, ToolRuntime
from langchain_core.callbacks import Callbacks  # noqa: TC002 - LangChain reads the annotation
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    tool,
)
from langsmith import traceable
from pydantic import BaseModel, ConfigDict, Field
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import Field as FieldV1
from typing_extensions import TypedDict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools.bind import bind_tools

Function = dict[str, Any]


def bound_function(tool: Any) -> Function:
    [bound] = bind_tools([tool])
    function: Function = bound["function"]
    return function


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def with_everything_injected(  # noqa: PLR0917
    city: str,
    state: Annotated[dict[str, Any], InjectedState],
    store: Annotated[Any, InjectedStore()],
    call_id: Annotated[str, InjectedToolCallId],
    secret: Annotated[str, InjectedToolArg],
    runtime: ToolRuntime,
    config: RunnableConfig,
    callbacks: Callbacks = None,
) -> None:
    """Look it up."""


class Search(BaseModel):
    """Look it up."""

    city: str
    state: Annotated[dict[str, Any], InjectedState]


class SearchTool(BaseTool):
    name: str = "search"
    description: str = "Look it up."

    def _run(self, city: str, runtime: ToolRuntime, run_manager: Any = None) -> str:
        return city


@pytest.mark.parametrize(
    "given",
    [
        with_everything_injected,
        tool(with_everything_injected),
        StructuredTool.from_function(with_everything_injected),
        Search,
        StructuredTool(name="search", description="Look it up.", args_schema=Search),
        SearchTool(),
    ],
    ids=["function", "decorated", "structured", "class", "args schema", "subclass"],
)
def test_injected_arguments_never_reach_the_model(given: Any) -> None:
    function = bound_function(given)
    assert function.pop("name") in {"with_everything_injected", "search", "Search"}
    assert function == {"description": "Look it up.", "parameters": CITY}


EVERYTHING = {
    name: {"type": "object"} for name in ("state", "store", "call_id", "secret", "runtime")
}


CITY_AND_RUNTIME = {"city": {"type": "string"}, "runtime": {"type": "object"}}


@pytest.mark.parametrize(
    "given",
    [
        StructuredTool(
            name="search",
            description="Look it up.",
            func=with_everything_injected,
            args_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}, **EVERYTHING},
                "required": ["city", "state", "secret"],
            },
        ),
        SearchTool(args_schema={**CITY, "properties": CITY_AND_RUNTIME}),
    ],
    ids=["structured", "subclass"],
)
def test_injected_arguments_are_removed_from_a_schema_that_is_a_dict(given: Any) -> None:
    schema = copy.deepcopy(given.args_schema)
    assert bound_function(given) == {
        "name": "search",
        "description": "Look it up.",
        "parameters": CITY,
    }
    assert given.args_schema == schema


class Bough(BaseModel):
    """Grow it."""

    name: str
    secret: Annotated[str, InjectedToolArg]
    boughs: list[Bough] = []


def test_an_injected_field_is_hidden_wherever_its_class_contains_itself() -> None:
    bough = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "boughs": {"type": "array", "items": {"$ref": "#/$defs/Bough"}, "default": []},
        },
        "required": ["name"],
    }
    for given in (Bough, StructuredTool(name="b", description="Grow it.", args_schema=Bough)):
        assert bound_function(given)["parameters"] == {
            **bough,
            "$defs": {"Bough": {**bough, "description": "Grow it."}},
        }


class Unusual:
    """Something that JSON cannot hold."""


class Aliased(BaseModel):
    """Look it up."""

    model_config = ConfigDict(arbitrary_types_allowed=True, title="Look")
    place: str = Field(alias="city", description="Which one.", examples=["Oslo"])
    secret: Annotated[str, InjectedToolArg] = Field("s", alias="hidden")


class AliasedBesideUnusual(Aliased):
    unusual: Annotated[Unusual, InjectedToolArg]


@pytest.mark.parametrize("cls", [Aliased, AliasedBesideUnusual])
def test_a_field_keeps_its_alias_where_others_are_injected(cls: type[BaseModel]) -> None:
    given = StructuredTool(name="f", description="F.", args_schema=cls)
    for bound in (bound_function(given), bound_function(cls)):
        city = bound["parameters"]["properties"].pop("city")
        assert city["type"] == "string"
        assert city["description"].startswith("Which one.")
        assert bound["parameters"] == {"type": "object", "properties": {}, "required": ["city"]}


class Twig(BaseModelV1):
    """Grow it."""

    name: str
    twigs: list[Twig] = []


Twig.update_forward_refs()


def test_a_pydantic_v1_class_may_contain_itself() -> None:
    parameters = bound_function(Twig)["parameters"]
    assert parameters["required"] == ["name"]
    assert parameters["properties"]["twigs"]["items"] == {"$ref": "#/$defs/Twig"}
    assert parameters["$defs"]["Twig"]["properties"]["name"] == {"type": "string"}


def test_a_method_of_a_builtin_type_is_a_tool_or_rejected() -> None:
    assert bound_function(len)["name"] == "len"
    for refused in (str.upper, max):
        with pytest.raises(InvalidToolError, match=refused.__name__):
            bind_tools([refused])


class Desk:
    """A desk that answers."""

    def ask(self, city: str) -> None:
        """Look it up."""

    @classmethod
    def ask_all(cls, city: str) -> None:
        """Look it up."""

    @staticmethod
    def ask_any(city: str) -> None:
        """Look it up."""

    def __call__(self, city: str) -> None: ...


async def ask_later(city: str) -> None:
    """Look it up."""


def ask_twice(city: str, times: int) -> None:
    """Look it up.

    Args:
        city: Which one.
        times: How often.
    """


def ask_wrongly(city: str) -> None:
    """Look it up.

    Args:
        town: There is no such argument.
    """


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (Desk().ask, "ask"),
        (Desk.ask_all, "ask_all"),
        (Desk.ask_any, "ask_any"),
        (ask_later, "ask_later"),
        (tool(ask_later), "ask_later"),
    ],
)
def test_every_kind_of_function_is_accepted(given: Any, name: str) -> None:
    assert bound_function(given) == {
        "name": name,
        "description": "Look it up.",
        "parameters": CITY,
    }


def test_a_callable_object_has_the_name_and_docstring_of_its_class() -> None:
    assert bound_function(Desk()) == {
        "name": "Desk",
        "description": "A desk that answers.",
        "parameters": CITY,
    }


@pytest.mark.parametrize(
    "partial", [functools.partial(ask_twice, times=2), functools.partial(ask_twice, times=3)]
)
def test_keyword_arguments_of_a_partial_are_left_out(partial: Any) -> None:
    properties = {"city": {"type": "string", "description": "Which one."}}
    assert bound_function(partial) == {
        "name": "ask_twice",
        "description": "Look it up.",
        "parameters": {"type": "object", "properties": properties, "required": ["city"]},
    }


def test_positional_arguments_of_a_partial_are_left_out() -> None:
    properties = {"times": {"type": "integer", "description": "How often."}}
    assert bound_function(functools.partial(ask_twice, "Rome"))["parameters"] == {
        "type": "object",
        "properties": properties,
        "required": ["times"],
    }


def google_docstring(a: int, b: str = "", c: float = 1.0) -> str:
    """Do something.

    It takes
      a while.

    Args:
        a: The first, which
            goes on.
        b (str, optional): The second.
        c: One of these:
            d: not this

    Returns:
        Something.
    """
    return ""


def returns_before_arguments(
    a: Annotated[int, "Beside."], b: Annotated[int, "Kept.", "Not this."]
) -> None:
    """Do something.

    Returns:
        Something.

    Args:
        a: In the docstring.
    """


def annotated(
    *,
    a: Annotated[int, Field(description="The first.", ge=1, le=9)],
    b: Annotated[str, Field(min_length=2, title="Lost", examples=["xy"])] = "xx",
    c: Annotated[int | None, Field(default=3, description="The third.")] = None,
    d: list[Annotated[int, Field(ge=0)]] = [],  # noqa: B006
    e: int = Field(4, description="The fifth."),
    f: int = Field(...),
) -> None:
    """Read annotations and fields."""


def special_names(self: Any, a: int, _b: int = 1, run_manager: Any = None) -> None:
    """Hide what the model cannot give."""


def variadic(a: int, /, *args: str, **kwargs: float) -> None:
    """Accept any number of arguments."""


@pytest.mark.parametrize(
    ("given", "description", "properties", "required"),
    [
        (
            google_docstring,
            "Do something. It takes\n  a while.",
            {
                "a": {"type": "integer", "description": "The first, which goes on."},
                "b": {"type": "string", "description": "The second.", "default": ""},
                "c": {
                    "type": "number",
                    "description": "One of these: d: not this",
                    "default": 1.0,
                },
            },
            ["a"],
        ),
        (
            returns_before_arguments,
            "Do something.",
            {
                "a": {"type": "integer", "description": "In the docstring."},
                "b": {"type": "integer", "description": "Kept."},
            },
            ["a", "b"],
        ),
        (
            annotated,
            "Read annotations and fields.",
            {
                "a": {"type": "integer", "description": "The first.", "minimum": 1, "maximum": 9},
                "b": {"type": "string", "minLength": 2, "default": "xx"},
                "c": {
                    "anyOf": [{"type": "integer"}, {"type": "null"}],
                    "description": "The third.",
                    "default": None,
                },
                "d": {"type": "array", "items": {"type": "integer", "minimum": 0}, "default": []},
                "e": {"type": "integer", "description": "The fifth.", "default": 4},
                "f": {"type": "integer"},
            },
            ["a", "f"],
        ),
        (
            special_names,
            "Hide what the model cannot give.",
            {"a": {"type": "integer"}},
            ["a"],
        ),
    ],
)
def test_a_function_declares_what_its_signature_and_docstring_say(
    given: Any, description: str, properties: Any, required: list[str]
) -> None:
    assert bound_function(given) == {
        "name": given.__name__,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def test_variadic_arguments_are_a_list_and_an_object() -> None:
    properties = bound_function(variadic)["parameters"]["properties"]
    assert properties["args"]["items"] == {"type": "string"}
    assert properties["kwargs"]["additionalProperties"] == {"type": "number"}


def test_an_annotation_that_is_not_defined_is_named() -> None:
    def odd(a: Unknown) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Odd."""

    with pytest.raises(InvalidToolError, match=r"'odd'.*'Unknown' is not defined\. Import the"):
        bind_tools([odd])


def test_a_docstring_about_other_arguments_is_used_as_it_is() -> None:
    function = bound_function(ask_wrongly)
    assert function["parameters"] == CITY
    assert "town" in function["description"]


def test_a_function_without_a_docstring_has_no_description() -> None:
    def silent(x: int) -> None: ...

    assert bound_function(silent) == {
        "name": "silent",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
        },
    }


def test_a_function_without_arguments_has_no_parameters() -> None:
    @tool
    def now() -> str:
        """The time."""
        return "noon"

    assert bound_function(now) == {"name": "now", "description": "The time."}


def test_a_type_without_a_json_form_is_rejected() -> None:
    def odd(x: weakref.ref[Any]) -> None:
        """Odd."""

    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        x: weakref.ref[Any]

    with pytest.raises(InvalidToolError, match="Parameter 'x' of odd has no JSON schema"):
        bind_tools([odd])
    with pytest.raises(InvalidToolError, match="Parameter 'x' of Odd has no JSON schema"):
        bind_tools([Odd])


class Hooked(BaseModel):
    """A class with a field that has no JSON form."""

    hook: Callable[[int], int]


def test_the_parameter_without_a_json_form_is_named_among_others() -> None:
    def apply(values: list[int], change: Callable[[int], int] | None = None) -> None:
        """Apply."""

    def nested(values: list[int], inner: list[Hooked]) -> None:
        """Nested."""

    @dataclass
    class Data:
        change: Callable[[int], int]

    with pytest.raises(InvalidToolError, match="Parameter 'change' of apply has no JSON schema"):
        bind_tools([apply])
    with pytest.raises(InvalidToolError, match="Parameter 'inner' of nested has no JSON schema"):
        bind_tools([nested])
    with pytest.raises(InvalidToolError, match="Data has no JSON schema"):
        bind_tools([Data])


def test_the_setting_of_a_class_for_other_fields_is_kept() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1})
        city: str

    class ClosedAndInjected(BaseModel):
        model_config = ConfigDict(extra="forbid")
        city: str
        secret: Annotated[str, InjectedToolArg]

    given = StructuredTool(name="f", description="F.", args_schema=Closed)
    closed = {**CITY, "additionalProperties": False}
    assert bound_function(given)["parameters"] == {**closed, "minProperties": 1}
    assert bound_function(ClosedAndInjected)["parameters"] == closed


def test_the_tools_description_is_the_only_one() -> None:
    class SearchInput(BaseModel):
        """Input of the search."""

        city: str

    given = StructuredTool(name="f", description="Look it up.", args_schema=SearchInput)
    assert bound_function(given) == {
        "name": "f",
        "description": "Look it up.",
        "parameters": CITY,
    }


class Point(TypedDict, total=False):
    """A point.

    Args:
        x: To the right.
    """

    x: int
    label: Annotated[Literal["a", "b"], "a", "What it is called."]


class Stop(typing.TypedDict, total=False):
    """A stop."""

    city: str


class Journey(typing.TypedDict):
    """A journey."""

    stops: list[Stop]
    days: NotRequired[Annotated[int, ..., "How many days."]]


class Shape(TypedDict):
    """A shape."""

    points: list[Point]
    colour: NotRequired[Annotated[str | None, Field(description="A colour.", min_length=3)]]
    size: Annotated[int, 5, "How large."]
    weight: Annotated[float, ..., "How heavy."]


def test_a_typed_dict_keeps_what_is_required_and_described() -> None:
    point = {
        "type": "object",
        "description": "A point.",
        "properties": {
            "x": {"type": "integer", "description": "To the right."},
            "label": {
                "type": "string",
                "enum": ["a", "b"],
                "default": "a",
                "description": "What it is called.",
            },
        },
    }
    assert bound_function(Shape) == {
        "name": "Shape",
        "description": "A shape.",
        "parameters": {
            "type": "object",
            "properties": {
                "points": {"type": "array", "items": point},
                "colour": {
                    "anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}],
                    "description": "A colour.",
                },
                "size": {"type": "integer", "default": 5, "description": "How large."},
                "weight": {"type": "number", "description": "How heavy."},
            },
            "required": ["points", "weight"],
        },
    }


class Tree(BaseModel):
    """A tree."""

    children: list[Tree] = []


class Branch(TypedDict):
    """A branch."""

    twigs: NotRequired[list[Branch]]


class Root(typing.TypedDict):
    """A root."""

    roots: NotRequired[list[Root]]


@pytest.mark.parametrize(
    ("cls", "field", "extra"),
    [(Tree, "children", {"default": []}), (Branch, "twigs", {}), (Root, "roots", {})],
)
def test_a_class_that_contains_itself_keeps_its_description(
    cls: type, field: str, extra: Any
) -> None:
    name = cls.__name__
    items = {"$ref": f"#/$defs/{name}"}
    body = {"type": "object", "properties": {field: {"type": "array", "items": items, **extra}}}
    words = f"A {name.lower()}."
    assert bound_function(cls) == {
        "name": name,
        "description": words,
        "parameters": {**body, "$defs": {name: {**body, "description": words}}},
    }


def test_a_typed_dict_of_the_standard_library_is_accepted() -> None:
    assert bound_function(Journey) == {
        "name": "Journey",
        "description": "A journey.",
        "parameters": {
            "type": "object",
            "properties": {
                "stops": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "description": "A stop.",
                        "properties": {"city": {"type": "string"}},
                    },
                },
                "days": {"type": "integer", "description": "How many days."},
            },
            "required": ["stops"],
        },
    }


class Person(typing.TypedDict):
    """A person."""

    name: str
    home: House | None


class House(typing.TypedDict, total=False):
    """A house."""

    people: typing.Required[list[Person]]
    number: int


def test_typed_dicts_of_the_standard_library_may_contain_each_other() -> None:
    home = {"anyOf": [{"$ref": "#/$defs/House"}, {"type": "null"}]}
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "home": home},
        "required": ["name", "home"],
    }
    people = {"type": "array", "items": {"$ref": "#/$defs/Person"}}
    house = {
        "type": "object",
        "description": "A house.",
        "properties": {"people": people, "number": {"type": "integer"}},
        "required": ["people"],
    }
    assert bound_function(Person) == {
        "name": "Person",
        "description": "A person.",
        "parameters": {
            **person,
            "$defs": {"House": house, "Person": {**person, "description": "A person."}},
        },
    }


def test_a_dataclass_is_accepted() -> None:
    @dataclass
    class Trip:
        """A trip."""

        city: str

    assert bound_function(Trip) == {
        "name": "Trip",
        "description": "A trip.",
        "parameters": CITY,
    }


def test_a_pydantic_v1_class_is_accepted() -> None:
    class Trip(BaseModelV1):
        """A trip."""

        city: str

    assert bound_function(Trip) == {
        "name": "Trip",
        "description": "A trip.",
        "parameters": CITY,
    }


class Limited(BaseModelV1):
    """Look it up."""

    city: str = FieldV1(max_length=9)
    secret: Annotated[str, InjectedToolArg] = "s"


def test_fields_of_a_pydantic_v1_class_may_have_limits() -> None:
    given = StructuredTool(name="f", description="F.", args_schema=Limited)
    for bound in (bound_function(given), bound_function(Limited)):
        assert bound["parameters"] == {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 9}},
            "required": ["city"],
        }


def test_a_pydantic_v1_class_without_a_json_form_is_rejected() -> None:
    class Odd(BaseModelV1):
        unusual: Unusual

        class Config:
            arbitrary_types_allowed = True

    with pytest.raises(InvalidToolError, match=r"Odd has no JSON schema: .*'unusual'"):
        bind_tools([Odd])


class WithConfig(BaseTool):
    """LangChain fills in the config of `_run`, and declares it."""

    name: str = "look"
    description: str = "Look it up."

    def _run(self, city: str, config: RunnableConfig) -> str:
        return city


def with_optional_config(city: str, config: RunnableConfig | None = None) -> None:
    """Look it up."""


def test_a_config_is_not_declared() -> None:
    for given in (WithConfig(), with_optional_config, tool(with_optional_config)):
        assert bound_function(given)["parameters"] == CITY
    assert WithConfig().invoke({"city": "Oslo"}) == "Oslo"


def positional(city: str, /) -> None:
    """Look it up."""


@traceable
def traced(city: str) -> None:
    """Look it up."""


@traceable
def traced_with_config(city: str, config: str) -> None:
    """Look it up."""


def test_only_the_arguments_that_the_author_wrote_are_declared() -> None:
    for function in (positional, traced):
        for given in (function, tool(function)):
            assert bound_function(given)["parameters"] == CITY
    assert [*bound_function(traced_with_config)["parameters"]["properties"]] == ["city", "config"]


def test_a_tool_with_one_string_uses_langchains_name_for_it() -> None:
    given = Tool(name="echo", description="Say it.", func=str)
    assert bound_function(given) == {
        "name": "echo",
        "description": "Say it.",
        "parameters": {
            "type": "object",
            "properties": {"__arg1": {"type": "string"}},
            "required": ["__arg1"],
        },
    }


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_a_runnable_is_only_accepted_as_a_tool() -> None:
    runnable = RunnableLambda(lambda given: given["city"])
    given = runnable.as_tool(name="f", description="F.", arg_types={"city": str})
    assert bound_function(given) == {"name": "f", "description": "F.", "parameters": CITY}
    with pytest.raises(InvalidToolError, match=r"call `\.as_tool\("):
        bind_tools([runnable])


def test_a_changed_tool_is_read_again() -> None:
    given = tool(ask_later)
    first = bound_function(given)
    given.description = "Ask again."
    given.args_schema = {"type": "object", "properties": {"town": {"type": "string"}}}
    assert first["description"] == "Look it up."
    assert bound_function(given) == {
        "name": "ask_later",
        "description": "Ask again.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    }


def test_what_was_read_once_keeps_nothing_alive() -> None:
    def make() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        def short_lived(x: int) -> None:
            """Gone soon."""

        class ShortLived(BaseModel):
            x: int

        bind_tools([short_lived])
        bind_tools([ShortLived])
        return weakref.ref(short_lived), weakref.ref(ShortLived)

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None]
