"""A tool may return a file that cannot be sent; the model is informed, and the run goes on."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import InvalidHistoryError, InvalidInputError
from langchain_gemini_tools.media_fetch import FetchLimits
from tests.integration_tests.executors import classic_executor, tool_node_graph
from tests.integration_tests.test_unreleased_calls import WAYS, run

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

UNSENDABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a local file": (
        {"type": "image", "url": "file:///x.png"},
        "A block of type 'image' refers to 'file:///x.png', which the API cannot fetch: it does "
        "not support file: URLs.",
    ),
    "a private address": (
        {"type": "image", "url": "http://10.0.0.1/x.png?token=s3cr3t-s3cr3t"},
        "A block of type 'image' refers to 'http://10.0.0.1/x.png', which the API cannot fetch: "
        "10.0.0.1 is not public.",
    ),
    "a file of another vendor": (
        {"type": "file", "file_id": "file-abc123"},
        "A block of type 'file' refers to 'file-abc123', a file of another vendor.",
    ),
    "a resource of an MCP server": (
        {"type": "file", "url": "docs://report/7", "mime_type": "text/plain"},
        "A block of type 'file' refers to 'docs://report/7', which the API cannot fetch: it does "
        "not support docs: URLs.",
    ),
    "a page without a type": (
        {"type": "file", "url": "https://example.com/report"},
        "The file 'https://example.com/report' has no known type.",
    ),
    "an archive": (
        {"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip"},
        "A file has the type application/zip, which the model does not accept.",
    ),
    "a broken data URI": (
        {"type": "image_url", "image_url": {"url": "data:image/png,abc"}},
        "A block of type 'image_url' contains a data URI without base64 data: 'data:image/png'.",
    ),
    "damaged data": (
        {"type": "image", "base64": "iVBORw0KGgo\ufffd", "mime_type": "image/png"},
        "A file contains data that is not valid base64.",
    ),
}
REJECTED = [
    name
    for name in UNSENDABLE
    if name not in {"a page without a type", "an archive", "damaged data"}
]
ASK = "Please draw."
CALL = {"functionCall": {"name": "draw", "args": {}, "id": "c1"}}


def drawing(block: dict[str, Any]) -> StructuredTool:
    def draw() -> list[dict[str, Any]]:
        """Draw something."""
        return [{"type": "text", "text": "Done."}, block]

    return StructuredTool.from_function(draw)


def history(block: dict[str, Any]) -> list[Any]:
    call: Any = {"name": "draw", "args": {}, "id": "c1", "type": "tool_call"}
    return [
        HumanMessage(ASK),
        AIMessage("", tool_calls=[call]),
        ToolMessage([{"type": "text", "text": "Done."}, block], tool_call_id="c1"),
    ]


@pytest.mark.parametrize("name", UNSENDABLE)
@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_goes_on_also_through_a_checkpointer(
    emulator: Emulator,
    make_model: MakeModel,
    name: str,
    way: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    block, problem = UNSENDABLE[name]
    emulator.reply(parts=[CALL])
    emulator.reply("I cannot see it.")
    emulator.reply("As I said.")
    agent: Any = create_agent(make_model(), [drawing(block)], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    with caplog.at_level(logging.WARNING, "langchain_gemini_tools"):
        await run(agent, {"messages": ASK}, way, thread)
        await run(agent, {"messages": "And now?"}, way, thread)
    expected = {"output": f"Done.\n(Not attached: {problem})"}
    for request in emulator.requests[1:]:
        (answer,) = request.body["contents"][2]["parts"]
        assert answer["functionResponse"]["response"] == expected
    assert emulator.requests[-1].body["contents"][-1]["parts"] == [{"text": "And now?"}]
    warnings = [record.getMessage() for record in caplog.records]
    explanation = f"Message 2: A file of this tool result is replaced by text: {problem}"
    assert warnings == [f"gemini-3.8-flash: {explanation}"]
    assert emulator.refusals == []


@pytest.mark.parametrize("executor", ["ToolNode", "AgentExecutor", "ToolLoop"])
async def test_other_executors_go_on(
    emulator: Emulator, make_model: MakeModel, executor: str
) -> None:
    block, problem = UNSENDABLE["a local file"]
    emulator.reply(parts=[CALL])
    emulator.reply("I cannot see it.")
    chat, tools = make_model(), [drawing({**block, "id": "lc_1"})]
    if executor == "ToolNode":
        await tool_node_graph(chat, [*tools]).ainvoke({"messages": ASK})
    elif executor == "AgentExecutor":
        await classic_executor(chat, [*tools]).ainvoke({"input": ASK})
    else:
        await ToolLoop(chat, tools).ainvoke(ASK)
    answer = json.dumps(emulator.last.body["contents"][2:])
    assert problem in answer or "file:///x.png" in answer
    assert len(emulator.requests) == 2


@pytest.mark.parametrize("name", UNSENDABLE)
def test_prompted_results_say_it_too(emulator: Emulator, make_model: MakeModel, name: str) -> None:
    block, problem = UNSENDABLE[name]
    chat = make_model(tool_calling="prompted").bind_tools([drawing(block)])
    emulator.reply("I cannot see it.")
    chat.invoke(history(block))
    text = emulator.last.body["contents"][-1]["parts"][0]["text"]
    assert text == f"TOOL_RESULT: draw #1\nDone.\n(Not attached: {problem})\nEND_TOOL_RESULT\n"


@pytest.mark.parametrize("tool_calling", ["native", "prompted"])
@pytest.mark.parametrize("name", UNSENDABLE)
def test_it_is_reported_as_a_repair_of_the_tool_message(
    make_model: MakeModel, name: str, tool_calling: str
) -> None:
    block, problem = UNSENDABLE[name]
    chat = make_model(tool_calling=tool_calling)
    orphan = ToolMessage([block], tool_call_id="lost")
    messages = [*history(block), orphan]
    repairs = chat.preview(messages, tools=[drawing(block)]).repairs
    found = [(repair.kind, repair.position) for repair in repairs if not repair.is_harmless]
    assert sorted(found) == [("orphan_result", 3), ("unsendable_file", 2), ("unsendable_file", 3)]
    assert {repair.explanation for repair in repairs if repair.kind == "unsendable_file"} == {
        f"A file of this tool result is replaced by text: {problem}"
    }
    with pytest.raises(InvalidHistoryError, match="Message 2 cannot be sent unchanged"):
        make_model(on_broken_history="raise").preview(history(block))


@pytest.mark.parametrize("name", REJECTED)
def test_in_a_message_of_the_user_it_is_rejected(make_model: MakeModel, name: str) -> None:
    block, problem = UNSENDABLE[name]
    with pytest.raises(InvalidInputError) as raised:
        make_model().preview([HumanMessage([{"type": "text", "text": "Look:"}, block])])
    assert str(raised.value).startswith(problem)


def test_other_files_of_the_result_are_sent(make_model: MakeModel) -> None:
    picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    messages = history(UNSENDABLE["a local file"][0])
    messages[2].content.append(picture)
    (answer,) = make_model().preview(messages).body["contents"][2]["parts"]
    assert answer["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    ]
    assert "Not attached" in str(answer["functionResponse"]["response"])


@pytest.mark.parametrize("way", WAYS)
async def test_a_result_whose_file_is_not_fetched_is_sent_without_it(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    block = {"type": "image", "url": "https://127.0.0.1:9/x.png"}
    chat = make_model(fetch_urls=FetchLimits(timeout_seconds=5))
    emulator.reply("I cannot see it.")
    await run(chat, history(block), way)
    (answer,) = emulator.last.body["contents"][2]["parts"]
    output = answer["functionResponse"]["response"]["output"]
    assert output.startswith("Done.\n(Not attached: https://127.0.0.1:9/x.png was not fetched: ")
    assert "FetchLimits" not in output
    with pytest.raises(InvalidInputError, match="was not fetched"):
        await run(chat, [HumanMessage([block])], way)
