"""The scenarios of the cassettes in this repository: one function and one file for each.

`make record` records them: with a key against the API, without one against the emulator. A new
scenario is one more function with `@scenario()`, and `make record` once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from pydantic import BaseModel

from langchain_gemini_tools import ChatGemini, ToolLoop, mcp_interceptor
from langchain_gemini_tools.errors import GeminiInvalidRequestError
from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, API_KEY, Emulator, faults
from langchain_gemini_tools.testing.fake.answer import Memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

FOLDER = Path(__file__).parents[1] / "cassettes" / "scenarios"

Way = str
"""`sync` or `async`: one cassette serves both."""


@dataclass
class Actor:
    """Runs a scenario: makes its models, and invokes them."""

    way: Way = "sync"
    settings: dict[str, Any] = field(default_factory=dict)
    """The arguments of every model, in addition to those of the scenario."""
    vertex_settings: dict[str, Any] = field(default_factory=dict)
    made: list[ChatGemini] = field(default_factory=list)

    def gemini(self, model: str = "gemini-3.8-flash", **fields: Any) -> ChatGemini:
        self.made.append(ChatGemini(**({"model": model} | self.settings | fields)))
        return self.made[-1]

    def vertex(self) -> ChatGemini:
        return self.gemini(vertexai=True, location="global", **self.vertex_settings)

    async def ask(self, runnable: Any, question: Any) -> Any:
        if self.way == "sync":
            return runnable.invoke(question)
        return await runnable.ainvoke(question)

    async def stream(self, runnable: Any, question: Any) -> list[Any]:
        if self.way == "sync":
            return list(runnable.stream(question))
        return [chunk async for chunk in runnable.astream(question)]


@dataclass(frozen=True)
class Scenario:
    """A run, and what its caller sees."""

    name: str
    play: Callable[[Actor], Awaitable[Any]]
    script: Callable[[Emulator], None] | None
    """The scripted responses of the emulator; such a scenario is not recorded against the API."""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.yaml"


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    script: Callable[[Emulator], None] | None = None,
) -> Callable[[Callable[[Actor], Awaitable[Any]]], Callable[[Actor], Awaitable[Any]]]:
    """Add a function to the scenarios, under its name."""

    def add(play: Callable[[Actor], Awaitable[Any]]) -> Callable[[Actor], Awaitable[Any]]:
        SCENARIOS[play.__name__] = Scenario(play.__name__, play, script)
        return play

    return add


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return {"Oslo": "-3 °C, snow", "Rome": "17 °C, sun"}.get(city, "12 °C, clouds")


def get_time(city: str) -> str:
    """Current time in a city."""
    return {"Oslo": "14:05", "Rome": "14:05"}.get(city, "13:05")


TOOLS = [get_weather, get_time]


class City(BaseModel):
    """A city."""

    name: str
    population: int


# Each mode of tool choice.


async def _chosen(actor: Actor, choice: Any) -> Any:
    bound = actor.gemini().bind_tools(TOOLS, tool_choice=choice)
    return await actor.ask(bound, "What is the weather in Oslo?")


@scenario()
async def choice_auto(actor: Actor) -> Any:
    bound = actor.gemini().bind_tools(TOOLS)
    return [await actor.ask(bound, "What is the weather in Oslo?"), await actor.ask(bound, "Hello")]


@scenario()
async def choice_any(actor: Actor) -> Any:
    return await _chosen(actor, "any")


@scenario()
async def choice_of_one(actor: Actor) -> Any:
    return await _chosen(actor, "get_time")


@scenario()
async def choice_of_several(actor: Actor) -> Any:
    return await _chosen(actor, ["get_time", "get_weather"])


@scenario()
async def choice_none(actor: Actor) -> Any:
    return await _chosen(actor, "none")


@scenario()
async def choice_validated(actor: Actor) -> Any:
    return await _chosen(actor, "validated")


# Conversations.


@scenario()
async def parallel_calls(actor: Actor) -> Any:
    return await actor.ask(
        actor.gemini().bind_tools(TOOLS), "What is the weather in Oslo and Rome?"
    )


async def _two_turns(actor: Actor, model: ChatGemini) -> Any:
    bound = model.bind_tools(TOOLS)
    history: list[Any] = []
    for question in ("What is the weather in Oslo and Rome?", "And what time in Rome?"):
        history += [HumanMessage(question)]
        history += [await actor.ask(bound, history)]
        history += [_run(call) for call in history[-1].tool_calls]
        history += [await actor.ask(bound, history)]
    return history


def _run(call: Any) -> ToolMessage:
    tool = {tool.__name__: tool for tool in TOOLS}[call["name"]]
    return ToolMessage(tool(**call["args"]), tool_call_id=call["id"], name=call["name"])


@scenario()
async def multi_turn_with_signatures(actor: Actor) -> Any:
    return await _two_turns(actor, actor.gemini())


@scenario()
async def multi_turn_without_ids(actor: Actor) -> Any:
    return await _two_turns(actor, actor.gemini("gemini-2.5-flash"))


@scenario()
async def agent(actor: Actor) -> Any:
    made = create_agent(actor.gemini(), tools=TOOLS)
    result = await actor.ask(
        made, {"messages": [HumanMessage("What is the weather in Oslo and Rome?")]}
    )
    return result["messages"]


# Streams.


@scenario()
async def stream_of_text(actor: Actor) -> Any:
    return await actor.stream(actor.gemini(), "Say hello")


@scenario()
async def stream_of_calls(actor: Actor) -> Any:
    bound = actor.gemini().bind_tools(TOOLS)
    return await actor.stream(bound, "What is the weather in Oslo and Rome?")


@scenario()
async def stream_of_thoughts(actor: Actor) -> Any:
    return await actor.stream(actor.gemini(include_thoughts=True), "Why is the sky blue?")


# Failures.


def _busy_once(emulator: Emulator) -> None:
    emulator.reply(fault=faults.too_many_requests(retry_seconds=0.2))


@scenario(script=_busy_once)
async def error_429_then_success(actor: Actor) -> Any:
    return await actor.ask(actor.gemini(max_retries=2), "Hello")


@scenario()
async def error_400(actor: Actor) -> Any:
    try:
        await actor.ask(actor.gemini(extra_body={"nonsense": 1}), "Hello")
    except GeminiInvalidRequestError as error:
        return [type(error).__name__, error.code, error.status, str(error)]
    raise AssertionError("The API took what it cannot know.")


# Structured output.


@scenario()
async def structured_output_by_call(actor: Actor) -> Any:
    return await actor.ask(actor.gemini().with_structured_output(City), '"Oslo" has 700000 people')


@scenario()
async def structured_output_as_json(actor: Actor) -> Any:
    model = actor.gemini().with_structured_output(City, method="json_schema", include_raw=True)
    return await actor.ask(model, '"Oslo" has 700000 people')


# Prompted tools, as an endpoint without function calling needs them.

PROMPTED = {"tool_calling": "prompted"}


@scenario()
async def prompted_conversation(actor: Actor) -> Any:
    return await _two_turns(actor, actor.gemini(**PROMPTED))


@scenario()
async def prompted_stream(actor: Actor) -> Any:
    bound = actor.gemini(**PROMPTED).bind_tools(TOOLS)
    return await actor.stream(bound, "What is the weather in Oslo and Rome?")


@scenario()
async def prompted_structured_output(actor: Actor) -> Any:
    return await actor.ask(
        actor.gemini(**PROMPTED).with_structured_output(City), '"Oslo" has 700000 people'
    )


# Tools of an MCP server.


@scenario()
async def mcp_loop(actor: Actor) -> Any:
    """A loop over MCP tools; it is always async, because they are."""
    from langchain_mcp_adapters.tools import load_mcp_tools
    from mcp.server.fastmcp import FastMCP
    from mcp.shared.memory import create_connected_server_and_client_session

    server = FastMCP("world", log_level="CRITICAL")
    for tool in TOOLS:
        server.add_tool(tool)
    async with create_connected_server_and_client_session(server) as session:
        tools = await load_mcp_tools(
            session, server_name="world", tool_interceptors=[mcp_interceptor]
        )
        loop = ToolLoop(actor.gemini(), tools, max_turns=3)
        outcome = await loop.ainvoke("What is the weather in Oslo and Rome?")
    return [outcome.stop_reason, outcome.turns, *outcome.messages]


# Gemini's own tools, and the rest.


@scenario()
async def server_side_search_beside_functions(actor: Actor) -> Any:
    bound = actor.gemini().bind_tools([get_time, {"google_search": {}}])
    first = await actor.ask(bound, "Search for news about fjords")
    return [
        first,
        await actor.ask(
            bound, [HumanMessage("Search for news about fjords"), first, HumanMessage("Thanks")]
        ),
    ]


@scenario()
async def server_side_code(actor: Actor) -> Any:
    bound = actor.gemini().bind_tools([{"code_execution": {}}])
    return await actor.ask(bound, "Run code: what is 6 times 7?")


@scenario()
async def counted_tokens(actor: Actor) -> Any:
    return actor.gemini().get_num_tokens("How many tokens are these?")


def _nothing_special(emulator: Emulator) -> None:
    """The emulator chooses the response; a real project would need credentials."""


@scenario(script=_nothing_special)
async def vertex(actor: Actor) -> Any:
    return await actor.ask(actor.vertex().bind_tools(TOOLS), "What is the weather in Oslo?")


# Playing and recording.


@contextmanager
def stage(found: Scenario, way: Way = "sync") -> Iterator[Actor]:
    """An emulator that gives a scenario the same answers each time, and models that talk to it."""
    from google.oauth2.credentials import Credentials

    with Emulator() as emulator:
        emulator.memory = Memory(salt=zlib.crc32(found.name.encode()))
        if found.script:
            found.script(emulator)
        token = Credentials(token=ACCESS_TOKEN)  # type: ignore[no-untyped-call]
        actor = Actor(
            way,
            settings={"base_url": emulator.url, "api_key": API_KEY},
            vertex_settings={"api_key": None, "credentials": token, "project": "demo"},
        )
        yield actor
        for model in actor.made:
            model.close()


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def seen(result: Any) -> Any:
    """Return the result of a run without the ids that are new in each run."""
    names: dict[str, str] = {}
    text = json.dumps(result, default=_plain, sort_keys=True, ensure_ascii=False)
    return json.loads(_UUID.sub(lambda id_: names.setdefault(id_[0], f"id-{len(names)}"), text))


def _plain(value: Any) -> Any:
    return {"type": type(value).__name__, **value.model_dump()}


def record(found: Scenario, path: Path) -> Any:
    """Record a scenario, against the API if possible, and return the result."""
    import asyncio

    has_key = any(map(os.environ.get, ("GOOGLE_API_KEY", "GEMINI_API_KEY")))
    if has_key and not found.script:
        with cassette(path, record_mode="all"):
            return seen(asyncio.run(_played(found, Actor())))
    with stage(found) as actor, cassette(path, record_mode="all"):
        return seen(asyncio.run(_played(found, actor)))


async def _played(found: Scenario, actor: Actor) -> Any:
    return await found.play(actor)


def main() -> None:
    """Record all scenarios, or those that are named."""
    for name in sys.argv[1:] or SCENARIOS:
        found = SCENARIOS[name]
        record(found, found.path)
        with found.path.open(encoding="utf-8") as file:
            print(f"{found.path.name:45} {file.readline().strip()}")


if __name__ == "__main__":
    main()
