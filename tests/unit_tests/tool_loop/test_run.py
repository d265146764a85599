"""The options of a loop; turns: what the model gets, why a run stops, and how it is resumed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool

from langchain_gemini_tools import ToolLoop, ToolLoopResult
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import IncompleteRunError, result_of
from tests.unit_tests.tool_loop.scripted import Asked, ScriptedModel, call, calls, tool_texts

if TYPE_CHECKING:
    from langchain_gemini_tools.tool_loop import StopReason


def echo(text: str) -> str:
    """Say it again."""
    return text


def _model(*replies: Any) -> ScriptedModel:
    return ScriptedModel(replies=list(replies))


def _ask_twice(
    model: ScriptedModel, tools: Any, given: Any = "Hi", **options: Any
) -> ToolLoopResult:
    """The result, which is the same in a sync and in an async run."""
    again = model.model_copy(update={"asked": []})
    result = ToolLoop(model, tools, **options).invoke(given)
    other = asyncio.run(ToolLoop(again, tools, **options).ainvoke(given))
    assert _plain(other) == _plain(result)
    assert [_asked(asked) for asked in again.asked] == [_asked(asked) for asked in model.asked]
    return result


def _plain(result: ToolLoopResult) -> list[Any]:
    messages = [(m.type, m.content, getattr(m, "status", None)) for m in result.messages]
    return [messages, result.stop_reason, result.turns, result.pending, result.usage]


def _asked(asked: Asked) -> list[Any]:
    return [[m.content for m in asked.messages], asked.tools, asked.tool_choice, asked.options]


def test_an_answer_ends_the_run_and_the_result_has_every_message() -> None:
    model = _model(calls(call("echo", "a", text="x")), calls(call("echo", "b", text="y")), "Done.")
    result = _ask_twice(model, [echo])
    assert [(m.type, str(m.text)) for m in result.messages] == [
        ("human", "Hi"),
        ("ai", ""),
        ("tool", "x"),
        ("ai", ""),
        ("tool", "y"),
        ("ai", "Done."),
    ]
    assert result.new_messages == result.messages[1:]
    assert result.message == result.messages[-1]
    assert (result.text, result.answer()) == ("Done.", "Done.")
    assert (result.stop_reason, result.turns, result.pending) == ("answered", 3, [])
    assert [(r.turn, r.call["id"], r.status, r.attempts) for r in result.calls] == [
        (1, "a", "succeeded", 1),
        (2, "b", "succeeded", 1),
    ]
    assert all(record.duration >= 0 for record in result.calls)
    assert [len(asked.messages) for asked in model.asked] == [1, 3, 5]
    assert {(*asked.tools, asked.tool_choice) for asked in model.asked} == {("echo", None)}


def test_a_loop_without_tools_invokes_the_model_once() -> None:
    model = _model("Hello.")
    assert _ask_twice(model, []).text == "Hello."
    assert model.asked[0].tools == []


def test_usage_is_summed_over_the_turns() -> None:
    first, last = calls(call("echo", text="x")), AIMessage("Done.")
    first.usage_metadata = UsageMetadata(
        input_tokens=10,
        output_tokens=2,
        total_tokens=12,
        input_token_details={"cache_read": 4},
    )
    last.usage_metadata = UsageMetadata(input_tokens=15, output_tokens=3, total_tokens=18)
    assert _ask_twice(_model(first, last), [echo]).usage == UsageMetadata(
        input_tokens=25,
        output_tokens=5,
        total_tokens=30,
        input_token_details={"cache_read": 4},
    )


def test_values_of_a_vendor_that_are_not_token_counts_are_not_summed() -> None:
    first, last = calls(call("echo", text="x")), AIMessage("Done.")
    for message in (first, last):
        priced: Any = {
            "input_tokens": 10,
            "output_tokens": 2,
            "total_tokens": 12,
            "total_cost": 0.5,
            "output_token_details": {"reasoning": 1, "tier": "flex"},
        }
        message.usage_metadata = priced
    assert _ask_twice(_model(first, last), [echo]).usage == UsageMetadata(
        input_tokens=20,
        output_tokens=4,
        total_tokens=24,
        output_token_details={"reasoning": 2},
    )


def _endless() -> ScriptedModel:
    return _model(*[calls(call("echo", str(n), text=f"{n}"), text="Hm.") for n in range(1, 9)])


def test_a_limit_of_one_turn_is_named_in_the_singular() -> None:
    with pytest.raises(IncompleteRunError) as caught:
        ToolLoop(_endless(), [echo], max_turns=1).invoke("Hi")
    assert str(caught.value) == (
        "The run reached its limit of 1 turn without an answer. The messages are in this error's "
        "`tool_loop_result`."
    )


def test_reaching_the_limit_raises_with_the_result_so_far() -> None:
    with pytest.raises(IncompleteRunError, match="limit of 3 turns") as caught:
        ToolLoop(_endless(), [echo], max_turns=3).invoke("Hi")
    result = caught.value.tool_loop_result
    assert result_of(caught.value) is result
    assert (result.stop_reason, result.turns) == ("turn_limit", 3)
    assert tool_texts(result) == [("1", "success", "1"), ("2", "success", "2")]


def test_the_default_limit_is_ten_turns() -> None:
    model = _model(*[calls(call("echo", str(n), text="x")) for n in range(20)])
    with pytest.raises(IncompleteRunError):
        ToolLoop(model, [echo]).invoke("Hi")
    assert len(model.asked) == 10


def test_a_limit_that_is_returned_has_no_text_and_shows_what_is_pending() -> None:
    model = _endless()
    result = _ask_twice(model, [echo], max_turns=2, on_limit="return")
    assert (result.stop_reason, result.is_answered, result.text) == ("turn_limit", False, "")
    assert result.pending == [call("echo", "2", text="2")]
    assert tool_texts(result) == [("1", "success", "1")]
    assert len(model.asked) == 2
    with pytest.raises(IncompleteRunError, match="2 turns"):
        result.answer()


def test_a_run_continues_where_the_limit_stopped_it() -> None:
    first = ToolLoop(_endless(), [echo], max_turns=2, on_limit="return").invoke("Hi")
    model = _model("Done.")
    result = _ask_twice(model, [echo], first.messages)
    assert tool_texts(result) == [("2", "success", "2")]
    assert [record.turn for record in result.calls] == [0]
    assert [str(m.text) for m in model.asked[0].messages] == ["Hi", "Hm.", "1", "Hm.", "2"]
    assert (result.turns, result.text) == (1, "Done.")


def test_at_the_limit_the_model_can_be_made_to_answer_without_tools() -> None:
    model = _model(
        calls(call("echo", "1", text="x")), calls(call("echo", "2", text="y")), "As far as I know."
    )
    result = _ask_twice(model, [echo], max_turns=2, on_limit="answer")
    assert tool_texts(result) == [
        ("1", "success", "x"),
        (
            "2",
            "error",
            "Not executed: this run has no turns left. Answer with what is known.",
        ),
    ]
    assert [asked.tool_choice for asked in model.asked] == [None, None, "none"]
    assert (result.stop_reason, result.turns) == ("answered_at_limit", 3)
    assert result.answer() == "As far as I know."


@pytest.mark.parametrize(
    "last",
    [calls(call("echo", "3", text="z")), AIMessage("")],
    ids=["calls again", "says nothing"],
)
def test_a_model_that_does_not_answer_at_the_limit_has_not_answered(last: AIMessage) -> None:
    model = _model(calls(call("echo", "1", text="x")), last)
    result = _ask_twice(model, [echo], max_turns=1, on_limit="answer")
    assert (result.stop_reason, result.text) == ("turn_limit", "")
    asked = [c["id"] for m in result.messages if isinstance(m, AIMessage) for c in m.tool_calls]
    assert [answer[0] for answer in tool_texts(result)] == asked
    assert {record.status for record in result.calls} == {"skipped"}


@pytest.mark.parametrize(
    ("content", "metadata", "reason"),
    [
        ("It is", {"finish_reason": "MAX_TOKENS"}, "truncated"),
        ("It is", {"finish_reason": "length"}, "truncated"),
        ("It is", {"stop_reason": "max_tokens"}, "truncated"),
        ("It is", {"done_reason": "length"}, "truncated"),
        (
            "It is",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "truncated",
        ),
        ("", {"finish_reason": "SAFETY"}, "blocked"),
        ("It", {"finish_reason": "content_filter"}, "blocked"),
        ("I will not.", {"stop_reason": "refusal"}, "blocked"),
        ("", {"block_reason": "OTHER"}, "blocked"),
        ("", {"finish_reason": "A_NEW_REASON"}, "blocked"),
        ("", {"finish_reason": "STOP"}, "empty"),
        ("", {}, "empty"),
        (" \n", {}, "empty"),
        ([{"type": "thinking", "thinking": "Hm."}], {"finish_reason": "STOP"}, "empty"),
        (
            [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}],
            {},
            "answered",
        ),
        ("It is.", {"finish_reason": "STOP"}, "answered"),
        ("It is.", {"finish_reason": "A_NEW_REASON"}, "answered"),
        ("It is.", {"finish_reason": "a_new_word", "model_provider": "openai"}, "answered"),
        (
            "It is.",
            {"finish_reason": "A_NEW_REASON", "model_provider": "google_genai"},
            "incomplete",
        ),
        ("", {"finish_reason": "A_NEW_REASON", "model_provider": "google_genai"}, "blocked"),
        ("It is.", {"finish_reason": "UNEXPECTED_TOOL_CALL"}, "incomplete"),
        ("It is.", {"finish_reason": "OTHER"}, "blocked"),
        ("It is.", {"stop_reason": "model_context_window_exceeded"}, "truncated"),
        ("It is.", {"finish_reason": "FINISH_REASON_UNSPECIFIED"}, "incomplete"),
        ("It is.", {"model_provider": "google_genai"}, "incomplete"),
        ([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}], {}, "answered"),
    ],
)
def test_the_stop_reason_says_whether_the_answer_is_complete(
    content: Any, metadata: dict[str, Any], reason: StopReason
) -> None:
    result = _ask_twice(_model(AIMessage(content, response_metadata=metadata)), [echo])
    assert result.stop_reason == reason
    assert result.is_answered is (reason == "answered")
    if not result.is_answered:
        with pytest.raises(IncompleteRunError):
            result.answer()


@tool(return_direct=True)
def final(text: str) -> str:
    """Give the final answer."""
    if text == "bad":
        raise ValueError("bad")
    return text.upper()


def test_tools_can_answer_in_the_models_place() -> None:
    model = _model(calls(call("final", "1", text="a"), call("final", "2", text="b")))
    result = _ask_twice(model, [echo, final])
    assert (result.stop_reason, result.answer(), result.turns) == (
        "returned_directly",
        "A\nB",
        1,
    )
    assert isinstance(result.message, ToolMessage)


@pytest.mark.parametrize(
    "turn",
    [
        calls(call("final", "1", text="bad")),
        calls(call("final", "1", text="a"), call("echo", "2", text="b")),
    ],
    ids=["it failed", "another result waits for the model"],
)
def test_an_incomplete_direct_answer_goes_to_the_model(turn: AIMessage) -> None:
    result = _ask_twice(_model(turn, "Done."), [echo, final])
    assert (result.stop_reason, result.text) == ("answered", "Done.")


def test_a_direct_answer_needs_no_further_turn() -> None:
    model = _model(calls(call("final", text="a")))
    result = _ask_twice(model, [final], max_turns=1, forced_first=True)
    assert (result.stop_reason, result.text, result.turns) == ("returned_directly", "A", 1)


def test_a_direct_answer_that_fails_in_the_last_turn_reaches_the_limit() -> None:
    turn = calls(call("final", text="bad"))
    result = _ask_twice(_model(turn), [final], max_turns=1, on_limit="return")
    assert (result.stop_reason, result.text, result.pending) == ("turn_limit", "", [])
    model = _model(turn, "I could not.")
    result = _ask_twice(model, [final], max_turns=1, on_limit="answer")
    assert (result.stop_reason, result.text) == ("answered_at_limit", "I could not.")
    assert [asked.tool_choice for asked in model.asked] == [None, "none"]


def test_a_forced_first_call_does_not_repeat_endlessly() -> None:
    for forced, word in ((True, "any"), ("echo", "echo")):
        model = _model(calls(call("echo", text="x")), calls(call("echo", "2", text="x")), "Done.")
        _ask_twice(model, [echo, final], forced_first=forced)
        assert [asked.tool_choice for asked in model.asked] == [word, None, None]


def test_a_resumed_run_is_not_forced_again() -> None:
    model = _model("Done.")
    history = [HumanMessage("Hi"), calls(call("echo", text="x"))]
    _ask_twice(model, [echo], history, forced_first=True)
    assert [asked.tool_choice for asked in model.asked] == [None]


def test_only_calls_without_results_are_run_on_resuming() -> None:
    history = [
        HumanMessage("Hi"),
        calls(call("echo", "1", text="x"), call("echo", "2", text="y")),
        ToolMessage("y", tool_call_id="2", name="echo"),
    ]
    result = _ask_twice(_model("Done."), [echo], history)
    assert tool_texts(result) == [("1", "success", "x")]


@pytest.mark.parametrize("call_id", [None, ""])
def test_calls_without_an_id_get_one_on_resuming(call_id: str | None) -> None:
    open_call = call("echo", "1", text="x") | {"id": call_id}
    unreadable = invalid_tool_call(name="echo", args="{", id=call_id, error=None)
    turn = AIMessage("", tool_calls=[open_call], invalid_tool_calls=[unreadable])
    result = _ask_twice(_model("Done."), [echo], [HumanMessage("Hi"), turn])
    (asked,) = [message for message in result.messages if isinstance(message, AIMessage)][:-1]
    ids = [each["id"] for each in (*asked.tool_calls, *asked.invalid_tool_calls)]
    assert all(ids)
    answered = [(given, status) for given, status, _ in tool_texts(result)]
    assert answered == [(ids[0], "success"), (ids[1], "error")]
    assert turn.tool_calls[0]["id"] == call_id  # the caller's message is not changed


def test_calls_that_share_an_id_are_answered_by_it_on_resuming() -> None:
    turn = calls(call("echo", "1", text="x"), call("echo", "1", text="y"))
    results = [ToolMessage(text, tool_call_id="1", name="echo") for text in ("x", "y")]
    result = _ask_twice(_model("Done."), [echo], [HumanMessage("Hi"), turn, *results])
    assert tool_texts(result) == []


def test_calls_before_the_last_user_message_are_not_run() -> None:
    history = [HumanMessage("Hi"), calls(call("echo", text="x")), HumanMessage("Never mind.")]
    result = _ask_twice(_model("Done."), [echo], history)
    assert result.calls == []


def test_the_error_of_a_failing_model_has_the_result_so_far() -> None:
    failure = ConnectionError("gone")
    model = _model(calls(call("echo", "1", text="x")), calls(call("echo", "2", text="y")), failure)
    with pytest.raises(ConnectionError) as caught:
        ToolLoop(model, [echo]).invoke("Hi")
    result = result_of(caught.value)
    assert result is not None
    assert (result.stop_reason, result.turns) == ("failed", 3)
    assert tool_texts(result) == [("1", "success", "x"), ("2", "success", "y")]
    again = ToolLoop(_model("Done."), [echo]).invoke(list(result.messages))
    assert [str(m.text) for m in again.messages] == ["Hi", "", "x", "", "y", "Done."]
    assert result_of(ValueError()) is None


def test_the_result_is_found_behind_errors_with_circular_causes() -> None:
    one, other = ValueError(), KeyError()
    one.__cause__, other.__cause__ = other, one
    assert result_of(one) is None
    found = ToolLoopResult(messages=[], new_messages=[], stop_reason="failed", turns=0)
    other.__context__ = IncompleteRunError(found)
    assert result_of(one) is found


async def test_the_error_of_a_failing_model_has_the_result_so_far_in_async_code() -> None:
    model = _model(calls(call("echo", "1", text="x")), ConnectionError("gone"))
    with pytest.raises(ConnectionError) as caught:
        await ToolLoop(model, [echo]).ainvoke("Hi")
    result = result_of(caught.value)
    assert result is not None
    assert tool_texts(result) == [("1", "success", "x")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Hi", [("human", "Hi")]),
        (HumanMessage("Hi"), [("human", "Hi")]),
        ([SystemMessage("Be brief."), ("human", "Hi")], [("system", "Be brief."), ("human", "Hi")]),
        ({"messages": [HumanMessage("Hi")]}, [("human", "Hi")]),
        ({"messages": "Hi"}, [("human", "Hi")]),
        ({"role": "user", "content": "Hi"}, [("human", "Hi")]),
        (ChatPromptTemplate([("human", "{x}")]).invoke({"x": "Hi"}), [("human", "Hi")]),
    ],
    ids=["text", "message", "list", "dict", "dict of text", "one message as a dict", "prompt"],
)
def test_the_input_accepts_every_form(given: Any, expected: Any) -> None:
    model = _model("Done.")
    _ask_twice(model, [echo], given)
    assert [(m.type, m.content) for m in model.asked[0].messages] == expected


def test_an_input_without_messages_is_rejected() -> None:
    loop = ToolLoop(_model("Done."), [echo])
    with pytest.raises(InvalidOptionError, match=r"only \['question'\]\. Pass text"):
        loop.invoke({"question": "Hi"})
    with pytest.raises(InvalidOptionError, match="The input has no messages"):
        loop.invoke([])


def test_the_input_list_is_not_changed() -> None:
    history = [HumanMessage("Hi")]
    result = ToolLoop(_model(calls(call("echo", text="x")), "Done."), [echo]).invoke(history)
    assert history == [HumanMessage("Hi")]
    assert len(result.messages) == 4


def test_identical_calls_of_a_run_are_run_once_if_caching_is_on() -> None:
    ran = []

    def look_up(key: str, deep: bool = False) -> str:
        """Look up."""
        ran.append(key)
        if key == "bad" and len(ran) == 1:
            raise ValueError(key)
        return key.upper()

    turns = [
        calls(call("look_up", "1", key="a", deep=True), call("look_up", "2", deep=True, key="a")),
        calls(call("look_up", "3", key="a", deep=True), call("look_up", "4", key="b")),
        "Done.",
    ]
    result = ToolLoop(_model(*turns), [look_up], cache=True).invoke("Hi")
    assert [answer[2] for answer in tool_texts(result)] == ["A", "A", "A", "B"]
    assert [record.status for record in result.calls] == [
        "succeeded",
        "cached",
        "cached",
        "succeeded",
    ]
    assert ran == ["a", "b"]
    ran.clear()
    ToolLoop(_model(*turns), [look_up]).invoke("Hi")
    ToolLoop(_model(*turns), [look_up, echo], cache={"echo"}).invoke("Hi")
    assert len(ran) == 8


def test_failures_are_not_cached() -> None:
    ran = []

    def look_up(key: str) -> str:
        """Look up."""
        ran.append(key)
        if len(ran) == 1:
            raise ValueError(key)
        return key.upper()

    turn = calls(call("look_up", "1", key="a"), call("look_up", "2", key="a"))
    result = ToolLoop(_model(turn, "Done."), [look_up], cache=True).invoke("Hi")
    assert [record.status for record in result.calls] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_turns": 0}, "max_turns=0 is not valid: it must be at least 1"),
        ({"max_concurrency": 0}, "max_concurrency=0 is not valid: it must be at least 1"),
        ({"max_retries": -1}, "max_retries=-1 is not valid: it must not be negative"),
        ({"max_output_chars": -1}, "max_output_chars=-1"),
        ({"hold_back": -1}, "hold_back=-1"),
        ({"tool_timeout": 0}, "tool_timeout=0 is not valid: it must be positive, or None"),
        ({"tool_timeout": {"echo": -1}}, "must be positive"),
        ({"tool_timeout": {"ehco": 1}}, "tool_timeout names an unknown tool: 'ehco'"),
        (
            {"on_limit": "explode"},
            "on_limit='explode' is not valid: it must be one of raise, return, answer",
        ),
        ({"approve": {"ehco": bool}}, "approve names an unknown tool: 'ehco'.*Tools: 'echo'"),
        ({"repeatable": ["ehco"]}, "repeatable names an unknown tool: 'ehco'"),
        (
            {"repeatable": "echo"},
            "repeatable='echo' is not valid: pass a set or a list of tool names",
        ),
        ({"cache": ["ehco"]}, "cache names an unknown tool: 'ehco'"),
        ({"forced_first": "ehco"}, "forced_first names an unknown tool: 'ehco'"),
        ({"max_turns": None}, "max_turns=None is not valid: it must be an integer"),
        ({"max_turns": "5"}, "max_turns='5' is not valid: it must be an integer"),
        ({"max_turns": 2.5}, "max_turns=2.5 is not valid: it must be an integer"),
        ({"max_turns": True}, "max_turns=True is not valid: it must be an integer"),
        ({"max_concurrency": None}, "max_concurrency=None is not valid: it must be an integer"),
        ({"max_retries": None}, "max_retries=None is not valid: it must be an integer"),
        (
            {"max_output_chars": "9"},
            "max_output_chars='9' is not valid: it must be an integer or None",
        ),
        ({"hold_back": 0.5}, "hold_back=0.5 is not valid: it must be an integer or None"),
        (
            {"tool_timeout": "5"},
            "tool_timeout='5' is not valid: it must be seconds, None for no limit, or a",
        ),
        (
            {"tool_timeout": {"echo": "5"}},
            "tool_timeout={'echo': '5'} is not valid: it must be seconds",
        ),
        ({"tool_timeout": float("nan")}, "tool_timeout=nan is not valid: it must be positive"),
        ({"approve": {"echo": True}}, "approve={'echo': True} is not valid: it must be a dict of"),
        (
            {"approve": ["echo"]},
            "approve=..echo.. is not valid: it must be a dict of tool names to functions",
        ),
        ({"backoff": 2}, "backoff=2 is not valid: it must be a function"),
        ({"repeatable": None}, "repeatable=None is not valid: pass a set or a list of tool names"),
        (
            {"repeatable": (n for n in ["echo"])},
            "repeatable=<.* is not valid: pass a set or a list of tool names",
        ),
        (
            {"inject": {"text": "x", "user": "y"}},
            "inject has a value for 'text', 'user', which no tool hides from the model. Annotate",
        ),
        ({"cache": None}, "cache=None is not valid: it must be True, False or tool names"),
        ({"cache": 1}, "cache=1 is not valid: it must be True, False or tool names"),
        ({"cache": "echo"}, "cache='echo' is not valid: pass a set or a list of tool names"),
        (
            {"forced_first": echo},
            "forced_first=<.* is not valid: it must be True, False or the name of a",
        ),
    ],
)
def test_invalid_options_are_rejected(options: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        ToolLoop(ScriptedModel(replies=[]), [echo], **options)


def test_the_error_about_injected_values_does_not_show_them() -> None:
    with pytest.raises(InvalidOptionError, match=r"inject must be a dict.*not list\.$"):
        ToolLoop(ScriptedModel(replies=[]), [echo], inject=["secret-4711"])  # type: ignore[arg-type]


def test_a_forced_call_needs_a_tool() -> None:
    with pytest.raises(InvalidOptionError, match="forced_first needs at least one tool"):
        ToolLoop(ScriptedModel(replies=[]), [], forced_first=True)


def test_a_loop_shows_its_tools_and_not_its_model() -> None:
    loop = ToolLoop(ScriptedModel(replies=["a secret"]), [echo])
    assert repr(loop) == "ToolLoop(ScriptedModel, tools: 'echo')"
