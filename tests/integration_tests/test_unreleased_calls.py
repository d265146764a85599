"""Only the tool calls of a complete response are executed, whatever executes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import (
    BlockedError,
    MalformedToolCallError,
    ResponseError,
    TruncatedResponseError,
    TruncatedStreamError,
)
from tests.integration_tests.executors import classic_executor, tool_node_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

REASONS: dict[str | None, type[ResponseError]] = {
    "SAFETY": BlockedError,
    "PROHIBITED_CONTENT": BlockedError,
    "SPII": BlockedError,
    "BLOCKLIST": BlockedError,
    "RECITATION": BlockedError,
    "OTHER": BlockedError,
    "A_REASON_OF_TOMORROW": BlockedError,
    "MAX_TOKENS": TruncatedResponseError,
    "UNEXPECTED_TOOL_CALL": MalformedToolCallError,
    "MALFORMED_FUNCTION_CALL": MalformedToolCallError,
    "FINISH_REASON_UNSPECIFIED": TruncatedResponseError,
    None: TruncatedResponseError,
}
WAYS = ["invoke", "ainvoke", "stream", "astream"]
CALL = {"functionCall": {"name": "delete", "args": {"name": "x"}, "id": "c1"}}
TEXT_CALL = 'TOOL_CALL: delete({"name": "x"})'
ASK = "Please tidy up."


class Deletions:
    """A tool, and what it was called with."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.tool = StructuredTool.from_function(self._delete, name="delete", description="Delete.")

    def _delete(self, name: str) -> str:
        self.ran.append(name)
        return "deleted"


def _agent(chat: Any, tools: list[Any]) -> Any:
    return create_agent(chat, tools)


def _loop(chat: Any, tools: list[Any]) -> Any:
    return ToolLoop(chat, tools)


EXECUTORS: dict[str, tuple[Callable[[Any, list[Any]], Any], Any]] = {
    "create_agent": (_agent, {"messages": ASK}),
    "ToolNode": (tool_node_graph, {"messages": ASK}),
    "AgentExecutor": (classic_executor, {"input": ASK}),
    "ToolLoop": (_loop, ASK),
}


async def run(runnable: Any, given: Any, way: str, config: Any = None) -> Any:
    match way:
        case "invoke":
            return await asyncio.to_thread(runnable.invoke, given, config)
        case "ainvoke":
            return await runnable.ainvoke(given, config)
        case "stream":
            return await asyncio.to_thread(lambda: list(runnable.stream(given, config)))
        case _:
            return [chunk async for chunk in runnable.astream(given, config)]


@pytest.mark.parametrize("streams", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("executor", EXECUTORS)
async def test_no_executor_runs_a_call_of_an_incomplete_response(
    emulator: Emulator, make_model: MakeModel, executor: str, reason: str | None, streams: bool
) -> None:
    deletions = Deletions()
    emulator.reply(parts=[CALL], finish_reason=reason, signed=False)
    make, given = EXECUTORS[executor]
    way = WAYS[list(REASONS).index(reason) % 4]
    runnable = make(make_model(streaming=streams), [deletions.tool])
    with pytest.raises(ResponseError) as raised:
        await run(runnable, given, way)
    is_cut = reason is None and emulator.last.is_stream
    assert type(raised.value) is (TruncatedStreamError if is_cut else REASONS[reason])
    assert raised.value.finish_reason == reason
    assert raised.value.partial is not None
    assert raised.value.partial.tool_calls == []
    assert [call["name"] for call in raised.value.partial.invalid_tool_calls] == ["delete"]
    assert deletions.ran == []
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_an_executor_runs_a_call_once_whose_events_are_repeated(
    emulator: Emulator, make_model: MakeModel, executor: str
) -> None:
    """Its arguments arrive in pieces, then the same pieces again under the same id."""
    given_name = [{"jsonPath": "$.name", "stringValue": "x"}]
    pieces = [
        {"functionCall": {"name": "delete", "id": "c1", "willContinue": True}},
        {"functionCall": {"partialArgs": given_name, "willContinue": True}},
        {"functionCall": {}},
    ]
    events = [{"candidates": [{"content": {"parts": [piece]}}]} for piece in pieces * 2]
    emulator.reply(events=[*events, {"candidates": [{"finishReason": "STOP"}]}])
    emulator.reply("Done.")
    deletions = Deletions()
    make, given = EXECUTORS[executor]
    way = WAYS[list(EXECUTORS).index(executor)]
    chat = make_model(model="gemini-2.5-flash", streaming=True)
    await run(make(chat, [deletions.tool]), given, way)
    assert deletions.ran == ["x"]
    assert len(emulator.requests) == 2


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("executor", EXECUTORS)
async def test_no_executor_runs_a_call_written_in_an_incomplete_text(
    emulator: Emulator, make_model: MakeModel, executor: str, reason: str | None
) -> None:
    deletions = Deletions()
    emulator.reply(f"One moment.\n{TEXT_CALL}\n", finish_reason=reason)
    make, given = EXECUTORS[executor]
    way = WAYS[list(REASONS).index(reason) % 4]
    runnable = make(make_model(tool_calling="prompted"), [deletions.tool])
    with pytest.raises(ResponseError) as raised:
        await run(runnable, given, way)
    assert raised.value.finish_reason == reason
    assert raised.value.partial is not None
    assert raised.value.partial.tool_calls == []
    assert deletions.ran == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tool_calling", ["native", "prompted"])
@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason])
async def test_returned_calls_are_invalid_and_the_conversation_goes_on(
    emulator: Emulator, make_model: MakeModel, reason: str, tool_calling: str, way: str
) -> None:
    deletions = Deletions()
    parts = [CALL] if tool_calling == "native" else [{"text": TEXT_CALL}]
    emulator.reply(parts=parts, finish_reason=reason, signed=False)
    emulator.reply("Good.")
    chat = make_model(on_malformed="return", tool_calling=tool_calling)
    agent: Any = create_agent(chat, [deletions.tool], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    await run(agent, {"messages": ASK}, way, thread)
    message = agent.get_state(thread).values["messages"][-1]
    assert message.tool_calls == []
    assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [
        ("delete", 'not executed]: {"name": "x"}')
    ]
    assert message.response_metadata["finish_reason"] == reason
    await run(agent, {"messages": "And now?"}, way, thread)
    assert deletions.ran == []
    assert emulator.refusals == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_hidden_tool_is_not_executed_and_the_model_is_asked_once_more(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """The agent still knows a tool that its middleware does not declare."""
    deletions = Deletions()

    def look(name: str) -> str:
        """Look at a file."""
        return f"{name} is there"

    @wrap_model_call
    def without_deletions(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=request.tools[:1]))

    @wrap_model_call
    async def awithout_deletions(request: Any, handler: Any) -> Any:
        return await handler(request.override(tools=request.tools[:1]))

    hide = awithout_deletions if way.startswith("a") else without_deletions
    emulator.reply(
        parts=[CALL], finish_reason="UNEXPECTED_TOOL_CALL", finish_message="Who?", signed=False
    )
    emulator.reply("Then I leave it.")
    agent: Any = create_agent(
        make_model(max_retries=1),
        [look, deletions.tool],
        middleware=[hide],
    )
    await run(agent, {"messages": ASK}, way)
    assert deletions.ran == []
    assert emulator.last.body["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": ASK},
                {
                    "text": "Your last answer could not be used (delete is not available now). "
                    "Answer in words, or call a declared function with arguments that fit its "
                    "schema."
                },
            ],
        }
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reason", ["SAFETY", "MAX_TOKENS"])
async def test_blocked_and_truncated_responses_are_not_requested_again(
    emulator: Emulator, make_model: MakeModel, reason: str, way: str
) -> None:
    deletions = Deletions()
    emulator.reply(parts=[CALL], finish_reason=reason, signed=False)
    with pytest.raises(REASONS[reason]):
        await run(make_model(max_retries=6).bind_tools([deletions.tool]), ASK, way)
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reason", ["SAFETY", "MAX_TOKENS", "A_REASON_OF_TOMORROW"])
async def test_text_without_calls_is_returned_with_the_reason(
    emulator: Emulator, make_model: MakeModel, reason: str, way: str
) -> None:
    emulator.reply("First, take", finish_reason=reason)
    found = await run(make_model().bind_tools([Deletions().tool]), ASK, way)
    last = found[-1] if isinstance(found, list) else found
    assert last.response_metadata["finish_reason"] == reason
    text = "".join(chunk.text for chunk in found) if isinstance(found, list) else found.text
    assert text == "First, take"
