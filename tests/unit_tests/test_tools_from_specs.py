"""`tools_from_specs`: the declarations of a registry, with one function that calls its tools."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from google.genai import types
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from mcp.types import Tool as McpTool
from mcp.types import ToolAnnotations

from langchain_gemini_tools import ChatGemini, ToolLoop, tools_from_specs
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.unit_tests.tool_loop.scripted import ScriptedModel, calls, tool_texts
from tests.unit_tests.tool_loop.scripted import call as asked
from tests.unit_tests.wire.tools.test_bind import BOUND, DIALECTS

JsonObject = dict[str, Any]

REMOTE_DIALECTS = {
    name: spec for name, spec in DIALECTS.items() if not name.startswith("langchain tool")
}
ADD: JsonObject = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}},
}


def add(name: str, args: JsonObject) -> JsonObject:
    return {"tool": name, "sum": args["a"] + args["b"]}


async def async_add(name: str, args: JsonObject) -> JsonObject:
    await asyncio.sleep(0)
    return add(name, args)


def later_add(name: str, args: JsonObject) -> Any:
    return async_add(name, args)


class Registry:
    async def __call__(self, name: str, args: JsonObject) -> JsonObject:
        return await async_add(name, args)


def called(args: JsonObject, name: str = "add") -> JsonObject:
    return {"type": "tool_call", "name": name, "args": args, "id": "1"}


ONE_AND_TWO = called({"a": 1, "b": 2})
THREE = ToolMessage('{"tool": "add", "sum": 3}', name="add", tool_call_id="1")


@pytest.mark.parametrize("spec", REMOTE_DIALECTS.values(), ids=REMOTE_DIALECTS)
def test_every_dialect_is_declared_as_the_specification_itself(spec: Any) -> None:
    [tool] = tools_from_specs([spec], add)
    assert [*bind_tools([tool])] == [BOUND]
    for form in ("json_schema", "openapi"):
        assert render_tools(bind_tools([tool]), form=form) == render_tools(
            bind_tools([BOUND]), form=form
        )


@pytest.mark.parametrize(
    "spec",
    [
        ADD,
        McpTool(**ADD),
        types.FunctionDeclaration(
            name="add",
            description="Add two numbers.",
            parameters_json_schema=ADD["inputSchema"],
            response_json_schema=ADD["outputSchema"],
        ),
    ],
)
def test_a_tool_says_what_its_specification_says(spec: Any) -> None:
    [tool] = tools_from_specs([spec], add)
    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.args_schema == ADD["inputSchema"]
    assert tool.extras == {"gemini": {"response_schema": ADD["outputSchema"]}}
    assert bind_tools([tool]) == bind_tools([spec])


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "f", "annotations": {"readOnlyHint": True}},
        McpTool(
            name="f", inputSchema={"type": "object"}, annotations=ToolAnnotations(readOnlyHint=True)
        ),
    ],
)
def test_what_mcp_hints_at_is_kept(spec: Any) -> None:
    [tool] = tools_from_specs([spec], add)
    assert tool.metadata == {"readOnlyHint": True}


def test_a_tool_without_arguments_or_description_stays_without() -> None:
    [tool] = tools_from_specs([{"name": "ping"}], lambda name, args: [name, args])
    assert [*bind_tools([tool])] == [{"type": "function", "function": {"name": "ping"}}]
    assert tool.args == {}
    assert tool.invoke({}) == ["ping", {}]


def test_several_declarations_of_one_tool_are_several_tools() -> None:
    tools = tools_from_specs([{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}], add)
    assert [tool.name for tool in tools] == ["a", "b"]


@pytest.mark.parametrize("call", [add, async_add, Registry(), partial(async_add), later_add])
async def test_an_async_agent_may_have_any_call(call: Any) -> None:
    [tool] = tools_from_specs([ADD], call)
    assert await tool.ainvoke(ONE_AND_TWO) == THREE


def test_a_sync_agent_has_a_sync_call() -> None:
    [tool] = tools_from_specs([ADD], add)
    assert tool.invoke(ONE_AND_TWO) == THREE


@pytest.mark.parametrize("call", [async_add, Registry(), later_add])
def test_a_sync_agent_learns_that_the_call_is_async(call: Any) -> None:
    [tool] = tools_from_specs([ADD], call)
    with pytest.raises(NotImplementedError, match=r"'add' is run by an async .* ainvoke or"):
        tool.invoke(ONE_AND_TWO)


async def test_a_sync_call_does_not_block_an_async_agent() -> None:
    seen: list[int] = []
    [tool] = tools_from_specs([ADD], lambda *_: seen.append(threading.get_ident()))
    await tool.ainvoke(ONE_AND_TWO)
    assert seen
    assert seen != [threading.get_ident()]


def test_arguments_may_have_any_name() -> None:
    """LangChain's own tools keep some of these for themselves."""
    names = ["config", "run_manager", "callbacks", "self", "name", "args", "call", "runtime"]
    spec = {"name": "f", "parameters": {"properties": {name: {} for name in names}}}
    [tool] = tools_from_specs([spec], lambda _, args: args)
    given = {name: f"the {name}" for name in names}
    assert tool.invoke({**given}) == given
    assert asyncio.run(tool.ainvoke({**given})) == given


def test_arguments_are_passed_on_as_the_model_gave_them() -> None:
    [tool] = tools_from_specs([ADD], lambda _, args: args)
    assert tool.invoke({"a": "one", "c": None}) == {"a": "one", "c": None}


def refuse(name: str, args: JsonObject) -> None:
    raise ToolException(f"{name} takes no {args['a']!r}")


async def async_refuse(name: str, args: JsonObject) -> None:
    refuse(name, args)


REFUSED = ToolMessage("add takes no 1", name="add", tool_call_id="1", status="error")


@pytest.mark.parametrize("call", [refuse, async_refuse])
async def test_a_tool_exception_is_an_error_that_the_model_reads(call: Any) -> None:
    [tool] = tools_from_specs([ADD], call)
    assert await tool.ainvoke(ONE_AND_TWO) == REFUSED
    if call is refuse:
        assert tool.invoke(ONE_AND_TWO) == REFUSED


def test_a_tool_exception_is_raised_where_that_is_wanted() -> None:
    [tool] = tools_from_specs([ADD], refuse, handle_tool_error=False)
    with pytest.raises(ToolException, match="add takes no 1"):
        tool.invoke(ONE_AND_TWO)


def test_a_tool_exception_is_put_into_other_words() -> None:
    [tool] = tools_from_specs([ADD], refuse, handle_tool_error=lambda error: f"Sorry: {error}")
    assert tool.invoke(ONE_AND_TWO).content == "Sorry: add takes no 1"


def test_any_other_exception_is_the_executors_business() -> None:
    [tool] = tools_from_specs([ADD], lambda _, args: args["c"])
    with pytest.raises(KeyError, match="c"):
        tool.invoke(ONE_AND_TWO)


def twin(spec: JsonObject) -> StructuredTool:
    return StructuredTool(
        name=spec["name"], description="A tool.", args_schema=spec["inputSchema"], func=print
    )


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ([ADD, ADD], "Two specifications have the name 'add'"),
        ([ADD, {"name": "f", "parameters": {"type": "string"}}], r"specs\[1\]: Tool 'f': its par"),
        ([{"description": "Who am I?"}], r"specs\[0\]: A tool with the keys 'description'"),
        ([{"type": "object", "properties": {}}], r"specs\[0\]: A JSON schema .* needs a 'title'"),
        ([{"google_search": {}}], r"specs\[0\]: google_search is run by Google"),
        ([ADD, print], r"specs\[1\] is not a specification: <built-in function print>"),
        ([twin(ADD)], r"specs\[0\] is not a specification: .*bind them directly"),
        (["add"], r"specs\[0\] is not a specification: 'add'"),
    ],
)
def test_a_specification_that_cannot_be_used_is_rejected(specs: Any, reason: str) -> None:
    with pytest.raises(InvalidToolError, match=reason):
        tools_from_specs(specs, add)


@pytest.mark.parametrize(
    ("specs", "call", "reason"),
    [
        (ADD, add, "put a single one into a list"),
        ("add", add, "put a single one into a list"),
        ([ADD], "add", "call must be a function"),
    ],
)
def test_mixed_up_arguments_are_rejected(specs: Any, call: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        tools_from_specs(specs, call)


def test_what_the_call_function_contains_is_not_shown() -> None:
    def call(name: str, args: JsonObject, token: str = "hunter2") -> None: ...

    tools = tools_from_specs([ADD], partial(call, token="hunter2"))
    bound = ChatGemini(model="gemini-3.8-flash", api_key="k").bind_tools(tools)
    assert "hunter2" not in repr(tools) + str(tools[0].model_dump()) + repr(bound)


def loop_over(call: Any, **options: Any) -> ToolLoop:
    """A loop whose model adds once."""
    script = [calls(asked("add", a=1, b=2)), "Done."]
    return ToolLoop(ScriptedModel(replies=script), tools_from_specs([ADD], call), **options)


def test_no_event_loop_waits_for_a_call_that_hangs() -> None:
    """Threads of asyncio's own pool are few, and waited for when the event loop closes."""
    released, ended = threading.Event(), threading.Event()

    def hang(name: str, args: JsonObject) -> None:
        released.wait(20)
        ended.set()

    result = asyncio.run(loop_over(hang, tool_timeout=0.05).ainvoke("1 + 2?"))
    assert not ended.is_set()
    assert [status for _, status, _ in tool_texts(result)] == ["error"]
    released.set()
    assert ended.wait(20)


@pytest.mark.parametrize("call", [add, async_add, later_add])
async def test_a_loop_runs_any_call_in_either_way(call: Any) -> None:
    answer = [("1", "success", '{"tool": "add", "sum": 3}')]
    assert tool_texts(await loop_over(call).ainvoke("1 + 2?")) == answer
    assert tool_texts(loop_over(call).invoke("1 + 2?")) == answer


async def test_a_loop_awaits_a_call_on_its_own_event_loop() -> None:
    """Clients of a registry belong to the event loop that they were made on."""
    seen: list[Any] = []

    async def note(name: str, args: JsonObject) -> None:
        seen.append(asyncio.get_running_loop())

    def note_later(name: str, args: JsonObject) -> Any:
        return note(name, args)

    await loop_over(note).ainvoke("1 + 2?")
    await loop_over(note_later).ainvoke("1 + 2?")
    assert seen == [asyncio.get_running_loop()] * 2


def test_an_async_call_is_one_run_for_tracers() -> None:
    started: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_tool_start(self, *_: Any, **__: Any) -> None:
            started.append("add")

    loop_over(async_add).invoke("1 + 2?", {"callbacks": [Listener()]})
    assert started == ["add"]
