"""One model object through a program: event loops, threads, batches, copies, closing."""

from __future__ import annotations

import asyncio
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from tests.integration_tests.play import WEATHER, call, get_weather, model, request, result, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import MakeModel

QUESTIONS: list[Any] = [f"Question {number}?" for number in range(24)]


def _asked(emulator: Emulator) -> list[str]:
    """The question in each request, in alphabetical order: threads have none."""
    texts = [asked.body["contents"][0]["parts"][0]["text"] for asked in emulator.requests]
    return sorted(texts)


def _quotes(messages: list[Any]) -> list[bool]:
    """Whether each answer quotes its own question, as the emulator's do."""
    pairs = zip(QUESTIONS, messages, strict=True)
    return [f"You said: {question}" in message.text for question, message in pairs]


# event loops


def test_one_model_serves_several_event_loops_in_a_row(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()

    async def run() -> tuple[str, str]:
        whole = await chat.ainvoke("Hello?")
        pieces = [chunk.text async for chunk in chat.astream("Hello?")]
        return whole.text, "".join(pieces)

    answers = [asyncio.run(run()) for _ in range(3)]
    assert len(emulator.requests) == 6
    assert {text for pair in answers for text in pair} == {chat.invoke("Hello?").text}


def test_one_agent_serves_several_event_loops_in_a_row(
    emulator: Emulator, make_model: MakeModel
) -> None:
    agent: Any = create_agent(make_model(), tools=[get_weather])
    asked = {"messages": [HumanMessage("Weather in Oslo?")]}
    states = [asyncio.run(agent.ainvoke(asked)) for _ in range(3)]
    assert len(emulator.requests) == 6
    assert {len(state["messages"]) for state in states} == {4}
    assert all("Sunny in Oslo" in state["messages"][-1].text for state in states)


def test_event_loops_of_several_threads_do_not_disturb_each_other(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()

    def run(question: str) -> Any:
        return asyncio.run(chat.ainvoke(question))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(run, QUESTIONS))
    assert all(_quotes(answers))
    assert _asked(emulator) == sorted(QUESTIONS)


async def test_sync_and_async_calls_may_be_mixed(make_model: MakeModel) -> None:
    chat = make_model()
    whole, aside = await asyncio.gather(
        chat.ainvoke("Hello?"), asyncio.to_thread(chat.invoke, "Hello?")
    )
    assert whole.text == aside.text == chat.invoke("Hello?").text


async def test_many_async_calls_at_once_get_their_own_answers(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()
    answers = await asyncio.gather(*(chat.ainvoke(question) for question in QUESTIONS))
    assert all(_quotes(answers))
    assert _asked(emulator) == sorted(QUESTIONS)


# threads and batches


def test_a_batch_on_a_fresh_model_gets_every_answer(
    emulator: Emulator, make_model: MakeModel
) -> None:
    answers = make_model().batch(QUESTIONS, config={"max_concurrency": 8})
    assert all(_quotes(answers))
    assert _asked(emulator) == sorted(QUESTIONS)


async def test_an_async_batch_on_a_fresh_model_gets_every_answer(
    emulator: Emulator, make_model: MakeModel
) -> None:
    answers = await make_model().abatch(QUESTIONS)
    assert all(_quotes(answers))
    assert _asked(emulator) == sorted(QUESTIONS)


def test_a_batch_may_hand_back_failures_beside_answers(
    emulator: Emulator, make_model: MakeModel
) -> None:
    answers = make_model().batch(["Hello?", []], return_exceptions=True)
    assert isinstance(answers[0], AIMessage)
    assert isinstance(answers[1], ValueError)
    assert len(emulator.requests) == 1


def test_agents_on_several_threads_keep_their_turns_apart(
    emulator: Emulator, make_model: MakeModel
) -> None:
    agent: Any = create_agent(make_model(), tools=[get_weather])
    cities = ["Oslo", "Rome", "Lima", "Kyiv", "Bern", "Doha"]

    def run(city: str) -> Any:
        return agent.invoke({"messages": [HumanMessage(f"Weather in {city}?")]})

    with ThreadPoolExecutor(6) as threads:
        states = list(threads.map(run, cities))
    assert emulator.refusals == []
    for city, state in zip(cities, states, strict=True):
        assert [message.content for message in state["messages"] if message.type == "tool"] == [
            f"Sunny in {city}"
        ]


# copies


def _pickled(chat: Any) -> Any:
    """A model out of a pickle, with its key again."""
    loaded = pickle.loads(pickle.dumps(chat))
    if isinstance(loaded, ChatGemini):
        return loaded.model_copy(update={"api_key": API_KEY})
    return loaded.model_copy(update={"bound": loaded.bound.model_copy(update={"api_key": API_KEY})})


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, _pickled, lambda chat: chat.model_copy()]
)
async def test_a_copy_of_a_used_model_works_and_leaves_the_model_as_it_was(
    emulator: Emulator, make_model: MakeModel, duplicate: Callable[[ChatGemini], ChatGemini]
) -> None:
    chat = make_model(temperature=0.5)
    chat.invoke("Hello?")
    await chat.ainvoke("Hello?")
    twin = duplicate(chat)
    assert twin.model_dump() == chat.model_dump()
    twin.invoke("Hello?")
    await twin.ainvoke("Hello?")
    twin.close()
    await twin.aclose()
    chat.invoke("Hello?")
    await chat.ainvoke("Hello?")
    assert len(emulator.requests) == 6
    assert {asked.raw for asked in emulator.requests} == {emulator.last.raw}


def test_a_changed_copy_uses_its_own_settings(emulator: Emulator, make_model: MakeModel) -> None:
    chat = make_model()
    chat.invoke("Hello?")
    with Emulator() as other:
        moved = chat.model_copy(update={"base_url": other.url, "model": "gemini-2.5-flash"})
        moved.invoke("Hello?")
        moved.close()
        assert [asked.model for asked in other.requests] == ["gemini-2.5-flash"]
    chat.invoke("Hello?")
    assert [asked.model for asked in emulator.requests] == ["gemini-3.8-flash"] * 2


def test_bound_tools_survive_copies_and_pickling(emulator: Emulator, make_model: MakeModel) -> None:
    bound: Any = make_model().bind_tools([get_weather])
    bound.invoke("Hello?")
    for twin in (copy.deepcopy(bound), _pickled(bound)):
        twin.invoke("Hello?")
        twin.bound.close()
    assert [asked.body for asked in emulator.requests] == [
        request(user("Hello?"), tools=[WEATHER])
    ] * 3


def test_a_turn_begun_by_one_copy_is_finished_by_another(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()
    emulator.reply(
        parts=[call("get_weather", {"city": "Oslo"}, "first", "c2lnbmVk")],
    )
    begun: Any = chat.bind_tools([get_weather]).invoke("Weather?")
    twin = _pickled(chat)
    history = [HumanMessage("Weather?"), begun, ToolMessage("Sunny", tool_call_id="first")]
    twin.bind_tools([get_weather]).invoke(pickle.loads(pickle.dumps(history)))
    twin.close()
    assert emulator.last.body == request(
        user("Weather?"),
        model(call("get_weather", {"city": "Oslo"}, "first", "c2lnbmVk")),
        user(result("get_weather", "Sunny", "first")),
    )


# closing


def test_a_context_manager_closes_and_the_model_can_still_be_used(
    emulator: Emulator, make_model: MakeModel
) -> None:
    with make_model() as chat:
        first = chat.invoke("Hello?").text
    assert chat.invoke("Hello?").text == first
    with chat:
        assert chat.invoke("Hello?").text == first
    chat.close()
    chat.close()
    assert len(emulator.requests) == 3


async def test_an_async_context_manager_closes_and_the_model_can_still_be_used(
    emulator: Emulator, make_model: MakeModel
) -> None:
    async with make_model() as chat:
        first = (await chat.ainvoke("Hello?")).text
    assert (await chat.ainvoke("Hello?")).text == first
    await chat.aclose()
    await chat.aclose()
    assert len(emulator.requests) == 2


def test_a_model_that_was_never_used_closes(make_model: MakeModel) -> None:
    chat = make_model()
    chat.close()
    asyncio.run(chat.aclose())


def test_a_stream_that_is_left_early_leaves_the_model_usable(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()
    for _ in range(3):
        next(iter(chat.stream("Hello?")))
    assert "Hello?" in chat.invoke("Hello?").text
    assert len(emulator.requests) == 4


async def test_an_async_call_that_is_cancelled_leaves_the_model_usable(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model()
    for _ in range(3):
        async for _chunk in chat.astream("Hello?"):
            break
    task = asyncio.create_task(chat.ainvoke("Hello?"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "Hello?" in (await chat.ainvoke("Hello?")).text


# What was computed from the fields


def test_a_model_that_was_used_equals_one_that_was_not(make_model: MakeModel) -> None:
    used, unused = make_model(), make_model()
    used.invoke("Hello?")
    assert used == unused
    assert pickle.loads(pickle.dumps(used)) == pickle.loads(pickle.dumps(unused))
    assert used != make_model(max_retries=1)


class Shown(BaseCallbackHandler):
    """Keeps what tracers are shown of the model."""

    def on_chat_model_start(self, serialized: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.fields = serialized["kwargs"]


def test_tracers_are_shown_the_fields_of_a_changed_model(make_model: MakeModel) -> None:
    chat, shown = make_model(seed=1), Shown()

    def seed_of(model: ChatGemini) -> int:
        model.invoke("Hello?", config={"callbacks": [shown]})
        return int(shown.fields["seed"])

    assert seed_of(chat) == 1
    assert seed_of(chat.model_copy(update={"seed": 2})) == 2
    chat.seed = 3
    assert seed_of(chat) == 3
    with_key = {"api_key": API_KEY}  # which a pickle does not carry
    copied = pickle.loads(pickle.dumps(chat)).model_copy(update=with_key)
    assert seed_of(copied) == 3
    assert shown.fields["google_api_key"]["type"] == "secret"
