"""Interactions in the background, and agents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from langchain_core.messages import HumanMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import (
    GeminiConnectionError,
    GeminiInvalidRequestError,
    GeminiNotFoundError,
    GeminiTimeoutError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.testing import FakeGemini
from langchain_gemini_tools.testing.fake.faults import cut_before_headers
from tests.integration_tests.invoking import QUESTION, ask
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED = [{"type": "user_input", "content": [{"type": "text", "text": QUESTION}]}]
AGENT = "deep-research-pro-preview-12-2025"


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as running:
        yield running


def new_model(**options: Any) -> ChatGemini:
    settings: dict[str, Any] = {
        "model": "gemini-3.5-flash",
        "api": "interactions",
        "background": True,
    }
    return ChatGemini(**(settings | options))


def methods(gemini: FakeGemini) -> list[str]:
    return [f"{request.method} {request.path.rpartition('/')[2]}" for request in gemini.requests]


@rotated(way=WAYS)
async def test_an_interaction_is_started_and_read_until_it_has_ended(
    way: str, gemini: FakeGemini, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    message = await ask(new_model(), way)
    assert gemini.requests[0].body == {
        "model": "gemini-3.5-flash",
        "input": ASKED,
        "store": True,
        "background": True,
    }
    name = message.response_metadata["interaction_id"]
    assert methods(gemini) == ["POST interactions", f"GET {name}", f"GET {name}"]
    assert message.text.startswith("Hello!")
    assert message.response_metadata["finish_reason"] == "completed"
    assert message.usage_metadata["total_tokens"] > 0
    assert f"Interaction {name} is in_progress." in caplog.text
    assert caplog.text.count("background lets Google keep") == 1


@rotated(way=WAYS)
async def test_an_agent_is_named_as_one(way: str, gemini: FakeGemini) -> None:
    message = await ask(new_model(model=AGENT, agent=True, background=False), way)
    body = gemini.requests[0].body
    assert body == {"agent": AGENT, "input": ASKED, "store": True, "background": True}
    assert message.text
    assert message.response_metadata["agent"] == AGENT


def test_a_background_answer_is_continued_by_its_id(gemini: FakeGemini) -> None:
    model = new_model(use_previous_interaction=True)
    first = model.invoke("Hello")
    model.invoke([HumanMessage("Hello"), first, HumanMessage("And now?")])
    started = [request for request in gemini.requests if request.method == "POST"][-1]
    assert started.body["previous_interaction_id"] == first.response_metadata["interaction_id"]
    assert len(started.steps) == 1


@rotated(way=WAYS)
async def test_a_start_whose_reply_was_lost_is_not_repeated(way: str, gemini: FakeGemini) -> None:
    gemini.reply("Hello", fault=cut_before_headers())
    with pytest.raises(GeminiConnectionError) as failure:
        await ask(new_model(), way)
    assert len(gemini.requests) == 1
    assert "not known whether the interaction has started" in str(failure.value.__notes__)


def test_an_interaction_without_an_id_is_not_read_or_started_again(gemini: FakeGemini) -> None:
    gemini.reply(body={"status": "in_progress"})
    with pytest.raises(UnreadableResponseError, match="has no id"):
        new_model(max_retries=2).invoke("Hello")
    assert methods(gemini) == ["POST interactions"]


def test_an_interaction_that_cannot_be_read_is_not_started_again(gemini: FakeGemini) -> None:
    def delete_before_reading(request: Any) -> None:
        if request.method == "GET":
            key = {"x-goog-api-key": request.headers["x-goog-api-key"]}
            with urlopen(Request(str(request.url), method="DELETE", headers=key)):
                pass

    first = new_model(use_previous_interaction=True).invoke("Hello")
    hooks = {"event_hooks": {"request": [delete_before_reading]}}
    gemini.requests.clear()
    with pytest.raises(GeminiNotFoundError) as failure:
        new_model(use_previous_interaction=True, client_args=hooks).invoke(
            [HumanMessage("Hello"), first, HumanMessage("And now?")]
        )
    name = failure.value.interaction_id
    assert methods(gemini) == ["POST interactions", f"DELETE {name}", f"GET {name}"]


@rotated(way=WAYS)
async def test_an_interaction_that_takes_too_long_is_cancelled(
    way: str, gemini: FakeGemini
) -> None:
    with pytest.raises(GeminiTimeoutError, match="did not end within background_timeout"):
        await ask(new_model(background_timeout=1e-9), way)
    assert methods(gemini) == ["POST interactions", "POST cancel"]


async def test_a_cancelled_caller_cancels_the_interaction(
    gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("GEMINI_RETRY_DELAYS")  # so that it waits before it reads
    caplog.set_level("INFO")
    task = asyncio.create_task(new_model().ainvoke("Hello"))
    while "is in_progress" not in caplog.text:  # noqa: ASYNC110 - a log has no event
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert methods(gemini) == ["POST interactions", "POST cancel"]


def test_what_cannot_run_in_the_background_is_rejected(gemini: FakeGemini) -> None:
    with pytest.raises(InvalidOptionError, match="background=True needs interactions that are"):
        new_model(store=False).invoke("Hello")
    with pytest.raises(InvalidOptionError, match="background needs api='interactions'"):
        new_model(api="generate_content").invoke("Hello")
    with pytest.raises(InvalidOptionError, match="An agent does not have temperature"):
        new_model(model=AGENT, agent=True, temperature=0.1).invoke("Hello")
    assert gemini.requests == []
    with pytest.raises(GeminiInvalidRequestError, match="does not support background"):
        new_model(model="gemini-2.5-flash").invoke("Hello")
