"""Schemas that no one here wrote: the official MCP servers, started and listed for real.

Those from PyPI are part of the `dev` extra. Those from npm run where Node is present and the
package is in npm's cache or can be fetched; otherwise their tests skip and say why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool

from langchain_gemini_tools import check_tools
from langchain_gemini_tools.testing.fake.rules import check
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.integration_tests.mcp_servers import FILESYSTEM, GIT, SERVERS, TIME, Server
from tests.integration_tests.test_recorded_declarations import comparable
from tests.unit_tests.testing.fake.requests import ask

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import AIMessage
    from mcp import ClientSession, Tool

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

JsonObject = dict[str, Any]

each_server = pytest.mark.parametrize(
    "server", SERVERS, ids=[server.package.rpartition("/")[2] for server in SERVERS]
)


async def listed(session: ClientSession) -> list[Tool]:
    return list((await session.list_tools()).tools)


LISTED: dict[Server, list[Tool]] = {}


async def tools_of(server: Server) -> list[Tool]:
    """What the server lists, asked for once: starting one takes seconds."""
    if server not in LISTED:
        async with server.connect() as session:
            LISTED[server] = await listed(session)
    return LISTED[server]


def with_enums(value: Any) -> Any:
    """The same schema with every `const` as an enum of one value, as it is sent."""
    if isinstance(value, list):
        return [with_enums(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: with_enums(item) for key, item in value.items()}
    if isinstance(changed.get("const"), str):
        changed["enum"] = [changed.pop("const")]
    return changed


def as_dict(tool: Tool) -> JsonObject:
    """The tool as it came over the connection."""
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def declared(tools: Any) -> list[JsonObject]:
    return [item for tool in tools for item in tool.get("functionDeclarations", [])]


@each_server
async def test_every_tool_of_a_server_is_taken_in_both_forms(
    server: Server, emulator: Emulator, make_model: MakeModel
) -> None:
    tools = await tools_of(server)
    for form in (None, "openapi"):
        bound = make_model(tool_schema=form).bind_tools(tools)
        await bound.ainvoke("What can you do?")
        sent = declared(emulator.last.body["tools"])
        assert [item["name"] for item in sent] == [tool.name for tool in tools]
        assert [item.get("description") for item in sent] == [t.description for t in tools]
    assert server.tools <= {tool.name for tool in tools}
    assert emulator.refusals == []
    assert len(emulator.requests) == 2


@each_server
async def test_every_tool_keeps_its_meaning_however_it_is_handed_over(server: Server) -> None:
    tools = await tools_of(server)
    sent = declared(render_tools(bind_tools(tools)))
    for tool, declaration in zip(tools, sent, strict=True):
        given = as_dict(tool)
        original = {
            "name": given["name"],
            "description": given.get("description"),
            "parametersJsonSchema": given["inputSchema"],
            "responseJsonSchema": given.get("outputSchema", {}),
        }
        assert comparable(declaration) == comparable(with_enums(original))
        assert declared(render_tools(bind_tools([given]))) == [declaration]
        # As LangChain's adapter for MCP hands tools over; it keeps no schema of the result.
        adapted = StructuredTool(
            name=given["name"],
            description=given.get("description", ""),
            args_schema=given["inputSchema"],
        )
        without_response = {k: v for k, v in declaration.items() if k != "responseJsonSchema"}
        assert declared(render_tools(bind_tools([adapted]))) == [without_response]


@each_server
async def test_names_and_requirements_are_the_same_in_the_other_form(server: Server) -> None:
    tools = await tools_of(server)
    wire = json.loads(json.dumps(render_tools(bind_tools(tools), form="openapi")))
    check(ask(tools=wire))
    check(ask(tools=wire, backend="vertex"))
    for tool, declaration in zip(tools, declared(wire), strict=True):
        schema = as_dict(tool)["inputSchema"]
        message = declaration.get("parameters", {})
        assert list(message.get("properties", {})) == list(schema.get("properties", {}))
        assert message.get("required", []) == schema.get("required", [])


@each_server
async def test_the_tools_of_a_server_have_no_errors(server: Server) -> None:
    report = check_tools(await tools_of(server))
    assert report.errors == ()
    assert report.tool_count >= len(server.tools)
    assert report.tokens > 20


async def round_trip(
    model: ChatGemini, session: ClientSession, emulator: Emulator, call: tuple[str, JsonObject]
) -> tuple[AIMessage, Any]:
    """The model calls, the real server executes, the result goes back: the answer, and what."""
    emulator.reply(calls=[call])
    emulator.reply("Done.")
    bound = model.bind_tools(await listed(session))
    question = HumanMessage("Please.")
    calling = await bound.ainvoke([question])
    [made] = calling.tool_calls
    done = await session.call_tool(made["name"], made["args"])
    text = "".join(getattr(block, "text", "") for block in done.content)
    answer = await bound.ainvoke([question, calling, ToolMessage(text, tool_call_id=made["id"])])
    [part] = emulator.last.body["contents"][-1]["parts"]
    assert part["functionResponse"]["name"] == call[0]
    assert emulator.refusals == []
    return answer, part["functionResponse"]["response"]["output"]


@pytest.mark.parametrize("form", [None, "openapi"])
async def test_the_time_of_a_real_server_goes_back_to_the_model(
    form: str | None, emulator: Emulator, make_model: MakeModel
) -> None:
    call = ("get_current_time", {"timezone": "Asia/Tokyo"})
    async with TIME.connect() as session:
        answer, output = await round_trip(make_model(tool_schema=form), session, emulator, call)
    assert answer.text == "Done."
    assert output["timezone"] == "Asia/Tokyo"
    assert output["datetime"].endswith("+09:00")


async def test_a_files_words_come_back_from_a_real_server(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("Hello from the disk.")
    server = Server(FILESYSTEM.package, (str(tmp_path),), FILESYSTEM.tools)
    call = ("read_text_file", {"path": str(tmp_path / "note.txt")})
    async with server.connect() as session:
        _, output = await round_trip(make_model(), session, emulator, call)
    assert output == "Hello from the disk."


async def test_a_failure_of_a_real_server_goes_back_as_its_words(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    async with GIT.connect() as session:
        _, output = await round_trip(
            make_model(), session, emulator, ("git_status", {"repo_path": str(tmp_path)})
        )
    assert str(tmp_path) in output


async def test_tools_of_all_servers_can_be_bound_together(
    emulator: Emulator, make_model: MakeModel
) -> None:
    tools: list[Tool] = []
    for server in (server for server in SERVERS if server.is_python):
        tools += await tools_of(server)
    for form in (None, "openapi"):
        await make_model(tool_schema=form).bind_tools(tools).ainvoke("Hello")
        assert len(declared(emulator.last.body["tools"])) == len(tools)
    assert emulator.refusals == []
