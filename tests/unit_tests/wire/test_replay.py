from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    merge_message_runs,
    messages_from_dict,
    messages_to_dict,
)

from langchain_gemini_tools import ChatGemini
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    SKIP,
    Json,
    contents,
    repairs,
    result,
)
from tests.unit_tests.wire.responses import call, one_by_one, parse, reply, stream, text
from tests.unit_tests.wire.test_response import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = HumanMessage("Look!")
LOG = "__gemini_parts__"

CODE = {
    "executableCode": {"code": "1", "language": "PYTHON", "id": "e"},
    "thoughtSignature": "QQ==",
}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "2", "id": "e"}}
SERVER_CALL = {
    "toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH", "args": {"q": None}},
    "thoughtSignature": "Qg==",
}
SERVER_RESPONSE = {"toolResponse": {"id": "t", "response": {}}, "thoughtSignature": "Qw=="}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "RA=="}

REPLIES: dict[str, list[Json]] = {
    "text": [text("Sunny.")],
    "signed text": [text("Sunny.", thoughtSignature="QQ==")],
    "empty signed text": [text("Sunny."), text("", thoughtSignature="QQ==")],
    "only a signature": [text("", thoughtSignature="QQ==")],
    "signed texts": [text("a", thoughtSignature="QQ=="), text("b", thoughtSignature="Qg==")],
    "a signed call": [call("a", sign="QQ==", q=1), call("b")],
    "text, call": [text("I look."), call("a", sign="QQ==")],
    "call, text, call": [call("a", sign="QQ=="), text("and"), call("b")],
    "call, signed text": [call("a", sign="QQ=="), text("", thoughtSignature="Qg==")],
    "thought, call": [text("hm", thought=True), call("a", sign="QQ==")],
    "signed thought": [text("hm", thought=True, thoughtSignature="QQ=="), text("So.")],
    "text, thought, call, text": [
        text("first"),
        text("hm", thought=True),
        call("a", sign="QQ=="),
        text("last", thoughtSignature="Qg=="),
    ],
    "code": [CODE, OUTPUT, text("So.")],
    "code that prints nothing": [CODE, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}],
    "code, call": [text("I compute."), CODE, OUTPUT, call("a", sign="Qg=="), text("So.")],
    "call, server tool": [call("a", sign="QQ=="), SERVER_CALL, SERVER_RESPONSE, text("ok")],
    "a picture": [text("Here:"), PICTURE],
    "a sound": [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}],
    "an unknown field": [text("hi", partMetadata={"k": 1}), call("a", sign="QQ==")],
    "the model's own name": [call("a", "default_api.search", sign="QQ==")],
}


def through_json(message: AIMessage) -> BaseMessage:
    (restored,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    return restored


def as_v1(message: AIMessage) -> AIMessage:
    """What core makes of a message with `output_version="v1"`."""
    metadata = {**message.response_metadata, "output_version": "v1"}
    blocks = message.content_blocks
    return message.model_copy(update={"content": blocks, "response_metadata": metadata})


WAYS: dict[str, Callable[[list[Json]], BaseMessage]] = {
    "whole": lambda parts: parse(reply(parts)),
    "streamed": lambda parts: stream(one_by_one(parts)),
    "JSON": lambda parts: through_json(parse(reply(parts))),
    "streamed, JSON": lambda parts: through_json(stream(one_by_one(parts))),
    "v1": lambda parts: as_v1(parse(reply(parts))),
    "streamed, v1, JSON": lambda parts: through_json(as_v1(stream(one_by_one(parts)))),
}


def echoed(message: BaseMessage, model: str = GEMINI_3) -> list[Json]:
    """The parts of the model's turn when the conversation goes on."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    answers = [result(found["id"] or "", "x") for found in calls]
    follow_up = [] if answers else [HumanMessage("Go on.")]
    sent = contents([ASK, message, *answers, *follow_up], model)
    return sent[1]["parts"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parts", REPLIES.values(), ids=REPLIES)
def test_parts_go_back_as_they_came(parts: list[Json], way: str) -> None:
    assert echoed(WAYS[way](parts)) == parts


def another(parts: list[Json]) -> Json:
    """The same said in another answer, where calls have other ids."""
    reported = reply(json.loads(json.dumps(parts).replace('"id": "', '"id": "2_')))
    return {**reported, "responseId": "r2"}


def content_of(part: Json) -> Json:
    return {key: value for key, value in part.items() if key != "thoughtSignature"}


@pytest.mark.parametrize("separator", ["\n", ""], ids=["lines", "joined"])
@pytest.mark.parametrize("name", [name for name in REPLIES if name != "only a signature"])
def test_answers_that_langchain_merges_stay_apart(name: str, separator: str) -> None:
    parts = REPLIES[name]
    answers = [parse(reply(parts)), parse(another(parts))]
    (merged,) = merge_message_runs(answers, chunk_separator=separator)
    sent = echoed(merged)
    signatures = {part["thoughtSignature"] for part in parts if "thoughtSignature" in part}
    assert {part["thoughtSignature"] for part in sent if "thoughtSignature" in part} <= signatures
    said = [*parts, *(another(parts)["candidates"][0]["content"]["parts"])]
    plain = [part for part in said if "text" not in part or part.get("thought")]
    kept = [content_of(part) for part in sent if "text" not in part or part.get("thought")]
    named = json.dumps([content_of(part) for part in plain]).replace("default_api.", "")
    assert sorted(map(str, kept)) == sorted(map(str, json.loads(named)))
    texts = "".join(part.get("text", "") for part in said if not part.get("thought"))
    assert (
        "".join(part.get("text", "") for part in sent if not part.get("thought")).replace(
            separator, ""
        )
        == texts
    )


@pytest.mark.parametrize("nothing", [{}, {"responseId": ""}], ids=["none", "empty"])
def test_answers_of_a_server_that_gives_them_no_id_stay_apart(nothing: Json) -> None:
    parts = [text("hm", thought=True, thoughtSignature="QQ=="), text("So.")]
    body = {key: value for key, value in reply(parts).items() if key != "responseId"}
    (merged,) = merge_message_runs([parse({**body, **nothing}) for _ in range(2)])
    assert echoed(merged) == [*parts, *parts]


def test_a_signature_alone_is_a_step_of_media_processing_and_stays_here() -> None:
    steps = [{"thoughtSignature": "QQ=="}, {"thoughtSignature": "Qg=="}]
    message = parse(reply([*steps, text("a", thoughtSignature="Qw==")]))
    assert echoed(message) == [text("a", thoughtSignature="Qw==")]


def test_the_response_carries_the_name_the_model_used() -> None:
    message = parse(reply([call("a", "default_api.search", sign="QQ==")]))
    assert contents([ASK, message, result("a", "x")])[-1]["parts"] == [
        {
            "functionResponse": {
                "id": "a",
                "name": "default_api.search",
                "response": {"output": "x"},
            }
        }
    ]


@given(PARTS)
@example([text("", thought=True), CODE])
def test_whatever_the_model_wrote_goes_back_the_same_way_from_a_stream(parts: list[Json]) -> None:
    whole = [ASK, parse(reply(parts)), HumanMessage("Go on.")]
    streamed = [ASK, stream(one_by_one(parts)), HumanMessage("Go on.")]
    sent = [render(messages) for messages in (whole, streamed)]
    assert sent[0] == sent[1]
    # A signature alone stays here.
    signatures = {
        part.get("thoughtSignature") for part in parts if part.keys() > {"thoughtSignature"}
    }
    assert signatures <= {part.get("thoughtSignature") for part in sent[0]} | {None}


def render(messages: list[BaseMessage]) -> list[Json]:
    # With a built-in tool beside a function, so that steps of built-in tools may come back.
    tools = [{"google_search": {}}, {"name": "search", "description": "Searches."}]
    found = ChatGemini(model=GEMINI_3).preview(messages, tools=tools).body["contents"]
    return [dict(part) for content in found for part in content["parts"]]


# Messages that were changed


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("Edited.", id="text"),
        pytest.param([{"type": "text", "text": "Edited."}], id="blocks"),
    ],
)
def test_calls_keep_their_signatures_when_the_text_was_edited(content: Any) -> None:
    parts = [call("a", sign="QQ=="), text("and"), call("b")]
    message = parse(reply(parts)).model_copy(update={"content": content})
    assert echoed(message) == [text("Edited."), call("a", sign="QQ=="), call("b")]


def test_a_removed_call_is_not_sent() -> None:
    parts = [call("a", sign="QQ=="), text("and"), call("b")]
    message = parse(reply(parts))
    message.tool_calls = message.tool_calls[:1]
    assert echoed(message) == [text("and"), call("a", sign="QQ==")]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param("x", id="text"),
        pytest.param({"x": {}}, id="no numbers"),
        pytest.param({"x.0": 5}, id="no entries"),
        pytest.param({"x.0": {"text": "x"}}, id="no length"),
        pytest.param({"x.0": {"call": ["a"]}}, id="no id"),
        pytest.param({"x.0": {"call": "z"}}, id="another call"),
        pytest.param({"x.0": {"text": 99}}, id="another text"),
        pytest.param({"x.0": {"call": "a"}, "y.0": {"text": 7}}, id="of two answers"),
        pytest.param({"x.0": {"call": "a"}, 5: {"text": 7}}, id="a number for a key"),
        pytest.param({}, id="empty"),
    ],
)
def test_a_log_that_does_not_match_is_ignored(log: Any) -> None:
    message = parse(reply([text("I look."), call("a", sign="QQ==")]))
    message.additional_kwargs[LOG] = log
    assert echoed(message) == [text("I look."), call("a", sign="QQ==")]
    reported = ChatGemini(model=GEMINI_3).preview([ASK, message, result("a", "x")]).repairs
    assert [repair.kind for repair in reported] == ["changed_message"]


def reported(message: AIMessage) -> list[str]:
    return [repair.kind for repair in ChatGemini(model=GEMINI_3).preview([ASK, message]).repairs]


@pytest.mark.parametrize(
    ("parts", "content", "sent"),
    [
        pytest.param([PICTURE], "[removed]", [text("[removed]")], id="a picture"),
        pytest.param([CODE, OUTPUT], ["a", "b"], [text("a"), text("b")], id="code"),
        pytest.param([text("Paris", thoughtSignature="QQ==")], "Milan", [text("Milan")], id="text"),
    ],
)
def test_a_signature_is_not_put_on_what_stands_in_its_place(
    parts: list[Json], content: Any, sent: list[Json]
) -> None:
    message = parse(reply(parts))
    changed = message.model_copy(update={"content": content})
    assert echoed(changed) == sent
    assert "changed_message" in reported(changed)
    assert "changed_message" not in reported(message)


def test_logs_from_before_kinds_were_noted_still_fit() -> None:
    message = parse(reply([PICTURE, text("So.", thoughtSignature="QQ==")]))
    signed = {"block": 1, "signature": PICTURE["thoughtSignature"]}
    message.additional_kwargs[LOG] = {"0": signed, "1": {"block": 1}}
    assert echoed(message) == [PICTURE, text("So.", thoughtSignature="QQ==")]
    assert echoed(message.model_copy(update={"content": ["a", "b"]})) == [text("a"), text("b")]


def test_a_call_that_is_another_tools_by_now_goes_under_that_tools_name() -> None:
    message = parse(reply([call("a", "default_api.search", sign="QQ==")]))
    message.tool_calls[0]["name"] = "weather"
    assert echoed(message)[0]["functionCall"]["name"] == "weather"


def as_floats(value: Any) -> Any:
    """What a store makes of JSON that knows no integers."""
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("way", ["whole", "v1"])
@pytest.mark.parametrize("name", ["code", "signed texts", "call, text, call", "code, call"])
def test_a_store_may_know_no_integers(name: str, way: str) -> None:
    message = WAYS[way](REPLIES[name])
    [restored] = messages_from_dict(as_floats(messages_to_dict([message])))
    assert echoed(restored) == REPLIES[name]


def test_a_call_that_was_removed_from_a_v1_message_is_not_sent() -> None:
    message = as_v1(parse(reply([call("a", sign="QQ=="), call("b")])))
    kept = message.model_copy(update={"tool_calls": message.tool_calls[:1]})
    assert echoed(kept) == [call("a", sign="QQ==")]


# Calls that never had a signature


def unsigned(*ids: str) -> AIMessage:
    calls = [{"id": call_id, "name": "search", "args": {}} for call_id in ids]
    return AIMessage("", tool_calls=calls)


def signatures(messages: list[BaseMessage], model: str = GEMINI_3) -> list[str | None]:
    return [
        part.get("thoughtSignature")
        for content in contents(messages, model)
        for part in content["parts"]
        if "functionCall" in part
    ]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [ASK, unsigned("a", "b"), result("a"), result("b")], [SKIP, None], id="parallel"
        ),
        pytest.param(
            [ASK, unsigned("a"), result("a"), unsigned("b"), result("b")],
            [SKIP, SKIP],
            id="each step of the current turn",
        ),
        pytest.param(
            [ASK, unsigned("a"), result("a"), AIMessage("So."), ASK, unsigned("b"), result("b")],
            [None, SKIP],
            id="not in older turns",
        ),
        pytest.param(
            [ASK, unsigned("a"), result("a"), ASK], [None], id="the user has spoken since"
        ),
    ],
)
def test_the_skip_value_stands_only_where_it_is_needed(
    messages: list[BaseMessage], expected: list[str | None]
) -> None:
    assert signatures(messages) == expected
    assert signatures(messages, GEMINI_2) == [None] * len(expected)
    assert signatures(messages, "gemini-flash-latest") == expected


def test_a_real_signature_is_never_replaced() -> None:
    message = parse(reply([call("a", sign="QQ=="), call("b")]))
    assert signatures([ASK, message, result("a"), result("b")]) == ["QQ==", None]


@pytest.mark.parametrize("provider", ["anthropic", "openai", None])
def test_another_vendors_signatures_do_not_reach_gemini(provider: str | None) -> None:
    message = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "QUJD"},
            {"type": "redacted_thinking", "data": "QUJD"},
            {"type": "text", "text": "So.", "extras": {"signature": "QUJD"}},
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "QUJD"}},
        ],
        response_metadata={"model_provider": provider} if provider else {},
    )
    assert echoed(message) == [text("hm", thought=True), text("So."), text("hm", thought=True)]


def test_an_empty_answer_with_a_signature_is_kept() -> None:
    message = parse(reply([text("", thoughtSignature="QQ==")]))
    assert repairs([ASK, message, ASK]) == []
