"""What a new user gets wrong first is explained."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.genai import types
from langchain_core.tools import tool
from pydantic import BaseModel

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidToolError


class Search(BaseModel):
    """Search the web."""

    query: str


@tool
def look_up(query: str) -> str:
    """Look up."""
    return query


def test_the_name_of_the_model_is_a_keyword() -> None:
    make: Any = ChatGemini
    with pytest.raises(TypeError, match=re.escape("use ChatGemini(model='gemini-3.8-flash')")):
        make("gemini-3.8-flash")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (print, "the single tool 'print'"),
        (look_up, "the single tool 'look_up'"),
        (Search, "the single tool 'Search'"),
        ("search", "a str"),
        ({"name": "search"}, "a dict"),
        (types.Tool(google_search=types.GoogleSearch()), "a Tool"),
        (3, "a int"),
    ],
)
def test_tools_are_a_list(given: Any, shown: str) -> None:
    with pytest.raises(
        InvalidToolError,
        match=re.escape(f"Tools must be a list, not {shown}: use bind_tools([...])."),
    ):
        ChatGemini(model="gemini-3.8-flash").bind_tools(given)
