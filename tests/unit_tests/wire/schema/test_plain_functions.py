"""A plain function is read quickly, and declares what LangChain would have read."""

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired, Optional, Union

import pytest
from annotated_types import Len
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from pydantic import BaseModel, BeforeValidator, Field
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.schema.plain_functions import read_plain_function
from langchain_gemini_tools.wire.schema.python_types import read_function

Function = Callable[..., Any]


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    """A point on the map."""

    x: float = Field(description="To the east.")
    y: float = 0.0


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class OldPoint(BaseModelV1):
    x: float


@dataclasses.dataclass
class Size:
    width: int
    height: int = dataclasses.field(default=2)


class Options(TypedDict):
    """Options of a search."""

    depth: int
    near: NotRequired[Point]


class Opaque:
    """JSON cannot hold it."""


def no_arguments() -> None: ...
def no_docstring(a: int, b): ...  # type: ignore[no-untyped-def]


def basic_types(*, a: str, b: int, c: float, d: bool, e: bytes, f: None, g: Any, h: object) -> None:
    """Take the basic types."""


def containers(
    *,
    a: list[str],
    b: dict[str, int],
    c: tuple[int, str],
    d: set[int],
    e: Sequence[float],
    f: list[dict[str, list[int]]],
    g: list,  # type: ignore[type-arg]
    h: dict,  # type: ignore[type-arg]
) -> None:
    """Take containers."""


def special_types(
    a: dt.datetime, b: dt.date, c: uuid.UUID, d: decimal.Decimal, e: dt.timedelta
) -> None:
    """Take what JSON says in strings."""


def unions(
    a: Optional[int],  # noqa: UP045
    b: Union[int, str],  # noqa: UP007
    c: int | None,
    d: list[str] | dict[str, int] | None = None,
    e: int = None,  # type: ignore[assignment]  # noqa: RUF013
) -> None:
    """Take one or the other."""


def choices(
    a: Literal["x", "y"], b: Literal[1, 2] = 1, c: Colour = Colour.RED, d: Level = Level.LOW
) -> None:
    """Choose."""


def classes(
    *,
    a: Point,
    b: Size,
    c: Options,
    d: Node,
    e: list[Point],
    f: Point = Point(x=1),  # noqa: B008
    g: Size | None = None,
) -> None:
    """Take classes."""


def string_annotations(a: "int", b: "list[Point] | None" = None, c: 'list["Node"]' = []) -> "str":  # noqa: B006
    """Take what is told in strings."""
    return ""


def annotated(
    *,
    a: Annotated[int, "The first."],
    b: Annotated[int, Field(description="The second.", ge=1, le=9)],
    c: Annotated[str, Field(min_length=2, title="Lost", examples=["xy"])] = "xx",
    d: Annotated[list[int], Len(1, 3)] = [1],  # noqa: B006
    e: Annotated[int, BeforeValidator(int)] = 5,
    f: Annotated[int, 5, "The sixth.", "Not this."] = 6,
    g: Annotated[int | None, Field(default=3, description="The seventh.")] = None,
    h: Annotated[Annotated[int, Field(gt=1)], "Nested."] = 2,
    i: Annotated[str, Field(alias="other", json_schema_extra={"x": 1})] = "",
    j: list[Annotated[int, Field(ge=0)]] = [],  # noqa: B006
) -> None:
    """Take what is told beside the types."""


def fields_as_defaults(
    *,
    a: int = Field(description="The first.", ge=1),
    b: int = Field(3, description="The second."),
    c: list[int] = Field(default_factory=list),  # noqa: B008
    d: Annotated[int, "Beside."] = Field(4, description="The default's."),
    e: Annotated[int, Field(ge=1)] = Field(5, le=9),
    f: int = Field(...),
) -> None:
    """Take fields as defaults."""


def keyword_only(a: int, *, b: str, c: Annotated[float, "A number."] = 1.5) -> None:
    """Take keywords."""


def defaults(  # type: ignore[no-untyped-def]
    *,
    a: tuple[int, int] = (1, 2),
    b: dict[str, int] = {"a": 1},  # noqa: B006
    c: Any = None,
    d=5,
    e: dt.date = dt.date(2020, 1, 2),
    f: float = float("inf"),
    g: int = "wrong",  # type: ignore[assignment]
    h: Any = ...,
) -> None:
    """Have defaults."""


async def in_the_background(a: int, b: Annotated[str, "The second."] = "x") -> None:
    """Run somewhere else.

    Args:
        a: The first.
    """


def google_docstring(a: int, b: str = "", c: float = 1.0) -> str:
    """Do something.

    It takes
      a while.

    And more.

    Args:
        a: The first, which
            goes on.
            And on.
        b (str, optional): The second.
        c:

    Returns:
        Something.
    """
    return ""


def returns_before_arguments(a: int) -> str:
    """Do something.

    Returns:
        Something.

    Args:
        a: The first.
    """
    return ""


def one_of_two_described(a: Annotated[int, "Beside."], b: Annotated[int, "Kept."]) -> None:
    """Do something.

    Args:
        a: In the docstring.
    """


PLAIN: list[Function] = [
    no_arguments,
    no_docstring,
    basic_types,
    containers,
    special_types,
    unions,
    choices,
    classes,
    string_annotations,
    annotated,
    fields_as_defaults,
    keyword_only,
    defaults,
    in_the_background,
    google_docstring,
    returns_before_arguments,
    one_of_two_described,
    lambda a, b=1: a,
]


def variadic(a: int, *args: str, **kwargs: float) -> None:
    """Take any number."""


def positional_only(a: int, /, b: str) -> None:
    """Take a place."""


def with_callbacks(a: int, callbacks: Any = None, run_manager: Any = None) -> None:
    """Report."""


def with_manager(a: int, manager: CallbackManagerForToolRun | None = None) -> None:
    """Report."""


def with_config(a: int, config: RunnableConfig) -> None:
    """Be configured."""


def with_annotated_config(a: int, settings: Annotated[RunnableConfig, "Settings."]) -> None:
    """Be configured."""


def with_injected(
    a: int,
    b: Annotated[str, InjectedToolArg],
    c: Annotated[Opaque, InjectedToolArg()],
    d: Annotated[str, InjectedToolCallId],
) -> None:
    """Be given."""


def with_names_of_pydantic(json: str, copy: bool, model_config: int, schema: str) -> None:
    """Take names."""


def with_strange_names(args: list[str], kwargs: dict[str, int], v__args: int = 1) -> None:
    """Take names."""


def with_private(a: int, _b: int = 1) -> None:
    """Keep something."""


def with_self(self: Any, a: int) -> None:
    """Look like a method."""


def with_old_model(a: OldPoint, b: int) -> None:
    """Take a model of Pydantic 1."""


def with_opaque(a: int, b: Opaque) -> None:
    """Take anything."""


def with_unknown(a: "Unknown") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take what nobody knows."""


def with_function_as_default(a: int, b: Any = len, c: Any = no_arguments) -> None:
    """Take a function."""


def described_without_argument(a: int) -> None:
    """Do something.

    Args:
        a: The first.
        z: Not there.
    """


def described_without_type(a) -> None:  # type: ignore[no-untyped-def]
    """Do something.

    Args:
        a: The first.
    """


def only_arguments_described(a: int) -> None:
    """Args:
    a: The first.
    """


def colon_in_words(a: int, b: int) -> None:
    """Do something.

    Args:
        a: One of these:
            b: not this
        b: The second.
    """


SPECIAL: list[Function] = [
    variadic,
    positional_only,
    with_callbacks,
    with_manager,
    with_config,
    with_annotated_config,
    with_injected,
    with_names_of_pydantic,
    with_strange_names,
    with_private,
    with_self,
    with_old_model,
    with_opaque,
    with_unknown,
    with_function_as_default,
    described_without_argument,
    described_without_type,
    only_arguments_described,
    colon_in_words,
]


def declared(function: Function) -> Any:
    """What is read in a function, with its order, or the error's words."""
    try:
        return json.dumps(dataclasses.asdict(read_function(function)))
    except InvalidToolError as error:
        return str(error)


def read_by_langchain(function: Function) -> Any:
    """What LangChain reads in it: functions that were wrapped are left to LangChain."""

    @functools.wraps(function)
    def wrapper(*_args: Any, **_kwargs: Any) -> None: ...

    assert read_plain_function(wrapper) is None
    return declared(wrapper)


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
@pytest.mark.filterwarnings("ignore:Default value:pydantic.json_schema.PydanticJsonSchemaWarning")
@pytest.mark.parametrize("function", [*PLAIN, *SPECIAL], ids=lambda function: function.__name__)
def test_a_function_declares_what_langchain_reads_in_it(function: Function) -> None:
    assert declared(function) == read_by_langchain(function)


@pytest.mark.parametrize("function", PLAIN, ids=lambda function: function.__name__)
def test_a_plain_function_is_read_without_langchain(function: Function) -> None:
    assert read_plain_function(function) is not None


LINES = st.sampled_from(
    [
        "Do something.",
        "",
        "",
        "Args:",
        "    a: The first.",
        "    b (int): The second.",
        "    b (a: int): Odd.",
        "      a: Deeper.",
        "        goes on",
        "        goes on: with a colon",
        "    *rest: Others.",
        "  goes less far",
        "Returns:",
        "    Something: else.",
        "Example:",
        "    return: Nothing.",
        "\ta: After a tab.",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, max_size=9))
def test_a_docstring_says_what_langchain_reads_in_it(lines: list[str]) -> None:
    def described(a: int, b: Annotated[int, "Beside."] = 1) -> None: ...

    described.__doc__ = "\n".join(lines)
    assert declared(described) == read_by_langchain(described)
