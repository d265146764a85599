"""Context caches that agents can use: what is sent beside them, and what is read."""

from __future__ import annotations

import functools
import json
import operator
import os
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import types
from google.oauth2.credentials import Credentials
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langchain_gemini_tools import ToolLoop, create_context_cache, errors, run_in_batches
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, API_KEY
from tests.integration_tests.play import get_weather
from tests.rotation import WAYS

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

HANDBOOK = "The handbook says that every answer names its source. " * 100
QUESTION = "Weather in Oslo?"


@pytest.fixture
def cached(emulator: Emulator, make_model: MakeModel) -> ChatGemini:
    """A model whose cache has a system text and a tool."""
    return make_model().with_context_cache(system=HANDBOOK, tools=[get_weather], ttl=300)


def _sent(emulator: Emulator) -> Any:
    """The last request without its contents."""
    return {key: value for key, value in emulator.last.body.items() if key != "contents"}


def test_what_a_cache_contains_is_sent_once(emulator: Emulator, cached: ChatGemini) -> None:
    created = emulator.requests[0]
    assert (created.method, created.path) == ("POST", "/v1beta/cachedContents")
    assert created.body["model"] == "models/gemini-3.8-flash"
    assert created.body["ttl"] == "300s"
    assert created.body["systemInstruction"]["parts"] == [{"text": HANDBOOK}]
    assert created.body["tools"][0]["functionDeclarations"][0]["name"] == "get_weather"
    assert "contents" not in created.body


async def _invoke(model: Any, way: str, messages: list[BaseMessage]) -> Any:
    match way:
        case "invoke":
            return model.invoke(messages)
        case "ainvoke":
            return await model.ainvoke(messages)
        case "stream":
            chunks = list(model.stream(messages))
        case _:
            chunks = [chunk async for chunk in model.astream(messages)]
    return functools.reduce(operator.add, chunks)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("repeats", [True, False], ids=["repeated", "left out"])
async def test_a_request_leaves_out_what_the_cache_contains(
    emulator: Emulator, cached: ChatGemini, way: str, repeats: bool
) -> None:
    name = cached.cached_content
    model: Any = cached.bind_tools([get_weather]) if repeats else cached
    messages = [SystemMessage(HANDBOOK)] if repeats else []
    message = await _invoke(model, way, [*messages, HumanMessage(QUESTION)])
    assert _sent(emulator) == {"cachedContent": name}
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert message.usage_metadata["input_token_details"]["cache_read"] > 1024
    assert emulator.refusals == []


def test_an_agent_uses_a_cache(emulator: Emulator, cached: ChatGemini) -> None:
    """It binds its tools and sets its system prompt at every step."""
    agent: Any = create_agent(cached, tools=[get_weather], system_prompt=HANDBOOK)
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]})
    assert "Sunny in Oslo" in state["messages"][-1].text
    bodies = [each.body for each in emulator.requests[1:]]
    assert len(bodies) == 2
    assert all(body.keys() == {"contents", "cachedContent"} for body in bodies)
    assert emulator.refusals == []


def test_a_tool_loop_uses_a_cache(emulator: Emulator, cached: ChatGemini) -> None:
    result = ToolLoop(cached, [get_weather]).invoke(QUESTION)
    assert "Sunny in Oslo" in result.text
    assert _sent(emulator) == {"cachedContent": cached.cached_content}


def test_a_batch_job_and_agents_in_batches_use_a_cache(
    emulator: Emulator, cached: ChatGemini, tmp_path: Path
) -> None:
    job = cached.bind_tools([get_weather]).batch_job([QUESTION], path=tmp_path / "job")
    ((_, message),) = job.results(poll_seconds=0)
    assert isinstance(message, AIMessage)
    assert message.tool_calls[0]["name"] == "get_weather"
    agent = create_agent(cached, [get_weather], system_prompt=HANDBOOK)
    inputs = [{"messages": QUESTION}]
    (state,) = run_in_batches(agent, inputs, path=tmp_path / "run", poll_seconds=0, progress=False)
    assert "Sunny in Oslo" in state["messages"][-1].text
    bodies = [body for each in emulator.batches.jobs.values() for _, body in each.items]
    assert len(bodies) == 3
    assert [body["cachedContent"] for body in bodies] == [cached.cached_content] * 3
    assert not [body for body in bodies if "tools" in body or "systemInstruction" in body]


@pytest.mark.parametrize("repeats", [True, False], ids=["repeated", "left out"])
def test_the_beginning_of_a_conversation_is_cached(
    emulator: Emulator, make_model: MakeModel, repeats: bool
) -> None:
    beginning = [HumanMessage(HANDBOOK), AIMessage("I have read it.")]
    chat = make_model().with_context_cache(beginning)
    assert len(emulator.last.body["contents"]) == 2
    # A graph gives messages ids of their own.
    again = [each.model_copy(update={"id": f"id {n}"}) for n, each in enumerate(beginning)]
    chat.invoke([*(again if repeats else []), HumanMessage("Who wrote it?")])
    assert emulator.last.body["contents"] == [
        {"role": "user", "parts": [{"text": "Who wrote it?"}]}
    ]
    with_other_beginning = [HumanMessage("Another beginning."), HumanMessage("Who?")]
    chat.invoke(with_other_beginning)
    assert "Another beginning." in json.dumps(emulator.last.body["contents"])


def test_a_repair_has_the_position_in_the_whole_history(make_model: MakeModel) -> None:
    beginning = [HumanMessage(HANDBOOK), AIMessage("I have read it.")]
    chat = make_model().with_context_cache(beginning)
    [repair] = chat.preview([*beginning, ToolMessage("Rain", tool_call_id="c1")]).repairs
    assert (repair.kind, repair.position) == ("orphan_result", 2)


def test_a_message_that_differs_only_by_its_status_is_sent(
    emulator: Emulator, make_model: MakeModel
) -> None:
    call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "c1"}
    beginning = [HumanMessage(HANDBOOK), AIMessage("", tool_calls=[call])]
    failed = ToolMessage("Rain", tool_call_id="c1", status="error")
    chat = make_model().with_context_cache([*beginning, failed], tools=[get_weather])
    right = failed.model_copy(update={"status": "success"})
    request: Any = chat.preview([*beginning, right, HumanMessage("And now?")])
    assert {"output": "Rain"} in [
        part["functionResponse"]["response"]
        for content in request.body["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]


def test_a_request_that_adds_nothing_to_the_cache_is_rejected(make_model: MakeModel) -> None:
    chat = make_model().with_context_cache([HumanMessage(HANDBOOK)])
    with pytest.raises(errors.InvalidInputError, match=r"cachedContents/.* contains all messages"):
        chat.preview(HANDBOOK)


def get_time(city: str) -> str:
    """The time in a city."""
    return f"Noon in {city}"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda chat: chat.bind_tools([get_weather, get_time]), r"The tools \(get_time\)"),
        (lambda chat: chat.bind_tools([get_time]), r"The tools \(get_time, get_weather\)"),
        (lambda chat: chat.bind_tools([get_weather], tool_choice="any"), "tool_choice of this"),
        (lambda chat: chat.bind(tool_choice="any"), "tool_choice of this"),
    ],
    ids=["more tools", "other tools", "forced", "forced alone"],
)
def test_a_difference_from_the_cache_is_rejected_by_name(
    emulator: Emulator, cached: ChatGemini, change: Any, named: str
) -> None:
    before = len(emulator.requests)
    with pytest.raises(errors.InvalidOptionError, match=named):
        change(cached).invoke(QUESTION)
    with pytest.raises(errors.InvalidOptionError, match="The system message of this"):
        cached.invoke([SystemMessage("Another text."), HumanMessage(QUESTION)])
    assert len(emulator.requests) == before


def test_the_default_choice_is_no_difference(emulator: Emulator, cached: ChatGemini) -> None:
    auto = cached.bind_tools([get_weather], tool_choice="auto")
    assert auto.invoke(QUESTION).tool_calls
    assert _sent(emulator) == {"cachedContent": cached.cached_content}


def test_another_model_cannot_use_a_cache(
    emulator: Emulator, cached: ChatGemini, make_model: MakeModel
) -> None:
    before = len(emulator.requests)
    named = "was made for gemini-3.8-flash, and this request uses gemini-3.7-flash"
    with pytest.raises(errors.InvalidOptionError, match=named):
        cached.invoke(QUESTION, model="gemini-3.7-flash")
    with pytest.raises(errors.InvalidOptionError, match=named):
        cached.model_copy(update={"model": "gemini-3.7-flash"}).invoke(QUESTION)
    assert len(emulator.requests) == before
    assert cached.invoke(QUESTION, model="models/gemini-3.8-flash").tool_calls
    unknown = make_model(model="gemini-3.7-flash", cached_content=cached.cached_content)
    with pytest.raises(errors.GeminiInvalidRequestError, match="has to be the same"):
        unknown.invoke(QUESTION)


@pytest.mark.parametrize("is_async", [False, True])
async def test_bound_tools_are_part_of_a_cache(
    emulator: Emulator, make_model: MakeModel, is_async: bool
) -> None:
    bound = make_model().bind_tools([get_weather]).bind(seed=5)
    if is_async:
        chat = await bound.awith_context_cache(system=HANDBOOK)
    else:
        chat = bound.with_context_cache(system=HANDBOOK)
    created = emulator.last.body
    assert created["tools"][0]["functionDeclarations"][0]["name"] == "get_weather"
    assert chat.invoke(QUESTION).tool_calls
    (name,) = emulator.caches.caches
    assert _sent(emulator) == {"cachedContent": name, "generationConfig": {"seed": 5}}
    named = bound.with_context_cache(name=name, system=HANDBOOK)  # whose tools are not known
    with pytest.raises(errors.InvalidOptionError, match=r"The tools \(get_weather\) of this"):
        named.invoke(QUESTION)
    named = bound.with_context_cache(name=name, system=HANDBOOK, tools=[get_weather])
    assert named.invoke(QUESTION).tool_calls


def test_a_cache_is_for_the_model_that_is_bound(emulator: Emulator, make_model: MakeModel) -> None:
    chat = make_model().bind(model="gemini-3.7-flash").with_context_cache(system=HANDBOOK)
    assert emulator.last.body["model"] == "models/gemini-3.7-flash"
    assert chat.invoke("Hello!").text


class Report(BaseModel):
    """A report."""

    city: str


def test_a_forced_call_of_an_agent_is_rejected_with_the_way_out(cached: ChatGemini) -> None:
    agent: Any = create_agent(
        cached, tools=[get_weather], system_prompt=HANDBOOK, response_format=ToolStrategy(Report)
    )
    with pytest.raises(errors.InvalidOptionError, match=r"The tools \(Report\)|ProviderStrategy"):
        agent.invoke({"messages": [HumanMessage(QUESTION)]})


def test_a_choice_may_be_cached(emulator: Emulator, make_model: MakeModel) -> None:
    settings: Any = {"system": HANDBOOK, "tools": [get_weather], "tool_choice": "any"}
    chat = make_model().with_context_cache(**settings)
    chat.bind_tools([get_weather], tool_choice="any").invoke(QUESTION)
    assert _sent(emulator) == {"cachedContent": chat.cached_content}
    with pytest.raises(errors.InvalidOptionError, match="tool_choice of this"):
        chat.bind_tools([get_weather]).invoke(QUESTION)


@pytest.mark.parametrize("ends", ["deleted", "expired"])
def test_a_cache_that_is_gone_is_an_error_that_says_so(
    emulator: Emulator, cached: ChatGemini, ends: str
) -> None:
    name = cached.cached_content or ""
    if ends == "deleted":
        cached.client.caches.delete(name=name)
    else:
        emulator.caches.expire(name)
    with pytest.raises(errors.GeminiPermissionError, match="has expired or was deleted"):
        cached.invoke(QUESTION)


def test_a_cache_that_ends_before_its_batch_job_is_an_error_in_place_that_says_so(
    emulator: Emulator, cached: ChatGemini, tmp_path: Path
) -> None:
    job = cached.batch_job([QUESTION], path=tmp_path)
    emulator.caches.expire(cached.cached_content or "")
    ((_, result),) = job.results(poll_seconds=0)
    assert isinstance(result, errors.GeminiPermissionError)
    assert "has expired or was deleted" in str(result)


def test_caches_are_renewed_and_listed_by_the_sdk(emulator: Emulator, cached: ChatGemini) -> None:
    caches, name = cached.client.caches, cached.cached_content or ""
    before = emulator.caches.caches[name].expires_at
    caches.update(name=name, config=types.UpdateCachedContentConfig(ttl="7200s"))
    assert emulator.caches.caches[name].expires_at > before + 3600
    assert [each.name for each in caches.list()] == [name]


def test_a_cache_made_elsewhere_is_described_by_the_user(
    emulator: Emulator, make_model: MakeModel, cached: ChatGemini
) -> None:
    before = len(emulator.requests)
    settings: Any = {"name": cached.cached_content, "system": HANDBOOK, "tools": [get_weather]}
    other = make_model().with_context_cache(**settings)
    assert len(emulator.requests) == before
    assert other.bind_tools([get_weather]).invoke(QUESTION).tool_calls


async def test_a_cache_is_created_without_blocking_the_loop(make_model: MakeModel) -> None:
    chat = await make_model().awith_context_cache(HANDBOOK, display_name="handbook")
    assert chat.cached_content


def test_copies_and_pickles_know_the_cache(emulator: Emulator, cached: ChatGemini) -> None:
    twin = pickle.loads(pickle.dumps(cached)).model_copy(update={"api_key": API_KEY})
    for chat in (cached.model_copy(update={"temperature": 0.5}), twin):
        assert chat.bind_tools([get_weather]).invoke(QUESTION).tool_calls
    other = cached.model_copy(update={"cached_content": None})
    other.bind_tools([get_weather]).invoke(QUESTION)
    assert "tools" in emulator.last.body


def test_the_peers_function_returns_a_name(emulator: Emulator, make_model: MakeModel) -> None:
    chat = make_model()
    messages = [SystemMessage(HANDBOOK), HumanMessage("Remember it.")]
    end = datetime.now(UTC) + timedelta(hours=2)
    name = create_context_cache(chat, messages, expire_time=end, tools=[get_weather])
    assert name in emulator.caches.caches
    assert chat.invoke("Hello?", cached_content=name).text


def test_a_small_cache_is_an_error_of_the_api(make_model: MakeModel) -> None:
    with pytest.raises(errors.GeminiInvalidRequestError, match="too small"):
        make_model().with_context_cache("Short.")


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        ("gemini-4-argon", {"system": HANDBOOK}, "has no context caches"),
        ("gemma-3-27b-it", {"system": HANDBOOK}, "has no context caches"),
        ("gemini-3.8-flash", {}, "needs messages, a system text or tools"),
        (
            "gemini-3.8-flash",
            {"system": HANDBOOK, "ttl": 5, "expire_time": datetime(2030, 1, 1, tzinfo=UTC)},
            "cannot be combined",
        ),
        (
            "gemini-3.8-flash",
            {"system": HANDBOOK, "expire_time": "2030-01-01T00:00:00"},
            "needs a time zone",
        ),
        (
            "gemini-3.8-flash",
            {"system": HANDBOOK, "expire_time": "tomorrow"},
            "expire_time='tomorrow' is not an ISO 8601 time",
        ),
        (
            "gemini-3.8-flash",
            {"system": HANDBOOK, "expire_time": 3600},
            "expire_time must be a datetime or an ISO 8601 time, not 3600. Use ttl",
        ),
        (
            "gemini-3.8-flash",
            {"system": HANDBOOK, "expire_time": datetime(2020, 1, 1, tzinfo=UTC)},
            "is not in the future",
        ),
        ("gemini-3.8-flash", {"name": "cachedContents/a", "ttl": 5}, "has its own end and name"),
        ("gemini-3.8-flash", {"system": HANDBOOK, "ttl": [5]}, "ttl must be seconds"),
        ("gemini-3.8-flash", {"system": HANDBOOK, "ttl": 10**400}, "ttl must be seconds"),
        ("gemini-3.8-flash", {"system": HANDBOOK, "ttl": -5}, "ttl must be seconds"),
        ("gemini-3.8-flash", {"system": HANDBOOK, "ttl": "an hour"}, "ttl must be seconds"),
        ("gemini-3.8-flash", {"system": HANDBOOK, "ttl": float("nan")}, "must be seconds"),
    ],
)
def test_what_cannot_be_cached_is_rejected_before_sending(
    emulator: Emulator, make_model: MakeModel, model: str, settings: Any, reason: str
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=reason):
        make_model(model=model).with_context_cache(**settings)
    assert emulator.requests == []


@pytest.mark.parametrize(
    ("ttl", "sent"),
    [
        (2_592_000, "2592000s"),
        (timedelta(days=30, seconds=1), "2592001s"),
        (1_234_567.5, "1234567.5s"),
        ("300s", "300s"),
    ],
)
def test_a_lifetime_is_sent_in_full(
    emulator: Emulator, make_model: MakeModel, ttl: Any, sent: str
) -> None:
    make_model().with_context_cache(system=HANDBOOK, ttl=ttl)
    assert emulator.last.body["ttl"] == sent


def test_vertex_ai_has_caches_too(emulator: Emulator, make_model: MakeModel) -> None:
    place: Any = {"vertexai": True, "project": "p", "location": "l", "api_key": None}
    credentials = Credentials(token=ACCESS_TOKEN)  # type: ignore[no-untyped-call]
    chat = make_model(**place, credentials=credentials).with_context_cache(
        system=HANDBOOK, tools=[get_weather]
    )
    assert (chat.cached_content or "").startswith("projects/p/locations/l/cachedContents/")
    assert chat.bind_tools([get_weather]).invoke(QUESTION).tool_calls
    assert _sent(emulator) == {"cachedContent": chat.cached_content}


def test_a_cache_serves_streams_and_whole_responses(
    emulator: Emulator, make_model: MakeModel
) -> None:
    """Arguments in pieces exist in streams only, and a cache fixes the tool config of both."""
    credentials = Credentials(token=ACCESS_TOKEN)  # type: ignore[no-untyped-call]
    place: Any = {"vertexai": True, "project": "p", "location": "l", "api_key": None}
    model = make_model(**place, credentials=credentials)
    pieces = {"functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": True}}
    chat = model.with_context_cache(system=HANDBOOK, tools=[get_weather], tool_choice=pieces)
    assert emulator.last.body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}
    for runnable in (chat, chat.bind_tools([get_weather], tool_choice=pieces)):
        whole = runnable.invoke(QUESTION)
        streamed: Any = functools.reduce(operator.add, runnable.stream(QUESTION))
        assert _sent(emulator) == {"cachedContent": chat.cached_content}
        assert streamed.tool_calls[0]["args"] == whole.tool_calls[0]["args"] == {"city": "Oslo"}
    assert emulator.refusals == []


# Recordings

FOLDER = Path(os.environ.get("GEMINI_RECORDINGS_MORE", "no recordings")) / "caches"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="GEMINI_RECORDINGS_MORE names no folder")
def test_the_emulator_returns_what_was_recorded(emulator: Emulator, make_model: MakeModel) -> None:
    """The same fields for a cache, and the same words for one that is gone."""
    (path,) = FOLDER.glob("rig--gemini-prompt-caching-explicit-cache-expired*.json")
    created, _, gone = json.loads(path.read_bytes())["exchanges"]
    chat = make_model().with_context_cache(system=HANDBOOK)
    name = chat.cached_content or ""
    shown = emulator.caches.caches[name].describe("gemini")
    assert shown.keys() == created["response_json"].keys()
    emulator.caches.expire(name)
    with pytest.raises(errors.GeminiPermissionError) as raised:
        chat.invoke("Hello?")
    assert (raised.value.code, raised.value.message) == (
        gone["status"],
        gone["response_json"]["error"]["message"],
    )
