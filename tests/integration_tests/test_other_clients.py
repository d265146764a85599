"""`FakeGemini` answers other clients as well: plain HTTP, the SDK, and other libraries' models.

The other libraries are not in the development environment; `make test-clients` installs them.
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from google import genai
from google.genai import types

from langchain_gemini_tools.testing import FakeGemini, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "gemini-3.8-flash"
NOT_INSTALLED = "not installed; `make test-clients` installs it"


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


get_weather.__annotations__ = {"city": str, "return": str}  # google-genai 2.20 reads no strings


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as running:
        yield running


def script_one_call(gemini: FakeGemini) -> None:
    gemini.reply(calls=[("get_weather", {"city": "Oslo"})])
    gemini.reply("It is sunny.")


def assert_one_call(requests: list[Request]) -> None:
    first, second = requests
    assert first.tool_names == ["get_weather"]
    assert second.function_calls == [("get_weather", {"city": "Oslo"})]
    assert second.function_responses == [("get_weather", "Sunny in Oslo")]


# Plain HTTP

PATHS = {
    "v1": f"/v1/models/{MODEL}",
    "v1beta": f"/v1beta/models/{MODEL}",
    "vertex v1": f"/v1/projects/p/locations/global/publishers/google/models/{MODEL}",
    "vertex v1beta1": f"/v1beta1/projects/p/locations/global/publishers/google/models/{MODEL}",
    "express": f"/v1beta1/publishers/google/models/{MODEL}",
}


def post(gemini: FakeGemini, path: str, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(gemini.url).netloc)
    connection.request("POST", path, json.dumps(body), {"x-goog-api-key": gemini.api_key})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_every_path_of_both_apis_answers_plain_http(gemini: FakeGemini, path: str) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    status, text = post(gemini, f"{path}:generateContent", body)
    assert (status, json.loads(text)["candidates"][0]["finishReason"]) == (200, "STOP")
    status, text = post(gemini, f"{path}:streamGenerateContent?alt=sse", body)
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
    assert (status, events[-1]["candidates"][0]["finishReason"]) == (200, "STOP")
    status, text = post(gemini, f"{path}:countTokens", body)
    assert (status, json.loads(text)["totalTokens"] > 0) == (200, True)
    assert [request.model for request in gemini.requests] == [MODEL] * 3


# The SDK


@pytest.mark.parametrize("backend", ["gemini", "vertex"])
def test_the_sdk_calls_functions_by_itself(gemini: FakeGemini, backend: str) -> None:
    script_one_call(gemini)
    place = {"project": "p", "location": "global", "credentials": gemini.credentials}
    client = genai.Client(vertexai=True, **place) if backend == "vertex" else genai.Client()
    config = types.GenerateContentConfig(tools=[get_weather])
    answer = client.models.generate_content(model=MODEL, contents="Weather?", config=config)
    assert answer.text == "It is sunny."
    assert_one_call(gemini.requests)
    assert gemini.requests[0].backend == backend


async def test_the_sdk_streams_and_counts(gemini: FakeGemini) -> None:
    gemini.reply(chunks=["It is ", "sunny."])
    client = genai.Client()
    stream = await client.aio.models.generate_content_stream(model=MODEL, contents="Weather?")
    texts = [event.text async for event in stream if event.text]
    assert texts == ["It is ", "sunny."]
    counted = client.models.count_tokens(model=MODEL, contents="Weather?")
    assert (counted.total_tokens or 0) > 0


def test_the_sdk_gets_the_errors_of_the_api(gemini: FakeGemini) -> None:
    gemini.fail(429, retry_after=3)
    client = genai.Client()
    with pytest.raises(genai.errors.ClientError) as failure:
        client.models.generate_content(model=MODEL, contents="Hello")
    details = failure.value.details["error"]["details"]
    assert (failure.value.status, details[0]["retryDelay"]) == ("RESOURCE_EXHAUSTED", "3s")


# Other libraries


def test_the_model_of_langchain_google_genai(gemini: FakeGemini) -> None:
    peer = pytest.importorskip("langchain_google_genai", reason=NOT_INSTALLED)
    agents = pytest.importorskip("langchain.agents")
    script_one_call(gemini)
    agent = agents.create_agent(peer.ChatGoogleGenerativeAI(model=MODEL), tools=[get_weather])
    result = agent.invoke({"messages": "What is the weather in Oslo?"})
    assert result["messages"][-1].text == "It is sunny."
    assert_one_call(gemini.requests)
    gemini.reply("abc", chunks=3)
    stream = peer.ChatGoogleGenerativeAI(model=MODEL).stream("Hello")
    assert "".join(chunk.text for chunk in stream) == "abc"


async def test_the_model_of_pydantic_ai(gemini: FakeGemini) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai", reason=NOT_INSTALLED)
    models = pytest.importorskip("pydantic_ai.models.google", reason=NOT_INSTALLED)
    script_one_call(gemini)
    agent = pydantic_ai.Agent(models.GoogleModel(MODEL), tools=[get_weather])
    result = await agent.run("What is the weather in Oslo?")
    assert result.output == "It is sunny."
    assert_one_call(gemini.requests)
