"""Recorded interactions: each parses, and each follow-up is rendered again from our own messages.

Requests are compared in a normal form. These forms are equivalent:

- `input` as a string, a content, a list of contents, or a `user_input` step with them
- a `function_result` inside of a `user_input`, or as a step (the SDK sends the latter)
- `stream: false`, or nothing; `store: true`, or nothing
- beside `previous_interaction_id`, the recorded clients repeat only the model; we also repeat
  tools, system instruction and generation config, as Google's page advises
- a function without arguments has a schema without properties, or no schema
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import operator
from typing import TYPE_CHECKING, Any, cast

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import (
    GeminiInvalidRequestError,
    GeminiToolsError,
    TruncatedStreamError,
)
from tests.recordings import require_more_recordings

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")
NO_ARGUMENTS: Json = {"type": "object", "properties": {}, "required": []}
CONFIG = ("temperature", "max_output_tokens", "thinking_level")


def conversations() -> list[Json]:
    return [each for each in require_more_recordings() if each["kind"] == "interactions"]


class Replay:
    """Plays the responses of a conversation, and keeps what was sent."""

    def __init__(self, exchanges: list[Json]) -> None:
        self._exchanges: Iterator[Json] = iter(exchanges)
        self.sent: list[Json] = []
        self.paths: list[str] = []

    def __call__(self, request: Any) -> Any:
        self.sent.append(json.loads(request.content))
        self.paths.append(request.url.path)
        exchange = next(self._exchanges)
        if (chunks := exchange.get("response_chunks")) is None:
            return hx.Response(exchange["status"], json=exchange["response_json"])
        events = [f"event: {each['event_type']}\ndata: {json.dumps(each)}\n\n" for each in chunks]
        return hx.Response(200, text="".join([*events, "event: done\ndata: [DONE]\n\n"]))


def model_for(exchange: Json, replay: Replay, **options: Any) -> ChatGemini:
    return ChatGemini(
        model=exchange["model"] or "gemini-2.5-flash",
        api="interactions",
        api_key="not-a-key",
        max_retries=0,
        client_args={"transport": hx.MockTransport(replay)},
        **options,
    )


def options_of(request: Json) -> Json:
    config = request.get("generation_config", {})
    options = {key: config[key] for key in CONFIG if key in config}
    if summaries := config.get("thinking_summaries"):
        options["include_thoughts"] = summaries == "auto"
    if "tools" in request:
        options["tools"] = request["tools"]
    if "tool_choice" in config:
        options["tool_choice"] = config["tool_choice"]
    return options


def messages_of(request: Json) -> Iterator[BaseMessage]:
    if instruction := request.get("system_instruction"):
        yield SystemMessage(instruction)
    for step in steps_of(request["input"]):
        match step:
            case {"type": "function_result", "result": result}:
                text = result if isinstance(result, str) else json.dumps(result)
                yield ToolMessage(text, tool_call_id=step["call_id"], name=step.get("name"))
            case {"type": "user_input", "content": contents}:
                yield HumanMessage([*map(_block, contents)])
            case {"type": "model_output", "content": contents}:
                yield AIMessage([*map(_block, contents)])
            case _:
                raise AssertionError(step)


def _block(content: Json) -> Json:
    match content:
        case {"type": "image", "data": data, "mime_type": mime}:
            kept = {"media_resolution": content["resolution"]} if "resolution" in content else {}
            return {"type": "image", "base64": data, "mime_type": mime, **kept}
        case {"type": kind, "uri": uri}:
            mime = {"mime_type": content["mime_type"]} if "mime_type" in content else {}
            return {"type": kind, "url": uri, **mime}
    return content


def steps_of(given: Any) -> list[Json]:
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    given = given if isinstance(given, list) else [given]
    if "text" in {item["type"] for item in given}:
        given = [{"type": "user_input", "content": given}]
    steps: list[Json] = []
    for step in given:
        contents = step.get("content", [])
        results = [item for item in contents if item["type"] == "function_result"]
        steps += results or [step]
    return steps


def normal(request: Json) -> Json:
    body = {key: value for key, value in request.items() if value or key == "store"}
    if "tools" in body:
        body["tools"] = [
            {k: v for k, v in tool.items() if v != NO_ARGUMENTS} for tool in body["tools"]
        ]
    return {**body, "input": steps_of(request["input"]), "store": body.get("store", True)}


def ask(model: ChatGemini, exchange: Json, messages: list[BaseMessage], options: Json) -> AIMessage:
    if "response_chunks" not in exchange:
        return model.invoke(messages, **options)
    return functools.reduce(operator.add, list(model.stream(messages, **options)))


def through_json(message: AIMessage) -> AIMessage:
    """The message as a checkpoint returns it."""
    [loaded] = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(loaded, AIMessage)
    return loaded


def is_playable(exchange: Json) -> bool:
    """Whether the model has the options of the request."""
    return not (exchange["request_json"] or {}).keys() & {"background", "agent"}


def test_every_reply_parses_and_every_request_is_rendered_again() -> None:
    played = 0
    for conversation in conversations():
        exchanges = [each for each in conversation["exchanges"] if is_playable(each)]
        replay = Replay(exchanges)
        history: list[BaseMessage] = []
        for exchange in exchanges:
            request = exchange["request_json"]
            stored = bool(request and request.get("previous_interaction_id"))
            model = model_for(exchange, replay, store=True, use_previous_interaction=stored)
            new: list[BaseMessage] = [*messages_of(request)] if request else [HumanMessage("Hello")]
            history = [*history, *new] if stored else new
            message = ask(model, exchange, history, options_of(request or {}))
            history.append(through_json(message))
            if request:
                compare(replay.sent[-1], request, is_follow_up=stored)
            see(message, exchange)
            played += 1
    assert played >= 20


def compare(sent: Json, recorded: Json, *, is_follow_up: bool) -> None:
    ours, theirs = normal(sent), normal(recorded)
    if is_follow_up:
        ours = {key: value for key, value in ours.items() if key in theirs}
    assert ours == theirs


def see(message: AIMessage, exchange: Json) -> None:
    """The message says what the reply says."""
    chunks: Any = exchange.get("response_chunks")
    whole = exchange.get("response_json") or chunks[-1]["interaction"]
    assert message.response_metadata["finish_reason"] == whole["status"]
    # An interaction that is not stored has no id.
    assert message.response_metadata.get("interaction_id") == whole.get("id")
    assert message.usage_metadata
    assert message.usage_metadata["total_tokens"] == whole["usage"]["total_tokens"]
    steps = whole.get("steps")
    if steps is None:
        deltas = [each["delta"] for each in chunks if each["event_type"] == "step.delta"]
        text = "".join(each["text"] for each in deltas if each["type"] == "text")
        args = [
            json.loads(each["arguments"])
            for each in deltas
            if "arguments" in each and isinstance(each["arguments"], str)
        ]
    else:
        outputs = [step for step in steps if step["type"] == "model_output"]
        text = "".join(each.get("text", "") for step in outputs for each in step["content"])
        args = [step["arguments"] for step in steps if step["type"] == "function_call"]
    assert message.text == text
    assert [call["args"] for call in message.tool_calls] == args


def test_steps_are_sent_back_as_they_came_after_json() -> None:
    for conversation in conversations():
        for exchange in filter(is_playable, conversation["exchanges"]):
            model = model_for(exchange, Replay([exchange]))
            message = through_json(ask(model, exchange, [HumanMessage("Hello")], {}))
            results = [ToolMessage("18", tool_call_id=call["id"]) for call in message.tool_calls]
            sent: Any = model.preview([HumanMessage("Hello"), message, *results, ("user", "Go on")])
            steps = sent.body["input"]
            kept = message.additional_kwargs["__gemini_steps__"]["steps"]
            assert steps[1 : 1 + len(kept)] == kept
            assert sent.repairs == []
            if exchange.get("response_json"):
                assert kept == exchange["response_json"]["steps"]
            assert "" not in [step.get("signature") for step in steps]


def said(message: AIMessage) -> Any:
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return message.text, calls, message.additional_kwargs["__gemini_steps__"]["steps"]


def test_a_recorded_stream_says_the_same_as_its_steps_in_one_piece() -> None:
    for exchange in recorded_streams():
        streamed = ask(model_for(exchange, Replay([exchange])), exchange, [HumanMessage("Hi")], {})
        steps = streamed.additional_kwargs["__gemini_steps__"]["steps"]
        body = {**exchange["response_chunks"][-1]["interaction"], "steps": steps}
        whole = {**exchange, "response_json": body}
        del whole["response_chunks"]
        message = ask(model_for(whole, Replay([whole])), whole, [HumanMessage("Hi")], {})
        assert said(message) == said(streamed)
        assert message.usage_metadata == streamed.usage_metadata
        assert message.response_metadata == streamed.response_metadata
        kinds = [[block["type"] for block in each.content_blocks] for each in (message, streamed)]
        assert kinds[0] == kinds[1]


def recorded_streams() -> list[Json]:
    exchanges = [exchange for each in conversations() for exchange in each["exchanges"]]
    streams = [each for each in exchanges if each.get("response_chunks") and is_playable(each)]
    assert len(streams) >= 8
    return streams


def test_a_recorded_stream_that_is_cut_anywhere_gives_no_answer_and_no_call() -> None:
    for exchange in recorded_streams():
        events = exchange["response_chunks"]
        model = model_for(exchange, Replay([exchange]))
        whole = ask(model, exchange, [HumanMessage("Hi")], {})
        for count in range(0, len(events), max(1, len(events) // 25)):
            cut = {**exchange, "response_chunks": events[:count]}
            with pytest.raises(TruncatedStreamError) as failure:
                ask(model_for(cut, Replay([cut])), cut, [HumanMessage("Hi")], {})
            if partial := failure.value.partial:
                assert whole.text.startswith(partial.text)
                assert partial.tool_calls == []


def test_repeated_and_exchanged_events_never_change_a_call() -> None:
    for exchange in recorded_streams():
        events = exchange["response_chunks"]
        whole = ask(model_for(exchange, Replay([exchange])), exchange, [HumanMessage("Hi")], {})
        for number in range(0, len(events) - 1, max(1, len(events) // 25)):
            first, second = events[number], events[number + 1]
            for wrong in ([first, first, second], [second, first]):
                changed = [*events[:number], *wrong, *events[number + 2 :]]
                played = {**exchange, "response_chunks": changed}
                try:
                    message = ask(
                        model_for(played, Replay([played])), played, [HumanMessage("Hi")], {}
                    )
                except GeminiToolsError:
                    continue
                assert message.tool_calls == whole.tool_calls


def test_searches_are_citations_and_blocks() -> None:
    found = [each for each in conversations() if "google-search" in each["id"]]
    for conversation in found:
        exchange = conversation["exchanges"][0]
        model = model_for(exchange, Replay([exchange]))
        message = ask(model, exchange, [HumanMessage("What is new?")], {})
        grounding = message.response_metadata["grounding_metadata"]
        assert grounding["web_search_queries"]
        kinds = [
            block["part"]["interactionStep"]["type"]
            for block in message.content
            if isinstance(block, dict) and block["type"] == "gemini_part"
        ]
        assert kinds == ["google_search_call", "google_search_result"]
        citations = [
            note
            for block in message.content_blocks
            for note in cast("Any", block).get("annotations", ())
        ]
        assert bool(citations) is bool(grounding.get("grounding_supports"))
    assert len(found) == 3


def test_a_refusal_is_an_error_with_the_words_of_the_api() -> None:
    [refused] = [
        exchange
        for each in conversations()
        for exchange in each["exchanges"]
        if exchange["status"] == 400
    ]
    replay = Replay([refused])
    body = {"background": True, "store": True}
    with pytest.raises(GeminiInvalidRequestError, match="does not support background"):
        model_for(refused, replay).invoke("Hello", extra_body=body)
    assert replay.paths == ["/v1beta/interactions"]
