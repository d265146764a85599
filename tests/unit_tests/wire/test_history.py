from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidHistoryError
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    NOT_EXECUTED,
    SKIP,
    Json,
    call,
    calling,
    contents,
    model,
    repairs,
    response,
    result,
    sent,
    tool_call,
    user,
)

ASK = HumanMessage("Look!")
TRIMMED = "(The beginning of this conversation was left out.)"
CONTINUE = "(Continue.)"
EMPTY = "(empty message)"


@pytest.mark.parametrize(
    ("messages", "expected", "repaired"),
    [
        pytest.param(
            [ASK, calling(tool_call("a", q=1)), result("a", "x")],
            [user("Look!"), model(call("a", sign=SKIP, q=1)), user(response("a", "x"))],
            [],
            id="a clean one",
        ),
        pytest.param(
            [ASK, calling(tool_call("a"), tool_call("b")), result("b", "y"), result("a", "x")],
            [
                user("Look!"),
                model(call("a", sign=SKIP), call("b")),
                user(response("a", "x"), response("b", "y")),
            ],
            [],
            id="results in another order",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a")),
                calling(tool_call("b"), content="Again."),
                AIMessage("Done."),
                HumanMessage("Thanks."),
            ],
            [
                user("Look!"),
                model(call("a")),
                user(response("a", NOT_EXECUTED)),
                model("Again.", call("b")),
                user(response("b", NOT_EXECUTED)),
                model("Done."),
                user("Thanks."),
            ],
            [("unanswered_call", 1), ("unanswered_call", 2)],
            id="all tool messages were removed",
        ),
        pytest.param(
            [ASK, calling(tool_call("a"), tool_call("b")), result("b", "y")],
            [
                user("Look!"),
                model(call("a", sign=SKIP), call("b")),
                user(response("a", NOT_EXECUTED), response("b", "y")),
            ],
            [("unanswered_call", 1)],
            id="parallel calls, half answered",
        ),
        pytest.param(
            [ASK, calling(tool_call("a")), HumanMessage("Never mind.")],
            [
                user("Look!"),
                model(call("a")),
                user(response("a", NOT_EXECUTED)),
                user("Never mind."),
            ],
            [("unanswered_call", 1)],
            id="a call, interrupted",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("call_0", q=1)),
                result("call_0", "x"),
                calling(tool_call("call_0", q=2)),
                result("call_0", "y"),
            ],
            [
                user("Look!"),
                model(call("call_0", sign=SKIP, q=1)),
                user(response("call_0", "x")),
                model(call("call_0", sign=SKIP, q=2)),
                user(response("call_0", "y")),
            ],
            [],
            id="ids recycled in each turn",
        ),
        pytest.param(
            [ASK, calling(tool_call("a")), HumanMessage("Well?"), result("a", "x")],
            [user("Look!"), model(call("a")), user(response("a", "x")), user("Well?")],
            [("late_result", 3)],
            id="the user speaks between call and result",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a")),
                HumanMessage("Well?"),
                AIMessage("Wait."),
                result("a", "x"),
            ],
            [
                user("Look!"),
                model(call("a")),
                user(response("a", "x")),
                user("Well?"),
                model("Wait."),
            ],
            [("late_result", 4)],
            id="a result after the next answer",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a", "add"), tool_call("a", "find"), tool_call("a", "add", q=1)),
                result("a", "found", name="find"),
                result("a", "first", name="add"),
                result("a", "second", name="add"),
            ],
            [
                user("Look!"),
                model(
                    call("a", "add", sign=SKIP),
                    call("a_1_1", "find"),
                    call("a_1_2", "add", q=1),
                ),
                user(
                    response("a", "first", "add"),
                    response("a_1_1", "found", "find"),
                    response("a_1_2", "second", "add"),
                ),
            ],
            [],
            id="results of calls with one id go to the tools that they name",
        ),
        pytest.param(
            [ASK, calling(tool_call("a")), result("a", "x"), result("a", "again")],
            [
                user("Look!"),
                model(call("a")),
                user(response("a", "x")),
                user("Call a returned:", "again"),
            ],
            [("orphan_result", 3)],
            id="a second result",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a", q=1)),
                HumanMessage("Well?"),
                calling(tool_call("a", q=2)),
                result("a", "x"),
                result("a", "again"),
            ],
            [
                user("Look!"),
                model(call("a", q=1)),
                user(response("a", NOT_EXECUTED)),
                user("Well?"),
                model(call("a", q=2)),
                user(response("a", "x")),
                user("Call a returned:", "again"),
            ],
            [("unanswered_call", 1), ("orphan_result", 5)],
            id="a second result is not given to an older call of that id",
        ),
        pytest.param(
            [ASK, result("z", "x", name="search", status="error")],
            [user("Look!", "Call z of tool search failed:", "x")],
            [("orphan_result", 1)],
            id="a result of no call",
        ),
        pytest.param(
            [ASK, result("z", [{"a": 1}], additional_kwargs={"name": "search"})],
            [user("Look!", "Call z of tool search returned:", '[{"a": 1}]')],
            [("orphan_result", 1)],
            id="a result of no call, made of objects",
        ),
        pytest.param(
            [calling(tool_call("a")), result("a", "x"), AIMessage("Good."), HumanMessage("More")],
            [
                user(TRIMMED),
                model(call("a")),
                user(response("a", "x")),
                model("Good."),
                user("More"),
            ],
            [("starts_with_model", 0)],
            id="trimmed to start with a call",
        ),
        pytest.param(
            [result("a", "x"), AIMessage("Good."), HumanMessage("More")],
            [user("Call a returned:", "x"), model("Good."), user("More")],
            [("orphan_result", 0)],
            id="trimmed to start with a result",
        ),
        pytest.param(
            [ASK, AIMessage("Good.")],
            [user("Look!"), model("Good.")],
            [],
            id="ends with the model",
        ),
        pytest.param(
            [ASK, AIMessage(""), HumanMessage("More")],
            [user("Look!", "More")],
            [("empty_message", 1)],
            id="an empty answer",
        ),
        pytest.param(
            [HumanMessage(""), AIMessage("Yes?"), HumanMessage([])],
            [user(EMPTY), model("Yes?"), user(EMPTY)],
            [("empty_input", 0), ("empty_input", 2)],
            id="empty questions",
        ),
        pytest.param(
            [ASK, HumanMessage("And there."), AIMessage("I"), AIMessage("see."), HumanMessage("?")],
            [user("Look!", "And there."), model("I", "see."), user("?")],
            [],
            id="neighbours of one side",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("call_0", q=1)),
                calling(tool_call("call_0", q=2)),
                result("call_0", "x"),
                result("call_0", "y"),
            ],
            [
                user("Look!"),
                model(call("call_0", sign=SKIP, q=1), call("call_0_2_0", q=2)),
                user(response("call_0", "x"), response("call_0_2_0", "y")),
            ],
            [],
            id="neighbours with the same id",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a", q=1), tool_call("a", q=2)),
                result("a", "x"),
                result("a", "y"),
            ],
            [
                user("Look!"),
                model(call("a", sign=SKIP, q=1), call("a_1_1", q=2)),
                user(response("a", "x"), response("a_1_1", "y")),
            ],
            [],
            id="one id for two calls",
        ),
        pytest.param(
            [ASK, calling(tool_call(None, q=1), tool_call("", q=2)), result("", "x")],
            [
                user("Look!"),
                model(call("call_1_0", sign=SKIP, q=1), call("call_1_1", q=2)),
                user(response("call_1_0", "x"), response("call_1_1", NOT_EXECUTED)),
            ],
            [("unanswered_call", 1)],
            id="calls without ids",
        ),
        pytest.param(
            [
                ASK,
                AIMessageChunk(content="", tool_calls=[{"id": "a", "name": "search", "args": {}}]),
                result("a", "x"),
            ],
            [user("Look!"), model(call("a", sign=SKIP)), user(response("a", "x"))],
            [],
            id="a chunk",
        ),
        pytest.param(
            [
                ChatMessage(content="Look!", role="user"),
                ChatMessage(content="Where?", role="assistant"),
                ChatMessage(content="There.", role="Human"),
            ],
            [user("Look!"), model("Where?"), user("There.")],
            [],
            id="messages with a role",
        ),
        pytest.param(
            [ASK, FunctionMessage(content="x", name="search")],
            [user("Look!", "Call search of tool search returned:", "x")],
            [("orphan_result", 1)],
            id="a function message",
        ),
        pytest.param(
            [
                ASK,
                AIMessage(
                    "",
                    additional_kwargs={"function_call": {"name": "search", "arguments": '{"q":1}'}},
                ),
                FunctionMessage(content="x", name="search"),
            ],
            [
                user("Look!"),
                model(call("search", sign=SKIP, q=1)),
                user(response("search", "x")),
            ],
            [],
            id="a call from before there were tools",
        ),
        pytest.param(
            [
                ASK,
                calling(tool_call("a", "find"), tool_call("b", "add", q=1), tool_call("c", "add")),
                FunctionMessage(content="x", name="add"),
                FunctionMessage(content="y", name="add"),
                FunctionMessage(content="z", name="find"),
            ],
            [
                user("Look!"),
                model(call("a", "find", sign=SKIP), call("b", "add", q=1), call("c", "add")),
                user(
                    response("a", "z", "find"), response("b", "x", "add"), response("c", "y", "add")
                ),
            ],
            [],
            id="function messages, which have no id",
        ),
    ],
)
def test_any_history_becomes_turns_that_gemini_accepts(
    messages: list[BaseMessage], expected: list[Json], repaired: list[tuple[str, int]]
) -> None:
    assert contents(messages) == expected
    assert repairs(messages) == repaired


@pytest.mark.parametrize(
    "name", ["gemini-3.5-flash-lite", "gemini-3.6-flash", "gemini-4-argon", "gemini-9-new", "alias"]
)
def test_a_history_ends_with_the_user_where_models_require_it(name: str) -> None:
    messages = [ASK, AIMessage("Good.")]
    preview = ChatGemini(model=name).preview(messages)
    assert preview.body["contents"] == [user("Look!"), model("Good."), user(CONTINUE)]
    assert [(repair.kind, repair.position) for repair in preview.repairs] == [
        ("ends_with_model", 1)
    ]
    with pytest.raises(InvalidHistoryError, match="ends with the model"):
        ChatGemini(model=name, on_broken_history="raise").preview(messages)


# Calls that stand elsewhere than in tool_calls


def anthropic(content: Any) -> BaseMessage:
    return HumanMessage([{"type": "tool_result", "tool_use_id": "a", "content": content}])


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            {"type": "tool_use", "id": "a", "name": "search", "input": {"q": 1}}, id="anthropic"
        ),
        pytest.param(
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "a",
                "name": "search",
                "arguments": '{"q": 1}',
            },
            id="openai",
        ),
        pytest.param(
            {"type": "function_call", "id": "a", "name": "search", "args": {"q": 1}}, id="google"
        ),
        pytest.param(
            {"type": "tool_call", "id": "a", "name": "search", "args": {"q": 1}}, id="langchain"
        ),
    ],
)
@pytest.mark.parametrize("has_tool_calls", [True, False])
def test_a_call_is_sent_once_and_in_its_place(block: Json, has_tool_calls: bool) -> None:
    messages = [
        ASK,
        AIMessage(
            [{"type": "text", "text": "I look."}, block, {"type": "text", "text": "So."}],
            tool_calls=[tool_call("a", q=1)] if has_tool_calls else [],
        ),
        result("a", "x"),
    ]
    assert contents(messages) == [
        user("Look!"),
        model("I look.", call("a", sign=SKIP, q=1), "So."),
        user(response("a", "x")),
    ]


@pytest.mark.parametrize("has_tool_calls", [True, False])
def test_the_text_of_openais_custom_tool_is_an_argument(has_tool_calls: bool) -> None:
    block = {"type": "custom_tool_call", "id": "c", "call_id": "a", "name": "search", "input": "q"}
    calls = [tool_call("a", __arg1="q")] if has_tool_calls else []
    messages = [ASK, AIMessage([block], tool_calls=calls), result("a", "x")]
    assert contents(messages) == [
        user("Look!"),
        model(call("a", sign=SKIP, __arg1="q")),
        user(response("a", "x")),
    ]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        pytest.param("x", "x", id="text"),
        pytest.param([{"type": "text", "text": "x"}], "x", id="blocks"),
        pytest.param(None, "", id="nothing"),
    ],
)
def test_anthropics_results_answer_anthropics_calls(content: Any, value: str) -> None:
    block = {"type": "tool_use", "id": "a", "name": "search", "input": {}}
    assert contents([ASK, AIMessage([block]), anthropic(content)]) == [
        user("Look!"),
        model(call("a", sign=SKIP)),
        user(response("a", value)),
    ]


def test_what_stands_beside_anthropics_results_follows_them() -> None:
    block = {"type": "tool_use", "id": "a", "name": "search", "input": {}}
    back = HumanMessage(
        [
            {"type": "text", "text": "Here."},
            {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
        ]
    )
    assert contents([ASK, AIMessage([block]), back])[-2:] == [
        user({"functionResponse": {"id": "a", "name": "search", "response": {"error": "no"}}}),
        user("Here."),
    ]


def invalid(call_id: str | None, name: str | None, args: str) -> Json:
    return {"type": "invalid_tool_call", "id": call_id, "name": name, "args": args, "error": "?"}


def test_an_invalid_call_is_sent_so_that_its_error_has_a_partner() -> None:
    messages = [
        ASK,
        AIMessage("", invalid_tool_calls=[invalid("a", "search", "q=1")]),
        result("a", "no JSON", status="error"),
    ]
    assert contents(messages)[1:] == [
        model(call("a", sign=SKIP, invalid_arguments="q=1")),
        user({"functionResponse": {"id": "a", "name": "search", "response": {"error": "no JSON"}}}),
    ]


def test_an_invalid_call_without_a_result_is_answered_with_its_error() -> None:
    given = {**invalid("a", "search", "q=1"), "error": "'q=1' is not JSON."}
    messages = [ASK, AIMessage("", invalid_tool_calls=[given]), HumanMessage("?")]
    assert contents(messages)[2] == user(
        {
            "functionResponse": {
                "id": "a",
                "name": "search",
                "response": {"error": "'q=1' is not JSON."},
            }
        }
    )
    [repair] = ChatGemini(model=GEMINI_3).preview(messages).repairs
    assert repair.explanation.endswith("the error \"'q=1' is not JSON.\" is sent as its result.")


@pytest.mark.parametrize("call_id", [None, ""])
def test_an_invalid_call_without_id_or_name_is_left_out(call_id: str | None) -> None:
    messages = [
        ASK,
        AIMessage("Hm.", invalid_tool_calls=[invalid(call_id, "search", "q=1")]),
        HumanMessage("?"),
    ]
    assert contents(messages)[1:] == [model("Hm."), user("?")]


# System messages


@pytest.mark.parametrize(
    ("messages", "texts"),
    [
        pytest.param([SystemMessage("A"), ASK], ["A"], id="first"),
        pytest.param(
            [ASK, SystemMessage("A"), AIMessage("Yes"), SystemMessage("B"), ASK],
            ["A", "B"],
            id="anywhere",
        ),
        pytest.param([SystemMessage(""), ASK], None, id="empty"),
        pytest.param([ChatMessage(content="A", role="developer"), ASK], ["A"], id="developer"),
        pytest.param(
            [
                SystemMessage(
                    ["A", {"type": "text", "text": "B", "cache_control": {}}, {"text": "C"}]
                ),
                ASK,
            ],
            ["A", "B", "C"],
            id="blocks",
        ),
    ],
)
def test_system_messages_join_the_instruction(
    messages: list[BaseMessage], texts: list[str] | None
) -> None:
    expected = None if texts is None else {"parts": [{"text": text} for text in texts]}
    assert sent(messages).get("systemInstruction") == expected


# What is reported


def test_repairs_can_be_disabled_and_the_error_has_the_position() -> None:
    strict = ChatGemini(model=GEMINI_3, on_broken_history="raise")
    with pytest.raises(InvalidHistoryError, match=r"Message 1 cannot be sent unchanged.*'a'"):
        strict.preview([ASK, calling(tool_call("a")), ASK])
    assert strict.preview([ASK, ASK]).body["contents"] == [user("Look!", "Look!")]


def test_a_repair_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatGemini(model=GEMINI_3)
    for _ in range(3):
        chat.preview([ASK, calling(tool_call("a")), ASK])
    assert [record.message for record in caplog.records] == [
        f"{GEMINI_3}: Message 1: Call 'a' of 'search' has no tool message; the error "
        "'This call was not executed.' is sent as its result."
    ]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(ChatMessage(content="x", role="critic"), id="a role of its own"),
        pytest.param(RemoveMessage(id="1"), id="a command"),
    ],
)
def test_a_message_of_an_unsupported_type_is_rejected(message: BaseMessage) -> None:
    with pytest.raises(InvalidHistoryError, match=f"Message 1 is a {type(message).__name__}"):
        contents([ASK, message])


def test_the_callers_messages_are_not_changed() -> None:
    messages: list[BaseMessage] = [
        HumanMessage(["a", {"type": "text", "text": "b"}]),
        calling(tool_call("a"), content=[{"type": "text", "text": "c"}]),
        ToolMessage([{"type": "text", "text": "d"}], tool_call_id="a"),
    ]
    before = [message.model_dump() for message in messages]
    contents(messages)
    assert [message.model_dump() for message in messages] == before


SEARCHED: Json = {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"}, "thoughtSignature": "QQ=="}
FOUND: Json = {"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH"}, "thoughtSignature": "QQ=="}
GOOGLED = AIMessage(
    [
        {"type": "gemini_part", "part": SEARCHED},
        {"type": "gemini_part", "part": FOUND},
        {"type": "text", "text": "Rain."},
    ],
    response_metadata={"model_provider": "google_genai", "model_name": GEMINI_3},
)


def test_steps_of_googles_tools_come_back_under_the_flag_also_without_such_tools() -> None:
    asked = [HumanMessage("Weather?"), GOOGLED, HumanMessage("Thanks.")]
    body = sent(asked, GEMINI_3)
    assert body["contents"][1] == model(SEARCHED, FOUND, "Rain.")
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert repairs(asked, GEMINI_3) == []


def test_parts_of_server_side_tools_are_sent_as_text_if_the_model_rejects_them() -> None:
    asked = [HumanMessage("Weather?"), GOOGLED, HumanMessage("Thanks.")]
    assert contents(asked, GEMINI_2)[1] == model(
        '{"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"}}',
        '{"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH"}}',
        "Rain.",
    )
    assert repairs(asked, GEMINI_2) == []
