"""Annotations of public names can be read while the program runs.

LangChain does: `with_fallbacks` asks what `bind_tools` returns. Pydantic does, for fields that hold
an `ToolLoopResult`.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini, ToolLoop

OPTIONAL = {"mcp_interceptor"}
"""Its arguments are of a package that need not be there."""


def annotated(name: str) -> dict[str, Any]:
    """What a public name is made of: itself, or the methods of a class."""
    public = getattr(langchain_gemini_tools, name)
    if not inspect.isclass(public):
        return {name: public} if inspect.isfunction(public) else {}
    members = {key: getattr(member, "fget", member) for key, member in vars(public).items()}
    return {
        f"{name}.{key}": member
        for key, member in members.items()
        if inspect.isfunction(member) and (not key.startswith("_") or key == "__init__")
    }


@pytest.mark.parametrize("name", sorted({*langchain_gemini_tools.__all__} - OPTIONAL))
def test_annotations_can_be_read(name: str) -> None:
    unreadable = {}
    for place, found in annotated(name).items():
        try:
            typing.get_type_hints(found)
        except NameError as error:
            unreadable[place] = str(error)
    assert unreadable == {}


def test_tools_and_schemas_are_bound_to_a_model_and_its_fallbacks() -> None:
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return city

    first, second = (ChatGemini(model=f"gemini-{number}-flash") for number in ("3", "2.5"))
    both: Any = first.with_fallbacks([second])
    assert [one.kwargs["tools"] for one in both.bind_tools([get_weather]).runnables] == [
        one.bind_tools([get_weather]).kwargs["tools"]  # type: ignore[attr-defined]
        for one in (first, second)
    ]
    assert len(list(both.with_structured_output({"title": "A", "type": "object"}).runnables)) == 2
    assert ToolLoop(both, [get_weather]).model is both
