"""The worked example of a prompt ends, and fits, also where a schema holds itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from langchain_gemini_tools.text_tools.samples import sample_arguments


class Tree(BaseModel):
    value: int
    children: list[Tree]


class Link(BaseModel):
    url: str
    next: Link | None


class Leaf(BaseModel):
    kind: Literal["leaf"]
    tag: str


class And(BaseModel):
    kind: Literal["and"]
    left: Annotated[And | Leaf, Field(discriminator="kind")]
    right: Annotated[And | Leaf, Field(discriminator="kind")]


class Search(BaseModel):
    where: And | Leaf


class Ping(BaseModel):
    pong: Pong | int


class Pong(BaseModel):
    ping: Ping | None


class Pair(BaseModel):
    both: Annotated[list[Pair | int], Field(min_length=2)]


LEAF = {"kind": "leaf", "tag": "<tag>"}


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Tree, {"value": 1, "children": [{"value": 1, "children": []}]}),
        (Link, {"url": "<url>", "next": {"url": "<url>", "next": None}}),
        (Search, {"where": {"kind": "and", "left": LEAF, "right": LEAF}}),
        (Ping, {"pong": {"ping": {"pong": 1}}}),
        (Pair, {"both": [{"both": [1, 1]}] * 2}),
    ],
)
def test_what_holds_itself_ends_as_soon_as_it_may(model: type[BaseModel], args: Any) -> None:
    schema = model.model_json_schema()
    if "$ref" in schema:  # the root of a tool's schema is an object itself
        schema |= schema["$defs"][model.__name__]
    assert sample_arguments(schema) == args
    model.model_validate(args)


def test_a_schema_with_countless_values_makes_a_small_example() -> None:
    names = [f"N{number}" for number in range(12)]
    lists = {name: {"type": "array", "items": {"$ref": f"#/$defs/{name}"}} for name in names}
    node = {"type": "object", "properties": lists, "required": names}
    args = sample_arguments({**node, "$defs": dict.fromkeys(names, node)})
    assert list(args) == names
    assert len(str(args)) < 20_000


def test_no_limit_of_a_schema_makes_a_large_example() -> None:
    text = {"type": "string", "minLength": 10**12}
    schema = {"properties": {"x": {"type": "array", "items": text, "minItems": 10**12}}}
    assert sample_arguments(schema) == {"x": ["<text>".ljust(200, ".")] * 5}


def test_what_cannot_end_has_no_example() -> None:
    endless = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}
    assert sample_arguments(endless) == {}
