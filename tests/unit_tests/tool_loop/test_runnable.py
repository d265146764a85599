"""ToolLoop among other runnables: one tree of runs, configuration, composition, core's events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import tool

from langchain_gemini_tools import ToolLoop
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls, tool_texts

WAYS = ["invoke", "ainvoke", "stream", "astream", "events", "aevents"]


def _inner(text: str) -> str:
    return text.upper()


@tool
def shout(text: str, config: RunnableConfig) -> str:
    """Shout, by way of another runnable."""
    louder = RunnableLambda(_inner, name="inner").invoke(text)
    return louder + str(config["configurable"]["mark"])


shout.tags = ["mine"]


@tool
async def ashout(text: str, config: RunnableConfig) -> str:
    """Shout, by way of another runnable."""
    louder = await RunnableLambda(_inner, name="inner").ainvoke(text)
    return louder + str(config["configurable"]["mark"])


def _loop(**options: Any) -> ToolLoop:
    asked = [call("shout", "1", text="a"), call("ashout", "2", text="b")]
    model = ScriptedModel(replies=[calls(*asked), "Done."])
    return ToolLoop(model, [shout, ashout], **options)


class _Tree(BaseCallbackHandler):
    """The runs as they were started: name, parent's name, tags and metadata."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.runs: list[tuple[str, str | None]] = []
        self.tags: dict[str, set[str]] = {}
        self.metadata: dict[str, Any] = {}
        self.ended = 0

    def _add(self, run_id: Any, parent: Any, name: str, tags: Any, metadata: Any) -> None:
        self.names[run_id] = name
        self.runs.append((name, self.names.get(parent)))
        self.tags[name] = set(tags or [])
        self.metadata[name] = (metadata or {}).get("who")

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self._start(kwargs["name"], kwargs)

    def on_tool_start(self, serialized: Any, input_str: Any, **kwargs: Any) -> None:
        self._start(serialized["name"], kwargs)

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self._start("model", kwargs)

    def _start(self, name: str, kwargs: Any) -> None:
        self._add(
            kwargs["run_id"],
            kwargs["parent_run_id"],
            name,
            kwargs.get("tags"),
            kwargs.get("metadata"),
        )

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        self.ended += 1

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.ended += 1

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.ended += 1


def _run(loop: Any, way: str, config: Any) -> Any:
    async def drain() -> list[Any]:
        return [item async for item in getattr(loop, way)("Hi", config)]

    match way:
        case "invoke":
            return loop.invoke("Hi", config)
        case "ainvoke":
            return asyncio.run(loop.ainvoke("Hi", config))
        case "stream" | "events":
            return list(getattr(loop, way)("Hi", config))
        case _:
            return asyncio.run(drain())


@pytest.mark.parametrize("way", WAYS)
def test_model_and_tools_are_children_of_one_run(way: str) -> None:
    tree = _Tree()
    config = {
        "callbacks": [tree],
        "tags": ["outer"],
        "metadata": {"who": "eve"},
        "run_name": "my loop",
        "configurable": {"mark": "!"},
    }
    _run(_loop(max_concurrency=1), way, config)
    assert tree.runs == [
        ("my loop", None),
        ("model", "my loop"),
        ("shout", "my loop"),
        ("inner", "shout"),
        ("ashout", "my loop"),
        ("inner", "ashout"),
        ("model", "my loop"),
    ]
    assert tree.ended == 7
    assert all("outer" in tags for tags in tree.tags.values())
    assert tree.tags["shout"] == {"outer", "mine"}
    assert set(tree.metadata.values()) == {"eve"}


def test_configurable_values_reach_the_tools() -> None:
    for result in (
        _loop().invoke("Hi", {"configurable": {"mark": "?"}}),
        asyncio.run(_loop().ainvoke("Hi", {"configurable": {"mark": "?"}})),
    ):
        assert [answer[2] for answer in tool_texts(result)] == ["A?", "B?"]


class _Failures(BaseCallbackHandler):
    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(f"tool {error}")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(f"chain {error}")


@pytest.mark.parametrize("way", WAYS)
def test_failures_reach_the_callbacks(way: str) -> None:
    def fail(text: str) -> str:
        """Fail."""
        raise ValueError(text)

    replies = [calls(call("fail", text="bad")), ConnectionError("gone")]
    watcher = _Failures()
    loop = ToolLoop(ScriptedModel(replies=replies), [fail])
    with pytest.raises(ConnectionError):
        _run(loop, way, {"callbacks": [watcher]})
    assert watcher.errors == ["tool bad", "chain gone"]


class _AsyncWatcher(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_tool_start(self, serialized: Any, input_str: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self.seen.append(serialized["name"])


async def test_async_callbacks_see_sync_tools() -> None:
    watcher = _AsyncWatcher()
    config: Any = {"callbacks": [watcher], "configurable": {"mark": ""}}
    await _loop(max_concurrency=1).ainvoke("Hi", config)
    assert watcher.seen == ["shout", "ashout"]


async def test_the_events_of_langchain_core_show_every_step() -> None:
    config: Any = {"configurable": {"mark": "!"}}
    loop = _loop(max_concurrency=1)
    seen = [event async for event in loop.astream_events("Hi", config, version="v2")]
    steps = [(e["event"], e["name"]) for e in seen if not e["event"].endswith("_stream")]
    assert [step for step in steps if step[1] != "inner"] == [
        ("on_chain_start", "ToolLoop"),
        ("on_chat_model_start", "ScriptedModel"),
        ("on_chat_model_end", "ScriptedModel"),
        ("on_tool_start", "shout"),
        ("on_tool_end", "shout"),
        ("on_tool_start", "ashout"),
        ("on_tool_end", "ashout"),
        ("on_chat_model_start", "ScriptedModel"),
        ("on_chat_model_end", "ScriptedModel"),
        ("on_chain_end", "ToolLoop"),
    ]
    pieces = [e["data"]["chunk"] for e in seen if (e["event"], e["name"]) == STREAMED]
    assert pieces == ["Done", "."]
    assert seen[-1]["data"]["output"] == "Done."


STREAMED = ("on_chain_stream", "ToolLoop")


def _text_loop(*replies: Any) -> ToolLoop:
    def echo(text: str) -> str:
        """Say it again."""
        return text

    return ToolLoop(ScriptedModel(replies=list(replies)), [echo])


def test_a_loop_works_in_a_chain() -> None:
    prompt = ChatPromptTemplate([("system", "Be brief."), ("human", "{question}")])
    turn = calls(call("echo", text="x"))

    def chain() -> Any:
        return prompt | _text_loop(turn, "Here it is.").text() | StrOutputParser() | str.upper

    async def stream() -> list[Any]:
        return [piece async for piece in chain().astream({"question": "Where?"})]

    assert chain().invoke({"question": "Where?"}) == "HERE IT IS."
    assert asyncio.run(chain().ainvoke({"question": "Where?"})) == "HERE IT IS."
    assert "".join(chain().stream({"question": "Where?"})) == "HERE IT IS."
    assert "".join(asyncio.run(stream())) == "HERE IT IS."


def test_a_chain_passes_the_result_on() -> None:
    chain = _text_loop("Here.") | (lambda result: (result.text, result.turns))
    assert chain.invoke("Where?") == ("Here.", 1)


def test_text_streams_through_a_chain() -> None:
    prompt = ChatPromptTemplate([("human", "{question}")])
    chain = prompt | _text_loop(calls(call("echo", text="x")), "Here it is.")
    assert list(chain.stream({"question": "Where?"})) == ["Here", " it ", "is."]


def test_many_inputs_are_run_as_a_batch() -> None:
    class Mirror(ScriptedModel):
        def _next(self, messages: Any, kwargs: Any) -> Any:
            self.replies = [f"You said {messages[-1].text}."]
            self.asked.clear()
            return super()._next(messages, kwargs)

    loop = ToolLoop(Mirror(replies=[]), [shout])
    config: Any = {"max_concurrency": 1}
    assert [e.text for e in loop.batch(["a", "b"], config)] == ["You said a.", "You said b."]
    answers = asyncio.run(loop.abatch(["a", "b"], config))
    assert [e.text for e in answers] == ["You said a.", "You said b."]


def test_configuration_can_be_bound() -> None:
    tree = _Tree()
    loop = _loop().with_config(
        {"callbacks": [tree], "run_name": "bound", "configurable": {"mark": "."}}
    )
    assert [answer[2] for answer in tool_texts(loop.invoke("Hi"))] == ["A.", "B."]
    assert tree.runs[0] == ("bound", None)


@pytest.mark.parametrize("tools", [[], [shout]], ids=["no tools", "tools"])
def test_a_model_with_configurable_fields_is_configured_through_the_loop(tools: list[Any]) -> None:
    model = ScriptedModel(replies=["Hello there."], piece=5).configurable_fields(
        piece=ConfigurableField(id="size")
    )
    loop = ToolLoop(model, tools)
    assert list(loop.stream("Hi")) == ["Hello", " ther", "e."]
    config: Any = {"configurable": {"size": 6}}
    model.default.asked.clear()  # type: ignore[attr-defined]
    assert list(loop.stream("Hi", config)) == ["Hello ", "there."]
    assert [spec.id for spec in loop.config_specs] == ["size"]


async def test_the_config_of_a_run_chooses_among_models() -> None:
    loud = ScriptedModel(replies=["HELLO"] * 3)
    model = ScriptedModel(replies=["Hello"] * 3).configurable_alternatives(
        ConfigurableField(id="model"), default_key="quiet", loud=loud
    )
    loop = ToolLoop(model.bind(stop=["!"]), [shout])
    config: Any = {"configurable": {"model": "loud"}}
    assert loop.invoke("Hi").text == "Hello"
    assert loop.invoke("Hi", config).text == "HELLO"
    assert (await loop.ainvoke("Hi", config)).text == "HELLO"
    always_loud = ToolLoop(model.with_config(config), [shout])
    assert always_loud.invoke("Hi").text == "HELLO"
    assert [asked.tools for asked in loud.asked] == [["shout"]] * 3


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_a_loop_can_be_a_tool_of_another_loop() -> None:
    inner = ScriptedModel(replies=["Forty-two."])
    expert = (
        ToolLoop(inner, [shout])
        .text()
        .as_tool(arg_types={"messages": str}, name="expert", description="Knows everything.")
    )
    outer = ScriptedModel(replies=[calls(call("expert", messages="Why?")), "Done."])
    assert tool_texts(ToolLoop(outer, [expert]).invoke("Hi")) == [("1", "success", "Forty-two.")]
    assert [message.text for message in inner.asked[0].messages] == ["Why?"]


def test_a_loop_describes_itself_to_graphs() -> None:
    loop = _loop()
    assert loop.get_name() == "ToolLoop"
    assert [node.name for node in (loop | str).get_graph().nodes.values()][1] == "ToolLoop"
    assert "anyOf" in loop.get_input_jsonschema()
