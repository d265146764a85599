"""`api="interactions"`: what is sent, and what the user sees."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from google.oauth2.credentials import Credentials
from langchain.agents import create_agent
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import (
    FailedInteractionError,
    GeminiInvalidRequestError,
    GeminiServerError,
    InvalidHistoryError,
    InvalidOptionError,
    InvalidToolError,
    MalformedToolCallError,
    TruncatedResponseError,
    TruncatedStreamError,
)
from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, API_KEY
from tests.integration_tests.invoking import ask
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.responses import Outgoing
    from tests.conftest import MakeModel

Json = dict[str, Any]

SKIP = base64.b64encode(b"skip_thought_signature_validator").decode()
QUESTION: Json = {"type": "user_input", "content": [{"type": "text", "text": "Weather in Oslo?"}]}
PNG = base64.b64encode(b"\x89PNG\r\n").decode()


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


@pytest.fixture
def chat(make_model: MakeModel) -> ChatGemini:
    return make_model(api="interactions")


def through_json(messages: list[Any]) -> list[Any]:
    return messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))


def same(one: Any, other: Any) -> bool:
    """Whether two messages say the same, apart from ids and signatures."""
    return (one.text, [(c["name"], c["args"]) for c in one.tool_calls], one.usage_metadata) == (
        other.text,
        [(c["name"], c["args"]) for c in other.tool_calls],
        other.usage_metadata,
    )


# What is sent


@rotated(way=WAYS)
async def test_every_way_sends_the_same_and_returns_the_same(
    way: str, library: str, chat: ChatGemini, emulator: Emulator
) -> None:
    bound = chat.bind_tools([get_weather])
    message = await ask(bound, way)
    expected = {
        "model": "gemini-3.8-flash",
        "input": [QUESTION],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Current weather in a city.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
            }
        ],
        "store": False,
    }
    assert emulator.last.body == expected | ({"stream": True} if "stream" in way else {})
    assert emulator.last.path == "/v1beta/interactions"
    [call] = message.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    assert message.response_metadata["finish_reason"] == "requires_action"
    assert same(message, bound.invoke("Weather in Oslo?"))


CHOICES: dict[str, tuple[Any, Any]] = {
    "auto": ("auto", "auto"),
    "any": ("any", "any"),
    "required": ("required", "any"),
    "none": ("none", "none"),
    "validated": ("validated", "validated"),
    "a name": ("get_weather", {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}),
    "a list": (["get_weather"], {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}),
    "validated names": (
        {"mode": "VALIDATED", "allowed_function_names": ["get_weather"]},
        {"allowed_tools": {"mode": "validated", "tools": ["get_weather"]}},
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_tool_choice_is_sent(name: str, chat: ChatGemini, emulator: Emulator) -> None:
    choice, sent = CHOICES[name]
    chat.bind_tools([get_weather], tool_choice=choice).invoke("Weather in Oslo?")
    assert emulator.last.body["generation_config"] == {"tool_choice": sent}
    assert emulator.refusals == []


RESULTS: dict[str, tuple[ToolMessage, Json]] = {
    "text": (ToolMessage("Sunny", tool_call_id="c"), {"result": "Sunny"}),
    "an object": (ToolMessage('{"sky": "clear"}', tool_call_id="c"), {"result": {"sky": "clear"}}),
    "a list": (ToolMessage("[1, 2]", tool_call_id="c"), {"result": {"output": [1, 2]}}),
    "an error": (
        ToolMessage("No such city", tool_call_id="c", status="error"),
        {"result": "No such city", "is_error": True},
    ),
    "a picture": (
        ToolMessage(
            [
                {"type": "text", "text": "The sky:"},
                {"type": "image", "base64": PNG, "mime_type": "image/png"},
            ],
            tool_call_id="c",
        ),
        {
            "result": [
                {"type": "text", "text": "The sky:"},
                {"type": "image", "data": PNG, "mime_type": "image/png"},
            ]
        },
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_kind_of_result_is_sent(name: str, chat: ChatGemini, emulator: Emulator) -> None:
    result, sent = RESULTS[name]
    call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "c"}
    chat.invoke([HumanMessage("Weather in Oslo?"), AIMessage("", tool_calls=[call]), result])
    assert emulator.last.steps == [
        QUESTION,
        {"type": "thought", "signature": SKIP},
        {"type": "function_call", "id": "c", "name": "get_weather", "arguments": {"city": "Oslo"}},
        {"type": "function_result", "call_id": "c", "name": "get_weather", **sent},
    ]
    assert emulator.refusals == []


def test_media_of_the_user_are_contents(chat: ChatGemini, emulator: Emulator) -> None:
    blocks: list[str | dict[Any, Any]] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "base64": PNG, "mime_type": "image/png", "media_resolution": "low"},
        {"type": "file", "base64": "JVBERg==", "mime_type": "application/pdf"},
        {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"},
        {"type": "video", "url": "https://youtu.be/abc"},
    ]
    chat.invoke([HumanMessage(blocks)])
    [step] = emulator.last.steps
    assert step["content"][0] == {"type": "text", "text": "What is this?"}
    image = {"type": "image", "data": PNG, "mime_type": "image/png", "resolution": "low"}
    assert step["content"][1] == image
    assert [content["type"] for content in step["content"][2:]] == ["document", "audio", "video"]
    assert emulator.refusals == []


def test_builtin_tools_are_sent_as_the_api_spells_them(chat: ChatGemini) -> None:
    tools: list[Any] = [
        {"google_search": {"search_types": {"web_search": {}}}},
        {"type": "code_execution"},
        {"url_context": {}},
        {"file_search": {"file_search_store_names": ["fileSearchStores/a"], "top_k": 3}},
        {"computer_use": {"environment": "ENVIRONMENT_BROWSER"}},
        {"type": "mcp_server", "name": "maps", "url": "https://a.example", "headers": {"X": "y"}},
        get_weather,
    ]
    body: Any = chat.bind_tools(tools).preview("Hello").body
    assert body["tools"][1:] == [
        {"type": "google_search", "search_types": ["web_search"]},
        {"type": "code_execution"},
        {"type": "url_context"},
        {"type": "file_search", "file_search_store_names": ["fileSearchStores/a"], "top_k": 3},
        {"type": "computer_use", "environment": "browser"},
        {"type": "mcp_server", "name": "maps", "url": "https://a.example", "headers": {"X": "y"}},
    ]


REJECTED: dict[str, Json] = {
    "presence_penalty": {"presence_penalty": 0.1},
    "frequency_penalty": {"frequency_penalty": 0.1},
    "thinking_budget": {"thinking_budget": 100},
    "logprobs": {"response_logprobs": True},
    "cached_content": {"cached_content": "cachedContents/a"},
    "n": {"model": "gemini-2.5-flash", "n": 2},
    "media_resolution": {"media_resolution": "low"},
    "tool_schema": {"tool_schema": "openapi"},
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_the_api_does_not_have_is_rejected_by_name(
    name: str, chat: ChatGemini, emulator: Emulator
) -> None:
    with pytest.raises(InvalidOptionError, match=rf"does not have \w*{name}"):
        chat.invoke("Hello", **REJECTED[name])
    assert emulator.requests == []


def test_prompted_calling_and_unknown_builtin_tools_are_rejected(chat: ChatGemini) -> None:
    with pytest.raises(InvalidOptionError, match="Prompted tool calling does not exist"):
        chat.bind_tools([get_weather]).invoke("Hello", tool_calling="prompted")
    with pytest.raises(InvalidToolError, match="google_search_retrieval does not exist"):
        chat.bind_tools([{"google_search_retrieval": {}}]).invoke("Hello")
    with pytest.raises(InvalidToolError, match="google_search does not have time_range_filter"):
        chat.bind_tools([{"google_search": {"time_range_filter": {}}}]).invoke("Hello")


def test_an_error_that_asks_for_a_setting_of_the_other_api_is_explained(
    chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.fail(
        400,
        "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with "
        "Function calling.",
    )
    with pytest.raises(GeminiInvalidRequestError, match="Use api='generate_content' for built-in"):
        chat.bind_tools([get_weather, {"google_search": {}}]).invoke("Hello")


def test_options_of_the_other_api_are_rejected(make_model: MakeModel) -> None:
    with pytest.raises(InvalidOptionError, match="store needs api='interactions'"):
        make_model().invoke("Hello", store=True)
    with pytest.raises(InvalidOptionError, match="store is False"):
        make_model(api="interactions").invoke("Hello", store=False, use_previous_interaction=True)


def test_a_model_before_gemini_3_has_levels_here(chat: ChatGemini, emulator: Emulator) -> None:
    chat.invoke("Hello", model="gemini-2.5-flash", reasoning_effort="minimal")
    assert emulator.last.body["generation_config"] == {"thinking_level": "minimal"}


def test_top_k_is_sent(chat: ChatGemini, emulator: Emulator) -> None:
    chat.invoke("Hello", model="gemini-2.5-flash", top_k=3)
    assert emulator.last.body["generation_config"] == {"top_k": 3}


def test_tokens_are_counted_by_generate_content(chat: ChatGemini, emulator: Emulator) -> None:
    assert chat.get_num_tokens("Hello there") > 0
    assert emulator.last.path.endswith(":countTokens")


def test_vertex_ai_has_its_own_path(make_model: MakeModel, emulator: Emulator) -> None:
    place = {"vertexai": True, "project": "p", "location": "global"}
    credentials = Credentials(ACCESS_TOKEN)  # type: ignore[no-untyped-call]
    model = make_model(api="interactions", api_key=None, credentials=credentials, **place)
    assert model.invoke("Hello").text
    assert list(model.stream("Hello"))
    paths = {request.path for request in emulator.requests}
    assert paths == {"/v1beta1/projects/p/locations/global/interactions"}


# What comes back


@rotated(way=WAYS)
async def test_thoughts_and_builtin_steps_are_shown(
    way: str, chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply("It is 42.", thoughts="Compute.", code=("print(6 * 7)", "42\n"))
    message = await ask(chat.bind(include_thoughts=True, tools=[{"code_execution": {}}]), way)
    blocks = [
        {k: v for k, v in block.items() if k not in {"index", "id"}} for block in message.content
    ]
    assert [block["type"] for block in blocks] == [
        "thinking",
        "executable_code",
        "code_execution_result",
        "text",
    ]
    assert blocks[0]["thinking"] == "Compute."
    assert message.text == "It is 42."
    kept = message.additional_kwargs["__gemini_steps__"]["steps"]
    emulator.reply("Yes.")
    await chat.ainvoke([HumanMessage("Weather in Oslo?"), *through_json([message]), ("user", "?")])
    assert emulator.last.steps[1:-1] == kept
    assert emulator.refusals == []


FAILED = ["failed", "cancelled", "budget_exceeded", "in_progress", "queued", "solar_flare"]


@rotated(status=["incomplete", *FAILED], way=WAYS)
async def test_calls_are_executable_only_with_a_good_status(
    status: str, way: str, chat: ChatGemini, emulator: Emulator
) -> None:
    error = TruncatedResponseError if status == "incomplete" else FailedInteractionError
    emulator.reply(calls=[("get_weather", {"city": "Oslo"})], finish_reason=status)
    with pytest.raises(error) as failure:
        await ask(chat.bind_tools([get_weather]), way)
    assert failure.value.finish_reason == status
    assert failure.value.partial
    assert failure.value.partial.tool_calls == []
    [call] = failure.value.partial.invalid_tool_calls
    assert call["name"] == "get_weather"


@rotated(status=FAILED, way=WAYS, on_malformed=["retry", "raise", "return"])
async def test_text_of_an_interaction_that_failed_is_not_an_answer(
    status: str, way: str, on_malformed: str, chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply("It is sun", finish_reason=status)
    with pytest.raises(FailedInteractionError, match=rf"\({status}\)") as failure:
        await ask(chat, way, on_malformed=on_malformed)
    assert failure.value.finish_reason == status
    assert not failure.value.is_retryable
    assert failure.value.partial
    assert failure.value.partial.text == "It is sun"
    assert len(emulator.requests) == 1


NO_QUOTA = {"code": 8, "message": "No quota."}


@rotated(way=WAYS, said=[{"errors": [NO_QUOTA]}, {"error": NO_QUOTA}])
async def test_what_the_api_says_about_a_failure_is_in_the_error(
    way: str, said: Json, chat: ChatGemini, emulator: Emulator
) -> None:
    body = {"id": "v1_a", "status": "failed", **said}
    events = [{"event_type": "interaction.completed", "interaction": body}]
    emulator.reply(**({"events": events} if "stream" in way else {"body": body}))
    with pytest.raises(FailedInteractionError, match="failed: No quota") as failure:
        await ask(chat, way)
    assert failure.value.finish_message == "No quota."
    assert len(emulator.requests) == 1
    assert failure.value.partial
    assert failure.value.partial.response_metadata["response_id"] == "v1_a"


@pytest.mark.parametrize("arguments", ['{"city": "Oslo"}', ["Oslo"], 5])
def test_streamed_arguments_that_are_no_object_are_not_left_out(
    arguments: Any, chat: ChatGemini, emulator: Emulator
) -> None:
    call = {"type": "function_call", "id": "c1", "name": "get_weather", "arguments": arguments}
    emulator.reply(
        events=[
            {"event_type": "step.start", "index": 0, "step": call},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "interaction.completed", "interaction": {"status": "requires_action"}},
        ]
    )
    with pytest.raises(MalformedToolCallError, match="'get_weather' are not a JSON object"):
        list(chat.bind_tools([get_weather]).stream("Hello"))


@rotated(way=WAYS)
async def test_truncated_text_is_returned_with_its_status(
    way: str, chat: ChatGemini, emulator: Emulator
) -> None:
    message = await ask(chat, way, max_output_tokens=5)
    assert message.response_metadata["finish_reason"] == "incomplete"
    assert message.text


def _without_the_end(outgoing: Outgoing) -> Outgoing:
    """The last piece of text, and all that follows, is missing; HTTP ends as usual."""
    return outgoing.with_steps(*outgoing.steps[:-5])


@rotated(way=["stream", "astream"])
async def test_a_cut_stream_raises_with_what_had_arrived(
    way: str, chat: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply("It is sunny in Oslo.", chunks=4, fault=_without_the_end)
    with pytest.raises(TruncatedStreamError) as failure:
        await ask(chat, way)
    assert failure.value.partial
    assert "It is sunny in Oslo.".startswith(failure.value.partial.text)


def test_an_error_in_a_stream_is_raised_with_its_code(chat: ChatGemini, emulator: Emulator) -> None:
    error = {"message": "Deadline expired before operation could complete."}
    event = {"event_type": "error", "error": error | {"code": "gateway_timeout"}}
    emulator.reply(events=[event])
    with pytest.raises(GeminiServerError, match="504: Deadline expired"):
        list(chat.stream("Hello"))


def test_unknown_events_steps_and_deltas_are_skipped_or_kept(
    chat: ChatGemini, emulator: Emulator
) -> None:
    new_step = {"type": "dream", "id": "d1"}
    emulator.reply(
        events=[
            {"event_type": "interaction.created", "interaction": {"id": "v1_a", "model": "m"}},
            {"event_type": "interaction.weather", "sky": "clear"},
            {"event_type": "step.start", "index": 0, "step": new_step},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "fog"}},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "dream", "of": "sheep"}},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "step.start", "index": 1, "step": {"type": "model_output"}},
            {"event_type": "step.delta", "index": 1, "delta": {"type": "text", "text": "Hi"}},
            {"event_type": "step.stop", "index": 1},
            {
                "event_type": "interaction.completed",
                "interaction": {"id": "v1_a", "status": "completed", "usage": {}},
            },
            "event: done\ndata: [DONE]\n\n",
        ]
    )
    [*chunks] = chat.stream("Hello")
    message = sum(chunks[1:], start=chunks[0])
    assert message.text == "Hi"
    assert message.additional_kwargs["__gemini_steps__"]["steps"] == [
        {**new_step, "of": "sheep"},
        {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
    ]


@rotated(way=WAYS)
async def test_a_response_that_requires_continuation_is_continued(
    way: str, chat: ChatGemini, emulator: Emulator
) -> None:
    def hop(text: str, status: str, **more: Any) -> Json:
        step = {"type": "model_output", "content": [{"type": "text", "text": text}]}
        usage = {"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5}
        return {"status": status, "model": "m", "steps": [step], "usage": usage, **more}

    def events(body: Json) -> list[Json]:
        [step] = body["steps"]
        text = step["content"][0]["text"]
        return [
            {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "interaction.completed", "interaction": body},
        ]

    first = hop("It is ", "requires_continuation", continuation_token="t1")
    for body in (first, hop("sunny.", "completed")):
        streamed = events(body) if "stream" in way else None
        emulator.reply(**({"events": streamed} if streamed else {"body": body}))
    message = await ask(chat, way)
    assert message.text == "It is sunny."
    assert emulator.last.body["continuation_token"] == "t1"
    assert emulator.last.body["input"] == [QUESTION]
    assert message.usage_metadata["output_tokens"] == 4


@rotated(way=WAYS)
async def test_a_malformed_answer_is_requested_again_with_feedback(
    way: str, make_model: MakeModel, emulator: Emulator, no_pauses: None
) -> None:
    chat = make_model(api="interactions", max_retries=1)
    emulator.reply("")
    emulator.reply("Sunny.")
    message = await ask(chat.bind_tools([get_weather]), way)
    assert message.text == "Sunny."
    said = emulator.last.steps[-1]["content"][0]["text"]
    assert said.startswith("Your last answer could not be used")


def test_feedback_follows_an_input_of_extra_body_in_every_form(
    make_model: MakeModel, emulator: Emulator, no_pauses: None
) -> None:
    bound = make_model(api="interactions", max_retries=1).bind_tools([get_weather])
    hello = {"type": "text", "text": "Hello"}
    forms: list[Any] = ["Hello", hello, [hello], [{"type": "user_input", "content": [hello]}]]
    for given in forms:
        emulator.reply("")
        emulator.reply("Sunny.")
        assert bound.invoke("Anything", extra_body={"input": given}).text == "Sunny."
        first, feedback = emulator.last.steps
        assert first == {"type": "user_input", "content": [hello]}
        assert feedback["content"][0]["text"].startswith("Your last answer could not be used")


# Histories


@pytest.mark.parametrize("call_id", ["mine", None], ids=["another id", "the same id"])
def test_a_changed_message_is_sent_without_its_steps(
    call_id: str | None, chat: ChatGemini, emulator: Emulator
) -> None:
    """A call that a user has edited before it is executed keeps its id."""
    message = chat.bind_tools([get_weather]).invoke("Weather in Oslo?")
    message.tool_calls[0]["args"] = {"city": "Rome"}
    [call] = message.tool_calls
    call["id"] = call_id or call["id"]
    result = ToolMessage("Sunny", tool_call_id=str(call["id"]))
    chat.invoke([HumanMessage("Weather in Oslo?"), message, result])
    assert emulator.last.steps[1:3] == [
        {"type": "thought", "signature": SKIP},
        {
            "type": "function_call",
            "id": call["id"],
            "name": "get_weather",
            "arguments": {"city": "Rome"},
        },
    ]
    assert emulator.refusals == []


@rotated(first=["interactions", "generate_content"], way=["invoke", "stream"])
async def test_a_conversation_moves_between_both_apis(
    first: str, way: str, make_model: MakeModel, emulator: Emulator
) -> None:
    apis = ["interactions", "generate_content"] * 2
    history: list[Any] = [HumanMessage("Weather in Oslo?")]
    for api in apis if first == "interactions" else reversed(apis):
        model = make_model(api=api).bind_tools([get_weather, {"google_search": {}}])
        message = model.invoke(history)
        history += through_json([message])
        history += [get_weather.invoke(call) for call in message.tool_calls]
        if not message.tool_calls:
            history.append(HumanMessage("Weather in Rome? Please search."))
    assert emulator.refusals == []
    assert len([each for each in history if isinstance(each, ToolMessage)]) == 2


KINDS: dict[str, Json] = {
    "generate_content": {"api": "generate_content"},
    "interactions": {"api": "interactions"},
    "stored interactions": {"api": "interactions", "use_previous_interaction": True},
}


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_everything_in_a_conversation_moves_between_apis(
    first: str, second: str, make_model: MakeModel, emulator: Emulator
) -> None:
    picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    history: list[Any] = [HumanMessage([{"type": "text", "text": "Weather?"}, picture])]
    tools: list[Any] = [get_weather, {"code_execution": {}}, {"google_search": {}}]
    cities = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
    for kind in (first, second, second, first):
        model = make_model(include_thoughts=True, **KINDS[kind]).bind_tools(tools)
        if isinstance(history[-1], ToolMessage):
            emulator.reply("It is 1.", thoughts="Done.", code=("print(1)", "1\n"))
        else:
            emulator.reply("I look.", thoughts="Hm.", calls=cities)
        message = model.invoke(history)
        assert message.text in {"It is 1.", "I look."}
        history += through_json([message])
        history += [
            ToolMessage([{"type": "text", "text": "Sunny"}, picture], tool_call_id=call["id"])
            for call in message.tool_calls
        ]
        if not message.tool_calls:
            history.append(HumanMessage("And now?"))
    assert emulator.refusals == []
    assert len([each for each in history if isinstance(each, ToolMessage)]) == 4


def test_another_vendor_s_history_is_sent(chat: ChatGemini, emulator: Emulator) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
    blocks: list[str | dict[Any, Any]] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "theirs"},
        {"type": "text", "text": "I look."},
        use,
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "text", "text": "I also searched."},
    ]
    call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "toolu_1"}
    theirs = AIMessage(blocks, tool_calls=[call], response_metadata={"model_provider": "anthropic"})
    chat.invoke(
        [HumanMessage("Weather in Oslo?"), theirs, ToolMessage("Sunny", tool_call_id="toolu_1")]
    )
    said = [content["text"] for content in emulator.last.steps[1]["content"]]
    assert (said[0], "web_search" in said[1], said[2]) == ("I look.", True, "I also searched.")
    assert [step["type"] for step in emulator.last.steps] == [
        "user_input",
        "model_output",
        "thought",
        "function_call",
        "function_result",
    ]
    assert "theirs" not in emulator.last.raw.decode()
    assert emulator.refusals == []


# State


@rotated(way=WAYS)
async def test_only_what_is_new_is_sent_if_interactions_are_kept(
    way: str, make_model: MakeModel, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    bound = chat.bind_tools([get_weather])
    message = await ask(bound, way)
    assert emulator.last.body["store"] is True
    [message] = through_json([message])
    result = get_weather.invoke(message.tool_calls[0])
    system = SystemMessage("Be brief.")
    history = [system, HumanMessage("Weather in Oslo?"), message, result]
    end = await bound.ainvoke(history)
    body = emulator.last.body
    assert body["previous_interaction_id"] == message.response_metadata["interaction_id"]
    assert [step["type"] for step in body["input"]] == ["function_result"]
    assert body["system_instruction"] == "Be brief."
    await bound.ainvoke([*history, end, HumanMessage("And now?")])
    assert [step["type"] for step in emulator.last.steps] == ["user_input"]
    assert emulator.refusals == []
    assert len([r for r in caplog.records if "lets Google keep" in r.getMessage()]) == 1


def test_a_repair_has_the_position_in_the_whole_history(
    make_model: MakeModel, emulator: Emulator
) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    bound = chat.bind_tools([get_weather])
    question = HumanMessage("Weather in Oslo?")
    history = [SystemMessage("Be brief."), question, bound.invoke([question]), HumanMessage("So?")]
    [repair] = bound.preview(history).repairs
    assert (repair.kind, repair.position) == ("unanswered_call", 2)
    with pytest.raises(InvalidHistoryError, match=r"^Message 2 cannot be sent unchanged"):
        bound.preview(history, on_broken_history="raise")


def test_the_request_stays_constant_in_size(make_model: MakeModel, emulator: Emulator) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    bound = chat.bind_tools([get_weather])
    history: list[Any] = []
    for _ in range(10):
        history.append(HumanMessage("Weather in Oslo?"))
        history.append(bound.invoke(history))
        history.append(get_weather.invoke(history[-1].tool_calls[0]))
        history.append(bound.invoke(history))
    sizes = [len(request.raw) for request in emulator.requests]
    assert sizes[-1] == sizes[3]
    assert sizes[-2] == sizes[2]


CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "edited": lambda messages: [HumanMessage("Other"), *messages[1:]],
    "trimmed": lambda messages: messages[2:],
    "an edited answer": lambda messages: [
        messages[0],
        messages[1].model_copy(update={"content": "Other"}),
        *messages[2:],
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_history_is_sent_whole_and_reported(
    name: str, make_model: MakeModel, emulator: Emulator
) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    messages: list[Any] = [HumanMessage("Hello")]
    for text in ("How are you?", "Good"):
        messages += [chat.invoke(messages), HumanMessage(text)]
    request: Any = chat.preview(CHANGES[name](messages))
    assert "previous_interaction_id" not in request.body
    assert request.repairs[0].kind == "previous_interaction"


def test_what_follows_an_answer_without_content_is_sent(
    make_model: MakeModel, emulator: Emulator
) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    thought = {"type": "thought", "summary": [{"type": "text", "text": "Hm."}]}
    emulator.reply(body={"id": "v1_a", "status": "incomplete", "model": "m", "steps": [thought]})
    answer = chat.invoke("Hello")
    request: Any = chat.preview([HumanMessage("Hello"), answer, HumanMessage("Weather in Oslo?")])
    assert request.body["previous_interaction_id"] == "v1_a"
    assert request.body["input"] == [QUESTION]


def delete(emulator: Emulator, name: str) -> None:
    url = f"{emulator.url}/v1beta/interactions/{name}"
    request = Request(url, method="DELETE", headers={"x-goog-api-key": API_KEY})
    with urlopen(request):
        pass


@rotated(way=WAYS)
async def test_an_interaction_that_is_gone_is_replaced_by_all_messages(
    way: str, make_model: MakeModel, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    chat = make_model(api="interactions", use_previous_interaction=True)
    first = chat.invoke("Hello")
    name = first.response_metadata["interaction_id"]
    await asyncio.to_thread(delete, emulator, name)
    history = [HumanMessage("Hello"), first, HumanMessage("Weather?")]
    if "stream" in way:
        assert [chunk async for chunk in chat.astream(history)]
    else:
        assert (await chat.ainvoke(history)).text
    assert len(emulator.last.steps) > 2
    assert "previous_interaction_id" not in emulator.last.body
    assert "The previous interaction is gone" in caplog.text


def test_nothing_is_stored_by_default(chat: ChatGemini, emulator: Emulator) -> None:
    message = chat.invoke("Hello")
    assert emulator.last.body["store"] is False
    assert "interaction_id" not in message.response_metadata


# Executors


@pytest.mark.parametrize("stored", [False, True])
def test_executors_run_on_it(stored: bool, make_model: MakeModel, emulator: Emulator) -> None:
    chat = make_model(api="interactions", use_previous_interaction=stored)
    prompt = ChatPromptTemplate.from_messages(
        [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
    )
    agent: Any = create_agent(chat, [get_weather])
    classic: Any = create_tool_calling_agent(chat, [get_weather], prompt)
    runs: list[Any] = [
        lambda: agent.invoke({"messages": [("user", "Weather in Oslo?")]})["messages"][-1].text,
        lambda: AgentExecutor(agent=classic, tools=[get_weather]).invoke(
            {"input": "Weather in Oslo?"}
        )["output"],
        lambda: ToolLoop(chat, [get_weather]).invoke("Weather in Oslo?").text,
        lambda: asyncio.run(ToolLoop(chat, [get_weather]).ainvoke("Weather in Oslo?")).text,
    ]
    for run in runs:
        emulator.requests.clear()
        assert "Sunny in Oslo" in str(run())
        assert len(emulator.requests) == 2
        types = [step["type"] for step in emulator.last.steps]
        whole = ["user_input", "thought", "function_call", "function_result"]
        assert types == (["function_result"] if stored else whole)
        assert emulator.last.steps[-1]["result"] == "Sunny in Oslo"
    assert emulator.refusals == []


def test_a_rejected_request_keeps_the_words_of_the_api(
    chat: ChatGemini, emulator: Emulator
) -> None:
    with pytest.raises(GeminiInvalidRequestError, match="invalid argument"):
        chat.invoke("Hello", extra_body={"sky": "clear"})
    [refusal] = emulator.refusals
    assert "does not have sky" in str(refusal)


def test_cassettes_record_and_replay_it_on_another_host(
    make_model: MakeModel, emulator: Emulator, tmp_path: Path
) -> None:
    def run(chat: ChatGemini) -> list[str]:
        with cassette(tmp_path / "interactions.yaml", record_mode="once"):
            streamed = "".join(str(chunk.text) for chunk in chat.stream("Hello you"))
            return [str(chat.invoke("Hello").text), streamed]

    recorded = run(make_model(api="interactions"))
    count = len(emulator.requests)
    elsewhere = make_model(api="interactions", base_url="https://generativelanguage.googleapis.com")
    assert run(elsewhere) == recorded
    assert len(emulator.requests) == count == 2
