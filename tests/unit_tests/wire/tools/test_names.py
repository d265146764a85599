"""Tool names on the wire, and the way back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.wire.tools.names import function_names, names_by_wire_name, render_name
from langchain_gemini_tools.wire.tools.tool import Tool

VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@pytest.mark.parametrize("name", ["get_weather", "_private", "a.b-c", "A" * 64])
def test_a_valid_name_is_sent_as_it_is(name: str) -> None:
    assert render_name(name) == name


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("21st_magic", "_21st_magic_223895e4"),
        ("Get weather", "Get_weather_498ebfb0"),
        ("mcp:search", "mcp_search_e6083a89"),
        ("größe", "gr__e_d353a267"),
        ("a" * 65, "a" * 55 + "_635361c4"),
    ],
)
def test_any_other_name_gets_a_readable_one(name: str, sent: str) -> None:
    assert render_name(name) == sent


@given(st.text(min_size=1))
def test_every_name_becomes_valid_and_stays_so(name: str) -> None:
    assert VALID.fullmatch(render_name(name))
    assert render_name(render_name(name)) == render_name(name)


def test_names_that_differ_in_a_replaced_character_stay_apart() -> None:
    assert render_name("a b") != render_name("a/b")


def test_the_bound_tools_lead_back_to_the_users_names() -> None:
    bound = [
        Tool("Get weather"),
        Tool("googleSearch", builtin={"googleSearch": {}}),
        Tool("search"),
    ]
    assert function_names(bound) == ["Get weather", "search"]
    assert names_by_wire_name(bound) == {"Get_weather_498ebfb0": "Get weather", "search": "search"}
