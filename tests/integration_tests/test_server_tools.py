"""Tools that run on Google's side, beside functions: over many turns, in all ways of calling."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import HumanMessage, ToolMessage, messages_from_dict, messages_to_dict
from pydantic import BaseModel

from langchain_gemini_tools import ChatGemini, ToolLoop
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.testing.fake import API_KEY
from tests.integration_tests.play import WEATHER, call, get_weather, model, result, text, user

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

JsonObject = dict[str, Any]

FLAG = {"includeServerSideToolInvocations": True}
SERVED: list[JsonObject] = [
    {"google_search": {}},
    {"code_execution": {}},
    {"url_context": {}},
    {"google_maps": {"enable_widget": True}},
    {"file_search": {"file_search_store_names": ["stores/a"]}},
]
SERVED_ON_THE_WIRE = [
    {"googleSearch": {}},
    {"codeExecution": {}},
    {"urlContext": {}},
    {"googleMaps": {"enableWidget": True}},
    {"fileSearch": {"fileSearchStoreNames": ["stores/a"]}},
]
WAYS = ["invoke", "ainvoke", "stream", "astream"]


def sign(number: int) -> str:
    """A signature with both special signs of base64 in it."""
    return base64.b64encode(b"\xfb\xff\xbf" + f"part {number}".encode()).decode()


def served(kind: str, number: int, args: JsonObject, response: JsonObject) -> list[JsonObject]:
    """A call that Google's side made, and what came of it."""
    about = {"id": f"served{number}", "toolType": kind}
    return [
        {"toolCall": {**about, "args": args}, "thoughtSignature": sign(10 * number)},
        {
            "toolResponse": {**about, "response": response},
            "thoughtSignature": sign(10 * number + 1),
        },
    ]


def executed(number: int) -> list[JsonObject]:
    code = {"id": f"code{number}", "language": "PYTHON", "code": f"print({number})"}
    output = {"id": f"code{number}", "outcome": "OUTCOME_OK", "output": f"{number}\n"}
    return [
        {"executableCode": code, "thoughtSignature": sign(10 * number)},
        {"codeExecutionResult": output},
    ]


SEARCH = served("GOOGLE_SEARCH_WEB", 1, {"queries": ["Ålesund"]}, {"search_suggestions": "<div>"})
PAGE = served("URL_CONTEXT", 2, {"urls": ["https://a.com"]}, {"status": None, "pages": []})
PLACE = served("GOOGLE_MAPS", 3, {}, {"places": [{"id": "p", "rating": 4.5}]})
FILES = served("FILE_SEARCH", 4, {"query": "x"}, {})
CODE = executed(5)
MORE_CODE = executed(6)
OSLO, ROME = ("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})

STEPS: list[list[JsonObject]] = [
    # As recorded: a call, then what the server did meanwhile.
    [call(*OSLO, "first", sign(1)), *SEARCH],
    [*CODE, text("It is sunny.", sign(2))],
    [*PAGE, *PLACE, text("And now "), call(*ROME, "second", sign(3)), call(*OSLO, "third")],
    [*FILES, *MORE_CODE, text("Sunny in both.", sign(4))],
    [text("You are welcome.", sign(5))],
]
SUNNY = "Sunny in Oslo", "Sunny in Rome"
ANSWERS = [
    [user(result("get_weather", SUNNY[0], "first"))],
    [user("And Rome?")],
    [user(result("get_weather", SUNNY[1], "second"), result("get_weather", SUNNY[0], "third"))],
    [user("Thank you.")],
]


def as_streamed(parts: list[JsonObject]) -> list[JsonObject]:
    """Parts as Gemini 3 streams them: the signature of a text comes on an empty one at the end."""
    *before, last = parts
    if "text" not in last:
        return parts
    return [
        *before,
        {"text": last["text"]},
        {"text": "", "thoughtSignature": last["thoughtSignature"]},
    ]


async def run(agent: Any, messages: list[Any], way: str) -> list[Any]:
    """The conversation after the agent has answered, stored as JSON and read again."""
    state: Any = {"messages": messages}
    if way == "invoke":
        state = agent.invoke(state)
    elif way == "ainvoke":
        state = await agent.ainvoke(state)
    elif way == "stream":
        *_, (_, state) = agent.stream(state, stream_mode=["messages", "values"])
    else:
        stream = agent.astream(state, stream_mode=["messages", "values"])
        *_, (_, state) = [piece async for piece in stream]
    return messages_from_dict(json.loads(json.dumps(messages_to_dict(state["messages"]))))


@pytest.mark.parametrize("way", WAYS)
async def test_both_kinds_of_tools_work_together_over_many_turns(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    for parts in STEPS:
        emulator.reply(parts=parts)
    agent: Any = create_agent(make_model(), [get_weather, *SERVED])
    messages: list[Any] = []
    for question in ("Weather in Oslo?", "And Rome?", "Thank you."):
        messages = await run(agent, [*messages, HumanMessage(question)], way)

    assert emulator.refusals == []
    assert emulator.pending_replies == 0
    echoes = [as_streamed(parts) for parts in STEPS] if "stream" in way else STEPS
    contents = [user("Weather in Oslo?")]
    for request, echo, answer in zip(emulator.requests, echoes, [*ANSWERS, []], strict=True):
        assert request.body == {
            "contents": contents,
            "tools": [{"functionDeclarations": [WEATHER]}, *SERVED_ON_THE_WIRE],
            "toolConfig": FLAG,
        }
        contents = [*contents, model(*echo), *answer]
    assert [message.text for message in messages if message.type == "ai"] == [
        "",
        "It is sunny.",
        "And now ",
        "Sunny in both.",
        "You are welcome.",
    ]


def test_the_loop_has_both_kinds_of_tools(emulator: Emulator, make_model: MakeModel) -> None:
    for parts in STEPS[:2]:
        emulator.reply(parts=parts)
    outcome = ToolLoop(make_model(), [get_weather, *SERVED]).invoke("Weather in Oslo?")
    assert outcome.messages[-1].text == "It is sunny."
    assert emulator.refusals == []
    assert emulator.last.body == {
        "contents": [user("Weather in Oslo?"), model(*STEPS[0]), *ANSWERS[0]],
        "tools": [{"functionDeclarations": [WEATHER]}, *SERVED_ON_THE_WIRE],
        "toolConfig": FLAG,
    }


@pytest.mark.parametrize("way", WAYS)
async def test_what_ran_on_googles_side_is_seen_as_blocks(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(parts=[*SEARCH, *CODE, text("It is 5.", sign(1))])
    agent: Any = create_agent(make_model(), [get_weather, *SERVED])
    message = (await run(agent, [HumanMessage("Count.")], way))[-1]
    assert message.tool_calls == []
    blocks = [{k: v for k, v in block.items() if k != "index"} for block in message.content_blocks]
    searched, found, code, output, *texts = blocks
    assert [block["type"] for block in (searched, found)] == ["non_standard"] * 2
    assert [block["value"]["part"] for block in (searched, found)] == SEARCH
    assert code == {
        "type": "server_tool_call",
        "id": "code5",
        "name": "code_interpreter",
        "args": {"code": "print(5)", "language": "PYTHON"},
    }
    assert output == {
        "type": "server_tool_result",
        "tool_call_id": "code5",
        "status": "success",
        "output": "5\n",
        "extras": {"block_type": "code_execution_result", "outcome": 1},
    }
    assert "".join(block["text"] for block in texts) == "It is 5."


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_found_is_cited_where_it_is_said(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    answer = "Ålesund is sunny, Røst is not."
    segment = {"startIndex": 19, "endIndex": 31, "text": "Røst is not."}
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.com", "title": "A"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
        "webSearchQueries": ["Røst"],
    }
    emulator.reply(
        parts=[*SEARCH, text(answer, sign(1))], candidate={"groundingMetadata": grounding}
    )
    agent: Any = create_agent(make_model(), [get_weather, *SERVED])
    message = (await run(agent, [HumanMessage("Where is it sunny?")], way))[-1]
    [cited] = [block for block in message.content_blocks if block.get("annotations")]
    [citation] = cited["annotations"]
    assert (citation["url"], citation["title"]) == ("https://a.com", "A")
    assert answer[citation["start_index"] : citation["end_index"]] == "Røst is not."


LATER: dict[str, list[Any]] = {
    "no tools": [],
    "functions only": [get_weather],
    "a search only": [{"google_search": {}}],
}


@pytest.mark.parametrize("tools", LATER.values(), ids=LATER)
def test_a_conversation_may_go_on_with_other_tools(
    emulator: Emulator, make_model: MakeModel, tools: list[Any]
) -> None:
    """As when a summary is asked for, or another agent takes over."""
    emulator.reply(parts=[*SEARCH, text("Found.", sign(1))])
    emulator.reply("Done.")
    question = HumanMessage("Search.")
    found = make_model().bind_tools([get_weather, {"google_search": {}}]).invoke([question])
    make_model().bind_tools(tools).invoke([question, found, HumanMessage("Go on.")])
    assert emulator.refusals == []
    assert emulator.last.body["toolConfig"] == FLAG
    assert emulator.last.body["contents"][1] == model(*SEARCH, text("Found.", sign(1)))


def test_a_model_that_rejects_server_parts_gets_them_as_text(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[*SEARCH, *CODE, text("Found.", sign(1))])
    emulator.reply("Done.")
    history: list[Any] = [HumanMessage("Search.")]
    history.append(make_model().bind_tools([get_weather, *SERVED]).invoke(history))
    history.append(HumanMessage("Go on."))
    older = make_model(model="gemini-2.5-flash")
    older.invoke(history)
    assert emulator.refusals == []
    bare = [{key: part[key] for key in part if key != "thoughtSignature"} for part in CODE]
    described = [
        {"text": json.dumps({kind: part[kind]}, ensure_ascii=False)}
        for kind, part in zip(("toolCall", "toolResponse"), SEARCH, strict=True)
    ]
    assert emulator.last.body == {
        "contents": [user("Search."), model(*described, *bare, "Found."), user("Go on.")]
    }
    assert [repair.kind for repair in older.preview(history).repairs] == [
        "foreign_signatures",
        "server_tools",
    ]


def test_vertex_ai_gets_server_parts_as_text_and_no_flag(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[*SEARCH, text("Found.")], signed=False)
    question = HumanMessage("Search.")
    tools: list[Any] = [get_weather, {"google_search": {}}]
    found = make_model().bind_tools(tools).invoke([question])
    vertex = ChatGemini(model="gemini-3.8-flash", api_key=API_KEY, vertexai=True)
    preview = vertex.preview([question, found, HumanMessage("Go on.")], tools=tools)
    assert "toolConfig" not in preview.body
    kinds = [set(part) for part in preview.body["contents"][1]["parts"]]
    assert kinds == [{"text"}] * 3


@pytest.mark.parametrize("tool", SERVED, ids=[next(iter(tool)) for tool in SERVED])
def test_an_older_model_cannot_combine_both_kinds(
    emulator: Emulator, make_model: MakeModel, tool: JsonObject
) -> None:
    older = make_model(model="gemini-2.5-flash")
    name = next(iter(tool))
    with pytest.raises(InvalidToolError) as refused:
        older.bind_tools([get_weather, tool])
    assert str(refused.value) == (
        f"This model cannot combine built-in tools ({name}) with functions "
        "(get_weather). Bind only one kind, or use Gemini 3 or later."
    )
    older.bind_tools([tool]).invoke("Hello")
    assert emulator.refusals == []
    assert "toolConfig" not in emulator.last.body


class Place(BaseModel):
    """Where it is sunny."""

    city: str


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_an_answer_with_a_schema_goes_with_both_kinds(
    emulator: Emulator, make_model: MakeModel, strategy: Any
) -> None:
    emulator.reply(parts=[*SEARCH, call(*OSLO, "first", sign(1))])
    if strategy is ToolStrategy:
        emulator.reply(parts=[call("Place", {"city": "Oslo"}, "last", sign(2))])
    else:
        emulator.reply(parts=[text('{"city": "Oslo"}', sign(2))])
    agent: Any = create_agent(
        make_model(), [get_weather, {"google_search": {}}], response_format=strategy(Place)
    )
    state = agent.invoke({"messages": [HumanMessage("Where?")]})
    assert state["structured_response"] == Place(city="Oslo")
    assert emulator.refusals == []
    configs = [request.body["toolConfig"] for request in emulator.requests]
    forced = {"functionCallingConfig": {"mode": "ANY"}} if strategy is ToolStrategy else {}
    assert configs == [{**forced, **FLAG}] * 2


PNG = "iVBORw0KGgo="
SCREEN = {"type": "image", "base64": PNG, "mime_type": "image/png"}
CLICK = ("click_at", {"x": 500, "y": 20})


@pytest.mark.parametrize("files", [[SCREEN], []], ids=["with the screen", "without it"])
@pytest.mark.parametrize("name", ["gemini-3.8-flash", "gemini-2.5-computer-use-preview-10-2025"])
def test_computer_use_is_sent_and_its_calls_are_returned(
    emulator: Emulator, make_model: MakeModel, name: str, files: list[Any]
) -> None:
    """Its calls are not declared; its results are whole objects, with the screen beside them."""
    signature = sign(1) if name.startswith("gemini-3") else None
    emulator.reply(parts=[call(*CLICK, "first", signature), call(*OSLO, "second")])
    emulator.reply("Done.")
    computer = {"computer_use": {"environment": "ENVIRONMENT_BROWSER"}}
    chat = make_model(model=name).bind_tools([get_weather, computer])
    question = HumanMessage("Click.")
    clicking = chat.invoke([question])
    assert [found["name"] for found in clicking.tool_calls] == ["click_at", "get_weather"]
    page = '{"url": "https://a.com"}'
    results = [
        ToolMessage(
            [{"type": "text", "text": page}, *files] if files else page, tool_call_id="first"
        ),
        ToolMessage('{"celsius": 21}', tool_call_id="second"),
    ]
    chat.invoke([question, clicking, *results])
    assert emulator.refusals == []
    screen = {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}
    clicked: JsonObject = {"id": "first", "name": "click_at", "response": {"url": "https://a.com"}}
    assert emulator.last.body["contents"][-1] == user(
        {"functionResponse": {**clicked, **(screen if files else {})}},
        result("get_weather", {"celsius": 21}, "second"),
    )
    assert emulator.last.body["tools"] == [
        {"functionDeclarations": [WEATHER]},
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
    ]
