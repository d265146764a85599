"""Gemini's built-in tools, and other vendors' counterparts."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

import langchain_gemini_tools
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools.builtin import BUILTIN_TOOLS, BuiltinTool
from langchain_gemini_tools.wire.tools.tool import bind_tools
from tests.unit_tests.sources import product_modules

GIVEN: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "by its name": ("google_search", [{"googleSearch": {}}]),
    "as Python spells it": ({"google_search": {}}, [{"googleSearch": {}}]),
    "as the wire spells it": ({"googleSearch": {}}, [{"googleSearch": {}}]),
    "without settings": ({"code_execution": None}, [{"codeExecution": {}}]),
    "with settings": (
        {"file_search": {"file_search_store_names": ["stores/a"], "top_k": 3}},
        [{"fileSearch": {"fileSearchStoreNames": ["stores/a"], "topK": 3}}],
    ),
    "with the user's own keys": (
        {
            "mcp_servers": [
                {"name": "w", "streamable_http_transport": {"headers": {"x_id": "1"}, "url": "u"}}
            ]
        },
        [
            {
                "mcpServers": [
                    {"name": "w", "streamableHttpTransport": {"headers": {"x_id": "1"}, "url": "u"}}
                ]
            }
        ],
    ),
    "of the SDK": (
        types.Tool(
            google_search=types.GoogleSearch(exclude_domains=["a.com"]),
            mcp_servers=[
                types.McpServer(
                    name="w",
                    streamable_http_transport=types.StreamableHttpTransport(
                        url="u", headers={"x_id": "1"}
                    ),
                )
            ],
        ),
        [
            {"googleSearch": {"excludeDomains": ["a.com"]}},
            {
                "mcpServers": [
                    {"name": "w", "streamableHttpTransport": {"headers": {"x_id": "1"}, "url": "u"}}
                ]
            },
        ],
    ),
    "of the SDK, without settings": (
        types.Tool(code_execution=types.ToolCodeExecution()),
        [{"codeExecution": {}}],
    ),
    "two in one": (
        {"google_search": {}, "url_context": {}},
        [{"googleSearch": {}}, {"urlContext": {}}],
    ),
    "one that is not set": (
        {"google_search": {}, "code_execution": None, "function_declarations": None},
        [{"googleSearch": {}}],
    ),
}


@pytest.mark.parametrize(("given", "bound"), GIVEN.values(), ids=GIVEN)
def test_a_builtin_tool_is_bound_as_gemini_spells_it(
    given: Any, bound: list[dict[str, Any]]
) -> None:
    assert [*bind_tools([given])] == bound


@pytest.mark.parametrize(
    ("foreign", "own"),
    [
        ({"type": "web_search"}, "google_search"),
        ({"type": "web_search_preview_2025_03_11"}, "google_search"),
        ({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}, "google_search"),
        ({"type": "web_fetch_20250910", "name": "web_fetch"}, "url_context"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "code_execution"),
        ({"type": "file_search", "vector_store_ids": ["v"]}, "file_search"),
        ({"type": "computer_use_preview"}, "computer_use"),
        ({"type": "mcp", "server_label": "x", "server_url": "u"}, "mcp_servers"),
    ],
)
def test_another_vendors_tool_is_rejected_with_its_counterpart(foreign: Any, own: str) -> None:
    with pytest.raises(InvalidToolError, match=rf'Use Gemini\'s \{{"{own}": \{{\}}\}} instead'):
        bind_tools([foreign])


def test_another_vendors_tool_without_a_counterpart_is_rejected() -> None:
    with pytest.raises(InvalidToolError, match="Gemini has no tool for the same purpose"):
        bind_tools([{"type": "image_generation"}])
    with pytest.raises(InvalidToolError, match="Gemini has no tool for the same purpose"):
        bind_tools([{"type": "custom", "name": "free_text", "format": {"type": "text"}}])


def test_an_unknown_tool_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InvalidToolError, match=r"'google_serch'.*google_search, google_maps"):
        bind_tools([{"google_serch": {}}])
    with pytest.raises(InvalidToolError, match="'google_serch'"):
        bind_tools([{"url_context": {}, "google_serch": {}}])


def test_a_builtin_tool_is_one_row_of_one_module() -> None:
    package = Path(langchain_gemini_tools.__file__).parent
    names = {row.name for row in BUILTIN_TOOLS.values()}
    naming = {
        path.relative_to(package).as_posix()
        for path in product_modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert naming == {"wire/tools/builtin.py"}


def test_a_new_row_is_all_that_a_builtin_tool_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    row = BuiltinTool("moonSearch", ("moon_search",), is_run_by_user=True)
    monkeypatch.setitem(BUILTIN_TOOLS, row.name, row)
    [bound] = bind_tools([{"moon_search": {"crater_name": "Tycho"}}])
    assert bound == {"moonSearch": {"craterName": "Tycho"}}
    assert bound.is_run_by_user
    with pytest.raises(InvalidToolError, match=r'Use Gemini\'s \{"moon_search": \{\}\} instead'):
        bind_tools([{"type": "moon_search_20271101"}])
    with pytest.raises(InvalidToolError, match="exa_ai_search, moon_search"):
        bind_tools([{"star_search": {}}])
