"""A conversation that changes its model or endpoint on the way: another generation, or a fallback.

Thought signatures belong to one line of models; another one refuses the whole request for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.oauth2.credentials import Credentials
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import GeminiInvalidRequestError
from langchain_gemini_tools.testing.fake import faults
from langchain_gemini_tools.testing.fake.server import ACCESS_TOKEN
from tests.integration_tests.invoking import ask
from tests.integration_tests.play import call, get_weather, model, request, result, text, user
from tests.integration_tests.test_what_is_sent import SKIP
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

OSLO, ROME = {"city": "Oslo"}, {"city": "Rome"}
SIGNATURE = "+/+/c2lnbmF0dXJl"
LATER_SIGNATURE = "+/+/bGF0ZXIgc2lnbmF0dXJl"
BARE = "Request contains an invalid argument."
OVERLOADED = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}


def _ask(chat: Any, messages: list[Any], *, is_streamed: bool = False) -> Any:
    bound = chat.bind_tools([get_weather])
    if not is_streamed:
        return bound.invoke(messages)
    chunks = list(bound.stream(messages))
    return sum(chunks[1:], chunks[0])


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_an_older_model_finishes_a_conversation_of_gemini_3(
    emulator: Emulator, make_model: MakeModel, is_streamed: bool
) -> None:
    emulator.reply(parts=[text("Hello.", SIGNATURE)])
    emulator.reply(
        parts=[call("get_weather", OSLO, "first", LATER_SIGNATURE), call("get_weather", ROME, "2")]
    )
    emulator.reply("Sunny in both.")
    newer, older = make_model(), make_model(model="gemini-2.5-flash")
    history: list[Any] = [HumanMessage("Hello?")]
    history.append(_ask(newer, history, is_streamed=is_streamed))
    history.append(HumanMessage("Weather?"))
    history.append(_ask(newer, history, is_streamed=is_streamed))
    history += [ToolMessage("Sunny", tool_call_id=call_id) for call_id in ("first", "2")]
    assert _ask(older, history).content == "Sunny in both."
    assert emulator.last.body == request(
        user("Hello?"),
        model("Hello."),
        user("Weather?"),
        model(call("get_weather", OSLO, "first"), call("get_weather", ROME, "2")),
        user(result("get_weather", "Sunny", "first"), result("get_weather", "Sunny", "2")),
    )


def test_gemini_3_finishes_a_turn_of_an_older_model_with_the_bypass(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[call("get_weather", OSLO, "first", SIGNATURE)])
    emulator.reply("Sunny.")
    older, newer = make_model(model="gemini-2.5-flash"), make_model()
    asked = HumanMessage("Weather?")
    begun = _ask(older, [asked])
    answer = _ask(newer, [asked, begun, ToolMessage("Sunny", tool_call_id="first")])
    assert answer.content == "Sunny."
    assert emulator.last.body == request(
        user("Weather?"),
        model(call("get_weather", OSLO, "first", SKIP)),
        user(result("get_weather", "Sunny", "first")),
    )


def test_models_of_one_generation_read_each_others_signatures(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[call("get_weather", OSLO, "first", SIGNATURE)])
    emulator.reply("Sunny.")
    asked = HumanMessage("Weather?")
    begun = _ask(make_model(), [asked])
    pro = make_model(model="gemini-3.1-pro-preview")
    _ask(pro, [asked, begun, ToolMessage("Sunny", tool_call_id="first")])
    assert emulator.last.body == request(
        user("Weather?"),
        model(call("get_weather", OSLO, "first", SIGNATURE)),
        user(result("get_weather", "Sunny", "first")),
    )


def test_an_agent_falls_back_to_an_older_model_in_the_middle_of_a_turn(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[call("get_weather", OSLO, "first", SIGNATURE)])
    emulator.reply(body=OVERLOADED, status=503)
    emulator.reply("Sunny.")
    fallback = ModelFallbackMiddleware(make_model(model="gemini-2.5-flash"))
    agent: Any = create_agent(make_model(), tools=[get_weather], middleware=[fallback])
    state = agent.invoke({"messages": [HumanMessage("Weather?")]})
    assert state["messages"][-1].content == "Sunny."
    names = ["gemini-3.8-flash", "gemini-3.8-flash", "gemini-2.5-flash"]
    assert [asked.model for asked in emulator.requests] == names
    assert emulator.last.body == request(
        user("Weather?"),
        model(call("get_weather", OSLO, "first")),
        user(result("get_weather", "Sunny in Oslo", "first")),
    )


def test_signatures_that_were_left_out_are_listed(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply(parts=[text("Hello.", SIGNATURE)])
    answer = make_model().invoke("Hello?")
    history = [HumanMessage("Hello?"), answer, HumanMessage("Still there?")]
    found = make_model(model="gemini-2.5-flash").preview(history).repairs
    assert [(repair.kind, repair.position) for repair in found] == [("foreign_signatures", 1)]
    strict = make_model(model="gemini-2.5-flash", on_broken_history="raise")
    assert strict.invoke(history).text


def test_a_name_that_another_generation_answers_keeps_its_signatures(
    emulator: Emulator, make_model: MakeModel
) -> None:
    signed = {"content": {"role": "model", "parts": [text("Hello.", SIGNATURE)]}}
    whole = {"candidates": [{**signed, "finishReason": "STOP"}], "modelVersion": "gemini-3-flash"}
    emulator.reply(body=whole)
    older = make_model(model="gemini-2.5-flash")
    history = [HumanMessage("Hello?"), older.invoke("Hello?"), HumanMessage("Still there?")]
    rendered = older.preview(history)
    assert rendered.body["contents"][1] == model(text("Hello.", SIGNATURE))
    assert rendered.repairs == []


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("starts_on_vertex", [False, True], ids=["to Vertex AI", "from Vertex AI"])
def test_the_other_backend_goes_on_with_a_conversation(
    emulator: Emulator, make_model: MakeModel, starts_on_vertex: bool, is_streamed: bool
) -> None:
    """The same model, but what one backend signed, the other refuses as corrupted."""
    developer = make_model()
    token: Any = Credentials(ACCESS_TOKEN)  # type: ignore[no-untyped-call]
    place: Any = {"project": "p", "location": "global", "credentials": token}
    vertex = ChatGemini(
        model=developer.model, vertexai=True, base_url=emulator.url, max_retries=0, **place
    )
    first, second = (vertex, developer) if starts_on_vertex else (developer, vertex)
    emulator.reply(parts=[call("get_weather", OSLO, "first", SIGNATURE)])
    emulator.reply("Sunny.")
    emulator.reply("Still sunny.")
    history: list[Any] = [HumanMessage("Weather?")]
    history.append(_ask(first, history, is_streamed=is_streamed))
    history.append(ToolMessage("Sunny", tool_call_id="first"))
    assert _ask(first, history).content == "Sunny."
    sent = emulator.last.body["contents"][1]["parts"]
    assert sent == [call("get_weather", OSLO, "first", SIGNATURE)]
    assert _ask(second, history).content == "Still sunny."
    assert emulator.last.body["contents"][1]["parts"] == [call("get_weather", OSLO, "first", SKIP)]


# What an endpoint rejects although the history is as it should be


def _stored() -> list[Any]:
    """A conversation whose signatures this server did not issue."""
    author = {"model_provider": "google_genai", "model_name": "gemini-3.8-flash"}
    signatures = {"__gemini_function_call_thought_signatures__": {"first": LATER_SIGNATURE}}
    calls = [{"name": "get_weather", "args": OSLO, "id": "first"}]
    hello: list[Any] = [{"type": "text", "text": "Hello.", "extras": {"signature": SIGNATURE}}]
    return [
        HumanMessage("Hello?"),
        AIMessage(hello, response_metadata=author),
        HumanMessage("Weather?"),
        AIMessage("", tool_calls=calls, additional_kwargs=signatures, response_metadata=author),
        ToolMessage("Sunny", tool_call_id="first"),
    ]


@rotated(
    way=WAYS,
    words=[
        "Corrupted thought signature.",
        "Invalid thought signature.",
        "Unable to submit request because Thought signature is not valid.. Learn more: ...",
    ],
)
async def test_rejected_signatures_are_left_out(
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    way: str,
    words: str,
) -> None:
    emulator.reply("never sent", fault=faults.http_error(400, words))
    emulator.reply("Sunny.")
    emulator.accepts_foreign_signatures = True
    chat = make_model(max_retries=1).bind_tools([get_weather])
    assert (await ask(RunnableLambda(lambda _: _stored()) | chat, way)).text == "Sunny."
    signed, unsigned = (sent.body for sent in emulator.requests)
    assert signed["contents"][3]["parts"][0]["thoughtSignature"] == LATER_SIGNATURE
    assert unsigned == request(
        user("Hello?"),
        model("Hello."),
        user("Weather?"),
        model(call("get_weather", OSLO, "first", SKIP)),
        user(result("get_weather", "Sunny", "first")),
    )
    assert "The API rejected thought signatures; retrying without them" in caplog.text


@rotated(way=WAYS)
async def test_ids_that_an_endpoint_does_not_know_are_left_out(
    emulator: Emulator, make_model: MakeModel, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    unknown = "Invalid JSON payload received. Unknown name \"id\" at '{}': Cannot find field."
    places = ["contents[1].parts[0].function_call", "contents[2].parts[0].function_response"]
    words = "\n".join(map(unknown.format, places))
    emulator.reply("never sent", fault=faults.http_error(400, words))
    emulator.reply("Sunny.")
    calls = [
        {"name": "get_weather", "args": OSLO, "id": "1"},
        {"name": "get_weather", "args": ROME, "id": "2"},
    ]
    results = [ToolMessage("Rain", tool_call_id="2"), ToolMessage("Sunny", tool_call_id="1")]
    history = [HumanMessage("Weather?"), AIMessage("", tool_calls=calls), *results]
    chat = make_model(max_retries=1).bind_tools([get_weather])
    assert (await ask(RunnableLambda(lambda _: history) | chat, way)).text == "Sunny."
    _, called, answered = emulator.last.body["contents"]
    name = "get_weather"
    assert called["parts"] == [
        {"functionCall": {"name": name, "args": OSLO}, "thoughtSignature": SKIP},
        {"functionCall": {"name": name, "args": ROME}},
    ]
    assert answered["parts"] == [
        {"functionResponse": {"name": name, "response": {"output": "Sunny"}}},
        {"functionResponse": {"name": name, "response": {"output": "Rain"}}},
    ]
    assert "The endpoint does not know ids of tool calls; retrying without them" in caplog.text


@rotated(way=WAYS)
async def test_limits_of_arrays_that_the_api_rejects_become_words(
    emulator: Emulator, make_model: MakeModel, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    emulator.reply("never sent", fault=faults.http_error(400, BARE))
    emulator.reply("Fine.")
    names = {"type": "array", "items": {"type": "string"}, "maxItems": 1000}
    declared = {"name": "save", "description": "Save names."}
    tool = {**declared, "parameters": {"type": "object", "properties": {"names": names}}}
    chat = make_model(max_retries=1).bind_tools([tool])
    assert (await ask(chat, way)).text == "Fine."
    first, second = (
        sent.body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]
        for sent in emulator.requests
    )
    assert first == {"names": names}
    del names["maxItems"]
    assert second == {"names": {**names, "description": "At most 1000 items."}}
    assert "rejected the limits of arrays; retrying with them in descriptions" in caplog.text


@pytest.mark.parametrize("options", [{"max_retries": 0}, {"on_broken_history": "raise"}], ids=str)
def test_rejected_signatures_are_an_error_where_nothing_may_be_changed(
    emulator: Emulator, make_model: MakeModel, options: dict[str, Any]
) -> None:
    chat = make_model(**{"max_retries": 1, **options})
    with pytest.raises(GeminiInvalidRequestError, match="Corrupted thought signature"):
        _ask(chat, _stored())
    assert len(emulator.requests) == 1


def test_signatures_that_are_rejected_again_are_an_error(
    emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.accepts_foreign_signatures = True
    for _ in range(2):
        emulator.reply(fault=faults.http_error(400, "Corrupted thought signature."))
    with pytest.raises(GeminiInvalidRequestError, match="Corrupted thought signature"):
        _ask(make_model(max_retries=3), _stored())
    assert len(emulator.requests) == 2
