"""Long answers of Gemini 4: several requests, one message, whole or streamed, cut or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import (
    BlockedError,
    EmptyResponseError,
    GeminiConnectionError,
    GeminiInvalidRequestError,
    GeminiServerError,
    GeminiTimeoutError,
    MalformedToolCallError,
    ResponseError,
    TruncatedResponseError,
    TruncatedStreamError,
)
from langchain_gemini_tools.testing.fake import faults
from tests.integration_tests.invoking import QUESTION, ask, logged_retries
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.script import Fault
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

ARGON = "gemini-4-argon"
TEXT = "The first half of a long sentence, then the second half of it, and at last its end."
CALL = ("get_weather", {"city": "Oslo"})
TOKEN = "dG9rZW4="
CONTINUED: dict[str, Any] = {
    "finish_reason": "CONTINUATION",
    "candidate": {"continuationToken": TOKEN},
}


def get_weather(city: str) -> str:
    """Look up the weather."""
    return f"Sunny in {city}"


def sent_tokens(emulator: Emulator) -> list[str | None]:
    """Check that all requests are the same but for their tokens, which are returned."""
    bodies = [dict(request.body) for request in emulator.requests]
    tokens = [body.pop("continuationToken", None) for body in bodies]
    assert all(body == bodies[0] for body in bodies)
    assert emulator.refusals == []
    return tokens


# One message


@rotated(hop_size=[1, 2, 3, 100], way=WAYS)
async def test_a_long_answer_is_one_message(
    emulator: Emulator, make_model: MakeModel, way: str, hop_size: int
) -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Let me think.", "thought": True},
        {"text": TEXT},
        {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}, "id": "c1"}},
    ]
    emulator.reply_long(parts=parts, hop_size=hop_size)
    model = make_model(model=ARGON)
    message = await ask(model.bind_tools([get_weather]), way)
    assert message.text == TEXT
    assert message.content[0]["thinking"] == "Let me think."
    assert [call["id"] for call in message.tool_calls] == ["c1"]
    assert message.invalid_tool_calls == []
    assert message.response_metadata["finish_reason"] == "STOP"
    assert "continuation_token" not in message.response_metadata
    tokens = sent_tokens(emulator)
    assert tokens[0] is None
    assert len(set(tokens)) == len(tokens)
    assert len(tokens) == -(-6 // hop_size)


@pytest.mark.parametrize("way", WAYS)
async def test_usage_is_the_sum_of_all_requests(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    first = {
        "promptTokenCount": 10,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 16,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
    }
    second = {
        "promptTokenCount": 16,
        "candidatesTokenCount": 5,
        "cachedContentTokenCount": 8,
        "totalTokenCount": 21,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 14},
            {"modality": "IMAGE", "tokenCount": 2},
        ],
    }
    emulator.reply("One, ", usage=first, **CONTINUED)
    emulator.reply("two.", usage=second)
    message = await ask(make_model(model=ARGON), way)
    assert message.text == "One, two."
    assert message.usage_metadata == {
        "input_tokens": 26,
        "output_tokens": 11,
        "total_tokens": 37,
        "input_token_details": {"image": 2, "cache_read": 8},
        "output_token_details": {"reasoning": 2},
    }
    assert message.response_metadata["raw_usage"]["promptTokensDetails"] == [
        {"modality": "TEXT", "tokenCount": 24},
        {"modality": "IMAGE", "tokenCount": 2},
    ]
    assert message.response_metadata["initial_prompt_token_count"] == 10


@pytest.mark.parametrize("way", WAYS)
async def test_citations_and_ratings_of_all_requests_are_kept(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    def grounded(words: str, uri: str) -> dict[str, Any]:
        segment = {"startIndex": 0, "endIndex": len(words), "text": words}
        return {
            "groundingMetadata": {
                "groundingChunks": [{"web": {"uri": uri, "title": uri}}],
                "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
                "webSearchQueries": [words],
            },
            "safetyRatings": [{"category": "A", "probability": words}],
        }

    first = grounded("Again ", "https://one.example") | CONTINUED["candidate"]
    emulator.reply("Again ", finish_reason="CONTINUATION", candidate=first)
    emulator.reply("Again ", candidate=grounded("Again ", "https://two.example"))
    message = await ask(make_model(model=ARGON), way)
    grounding = message.response_metadata["grounding_metadata"]
    assert [chunk["web"]["uri"] for chunk in grounding["grounding_chunks"]] == [
        "https://one.example",
        "https://two.example",
    ]
    assert [
        (each["segment"]["start_index"], each["grounding_chunk_indices"])
        for each in grounding["grounding_supports"]
    ] == [(0, [0]), (6, [1])]
    assert grounding["web_search_queries"] == ["Again ", "Again "]
    assert len(message.response_metadata["safety_ratings"]) == 1


@rotated(reason=["MAX_TOKENS", "SAFETY", "STOP"], way=WAYS)
async def test_the_finish_reason_is_that_of_the_last_request(
    emulator: Emulator, make_model: MakeModel, way: str, reason: str
) -> None:
    emulator.reply_long(TEXT, finish_reason=reason)
    message = await ask(make_model(model=ARGON), way)
    assert message.text == TEXT
    assert message.response_metadata["finish_reason"] == reason


REASONS: dict[str, type[ResponseError]] = {
    "MAX_TOKENS": TruncatedResponseError,
    "SAFETY": BlockedError,
    "MALFORMED_FUNCTION_CALL": MalformedToolCallError,
}


@rotated(reason=REASONS, way=WAYS)
async def test_calls_are_released_only_if_the_last_request_ends_well(
    emulator: Emulator, make_model: MakeModel, way: str, reason: type[ResponseError]
) -> None:
    word = next(name for name in REASONS if REASONS[name] is reason)
    emulator.reply("One.", calls=[CALL], **CONTINUED)
    emulator.reply("Two.", finish_reason=word)
    with pytest.raises(reason) as raised:
        await ask(make_model(model=ARGON).bind_tools([get_weather]), way)
    partial = raised.value.partial
    assert partial is not None
    assert partial.tool_calls == []
    assert [call["name"] for call in partial.invalid_tool_calls] == ["get_weather"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_million_tokens_fit_and_an_endless_answer_ends(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """A million tokens at 32,768 per request are 32 requests; the limit is 64."""
    emulator.reply_long("word " * 100, hop_size=1)
    message = await ask(make_model(model=ARGON), way)
    assert len(emulator.requests) in range(5, 64)
    emulator.requests.clear()
    emulator.reply_long(parts=[{"text": f"{n} "} for n in range(200)], hop_size=1)
    message = await ask(make_model(model=ARGON), way)
    assert len(emulator.requests) == 64
    assert message.response_metadata["finish_reason"] == "CONTINUATION"
    assert message.response_metadata["continuation_token"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_blocked_prompt_is_not_continued(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    hop = _hop({"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}})
    emulator.reply(body={**hop, "promptFeedback": {"blockReason": "SAFETY"}})
    with pytest.raises(BlockedError, match="The prompt was blocked: SAFETY"):
        await ask(make_model(model=ARGON).bind_tools([get_weather]), way)
    assert sent_tokens(emulator) == [None]


@pytest.mark.parametrize("way", WAYS)
async def test_feedback_without_a_reason_does_not_stop_a_long_answer(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    feedback = {"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}
    emulator.reply(body={**_hop({"text": "First, "}), **feedback})
    emulator.reply("then second.")
    assert (await ask(make_model(model=ARGON), way)).text == "First, then second."
    assert sent_tokens(emulator) == [None, TOKEN]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_later_request_without_an_answer_is_an_error(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("The first half", **CONTINUED)
    emulator.reply(body={"usageMetadata": {"promptTokenCount": 1}})
    with pytest.raises(EmptyResponseError) as caught:
        await ask(make_model(model=ARGON, on_malformed="raise"), way)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "The first half"


def _hop(part: dict[str, Any]) -> dict[str, Any]:
    continued = {"finishReason": "CONTINUATION", "continuationToken": TOKEN}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, **continued}]}


@pytest.mark.parametrize("way", WAYS)
async def test_a_token_that_does_not_change_is_not_sent_twice(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    for text in ("One, ", "two, "):
        emulator.reply(text, **CONTINUED)
    message = await ask(make_model(model=ARGON), way)
    assert message.text == "One, two, "
    assert message.response_metadata["finish_reason"] == "CONTINUATION"
    assert sent_tokens(emulator) == [None, TOKEN]


# Agents, prompted tools, structured output


@pytest.mark.parametrize("tool_calling", ["native", "prompted"])
@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_runs_the_tool_once_and_answers_in_full(
    emulator: Emulator, make_model: MakeModel, way: str, tool_calling: str
) -> None:
    cities: list[str] = []

    def look_up(city: str) -> str:
        """Look up the weather."""
        cities.append(city)
        return "Sunny."

    emulator.reply("I will look up ", **CONTINUED)
    if tool_calling == "native":
        emulator.reply("the weather.", calls=[("look_up", {"city": "Oslo"})])
    else:
        emulator.reply('the weather.\nTOOL_CALL: look_up({"city": "Oslo"})\n')
    emulator.reply_long("It is sunny in Oslo.", hop_size=1)
    chat = make_model(model=ARGON, tool_calling=tool_calling, streaming="stream" in way)
    agent: Any = create_agent(chat, [look_up], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    given = {"messages": QUESTION}
    match way:
        case "invoke":
            await asyncio.to_thread(agent.invoke, given, thread)
        case "ainvoke":
            await agent.ainvoke(given, thread)
        case "stream":
            await asyncio.to_thread(
                lambda: list(agent.stream(given, thread, stream_mode="messages"))
            )
        case _:
            async for _ in agent.astream(given, thread, stream_mode="messages"):
                pass
    messages = agent.get_state(thread).values["messages"]
    assert cities == ["Oslo"]
    assert messages[1].text.strip() == "I will look up the weather."
    assert messages[-1].text == "It is sunny in Oslo."
    assert emulator.refusals == []
    assert emulator.pending_replies == 0


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_counts_that_cannot_be_added_up_do_not_stop_a_checkpointer(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    usage = {"promptTokenCount": 2**63 - 1, "newCount": 2**63 - 1}
    for text, token in (("First, ", TOKEN), ("then ", TOKEN[::-1].replace("=", "A"))):
        candidate = {"continuationToken": token}
        emulator.reply(text, usage=usage, finish_reason="CONTINUATION", candidate=candidate)
    emulator.reply("second.", usage=usage)
    agent: Any = create_agent(make_model(model=ARGON), [get_weather], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    if way == "invoke":
        agent.invoke({"messages": QUESTION}, thread)
    else:
        list(agent.stream({"messages": QUESTION}, thread, stream_mode="messages"))
    assert agent.get_state(thread).values["messages"][-1].text == "First, then second."


def test_a_tool_loop_answers_in_full(emulator: Emulator, make_model: MakeModel) -> None:
    emulator.reply_long("I look.", calls=[CALL], hop_size=2)
    emulator.reply_long(TEXT, hop_size=2)
    result = ToolLoop(make_model(model=ARGON), [get_weather]).invoke(QUESTION)
    assert result.text == TEXT
    assert emulator.refusals == []


@rotated(method=["json_schema", "function_calling"], way=["invoke", "ainvoke"])
async def test_structured_output_continues(
    emulator: Emulator, make_model: MakeModel, way: str, method: str
) -> None:
    schema = {
        "title": "Weather",
        "description": "Weather.",
        "type": "object",
        "properties": {"city": {"type": "string"}},
    }
    if method == "json_schema":
        emulator.reply_long('{"city": "Oslo"}', hop_size=1)
    else:
        emulator.reply_long("Well.", calls=[("Weather", {"city": "Oslo"})], hop_size=1)
    chat: Any = make_model(model=ARGON)
    structured = chat.with_structured_output(schema, method=method)
    assert await ask(structured, way) == {"city": "Oslo"}
    assert len(sent_tokens(emulator)) > 1


# By hand


@rotated(tool_calling=["native", "prompted"], way=WAYS, where=["field", "call"])
async def test_without_automatic_continuation_a_hop_is_returned_with_its_token(
    emulator: Emulator, make_model: MakeModel, way: str, tool_calling: str, where: str
) -> None:
    if tool_calling == "native":
        emulator.reply("One.", calls=[CALL], **CONTINUED)
    else:
        emulator.reply('One.\nTOOL_CALL: get_weather({"city": "Oslo"})\n', **CONTINUED)
    emulator.reply("Two.")
    off: dict[str, Any] = {"automatic_continuation": False}
    chat: Any = make_model(
        model=ARGON, tool_calling=tool_calling, **(off if where == "field" else {})
    )
    bound = chat.bind_tools([get_weather], **(off if where == "call" else {}))
    message = await ask(bound, way)
    assert message.text.strip() == "One."
    assert message.tool_calls == []
    assert [call["name"] for call in message.invalid_tool_calls] == ["get_weather"]
    assert message.response_metadata["finish_reason"] == "CONTINUATION"
    assert message.response_metadata["continuation_token"] == TOKEN
    rest = await ask(bound.bind(continuation_token=TOKEN), way)
    assert rest.text == "Two."
    assert sent_tokens(emulator) == [None, TOKEN]


@pytest.mark.parametrize("way", WAYS)
async def test_a_given_token_is_followed_by_those_of_the_answer(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply_long(TEXT, hop_size=1)
    model = make_model(model=ARGON, max_retries=2)
    first = await ask(model.bind(automatic_continuation=False), way)
    token = first.response_metadata["continuation_token"]
    rest = await ask(model.bind_tools([], continuation_token=token), way)
    assert first.text + rest.text == TEXT
    assert sent_tokens(emulator)[:2] == [None, token]


@pytest.mark.parametrize("way", WAYS)
async def test_the_rest_of_an_answer_may_be_empty(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply("All of it.", **CONTINUED)
    emulator.reply(parts=[])
    model = make_model(model=ARGON, max_retries=2)
    first = await ask(model.bind(automatic_continuation=False), way)
    rest = await ask(model.bind(continuation_token=TOKEN), way)
    assert (first.text, rest.text) == ("All of it.", "")
    assert sent_tokens(emulator) == [None, TOKEN]


# Failures


@rotated(
    fault={
        "overloaded": faults.overloaded(),
        "cut": faults.cut_before_headers(),
        "too-many": faults.too_many_requests(retry_seconds=0),
    },
    way=WAYS,
)
async def test_a_later_request_is_retried_before_its_output(
    emulator: Emulator, make_model: MakeModel, way: str, fault: Fault
) -> None:
    emulator.reply_long(TEXT, hop_size=2, faults=[None, fault, fault])
    message = await ask(make_model(model=ARGON, max_retries=2), way)
    assert message.text == TEXT
    tokens = sent_tokens(emulator)
    assert tokens[1] == tokens[2] == tokens[3]


@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_request_leaves_the_answer_so_far_and_its_token(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply_long(TEXT, hop_size=2, faults=[None, faults.overloaded()])
    model = make_model(model=ARGON)
    with pytest.raises(GeminiServerError) as raised:
        await ask(model, way)
    partial = raised.value.partial
    assert isinstance(partial, AIMessage)
    token = partial.response_metadata["continuation_token"]
    assert partial.text
    assert TEXT.startswith(partial.text)
    rest = await ask(model.bind(continuation_token=token), way)
    assert partial.text + rest.text == TEXT


@pytest.mark.parametrize("way", WAYS)
async def test_a_later_request_that_is_rejected_does_not_start_the_answer_again(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """As a first request, it would be sent once more with the limits in descriptions."""
    emulator.reply("The first half", **CONTINUED)
    emulator.reply(fault=faults.http_error(400, "Request contains an invalid argument."))
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": 5}
    with pytest.raises(GeminiInvalidRequestError) as raised:
        await ask(make_model(model=ARGON, response_schema=schema, max_retries=2), way)
    assert raised.value.partial is not None
    assert raised.value.partial.text == "The first half"
    assert sent_tokens(emulator) == [None, TOKEN]


CUTS = {
    "cut": faults.cut_connection,
    "error": lambda after: faults.error_in_stream("event", after=after),
    "clean-end": lambda after: lambda outgoing: outgoing.with_steps(*outgoing.steps[:after]),
    "half-an-event": lambda after: (
        lambda outgoing: outgoing.with_steps(*outgoing.steps[:after], b'data: {"cand')
    ),
}


@pytest.mark.parametrize("after", [2, 3])
@rotated(cut=CUTS, way=STREAMS)
async def test_a_stream_that_is_cut_after_a_token_resumes_from_it(
    emulator: Emulator, make_model: MakeModel, way: str, cut: Any, after: int
) -> None:
    emulator.reply_long(TEXT, calls=[CALL], hop_size=100, first_checkpoint=1, faults=[cut(after)])
    seen: list[Any] = []
    message = await ask(make_model(model=ARGON).bind_tools([get_weather]), way, seen)
    assert message.text == TEXT
    assert [call["name"] for call in message.tool_calls] == ["get_weather"]
    assert len(sent_tokens(emulator)) == 2
    assert len([chunk for chunk in seen if chunk.text]) > 2


@pytest.mark.parametrize("way", STREAMS)
async def test_output_that_no_token_covers_is_not_repeated(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    def event(text: str, **fields: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 5, "candidatesTokenCount": len(text)}
        return {"candidates": [{"content": content, **fields}], "usageMetadata": usage}

    emulator.reply(
        events=[event("A"), event("B", continuationToken=TOKEN), event("CC")],
        fault=faults.cut_connection(after=3),
    )
    emulator.reply(events=[event("CC"), event("D", finishReason="STOP")])
    message = await ask(make_model(model=ARGON), way)
    assert message.text == "ABCCD"
    assert message.usage_metadata["output_tokens"] == 3
    assert sent_tokens(emulator) == [None, TOKEN]


@rotated(cut=CUTS, way=STREAMS)
async def test_a_stream_that_is_cut_before_a_token_fails(
    emulator: Emulator, make_model: MakeModel, way: str, cut: Any
) -> None:
    emulator.reply_long(TEXT, hop_size=100, first_checkpoint=2, faults=[cut(1)])
    seen: list[Any] = []
    with pytest.raises((GeminiConnectionError, GeminiServerError, TruncatedStreamError)) as raised:
        await ask(make_model(model=ARGON, max_retries=3), way, seen)
    assert len(emulator.requests) == 1
    error: Any = raised.value
    partial = error.partial
    assert partial is not None
    assert TEXT.startswith(partial.text)
    assert "continuation_token" not in partial.response_metadata


@rotated(cut=CUTS, way=STREAMS)
async def test_a_resumed_stream_that_shows_nothing_is_retried(
    emulator: Emulator,
    make_model: MakeModel,
    way: str,
    cut: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A call alone is not shown before the end, so its request can be retried."""
    emulator.reply("I look.", **CONTINUED)
    call = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}
    for fault in (cut(1), None):
        emulator.reply(parts=[call], fault=fault)
    chat = make_model(model=ARGON, max_retries=2)
    message = await ask(chat.bind_tools([get_weather]), way)
    assert len(message.tool_calls) == 1
    assert message.text == "I look."
    assert sent_tokens(emulator) == [None, TOKEN, TOKEN]
    assert logged_retries(caplog) == ["retry 1 of 2"]


@pytest.mark.parametrize("way", STREAMS)
async def test_timeouts_are_final_and_leave_the_token(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply_long(TEXT, hop_size=100, first_checkpoint=0, faults=[faults.stall(60, after=2)])
    with pytest.raises(GeminiTimeoutError) as raised:
        await ask(make_model(model=ARGON, timeout=1), way)
    assert len(emulator.requests) == 1
    partial = raised.value.partial
    assert partial is not None
    token = partial.response_metadata["continuation_token"]
    rest = await ask(make_model(model=ARGON).bind(continuation_token=token), way)
    assert partial.text + rest.text == TEXT


@pytest.mark.parametrize("way", STREAMS)
async def test_a_token_of_a_complete_stream_is_not_kept(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply_long(TEXT, hop_size=100, first_checkpoint=0)
    message = await ask(make_model(model=ARGON, automatic_continuation=False), way)
    assert message.text == TEXT
    assert "continuation_token" not in message.response_metadata
    assert isinstance(message, AIMessageChunk)
