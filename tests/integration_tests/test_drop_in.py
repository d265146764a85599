"""What code that was written for langchain-google-genai reads from a model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumps, loads
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableBinding

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.binding import GeminiBinding
from langchain_gemini_tools.errors import BlockedError, GeminiServerError
from tests.integration_tests.invoking import ask
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

Json = dict[str, Any]

RATINGS = [{"category": "HARM_CATEGORY_HARASSMENT", "probabilityScore": 0.1}]
GROUNDING: Json = {
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [
        {
            "segment": {"startIndex": 7, "endIndex": 12, "text": "sunny"},
            "groundingChunkIndices": [0],
        }
    ],
    "webSearchQueries": ["weather oslo"],
}


class Results(BaseCallbackHandler):
    """Keeps what tracers and other callbacks receive."""

    def __init__(self) -> None:
        self.generations: list[Any] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        self.generations += response.generations[0]


# Results


@rotated(way=WAYS)
async def test_callbacks_receive_how_a_response_ended(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    page = {"retrievedUrl": "https://a.example", "urlRetrievalStatus": "SUCCESS"}
    grounded = {
        "groundingMetadata": GROUNDING,
        "safetyRatings": RATINGS,
        "urlContextMetadata": {"urlMetadata": [page]},
    }
    emulator.reply("It is sunny.", candidate=grounded)
    results = Results()
    message = await ask(make_model(callbacks=[results]), way)
    [generation] = results.generations
    assert generation.generation_info == {
        "finish_reason": "STOP",
        "model_name": "gemini-3.8-flash",
        "safety_ratings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability_score": 0.1}],
        "grounding_metadata": message.response_metadata["grounding_metadata"],
        "url_context_metadata": {
            "url_metadata": [
                {"retrieved_url": "https://a.example", "url_retrieval_status": "SUCCESS"}
            ]
        },
    }
    pages = generation.generation_info["url_context_metadata"]
    assert message.response_metadata["url_context_metadata"] == pages


@rotated(way=WAYS)
async def test_a_response_without_safety_ratings_has_an_empty_list_of_them(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("Hello.")
    message = await ask(make_model(), way)
    assert message.response_metadata["safety_ratings"] == []


@rotated(way=WAYS)
async def test_lists_of_citations_that_the_api_did_not_send_are_empty(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    searched = {"searchEntryPoint": {"renderedContent": "<a/>"}, "webSearchQueries": ["oslo"]}
    emulator.reply("It is sunny.", candidate={"groundingMetadata": searched})
    message = await ask(make_model(), way)
    assert message.response_metadata["grounding_metadata"] == {
        "search_entry_point": {"rendered_content": "<a/>"},
        "web_search_queries": ["oslo"],
        "image_search_queries": [],
        "grounding_chunks": [],
        "grounding_supports": [],
    }
    assert message.content_blocks == [{"type": "text", "text": "It is sunny."}]


@rotated(way=WAYS)
async def test_prompted_tools_have_the_same_generation_info(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("Hello.")
    results = Results()
    tools = [{"name": "search", "description": "Search.", "parameters": {"type": "object"}}]
    chat = make_model(callbacks=[results], tool_calling="prompted").bind_tools(tools)
    await ask(chat, way)
    [generation] = results.generations
    assert generation.generation_info["finish_reason"] == "STOP"


# Citations


@rotated(way=STREAMS, pieces=[["It is ", "sunny."], ["It is sunny."]])
async def test_citations_survive_in_streams_of_content_blocks(
    way: str, pieces: list[str], emulator: Emulator, make_model: MakeModel
) -> None:
    events = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
    end = {"content": {"parts": []}, "finishReason": "STOP", "groundingMetadata": GROUNDING}
    streamed = [*events, {"candidates": [end]}]
    emulator.reply(events=streamed)
    emulator.reply(events=streamed)
    chat = make_model(output_version="v1")
    merged = await ask(chat, way)
    whole = await ask(chat, "invoke")
    [block] = merged.content
    assert block["text"] == "It is sunny."
    assert [each["url"] for each in block["annotations"]] == ["https://a.example"]
    without_ids = [
        [{key: each[key] for key in each if key != "id"} for each in message["annotations"]]
        for message in (block, whole.content[0])
    ]
    assert without_ids[0] == without_ids[1]


@rotated(way=STREAMS)
async def test_citations_are_on_the_first_text_block_after_thoughts(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    thought = {"text": "Hm.", "thought": True}
    emulator.reply(
        parts=[thought, {"text": "It is sunny."}],
        candidate={"groundingMetadata": GROUNDING},
        signed=False,
    )
    message = await ask(make_model(output_version="v1"), way)
    assert [block["type"] for block in message.content] == ["reasoning", "text"]
    assert message.content[1]["annotations"][0]["url"] == "https://a.example"


@rotated(
    way=STREAMS,
    options=[
        {"automatic_continuation": False},
        {"on_malformed": "return"},
        {"on_malformed": "raise"},
    ],
)
async def test_citations_are_on_the_text_after_streamed_arguments(
    way: str, options: Json, emulator: Emulator, make_model: MakeModel
) -> None:
    call = {"name": "f", "id": "c1", "willContinue": True}
    parts: list[Json] = [{"functionCall": call}, {"functionCall": {}}, {"text": "It is sunny."}]
    events = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    end = {"content": {"parts": []}, "finishReason": "STOP", "groundingMetadata": GROUNDING}
    emulator.reply(events=[*events, {"candidates": [end]}])
    message = await ask(make_model(output_version="v1", **options), way)
    [block] = [block for block in message.content if block["type"] == "text"]
    assert block["text"] == "It is sunny."
    assert block["annotations"][0]["url"] == "https://a.example"


@rotated(way=STREAMS)
async def test_without_content_blocks_cited_text_stays_a_string(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("It is sunny.", candidate={"groundingMetadata": GROUNDING})
    message = await ask(make_model(), way)
    assert message.content == "It is sunny."
    assert message.content_blocks[0]["annotations"][0]["url"] == "https://a.example"


# Function calls in the form that is older than `tool_calls`

WEATHER = {
    "name": "get_weather",
    "description": "Current weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
OSLO = ("get_weather", {"city": "Oslo"})
ROME = ("get_weather", {"city": "Rome"})
OF_ROME = {"name": "get_weather", "arguments": '{"city": "Rome"}'}


@rotated(way=WAYS, how=["bound", "in the call"])
async def test_functions_are_tools_with_a_note(
    way: str, how: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(calls=[OSLO, ROME])
    given: Json = {"functions": [WEATHER], "tool_choice": "any"}
    bind = make_model().bind if how == "bound" else partial(_bind_plainly, make_model())
    with pytest.warns(DeprecationWarning, match="bind_tools"):
        message = await ask(bind(**given), way)
    [declared] = emulator.requests[-1].body["tools"][0]["functionDeclarations"]
    assert declared["name"] == "get_weather"
    assert message.additional_kwargs["function_call"] == OF_ROME
    assert [call["args"]["city"] for call in message.tool_calls] == ["Oslo", "Rome"]


def _bind_plainly(model: ChatGemini, **options: Any) -> Any:
    return RunnableBinding(bound=model, kwargs=options)


def test_bound_tools_replace_functions(make_model: MakeModel) -> None:
    chat = make_model().bind(functions=[WEATHER]).bind_tools([{**WEATHER, "name": "forecast"}])
    [declared] = chat.preview("Hi").body["tools"][0]["functionDeclarations"]
    assert declared["name"] == "forecast"


def test_bound_functions_are_stored_as_tools(make_model: MakeModel) -> None:
    with pytest.warns(DeprecationWarning, match="'functions' is deprecated"):
        bound = make_model().bind(functions=[get_weather])
    stored = loads(
        dumps(bound),
        allowed_objects=[ChatGemini, GeminiBinding],
        valid_namespaces=["langchain_gemini_tools"],
    )
    assert stored.preview("Hi").body == bound.preview("Hi").body


def get_weather(city: str) -> str:
    """Look up the weather."""
    return f"Sunny in {city}"


@rotated(way=WAYS)
async def test_prompted_calls_have_a_function_call_as_well(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply('TOOL_CALL: get_weather({"city": "Rome"})')
    chat = make_model(tool_calling="prompted").bind_tools([WEATHER])
    message = await ask(chat, way)
    assert message.additional_kwargs["function_call"] == OF_ROME


@rotated(way=WAYS, kind=["native", "prompted"])
async def test_a_response_that_did_not_end_well_has_no_function_call(
    way: str, kind: str, emulator: Emulator, make_model: MakeModel
) -> None:
    called: Json = {"calls": [OSLO]}
    if kind == "prompted":
        called = {"text": 'TOOL_CALL: get_weather({"city": "Oslo"})'}
    emulator.reply(finish_reason="SAFETY", **called)
    emulator.reply(finish_reason="SAFETY", **called)
    returning = make_model(tool_calling=kind, on_malformed="return").bind_tools([WEATHER])
    message = await ask(returning, way)
    assert message.invalid_tool_calls
    assert "function_call" not in message.additional_kwargs
    with pytest.raises(BlockedError) as caught:
        await ask(make_model(tool_calling=kind).bind_tools([WEATHER]), way)
    assert caught.value.partial is not None
    assert "function_call" not in caught.value.partial.additional_kwargs


async def test_a_call_that_was_removed_is_not_sent_again(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("I will look.", calls=[OSLO])
    chat = make_model().bind_tools([WEATHER])
    message = await ask(chat, "invoke")
    edited = message.model_copy(update={"tool_calls": []})
    body = chat.preview([HumanMessage("Weather?"), edited, HumanMessage("Stop.")]).body
    assert [list(part) for content in body["contents"] for part in content["parts"]] == [
        ["text"],
        ["text"],
        ["text"],
    ]


# Tools


@rotated(way=WAYS, tool_calling=["native", "prompted"])
async def test_a_required_builtin_tool_is_sent_without_the_choice_and_with_one_warning(
    way: str,
    tool_calling: str,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    emulator.reply("Two restaurants.")
    emulator.reply("Two restaurants.")
    place = {"retrieval_config": {"lat_lng": {"latitude": 48.858844, "longitude": 2.294351}}}
    bound = make_model(tool_calling=tool_calling).bind_tools(
        [{"google_maps": {}}], tool_choice="required", tool_config=place
    )
    for _ in range(2):
        message = await ask(bound, way)
    assert message.text == "Two restaurants."
    assert emulator.requests[-1].body["toolConfig"] == {
        "retrievalConfig": {"latLng": {"latitude": 48.858844, "longitude": 2.294351}}
    }
    [warning] = [each for each in caplog.messages if "tool_choice" in each]
    assert "only functions can be required" in warning


@pytest.mark.parametrize("functions", [[], [WEATHER]], ids=["alone", "beside a function"])
def test_none_does_not_forbid_tools_of_google(
    functions: list[Any],
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = make_model().bind_tools([*functions, {"google_search": {}}], tool_choice="none")
    bound.invoke("Hello")
    assert {"googleSearch": {}} in emulator.last.body["tools"]
    [warning] = [each for each in caplog.messages if "tool_choice" in each]
    assert "forbids functions only" in warning


@pytest.mark.parametrize("is_bound", [False, True])
def test_tool_config_may_be_the_second_argument(make_model: MakeModel, *, is_bound: bool) -> None:
    config = {"function_calling_config": {"mode": "ANY"}}
    model = make_model().bind(max_tokens=5) if is_bound else make_model()
    body = model.bind_tools([WEATHER], config).preview("Hi").body
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


# Errors


@rotated(way=WAYS)
async def test_an_error_of_the_api_names_the_model(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    body = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded."}}
    emulator.reply(status=503, body=body)
    with pytest.raises(GeminiServerError) as caught:
        await ask(make_model(), way)
    assert caught.value.model == "gemini-3.8-flash"
    assert str(caught.value) == (
        "Error calling model 'gemini-3.8-flash' (UNAVAILABLE): 503 UNAVAILABLE: Overloaded."
    )


# Blocked text


@rotated(way=WAYS, output_version=["v0", "v1"])
async def test_blocked_text_is_returned_and_the_conversation_goes_on(
    way: str, output_version: str, emulator: Emulator, make_model: MakeModel
) -> None:
    blocked: Json = {"finish_reason": "SAFETY", "finish_message": "Unsafe."}
    emulator.reply("I think", **blocked)
    emulator.reply("Let us talk about fjords.")
    chat = make_model(output_version=output_version)
    message = await ask(chat, way)
    assert message.text == "I think"
    assert message.response_metadata["finish_reason"] == "SAFETY"
    # langchain-core 1.7.7 and later add a block with the reason.
    assert [block["type"] for block in message.content_blocks][:1] == ["text"]
    assert {block["type"] for block in message.content_blocks} <= {"text", "refusal"}
    chat.invoke([HumanMessage("Hi"), message, HumanMessage("Go on.")])
    sent = emulator.requests[-1].body["contents"][1]["parts"]
    assert [part["text"] for part in sent if part["text"]] == ["I think"]


@rotated(way=WAYS)
async def test_a_blocked_prompt_raises(way: str, emulator: Emulator, make_model: MakeModel) -> None:
    emulator.reply(body={"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    with pytest.raises(BlockedError, match="The prompt was blocked: PROHIBITED_CONTENT"):
        await ask(make_model(), way)


# Models


@rotated(way=WAYS)
async def test_a_model_that_was_used_equals_one_that_was_not(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("Hello.")
    used = make_model()
    await ask(used, way)
    assert used == make_model()
    assert used != make_model(temperature=0.1)
