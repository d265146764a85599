"""`FakeGemini` as users see it: scripts, requests, faults, the environment, how a block ends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from pydantic import BaseModel, field_validator

from langchain_gemini_tools import ChatGemini, ToolLoop
from langchain_gemini_tools.errors import (
    BlockedError,
    GeminiConnectionError,
    GeminiInvalidRequestError,
    GeminiRateLimitError,
    GeminiServerError,
    GeminiTimeoutError,
    InvalidOptionError,
)
from langchain_gemini_tools.testing import (
    FakeGemini,
    FakeGeminiError,
    Reply,
    Request,
    cassette,
    faults,
)
from langchain_gemini_tools.testing.__main__ import main
from tests.rotation import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.messages import AIMessageChunk

MODEL = "gemini-3.8-flash"


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return "Sunny"


def new_model(**settings: Any) -> ChatGemini:
    return ChatGemini(**({"model": MODEL} | settings))


def ask(model: Any, question: str, way: str) -> AIMessage:
    """The answer in one of four ways."""

    async def stream() -> AIMessage:
        return add([chunk async for chunk in model.astream(question)])

    match way:
        case "invoke":
            message: AIMessage = model.invoke(question)
            return message
        case "stream":
            return add([*model.stream(question)])
        case "ainvoke":
            answer: AIMessage = asyncio.run(model.ainvoke(question))
            return answer
        case _:
            return asyncio.run(stream())


def add(chunks: list[AIMessageChunk]) -> AIMessage:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as running:
        yield running


def test_an_agent_follows_the_script_and_the_requests_show_what_it_sent() -> None:
    with FakeGemini() as gemini:
        gemini.reply(calls=[("get_weather", {"city": "Oslo"})])
        gemini.reply("It is sunny in Oslo.")
        agent: Any = create_agent(new_model(), tools=[get_weather], system_prompt="Be brief.")
        result = agent.invoke({"messages": "Weather in Oslo?"})
    assert result["messages"][-1].text == "It is sunny in Oslo."
    first, second = gemini.requests
    assert (first.model, first.is_stream, first.backend) == (MODEL, False, "gemini")
    assert first.path == f"/v1beta/models/{MODEL}:generateContent"
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+{first.path}", first.url)
    assert (first.system, first.texts, first.prompt) == (
        "Be brief.",
        ["Weather in Oslo?"],
        "Weather in Oslo?",
    )
    assert first.tool_names == ["get_weather"]
    assert first.declarations[0]["description"] == "Current weather in a city."
    assert first.function_responses == []
    assert second.function_calls == [("get_weather", {"city": "Oslo"})]
    assert second.function_responses == [("get_weather", "Sunny")]
    assert second.body == json.loads(second.raw)


SCRIPTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"text": "Sunny."}, {"text": "Sunny."}),
    "calls": (
        {"calls": [("f", {"a": 1}), ("g", {})]},
        {"calls": [("f", {"a": 1}), ("g", {})]},
    ),
    "text and calls": (
        {"text": "Let me see.", "calls": [("f", {})]},
        {"text": "Let me see.", "calls": [("f", {})]},
    ),
    "thoughts": (
        {"text": "42", "thoughts": "Six times seven."},
        {"text": "42", "thoughts": ["Six times seven."]},
    ),
    "finish reason": (
        {"text": "And so", "finish_reason": "MAX_TOKENS"},
        {"text": "And so", "finish_reason": "MAX_TOKENS"},
    ),
    "usage": (
        {"text": "1", "usage": {"promptTokenCount": 7, "totalTokenCount": 8}},
        {"text": "1", "input_tokens": 7},
    ),
    "structured": ({"structured": {"a": 1}}, {"text": '{"a": 1}'}),
    "code": ({"text": "42", "code": ("print(6 * 7)", "42\n")}, {"text": "42"}),
    "media": ({"media": [("image/png", b"\x89PNG")]}, {"media": ["image/png"]}),
    "search": (
        {"text": "Sunny.", "searches": ["weather Oslo"]},
        {"text": "Sunny.", "searches": ["weather Oslo"]},
    ),
    "parts": ({"parts": [{"text": "a"}, {"text": "b"}]}, {"text": "ab"}),
}


def seen(message: AIMessage) -> dict[str, Any]:
    shown: list[Any] = message.content_blocks
    grounding = message.response_metadata.get("grounding_metadata") or {}
    searches = grounding.get("webSearchQueries") or grounding.get("web_search_queries")
    return {
        "text": message.text,
        "calls": [(call["name"], call["args"]) for call in message.tool_calls],
        "thoughts": [block["reasoning"] for block in shown if "reasoning" in block],
        "finish_reason": message.response_metadata["finish_reason"],
        "input_tokens": message.usage_metadata and message.usage_metadata["input_tokens"],
        "media": [block["mime_type"] for block in shown if block["type"] == "image"],
        "searches": searches,
    }


@rotated(name=[*SCRIPTED], way=["invoke", "stream", "ainvoke", "astream"])
def test_a_scripted_reply_arrives_as_it_was_written(
    gemini: FakeGemini, name: str, way: str
) -> None:
    scripted, expected = SCRIPTED[name]
    gemini.reply(**scripted)
    found = seen(ask(new_model(), "Hello", way))
    assert {key: found[key] for key in expected} == expected


def test_a_stream_comes_in_the_pieces_of_the_script(gemini: FakeGemini) -> None:
    gemini.reply(chunks=["It ", "is ", "sunny."])
    gemini.reply("abcdef", chunks=2)
    first, second = ([c.text for c in new_model().stream("Hello") if c.text] for _ in range(2))
    assert first == ["It ", "is ", "sunny."]
    assert second == ["abc", "def"]


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_a_structured_reply_fits_every_method(gemini: FakeGemini, method: Any) -> None:
    gemini.reply(structured={"name": "Oslo"})
    model = new_model().with_structured_output(City, method=method)
    assert model.invoke("Where? Answer in JSON.") == City(name="Oslo")


def test_without_a_script_the_tools_are_called() -> None:
    with FakeGemini() as gemini:
        agent: Any = create_agent(new_model(), tools=[get_weather])
        result = agent.invoke({"messages": "What is the weather in Oslo and Rome?"})
    assert "Sunny" in result["messages"][-1].text
    assert gemini.requests[1].function_responses == [("get_weather", "Sunny")] * 2


def test_a_function_answers_every_request() -> None:
    def respond(request: Request) -> Reply | str | None:
        if request.function_responses:
            return f"It is {request.function_responses[0][1]}."
        return Reply(calls=[("get_weather", {"city": request.prompt})])

    with FakeGemini(respond):
        agent: Any = create_agent(new_model(), tools=[get_weather])
        result = agent.invoke({"messages": "Oslo"})
    assert result["messages"][-1].text == "It is Sunny."


def test_a_function_may_ask_the_same_server() -> None:
    def respond(request: Request) -> str:
        return "inner" if request.prompt == "in" else new_model().invoke("in").text + " outer"

    with FakeGemini(respond):
        assert new_model().invoke("out").text == "inner outer"


def test_a_failure_of_the_function_is_shown_at_once_and_at_the_end() -> None:
    gemini = FakeGemini(lambda request: str(request.query["city"]))
    gemini.start()
    with pytest.raises(GeminiInvalidRequestError, match="KeyError"):
        new_model().invoke("Hello")
    assert len(gemini.requests) == 1
    with pytest.raises(FakeGeminiError, match="KeyError"):
        gemini.stop()


@pytest.mark.parametrize("returned", [42, {"text": "Hi"}, [Reply("Hi")]])
def test_a_function_that_returns_something_else_is_an_error(returned: Any) -> None:
    expected = f"returned a value of type {type(returned).__name__}. Return a text, a Reply or None"
    gemini = FakeGemini(lambda _: returned).start()
    with pytest.raises(GeminiInvalidRequestError, match=expected):
        new_model().invoke("Hi")
    assert len(gemini.requests) == 1
    with pytest.raises(FakeGeminiError, match=expected):
        gemini.stop()


def test_a_function_has_to_be_one_that_can_be_called_and_is_not_async() -> None:
    async def respond(_: Request) -> str:
        return "Hi"

    for given in ("Hi", Reply("Hi"), respond):
        with pytest.raises(TypeError, match="respond must be a function"):
            FakeGemini(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": 5}, "text must be a str"),
        ({"calls": "get_weather"}, "calls must be a list"),
        ({"calls": ("get_weather", {"city": "Oslo"})}, "'get_weather' is not a call"),
        ({"calls": [("get_weather",)]}, "is not a call"),
        ({"calls": [("get_weather", "Oslo")]}, "is not a call"),
        ({"calls": [{"nme": "get_weather"}]}, "is not a call"),
        ({"media": [b"data"]}, "media must be pairs"),
        ({"structured": {1, 2}}, "structured cannot be written as JSON"),
        ({"text": "abc", "chunks": 2.5}, "chunks must be"),
        ({"text": "abc", "chunks": "abc"}, "chunks must be"),
        ({"text": "abc", "chunks": ["a", "b"]}, "do not add up to the text"),
        ({"text": "half of \ud800"}, "text cannot be written as JSON"),
        ({"calls": [("f", {"at": b"noon"})]}, "calls cannot be written as JSON"),
        ({"calls": [("f", {"at": float("nan")})]}, "calls cannot be written as JSON"),
        ({"parts": {"text": "Hi"}}, "parts must be a list"),
        ({"parts": ["Hi"]}, "parts must be a list of dicts"),
        ({"events": {"candidates": []}}, "events must be a list"),
        ({"searches": "weather"}, "searches must be a list"),
        ({"code": "print(6 * 7)"}, "code must be a pair"),
        ({"usage": 7}, "usage must be a dict"),
        ({"candidate": "safe"}, "candidate must be a dict"),
        ({"fault": "x"}, "fault must be a function"),
        ({"fault": faults.cut_connection}, r"fault=faults.cut_connection\(...\)"),
        ({"usage": {"input_tokens": 7}}, "usage has no 'input_tokens'.* promptTokenCount"),
        ({"calls": [{"name": "f", "arguments": {"a": 1}}]}, "a call has no 'arguments'"),
        ({"text": "Hi", "parts": [{"text": "Ho"}]}, "parts replaces text"),
        ({"calls": [("f", {})], "body": {}}, "body replaces calls"),
        ({"status": 503}, r"status needs a body.* fail\(503\)"),
    ],
)
def test_a_reply_that_cannot_be_sent_is_rejected_where_it_is_scripted(
    arguments: dict[str, Any], words: str
) -> None:
    with FakeGemini() as gemini:
        with pytest.raises((TypeError, ValueError), match=words):
            gemini.reply(**arguments)
        assert gemini.pending_replies == 0


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda gemini: gemini.script("Yes.", "No."), "'Yes.' is not a Reply"),
        (lambda gemini: gemini.script([Reply("Yes.")]), "is not a Reply"),
        (lambda gemini: gemini.reply_long(calls=["search"]), "'search' is not a call"),
        (lambda gemini: gemini.reply_long("One two.", hop_size=0), "hop_size must be at least 1"),
    ],
)
def test_a_script_that_cannot_be_sent_is_rejected_where_it_is_written(
    write: Callable[[FakeGemini], None], words: str
) -> None:
    with FakeGemini() as gemini:
        with pytest.raises((TypeError, ValueError), match=words):
            write(gemini)
        assert gemini.pending_replies == 0


@pytest.mark.parametrize(
    "fault", [lambda: None, lambda _: None, lambda outgoing: outgoing.no_such_field]
)
@pytest.mark.parametrize("api", ["generate_content", "interactions"])
def test_a_reply_that_fails_later_is_not_asked_for_again(fault: Any, api: Any) -> None:
    gemini = FakeGemini().start()
    gemini.reply("Hi", fault=fault)
    expected = r"FakeGemini could not answer request 1: .*Check the arguments of its reply"
    with pytest.raises(GeminiInvalidRequestError, match=expected):
        new_model(api=api).invoke("Hi")
    with pytest.raises(FakeGeminiError, match=expected):
        gemini.stop()


def test_a_tool_call_of_langchain_is_a_call(gemini: FakeGemini) -> None:
    tool_call = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}
    gemini.reply(calls=[tool_call])
    message = new_model().bind_tools([get_weather]).invoke("Weather in Oslo?")
    assert message.tool_calls == [tool_call]
    assert gemini.memory.calls["c1"].args == {"city": "Oslo"}


def test_models_are_a_list_of_names() -> None:
    with pytest.raises(TypeError, match=r"models=\['my-model'\]"):
        FakeGemini(models="my-model")


def test_a_structured_reply_may_be_a_pydantic_model(gemini: FakeGemini) -> None:
    class City(BaseModel):
        name: str

    gemini.reply(structured=City(name="Oslo"))
    assert new_model().with_structured_output(City).invoke("?") == City(name="Oslo")


@pytest.mark.parametrize(
    "plan",
    [
        *({"status": 200}, {"status": "503"}, {"times": -1}, {"times": "2"}, {"skip": -1}),
        {"retry_after": "3"},
    ],
)
def test_a_fault_that_cannot_be_met_is_rejected(plan: dict[str, Any]) -> None:
    expected = pytest.raises((TypeError, ValueError), match=f"{next(iter(plan))} must be")
    with FakeGemini() as gemini, expected:
        gemini.fail(**plan)


def test_servers_may_stop_in_any_order() -> None:
    before = dict(os.environ)
    first, second, third = (FakeGemini().start() for _ in range(3))
    for gemini, in_use in ((second, third), (first, third)):
        gemini.stop()
        assert os.environ["GOOGLE_GEMINI_BASE_URL"] == in_use.url
    third.reply("Still here.")
    assert new_model().invoke("Hi").text == "Still here."
    third.stop()
    assert dict(os.environ) == before


def test_a_server_that_runs_cannot_be_started_again() -> None:
    before = dict(os.environ)
    gemini = FakeGemini().start()
    with pytest.raises(RuntimeError, match="already running"):
        gemini.start()
    gemini.stop()
    assert dict(os.environ) == before


def test_a_server_that_cannot_start_leaves_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    before = dict(os.environ)
    gemini = FakeGemini(bucket_folder=tmp_path)
    with pytest.raises(ImportError, match="bucket_folder needs fsspec"):
        gemini.start()
    assert dict(os.environ) == before
    with pytest.raises(RuntimeError, match="not running"):
        _ = gemini.url


def test_a_script_that_runs_out_is_an_error() -> None:
    gemini = FakeGemini().start()
    gemini.reply("One.")
    new_model().invoke("First")
    with pytest.raises(GeminiInvalidRequestError, match=r"no reply for request 2 .*'Second'"):
        new_model().invoke("Second")
    with pytest.raises(FakeGeminiError, match="no reply for request 2"):
        gemini.stop()


def test_a_long_reply_is_a_script_as_well() -> None:
    gemini = FakeGemini().start()
    gemini.reply_long("One two three.", hop_size=1)
    model = new_model(model="gemini-4-argon")
    assert model.invoke("First").text == "One two three."
    with pytest.raises(GeminiInvalidRequestError, match=r"has no reply for request \d+ .*'Second'"):
        model.invoke("Second")
    gemini.stop(check=False)


def run_block(gemini: FakeGemini, *replies: Reply, fails: bool = False) -> None:
    with gemini:
        gemini.script(*replies)
        new_model().invoke("Hello")
        assert not fails


def test_replies_that_are_left_over_are_an_error_unless_they_are_allowed() -> None:
    two = Reply("One."), Reply("Two.")
    with pytest.raises(
        FakeGeminiError,
        match=r"1 scripted reply not used after 1 request\. The first is reply\(text='Two.'\)\. .*"
        r"FakeGemini\(allow_unused=True\), or fake_gemini\.allow_unused = True",
    ):
        run_block(FakeGemini(), *two)
    run_block(FakeGemini(allow_unused=True), *two)
    with pytest.raises(AssertionError, match="not True"):
        run_block(FakeGemini(), *two, fails=True)


# Faults


@rotated(way=["invoke", "stream", "ainvoke", "astream"])
def test_retries_after_faults_do_not_wait(
    gemini: FakeGemini, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    gemini.fail(429, times=2, retry_after=30)
    gemini.reset()
    gemini.reply("At last.")
    assert ask(new_model(), "Hello", way).text == "At last."
    assert len(gemini.requests) == 4
    retries = [each.getMessage() for each in caplog.records if each.levelname == "DEBUG"]
    waits = re.findall(r"retry \d of \d in ([\d.]+) s:", "\n".join(retries))
    assert waits == ["0.0"] * 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 504, 418])
def test_an_error_of_any_status_reaches_the_user(gemini: FakeGemini, status: int) -> None:
    gemini.fail(status)
    with pytest.raises(genai.errors.APIError) as failure:
        new_model(max_retries=0).invoke("Hello")
    assert failure.value.code == status
    assert new_model().invoke("Hello").text


def test_faults_meet_the_next_requests_and_keep_the_replies(gemini: FakeGemini) -> None:
    gemini.reply("One.")
    gemini.reply("Two.")
    gemini.fail(503, skip=1)
    model = new_model()
    assert [model.invoke("Hello").text for _ in range(2)] == ["One.", "Two."]
    assert len(gemini.requests) == 3


def test_a_fault_can_belong_to_a_reply(gemini: FakeGemini) -> None:
    gemini.reply("One.")
    gemini.reply(fault=faults.too_many_requests(retry_seconds=20))
    gemini.reply("Two.")
    assert [new_model().invoke("Hello").text for _ in range(2)] == ["One.", "Two."]


def test_an_exhausted_quota_is_final(gemini: FakeGemini) -> None:
    gemini.reply(fault=faults.too_many_requests(per="day"))
    with pytest.raises(GeminiRateLimitError):
        new_model().invoke("Hello")


def test_a_stream_is_cut_after_some_events(gemini: FakeGemini) -> None:
    gemini.cut_stream(after=3)
    gemini.reply("Only streams are cut.")
    gemini.reply("abcdef", chunks=6)
    assert new_model().invoke("Hello").text == "Only streams are cut."
    with pytest.raises(GeminiConnectionError) as failure:
        list(new_model().stream("Hello"))
    assert failure.value.partial is not None
    assert failure.value.partial.text == "abc"


def test_blocked_answers_and_prompts(gemini: FakeGemini) -> None:
    gemini.block("RECITATION")
    with pytest.raises(BlockedError, match="RECITATION"):
        new_model().invoke("Hello")
    gemini.block_prompt()
    with pytest.raises(BlockedError, match="PROHIBITED_CONTENT"):
        new_model().invoke("Hello")


@pytest.mark.parametrize("fault", ["malformed_call", "empty"])
def test_what_is_asked_again(gemini: FakeGemini, fault: str) -> None:
    getattr(gemini, fault)()
    gemini.reply("Better.")
    assert new_model().invoke("Hello").text == "Better."
    assert len(gemini.requests) == 2


def test_a_server_that_hangs_runs_into_the_timeout_and_does_not_delay_the_end() -> None:
    with FakeGemini() as gemini:
        gemini.hang()
        with pytest.raises(GeminiTimeoutError):
            new_model(timeout=0.2).invoke("Hello")


def test_slow_events_arrive_one_by_one(gemini: FakeGemini) -> None:
    gemini.slow(0.001)
    gemini.reply("abc", chunks=3)
    assert [chunk.text for chunk in new_model().stream("Hello") if chunk.text] == ["a", "b", "c"]


def test_faults_that_no_request_met_are_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"fail\(429\)"), FakeGemini() as gemini:
        gemini.fail(429)


# Where it is found


def test_the_environment_is_set_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "real-key-1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("LANGSMITH_GATEWAY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    before = dict(os.environ)
    with FakeGemini() as outer:
        with FakeGemini() as inner:
            assert os.environ["GOOGLE_GEMINI_BASE_URL"] == inner.url
        assert os.environ["GOOGLE_VERTEX_BASE_URL"] == outer.url
        hidden = {"GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "LANGSMITH_GATEWAY"}
        assert not hidden & os.environ.keys()
        assert new_model().invoke("Hello").text
    assert dict(os.environ) == before
    with pytest.raises(ZeroDivisionError), FakeGemini():
        _ = 1 / 0
    assert dict(os.environ) == before
    with FakeGemini(set_environment=False) as gemini:
        assert dict(os.environ) == before
        model = new_model(base_url=gemini.url, api_key=gemini.api_key, client_args={"proxy": None})
        assert model.preview("Hello")


def test_vertex_has_credentials(gemini: FakeGemini) -> None:
    place = {"project": "p", "location": "global", "credentials": gemini.credentials}
    model = new_model(vertexai=True, **place)
    assert model.invoke("Hello").text
    assert gemini.requests[0].backend == "vertex"
    assert gemini.requests[0].path.startswith("/v1beta1/projects/p/locations/global/")


@pytest.mark.parametrize("is_used_inside", [True, False])
@pytest.mark.parametrize("backend", ["gemini", "vertex"])
def test_a_model_that_outlives_its_server_says_so(backend: str, is_used_inside: bool) -> None:
    with FakeGemini() as gemini:
        place = {"vertexai": True, "project": "p", "location": "global"}
        vertex = place | {"credentials": gemini.credentials}
        model = new_model(**(vertex if backend == "vertex" else {}))
        if is_used_inside:
            model.invoke("Hello")
    with pytest.raises(InvalidOptionError, match="a FakeGemini that has stopped"):
        model.invoke("Hello")


def test_a_key_is_never_stored(gemini: FakeGemini) -> None:
    secret = "AIzaSy-a-real-key-of-someone"
    new_model(api_key=secret, additional_headers={"authorization": f"Basic {secret}"}).invoke("Hi")
    url = f"{gemini.url}/v1beta/models/{MODEL}:generateContent?key={secret}"
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
        assert response.status == 200
    assert len(gemini.requests) == 2
    kept = repr([(vars(request), request.body) for request in gemini.requests])
    assert secret not in kept + repr(vars(gemini))


def test_inside_a_cassette_the_replay_wins(own_folder: Path) -> None:
    def run() -> tuple[str, int]:
        with FakeGemini() as gemini, cassette("hello", record_mode="once"):
            gemini.reply("Recorded.")
            return new_model().invoke("Hello").text, len(gemini.requests)

    assert run() == ("Recorded.", 1)
    assert run() == ("Recorded.", 0)
    assert "emulator" in (own_folder / "cassettes" / "hello.yaml").read_text().lower()


# Strictness


def test_it_refuses_what_gemini_refuses_in_its_words(gemini: FakeGemini) -> None:
    client = genai.Client()
    parts = [genai.types.Part.from_function_response(name="f", response={"a": 1})]
    contents = [genai.types.Content(role="user", parts=parts)]
    with pytest.raises(genai.errors.ClientError, match="function response turn comes immediately"):
        client.models.generate_content(model=MODEL, contents=contents)
    assert gemini.refusals[0].evidence == "reported"


@pytest.mark.parametrize("origin", ["real", "cut", "invented"])
def test_signatures_of_the_real_api_are_taken_and_broken_ones_refused(
    gemini: FakeGemini, origin: str
) -> None:
    """A test may load a history that the real API has signed."""
    gemini.reply(calls=[("get_weather", {"city": "Oslo"})])
    model = new_model(max_retries=0).bind_tools([get_weather])
    step = model.invoke("Weather in Oslo?")
    issued = gemini.memory.signatures
    real = base64.b64encode(b"\x12" + bytes(range(60))).decode()
    cut = base64.b64encode(next(iter(issued))[:-3]).decode()
    signature = {"real": real, "cut": cut, "invented": "c2ln"}[origin]
    text = json.dumps(step.model_dump())
    text = text.replace(base64.b64encode(next(iter(issued))).decode(), signature)
    text = text.replace(str(step.tool_calls[0]["id"]), "id-of-another-server")
    result = ToolMessage("Sunny", tool_call_id="id-of-another-server")
    history: list[Any] = ["Weather in Oslo?", AIMessage(**json.loads(text)), result]
    gemini.reply("It is sunny.")
    if origin == "real":
        assert model.invoke(history).text == "It is sunny."
    else:
        with pytest.raises(GeminiInvalidRequestError, match="Corrupted thought signature"):
            model.invoke(history)
        gemini.forget_replies()


def test_rules_that_are_inferred_can_be_warnings() -> None:
    empty = genai.types.Part(inline_data=genai.types.Blob(mime_type="image/png", data=b""))
    contents = [genai.types.Content(role="user", parts=[empty])]
    with FakeGemini() as gemini:
        client = genai.Client()
        with pytest.raises(genai.errors.ClientError, match="invalid argument"):
            client.models.generate_content(model=MODEL, contents=contents)
        assert gemini.refusals[0].evidence == "inferred"
    gemini = FakeGemini(strict=False).start()
    gemini.reply("Fine.")
    client = genai.Client()
    answer = client.models.generate_content(model=MODEL, contents=contents)
    assert answer.text == "Fine."
    with pytest.warns(UserWarning, match="inlineData without data"):
        gemini.stop()
    assert len(gemini.warnings) == 1


# Other programs


def test_serve_answers_plain_http_until_it_is_interrupted(tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    replies.write_text('{"calls": [["f", {"a": 1}]]}\n\n{"text": "Done."}\n')
    command = [sys.executable, "-m", "langchain_gemini_tools.testing", "serve"]
    with subprocess.Popen(
        [*command, "--replies", str(replies)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert url is not None
        parts = [post(url[0])["candidates"][0]["content"]["parts"][0] for _ in range(2)]
        with pytest.raises(urllib.error.HTTPError) as failure:
            post(url[0])
        server.send_signal(signal.SIGINT)
        printed = server.stdout.read()
    assert parts[0]["functionCall"]["args"] == {"a": 1}
    assert parts[1]["text"] == "Done."
    assert failure.value.code == 400
    assert server.returncode == 0
    assert "export GOOGLE_API_KEY=fake-gemini-key" in printed
    assert "3 requests, 1 refused." in printed


def test_a_reader_that_stops_reading_causes_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "langchain_gemini_tools.testing"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, "serve"], **pipes) as server:  # type: ignore[call-overload]
        server.stdout.readline()
        server.stdout.close()  # as `| head -1` does
        server.send_signal(signal.SIGINT)
        assert server.stderr.read() == b""
    assert server.returncode == 1
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *command, "audit", str(tmp_path)],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (closed.returncode, closed.stderr) == (1, b"")  # there are no cassettes


def post(url: str) -> dict[str, Any]:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    request = urllib.request.Request(
        f"{url}/v1/models/gemini-2.5-flash:generateContent",
        json.dumps(body).encode(),
        {"x-goog-api-key": "any"},
    )
    with urllib.request.urlopen(request) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (["--replies", "replies.jsonl"], None, "replies.jsonl: [Errno 2]"),
        (["--replies", "replies.jsonl"], '{"text": "Hi"}\n{"txt": "Hi"}', "line 2: "),
        (["--replies", "replies.jsonl"], "[1]", "line 1: each line is one JSON object"),
        (["--replies", "replies.jsonl"], "{", "line 1: "),
        (["--port", "99999"], None, "--port 99999: "),
    ],
)
def test_serve_says_what_is_wrong_with_its_arguments(
    arguments: list[str],
    content: str | None,
    words: str,
    own_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if content is not None:
        (own_folder / "replies.jsonl").write_text(content)
    with pytest.raises(SystemExit) as caught:
        main(["serve", *arguments])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_the_reason_of_a_refusal_without_one_is_logged(
    gemini: FakeGemini, caplog: pytest.LogCaptureFixture
) -> None:
    calling = {"mode": "ANY", "allowed_function_names": ["g"]}
    config: Any = {
        "tools": [{"function_declarations": [{"name": "f"}]}],
        "tool_config": {"function_calling_config": calling},
    }
    client = genai.Client()
    with pytest.raises(genai.errors.ClientError, match="Request contains an invalid argument"):
        client.models.generate_content(model=MODEL, contents="Hello", config=config)
    assert gemini.refusals[0].why == "allowedFunctionNames that are not declared: g"
    assert caplog.messages == [f"Request 1 is refused: {gemini.refusals[0].why}"]


@pytest.mark.parametrize("model", [MODEL, "gemma-3-27b-it"])
def test_simple_rules_do_not_keep_an_agent_busy_for_ever(model: str) -> None:
    """`create_agent` allows thousands of steps, and sends a structured output back as an error."""

    class Picky(BaseModel):
        """A number that is never right."""

        number: int

        @field_validator("number")
        @classmethod
        def _never(cls, _: int) -> int:
            raise ValueError("Another one, please.")

    gemini = FakeGemini().start()
    agent: Any = create_agent(new_model(), [], response_format=ToolStrategy(Picky))
    with pytest.raises(GeminiInvalidRequestError, match="Script what the model answers"):
        agent.invoke({"messages": "Choose a number."})
    with pytest.raises(FakeGeminiError, match=r"has called Picky\(.* 30 times"):
        gemini.stop()
    assert len(gemini.requests) == 31


def test_the_limit_of_an_agent_is_reached_before_that_of_the_simple_rules(
    gemini: FakeGemini,
) -> None:
    model = new_model().bind(tool_choice="any")
    loop = ToolLoop(model, [get_weather], max_turns=25, on_limit="return")
    assert loop.invoke("Weather in Oslo?").stop_reason == "turn_limit"
    assert len(gemini.requests) == 25


def test_counts_that_are_scripted_add_up(gemini: FakeGemini) -> None:
    for usage in ({"promptTokenCount": 700, "candidatesTokenCount": 3}, {"totalTokenCount": 9}):
        gemini.reply("Hi", usage=usage)
    first, second = (new_model().invoke("Hello").usage_metadata for _ in range(2))
    assert first == {"input_tokens": 700, "output_tokens": 3, "total_tokens": 703}
    assert second is not None
    assert second["total_tokens"] == 9


def test_a_supervisor_passes_the_request_on(gemini: FakeGemini) -> None:
    def ask_librarian(request: str) -> str:
        """Ask the librarian."""
        return new_model().invoke(request).text

    agent: Any = create_agent(new_model(), [ask_librarian])
    agent.invoke({"messages": "Ask the librarian where Dune is."})
    assert gemini.requests[1].prompt == "Ask the librarian where Dune is."


def test_a_long_reply_is_refused_for_an_interaction(gemini: FakeGemini) -> None:
    gemini.reply_long("one two three four")
    with pytest.raises(GeminiInvalidRequestError, match="no long answers for interactions"):
        new_model(api="interactions").invoke("Count.")


@pytest.mark.parametrize("api", ["generate_content", "interactions"])
def test_a_client_that_waits_until_a_server_no_longer_hangs_gets_an_error(
    gemini: FakeGemini, api: Any
) -> None:
    gemini.hang(0.01, times=2)
    gemini.reply("It is sunny.")
    with pytest.raises(GeminiServerError, match="Deadline expired"):
        new_model(api=api, max_retries=0).invoke("Hello")
    assert new_model(api=api, max_retries=1).invoke("Hello").text == "It is sunny."
    assert len(gemini.requests) == 3
