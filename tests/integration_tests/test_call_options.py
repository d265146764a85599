"""Options of the model, of a binding and of one call, as the emulator receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.genai import types
from google.oauth2.credentials import Credentials

from langchain_gemini_tools import errors, trace
from langchain_gemini_tools.display import Cost
from tests.integration_tests.invoking import ask
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

TIERS: dict[str, tuple[Json, Json, str | None, str]] = {
    "none": ({}, {}, None, "standard"),
    "of the model": ({"service_tier": "flex"}, {}, "flex", "flex"),
    "of the call": ({}, {"service_tier": "priority"}, "priority", "priority"),
    "of the call instead of the model's": (
        {"service_tier": "flex"},
        {"service_tier": "standard"},
        "standard",
        "standard",
    ),
    "none instead of the model's": (
        {"service_tier": "flex"},
        {"service_tier": None},
        None,
        "standard",
    ),
    "of the SDK": ({}, {"service_tier": types.ServiceTier.FLEX}, "flex", "flex"),
    "in capitals": ({"service_tier": "SERVICE_TIER_PRIORITY"}, {}, "priority", "priority"),
    "that the SDK leaves open": (
        {"service_tier": types.ServiceTier.UNSPECIFIED},
        {},
        None,
        "standard",
    ),
}


@rotated(case=TIERS, way=WAYS)
async def test_a_service_tier_is_sent_and_the_one_that_was_used_is_reported(
    case: tuple[Json, Json, str | None, str], way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    fields, options, sent, used = case
    message = await ask(make_model(**fields).bind(**options), way)
    assert emulator.last.body.get("serviceTier") == sent
    assert message.response_metadata["service_tier"] == used


VERTEX: Json = {
    "api_key": None,
    "vertexai": True,
    "project": "p",
    "location": "l",
    "credentials": Credentials("unreal-token-0815"),  # type: ignore[no-untyped-call]
}

VERTEX_TIERS: dict[str, tuple[Json, Json, str | None, str]] = {
    "flex": ({"service_tier": "flex"}, {}, "flex", "flex"),
    "priority": ({}, {"service_tier": "priority"}, "priority", "priority"),
    "standard": ({"service_tier": "flex"}, {"service_tier": "standard"}, None, "standard"),
    "none": ({}, {}, None, "standard"),
    "a header": (
        {"service_tier": "flex"},
        {"additional_headers": {"x-vertex-ai-llm-shared-request-type": "priority"}},
        "priority",
        "priority",
    ),
}


@rotated(case=VERTEX_TIERS, way=WAYS)
async def test_vertex_ai_reads_the_service_tier_in_a_header(
    case: tuple[Json, Json, str | None, str], way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    fields, options, sent, used = case
    message = await ask(make_model(**VERTEX, **fields).bind(**options), way)
    headers = {name.lower(): value for name, value in emulator.last.headers.items()}
    assert headers.get("x-vertex-ai-llm-shared-request-type") == sent
    assert "serviceTier" not in emulator.last.body
    assert message.response_metadata["service_tier"] == used


def test_the_tier_of_vertex_ai_is_not_taken_for_a_secret(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.fail(400, "This model has no priority tier.")
    with pytest.raises(errors.GeminiInvalidRequestError, match="has no priority tier"):
        make_model(**VERTEX, service_tier="priority").invoke("Hi")


def test_a_trace_prices_the_tier(make_model: MakeModel) -> None:
    shown = [
        trace([make_model(model="gemini-2.5-flash", service_tier=tier).invoke("Hi")])
        for tier in ("standard", "flex", "priority")
    ]
    standard, flex, priority = (run.run.cost for run in shown)
    assert standard.dollars is not None
    assert flex.dollars == standard.dollars / 2
    assert priority == Cost(standard.dollars, is_partial=True)
    assert "≥ $" in str(shown[2])


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


WRONG: dict[str, tuple[Json, Json, Json]] = {
    "a tool of Vertex AI": (
        {},
        {"tools": [{"type": "retrieval"}]},
        {"tools": [{"retrieval": {}}]},
    ),
    "a setting of Vertex AI": (
        {},
        {"tools": [{"google_search": {"exclude_domains": ["a.com"]}}]},
        {"tools": [{"googleSearch": {"excludeDomains": ["a.com"]}}]},
    ),
    "streamed arguments": (
        {},
        {
            "tools": [get_weather],
            "tool_config": {"function_calling_config": {"stream_function_call_arguments": True}},
        },
        {"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}},
    ),
    "an option of Vertex AI": (
        {},
        {"audio_timestamp": True},
        {"generationConfig": {"audioTimestamp": True}},
    ),
    "file search on Vertex AI": (
        VERTEX,
        {"tools": [{"type": "file_search", "file_search_store_names": ["stores/a"]}]},
        {"tools": [{"fileSearch": {"fileSearchStoreNames": ["stores/a"]}}]},
    ),
    "an MCP server on Vertex AI": (
        VERTEX,
        {"tools": [{"type": "mcp_server", "name": "w", "url": "https://w"}]},
        {"tools": [{"mcpServers": [{"name": "w"}]}]},
    ),
    "parts of server tools on Vertex AI": (
        VERTEX,
        {
            "tools": [get_weather],
            "tool_config": {"include_server_side_tool_invocations": True},
        },
        {"toolConfig": {"includeServerSideToolInvocations": True}},
    ),
}


@rotated(case=WRONG, way=WAYS)
async def test_an_option_of_the_other_backend_is_rejected_and_the_api_would_reject_it(
    case: tuple[Json, Json, Json], way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    fields, options, body = case
    chat = make_model(**fields)
    with pytest.raises(errors.InvalidInputError, match=r"only on|does not exist on Vertex AI"):
        await ask(chat, way, **options)
    assert emulator.requests == []
    with pytest.raises(errors.GeminiInvalidRequestError, match="Cannot find field"):
        await ask(chat, way, extra_body=body)


@rotated(way=WAYS)
async def test_tools_in_the_newer_spelling_are_sent_in_the_older_one(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    function = {"type": "function", "name": "f", "description": "F.", "parameters": parameters}
    tools: list[Json] = [{"type": "google_search"}, function, {"type": "url_context"}]
    await ask(make_model().bind_tools(tools), way)
    assert emulator.last.body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "F.", "parametersJsonSchema": parameters}
            ]
        },
        {"googleSearch": {}},
        {"urlContext": {}},
    ]


@rotated(way=WAYS)
async def test_tools_of_extra_body_do_not_erase_bound_functions(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(calls=[("get_weather", {"city": "Oslo"})])
    bound = make_model().bind_tools([get_weather], extra_body={"tools": [{"google_search": {}}]})
    message = await ask(bound, way)
    assert [call["name"] for call in message.tool_calls] == ["get_weather"]
    sent = emulator.last.body
    assert [[*tool] for tool in sent["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert sent["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_a_builtin_tool_that_is_not_known_is_sent_with_one_warning(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    chat = make_model()
    for _ in range(2):
        bound = chat.bind_tools([{"star_search": {"star_name": "Vega"}}])
    assert bound.preview("Hi").body["tools"] == [{"starSearch": {"starName": "Vega"}}]
    [record] = caplog.records
    assert record.getMessage() == (
        "gemini-3.8-flash: Tool 'star_search': this version does not know the built-in tool, "
        "and sends it as it is."
    )


def test_a_cache_beside_tools_is_rejected_with_the_way_out(
    emulator: Emulator, make_model: MakeModel
) -> None:
    bound = make_model(cached_content="cachedContents/1").bind_tools([get_weather])
    with pytest.raises(
        errors.InvalidOptionError, match=r"tools, system messages: .*model\.with_context_cache"
    ):
        bound.invoke([("system", "Be brief."), ("user", "Hi")])
    assert emulator.requests == []
