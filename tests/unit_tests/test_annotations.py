"""Annotations of public names can be read at run time, and their types can be imported.

LangChain reads the return type of `bind_tools` for `with_fallbacks`; Pydantic reads the types of
fields, such as `ToolLoopResult`.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import TYPE_CHECKING, Any

import pytest

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini, ToolLoop, display, tool_loop
from langchain_gemini_tools.access import GeminiAccess
from langchain_gemini_tools.client import SDK_TYPES
from langchain_gemini_tools.tool_loop import events

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONAL = {"mcp_interceptor"}
"""Its arguments are of a package that need not be there."""


MODULES = (langchain_gemini_tools, tool_loop, events, display)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name not in OPTIONAL and name not in SDK_TYPES
}


def annotated(name: str) -> dict[str, Any]:
    """Return a public function, or a class and its public methods."""
    public = PUBLIC[name]
    if not inspect.isclass(public):
        return {name: public} if inspect.isfunction(public) else {}
    members = {key: getattr(member, "fget", member) for key, member in vars(public).items()}
    fields = {name: public} if dataclasses.is_dataclass(public) else {}
    return fields | {
        f"{name}.{key}": member
        for key, member in members.items()
        if inspect.isfunction(member) and (not key.startswith("_") or key == "__init__")
    }


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_annotations_can_be_read(name: str) -> None:
    unreadable = {}
    for place, found in annotated(name).items():
        try:
            typing.get_type_hints(found)
        except NameError as error:
            unreadable[place] = str(error)
    assert unreadable == {}


def test_annotations_that_the_model_inherits_can_be_read() -> None:
    """Types that load the client or the renderer are not imported for them."""
    members = vars(GeminiAccess)
    methods = [members["client"].fget, members["async_client"].fget, GeminiAccess.preview]
    of_class, *of_methods = map(typing.get_type_hints, (ChatGemini, *methods))
    assert {"model", "_gemini", "_media"} <= of_class.keys()
    assert [hints.keys() & {"return"} for hints in of_methods] == [{"return"}] * 3


def _types_in(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _types_in(part)


def test_the_types_that_loops_and_traces_return_are_public() -> None:
    private = {
        f"{place}: {found.__name__}"
        for name in PUBLIC
        if name.startswith((tool_loop.__name__, display.__name__))
        for place, member in annotated(name).items()
        for key, hint in typing.get_type_hints(member).items()
        if key == "return" or dataclasses.is_dataclass(member)
        for found in _types_in(hint)
        if getattr(found, "__module__", "").startswith(f"{langchain_gemini_tools.__name__}.")
        and found not in PUBLIC.values()
    }
    assert private == set()


def test_tools_and_schemas_are_bound_to_a_model_and_its_fallbacks() -> None:
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return city

    first, second = (ChatGemini(model=f"gemini-{number}-flash") for number in ("3", "2.5"))
    both: Any = first.with_fallbacks([second])
    assert [one.kwargs["tools"] for one in both.bind_tools([get_weather]).runnables] == [
        one.bind_tools([get_weather]).kwargs["tools"] for one in (first, second)
    ]
    assert len(list(both.with_structured_output({"title": "A", "type": "object"}).runnables)) == 2
    assert ToolLoop(both, [get_weather]).model is both
