"""Agents with tools of real MCP server processes: what the model gets for each result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from langchain_gemini_tools import ToolLoop
from tests.integration_tests.executors import classic_executor, tool_node_graph
from tests.integration_tests.mcp_world_server import PNG
from tests.integration_tests.mcp_worlds import ORCHESTRATOR, TRANSPORTS, WORLD, Transport, World
from tests.integration_tests.play import Play, result

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

JsonObject = dict[str, Any]

each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
each_model_and_transport = pytest.mark.parametrize(
    ("play", "transport"),
    [("gemini-3.8-flash", "stdio"), ("gemini-2.5-flash", "http")],
    indirect=["play"],
)


async def run(play: Play, tools: list[BaseTool]) -> list[Any]:
    """The messages of an agent's whole run."""
    agent: Any = create_agent(play.model(), tools)
    state = await agent.ainvoke({"messages": [HumanMessage("Go.")]})
    return list(state["messages"])


def answers(play: Play, step: int) -> list[JsonObject]:
    """The parts with which calls were answered in a request, counted from 1."""
    contents = play.sent[step]["contents"]
    last = max(number for number, content in enumerate(contents) if content["role"] == "model")
    return [part for content in contents[last + 1 :] for part in content["parts"]]


KINDS: tuple[tuple[str, JsonObject], ...] = (
    ("say", {"text": "hello"}),
    ("find_city", {"name": "Oslo"}),
    ("list_cities", {"names": ["Oslo", "Rome"]}),
    ("list_cities", {"names": []}),
    ("report", {}),
    ("fail", {"why": "No luck."}),
)
OUTCOMES: tuple[tuple[str, Any], ...] = (
    ("output", "You said hello."),
    ("output", {"name": "Oslo", "people": 700_000}),
    ("output", [{"name": "Oslo", "people": 1}, {"name": "Rome", "people": 1}]),
    ("output", []),
    ("output", {"content": "All is well.", "structuredContent": {"load": 0.5}}),
    ("error", "Error executing tool fail: No luck."),
)


@each_model_and_transport
async def test_each_kind_of_result_reaches_the_model_as_what_it_is(
    play: Play, transport: Transport
) -> None:
    play.calls(*KINDS)
    play.says("Done.")
    async with World(WORLD, transport).tools() as tools:
        messages = await run(play, tools)
    assert answers(play, 1) == [
        result(name, output, call_id, key)
        for (name, _), (key, output), call_id in zip(
            KINDS, OUTCOMES, play.ids(messages), strict=True
        )
    ]
    assert messages[-1].text == "Done."


@pytest.mark.parametrize(
    ("play", "way"),
    [("gemini-2.5-flash", "ainvoke"), ("gemini-3.8-flash", "invoke")],
    indirect=["play"],
)
async def test_the_loop_sends_the_model_the_same(play: Play, way: str) -> None:
    """Over HTTP each call has a session of its own, so that a sync loop works as well."""
    play.calls(*KINDS)
    play.says("Done.")
    async with World(WORLD, "http" if way == "invoke" else "stdio").tools() as tools:
        loop = ToolLoop(play.model(), tools)
        if way == "invoke":
            outcome = await asyncio.to_thread(loop.invoke, "Go.")
        else:
            outcome = await loop.ainvoke("Go.")
    received = [part["functionResponse"]["response"] for part in answers(play, 1)]
    assert received == [{key: output} for key, output in OUTCOMES]
    assert outcome.messages[-1].text == "Done."


async def test_the_loop_goes_on_without_a_server_that_is_slow_and_dies(
    emulator: Emulator, make_model: MakeModel
) -> None:
    play = Play(emulator, make_model, "gemini-3.8-flash")
    play.calls(("wait", {"seconds": 60}), ("say", {"text": "meanwhile"}))
    play.calls(("die", {}))
    play.calls(("say", {"text": "Still there?"}))
    play.says("The server is gone.")
    async with World(WORLD, "stdio").tools() as tools:
        outcome = await ToolLoop(play.model(), tools, tool_timeout=1.5).ainvoke("Go.")
    assert [[_word(part) for part in answers(play, step)] for step in (1, 2, 3)] == [
        ["Tool 'wait' did not finish", "You said meanwhile."],
        ["The MCP server 'world' failed"],
        ["The MCP server 'world' failed"],
    ]
    assert outcome.messages[-1].text == "The server is gone."
    assert emulator.refusals == []


def _word(part: JsonObject) -> str:
    """Return the beginning of what the model received."""
    [received] = part["functionResponse"]["response"].values()
    return str(received).partition(" within")[0].partition(" during")[0]


@each_model_and_transport
async def test_pictures_and_sounds_reach_the_model(play: Play, transport: Transport) -> None:
    play.calls(("draw", {}), ("sing", {}))
    play.says("Done.")
    async with World(WORLD, transport).tools() as tools:
        draw, sing = play.ids(await run(play, tools))
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}
    drawn = result("draw", "1 file(s), see below.", draw)
    after = [{"text": f"Files returned by draw (call {draw}):"}, picture]
    if play.is_gemini_3:
        drawn = result("draw", "1 file(s), attached.", draw)
        drawn["functionResponse"]["parts"] = [picture]
        after = []
    assert answers(play, 1) == [
        drawn,
        result("sing", "1 file(s), see below.", sing),
        *after,
        {"text": f"Files returned by sing (call {sing}):"},
        sound,
    ]


def lost(name: str) -> str:
    """How the words about a server that failed begin."""
    return f"The MCP server 'world' failed during {name!r}: "


UNKNOWN_EFFECT = "Whether the call had an effect is not known."


@each_transport
async def test_a_server_that_dies_is_reported_to_the_model_which_continues(
    emulator: Emulator, make_model: MakeModel, transport: Transport
) -> None:
    play = Play(emulator, make_model, "gemini-3.8-flash")
    play.calls(("die", {}))
    play.calls(("say", {"text": "Still there?"}))
    play.says("The server is gone.")
    # A pipe shows that the server is gone; HTTP has to wait for it.
    seconds = 60 if transport == "stdio" else 1.5
    async with World(WORLD, transport, seconds, is_own=True).tools() as tools:
        messages = await run(play, tools)
    for step, (name, call_id) in enumerate(zip(("die", "say"), play.ids(messages), strict=True), 1):
        [part] = answers(play, step)
        words = part["functionResponse"]["response"].get("error", "")
        assert part == result(name, words, call_id, "error")
        assert words.startswith(lost(name))
        assert words.endswith(UNKNOWN_EFFECT)
    assert messages[-1].text == "The server is gone."
    assert emulator.refusals == []


async def test_a_slow_server_is_left_after_its_time_and_may_be_asked_again(
    emulator: Emulator, make_model: MakeModel
) -> None:
    play = Play(emulator, make_model, "gemini-3.8-flash")
    play.calls(("wait", {"seconds": 60}))
    play.calls(("say", {"text": "again"}))
    play.says("Done.")
    async with World(WORLD, "http", timeout_seconds=1.5).tools() as tools:
        slow, again = play.ids(await run(play, tools))
    waited = "Timed out while waiting for response to ClientRequest. Waited 1.5 seconds"
    words = f"{lost('wait')}{waited}. {UNKNOWN_EFFECT}"
    assert answers(play, 1) == [result("wait", words, slow, "error")]
    assert answers(play, 2) == [result("say", "You said again.", again)]
    assert emulator.refusals == []


async def test_a_server_that_cannot_be_reached_is_reported_as_well(play: Play) -> None:
    play.calls(("say", {"text": "hello"}))
    play.says("Nobody is there.")
    async with World(WORLD, "http", is_own=True).tools() as tools:
        pass
    [call_id] = play.ids(await run(play, tools))
    words = f"{lost('say')}All connection attempts failed. {UNKNOWN_EFFECT}"
    assert answers(play, 1) == [result("say", words, call_id, "error")]


async def test_classic_agents_and_graphs_send_the_same(play: Play) -> None:
    async with World(WORLD, "stdio").tools() as tools:
        for _ in range(3):
            play.calls(("list_cities", {"names": ["Oslo"]}), ("fail", {"why": "No luck."}))
            play.says("Done.")
        await run(play, tools)
        executor = classic_executor(play.model(), tools)
        assert (await executor.ainvoke({"input": "Go."}))["output"] == "Done."
        graph = tool_node_graph(play.model(), tools)
        await graph.ainvoke({"messages": [HumanMessage("Go.")]})
    received = [
        [part["functionResponse"]["response"] for part in answers(play, step)] for step in (1, 3, 5)
    ]
    oslo = {"output": [{"name": "Oslo", "people": 1}]}
    words = "Error executing tool fail: No luck."
    # The classic executor knows no failed results.
    assert received == [[oslo, {key: words}] for key in ("error", "output", "error")]


MAILS = {"name": "mails", "kind": "queue"}
CREATED = {**MAILS, "region": "europe-north1"}
ORDERS = {"name": "orders", "kind": "database", "region": "europe-north1"}
TOKEN = "abc313a0"


@each_model_and_transport
async def test_the_orchestrator_lists_plans_creates_and_rejects(
    play: Play, transport: Transport
) -> None:
    play.calls(("list_resources", {}), ("create_resource", {"confirmation_token": "guessed"}))
    play.calls(("plan_resource", MAILS))
    play.calls(("create_resource", {"confirmation_token": TOKEN}))
    play.calls(("list_resources", {}))
    play.says("The queue mails is there.")
    async with World(ORCHESTRATOR, transport, is_own=True).tools() as tools:
        agent: Any = create_agent(play.model(), tools)
        said = [
            piece
            async for piece, _ in agent.astream(
                {"messages": [HumanMessage("A queue for mails, please.")]}, stream_mode="messages"
            )
        ]
    assert "".join(piece.text for piece in said if piece.type == "AIMessageChunk") == (
        "The queue mails is there."
    )
    no_plan = "No plan has this token. Ask plan_resource for a new one."
    plan = {"resource": CREATED, "monthly_price": 1.0, "confirmation_token": TOKEN}
    assert [
        [part["functionResponse"]["response"] for part in answers(play, step)]
        for step in range(1, 5)
    ] == [
        [{"output": [ORDERS]}, {"error": f"Error executing tool create_resource: {no_plan}"}],
        [{"output": plan}],
        [{"output": CREATED}],
        [{"output": [ORDERS, CREATED]}],
    ]
    assert [item["name"] for item in play.sent[0]["tools"][0]["functionDeclarations"]] == [
        "list_resources",
        "plan_resource",
        "create_resource",
    ]
