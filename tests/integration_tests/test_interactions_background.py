"""Interactions in the background, and agents."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import (
    FailedInteractionError,
    GeminiAPIError,
    GeminiConnectionError,
    GeminiInvalidRequestError,
    GeminiNotFoundError,
    GeminiTimeoutError,
    InvalidOptionError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.testing import FakeGemini
from langchain_gemini_tools.testing.fake.faults import (
    cut_before_headers,
    cut_connection,
    error_in_stream,
    stall,
)
from tests.integration_tests.invoking import QUESTION, ask
from tests.integration_tests.play import get_weather
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import Iterator

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")
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


@rotated(way=["invoke", "ainvoke"])
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


@rotated(way=STREAMS)
async def test_events_of_an_interaction_in_the_background_are_streamed(
    way: str, gemini: FakeGemini
) -> None:
    gemini.reply("It is sunny in Oslo.", chunks=4)
    seen: list[Any] = []
    message = await ask(new_model(), way, seen)
    [request] = gemini.requests
    assert request.body == {
        "model": "gemini-3.5-flash",
        "input": ASKED,
        "store": True,
        "background": True,
        "stream": True,
    }
    assert message.text == "It is sunny in Oslo."
    assert len([chunk for chunk in seen if chunk.text]) == 4
    assert message.response_metadata["finish_reason"] == "completed"


def ended_after(count: int) -> Any:
    """Return a fault: the stream ends after some events, as if that were all."""
    return lambda outgoing: outgoing.with_steps(*outgoing.steps[:count])


@rotated(way=STREAMS)
async def test_events_after_the_end_do_not_resume_a_stream(way: str, gemini: FakeGemini) -> None:
    late = b'data: {"event_type": "interaction.weather"}\n\n'
    insert = lambda outgoing: outgoing.with_steps(*outgoing.steps[:-1], late)  # noqa: E731
    gemini.reply("Hello", fault=insert)
    assert (await ask(new_model(), way)).text == "Hello"
    assert len(gemini.requests) == 1


def with_event_id(count: int, field: bytes) -> Any:
    """Return a fault: events have this id, and end after some of them."""

    def fault(outgoing: Any) -> Any:
        events = outgoing.steps[:count]
        return outgoing.with_steps(*(re.sub(rb', "event_id": "e\d+"', field, e) for e in events))

    return fault


# The events of this answer: created, status, a thought in e3 to e5, then the text in e6 to e11.
CUTS: dict[str, tuple[Any, str]] = {
    "before a step": (cut_connection(after=2), "e2"),
    "inside of the text": (cut_connection(after=8), "e8"),
    "without a word": (ended_after(8), "e8"),
    "by an error": (error_in_stream(after=9), "e9"),
    "by silence": (stall(30, after=8), "e8"),
    "before the end": (ended_after(11), "e11"),
}


@rotated(cut=CUTS, way=STREAMS)
async def test_a_stream_that_is_cut_is_resumed_after_its_last_event(
    cut: tuple[Any, str], way: str, gemini: FakeGemini, caplog: pytest.LogCaptureFixture
) -> None:
    fault, last = cut
    gemini.reply("It is sunny in Oslo.", chunks=4, fault=fault)
    seen: list[Any] = []
    timeout = 2 if cut is CUTS["by silence"] else 60
    message = await ask(new_model(max_retries=1, timeout=timeout), way, seen)
    name = message.response_metadata["interaction_id"]
    _, resumed = gemini.requests
    assert (resumed.method, resumed.path) == ("GET", f"/v1beta/interactions/{name}")
    assert (resumed.query["stream"], resumed.query["last_event_id"]) == ("true", last)
    assert message.text == "It is sunny in Oslo."
    assert len([chunk for chunk in seen if chunk.text]) == 4
    assert message.response_metadata["finish_reason"] == "completed"
    assert message.usage_metadata["total_tokens"] > 0
    assert f"Interaction {name}: the stream was interrupted and is resumed" in caplog.text


@rotated(way=STREAMS)
async def test_a_stream_without_event_ids_fails_with_what_had_arrived(
    way: str, gemini: FakeGemini
) -> None:
    gemini.reply("It is sunny in Oslo.", chunks=4, fault=with_event_id(8, b""))
    with pytest.raises(TruncatedStreamError) as failure:
        await ask(new_model(), way)
    assert len(gemini.requests) == 1
    assert failure.value.partial
    assert "It is sunny in Oslo.".startswith(failure.value.partial.text)
    assert "The option interaction_id='v1_" in str(failure.value.__notes__)


@rotated(way=STREAMS)
async def test_a_stream_that_the_api_does_not_resume_fails(way: str, gemini: FakeGemini) -> None:
    unknown = with_event_id(8, b', "event_id": "x"')
    gemini.reply("It is sunny in Oslo.", chunks=4, fault=unknown)
    with pytest.raises(GeminiInvalidRequestError) as failure:
        await ask(new_model(), way)
    assert len(gemini.requests) == 2
    assert failure.value.partial
    assert "It is sunny in Oslo.".startswith(failure.value.partial.text)
    [refusal] = gemini.refusals
    assert str(refusal) == "last_event_id is the id of an event of this interaction"


def lose_interaction(gemini: FakeGemini) -> str:
    """Start an interaction, lose its stream, and return its id as the error has it."""
    gemini.reply("It is sunny in Oslo.", fault=with_event_id(2, b""))
    with pytest.raises(TruncatedStreamError) as failure:
        list(new_model().stream(QUESTION))
    gemini.requests.clear()
    found = re.search(r"interaction_id='(\w+)'", str(failure.value.__notes__[-1]))
    assert found
    return found[1]


@rotated(way=WAYS)
async def test_an_interaction_is_read_by_its_id(way: str, gemini: FakeGemini) -> None:
    name = await asyncio.to_thread(lose_interaction, gemini)
    message = await ask(new_model(background=False), way, interaction_id=name)
    assert methods(gemini) == [f"GET {name}", f"GET {name}"]
    assert message.text == "It is sunny in Oslo."
    assert message.response_metadata["interaction_id"] == name
    gemini.reply("Still sunny.")
    model = new_model(background=False, use_previous_interaction=True)
    await model.ainvoke([HumanMessage(QUESTION), message, HumanMessage("And now?")])
    assert gemini.requests[-1].body["previous_interaction_id"] == name
    assert len(gemini.requests[-1].steps) == 1


@rotated(way=WAYS, status=["failed", "cancelled", "budget_exceeded", "solar_flare"])
async def test_an_interaction_that_fails_in_the_background_is_not_an_answer(
    way: str, status: str, gemini: FakeGemini
) -> None:
    gemini.reply("It is sun", finish_reason=status)
    with pytest.raises(FailedInteractionError) as failure:
        await ask(new_model(), way)
    assert failure.value.finish_reason == status
    assert failure.value.partial
    assert failure.value.partial.text == "It is sun"
    name = failure.value.partial.response_metadata["interaction_id"]
    with pytest.raises(FailedInteractionError) as again:
        await ask(new_model(background=False), way, interaction_id=name)
    assert again.value.finish_reason == status
    assert [request.method for request in gemini.requests].count("POST") == 1


def hop(name: str, text: str, status: str, **more: Any) -> dict[str, Any]:
    step = {"type": "model_output", "content": [{"type": "text", "text": text}]}
    usage = {"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5}
    return {"id": name, "status": status, "model": "m", "steps": [step], "usage": usage, **more}


@rotated(background=[False, True], way=WAYS)
async def test_an_interaction_that_is_read_and_requires_continuation_is_continued(
    background: bool, way: str, gemini: FakeGemini
) -> None:
    gemini.reply(body=hop("v1_a", "It is ", "requires_continuation", continuation_token="t1"))
    first = new_model(background=False, store=True, automatic_continuation=False)
    assert (await first.ainvoke("Start")).text == "It is "
    gemini.requests.clear()
    gemini.reply("sunny.")
    message = await ask(new_model(background=background), way, interaction_id="v1_a")
    assert message.text == "It is sunny."
    assert message.response_metadata["finish_reason"] == "completed"
    read, posted, *_ = gemini.requests
    assert (read.method, posted.method) == ("GET", "POST")
    expected = {
        "model": "gemini-3.5-flash",
        "previous_interaction_id": "v1_a",
        "continuation_token": "t1",
        "store": True,
    }
    expected |= {"background": True} if background else {}
    assert posted.body == expected | ({"stream": True} if "stream" in way else {})
    assert message.response_metadata["interaction_id"] != "v1_a"


@rotated(way=WAYS)
async def test_an_interaction_that_is_not_there_is_not_started(
    way: str, gemini: FakeGemini
) -> None:
    with pytest.raises(GeminiNotFoundError):
        await ask(new_model(), way, interaction_id="v1_other")
    assert methods(gemini) == ["GET v1_other"]


class Progress(BaseCallbackHandler):
    """Collects what is reported about interactions."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        self.seen.append((name, data["interaction_id"], data["status"]))


@rotated(way=WAYS)
async def test_callbacks_see_the_status_of_an_interaction(way: str, gemini: FakeGemini) -> None:
    progress = Progress()

    async def run(_: str) -> Any:
        return await ask(new_model(), way)

    if "stream" in way:  # langchain-core gives streams no run manager, so a parent is needed
        message = await RunnableLambda(run).ainvoke("", {"callbacks": [progress]})
    else:
        message = await ask(new_model(callbacks=[progress]), way)
    name = message.response_metadata["interaction_id"]
    statuses = ["in_progress", *([] if "stream" in way else ["in_progress"]), "completed"]
    assert progress.seen == [("gemini_interaction", name, status) for status in statuses]
    assert gemini.refusals == []


@rotated(way=WAYS)
async def test_an_agent_is_named_as_one(way: str, gemini: FakeGemini) -> None:
    message = await ask(new_model(model=AGENT, agent=True, background=False), way)
    body = gemini.requests[0].body
    expected = {"agent": AGENT, "input": ASKED, "store": True, "background": True}
    assert body == expected | ({"stream": True} if "stream" in way else {})
    assert message.text
    assert message.response_metadata["agent"] == AGENT


def instead(messages: list[Any]) -> RunnableLambda[Any, list[Any]]:
    """Return a step that passes on these messages, whatever it is given."""
    return RunnableLambda(lambda _: messages)


def test_an_agent_that_is_not_named_as_one_is_explained(gemini: FakeGemini) -> None:
    with pytest.raises(GeminiNotFoundError, match="the name of an agent, pass agent=True"):
        new_model(model=AGENT).invoke("Hello")
    assert len(gemini.requests) == 1


@pytest.mark.parametrize("keeps", [False, True], ids=["all messages", "new messages"])
@rotated(way=WAYS)
async def test_steps_that_were_sent_are_not_part_of_the_answer(
    way: str, keeps: bool, gemini: FakeGemini
) -> None:
    """What is read has the steps of the request as well: no call of them is made again."""
    bound = new_model(use_previous_interaction=keeps).bind_tools([get_weather])
    first = await bound.ainvoke("Weather in Oslo?")
    [call] = first.tool_calls
    result = ToolMessage("Sun", tool_call_id=call["id"])
    history: list[Any] = [HumanMessage("Weather in Oslo?"), first, result]
    second = await bound.ainvoke(history)
    assert (second.tool_calls, "Sun" in second.text) == ([], True)
    history += [second, HumanMessage("Hello!")]
    third = await bound.ainvoke(history)
    assert third.text.startswith("Hello!")
    for known, messages in ((second, history[:3]), (third, history)):
        name = known.response_metadata["interaction_id"]
        again = await ask(instead(messages) | bound.bind(interaction_id=name), way)
        assert (again.tool_calls, again.text) == ([], known.text)
    assert gemini.refusals == []


def test_input_of_extra_body_may_be_a_text(gemini: FakeGemini) -> None:
    message = new_model(extra_body={"input": "Hello"}).invoke("Anything")
    assert (gemini.requests[0].body["input"], message.text[:5]) == ("Hello", "Hello")


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
    assert "The interaction may have started" in str(failure.value.__notes__)


def test_an_interaction_without_an_id_is_not_read_or_started_again(gemini: FakeGemini) -> None:
    gemini.reply(body={"status": "in_progress"})
    with pytest.raises(UnreadableResponseError, match="the API returned no id for it"):
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


async def test_a_cancelled_reader_of_a_stream_cancels_the_interaction(gemini: FakeGemini) -> None:
    gemini.reply("It is sunny in Oslo.", chunks=4, fault=stall(30, after=8))
    has_begun = asyncio.Event()

    async def read() -> None:
        async for _ in new_model().astream("Hello"):
            has_begun.set()

    task = asyncio.create_task(read())
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert methods(gemini) == ["POST interactions", "POST cancel"]


def sabotage(gemini: FakeGemini, method: str, *faults: Any) -> dict[str, Any]:
    """Return the settings of a model: the first requests of this method meet these faults."""
    left = list(faults)

    def before(request: Any) -> None:
        if request.method == method and left and (fault := left.pop(0)):
            gemini.fail(fault)

    async def abefore(request: Any) -> None:
        before(request)

    return {
        "client_args": {"event_hooks": {"request": [before]}},
        "async_client_args": {"event_hooks": {"request": [abefore]}},
    }


@rotated(way=["invoke", "ainvoke"])
async def test_a_poll_that_fails_is_repeated_and_the_start_is_not(
    way: str, gemini: FakeGemini
) -> None:
    message = await ask(new_model(**sabotage(gemini, "GET", 500, None, 429)), way)
    assert message.text
    assert [request.method for request in gemini.requests].count("POST") == 1


@rotated(way=["invoke", "ainvoke"], code=[404, 403, 500])
async def test_a_poll_that_keeps_failing_names_the_interaction(
    way: str, code: int, gemini: FakeGemini
) -> None:
    model = new_model(max_retries=1, **sabotage(gemini, "GET", *[code] * 4))
    with pytest.raises(GeminiAPIError) as failure:
        await ask(model, way)
    assert failure.value.code == code
    assert not failure.value.is_retryable
    name = failure.value.interaction_id
    assert name
    assert methods(gemini)[0] == "POST interactions"
    assert {*methods(gemini)[1:]} == {f"GET {name}"}
    assert (await new_model().ainvoke(QUESTION, interaction_id=name)).text


POLLS: dict[str, Any] = {"nothing": {}, "a list": [], "another object": {"name": "models/a"}}


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("name", POLLS)
def test_a_poll_that_is_not_an_interaction_is_not_an_answer(name: str) -> None:
    def answer(request: Any) -> Any:
        running = {"id": "v1_a", "status": "in_progress"}
        return hx.Response(200, json=running if request.method == "POST" else POLLS[name])

    model = new_model(api_key="k", client_args={"transport": hx.MockTransport(answer)})
    with pytest.raises(UnreadableResponseError) as failure:
        model.invoke(QUESTION)
    assert not failure.value.is_retryable
    assert "interaction_id='v1_a'" in str(failure.value.__notes__)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("repeats", [0, 1, 8])
def test_events_that_a_resumed_stream_repeats_are_not_shown_twice(repeats: int) -> None:
    step = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
    words = ["It ", "is ", "sunny ", "in ", "Oslo."]
    deltas = [{"type": "text", "text": word} for word in words]
    events: list[Any] = [
        {"event_type": "interaction.created", "interaction": {"id": "v1_a"}},
        step,
        *({"event_type": "step.delta", "index": 0, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": {"status": "completed"}},
    ]
    events = [{**event, "event_id": f"e{number}"} for number, event in enumerate(events)]
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        shown = events[:5] if request.method == "POST" else events[max(0, 5 - repeats) :]
        return hx.Response(200, text="".join(f"data: {json.dumps(each)}\n\n" for each in shown))

    model = new_model(api_key="k", client_args={"transport": hx.MockTransport(answer)})
    chunks = list(model.stream(QUESTION))
    assert "".join(str(chunk.text) for chunk in chunks) == "It is sunny in Oslo."
    assert [request.method for request in requests] == ["POST", "GET"]
    assert "last_event_id=e4" in str(requests[1].url)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("event_id", [None, 1, {}, []])
def test_an_event_without_an_id_does_not_count_as_progress(event_id: Any) -> None:
    step = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
    delta = {"type": "text", "text": "It "}
    events: list[Any] = [
        {"event_type": "interaction.created", "interaction": {"id": "v1_a"}, "event_id": "e0"},
        {**step, "event_id": "e1"},
        {"event_type": "step.delta", "index": 0, "delta": delta, "event_id": event_id},
    ]
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return hx.Response(200, text="".join(f"data: {json.dumps(each)}\n\n" for each in events))

    transport = {"transport": hx.MockTransport(answer)}
    model = new_model(api_key="k", max_retries=2, client_args=transport)
    with pytest.raises(TruncatedStreamError):
        list(model.stream(QUESTION))
    assert [request.method for request in requests] == ["POST", "GET", "GET", "GET"]


def test_an_interrupted_caller_cancels_the_interaction(gemini: FakeGemini) -> None:
    def interrupt(request: Any) -> None:
        if request.method == "GET":
            raise KeyboardInterrupt

    hooks = {"event_hooks": {"request": [interrupt]}}
    with pytest.raises(KeyboardInterrupt):
        new_model(client_args=hooks).invoke(QUESTION)
    assert methods(gemini) == ["POST interactions", "POST cancel"]


def test_a_cancellation_that_fails_is_logged(
    gemini: FakeGemini, caplog: pytest.LogCaptureFixture
) -> None:
    model = new_model(background_timeout=1e-9, **sabotage(gemini, "POST", None, 500))
    with pytest.raises(GeminiTimeoutError):
        model.invoke(QUESTION)
    assert methods(gemini) == ["POST interactions", "POST cancel"]
    assert "could not be cancelled and may still be running" in caplog.text


def test_a_reader_that_stops_leaves_the_interaction_running(gemini: FakeGemini) -> None:
    gemini.reply("It is sunny in Oslo.", chunks=4)
    stream = new_model().stream(QUESTION)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert methods(gemini) == ["POST interactions"]


@rotated(way=WAYS)
async def test_a_read_by_id_that_fails_is_retried(way: str, gemini: FakeGemini) -> None:
    name = await asyncio.to_thread(lose_interaction, gemini)
    gemini.fail(503)
    message = await ask(new_model(), way, interaction_id=name)
    assert message.text == "It is sunny in Oslo."
    assert methods(gemini) == [f"GET {name}"] * 3


def test_what_cannot_run_in_the_background_is_rejected(gemini: FakeGemini) -> None:
    with pytest.raises(InvalidOptionError, match="background=True needs interactions that are"):
        new_model(store=False).invoke("Hello")
    with pytest.raises(InvalidOptionError, match="background needs api='interactions'"):
        new_model(api="generate_content").invoke("Hello")
    with pytest.raises(InvalidOptionError, match="An agent does not have temperature"):
        new_model(model=AGENT, agent=True, temperature=0.1).invoke("Hello")
    with pytest.raises(InvalidOptionError, match="interaction_id='v1_a' needs interactions that"):
        new_model(background=False, store=False).invoke("Hello", interaction_id="v1_a")
    with pytest.raises(InvalidOptionError, match="interaction_id needs api='interactions'"):
        new_model(api="generate_content", background=False).invoke("Hello", interaction_id="v1_a")
    with pytest.raises(InvalidOptionError, match="is not the id of an interaction"):
        new_model().invoke("Hello", interaction_id="v1/../models")
    assert gemini.requests == []
    with pytest.raises(GeminiInvalidRequestError, match="does not support background"):
        new_model(model="gemini-2.5-flash").invoke("Hello")
