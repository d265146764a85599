"""Agents that cut, clear or limit their own history: what is left is still a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.oauth2.credentials import Credentials
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langgraph.checkpoint.memory import InMemorySaver

from langchain_gemini_tools.errors import GeminiInvalidRequestError
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN
from tests.integration_tests.play import Play, call, get_weather, model, request, result, user

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
THREAD: Any = {"configurable": {"thread_id": "1"}}


def _turn(number: int) -> list[Any]:
    tool_call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": f"call{number}"}
    return [
        HumanMessage(f"Question {number}?"),
        AIMessage("", tool_calls=[tool_call]),
        ToolMessage("Sunny", tool_call_id=f"call{number}"),
        AIMessage(f"Answer {number}."),
    ]


def test_messages_are_trimmed_by_the_tokens_that_the_api_counts(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Trimming counts pieces of a history, system messages alone, and nothing at all."""
    play.says("Yes.")
    chat = play.model(on_broken_history="raise")
    history = [SystemMessage("Be brief."), *_turn(1), *_turn(2), HumanMessage("Sure?")]
    whole = chat.get_num_tokens_from_messages(history)
    kept = trim_messages(
        history, token_counter=chat, max_tokens=whole - 20, include_system=True, start_on="human"
    )
    assert kept == [history[0], *_turn(2), HumanMessage("Sure?")]
    assert caplog.records == []
    assert chat.invoke(kept).content == "Yes."
    assert {asked.path.rpartition(":")[2] for asked in play.emulator.requests[:-1]} == {
        "countTokens"
    }


def test_vertex_ai_counts_what_it_knows_of_a_request(play: Play) -> None:
    """Labels, safety settings and a tool choice cost nothing there, and are unknown fields."""
    chat = play.model(
        vertexai=True,
        api_key=None,
        project="p",
        location="l",
        credentials=Credentials(ACCESS_TOKEN),  # type: ignore[no-untyped-call]
        labels={"team": "a"},
        safety_settings={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
    )
    question = [SystemMessage("Be brief."), HumanMessage("Weather?")]
    alone = chat.get_num_tokens_from_messages(question)
    assert chat.get_num_tokens_from_messages(question, [get_weather], tool_choice="any") > alone
    assert set(play.sent[-1]) == {"contents", "systemInstruction", "tools"}


def test_nothing_counts_nothing_and_is_not_asked_for(play: Play) -> None:
    chat = play.model()
    assert chat.get_num_tokens("") == 0
    assert chat.get_num_tokens_from_messages([]) == 0
    assert play.sent == []


def test_system_messages_tools_and_broken_pieces_are_counted(play: Play) -> None:
    chat = play.model(on_broken_history="raise")
    system = chat.get_num_tokens_from_messages([SystemMessage("Be brief.")])
    assert system == chat.get_num_tokens("Be brief.") > 0
    question = [HumanMessage("Weather?")]
    with_tools = chat.get_num_tokens_from_messages(question, tools=[get_weather])
    assert with_tools > chat.get_num_tokens("Weather?")
    assert chat.get_num_tokens_from_messages(_turn(1)[2:]) > 0
    greeted = chat.get_num_tokens_from_messages([HumanMessage("Hi")], tools=[get_weather])
    tools_alone = chat.get_num_tokens_from_messages([], tools=[get_weather], tool_choice="any")
    assert 0 < tools_alone == greeted - chat.get_num_tokens("Hi")


def test_a_summary_stands_for_the_turns_before(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.says("Sunny.")
    play.says("They talked about Oslo.")
    play.calls(("get_weather", ROME))
    play.says("Sunny, too.")
    chat = play.model()
    summarize = SummarizationMiddleware(chat, trigger=("messages", 5), keep=("messages", 1))
    agent: Any = create_agent(
        chat, tools=[get_weather], middleware=[summarize], checkpointer=InMemorySaver()
    )
    agent.invoke({"messages": [HumanMessage("Weather in Oslo?")]}, THREAD)
    state = agent.invoke({"messages": [HumanMessage("And Rome?")]}, THREAD)
    summary = state["messages"][0].text
    assert summary.endswith("They talked about Oslo.")
    (rome,) = [c["id"] for m in state["messages"] for c in getattr(m, "tool_calls", [])]
    assert play.sent[3:] == [
        request(user(summary, "And Rome?")),
        request(
            user(summary, "And Rome?"),
            model(call("get_weather", ROME, rome, play.signature(4))),
            user(result("get_weather", "Sunny in Rome", rome)),
        ),
    ]


def test_results_that_were_cleared_keep_their_calls_and_signatures(play: Play) -> None:
    play.calls(("get_weather", OSLO))
    play.calls(("get_weather", ROME))
    play.says("Sunny in both.")
    clear = ClearToolUsesEdit(trigger=1, keep=1, clear_tool_inputs=True, placeholder="[cleared]")
    agent: Any = create_agent(
        play.model(), tools=[get_weather], middleware=[ContextEditingMiddleware(edits=[clear])]
    )
    state = agent.invoke({"messages": [HumanMessage("Weather?")]})
    oslo, rome = play.ids(state["messages"])
    assert play.sent[2] == request(
        user("Weather?"),
        model(call("get_weather", {}, oslo, play.signature(1))),
        user(result("get_weather", "[cleared]", oslo)),
        model(call("get_weather", ROME, rome, play.signature(2))),
        user(result("get_weather", "Sunny in Rome", rome)),
    )


def test_a_call_above_the_limit_is_answered_in_its_place(play: Play) -> None:
    play.calls(("get_weather", OSLO), ("get_weather", ROME))
    play.says("Sunny in Oslo.")
    agent: Any = create_agent(
        play.model(), tools=[get_weather], middleware=[ToolCallLimitMiddleware(run_limit=1)]
    )
    state = agent.invoke({"messages": [HumanMessage("Weather?")]})
    oslo, rome = play.ids(state["messages"])
    results = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert [message.tool_call_id for message in results] == [rome, oslo]
    assert play.sent[1] == request(
        user("Weather?"),
        model(call("get_weather", OSLO, oslo, play.signature(1)), call("get_weather", ROME, rome)),
        user(
            result("get_weather", "Sunny in Oslo", oslo),
            result("get_weather", results[0].content, rome, key="error"),
        ),
    )


def _fail(emulator: Emulator, code: int, status: str) -> None:
    error = {"code": code, "message": "It did not work.", "status": status}
    emulator.reply(body={"error": error}, status=code)


def test_the_agents_own_retries_repeat_what_may_pass(play: Play) -> None:
    _fail(play.emulator, 503, "UNAVAILABLE")
    play.says("Hello.")
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, on_failure="error")
    agent: Any = create_agent(play.model(), tools=[], middleware=[retry])
    state = agent.invoke({"messages": [HumanMessage("Hello?")]})
    assert state["messages"][-1].content == "Hello."
    assert play.sent == [request(user("Hello?"), tools=())] * 2


def test_the_agents_own_retries_do_not_repeat_what_cannot_pass(play: Play) -> None:
    _fail(play.emulator, 400, "INVALID_ARGUMENT")
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, on_failure="error")
    agent: Any = create_agent(play.model(), tools=[], middleware=[retry])
    with pytest.raises(GeminiInvalidRequestError, match="It did not work"):
        agent.invoke({"messages": [HumanMessage("Hello?")]})
    assert len(play.sent) == 1
