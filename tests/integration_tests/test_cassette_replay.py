"""`with cassette(...)`: what is replayed, and what is not. Recorded against the emulator."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_gemini_tools.errors import GeminiInvalidRequestError, GeminiRateLimitError
from langchain_gemini_tools.testing import StaleCassetteError, cassette
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, Emulator, faults
from langchain_gemini_tools.testing.fake.answer import Memory
from tests.integration_tests.invoking import QUESTION, ask
from tests.integration_tests.taping import FILE, edit_file, gemini
from tests.rotation import WAYS

if TYPE_CHECKING:
    from langchain_gemini_tools import ChatGemini
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_recorded_is_replayed_without_key_and_server(
    way: str, model: ChatGemini, emulator: Emulator, library: str
) -> None:
    async with cassette("weather", record_mode="once") as tape:
        recorded = await ask(model, way)
        assert not tape.is_replaying
    async with cassette("weather") as tape:
        replayed = await ask(gemini(), way)
        assert (tape.is_replaying, tape.unused) == (True, [])
    assert replayed.model_copy(update={"id": recorded.id}) == recorded
    assert len(emulator.requests) == 1


@pytest.mark.parametrize("library_now", ["httpx", "httpx2"])
@pytest.mark.parametrize("way", WAYS)
async def test_one_file_serves_both_libraries(
    way: str, library_now: str, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library_now)
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", "httpx")
    with cassette("weather", record_mode="all"):
        recorded = [make_model().invoke(QUESTION), *make_model().stream(QUESTION)]
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", library_now)
    with cassette("weather"):
        answer = await ask(gemini(), way)
    assert answer.content == recorded[0].content


def test_a_call_without_an_id_is_known_again_under_another_one(
    make_model: MakeModel, emulator: Emulator
) -> None:
    """Gemini 2.5 gives calls no ids; those that are made up differ in each run."""

    def two_turns(model: ChatGemini) -> list[Any]:
        bound = model.bind_tools([get_weather])
        history: list[Any] = [HumanMessage("Weather in Oslo and Rome?")]
        history.append(bound.invoke(history))
        history += [
            ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"])
            for call in history[-1].tool_calls
        ]
        return [*history, bound.invoke(history)]

    files = []
    for _ in range(2):
        emulator.memory = Memory(salt=0)
        with cassette("weather", record_mode="all"):
            recorded = two_turns(make_model(model="gemini-2.5-flash"))
        files.append(FILE.read_text())
    assert files[0] == files[1]
    with cassette("weather"):
        replayed = two_turns(gemini(model="gemini-2.5-flash"))
    assert replayed[-1].content == recorded[-1].content
    assert replayed[1].tool_calls[0]["id"] != recorded[1].tool_calls[0]["id"]


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


@pytest.mark.parametrize("way", WAYS)
async def test_another_question_is_not_answered_and_it_says_what_differs(
    way: str, model: ChatGemini, caplog: pytest.LogCaptureFixture
) -> None:
    with cassette("weather", record_mode="all"):
        await ask(model.bind(seed=5), way)
    with cassette("weather"), pytest.raises(StaleCassetteError) as caught:
        await ask(gemini().bind(seed=7, stop=["x"]), way)
    method = "streamGenerateContent" if way in {"stream", "astream"} else "generateContent"
    assert str(caught.value) == (
        "The cassette cassettes/weather.yaml has no response to POST "
        f"/v1beta/models/gemini-3.8-flash:{method}.\n"
        "The nearest recorded request (number 1 of 1) differs:\n"
        "  body.generationConfig.seed: recorded 5, now 7\n"
        '  body.generationConfig.stopSequences: not recorded, now ["x"]\n'
        "To record it, set GOOGLE_API_KEY and run with GEMINI_RECORD_MODE=all "
        "(pytest: --record-mode=all)."
    )
    assert not hasattr(caught.value, "__notes__")
    assert caplog.records == []  # it was asked once


@pytest.mark.parametrize("mode", ["none", "once"])
def test_where_the_code_states_the_mode_the_advice_is_to_change_it_there(
    mode: str, model: ChatGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
    monkeypatch.setenv("GEMINI_RECORD_MODE", "all")  # as the advice for other cassettes says
    with cassette("weather", record_mode=mode), pytest.raises(StaleCassetteError) as caught:
        gemini().invoke("Good morning")
    assert str(caught.value).splitlines()[-1] == (
        "To record it, set GOOGLE_API_KEY and run with record_mode='all'. The code states the "
        "mode, so GEMINI_RECORD_MODE has no effect."
    )


def test_the_nearest_of_several_requests_is_the_one_that_is_compared(model: ChatGemini) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello", stop=["a", "b"], seed=1)
        model.invoke("Good evening")
        model.get_num_tokens("Good evening")
    with cassette("weather"), pytest.raises(StaleCassetteError) as caught:
        gemini().invoke("Good morning")
    assert str(caught.value).splitlines()[1:3] == [
        "The nearest recorded request (number 2 of 3) differs:",
        '  body.contents[0].parts[0].text: recorded "Good evening", now "Good morning"',
    ]


def test_without_a_cassette_it_says_how_to_record_one() -> None:
    with cassette("weather"), pytest.raises(StaleCassetteError) as caught:
        gemini().invoke(QUESTION)
    assert str(caught.value) == (
        "POST /v1beta/models/gemini-3.8-flash:generateContent cannot be replayed: the "
        "cassette cassettes/weather.yaml does not exist, and this run does not record. To "
        "record it, set GOOGLE_API_KEY and run with GEMINI_RECORD_MODE=all (pytest: "
        "--record-mode=all)."
    )
    assert not FILE.exists()


def test_equal_requests_are_answered_in_the_recorded_order(
    model: ChatGemini, emulator: Emulator
) -> None:
    for text in ("one", "two"):
        emulator.reply(text)
    with cassette("weather", record_mode="all"):
        assert [model.invoke("Count").text for _ in range(2)] == ["one", "two"]
    with cassette("weather") as tape:
        assert gemini().invoke("Count").text == "one"
        assert tape.unused == [2]
        assert gemini().invoke("Count").text == "two"
        with pytest.raises(
            StaleCassetteError, match=r"recorded 2 time\(s\), and is made once more"
        ):
            gemini().invoke("Count")
    with cassette("weather", allow_playback_repeats=True):
        assert [gemini().invoke("Count").text for _ in range(4)] == ["one", "two", "two", "two"]


def test_parallel_calls_find_their_answers(model: ChatGemini) -> None:
    questions: list[Any] = [f'Say "{number}"' for number in range(12)]
    with cassette("weather", record_mode="all"):
        recorded = [answer.text for answer in model.batch(questions)]
    assert len(set(recorded)) == 12
    with cassette("weather") as tape:
        assert [answer.text for answer in gemini().batch(questions)] == recorded
        assert tape.unused == []


def test_parallel_equal_requests_use_each_response_once(
    model: ChatGemini, emulator: Emulator
) -> None:
    for number in range(8):
        emulator.reply(f"answer {number}")
    with cassette("weather", record_mode="all"):
        for _ in range(8):
            model.invoke("Count")
    replaying = gemini()
    start = threading.Barrier(9, timeout=30)

    def one(_: int) -> str:
        start.wait()
        try:
            return replaying.invoke("Count").text
        except StaleCassetteError:
            return "none left"

    with cassette("weather"), ThreadPoolExecutor(9) as pool:
        answers = sorted(pool.map(one, range(9)))
    assert answers == [*(f"answer {number}" for number in range(8)), "none left"]


async def test_parallel_async_calls_find_their_answers(model: ChatGemini) -> None:
    questions = [f'Say "{number}"' for number in range(6)]
    async with cassette("weather", record_mode="all"):
        recorded = [a.text for a in await asyncio.gather(*map(model.ainvoke, questions))]
    async with cassette("weather"):
        replaying = gemini()
        answers = await asyncio.gather(*map(replaying.ainvoke, reversed(questions)))
    assert [answer.text for answer in answers] == recorded[::-1]


@pytest.mark.parametrize("way", WAYS)
async def test_a_recorded_retry_replays_at_once(
    way: str,
    make_model: MakeModel,
    emulator: Emulator,
    no_pauses: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    emulator.reply(fault=faults.too_many_requests(retry_seconds=0.05))
    with cassette("weather", record_mode="all"):
        recorded = await ask(make_model(max_retries=2), way)
    edit_file("retryDelay: 0.05s", "retryDelay: 59s")
    caplog.clear()
    with cassette("weather"):
        assert (await ask(gemini(), way)).content == recorded.content
    logged = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    assert [message.split(": ")[1] for message in logged] == ["retry 1 of 6 in 0.0 s"]


def test_recorded_rejections_are_the_same_errors(model: ChatGemini, emulator: Emulator) -> None:
    emulator.reply(fault=faults.too_many_requests(per="day"))
    emulator.reply(fault=faults.http_error(400, "Invalid value at 'contents'"))
    with cassette("weather", record_mode="all"):
        with pytest.raises(GeminiRateLimitError):
            model.invoke("a")
        with pytest.raises(GeminiInvalidRequestError):
            model.invoke("b")
    with cassette("weather"):
        with pytest.raises(GeminiRateLimitError) as caught:
            gemini().invoke("a")
        assert caught.value.is_daily_quota
        with pytest.raises(GeminiInvalidRequestError, match="Invalid value at 'contents'"):
            gemini().invoke("b")


def test_vertex_replays_without_credentials_and_project(emulator: Emulator) -> None:
    from google.oauth2.credentials import Credentials

    ours: Any = {"vertexai": True, "location": "europe-west4"}
    token = Credentials(token=ACCESS_TOKEN)  # type: ignore[no-untyped-call]
    with cassette("weather", record_mode="all"):
        live = gemini(**ours, project="my-project", credentials=token, base_url=emulator.url)
        recorded = live.invoke(QUESTION).content, live.get_num_tokens(QUESTION)
        live.close()
    assert "my-project" not in FILE.read_text()
    with cassette("weather"):
        model = gemini(**ours)
        assert (model.invoke(QUESTION).content, model.get_num_tokens(QUESTION)) == recorded
    with cassette("weather"):
        assert gemini(**ours, project="another").invoke(QUESTION).content == recorded[0]


def test_other_apis_are_recorded_too_and_known_by_their_hosts(
    model: ChatGemini, emulator: Emulator
) -> None:
    """A tool that asks the web is part of the run."""
    with cassette("weather", record_mode="all"):
        recorded = httpx.get(f"{emulator.url}/weather?city=Oslo").text
    with cassette("weather"):
        assert httpx.get(f"{emulator.url}/weather?city=Oslo").text == recorded
        with pytest.raises(StaleCassetteError, match=r"query: recorded \[\('city', 'Oslo'\)\]"):
            httpx.get(f"{emulator.url}/weather?city=Rome")
        with pytest.raises(StaleCassetteError, match=r"now http://weather\.example/weather"):
            httpx.get("http://weather.example/weather?city=Oslo")


def test_a_tools_own_request_is_known_by_its_key_and_its_credential_is_not_saved(
    emulator: Emulator,
) -> None:
    place, order = (f"{emulator.url}/weather?key={key}" for key in ("san-francisco", "order-4711"))
    credential = "api_key=hunter22-hunter22"
    with cassette("weather", record_mode="all"):
        for uri in (place, order, f"{emulator.url}/weather?{credential}"):
            httpx.get(uri)
    text = FILE.read_text()
    assert [found for found in ("hunter22", "order-4711") if found in text] == []
    others = ("key=reykjavik-town", "key=order-4712", "key=", "")
    with cassette("weather"):
        for query in others:
            with pytest.raises(StaleCassetteError):
                httpx.get(f"{emulator.url}/weather?{query}")
        for uri in (place, order, f"{emulator.url}/weather?api_key=another-one"):
            httpx.get(uri)


def test_projects_of_another_api_do_not_stand_for_a_key(
    model: ChatGemini, emulator: Emulator
) -> None:
    with cassette("weather", record_mode="all"):
        httpx.get(f"{emulator.url}/api/v4/projects/11/issues")
        recorded = model.invoke(QUESTION).text
    with cassette("weather"):
        assert gemini().invoke(QUESTION).text == recorded


def test_messages_of_a_replay_can_go_on(model: ChatGemini) -> None:
    """Signatures and ids are those that were recorded."""
    bound = model.bind_tools([get_weather])
    with cassette("weather", record_mode="all"):
        recorded = bound.invoke("Weather in Oslo?")
    with cassette("weather"):
        replayed = gemini().bind_tools([get_weather]).invoke("Weather in Oslo?")
    assert isinstance(replayed, AIMessage)
    assert replayed.additional_kwargs == recorded.additional_kwargs
    call = replayed.tool_calls[0]
    history: list[Any] = ["Weather in Oslo?", replayed, ToolMessage("Sun", tool_call_id=call["id"])]
    assert "Sun" in bound.invoke(history).text  # the emulator checks the signature
