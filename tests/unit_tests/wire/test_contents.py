"""Whole conversations; single rules have their tests beside `history`, `replay` and `blocks`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidInputError, UnsupportedBlockError
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    SKIP,
    Json,
    call,
    calling,
    contents,
    model,
    response,
    result,
    sent,
    tool_call,
    user,
)
from tests.unit_tests.wire.responses import call as replied_call
from tests.unit_tests.wire.responses import parse, reply, text

ASK = HumanMessage("Look!")


def test_an_agents_second_question_is_sent_whole() -> None:
    first = parse(reply([text("hm", thought=True), replied_call("a", sign="QQ==", q=1)]))
    second = parse(reply([text("Sunny.", thoughtSignature="Qg==")]))
    messages = [
        SystemMessage("Be brief."),
        ASK,
        first,
        result("a", '{"t": 21}'),
        second,
        HumanMessage("And now?"),
        calling(tool_call("b")),
        result("b", "x", status="error"),
    ]
    assert sent(messages) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            user("Look!"),
            model({"text": "hm", "thought": True}, call("a", sign="QQ==", q=1)),
            user(response("a", {"t": 21})),
            model({"text": "Sunny.", "thoughtSignature": "Qg=="}),
            user("And now?"),
            model(call("b", sign=SKIP)),
            user({"functionResponse": {"id": "b", "name": "search", "response": {"error": "x"}}}),
        ],
    }


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="nothing"),
        pytest.param([SystemMessage("A")], id="a system message only"),
        pytest.param([AIMessage("")], id="an empty answer only"),
    ],
)
def test_a_request_without_contents_is_rejected(messages: list[BaseMessage]) -> None:
    with pytest.raises(InvalidInputError, match="nothing to send"):
        contents(messages)


@pytest.mark.parametrize("kind", ["image", "hologram"])
def test_a_system_message_is_made_of_text(kind: str) -> None:
    block = {"type": kind, "base64": "AAAA", "mime_type": "image/png"}
    expected = rf"'{kind}' blocks in system messages\. Supported types: text\.$"
    with pytest.raises(UnsupportedBlockError, match=expected):
        contents([SystemMessage([block]), ASK])


@pytest.mark.parametrize("strange", ["x", None, ["x"], {"id": ["x"]}])
def test_a_part_that_is_echoed_may_contain_anything(strange: Any) -> None:
    part = {"functionCall": strange}
    said = AIMessage([{"type": "gemini_part", "part": part}])
    assert ChatGemini(model=GEMINI_2).preview([ASK, said, ASK]).body["contents"] == [
        user("Look!"),
        model(part),
        user("Look!"),
    ]


def test_a_renamed_tool_has_one_name_everywhere() -> None:
    messages = [ASK, calling(tool_call("a", "shop search")), result("a", "x", name="shop search")]
    body = sent(
        messages,
        tools=[{"type": "function", "function": {"name": "shop search", "description": "d"}}],
    )
    (declared,) = body["tools"][0]["functionDeclarations"]
    called = body["contents"][1]["parts"][0]["functionCall"]
    answered = body["contents"][2]["parts"][0]["functionResponse"]
    assert declared["name"] == called["name"] == answered["name"] != "shop search"


# Any conversation

IDS = st.sampled_from(["", "a", "b", "call_0", "call_1_0", "call_2_0"])
CONTENTS: st.SearchStrategy[Any] = st.sampled_from(
    ["", "said", ["said", {"type": "text", "text": ""}], [{"type": "text", "text": "said"}], []]
)
CALLS = st.lists(
    st.builds(lambda call_id, number: tool_call(call_id, q=number), IDS, st.integers(0, 3)),
    max_size=3,
)
INVALID = st.lists(
    st.builds(lambda call_id: {"id": call_id, "name": "search", "args": "q=1", "error": None}, IDS),
    max_size=1,
)
RESULTS: st.SearchStrategy[Any] = st.sampled_from(
    [
        lambda mark: mark,
        lambda mark: json.dumps({"value": mark}),
        lambda mark: [{"type": "text", "text": mark}],
        lambda mark: [{"value": mark}],
        lambda mark: [{"type": "json", "json": [mark]}],
        lambda mark: [mark, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}],
        lambda mark: [{"type": "file", "path": mark}],
    ]
)


def from_gemini(message: AIMessage) -> AIMessage:
    """The same, as Gemini would have said it: its first call signed."""
    calls = {found["id"]: found for found in reversed(message.tool_calls) if found["id"]}
    parts = [replied_call(key, sign="QQ==", **found["args"]) for key, found in calls.items()]
    return parse(reply([*parts, text("said")]))


MESSAGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(HumanMessage, CONTENTS),
    st.builds(SystemMessage, st.sampled_from(["", "rule"])),
    st.builds(
        lambda content, calls, invalid: AIMessage(
            content, tool_calls=calls, invalid_tool_calls=invalid
        ),
        CONTENTS,
        CALLS,
        INVALID,
    ),
    st.builds(lambda calls: from_gemini(AIMessage("", tool_calls=calls)), CALLS),
    st.tuples(IDS, RESULTS, st.sampled_from(["success", "error"])),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[BaseMessage], list[str]]:
    """Messages in any order, and the text of each tool result among them."""
    messages: list[BaseMessage] = []
    marks: list[str] = []
    for number, drawn in enumerate(draw(st.lists(MESSAGES, max_size=9))):
        if isinstance(drawn, tuple):
            call_id, write, status = drawn
            marks.append(f"mark-{number}-")
            messages.append(ToolMessage(write(marks[-1]), tool_call_id=call_id, status=status))
        else:
            messages.append(drawn)
    return [ASK, *messages] if draw(st.booleans()) else messages, marks


@given(conversations(), st.sampled_from([GEMINI_2, GEMINI_3]))
def test_any_conversation_keeps_the_rules_and_loses_no_result(
    conversation: tuple[list[BaseMessage], list[str]], name: str
) -> None:
    messages, marks = conversation
    try:
        body = sent(messages, name)  # held to the rules of the API
    except InvalidInputError as error:
        assert "nothing to send" in str(error)  # noqa: PT017 - the one reason there may be
        assert not marks
        return
    written = json.dumps(body)
    assert [mark for mark in marks if written.count(mark) != 1] == []
    assert count_calls(body["contents"]) == sum(map(calls_in, messages))


def calls_in(message: BaseMessage) -> int:
    if not isinstance(message, AIMessage):
        return 0
    invalid = [found for found in message.invalid_tool_calls if found["id"]]
    return len(message.tool_calls) + len(invalid)


def count_calls(found: list[Json]) -> int:
    return sum("functionCall" in part for content in found for part in content["parts"])
