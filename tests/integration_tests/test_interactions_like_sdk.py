"""The same call through `client.interactions` of the SDK sends the same, and reads the same.

The SDK adds nothing to the body except `stream`, also if it is false. It also sends to another
version of the path unless one is given. Versions 2.20 and 3.3 were compared.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import errors, types
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.testing.fake import API_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

ADD = {
    "type": "function",
    "name": "add",
    "description": "Adds two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        "required": ["x", "y"],
    },
}
ADDED_BY_THE_SDK = {"stream"}


@pytest.fixture
def chat(make_model: MakeModel) -> ChatGemini:
    return make_model(api="interactions")


@pytest.fixture
def sdk(emulator: Emulator) -> Iterator[Any]:
    """`interactions` of a client of the SDK that has nothing of ours."""
    options = types.HttpOptions(base_url=emulator.url, api_version="v1beta")
    with genai.Client(api_key=API_KEY, vertexai=False, http_options=options) as client:
        yield client.interactions


@pytest.fixture
def continuing_sdk(sdk: Any) -> Any:
    if not hasattr(errors, "ContinuationInterruptedError"):
        pytest.skip("This version of google-genai does not continue long responses.")
    return sdk


def said(text: str) -> Json:
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


CALLS: dict[str, tuple[Json, list[Any], Json]] = {
    "text": ({"input": [said("Hello")]}, [HumanMessage("Hello")], {}),
    "options": (
        {
            "input": [said("Hello")],
            "system_instruction": "Be brief.",
            "generation_config": {
                "max_output_tokens": 100,
                "stop_sequences": ["END"],
                "seed": 7,
                "thinking_level": "low",
                "thinking_summaries": "auto",
            },
        },
        [SystemMessage("Be brief."), HumanMessage("Hello")],
        {
            "max_output_tokens": 100,
            "stop": ["END"],
            "seed": 7,
            "reasoning_effort": "low",
            "include_thoughts": True,
        },
    ),
    "a required tool, and a search": (
        {
            "input": [said("7 + 11?")],
            "tools": [ADD, {"type": "google_search"}],
            "generation_config": {
                "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["add"]}}
            },
        },
        [HumanMessage("7 + 11?")],
        {"tools": [ADD, {"google_search": {}}], "tool_choice": "add"},
    ),
    "JSON": (
        {
            "input": [said("Hello")],
            "response_format": {
                "type": "text",
                "mime_type": "application/json",
                "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        },
        [HumanMessage("Hello")],
        {"response_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_sends_the_same(
    name: str, sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    arguments, messages, options = CALLS[name]
    sdk.create(model="gemini-3.8-flash", store=False, **arguments)
    theirs = emulator.last.body
    chat.invoke(messages, **options)
    ours = emulator.last.body
    assert {k: v for k, v in theirs.items() if k not in ADDED_BY_THE_SDK} == ours
    assert emulator.refusals == []
    assert {request.path for request in emulator.requests} == {"/v1beta/interactions"}


POLICY = "financial_transactions"
MCP = {"url": "https://w.example/mcp", "headers": {"Authorization": "Bearer abc", "x_id": "1"}}
TOOLS: dict[str, tuple[Json, list[Any]]] = {
    "search": (
        {"type": "google_search"},
        ["google_search", {"google_search": {}}, {"googleSearch": {}}],
    ),
    "search types": (
        {"type": "google_search", "search_types": ["web_search", "image_search"]},
        [
            {"google_search": {"search_types": {"web_search": {}, "image_search": {}}}},
            {"googleSearch": {"searchTypes": {"webSearch": {}, "imageSearch": {}}}},
        ],
    ),
    "a search that only this API has": (
        {"type": "google_search", "search_types": ["enterprise_web_search"]},
        [],
    ),
    "code": ({"type": "code_execution"}, [{"code_execution": {}}, {"codeExecution": {}}]),
    "URLs": ({"type": "url_context"}, [{"url_context": {}}, {"urlContext": {}}]),
    "files": (
        {
            "type": "file_search",
            "file_search_store_names": ["fileSearchStores/a"],
            "metadata_filter": "author=Ada",
            "top_k": 3,
        },
        [
            {
                "fileSearch": {
                    "fileSearchStoreNames": ["fileSearchStores/a"],
                    "metadataFilter": "author=Ada",
                    "topK": 3,
                }
            },
        ],
    ),
    "maps": (
        {"type": "google_maps", "enable_widget": True, "latitude": 59.9, "longitude": 10.7},
        [{"google_maps": {"enable_widget": True, "latitude": 59.9, "longitude": 10.7}}],
    ),
    "a computer": (
        {
            "type": "computer_use",
            "environment": "browser",
            "excluded_predefined_functions": ["open_web_browser"],
            "disabled_safety_policies": [POLICY],
            "enable_prompt_injection_detection": True,
        },
        [
            {
                "computer_use": {
                    "environment": "ENVIRONMENT_BROWSER",
                    "excluded_predefined_functions": ["open_web_browser"],
                    "disabled_safety_policies": [POLICY.upper()],
                    "enable_prompt_injection_detection": True,
                }
            },
        ],
    ),
    "an MCP server": (
        {"type": "mcp_server", "name": "w", **MCP},
        [
            {"mcp_servers": [{"name": "w", "streamable_http_transport": MCP}]},
            {"mcpServers": [{"name": "w", "streamableHttpTransport": MCP}]},
        ],
    ),
    "some tools of an MCP server": (
        {
            "type": "mcp_server",
            "name": "w",
            "url": "https://w.example/mcp",
            "allowed_tools": [{"mode": "any", "tools": ["forecast"]}],
        },
        [],
    ),
    "a search engine": (
        {
            "type": "retrieval",
            "retrieval_types": ["vertex_ai_search"],
            "vertex_ai_search_config": {"engine": "e", "datastores": ["d"]},
        },
        [],
    ),
    "a RAG store": (
        {
            "type": "retrieval",
            "retrieval_types": ["rag_store"],
            "rag_store_config": {
                "rag_resources": [{"rag_corpus": "c", "rag_file_ids": ["1"]}],
                "similarity_top_k": 3,
                "vector_distance_threshold": 0.5,
            },
        },
        [],
    ),
    "searches of others": (
        {
            "type": "retrieval",
            "retrieval_types": ["exa_ai_search", "parallel_ai_search"],
            "exa_ai_search_config": {"api_key": "k", "custom_config": {"num_results": 3, "aB": 1}},
            "parallel_ai_search_config": {"api_key": "k"},
        },
        [],
    ),
}


@pytest.mark.parametrize("name", TOOLS)
def test_every_builtin_tool_is_sent_as_the_sdk_sends_it(
    name: str, sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    theirs, spellings = TOOLS[name]
    sdk.create(model="gemini-3.8-flash", store=False, input=[said("Hello")], tools=[ADD, theirs])
    expected = emulator.last.body["tools"]
    assert expected == [ADD, theirs]
    for ours in (theirs, *spellings):
        chat.bind_tools([ADD, ours]).invoke("Hello")
        assert emulator.last.body["tools"] == expected
    assert emulator.refusals == []


def test_several_mcp_servers_are_sent_beside_functions(
    sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    servers = [{"type": "mcp_server", "name": name, **MCP} for name in ("w", "v")]
    sdk.create(model="gemini-3.8-flash", store=False, input=[said("Hello")], tools=[ADD, *servers])
    theirs = emulator.last.body["tools"]
    listed = [{"name": name, "streamable_http_transport": MCP} for name in ("w", "v")]
    for tools in ([ADD, *servers], [ADD, {"mcp_servers": listed}]):
        chat.bind_tools(tools).invoke("Hello")
        assert emulator.last.body["tools"] == theirs


def test_a_builtin_tool_that_is_not_known_is_sent(chat: ChatGemini, emulator: Emulator) -> None:
    new = {"type": "star_search", "star_name": "Vega"}
    request: Any = chat.bind_tools([ADD, {"star_search": {"star_name": "Vega"}}]).preview("Hi")
    assert request.body["tools"] == [ADD, new]
    request = chat.bind_tools([ADD, {"type": "google_search", "search_types": ["web_search"]}])
    added = request.preview("Hi", extra_body={"tools": [{**ADD, "description": "Sums."}, new]})
    assert added.body["tools"] == [
        {"type": "google_search", "search_types": ["web_search"]},
        {**ADD, "description": "Sums."},
        new,
    ]


def test_a_resend_through_the_sdk_is_the_same(
    sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply(calls=[("add", {"x": 7, "y": 11}), ("add", {"x": 1, "y": 2})], thoughts="Hm.")
    message = chat.invoke("7 + 11?", tools=[ADD])
    results = [ToolMessage('{"sum": 18}', tool_call_id=call["id"]) for call in message.tool_calls]
    chat.invoke([HumanMessage("7 + 11?"), message, *results], tools=[ADD])
    ours = emulator.last.body
    sdk.create(model="gemini-3.8-flash", store=False, input=ours["input"], tools=[ADD])
    theirs = emulator.last.body
    assert {k: v for k, v in theirs.items() if k not in ADDED_BY_THE_SDK} == ours
    assert emulator.refusals == []


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("streams", [False, True])
def test_a_long_response_is_continued_by_the_same_request(
    store: bool, streams: bool, continuing_sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    end = {"id": "v1_a", "status": "requires_continuation", "continuation_token": "t1"}
    text = {"type": "text", "text": "It is "}
    first: Json = {"body": {**end, "steps": [{"type": "model_output", "content": [text]}]}}
    if streams:
        events = [
            {"event_type": "interaction.created", "interaction": {"id": "v1_a", "model": "m"}},
            {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
            {"event_type": "step.delta", "index": 0, "delta": text},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "interaction.completed", "interaction": end},
        ]
        first = {"events": events}
    arguments = {"model": "gemini-3.8-flash", "store": store, "stream": streams}
    sent: list[list[Json]] = []
    emulator.reply(**first)
    emulator.reply("sunny.")
    theirs = continuing_sdk.create(input=[said("Hello")], **arguments)
    if streams:
        deltas = [event.delta for event in theirs if event.event_type == "step.delta"]
        read = "".join(delta.text for delta in deltas if delta.type == "text")
    else:
        read = theirs.output_text
    sent.append([request.body for request in emulator.requests])
    emulator.requests.clear()
    emulator.reply(**first)
    emulator.reply("sunny.")
    if streams:
        ours = functools.reduce(operator.add, chat.stream("Hello", store=store)).text
    else:
        ours = chat.invoke("Hello", store=store).text
    sent.append([request.body for request in emulator.requests])
    # The SDK's `output_text` is that of the last step.
    assert ours == "It is sunny."
    assert ours.endswith(read)
    stream = {"stream": True} if streams else {}
    bare = [{k: v for k, v in body.items() if k not in ADDED_BY_THE_SDK} for body in sent[0]]
    assert [{**body, **stream} for body in bare] == sent[1]


def test_the_same_stream_reads_the_same(sdk: Any, chat: ChatGemini, emulator: Emulator) -> None:
    for _ in range(2):
        emulator.reply("Let me add.", calls=[("add", {"x": 7, "y": 11})], thoughts="Hm.")
    stream = sdk.create(
        model="gemini-3.8-flash", store=False, input="7 + 11?", tools=[ADD], stream=True
    )
    events = [event.model_dump() for event in stream]
    deltas = [event["delta"] for event in events if event["event_type"] == "step.delta"]
    [end] = [event for event in events if event["event_type"] == "interaction.completed"]
    chunks = list(chat.stream("7 + 11?", tools=[ADD]))
    ours: AIMessage = functools.reduce(operator.add, chunks)
    assert ours.text == "".join(each["text"] for each in deltas if each["type"] == "text")
    arguments = [each["arguments"] for each in deltas if each["type"] == "arguments_delta"]
    fragments = [piece["args"] for chunk in chunks for piece in chunk.tool_call_chunks]
    assert [piece for piece in fragments if piece] == arguments
    assert ours.usage_metadata
    assert ours.usage_metadata["total_tokens"] == end["interaction"]["usage"]["total_tokens"]
    assert ours.response_metadata["finish_reason"] == end["interaction"]["status"]


def test_read_cancel_and_delete_work_through_the_sdk(
    sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    message = chat.invoke("Hello", store=True)
    name = message.response_metadata["interaction_id"]
    read = sdk.get(id=name)
    assert [step.type for step in read.steps] == ["user_input", "thought", "model_output"]
    sdk.delete(id=name)
    with pytest.raises(Exception, match="not found"):
        sdk.get(id=name)
    assert [request.method for request in emulator.requests] == ["POST", "GET", "DELETE", "GET"]


def test_the_client_of_the_model_reads_and_deletes(chat: ChatGemini, emulator: Emulator) -> None:
    if int(genai.__version__.partition(".")[0]) < 3:
        pytest.skip("interactions of google-genai 2 work only with clients of httpx.")
    name = chat.invoke("Hello", store=True).response_metadata["interaction_id"]
    client: Any = chat.client
    assert client.interactions.get(id=name).status == "completed"
    client.interactions.delete(id=name)
    assert [request.method for request in emulator.requests] == ["POST", "GET", "DELETE"]


def test_a_stream_is_resumed_by_the_same_request(
    sdk: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply(
        "It is sunny in Oslo.",
        chunks=4,
        fault=lambda outgoing: outgoing.with_steps(*outgoing.steps[:8]),
    )
    ours = functools.reduce(operator.add, chat.stream("Weather?", background=True))
    resumed = emulator.last
    name = ours.response_metadata["interaction_id"]
    events = sdk.get(id=name, stream=True, last_event_id="e8")
    theirs = "".join(
        event.delta.text
        for event in events
        if event.event_type == "step.delta" and event.delta.type == "text"
    )
    assert ours.text == "It is sunny in Oslo."
    assert theirs
    assert ours.text.endswith(theirs)
    assert emulator.last.method == resumed.method == "GET"
    assert emulator.last.path.partition("/interactions")[2] == f"/{name}"
    assert resumed.path.partition("/interactions")[2] == f"/{name}"
    # `alt` comes with every stream of ours, and is recorded to do no harm.
    assert {**emulator.last.query, "alt": "sse"} == resumed.query
