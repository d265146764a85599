"""Gemini's built-in tools, in every spelling."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.genai import types

from langchain_gemini_tools import ChatGemini, check_tools
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.rejections import check_tools as check_backend
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.builtin import BUILTIN_TOOLS, BuiltinTool
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.figures import modules_with

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

BUILTIN: dict[str, tuple[Any, list[dict[str, Any]]]] = {
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


@pytest.mark.parametrize(("given", "bound"), BUILTIN.values(), ids=BUILTIN)
def test_a_builtin_tool_is_bound_as_gemini_spells_it(
    given: Any, bound: list[dict[str, Any]]
) -> None:
    assert render_tools(bind_tools([given])) == bound


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


def test_a_misspelled_tool_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidToolError, match=r"'google_serch'.*google_search, google_maps"
    ) as one:
        bind_tools([{"google_serch": {}}])
    assert str(one.value).endswith("Did you mean 'google_search'?")
    with pytest.raises(InvalidToolError, match="'google_serch'"):
        bind_tools([{"url_context": {}, "google_serch": {}}])
    with pytest.raises(InvalidToolError, match="Did you mean 'google_search'"):
        bind_tools([{"GoogleSearch": {}}])


@pytest.mark.parametrize(("settings", "kind"), [(True, "bool"), ("yes", "str"), ([{}, 1], "int")])
def test_settings_that_are_not_a_dict_are_rejected_with_the_way_out(
    settings: Any, kind: str
) -> None:
    with pytest.raises(InvalidToolError) as error:
        bind_tools([{"google_search": settings}])
    assert str(error.value) == (
        f"google_search: its settings must be a dict, not {kind}. Use {{'google_search': {{}}}} "
        "for the defaults."
    )


KEY = types.AuthConfig(api_key="a secret")
WITH_KEY = [{"googleMaps": {"authConfig": {"apiKey": "a secret"}}}]


@pytest.mark.parametrize(
    "settings", [types.GoogleMaps(auth_config=KEY), {"auth_config": KEY}], ids=["whole", "inside"]
)
def test_settings_may_be_objects_of_the_sdk(settings: Any) -> None:
    model = ChatGemini(model="gemini-3.6-flash", api_key="k")
    request = model.bind_tools([{"google_maps": settings}]).preview("Where?")
    assert request.body["tools"] == WITH_KEY


@pytest.mark.parametrize("settings", ["a secret", [{"auth_config": {"api_key": "a secret"}}, 1]])
def test_settings_that_are_rejected_are_not_shown(settings: Any) -> None:
    with pytest.raises(InvalidToolError) as error:
        bind_tools([{"google_maps": settings}])
    assert "secret" not in str(error.value)


def test_a_setting_that_is_not_json_is_not_shown() -> None:
    model = ChatGemini(model="gemini-3.6-flash", api_key="k")
    with pytest.raises(TypeError, match="is of type bytes, which is not JSON") as error:
        model.bind_tools([{"google_maps": {"auth_config": [b"a secret"]}}]).preview("Where?")
    assert "secret" not in str(error.value)


TYPED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "google_search": ({"type": "google_search"}, {"googleSearch": {}}),
    "with settings": (
        {"type": "google_search", "search_types": ["web_search", "image_search"]},
        {"googleSearch": {"searchTypes": {"webSearch": {}, "imageSearch": {}}}},
    ),
    "with the settings under its name": (
        {"type": "google_search", "google_search": {"time_range_filter": {}}},
        {"googleSearch": {"timeRangeFilter": {}}},
    ),
    "code_execution": ({"type": "code_execution"}, {"codeExecution": {}}),
    "url_context": ({"type": "url_context", "unset": None}, {"urlContext": {}}),
    "google_maps": (
        {"type": "google_maps", "enable_widget": True},
        {"googleMaps": {"enableWidget": True}},
    ),
    "file_search": (
        {"type": "file_search", "file_search_store_names": ["stores/a"], "top_k": 3},
        {"fileSearch": {"fileSearchStoreNames": ["stores/a"], "topK": 3}},
    ),
    "computer_use": (
        {"type": "computer_use", "environment": "browser"},
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
    ),
    "mcp_server": (
        {"type": "mcp_server", "name": "w", "url": "https://w", "headers": {"x_id": "1"}},
        {
            "mcpServers": [
                {
                    "name": "w",
                    "streamableHttpTransport": {"url": "https://w", "headers": {"x_id": "1"}},
                }
            ]
        },
    ),
}


@pytest.mark.parametrize(("given", "bound"), TYPED.values(), ids=TYPED)
def test_the_newer_spelling_of_google_is_read(given: Any, bound: dict[str, Any]) -> None:
    before = copy.deepcopy(given)
    assert render_tools(bind_tools([given])) == [bound]
    assert given == before


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"type": "google_maps", "latitude": 1.0, "longitude": 2.0}, "tool_config"),
        ({"type": "mcp_server", "name": "w", "allowed_tools": [{"tools": ["a"]}]}, "allowed_tools"),
        ({"type": "retrieval", "retrieval_types": ["rag_store"]}, "retrieval_types"),
    ],
)
def test_settings_that_generate_content_does_not_have_are_rejected(given: Any, reason: str) -> None:
    with pytest.raises(InvalidToolError, match=reason):
        check_backend(bind_tools([given]), vertexai=False)


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({"star_search": {"star_name": "Vega"}}, [{"starSearch": {"starName": "Vega"}}]),
        ({"starSearch": None}, [{"starSearch": {}}]),
        ({"google_search_v2": {}}, [{"googleSearchV2": {}}]),
        (
            {"url_context": {}, "star_servers": [{"name": "a"}]},
            [{"urlContext": {}}, {"starServers": [{"name": "a"}]}],
        ),
    ],
)
def test_a_builtin_tool_that_is_not_known_is_sent_with_a_warning(given: Any, bound: Any) -> None:
    assert render_tools(bind_tools([given])) == bound
    report = check_tools([given])
    assert report.ok
    assert [(found.code, found.level) for found in report.findings] == [
        ("unknown_builtin", "warning")
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"description": "No name.", "parameters": SCHEMA},
        {"parameters": SCHEMA},
        {"tool": {"name": "f", "args": {}}},
        {"tool": {"input": SCHEMA}},
        {"tool": SCHEMA},
        {"tool": "f"},
        {"a tool": {}},
        {},
    ],
)
def test_a_function_that_cannot_be_read_is_not_taken_for_a_builtin_tool(given: Any) -> None:
    with pytest.raises(InvalidToolError):
        bind_tools([given])


def test_settings_with_the_users_own_keys_may_be_null() -> None:
    transport = {"url": "https://example.com/mcp", "headers": None}
    [tool] = bind_tools([{"mcp_servers": [{"name": "a", "streamable_http_transport": transport}]}])
    assert tool == {"mcpServers": [{"name": "a", "streamableHttpTransport": transport}]}


def test_a_builtin_tool_is_one_row_of_one_module() -> None:
    names = {row.name for row in BUILTIN_TOOLS.values()}
    assert modules_with(*names) == {"wire/tools/builtin.py"}


def test_a_new_row_is_all_that_a_builtin_tool_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    row = BuiltinTool("moonSearch", ("moon_search",), is_run_by_user=True, only_on="vertex")
    monkeypatch.setitem(BUILTIN_TOOLS, row.name, row)
    tools = bind_tools([{"moon_search": {"crater_name": "Tycho"}}])
    [bound] = tools
    assert bound == {"moonSearch": {"craterName": "Tycho"}}
    assert tools.run_by_user
    with pytest.raises(InvalidToolError, match=r'Use Gemini\'s \{"moon_search": \{\}\} instead'):
        bind_tools([{"type": "moon_search_20271101"}])
    assert [*bind_tools([{"type": "moon_search", "crater_name": "Tycho"}])] == [bound]
    with pytest.raises(InvalidToolError, match=r"exa_ai_search, moon_search.*mean 'moon_search'"):
        bind_tools([{"mooon_search": {}}])
    with pytest.raises(InvalidToolError, match="moon_search exists only on Vertex AI"):
        ChatGemini(model="gemini-3.8-flash").bind_tools([{"moon_search": {}}])
